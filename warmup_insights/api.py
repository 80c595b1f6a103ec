"""The library: logs and databases as runs, and a recorder for anybody's warm-up.

`import warmup_insights as wi` has all of it; docs/python.md shows how it is used. A run
read from a log is in memory only. Frames are those of pandas where it is installed, else
lists of dictionaries with the same columns.
"""

from __future__ import annotations

import html
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from warmup_insights.analysis.advice import Finding
from warmup_insights.analysis.compare import Comparison
from warmup_insights.analysis.compare import compare as compare_folded
from warmup_insights.analysis.sentences import serving_words
from warmup_insights.analysis.summary import Folded
from warmup_insights.drainer import open_store, recording
from warmup_insights.ingest.live import LiveState
from warmup_insights.ingest.live import follow as follow_lines
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.single import ingest_file, ingest_path
from warmup_insights.model.events import (
    Bucket,
    BucketsGenerated,
    Event,
    Failure,
    GraphCaptured,
    PhaseMarked,
    RunFinished,
    RunStarted,
    ServerReady,
    ShutdownRequested,
    WarmupStep,
    kind_of,
)
from warmup_insights.model.figures import all_figures, known_figures
from warmup_insights.model.run import RunRecord, new_run_id
from warmup_insights.model.summary import BucketRow, RunSummary
from warmup_insights.recorder import Recorder
from warmup_insights.runs import current, findings, history
from warmup_insights.storage import EventStore

Frame = Any
"""A `pandas.DataFrame`, or a list of dictionaries where pandas is not installed."""


class Run:
    """One start-up: its typed summary, its buckets, its events, and frames of them."""

    def __init__(self, store: EventStore, record: RunRecord) -> None:
        self._store = store
        self._record = record

    @cached_property
    def _folded(self) -> Folded:
        return current(self._store, self._record)

    @property
    def id(self) -> str:
        """12 hexadecimal digits."""
        return self._record.run_id

    @property
    def summary(self) -> RunSummary:
        """What `show --json` prints (docs/schema.md), typed."""
        return self._folded.summary

    @property
    def rows(self) -> Sequence[BucketRow]:
        """What became of each bucket."""
        return self._folded.rows

    def iter_events(self) -> Iterator[Event]:
        """The events in order, one by one."""
        yield from self._store.events(self.id)

    def events(self) -> Frame:
        """The events as a frame: kind, time, rank, line, and the fields of each."""
        return _frame(
            {"kind": kind_of(event), **msgspec.to_builtins(event)}
            for event in self.iter_events()
        )

    def buckets(self) -> Frame:
        """A row for each bucket: phase, bucket, state, duration_s, memory_bytes, ..."""
        return _frame(map(msgspec.to_builtins, self.rows))

    def phases(self) -> Frame:
        """A row for each phase of the start-up: name, start_s, duration_s."""
        return _frame(map(msgspec.to_builtins, self.summary.time.phases))

    def figures(self) -> dict[str, float]:
        """Every known figure by name, in bytes, seconds, percent and counts."""
        values = {f.name: f.read(self.summary) for f in all_figures([self.summary])}
        return {name: value for name, value in values.items() if value is not None}

    def history(self) -> list[RunSummary]:
        """Other runs of the same engine, model and device in the same database."""
        return history(self._store, self._record)

    def __repr__(self) -> str:
        engine = self.summary.engine.name or "unknown engine"
        return f"<Run {self.id} {engine} {self.summary.status}>"

    def _repr_html_(self) -> str:
        """Name, status and every known figure, for notebooks."""
        summary = self.summary
        made_up = " · synthetic" if summary.synthetic else ""
        end = serving_words(summary)
        status = summary.status + (f", serving: {end}" if end is not None else "")
        head = f"{html.escape(summary.title)} · {html.escape(status)}{made_up}"
        rows = "".join(
            f"<tr><td>{html.escape(figure.title)}</td>"
            f"<td>{html.escape(figure.text(summary))}</td></tr>"
            for figure in known_figures(summary)
        )
        return f"<b>{head}</b><table>{rows}</table>"


def _frame(rows: Iterator[dict[str, Any]]) -> Frame:
    found = list(rows)
    try:
        import pandas as pd
    except ModuleNotFoundError:
        return found
    return pd.DataFrame(found)


class Database:
    """The runs of a database. A context manager."""

    def __init__(self, location: str | Path) -> None:
        self._store = open_store(location)

    def runs(self, *, label: str | None = None, limit: int | None = None) -> list[Run]:
        """The runs, the newest first."""
        return [Run(self._store, r) for r in self._store.runs(label=label, limit=limit)]

    def run(self, name: str) -> Run:
        """A run by its id, its first 4 characters or more, its label, or `latest`.

        Raises StoreError when there is no such run, or more than one.
        """
        return Run(self._store, self._store.find_run(name))

    def close(self) -> None:
        """Close the database; its runs can no longer be read."""
        self._store.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_log(
    log: str | os.PathLike[str] | BinaryIO,
    *,
    year: int | None = None,
    timezone: str | None = None,
) -> list[Run]:
    """The start-ups in a log, in its order; nothing is stored.

    `log` is a path, or a seekable file open for bytes, compressed or not. `year` is that
    of the first timestamp where the log holds no full date, `timezone` a zone such as
    Europe/Berlin. Raises InputError when it cannot be read.
    """
    store, options = EventStore("sqlite://"), Options(year=year, timezone=timezone)
    if isinstance(log, str | os.PathLike):
        outcome = ingest_path(store, os.fspath(log), options)
    else:
        name = getattr(log, "name", "log")
        outcome = ingest_file(
            store, log, name if isinstance(name, str) else "log", options
        )
    return [Run(store, store.run(run_id)) for run_id in outcome.run_ids]


def follow(lines: Iterable[str]) -> Iterator[LiveState]:
    """How far the start-up is in a log that is being written: a state for each change.

    `lines` are those of a pipe or of a growing file, as they come; nothing is stored.
    """
    return follow_lines(lines)


def compare(runs: Sequence[Run]) -> Comparison:
    """Settings, figures and buckets of runs side by side; the first is the baseline."""
    return compare_folded([run.summary for run in runs], [run.rows for run in runs])


def advise(run: Run) -> list[Finding]:
    """What to change about a run, the most important first."""
    return findings(run._store, run._record, run._folded)


class Warmup:
    """Records the warm-up of any program: stages, buckets, steps, graphs."""

    def __init__(self, recorder: Recorder, run_id: str) -> None:
        self._recorder = recorder
        self.run_id = run_id
        self.is_ready = False
        """Whether the program takes requests."""
        self._counts: dict[str, int] = {}

    def event(self, event: Event) -> None:
        """Record an event of `warmup_insights.model.events` as it is."""
        self._recorder.record(event)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """A stretch of the start-up, such as `load_model` or `kv_cache`."""
        begun = time.monotonic()
        self.event(PhaseMarked(name=name, edge="start"))
        yield
        seconds = time.monotonic() - begun
        self.event(PhaseMarked(name=name, edge="end", duration_s=seconds))

    def generated(self, phase: str, buckets: Sequence[Bucket]) -> None:
        """The buckets of a phase, such as `prompt` or `decode`, before they run."""
        shapes = [tuple(bucket) for bucket in buckets]
        self.event(BucketsGenerated(phase=phase, count=len(shapes), buckets=shapes))

    @contextmanager
    def step(
        self, phase: str, bucket: Bucket, *, graph: bool = False
    ) -> Iterator[None]:
        """One bucket while it runs; `graph` when its device graph is captured."""
        index = self._counts[phase] = self._counts.get(phase, 0) + 1
        mode, shape = "graph" if graph else "eager", tuple(bucket)
        begun_at, begun = time.time(), time.monotonic()
        self.event(
            WarmupStep(
                phase=phase, mode=mode, bucket=shape, index=index, is_finished=False,
                time=begun_at,
            )
        )  # fmt: skip
        yield
        self.event(
            WarmupStep(
                phase=phase, mode=mode, bucket=shape, index=index,
                duration_s=time.monotonic() - begun, time=begun_at,
            )
        )  # fmt: skip
        if graph:
            self.event(GraphCaptured(phase=phase, bucket=shape, time=begun_at))

    def ready(self) -> None:
        """The program takes requests from now on."""
        self.is_ready = True
        self.event(ServerReady())


@contextmanager
def record(
    database: str | Path,
    *,
    name: str,
    label: str | None = None,
    model: str | None = None,
    device_kind: str | None = None,
    synthetic: bool = False,
) -> Iterator[Warmup]:
    """Record a warm-up of any program into a database.

    `name` is that of the program. An error of the program is recorded as the failure, an
    interrupt as the stop, and raised again; the recorder itself raises nothing while the
    program runs.
    """
    EventStore(database).close()  # a database that cannot be used ends it here
    record_ = RunRecord(
        run_id=new_run_id(), source_name=name, label=label, synthetic=synthetic
    )
    with recording(database, record_) as recorder:
        warmup = Warmup(recorder, record_.run_id)
        warmup.event(
            RunStarted(model=model, device_kind=device_kind, synthetic=synthetic)
        )
        try:
            yield warmup
        except KeyboardInterrupt:
            stopped = ShutdownRequested(
                message="interrupted", in_start=not warmup.is_ready
            )
            warmup.event(stopped)
            warmup.event(RunFinished(status="stopped"))
            raise
        except BaseException as error:
            message = f"{type(error).__name__}: {error}"
            warmup.event(Failure(failure="error", message=message))
            warmup.event(RunFinished(status="failed"))
            raise
        warmup.event(RunFinished(status="finished"))
