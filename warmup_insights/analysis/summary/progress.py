"""How far a start-up is, or how far it came: the fold over what there is so far."""

from __future__ import annotations

from warmup_insights.model.events import (
    CaptureProgress,
    DefragWarmup,
    Event,
    GapSeen,
    GraphCaptured,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.summary import Progress

_STAGES: dict[type[Event], str] = {
    GraphsCaptured: "graph_capture", KVCacheAllocated: "kv_cache",
    SamplerWarmup: "sampler_warmup", DefragWarmup: "defrag_warmup",
    WarmupFinished: "warmed up", ServerReady: "ready",
}  # fmt: skip
"""What an event names as the stage."""


class ProgressFold:
    """Follows the leading rank and the processes without one until the server is ready.

    The stage is the one that the last event names. A bar that is not full where a log ends
    is an event after all others, and counts by its line.
    """

    def __init__(self) -> None:
        self._stage = "starting"
        self._line = 0
        """The last line that names a stage."""
        self._step: WarmupStep | None = None
        self._done: int | None = None
        self._total: int | None = None
        self._timed = (0, 0.0)
        """Steps of the stage whose time is known, and their seconds."""
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
        if isinstance(event, WarmupStep):
            self._stepped(event)
        elif isinstance(event, GraphCaptured) and event.time is not None:
            self._seen(event.time + (event.duration_s or 0.0))
        elif isinstance(event, (MemoryMeasured, MemoryBudgetSet)):
            self._total_bytes = event.total_bytes or self._total_bytes
            if isinstance(event, MemoryMeasured):
                self._measured(event.used_bytes, event.free_bytes)
        else:
            self._staged(event)

    def _staged(self, event: Event) -> None:
        """An event of a stage; the last one of all is that the server is ready."""
        if isinstance(event, (WarmupFinished, ServerReady)):
            self._finished = event.time or self._last
            self._is_ready = isinstance(event, ServerReady)
        if isinstance(event, PhaseMarked):
            self._named(event, event.name, event.done, event.total)
        elif isinstance(event, CaptureProgress):
            self._named(event, "graph_capture", event.captured, event.total)
        elif isinstance(event, KVCacheAllocated) and self._finished is not None:
            return  # vllm-gaudi prints its size once more when warm-up is over
        elif type(event) in _STAGES:
            self._named(event, _STAGES[type(event)])

    def _named(
        self,
        event: Event,
        stage: str,
        done: int | None = None,
        total: int | None = None,
    ) -> None:
        """An event that names a stage, and how far its bar is."""
        line = event.line or self._line
        if line < self._line:
            return
        self._line, self._stage, self._step = line, stage.replace("_", " "), None
        self._done, self._total = done, total
        self._timed = (done or 0, getattr(event, "duration_s", None) or 0.0)

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
        if (event.phase, event.mode) != self._stage_of_step():
            self._timed = (0, 0.0)
        self._step = event
        self._line = event.line or self._line
        self._done, self._total = event.index, event.total
        free = event.free_after_bytes
        self._measured(None, event.free_before_bytes if free is None else free)
        self._stage = (
            f"{event.phase} {'graphs' if event.mode == 'graph' else 'warm-up'}"
        )
        took = event.duration_s if event.group_size is None else event.group_duration_s
        if took is not None:
            count, seconds = self._timed
            self._timed = (count + (event.group_size or 1), seconds + took)
        if event.time is not None and event.duration_s is not None:
            self._seen(event.time + event.duration_s)

    def _stage_of_step(self) -> tuple[str, str | None] | None:
        return None if self._step is None else (self._step.phase, self._step.mode)

    def result(self) -> Progress:
        """The section."""
        step = self._step
        count, seconds = self._timed
        return Progress(
            stage=self._stage,
            phase=step.phase if step else None,
            mode=step.mode if step else None,
            bucket=step.bucket if step else None,
            is_in_step=step is not None and not step.is_finished,
            index=self._done,
            total=self._total,
            step_s=seconds / count if count and seconds else None,
            free_bytes=step.free_before_bytes if step else None,
            used_bytes=self._used_bytes,
            last_at=self._last,
            finished_at=self._finished,
            longest_silence_s=self._silence,
        )
