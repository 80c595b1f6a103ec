"""The linear strategy: double from min up to step, then go on in steps up to max."""

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
    smallest: int, step: int, largest: int, *, name: str = "VLLM_BUCKET"
) -> list[int]:
    """The sorted values of a linear range.

    From `smallest` the values double while they are below `step`; then come the
    multiples of `step` that are not below `smallest`. `largest` is reached only if it
    is a multiple of `step`. A `smallest` of 0 is one more value, before the multiples.
    Source: `linear.py`, `warmup_range`, of vllm-gaudi.

    Raises:
        SettingError: the parameters make no range or an empty one; names `name`.
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
    if not values:
        raise SettingError(
            f"{name}_MIN={smallest}, {name}_STEP={step} and {name}_MAX={largest} leave "
            "no value; put a multiple of the step between the bounds"
        )
    return values


def prompt_parameters(settings: BucketingSettings) -> PhaseParameters:
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


def decode_parameters(settings: BucketingSettings) -> PhaseParameters:
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
    prompt=prompt_parameters,
    decode=decode_parameters,
    values=lambda _, parameters, name: linear_range(*parameters, name=name),
)
