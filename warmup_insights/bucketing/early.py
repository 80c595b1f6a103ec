"""The scheme of v0.10: every prompt query length has contexts of its own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice, product

from warmup_insights.bucketing.base import Bucket, DimensionRange, Phase
from warmup_insights.bucketing.exponential import exponential_range, log2_up
from warmup_insights.bucketing.filters import MAX_CANDIDATES, PhaseDraft
from warmup_insights.bucketing.linear import linear_range
from warmup_insights.bucketing.overrides import range_name, resolve_parameters
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import SettingError

_Range = tuple[tuple[int, ...], list[int]]


def offer_early(
    draft: PhaseDraft, settings: BucketingSettings, phase: Phase
) -> tuple[tuple[DimensionRange, ...], tuple[str, ...]]:
    """Offer the candidates of one phase; the ranges of its dimensions, and notes.

    Prompt contexts have no range: they end where query and context fill the largest
    query length.
    Source: `exponential.py` and `linear.py`, `generate_prompt_buckets` and
    `generate_decode_buckets`, of vllm-gaudi v0.10.

    Raises:
        SettingError: a range is impossible, or the engine fails with these settings.
    """
    batch_sizes, lengths = _ranges(settings, phase)
    names = ("batch_size", "query_len" if phase == "prompt" else "num_blocks")
    ranges = tuple(
        DimensionRange(phase, name, parameters, tuple(values))
        for name, (parameters, values) in zip(
            names, (batch_sizes, lengths), strict=True
        )
    )
    _check_count(phase, len(batch_sizes[1]) * len(lengths[1]))
    if phase == "decode":
        _offer_decode(draft, settings, batch_sizes[1], lengths[1])
        return ranges, ()
    longest = lengths[0][2]
    made = (
        Bucket(batch_size, query_len, num_blocks)
        for batch_size, query_len in product(batch_sizes[1], lengths[1])
        for num_blocks in _contexts(settings, query_len, longest)
    )
    candidates = list(islice(made, MAX_CANDIDATES + 1))
    _check_count(phase, len(candidates))
    for candidate in candidates:
        draft.offer(candidate)
    if draft.has_buckets:
        return ranges, ()
    for candidate in candidates:
        draft.keep(candidate)
    note = (
        f"max_num_batched_tokens={settings.max_num_batched_tokens} leaves no prompt "
        "bucket and is ignored; raise it, or lower a minimum."
    )
    return ranges, (note,)


def _check_count(phase: Phase, count: int) -> None:
    if count > MAX_CANDIDATES:
        raise SettingError(
            f"The {phase} ranges make more than {MAX_CANDIDATES} candidates; raise "
            "block_size or a step"
        )


def _offer_decode(
    draft: PhaseDraft,
    settings: BucketingSettings,
    batch_sizes: list[int],
    blocks: list[int],
) -> None:
    most = settings.num_kv_blocks
    is_linear = settings.strategy == "lin"
    for batch_size in batch_sizes:
        for num_blocks in blocks:
            if is_linear and batch_size <= num_blocks:
                draft.keep(Bucket(batch_size, 1, min(num_blocks, most)))
                if num_blocks >= most:
                    break
            else:
                draft.offer(Bucket(batch_size, 1, num_blocks))


def _ranges(settings: BucketingSettings, phase: Phase) -> tuple[_Range, _Range]:
    """Parameters and values of the batch size, and of query length or blocks."""
    block_size, is_prompt = settings.block_size, phase == "prompt"
    most = settings.max_num_prefill_seqs if is_prompt else settings.max_num_seqs
    largest = settings.max_model_len if is_prompt else settings.num_kv_blocks
    if settings.strategy == "exp":
        batch: tuple[int, ...] = (1, 2, most, log2_up(most) + 1)
        length: tuple[int, ...] = (
            block_size,
            block_size,
            largest,
            log2_up(largest) + 1,
        )
        return (
            (batch, _exponential(settings, batch)),
            (length, _exponential(settings, length, half_linear=is_prompt)),
        )
    dimension = "seq" if is_prompt else "block"
    step = {"min": block_size, "step": block_size, "max": largest}
    length = resolve_parameters(settings.overrides, phase, dimension, step)
    bounds = {"min": 1, "step": 32, "max": most}
    batch = resolve_parameters(settings.overrides, phase, "bs", bounds)
    if is_prompt and settings.merged_prefill:
        budget = min(batch[2] * length[2], settings.max_num_batched_tokens)
        batch, length = (1, 1, 1), (*length[:2], budget)
    values = _linear(length, range_name(phase, dimension))
    is_set = "VLLM_DECODE_BLOCK_BUCKET_MAX" in settings.overrides
    if settings.use_contiguous_pa and not is_prompt and not is_set:
        values = sorted({*values, largest})
    return (batch, _linear(batch, range_name(phase, "bs"))), (length, values)


def _linear(parameters: tuple[int, ...], name: str) -> list[int]:
    smallest, step, largest = parameters
    if smallest == 0:
        raise SettingError(f"{name}_MIN=0 never ends in this version; use 1 or more")
    return linear_range(smallest, step, largest, name=name)


def _exponential(
    settings: BucketingSettings, parameters: tuple[int, ...], half_linear: bool = False
) -> list[int]:
    return exponential_range(
        *parameters,
        rules=settings.rules,
        use_contiguous_pa=settings.use_contiguous_pa,
        half_linear=half_linear,
    )


def _contexts(
    settings: BucketingSettings, query_len: int, longest: int
) -> Iterator[int]:
    """The context blocks that one query length is warmed up with."""
    reaches_last = settings.rules.last_context
    reach = (longest - query_len) // settings.block_size
    if settings.strategy == "lin" and settings.prefix_caching:
        yield from range(reach + 1 + reaches_last)
        return
    yield 0
    if not settings.prefix_caching or reach == 0:
        return
    if reach < 0 or (reach == 1 and not reaches_last):
        raise SettingError(
            f"Version {settings.engine_version} fails at the query length {query_len} "
            f"with max_model_len={settings.max_model_len}; try another max_model_len"
        )
    count = log2_up(reach) + 1
    for index in range(1, count + 1) if reaches_last else range(count):
        share = (1 / (count if reaches_last else count - 1)) * index
        yield math.ceil(math.pow(reach, share))
