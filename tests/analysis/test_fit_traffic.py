"""Shapes of traffic: from runs, traces and request lengths."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.builders import summary_of
from warmup_insights.analysis.fit.traffic import (
    Requests,
    Traffic,
    count_shapes,
    parse_benchmark,
    parse_trace,
    traffic_from_requests,
    traffic_of_run,
)
from warmup_insights.bucketing.settings import settings_from_mapping
from warmup_insights.errors import InputError
from warmup_insights.model.events import BucketMiss, BucketUsed

LIMITS = {
    "max_num_seqs": 3, "block_size": 4, "max_num_batched_tokens": 8,
    "max_model_len": 64, "num_kv_blocks": 100,
}  # fmt: skip


def settings(**changes):
    return settings_from_mapping({**LIMITS, **changes}, {})


def as_dict(counts):
    return {
        tuple(shape): int(count)
        for shape, count in zip(counts.shapes.tolist(), counts.counts, strict=True)
    }


def requests(*pairs):
    lengths = np.array(pairs)
    return Requests("r", lengths[:, 0], lengths[:, 1])


def test_equal_shapes_are_counted():
    counts = count_shapes([(1, 5, 0), (2, 1, 3), (1, 5, 0)], [1, 2, 3])
    assert as_dict(counts) == {(1, 5, 0): 4, (2, 1, 3): 2}
    assert (counts.total, len(counts)) == (6, 2)


@given(st.lists(st.tuples(*[st.integers(0, 2**40)] * 3), min_size=1, max_size=20))
def test_counting_does_not_depend_on_size(shapes):
    counts = count_shapes(shapes)
    assert as_dict(counts) == {shape: shapes.count(shape) for shape in shapes}


def test_a_run_gives_the_shapes_of_its_steps():
    events = [
        BucketUsed(phase="prompt", shape=(1, 5, 0), bucket=(1, 8, 0), count=2),
        BucketUsed(phase="decode", shape=(2, 1, 3), bucket=(2, 1, 4)),
        BucketMiss(phase="decode", shape=(2, 1, 3), count=1),
        BucketMiss(phase="decode", shape=(9, 30), count=7),
        BucketUsed(phase="unified", shape=(1, 2, 3, 4), bucket=(1, 2, 3, 4)),
    ]
    traffic = traffic_of_run(summary_of(events), "run")
    assert as_dict(traffic.prompt) == {(1, 5, 0): 2}
    assert as_dict(traffic.decode) == {(2, 1, 3): 1, (9, 1, 30): 7}
    assert traffic.notes == ()


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ([], "met no shape"),
        (
            [BucketUsed(phase="prompt", shape=(1, 5), bucket=(1, 8))],
            "other than three dimensions",
        ),
        (
            [BucketMiss(phase="prompt", shape=(1, 5, 0))],
            "only shapes that missed their buckets",
        ),
    ],
)
def test_runs_without_usable_shapes_are_refused(events, sentence):
    with pytest.raises(InputError, match=sentence):
        traffic_of_run(summary_of(events), "run")


def test_a_trace_of_requests():
    lines = [
        '{"input_len": 5, "output_len": 3}',
        "",
        b'{"input_len": 2, "output_len": 1}\n',
    ]
    found = parse_trace(lines, "t")
    assert isinstance(found, Requests)
    assert (found.input_lens.tolist(), found.output_lens.tolist()) == ([5, 2], [3, 1])


def test_a_trace_of_steps():
    lines = [
        '{"phase": "prompt", "shape": [1, 5, 0], "count": 3}',
        '{"phase": "decode", "shape": [2, 9]}',
        '{"phase": "decode", "shape": [2, 1, 9]}',
    ]
    found = parse_trace(lines, "t")
    assert isinstance(found, Traffic)
    assert as_dict(found.prompt) == {(1, 5, 0): 3}
    assert as_dict(found.decode) == {(2, 1, 9): 2}


@pytest.mark.parametrize(
    "line",
    [
        "not json", "[1, 2]", "{}", '{"input_len": 0, "output_len": 3}',
        '{"input_len": 1.5, "output_len": 3}', '{"input_len": 5}',
        '{"phase": "prompt", "shape": [1, 5]}', '{"phase": "x", "shape": [1, 5, 0]}',
        '{"phase": "decode", "shape": [-2, 9]}', '{"phase": "decode", "shape": [0, 9]}',
        '{"phase": "decode", "shape": [2, 9], "count": 0}',
        '{"phase": "decode", "shape": [2, 99999999999]}', '{"input_len": 1, "output_len": "x"}',
    ],
)  # fmt: skip
def test_bad_lines_are_named(line):
    with pytest.raises(InputError, match="t, line 2"):
        parse_trace(['{"input_len": 5, "output_len": 3}', line], "t")


def test_traces_that_mix_or_hold_nothing_are_refused():
    both = ['{"input_len": 5, "output_len": 3}', '{"phase": "decode", "shape": [2, 9]}']
    with pytest.raises(InputError, match="mixes requests and steps"):
        parse_trace(both, "t")
    with pytest.raises(InputError, match="holds no request"):
        parse_trace(["", "\n"], "t")


def test_lengths_of_a_saved_benchmark():
    text = json.dumps({"input_lens": [5, 7, 0], "output_lens": [3, 0, 4], "x": 1})
    found = parse_benchmark(text, "b")
    assert (found.input_lens.tolist(), found.output_lens.tolist()) == ([5], [3])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "no JSON"),
        ("[]", "--save-detailed"),
        ('{"input_lens": [1]}', "--save-detailed"),
        ('{"input_lens": [1], "output_lens": [true]}', "--save-detailed"),
        ('{"input_lens": [1], "output_lens": [1, 2]}', "1 inputs and 2 outputs"),
        ('{"input_lens": [0], "output_lens": [1]}', "no request with output"),
    ],
)
def test_benchmarks_without_lengths_are_refused(content, sentence):
    with pytest.raises(InputError, match=sentence):
        parse_benchmark(content, "b")


def test_prompts_come_in_chunks():
    """20 tokens at 8 a step: 8, 8 after 2 blocks, 4 after 4 blocks."""
    traffic = traffic_from_requests(requests((20, 1), (3, 1)), settings())
    assert as_dict(traffic.prompt) == {
        (1, 8, 0): 1,
        (1, 8, 2): 1,
        (1, 4, 4): 1,
        (1, 3, 0): 1,
    }
    assert len(traffic.decode) == 0


def simulate(pairs, max_num_seqs, block, num_blocks):
    """The same schedule, step by step: places, lengths, blocks."""
    waiting = [(i + 1, o - 1) for i, o in pairs if o > 1]
    running, steps = [], []
    while waiting or running:
        while waiting and len(running) < max_num_seqs:
            running.append(list(waiting.pop(0)))
        blocks = sum(-(-length // block) for length, _ in running)
        steps.append(
            (min(len(running), min(blocks, num_blocks)), 1, min(blocks, num_blocks))
        )
        for sequence in running:
            sequence[0] += 1
            sequence[1] -= 1
        running = [sequence for sequence in running if sequence[1]]
    return {shape: steps.count(shape) for shape in steps}


@given(
    st.lists(
        st.tuples(st.integers(1, 40), st.integers(1, 20)), min_size=1, max_size=12
    ),
    st.integers(1, 5),
    st.sampled_from([1, 4, 7]),
    st.sampled_from([20, 1000]),
)
def test_decode_steps_are_those_of_a_step_by_step_schedule(pairs, seqs, block, blocks):
    limits = settings(max_num_seqs=seqs, block_size=block, num_kv_blocks=blocks)
    traffic = traffic_from_requests(requests(*pairs), limits)
    assert as_dict(traffic.decode) == simulate(pairs, seqs, block, blocks)


def test_assumptions_are_said():
    traffic = traffic_from_requests(
        requests((40, 9), (40, 9)), settings(num_kv_blocks=12)
    )
    assert "up to 3 sequences" in traffic.notes[0]
    assert "more than 12 KV blocks" in traffic.notes[1]
    contiguous = settings_from_mapping(LIMITS, {"VLLM_CONTIGUOUS_PA": "true"})
    traffic = traffic_from_requests(requests((4, 9)), contiguous)
    assert "highest block id" in traffic.notes[-1]


def test_requests_that_no_engine_takes_are_refused():
    with pytest.raises(InputError, match="69 tokens, more than max_model_len=64"):
        traffic_from_requests(requests((60, 9)), settings())
