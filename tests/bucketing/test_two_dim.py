"""The older scheme: the lists of a logged start, its order, its lookup, its odd ranges."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from warmup_insights.bucketing.two_dim import (
    Bucket2D,
    find_two_dim,
    generate_two_dim,
    round_up,
    two_dim_settings,
    warmup_order,
)
from warmup_insights.errors import SettingError

LOGGED = {"max_num_seqs": 4, "block_size": 128}


def test_the_logged_ranges_and_lists_come_out():
    """4 sequences, blocks of 128: the 24 prompt and 48 decode buckets of the log."""
    settings = two_dim_settings(LOGGED, {})
    assert settings.prompt_batch_size == (1, 32, 4)
    assert settings.prompt_seq_len == (128, 128, 1024)
    assert settings.decode_batch_size == (1, 128, 4)
    assert settings.decode_seq_len == (128, 128, 2048)
    generated = generate_two_dim(settings)
    assert generated.prompt == tuple(product((1, 2, 4), range(128, 1025, 128)))
    assert generated.decode == tuple(product((1, 2, 4), range(128, 2049, 128)))
    assert (len(generated.prompt), len(generated.decode)) == (24, 48)
    assert generated.dropped == ()


def test_warm_up_runs_most_tokens_first_as_logged():
    generated = generate_two_dim(two_dim_settings(LOGGED, {}))
    prompt, decode = warmup_order(generated.prompt), warmup_order(generated.decode)
    assert prompt[:3] == [(4, 1024), (4, 896), (4, 768)]
    assert prompt[-1] == (1, 128)
    assert decode[:3] == [(4, 2048), (4, 1920), (4, 1792)]
    assert decode[-2:] == [(2, 128), (1, 128)]


def test_the_documented_requests_land_in_the_documented_buckets():
    settings = two_dim_settings(LOGGED, {})
    assert find_two_dim(settings, "prompt", 3, 412) == (4, 512)
    assert find_two_dim(settings, "decode", 3, 412) == (4, 512)
    assert find_two_dim(settings, "decode", 2, 412) == (2, 512)
    assert find_two_dim(settings, "decode", 3, 513) == (4, 640)


def test_prompts_over_the_budget_are_dropped_with_the_condition():
    settings = two_dim_settings({**LOGGED, "max_num_batched_tokens": 2048}, {})
    generated = generate_two_dim(settings)
    assert all(batch * length <= 2048 for batch, length in generated.prompt)
    assert {drop.bucket for drop in generated.dropped} == {
        (4, length) for length in (640, 768, 896, 1024)
    }
    assert generated.dropped[0].condition == (
        "batch_size * seq_len <= max_num_batched_tokens"
    )
    assert len(generated.decode) == 48


def test_a_budget_that_nothing_meets_is_ignored_and_noted():
    settings = two_dim_settings({**LOGGED, "max_num_batched_tokens": 100}, {})
    generated = generate_two_dim(settings)
    assert len(generated.prompt) == 24
    assert "max_num_batched_tokens=100 is below the 128 tokens" in generated.notes[0]


def test_overrides_change_the_ranges():
    env = {"VLLM_PROMPT_SEQ_BUCKET_MAX": "256", "VLLM_DECODE_BS_BUCKET_STEP": "2"}
    settings = two_dim_settings({**LOGGED, "max_num_seqs": 5}, env)
    generated = generate_two_dim(settings)
    assert {length for _, length in generated.prompt} == {128, 256}
    assert {batch for batch, _ in generated.decode} == {1, 2, 4}


@pytest.mark.parametrize(
    ("inputs", "env", "words"),
    [
        ({"block_size": 128}, {}, "max_num_seqs=None"),
        ({**LOGGED, "block_size": 0}, {}, "block_size=0"),
        ({**LOGGED, "max_num_batched_tokens": -1}, {}, "max_num_batched_tokens=-1"),
        (
            LOGGED,
            {"VLLM_DECODE_SEQ_BUCKET_MIN": "9000"},
            "VLLM_DECODE_SEQ_BUCKET_MIN=9000",
        ),
        (LOGGED, {"VLLM_PROMPT_BS_BUCKET_STEP": "0"}, "VLLM_PROMPT_BS_BUCKET_STEP=0"),
    ],
)
def test_wrong_settings_name_variable_and_value(inputs, env, words):
    with pytest.raises(SettingError, match=words):
        two_dim_settings(inputs, env)


@given(st.integers(1, 300), st.integers(1, 3000))
def test_rounding_up_goes_to_powers_of_2_below_the_step(step, value):
    result = round_up(value, step)
    assert result >= value
    if value >= step:
        assert result % step == 0
        assert result < value + step
    else:
        assert result == step or (result.bit_count() == 1 and result < 2 * value)


def test_values_above_the_maximum_go_on_with_the_step():
    settings = two_dim_settings(LOGGED, {})
    assert find_two_dim(settings, "prompt", 33, 1500) == Bucket2D(64, 1536)


ODD = {
    "VLLM_PROMPT_BS_BUCKET_MIN": "3",
    "VLLM_PROMPT_SEQ_BUCKET_MIN": "384",
    "VLLM_DECODE_SEQ_BUCKET_STEP": "256",
}


def test_a_minimum_above_the_step_leaves_out_nothing():
    """`warmup_range` of the engine: the multiples of the step begin at the step."""
    generated = generate_two_dim(two_dim_settings({**LOGGED, "max_num_seqs": 40}, ODD))
    assert sorted({batch for batch, _ in generated.prompt}) == [3, 6, 12, 24, 32]
    assert sorted({length for _, length in generated.prompt})[:3] == [128, 256, 384]


def test_a_lookup_goes_by_the_step_alone_and_decodes_by_blocks():
    """`find_bucket` of the engine reads no minimum; a decode has whole blocks."""
    settings = two_dim_settings({**LOGGED, "max_num_seqs": 40}, ODD)
    assert find_two_dim(settings, "prompt", 5, 200) == Bucket2D(8, 256)
    assert find_two_dim(settings, "prompt", 1, 20) == Bucket2D(1, 128)
    assert find_two_dim(settings, "decode", 2, 300) == Bucket2D(2, 384)


def test_a_minimum_of_0_is_refused_as_the_engine_never_ends():
    with pytest.raises(SettingError, match="VLLM_DECODE_BS_BUCKET_MIN=0 never ends"):
        two_dim_settings(LOGGED, {"VLLM_DECODE_BS_BUCKET_MIN": "0"})
