"""Why shapes had no bucket, and what would cover them."""

from __future__ import annotations

import msgspec
import pytest

from tests.analysis.builders import generated, start_up, started, summary_of
from warmup_insights.analysis.misses import (
    diagnose,
    highest_settings,
    range_variables,
)
from warmup_insights.model.events import (
    BucketMiss,
    BucketRangesConfigured,
    WarmupFinished,
)

NAMES = ("batch", "query", "blocks")


def miss(*shape, phase="prompt", fallback=None, count=1):
    return BucketMiss(phase=phase, shape=shape, fallback=fallback, count=count)


@pytest.mark.parametrize(
    ("events", "cause", "reason"),
    [
        ([*start_up(), miss(1, 999, 0)], "too_large", "query 999 is above every bucket"),
        ([*start_up(), miss(2, 256, 0)], "no_combination", "by no bucket together"),
        ([*start_up(), miss(1, 100, 0)], "not_warmed", "that was not warmed up"),
        ([started(), miss(1, 1, 0)], "no_list", "the run lists no buckets"),
        (
            [started(), generated("prompt", [(1, 128, 0)]), WarmupFinished(skipped=True),
             miss(9, 999, 0)],
            "skipped", "warm-up was skipped; batch 9 is above its range; query 999 is above its range",
        ),
    ],
)  # fmt: skip
def test_each_cause_has_its_reason(events, cause, reason):
    (found,) = diagnose(summary_of(events))
    assert found.cause == cause
    assert reason in found.reason(NAMES)
    # A shape above the ranges stays above them, whether they were warmed up or not.
    assert bool(highest_settings([found])) == (cause in ("too_large", "skipped"))


def test_a_setting_has_the_highest_value_of_any_shape():
    events = [*start_up(), miss(1, 999, 0, fallback=(1, 1024, 0)), miss(4, 700, 0)]
    found = diagnose(summary_of(events))
    assert highest_settings(found) == (
        "VLLM_PROMPT_QUERY_BUCKET_MAX=1024", "VLLM_PROMPT_BS_BUCKET_MAX=4",
    )  # fmt: skip
    assert [item.wanted for item in found] == [(1, 1024, 0), (4, 700, 0)]


def test_a_shape_and_a_bucket_of_other_dimensions_need_no_range():
    """The context of the bucket made instead is no size of the shape."""
    settings = {f"VLLM_PROMPT_{n}_BUCKET_MAX": 1 for n in ("BS", "QUERY", "CTX")}
    summary = summary_of([started(), miss(1, 2108, fallback=(1, 3200, 0))])
    summary = msgspec.structs.replace(summary, config={**summary.config, **settings})
    (found,) = diagnose(summary)
    assert found.limits == (1, 1, 1)
    assert (found.needs, found.is_known) == ({}, False)


@pytest.mark.parametrize(
    ("version", "name"),
    [("0.10.0", "PROMPT_SEQ"), ("0.11.1", "PROMPT_SEQ"), ("0.11.2", "PROMPT_QUERY")],
)
def test_a_setting_has_the_name_that_the_version_reads(version, name):
    first = started("vllm-gaudi", version=version)
    events = [first, generated("prompt", [(1, 128, 0)]), miss(1, 300, 0)]
    (found,) = diagnose(summary_of(events))
    assert highest_settings([found]) == (f"VLLM_{name}_BUCKET_MAX=300",)


@pytest.mark.parametrize("last", ["seq", "block"])
def test_decode_buckets_of_the_first_releases_have_a_sequence_length(last):
    ranges = BucketRangesConfigured(
        phase="decode", ranges={"bs": [1, 128, 4], last: [128, 128, 2048]}
    )
    decode = generated("decode", [(1, 128), (4, 2048)])
    summary = summary_of([started(), ranges, decode])
    name = f"VLLM_DECODE_{last.upper()}_BUCKET_MAX"
    assert range_variables(summary, "decode", 2) == ("VLLM_DECODE_BS_BUCKET_MAX", name)


def test_the_most_frequent_shape_comes_first():
    events = [*start_up(), miss(1, 999, 0), miss(4, 1, 8, phase="decode", count=7)]
    assert [item.count for item in diagnose(summary_of(events))] == [7, 1]
