"""`warmup-insights vllm`: any vLLM command, recorded."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING

import click

from warmup_insights.cli.options import db_option, json_option
from warmup_insights.errors import StoreError, WarmupInsightsError
from warmup_insights.model.events import WarmupFinished

SETTLE_S = 3.0
"""How long the end waits at most for the last events."""

if TYPE_CHECKING:
    from warmup_insights.storage.store import EventStore


@click.command(
    "vllm",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@db_option
@click.option("--label", metavar="TEXT", help="A name for the run.")
@click.option(
    "--freeze-gc",
    is_flag=True,
    help="Keep Python's garbage collector from old objects during warm-up; vllm-gaudi "
    "collects twice per bucket.",
)
@click.option(
    "--check",
    "is_check",
    is_flag=True,
    help="List what would be recorded of the installed versions, and start nothing.",
)
@json_option
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def vllm(
    db: str,
    label: str | None,
    freeze_gc: bool,
    is_check: bool,
    as_json: bool,
    arguments: tuple[str, ...],
) -> None:
    """Run any vLLM command and record its warm-up.

    Options of warmup-insights come first; everything from the first word on goes to
    vLLM: `warmup-insights vllm --label a serve MODEL --port 8000`. Output, signals and
    the exit status are passed through. The run id is printed at the end.
    """
    if is_check:
        _check(as_json)
        return
    if not arguments:
        raise click.UsageError(
            "Name a vLLM command, such as `warmup-insights vllm serve MODEL`, or use "
            "--check."
        )
    sys.exit(_run(db, label, freeze_gc, arguments))


def _check(as_json: bool) -> None:
    from warmup_insights.vllm_plugin import facts
    from warmup_insights.vllm_plugin.check import NOT_INSTALLED, check
    from warmup_insights.vllm_plugin.table import HOOKS

    findings = check(HOOKS)
    engine = facts.engine()
    if as_json:
        answer = {
            "engine": engine.name,
            "version": engine.version,
            "hooks": [finding.as_dict() for finding in findings],
        }
        click.echo(json.dumps(answer, indent=2))
        return
    shown = [finding for finding in findings if finding.status != NOT_INSTALLED]
    if not shown:
        raise WarmupInsightsError(
            "No vLLM is installed in this environment; install warmup-insights with "
            "the same pip as vLLM"
        )
    click.echo(f"{engine.name} {engine.version or '(version unknown)'}", err=True)
    for finding in shown:
        click.echo(
            f"{finding.status:14} {finding.topic:38} {finding.target} "
            f"({finding.versions})"
        )


def _run(
    db: str, label: str | None, freeze_gc: bool, arguments: tuple[str, ...]
) -> int:
    from warmup_insights.model.run import new_run_id
    from warmup_insights.vllm_plugin import facts, launch

    command = [*launch.vllm_command(), *arguments]
    source = facts.command_line(["vllm", *arguments])
    run_id = new_run_id()
    environ = launch.recording_environment(
        os.environ,
        database=db,
        run_id=run_id,
        source=source,
        label=label,
        freezes_gc=freeze_gc,
    )
    _begin(db, run_id, label, source)
    ending = launch.run_command(command, environ)
    is_stopped_server = ending.was_stopped and arguments[0] == "serve"
    _end(db, run_id, is_failure=ending.is_failure, is_stopped_server=is_stopped_server)
    click.echo(f"Recorded as run {run_id}: warmup-insights show {run_id}", err=True)
    return ending.exit_code


def _begin(db: str, run_id: str, label: str | None, source: str) -> None:
    """Create the run. Where that does not work, vLLM starts all the same."""
    from warmup_insights.model.events import ConfigRecorded, PhaseMarked, RunStarted
    from warmup_insights.model.process import own_process
    from warmup_insights.model.run import RunRecord
    from warmup_insights.storage.store import EventStore
    from warmup_insights.vllm_plugin import facts, settings

    now = time.time()
    engine = facts.engine()
    is_synthetic = bool(os.environ.get(settings.SYNTHETIC))
    run = RunRecord(
        run_id=run_id,
        source_name=source,
        label=label,
        engine=engine.name,
        version=engine.version,
        status="running",
        started_at=now,
        heartbeat_at=now,
        synthetic=is_synthetic,
        process=own_process(),
    )
    started = RunStarted(
        engine=engine.name, version=engine.version, synthetic=is_synthetic, time=now
    )
    config = ConfigRecorded(
        settings={"command": source, **engine.settings},
        environment=facts.environment(os.environ),
        time=now,
    )
    try:
        with EventStore(db) as store, store.begin() as transaction:
            transaction.ensure_run(run)
            imports = PhaseMarked(name="import", edge="start", time=now)
            transaction.append(run_id, [started, imports, config])
    except StoreError as error:
        click.echo(f"Warning: {error}", err=True)


def _end(db: str, run_id: str, *, is_failure: bool, is_stopped_server: bool) -> None:
    """Close the run and refresh its summary."""
    from warmup_insights.analysis.refresh import refresh_summary
    from warmup_insights.model.events import Event, Failure, RunFinished
    from warmup_insights.storage.store import EventStore

    try:
        with EventStore(db) as store:
            _settle(store, run_id)
            events: list[Event] = []
            if is_stopped_server and not _was_ready(store, run_id):
                is_failure = True
                text = "stopped by a signal before it was ready"
                events.append(Failure(failure="killed", message=text, time=time.time()))
            status = _final_status(store, run_id, is_failure=is_failure)
            events.append(RunFinished(status=status, time=time.time()))
            with store.begin() as transaction:
                transaction.append(run_id, events)
                transaction.update_run(run_id, status=status)
            refresh_summary(store, run_id)
    except StoreError as error:
        click.echo(f"Warning: {error}", err=True)


def _settle(store: EventStore, run_id: str) -> None:
    """Wait for the processes that write for the engine to write their last events."""
    deadline = time.monotonic() + SETTLE_S
    before = -1
    while time.monotonic() < deadline:
        count = store.run(run_id).num_events
        if count == before:
            return
        before = count
        time.sleep(0.3)


def _was_ready(store: EventStore, run_id: str) -> bool:
    return any(True for _ in store.events(run_id, kinds=["server_ready"]))


def _final_status(store: EventStore, run_id: str, *, is_failure: bool) -> str:
    """`failed`, `skipped` when every warm-up was, else `finished`."""
    if is_failure or store.run(run_id).status == "failed":
        return "failed"
    endings = [
        event
        for event in store.events(run_id, kinds=["warmup_finished"])
        if isinstance(event, WarmupFinished)
    ]
    is_skipped = bool(endings) and all(event.skipped for event in endings)
    return "skipped" if is_skipped else "finished"
