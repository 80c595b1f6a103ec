"""The exponential strategy: close buckets at the small end, wide ones at the large."""

from __future__ import annotations

import math

from warmup_insights.bucketing.base import PhaseParameters, Strategy
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import SettingError


def exponential_range(
    smallest: int,
    step: int,
    largest: int,
    limit: int,
    *,
    use_contiguous_pa: bool = False,
    name: str = "range",
) -> list[int]:
    """At most `limit` exponentially spaced values, rounded up to multiples of `step`.

    Value i of n is `smallest * (largest / smallest) ** (i / (n - 1))`; values that are
    equal after rounding count once. A `smallest` of 0 or 1 is one more value, and the
    spacing starts at `step` then. The largest value of the rounded ones is lowered to
    `largest`. With contiguous PA the last value is `largest` without rounding, which
    leaves `largest` twice where the value before was rounded above it; the buckets made
    from the range hold it once.
    Source: `exponential.py`, `warmup_range_with_limit`, of vllm-gaudi.

    Raises:
        SettingError: `limit`, `step` or `largest` is below 1, or `smallest` below 0.
    """
    for word, value in (("step", step), ("max", largest), ("limit", limit)):
        if value < 1:
            raise SettingError(f"{name}: {word}={value} is too small; use 1 or more.")
    if smallest < 0:
        raise SettingError(f"{name}: min={smallest} is negative; use 0 or more.")
    if limit == 1:
        return [largest]
    first = step if smallest in (0, 1) else smallest
    exact = [
        # The order of these operations decides the last bit; it is the engine's.
        first * math.pow(largest / first, (1.0 / (limit - 1)) * index)
        for index in range(limit)
    ]
    rounded = [math.ceil(value / step) * step for value in exact]
    if use_contiguous_pa:
        rounded[-1] = largest
    if smallest in (0, 1):
        rounded.append(smallest)
    values = sorted(set(rounded))
    values[-1] = min(values[-1], largest)
    return sorted(values)


def prompt_parameters(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max, limit) of the prompt dimensions.

    No override changes them, except a minimum query length of exactly 1. For long
    models the context range ends where a full token budget still fits; the longest
    context of each query length is put in when the buckets are made.
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
            "a limit of 0 values; use at least 2."
        )
    reads_one = settings.overrides.get("VLLM_PROMPT_QUERY_BUCKET_MIN") == 1
    query_min = 1 if reads_one else block_size
    kept_free = budget if settings.is_long_context else query_min
    max_ctx = max(1, (settings.max_model_len - kept_free) // block_size)
    ctx_limit = 2 if max_ctx == 1 else _log2_up(max_ctx) + 1
    query_limit = _log2_up(budget)
    if settings.merged_prefill:
        return PhaseParameters(
            (1, 1, 1, 1),
            (query_min, block_size * 4, budget, query_limit),
            (0, 4, max_ctx * prefill_seqs, ctx_limit),
        )
    return PhaseParameters(
        (1, 2, prefill_seqs, _log2_up(prefill_seqs) + 1),
        (query_min, block_size, budget, query_limit),
        (0, 1, max_ctx, ctx_limit),
    )


def decode_parameters(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max, limit) of the decode dimensions.

    The blocks end at every sequence filled to max_model_len. Contiguous PA counts
    block ids, so it also ends at the cache; otherwise shared blocks count once per
    sequence, and three times the cache bounds the range, unless
    `skip_decode_block_clamp` says that the model needs all of it.
    Source: `exponential.py`, `ExponentialBucketingStrategy.get_decode_cfgs`.
    """
    num_seqs = settings.max_num_seqs
    cache_blocks = settings.num_kv_blocks
    max_blocks = -(-settings.max_model_len // settings.block_size) * num_seqs
    bound = cache_blocks if settings.use_contiguous_pa else cache_blocks * 3
    if settings.use_contiguous_pa or not settings.skip_decode_block_clamp:
        max_blocks = min(max_blocks, bound)
    limit = _log2_up(max_blocks) + 1
    if max_blocks > bound:
        # A wider range gets more values, so that its large end stays as dense.
        limit += math.ceil(math.log2(max_blocks / bound)) + 1
    return PhaseParameters(
        (1, 2, num_seqs, _log2_up(num_seqs) + 1),
        (1, 1, 1, 1),
        (1, num_seqs, max_blocks, limit),
    )


def _log2_up(value: int) -> int:
    return math.ceil(math.log2(value))


def _values(
    parameters: tuple[int, ...], settings: BucketingSettings, name: str
) -> list[int]:
    smallest, step, largest, limit = parameters
    return exponential_range(
        smallest,
        step,
        largest,
        limit,
        use_contiguous_pa=settings.use_contiguous_pa,
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
