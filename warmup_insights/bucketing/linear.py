"""The strategies with steps: linear, and padding-aware, which leaves out values of it.

Both double from min up to step, then go on in steps up to max; the padding-aware one keeps
those without which padding would exceed a limit.
"""

from __future__ import annotations

from functools import partial

from warmup_insights.bucketing.ranges import (
    PARAMETERS,
    PhaseParameters,
    Strategy,
    check_range,
    fit_decode_blocks,
    resolve_parameters,
)
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import SettingError


def linear_range(
    smallest: int,
    step: int,
    largest: int,
    *,
    name: str = "VLLM_BUCKET",
    may_be_empty: bool = False,
) -> list[int]:
    """The sorted values of a linear range.

    From `smallest` the values double while they are below `step`; then come the
    multiples of `step` that are not below `smallest`. `largest` is reached only if it
    is a multiple of `step`. A `smallest` of 0 is one more value, before the multiples.
    Source: `linear.py`, `warmup_range`, of vllm-gaudi.

    Raises:
        SettingError: the parameters make no range, or an empty one unless it may be; names
            `name`.
    """
    check_range((smallest, step, largest), name)
    if smallest == 0:
        return [0, *range(step, largest + 1, step)]
    values = []
    ramp = smallest
    while ramp < step and ramp <= largest:
        values.append(ramp)
        ramp *= 2
    first_multiple = -(-smallest // step) * step
    values.extend(range(first_multiple, largest + 1, step))
    if not values and not may_be_empty:
        raise SettingError(
            f"{name}_MIN={smallest}, {name}_STEP={step} and {name}_MAX={largest} leave "
            "no value; put a multiple of the step between the bounds"
        )
    return values


def _linear_prompt(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max) of the prompt dimensions.

    Source: `linear.py`, `LinearBucketingStrategy.get_prompt_cfgs`, of vllm-gaudi.
    """
    budget = settings.max_num_batched_tokens
    prefill_seqs = settings.max_num_prefill_seqs
    block_size = settings.block_size
    resolve = partial(resolve_parameters, settings.overrides, "prompt")
    batch_size = resolve("bs", 1, 1, prefill_seqs)
    query_len = resolve("query", block_size, block_size, budget)
    max_ctx = (settings.max_model_len - query_len[0]) // block_size
    if not settings.merged_prefill:
        num_blocks = resolve("ctx", 0, 1, max_ctx)
        return PhaseParameters(batch_size, query_len, num_blocks)
    # Merged prefill puts all sequences in one row, so context grows with their number.
    query_len = (query_len[0], query_len[1] * 4, budget)
    num_blocks = resolve("ctx", 0, 4, max_ctx * prefill_seqs)
    return PhaseParameters((1, 1, 1), query_len, num_blocks)


def _linear_decode(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max) of the decode dimensions.

    With contiguous paged attention no block id lies beyond the cache, so the blocks
    end there; before v0.21.0 they always did.
    Source: `linear.py`, `LinearBucketingStrategy.get_decode_cfgs`, of vllm-gaudi.
    """
    cache_blocks = settings.num_kv_blocks
    block_size = settings.block_size
    overrides = settings.overrides
    batch_size = resolve_parameters(
        overrides, "decode", "bs", 1, 32, settings.max_num_seqs
    )
    max_blocks = max(
        settings.max_model_len * settings.max_num_seqs // block_size, block_size
    )
    if settings.use_contiguous_pa:
        max_blocks = cache_blocks
    num_blocks = resolve_parameters(
        overrides, "decode", "block", 1, block_size, max_blocks
    )
    always_ends = settings.rules.linear_ends_at_cache
    notes: tuple[str, ...] = ()
    if not always_ends or num_blocks[2] > cache_blocks:
        num_blocks, notes = fit_decode_blocks(
            settings,
            num_blocks,
            ends_at_cache=settings.use_contiguous_pa or always_ends,
        )
    return PhaseParameters(batch_size, (1, 1, 1), num_blocks, notes)


LINEAR = Strategy(
    name="lin",
    title="linear",
    parameter_names=PARAMETERS[:3],
    prompt=_linear_prompt,
    decode=_linear_decode,
    values=lambda _, parameters, name: linear_range(*parameters, name=name),
)


MAX_PAD_PERCENT = 50
PAD_PERCENT = 25
"""Where none is set."""


def padding_aware_range(
    smallest: int,
    step: int,
    largest: int,
    pad_max: int,
    pad_percent: int,
    *,
    name: str = "VLLM_BUCKET",
) -> list[int]:
    """The sorted values of a padding-aware range.

    From `smallest` the values double (0 goes to 1) until one is above `step`. From
    there the range looks at one candidate per `step` and keeps it if leaving it out
    would let the next one pad more than `pad_percent` of itself or more than
    `pad_max`, or if it is a multiple of `pad_max` (0 stands for `largest`). `largest`
    is always the last value.
    Source: `padding_aware.py`, `warmup_range_with_limits`, of vllm-gaudi.

    Raises:
        SettingError: no range, or `pad_percent` is not within 0 to 50; names `name`.
    """
    check_range((smallest, step, largest), name)
    _check_padding(pad_max, pad_percent, name)
    absolute = pad_max or largest
    values = [smallest]
    current = smallest
    while current <= largest:
        last = values[-1]
        if current <= step:
            current = max(1, last * 2)
            if current <= largest:
                values.append(current)
            continue
        following = current + step
        padding = following - last - 1
        is_needed = (
            padding / following > pad_percent / 100.0
            or padding > absolute
            or current % absolute == 0
        )
        if is_needed and current != last:
            values.append(current)
        current = following
    if values[-1] != largest:
        values.append(largest)
    return values


def _check_padding(pad_max: int, pad_percent: int, name: str) -> None:
    if pad_max < 0:
        raise SettingError(f"{name}_PAD_MAX={pad_max} is negative; use 0 or more")
    if not 0 <= pad_percent <= MAX_PAD_PERCENT:
        raise SettingError(
            f"{name}_PAD_PERCENT={pad_percent} is no usable share; use 0 to "
            f"{MAX_PAD_PERCENT}"
        )


def _padded_prompt(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max, pad_max, pad_percent) of the prompt dimensions.

    Source: `padding_aware.py`, `PaddingAwareBucketingStrategy.get_prompt_cfgs`.
    """
    budget = settings.max_num_batched_tokens
    prefill_seqs = settings.max_num_prefill_seqs
    block_size = settings.block_size
    budget_blocks = -(-budget // block_size)
    resolve = partial(resolve_parameters, settings.overrides, "prompt")
    bs = resolve("bs", 1, 1, prefill_seqs, _quarter(prefill_seqs), PAD_PERCENT)
    query = resolve(
        "query", block_size, block_size, budget, _quarter(budget), PAD_PERCENT
    )
    max_ctx = -(-(settings.max_model_len - query[0]) // block_size)
    if not settings.merged_prefill:
        ctx = resolve("ctx", 0, 2, max_ctx, budget_blocks, PAD_PERCENT)
        return PhaseParameters(bs, query, ctx)
    # Merged prefill puts all sequences in one row, so context grows with their number.
    all_ctx = (0, 4, max_ctx * prefill_seqs, budget_blocks, PAD_PERCENT)
    return PhaseParameters(
        (1, 1, 1, *bs[3:]),
        (query[0], query[1] * 4, budget, *query[3:]),
        resolve("ctx", *all_ctx),
    )


def _padded_decode(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max, pad_max, pad_percent) of the decode dimensions.

    With contiguous paged attention no block id lies beyond the cache, so the blocks
    end there. A minimum above the cache is moved one step below it.
    Source: `padding_aware.py`, `PaddingAwareBucketingStrategy.get_decode_cfgs`.
    """
    num_seqs = settings.max_num_seqs
    cache_blocks = settings.num_kv_blocks
    block_size = settings.block_size
    max_blocks = max(-(-settings.max_model_len * num_seqs // block_size), block_size)
    if settings.use_contiguous_pa:
        max_blocks = cache_blocks
    resolve = partial(resolve_parameters, settings.overrides, "decode")
    batch_size = resolve("bs", 1, 2, num_seqs, _quarter(num_seqs), PAD_PERCENT)
    blocks = (block_size, block_size, max_blocks, _quarter(max_blocks), PAD_PERCENT)
    num_blocks, notes = fit_decode_blocks(
        settings,
        resolve("block", *blocks),
        ends_at_cache=settings.use_contiguous_pa,
        most=cache_blocks,
    )
    return PhaseParameters(batch_size, (1, 1, 1, 1, 0), num_blocks, notes)


def _quarter(value: int) -> int:
    return -(-value // 4)


PADDING_AWARE = Strategy(
    name="pad",
    title="padding-aware",
    parameter_names=PARAMETERS,
    prompt=_padded_prompt,
    decode=_padded_decode,
    values=lambda _, parameters, name: padding_aware_range(*parameters, name=name),
)
