"""What must hold for any bytes: a whole file, and a single line.

Broken properties raise AssertionError; anything else that is raised is a fault, too.
"""

from __future__ import annotations

import io
import time
from collections.abc import Callable

import msgspec

from parsers.engine.lines import LineParser
from parsers.engine.stamps import Clock
from parsers.files import LogReader
from warmup_insights.analysis.summary import RunFold
from warmup_insights.model.events import Event, decode, encode
from warmup_insights.model.run import RunRecord
from warmup_insights.storage.rows import EVENT_COLUMNS, careful_rows, event_rows

LINE_LIMIT_S = 0.030
"""Processor time that a line of up to `LINE_BYTES` may take: a thousand records glued
together take a third of it, an expression that backtracks takes seconds."""
LINE_BYTES = 8192
REPEATS = 20
"""A slow line is slow every time; the fastest of so many counts."""
BYTES_PER_BYTE = 2000
"""A byte of a log makes no more than so many bytes of events, their sum bounded."""
FIXED_BYTES = 1 << 20


def check_file(data: bytes) -> None:
    """A file of these bytes is read, summarised and made into rows; counts add up."""
    reader = LogReader(io.BytesIO(data), "fuzz.log", year=2026)
    found: dict[int, list[Event]] = {}
    num_events = 0
    for batch in reader:
        for ordinal, events in batch:
            num_events += len(events)
            found.setdefault(ordinal, []).extend(events)
    report = reader.report
    assert report.events == num_events, "events counted, events given"
    assert set(found) <= set(range(reader.num_runs)), (
        "events of runs that are not there"
    )
    assert report.unknown >= len(report.unknown_lines), "unknown lines"
    assert report.failed >= len(report.failed_lines), "lines that failed"
    assert found or report.problems or not data, "nothing found and nothing said"
    msgspec.json.encode(report.as_dict())
    size = sum(_check_run(ordinal, events) for ordinal, events in found.items())
    assert size <= FIXED_BYTES + BYTES_PER_BYTE * reader.size, "events out of nothing"


def _check_run(ordinal: int, events: list[Event]) -> int:
    """One run of a file; the bytes of its events."""
    record = RunRecord(run_id="fuzz", source_kind="log", ordinal=ordinal)
    fold = RunFold()
    fold.add_all(events)
    result = fold.result(record)
    assert "NaN" not in msgspec.json.encode(result.summary).decode(), (
        "a summary of JSON"
    )
    size = 0
    for event in events:
        payload = encode(event)
        assert decode(payload) == event, "an event that does not come back"
        size += len(payload)
    try:
        rows = event_rows("fuzz", 0, events)
    except (TypeError, ValueError, OverflowError):
        rows = careful_rows("fuzz", 0, events)
    assert len(rows) == len(events), "a row for every event"
    assert all(len(row) == len(EVENT_COLUMNS) for row in rows), (
        "a value for every column"
    )
    return size


def check_line(data: bytes) -> None:
    """A line is read within its time, and every record of it is counted."""
    line = data[:LINE_BYTES].replace(b"\n", b" ").decode("utf-8", "replace")
    parser = _read_line(line)
    report = parser.report
    assert report.events == parser.num_waiting, "events counted, events given"
    assert report.failed >= len(report.failed_lines), "lines that failed"
    seconds = line_seconds(line)
    assert seconds <= LINE_LIMIT_S, "a slow line"


def line_seconds(line: str) -> float:
    """Processor time of the fastest of some readings of a line."""
    best = _seconds(lambda: _read_line(line))
    for _ in range(REPEATS):
        if best <= LINE_LIMIT_S:
            break
        best = min(best, _seconds(lambda: _read_line(line)))
    return best


def _read_line(line: str) -> LineParser:
    from parsers.files import dispatcher

    parser = LineParser(dispatcher(), clock=Clock(year=2026))
    parser.feed(line, 1)
    parser.close()
    return parser


def _seconds(work: Callable[[], object]) -> float:
    begin = time.thread_time()
    work()
    return time.thread_time() - begin


TARGETS: dict[str, Callable[[bytes], None]] = {"file": check_file, "line": check_line}
"""What is fuzzed, by the name that findings begin with."""
