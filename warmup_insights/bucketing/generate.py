"""From settings to buckets: ranges, their product, filters, speculative decoding."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from warmup_insights.bucketing.base import (
    DIMENSIONS,
    Bucket,
    DimensionRange,
    DroppedBucket,
    GeneratedBuckets,
    Phase,
)
from warmup_insights.bucketing.early import offer_early
from warmup_insights.bucketing.exponential import EXPONENTIAL
from warmup_insights.bucketing.filters import (
    MAX_CANDIDATES,
    PhaseDraft,
    lower_to_model_len,
)
from warmup_insights.bucketing.linear import LINEAR
from warmup_insights.bucketing.overrides import override_notes, range_name
from warmup_insights.bucketing.padding_aware import PADDING_AWARE
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.bucketing.strategy import Strategy
from warmup_insights.errors import SettingError

STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (EXPONENTIAL, LINEAR, PADDING_AWARE)
}
"""The strategies by the value of VLLM_BUCKETING_STRATEGY."""

_SHORT_NAMES = {"prompt": ("bs", "query", "ctx"), "decode": ("bs", "query", "block")}
_EDGE = "the largest num_blocks becomes floor((max_model_len - query_len) / block_size)"


class _PhaseResult(NamedTuple):
    buckets: tuple[Bucket, ...]
    ranges: tuple[DimensionRange, ...]
    dropped: tuple[DroppedBucket, ...]
    notes: tuple[str, ...]


def generate(settings: BucketingSettings) -> GeneratedBuckets:
    """All buckets that an engine with these settings warms up, and why not the others.

    Source: `common.py`, `HPUBucketingManager.generate_prompt_buckets` and
    `generate_decode_buckets`, of vllm-gaudi.

    Raises:
        SettingError: a range is impossible, or no bucket of a phase is left.
    """
    if not settings.use_bucketing:
        note = "VLLM_ENABLE_BUCKETING is off: every shape runs as it is."
        return GeneratedBuckets("off", (), (), (), (), (), 0, (note,))
    rules = settings.rules
    if settings.strategy == "pad" and not (
        settings.bucket_file or rules.names_strategies
    ):
        raise SettingError(
            f"Version {settings.engine_version} has no padding-aware strategy; choose "
            "exp or lin, or a version from v0.20.0rc0 on"
        )
    with _collector_paused():
        prompt = _generate_phase(settings, "prompt")
        decode = _generate_phase(settings, "decode")
    decode_buckets = decode.buckets
    if settings.num_speculative_tokens and rules.speculates:
        decode_buckets = speculative_buckets(settings, decode.buckets)
    return GeneratedBuckets(
        strategy="file" if settings.bucket_file else settings.strategy,
        prompt=prompt.buckets,
        decode=decode_buckets,
        seed_decode=decode.buckets,
        ranges=prompt.ranges + decode.ranges,
        dropped=prompt.dropped + decode.dropped,
        fallback_max_ctx=max(bucket.num_blocks for bucket in decode_buckets),
        notes=(
            *settings.notes,
            *override_notes(settings),
            *prompt.notes,
            *decode.notes,
        ),
    )


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from visiting candidates again and again.

    They are tuples without cycles; visiting them costs as much as making them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def speculative_buckets(
    settings: BucketingSettings, seeds: Iterable[Bucket]
) -> tuple[Bucket, ...]:
    """The decode buckets and, for each, those of a batch with speculative tokens.

    A sequence that verifies n tokens counts as n + 1 rows: the batch size is multiplied
    by that, with the same blocks where they suffice, and with multiplied blocks.
    Source: `common.py`, `HPUBucketingManager.generate_spec_decode_buckets`.
    """
    rows = 1 + settings.num_speculative_tokens
    buckets = set()
    for seed in seeds:
        buckets.add(seed)
        batch_size = seed.batch_size * rows
        grown = [
            seed._replace(batch_size=batch_size, num_blocks=seed.num_blocks * rows)
        ]
        if batch_size <= seed.num_blocks:
            grown.append(seed._replace(batch_size=batch_size))
        if not settings.use_contiguous_pa:
            grown = [
                lower_to_model_len(settings.blocks_per_seq, bucket) for bucket in grown
            ]
        buckets.update(grown)
    return tuple(sorted(buckets))


def _generate_phase(settings: BucketingSettings, phase: Phase) -> _PhaseResult:
    draft = PhaseDraft(settings, phase)
    if settings.bucket_file is not None:
        file = settings.bucket_file
        for bucket in file.prompt if phase == "prompt" else file.decode:
            draft.offer(bucket)
        return _PhaseResult(draft.buckets(), (), draft.dropped(), ())
    if settings.rules.early:
        ranges, notes = offer_early(draft, settings, phase)
        return _PhaseResult(draft.buckets(), ranges, draft.dropped(), notes)
    strategy = STRATEGIES[settings.strategy]
    plan = strategy.prompt(settings) if phase == "prompt" else strategy.decode(settings)
    ranges = tuple(
        DimensionRange(
            phase,
            dimension,
            parameters,
            tuple(strategy.values(settings, parameters, range_name(phase, short))),
        )
        for dimension, short, parameters in zip(
            DIMENSIONS, _SHORT_NAMES[phase], plan[:3], strict=True
        )
    )
    _offer_product(draft, settings, ranges)
    return _PhaseResult(draft.buckets(), ranges, draft.dropped(), plan.notes)


def _offer_product(
    draft: PhaseDraft,
    settings: BucketingSettings,
    ranges: tuple[DimensionRange, ...],
) -> None:
    batch_sizes, query_lens, blocks = (list(bounds.values) for bounds in ranges)
    phase = ranges[0].phase
    if phase == "prompt":
        query_lens = round_to_mamba_chunks(settings, query_lens)
    elif settings.use_contiguous_pa and blocks[-1] < settings.num_kv_blocks:
        blocks.append(settings.num_kv_blocks)
    count = len(batch_sizes) * len(query_lens) * len(blocks)
    if count > MAX_CANDIDATES:
        names = ", ".join(
            f"{range_name(phase, short)}_STEP={bounds.parameters[1]}"
            for short, bounds in zip(_SHORT_NAMES[phase], ranges, strict=True)
        )
        raise SettingError(
            f"The {phase} ranges make {count} candidates, more than {MAX_CANDIDATES}; "
            f"raise a step ({names})"
        )
    edge = blocks[-1] if phase == "prompt" and settings.has_edge_contexts else None
    for batch_size in batch_sizes:
        for num_blocks in blocks:
            if num_blocks == edge:
                _offer_edge(draft, settings, batch_size, query_lens, num_blocks)
                continue
            for query_len in query_lens:
                draft.offer(Bucket(batch_size, query_len, num_blocks))


def round_to_mamba_chunks(
    settings: BucketingSettings, query_lens: list[int]
) -> list[int]:
    """Query lengths as whole chunks, where the rules of the version round them."""
    chunk, rule = settings.mamba_chunk_size, settings.rules.mamba_chunks
    rounds = rule == "rounded" or (
        rule == "rounded if explicit" and settings.mamba_chunk_size_is_explicit
    )
    if not chunk or not rounds:
        return query_lens
    return [-(-query_len // chunk) * chunk for query_len in query_lens]


def _offer_edge(
    draft: PhaseDraft,
    settings: BucketingSettings,
    batch_size: int,
    query_lens: list[int],
    largest: int,
) -> None:
    """Offer the largest context of each query length instead of the range's largest.

    A context at or above VLLM_PROMPT_CTX_BUCKET_MAX, where that is read, is not used;
    the last one that was stays, which is the range's own before any was.
    """
    allowed = None
    if settings.rules.long_context == "edge below its override":
        allowed = settings.overrides.get("VLLM_PROMPT_CTX_BUCKET_MAX")
    num_blocks = largest
    for query_len in query_lens:
        longest = (settings.max_model_len - query_len) // settings.block_size
        if longest >= 0 and (allowed is None or longest < allowed):
            num_blocks = longest
        candidate = Bucket(batch_size, query_len, largest)
        actual = Bucket(batch_size, query_len, num_blocks)
        if actual != candidate:
            draft.replace(candidate, actual, _EDGE)
        draft.offer(actual)
