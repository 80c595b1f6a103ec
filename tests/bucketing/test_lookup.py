"""Lookups: the engine's order, its fallback, and what stays outside."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.bucketing.helpers import make_settings, random_buckets, scan
from warmup_insights.bucketing.base import Bucket, GeneratedBuckets
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.lookup import (
    BucketIndex,
    BucketTable,
    fallback_value,
    look_up_step,
    why_never_run,
)
from warmup_insights.errors import InputError

SHAPES = st.tuples(st.integers(0, 11), st.integers(0, 14), st.integers(0, 14))

QUERY_LENS = range(128, 1025, 128)
DECODE_BLOCKS = (
    *range(128, 1025, 128),
    *(1408, 1792, 2432, 3328, 4352, 5888),
)


def documented_table() -> BucketTable:
    """The 36 prompt and 42 decode buckets that the documentation prints as logged."""
    prompt = [
        Bucket(1, query_len, blocks)
        for query_len in QUERY_LENS
        for blocks in range((1024 - query_len) // 128 + 1)
    ]
    decode = [
        Bucket(batch_size, 1, blocks)
        for batch_size in (1, 2, 4)
        for blocks in DECODE_BLOCKS
    ]
    assert (len(prompt), len(decode)) == (36, 42)
    configuration = make_settings(
        max_num_seqs=4, max_num_batched_tokens=1024, max_model_len=1024
    )
    given = GeneratedBuckets(
        "given", tuple(prompt), tuple(decode), (), (), (), decode[-1].num_blocks, ()
    )
    return BucketTable(configuration, given)


def test_documented_requests_land_in_the_documented_buckets():
    """3 sequences of 412 tokens: the prompt, decode, one leaves, the context grows."""
    table = documented_table()
    assert table.lookup("prompt", (3, 412, 0)).bucket == (4, 512, 0)
    assert table.lookup("decode", (3, 412)).bucket == (4, 1, 512)
    assert table.lookup("decode", (2, 412)).bucket == (2, 1, 512)
    assert table.lookup("decode", (3, 513)).bucket == (4, 1, 640)


@given(random_buckets(), SHAPES)
def test_the_index_answers_like_a_plain_scan(buckets, shape):
    """So the answer is the smallest covering bucket in the engine's order."""
    assert BucketIndex(buckets).find(*shape) == scan(buckets, shape)


@given(random_buckets(), random_buckets(), SHAPES)
def test_added_buckets_are_found_as_if_there_from_the_start(first, later, shape):
    index = BucketIndex(first)
    for bucket in later:
        index.add(bucket)
        index.add(bucket)
    assert list(index) == sorted(first | later)
    assert index.find(*shape) == scan(first | later, shape)


def test_the_batch_size_weighs_most():
    """A longer query in the smaller batch comes before the exact query in a larger."""
    index = BucketIndex([Bucket(2, 512, 0), Bucket(4, 128, 0)])
    assert index.find(1, 128, 0) == Bucket(2, 512, 0)


@pytest.mark.parametrize(
    ("value", "step", "expected"),
    [(0, 32, 0), (1, 32, 1), (31, 32, 128), (4001, 32, 4096), (3, 2, 4), (64, 32, 128)],
)
def test_fallback_values(value, step, expected):
    assert fallback_value(value, step) == expected


@given(st.integers(0, 10**7), st.sampled_from([2, 32, 256]))
def test_fallback_values_cover_and_are_multiples(value, step):
    made = fallback_value(value, step)
    assert made >= value
    assert value <= 1 or made % step == 0


def test_a_miss_adds_its_bucket_once():
    configuration = make_settings()
    table = BucketTable(configuration, generate(configuration))
    before = table.buckets("prompt")
    first = table.lookup("prompt", (3, 128, 0))
    assert first.outcome == "fallback"
    assert first.bucket == (4, 192, 0)
    assert table.lookup("prompt", (3, 128, 0)).outcome == "found"
    assert table.buckets("prompt") == tuple(sorted({*before, first.bucket}))


def test_a_shape_beyond_the_caps_never_makes_the_table_grow_again():
    """17 sequences with room for 16: the bucket is smaller, each lookup a miss."""
    configuration = make_settings()
    table = BucketTable(configuration, generate(configuration))
    results = [table.lookup("decode", (17, 40)) for _ in range(5)]
    assert {result.bucket for result in results} == {Bucket(16, 1, 128)}
    assert not results[0].is_covered
    assert len(table.buckets("decode")) == len(generate(configuration).decode) + 1


def test_more_decode_blocks_than_prepared_count_as_the_most_prepared():
    configuration = make_settings()
    table = BucketTable(configuration, generate(configuration))
    result = table.lookup("decode", (16, 1000))
    assert (result.bucket, result.outcome) == (Bucket(16, 1, 512), "capped")
    assert not result.is_covered


def test_prompts_beyond_every_limit_are_capped():
    configuration = make_settings()
    table = BucketTable(configuration, generate(configuration))
    assert table.lookup("prompt", (300, 99999, 99999)).bucket == (16, 2048, 32)


def test_sliding_windows_round_long_fallbacks_to_slices():
    env = {"PT_HPU_SDPA_QKV_SLICE_MODE_FWD": "yes", "VLLM_FUSEDSDPA_SLIDE_THLD": "1024"}
    configuration = make_settings(env)
    table = BucketTable(configuration, generate(configuration))
    assert table.lookup("prompt", (2, 2049, 0)).bucket.query_len == 3072


def test_mamba_chunks_are_the_step_of_query_fallbacks():
    configuration = make_settings(mamba_chunk_size=256)
    table = BucketTable(configuration, generate(configuration))
    assert (
        table.lookup("prompt", (2, 100, 0)).bucket.query_len == 1280
    )  # ceil(100 ** (1/3)) * 256


def test_peek_adds_nothing():
    configuration = make_settings()
    table = BucketTable(configuration, generate(configuration))
    before = table.buckets("decode")
    peeked = table.peek("decode", (17, 40))
    assert table.buckets("decode") == before
    assert peeked == table.lookup("decode", (17, 40))


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3000)), max_size=40))
def test_lookups_and_a_scanned_table_agree_over_many_misses(shapes):
    """The same buckets whether by index or by the scan of a list that grows."""
    configuration = make_settings()
    generated = generate(configuration)
    table = BucketTable(configuration, generated)
    scanned = set(generated.decode)
    for batch_size, blocks in shapes:
        bucket = table.lookup("decode", (batch_size, blocks)).bucket
        capped = min(blocks, generated.fallback_max_ctx)
        expected = scan(scanned, (batch_size, 1, capped))
        if expected is not None:
            assert bucket == expected
        scanned.add(bucket)
    assert table.buckets("decode") == tuple(sorted(scanned))


@pytest.mark.parametrize(
    ("phase", "shape"),
    [
        ("prompt", [1, 2]),
        ("prompt", [1, 2, 3, 4]),
        ("prompt", [1, 2, -3]),
        ("prompt", [1, 2, "3"]),
        ("prompt", [True, 2, 3]),
        ("decode", [1]),
        ("decode", [1, 2, 3]),
        ("decode", [1.5, 3]),
    ],
)
def test_shapes_that_are_none_are_refused(phase, shape):
    configuration = make_settings()
    table = BucketTable(configuration, generate(configuration))
    with pytest.raises(InputError, match=f"The {phase} shape"):
        table.lookup(phase, shape)


def test_merged_prefill_runs_all_sequences_in_one_row():
    """`_bucketize_merged_prompt`: sums, the query of the bucket, whole 32 blocks."""
    configuration = make_settings({"VLLM_MERGED_PREFILL": "1"}, max_num_prefill_seqs=16)
    table = BucketTable(configuration, generate(configuration))
    found = look_up_step(configuration, table, "prompt", (4, 100, 9))
    assert (found.shape, found.bucket) == ((1, 400, 36), (1, 512, 64))
    assert found.outcome == "found"
    found = look_up_step(configuration, table, "prompt", (1, 500, 0))
    assert found.bucket == (1, 512, 0)
    plain = make_settings()
    table = BucketTable(plain, generate(plain))
    assert look_up_step(plain, table, "prompt", (1, 100, 9)).bucket == (1, 128, 16)


@pytest.mark.parametrize("contiguous", ["0", "1"])
@pytest.mark.parametrize("shape", [(3, 10), (5, 40), (16, 500), (7, 4000)])
def test_a_step_with_drafts_is_padded_by_the_buckets_before_them(contiguous, shape):
    """`_create_decode_input_data`: the batch by `seed_decode_buckets`, each token a row."""
    settings = make_settings(
        {"VLLM_CONTIGUOUS_PA": contiguous}, num_speculative_tokens=2
    )
    made = generate(settings)
    table = BucketTable(settings, made)
    batch_size, blocks = shape

    def first(buckets, rows, needed):
        needed = min(needed, made.fallback_max_ctx)
        return next((b for b in buckets if b[0] >= rows and b[2] >= needed), None)

    seed = first(made.seed_decode, batch_size, blocks)
    padded = 3 * (seed or first(made.decode, batch_size, blocks)).batch_size
    own = first(made.decode, padded, blocks * (1 if contiguous == "1" else 3))
    expected = own or table.peek("decode", (padded, blocks)).bucket
    assert table.with_drafts(shape) == (padded, 1, expected.num_blocks)
    plain = make_settings({"VLLM_CONTIGUOUS_PA": contiguous})
    assert BucketTable(plain, generate(plain)).with_drafts(shape) is None


@pytest.mark.parametrize(
    ("phase", "shape", "env", "version", "words"),
    [
        ("prompt", (1, 2048, 4), {}, "main", None),
        ("prompt", (2, 100, 0), {}, "main", "takes at most 1 of the sequences"),
        ("prompt", (2, 100, 0), {"VLLM_PROMPT_BS_BUCKET_MAX": "2"}, "main", None),
        ("prompt", (2, 100, 0), {"VLLM_MERGED_PREFILL": "1"}, "main", None),
        ("prompt", (2, 99, 1), {"VLLM_MERGED_PREFILL": "1"}, "main", "runs alone"),
        ("prompt", (2, 99, 1), {"VLLM_MERGED_PREFILL": "1"}, "v0.13.0", None),
        ("prompt", (1, 2049, 0), {}, "main", "max_num_batched_tokens=2048 tokens"),
        ("prompt", (17, 1, 0), {}, "main", "max_num_seqs=16 sequences"),
        ("decode", (16, 1, 40), {}, "main", None),
        ("decode", (17, 1, 40), {}, "main", "max_num_seqs=16 sequences"),
    ],
)
def test_shapes_that_no_step_has_are_told_apart(phase, shape, env, version, words):
    configuration = make_settings(
        env, engine_version=version, max_num_prefill_seqs=None
    )
    found = why_never_run(configuration, phase, shape)
    assert found is None if words is None else words in (found or "")
