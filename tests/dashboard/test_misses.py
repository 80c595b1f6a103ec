"""Misses: the nearest bucket, the dimension that failed, what would cover it."""

from __future__ import annotations

from tests.dashboard.builders import recorded_events
from warmup_insights.analysis.misses import diagnose, file_lines, highest_settings
from warmup_insights.analysis.summary import summarize
from warmup_insights.bucketing.file import parse_bucket_lines
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import (
    Miss,
    PhaseBuckets,
    RunSummary,
    SourceName,
)

NAMES = ("batch size", "query length", "KV blocks")


def summary_with(buckets, misses):
    section = PhaseBuckets(buckets=[tuple(bucket) for bucket in buckets])
    return RunSummary(
        run_id="r", source=SourceName(kind="log"), buckets={"prompt": section},
        misses=misses,
    )  # fmt: skip


def miss(*shape, fallback=None, count=1, phase="prompt"):
    return Miss(phase=phase, shape=shape, fallback=fallback, count=count)


def test_the_dimension_that_no_bucket_reaches_is_named():
    found = diagnose(
        summary_with(
            [[1, 128, 0], [2, 256, 0]], [miss(1, 300, 0, fallback=(1, 384, 0))]
        )
    )[0]
    assert found.too_large == (1,)
    assert found.reason(NAMES) == "query length 300 is above every bucket"
    assert found.nearest == (2, 256, 0)
    assert highest_settings([found]) == ("VLLM_PROMPT_QUERY_BUCKET_MAX=384",)


def test_a_shape_between_the_buckets_needs_no_larger_maximum():
    found = diagnose(summary_with([[1, 512, 0], [4, 128, 0]], [miss(2, 256, 0)]))[0]
    assert found.too_large == ()
    assert "by no bucket together" in found.reason(NAMES)
    assert highest_settings([found]) == ()


def test_older_engines_have_other_names_and_no_bucket_file():
    summary = summary_with([[1, 128]], [miss(1, 1024)])
    found = diagnose(summary)[0]
    assert file_lines(summary, [found]) == ()
    assert highest_settings([found]) == ("VLLM_PROMPT_SEQ_BUCKET_MAX=1024",)


def test_a_run_without_lists_has_no_nearest_bucket():
    found = diagnose(summary_with([], [miss(1, 8, phase="decode")]))[0]
    assert found.nearest is None
    assert found.reason(NAMES) == "the run lists no buckets"
    assert highest_settings([found]) == ()


def test_the_most_frequent_come_first_and_maxima_are_joined():
    found = diagnose(
        summary_with(
            [[1, 128, 0]], [miss(1, 300, 0), miss(1, 900, 0, count=7), miss(9, 1, 0)]
        )
    )
    assert [item.count for item in found] == [7, 1, 1]
    assert set(highest_settings(found)) == {
        "VLLM_PROMPT_BS_BUCKET_MAX=9",
        "VLLM_PROMPT_QUERY_BUCKET_MAX=900",
    }


def test_lines_for_a_bucket_file_can_be_read_back():
    """As far as the engine takes them: a prompt beyond its tokens of a step is dropped."""
    summary = summarize(RunRecord(run_id="a"), recorded_events()).summary
    found = diagnose(summary)
    assert file_lines(summary, found) == ("(2, 1, 40)",)
    summary.config["max_num_batched_tokens"] = 4096
    lines = file_lines(summary, found)
    read = parse_bucket_lines(lines, "lines")
    assert list(read.prompt) == [(1, 384, 0)]
    assert list(read.decode) == [(2, 1, 40)]
