"""Files that are read as a whole because their lines are inside of something or turned
round: a notebook, a list of log entries, a table of lines, a log from its end."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

MAX_BYTES = 64 << 20
"""A larger one is not read."""
PROMPT = "In [ ]:"
"""What IPython prints where a person types."""


class Document(NamedTuple):
    """A kind of file that is read as a whole."""

    is_this: Callable[[bytes], bool]
    """Takes the block that a file begins with."""
    what: str
    text_of: Callable[[bytes], str | None]
    """Takes the lines out; None when it is no whole one."""
    note: str = ""
    """What is to know about how it was read, behind the name of the file."""


def looks_like_notebook(block: bytes) -> bool:
    """Whether a file that begins with this block is a notebook."""
    return block.lstrip()[:1] == b"{" and b'"cells"' in block[:200_000]


def notebook_text(data: bytes) -> str | None:
    """The text of all outputs of a notebook, with a prompt between those of two cells, as a
    person runs each; None when it is no whole notebook."""
    try:
        book = json.loads(data)
    except (ValueError, RecursionError):
        return None
    cells = book.get("cells") if isinstance(book, dict) else None
    if not isinstance(cells, list):
        return None
    parts: list[str] = []
    for cell in cells:
        outputs = cell.get("outputs") if isinstance(cell, dict) else None
        texts = list(map(_text, outputs if isinstance(outputs, list) else []))
        parts += [PROMPT] if parts and texts else []
        parts += texts
    return "\n".join(parts)


def _text(output: object) -> str:
    if not isinstance(output, dict):
        return ""
    text = output.get("text")
    if text is None and isinstance(output.get("data"), dict):
        text = output["data"].get("text/plain")
    if isinstance(text, list):
        return "".join(str(part) for part in text)
    return text if isinstance(text, str) else ""


def looks_like_cloud_log(block: bytes) -> bool:
    """Whether a file that begins with this block is a list of entries of Cloud Logging, of
    Loki, as Grafana saves it, or of CloudWatch."""
    head = block[:200_000]
    begin = block.lstrip()[:1]
    is_cloud = b'"logName"' in head and b'Payload"' in head
    is_loki = b'"line":' in head and b'"timestamp":' in head
    is_cloud_watch = b'"events":' in head and b'"ingestionTime":' in head
    return (begin == b"[" and (is_cloud or is_loki)) or (
        begin == b"{" and is_cloud_watch
    )


def cloud_log_text(data: bytes) -> str | None:
    """A line for each entry that `gcloud logging read --format=json`, `aws logs
    get-log-events` and their like list, the oldest first; None when it is no whole list."""
    try:
        entries = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if isinstance(entries, dict):
        entries = entries.get("events")
    if not isinstance(entries, list) or not all(isinstance(e, dict) for e in entries):
        return None
    times = [str(entry.get("timestamp", "")) for entry in entries]
    if times and times[0] > times[-1]:
        # Entries of one moment are in the order of the others.
        entries.reverse()
    entries.sort(key=lambda entry: str(entry.get("timestamp", "")))
    return "\n".join(json.dumps(entry) for entry in entries)


# Tables that stores of logs give out (Grafana, Kibana, CloudWatch, Splunk): a row for each
# line, a column with the line and one with its time; often the newest first.
_TEXTS = (
    "line",
    "message",
    "@message",
    "log",
    "_raw",
    "textpayload",
    "body",
    "content",
    "logmessage",
    "logentry",
)
_TIMES = (
    *("time", "timestamp", "@timestamp", "_time", "date", "tsns"),
    *("timegenerated", "timegenerated [utc]"),
)
_SORTS = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d|\d{10,20}$")
"""Times whose order is that of their text."""
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:?\d\d)$"
)
_HEADING = 4000


def looks_like_csv_log(block: bytes) -> bool:
    """Whether a file that begins with this block is such a table."""
    heading = block[:_HEADING].partition(b"\n")[0].decode("utf-8-sig", "replace")
    return "," in heading and _columns(heading) is not None


def csv_log_text(data: bytes) -> str | None:
    """The lines of the table, the oldest first; None when it is no whole one."""
    text = data.decode("utf-8-sig", "replace")
    columns = _columns(text.partition("\n")[0])
    if columns is None:
        return None
    when, what = columns
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        cells = [(row[when], row[what]) for row in rows if len(row) > max(columns)][1:]
    except csv.Error:
        return None
    if cells and cells[0][0] > cells[-1][0]:
        cells.reverse()
    if all(_SORTS.match(time) for time, _ in cells):
        cells.sort(key=lambda cell: cell[0])
    return "\n".join(_line(time, text) for time, text in cells)


def _columns(heading: str) -> tuple[int, int] | None:
    """Which columns hold the time and the line."""
    try:
        names = [name.strip().lower() for name in next(csv.reader([heading]), [])]
    except csv.Error:
        return None
    found = [
        next((names.index(name) for name in known if name in names), None)
        for known in (_TIMES, _TEXTS)
    ]
    when, what = found
    return None if when is None or what is None else (when, what)


def _line(time: str, text: str) -> str:
    """A line with its time in front, as shippers write it, where that has a zone."""
    if _ISO.match(time) is None or text.startswith("{"):
        return text
    return "\n".join(f"{time.replace(' ', 'T')} {part}" for part in text.splitlines())


_STAMP = re.compile(rb"\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?")
_FRONT = 200
"""Bytes of a line in which its time stands."""
_LOOKED_AT = 64 << 10
_FEWEST_STEPS = 3
"""Changes of the time that show in which order lines stand."""


def looks_newest_first(block: bytes) -> bool:
    """Whether the times of the lines that a file begins with go back, as in what is copied
    from the page of a log store: all but one in ten changes, New Year and the like."""
    fronts = (line[:_FRONT] for line in block[:_LOOKED_AT].split(b"\n"))
    times = [match[0] for match in map(_STAMP.search, fronts) if match is not None]
    steps = [later < earlier for earlier, later in pairwise(times) if later != earlier]
    return len(steps) >= _FEWEST_STEPS and sum(steps) >= 0.9 * len(steps)


def oldest_first_text(data: bytes) -> str:
    """The lines from the last to the first."""
    lines = data.decode("utf-8", "replace").removesuffix("\n").split("\n")
    return "\n".join(reversed(lines))


_SORTED = (
    "was read as its lines, the oldest first; they are numbered in that order, not by the "
    "lines of the file"
)
DOCUMENTS = (
    Document(looks_like_notebook, "a notebook", notebook_text),
    Document(looks_like_cloud_log, "a list of log entries", cloud_log_text, _SORTED),
    Document(looks_like_csv_log, "a table of lines", csv_log_text, _SORTED),
    Document(
        looks_newest_first, "a log with its newest line first", oldest_first_text,
        "has its newest line first; it was read from its end, and its lines are "
        "numbered from there",
    ),
)  # fmt: skip
"""A file that begins as none of these has lines that stand for themselves."""
