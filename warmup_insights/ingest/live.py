"""How far a start-up is, while its log is being written: one state for each change.

The keys of `LiveState` are public: they are added to, never renamed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from parsers.engine.lines import LineParser
from parsers.files import dispatcher, feed_block
from warmup_insights.analysis.remaining import left_of_stage
from warmup_insights.analysis.summary.identity import Identity, ProgressFold
from warmup_insights.analysis.summary.serving import KINDS as SERVING_KINDS
from warmup_insights.model.events import (
    SERVER_START,
    Event,
    PhaseMarked,
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


class _Start:
    """One start-up of a log: sections of the fold, and what only a growing log needs."""

    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal
        self.state: LiveState | None = None
        self.begins_at: int | None = None
        """Number of the line that the server starts, while no line proves that it did."""
        self._progress = ProgressFold()
        self._identity = Identity()
        self._began: float | None = None
        self._steps: dict[int, float] = {}
        """Steps of the stage to when they began."""
        self._steps_of: tuple[str, str | None] | None = None
        """Phase and mode of these steps."""

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        if type(event) in self._identity.routes:
            self._identity.routes[type(event)](event)
        if isinstance(event, PhaseMarked) and event.name == SERVER_START:
            self.begins_at = event.line
        elif not (isinstance(event, ServerReady) and event.line == self.begins_at):
            self.begins_at = None
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

    def _failure(self) -> str | None:
        """What ended the start or serving, as the summary has it."""
        failed, end = self._identity.failure(self._progress), self._identity.serving_end
        if failed is not None:
            return failed.message
        return end.message if end is not None and end.kind != "shutdown" else None

    def change(
        self, ending: str | None = None, *, has_stopped: bool = False
    ) -> LiveState | None:
        """The state where it is another than before. `ending` is a failure as far as it is
        printed; with `has_stopped` the engine has ended, by a failure or not."""
        before, now = self.state, self._now(self._failure() or ending, has_stopped)
        self.state = now
        is_same = before is not None and all(
            getattr(before, name) == getattr(now, name) for name in _SHOWN
        )
        return None if is_same else now

    def _now(self, failure: str | None, has_stopped: bool) -> LiveState:
        progress, identity = self._progress.result(), self._identity
        status, stage = "starting", progress.stage
        if failure is not None:
            status = "failed"
        elif (
            has_stopped or identity.stop is not None or identity.serving_end is not None
        ):
            status = "stopped"
        elif stage == "ready" and self.begins_at is not None:
            stage = SERVER_START
        elif stage == "ready":
            status = "ready"
        last, began = progress.last_at, self._began
        is_stepping = (progress.phase, progress.mode) == self._steps_of
        return LiveState(
            run=self.ordinal, status=status, stage=stage, index=progress.index,
            total=progress.total, left_s=left_of_stage(progress, self._steps if is_stepping else {}),
            model=identity.model,
            elapsed_s=None if last is None or began is None else last - began,
            failure=failure,
        )  # fmt: skip


class LiveStart:
    """Takes the lines of one log as they come; gives a state when something changed."""

    def __init__(self) -> None:
        self._parser = LineParser(dispatcher())
        self._number = 0
        self._rest = b""
        self._starts: dict[int, _Start] = {}

    def feed(self, line: str) -> list[LiveState]:
        """Read a line; the states that are other than before."""
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
            return self._changed()
        lines = whole.decode("utf-8", "replace").split("\n")
        return [state for line in lines for state in self.feed(line.rstrip("\r"))]

    def close(self) -> list[LiveState]:
        """The log has ended: the last states, where they are other than before."""
        states = self.feed_bytes(b"\n") if self._rest else []
        self._parser.close()
        for start in self._starts.values():
            start.begins_at = None
        return [*states, *self._changed()]

    def after_silence(self, seconds: float) -> LiveState | None:
        """The last state after so many seconds without a line; None before the first.

        A server that starts would have failed by then: without uvicorn's lines it is ready.
        """
        if not self._starts:
            return None
        start = self._starts[max(self._starts)]
        if start.begins_at is not None:
            start.begins_at = None
            start.change()
        return start.state and msgspec.structs.replace(start.state, silence_s=seconds)

    def _changed(self) -> list[LiveState]:
        """The states of start-ups that changed; of the open one also without an event."""
        self._parser.settle()
        touched = set()
        for ordinal, events in self._parser.take():
            start = self._starts.setdefault(ordinal, _Start(ordinal))
            touched.add(ordinal)
            for event in events:
                start.add(event)
        open_run = self._parser.open_run
        if open_run in self._starts:
            touched.add(open_run)
        ending = self._parser.ending
        failure = None if ending is None else ending.message
        has_stopped = self._parser.has_stopped
        states = (
            self._starts[ordinal].change(failure, has_stopped=has_stopped)
            if ordinal == open_run
            else self._starts[ordinal].change()
            for ordinal in sorted(touched)
        )
        return [state for state in states if state is not None]


def follow(lines: Iterable[str]) -> Iterator[LiveState]:
    """The states of the start-ups in these lines, one for each change, the last at the end.

    Lines may come from a pipe or a file that grows; nothing is stored.
    """
    start = LiveStart()
    for line in lines:
        yield from start.feed(line.rstrip("\r\n"))
    yield from start.close()
