"""What other memory settings would give, from one finished run, without running.

The plan replays the engine's own rule (`rules.capture`, which the reference engine
runs) with the costs that the run showed. Two rules exist: `capped`, where graphs are
captured within a budget (vllm-fork up to 1.21, the reference engine), and `uncapped`,
where the reserve only shrinks the KV cache and every bucket gets a graph (vllm-fork
from 2025-06, vllm-gaudi).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from warmup_insights.analysis.plan.buckets import (
    PlannedBuckets,
    planned_buckets,
)
from warmup_insights.analysis.plan.buckets import (
    PlanSettings as PlanSettings,
)
from warmup_insights.analysis.plan.costs import (
    Evidence,
    capture_strategies,
    phase_costs,
)
from warmup_insights.analysis.plan.graphs import (
    UNKNOWN_TIME,
    GraphReplay,
    PhasePlan,
    PlannedGraph,
    TimePlan,
    plan_time,
)
from warmup_insights.analysis.plan.memory import (
    MemoryPlan,
    Workspace,
    divide_memory,
    first_known,
    refuse_contradictions,
)
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import bytes_step
from warmup_insights.model.summary import PHASES, SCHEMA, BucketRow, RunSummary
from warmup_insights.rules.capture import (
    GraphBudget,
)
from warmup_insights.units import format_bytes

DEFAULT_PROMPT_RATIO = 0.3


@dataclass(frozen=True)
class Plan:
    """A prediction. `outcome` is `fits`, `no_kv_cache` or `out_of_memory`.

    What a start does not reach is unknown: without room for a request in the KV cache there
    is no graph and nothing is free before one, and only a warm-up that ends has a time.

    `is_close` is whether a plan that fits may not: less stays free than figures of the
    run are rounded by, or a request of full length does not fit into the fewest blocks.

    `order` holds the graphs in the order of their capture. `self_check` is whether the
    same replay with the run's own settings gives the run's own captured sets, None where
    the run does not list them.
    """

    settings: dict[str, Any]
    rule: str
    outcome: str
    is_close: bool
    free_bytes: int
    usable_bytes: int
    margin_bytes: int
    graph_reserved_bytes: int
    kv_cache_bytes: int
    num_kv_blocks: int
    num_kv_blocks_range: tuple[int, int]
    kv_cache_tokens: int | None
    max_concurrency: float | None
    free_before_graphs_bytes: int | None
    free_after_graphs_bytes: int | None
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
        InputError: the run lacks what is needed (how memory was divided, KV blocks,
            bucket lists, what graphs took), or its evidence contradicts itself.
    """

    def __init__(self, summary: RunSummary, rows: Sequence[BucketRow]) -> None:
        self.summary = summary
        self._evidence = evidence = Evidence(summary, rows)
        self.rule = capture_rule(summary)
        self.costs = {phase: phase_costs(evidence, phase) for phase in PHASES}
        self._workspace = Workspace(evidence)
        self._check_evidence()
        self._own_graphs: tuple[PlannedGraph, ...] = ()
        own = self._own_plan()
        if own is not None:
            self._own_graphs = own.order
        self._self_check = self._check_self(own)

    def plan(self, settings: PlanSettings) -> Plan:
        """What the settings would give.

        Raises:
            InputError: a setting is missing in the run and not given.
            SettingError: a setting cannot be used.
        """
        return replace(self._plan(settings), self_check=self._self_check)

    def _plan(self, settings: PlanSettings) -> Plan:
        chosen = self._complete(settings)
        growth = self._workspace.profile_growth(settings.max_model_len)
        memory = divide_memory(
            self.summary,
            utilization=chosen["gpu_memory_utilization"],
            reserve=chosen["VLLM_GRAPH_RESERVED_MEM"],
            profile_growth=growth,
        )
        buckets = planned_buckets(
            self.summary,
            memory.num_blocks,
            settings,
            self._evidence.shapes(),
        )
        free = self._free_before(memory, buckets, growth)
        graphs = self._capture(chosen, memory, buckets, free)
        return self._result(chosen, memory, buckets, free, graphs)

    def _complete(self, settings: PlanSettings) -> dict[str, Any]:
        """The settings, with those of the run where none is given."""
        if settings.kv_cache_dtype is not None:
            raise SettingError(
                "Another KV cache type is planned with the KV cache alone; leave it out here"
            )
        run = self.summary.memory_or_none
        prompt, decode = capture_strategies(self.summary)
        chosen = {
            "gpu_memory_utilization": first_known(
                settings.gpu_memory_utilization, run.gpu_memory_utilization
            ),
            "VLLM_GRAPH_RESERVED_MEM": first_known(
                settings.graph_reserved_mem, run.graph_reserved_fraction
            ),
            "VLLM_GRAPH_PROMPT_RATIO": first_known(
                settings.graph_prompt_ratio, _prompt_ratio(self.summary)
            ),
            "VLLM_GRAPH_PROMPT_STRATEGY": settings.graph_prompt_strategy or prompt,
            "VLLM_GRAPH_DECODE_STRATEGY": settings.graph_decode_strategy or decode,
        }
        missing = [name for name, value in chosen.items() if value is None]
        if missing:
            raise InputError(
                f"The run does not state {missing[0]}; give a value for it"
            )
        return {**chosen, **settings.limits, **settings.environment}

    def _free_before(
        self, memory: MemoryPlan, buckets: PlannedBuckets, growth: int
    ) -> int:
        """Free memory when the first graph is captured."""
        summary = self.summary
        known = summary.memory_or_none
        if known.graph_budget is not None and known.graph_budget.free_bytes is not None:
            blocks = memory.num_blocks - (known.num_kv_blocks or 0)
            lists = {phase: list(summary.phase(phase).buckets) for phase in PHASES}
            own = self._workspace.taken_bytes(_pairs(lists))
            now = self._workspace.taken_bytes(_pairs(buckets.lists), growth)
            return (
                known.graph_budget.free_bytes
                - blocks * memory.block.bytes
                - (now - own)
            )
        used = [summary.phase(phase).graph_used_bytes for phase in PHASES]
        taken = [size for size in used if size is not None]
        grown = 0
        if known.warmup_allocated_bytes is not None and taken:
            grown = known.warmup_allocated_bytes - sum(taken)
        return memory.budget.free_bytes - memory.cache_bytes - grown

    def _capture(
        self,
        chosen: dict[str, Any],
        memory: MemoryPlan,
        buckets: PlannedBuckets,
        free: int,
    ) -> GraphReplay:
        graphs = GraphReplay(self.costs, self._evidence, buckets.shapes)
        if free < 0 or not self._has_room(chosen, memory):
            graphs.capture_nothing(buckets.lists)
            return graphs
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
        budget = memory.budget
        length, tokens = self._length(chosen), self._tokens(memory)
        has_room = self._has_room(chosen, memory)
        outcome = "fits" if has_room else "no_kv_cache"
        if has_room and (free < 0 or graphs.is_out_of_memory):
            outcome = "out_of_memory"
        used = sum(graph.memory_bytes for graph in graphs.order)
        few = replace(memory, num_blocks=memory.num_blocks_range[0])
        is_sure = self._has_room(chosen, few) and free - used >= self._rounding(used)
        return Plan(
            settings=chosen,
            rule=self.rule,
            outcome=outcome,
            is_close=outcome == "fits" and not is_sure,
            free_bytes=budget.free_bytes,
            usable_bytes=budget.usable_bytes,
            margin_bytes=budget.margin_bytes,
            graph_reserved_bytes=budget.graph_reserved_bytes,
            kv_cache_bytes=max(0, budget.kv_cache_bytes),
            num_kv_blocks=memory.num_blocks,
            num_kv_blocks_range=memory.num_blocks_range,
            kv_cache_tokens=tokens,
            max_concurrency=tokens / length if tokens and length else None,
            free_before_graphs_bytes=free if has_room else None,
            free_after_graphs_bytes=free - used if has_room else None,
            graph_budget_bytes=graphs.budget_bytes,
            phases=graphs.phases(buckets.lists),
            order=tuple(graphs.order),
            time=UNKNOWN_TIME
            if outcome != "fits"
            else plan_time(
                self._evidence,
                self.costs,
                buckets.lists,
                graphs.order,
                self._own_graphs or graphs.order,
            ),
            sources=dict(Counter(graph.source for graph in graphs.order)),
            self_check=None,
            notes=(*buckets.notes, *self._notes(chosen, buckets, memory)),
        )

    def _rounding(self, used: int) -> float:
        """What the rounding of a log leaves open of the memory that stays free."""
        if not self.summary.is_log:
            return 0.0
        free = self.summary.memory_or_none.free_bytes or 0
        return sum(bytes_step(self.summary.engine.name, x) / 2 for x in (free, used))

    def _length(self, chosen: Mapping[str, Any]) -> int | None:
        """Tokens of the longest request."""
        found: int | None = first_known(
            chosen.get("max_model_len"),
            self.summary.setting("max_model_len", "max_seq_len"),
        )
        return found

    def _tokens(self, memory: MemoryPlan) -> int | None:
        size = self.summary.memory_or_none.block_size
        return int(memory.num_blocks * size) if size else None

    def _has_room(self, chosen: Mapping[str, Any], memory: MemoryPlan) -> bool:
        """Whether the cache holds a request of full length; without, the start ends there."""
        length, tokens = self._length(chosen), self._tokens(memory)
        if tokens is None or not length:
            return memory.num_blocks > 0
        return memory.num_blocks > 0 and tokens >= length

    def _notes(
        self, chosen: Mapping[str, Any], buckets: PlannedBuckets, memory: MemoryPlan
    ) -> list[str]:
        notes = []
        is_known = self.summary.engine.name in ("reference", "vllm-gaudi")
        if {"max_num_seqs", "max_model_len"} & chosen.keys() and not is_known:
            notes.append(
                "What the profiling run takes is as in the run; with other limits it may "
                "take more or less, which the range of KV blocks does not cover."
            )
        if self._workspace.is_beyond(_pairs(buckets.lists)):
            notes.append(
                "Some decode buckets gather more blocks than any that ran; what their "
                "intermediates need beyond the profiling run is unknown and not counted."
            )
        if not memory.block.is_exact:
            size = memory.block
            off = max(size.highest - size.bytes, size.bytes - size.lowest) / size.bytes
            notes.append(
                f"A KV block is taken to be {format_bytes(size.bytes)}; the evidence allows "
                f"{100 * off:.2g} % more or less."
            )
        if self.summary.synthetic:
            notes.append("The run was simulated: its costs were never measured.")
        return notes

    def _check_evidence(self) -> None:
        summary = self.summary
        refuse_contradictions(summary, _NEEDED)
        divide_memory(summary, utilization=1.0, reserve=0.0)
        if not any(summary.phase(phase).buckets for phase in PHASES):
            raise InputError(
                "This run does not list its buckets; plan from one whose log lists them"
            )
        for phase in PHASES:
            if summary.phase(phase).buckets and self.costs[phase].graph_bytes is None:
                raise InputError(
                    f"This run does not state what its {phase} graphs took; plan from a "
                    "run that captured at least one"
                )

    def _own_plan(self) -> Plan | None:
        """The replay of the run's own settings."""
        try:
            return self._plan(PlanSettings())
        except (InputError, SettingError):
            return None

    def _check_self(self, own: Plan | None) -> bool | None:
        """Whether the replay of the run's own settings captures what the run did."""
        captured = {
            phase: self.summary.phase(phase).captured_buckets for phase in PHASES
        }
        if own is None or not any(captured.values()):
            return None
        return all(
            set(part.captured_buckets) == set(captured.get(phase) or ())
            for phase, part in own.phases.items()
        )


_NEEDED = frozenset(
    {"total_bytes", "free_bytes", "usable_bytes", "graph_reserved_bytes",
     "kv_cache_bytes", "kv_cache_allocated_bytes", "num_kv_blocks"}
)  # fmt: skip


def capture_rule(summary: RunSummary) -> str:
    """`capped` where a graph budget was set, else `uncapped`.

    The reference engine sets one in any case; its logs in the format of vllm-gaudi have
    no line for it.
    """
    has_budget = summary.memory_or_none.graph_budget is not None
    is_capped = has_budget or summary.engine.name == "reference"
    return "capped" if is_capped else "uncapped"


def _pairs(lists: Mapping[str, list[Bucket]]) -> list[tuple[str, Bucket]]:
    return [(phase, bucket) for phase, buckets in lists.items() for bucket in buckets]


def _prompt_ratio(summary: RunSummary) -> float:
    budget = summary.memory_or_none.graph_budget
    stated = budget.prompt_ratio if budget is not None else None
    ratio: float = first_known(
        stated, summary.setting("VLLM_GRAPH_PROMPT_RATIO"), DEFAULT_PROMPT_RATIO
    )
    return ratio
