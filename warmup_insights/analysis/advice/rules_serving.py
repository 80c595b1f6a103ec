"""Advice on an engine that serves: memory that runs out, sleep and waking up."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import median

from warmup_insights.analysis.advice.cause import (
    Failed,
    device_bytes,
    explained,
    utilization,
)
from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import (
    Finding,
    Rule,
    Value,
    Way,
    count_of,
)
from warmup_insights.analysis.advice.ways import finding_of, numbers_of
from warmup_insights.units import format_bytes, format_duration

LEAST_SHARE = 0.03
"""Of the device: less than this is soon gone again."""


def out_of_memory_serving(facts: RunFacts) -> Iterator[Finding]:
    """Memory ran out while serving: the margin beside the KV cache was too small."""
    found = explained(facts, "out_of_memory_serving")
    if found is None:
        return
    total, share = device_bytes(facts, found), utilization(facts)
    usable, free = facts.figure("usable_bytes"), facts.figure("free_bytes")
    margin = free - usable if free is not None and usable is not None else None
    title = f"Memory ran out{_served(facts)}{found.where}"
    if margin is not None and share is not None:
        title += f": utilisation {share:g} left {format_bytes(margin)} free"
    numbers = numbers_of(
        found, margin_bytes=margin, gpu_memory_utilization=share, total_bytes=total
    )
    way = _less_cache(facts, found, total, margin)
    yield finding_of(
        "out_of_memory_serving", f"{title}.", numbers, [way],
        "more room for what requests take beyond the profiling run",
    )  # fmt: skip


def _served(facts: RunFacts) -> str:
    serving = facts.summary.serving
    seconds = serving.duration_s if serving is not None else None
    return " while serving" if seconds is None else f" {seconds:.0f} s after ready"


def _less_cache(
    facts: RunFacts, found: Failed, total: float | None, margin: float | None
) -> Way:
    """A KV cache smaller by 1.5 times what was missing, or by the margin there was."""
    share, fixed = utilization(facts), facts.summary.setting("num_gpu_blocks_override")
    if not total:
        return Way(
            "a smaller KV cache: --gpu-memory-utilization lower by 0.03 or more",
            "requests that fit at once; the log does not hold the device, so not how much",
        )
    wanted = margin or 0.0 if found.needed is None else 1.5 * found.needed
    more = max(wanted, LEAST_SHARE * total)
    blocks = facts.blocks_in(more)
    if fixed is not None:
        value = int(fixed) - blocks if blocks and blocks < fixed else None
        less = f" {value}" if value is not None else f" lower by {format_bytes(more)}"
        changes = {} if value is None else {"num_gpu_blocks_override": value}
        return Way(
            f"--num-gpu-blocks-override{less}",
            f"{format_bytes(more)} of KV cache; the utilisation changes nothing beside it",
            changes,
        )
    base = facts.figure("free_bytes") if _is_share_of_free(facts) else total
    lower = 0.0
    if share is not None and base:
        lower = math.floor(100 * (share - more / base) + 1e-6) / 100
    if share is None or not base or lower <= 0:
        return Way(
            f"a --gpu-memory-utilization that leaves {format_bytes(more)} more",
            "as much KV cache; the log does not hold a share that can be lowered so far",
        )
    cost = (share - lower) * base
    tokens, cache = facts.figure("kv_cache_tokens"), facts.figure("kv_cache_bytes")
    lost = f", about {int(tokens * cost / cache):,} tokens" if tokens and cache else ""
    return Way(
        f"--gpu-memory-utilization {lower:g}",
        f"{format_bytes(cost)} of KV cache{lost}",
        {"gpu_memory_utilization": lower},
    )


def _is_share_of_free(facts: RunFacts) -> bool:
    """Whether the utilisation is of what was free after profiling, as on HPU."""
    return facts.summary.memory_or_none.graph_reserved_fraction is not None


def wake_up_failed(facts: RunFacts) -> Iterator[Finding]:
    """Memory that sleeping gave back was gone when the engine woke up."""
    found = explained(facts, "wake_up_failed")
    serving = facts.summary.serving
    if found is None or serving is None:
        return
    last = [s for s in serving.sleeps if s.action == "sleep" and s.freed_bytes]
    freed = last[-1].freed_bytes if last else None
    used, total = (last[-1].used_bytes if last else None), device_bytes(facts, found)
    title = f"Memory ran out while the engine woke up{found.where}"
    if freed is not None:
        title += f": {format_bytes(freed)} that sleeping freed must be had again"
    taken = None
    if freed is not None and used is not None and total:
        taken = total - used - freed
        title += f", beside {format_bytes(used)} that stayed in use"
    share = utilization(facts)
    numbers = numbers_of(
        found, freed_bytes=freed, used_bytes=used, total_bytes=total,
        gpu_memory_utilization=share,
    )  # fmt: skip
    room = "memory"
    if taken is not None and taken > 0:
        room = f"more than {format_bytes(taken)}"
    yield finding_of(
        "wake_up_failed", f"{title}.", numbers,
        [
            Way(
                f"start nothing on the device that takes {room} while the engine sleeps",
                "the memory of a sleeping engine is free only until it wakes up",
            ),
            Way(
                "a lower --gpu-memory-utilization for each engine of the device: together "
                "less than 1",
                "KV cache of each",
            ),
        ],
        "the engine finds its memory when it wakes up",
    )  # fmt: skip


def sleep_mode(facts: RunFacts) -> Iterator[Finding]:
    """The engine slept and woke up: what that takes, beside a whole start."""
    start, serving = facts.start, facts.summary.serving
    if start is None or start.of or serving is None:
        return
    wakes = [
        each.duration_s
        for each in serving.sleeps
        if each.action == "wake_up" and each.duration_s is not None
    ]
    slept = [each for each in serving.sleeps if each.action == "sleep"]
    if not wakes or median(wakes) >= start.wall_s:
        return
    freed = max((each.freed_bytes or 0 for each in slept), default=0)
    host = max((each.host_bytes or 0 for each in slept), default=0)
    numbers: dict[str, Value] = {"wake_up_s": median(wakes), "num_wakes": len(wakes)}
    numbers |= {"start_s": start.wall_s}
    numbers |= {"freed_bytes": freed} if freed else {}
    numbers |= {"host_bytes": host} if host else {}
    kept = f": {format_bytes(host)}" if host else ""
    room = format_bytes(freed) if freed else "what sleeping gives back"
    yield Finding(
        "sleep_mode",
        "low",
        f"Waking up took {format_duration(median(wakes))} ({count_of(len(wakes), 'time')}), "
        f"a start {format_duration(start.wall_s)}.",
        numbers,
        "enable_sleep_mode",
        "sleep, not an end, where the engine is idle for a while; keep "
        f"{room} free for it on the device",
        f"{format_duration(start.wall_s - median(wakes))} less until the next answer, each "
        "time",
        price=f"level 1 keeps the weights in host memory{kept}; a program that took the "
        "memory meanwhile makes the wake-up fail",
    )


TUNING_RULES = (
    Rule(
        "sleep_mode",
        "the engine slept and woke up, and its whole start is known (vLLM)",
        "sleeps while serving with their time; a log that holds the whole start",
        sleep_mode,
        formula="time of the start - median time of waking up",
        margin="how often the engine is idle is not known, so it is always low",
        source="vLLM docs `features/sleep_mode`, `device_allocator/cumem.py`",
        example="0.4 to 1.2 s to wake up, 71 s to start",
    ),
)
RULES = (
    Rule(
        "out_of_memory_serving",
        "memory ran out after the engine was ready",
        "the failure; utilisation, memory of the device, free memory at the start",
        out_of_memory_serving,
        formula="utilisation - max(1.5 x needed, 3 % of the device) / device; with needed "
        "unknown, the margin that was left is doubled",
        margin="3 % of the device at least",
        source="vLLM `v1/worker/gpu_worker.py`, `determine_available_memory`",
        example="0.94 left 3.68 GiB of 95 GiB free: 0.90, which costs 3.8 GiB of KV cache",
    ),
    Rule(
        "wake_up_failed",
        "memory ran out when a sleeping engine woke up",
        "the failure, sleeps while serving",
        wake_up_failed,
        formula="device - still in use - freed by sleeping = what others may hold",
        margin="shares of all engines of a device below 1",
        source="vLLM `device_allocator/cumem.py`, docs `features/sleep_mode`",
        example="53.5 GiB to map again while others hold 20.3 GiB",
    ),
)
