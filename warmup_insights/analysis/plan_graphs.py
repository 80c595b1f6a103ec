"""The captures of a plan: the engine's rule, with predicted costs instead of graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from warmup_insights.analysis.plan_costs import Evidence, PhaseCosts
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import PHASES
from warmup_insights.rules.capture import Candidate, GraphBudget, capture_graphs


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
    """The captures of one plan, in their order.

    A graph is made of each shape that runs, once: buckets may run in another shape than
    declared, and several in one.
    """

    def __init__(
        self,
        costs: Mapping[str, PhaseCosts],
        evidence: Evidence,
    ) -> None:
        self._costs = costs
        self._evidence = evidence
        self._shapes = evidence.shapes()
        self._skipped: dict[str, tuple[Bucket, ...]] = {}
        self._budgets: dict[str, int] = {}
        self.order: list[PlannedGraph] = []
        self.budget_bytes: int | None = None
        self.is_out_of_memory = False

    def capture_within(
        self,
        lists: Mapping[str, list[Bucket]],
        budget: GraphBudget,
        strategies: tuple[str, str],
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

        self.budget_bytes = int(budget.total_bytes)
        self._budgets = {
            "prompt": int(budget.prompt_bytes),
            "decode": int(budget.decode_bytes),
        }
        try:
            outcome = capture_graphs(
                lists.get("prompt", []),
                lists.get("decode", []),
                budget,
                capture,
                prompt_strategy=strategies[0],
                decode_strategy=strategies[1],
            )
        except _NothingLeft:
            self.is_out_of_memory = True
            self._skipped = {phase: self._missing(phase, lists) for phase in lists}
            return
        for captures in outcome:
            skipped = tuple(item.bucket for item in captures.skipped)
            self._skipped[captures.phase] = skipped

    def capture_everything(self, lists: Mapping[str, list[Bucket]], free: int) -> None:
        """The uncapped rule: every bucket, the largest first, until nothing is free.

        Source: `warmup_model` and `warmup_graphs` of vllm-gaudi, `hpu_model_runner.py`.
        """
        graphs: dict[tuple[str, Bucket], PlannedGraph] = {}
        for phase in PHASES:
            for bucket in reversed(lists.get(phase, [])):
                graph = self._graph(phase, bucket)
                if self._evidence.gets_graph(phase, graph.bucket):
                    graphs.setdefault((phase, graph.bucket), graph)
        for graph in graphs.values():
            if graph.memory_bytes > free:
                self.is_out_of_memory = True
                break
            free -= graph.memory_bytes
            self.order.append(graph)
        self._skipped = {phase: self._missing(phase, lists) for phase in lists}

    def phases(self, lists: Mapping[str, list[Bucket]]) -> dict[str, PhasePlan]:
        """Both phases, as far as they have buckets."""
        return {phase: self._phase(phase, lists[phase]) for phase in lists}

    def _phase(self, phase: str, buckets: list[Bucket]) -> PhasePlan:
        own = [graph for graph in self.order if graph.phase == phase]
        cost = self._costs[phase].graph_bytes
        return PhasePlan(
            generated=len(buckets),
            captured=len(own),
            capture_percent=100.0 * len(own) / len(buckets) if buckets else None,
            graph_budget_bytes=self._budgets.get(phase),
            graph_used_bytes=sum(graph.memory_bytes for graph in own),
            captured_buckets=tuple(sorted(graph.bucket for graph in own)),
            skipped_buckets=self._skipped.get(phase, ()),
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

    def _missing(
        self, phase: str, lists: Mapping[str, list[Bucket]]
    ) -> tuple[Bucket, ...]:
        done = {graph.bucket for graph in self.order if graph.phase == phase}
        return tuple(
            bucket
            for bucket in lists[phase]
            if self._shapes.get((phase, bucket), bucket) not in done
        )


def _percent(share: float | None) -> float | None:
    return None if share is None else 100.0 * share
