"""From a shape at run time to the bucket it runs in, as the engine chooses it.

And the buckets that a decode batch goes through while its sequences grow, and those that
the requests of a warm-up land in.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Literal, NamedTuple

from warmup_insights.bucketing.base import Bucket, GeneratedBuckets, Phase
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import InputError


class BucketIndex:
    """Finds the first bucket, in sorted order, that covers a shape.

    The buckets of each batch size are a sorted list, which is searched by bisection; only
    query lengths whose contexts are all too short are stepped over one by one.
    """

    def __init__(self, buckets: Iterable[Bucket]) -> None:
        self._batch_sizes: list[int] = []
        self._groups: list[list[Bucket]] = []
        for bucket in sorted(set(buckets)):
            self.add(bucket)

    def __iter__(self) -> Iterator[Bucket]:
        return chain.from_iterable(self._groups)

    def find(self, batch_size: int, query_len: int, num_blocks: int) -> Bucket | None:
        """The first bucket not smaller in any dimension; None if there is none.

        The answer is that of a scan of the sorted list, so the batch size weighs most:
        a smaller batch with a longer query comes before a larger batch.
        Source: `common.py`, `find_equal_or_closest_greater_config`, of vllm-gaudi.
        """
        for group in self._groups[bisect_left(self._batch_sizes, batch_size) :]:
            least = (group[0].batch_size, query_len, num_blocks)
            while (place := bisect_left(group, least)) < len(group):
                bucket = group[place]
                if bucket.num_blocks >= num_blocks:
                    return bucket
                least = (bucket.batch_size, bucket.query_len, num_blocks)
        return None

    def add(self, bucket: Bucket) -> None:
        """Put a bucket in its place, unless it is there already."""
        position = bisect_left(self._batch_sizes, bucket.batch_size)
        if self._batch_sizes[position : position + 1] != [bucket.batch_size]:
            self._batch_sizes.insert(position, bucket.batch_size)
            self._groups.insert(position, [])
        group = self._groups[position]
        place = bisect_left(group, bucket)
        if group[place : place + 1] != [bucket]:
            group.insert(place, bucket)


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
    """The buckets of a running engine: lookups, and the buckets that misses add."""

    def __init__(
        self, settings: BucketingSettings, generated: GeneratedBuckets
    ) -> None:
        self._settings = settings
        self._buckets: dict[Phase, BucketIndex] = {
            "prompt": BucketIndex(generated.prompt),
            "decode": BucketIndex(generated.decode),
        }
        self._seeds = BucketIndex(generated.seed_decode)
        self._most_blocks = generated.fallback_max_ctx

    def buckets(self, phase: Phase) -> tuple[Bucket, ...]:
        """The buckets of a phase, those added by misses included, sorted."""
        return tuple(self._buckets[phase])

    def lookup(self, phase: Phase, shape: Sequence[int]) -> Lookup:
        """Look up (batch_size, query_len, num_blocks), or (batch_size, num_blocks).

        Two numbers are a decode shape. Blocks are the context blocks of the sequence
        that has most in a prompt; in decode those of the whole batch, or with contiguous
        PA the highest block id plus 1, and in some versions, more than the largest
        prepared count as the largest. A miss adds its fallback bucket.
        Source: `common.py`, `HPUBucketingManager.find_prompt_bucket` and
        `find_decode_bucket`, of vllm-gaudi.

        Raises:
            InputError: the shape has another length, or a negative number.
        """
        result = self.peek(phase, shape)
        if result.outcome == "fallback":
            self._buckets[phase].add(result.bucket)
        return result

    def peek(self, phase: Phase, shape: Sequence[int]) -> Lookup:
        """What `lookup` answers, without adding a bucket.

        Raises:
            InputError: the shape has another length, or a negative number.
        """
        wanted = check_shape(phase, shape)
        if not self._settings.use_bucketing:
            return Lookup(phase, wanted, wanted, "unpadded")
        requested = self._lowered(wanted) if phase == "decode" else wanted
        found = self._buckets[phase].find(*requested)
        if found is not None:
            outcome: Outcome = "found" if requested == wanted else "capped"
            return Lookup(phase, wanted, found, outcome)
        made = fallback_bucket(self._settings, phase, requested, self._most_blocks)
        return Lookup(phase, wanted, made, "fallback")

    def with_drafts(self, shape: Sequence[int]) -> Bucket | None:
        """What a decode step of (batch_size, num_blocks) runs in where every sequence checks all
        tokens that were proposed for it; None without such tokens or buckets for them.

        The batch is that of a bucket before those of speculative decoding, and each token a
        row of its own, with the blocks of its sequence: without contiguous PA they count once
        for each.
        Source: `hpu_model_runner.py`, `_create_decode_input_data`, and `common.py`,
        `find_decode_bucket` with `seed_buckets`, of vllm-gaudi from v0.13.0 on.

        Raises:
            InputError: the shape has another length, or a negative number.
        """
        settings, wanted = self._settings, check_shape("decode", shape)
        rows = 1 + settings.num_speculative_tokens
        is_usual = not settings.rules.speculates or not settings.use_bucketing
        if rows == 1 or is_usual:
            return None
        seed = self._seeds.find(*self._lowered(wanted))
        padded = seed or self.peek("decode", shape).bucket
        batch_size = padded.batch_size * rows
        blocks = wanted.num_blocks * (1 if settings.use_contiguous_pa else rows)
        return self.peek("decode", (batch_size, blocks)).bucket._replace(
            batch_size=batch_size
        )

    def _lowered(self, decode: Bucket) -> Bucket:
        """A decode shape with as many blocks as the largest prepared, where it has more."""
        most = self._most_blocks
        if self._settings.rules.fallback == "by phase" and decode.num_blocks > most > 0:
            return decode._replace(num_blocks=most)
        return decode


_MERGED_BLOCKS_STEP = 32


def look_up_step(
    settings: BucketingSettings, table: BucketTable, phase: Phase, shape: Sequence[int]
) -> Lookup:
    """The lookup of a step of sequences that are alike; a miss adds its fallback bucket.

    With merged prefill they are one row, with the context of all, which is padded to whole
    32 blocks whatever the bucket has.
    Source: `hpu_model_runner.py`, `_bucketize_merged_prompt`, of vllm-gaudi.

    Raises:
        InputError: the shape has another length, or a negative number.
    """
    if phase == "decode" or not settings.merged_prefill:
        return table.lookup(phase, shape)
    batch_size, query_len, num_blocks = check_shape(phase, shape)
    context = batch_size * num_blocks
    found = table.lookup(phase, (1, batch_size * query_len, context))
    padded = -(-context // _MERGED_BLOCKS_STEP) * _MERGED_BLOCKS_STEP
    return found._replace(bucket=found.bucket._replace(num_blocks=padded))


def why_never_run(
    settings: BucketingSettings, phase: Phase, shape: Sequence[int]
) -> str | None:
    """Why no step has this shape; None where one can have it.

    Source: `hpu_model_runner.py`, `_can_merge_prefill_contents` and `_bucketize_2d_prompt`,
    of vllm-gaudi, and the limits of vLLM's scheduler.
    """
    batch_size, query_len, num_blocks = check_shape(phase, shape)
    budget, most = settings.max_num_batched_tokens, settings.max_num_seqs
    if batch_size > most * (1 + settings.num_speculative_tokens):
        return f"a step has at most max_num_seqs={most} sequences"
    if phase == "decode":
        return None
    largest = settings.max_num_prefill_seqs
    if batch_size > largest and not settings.merged_prefill:
        return (
            f"a prefill takes at most {largest} of the sequences; "
            "VLLM_PROMPT_BS_BUCKET_MAX sets how many"
        )
    if batch_size * query_len > budget:
        return f"a step has at most max_num_batched_tokens={budget} tokens"
    if batch_size > 1 and num_blocks and settings.rules.separates_context:
        return "a prompt with context runs alone"
    return None


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
            f"The {phase} shape {list(shape)} cannot be used; write {expected} in whole numbers"
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

    It is capped, and can then be smaller than the shape: the query length at
    max_num_batched_tokens (not where it is rounded to slices of a sliding window), and,
    as the rules of the version say, the batch size at max_num_seqs and the blocks.
    `fallback_max_ctx`, the largest number of blocks of decode, caps nothing if it is 0.
    Source: `common.py`, `HPUBucketingManager.generate_fallback_bucket`.
    """
    rules = settings.rules
    if rules.fallback == "powers of 2":
        return _first_fallback(settings, phase, shape)
    window = settings.sliding_window
    if window is not None and shape.query_len >= window.threshold:
        query_len = math.ceil(shape.query_len / window.slice_size) * window.slice_size
    else:
        chunk = settings.mamba_chunk_size if rules.checks_chunks else 0
        step = max(_QUERY_STEP, chunk)
        query_len = min(
            fallback_value(shape.query_len, step), settings.max_num_batched_tokens
        )
    batch_size = fallback_value(shape.batch_size, _BATCH_STEP)
    if rules.caps_fallback_batch:
        batch_size = min(batch_size, settings.max_num_seqs)
    most_blocks = fallback_max_ctx or math.inf
    if rules.fallback == "cache":
        most_blocks = settings.num_kv_blocks
    elif rules.fallback == "cache + block_size":
        most_blocks = settings.num_kv_blocks + settings.block_size
    elif rules.fallback == "by phase" and phase == "prompt":
        most_blocks = settings.max_prompt_blocks
    blocks = min(fallback_value(shape.num_blocks, _BLOCKS_STEP), most_blocks)
    return Bucket(batch_size, query_len, int(blocks))


def _first_fallback(settings: BucketingSettings, phase: Phase, shape: Bucket) -> Bucket:
    block_size = settings.block_size
    whole_blocks = -(-shape.query_len // block_size) * block_size
    return Bucket(
        2 ** math.ceil(math.log2(max(shape.batch_size, 1))),
        whole_blocks if phase == "prompt" else 1,
        -(-shape.num_blocks // 2) * 2,
    )


class WalkStep(NamedTuple):
    """Consecutive decode steps in one bucket: first and last token made, from 1.

    `num_blocks` are those of the batch at the last of these steps.
    """

    first_token: int
    last_token: int
    num_blocks: int
    bucket: Bucket
    outcome: Outcome


def walk_decode(
    table: BucketTable, seq_lens: Sequence[int], block_size: int, num_tokens: int
) -> list[WalkStep]:
    """The buckets of `num_tokens` decode steps of a batch that starts at `seq_lens`.

    `seq_lens` are the tokens of each sequence after its prompt. A step needs the blocks
    of all tokens and of the one it makes, so a new block starts a step early. Blocks
    are counted as without sharing and without gaps between block ids. Nothing is added
    to the table.

    Raises:
        InputError: there is no sequence, or a number is negative.
    """
    if not seq_lens or min(seq_lens) < 0 or num_tokens < 0:
        raise InputError(
            f"A walk of {num_tokens} tokens from the lengths {list(seq_lens)[:8]} is not "
            "possible; give at least one length, and nothing negative"
        )
    steps: list[WalkStep] = []
    token = 1
    while token <= num_tokens:
        ends = [-(-(length + token) // block_size) for length in seq_lens]
        # Nothing changes before the first sequence fills its last block.
        unchanged = min(
            end * block_size - length
            for end, length in zip(ends, seq_lens, strict=True)
        )
        last = min(unchanged, num_tokens)
        found = table.peek("decode", (len(seq_lens), sum(ends)))
        step = WalkStep(token, last, sum(ends), found.bucket, found.outcome)
        if steps and steps[-1].bucket == step.bucket:
            steps[-1] = step._replace(first_token=steps[-1].first_token)
        else:
            steps.append(step)
        token = last + 1
    return steps


Shape = tuple[int, ...]


def warmed_shapes(
    settings: BucketingSettings, lists: Mapping[str, Sequence[Shape]]
) -> dict[tuple[str, Shape], Shape]:
    """Phase and bucket to the shape that a warm-up runs for it.

    The engine makes requests that should land in the bucket, and looks their shape up
    like any other: context that does not fit into max_model_len together with the query
    is cut, no two prompts with context run in one batch, and the blocks of a decode
    batch are what its sequences can have. With merged prefill what a prompt bucket runs
    as is not known here, and each stands for itself.

    Source: `hpu_model_runner.py`, `_prepare_dummy_scenario`, `_generate_seq_lengths` and
    `_can_merge_prefill_contents`, of vllm-gaudi v0.26.0; the same from v0.21.0 to v0.27.0rc0.
    """
    needed = {"prompt": _prompt, "decode": _decode}
    found = {}
    for phase, buckets in lists.items():
        index = BucketIndex(Bucket(*bucket) for bucket in buckets)
        is_known = phase == "decode" or not settings.merged_prefill
        for bucket in buckets:
            bounds = needed[phase](settings, Bucket(*bucket)) if is_known else bucket
            shape = index.find(*bounds)
            found[phase, bucket] = bucket if shape is None else tuple(shape)
    return found


def _prompt(settings: BucketingSettings, bucket: Bucket) -> Shape:
    batch_size, query_len, num_blocks = bucket
    if query_len + num_blocks * settings.block_size > settings.max_model_len:
        left = settings.max_model_len - query_len
        num_blocks = max(0, left // settings.block_size)
    return (1 if num_blocks else batch_size), query_len, num_blocks


def _decode(settings: BucketingSettings, bucket: Bucket) -> Shape:
    batch_size, query_len, num_blocks = bucket
    if settings.use_contiguous_pa:
        # The highest block id counts, and that is given to the requests.
        return batch_size, query_len, min(num_blocks, settings.num_kv_blocks)
    longest = settings.blocks_per_seq
    each, more = divmod(num_blocks, batch_size)
    fuller, others = min(each + 1, longest), min(each, longest)
    return batch_size, query_len, fuller * more + others * (batch_size - more)
