"""How long a planned warm-up takes: eager runs, captures, and all the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from warmup_insights.analysis.plan_costs import PhaseCosts
from warmup_insights.analysis.plan_graphs import PlannedGraph
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import RunSummary


@dataclass(frozen=True)
class TimePlan:
    """Seconds of a warm-up and of its parts; None where it is unknown.

    `rest_s` is what the run spent on neither buckets nor graphs (sampler, defragmenter,
    gaps); it is taken over as it is. `error_percent` is the median error of the fitted
    durations, `source` is whether they are per bucket or an average.
    """

    warmup_s: float | None
    eager_s: float | None
    capture_s: float | None
    rest_s: float | None
    error_percent: float | None
    source: str


def plan_time(
    summary: RunSummary,
    costs: Mapping[str, PhaseCosts],
    lists: Mapping[str, list[Bucket]],
    graphs: Iterable[PlannedGraph],
    own_graphs: Iterable[PlannedGraph],
) -> TimePlan:
    """The time of a warm-up over these buckets and graphs.

    `own_graphs` are those of the run's own settings: what they and the run's buckets
    take is subtracted from the warm-up that was measured, and the rest is kept.
    """
    measured = summary.time.warmup_s
    own_lists = {phase: list(summary.phase(phase).buckets) for phase in lists}
    parts = _split(costs, lists, graphs)
    own = _split(costs, own_lists, own_graphs)
    source = "per bucket"
    if (parts is None or own is None) and measured is not None:
        # Single buckets have no time: an average stands for each.
        count, own_count = _count(lists), _count(own_lists)
        if not own_count:
            return TimePlan(None, None, None, None, None, "unknown")
        seconds = _bucket_seconds(summary)
        own, parts = (seconds, 0.0), (seconds * count / own_count, 0.0)
        source = "average per bucket"
    if measured is None or parts is None or own is None:
        runs, captures = parts if parts is not None else (None, None)
        return TimePlan(None, runs, captures, None, None, "unknown")
    rest = max(0.0, measured - sum(own))
    return TimePlan(sum(parts) + rest, *parts, rest, _error(costs), source)


def _split(
    costs: Mapping[str, PhaseCosts],
    lists: Mapping[str, list[Bucket]],
    graphs: Iterable[PlannedGraph],
) -> tuple[float, float] | None:
    """Seconds of runs and of captures; None unless enough buckets were timed."""
    capturing = {(graph.phase, graph.declared) for graph in graphs}
    runs = captures = 0.0
    for phase, buckets in lists.items():
        cost = costs[phase]
        known = cost.capture_s if cost.captures_in_runs else cost.run_s
        if known is None or known.error is None:
            return None
        for bucket in buckets:
            has_graph = (phase, bucket) in capturing and cost.capture_s is not None
            total = cost.step_s(bucket, has_graph=has_graph)
            if total is None:
                return None
            alone = 0.0 if has_graph and cost.captures_in_runs else None
            if alone is None:
                alone = cost.step_s(bucket, has_graph=False) or 0.0
            runs, captures = runs + alone, captures + total - alone
    return runs, captures


def _bucket_seconds(summary: RunSummary) -> float:
    """What is left of the warm-up for buckets, without sampler and defragmenter."""
    stages = (summary.sampler, summary.defrag)
    rest = sum(stage.duration_s or 0.0 for stage in stages if stage is not None)
    return max(0.0, (summary.time.warmup_s or 0.0) - rest)


def _count(lists: Mapping[str, list[Bucket]]) -> int:
    return sum(len(buckets) for buckets in lists.values())


def _error(costs: Mapping[str, PhaseCosts]) -> float | None:
    errors = [
        cost.error
        for phase in costs.values()
        for cost in (phase.run_s, phase.capture_s)
        if cost is not None and cost.error is not None
    ]
    return 100.0 * max(errors) if errors else None
