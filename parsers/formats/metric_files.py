"""Metric files of the Gaudi bridge (`PT_HPU_METRICS_FILE`), JSON or text.

Source: `habana_frameworks/torch/hpu/metrics/saver.py` of the bridge 1.19. One file per
process; the array of a process that was killed is never closed. Figures add up, so the
last entry of each metric holds everything. A name that existed got `.1`, `.2`, ...;
with `RANK` set, `-rankN` stands before the ending.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime, timezone, tzinfo
from typing import Any

from parsers.engine.convert import literal_of
from warmup_insights.model.bridge import metric_note
from warmup_insights.model.events import Note

MAX_BYTES = 64 << 20
"""A file of one line per recipe for days stays far below; more is not read."""
WRITTEN = "written_at"
_HEAD = 4096
_TEXT = re.compile(
    r"Metric name: (?P<metric_name>\w{1,60})\n"
    r"Triggered by: (?P<triggered_by>[\w.]{1,60})\n"
    r"Generated on: (?P<generated_on>[\d:. -]{10,32})\nStatistics:\n"
    r"(?P<statistics>(?:\t[^\n]{1,100000}\n){0,50})"
)
_RANK = re.compile(r"-rank(\d{1,6})(?:\.|$)")


def looks_like_metrics(head: bytes) -> bool:
    """Whether a file that begins so is a metric file."""
    start = head[:_HEAD].lstrip()
    is_json = start[:1] == b"[" and b'"metric_name"' in start
    return is_json or start.startswith(b"Metric name: ")


def rank_of_name(name: str) -> int | None:
    """The rank in the name of a metric file; None where it has none."""
    found = _RANK.search(name)
    return int(found[1]) if found else None


def read_metrics(text: str, name: str, zone: tzinfo | None = None) -> list[Note]:
    """A note for each metric of the file, with its last figures.

    The notes have no time, as they are no moment of the run; when the file was written
    is among their values. Without a zone its times are read as UTC, as those of a log.
    """
    last = {}
    entries = _from_text(text) if text.startswith("Metric name") else _from_json(text)
    for entry in entries:
        note = metric_note(
            str(entry.get("metric_name")),
            entry.get("statistics") or {},
            rank=rank_of_name(name),
        )
        if note is not None:
            note.values[WRITTEN] = _time(entry.get("generated_on"), zone)
            last[note.topic] = note
    return list(last.values())


def _from_json(text: str) -> Iterator[dict[str, Any]]:
    """The objects of an array; what follows a damaged one is left out."""
    decoder = json.JSONDecoder()
    position = text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return
        if isinstance(value, dict):
            yield value
        position = text.find("{", end)


def _from_text(text: str) -> Iterator[dict[str, Any]]:
    for match in _TEXT.finditer(text.replace("\r\n", "\n")):
        pairs = (
            line.strip("\t").split(": ", 1) for line in match["statistics"].splitlines()
        )
        figures = {pair[0]: literal_of(pair[1]) for pair in pairs if len(pair) == 2}
        yield {**match.groupdict(), "statistics": figures}


def _time(text: Any, zone: tzinfo | None) -> float | None:
    """Seconds since the epoch of local time as `datetime` writes it."""
    try:
        found = datetime.fromisoformat(str(text).strip())
    except ValueError:
        return None
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone or timezone.utc)
    return found.timestamp()
