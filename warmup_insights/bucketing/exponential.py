"""The exponential strategy: close buckets at the small end, wide ones at the large."""

from __future__ import annotations

import math

from warmup_insights.bucketing.ranges import (
    MAX_RANGE_VALUES,
    PhaseParameters,
    Strategy,
)
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.bucketing.versions import NEWEST_RELEASE, Rules, rules_of
from warmup_insights.errors import SettingError


def exponential_range(
    smallest: int,
    step: int,
    largest: int,
    limit: int,
    *,
    rules: Rules | None = None,
    use_contiguous_pa: bool = False,
    half_linear: bool = False,
    name: str = "range",
) -> list[int]:
    """At most `limit` exponentially spaced values, rounded up to multiples of `step`.

    Value i of n is `smallest * (largest / smallest) ** (i / (n - 1))`; values that are
    equal after rounding count once, but in the early scheme the second takes the nearest
    free multiple. A `smallest` of 0 (or 1, by the rules of the version) is one more value, and the
    spacing starts at `step` then. The largest value of the rounded ones is lowered to
    `largest` where the rules do so; with contiguous PA the last value is `largest`
    without rounding. Both can leave `largest` twice; the buckets hold it once.
    `half_linear` spaces only the first half that way, up to `largest / limit`, the rest
    evenly. Rules are those of the newest release where none are given.
    Source: `exponential.py`, `warmup_range_with_limit`, of vllm-gaudi.

    Raises:
        SettingError: `limit` or `step` is below 1, `largest` or `smallest` below 0.
    """
    rules = rules or rules_of(NEWEST_RELEASE)
    _check(smallest, step, largest, limit, name)
    count = limit // 2 if half_linear else limit
    if limit == 1 or (count < 2 and not rules.early):
        return [largest]
    if count < 2:
        raise SettingError(
            f"{name}: max={largest} is too small for this version; raise it"
        )
    is_apart = smallest == 0 or (smallest == 1 and rules.keeps_one)
    first = step if is_apart else smallest
    reach = largest / limit if half_linear else largest
    exact = [
        # The order of these operations decides the last bit; it is the engine's.
        first * math.pow(reach / first, (1.0 / (count - 1)) * index)
        for index in range(count)
    ]
    rounded = [math.ceil(value / step) * step for value in exact]
    if use_contiguous_pa and not half_linear:
        rounded[-1] = largest
    if rules.early:
        if (largest - first) // step >= MAX_RANGE_VALUES:
            raise SettingError(f"{name}: max={largest} is too large; raise step={step}")
        rounded = _spread(exact, rounded, set(range(first, largest + 1, step)))
    if half_linear:
        stride = (largest - reach) / (limit - count)
        rounded += [
            math.ceil((reach + index * stride) / step) * step
            for index in range(1, limit - count + 1)
        ]
    if is_apart:
        rounded.append(smallest)
    values = sorted(set(rounded))
    if rules.lowers_last:
        values[-1] = min(values[-1], largest)
    return sorted(values)


def _check(smallest: int, step: int, largest: int, limit: int, name: str) -> None:
    given = {"min": smallest, "step": step, "max": largest, "limit": limit}
    for word, value in given.items():
        least = 0 if word in ("min", "max") else 1
        if value < least:
            raise SettingError(
                f"{name}: {word}={value} is too small; use {least} or more"
            )


def _spread(exact: list[float], rounded: list[int], free: set[int]) -> list[int]:
    """The rounded values, each that is taken replaced by the free one nearest to it."""
    spread: set[int] = set()
    for wanted, value in zip(exact, rounded, strict=True):
        if value in spread:
            left = free - spread
            if not left:
                break
            value = min(left, key=lambda each: abs(each - wanted))
        spread.add(value)
    return list(spread)


def prompt_parameters(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max, limit) of the prompt dimensions.

    No override changes them, except a minimum query length of exactly 1. For long
    models (and short ones, by the rules of the version) the context range ends where a full token
    budget still fits; the longest context of each query length is put in when the
    buckets are made.
    Source: `exponential.py`, `ExponentialBucketingStrategy.get_prompt_cfgs`.

    Raises:
        SettingError: max_num_batched_tokens is 1, which leaves no query length.
    """
    budget = settings.max_num_batched_tokens
    block_size = settings.block_size
    prefill_seqs = settings.max_num_prefill_seqs
    if budget == 1:
        raise SettingError(
            "max_num_batched_tokens=1 gives the exponential prompt query range "
            "a limit of 0 values; use at least 2"
        )
    rules = settings.rules
    reads_one = settings.overrides.get("VLLM_PROMPT_QUERY_BUCKET_MIN") == 1
    query_min = 1 if reads_one and rules.keeps_one else block_size
    kept_free = budget if settings.has_edge_contexts else query_min
    max_ctx = max(1, (settings.max_model_len - kept_free) // block_size)
    ctx_limit = 2 if max_ctx == 1 else log2_up(max_ctx) + 1
    query_limit = log2_up(budget)
    if settings.merged_prefill:
        return PhaseParameters(
            (1, 1, 1, 1),
            (query_min, block_size * 4, budget, query_limit),
            (0, 4, max_ctx * prefill_seqs, ctx_limit),
        )
    return PhaseParameters(
        (1, 2, prefill_seqs, log2_up(prefill_seqs) + 1),
        (query_min, block_size, budget, query_limit),
        (0, 1, max_ctx, ctx_limit),
    )


def decode_parameters(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max, limit) of the decode dimensions.

    Contiguous PA counts block ids, so its blocks end at the cache; otherwise shared
    blocks count once per sequence, and the rules of the version set where they end.
    Source: `exponential.py`, `ExponentialBucketingStrategy.get_decode_cfgs`.
    """
    num_seqs = settings.max_num_seqs
    batch_limit = log2_up(num_seqs) + 1
    max_blocks = _most_decode_blocks(settings)
    rule = settings.rules.decode_blocks
    bound = settings.num_kv_blocks * 3
    if rule in ("cache", "cache * seqs / 4", "cache + block_size"):
        limit = log2_up(settings.num_kv_blocks) + 1
    else:
        limit = log2_up(max_blocks) + 1
    if rule == "cache * 3, few values":
        limit = min(limit, max(6, batch_limit))
    is_dense = rule in ("all seqs full, dense", "all seqs full or cache * 3")
    if is_dense and max_blocks > bound:
        # A wider range gets more values, so that its large end stays as dense.
        limit += log2_up(max_blocks / bound) + 1
    return PhaseParameters(
        (1, 2, num_seqs, batch_limit),
        (1, 1, 1, 1),
        (1, num_seqs, max_blocks, limit),
    )


def _most_decode_blocks(settings: BucketingSettings) -> int:
    cache, num_seqs = settings.num_kv_blocks, settings.max_num_seqs
    rule = settings.rules.decode_blocks
    all_full = settings.blocks_per_seq * num_seqs
    if settings.use_contiguous_pa:
        return min(cache, all_full) if rule.startswith("all seqs full") else cache
    if rule in ("cache", "cache * seqs / 4"):
        whole_blocks = settings.max_model_len // settings.block_size * num_seqs
        return min(whole_blocks, cache if rule == "cache" else cache * num_seqs // 4)
    if rule == "cache + block_size":
        return cache + settings.block_size
    if rule in ("cache * 3", "cache * 3, few values"):
        return cache * 3
    if rule == "cache * 3 or more":
        return max(min(all_full, cache * num_seqs // 3), cache * 3)
    if rule == "all seqs full or cache * 3" and not settings.skip_decode_block_clamp:
        return min(all_full, cache * 3)
    return all_full


def log2_up(value: float) -> int:
    """The binary logarithm, rounded up."""
    return math.ceil(math.log2(value))


def _values(
    settings: BucketingSettings, parameters: tuple[int, ...], name: str
) -> list[int]:
    rules = settings.rules
    is_halved = settings.is_long_context and rules.long_context == "edge for short too"
    return exponential_range(
        *parameters,
        rules=rules,
        use_contiguous_pa=settings.use_contiguous_pa,
        half_linear=is_halved and name.startswith("VLLM_PROMPT"),
        name=name,
    )


EXPONENTIAL = Strategy(
    name="exp",
    title="exponential",
    parameter_names=("min", "step", "max", "limit"),
    prompt=prompt_parameters,
    decode=decode_parameters,
    values=_values,
)
