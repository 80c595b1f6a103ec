"""The runner's view of bucketing: lists to warm up, and a bucket for every step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, Union

from warmup_insights.bucketing.base import DroppedBucket, GeneratedBuckets
from warmup_insights.bucketing.environment import settings_from_mapping
from warmup_insights.bucketing.generate import STRATEGIES, generate
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.model.events import (
    Bucket,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
)
from warmup_insights.runner.settings import RunSettings

Phase = Literal["prompt", "decode"]
PHASES: tuple[Phase, Phase] = ("prompt", "decode")
BucketEvent = Union[BucketRangesConfigured, BucketsGenerated, BucketsOmitted]  # noqa: UP007


@dataclass(frozen=True)
class Found:
    """The bucket of a step; `is_hit` is False for a shape that none covered."""

    bucket: Bucket
    is_hit: bool


class Buckets(Protocol):
    """The buckets of a run."""

    contiguous: bool
    notes: tuple[str, ...]

    def of(self, phase: Phase) -> list[Bucket]:
        """The generated buckets of a phase, sorted."""

    def warmup_order(self, phase: Phase) -> list[Bucket]:
        """The generated buckets of a phase, the largest first, as they are warmed up."""

    def find(self, phase: Phase, shape: Bucket) -> Found:
        """The bucket for (batch size, query length, blocks); a miss adds one.

        In two dimensions the shape is (batch size, sequence length).
        """

    def events(self) -> list[BucketEvent]:
        """What was generated: ranges, omitted buckets, lists."""


class ThreeDimensionalBuckets:
    """(batch size, query length, blocks), by the rules of vllm-gaudi."""

    def __init__(self, settings: RunSettings, num_kv_blocks: int) -> None:
        limits = {
            "max_num_seqs": settings.max_num_seqs,
            "block_size": settings.block_size,
            "max_num_batched_tokens": settings.max_num_batched_tokens,
            "max_model_len": settings.max_model_len,
            "num_kv_blocks": num_kv_blocks,
        }
        self._settings = settings_from_mapping(
            limits, settings.environment, engine_version=settings.bucketing_version
        )
        self._generated = generate(self._settings)
        self._table = BucketTable(self._settings, self._generated)
        self.contiguous = self._settings.use_contiguous_pa
        self.notes = self._generated.notes

    def of(self, phase: Phase) -> list[Bucket]:
        """The generated buckets of a phase, sorted."""
        source = self._generated.prompt if phase == "prompt" else self._generated.decode
        return [tuple(bucket) for bucket in source]

    def warmup_order(self, phase: Phase) -> list[Bucket]:
        """The list in reverse, as vllm-gaudi warms it up."""
        return self.of(phase)[::-1]

    def find(self, phase: Phase, shape: Bucket) -> Found:
        """Look the shape up; a miss adds the bucket that the engine would make."""
        result = self._table.lookup(phase, shape)
        if result.is_covered:
            return Found(tuple(result.bucket), result.outcome in ("found", "unpadded"))
        # A capped lookup gives fewer blocks than the step has: run the step as it is.
        return Found(tuple(shape), is_hit=False)

    def events(self) -> list[BucketEvent]:
        """Ranges, omitted and generated buckets of both phases."""
        found: list[BucketEvent] = []
        for phase in PHASES:
            found += _ranges(phase, self._generated, self._settings)
            found += _omitted(phase, self._generated.dropped)
            found.append(
                BucketsGenerated(
                    phase=phase,
                    count=len(self.of(phase)),
                    buckets=self.of(phase),
                    strategy=self._generated.strategy,
                    dimensions=["bs", "query", "num_blocks"],
                )
            )
        return found


def _ranges(
    phase: Phase, generated: GeneratedBuckets, settings: BucketingSettings
) -> list[BucketRangesConfigured]:
    if not any(bounds.phase == phase for bounds in generated.ranges):
        return []
    names = {"batch_size": "bs", "query_len": "query", "num_blocks": "blocks"}
    if phase == "decode":
        # The engine shows no query length there, and exponential names it `block`.
        blocks = "block" if settings.strategy == "exp" else "blocks"
        names = {"batch_size": "bs", "num_blocks": blocks}
    return [
        BucketRangesConfigured(
            phase=phase,
            ranges={
                names[bounds.dimension]: list(bounds.parameters)
                for bounds in generated.ranges
                if bounds.phase == phase and bounds.dimension in names
            },
            parameters=list(STRATEGIES[settings.strategy].parameter_names),
        )
    ]


def _omitted(phase: Phase, dropped: tuple[DroppedBucket, ...]) -> list[BucketsOmitted]:
    by_condition: dict[str, list[Bucket]] = {}
    for item in dropped:
        if item.phase == phase:
            by_condition.setdefault(item.condition, []).append(tuple(item.bucket))
    return [
        BucketsOmitted(
            phase=phase,
            count=len(buckets),
            reason=reason,
            buckets=buckets,
        )
        for reason, buckets in by_condition.items()
    ]
