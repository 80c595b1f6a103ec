"""Advice where a start failed because the KV cache had too little room, or none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from warmup_insights.analysis.advice.cause import Failed, explained, failed, utilization
from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import (
    Finding,
    Rule,
    Value,
    Way,
    count_of,
)
from warmup_insights.analysis.advice.ways import (
    bytes_per_share,
    fewer_weight_bits,
    finding_of,
    highest_share,
    monitor,
    more_devices,
    numbers_of,
    share_for,
    share_way,
    shorter_steps,
)
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import GIB, format_bytes

LENGTH_SHARE = 0.98
"""Of the engine's estimate: the next start may have a little less memory."""
CLOSE_SHARE, PLAUSIBLE_SHARE = 0.75, 0.5
"""Of the utilisation wanted: below the first others hold so much that they are the cause,
below the second what is left is hardly enough for the model."""
LEAST_RESERVE = 0.05
"""Of usable memory, what graphs keep at least where their need is not known."""
LENGTH_STEP = 16
"""Lengths are rounded down to whole KV blocks."""
_ITEMS = re.compile(r"budget of (\d{1,9}) tokens, and profiled with ([1-9]\d{0,5}) ")
_16_BIT = ("float16", "bfloat16", "half")
_SOURCE = "vLLM `v1/core/kv_cache_utils.py`, docs `configuration/conserving_memory`"


def kv_cache_too_small(facts: RunFacts) -> Iterator[Finding]:
    """One request of the full length does not fit into the KV cache."""
    found = explained(facts, "kv_cache_too_small")
    if found is None:
        return
    length = found.stated.max_model_len or facts.summary.setting("max_model_len")
    wanted = "" if length is None else f" of {length:,.0f} tokens"
    fits = found.stated.estimated_model_len
    if found.needed is None or not found.free:
        title = f"The KV cache holds {fits:,} tokens, less than one request{wanted}"
    else:
        title = (
            f"One request{wanted} needs {format_bytes(found.needed)} of KV cache, and "
            f"there are {format_bytes(found.free)}"
        )
    numbers = numbers_of(found, max_model_len=length, estimated_model_len=fits)
    shorter = list(_shorter(facts, found, length))
    ways = [
        *_smaller_cache_type(facts, found), *_smaller_reserve(facts, found),
        *_larger_share(facts, found),
        *fewer_weight_bits(facts, facts.figure("weights_bytes")), *more_devices(facts),
    ]  # fmt: skip
    if facts.summary.device.kind == "cpu":
        ways = list(_larger_on_host(facts, found))
    has_item = any(
        _item_tokens(facts) > int(way.changes["max_model_len"]) for way in shorter
    )
    ways = [*ways, *shorter] if has_item else [*shorter, *ways]
    yield finding_of(
        "kv_cache_too_small", f"{title}{found.where}.", numbers, ways,
        "the engine starts: one request of full length fits",
    )  # fmt: skip


def _larger_on_host(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """On a CPU the cache has a size that was set, or what is left of a share of the memory
    (vLLM `v1/worker/cpu_worker.py determine_available_memory`)."""
    if facts.summary.memory_or_none.usable_bytes is not None or found.needed is None:
        yield from _larger_share(facts, found)
        return
    space = math.ceil(found.needed / GIB)
    yield Way(
        f"VLLM_CPU_KVCACHE_SPACE={space} (GiB; or --kv-cache-memory-bytes)",
        "memory of the host, on the node that the worker is bound to",
        {"VLLM_CPU_KVCACHE_SPACE": space},
    )


def _item_tokens(facts: RunFacts) -> int:
    """Tokens that one image or video may take at most; 0 where no line states it."""
    found = [
        int(match[1]) // int(match[2])
        for note in facts.summary.notes
        if note.topic == "multimodal" and (match := _ITEMS.search(note.text))
    ]
    return max(found, default=0)


def _shorter(facts: RunFacts, found: Failed, length: float | None) -> Iterator[Way]:
    fits = found.stated.estimated_model_len
    if fits is None and length and found.needed and found.free:
        fits = int(length * found.free / found.needed)
    if fits is None or fits < LENGTH_STEP:
        return
    value = math.floor(LENGTH_SHARE * fits / LENGTH_STEP) * LENGTH_STEP
    item = _item_tokens(facts)
    large = f"; an image or video of up to {item:,} tokens has no room then"
    yield Way(
        f"--max-model-len {value} (at most {fits})",
        f"requests of more than {value:,} tokens are refused"
        + (large if item > value else ""),
        {"max_model_len": value},
    )


def _smaller_cache_type(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """A KV cache of 8 bits, with a larger share where that alone does not do."""
    kind = str(facts.summary.config.get("kv_cache_dtype", "auto"))
    dtype = str(facts.summary.config.get("dtype", ""))
    is_wide = kind in _16_BIT or (kind == "auto" and dtype.endswith(_16_BIT))
    if found.needed is None or not found.free or not is_wide:
        return
    price = (
        "accuracy; the attention of the model and of a draft model must allow it, and it "
        "brings nothing where the checkpoint asks for 8 bits already"
    )
    name = "fp8"
    if facts.summary.device.kind == "hpu":
        name, price = "fp8_inc", f"a calibration; {price}"
    short = found.needed / 2 - found.free
    half = f"--kv-cache-dtype {name}: {format_bytes(found.needed / 2)} are enough"
    if short <= 0:
        yield Way(half, price, {"kv_cache_dtype": name})
        return
    share = share_for(facts, found, short)
    if share is None or share > highest_share(facts, found):
        suggestion = f"{half} for half of it, {format_bytes(short)} short"
        yield Way(suggestion, f"not enough by itself; {price}")
        return
    yield Way(
        f"--kv-cache-dtype {name} --gpu-memory-utilization {share:g}: "
        f"{format_bytes(found.needed / 2)} are enough",
        f"{format_bytes(short)} less margin; {price}",
        {"kv_cache_dtype": name, "gpu_memory_utilization": share},
    )


def _smaller_reserve(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """Less of usable memory for graphs (HPU): what they need is not known before they are
    captured, so a part stays."""
    reserve = facts.summary.memory_or_none.graph_reserved_fraction
    usable = facts.figure("usable_bytes")
    if not usable or not reserve or found.needed is None or not found.free:
        return
    share = math.floor(100 * (reserve - (found.needed - found.free) / usable)) / 100
    if share >= LEAST_RESERVE:
        name = "VLLM_GRAPH_RESERVED_MEM"
        yield Way(
            f"{name}={share:g}",
            "less room for graphs; buckets that get none run slower",
            {name: share},
        )


def _larger_share(facts: RunFacts, found: Failed) -> Iterator[Way]:
    if found.needed is None or found.free is None:
        share = utilization(facts)
        if share is None or share < highest_share(facts, found):
            now = "" if share is None else f" (now {share:g})"
            yield Way(
                f"a higher --gpu-memory-utilization{now}, as far as memory is free at the start",
                "less margin; how much is needed the message states in tokens only",
            )
        return
    yield share_way(facts, found, found.needed - found.free)


def memory_taken(facts: RunFacts) -> Iterator[Finding]:
    """Less is free than the utilisation needs, before anything was loaded."""
    found = explained(facts, "memory_taken")
    total = found.stated.total_bytes if found is not None else None
    if found is None or not total or found.free is None:
        return
    others = total - found.free
    wanted = found.stated.wanted_utilization or 0.0
    share = math.floor(100 * found.free / total) / 100 - 0.01
    numbers = numbers_of(
        found, total_bytes=total, others_bytes=others,
        gpu_memory_utilization=found.stated.wanted_utilization,
    )  # fmt: skip
    who = f"; {_beside(facts)}" if facts.beside else ""
    stop = Way(
        f"end what holds {format_bytes(others)} ({monitor(facts)}), or wait for it",
        f"none; the utilisation stays as it is{who}",
    )
    lower = [] if share < PLAUSIBLE_SHARE * wanted or share <= 0 else [
        Way(
            f"--gpu-memory-utilization {share:.2f}",
            f"{format_bytes((found.needed or 0) - share * total)} less for weights and KV "
            "cache; both must still fit",
            {"gpu_memory_utilization": round(share, 2)},
        )
    ]  # fmt: skip
    yield finding_of(
        "memory_taken",
        f"{format_bytes(found.free)} of {format_bytes(total)} were free at the start, and "
        f"a utilisation of {found.stated.wanted_utilization:g} asks for "
        f"{format_bytes(found.needed)}{found.where}; others hold {format_bytes(others)}.",
        numbers,
        [*lower, stop]
        if share >= CLOSE_SHARE * wanted
        else [stop, _other_device(facts), *lower],
        "the engine passes this check, which comes before the weights are loaded",
    )


def _other_device(facts: RunFacts) -> Way:
    names = {"hpu": "HABANA_VISIBLE_MODULES", "rocm": "HIP_VISIBLE_DEVICES"}
    name = names.get(facts.summary.device.kind or "", "CUDA_VISIBLE_DEVICES")
    return Way(f"another device ({name})", "none, where one is free")


def no_room_for_cache(facts: RunFacts) -> Iterator[Finding]:
    """Nothing, or less than nothing, was left for the KV cache."""
    cache = facts.figure("kv_cache_bytes")
    found = explained(facts, "no_room_for_cache")
    is_negative = cache is not None and cache <= 0
    is_going_on = failed(facts.summary) is None and not _is_ready(facts)
    if found is None and not (is_negative and is_going_on):
        return
    missing = -cache if cache is not None and is_negative else None
    weights, share = facts.figure("weights_bytes"), utilization(facts)
    stated: dict[str, Value | None] = {
        "line": found.line if found is not None else None, "kv_cache_bytes": cache,
        "gpu_memory_utilization": share, "weights_bytes": weights,
    }  # fmt: skip
    numbers = {name: value for name, value in stated.items() if value is not None}
    title = "Nothing was left for the KV cache"
    if missing is not None:
        title = f"{format_bytes(cache)} were left for the KV cache"
    where = found.where if found is not None else ""
    ways = [
        *_memory_of_host(facts), *_one_after_another(facts, missing, weights), *_share_above(facts, found, missing),
        *shorter_steps(facts), *fewer_weight_bits(facts, facts.figure("weights_bytes")), *more_devices(facts),
    ]  # fmt: skip
    yield finding_of(
        "no_room_for_cache", f"{title}{where}.", numbers, ways,
        "the first KV block fits; how many more is in the line of the next start",
    )  # fmt: skip


def _is_ready(facts: RunFacts) -> bool:
    """Whether the engine started: then it got its KV cache, whatever was left for it."""
    return facts.summary.status in ("finished", "skipped")


def _memory_of_host(facts: RunFacts) -> Iterator[Way]:
    """On a CPU the KV cache has a size of its own (vLLM `v1/worker/cpu_worker.py`)."""
    if facts.summary.device.kind == "cpu":
        yield Way("VLLM_CPU_KVCACHE_SPACE with GiB that the host has", "host memory")


def _one_after_another(
    facts: RunFacts, missing: float | None, weights: float | None
) -> Iterator[Way]:
    """Other engines took memory while this one measured: seen in the log, or by the sum."""
    more = missing - weights if missing is not None and weights is not None else 0.0
    if not facts.beside and more <= 0:
        return
    reasons = [_beside(facts)] if facts.beside else []
    if more > 0:
        reasons.append(
            f"at least {format_bytes(more)} were taken besides the weights while this engine "
            "measured: its activations, and whatever others took then"
        )
    yield Way(
        "start the engines of this device one after another, with shares "
        "(--gpu-memory-utilization) that are together less than 1, or end other programs on it",
        f"none, where they use one device; {'; '.join(reasons)}",
    )


def _beside(facts: RunFacts) -> str:
    """Which engines ran at the same time, and what they held as far as it is known."""
    held = [size for other in facts.beside if (size := _held(other))]
    words = (
        f"by this log, {count_of(len(facts.beside), 'other engine')} ran at that time"
    )
    return f"{words}, with {format_bytes(sum(held))} of weights" if held else words


def _held(summary: RunSummary) -> float | None:
    return BY_NAME["weights_bytes"].trusted(summary)


def _share_above(
    facts: RunFacts, found: Failed | None, missing: float | None
) -> Iterator[Way]:
    per_share = bytes_per_share(facts, found) or 0.0
    if missing is not None and (missing or utilization(facts) is not None):
        # Zero bytes are no block yet: a hundredth more than what is missing.
        yield share_way(facts, found, missing + 0.001 * per_share)
    else:
        yield Way(
            "a higher --gpu-memory-utilization",
            "the log does not hold by how much",
        )


def allocation_refused(facts: RunFacts) -> Iterator[Finding]:
    """An allocation failed while far more was free."""
    found = explained(facts, "allocation_refused")
    if found is None or found.needed is None or found.free is None:
        return
    share = utilization(facts)
    at = "" if share is None else f" at utilisation {share:g}"
    yield finding_of(
        "allocation_refused",
        f"{format_bytes(found.needed)} could not be had while {format_bytes(found.free)} "
        f"were reported free{at}{found.where}: this is no lack of room.",
        numbers_of(found, gpu_memory_utilization=share),
        [
            Way(
                "look for a limit, fragmentation or another process on the device: "
                f"{monitor(facts)}, dmesg, then the same start alone",
                "the log does not hold which of them it is",
            ),
            Way(
                "a lower --gpu-memory-utilization, or fewer buckets",
                f"does not help: {format_bytes(found.free - found.needed)} more than "
                "needed were free",
            ),
        ],
        "tells a limit from a lack of memory",
    )


RULES = (
    Rule(
        "kv_cache_too_small",
        "one request of the full length does not fit into the KV cache",
        "needed and available KV cache, or the number of tokens that fit",
        kv_cache_too_small,
        formula="max_model_len = 0.98 x the engine's estimate; KV cache of 8 bits = needed "
        "/ 2; utilisation + (needed - available) / device",
        margin="utilisation at most 0.95, and 0.01 below what was free at the start; a shorter "
        "length comes last where an image or video may take more tokens",
        source=f"{_SOURCE}, `check_enough_kv_cache_memory`",
        example="18.35 GiB needed for 262,144 tokens, 8.72 GiB available: 119,392 tokens, "
        "or 8 bits and a utilisation of 0.90",
    ),
    Rule(
        "memory_taken",
        "less is free at the start than the utilisation asks for",
        "free memory, memory of the device, the utilisation wanted",
        memory_taken,
        formula="utilisation = floor(100 x free / device) / 100 - 0.01",
        margin="0.01 of the device",
        source="vLLM `v1/worker/utils.py`, `request_memory`",
        example="13.58 of 15.99 GiB free, 0.85 wanted: 0.83, or end what holds 2.41 GiB",
    ),
    Rule(
        "no_room_for_cache",
        "the KV cache would have a size of zero or less",
        "the failure, or KV cache budget; utilisation, memory of the device",
        no_room_for_cache,
        formula="utilisation + |KV cache| / device (HPU: / (free x (1 - reserve)))",
        margin="as kv_cache_too_small; other engines on the device come first where the log "
        "holds one that ran at that time, or more is missing than the weights take",
        source=f"{_SOURCE}, `check_enough_kv_cache_memory`",
        example="two engines started in the same second: -26.31 GiB left beside 8.489 GiB of "
        "weights, and 17.82 GiB taken besides them",
    ),
    Rule(
        "allocation_refused",
        "an allocation failed while more than twice as much was free",
        "free and needed memory",
        allocation_refused,
        formula="needed < free / 2",
        margin="no setting is changed",
        source="the bridge's `Allocation failed for size`, torch `CUDACachingAllocator`",
        example="256 MiB failed at utilisation 0.02 while 95.4 GiB were free",
    ),
)
