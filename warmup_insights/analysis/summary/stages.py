"""Sampler, defragmenter, CUDA graphs, garbage collection and notes of a run."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, TypeVar

from warmup_insights.analysis.summary.ranks import copied, leading, rank_of
from warmup_insights.model.events import (
    Bucket,
    CaptureProgress,
    DefragRan,
    DefragStep,
    DefragWarmup,
    Event,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    LazyCapture,
    MemoryBudgetSet,
    Note,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.summary import (
    PHASES,
    AutotuneFacts,
    CaptureBar,
    CaptureFacts,
    CheckpointFacts,
    DefragFacts,
    DefragRunFacts,
    DefragStepFacts,
    GcFacts,
    GraphFacts,
    LazyCaptureFacts,
    NoteFacts,
    SamplerConfigFacts,
    SamplerFacts,
    SamplerStepFacts,
    UsageFacts,
)

MAX_ROWS = 10_000
"""Rows of one kind that a summary keeps; the events hold all."""
MAX_NOTES = 100
T = TypeVar("T")
_ORDER = {"completed": 3, "skipped": 2, "started": 1}


def _keep(by_rank: dict[int, T], rank: int, value: T | None) -> None:
    if value is not None:
        by_rank[rank] = value


@dataclass
class _Stage:
    """Started, completed or skipped, and how long it took, on one rank."""

    status: str | None = None
    started_at: float | None = None
    duration_s: float | None = None

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


@dataclass
class _SamplerRank(_Stage):
    batch_sizes: list[int] | None = None
    configs: dict[tuple[Any, ...], SamplerConfigFacts] = field(default_factory=dict)
    steps: list[SamplerStepFacts] = field(default_factory=list)


class Sampler:
    """What the sampler warm-up covered."""

    KINDS = (SamplerWarmup, SamplerConfig, SamplerStep)

    def __init__(self) -> None:
        self._by_rank: defaultdict[int, _SamplerRank] = defaultdict(_SamplerRank)

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        own = self._by_rank[rank_of(event)]
        match event:
            case SamplerWarmup():
                own.take(event.status, event.time, event.duration_s)
                own.batch_sizes = event.batch_sizes or own.batch_sizes
            case SamplerConfig() | SamplerStep():
                key = (event.temperature, event.top_p, event.top_k, event.batch_changed)
                own.configs.setdefault(key, copied(event, SamplerConfigFacts))
                if isinstance(event, SamplerStep) and len(own.steps) < MAX_ROWS:
                    own.steps.append(copied(event, SamplerStepFacts))

    def result(self) -> SamplerFacts | None:
        """The section; None when no event mentions the sampler."""
        own = leading(self._by_rank)
        if own is None:
            return None
        return SamplerFacts(
            status=own.status or "started",
            batch_sizes=own.batch_sizes,
            configs=len(own.configs) or None,
            duration_s=own.duration_s,
            steps=own.steps,
            configurations=list(own.configs.values()),
        )


@dataclass
class _DefragRank(_Stage):
    thresholds: list[int] | None = None
    reason: str | None = None
    steps: list[DefragStepFacts] = field(default_factory=list)
    runs: list[DefragRunFacts] = field(default_factory=list)


class Defrag:
    """What the defragmenter did at warm-up and while serving."""

    KINDS = (DefragWarmup, DefragStep, DefragRan)

    def __init__(self) -> None:
        self._by_rank: defaultdict[int, _DefragRank] = defaultdict(_DefragRank)

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        own = self._by_rank[rank_of(event)]
        match event:
            case DefragWarmup():
                own.take(event.status, event.time, event.duration_s)
                own.thresholds = event.thresholds or own.thresholds
                own.reason = event.reason or own.reason
            case DefragStep() if len(own.steps) < MAX_ROWS:
                own.steps.append(copied(event, DefragStepFacts))
            case DefragRan() if len(own.runs) < MAX_ROWS:
                own.runs.append(copied(event, DefragRunFacts))

    def result(self) -> DefragFacts | None:
        """The section; None when no event mentions the defragmenter."""
        own = leading(self._by_rank)
        if own is None:
            return None
        return DefragFacts(
            status=own.status,
            thresholds=own.thresholds,
            duration_s=own.duration_s,
            reason=own.reason,
            steps=own.steps,
            runs=own.runs,
        )


class Graphs:
    """CUDA graph captures, at start and while serving."""

    KINDS = (
        CaptureProgress, GraphsCaptured, GraphCaptured, GraphMemoryEstimated,
        LazyCapture, MemoryBudgetSet,
    )  # fmt: skip

    def __init__(self) -> None:
        self._bars: dict[int, dict[str, CaptureProgress]] = {}
        self._done: dict[int, GraphsCaptured] = {}
        self._single: dict[int, dict[tuple[str | None, Bucket], CaptureFacts]] = {}
        self._estimated: dict[int, int] = {}
        self._actual: dict[int, int] = {}
        self._reserved: dict[int, bool] = {}
        self._without: dict[int, float] = {}
        self._lazy: dict[int, list[LazyCaptureFacts]] = {}

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        rank = rank_of(event)
        match event:
            case CaptureProgress():
                bars = self._bars.setdefault(rank, {})
                if (
                    event.mode not in bars
                    or event.captured >= bars[event.mode].captured
                ):
                    bars[event.mode] = event
            case GraphsCaptured():
                self._done.setdefault(rank, event)
            case GraphCaptured() if event.phase not in PHASES:
                single = self._single.setdefault(rank, {})
                single.setdefault(
                    (event.mode, event.bucket), copied(event, CaptureFacts)
                )
            case GraphMemoryEstimated():
                _keep(self._estimated, rank, event.estimated_bytes)
                _keep(self._reserved, rank, event.is_reserved)
                _keep(self._without, rank, event.utilization_without)
                _keep(self._actual, rank, event.actual_bytes)
            case MemoryBudgetSet():
                _keep(self._actual, rank, self._actual.get(rank, event.graph_bytes))
            case LazyCapture():
                rows = self._lazy.setdefault(rank, [])
                if len(rows) < MAX_ROWS:
                    rows.append(copied(event, LazyCaptureFacts))

    def result(self) -> GraphFacts | None:
        """The section; None when no event mentions CUDA graphs."""
        parts = (
            self._bars, self._done, self._single, self._estimated, self._actual, self._lazy,
        )  # fmt: skip
        if not any(parts):
            return None
        done = leading(self._done)
        return GraphFacts(
            captured=self._captured(done),
            duration_s=done.duration_s if done is not None else None,
            memory_bytes=self._memory(done),
            estimated_bytes=leading(self._estimated),
            is_reserved=leading(self._reserved),
            utilization_without=leading(self._without),
            lazy=leading(self._lazy) or [],
            captures=list((leading(self._single) or {}).values()),
            bars=[
                copied(bar, CaptureBar) for bar in (leading(self._bars) or {}).values()
            ],
        )

    def _captured(self, done: GraphsCaptured | None) -> int | None:
        if done is not None and done.count is not None:
            return done.count
        bars, single = leading(self._bars), leading(self._single)
        if bars:
            return sum(bar.captured for bar in bars.values())
        return len(single) if single is not None else None

    def _memory(self, done: GraphsCaptured | None) -> int | None:
        if done is not None and done.memory_bytes is not None:
            return done.memory_bytes
        return leading(self._actual)


class GarbageCollection:
    """The share of the garbage collector in the bucket steps, and whether it was frozen."""

    KINDS = (WarmupStep, WarmupFinished, Note)

    def __init__(self) -> None:
        self._by_rank: dict[int, list[float]] = {}
        """Rank to seconds in the garbage collector and seconds of the same steps."""
        self._warmup: dict[int, float] = {}
        self._frozen = False
        self._freeze_s: float | None = None

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        if isinstance(event, WarmupStep):
            if event.gc_s is not None and event.duration_s is not None:
                sums = self._by_rank.setdefault(rank_of(event), [0.0, 0.0])
                sums[0] += event.gc_s
                sums[1] += event.duration_s
        elif isinstance(event, WarmupFinished):
            _keep(self._warmup, rank_of(event), event.gc_s)
        elif isinstance(event, Note) and event.topic == "gc_freeze":
            self._frozen = True
            seconds = event.values.get("duration_s")
            if isinstance(seconds, int | float) and self._freeze_s is None:
                self._freeze_s = float(seconds)

    def result(self) -> GcFacts | None:
        """The section; None when nothing is known of the garbage collector."""
        sums = leading(self._by_rank)
        if sums is None and not self._frozen and not self._warmup:
            return None
        seconds, steps_s = sums if sums is not None else (None, None)
        share = None
        if seconds is not None and steps_s:
            share = min(1.0, seconds / steps_s)
        return GcFacts(
            seconds=seconds,
            share=share,
            steps_s=steps_s,
            warmup_s=leading(self._warmup),
            frozen=self._frozen,
            freeze_s=self._freeze_s,
        )


class Notes:
    """Collects notes, and the values of those that the summary has fields for: the
    checkpoint, tuned kernels, the shape of the profiling run, use of the cache."""

    KINDS = (Note,)

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], int] = {}
        self._checkpoints: dict[int, list[dict[str, Any]]] = {}
        self.autotune: AutotuneFacts | None = None
        self.usage: UsageFacts | None = None
        self.profile_shape: Bucket | None = None

    def add(self, event: Note) -> None:
        """Take a note, in the order of the run."""
        if len(self._counts) < MAX_NOTES:
            key = (event.topic, event.text)
            self._counts[key] = self._counts.get(key, 0) + event.count
        values = event.values
        if event.topic == "checkpoint" and isinstance(values.get("size_bytes"), int):
            self._checkpoints.setdefault(rank_of(event), []).append(values)
        elif event.topic == "autotune" and "path" in values:
            self.autotune = self.autotune or AutotuneFacts(
                new=int(values["new"]),
                previous=int(values["previous"]),
                path=str(values["path"]),
            )
        elif event.topic == "usage" and "usage_percent" in values:
            self.usage = UsageFacts(
                num_lines=int(values["num_lines"]),
                usage_percent=float(values["usage_percent"]),
                running=int(values["running"]),
                waiting=int(values["waiting"]),
            )
        elif event.topic == "profile_run" and values.get("shape"):
            self.profile_shape = tuple(values["shape"])

    def result(self) -> list[NoteFacts]:
        """Distinct notes, and how often each came."""
        return [
            NoteFacts(topic=topic, text=text, count=count)
            for (topic, text), count in self._counts.items()
        ]

    def checkpoint(self) -> CheckpointFacts | None:
        """The checkpoints that the leading rank states; memory as before the first.

        One of the same size again is the same files: a draft model that is part of them.
        """
        read = leading(self._checkpoints)
        if not read:
            return None
        return CheckpointFacts(
            size_bytes=sum({values["size_bytes"] for values in read}),
            available_bytes=read[0].get("available_bytes"),
            filesystem=read[0].get("filesystem"),
        )
