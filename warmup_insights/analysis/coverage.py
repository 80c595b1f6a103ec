"""What became of every bucket: generated, omitted, warmed, captured, missed.

`captured` is what the evidence supports. Only vllm-fork V0 to 2025-07 prints the list
of buckets that were really captured; a recorder counts captures; everything else that
says "captured" prints the length of the bucket list (vllm-gaudi
`log_graph_warmup_summary`), which goes to `captured_reported` alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from warmup_insights.model.events import (
    Bucket,
    BucketMiss,
    BucketsGenerated,
    BucketsOmitted,
    CaptureSummary,
    Event,
    GraphBudgetSet,
    GraphCaptured,
    GraphSkipped,
    Note,
    WarmupFinished,
    WarmupStep,
)

PHASES = ("prompt", "decode")


@dataclass(slots=True)
class _Fate:
    """What happened to one bucket of one phase on one rank."""

    warmed: bool = False
    captured: bool = False
    skipped: bool = False
    missed: int = 0
    generated: bool = False
    index: int | None = None
    duration_s: float | None = None
    memory_bytes: int | None = None
    executed: Bucket | None = None

    def cost(self, duration_s: float | None, memory_bytes: int | None) -> None:
        """Add what a step or a capture took."""
        if duration_s is not None:
            self.duration_s = (self.duration_s or 0.0) + duration_s
        if memory_bytes is not None:
            self.memory_bytes = (self.memory_bytes or 0) + memory_bytes


@dataclass(slots=True)
class _PhaseFacts:
    """Everything about one phase on one rank."""

    fates: dict[Bucket, _Fate] = field(default_factory=lambda: defaultdict(_Fate))
    generated: int | None = None
    total: int | None = None
    listed: list[Bucket] | None = None
    omitted_counted: int | None = None
    omitted_listed: int | None = None
    steps: set[tuple[str | None, int | None, Bucket | None]] = field(
        default_factory=set
    )
    reached_end: bool = False
    has_hole: bool = False
    last_index: int = 0
    summary: CaptureSummary | None = None
    captured: set[Bucket] = field(default_factory=set)
    capture_bytes: int | None = None
    saw_captures: bool = False


@dataclass(slots=True)
class _Miss:
    """A shape that no bucket covered."""

    fallback: Bucket | None = None
    counts: dict[int, int] = field(default_factory=dict)
    """How often, by rank."""


class Coverage:
    """Collects the fates of buckets; `phase` gives a section of the summary."""

    def __init__(self) -> None:
        self._facts: dict[tuple[int, str], _PhaseFacts] = defaultdict(_PhaseFacts)
        self._budgets: dict[int, GraphBudgetSet] = {}
        self._misses: dict[tuple[str, Bucket], _Miss] = {}
        self._fallbacks: set[tuple[str, Bucket]] = set()
        self.is_finished = False
        self.is_elided = False
        self.last_step: WarmupStep | None = None

    def route(self, kind: type[Event]) -> Callable[[Any], None]:
        """What takes notice of the events of one class."""
        if kind is BucketMiss:
            return self._missed
        if kind is WarmupStep:
            return self._stepped
        return self._of_a_phase if kind in _OF_A_PHASE else self._of_the_run

    def _of_a_phase(self, event: Any) -> None:
        rank = -1 if event.rank is None else event.rank
        _OF_A_PHASE[type(event)](self._facts[rank, event.phase], event)

    def _stepped(self, event: WarmupStep) -> None:
        self.last_step = event
        rank = -1 if event.rank is None else event.rank
        _warmed(self._facts[rank, event.phase], event)

    def _of_the_run(self, event: Event) -> None:
        match event:
            case GraphBudgetSet():
                self._budgets[-1 if event.rank is None else event.rank] = event
            case WarmupFinished() if not event.skipped:
                self.is_finished = True
            case Note() if event.topic == "elided":
                self.is_elided = True

    def _missed(self, event: BucketMiss) -> None:
        key = (event.phase, event.shape)
        if key in self._fallbacks:
            # The second warning about one step: its fallback bucket is new as well.
            return
        miss = self._misses.get(key)
        if miss is None:
            miss = self._misses[key] = _Miss()
        fallback = event.fallback
        if fallback is not None:
            self._fallbacks.add((event.phase, fallback))
            miss.fallback = fallback
        rank = -1 if event.rank is None else event.rank
        miss.counts[rank] = miss.counts.get(rank, 0) + event.count

    @property
    def ranks(self) -> set[int]:
        """Ranks that said something about buckets; -1 is the one without a number."""
        return {rank for rank, _ in self._facts} | set(self._budgets)

    def misses(self) -> list[dict[str, Any]]:
        """Distinct shapes that no bucket covered, with the lowest count of any rank."""
        return [
            {
                "phase": phase,
                "shape": list(shape),
                "fallback": None if miss.fallback is None else list(miss.fallback),
                "count": min(miss.counts.values()),
            }
            for (phase, shape), miss in self._misses.items()
        ]

    def phase(self, phase: str) -> dict[str, Any] | None:
        """The section of one phase; None when no line mentions it."""
        facts = [self._facts[key] for key in sorted(self._facts) if key[1] == phase]
        missed = sum(1 for key in self._misses if key[0] == phase)
        budget = self._budget(phase)
        if not facts and not missed and budget is None:
            return None
        generated = _lowest(_generated_count(item) for item in facts)
        captured_lists = [c for c in map(_captured_buckets, facts) if c is not None]
        captured = _lowest(len(buckets) for buckets in captured_lists)
        fewest = min(captured_lists, key=len) if captured_lists else None
        first = facts[0] if facts else _PhaseFacts()
        return {
            "generated": generated,
            "omitted": _lowest(_omitted_count(item) for item in facts),
            "warmed": _lowest(self._warmed_count(item) for item in facts),
            "captured": captured,
            "captured_reported": _lowest(
                item.summary.captured_reported if item.summary else None
                for item in facts
            ),
            "capture_percent": _percent(captured, generated, first.summary),
            "graph_budget_bytes": budget,
            "graph_used_bytes": _used(first),
            "buckets": [list(bucket) for bucket in first.listed or []],
            "captured_buckets": (
                None if fewest is None else [list(bucket) for bucket in sorted(fewest)]
            ),
            "missed": missed,
        }

    def _budget(self, phase: str) -> int | None:
        for rank in sorted(self._budgets):
            budget = self._budgets[rank]
            value = budget.prompt_bytes if phase == "prompt" else budget.decode_bytes
            if value is not None and phase in PHASES:
                return value
        return None

    def _warmed_count(self, facts: _PhaseFacts) -> int | None:
        """Distinct buckets that ran; unknown when lines were cut out between them."""
        if not facts.steps:
            return None
        seen = len({(index, bucket) for _, index, bucket in facts.steps})
        plain = {(i, b) for mode, i, b in facts.steps if mode != "graph"}
        seen = len(plain) or seen
        if not facts.has_hole and not self.is_elided:
            return seen
        return facts.total if facts.reached_end or self.is_finished else None

    def other_phases(self) -> dict[str, dict[str, Any]]:
        """Generated and warmed of the rarer kinds: multimodal, unified, pooler, ..."""
        names = sorted({phase for _, phase in self._facts} - set(PHASES))
        result = {}
        for name in names:
            facts = [self._facts[key] for key in sorted(self._facts) if key[1] == name]
            result[name] = {
                "generated": _lowest(_generated_count(item) for item in facts),
                "warmed": _lowest(self._warmed_count(item) for item in facts),
            }
        return result

    def rows(self) -> list[dict[str, Any]]:
        """One row per phase and bucket, as the lowest rank saw it."""
        rows = []
        for phase in sorted({phase for _, phase in self._facts}):
            ranks = sorted(rank for rank, name in self._facts if name == phase)
            facts = self._facts[ranks[0], phase]
            for bucket in facts.listed or []:
                facts.fates[bucket].generated = True
            for (name, shape), miss in self._misses.items():
                if name == phase:
                    facts.fates[shape].missed = min(miss.counts.values())
            rows += [_row(phase, b, fate) for b, fate in sorted(facts.fates.items())]
        known = {(row["phase"], tuple(row["bucket"])) for row in rows}
        for (phase, shape), miss in self._misses.items():
            if (phase, shape) not in known:
                rows.append(_row(phase, shape, _Fate(missed=min(miss.counts.values()))))
        return rows


def _generated(facts: _PhaseFacts, event: BucketsGenerated) -> None:
    facts.generated = event.count
    if event.buckets or facts.listed is None:
        facts.listed = sorted(set(event.buckets))


def _omitted(facts: _PhaseFacts, event: BucketsOmitted) -> None:
    if event.buckets:
        facts.omitted_listed = (facts.omitted_listed or 0) + len(event.buckets)
    elif event.count is not None:
        facts.omitted_counted = event.count


def _omitted_count(facts: _PhaseFacts) -> int | None:
    if facts.omitted_counted is not None:
        return facts.omitted_counted
    return facts.omitted_listed


def _warmed(facts: _PhaseFacts, event: WarmupStep) -> None:
    index, mode = event.index, event.mode
    if event.total is not None:
        facts.total = event.total
    key = (mode, index, event.bucket)
    if index is not None and mode != "graph":
        if index not in (facts.last_index, facts.last_index + 1, 1):
            facts.has_hole = True
        facts.last_index = index
    if index == event.total:
        facts.reached_end = True
    is_repeat = key in facts.steps
    if event.is_finished:
        facts.steps.add(key)
    if event.bucket is None:
        return
    fate = facts.fates[event.bucket]
    fate.warmed = fate.warmed or event.is_finished
    fate.executed = event.executed or fate.executed
    fate.index = index if fate.index is None else fate.index
    # A recorder says a capture as such and as a step in graph mode: one cost.
    if not is_repeat and not (mode == "graph" and event.bucket in facts.captured):
        fate.cost(event.duration_s, event.memory_bytes)


def _captured(facts: _PhaseFacts, event: GraphCaptured) -> None:
    facts.saw_captures = True
    facts.captured.add(event.bucket)
    fate = facts.fates[event.bucket]
    fate.captured = True
    fate.cost(event.duration_s, event.memory_bytes)
    if event.memory_bytes is not None:
        facts.capture_bytes = (facts.capture_bytes or 0) + event.memory_bytes


def _summarised(facts: _PhaseFacts, event: CaptureSummary) -> None:
    facts.summary = event
    for bucket in event.buckets or ():
        facts.captured.add(bucket)
        facts.fates[bucket].captured = True


def _skipped(facts: _PhaseFacts, event: GraphSkipped) -> None:
    facts.saw_captures = True
    facts.fates[event.bucket].skipped = True


_OF_A_PHASE: dict[type[Event], Callable[[_PhaseFacts, Any], None]] = {
    BucketsGenerated: _generated,
    BucketsOmitted: _omitted,
    WarmupStep: _warmed,
    GraphCaptured: _captured,
    GraphSkipped: _skipped,
    CaptureSummary: _summarised,
}


def _captured_buckets(facts: _PhaseFacts) -> set[Bucket] | None:
    """Buckets with evidence of a capture; None when there is no evidence either way."""
    listed = facts.summary is not None and facts.summary.buckets is not None
    return facts.captured if listed or facts.saw_captures else None


def _generated_count(facts: _PhaseFacts) -> int | None:
    return facts.generated if facts.generated is not None else facts.total


def _used(facts: _PhaseFacts) -> int | None:
    if facts.summary is not None and facts.summary.used_bytes is not None:
        return facts.summary.used_bytes
    return facts.capture_bytes


def _percent(
    captured: int | None, generated: int | None, summary: CaptureSummary | None
) -> float | None:
    if captured is None:
        return None
    if generated:
        return round(100.0 * captured / generated, 4)
    return summary.percent_reported if summary is not None else None


def _lowest(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def _row(phase: str, bucket: Bucket, fate: _Fate) -> dict[str, Any]:
    return {
        "phase": phase,
        "bucket": list(bucket),
        "generated": fate.generated,
        "warmed": fate.warmed,
        "captured": fate.captured,
        "skipped": fate.skipped,
        "missed": fate.missed,
        "duration_s": fate.duration_s,
        "memory_bytes": fate.memory_bytes,
        "executed": list(fate.executed) if fate.executed is not None else None,
        "state": _state(bucket, fate),
    }


def _state(bucket: Bucket, fate: _Fate) -> str:
    """The most telling word for a bucket."""
    if fate.missed:
        return "missed"
    if fate.executed is not None and fate.executed != bucket:
        return "executed_differently"
    if fate.captured:
        return "captured"
    if fate.skipped:
        return "skipped"
    return "warmed" if fate.warmed else "generated"
