"""What one run tells about its costs: the material that a plan is made of.

Only the lowest rank counts. Sums are kept as sums: a log that leaves out nine of ten
lines still says what the ten took together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from warmup_insights.model.events import (
    Bucket,
    BucketsGenerated,
    CaptureSummary,
    ConfigRecorded,
    DefragWarmup,
    Event,
    GraphBudgetSet,
    GraphCaptured,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    RunStarted,
    SamplerStep,
    SamplerWarmup,
    WarmupFinished,
    WarmupStep,
)


@dataclass
class Step:
    """One eager run or one capture, as far as it is known."""

    phase: str
    bucket: Bucket
    index: int | None
    time: float | None
    duration_s: float | None
    memory_bytes: int | None
    free_bytes: int | None


@dataclass
class Evidence:
    """Facts of one run, of its lowest rank; None where the run does not say."""

    engine: str | None = None
    version: str | None = None
    synthetic: bool = False
    is_log: bool = False
    config: dict[str, Any] = field(default_factory=dict)
    budget: MemoryBudgetSet | None = None
    cache: KVCacheAllocated | None = None
    cache_delta_bytes: int | None = None
    profile_bytes: int | None = None
    free_after_cache_bytes: int | None = None
    graph_budget: GraphBudgetSet | None = None
    buckets: dict[str, list[Bucket]] = field(default_factory=dict)
    eager: list[Step] = field(default_factory=list)
    captures: list[Step] = field(default_factory=list)
    used_bytes: dict[str, int] = field(default_factory=dict)
    captured: dict[str, set[Bucket]] = field(default_factory=dict)
    graphs_s: float | None = None
    sampler_s: float | None = None
    defrag_s: float | None = None
    warmup_s: float | None = None
    warmup_bytes: int | None = None

    def number(self, *names: str) -> float | None:
        """The first of these settings that is a number."""
        for name in names:
            value = self.config.get(name)
            if isinstance(value, bool):
                continue
            try:
                return float(value)  # type: ignore[arg-type]
            except (TypeError, ValueError):
                continue
        return None


class EvidenceCollector:
    """Takes the events of a run, in order; `result` gives the facts so far.

    `is_log` says that figures are rounded.
    """

    def __init__(self, *, is_log: bool = False) -> None:
        self._common = _Collector(Evidence(is_log=is_log))
        self._by_rank: dict[int, _Collector] = {}

    def add(self, event: Event) -> None:
        """Take notice of an event."""
        if isinstance(event, RunStarted | ConfigRecorded):
            self._common.add(event)
            return
        rank = -1 if event.rank is None else event.rank
        collector = self._by_rank.get(rank)
        if collector is None:
            collector = self._by_rank[rank] = _Collector(Evidence())
        collector.add(event)

    def result(self) -> Evidence:
        """The facts of the lowest rank that says how memory is divided."""
        ranks = self._by_rank
        spoken = [rank for rank in ranks if ranks[rank].speaks_of_memory]
        evidence = self._common.evidence
        if ranks:
            _merge(evidence, ranks[min(spoken or ranks)].evidence)
        return evidence


def collect_evidence(events: Iterable[Event], *, is_log: bool = False) -> Evidence:
    """The facts in the events of a run, in one pass. `is_log` says figures are rounded."""
    collector = EvidenceCollector(is_log=is_log)
    for event in events:
        collector.add(event)
    return collector.result()


def _merge(into: Evidence, other: Evidence) -> None:
    for name in vars(other):
        if name not in ("engine", "version", "synthetic", "is_log", "config"):
            setattr(into, name, getattr(other, name))


class _Collector:
    """Takes the events of one rank, in order."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._captured_in_order = False
        self._sampler_s: float | None = None

    @property
    def speaks_of_memory(self) -> bool:
        """Whether this rank said how its memory is divided."""
        return self.evidence.budget is not None

    def add(self, event: Event) -> None:
        """Take notice of an event."""
        take = _TAKERS.get(type(event))
        if take is not None:
            take(self, event)

    def started(self, event: Any) -> None:
        """Who runs, and with which settings."""
        facts = self.evidence
        facts.engine = event.engine or facts.engine
        facts.version = event.version or facts.version
        if isinstance(event, RunStarted):
            facts.synthetic = facts.synthetic or event.synthetic
            return
        facts.config.update(event.settings)
        facts.config.update(event.environment)

    def budgeted(self, event: Any) -> None:
        """Free memory was divided."""
        self.evidence.budget = event

    def measured(self, event: Any) -> None:
        """A stage said what it took."""
        facts = self.evidence
        if event.stage == "profile_run":
            facts.profile_bytes = event.delta_bytes
        elif event.stage == "kv_cache":
            facts.cache_delta_bytes = event.delta_bytes
            facts.free_after_cache_bytes = event.free_bytes
            if event.free_bytes is None and event.total_bytes and event.used_bytes:
                facts.free_after_cache_bytes = event.total_bytes - event.used_bytes

    def allocated(self, event: Any) -> None:
        """The KV cache exists."""
        old = self.evidence.cache
        if old is None or old.num_blocks is None or event.num_blocks is not None:
            self.evidence.cache = event

    def generated(self, event: Any) -> None:
        """A list of buckets; a later one of the same phase replaces it."""
        if event.buckets:
            self.evidence.buckets[event.phase] = sorted(set(event.buckets))

    def stepped(self, event: Any) -> None:
        """A bucket ran."""
        if event.bucket is None or not event.is_finished:
            return
        step = Step(
            event.phase, event.bucket, event.index, event.time, event.duration_s,
            event.memory_bytes, event.free_before_bytes,
        )  # fmt: skip
        if event.mode != "graph":
            self.evidence.eager.append(step)
        elif not self._captured_in_order:
            # A recorder tells captures by themselves; a log only as steps.
            self.evidence.captures.append(step)

    def captured(self, event: Any) -> None:
        """A graph was recorded."""
        facts = self.evidence
        self._captured_in_order = True
        facts.captured.setdefault(event.phase, set()).add(event.bucket)
        facts.captures.append(
            Step(
                event.phase,
                event.bucket,
                event.index,
                event.time,
                event.duration_s,
                event.memory_bytes,
                None,
            )
        )

    def divided(self, event: Any) -> None:
        """Memory was set aside for graphs."""
        self.evidence.graph_budget = event

    def summarised(self, event: Any) -> None:
        """What the log reports as captured."""
        facts = self.evidence
        if event.used_bytes is not None:
            facts.used_bytes[event.phase] = event.used_bytes
        if event.buckets is not None:
            facts.captured.setdefault(event.phase, set()).update(event.buckets)

    def done(self, event: Any) -> None:
        """All captures are over."""
        self.evidence.graphs_s = event.duration_s

    def sampled(self, event: Any) -> None:
        """The sampler warm-up, or one step of it."""
        facts = self.evidence
        if isinstance(event, SamplerStep):
            self._sampler_s = (self._sampler_s or 0.0) + (event.duration_s or 0.0)
        elif event.duration_s is not None:
            facts.sampler_s = event.duration_s
        elif event.status == "completed" and facts.sampler_s is None:
            facts.sampler_s = self._sampler_s

    def defragmented(self, event: Any) -> None:
        """The defragmenter warm-up."""
        if event.duration_s is not None:
            self.evidence.defrag_s = event.duration_s

    def warmed(self, event: Any) -> None:
        """Warm-up is over."""
        self.evidence.warmup_s = event.duration_s
        self.evidence.warmup_bytes = event.allocated_bytes


_TAKERS: dict[type[Event], Any] = {
    RunStarted: _Collector.started,
    ConfigRecorded: _Collector.started,
    MemoryBudgetSet: _Collector.budgeted,
    MemoryMeasured: _Collector.measured,
    KVCacheAllocated: _Collector.allocated,
    BucketsGenerated: _Collector.generated,
    WarmupStep: _Collector.stepped,
    GraphCaptured: _Collector.captured,
    GraphBudgetSet: _Collector.divided,
    CaptureSummary: _Collector.summarised,
    GraphsCaptured: _Collector.done,
    SamplerWarmup: _Collector.sampled,
    SamplerStep: _Collector.sampled,
    DefragWarmup: _Collector.defragmented,
    WarmupFinished: _Collector.warmed,
}
