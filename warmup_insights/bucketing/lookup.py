"""From a shape at run time to the bucket it runs in, as the engine chooses it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from warmup_insights.bucketing.base import Bucket, GeneratedBuckets, Phase
from warmup_insights.bucketing.index import BucketIndex
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import InputError

Outcome = Literal["found", "capped", "fallback", "unpadded"]

_BATCH_STEP = 2
_QUERY_STEP = 32
_BLOCKS_STEP = 32


class Lookup(NamedTuple):
    """What one lookup came to.

    `outcome` is "found" for a bucket that was there, "capped" for one that was found
    only because the decode blocks were lowered to the largest prepared, "fallback" for
    a bucket made for this shape, "unpadded" where bucketing is off.
    """

    phase: Phase
    shape: Bucket
    bucket: Bucket
    outcome: Outcome

    @property
    def is_covered(self) -> bool:
        """Whether the bucket is not smaller than the shape in any dimension."""
        return all(
            size >= need for size, need in zip(self.bucket, self.shape, strict=True)
        )


class BucketTable:
    """The buckets of a running engine: lookups, and the buckets that misses add.

    `misses` counts the lookups per (phase, shape) that no bucket covered.
    """

    def __init__(
        self, settings: BucketingSettings, generated: GeneratedBuckets
    ) -> None:
        self._settings = settings
        self._prompt = BucketIndex(generated.prompt)
        self._decode = BucketIndex(generated.decode)
        self._seeds = (
            BucketIndex(generated.seed_decode)
            if settings.num_speculative_tokens
            else None
        )
        self._most_blocks = generated.fallback_max_ctx
        self.misses: Counter[tuple[Phase, Bucket]] = Counter()

    @classmethod
    def from_buckets(
        cls,
        settings: BucketingSettings,
        prompt: Iterable[Bucket],
        decode: Iterable[Bucket],
    ) -> BucketTable:
        """A table of buckets from elsewhere, such as the lists of a log."""
        seeds = tuple(sorted(set(decode)))
        most = max((bucket.num_blocks for bucket in seeds), default=0)
        prompts = tuple(sorted(set(prompt)))
        return cls(
            settings,
            GeneratedBuckets("given", prompts, seeds, seeds, (), (), most, ()),
        )

    @property
    def prompt_buckets(self) -> tuple[Bucket, ...]:
        """The prompt buckets, those added by misses included, sorted."""
        return tuple(self._prompt)

    @property
    def decode_buckets(self) -> tuple[Bucket, ...]:
        """The decode buckets, those added by misses included, sorted."""
        return tuple(self._decode)

    def find_prompt(
        self, batch_size: int, query_len: int, num_blocks: int = 0
    ) -> Bucket:
        """The bucket of a prompt; a miss adds the bucket that the engine would make.

        `num_blocks` are the context blocks of the sequence that has most.
        Source: `common.py`, `HPUBucketingManager.find_prompt_bucket`, of vllm-gaudi.
        """
        found = self._prompt.find(batch_size, query_len, num_blocks)
        if found is not None:
            return found
        return self._miss("prompt", Bucket(batch_size, query_len, num_blocks))

    def find_decode(
        self, batch_size: int, num_blocks: int, *, from_seeds: bool = False
    ) -> Bucket:
        """The bucket of a decode step; a miss adds the bucket the engine would make.

        `num_blocks` are those of the whole batch, or with contiguous PA the highest
        block id plus 1; more than the largest prepared count as the largest. With
        `from_seeds` a bucket from before speculative decoding is preferred.
        Source: `common.py`, `HPUBucketingManager.find_decode_bucket`, of vllm-gaudi.
        """
        capped = self._cap(num_blocks)
        if from_seeds and self._seeds is not None:
            found = self._seeds.find(batch_size, 1, capped)
            if found is not None:
                return found
        found = self._decode.find(batch_size, 1, capped)
        if found is not None:
            return found
        return self._miss("decode", Bucket(batch_size, 1, capped))

    def lookup(self, phase: Phase, shape: Sequence[int]) -> Lookup:
        """Look up (batch_size, query_len, num_blocks), or (batch_size, num_blocks).

        Two numbers are a decode shape. A miss adds its fallback bucket.

        Raises:
            InputError: the shape has another length, or a negative number.
        """
        result = self.peek(phase, shape)
        if result.outcome == "fallback":
            self._miss(phase, result.shape._replace(num_blocks=self._asked(result)))
        return result

    def peek(self, phase: Phase, shape: Sequence[int]) -> Lookup:
        """What `lookup` answers, without adding a bucket.

        Raises:
            InputError: the shape has another length, or a negative number.
        """
        wanted = check_shape(phase, shape)
        if not self._settings.use_bucketing:
            return Lookup(phase, wanted, wanted, "unpadded")
        index = self._prompt if phase == "prompt" else self._decode
        asked = wanted
        if phase == "decode":
            asked = wanted._replace(num_blocks=self._cap(wanted.num_blocks))
        found = index.find(*asked)
        if found is not None:
            outcome: Outcome = "found" if asked == wanted else "capped"
            return Lookup(phase, wanted, found, outcome)
        return Lookup(phase, wanted, self._fallback(phase, asked), "fallback")

    def _cap(self, num_blocks: int) -> int:
        most = self._most_blocks
        return most if num_blocks > most > 0 else num_blocks

    def _asked(self, result: Lookup) -> int:
        blocks = result.shape.num_blocks
        return self._cap(blocks) if result.phase == "decode" else blocks

    def _fallback(self, phase: Phase, shape: Bucket) -> Bucket:
        return fallback_bucket(self._settings, phase, shape, self._most_blocks)

    def _miss(self, phase: Phase, shape: Bucket) -> Bucket:
        if not self._settings.use_bucketing:
            return shape
        self.misses[phase, shape] += 1
        bucket = self._fallback(phase, shape)
        (self._prompt if phase == "prompt" else self._decode).add(bucket)
        return bucket


def check_shape(phase: Phase, shape: Sequence[int]) -> Bucket:
    """A shape as a bucket; a decode shape may leave out its query length of 1.

    Raises:
        InputError: the shape has another length, no numbers, or a negative one.
    """
    numbers = list(shape)
    if phase == "decode" and len(numbers) == 2:
        numbers.insert(1, 1)
    is_shape = len(numbers) == 3 and all(
        isinstance(number, int) and not isinstance(number, bool) and number >= 0
        for number in numbers
    )
    if not is_shape or (phase == "decode" and numbers[1] != 1):
        expected = "[batch, query, blocks]" if phase == "prompt" else "[batch, blocks]"
        raise InputError(
            f"The {phase} shape {list(shape)} is not {expected} of whole numbers."
        )
    return Bucket(*numbers)


def fallback_value(value: int, step: int) -> int:
    """The bucket value made for one dimension that no bucket covers.

    Rounds up to a multiple of `step` times the cube root of the value (rounded up), so
    that gaps grow with the value, but slower than in an exponential range. Values up to
    1 stay. Source: `common.py`, `calc_fallback_value`, of vllm-gaudi.
    """
    if value <= 1:
        return value
    size = math.ceil(math.pow(value, 1 / 3)) * step
    return math.ceil(value / size) * size


def fallback_bucket(
    settings: BucketingSettings, phase: Phase, shape: Bucket, fallback_max_ctx: int
) -> Bucket:
    """The bucket that the engine makes for a shape that no bucket covers.

    It is capped, and can then be smaller than the shape: the batch size at
    max_num_seqs, the query length at max_num_batched_tokens (not where it is rounded to
    slices of a sliding window), prompt blocks at what max_model_len needs, decode
    blocks at `fallback_max_ctx`, unless that is 0.
    Source: `common.py`, `HPUBucketingManager.generate_fallback_bucket`.
    """
    window = settings.sliding_window
    if window is not None and shape.query_len >= window.threshold:
        query_len = math.ceil(shape.query_len / window.slice_size) * window.slice_size
    else:
        step = max(_QUERY_STEP, settings.mamba_chunk_size)
        query_len = min(
            fallback_value(shape.query_len, step), settings.max_num_batched_tokens
        )
    blocks = fallback_value(shape.num_blocks, _BLOCKS_STEP)
    if phase == "prompt":
        blocks = min(blocks, settings.max_prompt_blocks)
    elif fallback_max_ctx > 0:
        blocks = min(blocks, fallback_max_ctx)
    batch_size = fallback_value(shape.batch_size, _BATCH_STEP)
    return Bucket(min(batch_size, settings.max_num_seqs), query_len, blocks)
