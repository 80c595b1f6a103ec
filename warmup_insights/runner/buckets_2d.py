"""Buckets of two dimensions, (batch size, sequence length), as the V0 engines had them."""

from __future__ import annotations

from warmup_insights.bucketing.two_dim import (
    Bucket2D,
    GeneratedBuckets2D,
    TwoDimSettings,
    find_two_dim,
    generate_two_dim,
    two_dim_settings,
    warmup_order,
)
from warmup_insights.model.events import (
    Bucket,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
)
from warmup_insights.runner.buckets import PHASES, BucketEvent, Found, Phase
from warmup_insights.runner.settings import RunSettings

_LONGEST = {"PROMPT": 1024, "DECODE": 2048}


def v0_settings(settings: RunSettings) -> TwoDimSettings:
    """The ranges; unless the environment sets more, none is longer than a request."""
    environment = dict(settings.environment)
    block_size = settings.block_size
    whole = -(-settings.max_model_len // block_size) * block_size
    for phase, longest in _LONGEST.items():
        name = f"VLLM_{phase}_SEQ_BUCKET_MAX"
        environment.setdefault(name, str(min(longest, whole)))
    limits = {
        "max_num_seqs": settings.max_num_seqs,
        "block_size": block_size,
        "max_num_batched_tokens": settings.max_num_batched_tokens,
    }
    return two_dim_settings(limits, environment)


def largest_prompt(settings: RunSettings) -> Bucket:
    """The largest batch of the longest prompts, whether the budget allows it or not."""
    ranges = v0_settings(settings)
    return ranges.prompt_batch_size[2], ranges.prompt_seq_len[2]


class TwoDimensionalBuckets:
    """The V0 scheme; a shape that rounds to no prepared bucket is a miss, once."""

    contiguous = False

    def __init__(self, settings: RunSettings) -> None:
        self._settings = v0_settings(settings)
        self._budget = settings.max_num_batched_tokens
        self._generated: GeneratedBuckets2D = generate_two_dim(self._settings)
        self._known = {phase: set(self.of(phase)) for phase in PHASES}
        self.notes = self._generated.notes

    def of(self, phase: Phase) -> list[Bucket]:
        """The generated buckets of a phase, sorted."""
        source = self._generated.prompt if phase == "prompt" else self._generated.decode
        return [tuple(bucket) for bucket in source]

    def warmup_order(self, phase: Phase) -> list[Bucket]:
        """Most tokens first."""
        buckets = [Bucket2D(*bucket) for bucket in self.of(phase)]
        return [tuple(bucket) for bucket in warmup_order(buckets)]

    def find(self, phase: Phase, shape: Bucket) -> Found:
        """Each dimension rounded up by its range; known after its first miss."""
        bucket = tuple(find_two_dim(self._settings, phase, shape[0], shape[1]))
        is_hit = bucket in self._known[phase]
        self._known[phase].add(bucket)
        return Found(bucket, is_hit)

    def events(self) -> list[BucketEvent]:
        """Ranges, omitted and generated buckets of both phases."""
        found: list[BucketEvent] = []
        for phase in PHASES:
            batch_size, seq_len = self._settings.parameters(phase)
            found.append(
                BucketRangesConfigured(
                    phase=phase,
                    ranges={"bs": list(batch_size), "seq": list(seq_len)},
                    parameters=["min", "step", "max"],
                )
            )
            found += self._omitted(phase)
            buckets = self.of(phase)
            found.append(
                BucketsGenerated(
                    phase=phase,
                    count=len(buckets),
                    buckets=buckets,
                    strategy="lin",
                    dimensions=["bs", "seq"],
                )
            )
        return found

    def _omitted(self, phase: Phase) -> list[BucketsOmitted]:
        dropped: list[Bucket] = [
            tuple(item.bucket)
            for item in self._generated.dropped
            if item.phase == phase
        ]
        if not dropped:
            return []
        reason = f"due to exceeded token budget (max_num_batched_tokens={self._budget})"
        return [
            BucketsOmitted(
                phase=phase,
                count=len(dropped),
                reason=reason,
                buckets=dropped,
            )
        ]
