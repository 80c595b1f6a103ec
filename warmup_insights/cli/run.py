"""`warmup-insights run`: the reference warm-up, instrumented; its progress on stderr."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import click
from msgspec import to_builtins
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from warmup_insights.analysis.summary import Folded, RunFold
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import open_result, print_json, refuse_existing
from warmup_insights.cli.run_options import read_settings, read_workload, run_options
from warmup_insights.cli.show_text import print_summary
from warmup_insights.devices import Device, open_device
from warmup_insights.drainer import recording
from warmup_insights.errors import SettingError
from warmup_insights.model.events import (
    AnyEvent,
    BucketsGenerated,
    DefragStep,
    DefragWarmup,
    GraphCaptured,
    Note,
    PhaseMarked,
    SamplerStep,
    SamplerWarmup,
    WarmupStep,
)
from warmup_insights.model.run import RunRecord, new_run_id
from warmup_insights.runner.log_format import open_log
from warmup_insights.runner.metrics import result_block
from warmup_insights.runner.session import Outcome, Session
from warmup_insights.storage.location import shown_location
from warmup_insights.storage.store import EventStore
from warmup_insights.units import format_duration

_SHOWN_TOPICS = ("bucketing", "graph_memory", "graph_capture_off")
"""Topics of the notes that are shown at once."""


class RunProgress(ExitStack):
    """Shows the events of a run while it goes on; use it as a context manager."""

    def __init__(self, console: Console, *, is_quiet: bool = False) -> None:
        super().__init__()
        self._console = console
        self._is_quiet = is_quiet
        self._is_live = console.is_terminal and not is_quiet
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        if self._is_live:
            self.enter_context(self._bars)
        self._tasks: dict[str, TaskID] = {}
        self._totals: dict[str, int] = {}
        self._phase = ""

    def take(self, event: AnyEvent) -> None:
        """Show an event."""
        if isinstance(event, PhaseMarked):
            self._mark(event)
        elif isinstance(event, (WarmupStep, GraphCaptured)) and event.index:
            self._move(event.index, event.total)
        elif isinstance(event, (SamplerStep, DefragStep)):
            self._move(None, self._totals.get(self._phase))
        elif isinstance(event, Note) and event.topic in _SHOWN_TOPICS:
            self._print(event.text)
        else:
            self._count(event)

    def _count(self, event: AnyEvent) -> None:
        if isinstance(event, SamplerWarmup) and event.batch_sizes:
            self._totals["sampler_warmup"] = 12 * len(event.batch_sizes)
        elif isinstance(event, DefragWarmup) and event.thresholds:
            self._totals["defrag_warmup"] = len(event.thresholds) + 1
        elif isinstance(event, BucketsGenerated):
            for name in ("warmup", "graphs"):
                self._totals[f"{event.phase}_{name}"] = event.count

    def _mark(self, event: PhaseMarked) -> None:
        title = event.name.replace("_", " ")
        if event.edge == "start":
            self._phase = event.name
            if self._is_live:
                self._show(event.name, title)
            return
        if self._is_live:
            self._bars.update(self._tasks[event.name], visible=False)
        self._print(f"{title:<18} {format_duration(event.duration_s)}")

    def _show(self, name: str, title: str) -> None:
        """Show the bar of a phase, again if it has a second pass."""
        if name not in self._tasks:
            total = self._totals.get(name)
            self._tasks[name] = self._bars.add_task(title, total=total)
        self._bars.update(self._tasks[name], visible=True)

    def _move(self, done: int | None, total: int | None) -> None:
        task = self._tasks.get(self._phase)
        if task is None:
            return
        if done is None:
            self._bars.update(task, advance=1, total=total)
        else:
            self._bars.update(task, completed=done, total=total)

    def _print(self, text: str) -> None:
        if not self._is_quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)


Taker = Callable[[AnyEvent], None]


@click.command()
@run_options
@click.option("--label", help="A name for the run.")
@click.option("--quiet", is_flag=True, help="Print nothing on stderr.")
@db_option
@json_option
def run(db: str, as_json: bool, label: str | None, quiet: bool, **options: Any) -> None:
    """Events that were recorded stay in the database when a run fails."""
    fold = RunFold()
    run_id = new_run_id()
    console = Console(stderr=True)
    is_quiet = quiet or (bool(options["log_format"]) and options["log_file"] is None)
    if options["save_result"] is not None:
        refuse_existing(options["save_result"], force=options["force"])
    with ExitStack() as stack:
        log = stack.enter_context(_open_log(options))
        progress = stack.enter_context(RunProgress(console, is_quiet=is_quiet))
        takers = (fold.add, progress.take, *log)
        outcome = record_run(options, db, run_id, label, takers)
    folded = store_folded(db, run_id, fold)
    benchmarks = folded.summary.benchmarks
    if options["save_result"] is not None and benchmarks:
        with open_result(options["save_result"], force=options["force"]) as stream:
            stream.write(json.dumps(benchmarks[-1], indent=2) + "\n")
    if as_json:
        print_json({"run_id": run_id, "summary": to_builtins(folded.summary)})
    else:
        print_summary(folded.summary)
        if benchmarks:
            click.echo(result_block(benchmarks[-1]))
        click.echo(f"run {run_id} {outcome.status}, stored in {shown_location(db)}")
    if outcome.status == "failed":
        click.echo(f"Error: {outcome.error}", err=True)
        sys.exit(1)


def record_run(
    options: Mapping[str, Any],
    db: str,
    run_id: str,
    label: str | None,
    takers: Sequence[Taker],
) -> Outcome:
    """Run, and store every event in the database; each taker gets the events too."""
    settings, workload = read_settings(options), read_workload(options)
    device = open_device(
        options["device"],
        memory_bytes=options["memory"],
        num_threads=options["threads"],
    )
    try:
        taking: list[Taker] = []

        def emit(event: AnyEvent) -> None:
            for take in taking:
                take(event)

        session = Session(device, settings, emit, workload)
        EventStore(db).close()  # a database that cannot be used ends it here
        with recording(db, _record(device, run_id, label)) as recorder:
            taking += (recorder.record, *takers)
            before = signal.signal(signal.SIGTERM, _interrupt)
            try:
                return session.run()
            finally:
                signal.signal(signal.SIGTERM, before)
    finally:
        device.close()


def _record(device: Device, run_id: str, label: str | None) -> RunRecord:
    return RunRecord(
        run_id=run_id,
        source_name="warmup-insights run",
        label=label,
        engine="reference",
        device_kind=device.kind,
        device_name=device.name,
        started_at=device.now(),
        synthetic=device.is_synthetic,
    )


@contextmanager
def _open_log(options: Mapping[str, Any]) -> Iterator[tuple[Taker, ...]]:
    """The writer of a log as a taker of events; none without a format."""
    name, path = options["log_format"], options["log_file"]
    if name is None:
        if path is not None:
            raise SettingError("--log-file does nothing without --log-format; add it")
        yield ()
    elif path is None:
        yield (open_log(name, sys.stderr).take,)
    else:
        with open_result(path, force=options["force"]) as stream:
            yield (open_log(name, stream).take,)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def store_folded(db: str, run_id: str, fold: RunFold) -> Folded:
    """Store the summary of the run, folded while its events came."""
    with EventStore(db) as store:
        folded = fold.result(store.run(run_id))
        with store.begin() as transaction:
            transaction.put_summary(folded.summary, folded.rows)
    return folded
