"""Helpers for tests of rules, dialects, figures and hooks, without a test framework.

The project's own tests use them. A log is text: `events(log_line("..."))`.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from parsers import all_rules
from parsers.base import LineRule, Made
from parsers.engine.dispatch import Dispatcher
from parsers.engine.envelope import peel
from parsers.engine.stamps import zone_of
from parsers.files import LogReader
from parsers.report import ParseReport
from warmup_insights.analysis.summary import Folded, summarize
from warmup_insights.drainer import recording
from warmup_insights.model.events import Event
from warmup_insights.model.run import RunRecord, new_run_id
from warmup_insights.recorder import Recorder
from warmup_insights.storage import EventStore

Kind = TypeVar("Kind", bound=Event)


def log_line(
    message: str,
    *,
    file: str = "gpu_worker.py:100",
    level: str = "INFO",
    time: str = "07-16 10:02:11",
    process: str = "",
) -> str:
    """A line as vLLM's logger prints it; `process` is such as `EngineCore pid=72`."""
    prefix = f"({process}) " if process else ""
    return f"{prefix}{level} {time} [{file}] {message}\n"


def read(
    data: bytes | str, name: str = "test.log", **options: Any
) -> tuple[dict[int, list[Event]], ParseReport]:
    """Events by run and the report of a log given as text.

    Options are those of `LogReader`; the year is 2026 unless one is given.
    """
    raw = data.encode() if isinstance(data, str) else data
    options.setdefault("year", 2026)
    if "timezone" in options:
        options["zone"] = zone_of(options["timezone"])
    reader = LogReader(io.BytesIO(raw), name, **options)
    runs: dict[int, list[Event]] = {}
    for batch in reader:
        for ordinal, found in batch:
            runs.setdefault(ordinal, []).extend(found)
    return runs, reader.report


def events(data: bytes | str, **options: Any) -> list[Event]:
    """The events of the only run in a log. Raises AssertionError for several."""
    runs, _ = read(data, **options)
    if len(runs) != 1:
        raise AssertionError(f"{len(runs)} runs")
    return runs[0]


def of(kind: type[Kind], found: Iterable[Event]) -> list[Kind]:
    """The events of one class."""
    return [event for event in found if type(event) is kind]


def folded(found: Iterable[Event], **run: Any) -> Folded:
    """Summary and rows of some events, of a log unless `run` names another source."""
    record = RunRecord(run_id="abc", **{"source_kind": "log", **run})
    return summarize(record, found)


def matches(
    line: str, rules: Sequence[LineRule] = ()
) -> list[tuple[LineRule, list[Made]]]:
    """The rules that read a line, with what they make of it; all rules without `rules`.

    One at most for each record in the line.
    """
    dispatcher, found = Dispatcher(rules) if rules else _every_rule(), []
    for record in peel(line):
        hit = dispatcher.find(record.message, record.level, record.file)
        if hit is not None:
            found.append((hit[0], hit[0].make(hit[1])))
    return found


@lru_cache(maxsize=1)
def _every_rule() -> Dispatcher:
    return Dispatcher(all_rules())


def check_rule(rule: LineRule, rules: Sequence[LineRule] = ()) -> None:
    """Raise AssertionError unless the rule, and no other one, reads each of its samples.

    The first of what it makes that has the fields that the sample expects, and those that
    the rule fixes, has their values.
    """
    if not rule.samples:
        raise AssertionError(f"{rule.name} has no sample")
    for sample in rule.samples:
        found = matches(sample.line, rules)
        if [one for one, _ in found] != [rule]:
            names = [one.name for one, _ in found]
            raise AssertionError(f"{names} read the sample of {rule.name}")
        made = found[0][1]
        expected = {**rule.fixed, **sample.expected}
        named = (one for one in made if all(hasattr(one, name) for name in expected))
        first = next(named, None)
        actual = {name: getattr(first, name, None) for name in expected}
        makes_something = bool(expected) or isinstance(rule.makes, type)
        if actual != expected or makes_something != bool(made):
            raise AssertionError(f"{rule.name} makes {made}, not {expected}")


class Recording:
    """A recorder, and the events that came out of the database at its end."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.events: list[Event] = []


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record into a database in a temporary folder; `events` are there afterwards."""
    with TemporaryDirectory(prefix="warmup-insights-") as folder:
        database, run_id = Path(folder, "runs.db"), new_run_id()
        EventStore(database).close()
        with recording(database, RunRecord(run_id=run_id)) as recorder:
            found = Recording(recorder)
            yield found
        with EventStore(database, read_only=True) as store:
            found.events.extend(store.events(run_id))
