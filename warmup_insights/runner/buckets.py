"""The runner's view of bucketing: lists to warm up, and a bucket for every step.

Buckets are those of vllm-gaudi, or of two dimensions as the V0 engines had them; what else
these engines do in two ways stands beside them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
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
from warmup_insights.rules.memory import CacheLayout, profile_shape
from warmup_insights.runner.batch import Row, decode_blocks_needed
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

    has_own_padding: bool
    """Whether the padding block is one more than the engine counts, or block 0."""
    splits_prompts: bool
    """Whether a prompt that exceeds the token budget runs in parts."""
    strategy: str
    dimensions: tuple[str, ...]
    """Names of the dimensions in an event."""
    parameters: tuple[str, ...]
    """Names of the parameters of a range."""
    omitted_reason: str | None = None
    """What an event names as the reason why buckets are omitted; None for the condition."""

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
                    reason = self.omitted_reason or item.condition
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

    @staticmethod
    @abstractmethod
    def profile_bucket(settings: RunSettings) -> Bucket:
        """The largest prompt: what the profiling run executes."""

    @abstractmethod
    def shape(self, phase: Phase, rows: Sequence[Row]) -> Bucket:
        """What a step needs, in the dimensions of the buckets."""

    @abstractmethod
    def _ranges(self, phase: Phase) -> dict[str, list[int]]:
        """The parameters of each dimension that a phase was generated from."""

    @abstractmethod
    def warmup_order(self, phase: Phase) -> list[Bucket]:
        """The generated buckets of a phase, the largest first, as they are warmed up."""

    @abstractmethod
    def find(self, phase: Phase, shape: Bucket) -> Found:
        """The bucket for a shape; a miss adds one."""


class ThreeDimensionalBuckets(Buckets):
    """(batch size, query length, blocks), by the rules of vllm-gaudi."""

    has_own_padding = True
    splits_prompts = True
    dimensions = ("bs", "query", "num_blocks")

    def __init__(self, settings: RunSettings, layout: CacheLayout) -> None:
        self._rules = settings_from_mapping(
            {**settings.limits, "num_kv_blocks": layout.num_blocks},
            settings.environment,
            engine_version=settings.bucketing_version,
        )
        generated = generate(self._rules)
        super().__init__(generated)
        self._layout = layout
        self._contiguous = settings.contiguous_pa
        self.strategy = generated.strategy
        self._dimension_ranges = generated.ranges
        self.parameters = STRATEGIES[self._rules.strategy].parameter_names
        self._table = BucketTable(self._rules, generated)

    @staticmethod
    def profile_bucket(settings: RunSettings) -> Bucket:
        """As many rows of the longest query as the token budget allows."""
        limits = settings.max_model_len, settings.max_num_batched_tokens
        return *profile_shape(*limits), 0

    def shape(self, phase: Phase, rows: Sequence[Row]) -> Bucket:
        """Rows, the longest query, and its context or the block list of a decode."""
        if phase == "prompt":
            longest = max(len(row.token_ids) for row in rows)
            context = max(self._layout.blocks_for(row.num_computed) for row in rows)
            return len(rows), longest, context
        blocks = decode_blocks_needed(rows, self._layout, contiguous=self._contiguous)
        return len(rows), 1, blocks

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
            blocks = "block" if self._rules.strategy == "exp" else "blocks"
            names = {"batch_size": "bs", "num_blocks": blocks}
        return {
            names[bounds.dimension]: list(bounds.parameters)
            for bounds in self._dimension_ranges
            if bounds.phase == phase and bounds.dimension in names
        }


def v0_settings(settings: RunSettings) -> TwoDimSettings:
    """The ranges; unless the environment sets more, none is longer than a request."""
    environment, block_size = dict(settings.environment), settings.block_size
    whole = -(-settings.max_model_len // block_size) * block_size
    for phase, longest in _LONGEST.items():
        name = f"VLLM_{phase}_SEQ_BUCKET_MAX"
        environment.setdefault(name, str(min(longest, whole)))
    return two_dim_settings(settings.limits, environment)


class TwoDimensionalBuckets(Buckets):
    """The V0 scheme; a shape that rounds to no prepared bucket is a miss, once."""

    has_own_padding = False
    splits_prompts = False
    strategy = "lin"
    dimensions = ("bs", "seq")
    parameters = ("min", "step", "max")

    def __init__(self, settings: RunSettings, layout: CacheLayout) -> None:
        self._rules = v0_settings(settings)
        super().__init__(generate_two_dim(self._rules))
        budget = settings.max_num_batched_tokens
        self.omitted_reason = (
            f"due to exceeded token budget (max_num_batched_tokens={budget})"
        )
        self._known = {phase: set(self.of(phase)) for phase in PHASES}

    @staticmethod
    def profile_bucket(settings: RunSettings) -> Bucket:
        """The largest batch of the longest prompts, whether the budget allows it or not.

        Source: `profile_run` of vllm-fork.
        """
        ranges = v0_settings(settings)
        return ranges.prompt_batch_size[2], ranges.prompt_seq_len[2]

    def shape(self, phase: Phase, rows: Sequence[Row]) -> Bucket:
        """Rows, and the longest query, in a decode the longest sequence."""
        if phase == "prompt":
            return len(rows), max(len(row.token_ids) for row in rows)
        return len(rows), max(row.length for row in rows)

    def warmup_order(self, phase: Phase) -> list[Bucket]:
        """Most tokens first."""
        buckets = [Bucket2D(*bucket) for bucket in self.of(phase)]
        return [tuple(bucket) for bucket in warmup_order(buckets)]

    def find(self, phase: Phase, shape: Bucket) -> Found:
        """Each dimension rounded up by its range; known after its first miss."""
        bucket = tuple(find_two_dim(self._rules, phase, shape[0], shape[1]))
        is_hit = bucket in self._known[phase]
        self._known[phase].add(bucket)
        return Found(bucket, is_hit)

    def _ranges(self, phase: Phase) -> dict[str, list[int]]:
        batch_size, seq_len = self._rules.parameters(phase)
        return {"bs": list(batch_size), "seq": list(seq_len)}


KINDS: dict[int, type[TwoDimensionalBuckets] | type[ThreeDimensionalBuckets]] = {
    2: TwoDimensionalBuckets,
    3: ThreeDimensionalBuckets,
}
"""By the number of dimensions."""
