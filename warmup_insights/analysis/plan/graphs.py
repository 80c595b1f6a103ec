"""The captures of a plan, and how long its warm-up takes.

Captures follow the engine's rule, with predicted costs instead of graphs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from statistics import mean

from warmup_insights.analysis.plan.costs import Evidence, LinearCost, PhaseCosts
from warmup_insights.analysis.plan.regenerate import own_lists
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import PHASES, BucketRow, RunSummary
from warmup_insights.rules.capture import Candidate, GraphBudget, capture_graphs

SPREAD = 2.0
"""Standard deviations that the range of a time covers on each side."""
RUN_TO_RUN = 0.1
"""Share by which starts of the same settings differ, taken as the least range."""
MIN_COLLECTIONS = 9
"""Buckets with a garbage collector's time from which on stretches of them are compared."""


@dataclass(frozen=True)
class PlannedGraph:
    """One graph of the plan: what it takes and how that is known (see `Estimate`).

    `bucket` is the shape that is captured, `declared` the bucket whose step does it.
    """

    phase: str
    bucket: Bucket
    declared: Bucket
    memory_bytes: int
    source: str


@dataclass(frozen=True)
class PhasePlan:
    """The graphs of one phase. Under the uncapped rule there is no budget."""

    generated: int
    captured: int
    capture_percent: float | None
    graph_budget_bytes: int | None
    graph_used_bytes: int
    captured_buckets: tuple[Bucket, ...]
    skipped_buckets: tuple[Bucket, ...]
    cost_error_percent: float | None
    worst_cost_error_percent: float | None


class _NothingLeft(Exception):
    """A capture needs more than is free."""


class GraphReplay:
    """The captures of one plan, in their order; none before one of its rules is applied.

    A graph is made of each shape that runs, once: buckets may run in another shape than
    declared, and several in one. Under the uncapped rule there is no `budget`.
    """

    def __init__(
        self,
        costs: Mapping[str, PhaseCosts],
        evidence: Evidence,
        lists: Mapping[str, list[Bucket]],
        shapes: Mapping[tuple[str, Bucket], Bucket],
    ) -> None:
        self._costs = costs
        self._evidence = evidence
        self._lists = lists
        self._shapes = shapes
        self.order: list[PlannedGraph] = []
        self.budget: GraphBudget | None = None
        self.is_out_of_memory = False

    def capture_within(
        self,
        budget: GraphBudget,
        strategies: tuple[str, str],
        *,
        decodes_get_rest: bool = True,
    ) -> None:
        """The capped rule: as the engine does it, with predicted costs.

        The engine's own estimate is low where the first graph of a phase is large, so
        even within a budget a capture can need more than is free.
        """
        free = budget.free_bytes

        def capture(candidate: Candidate) -> int:
            nonlocal free
            graph = self._graph(candidate.phase, candidate.bucket)
            if graph.memory_bytes > free:
                raise _NothingLeft
            free -= graph.memory_bytes
            self.order.append(graph)
            return graph.memory_bytes

        self.budget = budget
        try:
            capture_graphs(
                self._lists.get("prompt", []),
                self._lists.get("decode", []),
                budget,
                capture,
                prompt_strategy=strategies[0],
                decode_strategy=strategies[1],
                decodes_get_rest=decodes_get_rest,
            )
        except _NothingLeft:
            self.is_out_of_memory = True

    def capture_everything(self, free: int) -> None:
        """The uncapped rule: every bucket, the largest first, until nothing is free.

        Source: `warmup_model` and `warmup_graphs` of vllm-gaudi, `hpu_model_runner.py`.
        """
        graphs: dict[tuple[str, Bucket], PlannedGraph] = {}
        for phase in PHASES:
            for bucket in reversed(self._lists.get(phase, [])):
                graph = self._graph(phase, bucket)
                if self._evidence.gets_graph(phase, graph.bucket):
                    graphs.setdefault((phase, graph.bucket), graph)
        for graph in graphs.values():
            if graph.memory_bytes > free:
                self.is_out_of_memory = True
                break
            free -= graph.memory_bytes
            self.order.append(graph)

    def phases(self) -> dict[str, PhasePlan]:
        """Both phases, as far as they have buckets."""
        return {phase: self._phase(phase, own) for phase, own in self._lists.items()}

    def _phase(self, phase: str, buckets: list[Bucket]) -> PhasePlan:
        own = [graph for graph in self.order if graph.phase == phase]
        shapes = {graph.bucket for graph in own}
        cost, budget = self._costs[phase].graph_bytes, self.budget
        return PhasePlan(
            generated=len(buckets),
            captured=len(own),
            capture_percent=100.0 * len(own) / len(buckets) if buckets else None,
            graph_budget_bytes=int(budget.of(phase)) if budget is not None else None,
            graph_used_bytes=sum(graph.memory_bytes for graph in own),
            captured_buckets=tuple(sorted(graph.bucket for graph in own)),
            skipped_buckets=tuple(
                bucket
                for bucket in buckets
                if self._shapes.get((phase, bucket), bucket) not in shapes
            ),
            cost_error_percent=_percent(cost.error if cost else None),
            worst_cost_error_percent=_percent(cost.worst_error if cost else None),
        )

    def _graph(self, phase: str, bucket: Bucket) -> PlannedGraph:
        cost = self._costs[phase].graph_bytes
        assert cost is not None, "checked when the planner was made"
        shape = self._shapes.get((phase, bucket), bucket)
        estimate = cost.estimate(shape)
        return PlannedGraph(
            phase, shape, bucket, round(estimate.value), estimate.source
        )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share


@dataclass(frozen=True)
class TimePlan:
    """Seconds of a warm-up and of its parts; None where it is unknown.

    `rest_s` is what the run spent on neither buckets nor graphs (sampler, defragmenter,
    gaps); it is taken over as it is. `error_percent` is the median error of the fitted
    durations, `source` is whether they are per bucket or an average. `warmup_range_s` is
    where the warm-up lies if buckets scatter as they did in the run, those that did not run
    are off by as much as the fit is, the garbage collector is as quick or slow as in the
    quickest or slowest stretch of it, and starts of the same settings differ by a tenth;
    None where single buckets have no time, and of a log, which does not state what the
    garbage collector took.
    """

    warmup_s: float | None
    warmup_range_s: tuple[float, float] | None
    eager_s: float | None
    capture_s: float | None
    rest_s: float | None
    error_percent: float | None
    source: str


UNKNOWN_TIME = TimePlan(None, None, None, None, None, None, "unknown")


def plan_time(
    evidence: Evidence,
    costs: Mapping[str, PhaseCosts],
    lists: Mapping[str, list[Bucket]],
    graphs: Collection[PlannedGraph],
    own_graphs: Collection[PlannedGraph],
) -> TimePlan:
    """The time of a warm-up over these buckets and graphs.

    `own_graphs` are those of the run's own settings: what they and the run's buckets
    take is subtracted from the warm-up that was measured, and the rest is kept.
    """
    summary = evidence.summary
    measured = summary.time.warmup_s
    had_lists = own_lists(summary)
    timed = _timed(costs, lists, graphs)
    own_timed = _timed(costs, had_lists, own_graphs)
    if measured is None or not lists:  # without buckets nothing is warmed up
        runs, captures = _seconds(timed) if timed else (None, None)
        return TimePlan(None, None, runs, captures, None, None, "unknown")
    if timed is None or own_timed is None:
        return _average_time(summary, lists, had_lists, graphs, own_graphs)
    parts = _seconds(timed)
    rest = max(0.0, measured - sum(_seconds(own_timed)))
    total = sum(parts) + rest
    if summary.is_log:  # which has no word of the garbage collector
        return TimePlan(total, None, *parts, rest, _error(costs), "per bucket")
    scatter = SPREAD * math.sqrt(sum(cost.variance(own) for _, cost, own in timed))
    doubt = sum(cost.doubt(own) for _, cost, own in timed)
    quiet, busy = (_count(lists) * s for s in _collector_reach(evidence.rows))
    least = max(RUN_TO_RUN * total, scatter, doubt)
    reach = (max(0.0, total - max(least, quiet)), total + max(least, busy))
    return TimePlan(total, reach, *parts, rest, _error(costs), "per bucket")


def _average_time(
    summary: RunSummary,
    lists: Mapping[str, list[Bucket]],
    had_lists: Mapping[str, list[Bucket]],
    graphs: Iterable[PlannedGraph],
    own_graphs: Iterable[PlannedGraph],
) -> TimePlan:
    """The time where single buckets have none: an average stands for each bucket, and for
    each graph of a phase whose captures are a stretch of their own; unknown where graphs
    differ in number and their captures have no time.
    """
    measured = summary.time.warmup_s or 0.0
    count, had_count = _count(lists), _count(had_lists)
    planned = Counter(graph.phase for graph in graphs)
    had = Counter(graph.phase for graph in own_graphs)
    took = summary.time.seconds_by_phase()
    stretches = {phase: took.get(f"{phase}_graphs", 0.0) for phase in lists}
    stages = (summary.sampler, summary.defrag)
    rest = sum(stage.duration_s or 0.0 for stage in stages if stage is not None)
    rest = min(measured, rest)
    captured = sum(stretches.values())
    # Whole seconds of captures may be more than those of the warm-up around them.
    runs = max(0.0, measured - rest - captured) * count / had_count
    # Without a budget each bucket captures when it runs; else captures have no line.
    in_runs = not captured and summary.memory_or_none.graph_budget is None
    is_known = in_runs or all(
        planned[name] == had[name] or (had[name] and stretches[name]) for name in lists
    )
    captures = None
    if captured and is_known:
        captures = sum(
            seconds * planned[name] / had[name]
            for name, seconds in stretches.items()
            if had[name]
        )
    total = runs + (captures or 0.0) + rest if is_known else None
    eager = runs if captured else None
    source = "average per bucket"
    return TimePlan(total, None, eager, captures, rest, None, source)


def _collector_reach(rows: Iterable[BucketRow]) -> tuple[float, float]:
    """Seconds of a bucket by which collections may be quicker, and slower, than in the run.

    A collection visits the same objects for every bucket, so what it takes differs by
    what else the host does, and that lasts: neighbours are alike, and other starts find
    the host as quiet, or as busy, as single stretches of this one did.
    """
    timed = [
        ((row.run or row.capture).position, row.gc_s)  # type: ignore[union-attr]
        for row in rows
        if row.gc_s is not None and (row.run or row.capture) is not None
    ]
    if len(timed) < MIN_COLLECTIONS:
        return 0.0, 0.0
    seconds = [gc_s for _, gc_s in sorted(timed)]
    size = math.isqrt(len(seconds))
    means = [
        mean(seconds[i : i + size]) for i in range(0, len(seconds) - size + 1, size)
    ]
    usual = mean(seconds)
    return max(0.0, usual - min(means)), max(0.0, max(means) - usual)


_Timed = tuple[str, LinearCost, list[Bucket]]


def _timed(
    costs: Mapping[str, PhaseCosts],
    lists: Mapping[str, list[Bucket]],
    graphs: Iterable[PlannedGraph],
) -> list[_Timed] | None:
    """The costs that the time of a warm-up is made of, of runs or of captures, each with
    the buckets that have it; None unless enough buckets were timed."""
    capturing = {(graph.phase, graph.declared) for graph in graphs}
    found: list[_Timed] = []
    for phase, buckets in lists.items():
        cost = costs[phase]
        known = cost.capture_s if cost.captures_in_runs else cost.run_s
        if known is None or known.error is None:
            return None
        with_graph = [own for own in buckets if (phase, own) in capturing]
        if cost.capture_s is not None:
            found.append(("captures", cost.capture_s, with_graph))
        if cost.captures_in_runs:
            buckets = [own for own in buckets if (phase, own) not in capturing]
        found.append(("runs", cost.run_s or known, buckets))
    return found


def _seconds(timed: Iterable[_Timed]) -> tuple[float, float]:
    """Seconds of runs and of captures."""
    parts = {"runs": 0.0, "captures": 0.0}
    for part, cost, buckets in timed:
        for bucket in buckets:
            parts[part] += cost.estimate(bucket).value
    return parts["runs"], parts["captures"]


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
