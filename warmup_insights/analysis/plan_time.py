"""How long a planned warm-up takes: eager runs, captures, and all the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from warmup_insights.analysis.linear_cost import LinearCost
from warmup_insights.analysis.plan_costs import PhaseCosts
from warmup_insights.analysis.plan_evidence import Evidence
from warmup_insights.analysis.plan_graphs import PlannedGraph
from warmup_insights.model.events import Bucket


@dataclass(frozen=True)
class TimePlan:
    """Seconds of a warm-up and of its parts; None where the run does not say.

    `rest_s` is what the run spent on neither buckets nor graphs (sampler, defragmenter,
    gaps); it is taken over as it is. `error_percent` is the median error of the fitted
    durations, `source` says whether they are per bucket or an average.
    """

    warmup_s: float | None
    eager_s: float | None
    capture_s: float | None
    rest_s: float | None
    error_percent: float | None
    source: str


def plan_time(
    evidence: Evidence,
    costs: Mapping[str, PhaseCosts],
    lists: Mapping[str, list[Bucket]],
    graphs: Iterable[PlannedGraph],
) -> TimePlan:
    """The time of a warm-up over these buckets and graphs."""
    own_lists = {phase: evidence.buckets.get(phase, []) for phase in lists}
    eager = _eager(costs, lists)
    own_eager = _eager(costs, own_lists)
    captured = _captures(costs, [(graph.phase, graph.bucket) for graph in graphs])
    own_captured = _captures(
        costs, [(phase, b) for phase, found in evidence.captured.items() for b in found]
    )
    source = "per bucket"
    if own_captured is None or captured is None:
        captured = own_captured = 0.0 if not any(evidence.captured.values()) else None
    if own_eager is None and evidence.warmup_s is not None and own_captured is not None:
        # The log does not tell single buckets apart: an average stands for each.
        own_eager = _bucket_seconds(evidence, own_captured)
        count, own_count = _count(lists), _count(own_lists)
        eager = own_eager * count / own_count if own_count else None
        source = "average per bucket"
    parts = (eager, own_eager, captured, own_captured, evidence.warmup_s)
    if None in parts:
        return TimePlan(None, eager, captured, None, None, "unknown")
    rest = max(0.0, evidence.warmup_s - own_eager - own_captured)  # type: ignore[operator]
    total = eager + captured + rest  # type: ignore[operator]
    return TimePlan(total, eager, captured, rest, _error(costs), source)


def _eager(
    costs: Mapping[str, PhaseCosts], lists: Mapping[str, list[Bucket]]
) -> float | None:
    total = 0.0
    for phase, buckets in lists.items():
        cost = costs[phase].eager_s
        if cost is None or not _is_known(cost):
            return None
        total += sum(cost.estimate(bucket).value for bucket in buckets)
    return total


def _captures(
    costs: Mapping[str, PhaseCosts], graphs: Iterable[tuple[str, Bucket]]
) -> float | None:
    total = 0.0
    for phase, bucket in graphs:
        cost = costs[phase].capture_s
        if cost is None:
            return None
        total += cost.estimate(bucket).value
    return total


def _is_known(cost: LinearCost) -> bool:
    """Whether enough buckets were timed that the rest can follow from them."""
    return cost.error is not None


def _bucket_seconds(evidence: Evidence, captured_s: float) -> float:
    rest = (evidence.sampler_s or 0.0) + (evidence.defrag_s or 0.0)
    return max(0.0, (evidence.warmup_s or 0.0) - captured_s - rest)


def _count(lists: Mapping[str, list[Bucket]]) -> int:
    return sum(len(buckets) for buckets in lists.values())


def _error(costs: Mapping[str, PhaseCosts]) -> float | None:
    errors = [
        cost.error
        for phase in costs.values()
        for cost in (phase.eager_s, phase.capture_s)
        if cost is not None and cost.error is not None
    ]
    return 100.0 * max(errors) if errors else None
