"""Sampler, defragmenter, CUDA graphs, compilation and garbage collection of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from warmup_insights.analysis.summary.ranks import leading, rank_of
from warmup_insights.model.events import (
    Bucket,
    CaptureProgress,
    CompileFinished,
    DefragRan,
    DefragStep,
    DefragWarmup,
    EngineInitialized,
    Event,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    LazyCapture,
    MemoryBudgetSet,
    Note,
    PhaseMarked,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.summary import (
    PHASES,
    CaptureBar,
    CaptureFacts,
    CompileFacts,
    CompilePart,
    DefragFacts,
    DefragRunFacts,
    DefragStepFacts,
    GcFacts,
    GraphFacts,
    LazyCaptureFacts,
    Part,
    SamplerConfigFacts,
    SamplerFacts,
    SamplerStepFacts,
)

SAMPLER_KINDS = (SamplerWarmup, SamplerConfig, SamplerStep)
DEFRAG_KINDS = (DefragWarmup, DefragStep, DefragRan)
GRAPH_KINDS = (
    CaptureProgress, GraphsCaptured, GraphCaptured, GraphMemoryEstimated, LazyCapture,
    MemoryBudgetSet,
)  # fmt: skip
COMPILE_KINDS = (CompileFinished, EngineInitialized, Note, PhaseMarked)
GC_KINDS = (WarmupStep, WarmupFinished, Note)
MAX_ROWS = 10_000
"""Rows of one kind that a summary keeps; the events hold all."""
T = TypeVar("T")
_ORDER = {"completed": 3, "skipped": 2, "started": 1}


def copied(event: Event, kind: type[Part]) -> Any:
    """The fields of an event that a row has."""
    return kind(**{name: getattr(event, name) for name in kind.__struct_fields__})


def _keep(by_rank: dict[int, T], rank: int, value: T | None) -> None:
    if value is not None:
        by_rank[rank] = value


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


class _SamplerRank(_Stage):
    def __init__(self) -> None:
        super().__init__()
        self.batch_sizes: list[int] | None = None
        self.configs: dict[tuple[float, float, int, bool], SamplerConfigFacts] = {}
        self.steps: list[SamplerStepFacts] = []


class Sampler:
    """What the sampler warm-up covered."""

    def __init__(self) -> None:
        self._by_rank: dict[int, _SamplerRank] = {}

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        own = self._by_rank.setdefault(rank_of(event), _SamplerRank())
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


class _DefragRank(_Stage):
    def __init__(self) -> None:
        super().__init__()
        self.thresholds: list[int] | None = None
        self.reason: str | None = None
        self.steps: list[DefragStepFacts] = []
        self.runs: list[DefragRunFacts] = []


class Defrag:
    """What the defragmenter did at warm-up and while serving."""

    def __init__(self) -> None:
        self._by_rank: dict[int, _DefragRank] = {}

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        own = self._by_rank.setdefault(rank_of(event), _DefragRank())
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


class Compilation:
    """What was compiled before the server was ready, and what came from a cache."""

    def __init__(self) -> None:
        self._parts: dict[int, list[CompilePart]] = {}
        self._stated_s: float | None = None
        self._directory: str | None = None
        self._saved_to: str | None = None
        self._key: dict[str, str] = {}
        self._factors: dict[str, str] = {}

    def add(self, event: Event) -> None:
        """Take an event of the start-up, in the order of the run."""
        if isinstance(event, PhaseMarked):
            if event.name == "compile" and event.edge == "start":
                self._directory = self._directory or event.path
            elif event.name == "compile":
                self._saved_to = self._saved_to or event.path
        elif isinstance(event, Note):
            self._noted(event)
        elif isinstance(event, EngineInitialized):
            if event.compile_s is not None:
                self._stated_s = event.compile_s
        elif isinstance(event, CompileFinished):
            parts = self._parts.setdefault(rank_of(event), [])
            if len(parts) < MAX_ROWS:
                parts.append(copied(event, CompilePart))

    def result(self) -> CompileFacts | None:
        """The section; None when no event mentions a compilation."""
        parts = leading(self._parts) or []
        known = (
            parts, self._directory, self._saved_to, self._key, self._factors,
        )  # fmt: skip
        if not any(known) and self._stated_s is None:
            return None
        loaded = [part for part in parts if part.from_cache]
        made = [
            part
            for part in parts
            if part.from_cache is False and not part.what.startswith("total")
        ]
        cache = None
        if loaded:
            graphs = [part for part in made if part.what not in ("dynamo", "aot")]
            cache = "partial" if graphs else "hit"
        elif made:
            cache = "miss"
        return CompileFacts(
            seconds=self._seconds(parts), cache=cache, parts=parts,
            directory=self._directory, saved_to=self._saved_to, key=self._key,
            factors=self._factors,
        )  # fmt: skip

    def _noted(self, event: Note) -> None:
        """The cache key of the first model: each model of several has its own."""
        if event.topic == "compile_cache_key":
            self._key = self._key or dict(event.values.get("hashes", {}))
            self._factors = self._factors or dict(event.values.get("factors", {}))

    def _seconds(self, parts: Iterable[CompilePart]) -> float | None:
        """As the engine sums it up; else its totals; else the parts.

        `total_with_profile_run` is more than compilation and is left out.
        """
        if self._stated_s is not None:
            return self._stated_s
        timed = [
            part
            for part in parts
            if part.duration_s is not None and part.what != "total_with_profile_run"
        ]
        totals = [part for part in timed if part.what == "total"]
        # A function that was compiled as a whole holds its graphs.
        whole = [part for part in timed if part.what == "aot" and not part.from_cache]
        known = [part.duration_s or 0.0 for part in totals or whole or timed]
        return sum(known) if known else None


class GarbageCollection:
    """The share of the garbage collector in the bucket steps, and whether it was frozen."""

    def __init__(self) -> None:
        self._by_rank: dict[int, list[float]] = {}
        """Rank to seconds in the collector and seconds of the same steps."""
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
