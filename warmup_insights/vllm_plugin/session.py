"""The state of one process while it is recorded: run, rank, open phases, recorder; the
start of the process that stores what the recorders of a run write."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from multiprocessing import parent_process, util
from pathlib import Path
from typing import Any, ParamSpec

import msgspec

import warmup_insights
from warmup_insights.model.events import (
    SERVER_START,
    Bucket,
    ConfigRecorded,
    Event,
    Failure,
    Note,
    PhaseMarked,
    RunFinished,
    RunStarted,
    ServerReady,
    ShutdownRequested,
)
from warmup_insights.model.failure_text import figures_of, kind_of_message
from warmup_insights.model.run import RunRecord, next_run_id, own_process
from warmup_insights.recorder import Recorder
from warmup_insights.secrets import mask_text
from warmup_insights.storage.location import database_path
from warmup_insights.storage.spool import Spool
from warmup_insights.vllm_plugin import device, facts
from warmup_insights.vllm_plugin.calls import Outcome
from warmup_insights.vllm_plugin.settings import (
    DATABASE,
    DRAINER,
    RUN,
    Settings,
    drainer_of,
)
from warmup_insights.vllm_plugin.state import CollectorClock, State

logger = logging.getLogger(__name__)

MESSAGE_LIMIT = 2000
HAND_OVER_S = 0.002
"""Usually it takes a tenth of that: a thread wakes and writes into a file."""
_NEVER_MUTED = (Failure, Note, ShutdownRequested)
P = ParamSpec("P")


class Session:
    """Records for one process. A forked child starts again with nothing."""

    def __init__(
        self,
        settings: Settings,
        make_recorder: Callable[[Settings], Recorder] | None = None,
    ) -> None:
        if settings.is_first:
            started_at = facts.program_started() or time.time()
            settings = dataclasses.replace(settings, started_at=started_at)
        self.settings = settings
        self._make_recorder = make_recorder or store_recorder
        self.subscriptions: set[str] = set()
        """Events of the Gaudi bridge that are recorded; a forked child has them as well."""
        self._renew(is_first=settings.is_first)

    def _renew(self, *, is_first: bool) -> None:
        self._is_first = is_first
        self._recorder: Recorder | None = None
        self._phases: dict[str, list[float]] = {}
        self._failed: int | None = None
        self._ended: str | None = None
        """`failed` or `stopped` once the start, or serving, has ended so."""
        self._has_begun = False
        self.is_ready = False
        self.rank: int | None = None
        self.collector = CollectorClock()
        self.state = State()
        self.lost: dict[str, str] = {}
        """Topic to target, of what could not be watched."""
        self._last_actions: list[Callable[[], None]] = []

    def after_fork(self) -> None:
        """Drop what belongs to the parent; the hooks stay on."""
        self.collector.switch_off()
        self._renew(is_first=False)

    @property
    def records(self) -> bool:
        """Whether this process has recorded anything of the run."""
        return self._recorder is not None

    def emit(
        self, event_class: Callable[P, Event], *args: P.args, **fields: P.kwargs
    ) -> None:
        """Record an event of this process and its rank."""
        if self.state.is_muted and event_class not in _NEVER_MUTED:
            return
        if self._recorder is None:
            self._recorder = self._make_recorder(self.settings)
        if self.rank is not None:
            fields.setdefault("rank", self.rank)
        self._recorder.record(event_class(*args, **fields))

    def hand_over(self) -> None:
        """Have what was recorded so far leave this process, within `HAND_OVER_S`.

        No other thread runs during a garbage collection: what waits when it begins
        would be lost with the process.
        """
        if self._recorder is not None:
            self._recorder.flush(HAND_OVER_S)

    def begin_run(self, *, is_own: bool = False) -> None:
        """First event of a run, in the process that made its id, unless one is going on:
        an engine after one that was ready, failed or was given up is another run.

        `is_own` where this process has an engine of its own, started by itself or not.
        """
        if not (self._is_first or is_own):
            return
        if self.is_ready or self._ended or not self._is_first:
            began = None if self._is_first else facts.program_started()
            self.end_run()
            run_id = next_run_id(self.settings.run_id, own_process())
            os.environ[RUN] = run_id
            self.settings = dataclasses.replace(
                self.settings, run_id=run_id, started_at=began or time.time()
            )
            self._renew(is_first=True)
        if self._has_begun:
            return
        self._has_begun = True
        if parent_process() is not None:  # which ends without `atexit`
            util.Finalize(None, self.end_run, exitpriority=150)
        engine, started_at = facts.engine(), self.settings.started_at
        self.emit(
            RunStarted,
            engine=engine.name,
            version=engine.version,
            synthetic=self.settings.is_synthetic,
            time=started_at,
        )
        self.emit(PhaseMarked, name="import", edge="start", time=started_at)
        self.emit(
            ConfigRecorded,
            environment=facts.environment(os.environ),
            settings={"command": facts.command_line(sys.argv), **engine.settings},
        )

    def before_end(self, action: Callable[[], None]) -> None:
        """Do something before the recorder of this process is closed."""
        self._last_actions.append(action)
        if len(self._last_actions) == 1:
            # Workers end without atexit; 200 comes before the recorder's own 100.
            util.Finalize(None, self._run_last_actions, exitpriority=200)

    def _run_last_actions(self) -> None:
        actions, self._last_actions = self._last_actions, []
        for action in actions:
            action()

    def end_run(self, timeout_s: float = 5.0) -> None:
        """Last event of the run, in the process that made its id; waits so long at most."""
        self._run_last_actions()
        if self._is_first and self._has_begun:
            self.report_lost()
            # An engine in another process may be up, and its server elsewhere.
            reached = "finished" if self.is_ready else "unknown"
            skipped = "skipped" if self.state.is_skipped else None
            self.emit(RunFinished, status=self._ended or skipped or reached)
            self._has_begun = False
        if self._recorder is not None:
            self._recorder.close(timeout_s)

    def begin_phase(self, name: str) -> None:
        """Mark the start of a stretch, unless it is open already: the process may not
        see its end."""
        opened = self._phases.setdefault(name, [])
        opened.append(time.perf_counter())
        if len(opened) == 1:
            self.emit(PhaseMarked, name=name, edge="start")
            self.hand_over()

    def end_phase(self, name: str) -> float | None:
        """Mark the end of a stretch; its seconds, or None while it stays open."""
        opened = self._phases.get(name)
        if not opened:
            return None
        started = opened.pop()
        if opened:
            return None
        duration = time.perf_counter() - started
        self.emit(PhaseMarked, name=name, edge="end", duration_s=duration)
        return duration

    def watch_phase(
        self, name: str
    ) -> Generator[None, Outcome, tuple[Outcome, float | None]]:
        """The part of a probe around a call that is a phase of its own.

        Gives how the call ended, and the seconds that it took.
        """
        self.begin_phase(name)
        outcome = yield
        return outcome, self.finish_phase(name, outcome)

    def finish_phase(self, name: str, outcome: Outcome) -> float | None:
        """End a phase whose call ended so, and record its failure; its seconds."""
        self.wait_for_device()
        self.note_failure(outcome, phase=name)
        return self.end_phase(name)

    def wait_for_device(self) -> None:
        """Wait for the device where the user chose exact times."""
        if self.settings.syncs:
            device.synchronize()

    def note_failure(
        self,
        outcome: Outcome,
        *,
        phase: str | None = None,
        bucket: Bucket | None = None,
        cause: str | None = None,
        is_killed: bool = False,
    ) -> None:
        """Record the error a call ended with, once however many hooks it passes and
        errors it is wrapped in.

        `cause` where the error only follows from it; `is_killed` when it came of a process
        that was killed.
        """
        if isinstance(outcome.error, KeyboardInterrupt | SystemExit):
            self.note_stop("the program was stopped")
        if not isinstance(outcome.error, Exception):
            return
        error = facts.raised_first(outcome.error)
        if self._failed == id(error):
            return
        self._failed = id(error)
        self._ended = "failed"
        free, _ = device.free_and_total()
        text = (cause or facts.text_of(error))[:MESSAGE_LIMIT]
        figures: dict[str, Any] = {"free_bytes": free, **figures_of(text)}
        self.emit(
            Failure,
            failure="killed" if is_killed else kind_of_message(text),
            message=mask_text(text),
            phase=phase,
            bucket=bucket,
            module=facts.module_of(error) if cause is None else None,
            **figures,
        )

    def note_stop(self, text: str) -> None:
        """Record, once, an order that ended the start in the program itself; where that
        runs below `warmup-insights vllm`, it is recorded there."""
        if self._is_first and not (self.is_ready or self._ended):
            self._ended = "stopped"
            self.emit(ShutdownRequested, message=text, in_start=True)

    def note_ready(self) -> None:
        """Record that requests are accepted from now on: an order before ended nothing, as
        where vLLM goes on behind Ctrl-C (`utils/network_utils.py`, `zmq_socket_ctx`)."""
        self.is_ready = True
        if self._ended == "stopped":
            self._ended = None
        self.emit(ServerReady)

    def note_end_of_program(self, error: BaseException) -> None:
        """Record the error that ends this program, where it was not ready by then: after
        that it may be one of what uses the engine."""
        phase = SERVER_START if self.state.is_of_server else None
        if self.is_ready:
            return
        if not (self._has_begun or self._ended):
            self.begin_run()
        self.note_failure(Outcome(error=error), phase=phase)

    def note_lost(self, target: str, error: Exception) -> None:
        """A hook was taken off because of an error of ours."""
        self.emit(
            Note,
            topic="hook_missing",
            text=f"not instrumented any more: {target}",
            values={
                "target": target,
                "reason": f"{type(error).__name__}: {error}",
            },
        )

    def report_lost(self) -> None:
        """Record, once and by one rank, what could not be watched."""
        lost, self.lost = self.lost, {}
        if self.rank:
            return
        for topic, target in lost.items():
            self.emit(
                Note,
                topic="hook_missing",
                text=f"not instrumented: {topic}",
                values={"target": target},
            )


def store_recorder(settings: Settings) -> Recorder:
    """A recorder into the database of the settings; a process drains its spool."""
    source = settings.source or Path(sys.argv[0] if sys.argv else "python").name
    run = RunRecord(
        run_id=settings.run_id,
        source_kind="recorder",
        source_name=source,
        label=settings.label,
        synthetic=settings.is_synthetic,
        started_at=settings.started_at,
    )

    database = str(database_path(settings.database) or settings.database)

    def start() -> None:
        ensure_drainer(database, settings.run_id)

    return Recorder(Spool(database, run, on_start=start))


_START = (
    "import os, sys; os.fork() and os._exit(0); os.setsid(); "
    "sys.path.append(sys.argv[1]); from warmup_insights.drainer import main; main()"
)
"""Leaves the engine's family, because vLLM kills all of it when one process fails."""


def ensure_drainer(database: str, run_id: str) -> None:
    """Start a process that drains the run, unless this machine has one."""
    if os.environ.get(DRAINER) == drainer_of(run_id):
        return
    os.environ[DRAINER] = drainer_of(run_id)
    environ = {k: v for k, v in os.environ.items() if k != DATABASE}
    root = str(Path(warmup_insights.__file__).parents[1])
    try:
        if not sys.executable:
            raise FileNotFoundError("the path of this Python is unknown")
        with subprocess.Popen(
            [sys.executable, "-c", _START, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environ,
        ) as process:  # it leaves a process of its own and ends at once
            process.communicate(msgspec.json.encode((database, run_id)))
    except OSError as error:
        logger.warning("Recorded events wait in their files: %s", error)
