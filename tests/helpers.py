"""Builders that several tests share."""

from __future__ import annotations

import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from parsers.files import LogReader
from parsers.report import ParseReport
from parsers.stamps import zone_of
from warmup_insights.analysis.summary import Folded, summarize
from warmup_insights.model.events import Event
from warmup_insights.model.run import RunRecord

ROOT = Path(__file__).resolve().parents[1]
REAL_LOGS = ROOT.parent / "shared" / "logs"
"""Real logs that do not ship with the project; tests of them skip where they are not."""


def read(
    data: bytes | str, name: str = "test.log", **options: Any
) -> tuple[dict[int, list[Event]], ParseReport]:
    """Events by run and the report of a log given as text."""
    raw = data.encode() if isinstance(data, str) else data
    options.setdefault("year", 2026)
    if "timezone" in options:
        options["zone"] = zone_of(options["timezone"])
    reader = LogReader(io.BytesIO(raw), name, **options)
    runs: dict[int, list[Event]] = {}
    for batch in reader:
        for ordinal, events in batch:
            runs.setdefault(ordinal, []).extend(events)
    return runs, reader.report


def events(data: bytes | str, **options: Any) -> list[Event]:
    """The events of the only run in a log."""
    runs, _ = read(data, **options)
    assert len(runs) == 1, f"{len(runs)} runs"
    return runs[0]


def of(kind: type[Event], found: list[Event]) -> list[Any]:
    """The events of one class."""
    return [event for event in found if type(event) is kind]


def public(value: Any) -> Any:
    """What `--json` prints of a summary or of rows: plain dicts and lists."""
    return msgspec.json.decode(msgspec.json.encode(value))


def folded(found: Iterable[Event], **run: Any) -> Folded:
    """Summary and rows of some events, of a log unless `run` names another source."""
    record = RunRecord(run_id="abc", **{"source_kind": "log", **run})
    return summarize(record, found)


def summary_of(found: list[Event], **run: Any) -> dict[str, Any]:
    """The public summary of some events."""
    return public(folded(found, **run).summary)


def summarize_file(path: Path, ordinal: int = 0, **options: Any) -> dict[str, Any]:
    """The run summary of a log file."""
    runs, _ = read(path.read_bytes(), path.name, **options)
    return summary_of(runs[ordinal])
