"""Advice on memory: the graph reserve, the utilisation, estimates, no room at all."""

from __future__ import annotations

import math
from collections.abc import Iterator

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule
from warmup_insights.analysis.plan_recommend import graph_bytes_of_all, smallest_reserve
from warmup_insights.analysis.planning import Plan, PlanSettings
from warmup_insights.model.figures import contradictory
from warmup_insights.model.summary import PHASES
from warmup_insights.units import GIB, MIB, format_bytes

RESERVE = "VLLM_GRAPH_RESERVED_MEM"
HEADROOM = 1.1
"""Graphs get a tenth more than they took: a later start may capture a little more."""
TARGET_IDLE = 0.05
"""Share of the device that may stay free for what comes at run time."""


def reserve_too_large(facts: RunFacts) -> Iterator[Finding]:
    """Graphs took less than half of what is reserved for them."""
    reserved, usable = (
        facts.figure("graph_reserved_bytes"),
        facts.figure("usable_bytes"),
    )
    used = facts.figure("graph_memory_bytes")
    if not reserved or not usable or used is None or used <= 0:
        return
    if used >= 0.5 * reserved or reserved - used < 0.01 * usable:
        return
    if not _has_every_graph(facts):
        return
    share = max(0.01, math.ceil(100 * HEADROOM * used / usable) / 100)
    gained = facts.blocks_in(reserved - share * usable)
    blocks = facts.figure("num_kv_blocks")
    if gained is None or gained < 1 or not blocks:
        return
    yield Finding(
        "reserve_too_large",
        "high" if gained > 0.1 * blocks else "medium",
        f"Graphs took {format_bytes(used)} of the {format_bytes(reserved)} reserved for "
        "them.",
        {
            "graph_used_bytes": used,
            "graph_reserved_bytes": reserved,
            "usable_bytes": usable,
        },
        RESERVE,
        f"{RESERVE}={share:g}",
        f"{gained:,} KV blocks more ({_percent(gained, blocks)}); graphs keep "
        f"{format_bytes(share * usable)}",
    )


def _has_every_graph(facts: RunFacts) -> bool:
    """Whether no graph is missing, so that a smaller reserve costs none."""
    share = facts.figure("captured_percent")
    if share is not None:
        return share >= 100.0
    if "captured_percent" in contradictory(facts.summary):
        return False
    # Engines without a graph budget capture every bucket.
    return facts.summary.memory_or_none.graph_budget is None


def reserve_too_small(facts: RunFacts) -> Iterator[Finding]:
    """Buckets got no graph for want of memory, or graphs took more than reserved."""
    if facts.summary.memory_or_none.graph_budget is not None:
        yield from _graphs_missing(facts)
        return
    reserved, usable = (
        facts.figure("graph_reserved_bytes"),
        facts.figure("usable_bytes"),
    )
    used = facts.figure("graph_memory_bytes")
    if not reserved or not usable or used is None or used <= 1.02 * reserved:
        return
    share = math.ceil(100 * 1.05 * used / usable) / 100
    lost = facts.blocks_in(share * usable - reserved)
    if share >= 1 or lost is None:
        return
    yield Finding(
        "reserve_too_small",
        "high",
        f"Graphs took {format_bytes(used)}, but only {format_bytes(reserved)} are "
        f"reserved; {format_bytes(used - reserved)} came out of the margin.",
        {"graph_used_bytes": used, "graph_reserved_bytes": reserved},
        RESERVE,
        f"{RESERVE}={share:g}",
        f"the margin stays whole; {lost:,} KV blocks fewer",
    )


def _graphs_missing(facts: RunFacts) -> Iterator[Finding]:
    share = facts.figure("captured_percent")
    planner = facts.planner
    if share is None or share >= 100 or planner is None:
        return
    missing, total, now = 0, 0, planner.plan(PlanSettings())
    for phase in PHASES:
        generated = facts.count(f"{phase}_generated")
        total += generated
        missing += generated - facts.count(f"{phase}_captured")
    plan = smallest_reserve(planner, PlanSettings(), None, 0)
    where = ""
    if plan is None:
        utilization = 0.98
        settings = PlanSettings(gpu_memory_utilization=utilization)
        plan = smallest_reserve(planner, settings, None, 0)
        where = f"gpu_memory_utilization={utilization:g} "
    numbers: dict[str, float | int | str] = {
        "captured_percent": share,
        "missing_graphs": missing,
        "graph_budget_bytes": now.graph_budget_bytes or 0,
    }
    title = f"{missing} of {total} buckets got no graph: the budget was used up."
    if plan is None:
        yield Finding(
            "reserve_too_small",
            "medium",
            title,
            {**numbers, "needed_bytes": round(graph_bytes_of_all(planner))},
            "VLLM_BUCKETING_FROM_FILE",
            "fewer buckets; no reserve holds all these graphs",
            f"{missing} buckets run without a graph as it is",
        )
        return
    yield Finding(
        "reserve_too_small",
        "medium",
        title,
        {**numbers, "needed_bytes": plan.graph_used_bytes},
        RESERVE,
        f"{where}{RESERVE}={plan.settings[RESERVE]:g}",
        _plan_effect(now, plan, missing),
    )


def _plan_effect(now: Plan, plan: Plan, missing: int) -> str:
    difference = plan.num_kv_blocks - now.num_kv_blocks
    word = "more" if difference >= 0 else "fewer"
    return (
        f"all {missing} get a graph ({format_bytes(plan.graph_used_bytes)} in all, "
        f"predicted); {abs(difference):,} KV blocks {word}"
    )


def memory_idle(facts: RunFacts) -> Iterator[Finding]:
    """Much memory is free after start-up that the utilisation keeps from being used."""
    free, usable = facts.figure("free_bytes"), facts.figure("usable_bytes")
    utilization = facts.summary.memory_or_none.gpu_memory_utilization
    total = facts.figure("total_bytes")
    cache = facts.figure("kv_cache_allocated_bytes") or facts.figure("kv_cache_bytes")
    grown = facts.figure("warmup_allocated_bytes")
    known = (free, usable, utilization, total, cache, grown)
    if any(value is None for value in known):
        return
    assert free is not None, "checked above"
    assert total is not None, "checked above"
    assert utilization is not None, "checked above"
    idle = free - (cache or 0) - (grown or 0)
    spare = idle - TARGET_IDLE * total
    better = math.floor(100 * min(0.98, utilization + spare / free)) / 100
    if idle < 0.15 * total or better <= utilization + 0.01:
        return
    reserve = facts.summary.memory_or_none.graph_reserved_fraction or 0.0
    gained = facts.blocks_in((better - utilization) * free * (1 - reserve))
    blocks = facts.figure("num_kv_blocks")
    if gained is None or gained < 1 or not blocks:
        return
    yield Finding(
        "memory_idle",
        "high" if idle > 0.25 * total else "medium",
        f"{format_bytes(idle)} of {format_bytes(total)} are free after start-up.",
        {
            "idle_bytes": idle,
            "total_bytes": total,
            "gpu_memory_utilization": utilization,
        },
        "gpu_memory_utilization",
        f"--gpu-memory-utilization {better:g}",
        f"{gained:,} KV blocks more ({_percent(gained, blocks)}), "
        f"{format_bytes(free * (1 - better))} left unused",
    )


def graph_estimate_off(facts: RunFacts) -> Iterator[Finding]:
    """CUDA graphs took noticeably more or less than was estimated for them."""
    estimated = facts.figure("graph_estimated_bytes")
    actual = facts.figure("graph_memory_bytes")
    total = facts.figure("total_bytes")
    if estimated is None or actual is None or not total:
        return
    wrong = estimated - actual
    if abs(wrong) < max(256 * MIB, 0.2 * max(actual, estimated)):
        return
    tokens = _tokens_in(facts, abs(wrong))
    more = "more" if wrong > 0 else "fewer"
    effect = f"{format_bytes(abs(wrong))} {'for' if wrong > 0 else 'not taken from'} the KV cache"
    if tokens is not None:
        effect += f", about {tokens:,} tokens {more}"
    sign = "raise" if wrong > 0 else "lower"
    yield Finding(
        "graph_estimate_off",
        "high" if wrong < 0 or wrong > 2 * GIB else "medium",
        f"Graphs were estimated at {format_bytes(estimated)} and took "
        f"{format_bytes(actual)}.",
        {"estimated_bytes": estimated, "memory_bytes": actual, "total_bytes": total},
        "gpu_memory_utilization",
        f"{sign} --gpu-memory-utilization by {abs(wrong) / total:.4f}",
        effect,
    )


def _tokens_in(facts: RunFacts, num_bytes: float) -> int | None:
    cache, tokens = facts.figure("kv_cache_bytes"), facts.figure("kv_cache_tokens")
    if not cache or not tokens or cache <= 0:
        return None
    return int(num_bytes * tokens / cache)


def no_room_for_cache(facts: RunFacts) -> Iterator[Finding]:
    """Nothing, or less than nothing, was left for the KV cache."""
    cache, total = facts.figure("kv_cache_bytes"), facts.figure("total_bytes")
    utilization = facts.summary.memory_or_none.gpu_memory_utilization
    if cache is None or total is None or cache > 0 or utilization is None:
        return
    free, reserve = (
        facts.figure("free_bytes"),
        facts.summary.memory_or_none.graph_reserved_fraction,
    )
    # On HPU the utilisation is a share of what is free after profiling, on CUDA of all.
    per_share = free * (1 - (reserve or 0.0)) if free and reserve is not None else total
    needed = utilization + abs(cache) / per_share
    numbers: dict[str, float | int | str] = {
        "kv_cache_bytes": cache,
        "gpu_memory_utilization": utilization,
    }
    title = f"{format_bytes(cache)} were left for the KV cache."
    if needed < 1:
        yield Finding(
            "no_room_for_cache",
            "high",
            title,
            numbers,
            "gpu_memory_utilization",
            f"--gpu-memory-utilization above {math.ceil(100 * needed) / 100:g}",
            f"the first KV block fits; each 0.01 beyond adds "
            f"{format_bytes(0.01 * per_share)}",
        )
        return
    weights = facts.figure("weights_bytes")
    more = f"; the weights take {format_bytes(weights)}" if weights else ""
    yield Finding(
        "no_room_for_cache",
        "high",
        title + f" Even all of {format_bytes(total)} would not do{more}.",
        numbers,
        "tensor_parallel_size",
        "more devices, or a smaller model or data type",
        f"at least {format_bytes(abs(cache))} must be freed on each device",
    )


def _percent(part: float, whole: float) -> str:
    return f"+{100 * part / whole:.0f} %"


RULES = (
    Rule(
        "reserve_too_large",
        "graphs took less than half of the reserve, and none is missing",
        "reserved, usable and graph memory; KV blocks",
        reserve_too_large,
    ),
    Rule(
        "reserve_too_small",
        "buckets got no graph for want of memory, or graphs took more than the reserve",
        "captured share or graph memory; KV blocks",
        reserve_too_small,
    ),
    Rule(
        "memory_idle",
        "15 % of the device or more is free after start-up",
        "free, usable and total memory, utilisation, KV cache, memory taken by warm-up",
        memory_idle,
    ),
    Rule(
        "graph_estimate_off",
        "CUDA graphs took a fifth (and 256 MiB) more or less than estimated",
        "estimated and actual graph memory, total memory",
        graph_estimate_off,
    ),
    Rule(
        "no_room_for_cache",
        "the KV cache would have a size of zero or less",
        "KV cache budget, utilisation, total memory",
        no_room_for_cache,
    ),
)
