"""How far a start-up is, while its log is being written: one state for each change.

The keys of `LiveState` are public: they are added to, never renamed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from parsers.engine.lines import LineParser
from parsers.files import dispatcher, feed_block
from warmup_insights.analysis.remaining import left_of_stage
from warmup_insights.analysis.summary.identity import ProgressFold
from warmup_insights.analysis.summary.serving import KINDS as SERVING_KINDS
from warmup_insights.model.events import (
    SERVER_START,
    ConfigRecorded,
    Event,
    Failure,
    PhaseMarked,
    RunStarted,
    ServerReady,
    WarmupStep,
)

MAX_LINE = 1 << 20
_SHOWN = ("run", "status", "stage", "index", "total", "failure")
"""A state is another one when one of these differs."""


class LiveState(msgspec.Struct, frozen=True, kw_only=True):
    """Where the start-up in a log is, as of its last line."""

    schema: int = 1
    """Version of these keys."""
    run: int
    """Which start-up of the log, from 0: a restart is another one."""
    status: str
    """`starting`, `ready`, `failed` or `stopped`."""
    stage: str
    """What goes on, such as `load_model`, `prompt_warmup` or `ready`."""
    index: int | None = None
    """Number of the step of that stage that was printed last, from 1."""
    total: int | None = None
    """Steps of that stage."""
    left_s: float | None = None
    """What is left of that stage at its own pace, in seconds; None while that is unknown."""
    elapsed_s: float | None = None
    """From the first timestamp of the start-up to the last."""
    silence_s: float = 0.0
    """Seconds without a line so far."""
    model: str | None = None
    """As the engine names it."""
    failure: str | None = None
    """The error, as far as it is printed: later states may be more exact."""


class LiveStart:
    """Takes the lines of one log as they come; gives a state when something changed."""

    def __init__(self) -> None:
        self._parser = LineParser(dispatcher())
        self._number = 0
        self._rest = b""
        self._run = -1
        self._begin(-1)

    def _begin(self, ordinal: int) -> None:
        self._run = ordinal
        self._progress = ProgressFold()
        self._model: str | None = None
        self._began: float | None = None
        self._failure: str | None = None
        self._starting: int | None = None
        """Number of the line that the server starts, while no line proves that it did."""
        self._steps: dict[int, float] = {}
        """Steps of the stage to when they began."""
        self._steps_of: tuple[str, str | None] | None = None
        """Phase and mode of these steps."""
        self._state: LiveState | None = None

    def feed(self, line: str) -> LiveState | None:
        """Read a line; the state where it is another than before."""
        self._number += 1
        self._parser.feed(line, self._number)
        return self._changed()

    def feed_bytes(self, data: bytes) -> list[LiveState]:
        """Read what was written since, whole lines or not; a state for each change.

        Of what a ready server prints only the lines that matter are looked at.
        """
        whole, newline, self._rest = (self._rest + data).rpartition(b"\n")
        if len(self._rest) > MAX_LINE:
            self._rest = b""
        if not newline:
            return []
        if not self._parser.reads_all:
            self._number = feed_block(self._parser, whole + newline, self._number)
            states = [self._changed()]
        else:
            lines = whole.decode("utf-8", "replace").split("\n")
            states = [self.feed(line.rstrip("\r")) for line in lines]
        return [state for state in states if state is not None]

    def close(self) -> list[LiveState]:
        """The log has ended: the last state, where it is another than before."""
        states = self.feed_bytes(b"\n") if self._rest else []
        self._parser.close()
        self._starting = None
        last = self._changed()
        return states if last is None else [*states, last]

    def after_silence(self, seconds: float) -> LiveState | None:
        """The last state after so many seconds without a line; None before the first.

        A server that starts would have failed by then: without uvicorn's lines it is ready.
        """
        if self._state is not None and self._starting is not None:
            self._starting = None
            self._state = self._now()
        return self._state and msgspec.structs.replace(self._state, silence_s=seconds)

    def _changed(self) -> LiveState | None:
        before = self._state
        self._parser.settle()
        for ordinal, events in self._parser.take():
            if ordinal != self._run:
                self._begin(ordinal)
            for event in events:
                self._take(event)
        if self._run < 0:
            return None
        now = self._state = self._now()
        is_same = before is not None and all(
            getattr(before, name) == getattr(now, name) for name in _SHOWN
        )
        return None if is_same else now

    def _take(self, event: Event) -> None:
        if isinstance(event, RunStarted | ConfigRecorded):
            self._model = event.model or self._model
        if isinstance(event, Failure):
            self._failure = event.message
        if isinstance(event, PhaseMarked) and event.name == SERVER_START:
            self._starting = event.line
        elif not (isinstance(event, ServerReady) and event.line == self._starting):
            self._starting = None
        if self._began is None:
            self._began = event.time
        if isinstance(event, WarmupStep) and event.rank in (None, 0):
            self._stepped(event)
        if type(event) not in SERVING_KINDS:
            self._progress.add(event)

    def _stepped(self, event: WarmupStep) -> None:
        """Note when a step of the leading rank began; a stage may begin once more."""
        stage = event.phase, event.mode
        if event.index is None or event.time is None:
            return
        if stage != self._steps_of or event.index < max(self._steps):
            self._steps_of, self._steps = stage, {}
        self._steps[event.index] = event.time

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
        stage = progress.stage
        if status == "ready" and self._starting is not None:
            status, stage = "starting", SERVER_START
        last, began = progress.last_at, self._began
        is_stepping = (progress.phase, progress.mode) == self._steps_of
        return LiveState(
            run=self._run, status=status, stage=stage, index=progress.index,
            total=progress.total, left_s=left_of_stage(progress, self._steps if is_stepping else {}),
            model=self._model,
            elapsed_s=None if last is None or began is None else last - began,
            failure=failure,
        )  # fmt: skip


def follow(lines: Iterable[str]) -> Iterator[LiveState]:
    """The states of the start-ups in these lines, one for each change, the last at the end.

    Lines may come from a pipe or a file that grows; nothing is stored.
    """
    start = LiveStart()
    for line in lines:
        state = start.feed(line.rstrip("\r\n"))
        if state is not None:
            yield state
    yield from start.close()
