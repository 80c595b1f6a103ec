"""Advice where a device had no memory left in a start: weights, steps, captures."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from warmup_insights.analysis.advice.cause import (
    AHEAD,
    FULL_SHARE,
    Failed,
    device_bytes,
    explained,
    held_by_others,
    stage_of,
    utilization,
)
from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, Way, count_of
from warmup_insights.analysis.advice.rules_memory import MIN_MARGIN_SHARE
from warmup_insights.analysis.advice.ways import (
    fewer_logits,
    fewer_weight_bits,
    finding_of,
    monitor,
    more_devices,
    num_ranks,
    numbers_of,
    shorter_steps,
    smaller_batch,
)
from warmup_insights.analysis.plan.planning import PlanSettings
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.summary import PHASES, StepCost
from warmup_insights.units import format_bytes

MAX_LISTED = 20
_NCCL = re.compile(r"\bNCCL\b|\bnccl[A-Z]|\bCuda failure \d")
"""The last is how NCCL's own checks print an error of CUDA."""
_COMPUTED = ("utilization", "GRAPH_RESERVED_MEM")
"""Settings of which the value is made from the shortfall."""
_AFTER_CACHE = ("kv_cache", "kernel_warmup", "graph_capture", "sampler", "pooler")
_BEFORE_CACHE = ("import", "configure", "start_", "distributed_", "download", "init_", "load_",
                 "profile_run")  # fmt: skip
_PARAMETERS = re.compile(r"(?<![\dx.A-Za-z])(\d{1,4}(?:\.\d{1,2})?)[Bb](?![A-Za-z0-9])")


def weights_too_large(facts: RunFacts) -> Iterator[Finding]:
    """The weights leave no room for anything else, or do not fit at all."""
    found = explained(facts, "weights_too_large")
    if found is None:
        return
    capacity, weights = device_bytes(facts, found), facts.figure("weights_bytes")
    named = None if weights is not None else _bytes_by_name(facts)
    size = weights or named
    numbers = numbers_of(
        found, total_bytes=capacity, weights_bytes=weights, weights_by_name_bytes=named,
        allocated_bytes=found.stated.allocated_bytes,
    )  # fmt: skip
    device = "the device" if capacity is None else f"{format_bytes(capacity)}"
    title = f"The weights did not fit into {device}"
    if weights is not None:
        title = f"The weights take {format_bytes(weights)} of {device}"
    elif named is not None:
        title += f": about {format_bytes(named)} by the model's name"
    ways = [*fewer_weight_bits(facts, size), *_fitting_devices(facts, size, capacity)]
    ways.append(
        Way(
            "--gpu-memory-utilization, higher or lower",
            "does not help: the weights are loaded whatever it is",
        )
    )
    yield finding_of(
        "weights_too_large", f"{title}{found.where}.", numbers, ways,
        f"weights of at most {FULL_SHARE:.0%} of a device leave room for activations and "
        "KV cache",
    )  # fmt: skip


def _fitting_devices(
    facts: RunFacts, weights: float | None, capacity: float | None
) -> Iterator[Way]:
    now = num_ranks(facts)
    count = 2 * now
    if weights is not None and capacity:
        while weights * now / count > FULL_SHARE * capacity and count < 1024:
            count *= 2
    yield from more_devices(facts, count)


def _bytes_by_name(facts: RunFacts) -> float | None:
    """Weights of 16 or 32 bits by the number in the model's name, per device."""
    is_quantized = str(facts.summary.config.get("quantization", None)) != "None"
    name = str(facts.summary.model or "").rpartition("/")[2]
    match = _PARAMETERS.search(name)
    if is_quantized or match is None:
        return None
    tensor = facts.summary.setting("tensor_parallel_size") or 1
    size = 4 if "float32" in str(facts.summary.config.get("dtype")) else 2
    return float(match[1]) * 1e9 * size / tensor


def out_of_memory(facts: RunFacts) -> Iterator[Finding]:
    """The start ran out of memory: where, how much was free, and what was missing."""
    found = explained(facts, "out_of_memory")
    if found is None:
        return
    trend, missing = memory_per_step(facts.steps), never_reached(facts)
    numbers = numbers_of(
        found, bytes_per_bucket=trend, never_reached=len(missing) or None,
        bucket=str(found.bucket) if found.bucket is not None else None,
    )  # fmt: skip
    parts = [f"The start ran out of memory{_place(found)}{found.where}"]
    for value, text in (
        (found.free, "{} were free"), (found.needed, "{} were needed"),
        (trend, "{} went with each bucket before it"),
    ):  # fmt: skip
        if value is not None:
            parts.append(text.format(format_bytes(value)))
    if missing:
        parts.append(f"{count_of(len(missing), 'bucket')} never reached")
    shortfall = _shortfall(found, trend, len(missing))
    if shortfall is not None:
        numbers["shortfall_bytes"] = shortfall
    more = len(missing) - MAX_LISTED
    listed = (*missing[:MAX_LISTED], *([f"and {more} more"] if more > 0 else []))
    ways = [*_room_ways(facts, found, shortfall)]
    yield finding_of(
        "out_of_memory", ", ".join(parts) + ".", numbers, ways,
        _effect(ways, shortfall), listed,
    )  # fmt: skip


def _effect(ways: Sequence[Way], shortfall: float | None) -> str:
    """What the first way brings: the room that it was computed from, or what was missing."""
    if shortfall is None:
        return "the shortfall is not known, so neither is how much is enough"
    room = format_bytes(shortfall)
    if any(name in ways[0].suggestion for name in _COMPUTED):
        return f"{room} of room"
    return f"{room} were missing; whether this is as much no figure shows"


def _place(found: Failed) -> str:
    if found.bucket is not None:
        return f" in {found.phase} {found.bucket}"
    return f" in {found.phase.replace('_', ' ')}" if found.phase else ""


def memory_per_step(steps: Sequence[StepCost]) -> float | None:
    """How much free memory went with each step lately, in bytes; None if it did not.

    The mean over the last ten steps that state what was free, which is not less than what
    one of them alone can show in a rounded log.
    """
    free = [s.free_before_bytes for s in steps if s.free_before_bytes is not None][-11:]
    if len(free) < 3:
        return None
    lost = (free[0] - free[-1]) / (len(free) - 1)
    return lost if lost > 0 else None


def never_reached(facts: RunFacts) -> list[str]:
    """Generated buckets that never ran; empty when the lists or the steps are unknown."""
    ran = {(row.phase, row.bucket) for row in facts.rows if row.run or row.capture}
    if not ran:
        return []
    return [
        f"{phase} {bucket}"
        for phase in PHASES
        for bucket in facts.summary.phase(phase).buckets
        if (phase, bucket) not in ran
    ]


def _shortfall(found: Failed, trend: float | None, num_missing: int) -> float | None:
    """What was missing to go on: for this bucket, and for the rest at the same pace."""
    needed, free = found.needed, found.free
    known = [trend * (num_missing + 1) - (free or 0)] if trend is not None else []
    if needed is not None:
        # What was free before a step is no proof that the step took nothing itself.
        known.append(needed - free if free is not None and free < needed else needed)
    total = found.stated.total_bytes
    if needed is not None and total is not None and needed > total:
        return needed - total  # XLA states what a program takes in all, of the device
    positive = [value for value in known if value > 0]
    return max(positive) if positive else None


def _room_ways(
    facts: RunFacts, found: Failed, shortfall: float | None
) -> Iterator[Way]:
    memory, others = facts.summary.memory_or_none, held_by_others(found)
    if shortfall is not None and others is not None and others >= shortfall:
        yield Way(
            f"end what else holds {format_bytes(others)} of the device ({monitor(facts)})",
            "none for this engine",
        )
    unused = found.stated.unallocated_bytes
    # vLLM `device_allocator/cumem.py` refuses to start with both.
    sleeps = str(facts.summary.config.get("enable_sleep_mode", "")).lower() == "true"
    if unused and found.needed and unused >= found.needed and not sleeps:
        yield Way(
            "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
            f"none known; {format_bytes(unused)} were held and used by no tensor",
            {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
        )
    if _is_empty_handed(facts, found):
        yield Way(
            f"end what else holds memory of the devices ({monitor(facts)}): this engine had "
            "not loaded anything yet",
            "none for this engine",
        )
        return
    logits = tuple(fewer_logits(facts, found, stage_of(facts, found)))
    yield from logits
    is_fixed = facts.summary.setting("num_gpu_blocks_override") is not None
    if is_fixed:
        yield Way(
            "a smaller --num-gpu-blocks-override, or none: the cache is as large as it sets",
            "KV cache",
        )
    has_cache = memory.num_kv_blocks or memory.kv_cache_bytes or memory.kv_cache_tokens
    is_before = (
        not has_cache and found.bucket is None and _is_before_cache(facts, found)
    )
    if shortfall is not None and not is_fixed:
        yield from _larger_reserve(facts, shortfall)
        if not is_before:
            yield from _less_for_cache(facts, found, shortfall)
    if has_cache and _is_capturing(facts, found):
        yield from _room_for_graphs(shortfall, is_fixed=is_fixed)
    elif found.bucket is not None:
        yield from smaller_batch(facts, found)
    else:
        yield from _fewer_tokens(facts, is_before=is_before, is_of_logits=bool(logits))
    yield from more_devices(facts)


def _is_empty_handed(facts: RunFacts, found: Failed) -> bool:
    """Whether memory ran out before this engine had taken any worth the name."""
    if facts.figure("weights_bytes") is not None or found.stated.allocated_bytes:
        return False
    is_ahead = found.phase is None and stage_of(facts, found) in AHEAD
    return is_ahead or _NCCL.search(found.message) is not None


def _is_before_cache(facts: RunFacts, found: Failed) -> bool:
    """Whether the stage comes before the KV cache, as far as the log shows it.

    On CUDA the profiling run compiles; elsewhere compilation may follow the cache.
    """
    stage = stage_of(facts, found)
    if facts.summary.device.kind not in ("cuda", "rocm"):
        return stage.startswith(_BEFORE_CACHE)
    # The size of the cache is printed before it is allocated, as the weights are.
    is_printed = facts.figure("weights_bytes") is not None
    is_after = stage.startswith(_AFTER_CACHE)
    return stage.startswith((*_BEFORE_CACHE, "compile")) or (
        is_printed and not is_after
    )


def _fewer_tokens(
    facts: RunFacts, *, is_before: bool, is_of_logits: bool
) -> Iterator[Way]:
    """Fewer tokens in the step that ran out of memory; logits do not grow with them."""
    if not is_of_logits:
        yield from shorter_steps(facts)
    if is_before:
        yield Way(
            "a lower --gpu-memory-utilization",
            "does not help: the KV cache was not allocated yet",
        )


def _is_capturing(facts: RunFacts, found: Failed) -> bool:
    """Whether graphs are captured beside a KV cache that took what activations left."""
    is_cuda = facts.summary.device.kind in ("cuda", "rocm")
    return is_cuda and stage_of(facts, found).startswith("graph_capture")


def _room_for_graphs(shortfall: float | None, *, is_fixed: bool) -> Iterator[Way]:
    if shortfall is None and not is_fixed:
        yield Way(
            "a lower --gpu-memory-utilization",
            "KV cache; graphs are captured in what is left beside it",
        )
    yield Way(
        "fewer graphs: the largest of cudagraph_capture_sizes left out",
        "batches of those sizes run without a graph",
    )


def _larger_reserve(facts: RunFacts, shortfall: float) -> Iterator[Way]:
    """More of usable memory for graphs, less for the KV cache (HPU)."""
    reserve = facts.summary.memory_or_none.graph_reserved_fraction
    usable = facts.figure("usable_bytes")
    if not usable or reserve is None:
        return
    least = math.ceil(100 * (reserve + 1.05 * shortfall / usable))
    shares = (percent / 100 for percent in range(least, 100))
    share = next(
        (s for s in shares if _fits(facts, PlanSettings(graph_reserved_mem=s))), None
    )
    if share is not None:
        name = "VLLM_GRAPH_RESERVED_MEM"
        lost = _lost(facts, (share - reserve) * usable)
        yield Way(f"{name}={share:g}", lost, {name: share})


def _less_for_cache(facts: RunFacts, found: Failed, shortfall: float) -> Iterator[Way]:
    share = utilization(facts)
    total = facts.figure("free_bytes") or device_bytes(facts, found)
    if total and not share:
        part = math.ceil(100 * 1.05 * shortfall / total) / 100
        yield Way(
            f"--gpu-memory-utilization lower by {part:g}",
            f"{format_bytes(part * total)} of KV cache; the log does not hold the share in "
            "use",
        )
        return
    if not total or not share:
        yield Way(
            f"a --gpu-memory-utilization that leaves {format_bytes(1.05 * shortfall)} more",
            "KV cache; the log does not hold the size of the device",
        )
        return
    most = math.floor(100 * (share - 1.05 * shortfall / total))
    shares = (percent / 100 for percent in range(most, 0, -1))
    lower = next(
        (s for s in shares if _fits(facts, PlanSettings(gpu_memory_utilization=s))),
        None,
    )
    if lower is not None:
        reserve = facts.summary.memory_or_none.graph_reserved_fraction or 0.0
        yield Way(
            f"--gpu-memory-utilization {lower:g}",
            _lost(facts, (share - lower) * total * (1 - reserve)),
            {"gpu_memory_utilization": lower},
        )


def _fits(facts: RunFacts, settings: PlanSettings) -> bool:
    """Whether the plan with such settings fits with room; True where none can be made.

    More for graphs lets more graphs be captured, so the shortfall of one start is not
    always enough.
    """
    if facts.planner is None:
        return True
    try:
        plan = facts.planner.plan(settings)
    except (InputError, SettingError):
        return False
    room = MIN_MARGIN_SHARE * plan.free_bytes
    return plan.outcome == "fits" and (plan.free_after_graphs_bytes or 0) >= room


def _lost(facts: RunFacts, num_bytes: float) -> str:
    blocks = facts.blocks_in(num_bytes)
    return f"{blocks:,} KV blocks fewer" if blocks else "a smaller KV cache"


RULES = (
    Rule(
        "out_of_memory",
        "the start ran out of memory, and no other rule names the cause",
        "the failure; free memory, memory needed, free memory per bucket",
        out_of_memory,
        formula="shortfall = needed - free, or memory per bucket x buckets not reached - "
        "free; reserve + 1.05 x shortfall / usable; utilisation - 1.05 x shortfall / free",
        margin="5 % more than the shortfall",
        source="vllm-gaudi `hpu_worker.py`, `determine_available_memory`",
        example="1 GiB a bucket, 8 of 12 not reached, 6 GiB free: 3 GiB more reserve",
    ),
    Rule(
        "weights_too_large",
        "memory ran out, and weights take more than 85 % of the device or were loading",
        "weights and memory of the device, or the stage",
        weights_too_large,
        formula="the smallest power of two of devices with weights / devices <= 85 % of one",
        margin="15 % of the device for activations and KV cache",
        source="vLLM docs `configuration/conserving_memory`",
        example="15.47 GiB of weights on 15.92 GiB: fewer bits or two devices; the "
        "utilisation does not help",
    ),
)
