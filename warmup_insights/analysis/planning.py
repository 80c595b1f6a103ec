"""What other memory settings would give, from one finished run, without running.

The plan replays the engine's own rule (`runner.capture`, which the reference engine
runs) with the costs that the run showed. Two rules exist: `capped`, where graphs are
captured within a budget (vllm-fork up to 1.21, the reference engine), and `uncapped`,
where the reserve only shrinks the KV cache and every bucket gets a graph (vllm-fork
from 2025-06, vllm-gaudi).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from warmup_insights.analysis.plan_buckets import PlannedBuckets, planned_buckets
from warmup_insights.analysis.plan_costs import (
    PHASES,
    capture_strategies,
    phase_costs,
)
from warmup_insights.analysis.plan_evidence import Evidence
from warmup_insights.analysis.plan_graphs import GraphReplay, PhasePlan, PlannedGraph
from warmup_insights.analysis.plan_memory import MemoryPlan, Workspace, divide_memory
from warmup_insights.analysis.plan_time import TimePlan, plan_time
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.rules.capture import (
    GraphBudget,
)

SCHEMA = 1
DEFAULT_PROMPT_RATIO = 0.3


@dataclass(frozen=True, kw_only=True)
class PlanSettings:
    """What to plan for; None means as in the run.

    `environment` holds bucketing variables that are set otherwise than in the run.
    """

    gpu_memory_utilization: float | None = None
    graph_reserved_mem: float | None = None
    graph_prompt_ratio: float | None = None
    graph_prompt_strategy: str | None = None
    graph_decode_strategy: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Plan:
    """A prediction. `outcome` is `fits`, `no_kv_cache` or `out_of_memory`.

    `order` holds the graphs in the order of their capture. `self_check` says whether the
    same replay with the run's own settings gives the run's own captured sets, None where
    the run does not list them.
    """

    settings: dict[str, Any]
    rule: str
    outcome: str
    free_bytes: int
    usable_bytes: int
    margin_bytes: int
    graph_reserved_bytes: int
    kv_cache_bytes: int
    num_kv_blocks: int
    num_kv_blocks_range: tuple[int, int]
    kv_cache_tokens: int | None
    max_concurrency: float | None
    free_before_graphs_bytes: int
    free_after_graphs_bytes: int
    graph_budget_bytes: int | None
    phases: dict[str, PhasePlan]
    order: tuple[PlannedGraph, ...]
    time: TimePlan
    sources: dict[str, int]
    self_check: bool | None
    notes: tuple[str, ...]

    @property
    def graph_used_bytes(self) -> int:
        """All graphs together."""
        return sum(phase.graph_used_bytes for phase in self.phases.values())

    @property
    def captured_percent(self) -> float | None:
        """Share of all buckets that get a graph."""
        generated = sum(phase.generated for phase in self.phases.values())
        captured = sum(phase.captured for phase in self.phases.values())
        return 100.0 * captured / generated if generated else None

    def as_dict(self) -> dict[str, Any]:
        """Plain values; what `--json` prints."""
        return {
            "schema": SCHEMA,
            **asdict(self),
            "graph_used_bytes": self.graph_used_bytes,
            "captured_percent": self.captured_percent,
        }


class Planner:
    """Plans from one run. The costs are fitted once, so many plans are cheap.

    Raises:
        InputError: the run does not tell enough (how memory was divided, KV blocks,
            bucket lists, what graphs took).
    """

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.rule = capture_rule(evidence)
        self.costs = {phase: phase_costs(evidence, phase) for phase in PHASES}
        self._workspace = Workspace(evidence)
        self._check_evidence()
        self._self_check = self._check_self()

    def plan(self, settings: PlanSettings) -> Plan:
        """What the settings would give.

        Raises:
            InputError: a setting is missing in the run and not given.
            SettingError: a setting cannot be used.
        """
        return replace(self._plan(settings), self_check=self._self_check)

    def _plan(self, settings: PlanSettings) -> Plan:
        chosen = self._complete(settings)
        memory = divide_memory(
            self.evidence,
            utilization=chosen["gpu_memory_utilization"],
            reserve=chosen["VLLM_GRAPH_RESERVED_MEM"],
        )
        buckets = planned_buckets(
            self.evidence, memory.num_blocks, settings.environment
        )
        free = self._free_before(memory, buckets)
        graphs = self._capture(chosen, memory, buckets, free)
        return self._result(chosen, memory, buckets, free, graphs)

    def _complete(self, settings: PlanSettings) -> dict[str, Any]:
        """The settings, with those of the run where none is given."""
        run = self.evidence.budget
        assert run is not None, "checked when the planner was made"
        prompt, decode = capture_strategies(self.evidence)
        ratio = settings.graph_prompt_ratio
        if ratio is None:
            ratio = _prompt_ratio(self.evidence)
        chosen = {
            "gpu_memory_utilization": _first(
                settings.gpu_memory_utilization, run.gpu_memory_utilization
            ),
            "VLLM_GRAPH_RESERVED_MEM": _first(
                settings.graph_reserved_mem, run.graph_reserved_fraction
            ),
            "VLLM_GRAPH_PROMPT_RATIO": ratio,
            "VLLM_GRAPH_PROMPT_STRATEGY": settings.graph_prompt_strategy or prompt,
            "VLLM_GRAPH_DECODE_STRATEGY": settings.graph_decode_strategy or decode,
        }
        missing = [name for name, value in chosen.items() if value is None]
        if missing:
            raise InputError(
                f"The run does not state {missing[0]}; give a value for it"
            )
        return {**chosen, **settings.environment}

    def _free_before(self, memory: MemoryPlan, buckets: PlannedBuckets) -> int:
        """Free memory when the first graph is captured."""
        facts = self.evidence
        budget, cache = facts.budget, facts.cache
        assert budget is not None, "checked when the planner was made"
        assert cache is not None, "checked when the planner was made"
        if facts.graph_budget is not None and facts.graph_budget.free_bytes is not None:
            blocks = memory.num_blocks - (cache.num_blocks or 0)
            own = self._workspace.taken_bytes(_pairs(facts.buckets))
            now = self._workspace.taken_bytes(_pairs(buckets.lists))
            return (
                facts.graph_budget.free_bytes
                - blocks * memory.block.bytes
                - (now - own)
            )
        used = sum(facts.used_bytes.values()) if facts.used_bytes else None
        grown = 0
        if facts.warmup_bytes is not None and used is not None:
            grown = facts.warmup_bytes - used
        return (budget.free_bytes or 0) - memory.cache_bytes - grown

    def _capture(
        self,
        chosen: dict[str, Any],
        memory: MemoryPlan,
        buckets: PlannedBuckets,
        free: int,
    ) -> GraphReplay:
        graphs = GraphReplay(self.costs)
        strategies = (
            chosen["VLLM_GRAPH_PROMPT_STRATEGY"],
            chosen["VLLM_GRAPH_DECODE_STRATEGY"],
        )
        if self.rule == "uncapped":
            graphs.capture_everything(buckets.lists, free)
            return graphs
        budget = GraphBudget(
            free_bytes=free,
            total_bytes=free - memory.budget.margin_bytes,
            prompt_ratio=chosen["VLLM_GRAPH_PROMPT_RATIO"],
        )
        graphs.capture_within(buckets.lists, budget, strategies)
        return graphs

    def _result(
        self,
        chosen: dict[str, Any],
        memory: MemoryPlan,
        buckets: PlannedBuckets,
        free: int,
        graphs: GraphReplay,
    ) -> Plan:
        facts, budget = self.evidence, memory.budget
        length = facts.number("max_model_len", "max_seq_len")
        size = facts.number("block_size") or (
            facts.cache.block_size if facts.cache else None
        )
        tokens = int(memory.num_blocks * size) if size else None
        has_room = budget.num_blocks > 0
        if has_room and tokens is not None and length:
            has_room = tokens >= length
        outcome = "fits" if has_room else "no_kv_cache"
        if has_room and (free < 0 or graphs.is_out_of_memory):
            outcome = "out_of_memory"
        used = sum(graph.memory_bytes for graph in graphs.order)
        return Plan(
            settings=chosen,
            rule=self.rule,
            outcome=outcome,
            free_bytes=budget.free_bytes,
            usable_bytes=budget.usable_bytes,
            margin_bytes=budget.margin_bytes,
            graph_reserved_bytes=budget.graph_reserved_bytes,
            kv_cache_bytes=budget.kv_cache_bytes,
            num_kv_blocks=memory.num_blocks,
            num_kv_blocks_range=memory.num_blocks_range,
            kv_cache_tokens=tokens,
            max_concurrency=tokens / length if tokens and length else None,
            free_before_graphs_bytes=free,
            free_after_graphs_bytes=free - used,
            graph_budget_bytes=graphs.budget_bytes,
            phases=graphs.phases(buckets.lists),
            order=tuple(graphs.order),
            time=plan_time(facts, self.costs, buckets.lists, graphs.order),
            sources=dict(Counter(graph.source for graph in graphs.order)),
            self_check=None,
            notes=(*buckets.notes, *self._notes(buckets, memory)),
        )

    def _notes(self, buckets: PlannedBuckets, memory: MemoryPlan) -> list[str]:
        notes = []
        if self._workspace.is_beyond(_pairs(buckets.lists)):
            notes.append(
                "Some decode buckets gather more blocks than any that ran; what their "
                "intermediates need beyond the profiling run is unknown and not counted."
            )
        if not memory.block.is_exact:
            size = memory.block
            notes.append(
                f"A KV block is taken to be {size.bytes} bytes; the log allows "
                f"{size.lowest:.0f} to {size.highest:.0f}."
            )
        if self.evidence.synthetic:
            notes.append("The run was simulated: its costs were never measured.")
        return notes

    def _check_evidence(self) -> None:
        facts = self.evidence
        if facts.budget is None or facts.cache is None:
            raise InputError(
                "This run does not say how its memory was divided; plan from a run of "
                "an HPU engine or of `warmup-insights run`"
            )
        if not any(facts.buckets.get(phase) for phase in PHASES):
            raise InputError(
                "This run does not list its buckets, so nothing can be planned"
            )
        for phase in PHASES:
            if facts.buckets.get(phase) and self.costs[phase].graph_bytes is None:
                raise InputError(
                    f"This run does not say what its {phase} graphs took; plan from a "
                    "run that captured at least one"
                )

    def _check_self(self) -> bool | None:
        """Whether the replay of the run's own settings captures what the run did."""
        captured = self.evidence.captured
        if not captured or self.rule == "uncapped":
            return None
        try:
            plan = self._plan(PlanSettings())
        except InputError:
            return None
        return all(
            set(part.captured_buckets) == captured.get(phase, set())
            for phase, part in plan.phases.items()
        )


def capture_rule(evidence: Evidence) -> str:
    """`capped` where a graph budget was set, else `uncapped`."""
    return "capped" if evidence.graph_budget is not None else "uncapped"


def _pairs(lists: Mapping[str, list[Bucket]]) -> list[tuple[str, Bucket]]:
    return [(phase, bucket) for phase, buckets in lists.items() for bucket in buckets]


def _prompt_ratio(evidence: Evidence) -> float:
    set_by_engine = (
        evidence.graph_budget.prompt_ratio if evidence.graph_budget else None
    )
    stated = evidence.number("VLLM_GRAPH_PROMPT_RATIO")
    found = set_by_engine if set_by_engine is not None else stated
    return DEFAULT_PROMPT_RATIO if found is None else found


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)
