"""The runner's view of bucketing: lists to warm up, and a bucket for every step.

Buckets are those of vllm-gaudi, or of two dimensions as the V0 engines had them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from warmup_insights.bucketing.base import PHASES, GeneratedBuckets, Phase
from warmup_insights.bucketing.generate import STRATEGIES, generate
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.settings import settings_from_mapping
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
from warmup_insights.runner.engine import Emitter
from warmup_insights.runner.settings import RunSettings

_LONGEST = {"PROMPT": 1024, "DECODE": 2048}


@dataclass(frozen=True)
class Found:
    """The bucket of a step; `is_hit` is False for a shape that none covered."""

    bucket: Bucket
    is_hit: bool


class Buckets(ABC):
    """The buckets of a run."""

    contiguous = False
    strategy: str
    dimensions: tuple[str, ...]
    """Names of the dimensions in an event."""
    parameters: tuple[str, ...]
    """Names of the parameters of a range."""

    def __init__(self, generated: GeneratedBuckets | GeneratedBuckets2D) -> None:
        self._generated = generated
        self.notes = generated.notes

    def of(self, phase: Phase) -> list[Bucket]:
        """The generated buckets of a phase, sorted."""
        source = self._generated.prompt if phase == "prompt" else self._generated.decode
        return [tuple(bucket) for bucket in source]

    def record(self, emitter: Emitter) -> None:
        """Record what was generated: ranges, omitted buckets, lists."""
        for phase in PHASES:
            ranges = self._ranges(phase)
            if ranges:
                emitter.emit(
                    BucketRangesConfigured,
                    phase=phase,
                    ranges=ranges,
                    parameters=list(self.parameters),
                )
            omitted: dict[str, list[Bucket]] = {}
            for item in self._generated.dropped:
                if item.phase == phase:
                    reason = self._reason(item.condition)
                    omitted.setdefault(reason, []).append(tuple(item.bucket))
            for reason, buckets in omitted.items():
                emitter.emit(
                    BucketsOmitted,
                    phase=phase,
                    count=len(buckets),
                    reason=reason,
                    buckets=buckets,
                )
            generated = self.of(phase)
            emitter.emit(
                BucketsGenerated,
                phase=phase,
                count=len(generated),
                buckets=generated,
                strategy=self.strategy,
                dimensions=list(self.dimensions),
            )

    def _reason(self, condition: str) -> str:
        """What an event names as the reason why buckets are omitted."""
        return condition

    @abstractmethod
    def _ranges(self, phase: Phase) -> dict[str, list[int]]:
        """The parameters of each dimension that a phase was generated from."""

    @abstractmethod
    def warmup_order(self, phase: Phase) -> list[Bucket]:
        """The generated buckets of a phase, the largest first, as they are warmed up."""

    @abstractmethod
    def find(self, phase: Phase, shape: Bucket) -> Found:
        """The bucket for (batch size, query length, blocks); a miss adds one.

        In two dimensions the shape is (batch size, sequence length).
        """


class ThreeDimensionalBuckets(Buckets):
    """(batch size, query length, blocks), by the rules of vllm-gaudi."""

    dimensions = ("bs", "query", "num_blocks")

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
        generated = generate(self._settings)
        super().__init__(generated)
        self.strategy = generated.strategy
        self.contiguous = self._settings.use_contiguous_pa
        self._dimension_ranges = generated.ranges
        self.parameters = STRATEGIES[self._settings.strategy].parameter_names
        self._table = BucketTable(self._settings, generated)

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

    def _ranges(self, phase: Phase) -> dict[str, list[int]]:
        names = {"batch_size": "bs", "query_len": "query", "num_blocks": "blocks"}
        if phase == "decode":
            # The engine shows no query length there, and exponential names it `block`.
            blocks = "block" if self._settings.strategy == "exp" else "blocks"
            names = {"batch_size": "bs", "num_blocks": blocks}
        return {
            names[bounds.dimension]: list(bounds.parameters)
            for bounds in self._dimension_ranges
            if bounds.phase == phase and bounds.dimension in names
        }


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


class TwoDimensionalBuckets(Buckets):
    """The V0 scheme; a shape that rounds to no prepared bucket is a miss, once."""

    strategy = "lin"
    dimensions = ("bs", "seq")
    parameters = ("min", "step", "max")

    def __init__(self, settings: RunSettings) -> None:
        self._settings = v0_settings(settings)
        self._budget = settings.max_num_batched_tokens
        super().__init__(generate_two_dim(self._settings))
        self._known = {phase: set(self.of(phase)) for phase in PHASES}

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

    def _reason(self, condition: str) -> str:
        return f"due to exceeded token budget (max_num_batched_tokens={self._budget})"

    def _ranges(self, phase: Phase) -> dict[str, list[int]]:
        batch_size, seq_len = self._settings.parameters(phase)
        return {"bs": list(batch_size), "seq": list(seq_len)}
