"""Which shape the warm-up of a bucket runs in: not every bucket runs as declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.lookup import BucketIndex
from warmup_insights.bucketing.settings import BucketingSettings

Shape = tuple[int, ...]


def warmed_shapes(
    settings: BucketingSettings, lists: Mapping[str, Sequence[Shape]]
) -> dict[tuple[str, Shape], Shape]:
    """Phase and bucket to the shape that a warm-up runs for it.

    The engine makes requests that should land in the bucket, and looks their shape up
    like any other: context that does not fit into max_model_len together with the query
    is cut, no two prompts with context run in one batch, and the blocks of a decode
    batch are what its sequences can have.

    Source: `hpu_model_runner.py`, `_prepare_dummy_scenario`, `_generate_seq_lengths` and
    `_can_merge_prefill_contents`, of vllm-gaudi v0.26.0.
    """
    needed = {"prompt": _prompt, "decode": _decode}
    found = {}
    for phase, buckets in lists.items():
        index = BucketIndex(Bucket(*bucket) for bucket in buckets)
        for bucket in buckets:
            shape = index.find(*needed[phase](settings, Bucket(*bucket)))
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
    longest = -(-settings.max_model_len // settings.block_size)
    each, more = divmod(num_blocks, batch_size)
    sizes = [each + 1] * more + [each] * (batch_size - more)
    return batch_size, query_len, sum(min(size, longest) for size in sizes)
