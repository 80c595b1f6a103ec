"""Tables that stores of logs give out (Grafana, Kibana, CloudWatch, Splunk): a row for each
line, a column with the line and one with its time; often the newest first."""

from __future__ import annotations

import csv
import io
import re

_TEXTS = (
    "line",
    "message",
    "@message",
    "log",
    "_raw",
    "textpayload",
    "body",
    "content",
)
_TIMES = ("time", "timestamp", "@timestamp", "_time", "date", "tsns")
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
