"""`warmup-insights run`: the reference warm-up, instrumented."""

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

from warmup_insights.analysis.summary import Folded, RunFold
from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import print_json
from warmup_insights.cli.run_options import read_settings, read_workload, run_options
from warmup_insights.cli.run_progress import RunProgress
from warmup_insights.cli.show_text import print_summary
from warmup_insights.cli.writing import open_result, refuse_existing
from warmup_insights.devices import Device, open_device
from warmup_insights.drainer import recording
from warmup_insights.errors import SettingError
from warmup_insights.model.events import AnyEvent
from warmup_insights.model.run import RunRecord, new_run_id
from warmup_insights.runner.log_format import open_log
from warmup_insights.runner.metrics import result_block
from warmup_insights.runner.session import Outcome, Session
from warmup_insights.storage.location import shown_location
from warmup_insights.storage.store import EventStore

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
