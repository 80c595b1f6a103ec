"""Candidates of one phase on their way to buckets: kept, replaced or dropped."""

from __future__ import annotations

from collections import Counter

from warmup_insights.bucketing.base import Bucket, DroppedBucket, Phase
from warmup_insights.bucketing.filters import (
    LOWERED,
    lower_to_model_len,
    phase_conditions,
    sliding_window_condition,
)
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import SettingError

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
        if phase == "prompt" and (sliced := sliding_window_condition(settings)):
            self._conditions = (*self._conditions, sliced)
        self._checks = [(each.holds, each.text) for each in self._conditions]
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

    def buckets(self) -> tuple[Bucket, ...]:
        """The kept buckets, sorted.

        Raises:
            SettingError: none is left; the message names the condition and settings.
        """
        if not self._kept:
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
            return f"No {self._phase} bucket is given{source}; add at least one."
        text, count = broken.most_common(1)[0]
        because = {condition.text: condition.because for condition in self._conditions}
        return (
            f"No {self._phase} bucket is left of {broken.total()}: {count} break "
            f"{text} with {because[text]}{source}."
        )
