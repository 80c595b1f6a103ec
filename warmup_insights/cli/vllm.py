"""`warmup-insights vllm`: any vLLM command, recorded."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import click

from warmup_insights.cli.options import db_option, json_option
from warmup_insights.cli.printing import print_json
from warmup_insights.drainer import draining, open_store, over
from warmup_insights.errors import InputError, StoreError, WarmupInsightsError
from warmup_insights.model.events import (
    ConfigRecorded,
    Event,
    Failure,
    Note,
    PhaseMarked,
    RunFinished,
    RunStarted,
    ServingFailure,
    ShutdownRequested,
)
from warmup_insights.model.run import RunRecord, new_run_id, next_run_id, own_process
from warmup_insights.recorder import Recorder
from warmup_insights.runs import current, delete_runs
from warmup_insights.storage.location import database_path
from warmup_insights.storage.spool import Spool, find_spools
from warmup_insights.vllm_plugin import facts, settings
from warmup_insights.vllm_plugin.check import NOT_INSTALLED, check
from warmup_insights.vllm_plugin.table import HOOKS

_OF_PROGRAM = (
    RunStarted, ConfigRecorded, Failure, Note, ShutdownRequested, RunFinished,
)  # fmt: skip
SETTLE_S = 3.0
"""How long the end waits at most for the last events."""


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
    """Options of warmup-insights come first; from the first word on all goes to vLLM.

    An example is `warmup-insights vllm --label a serve MODEL --port 8000`. Output, signals and
    the exit status are passed through. The run id is printed at the end.
    """
    if is_check:
        _check(as_json)
        return
    if not arguments:
        raise click.UsageError(
            "Name a vLLM command, such as `warmup-insights vllm serve MODEL`, or use "
            "--check"
        )
    sys.exit(_run(db, label, freeze_gc, arguments))


def _check(as_json: bool) -> None:
    findings = check(HOOKS)
    engine = facts.engine()
    if as_json:
        answer = {
            "engine": engine.name,
            "version": engine.version,
            "hooks": [finding._asdict() for finding in findings],
        }
        print_json(answer)
        return
    shown = [finding for finding in findings if finding.status != NOT_INSTALLED]
    # Others than vLLM have uvicorn, too.
    if not any(finding.target.startswith("vllm") for finding in shown):
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
    command = [*vllm_command(), *arguments]
    source = facts.command_line(["vllm", *arguments])
    run_id = new_run_id()
    environ = recording_environment(
        os.environ,
        database=db,
        run_id=run_id,
        source=source,
        label=label,
        freezes_gc=freeze_gc,
    )
    recorder, events = _recorder(db, run_id, label, source)
    with ExitStack() as stack:

        def begin() -> None:
            stack.enter_context(draining(db, run_id))
            for event in events:
                recorder.record(event)

        ending = run_command(command, environ, begin)
        _wait_for_others(db, run_id)
        for event in last_events(db, run_id, ending):
            recorder.record(event)
        recorder.close()
    for each in recorded_runs(db, run_id):
        click.echo(f"Recorded as run {each}: warmup-insights show {each}", err=True)
    return ending.exit_code


def _recorder(
    db: str, run_id: str, label: str | None, source: str
) -> tuple[Recorder, list[Event]]:
    """The recorder of this process, and the first events of the run."""
    now = time.time()
    engine = facts.engine()
    is_synthetic = settings.is_true(os.environ, settings.SYNTHETIC)
    run = RunRecord(
        run_id=run_id,
        source_name=source,
        label=label,
        engine=engine.name,
        version=engine.version,
        started_at=now,
        synthetic=is_synthetic,
    )
    started = RunStarted(
        engine=engine.name, version=engine.version, synthetic=is_synthetic, time=now
    )
    config = ConfigRecorded(
        settings={"command": source, **engine.settings},
        environment=facts.environment(os.environ),
        time=now,
    )
    imports = PhaseMarked(name="import", edge="start", time=now)
    return Recorder(Spool(db, run)), [started, imports, config]


def _wait_for_others(db: str, run_id: str) -> None:
    """Wait until the engine's processes have written their last events, for a while."""
    own, deadline = own_process(), time.monotonic() + SETTLE_S
    is_waiting = True
    while is_waiting and time.monotonic() < deadline:
        spools = [s for s in find_spools(db, run_id) if s.run.process != own]
        is_waiting = len(over(spools)) < len(spools)
        time.sleep(0.1 if is_waiting else 0.0)


def recorded_runs(db: str, run_id: str) -> list[str]:
    """The runs of a program that has ended, the oldest first.

    A program whose child processes have the engines, such as `vllm bench startup`, has none
    itself: its own run is removed where theirs state what became of it.
    """
    with suppress(StoreError), open_store(db, read_only=False) as store:
        run = store.run(run_id)
        ids, is_known = [run_id], run.status == "unknown"
        for other in reversed(store.runs(since=run.started_at)):
            if other.run_id in {next_run_id(each, other.process) for each in ids}:
                ids.append(other.run_id)
                is_known = is_known or other.status == "failed"
        if ids[1:] and is_known and all(map(_is_of_program, store.events(run_id))):
            delete_runs(store, [run_id])
            return ids[1:]
    return [run_id]


def _is_of_program(event: Event) -> bool:
    """Whether an event is of a program without an engine, or of this command."""
    if isinstance(event, PhaseMarked):
        return event.name == "import"
    return isinstance(event, _OF_PROGRAM)


def last_events(db: str, run_id: str, ending: Ending) -> list[Event]:
    """How the run ended, by its exit and by what is stored of it.

    Where that cannot be read, whether it was ready is left to what will be.
    """
    events: list[Event] = []
    is_ready: bool | None = None
    is_skipped = is_known = False
    with suppress(StoreError), open_store(db) as store:
        run = store.run(run_id)
        summary = current(store, run).summary
        is_ready = summary.time.ready_at is not None
        is_skipped = summary.status == "skipped"
        stopped_at = ending.stops[0] if ending.stops else math.inf
        is_known = any(
            (failure.time or 0.0) < stopped_at
            for failure in store.events(run_id, ["failure", "serving_failure"])
        )
    is_failure = ending.is_failure or is_known
    ended = "finished" if is_ready else "unknown"
    status = "failed" if is_failure else "skipped" if is_skipped else ended
    if is_failure and not is_known:
        events.append(_failed(ending, is_ready=bool(is_ready)))
    if ending.stops and not is_failure:
        # A start is given up at the first signal; a server may have lived through one.
        at = ending.stops[0 if is_ready is False else -1]
        text = "a signal that was passed on"
        events.append(ShutdownRequested(message=text, in_start=not is_ready, time=at))
        status = status if is_ready else "stopped"
    return [*events, RunFinished(status=status, time=ending.at)]


def _failed(ending: Ending, *, is_ready: bool) -> Event:
    """The program failed, and recorded no error: it came to none of the calls that are
    watched, or did not survive a signal."""
    by = ending.killed_by
    failure = "killed" if by == signal.SIGKILL else "error"
    names = {number.value: number.name for number in signal.Signals}
    text = (
        f"The program vllm ended with exit status {ending.exit_code}; its output states why"
        if by is None
        else f"The program vllm was ended by {names.get(by, f'signal {by}')}"
    )
    if is_ready:
        return ServingFailure(failure=failure, message=text, time=ending.at)
    return Failure(failure=failure, message=text, time=ending.at)


PLUGIN_NAME = "warmup_insights"
PLUGINS_VARIABLE = "VLLM_PLUGINS"
_STOPPING = ("SIGINT", "SIGTERM", "SIGHUP")
_WATCHED = (*_STOPPING, "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCHLD")
_FROM_KERNEL = 128
"""`SI_KERNEL`: the terminal sent it, to the whole process group."""


@dataclass(frozen=True)
class Ending:
    """How a command ended."""

    exit_code: int
    """Its own, or 128 plus the signal that killed it, like a shell gives."""
    at: float
    """When it was seen to have ended, seconds since the epoch."""
    stops: tuple[float, ...] = ()
    """When signals came that stop it."""
    killed_by: int | None = None
    """Number of the signal that it did not survive."""

    @property
    def is_failure(self) -> bool:
        """Whether it ended by itself and not well."""
        return self.exit_code != 0 and not self.stops


def vllm_command(executable: str = sys.executable) -> list[str]:
    """How to call vLLM of this environment.

    Raises:
        InputError: vLLM is not installed here, where the plugin is.
    """
    script = Path(executable).with_name("vllm")
    if facts.is_installed("vllm"):
        if script.is_file():
            return [str(script)]
        return [executable, "-m", "vllm.entrypoints.cli.main"]
    other = shutil.which("vllm")
    where = f" ({other} belongs to another)" if other else ""
    raise InputError(
        f"No vLLM is installed in the environment of {executable}{where}; install "
        "warmup-insights with the same pip as vLLM"
    )


def recording_environment(
    environ: Mapping[str, str],
    *,
    database: str,
    run_id: str,
    source: str,
    label: str | None = None,
    freezes_gc: bool = False,
) -> dict[str, str]:
    """The environment in which vLLM records into a database, with us as drainer."""
    changed = dict(environ)
    # Right in whatever folder a worker runs.
    changed[settings.DATABASE] = str(database_path(database) or database)
    changed[settings.RUN] = run_id
    changed[settings.SOURCE] = source
    changed[settings.DRAINER] = settings.drainer_of(run_id)
    if label:
        changed[settings.LABEL] = label
    if freezes_gc:
        changed[settings.FREEZE_GC] = "1"
    allowed = changed.get(PLUGINS_VARIABLE)
    if allowed is not None and PLUGIN_NAME not in allowed.split(","):
        changed[PLUGINS_VARIABLE] = ",".join(filter(None, [allowed, PLUGIN_NAME]))
    return changed


def run_command(
    command: Sequence[str],
    environ: Mapping[str, str],
    begin: Callable[[], object] | None = None,
) -> Ending:
    """Run a command to its end with our input and output, and pass signals on.

    A signal from the terminal reaches the command without us, because it belongs to
    the same process group; only signals sent to this process alone are passed on.
    `begin` is called once the command runs; threads that it starts get no signals.

    Raises:
        InputError: this system has no way to wait for signals, as macOS and Windows.
    """
    if not hasattr(signal, "sigtimedwait"):
        raise InputError(
            "`warmup-insights vllm` passes signals on as only Linux can; set "
            "WARMUP_INSIGHTS_DB to a database and start vllm itself"
        )
    watched = {signal.Signals[name] for name in _WATCHED}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        child = subprocess.Popen(
            command,
            env=dict(environ),
            preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, before),
        )
        if begin is not None:
            begin()
        stops = _wait(child, watched)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    code = child.returncode
    return Ending(
        exit_code=code if code >= 0 else 128 - code,
        at=time.time(),
        stops=tuple(stops),
        killed_by=-code if code < 0 else None,
    )


def _wait(
    child: subprocess.Popen[bytes], watched: Collection[signal.Signals]
) -> list[float]:
    stops = []
    while child.poll() is None:
        received = signal.sigtimedwait(watched, 1.0)
        if received is None or received.si_signo == signal.SIGCHLD:
            continue
        if signal.Signals(received.si_signo).name in _STOPPING:
            stops.append(time.time())
        if received.si_code != _FROM_KERNEL:
            with suppress(ProcessLookupError):
                child.send_signal(received.si_signo)
    return stops
