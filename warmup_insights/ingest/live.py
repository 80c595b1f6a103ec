"""How far a start-up is, while its log is being written: one state for each change.

The keys of `LiveState` are public: they are added to, never renamed or removed.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from parsers import all_rules
from parsers.engine.dispatch import Dispatcher
from parsers.engine.lines import LineParser
from warmup_insights.analysis.summary.progress import ProgressFold
from warmup_insights.analysis.summary.serving import KINDS as SERVING_KINDS
from warmup_insights.model.events import (
    ConfigRecorded,
    Event,
    Failure,
    RunStarted,
    WarmupStep,
)
from warmup_insights.model.summary import Progress

BLOCK = 1 << 16
MAX_LINE = 1 << 20
SILENCE_EVERY_S = 10.0


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """Where the start-up in a log is, as of its last line."""

    schema: int = 1
    """Version of these keys."""
    run: int
    """Which start-up of the log, from 0: a restart is another one."""
    status: str
    """`starting`, `ready`, `failed` or `stopped`."""
    stage: str
    """What goes on, such as `load model`, `prompt warm-up` or `ready`."""
    index: int | None = None
    """Number of the step of that stage that was printed last, from 1."""
    total: int | None = None
    """Steps of that stage."""
    left_s: float | None = None
    """What is left of that stage at its own pace, in seconds; None while that is unknown."""
    elapsed_s: float | None = None
    """From the first time stamp of the start-up to the last."""
    silence_s: float = 0.0
    """Seconds without a line so far."""
    model: str | None = None
    """As the engine names it."""
    failure: str | None = None
    """The error, as far as it is printed: later states may be more exact."""


class LiveStart:
    """Takes the lines of one log as they come; gives a state when something changed."""

    def __init__(self) -> None:
        self._parser = LineParser(Dispatcher(all_rules()))
        self._number = 0
        self._run = -1
        self._begin(-1)

    def _begin(self, ordinal: int) -> None:
        self._run = ordinal
        self._progress = ProgressFold()
        self._model: str | None = None
        self._began: float | None = None
        self._failure: str | None = None
        self._step_at: float | None = None
        """When the last step began."""
        self._pace: tuple[str, int, float] | None = None
        """Stage, steps before its first and when that began: what the pace counts from."""
        self._state: LiveState | None = None

    def feed(self, line: str) -> LiveState | None:
        """Read a line; the state where it is another than before."""
        self._number += 1
        self._parser.feed(line, self._number)
        return self._changed()

    def close(self) -> LiveState | None:
        """The log has ended: the last state, where it is another than before."""
        self._parser.close()
        return self._changed()

    def after_silence(self, seconds: float) -> LiveState | None:
        """The last state after so many seconds without a line; None before the first."""
        return self._state and msgspec.structs.replace(self._state, silence_s=seconds)

    def _changed(self) -> LiveState | None:
        before = self._state
        for ordinal, events in self._parser.take():
            if ordinal != self._run:
                self._begin(ordinal)
            for event in events:
                self._take(event)
        if self._run < 0:
            return None
        now = self._now()
        self._state = now
        return None if before is not None and _same(before, now) else now

    def _take(self, event: Event) -> None:
        if isinstance(event, RunStarted | ConfigRecorded):
            self._model = event.model or self._model
        if isinstance(event, Failure):
            self._failure = event.message
        if self._began is None:
            self._began = event.time
        if isinstance(event, WarmupStep):
            self._step_at = event.time
        if type(event) not in SERVING_KINDS:
            self._progress.add(event)

    def _now(self) -> LiveState:
        progress = self._progress.result()
        ended = self._parser.ending
        failure = self._failure or (ended.message if ended is not None else None)
        status = "starting"
        if failure is not None:
            status = "failed"
        elif self._parser.has_stopped:
            status = "stopped"
        elif progress.stage == "ready":
            status = "ready"
        last, began = progress.last_at, self._began
        return LiveState(
            run=self._run, status=status, stage=progress.stage, index=progress.index,
            total=progress.total, left_s=self._left(progress), model=self._model,
            elapsed_s=None if last is None or began is None else last - began,
            failure=failure,
        )  # fmt: skip

    def _left(self, progress: Progress) -> float | None:
        """The steps of the stage that are left, at the pace of those since its first."""
        index, last = progress.index, progress.last_at
        if index is None or last is None:
            return None
        pace = self._pace
        if pace is None or pace[0] != progress.stage or index <= pace[1]:
            if self._step_at is None:
                return None
            pace = self._pace = (progress.stage, index - 1, self._step_at)
        if progress.total is None:
            return None
        return (last - pace[2]) / (index - pace[1]) * max(0, progress.total - index)


def _same(one: LiveState, other: LiveState) -> bool:
    names = ("run", "status", "stage", "index", "total", "failure")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def follow(lines: Iterable[str]) -> Iterator[LiveState]:
    """The states of the start-ups in these lines, one for each change, the last at the end.

    Lines may come from a pipe or a file that grows; nothing is stored.
    """
    start = LiveStart()
    for line in lines:
        state = start.feed(line.rstrip("\r\n"))
        if state is not None:
            yield state
    state = start.close()
    if state is not None:
        yield state


class Tap:
    """A pipe whose lines go to a start as they come, and whose bytes can be read.

    `show` gets each state, and after every 10 s without a line the last one again.
    """

    def __init__(self, descriptor: int, show: Callable[[LiveState], None]) -> None:
        self._descriptor = descriptor
        self._show = show
        self._start = LiveStart()
        self._rest = b""
        self._last_line_at = time.monotonic()

    def read(self, size: int = -1) -> bytes:
        """The bytes that are there; empty at the end."""
        while not self._is_readable():
            self._give(self._start.after_silence(time.monotonic() - self._last_line_at))
        data = os.read(self._descriptor, size if 0 < size < BLOCK else BLOCK)
        self._last_line_at = time.monotonic()
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MAX_LINE:
            self._rest = b""
        for line in lines:
            self._give(self._start.feed(line.decode("utf-8", "replace").rstrip("\r")))
        if not data:
            if self._rest:
                self._give(self._start.feed(self._rest.decode("utf-8", "replace")))
            self._give(self._start.close())
        return data

    def _is_readable(self) -> bool:
        ready, _, _ = select.select([self._descriptor], [], [], SILENCE_EVERY_S)
        return bool(ready)

    def _give(self, state: LiveState | None) -> None:
        if state is not None:
            self._show(state)
