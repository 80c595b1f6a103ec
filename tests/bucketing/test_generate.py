"""From settings to lists: features, filters with their conditions, and errors."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bucketing.helpers import engine_settings, make_settings
from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.file import generated_file, parse_bucket_lines
from warmup_insights.bucketing.generate import generate, grouped
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.settings import read_features, settings_from_mapping
from warmup_insights.bucketing.versions import NEWEST_RELEASE, rules_of
from warmup_insights.errors import SettingError


def test_default_prompt_ranges_of_the_exponential_strategy():
    """One sequence, 11 = ceil(log2 2048) query lengths at most, contexts up to 31."""
    parameters = [bounds.parameters for bounds in generate(make_settings()).ranges]
    assert parameters[:3] == [(1, 2, 1, 1), (128, 128, 2048, 11), (0, 1, 31, 6)]
    # 16 sequences of 32 blocks; 512 is below three times the cache.
    assert parameters[3:] == [(1, 2, 16, 5), (1, 1, 1, 1), (1, 16, 512, 10)]


def test_decode_blocks_above_three_times_the_cache_get_more_values():
    """512 blocks against 300 need ceil(log2(512 / 300)) + 1 = 2 more values."""
    generated = generate(make_settings(num_hpu_blocks=100))
    assert generated.ranges[5].parameters == (1, 16, 512, 12)
    assert generated.fallback_max_ctx == 512


def test_main_ends_decode_blocks_there_unless_the_model_needs_all():
    limits = {"num_hpu_blocks": 100, "engine_version": "main"}
    assert generate(make_settings(**limits)).ranges[5].parameters == (1, 16, 300, 10)
    kept = generate(make_settings(**limits, skip_decode_block_clamp=True))
    assert kept.ranges[5].parameters == (1, 16, 512, 12)


def test_contiguous_pa_adds_the_whole_cache_but_not_to_the_range():
    generated = generate(make_settings({"VLLM_CONTIGUOUS_PA": "true"}))
    assert generated.ranges[5].values[-1] == 512
    assert Bucket(1, 1, 1000) in generated.decode
    assert generated.fallback_max_ctx == 1000


@pytest.mark.parametrize(
    ("env", "contiguous", "prefix"),
    [
        ({}, False, True),
        ({"VLLM_CONTIGUOUS_PA": "true"}, True, False),
        ({"VLLM_CONTIGUOUS_PA": "no"}, False, True),
        ({"VLLM_PREFIX_CACHING": "false"}, True, False),
        ({"VLLM_PREFIX_CACHING": "false", "VLLM_CONTIGUOUS_PA": "0"}, False, False),
        ({"VLLM_PREFIX_CACHING": "on", "VLLM_CONTIGUOUS_PA": "Y"}, True, True),
        ({"VLLM_CONTIGUOUS_PA": " true"}, False, True),
    ],
)
def test_contiguous_pa_and_prefix_caching_follow_from_each_other(
    env, contiguous, prefix
):
    features = read_features(env, rules_of(NEWEST_RELEASE))
    assert features["use_contiguous_pa"] is contiguous
    assert features["prefix_caching"] is prefix


def test_buckets_over_the_token_budget_carry_the_condition():
    generated = generate(make_settings(max_num_prefill_seqs=2))
    drops = {drop.bucket: drop for drop in generated.dropped if drop.phase == "prompt"}
    drop = drops[Bucket(2, 2048, 0)]
    assert drop.condition == "batch_size * query_len <= max_num_batched_tokens"
    assert drop.replaced_by is None
    assert all(
        bucket.batch_size * bucket.query_len <= 2048 for bucket in generated.prompt
    )


def test_contexts_beyond_the_model_carry_the_condition():
    env = {"VLLM_BUCKETING_STRATEGY": "lin", "VLLM_PROMPT_CTX_BUCKET_MAX": "40"}
    generated = generate(make_settings(env))
    dropped = {drop.bucket: drop.condition for drop in generated.dropped}
    assert Bucket(1, 128, 32) in generated.prompt  # ceil(4095 / 128)
    assert dropped[Bucket(1, 128, 33)] == (
        "num_blocks <= ceil((max_model_len - 1) / block_size)"
    )


def test_queries_beyond_the_model_carry_the_condition():
    generated = generate(make_settings(max_model_len=1000))
    conditions = {
        drop.condition for drop in generated.dropped if drop.phase == "prompt"
    }
    assert "query_len <= max_model_len" in conditions


def test_decode_batches_larger_than_their_blocks_are_dropped():
    generated = generate(make_settings())
    drops = {drop.bucket: drop for drop in generated.dropped if drop.phase == "decode"}
    assert drops[Bucket(2, 1, 1)].condition == "batch_size <= num_blocks"


def test_decode_blocks_beyond_the_model_are_lowered_and_say_so():
    """One sequence of 4096 tokens has 32 blocks, so 48 becomes 32."""
    generated = generate(make_settings())
    drops = {drop.bucket: drop for drop in generated.dropped if drop.phase == "decode"}
    assert drops[Bucket(1, 1, 48)].replaced_by == Bucket(1, 1, 32)
    assert Bucket(1, 1, 32) in generated.decode


def test_long_models_get_the_longest_context_of_each_query():
    """(32768 - 128) / 128 = 255 blocks beside one block of query."""
    generated = generate(
        make_settings(max_model_len=32768, max_num_batched_tokens=8192)
    )
    assert generated.ranges[2].values[-1] == 192
    assert Bucket(1, 128, 255) in generated.prompt
    assert Bucket(1, 128, 192) not in generated.prompt
    assert Bucket(1, 8192, 192) in generated.prompt
    replaced = {drop.bucket: drop.replaced_by for drop in generated.dropped}
    assert replaced[Bucket(1, 128, 192)] == Bucket(1, 128, 255)


def test_a_context_maximum_keeps_the_longest_contexts_away():
    env = {"VLLM_PROMPT_CTX_BUCKET_MAX": "8"}
    settings = make_settings(env, max_model_len=32768, max_num_batched_tokens=8192)
    assert max(bucket.num_blocks for bucket in generate(settings).prompt) == 192


def test_merged_prefill_uses_one_row_and_four_times_the_step():
    env = {"VLLM_MERGED_PREFILL": "true"}
    generated = generate(make_settings(env, max_num_prefill_seqs=16))
    assert [bounds.parameters for bounds in generated.ranges[:3]] == [
        (1, 1, 1, 1),
        (128, 512, 2048, 11),
        (0, 4, 496, 6),
    ]
    # 16 * floor((4096 - floor(2048 / 16)) / 128) = 16 * 31
    assert Bucket(1, 2048, 496) in generated.prompt


def test_sliding_window_drops_long_queries_that_are_no_whole_slices():
    env = {
        "PT_HPU_SDPA_QKV_SLICE_MODE_FWD": "true",
        "PT_HPU_SDPA_BC_FACTOR": "1024",
        "VLLM_FUSEDSDPA_SLIDE_THLD": "1024",
    }
    generated = generate(make_settings(env))
    dropped = {drop.bucket for drop in generated.dropped if drop.phase == "prompt"}
    assert dropped == {Bucket(1, 1280, 0), Bucket(1, 1664, 0)}
    assert Bucket(1, 1280, 1) in generated.prompt
    assert Bucket(1, 2048, 0) in generated.prompt


def test_mamba_chunks_round_query_lengths_only_where_explicit():
    limits = {"mamba_chunk_size": 256, "max_num_batched_tokens": 1024}
    plain = generate(make_settings(**limits))
    explicit = generate(make_settings(**limits, mamba_chunk_size_is_explicit=True))
    assert Bucket(1, 128, 0) in plain.prompt
    assert {bucket.query_len % 256 for bucket in explicit.prompt} == {0}


def test_speculative_tokens_multiply_batch_and_blocks():
    """(2, 1, 16) with one token: (4, 1, 16) as 4 <= 16, and (4, 1, 32)."""
    seeds = generate(make_settings()).decode
    generated = generate(make_settings(num_speculative_tokens=1))
    assert generated.seed_decode == seeds
    assert {Bucket(2, 1, 16), Bucket(4, 1, 16), Bucket(4, 1, 32)} <= set(
        generated.decode
    )
    assert generated.fallback_max_ctx == 1024


def test_bucketing_switched_off_generates_nothing_and_runs_unpadded():
    settings = make_settings({"VLLM_ENABLE_BUCKETING": "false"})
    generated = generate(settings)
    assert generated.prompt == generated.decode == ()
    table = BucketTable(settings, generated)
    assert table.lookup("prompt", (3, 412, 1)).bucket == Bucket(3, 412, 1)
    assert table.lookup("decode", (3, 7)).bucket == Bucket(3, 1, 7)
    assert table.lookup("decode", (3, 7)).outcome == "unpadded"


def test_the_number_of_prefill_sequences_follows_from_the_environment():
    """As in the model runner: the batch maximum, else 1; all with merged prefill."""
    inputs = {
        "max_num_seqs": 16,
        "block_size": 128,
        "max_num_batched_tokens": 2048,
        "max_model_len": 4096,
        "num_kv_blocks": 1000,
    }
    most = {"VLLM_PROMPT_BS_BUCKET_MAX": "4"}
    merged = {"VLLM_MERGED_PREFILL": "1"}
    counts = [
        settings_from_mapping(inputs, env).max_num_prefill_seqs
        for env in ({}, most, merged)
    ]
    assert counts == [1, 4, 16]


def test_the_deprecated_variable_overrules_the_strategy_and_says_so():
    env = {"VLLM_BUCKETING_STRATEGY": "pad", "VLLM_EXPONENTIAL_BUCKETING": "false"}
    generated = generate(make_settings(env))
    assert generated.strategy == "lin"
    assert "VLLM_EXPONENTIAL_BUCKETING=false" in generated.notes[0]


def test_a_misspelt_range_is_noted():
    notes = generate(make_settings({"VLLM_PROMPT_BS_BUCKET_MX": "4"})).notes
    assert notes == ("VLLM_PROMPT_BS_BUCKET_MX has no effect: no range has it.",)


def test_a_range_that_is_not_read_is_not_refused():
    """The engine takes any whole number, and a name that no version knows."""
    env = {
        "VLLM_PROMPT_CTX_BUCKET_STEP": "0",
        "VLLM_DECODE_BLOCK_BUCKET_MAX": "-3",
        "VLLM_DECODE_BS_BUCKET_LIMIT": "none",
    }
    generated = generate(make_settings(env))
    assert generated.prompt == generate(make_settings()).prompt
    assert generated.notes == (
        "VLLM_DECODE_BS_BUCKET_LIMIT has no effect: no range has it.",
        "VLLM_DECODE_BLOCK_BUCKET_MAX=-3, VLLM_PROMPT_CTX_BUCKET_STEP=0 have no effect "
        "with strategy exp.",
    )


def test_overrides_without_effect_are_noted():
    env = {"VLLM_DECODE_BS_BUCKET_MAX": "4", "VLLM_BUCKETING_STRATEGY": "exp"}
    notes = generate(make_settings(env)).notes
    assert notes == ("VLLM_DECODE_BS_BUCKET_MAX=4 has no effect with strategy exp.",)
    env["VLLM_BUCKETING_STRATEGY"] = "lin"
    assert generate(make_settings(env)).notes == ()


def test_the_older_name_of_query_is_read_unless_the_newer_is_set():
    old = {"VLLM_BUCKETING_STRATEGY": "lin", "VLLM_PROMPT_SEQ_BUCKET_MAX": "512"}
    generated = generate(make_settings(old))
    assert generated.ranges[1].values[-1] == 512
    assert "use VLLM_PROMPT_QUERY_BUCKET_MAX instead" in generated.notes[0]
    both = {**old, "VLLM_PROMPT_QUERY_BUCKET_MAX": "1024"}
    assert generate(make_settings(both)).ranges[1].values[-1] == 1024


def test_clamped_block_bounds_are_noted():
    env = {
        "VLLM_BUCKETING_STRATEGY": "lin",
        "VLLM_CONTIGUOUS_PA": "true",
        "VLLM_DECODE_BLOCK_BUCKET_MAX": "9000",
        "VLLM_DECODE_BLOCK_BUCKET_MIN": "2000",
    }
    generated = generate(make_settings(env))
    assert generated.ranges[5].parameters == (872, 128, 1000)
    assert any("VLLM_DECODE_BLOCK_BUCKET_MAX=9000" in note for note in generated.notes)
    assert any("VLLM_DECODE_BLOCK_BUCKET_MIN=2000" in note for note in generated.notes)
    env["VLLM_BUCKETING_STRATEGY"] = "pad"
    assert generate(make_settings(env)).ranges[5].parameters[:3] == (872, 128, 1000)


LINEAR = {"VLLM_BUCKETING_STRATEGY": "lin"}


@pytest.mark.parametrize(
    ("env", "inputs", "words"),
    [
        ({"VLLM_BUCKETING_STRATEGY": "EXP"}, {}, ["VLLM_BUCKETING_STRATEGY='EXP'"]),
        ({"VLLM_PROMPT_BS_BUCKET_MIN": "x"}, {}, ["VLLM_PROMPT_BS_BUCKET_MIN='x'"]),
        ({"VLLM_PROMPT_BS_BUCKET_MIN": ""}, {}, ["VLLM_PROMPT_BS_BUCKET_MIN=''"]),
        (
            {**LINEAR, "VLLM_PROMPT_BS_BUCKET_STEP": "0"},
            {},
            ["VLLM_PROMPT_BS_BUCKET_STEP=0"],
        ),
        (
            {**LINEAR, "VLLM_DECODE_BLOCK_BUCKET_MAX": "-3"},
            {},
            ["BLOCK_BUCKET_MAX=-3"],
        ),
        (
            {**LINEAR, "VLLM_PROMPT_BS_BUCKET_MIN": "4"},
            {},
            ["VLLM_PROMPT_BS_BUCKET_MIN=4", "VLLM_PROMPT_BS_BUCKET_MAX=1"],
        ),
        (
            {**LINEAR, "VLLM_PROMPT_QUERY_BUCKET_MIN": "8192"},
            {},
            ["VLLM_PROMPT_QUERY_BUCKET_MIN=8192", "VLLM_PROMPT_QUERY_BUCKET_MAX=2048"],
        ),
        (
            {
                **LINEAR,
                "VLLM_PROMPT_QUERY_BUCKET_MIN": "4000",
                "VLLM_PROMPT_QUERY_BUCKET_MAX": "4096",
            },
            {},
            ["No prompt bucket is left", "max_num_batched_tokens=2048", "=4000"],
        ),
        (
            {
                "VLLM_BUCKETING_STRATEGY": "pad",
                "VLLM_PROMPT_BS_BUCKET_PAD_PERCENT": "60",
            },
            {},
            ["VLLM_PROMPT_BS_BUCKET_PAD_PERCENT=60"],
        ),
        (
            {"PT_HPU_SDPA_QKV_SLICE_MODE_FWD": "1", "PT_HPU_SDPA_BC_FACTOR": "0"},
            {},
            ["PT_HPU_SDPA_BC_FACTOR=0"],
        ),
        ({"VLLM_FUSEDSDPA_SLIDE_THLD": "big"}, {}, ["VLLM_FUSEDSDPA_SLIDE_THLD='big'"]),
        ({}, {"max_num_batched_tokens": 1}, ["max_num_batched_tokens=1", "limit of 0"]),
        ({}, {"max_num_seqs": 0}, ["max_num_seqs=0"]),
        ({}, {"max_num_seqs": "16"}, ["max_num_seqs='16'"]),
        ({}, {"max_num_seqs": True}, ["max_num_seqs=True"]),
        ({}, {"max_num_seqs": None}, ["max_num_seqs is missing"]),
        ({}, {"max_num_sequences": 3}, ["max_num_sequences=3", "max_num_seqs"]),
        ({}, {"num_speculative_tokens": -1}, ["num_speculative_tokens=-1"]),
        ({}, {"mamba_chunk_size": 100}, ["max_num_batched_tokens=2048", "=100"]),
        (
            {**LINEAR, "VLLM_PROMPT_CTX_BUCKET_STEP": "1"},
            {"max_model_len": 10**7, "max_num_batched_tokens": 10**6},
            ["candidates", "VLLM_PROMPT_CTX_BUCKET_STEP=1"],
        ),
    ],
)
def test_wrong_settings_get_one_sentence_with_name_and_value(env, inputs, words):
    with pytest.raises(SettingError) as caught:
        generate(make_settings(env, **inputs))
    message = str(caught.value)
    assert "\n" not in message
    assert not message.endswith(".")
    for word in words:
        assert word in message


def test_a_file_without_decode_buckets_is_named():
    file = parse_bucket_lines(["(1, 128, 0)"], "mine.txt")
    with pytest.raises(SettingError, match=r"VLLM_BUCKETING_FROM_FILE=mine\.txt"):
        generate(replace(make_settings(), bucket_file=file))


def test_the_garbage_collector_is_left_as_it_was():
    """Also after an error; and it stays off for somebody who switched it off."""
    refused = make_settings(max_num_batched_tokens=1)
    try:
        for is_enabled in (True, False):
            gc.enable() if is_enabled else gc.disable()
            generate(make_settings())
            assert gc.isenabled() is is_enabled
            with pytest.raises(SettingError):
                generate(refused)
            assert gc.isenabled() is is_enabled
    finally:
        gc.enable()


@settings(max_examples=60)
@given(engine_settings())
def test_lists_are_sorted_unique_and_within_budget(configuration):
    """Sorted, no bucket twice, no prompt over the budget, nothing both kept and dropped."""
    try:
        generated = generate(configuration)
    except SettingError:
        return
    for buckets in (generated.prompt, generated.decode):
        assert list(buckets) == sorted(set(buckets))
    if not configuration.merged_prefill:
        for bucket in generated.prompt:
            tokens = bucket.batch_size * bucket.query_len
            assert tokens <= configuration.max_num_batched_tokens
    kept = {"prompt": set(generated.prompt), "decode": set(generated.seed_decode)}
    for drop in generated.dropped:
        assert drop.condition
        assert drop.bucket not in kept[drop.phase]


@settings(max_examples=60)
@given(engine_settings(), st.data())
def test_every_legal_shape_gets_a_bucket_that_covers_it(configuration, data):
    """Found or made: the bucket is not smaller than a legal shape in any dimension."""
    try:
        generated = generate(configuration)
    except SettingError:
        return
    table = BucketTable(configuration, generated)
    integers = st.integers
    for _ in range(10):
        prompt = (
            data.draw(integers(1, configuration.max_num_prefill_seqs)),
            data.draw(integers(1, configuration.max_num_batched_tokens)),
            data.draw(integers(0, configuration.max_prompt_blocks)),
        )
        if prompt[0] <= configuration.max_num_seqs:
            assert table.lookup("prompt", prompt).is_covered
        decode = (
            data.draw(integers(1, configuration.max_num_seqs)),
            data.draw(integers(1, generated.fallback_max_ctx)),
        )
        assert table.lookup("decode", decode).is_covered


@settings(max_examples=40)
@given(engine_settings())
def test_a_written_file_generates_the_same_buckets(configuration):
    """Seeds are written, so speculative decoding is not applied twice."""
    try:
        generated = generate(configuration)
    except SettingError:
        return
    text = generated_file(generated)
    file = parse_bucket_lines(text.splitlines(), "written")
    again = generate(replace(configuration, bucket_file=file))
    assert again.strategy == "file"
    assert again.prompt == generated.prompt
    assert again.decode == generated.decode


def test_notes_that_end_alike_are_one_note_wherever_they_are_shown():
    ends = "has no effect with strategy exp."
    assert grouped(f"A=1 {ends}", f"B=2 {ends}", "C=3 is deprecated.") == (
        "A=1, B=2 have no effect with strategy exp.", "C=3 is deprecated.",
    )  # fmt: skip
