"""Advice where memory ran out: for the KV cache, in a start, while serving."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from warmup_insights.analysis.advice.cause import (
    AFTER_CACHE,
    AHEAD,
    FULL_SHARE,
    explained,
    failure_rule,
    has_cache,
    held_by_others,
    is_free_before,
)
from warmup_insights.analysis.advice.change import Value, Way, as_option, as_set
from warmup_insights.analysis.advice.facts import Failed, RunFacts
from warmup_insights.analysis.advice.finding import Finding, first_lines, rule
from warmup_insights.analysis.advice.ways import (
    CPU_CACHE,
    bytes_per_share,
    cache_setting,
    fewer_logits,
    fewer_weight_bits,
    finding_of,
    fits_with,
    highest_share,
    monitor,
    more_devices,
    most_of_fewer_bits,
    num_devices,
    num_ranks,
    numbers_of,
    share_for,
    share_way,
    shorter_steps,
    smaller_batch,
    spare_cache,
)
from warmup_insights.analysis.plan.planning import PlanSettings
from warmup_insights.analysis.plan.regenerate import strategy_of
from warmup_insights.analysis.sentences import count_of
from warmup_insights.model.failure_text import is_likely_memory
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import PHASES, StepCost, is_true
from warmup_insights.units import GIB, MIB, format_bytes, format_duration

LENGTH_SHARE = 0.98
"""Of the engine's estimate: the next start may have a little less memory."""
CLOSE_SHARE, PLAUSIBLE_SHARE = 0.75, 0.5
"""Of the utilisation wanted: below the first others hold so much that they are the cause,
below the second what is left is hardly enough for the model."""
LEAST_RESERVE = 0.05
"""Of usable memory, what graphs keep at least where their need is not known."""
RANKS = 0.05
"""Of what is left for the KV cache: ranks of one engine do not differ by more."""
ROUNDED = round(0.01 * GIB)
"""Sizes in texts have two digits behind the point."""
LEAST_HELD = 128 * MIB
"""Less than this between rounded figures is no other process: each takes a context."""
UNIFIED = (118 * GIB, 123 * GIB)
"""Memory of a GB10, which shares it with its host: 119 to 122 GiB, as drivers state it."""
UNSEEN = "starting"
"""The stage of a run of which no line shows one."""
OF_USE = 4096
"""Tokens: a length below this and an eighth of the one wanted serves another purpose."""
_AT_LEAST = "at least "
_HAD_MEMORY = "which has its memory already"
LENGTH_STEP = 16
"""Lengths are rounded down to whole KV blocks."""
HPU_BLOCK = 128
"""Tokens of a KV block on HPU, unless set (vllm-gaudi `platform.py`)."""
MANY_TIMES = 8
"""More groups of layers than this share no cache."""
_PROFILED = re.compile(r"profiled with [1-9]|too short to hold the multi-modal")
"""Of the notes on encoders: those of a profiling run with images or videos."""
_ITEMS = re.compile(r"budget of (\d{1,9}) tokens, and profiled with ([1-9]\d{0,5}) ")
_16_BIT = ("float16", "bfloat16", "half")
_SOURCE = "vLLM `v1/core/kv_cache_utils.py`, docs `configuration/conserving_memory`"


@failure_rule(
    "one request of the full length does not fit into the KV cache",
    "needed and available KV cache, or the number of tokens that fit",
    formula="max_model_len = 0.98 x the engine's estimate; KV cache of 8 bits = needed "
    "/ 2; utilisation + (needed - available) / device",
    margin="utilisation at most 0.95, and 0.01 below what was free at the start; a shorter "
    "length comes last where an image or video may take more tokens; where a setting gives the size "
    "(`kv_cache_memory_bytes`, `num_gpu_blocks_override`), that one instead of the utilisation",
    source=f"{_SOURCE}, `check_enough_kv_cache_memory`",
    example="18.35 GiB needed for 262,144 tokens, 8.72 GiB available: 119,392 tokens, "
    "or 8 bits and a utilisation of 0.90",
)
def kv_cache_too_small(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """One request of the full length does not fit into the KV cache."""
    length = found.stated.max_model_len or facts.summary.setting("max_model_len")
    wanted = "" if length is None else f" of {length:,.0f} tokens"
    fits = found.stated.estimated_model_len
    if found.needed_bytes is None or not found.free_bytes:
        title = f"The KV cache holds {fits:,} tokens, less than one request{wanted}"
    else:
        title = (
            f"One request{wanted} needs {format_bytes(found.needed_bytes)} of KV cache, and "
            f"there are {format_bytes(found.free_bytes)}"
        )
    numbers = numbers_of(found, max_model_len=length, estimated_model_len=fits)
    shorter = list(_shorter(facts, found, length))
    ways = list(_larger_cache(facts, found))
    least = max(_item_tokens(facts), min(OF_USE, (length or 0) / 8))
    is_short = any(least > int(way.changes["max_model_len"]) for way in shorter)
    ways = [*ways, *shorter] if is_short else [*shorter, *ways]
    yield finding_of(
        facts, f"{title}{found.where}.", numbers, ways,
        "the engine starts: one request of full length fits",
    )  # fmt: skip


def _larger_cache(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """What the size of the cache follows from: a setting, else what is left beside weights."""
    if facts.summary.device.kind == "cpu":
        yield from _larger_on_host(facts, found)
    elif _is_set(facts, found):
        yield from _larger_size(facts, found)
    else:
        smaller = [*_smaller_cache_type(facts, found), *_smaller_reserve(facts, found)]
        shares = list(_larger_share(facts, found))
        is_enough = any(way.changes for way in shares)
        yield from (*shares, *smaller) if is_enough else (*smaller, *shares)
        short = None
        if found.needed_bytes is not None and found.free_bytes is not None:
            short = found.needed_bytes - found.free_bytes
        yield from fewer_weight_bits(facts, facts.figure("weights_bytes"), short)
        yield from more_devices(facts)


def _is_set(facts: RunFacts, found: Failed) -> bool:
    """Whether a setting gave the size that was too small: earlier versions compared what was
    left, whatever `num_gpu_blocks_override` was."""
    name = cache_setting(facts)
    if name != "num_gpu_blocks_override":
        return name is not None
    free, left = found.free_bytes, facts.summary.memory_or_none.kv_cache_bytes
    return free is not None and left is not None and abs(free - left) > RANKS * left


def _larger_size(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """More for the setting that gives the size, or the size that the utilisation leaves."""
    name = cache_setting(facts) or ""
    now = facts.summary.setting(name) or 0.0
    needed, free = found.needed_bytes, found.free_bytes
    if needed and free and free > ROUNDED:
        short = needed - free + ROUNDED
        is_blocks = name == "num_gpu_blocks_override"
        more = now * short / (free - ROUNDED) if is_blocks else short
        yield Way.that_sets(
            f"{format_bytes(short)} more of the device, which must be free beside the weights "
            "and activations",
            "",
            **{name: math.ceil(now + more)},
        )
        if not is_blocks and needed <= 2 * free:
            yield from _smaller_cache_type(facts, found)
    yield Way(
        f"no {as_option(name)}: the size is what the utilisation leaves beside the weights",
        "the size may differ from start to start",
    )


def _larger_on_host(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """On a CPU the cache has a size that was set, or what is left of a share of the memory
    (vLLM `v1/worker/cpu_worker.py determine_available_memory`)."""
    if (
        facts.summary.memory_or_none.usable_bytes is not None
        or found.needed_bytes is None
    ):
        yield from _larger_share(facts, found)
        return
    space = math.ceil(found.needed_bytes / GIB)
    yield Way.that_sets(
        "memory of the host, on the node that the worker is bound to",
        " (GiB; or --kv-cache-memory-bytes)",
        **{CPU_CACHE: space},
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
    if fits is None and length and found.needed_bytes and found.free_bytes:
        fits = int(length * found.free_bytes / found.needed_bytes)
    if fits is None or fits < LENGTH_STEP:
        return
    value = math.floor(LENGTH_SHARE * fits / LENGTH_STEP) * LENGTH_STEP
    item = _item_tokens(facts)
    large = f"; an image or video of up to {item:,} tokens has no room then"
    yield Way.that_sets(
        f"requests of more than {value:,} tokens are refused"
        + (large if item > value else ""),
        f" (at most {fits})",
        max_model_len=value,
    )


def _smaller_cache_type(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """A KV cache of 8 bits, with a larger share where that alone does not do."""
    kind = str(facts.summary.config.get("kv_cache_dtype", "auto"))
    dtype = str(facts.summary.config.get("dtype", ""))
    is_wide = kind in _16_BIT or (kind == "auto" and dtype.endswith(_16_BIT))
    if found.needed_bytes is None or not found.free_bytes or not is_wide:
        return
    price = (
        "accuracy; the attention of the model and of a draft model must allow it, and it "
        "brings nothing where the checkpoint has 8 bits already"
    )
    name = "fp8"
    if facts.summary.device.kind == "hpu":
        name, price = "fp8_inc", f"a calibration; {price}"
    short = found.needed_bytes / 2 - found.free_bytes
    enough = f": {format_bytes(found.needed_bytes / 2)} are enough"
    if short <= 0:
        yield Way.that_sets(price, enough, kv_cache_dtype=name)
        return
    share = share_for(facts, short)
    if share is None or share > highest_share(facts):
        half = f"--kv-cache-dtype {name}{enough} for half of it"
        yield Way(
            f"{half}, {format_bytes(short)} short",
            f"not enough by itself; {price}",
            kind="no help",
        )
        return
    yield Way.that_sets(
        f"{format_bytes(short)} less margin; {price}",
        enough,
        kv_cache_dtype=name,
        gpu_memory_utilization=share,
    )


def _smaller_reserve(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """Less of usable memory for graphs (HPU): what they need is not known before they are
    captured, so a part stays."""
    reserve = facts.summary.memory_or_none.graph_reserved_fraction
    usable = facts.figure("usable_bytes")
    if not usable or not reserve or found.needed_bytes is None or not found.free_bytes:
        return
    share = (
        math.floor(100 * (reserve - (found.needed_bytes - found.free_bytes) / usable))
        / 100
    )
    if share >= LEAST_RESERVE:
        yield Way.that_sets(
            "less room for graphs; buckets that get none run slower",
            VLLM_GRAPH_RESERVED_MEM=share,
        )


def _larger_share(facts: RunFacts, found: Failed) -> Iterator[Way]:
    short = _short_of_one_request(facts, found)
    if short is None:
        share = facts.utilization
        if share is None or share < highest_share(facts):
            now = "" if share is None else f" (now {share:g})"
            yield Way(
                f"a higher --gpu-memory-utilization{now}, as far as memory is free at the start",
                "less margin; how much is needed the message states in tokens only",
            )
        return
    yield share_way(facts, short)


def _short_of_one_request(facts: RunFacts, found: Failed) -> float | None:
    """Bytes of KV cache that one request of full length lacks; of a text in tokens alone by what
    the cache has for those that fit."""
    if found.needed_bytes is not None and found.free_bytes is not None:
        return found.needed_bytes - found.free_bytes
    cache, fits = facts.figure("kv_cache_bytes"), found.stated.estimated_model_len
    length = found.stated.max_model_len or facts.summary.setting("max_model_len")
    if not cache or not fits or not length or cache < 0:
        return None
    return cache * (length / fits - 1)


@failure_rule(
    "less is free at the start than the utilisation takes",
    "free memory, memory of the device, the utilisation wanted",
    formula="utilisation = floor(100 x free / device) / 100 - 0.01",
    margin="0.01 of the device",
    source="vLLM `v1/worker/utils.py`, `request_memory`",
    example="13.58 of 15.99 GiB free, 0.85 wanted: 0.83, or end what else holds memory",
)
def memory_taken(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """Less is free than the utilisation needs, before anything was loaded."""
    total = found.stated.total_bytes
    if not total or found.free_bytes is None:
        return
    others = total - found.free_bytes
    wanted = found.stated.wanted_utilization or 0.0
    share = math.floor(100 * found.free_bytes / total) / 100 - 0.01
    numbers = numbers_of(
        found, total_bytes=total, others_bytes=others,
        gpu_memory_utilization=found.stated.wanted_utilization,
    )  # fmt: skip
    who = f"; {_beside(facts)}" if facts.beside else ""
    stop = Way(
        f"end what else holds memory of the device ({monitor(facts)}), or wait for it",
        f"none; the utilisation stays as it is. A part of {format_bytes(others)} is the "
        f"driver's and this process's own{who}",
    )
    lower = [] if share < PLAUSIBLE_SHARE * wanted or share <= 0 else [
        Way(
            f"--gpu-memory-utilization {share:.2f}",
            f"{format_bytes((found.needed_bytes or 0) - share * total)} less for weights and KV "
            "cache; both must still fit",
            {"gpu_memory_utilization": round(share, 2)},
        )
    ]  # fmt: skip
    used = f"; {format_bytes(others)} were in use"
    if facts.summary.device.kind == "xpu" and not found.free_bytes:
        stop, used = _UNREAD, ""
    is_shared = UNIFIED[0] < total < UNIFIED[1] and facts.summary.device.kind != "hpu"
    files = [
        Way(
            "where the device shares the host's memory: `sync; echo 3 > "
            "/proc/sys/vm/drop_caches` on the host before the start, or a newer vLLM",
            "files in memory count as used there; they are read from disk again",
        )
    ] if is_shared else []  # fmt: skip
    yield finding_of(
        facts,
        f"{format_bytes(found.free_bytes)} of {format_bytes(total)} were free at the start, and "
        f"a utilisation of {found.stated.wanted_utilization:g} requires "
        f"{format_bytes(found.needed_bytes)}{found.where}{used}.",
        numbers,
        [*lower, stop, *files]
        if share >= CLOSE_SHARE * wanted
        else [stop, *files, *([] if files else [_other_device(facts)]), *lower],
        "the engine passes this check, which comes before the weights are loaded",
    )


_UNREAD = Way(
    "a driver (intel-compute-runtime) as new as the image of the release for XPU has, where "
    "`xpu-smi` shows that nothing holds the device: some state 0 for memory that is free",
    "another image or host; where a process holds it, its end is enough",
)


def _other_device(facts: RunFacts) -> Way:
    names = {"hpu": "HABANA_VISIBLE_MODULES", "rocm": "HIP_VISIBLE_DEVICES"}
    name = names.get(facts.summary.device.kind or "", "CUDA_VISIBLE_DEVICES")
    return Way(f"another device ({name})", "none, where one is free")


@rule(
    "the KV cache would have a size of zero or less",
    "the failure, or KV cache budget; utilisation, memory of the device",
    formula="utilisation + |KV cache| / device (HPU: / (free x (1 - reserve)))",
    margin="as kv_cache_too_small; other engines on the device come first where the log "
    "holds one that ran at that time, or more is missing than the weights take; what is known to "
    "give less than is missing is marked; where a setting gives the size (CPU), only that one",
    source=f"{_SOURCE}, `check_enough_kv_cache_memory`",
    example="two engines started in the same second: -26.31 GiB left beside 8.489 GiB of "
    "weights, and 17.82 GiB taken besides them",
)
def no_room_for_cache(facts: RunFacts) -> Iterator[Finding]:
    """Nothing, or less than nothing, was left for the KV cache."""
    cache = facts.figure("kv_cache_bytes")
    found = explained(facts, "no_room_for_cache")
    is_negative = cache is not None and cache <= 0
    # An engine that started got its KV cache, whatever was left for it.
    is_ready = facts.summary.status in ("finished", "skipped")
    is_going_on = facts.failed is None and not is_ready
    if found is None and not (is_negative and is_going_on):
        return
    missing = -cache if cache is not None and is_negative else None
    weights, share = facts.figure("weights_bytes"), facts.utilization
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
        *_memory_of_host(facts), *_unevenly_taken(facts), *_one_after_another(facts, missing, weights),
        *_share_above(facts, missing),
        *shorter_steps(facts, missing), *fewer_weight_bits(facts, weights, missing),
        *more_devices(facts, missing=missing),
    ]  # fmt: skip
    effect = "KV blocks, where it frees more than is missing; the line of the next start has how many"
    if cache_setting(facts) == CPU_CACHE:
        title = f"The KV cache was set to {format_bytes(cache)}"
        ways = [*_memory_of_host(facts), _SIZE_BY_SHARE]
        effect = "KV blocks for as much; one request of full length has to fit"
    yield finding_of(facts, f"{title}{where}.", numbers, ways, effect)


_SIZE_BY_SHARE = Way(
    f"neither {CPU_CACHE} nor --kv-cache-memory-bytes: --gpu-memory-utilization gives the size, a "
    "share of the host's memory less what the worker takes",
    "host memory",
)


def _memory_of_host(facts: RunFacts) -> Iterator[Way]:
    """On a CPU the KV cache has a size of its own (vLLM `v1/worker/cpu_worker.py`)."""
    if facts.summary.device.kind == "cpu":
        yield Way(
            f"{CPU_CACHE} (or --kv-cache-memory-bytes) with memory that the host has",
            "host memory",
        )


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


def _had_room(facts: RunFacts) -> bool:
    """Whether a rank states memory for the cache, where another one had none."""
    size = facts.summary.memory_or_none.kv_cache_bytes
    return (facts.summary.ranks or 1) > 1 and size is not None and size > 0


def _unevenly_taken(facts: RunFacts) -> Iterator[Way]:
    """Ranks of tensor parallelism hold as much each, so that what differs is held by others."""
    stages = str(facts.summary.config.get("pipeline_parallel_size", 1))
    if _had_room(facts) and stages == "1":
        yield Way(
            f"end what else holds memory of the devices of the ranks with less ({monitor(facts)}), "
            "or take devices that nothing else uses: another rank had room",
            "the other program",
        )


def _beside(facts: RunFacts) -> str:
    """Which engines ran at the same time, and what they held as far as it is known."""
    weights = BY_NAME["weights_bytes"]
    held = [size for other in facts.beside if (size := weights.trusted(other))]
    words = (
        f"by this log, {count_of(len(facts.beside), 'other engine')} ran at that time"
    )
    return f"{words}, with {format_bytes(sum(held))} of weights" if held else words


def _share_above(facts: RunFacts, missing: float | None) -> Iterator[Way]:
    per_share = bytes_per_share(facts) or 0.0
    if missing is not None and (missing or facts.utilization is not None):
        # Zero bytes are no block yet: a hundredth more than what is missing.
        yield share_way(facts, missing + 0.001 * per_share)
    else:
        yield Way(
            "a higher --gpu-memory-utilization",
            "the line of each rank has its own size"
            if _had_room(facts)
            else "the log does not hold by how much",
        )


@failure_rule(
    "an allocation failed while more than twice as much was free, or as much on a TPU",
    "free and needed memory",
    formula="needed < free / 2; on a TPU, whose compiler states what is free, needed < free",
    margin="no setting is changed; of what was free before a bucket ran, only where that was "
    "more than half of the device, as its run takes some",
    source="the bridge's `Allocation failed for size`, torch `CUDACachingAllocator`",
    example="256 MiB failed at utilisation 0.02 while 95.4 GiB were free",
)
def allocation_refused(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """An allocation failed while far more was free."""
    if found.needed_bytes is None or found.free_bytes is None:
        return
    share = facts.utilization
    at = "" if share is None else f" at utilisation {share:g}"
    sleeps = is_true(facts.summary.config, "enable_sleep_mode")
    yield finding_of(
        facts,
        f"{format_bytes(found.needed_bytes)} could not be had while {format_bytes(found.free_bytes)} "
        f"were reported free{at}{found.where}: this is no lack of room.",
        numbers_of(found, gpu_memory_utilization=share),
        [
            *([_OTHER_ALLOCATOR] if sleeps else []),
            Way(
                "look for a limit, fragmentation or another process on the device: "
                f"{monitor(facts)}, dmesg, then the same start alone",
                "the log does not hold which of them it is",
                kind="look",
            ),
            Way(
                "a lower --gpu-memory-utilization, or fewer buckets",
                f"does not help: {format_bytes(found.free_bytes - found.needed_bytes)} more than "
                "needed were free",
                kind="no help",
            ),
        ],
        "tells a limit from a lack of memory",
    )


_OTHER_ALLOCATOR = Way(
    "no --enable-sleep-mode, or a newer vLLM: with it memory is mapped by vLLM itself, and what "
    "fails there is reported as a lack of memory (lines of cumem_allocator.cpp above it)",
    "the engine cannot sleep",
)
"""vLLM `device_allocator/cumem.py`, `csrc/cumem_allocator.cpp`."""
_NCCL = re.compile(r"\bNCCL\b|\bnccl[A-Z]|\bCuda failure \d")
"""The last is how NCCL's own checks print an error of CUDA."""
_COMPUTED = ("utilization", "GRAPH_RESERVED_MEM", "iB of the device")
"""What is made from the shortfall, or is enough for it: settings, and what others hold."""
_BEFORE_CACHE = ("import", "configure", "start_", "distributed_", "download", "init_", "load_",
                 "profile_run")  # fmt: skip
MOST_BY_NAME = 1.2
"""A model has up to so many times the parameters that its name states: Qwen2.5-7B has 7.6e9,
gemma-7b 8.5e9."""
_PARAMETERS = re.compile(r"(?<![\dx.A-Za-z])(\d{1,4}(?:\.\d{1,2})?)[Bb](?![A-Za-z0-9])")
_EXPERTS = re.compile(r"(?<![A-Za-z0-9.])\d{1,4}[Ee](?![A-Za-z0-9])")
"""A number of experts in a name, whose size is that of a token's part: Llama-4-Scout-17B-16E
has 109e9 parameters."""


@failure_rule(
    "memory ran out, and weights take more than 85 % of the device or were loading",
    "weights and memory of the device, or the stage",
    formula="the smallest power of two of devices with weights / devices <= 85 % of one",
    margin="15 % of the device for activations and KV cache",
    source="vLLM docs `configuration/conserving_memory`",
    example="15.47 GiB of weights on 15.92 GiB: fewer bits or two devices; the "
    "utilisation does not help",
)
def weights_too_large(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """The weights leave no room for anything else, or do not fit at all."""
    capacity, weights = facts.device_bytes, facts.figure("weights_bytes")
    named = None if weights is not None else _bytes_by_name(facts)
    numbers = numbers_of(
        found, total_bytes=capacity, weights_bytes=weights, weights_by_name_bytes=named,
        allocated_bytes=found.stated.allocated_bytes,
    )  # fmt: skip
    device = "the device" if capacity is None else f"{format_bytes(capacity)}"
    title = f"The weights did not fit into {device}"
    if capacity is None:
        title = f"Memory {_ran_out(found)} while weights were loaded"
    if weights is not None:
        title = f"The weights take {format_bytes(weights)} of {device}"
    elif named is not None:
        title += f": roughly {named / GIB:.0f} GiB by the model's name"
    most = weights or (named and MOST_BY_NAME * named)
    ways = _lighter_or_divided(facts, weights, most)
    if facts.summary.device.kind != "tpu":
        ways.append(
            Way(
                "--gpu-memory-utilization, higher or lower",
                "does not help: the weights are loaded whatever it is",
                kind="no help",
            )
        )
    yield finding_of(
        facts, f"{title}{found.where}.", numbers, ways,
        f"weights of at most {100 * FULL_SHARE:.0f} % of a device leave room for activations and "
        "KV cache",
    )  # fmt: skip


def _lighter_or_divided(
    facts: RunFacts, weights: float | None, most: float | None
) -> list[Way]:
    """Weights of fewer bits, and more devices: these first where weights of at most so many
    bytes may not fit with fewer bits either."""
    capacity = facts.device_bytes
    lighter = list(fewer_weight_bits(facts, weights))
    devices = list(_fitting_devices(facts, most, capacity))
    left = most_of_fewer_bits(facts) * (most or 0)
    if not capacity or left <= FULL_SHARE * capacity:
        return [*lighter, *devices]
    limit = f"more than {100 * FULL_SHARE:.0f} % of the device may remain: embeddings keep 16 bits"
    return [
        *devices, *(replace(way, price=f"{limit}; {way.price}") for way in lighter),
    ]  # fmt: skip


def _fitting_devices(
    facts: RunFacts, weights: float | None, capacity: float | None
) -> Iterator[Way]:
    now = num_devices(facts) or 1
    count = 2 * now
    if weights is not None and capacity:
        while weights * now / count > FULL_SHARE * capacity and count < 1024:
            count *= 2
    yield from more_devices(facts, count)


def _bytes_by_name(facts: RunFacts) -> float | None:
    """Weights of 16 or 32 bits by the number in the model's name, per device."""
    is_quantized = str(facts.summary.config.get("quantization", None)) != "None"
    name = str(facts.summary.model or "").rpartition("/")[2]
    sizes = set(_PARAMETERS.findall(name))
    if is_quantized or len(sizes) != 1 or _EXPERTS.search(name):
        return None
    tensor = facts.summary.setting("tensor_parallel_size") or 1
    size = 4 if "float32" in str(facts.summary.config.get("dtype")) else 2
    return float(sizes.pop()) * 1e9 * size / tensor


@failure_rule(
    "the start ran out of memory, and no other rule names the cause",
    "the failure; free memory, memory needed, free memory per bucket",
    formula="shortfall = needed - free, or memory per bucket x buckets not reached - "
    "free; reserve + 1.05 x shortfall / usable; utilisation - 1.05 x shortfall / free",
    margin="5 % more than the shortfall",
    source="vllm-gaudi `hpu_worker.py`, `determine_available_memory`",
    example="1 GiB a bucket, 8 of 12 not reached, 6 GiB free: 3 GiB more reserve",
)
def out_of_memory(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """The start ran out of memory: where, how much was free, and what was missing."""
    trend, missing = memory_per_step(facts.steps), never_reached(facts)
    numbers = numbers_of(
        found, bytes_per_bucket=trend, never_reached=len(missing) or None,
        bucket=str(found.bucket) if found.bucket is not None else None,
    )  # fmt: skip
    begins = f"The start {_ran_out(found, 'ran out of memory')}"
    parts = [f"{begins}{_place(facts, found)}{found.where}"]
    free = "{} were free"
    if is_free_before(facts, found):
        free += " before that bucket ran"
    for value, text in (
        (found.free_bytes, free), (found.needed_bytes, "{} were needed"),
        (trend, "{} went with each bucket before it"),
    ):  # fmt: skip
        if value is not None:
            parts.append(text.format(format_bytes(value)))
    if missing:
        parts.append(f"{count_of(len(missing), 'bucket')} never reached")
    shortfall = _shortfall(found, trend, len(missing))
    bound = ""
    if _is_of_graphs(facts, found):
        bound = _AT_LEAST
    elif trend is None and found.free_bytes is None:
        bound = "at most "
    if shortfall is not None:
        numbers["shortfall_bytes"] = shortfall
    yield finding_of(
        facts, ", ".join(parts) + ".", numbers, _room_ways(facts, found, shortfall),
        lambda first: _effect(first, shortfall, bound), first_lines(missing),
    )  # fmt: skip


def _ran_out(found: Failed, words: str = "ran out") -> str:
    """The words, with that they are likely where the message does not state them."""
    return f"most likely {words}" if is_likely_memory(found.message) else words


def _effect(first: Way, shortfall: float | None, bound: str) -> str:
    """What the first way brings: the room that it was computed from, or what was missing: at
    most so much, where nothing states how much was free, at least where graphs follow."""
    if shortfall is None:
        return "the shortfall is not known, so neither is how much is enough"
    room = format_bytes(shortfall)
    if any(name in first.suggestion for name in _COMPUTED):
        return f"{room} of room at least, as much as was missing" + (
            " for this graph; those that follow need more" if bound == _AT_LEAST else ""
        )
    return f"{bound}{room} were missing; whether this is as much no figure shows"


def _place(facts: RunFacts, found: Failed) -> str:
    if found.bucket is not None:
        return f" in {found.phase} {found.bucket}"
    is_over = found.phase == "graph_capture" and _has_captured(facts)
    where = "in or after" if is_over else "in"
    return f" {where} {found.phase.replace('_', ' ')}" if found.phase else ""


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
    needed, free = found.needed_bytes, found.free_bytes
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
    is_of_graphs = _is_of_graphs(facts, found)
    yield from _less_of_others(facts, found, shortfall)
    if not is_of_graphs:
        yield from _less_fragmented(facts, found)
    if _is_empty_handed(facts, found):
        yield Way(
            f"end what else holds memory of the devices ({monitor(facts)}): no line shows "
            "that this engine had loaded anything",
            "none for this engine",
        )
        return
    logits = tuple(fewer_logits(facts, found))
    yield from logits
    setting = cache_setting(facts)
    is_fixed = setting is not None
    is_before = (
        not has_cache(facts) and found.bucket is None and _is_before_cache(facts)
    )
    if setting is not None and not is_before:
        yield Way(
            f"a smaller {as_option(setting)}, or none: the cache is as large as it sets",
            "KV cache",
        )
    yield from _fewer_blocks(facts, found)
    if shortfall is not None and not is_fixed and not _exceeds_device(facts, found):
        yield from _larger_reserve(facts, shortfall)
        if not is_before:
            yield from _less_for_cache(facts, shortfall)
    if is_of_graphs:
        yield from _room_for_graphs(facts, shortfall, is_fixed=is_fixed)
        yield from _less_fragmented(facts, found)
    elif found.bucket is not None:
        yield from smaller_batch(facts, found)
    else:
        yield from _smaller_items(facts)
        if shortfall is None and facts.stage == "model_warmup" and not is_fixed:
            yield Way("a lower --gpu-memory-utilization", f"KV cache, {_HAD_MEMORY}")
        yield from _fewer_tokens(facts, is_before=is_before, is_of_logits=bool(logits))
        if shortfall is None:
            yield from _lower_share(facts, found, is_fixed=is_fixed)
    yield from more_devices(facts)
    yield from _look_for_others(facts, found)


def _less_of_others(
    facts: RunFacts, found: Failed, shortfall: float | None
) -> Iterator[Way]:
    """The end of what others hold, where that is known and enough."""
    others = held_by_others(found)
    least_held = max(shortfall or 0, LEAST_HELD)
    if shortfall is not None and others is not None and others >= least_held:
        least = "" if found.stated.process_bytes is not None else "at least "
        yield Way(
            f"end what else holds {least}{format_bytes(others)} of the device "
            f"({monitor(facts)})",
            "none for this engine",
        )


def _look_for_others(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """What others may hold at most, where the driver does not see what the process holds, as in
    a container: all that is neither free nor of its allocator."""
    stated = found.stated
    held = (stated.allocated_bytes or 0) + (stated.unallocated_bytes or 0)
    if held_by_others(found) is not None or not held or not stated.total_bytes:
        return
    rest = stated.total_bytes - held - (found.free_bytes or stated.total_bytes)
    if rest >= LEAST_HELD:
        yield Way(
            f"look on the host what else holds memory of the device ({monitor(facts)})",
            f"at most {format_bytes(rest)} can be others': what this process holds besides its "
            "allocator is in it",
            kind="look",
        )


def _lower_share(facts: RunFacts, found: Failed, *, is_fixed: bool) -> Iterator[Way]:
    """Less for the KV cache, where it may have had its memory by then; how much less, the log
    does not hold."""
    if _has_captured(facts) and not is_fixed:
        price = f"KV cache, {_HAD_MEMORY} once graphs were captured"
        yield Way("a lower --gpu-memory-utilization", price)
    elif not found.phase and facts.stage == UNSEEN:
        yield Way(
            "a lower --gpu-memory-utilization",
            "KV cache; helps where it was allocated before, as when graphs are captured: "
            "the log does not show the stage",
        )


def _smaller_items(facts: RunFacts) -> Iterator[Way]:
    """Fewer or smaller images and videos, where the encoder was profiled last (vLLM
    `v1/worker/gpu_model_runner.py profile_run`, `multimodal/profiling.py`)."""
    is_profiled = any(
        note.topic == "multimodal" and _PROFILED.search(note.text)
        for note in facts.summary.notes
    )
    if not is_profiled or not facts.stage.startswith("profile_run"):
        return
    yield Way(
        "fewer images or videos in one request (--limit-mm-per-prompt, 0 of a kind that does "
        "not come), or smaller ones (--mm-processor-kwargs, for Qwen max_pixels): the largest "
        "ones are profiled",
        "requests with more of them are refused, or detail; helps where the traceback leads "
        "through the encoder",
    )


def _exceeds_cache(facts: RunFacts, blocks: int) -> bool:
    """Whether a bucket has more blocks than the cache; many times as many, where only the
    tokens of the cache are known, which several groups of layers share."""
    stated, tokens = facts.figure("num_kv_blocks"), facts.figure("kv_cache_tokens")
    if stated is not None:
        return blocks > stated
    size = facts.summary.setting("block_size") or HPU_BLOCK
    return tokens is not None and blocks > MANY_TIMES * tokens / size


def _fewer_blocks(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """Decode buckets of no more blocks than the cache has (vllm-gaudi
    `extension/bucketing/linear.py`, `exponential.py`, `get_decode_cfgs`)."""
    bucket = found.bucket or ()
    is_whole = found.phase == "decode" and len(bucket) == 3
    if not is_whole or not _exceeds_cache(facts, bucket[2]):
        return
    yield Way(
        "decode buckets of no more blocks than the cache has: contiguous paged attention "
        "(--no-enable-prefix-caching, VLLM_CONTIGUOUS_PA not false) bounds them so",
        "prompts that begin alike are computed anew",
    )
    blocks = facts.figure("num_kv_blocks")
    if blocks is not None and strategy_of(facts.summary) == "lin":
        yield Way.that_sets(
            "a step with more blocks, which prompts that begin alike make, compiles when it "
            "comes",
            VLLM_DECODE_BLOCK_BUCKET_MAX=int(blocks),
        )


def _is_empty_handed(facts: RunFacts, found: Failed) -> bool:
    """Whether memory ran out before this engine had taken any worth the name."""
    memory = facts.summary.memory_or_none
    has_budget = memory.usable_bytes is not None or memory.kv_cache_bytes is not None
    if has_budget or found.stated.allocated_bytes or _exceeds_device(facts, found):
        return False
    if facts.figure("weights_bytes") is not None:
        return False
    is_ahead = found.phase is None and facts.stage in AHEAD
    return is_ahead or _NCCL.search(found.message) is not None


def _exceeds_device(facts: RunFacts, found: Failed) -> bool:
    """Whether one allocation was larger than the device: neither other programs nor a
    smaller KV cache make room for it. XLA states what a program takes in all."""
    needed, total = found.needed_bytes, found.stated.total_bytes
    is_all = facts.summary.device.kind == "tpu"
    return needed is not None and total is not None and needed > total and not is_all


def _is_before_cache(facts: RunFacts) -> bool:
    """Whether the stage comes before the KV cache, as far as the log shows it.

    On CUDA the profiling run compiles; elsewhere compilation may follow the cache.
    """
    stage = facts.stage
    if _has_captured(facts):
        return False
    if facts.summary.device.kind not in ("cuda", "rocm"):
        return stage.startswith(_BEFORE_CACHE)
    # The size of the cache is printed before it is allocated, as the weights are.
    is_printed = facts.figure("weights_bytes") is not None
    is_after = stage.startswith(("kv_cache", *AFTER_CACHE))
    return stage.startswith((*_BEFORE_CACHE, "compile")) or (
        is_printed and not is_after
    )


def _fewer_tokens(
    facts: RunFacts, *, is_before: bool, is_of_logits: bool
) -> Iterator[Way]:
    """Fewer tokens in the step that ran out of memory; logits do not grow with them, and
    none run while weights are loaded."""
    if not is_of_logits and not facts.stage.startswith("load"):
        yield from shorter_steps(facts)
    if is_before:
        yield Way(
            "a lower --gpu-memory-utilization",
            "does not help: the KV cache was not allocated yet",
            kind="no help",
        )


def _is_capturing(facts: RunFacts) -> bool:
    """Whether graphs are captured beside a KV cache that took what activations left."""
    is_cuda = facts.summary.device.kind in ("cuda", "rocm")
    is_stage = facts.stage.startswith("graph_capture")
    return is_cuda and is_stage and not _has_captured(facts)


def _is_of_graphs(facts: RunFacts, found: Failed) -> bool:
    """Whether it is a graph that found no room: others may follow it."""
    return bool(has_cache(facts) or found.phase) and _is_capturing(facts)


def _has_captured(facts: RunFacts) -> bool:
    """Whether a line states that all graphs were captured."""
    graphs = facts.summary.graphs
    return graphs is not None and graphs.duration_s is not None


def _room_for_graphs(
    facts: RunFacts, shortfall: float | None, *, is_fixed: bool
) -> Iterator[Way]:
    if shortfall is None and not is_fixed:
        yield from _beside_cache(facts)
    yield Way(
        "fewer graphs: a smaller --max-num-seqs, which bounds their sizes, or the largest of "
        "cudagraph_capture_sizes left out",
        "fewer requests at once, or batches of those sizes run without a graph",
    )
    yield Way.that_sets("no graphs: slower decoding", enforce_eager=True)


def _beside_cache(facts: RunFacts) -> Iterator[Way]:
    """Less for the KV cache, beside which graphs are captured: as much as the engine estimates
    for them, where it estimated and set nothing aside."""
    graphs, spare = facts.summary.graphs, spare_cache(facts)
    estimate = None if graphs is None else graphs.estimated_bytes
    lower = "a lower --gpu-memory-utilization"
    if estimate and spare is not None and spare < estimate:
        yield Way(
            lower,
            f"does not help alone: the graphs are estimated at {format_bytes(estimate)}, and the "
            f"KV cache can lose {format_bytes(spare)} while a request of full length fits",
            kind="no help",
        )
        return
    if estimate and graphs is not None and graphs.is_reserved is False:
        yield Way.that_sets(
            f"{format_bytes(estimate)} of KV cache: what the engine estimates for graphs is set "
            "aside",
            VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS="1",
        )
    yield Way(lower, "KV cache; graphs are captured in what is left beside it")


def _less_fragmented(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """Another allocator, where what was held and used by no tensor would have been enough."""
    unused = found.stated.unallocated_bytes
    # vLLM `device_allocator/cumem.py` refuses to start with both.
    sleeps = is_true(facts.summary.config, "enable_sleep_mode")
    if not unused or not found.needed_bytes or unused < found.needed_bytes or sleeps:
        return
    changes: dict[str, Value] = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
    price = "none known"
    if num_ranks(facts) > 1 and not is_true(facts.summary.config, "enforce_eager"):
        # `custom_all_reduce.cuh` passes the memory of graphs to the other ranks by
        # cudaIpcGetMemHandle, which mapped segments do not have.
        changes["disable_custom_all_reduce"] = True
        price = (
            "slower small all-reduces: graphs cannot share such memory between ranks"
        )
    price = f"{price}; {format_bytes(unused)} were held and used by no tensor"
    yield Way(as_set(changes), price, changes)


def _larger_reserve(facts: RunFacts, shortfall: float) -> Iterator[Way]:
    """More of usable memory for graphs, less for the KV cache (HPU)."""
    reserve = facts.summary.memory_or_none.graph_reserved_fraction
    usable = facts.figure("usable_bytes")
    if not usable or reserve is None:
        return
    least = math.ceil(100 * (reserve + 1.05 * shortfall / usable))
    shares = (percent / 100 for percent in range(least, 100))
    share = next(
        (s for s in shares if fits_with(facts, PlanSettings(graph_reserved_mem=s))),
        None,
    )
    if share is not None:
        lost = _lost(facts, (share - reserve) * usable)
        yield Way.that_sets(lost, VLLM_GRAPH_RESERVED_MEM=share)


def _less_for_cache(facts: RunFacts, shortfall: float) -> Iterator[Way]:
    share = facts.utilization
    total = facts.figure("free_bytes") or facts.device_bytes
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
        (s for s in shares if fits_with(facts, PlanSettings(gpu_memory_utilization=s))),
        None,
    )
    if lower is not None:
        reserve = facts.summary.memory_or_none.graph_reserved_fraction or 0.0
        yield Way.that_sets(
            _lost(facts, (share - lower) * total * (1 - reserve)),
            gpu_memory_utilization=lower,
        )


def _lost(facts: RunFacts, num_bytes: float) -> str:
    blocks = facts.blocks_in(num_bytes)
    lost = f"{blocks:,} KV blocks fewer" if blocks else "a smaller KV cache"
    return lost + _shorter_requests(facts, num_bytes)


def _shorter_requests(facts: RunFacts, num_bytes: float) -> str:
    """What goes with a KV cache of so many bytes less, where it holds no request of full length
    then."""
    spare = spare_cache(facts)
    if spare is None or num_bytes <= spare:
        return ""
    return "; --max-model-len has to fall with it, or no request of full length fits"


LEAST_ROOM_SHARE = 0.03
"""Of the device: less than this is soon gone again."""


@failure_rule(
    "memory ran out after the engine was ready",
    "the failure; utilisation, memory of the device, free memory at the start",
    formula="utilisation - max(1.5 x needed, 3 % of the device) / device; with needed "
    "unknown, the margin that was left is doubled",
    margin="3 % of the device at least",
    source="vLLM `v1/worker/gpu_worker.py`, `determine_available_memory`",
    example="0.94 left 3.68 GiB of 95 GiB free: 0.90, which costs 3.8 GiB of KV cache",
)
def out_of_memory_serving(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """Memory ran out while serving: the margin beside the KV cache was too small."""
    total, share = facts.device_bytes, facts.utilization
    margin = facts.figure("margin_bytes")
    if facts.figure("free_bytes") is None:
        margin = None  # what others held is in it
    title = f"Memory {_ran_out(found)}{_served(facts)}{found.where}"
    if margin is not None and share is not None:
        title += f": utilisation {share:g} left {format_bytes(margin)} free"
    numbers = numbers_of(
        found, margin_bytes=margin, gpu_memory_utilization=share, total_bytes=total
    )
    way = _less_cache(facts, found, total, margin)
    yield finding_of(
        facts, f"{title}.", numbers, [way],
        "more room for what requests take beyond the profiling run",
    )  # fmt: skip


def _served(facts: RunFacts) -> str:
    seconds = facts.served_s
    return (
        " while serving"
        if seconds is None
        else f" {format_duration(seconds)} after ready"
    )


def _less_cache(
    facts: RunFacts, found: Failed, total: float | None, margin: float | None
) -> Way:
    """A KV cache smaller by 1.5 times what was missing, or by the margin there was."""
    share, setting = facts.utilization, cache_setting(facts)
    if not total:
        return Way(
            "a smaller KV cache: "
            + (
                as_option(setting)
                if setting
                else "--gpu-memory-utilization lower by 0.03 or more"
            ),
            "requests that fit at once; the log does not hold the device, so not how much",
        )
    wanted = margin or 0.0 if found.needed_bytes is None else 1.5 * found.needed_bytes
    more = max(wanted, LEAST_ROOM_SHARE * total)
    if setting is not None:
        return _smaller_size(facts, setting, more)
    # On HPU it is a share of what was free after profiling.
    reserve = facts.summary.memory_or_none.graph_reserved_fraction
    base = total if reserve is None else facts.figure("free_bytes")
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
    return Way.that_sets(
        f"{format_bytes(cost)} of KV cache{lost}{_shorter_requests(facts, cost)}",
        gpu_memory_utilization=lower,
    )


def _smaller_size(facts: RunFacts, setting: str, more: float) -> Way:
    """So many bytes less by the setting that gives the size of the cache."""
    now = facts.summary.setting(setting) or 0.0
    is_blocks = setting == "num_gpu_blocks_override"
    lost = facts.blocks_in(more) if is_blocks else math.ceil(more)
    is_counted = setting != CPU_CACHE and lost and lost < now
    value = int(now) - (lost or 0) if is_counted else None
    less = f" {value}" if value is not None else f" lower by {format_bytes(more)}"
    return Way(
        f"{as_option(setting)}{less}",
        f"{format_bytes(more)} of KV cache; the utilisation changes nothing beside it",
        {} if value is None else {setting: value},
    )


@failure_rule(
    "memory ran out when a sleeping engine woke up",
    "the failure, sleeps while serving",
    formula="device - still in use - freed by sleeping = what others may hold",
    margin="shares of all engines of a device below 1",
    source="vLLM `device_allocator/cumem.py`, docs `features/sleep_mode`",
    example="53.5 GiB to map again while others hold 20.3 GiB",
)
def wake_up_failed(facts: RunFacts, found: Failed) -> Iterator[Finding]:
    """Memory that sleeping gave back was gone when the engine woke up."""
    serving = facts.summary.serving
    if serving is None:
        return
    last = [s for s in serving.sleeps if s.action == "sleep" and s.freed_bytes]
    freed = last[-1].freed_bytes if last else None
    used, total = (last[-1].used_bytes if last else None), facts.device_bytes
    title = f"Memory {_ran_out(found)} while the engine woke up{found.where}"
    if freed is not None:
        title += f": {format_bytes(freed)} that sleeping freed must be had again"
    taken = None
    if freed is not None and used is not None and total:
        taken = total - used - freed
        title += f", beside {format_bytes(used)} that stayed in use"
    share = facts.utilization
    numbers = numbers_of(
        found, freed_bytes=freed, used_bytes=used, total_bytes=total,
        gpu_memory_utilization=share,
    )  # fmt: skip
    room = "memory"
    if taken is not None and taken > 0:
        room = f"more than {format_bytes(taken)}"
    yield finding_of(
        facts, f"{title}.", numbers,
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


RULES = (
    kv_cache_too_small, memory_taken, no_room_for_cache, allocation_refused,
    out_of_memory, weights_too_large, out_of_memory_serving, wake_up_failed,
)  # fmt: skip
