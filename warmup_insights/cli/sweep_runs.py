"""Running the points of a sweep, each in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warmup_insights.analysis.sweep import Experiment, Point, is_variable
from warmup_insights.errors import InputError, WarmupInsightsError

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore

POLL_S = 1.0
STOP_S = 60.0
"""How long a server has to stop after an interrupt before it is killed."""

_DONE = ("finished", "failed", "skipped")
_READY, _ENDED, _LATE = "ready", "ended", "late"
_ERROR = re.compile(r"(?:\b[\w.]{0,200}(?:Error|Exception)|\b[\w.-]{1,100}: error): \S")
_NOT_A_REASON = ("Recorded as run ", "Engine core initialization failed")
"""Last lines of a server that say nothing of why it ended."""
_REFERENCE_OPTIONS = {
    "VLLM_GRAPH_RESERVED_MEM": "--graph-reserved-mem",
    "VLLM_GRAPH_PROMPT_RATIO": "--graph-prompt-ratio",
    "VLLM_GRAPH_PROMPT_STRATEGY": "--graph-prompt-strategy",
    "VLLM_GRAPH_DECODE_STRATEGY": "--graph-decode-strategy",
}


@dataclass(frozen=True)
class PointOutcome:
    """What came of a point: its run, or why there is none."""

    point: Point
    run_id: str | None
    status: str
    seconds: float | None
    reason: str | None = None


def check_base(store: EventStore, experiment: Experiment) -> None:
    """Raise InputError when the name belongs to a sweep with other fixed options."""
    for record in store.runs(text=f"sweep {experiment.name}, base "):
        notes = record.notes or ""
        is_same_name = notes.startswith(f"sweep {experiment.name}, base ")
        if is_same_name and notes != experiment.note:
            raise InputError(
                f"The sweep {experiment.name!r} has runs with other fixed options "
                f"({record.run_id}); choose another --name"
            )


def find_done(
    store: EventStore, experiment: Experiment, point: Point, *, retry_failed: bool
) -> PointOutcome | None:
    """The run of a point from an earlier start of the sweep; None if it is to run."""
    from warmup_insights.analysis.refresh import current_summary

    wanted = ("finished", "skipped") if retry_failed else _DONE
    for record in store.runs(label=experiment.label(point)):
        status = record.status_at(time.time())
        if record.notes == experiment.note and status in wanted:
            failure = current_summary(store, record)["failure"] or {}
            return PointOutcome(
                point, record.run_id, status, None, failure.get("message")
            )
    return None


def run_point(
    db: str, experiment: Experiment, point: Point, timeout_s: float | None
) -> PointOutcome:
    """Run one point, and wait until its start-up is over.

    Raises:
        WarmupInsightsError: the command line itself was refused.
    """
    began = time.monotonic()
    command, environment = point_command(db, experiment, point)
    reason = run_until_ready(
        command,
        environment,
        lambda: _is_ready(db, experiment.label(point)),
        stays=experiment.engine == "vllm",
        timeout_s=timeout_s,
    )
    return _outcome(db, experiment, point, time.monotonic() - began, reason)


def point_command(
    db: str, experiment: Experiment, point: Point
) -> tuple[list[str], dict[str, str]]:
    """The command line of a point, and the environment variables that it adds."""
    label = experiment.label(point)
    command = [sys.executable, "-m", "warmup_insights"]
    if experiment.engine == "vllm":
        command += ["vllm", "--db", db, "--label", label, "serve", *experiment.base]
    else:
        command += ["run", "--quiet", "--db", db, "--label", label, *experiment.base]
    environment: dict[str, str] = {}
    for name, value in point.settings:
        if not is_variable(name):
            command += [f"--{name.replace('_', '-')}", value]
        elif experiment.engine == "vllm":
            environment[name] = value
        elif name in _REFERENCE_OPTIONS:
            command += [_REFERENCE_OPTIONS[name], value]
        else:
            command += ["--set", f"{name}={value}"]
    return command, environment


def run_until_ready(
    command: list[str],
    environment: dict[str, str],
    is_ready: Callable[[], bool],
    *,
    stays: bool,
    timeout_s: float | None,
) -> str | None:
    """Run a command to its end, or a server until it is ready; why it failed, if it did.

    A server gets an interrupt when it is ready, and is killed when that does not end it.
    """
    process = subprocess.Popen(
        command,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    with _LastWords(process) as last:
        try:
            ending = _wait(process, is_ready if stays else None, timeout_s)
        finally:
            if process.poll() is None:
                stop(process)
    if ending == _LATE:
        return f"not ready within {timeout_s:g} s"
    return _reason(process.returncode, last.text) if ending == _ENDED else None


def _wait(
    process: subprocess.Popen[str],
    is_ready: Callable[[], bool] | None,
    timeout_s: float | None,
) -> str:
    """Until the process ended, is ready, or the time ran out; which of these it was."""
    began = time.monotonic()
    while process.poll() is None:
        if is_ready is not None and is_ready():
            return _READY
        left = None if timeout_s is None else timeout_s - (time.monotonic() - began)
        if left is not None and left <= 0:
            return _LATE
        pause = POLL_S if is_ready is not None else left
        try:
            process.wait(timeout=pause)
        except subprocess.TimeoutExpired:
            continue
    return _ENDED


@contextmanager
def endings_as_interrupts() -> Iterator[None]:
    """SIGTERM and SIGHUP end a sweep like Ctrl-C does, so that no server outlives it."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, _: object) -> None:
    raise KeyboardInterrupt(signal.Signals(number).name)


def stop(process: subprocess.Popen[str]) -> None:
    """Interrupt a process; end it and its children when that does not.

    Another Ctrl-C meanwhile does not wait any longer, and counts afterwards.
    """
    interrupted = None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        try:
            # The first one is passed on: a server that got it twice would not clean up.
            send = os.kill if number == signal.SIGINT else os.killpg
            send(process.pid, number)
            process.wait(timeout=STOP_S if number != signal.SIGKILL else None)
        except ProcessLookupError:
            break
        except subprocess.TimeoutExpired:
            continue
        except KeyboardInterrupt as error:
            interrupted = error
            continue
        break
    _end_workers(process.pid)
    if interrupted is not None:
        raise interrupted


def _end_workers(group: int) -> None:
    """Kill what a server left behind: a worker that began after the interrupt."""
    deadline = time.monotonic() + min(5.0, STOP_S)
    try:
        while time.monotonic() < deadline:
            os.killpg(group, 0)
            time.sleep(0.05)
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def _reason(code: int, last_line: str) -> str | None:
    """Why the process failed; a usage error ends the whole sweep."""
    if code == 0:
        return None
    text = last_line.removeprefix("Error: ") or f"exit code {code}"
    if code == 2:
        raise WarmupInsightsError(f"The run was refused: {text}")
    return text


class _LastWords:
    """Reads what a process says on stderr, and keeps why it ended.

    That is the last line with an error, else the last line of all.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        import threading

        self.text = ""
        self._has_error = False
        self._stream = process.stderr
        self._thread = threading.Thread(target=self._read, daemon=True)

    def _read(self) -> None:
        assert self._stream is not None, "stderr is a pipe"
        while line := self._stream.readline(10_000):
            self._weigh(line.strip())

    def _weigh(self, line: str) -> None:
        if not line or any(words in line for words in _NOT_A_REASON):
            return
        error = _ERROR.search(line)
        if error is not None or not self._has_error:
            self.text = line[error.start() if error else 0 :][:500]
        self._has_error = self._has_error or error is not None

    def __enter__(self) -> _LastWords:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._thread.join(timeout=5.0)
        if not self._thread.is_alive() and self._stream is not None:
            self._stream.close()


def _is_ready(db: str, label: str) -> bool:
    """Whether the newest run of a label said that it is ready, or why it failed."""
    from warmup_insights.analysis.refresh import current_summary
    from warmup_insights.storage import EventStore

    with EventStore(db) as store:
        found = store.runs(label=label, limit=1)
        if not found:
            return False
        summary = current_summary(store, found[0])
    return bool(summary["time"]["ready_at"] or summary["failure"])


def _outcome(
    db: str, experiment: Experiment, point: Point, seconds: float, reason: str | None
) -> PointOutcome:
    """The stored run of a point that has just ended, with the sweep's note on it.

    Why it failed is added to the run where that died before it could record it.
    """
    from warmup_insights.analysis.refresh import refresh_summary
    from warmup_insights.storage import EventStore

    with EventStore(db) as store:
        found = store.runs(label=experiment.label(point), limit=1)
        if not found:
            return PointOutcome(point, None, "failed", seconds, reason)
        run_id = found[0].run_id
        summary = refresh_summary(store, run_id)
        if reason and summary["status"] == "failed" and not summary["failure"]:
            _note_failure(store, run_id, reason)
            summary = refresh_summary(store, run_id)
        status = str(summary["status"])
        if status in _DONE:
            store.set_notes(run_id, experiment.note)
        failure = summary["failure"] or {}
        # The run of a server that was stopped only knows that it was.
        if failure.get("kind") != "killed":
            reason = failure.get("message") or reason
        return PointOutcome(point, run_id, status, seconds, reason)


def _note_failure(store: EventStore, run_id: str, reason: str) -> None:
    from warmup_insights.model.events import Failure
    from warmup_insights.secrets import mask_text

    with store.begin() as transaction:
        event = Failure(failure="error", message=mask_text(reason), time=time.time())
        transaction.append(run_id, [event])
