"""A strategy tried on a configuration: its buckets and padding, or why it has none."""

from __future__ import annotations

from dataclasses import replace

from warmup_insights.bucketing.file import parse_bucket_lines
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.padding import assume_lengths, try_settings
from warmup_insights.bucketing.settings import settings_from_mapping

SETTINGS = settings_from_mapping(
    {
        "max_num_seqs": 8, "block_size": 16, "max_num_batched_tokens": 512,
        "max_model_len": 1024, "num_kv_blocks": 500,
    },
    {},
)  # fmt: skip


def test_padding_needs_lengths():
    assert try_settings(SETTINGS).padding is None
    trial = try_settings(SETTINGS, assume_lengths("uniform", 1024))
    assert trial.generated == generate(SETTINGS)
    assert trial.padding.prompt.ratio > 0


def test_a_problem_is_a_sentence():
    broken = replace(
        SETTINGS, strategy="lin", overrides={"VLLM_PROMPT_BS_BUCKET_MIN": 900}
    )
    trial = try_settings(broken)
    assert (trial.title, trial.generated) == ("linear", None)
    assert "VLLM_PROMPT_BS_BUCKET_MIN=900" in trial.problem


def test_buckets_of_a_file_are_named_so():
    file = parse_bucket_lines(["(1, 64, 0)\n", "(1, 1, 8)\n"], "f")
    assert try_settings(replace(SETTINGS, bucket_file=file)).title == "file"
