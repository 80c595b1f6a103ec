"""How far a start-up is, or how far it came: the fold over what there is so far."""

from __future__ import annotations

from warmup_insights.model.events import (
    Event,
    GapSeen,
    GraphCaptured,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.summary import Progress


class ProgressFold:
    """Follows the leading rank and the processes without one until the server is ready."""

    def __init__(self) -> None:
        self._stage = "starting"
        self._step: WarmupStep | None = None
        self._last: float | None = None
        self._silence = 0.0
        self._finished: float | None = None
        self._is_ready = False
        self._total_bytes: int | None = None
        self._used_bytes: int | None = None

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        if event.rank not in (None, 0) or isinstance(event, GapSeen) or self._is_ready:
            return
        if event.time is not None:
            self._seen(event.time)
        match event:
            case WarmupStep():
                self._stepped(event)
            case GraphCaptured() if event.time is not None:
                self._seen(event.time + (event.duration_s or 0.0))
            case PhaseMarked(edge="start"):
                self._stage, self._step = event.name.replace("_", " "), None
            case WarmupFinished():
                self._finished = event.time or self._last
                self._stage = "warmed up"
            case ServerReady():
                self._finished = event.time or self._last
                self._stage, self._is_ready = "ready", True
            case MemoryMeasured() | MemoryBudgetSet():
                self._total_bytes = event.total_bytes or self._total_bytes
                if isinstance(event, MemoryMeasured):
                    self._measured(event.used_bytes, event.free_bytes)

    def _seen(self, time: float) -> None:
        if self._last is None:
            self._last = time
            return
        self._silence = max(self._silence, time - self._last)
        self._last = max(self._last, time)

    def _measured(self, used: int | None, free: int | None) -> None:
        if used is None and free is not None and self._total_bytes is not None:
            used = self._total_bytes - free
        self._used_bytes = used if used is not None else self._used_bytes

    def _stepped(self, event: WarmupStep) -> None:
        self._step = event
        free = event.free_after_bytes
        self._measured(None, event.free_before_bytes if free is None else free)
        self._stage = (
            f"{event.phase} {'graphs' if event.mode == 'graph' else 'warm-up'}"
        )
        if event.time is not None and event.duration_s is not None:
            self._seen(event.time + event.duration_s)

    def result(self) -> Progress:
        """The section."""
        step = self._step
        if step is None:
            return Progress(
                stage=self._stage,
                used_bytes=self._used_bytes,
                last_at=self._last,
                finished_at=self._finished,
                longest_silence_s=self._silence,
            )
        return Progress(
            stage=self._stage,
            phase=step.phase,
            mode=step.mode,
            bucket=step.bucket,
            is_in_step=not step.is_finished,
            index=step.index,
            total=step.total,
            free_bytes=step.free_before_bytes,
            used_bytes=self._used_bytes,
            last_at=self._last,
            finished_at=self._finished,
            longest_silence_s=self._silence,
        )
