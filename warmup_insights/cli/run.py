"""`warmup-insights run`: the reference warm-up, instrumented."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
from rich.console import Console

from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.run_options import engine_options, read_settings
from warmup_insights.cli.run_progress import RunProgress
from warmup_insights.cli.run_report import RunReport
from warmup_insights.devices import open_device
from warmup_insights.events import AnyEvent
from warmup_insights.recorder import Recorder
from warmup_insights.runner.session import Outcome, Session
from warmup_insights.runner.settings import RunSettings
from warmup_insights.storage.records import RunRecord, new_run_id
from warmup_insights.storage.sink import StoreSink


@click.command()
@engine_options
@click.option("--label", help="A name for the run.")
@click.option("--quiet", is_flag=True, help="Say nothing on stderr.")
@db_option
@json_option
def run(db: str, as_json: bool, label: str | None, quiet: bool, **options: Any) -> None:
    """Run the reference warm-up on a device, and record it."""
    settings = read_settings(options)
    device_options = {"choice": options["device"], "memory_bytes": options["memory"]}
    report = RunReport()
    console = Console(stderr=True)
    run_id = new_run_id()
    with RunProgress(console, is_quiet=quiet) as progress:
        outcome = record_run(
            settings, device_options, db, run_id, label, (report.take, progress.take)
        )
    _print_result(report, outcome, db, run_id, as_json=as_json)
    if outcome.status == "failed":
        click.echo(f"Error: {outcome.error}", err=True)
        sys.exit(1)


def record_run(
    settings: RunSettings,
    device_options: dict[str, Any],
    db: str,
    run_id: str,
    label: str | None,
    takers: Sequence[Callable[[AnyEvent], None]],
) -> Outcome:
    """Run, and store every event in the database; each taker gets the events too."""
    device = open_device(**device_options)
    record = RunRecord(
        run_id=run_id,
        source_name="warmup-insights run",
        label=label,
        engine="reference",
        device_kind=device.kind,
        device_name=device.name,
        started_at=device.now(),
        synthetic=device.is_synthetic,
    )
    sink = StoreSink(db, record)
    sink.open()
    recorder = Recorder(sink)

    def emit(event: AnyEvent) -> None:
        recorder.record(event)
        for take in takers:
            take(event)

    signal.signal(signal.SIGTERM, _interrupt)
    try:
        return Session(device, settings, emit).run()
    finally:
        recorder.close()
        device.close()


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def _print_result(
    report: RunReport, outcome: Outcome, db: str, run_id: str, *, as_json: bool
) -> None:
    summary = _refresh(db, run_id)
    if as_json:
        click.echo(json.dumps({"run_id": run_id, "summary": summary}, indent=2))
        return
    Console().print(report.table())
    click.echo(f"run {run_id} {outcome.status}, stored in {db}")


def _refresh(db: str, run_id: str) -> dict[str, Any] | None:
    """The summary of the run, made and stored now."""
    from warmup_insights.analysis.refresh import refresh_summary
    from warmup_insights.storage.store import EventStore

    with EventStore(db) as store:
        refresh_summary(store, run_id)
        return store.summary(run_id)
