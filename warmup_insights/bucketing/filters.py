"""Candidates on their way to buckets: what they must meet, what replaces or drops them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from warmup_insights.bucketing.base import (
    Bucket,
    DimensionRange,
    DroppedBucket,
    Phase,
)
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import SettingError


class Condition(NamedTuple):
    """What a bucket must meet, in words, with the settings that it depends on."""

    text: str
    because: str
    holds: Callable[[Bucket], bool]


def phase_conditions(
    settings: BucketingSettings, phase: Phase
) -> tuple[Condition, ...]:
    """The conditions of one phase, in the order in which they are tried.

    Merged prefill has one of its own instead of the two of the usual prompt; decode
    has none with contiguous PA, where the number of blocks is the highest block id.
    Source: `common.py`, `generate_buckets`, filters_map, of vllm-gaudi.
    """
    if settings.rules.early:
        return _early_conditions(settings, phase)
    if phase == "decode":
        return () if settings.use_contiguous_pa else (_SEQS_HAVE_BLOCKS,)
    sliced = _sliding_window_conditions(settings)
    if settings.merged_prefill:
        return (_merged_context_condition(settings), *sliced)
    return (*_model_len_conditions(settings), _budget_condition(settings), *sliced)


def _early_conditions(
    settings: BucketingSettings, phase: Phase
) -> tuple[Condition, ...]:
    is_linear = settings.strategy == "lin"
    if phase == "decode":
        return (_SEQS_HAVE_BLOCKS,) if is_linear else ()
    budget = settings.max_num_batched_tokens
    model_len, block_size = settings.max_model_len, settings.block_size
    within_budget = Condition(
        "batch_size * (query_len + num_blocks * block_size) <= max_num_batched_tokens",
        f"max_num_batched_tokens={budget}",
        lambda bucket: (
            bucket.batch_size * (bucket.query_len + bucket.num_blocks * block_size)
            <= budget
        ),
    )
    within_model = Condition(
        "query_len <= max_model_len",
        f"max_model_len={model_len}",
        lambda bucket: bucket.query_len <= model_len,
    )
    return (within_budget,) if is_linear else (within_budget, within_model)


def _sliding_window_conditions(settings: BucketingSettings) -> tuple[Condition, ...]:
    """The condition of attention in slices, if it is used; tried after all others.

    Source: `common.py`, `HPUBucketingManager.generate_prompt_buckets`, of vllm-gaudi.
    """
    window = settings.sliding_window
    if window is None:
        return ()
    size, threshold = window.slice_size, window.threshold
    sliced = Condition(
        "query_len is a multiple of the slice size, or below the slice threshold, "
        "or num_blocks > 0",
        f"PT_HPU_SDPA_BC_FACTOR={size}, VLLM_FUSEDSDPA_SLIDE_THLD={threshold}",
        lambda bucket: (
            bucket.num_blocks != 0
            or bucket.query_len < threshold
            or bucket.query_len % size == 0
        ),
    )
    return (sliced,)


def lower_to_model_len(blocks_per_seq: int, bucket: Bucket) -> Bucket:
    """A decode bucket with no more blocks than its sequences can hold.

    Source: `common.py`, `generate_buckets`, correct_for_max_model_len.
    """
    most = bucket.batch_size * blocks_per_seq
    return bucket if bucket.num_blocks <= most else bucket._replace(num_blocks=most)


LOWERED = "num_blocks <= batch_size * {}(max_model_len / block_size)"
"""The condition in words that `lower_to_model_len` establishes, with ceil or floor."""

_SEQS_HAVE_BLOCKS = Condition(
    "batch_size <= num_blocks",
    "every sequence has at least one block",
    lambda bucket: bucket.batch_size <= bucket.num_blocks,
)


def _model_len_conditions(settings: BucketingSettings) -> tuple[Condition, ...]:
    model_len, most_blocks = settings.max_model_len, settings.max_prompt_blocks
    block_size = settings.block_size
    because = f"max_model_len={model_len}"
    if settings.rules.sums_context:
        return (
            Condition(
                "query_len + num_blocks * block_size <= max_model_len",
                f"{because}, block_size={block_size}",
                lambda bucket: (
                    bucket.query_len + bucket.num_blocks * block_size <= model_len
                ),
            ),
        )
    return (
        Condition(
            "num_blocks <= ceil((max_model_len - 1) / block_size)",
            f"{because}, block_size={block_size}",
            lambda bucket: bucket.num_blocks <= most_blocks,
        ),
        Condition(
            "query_len <= max_model_len",
            because,
            lambda bucket: bucket.query_len <= model_len,
        ),
    )


def _budget_condition(settings: BucketingSettings) -> Condition:
    budget = settings.max_num_batched_tokens
    return Condition(
        "batch_size * query_len <= max_num_batched_tokens",
        f"max_num_batched_tokens={budget}",
        lambda bucket: bucket.batch_size * bucket.query_len <= budget,
    )


def _merged_context_condition(settings: BucketingSettings) -> Condition:
    num_seqs = settings.max_num_prefill_seqs
    model_len, block_size = settings.max_model_len, settings.block_size
    return Condition(
        "num_blocks <= max_num_prefill_seqs * "
        "floor((max_model_len - floor(query_len / max_num_prefill_seqs)) / block_size)",
        f"max_model_len={model_len}, max_num_prefill_seqs={num_seqs}",
        lambda bucket: (
            bucket.num_blocks
            <= num_seqs * ((model_len - bucket.query_len // num_seqs) // block_size)
        ),
    )


MAX_CANDIDATES = 4_000_000
"""More candidates in one phase are refused, so that settings cannot fill the memory."""


class PhaseDraft:
    """Collects the buckets of one phase; each one not kept carries its reason."""

    def __init__(self, settings: BucketingSettings, phase: Phase) -> None:
        self._settings = settings
        self._phase: Phase = phase
        self._conditions = phase_conditions(settings, phase)
        self._blocks_per_seq = (
            settings.lowered_blocks_per_seq if phase == "decode" else None
        )
        self._checks = [(each.holds, each.text) for each in self._conditions]
        self.ranges: tuple[DimensionRange, ...] = ()
        """What the candidates are a product of."""
        self.notes: tuple[str, ...] = ()
        self._kept: set[Bucket] = set()
        self._dropped: dict[Bucket, DroppedBucket] = {}

    def offer(self, bucket: Bucket) -> None:
        """Keep a candidate, lower it to what the model can hold, or drop it."""
        for holds, text in self._checks:
            if not holds(bucket):
                self._dropped[bucket] = DroppedBucket(self._phase, bucket, text)
                return
        if self._blocks_per_seq is not None:
            lowered = lower_to_model_len(self._blocks_per_seq, bucket)
            if lowered is not bucket:
                is_full = self._blocks_per_seq == self._settings.blocks_per_seq
                rounding = "ceil" if is_full else "floor"
                self.replace(bucket, lowered, LOWERED.format(rounding))
                bucket = lowered
        self._kept.add(bucket)

    def keep(self, bucket: Bucket) -> None:
        """Keep a candidate whatever the conditions."""
        self._kept.add(bucket)

    @property
    def has_buckets(self) -> bool:
        """Whether a candidate was kept."""
        return bool(self._kept)

    def replace(self, bucket: Bucket, by: Bucket, condition: str) -> None:
        """Note that another bucket takes the place of a candidate."""
        self._dropped[bucket] = DroppedBucket(self._phase, bucket, condition, by)

    def buckets(self, *, may_be_empty: bool = False) -> tuple[Bucket, ...]:
        """The kept buckets, sorted.

        Raises:
            SettingError: none is left, where some must be; the message names the condition
                and settings.
        """
        if not self._kept and not may_be_empty:
            raise SettingError(self._nothing_left())
        return tuple(sorted(self._kept))

    def dropped(self) -> tuple[DroppedBucket, ...]:
        """The candidates that are not among the buckets, sorted."""
        return tuple(
            self._dropped[bucket]
            for bucket in sorted(self._dropped.keys() - self._kept)
        )

    def _nothing_left(self) -> str:
        settings = self._settings
        prefix = f"VLLM_{self._phase.upper()}_"
        causes = [
            f"{name}={value}"
            for name, value in settings.overrides.items()
            if name.startswith(prefix)
        ]
        if settings.bucket_file is not None:
            causes = [f"VLLM_BUCKETING_FROM_FILE={settings.bucket_file.name}"]
        source = f" (set: {', '.join(causes)})" if causes else ""
        broken = Counter(
            drop.condition for drop in self._dropped.values() if not drop.replaced_by
        )
        if not broken:
            return f"No {self._phase} bucket is given{source}; add at least one"
        text, count = broken.most_common(1)[0]
        because = {condition.text: condition.because for condition in self._conditions}
        return (
            f"No {self._phase} bucket is left of {broken.total()}: {count} break "
            f"{text} with {because[text]}{source}; change one of these"
        )
