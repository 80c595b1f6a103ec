"""The shape that a bucket is warmed up in, against what the real engine ran."""

from __future__ import annotations

import pytest

from warmup_insights.bucketing.lookup import warmed_shapes
from warmup_insights.bucketing.settings import settings_from_mapping

INPUTS = {
    "max_num_seqs": 4, "block_size": 128, "max_num_batched_tokens": 1024,
    "max_model_len": 1024, "num_kv_blocks": 1104,
}  # fmt: skip


def shapes_of(phase, buckets, **environment):
    settings = settings_from_mapping(INPUTS, environment)
    found = warmed_shapes(settings, {phase: buckets})
    return {bucket: found[phase, bucket] for bucket in buckets}


@pytest.mark.parametrize(
    ("bucket", "runs_as"),
    [
        ((1, 256, 7), (1, 256, 7)),  # 6 blocks fit: the next bucket is that of 7
        ((1, 512, 7), (1, 512, 4)),
        ((1, 768, 7), (1, 768, 2)),
        ((1, 896, 4), (1, 896, 1)),
        ((1, 1024, 7), (1, 1024, 0)),
        ((1, 128, 7), (1, 128, 7)),
    ],
)
def test_context_that_does_not_fit_is_cut(bucket, runs_as):
    """Recorded from vllm-gaudi v0.26.0 at a maximum length of 1024."""
    queries = (128, 256, 384, 512, 768, 896, 1024)
    buckets = [(1, query, blocks) for query in queries for blocks in (0, 1, 2, 4, 7)]
    assert shapes_of("prompt", buckets)[bucket] == runs_as


def test_prompts_with_context_run_one_at_a_time():
    buckets = [(1, 128, 0), (1, 128, 2), (2, 128, 0), (2, 128, 2)]
    assert shapes_of("prompt", buckets) == {
        (1, 128, 0): (1, 128, 0), (1, 128, 2): (1, 128, 2),
        (2, 128, 0): (2, 128, 0), (2, 128, 2): (1, 128, 2),
    }  # fmt: skip


def test_decode_blocks_are_those_that_sequences_can_have():
    buckets = [(1, 1, 8), (1, 1, 16), (2, 1, 16)]
    assert shapes_of("decode", buckets)[1, 1, 16] == (1, 1, 8)
    paged = shapes_of("decode", [(1, 1, 1104), (1, 1, 2000)], VLLM_CONTIGUOUS_PA="true")
    assert paged[1, 1, 2000] == (1, 1, 1104)
