"""`warmup-insights run`: the reference warm-up, instrumented."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.run_options import (
    engine_options,
    log_options,
    read_settings,
    read_workload,
    serve_options,
)
from warmup_insights.cli.run_progress import RunProgress
from warmup_insights.cli.run_report import RunReport
from warmup_insights.devices import Device, open_device
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.events import AnyEvent
from warmup_insights.model.run import RunRecord, new_run_id
from warmup_insights.recorder import Recorder
from warmup_insights.runner.log_format import open_log
from warmup_insights.runner.metrics import result_block
from warmup_insights.runner.session import Outcome, Session
from warmup_insights.storage.location import shown_location
from warmup_insights.storage.sink import StoreSink

Taker = Callable[[AnyEvent], None]


@click.command()
@engine_options
@serve_options
@log_options
@click.option("--label", help="A name for the run.")
@click.option("--quiet", is_flag=True, help="Say nothing on stderr.")
@db_option
@json_option
def run(db: str, as_json: bool, label: str | None, quiet: bool, **options: Any) -> None:
    """Run the reference warm-up on a device, and record it."""
    report = RunReport()
    run_id = new_run_id()
    console = Console(stderr=True)
    is_quiet = quiet or (bool(options["log_format"]) and options["log_file"] is None)
    with ExitStack() as stack:
        log = stack.enter_context(_open_log(options["log_format"], options["log_file"]))
        progress = stack.enter_context(RunProgress(console, is_quiet=is_quiet))
        takers = (report.take, progress.take, *log)
        outcome = record_run(options, db, run_id, label, takers)
    if options["save_result"] is not None and report.benchmark is not None:
        _save(options["save_result"], report.benchmark)
    _print_result(report, outcome, db, run_id, as_json=as_json)
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
        sink = StoreSink(db, _record(device, run_id, label))
        recorder = Recorder(sink)

        def emit(event: AnyEvent) -> None:
            recorder.record(event)
            for take in takers:
                take(event)

        session = Session(device, settings, emit, workload)
        sink.open()
        before = signal.signal(signal.SIGTERM, _interrupt)
        try:
            return session.run()
        finally:
            signal.signal(signal.SIGTERM, before)
            recorder.close()
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
def _open_log(name: str | None, path: Path | None) -> Iterator[tuple[Taker, ...]]:
    """The writer of a log as a taker of events; none without a format."""
    if name is None:
        if path is not None:
            raise SettingError("--log-file does nothing without --log-format; add it")
        yield ()
    elif path is None:
        yield (open_log(name, sys.stderr).take,)
    else:
        try:
            stream = path.open("w", encoding="utf-8")
        except OSError as error:
            raise InputError(f"cannot write the log to {path}: {error}") from error
        with stream:
            yield (open_log(name, stream).take,)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _save(path: Path, values: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write the result to {path}: {error}") from error


def _print_result(
    report: RunReport, outcome: Outcome, db: str, run_id: str, *, as_json: bool
) -> None:
    summary = _refresh(db, run_id)
    if as_json:
        click.echo(json.dumps({"run_id": run_id, "summary": summary}, indent=2))
        return
    Console().print(report.table())
    if report.benchmark is not None:
        click.echo(result_block(report.benchmark))
    click.echo(f"run {run_id} {outcome.status}, stored in {shown_location(db)}")


def _refresh(db: str, run_id: str) -> dict[str, Any] | None:
    """The summary of the run, made and stored now."""
    from warmup_insights.analysis.refresh import refresh_summary
    from warmup_insights.storage.store import EventStore

    with EventStore(db) as store:
        refresh_summary(store, run_id)
        return store.summary(run_id)
