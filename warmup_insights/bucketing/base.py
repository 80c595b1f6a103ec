"""What bucketing produces: buckets, ranges of one dimension, dropped candidates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

Phase = Literal["prompt", "decode"]
StrategyName = Literal["exp", "lin", "pad"]

STRATEGY_NAMES: tuple[StrategyName, ...] = get_args(StrategyName)
PHASES: tuple[Phase, Phase] = ("prompt", "decode")

DIMENSIONS = ("batch_size", "query_len", "num_blocks")
"""The three dimensions of a bucket, in the order of its fields."""

GPUS = ("cuda", "rocm", "xpu")
"""Kinds of devices whose workers are those of vLLM for GPUs."""
WITHOUT_BUCKETS = (*GPUS, "cpu", "tpu")
"""Kinds of devices on which vLLM makes no buckets and sets no memory aside for graphs."""


class Bucket(NamedTuple):
    """A padded shape; buckets sort by batch size, then query length, then blocks.

    `query_len` counts tokens (1 in decode), `num_blocks` counts context KV blocks:
    of one sequence in a prompt bucket, of the whole batch in a decode bucket.
    """

    batch_size: int
    query_len: int
    num_blocks: int


def context_blocks(phase: str, bucket: Any) -> Any:
    """Context blocks that a step reads, of every row of a prompt or of the whole batch; of
    one bucket, or of three columns of sizes."""
    return bucket[2] * (bucket[0] if phase == "prompt" else 1)


class DimensionRange(NamedTuple):
    """The values one dimension may take, and the parameters they come from.

    `parameters` are (min, step, max), for the exponential strategy with limit, for
    the padding-aware one with pad_max and pad_percent.
    """

    phase: Phase
    dimension: str
    parameters: tuple[int, ...]
    values: tuple[int, ...]


class DroppedBucket(NamedTuple):
    """A candidate that is not warmed up, and the condition that it does not meet.

    `replaced_by` is the bucket that took its place, None if nothing did.
    """

    phase: Phase
    bucket: Bucket
    condition: str
    replaced_by: Bucket | None = None


@dataclass(frozen=True)
class GeneratedBuckets:
    """Everything that one configuration generates.

    `prompt`, `decode` and `seed_decode` are sorted and hold no bucket twice;
    `seed_decode` are the decode buckets before speculative decoding multiplied them.
    `ranges` are in the order prompt batch size, query length, blocks, then decode,
    and empty if the buckets come from a file. `fallback_max_ctx` is the largest
    number of blocks of all decode buckets, where no bucket that a miss adds has more; 0
    where the version bounds it otherwise or not at all.
    `notes` are sentences for a person: settings without effect, clamped values.
    """

    strategy: str
    prompt: tuple[Bucket, ...]
    decode: tuple[Bucket, ...]
    seed_decode: tuple[Bucket, ...]
    ranges: tuple[DimensionRange, ...]
    dropped: tuple[DroppedBucket, ...]
    fallback_max_ctx: int
    notes: tuple[str, ...]
