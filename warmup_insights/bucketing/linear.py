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


def _padding(settings: BucketingSettings, pad_max: int) -> tuple[int, ...]:
    """What parameters of the padding-aware strategy have more than those of the linear one."""
    return (pad_max, PAD_PERCENT) if settings.strategy == "pad" else ()


def _prompt(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max) of the prompt dimensions, and (pad_max, pad_percent) if padding-aware.

    Source: `linear.py` and `padding_aware.py`, `get_prompt_cfgs`, of vllm-gaudi.
    """
    budget, block_size = settings.max_num_batched_tokens, settings.block_size
    prefill_seqs = settings.max_num_prefill_seqs
    is_padded = settings.strategy == "pad"
    resolve = partial(resolve_parameters, settings.overrides, "prompt")
    batch_size = resolve(
        "bs", 1, 1, prefill_seqs, *_padding(settings, _quarter(prefill_seqs))
    )
    query_len = resolve(
        "query", block_size, block_size, budget, *_padding(settings, _quarter(budget))
    )
    rest = settings.max_model_len - query_len[0]
    max_ctx = -(-rest // block_size) if is_padded else rest // block_size
    pads = _padding(settings, -(-budget // block_size))
    if not settings.merged_prefill:
        num_blocks = resolve("ctx", 0, 2 if is_padded else 1, max_ctx, *pads)
        return PhaseParameters(batch_size, query_len, num_blocks)
    # Merged prefill puts all sequences in one row, so context grows with their number.
    return PhaseParameters(
        (1, 1, 1, *batch_size[3:]),
        (query_len[0], query_len[1] * 4, budget, *query_len[3:]),
        resolve("ctx", 0, 4, max_ctx * prefill_seqs, *pads),
    )


def _decode(settings: BucketingSettings) -> PhaseParameters:
    """(min, step, max) of the decode dimensions, and (pad_max, pad_percent) if padding-aware.

    With contiguous paged attention no block id lies beyond the cache, so the blocks end
    there; before v0.21.0 linear ones always did. The padding-aware strategy moves a
    minimum above the cache one step below it.
    Source: `linear.py` and `padding_aware.py`, `get_decode_cfgs`, of vllm-gaudi.
    """
    num_seqs, block_size = settings.max_num_seqs, settings.block_size
    is_padded = settings.strategy == "pad"
    tokens = settings.max_model_len * num_seqs
    blocks = -(-tokens // block_size) if is_padded else tokens // block_size
    most = max(blocks, block_size)
    if settings.use_contiguous_pa:
        most = settings.num_kv_blocks
    resolve = partial(resolve_parameters, settings.overrides, "decode")
    batch_size = resolve(
        "bs",
        1,
        2 if is_padded else 32,
        num_seqs,
        *_padding(settings, _quarter(num_seqs)),
    )
    num_blocks = resolve(
        "block", block_size if is_padded else 1, block_size, most,
        *_padding(settings, _quarter(most)),
    )  # fmt: skip
    always_ends = settings.rules.linear_ends_at_cache and not is_padded
    notes: tuple[str, ...] = ()
    if not always_ends or num_blocks[2] > settings.num_kv_blocks:
        num_blocks, notes = fit_decode_blocks(
            settings,
            num_blocks,
            ends_at_cache=settings.use_contiguous_pa or always_ends,
            most=settings.num_kv_blocks if is_padded else None,
        )
    query_len = (1, 1, 1, 1, 0) if is_padded else (1, 1, 1)
    return PhaseParameters(batch_size, query_len, num_blocks, notes)


def _quarter(value: int) -> int:
    return -(-value // 4)


LINEAR = Strategy(
    name="lin",
    title="linear",
    parameter_names=PARAMETERS[:3],
    prompt=_prompt,
    decode=_decode,
    values=lambda _, parameters, name: linear_range(*parameters, name=name),
)
PADDING_AWARE = Strategy(
    name="pad",
    title="padding-aware",
    parameter_names=PARAMETERS,
    prompt=_prompt,
    decode=_decode,
    values=lambda _, parameters, name: padding_aware_range(*parameters, name=name),
)
