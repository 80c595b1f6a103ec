"""Changes that bring room for weights, KV cache and activations, each with its price."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from warmup_insights.analysis.advice.change import Value, Way, as_option
from warmup_insights.analysis.advice.facts import Failed, RunFacts
from warmup_insights.analysis.advice.finding import Finding, Severity
from warmup_insights.analysis.advice.remedies import fitting
from warmup_insights.analysis.plan.planning import (
    MAX_UTILIZATION,
    MIN_MARGIN_SHARE,
    PlanSettings,
)
from warmup_insights.analysis.sentences import count_of
from warmup_insights.bucketing.base import GPUS
from warmup_insights.model.summary import PHASES, RunSummary
from warmup_insights.rules.setting_lives import as_named_in, read_version
from warmup_insights.units import GIB, format_bytes

NO_SETTING = "none"
"""Of a finding whose first way changes no setting of the engine."""
CPU_CACHE = "VLLM_CPU_KVCACHE_SPACE"
"""GiB of the KV cache on a CPU; it counts before --kv-cache-memory-bytes (vLLM
`platforms/cpu.py`)."""
MIN_TOKENS = 1024
"""Smaller steps than this make prompts slow."""
_OF_4_BITS = re.compile(
    r"awq|gptq|(?:nv|mx|_)fp4|int4|w4(?:a(?:4|8|16)|g\d{1,4})\b|[-_]4-?bit",
    re.IGNORECASE,
)
_OF_8_BITS = re.compile(r"int8|w8a(?:8|16)\b|[-_]8-?bit", re.IGNORECASE)
_DUMMIES = re.compile(
    r"warming up (sampler|pooler(?: \(.{1,60}?\))?) with (\d{1,6}) dummy requests"
)


def finding_of(
    facts: RunFacts,
    title: str,
    numbers: dict[str, Value],
    ways: Iterable[Way],
    effect: str | Callable[[Way], str],
    details: tuple[str, ...] = (),
    severity: Severity = "high",
) -> Finding:
    """A finding about a failure: the first way that helps is its suggestion, of those that the
    run can take; its effect may follow from it."""
    own = [
        _as_named(way, facts)
        for way in fitting(ways, facts.summary.config, facts.summary.device.kind)
    ]
    first, *others = sorted(own, key=lambda way: way.kind == "no help")
    setting = next(iter(first.changes), NO_SETTING)
    brings = effect if isinstance(effect, str) else effect(first)
    return Finding(
        severity, title, numbers, setting, first.suggestion, brings, details,
        changes=first.changes, price=first.price, ways=tuple(others),
    )  # fmt: skip


def _as_named(way: Way, facts: RunFacts) -> Way:
    """The way in the names that the version of the run has for its settings."""
    engine = facts.summary.engine
    version = read_version(engine.version)
    named = as_named_in(way.suggestion, engine.name, version)
    if named == way.suggestion:
        return way
    changes = {
        as_named_in(as_option(name), engine.name, version)
        .removeprefix("--")
        .replace("-", "_"): value
        for name, value in way.changes.items()
    }
    return replace(way, suggestion=named, changes=changes)


def monitor(facts: RunFacts) -> str:
    """The program that shows who holds memory of this kind of device."""
    programs = {
        "cuda": "nvidia-smi", "rocm": "rocm-smi", "hpu": "hl-smi", "ascend": "npu-smi",
        "xpu": "xpu-smi", "tpu": "tpu-info", "cpu": "top",
    }  # fmt: skip
    return programs.get(facts.summary.device.kind or "", "the monitor of the device")


def numbers_of(found: Failed, **more: Value | None) -> dict[str, Value]:
    """The line and the figures of a failure that are known."""
    values: dict[str, Value | None] = {
        "line": found.line, "needed_bytes": found.needed_bytes, "free_bytes": found.free_bytes, **more
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def share_way(facts: RunFacts, short: float) -> Way:
    """The utilisation that gives so many bytes more, or why it cannot."""
    share = share_for(facts, short)
    highest = highest_share(facts)
    more = format_bytes(short)
    if share is None:
        return Way(
            f"a higher --gpu-memory-utilization: {more} as a share of the device",
            "the log does not hold both the size of the device and the share in use; never "
            "more than is free before the start",
        )
    if share > highest:
        value = f"--gpu-memory-utilization {share:g}"
        return Way(
            f"{value if share <= 1 else 'a higher --gpu-memory-utilization'} alone",
            f"does not help: {highest:g} is the most",
            kind="no help",
        )
    return Way.that_sets(
        f"{more} less margin; it must be free before the start, and on a device that "
        "shares the host's memory the host loses it",
        gpu_memory_utilization=share,
    )


def share_for(facts: RunFacts, short: float) -> float | None:
    """The utilisation with so many bytes more, up to whole hundredths."""
    share, per_share = facts.utilization, bytes_per_share(facts)
    if share is None or not per_share:
        return None
    return math.ceil(100 * (share + short / per_share) - 1e-9) / 100


def bytes_per_share(facts: RunFacts) -> float | None:
    """KV cache for a utilisation of 1: of what is free on HPU, of the device on CUDA, and at the
    least what weights and KV cache show of its size."""
    reserve = facts.summary.memory_or_none.graph_reserved_fraction
    if reserve is not None:
        free = facts.figure("free_bytes")
        return free * (1 - reserve) if free else None
    if facts.device_bytes is not None or facts.summary.device.kind not in GPUS:
        return facts.device_bytes
    share, weights = facts.utilization, facts.figure("weights_bytes")
    cache = facts.summary.memory_or_none.kv_cache_bytes
    if share is None or weights is None or cache is None:
        return None
    return (weights + cache) / share if weights + cache > 0 else None


def highest_share(facts: RunFacts) -> float:
    """The highest utilisation that can be set: less than was free when the start began."""
    memory, total = facts.summary.memory_or_none, facts.device_bytes
    free = facts.figure("free_bytes")
    if not total or not free or memory.graph_reserved_fraction is not None:
        return MAX_UTILIZATION
    return min(MAX_UTILIZATION, math.floor(100 * free / total) / 100 - 0.01)


def cache_setting(facts: RunFacts) -> str | None:
    """The setting that gives the size of the KV cache, whatever the utilisation is; None where
    none is known to.

    On a CPU the engine prints what was requested for the worker unless the size was set (vLLM
    `v1/worker/cpu_worker.py`, `gpu_worker.py`, `determine_available_memory`).
    """
    summary = facts.summary
    if summary.fixed_blocks is not None:
        return "num_gpu_blocks_override"
    if summary.device.kind == "cpu":
        memory = summary.memory_or_none
        is_set = memory.kv_cache_bytes is not None and memory.usable_bytes is None
        return CPU_CACHE if is_set else None
    is_set = bool(summary.setting("kv_cache_memory_bytes"))
    return "kv_cache_memory_bytes" if is_set and summary.device.kind != "hpu" else None


def spare_cache(facts: RunFacts) -> float | None:
    """Bytes that the KV cache can lose while a request of full length fits: with less the
    engine does not start (vLLM `v1/core/kv_cache_utils.py _check_enough_kv_cache_memory`)."""
    size, requests = facts.figure("kv_cache_bytes"), facts.figure("max_concurrency")
    return None if not size or not requests else size * max(0.0, 1 - 1 / requests)


def fits_with(
    facts: RunFacts, settings: PlanSettings, margin: float | None = None
) -> bool:
    """Whether the plan with such settings fits beside a margin; True where none can be made.

    It replays the captures: with more for graphs more of them are captured, so the shortfall
    of one start is not always enough.
    """
    if margin is None:
        margin = MIN_MARGIN_SHARE * (facts.summary.memory_or_none.free_bytes or 0)
    planner = facts.planner
    return planner is None or planner.fitting(settings, margin) is not None


def not_enough(missing: float, price: str) -> str:
    """The price of a way that does not give so many bytes."""
    return f"not enough by itself: {format_bytes(missing)} are missing; {price}"


def most_of_fewer_bits(facts: RunFacts) -> float:
    """What is left of the weights, 0 to 1: half of quantised ones; of 4 bits up to two fifths of
    16, for embeddings and the last layer keep these (15 % of Qwen2.5-7B)."""
    is_quantized = str(facts.summary.config.get("quantization")) != "None"
    return 0.5 if is_quantized else 0.4


def fewer_weight_bits(
    facts: RunFacts, weights: float | None, missing: float | None = None
) -> Iterator[Way]:
    """Weights of fewer bits, and what about remains of them where their size is known; whether
    that is less than what is missing. Nothing where they have 4 bits.
    """
    price = "accuracy; another checkpoint"
    config = facts.summary.config
    if is_of_4_bits(facts.summary):
        return
    if weights is None:
        yield Way("weights of fewer bits", price)
        return
    is_quantized = str(config.get("quantization")) != "None"
    remaining = most_of_fewer_bits(facts) * weights / GIB
    text = f"weights of 4 bits: about {weights / 3 / GIB:.1f} to {remaining:.1f}"
    if is_quantized:
        text = f"weights of half as many bits: about {remaining:.1f}"
    text += f" GiB of {format_bytes(weights)} remain"
    # Of 32 bits no more than 4 remain, and what is quantised has 8.
    most = weights * (1 / 2 if is_quantized else 7 / 8)
    if missing is not None and missing > most:
        yield Way(text, not_enough(missing, price), kind="no help")
    else:
        yield Way(text, price)


def is_of_4_bits(summary: RunSummary) -> bool:
    """Whether the weights have 4 bits by the kind of quantisation or the name of the model."""
    config = summary.config
    names = f"{config.get('quantization')} {config.get('model', summary.model)}"
    return bool(_OF_4_BITS.search(names)) and not _OF_8_BITS.search(names)


def num_ranks(facts: RunFacts) -> int:
    """Devices of the engine: as it was set, or as many as printed lines."""
    return max(_parts(facts, "tensor_parallel_size"), facts.summary.ranks or 1)


def num_devices(facts: RunFacts) -> int | None:
    """Devices that hold the weights once, each a part of them; None where unknown: on TPU one
    process has several, and a part of a log may show one rank of many. Data parallel ranks hold
    all of them once more."""
    if facts.summary.setting("tensor_parallel_size") is not None:
        stages = _parts(facts, "pipeline_parallel_size")
        return _parts(facts, "tensor_parallel_size") * stages
    if facts.summary.device.kind == "tpu":
        return None
    if facts.summary.ranks is None:
        return None
    return max(1, facts.summary.ranks // _parts(facts, "data_parallel_size"))


def _parts(facts: RunFacts, name: str) -> int:
    """Into how many parts a setting divides; what it cannot be counts as 1."""
    return max(1, int(facts.summary.setting(name) or 1))


def more_devices(
    facts: RunFacts, smallest: int = 2, missing: float | None = None
) -> Iterator[Way]:
    """More devices for the weights, at least twice as many as now; what they take less of the
    weights, where so much is missing."""
    now = num_devices(facts)
    if now is None:
        yield Way("a larger --tensor-parallel-size", "more devices")
        return
    stages = _parts(facts, "pipeline_parallel_size")
    size = -(-max(smallest, 2 * now) // stages)
    count = size * stages
    copies = max(1, num_ranks(facts) // now)
    each = f" for each of {copies} engines" if copies > 1 else ""
    weights = facts.figure("weights_bytes")
    less = ""
    if (
        weights is not None
        and missing is not None
        and facts.summary.device.kind != "tpu"
    ):
        freed = weights * (1 - now / count)
        less = f": {format_bytes(freed)} less of the weights, and {format_bytes(missing)} are missing"
        if freed < missing:
            less += "; activations have to give the rest"
    yield Way.that_sets(
        f"{count} devices{each}; each holds 1/{count} of the weights and of the KV cache{less}",
        tensor_parallel_size=size,
    )


def allows_step(facts: RunFacts, tokens: float) -> bool:
    """Whether a step may take so few tokens: without chunked prefill it takes the longest
    prompt (vLLM `config/scheduler.py`, `verify_max_model_len`)."""
    config, length = facts.summary.config, facts.summary.setting("max_model_len")
    names = ("enable_chunked_prefill", "chunked_prefill_enabled")
    is_off = any(str(config.get(name, "")).lower() == "false" for name in names)
    return not is_off or (length is not None and tokens >= length)


def shorter_steps(facts: RunFacts, missing: float | None = None) -> Iterator[Way]:
    """Half of the tokens of a step; without a value where the run states none. Activations
    shrink by no more than as large a part."""
    for way, part in _shorter_steps(facts):
        most = part * (facts.figure("profile_bytes") or math.inf)
        if missing is not None and missing > most:
            yield replace(
                way, price=not_enough(missing, way.price), changes={}, kind="no help"
            )
        else:
            yield way


def _shorter_steps(facts: RunFacts) -> Iterator[tuple[Way, float]]:
    """A way to shorter steps, and the part of the activations that it can save at most."""
    tokens = facts.summary.setting("max_num_batched_tokens")
    peak = facts.figure("profile_bytes")
    price = "prompts run in more pieces, fewer requests at once"
    if tokens is None and facts.summary.setting("max_num_seqs") == 1:
        yield (
            Way("a smaller --max-num-batched-tokens", "prompts run in more pieces"),
            1.0,
        )
        return
    if tokens is None:
        yield Way("a smaller --max-num-batched-tokens or --max-num-seqs", price), 1.0
        return
    if not allows_step(facts, tokens // 2):
        way = Way(
            "a smaller --max-num-seqs, or chunked prefill, which lets a step be shorter than "
            "the longest prompt",
            price,
        )
        yield way, 1.0
        return
    if tokens < 2 * MIN_TOKENS:
        return
    room = f" (now {format_bytes(peak)})" if peak else ""
    way = Way.that_sets(
        price,
        f": activations{room} shrink with it",
        max_num_batched_tokens=int(tokens) // 2,
    )
    yield way, 0.5


def fewer_logits(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """Half of the requests whose logits or pooled states did not fit (vLLM
    `_dummy_sampler_run`, `_dummy_pooler_run`)."""
    match = _DUMMIES.search(found.message)
    kind = match[1] if match is not None else facts.stage
    if not kind.startswith(("sampler", "pooler")):
        return
    what = "logits" if kind.startswith("sampler") else "states"
    seqs = match[2] if match is not None else facts.summary.setting("max_num_seqs")
    half = int(seqs or 0) // 2
    if half:
        yield Way.that_sets(
            f"at most {count_of(half, 'request')} at once",
            f": the {what} of so many requests are half as large",
            max_num_seqs=half,
        )
    elif seqs is None:
        yield Way(
            f"a smaller --max-num-seqs: the {what} shrink with it",
            "fewer requests at once",
        )
    if match is not None and half:
        yield Way(
            "--gpu-memory-utilization lower by 0.03 or more",
            "as much KV cache, which has its memory already at that moment",
        )


def smaller_batch(facts: RunFacts, found: Failed) -> Iterator[Way]:
    """Buckets of half the batch: their intermediates take half.

    That a shape has no bucket keeps no request from it: a bucket is made when it comes (vllm-gaudi
    `extension/bucketing/common.py generate_fallback_bucket`). Shorter steps do.
    """
    bucket, phase = found.bucket or (), found.phase or ""
    if phase not in PHASES or not bucket:
        return
    value = bucket[0] // 2
    if value < 1:
        made = facts.summary.phase(phase).buckets
        if made and not any(other[1:] < bucket[1:] for other in made):
            return  # it is the smallest one
        if phase == "prompt" and allows_step(facts, bucket[1] - 1):
            yield Way(
                f"--max-num-batched-tokens of less than {bucket[1]}, where prompts run in "
                "chunks: it ends the query lengths of prompt buckets",
                "prompts run in more pieces",
            )
        else:
            yield Way(
                f"a smaller --max-model-len: {phase} buckets end earlier",
                "longer requests are refused",
            )
    elif phase == "decode":
        # Every strategy ends its decode batches there; not every one reads a range.
        price = f"at most {count_of(value, 'request')} at once"
        yield Way.that_sets(price, max_num_seqs=value)
    else:
        name = "VLLM_PROMPT_BS_BUCKET_MAX"
        more = f"more than {count_of(value, 'prompt')} at once"
        price = f"{more} compile when they come, and need the memory then"
        is_read = not (facts.summary.engine.version or "").startswith("0.10.")
        changes = {name: value} if is_read else {}
        yield Way(f"{name}={value}", price, changes)
