"""The settings of bucketing that a run states, and those put on top."""

from __future__ import annotations

import pytest

from tests.analysis.builders import cache, config, started, summary_of
from warmup_insights.analysis.plan.planning import PlanSettings, planned_buckets
from warmup_insights.analysis.plan.regenerate import (
    bucketing_inputs,
    bucketing_settings,
    strategy_variable,
)
from warmup_insights.bucketing.generate import generate
from warmup_insights.errors import InputError, SettingError
from warmup_insights.model.events import BucketsGenerated, ConfigRecorded

LIMITS = {"max_model_len": 2048, "max_num_batched_tokens": 2048}


def run(*events, version="0.26.0", **settings):
    head = [started("vllm-gaudi", version=version), config(**{**LIMITS, **settings})]
    return summary_of([*head, *events, cache(100)])


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({}, (False, "exp")),
        ({"use_contiguous_pa": True}, (True, "exp")),
        ({"VLLM_CONTIGUOUS_PA": "true"}, (True, "exp")),
        # What the runtime decided, whatever was set.
        ({"VLLM_CONTIGUOUS_PA": "true", "use_contiguous_pa": "False"}, (False, "exp")),
        ({"bucketing_strategy": "lin"}, (False, "lin")),
        ({"VLLM_EXPONENTIAL_BUCKETING": "False"}, (False, "lin")),
        (
            {"VLLM_EXPONENTIAL_BUCKETING": "false", "bucketing_strategy": "exp"},
            (False, "lin"),
        ),
    ],
)
def test_what_was_printed_counts_like_what_was_set(stated, expected):
    settings = bucketing_settings(run(**stated))
    assert (settings.use_contiguous_pa, settings.strategy) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_speculative_tokens", 2),
        ("speculative_config.num_speculative_tokens", 2),
        (
            "speculative_config",
            "SpeculativeConfig(method='ngram', model=None, num_spec_tokens=2)",
        ),
        ("speculative_config", "{'method': 'eagle', 'num_speculative_tokens': 2}"),
    ],
)
def test_tokens_that_are_proposed_make_more_decode_buckets(name, value):
    few, many = generate(bucketing_settings(run())), run(**{name: value})
    assert len(generate(bucketing_settings(many)).decode) > len(few.decode)


def test_a_limit_without_a_default_is_needed():
    with pytest.raises(SettingError, match="max_num_batched_tokens is missing"):
        bucketing_settings(run(max_num_batched_tokens=None))
    assert "max_num_seqs" not in bucketing_inputs(run())[0]
    assert bucketing_settings(run()).max_num_seqs == 256


def test_defaults_that_the_linear_strategy_printed_follow_from_limits():
    """Those of decode blocks from the KV cache, which another reserve makes larger."""
    set_ = {"VLLM_PROMPT_QUERY_BUCKET_MAX": "1024"}
    printed = ConfigRecorded(
        environment={**set_, "VLLM_DECODE_BLOCK_BUCKET_MAX": "100"},
        defaults=["VLLM_DECODE_BLOCK_BUCKET_MAX"],
        time=1_000_002.0,
    )
    lin = {"bucketing_strategy": "lin", "use_contiguous_pa": True}
    summary = run(printed, **lin)
    settings = bucketing_settings(summary)
    assert settings.overrides == {"VLLM_PROMPT_QUERY_BUCKET_MAX": 1024}
    lists = lists_of(settings)
    planned = planned_buckets(run(printed, *lists, **lin), 500, PlanSettings(), {})
    assert max(blocks for *_, blocks in planned.lists["decode"]) == 500
    name, value = strategy_variable(summary, "pad")
    assert bucketing_settings(summary, variables={name: value}).strategy == "pad"


def test_what_was_set_to_a_default_is_kept():
    """The linear strategy prints it as its default: the sequences of one prefill always,
    and a step that another strategy has another default for."""
    set_ = {"VLLM_PROMPT_BS_BUCKET_MAX": "4", "VLLM_DECODE_BS_BUCKET_STEP": "32"}
    flags = ConfigRecorded(settings=set_, time=1_000_001.0)
    printed = ConfigRecorded(environment=set_, defaults=list(set_), time=1_000_002.0)
    summary = run(flags, printed, bucketing_strategy="lin")
    settings = bucketing_settings(summary)
    assert settings.max_num_prefill_seqs == 4
    assert settings.overrides == {name: int(text) for name, text in set_.items()}


def lists_of(settings):
    made = generate(settings)
    return [
        BucketsGenerated(phase=phase, count=len(buckets), buckets=list(buckets))
        for phase, buckets in (("prompt", made.prompt), ("decode", made.decode))
    ]


@pytest.mark.parametrize(
    ("version", "stated", "variable"),
    [
        ("0.26.0", {}, ("VLLM_BUCKETING_STRATEGY", "lin")),
        ("0.19.0", {}, ("VLLM_EXPONENTIAL_BUCKETING", "false")),
        ("0.26.0", {"VLLM_EXPONENTIAL_BUCKETING": "true"},
         ("VLLM_EXPONENTIAL_BUCKETING", "false")),
    ],
)  # fmt: skip
def test_the_variable_that_decides_is_named(version, stated, variable):
    summary = run(version=version, **stated)
    assert strategy_variable(summary, "lin") == variable
    assert bucketing_settings(summary, variables=dict([variable])).strategy == "lin"


def test_a_bucket_file_that_a_log_names_is_not_opened(tmp_path):
    """It could be any file of this machine, or one that never ends."""
    file = tmp_path / "buckets.txt"
    file.write_text("(1, 128, 0)\n(1, 1, 64)\n")
    settings = bucketing_settings(run(VLLM_BUCKETING_FROM_FILE=str(file)))
    assert settings.bucket_file is None


def test_lists_that_follow_from_defaults_are_planned_with_other_limits():
    lists = lists_of(bucketing_settings(run()))
    change = PlanSettings(max_num_seqs=8)
    planned = planned_buckets(run(*lists), 100, change, {})
    assert max(batch for batch, *_ in planned.lists["decode"]) == 8
    with pytest.raises(InputError, match="do not follow"):
        planned_buckets(run(*lists, max_num_seqs=4), 100, change, {})
