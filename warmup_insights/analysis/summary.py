"""The run summary: what commands, dashboard, exports and gates all show.

Public and versioned (`show RUN --json`). It is made from events alone, one pass, so it
does not matter whether a recorder or a log gave them. Unknown is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from warmup_insights.analysis.coverage import PHASES, Coverage
from warmup_insights.analysis.identity import KINDS, Identity
from warmup_insights.analysis.memory import MemoryBudget
from warmup_insights.analysis.steps import DefragSection, GraphSection, SamplerSection
from warmup_insights.analysis.timeline import Timeline
from warmup_insights.model.events import (
    BenchmarkResult,
    BucketMiss,
    BucketsGenerated,
    BucketsOmitted,
    CaptureProgress,
    CaptureSummary,
    DefragRan,
    DefragStep,
    DefragWarmup,
    Event,
    GraphBudgetSet,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    GraphSkipped,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.run import RunRecord

SCHEMA = 1
MAX_NOTES = 100

_MEMORY = (MemoryMeasured, MemoryBudgetSet, KVCacheAllocated, WarmupFinished)
_COVERAGE = (
    BucketsGenerated, BucketsOmitted, WarmupStep, GraphBudgetSet, GraphCaptured,
    GraphSkipped, CaptureSummary, BucketMiss, WarmupFinished, Note,
)  # fmt: skip
_SAMPLER = (SamplerWarmup, SamplerConfig, SamplerStep)
_DEFRAG = (DefragWarmup, DefragStep, DefragRan)
_GRAPHS = (
    CaptureProgress, GraphsCaptured, GraphCaptured, GraphMemoryEstimated, LazyCapture,
)  # fmt: skip
# Kinds that only a process with a device prints: whoever prints them is a rank.
_OF_A_RANK = (WarmupStep, MemoryMeasured, CaptureSummary, GraphsCaptured, CaptureProgress,
              SamplerWarmup, DefragWarmup, GraphMemoryEstimated)  # fmt: skip


@dataclass(frozen=True)
class RunSummary:
    """A summary and the rows of `bucket_summaries`."""

    summary: dict[str, Any]
    bucket_rows: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """The public summary."""
        return self.summary


class Summarizer:
    """Takes the events of one run in order; `result` gives the summary."""

    def __init__(self) -> None:
        self.identity = Identity()
        self.timeline = Timeline()
        self.memory = MemoryBudget()
        self.coverage = Coverage()
        self.sampler = SamplerSection()
        self.defrag = DefragSection()
        self.graphs = GraphSection()
        self._benchmarks: list[dict[str, Any]] = []
        self._notes: dict[tuple[str, str], int] = {}
        self._ranks: set[int | None] = set()
        self._routes: dict[type[Event], tuple[Callable[[Any], None], ...]] = {}

    def add(self, event: Event) -> None:
        """Take notice of an event, in the order of the run."""
        self.add_all((event,))

    def add_all(self, events: Iterable[Event]) -> None:
        """Take notice of events, in the order of the run."""
        routes, ranks = self._routes, self._ranks
        for event in events:
            kind = type(event)
            for take in routes.get(kind) or self._new_routes(kind):
                take(event)
            rank = event.rank
            if rank not in ranks and (rank is not None or kind in _OF_A_RANK):
                ranks.add(rank)

    def _new_routes(self, kind: type[Event]) -> tuple[Callable[[Any], None], ...]:
        """What takes notice of the events of one class."""
        routes = self._routes[kind] = tuple(self._routes_for(kind))
        return routes

    def _routes_for(self, kind: type[Event]) -> Iterable[Callable[[Any], None]]:
        if kind in KINDS:
            yield self.identity.add
        yield self.timeline.route(kind)
        if kind in _COVERAGE:
            yield self.coverage.route(kind)
        table = (
            (_MEMORY, self.memory), (_SAMPLER, self.sampler), (_DEFRAG, self.defrag),
            (_GRAPHS, self.graphs),
        )  # fmt: skip
        for kinds, section in table:
            if kind in kinds:
                yield section.add
        if kind is BenchmarkResult:
            yield self._measured
        elif kind is Note:
            yield self._noted

    def _measured(self, event: BenchmarkResult) -> None:
        self._benchmarks.append(event.values)

    def _noted(self, event: Note) -> None:
        if len(self._notes) < MAX_NOTES:
            key = (event.topic, event.text)
            self._notes[key] = self._notes.get(key, 0) + event.count

    def result(self, run: RunRecord) -> RunSummary:
        """The summary of what was seen so far."""
        identity, coverage = self.identity, self.coverage
        config = identity.config()
        memory = self.memory.result(config)
        if run.source_kind == "recorder":
            # A recorder stamps its events itself; only logs leave the zone open.
            self.timeline.timezone = "UTC"
        others = coverage.other_phases()
        buckets = {
            phase: section
            for phase in PHASES
            if (section := coverage.phase(phase)) is not None
        }
        summary = {
            "schema": SCHEMA,
            "run_id": run.run_id,
            "label": run.label,
            "source": {"kind": run.source_kind, "name": run.source_name},
            "engine": {"name": identity.engine, "version": identity.version},
            "device": {
                "kind": identity.device_kind,
                "name": identity.device_name,
                "total_bytes": memory["total_bytes"] if memory else None,
            },
            "synthetic": identity.synthetic or run.synthetic,
            "model": identity.model,
            "ranks": len(self._ranks) or 1,
            "config": config,
            "status": identity.status(is_recorded=run.source_kind == "recorder"),
            "failure": identity.failure(coverage.last_step),
            "time": self.timeline.result(),
            "memory": memory,
            "buckets": buckets or None,
            "multimodal": others.get("multimodal"),
            "other_phases": {k: v for k, v in others.items() if k != "multimodal"},
            "sampler": self.sampler.result(),
            "defrag": self.defrag.result(),
            "graphs": self.graphs.result(),
            "misses": coverage.misses(),
            "benchmarks": self._benchmarks,
            "notes": [
                {"topic": topic, "text": text, "count": count}
                for (topic, text), count in self._notes.items()
            ],
        }
        return RunSummary(summary, coverage.rows())


def summarize(run: RunRecord, events: Iterable[Event]) -> RunSummary:
    """The summary of a run from its events, in one pass."""
    summarizer = Summarizer()
    summarizer.add_all(events)
    return summarizer.result(run)
