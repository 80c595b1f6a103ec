"""Which reserve captures everything, and which utilisation leaves a margin."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from warmup_insights.analysis.plan.memory import divide_memory
from warmup_insights.analysis.plan.planning import Plan, Planner, PlanSettings
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import format_bytes

RESERVE_STEP = 0.01
UTILIZATION_STEP = 0.005
MARGIN_SHARE = 0.02
"""Of the memory that is free after profiling, when no margin is given."""

SHARE_STEP = 0.01
"""Of a utilisation that somebody sets by hand."""

Wanted = Mapping[str, set[Bucket]]


@dataclass(frozen=True)
class Recommendation:
    """Settings for a run like the one planned from, with the plans behind them.

    `now` are the run's own settings; `reserve` differs from it in the reserve alone,
    `both` in the reserve and the utilisation. None where no value does it; then
    `reason` is why.
    """

    margin_bytes: int
    now: Plan
    reserve: Plan | None
    both: Plan | None
    reason: str | None

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        plans = {"now": self.now, "reserve": self.reserve, "both": self.both}
        return {
            "margin_bytes": self.margin_bytes,
            "reason": self.reason,
            **{name: plan.as_dict() if plan else None for name, plan in plans.items()},
        }


def recommend(
    planner: Planner, *, margin_bytes: int | None = None, wanted: Wanted | None = None
) -> Recommendation:
    """The smallest reserve that captures everything wanted, at two utilisations.

    `wanted` is every generated bucket unless given. The margin is what must
    stay free after start-up, 2 % of free memory unless it is given.

    Raises:
        SettingError: the margin is negative, or larger than what is free.
    """
    now = planner.plan(PlanSettings())
    margin = margin_bytes
    if margin is None:
        margin = round(MARGIN_SHARE * now.free_bytes)
    if not 0 <= margin < now.free_bytes:
        raise SettingError(
            f"A margin of {margin} bytes is not possible: {now.free_bytes} are free "
            "after the profiling run; choose a smaller one"
        )
    reserve = smallest_reserve(planner, PlanSettings(), wanted, 0)
    settings = PlanSettings(gpu_memory_utilization=utilization_for(now, margin))
    both = smallest_reserve(planner, settings, wanted, margin)
    reason = None if both is not None else _reason(planner, settings, wanted)
    return Recommendation(margin, now, reserve, both, reason)


def utilization_for(plan: Plan, margin_bytes: int) -> float:
    """The largest utilisation, in steps of 0.005, that leaves so much unused."""
    share = 1.0 - margin_bytes / plan.free_bytes
    return round(math.floor(share / UTILIZATION_STEP + 1e-9) * UTILIZATION_STEP, 4)


def smallest_reserve(
    planner: Planner, settings: PlanSettings, wanted: Wanted | None, margin_bytes: int
) -> Plan | None:
    """The plan with the smallest reserve, in steps of 0.01, that does it; else None.

    Fewer KV blocks may mean other decode buckets, so every step is planned.
    """
    for index in range(round(1 / RESERVE_STEP)):
        reserve = round(index * RESERVE_STEP, 4)
        try:
            plan = planner.plan(replace(settings, graph_reserved_mem=reserve))
        except (InputError, SettingError):
            continue
        if plan.outcome == "no_kv_cache":
            return None
        free = plan.free_after_graphs_bytes or 0
        if captures(plan, wanted) and free >= max(margin_bytes, _unused(plan)):
            return plan
    return None


def _unused(plan: Plan) -> int:
    """The margin of the utilisation, which graphs may not touch under either rule."""
    return plan.margin_bytes if plan.rule == "uncapped" else 0


def captures(plan: Plan, wanted: Wanted | None) -> bool:
    """Whether a plan starts and gives every wanted bucket a graph."""
    if plan.outcome != "fits":
        return False
    if wanted is None:
        return all(part.captured == part.generated for part in plan.phases.values())
    return all(
        buckets <= set(plan.phases[phase].captured_buckets)
        for phase, buckets in wanted.items()
        if phase in plan.phases
    )


def graph_bytes_of_all(planner: Planner, wanted: Wanted | None = None) -> float:
    """What the graphs of every wanted bucket take together, predicted, in bytes."""
    total = 0.0
    for phase, part in planner.plan(PlanSettings()).phases.items():
        cost = planner.costs[phase].graph_bytes
        assert cost is not None, "checked when the planner was made"
        everything = {*part.captured_buckets, *part.skipped_buckets}
        chosen = everything if wanted is None else wanted.get(phase, set())
        total += sum(cost.estimate(bucket).value for bucket in chosen)
    return total


def _reason(planner: Planner, settings: PlanSettings, wanted: Wanted | None) -> str:
    """Why no reserve captures everything."""
    usable = planner.plan(settings).usable_bytes
    total = graph_bytes_of_all(planner, wanted)
    return (
        f"the graphs take about {format_bytes(total)}, and {format_bytes(usable)} are "
        "usable for them and the KV cache together; fewer or smaller buckets are needed"
    )


@dataclass(frozen=True)
class MemoryPair:
    """A utilisation with the reserve for graphs that goes with it.

    `left_bytes` is what stays free when the KV cache and the graphs are there.
    """

    utilization: float
    reserve: float
    num_kv_blocks: int
    lowest_kv_blocks: int
    """The least that the rounding of the log allows."""
    left_bytes: float


def memory_pair(
    summary: RunSummary,
    *,
    graph_bytes: float,
    headroom: float,
    margin_bytes: float,
    highest: float,
) -> MemoryPair | None:
    """The highest utilisation, in hundredths, that leaves a margin beside its graphs.

    The reserve is the smallest, in hundredths, that holds `headroom` times the graphs.
    None where no utilisation above 0 does; the run needs no lists of buckets.

    Raises:
        InputError: the run lacks how its memory was divided.
    """
    free = summary.memory_or_none.free_bytes or 0
    for index in range(math.floor(highest / SHARE_STEP + 1e-9), 0, -1):
        share = round(index * SHARE_STEP, 4)
        wanted = headroom * graph_bytes / (share * free) if free else 1.0
        reserve = max(RESERVE_STEP, math.ceil(wanted / RESERVE_STEP - 1e-9) / 100)
        if reserve >= 1:
            continue
        plan = divide_memory(summary, utilization=share, reserve=reserve)
        left = free - plan.cache_bytes - graph_bytes
        if left >= margin_bytes:
            lowest = plan.num_blocks_range[0]
            return MemoryPair(share, round(reserve, 4), plan.num_blocks, lowest, left)
    return None
