"""Settings to start from, the plain scan, and strategies for Hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.settings import BucketingSettings, settings_from_mapping
from warmup_insights.bucketing.versions import NEWEST_RELEASE

INPUTS = {
    "max_num_seqs": 16,
    "max_num_prefill_seqs": 1,
    "block_size": 128,
    "max_num_batched_tokens": 2048,
    "max_model_len": 4096,
    "num_hpu_blocks": 1000,
}


def make_settings(
    env=None, *, engine_version=NEWEST_RELEASE, **inputs
) -> BucketingSettings:
    """The settings of a 4k model, with changed limits, environment or version."""
    return settings_from_mapping(
        {**INPUTS, **inputs}, env or {}, engine_version=engine_version
    )


def scan(buckets, shape):
    """What the engine does: the first of the sorted buckets that covers the shape."""
    for bucket in sorted(buckets):
        if all(size >= need for size, need in zip(bucket, shape, strict=True)):
            return bucket
    return None


def random_buckets(max_size=60):
    """Sets of small buckets, so that dimensions collide."""
    bucket = st.builds(
        Bucket, st.integers(1, 9), st.integers(1, 12), st.integers(0, 12)
    )
    return st.sets(bucket, max_size=max_size)


@st.composite
def engine_settings(draw) -> BucketingSettings:
    """Settings that every strategy accepts, over all features."""
    block_size = draw(st.sampled_from([16, 64, 128, 256]))
    model_len = block_size * draw(st.integers(1, 80)) + draw(st.integers(0, 15))
    budget = block_size * draw(st.integers(1, 24)) + draw(st.integers(0, 15))
    env = {
        "VLLM_BUCKETING_STRATEGY": draw(st.sampled_from(["exp", "lin", "pad"])),
        "VLLM_CONTIGUOUS_PA": draw(st.sampled_from(["true", "false"])),
        "VLLM_MERGED_PREFILL": draw(st.sampled_from(["true", "false", "false"])),
    }
    return settings_from_mapping(
        {
            "max_num_seqs": draw(st.integers(1, 70)),
            "max_num_prefill_seqs": draw(st.integers(1, 5)),
            "block_size": block_size,
            "max_num_batched_tokens": budget,
            "max_model_len": model_len,
            "num_hpu_blocks": draw(st.integers(200, 4000)),
            "num_speculative_tokens": draw(st.sampled_from([0, 0, 1, 3])),
        },
        env,
    )
