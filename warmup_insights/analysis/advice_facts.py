"""Everything that advice may be based on: one run's summary, buckets and events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from warmup_insights.analysis.plan_evidence import Evidence, EvidenceCollector
from warmup_insights.analysis.planning import Planner
from warmup_insights.errors import InputError
from warmup_insights.model.events import (
    Bucket,
    BucketUsed,
    CompileFinished,
    Event,
    WarmupStep,
)

Summary = Mapping[str, Any]

MAX_STEPS = 100_000


@dataclass(frozen=True)
class Compilation:
    """One compilation of the lowest rank that told of one."""

    what: str
    duration_s: float
    from_cache: bool


@dataclass
class RunFacts:
    """One run, and the runs that it may be seen among.

    `history` are summaries of other runs of the same model on the same device.
    """

    summary: Summary
    bucket_rows: Sequence[Mapping[str, Any]] = ()
    evidence: Evidence = field(default_factory=Evidence)
    steps: Sequence[WarmupStep] = ()
    compilations: Sequence[Compilation] = ()
    used: Mapping[str, set[Bucket]] = field(default_factory=dict)
    history: Sequence[Summary] = ()

    @cached_property
    def planner(self) -> Planner | None:
        """A planner for this run; None when the run does not tell enough."""
        try:
            return Planner(self.evidence)
        except InputError:
            return None

    @property
    def engine(self) -> str | None:
        """Name of the engine."""
        name = (self.summary.get("engine") or {}).get("name")
        return name if isinstance(name, str) else None

    @property
    def config(self) -> Mapping[str, Any]:
        """The settings, flat."""
        return self.summary.get("config") or {}

    def memory(self, name: str) -> float | None:
        """A figure of the memory section."""
        value = (self.summary.get("memory") or {}).get(name)
        return value if isinstance(value, int | float) else None

    def phase(self, phase: str) -> Mapping[str, Any]:
        """The section of a phase; empty when there is none."""
        return (self.summary.get("buckets") or {}).get(phase) or {}

    @property
    def block_bytes(self) -> float | None:
        """Bytes of one KV block, roughly: the cache divided by its blocks."""
        cache, blocks = self.memory("kv_cache_bytes"), self.memory("num_kv_blocks")
        return cache / blocks if cache and blocks and cache > 0 else None

    def blocks_in(self, num_bytes: float) -> int | None:
        """How many KV blocks so many bytes would be."""
        size = self.block_bytes
        return int(num_bytes / size) if size else None


def collect_facts(
    summary: Summary,
    bucket_rows: Sequence[Mapping[str, Any]],
    events: Iterable[Event],
    history: Sequence[Summary] = (),
) -> RunFacts:
    """The facts of a run, from one pass over its events."""
    is_log = (summary.get("source") or {}).get("kind") == "log"
    collector = EvidenceCollector(is_log=is_log)
    steps: dict[int, list[WarmupStep]] = {}
    compilations: dict[int, list[Compilation]] = {}
    used: dict[str, set[Bucket]] = {}
    for event in events:
        collector.add(event)
        rank = -1 if event.rank is None else event.rank
        if isinstance(event, WarmupStep):
            own = steps.setdefault(rank, [])
            if len(own) < MAX_STEPS:
                own.append(event)
        elif isinstance(event, CompileFinished) and event.duration_s is not None:
            compilations.setdefault(rank, []).append(
                Compilation(event.what, event.duration_s, event.from_cache)
            )
        elif isinstance(event, BucketUsed):
            used.setdefault(event.phase, set()).add(event.bucket)
    return RunFacts(
        summary,
        bucket_rows,
        collector.result(),
        _lowest(steps),
        _lowest(compilations),
        used,
        history,
    )


def _lowest(by_rank: Mapping[int, list[Any]]) -> Sequence[Any]:
    return by_rank[min(by_rank)] if by_rank else ()
