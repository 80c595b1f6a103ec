"""The sampler, defragmenter and CUDA graph sections of a run summary."""

from __future__ import annotations

from typing import Any

from warmup_insights.model.events import (
    CaptureProgress,
    DefragRan,
    DefragStep,
    DefragWarmup,
    Event,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    LazyCapture,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
)

_ORDER = {"completed": 3, "skipped": 2, "started": 1}


class _Stage:
    """Started, completed or skipped, and how long it took, on one rank."""

    def __init__(self) -> None:
        self.status: str | None = None
        self.started_at: float | None = None
        self.duration_s: float | None = None

    def take(self, status: str, time: float | None, duration_s: float | None) -> None:
        if status == "started" and self.started_at is None:
            self.started_at = time
        if _ORDER.get(status, 0) >= _ORDER.get(self.status or "", 0):
            self.status = status
        if duration_s is not None:
            self.duration_s = duration_s
        elif (
            status == "completed"
            and self.duration_s is None
            and time is not None
            and self.started_at is not None
        ):
            self.duration_s = time - self.started_at


class SamplerSection(_Stage):
    """What the sampler warm-up covered; the lowest rank speaks."""

    def __init__(self) -> None:
        super().__init__()
        self._rank: int | None = None
        self._batch_sizes: list[int] | None = None
        self._configs: dict[tuple[float, float, int, bool], None] = {}
        self._steps: list[dict[str, Any]] = []

    def add(self, event: Event) -> None:
        """Take notice of an event, in the order of the run."""
        rank = -1 if event.rank is None else event.rank
        if self._rank is None:
            self._rank = rank
        if rank != self._rank:
            return
        match event:
            case SamplerWarmup():
                self.take(event.status, event.time, event.duration_s)
                self._batch_sizes = event.batch_sizes or self._batch_sizes
            case SamplerConfig() | SamplerStep():
                key = (event.temperature, event.top_p, event.top_k, event.batch_changed)
                self._configs[key] = None
                if isinstance(event, SamplerStep):
                    self._steps.append(_sampler_step(event))

    def result(self) -> dict[str, Any] | None:
        """The section; None when no line mentions the sampler."""
        if self.status is None and not self._configs:
            return None
        return {
            "status": self.status or "started",
            "batch_sizes": self._batch_sizes,
            "configs": len(self._configs) or None,
            "duration_s": self.duration_s,
            "steps": self._steps,
        }


def _sampler_step(event: SamplerStep) -> dict[str, Any]:
    return {
        "batch_size": event.batch_size,
        "temperature": event.temperature,
        "top_p": event.top_p,
        "top_k": event.top_k,
        "batch_changed": event.batch_changed,
        "duration_s": event.duration_s,
    }


class DefragSection(_Stage):
    """What the defragmenter did at warm-up and while serving; the lowest rank speaks."""

    MAX_RUNS = 10_000

    def __init__(self) -> None:
        super().__init__()
        self._rank: int | None = None
        self._thresholds: list[int] | None = None
        self._reason: str | None = None
        self._steps: list[dict[str, Any]] = []
        self._runs: list[dict[str, Any]] = []

    def add(self, event: Event) -> None:
        """Take notice of an event, in the order of the run."""
        rank = -1 if event.rank is None else event.rank
        if self._rank is None:
            self._rank = rank
        if rank != self._rank:
            return
        match event:
            case DefragWarmup():
                self.take(event.status, event.time, event.duration_s)
                self._thresholds = event.thresholds or self._thresholds
                self._reason = event.reason or self._reason
            case DefragStep():
                self._steps.append(
                    {"threshold": event.threshold, "duration_s": event.duration_s}
                )
            case DefragRan() if len(self._runs) < self.MAX_RUNS:
                self._runs.append(
                    {
                        "swapped": event.swapped,
                        "padded": event.padded,
                        "max_id_before": event.max_id_before,
                        "max_id_after": event.max_id_after,
                        "duration_s": event.duration_s,
                    }
                )

    def result(self) -> dict[str, Any] | None:
        """The section; None when no line mentions the defragmenter."""
        if self.status is None and not self._runs and not self._steps:
            return None
        return {
            "status": self.status,
            "thresholds": self._thresholds,
            "duration_s": self.duration_s,
            "reason": self._reason,
            "steps": self._steps,
            "runs": self._runs,
        }


class GraphSection:
    """CUDA graph captures, at start and while serving."""

    MAX_LAZY = 10_000

    def __init__(self) -> None:
        self._modes: dict[tuple[int, str], int] = {}
        self._done: dict[int, GraphsCaptured] = {}
        self._single: dict[int, set[tuple[str | None, tuple[int, ...]]]] = {}
        self._estimated: dict[int, int] = {}
        self._actual: dict[int, int] = {}
        self._lazy: dict[int, list[dict[str, Any]]] = {}

    def add(self, event: Event) -> None:
        """Take notice of an event, in the order of the run."""
        rank = -1 if event.rank is None else event.rank
        match event:
            case CaptureProgress():
                key = (rank, event.mode)
                self._modes[key] = max(self._modes.get(key, 0), event.captured)
            case GraphsCaptured():
                self._done.setdefault(rank, event)
            case GraphCaptured() if event.phase not in ("prompt", "decode"):
                captured = self._single.setdefault(rank, set())
                captured.add((event.mode, event.bucket))
            case GraphMemoryEstimated():
                if event.estimated_bytes is not None:
                    self._estimated[rank] = event.estimated_bytes
                if event.actual_bytes is not None:
                    self._actual[rank] = event.actual_bytes
            case LazyCapture():
                rows = self._lazy.setdefault(rank, [])
                if len(rows) < self.MAX_LAZY:
                    rows.append(_lazy(event))

    def result(self) -> dict[str, Any] | None:
        """The section; None when no line mentions CUDA graphs."""
        parts = (self._modes, self._done, self._single, self._estimated, self._lazy)
        if not any(parts):
            return None
        done = _lowest(self._done)
        return {
            "captured": self._captured(done),
            "duration_s": done.duration_s if done is not None else None,
            "memory_bytes": self._memory(done),
            "estimated_bytes": _lowest(self._estimated),
            "lazy": _lowest(self._lazy) or [],
        }

    def _captured(self, done: GraphsCaptured | None) -> int | None:
        if done is not None and done.count is not None:
            return done.count
        if self._modes:
            rank = min(rank for rank, _ in self._modes)
            return sum(n for (r, _), n in self._modes.items() if r == rank)
        single = _lowest(self._single)
        return len(single) if single is not None else None

    def _memory(self, done: GraphsCaptured | None) -> int | None:
        if done is not None and done.memory_bytes is not None:
            return done.memory_bytes
        actual: int | None = _lowest(self._actual)
        return actual


def _lazy(event: LazyCapture) -> dict[str, Any]:
    return {
        "num_tokens": event.num_tokens,
        "duration_s": event.duration_s,
        "memory_bytes": event.memory_bytes,
    }


def _lowest(by_rank: dict[int, Any]) -> Any:
    """The value of the lowest rank; None when there is none."""
    return by_rank[min(by_rank)] if by_rank else None
