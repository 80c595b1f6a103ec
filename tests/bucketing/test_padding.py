"""Padding of one shape and of many lengths; walks; length distributions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bucketing.helpers import make_settings
from tests.bucketing.test_lookup import documented_table
from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.lookup import BucketTable, walk_decode
from warmup_insights.bucketing.padding import (
    LengthDistribution,
    assume_lengths,
    padding_of,
    parse_lengths,
    report_padding,
)
from warmup_insights.errors import InputError


def make_table(env=None, **inputs):
    configuration = make_settings(env, **inputs)
    return configuration, BucketTable(configuration, generate(configuration))


def one_length(length):
    return LengthDistribution("test", ((length, 1.0),), is_assumed=False)


def test_prompt_padding_counts_tokens_and_context_of_every_row():
    """(3, 412, 2) in (4, 512, 4): 4*512 - 3*412 tokens, 4*4 - 3*2 blocks of 128."""
    padding = padding_of("prompt", Bucket(3, 412, 2), Bucket(4, 512, 4), 128)
    assert padding == (1, 100, 2, 812, 1280, 812 / 2048)


def test_decode_padding_counts_blocks_of_the_batch():
    padding = padding_of("decode", Bucket(3, 1, 10), Bucket(4, 1, 16), 128)
    assert padding == (1, 0, 6, 1, 768, 0.25)


def test_a_bucket_smaller_than_its_shape_has_negative_padding():
    padding = padding_of("decode", Bucket(17, 1, 40), Bucket(16, 1, 128), 128)
    assert (padding.batch_size, padding.tokens) == (-1, -1)


def test_report_for_one_length_by_hand():
    """700 tokens: prompt (1, 700, 0) in (1, 768, 0); decode with 6 blocks a sequence."""
    configuration, table = make_table(max_num_seqs=2)
    report = report_padding(configuration, table, one_length(700))
    assert report.prompt is not None
    assert report.prompt.num_shapes == 1
    assert report.prompt.mean == 68
    assert report.prompt.ratio == 68 / 768
    assert report.prompt.worst_bucket == (1, 768, 0)
    assert report.prompt.uncovered == 0
    assert report.decode_sequences is not None
    assert report.decode_sequences.ratio == 0
    assert report.decode_blocks is not None
    shapes = [(1, 6), (2, 12)]
    buckets = [table.peek("decode", shape).bucket for shape in shapes]
    padded = sum(bucket.num_blocks for bucket in buckets) - 18
    assert report.decode_blocks.mean == padded / 2


def test_long_prompts_run_in_chunks_with_context():
    """2100 tokens with a budget of 2048: (1, 2048, 0), then 52 with 16 blocks."""
    configuration, table = make_table()
    summary = report_padding(configuration, table, one_length(2100)).prompt
    assert summary is not None
    assert summary.num_shapes == 2
    assert summary.worst_shape == (1, 52, 16)
    assert summary.worst_bucket == (1, 128, 16)
    assert summary.mean == (128 - 52) / 2


@given(
    st.dictionaries(st.integers(1, 4096), st.integers(1, 5), min_size=1, max_size=8),
    st.sampled_from([128, 500, 1024, 2048]),
)
def test_chunks_counted_together_are_those_of_each_prompt(counts, budget):
    """The same padding as when every length is cut into its chunks by itself."""
    configuration, table = make_table(max_num_batched_tokens=budget)
    weights = tuple((length, float(count)) for length, count in counts.items())
    lengths = LengthDistribution("test", weights, is_assumed=False)
    summary = report_padding(configuration, table, lengths).prompt
    executed = padded = chunks = 0
    for length, count in counts.items():
        for start in range(0, length, budget):
            query_len = min(budget, length - start)
            bucket = table.peek("prompt", (1, query_len, -(-start // 128))).bucket
            executed += count * bucket.batch_size * bucket.query_len
            padded += count * (bucket.batch_size * bucket.query_len - query_len)
            chunks += count
    assert summary.ratio == pytest.approx(padded / executed)
    assert summary.mean == pytest.approx(padded / chunks)


def test_very_many_chunks_are_selected_evenly():
    """A million chunks of two tokens: a few thousand stand for all."""
    configuration, table = make_table(
        max_num_batched_tokens=2, max_model_len=2_000_000, block_size=1_000_000
    )
    summary = report_padding(configuration, table, one_length(2_000_000)).prompt
    assert 4000 < summary.num_shapes <= 4097
    assert summary.ratio == 0


def test_lengths_that_the_engine_cannot_hold_are_left_out():
    configuration, table = make_table()
    assert report_padding(configuration, table, one_length(4097)) == (None, None, None)
    longest = report_padding(configuration, table, one_length(4096))
    assert None not in longest
    # 1000 blocks hold all 16 batch sizes of 32 blocks; 100 blocks hold 3 of them.
    assert longest.decode_blocks.num_shapes == 16
    configuration, table = make_table(num_hpu_blocks=100)
    longest = report_padding(configuration, table, one_length(4096))
    assert longest.decode_blocks.num_shapes == 3


def test_reports_add_nothing_and_tell_what_is_not_covered():
    """Only batches of 1 are prepared, so that half of the decode shapes miss."""
    env = {"VLLM_BUCKETING_STRATEGY": "lin", "VLLM_DECODE_BS_BUCKET_MAX": "1"}
    configuration, table = make_table(env, max_num_seqs=2)
    before = table.buckets("decode")
    report = report_padding(configuration, table, one_length(100))
    assert table.buckets("decode") == before
    assert report.decode_sequences is not None
    assert report.decode_sequences.uncovered == 0.5


def test_fewer_buckets_pad_more():
    """A check of the direction: linear has more prompt buckets than exponential."""
    lengths = assume_lengths("uniform", 4096)
    ratios = {}
    for strategy in ("lin", "exp"):
        configuration, table = make_table({"VLLM_BUCKETING_STRATEGY": strategy})
        summary = report_padding(configuration, table, lengths).prompt
        assert summary is not None
        ratios[strategy] = summary.ratio
    assert 0 < ratios["lin"] < ratios["exp"] < 1


def test_lengths_are_read_with_counts_and_comments():
    read = parse_lengths(["# header", "100", "100", "250 3", "", "7,2"], "l.txt")
    assert read.weights == ((7, 2.0), (100, 2.0), (250, 3.0))
    assert not read.is_assumed


@pytest.mark.parametrize("line", ["abc", "1 2 3", "-5", "0", "1.5", "9" * 10, "٣"])
def test_wrong_length_lines_are_named(line):
    with pytest.raises(InputError, match=r"l\.txt:2"):
        parse_lengths(["10", line], "l.txt")


@pytest.mark.parametrize("lines", [[], ["# nothing"], ["5 0"]])
def test_a_file_without_lengths_is_refused(lines):
    with pytest.raises(InputError, match=r"l\.txt holds no length"):
        parse_lengths(lines, "l.txt")


@given(st.sampled_from(["uniform", "log-uniform"]), st.integers(1, 200_000))
def test_assumed_lengths_reach_from_small_to_longest(assumption, longest):
    lengths = assume_lengths(assumption, longest)
    values = [length for length, _ in lengths.weights]
    assert values == sorted(set(values))
    assert values[0] == 1
    assert values[-1] == longest
    assert len(values) <= 512
    assert lengths.is_assumed
    assert "assumed" in lengths.name
    assert all(weight > 0 for _, weight in lengths.weights)


def test_log_uniform_gives_each_magnitude_the_same_weight():
    weights = assume_lengths("log-uniform", 10_000).weights
    total = sum(weight for _, weight in weights)
    upper_half = sum(weight for length, weight in weights if length > 100)
    assert upper_half / total == pytest.approx(0.5, abs=0.06)


def test_a_walk_follows_the_documented_buckets():
    """With blocks of one token the blocks of three sequences are three times the tokens.

    From 168 tokens each (3 * 169 = 507 blocks) to more than 512 in all.
    """
    steps = walk_decode(documented_table(), [168] * 3, 1, 40)
    assert [(step.first_token, step.last_token, step.bucket) for step in steps] == [
        (1, 2, (4, 1, 512)),
        (3, 40, (4, 1, 640)),
    ]


@given(
    st.lists(st.integers(0, 900), min_size=1, max_size=6),
    st.integers(1, 200),
    st.integers(0, 300),
)
def test_a_walk_is_what_lookups_token_by_token_give(seq_lens, block_size, num_tokens):
    table = documented_table()
    steps = walk_decode(table, seq_lens, block_size, num_tokens)
    walked = [
        step.bucket
        for step in steps
        for _ in range(step.first_token, step.last_token + 1)
    ]
    expected = []
    for token in range(1, num_tokens + 1):
        blocks = sum(-(-(length + token) // block_size) for length in seq_lens)
        expected.append(table.peek("decode", (len(seq_lens), blocks)).bucket)
    assert walked == expected


@pytest.mark.parametrize(("seq_lens", "num_tokens"), [([], 5), ([-1], 5), ([3], -1)])
def test_impossible_walks_are_refused(seq_lens, num_tokens):
    with pytest.raises(InputError, match="A walk"):
        walk_decode(documented_table(), seq_lens, 128, num_tokens)


def test_blocks_that_the_engine_lowers_are_padded_by_nothing(tmp_path):
    """Up to 2 sequences of 10 blocks each: one runs in 16 blocks, two are lowered to 16."""
    file = tmp_path / "buckets.txt"
    file.write_text("(1, 128, 0)\n(2, 1, 16)\n")
    environment = {"VLLM_BUCKETING_FROM_FILE": str(file)}
    configuration, table = make_table(environment, max_num_seqs=2)
    report = report_padding(configuration, table, one_length(10 * 128))
    assert report.decode_blocks is not None
    assert report.decode_blocks.ratio == 6 / 16
    assert report.decode_blocks.mean == 6
    assert report.decode_blocks.uncovered == 0.5
