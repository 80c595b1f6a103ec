"""Requests by rule and from traces, and the figures of serving them."""

from __future__ import annotations

import itertools
import json
import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from warmup_insights.errors import InputError, SettingError
from warmup_insights.runner.log_format import result_block
from warmup_insights.runner.serving import RequestTimes, benchmark_values, percentile
from warmup_insights.runner.workload import (
    WorkloadSettings,
    load_requests,
    make_requests,
)

LIMITS = {"vocab_size": 50, "max_model_len": 200}


def make(**changes):
    return make_requests(WorkloadSettings(**changes), **LIMITS)


def test_the_same_seed_makes_the_same_requests():
    assert make(seed=4) == make(seed=4)
    assert make(seed=4) != make(seed=5)


def test_a_rate_makes_poisson_arrivals():
    """2000 gaps at 10 per second: mean and deviation are 0.1 within 10 %."""
    requests = make(num_prompts=2001, request_rate=10.0)
    times = [request.arrival_s for request in requests]
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert times[0] == 0.0
    assert statistics.fmean(gaps) == pytest.approx(0.1, rel=0.1)
    assert statistics.stdev(gaps) == pytest.approx(0.1, rel=0.1)


def test_all_come_at_once_at_an_infinite_rate():
    assert {request.arrival_s for request in make()} == {0.0}


def test_a_spread_of_0_gives_fixed_lengths():
    requests = make(sigma=0, input_len=33, output_len=7)
    assert {(len(r.prompt), r.output_len) for r in requests} == {(33, 7)}


def test_lengths_scatter_around_their_median():
    requests = make_requests(
        WorkloadSettings(num_prompts=2000, input_len=100, sigma=0.5),
        vocab_size=50,
        max_model_len=100_000,
    )
    lengths = [len(request.prompt) for request in requests]
    assert statistics.median(lengths) == pytest.approx(100, rel=0.06)
    logs = [math.log(length) for length in lengths]
    assert statistics.stdev(logs) == pytest.approx(0.5, rel=0.08)


@settings(max_examples=50)
@given(
    median=st.integers(1, 500), output=st.integers(1, 500), sigma=st.floats(0, 4),
    longest=st.integers(2, 300),
)  # fmt: skip
def test_every_request_fits_the_model(median, output, sigma, longest):
    made = make_requests(
        WorkloadSettings(
            num_prompts=20, input_len=median, output_len=output, sigma=sigma
        ),
        vocab_size=7,
        max_model_len=longest,
    )
    for request in made:
        assert len(request.prompt) >= 1
        assert request.output_len >= 1
        assert len(request.prompt) + request.output_len <= longest
        assert all(0 <= token < 7 for token in request.prompt)


@pytest.mark.parametrize(
    "changes",
    [
        {"num_prompts": 0},
        {"num_prompts": 10**20},
        {"input_len": 0},
        {"request_rate": 0},
        {"request_rate": float("nan")},
        {"sigma": -1},
        {"sigma": float("nan")},
        {"temperature": -0.1},
    ],
)
def test_bad_workloads_name_the_value(changes):
    with pytest.raises(SettingError, match=next(iter(changes))):
        WorkloadSettings(**changes)


class TestTrace:
    def load(self, tmp_path, text):
        path = tmp_path / "trace.jsonl"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return load_requests(WorkloadSettings(trace=path), **LIMITS)

    def test_lines_become_requests_in_order_of_arrival(self, tmp_path):
        text = (
            '{"input_len": 5, "output_len": 3, "arrival_s": 2.5}\n'
            "\n"
            '{"input_len": 7, "output_len": 4, "temperature": 0.5}\r\n'
        )
        first, second = self.load(tmp_path, text)
        assert (len(first.prompt), first.output_len, first.arrival_s) == (7, 4, 0.0)
        assert first.sampling.temperature == 0.5
        assert (len(second.prompt), second.arrival_s) == (5, 2.5)
        assert first.request_id != second.request_id

    @pytest.mark.parametrize(
        ("line", "words"),
        [
            ("{", "JSON is malformed|Input data was truncated"),
            ("[1, 2]", "Expected `object`"),
            ('{"input_len": 5}', "required field `output_len`"),
            ('{"input_len": 0, "output_len": 1}', "input_len"),
            ('{"input_len": 1.5, "output_len": 1}', "input_len"),
            ('{"input_len": true, "output_len": 1}', "input_len"),
            ('{"input_len": 199, "output_len": 2}', "max_model_len=200"),
            ('{"input_len": 1, "output_len": 1, "arrival_s": -1}', "arrival_s"),
            ('{"input_len": 1, "output_len": 1, "arrival_s": NaN}', "malformed"),
            ('{"input_len": 1, "output_len": 1, "arrival_s": Infinity}', "malformed"),
            ('{"input_len": 1, "output_len": 1, "temperature": 11}', "temperature"),
        ],
    )
    def test_a_bad_line_is_named_with_its_number(self, tmp_path, line, words):
        good = '{"input_len": 5, "output_len": 3}\n'
        with pytest.raises(InputError, match=words) as caught:
            self.load(tmp_path, good + line + "\n")
        assert "line 2" in str(caught.value)

    @pytest.mark.parametrize("text", ["", "\n\n"])
    def test_an_empty_trace_is_refused(self, tmp_path, text):
        with pytest.raises(InputError, match="no request"):
            self.load(tmp_path, text)

    def test_a_file_that_is_no_text_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            self.load(tmp_path, b"\xff\xfe\n")

    def test_a_missing_file_is_refused(self, tmp_path):
        with pytest.raises(InputError, match="cannot be read"):
            load_requests(WorkloadSettings(trace=tmp_path / "no"), **LIMITS)


TWO = [
    RequestTimes(10, 3, 0.0, (1.0, 1.5, 2.5)),
    RequestTimes(20, 1, 2.0, (4.0,)),
]


def test_the_figures_by_hand():
    """TTFT 1 and 2 s; TPOT (2.5 - 1) / 2 = 0.75 s; gaps 0.5 and 1 s; 5 s in all."""
    values = benchmark_values(TWO, duration_s=5.0, request_rate=2.0, model="m")
    assert values["completed"] == 2
    assert values["total_input_tokens"] == 30
    assert values["total_output_tokens"] == 4
    assert values["request_throughput"] == 0.4
    assert values["output_throughput"] == 0.8
    assert values["total_token_throughput"] == 6.8
    assert values["mean_ttft_ms"] == 1500.0
    assert values["p99_ttft_ms"] == pytest.approx(1990.0)
    assert values["mean_tpot_ms"] == values["median_tpot_ms"] == 750.0
    assert values["mean_itl_ms"] == 750.0
    assert values["std_itl_ms"] == 250.0
    assert values["max_concurrent_requests"] == 2
    assert values["request_rate"] == 2.0
    json.dumps(values)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.sampled_from([0, 1, 50, 90, 99, 100]),
)
def test_percentiles_are_those_of_numpy(values, percent):
    expected = float(np.percentile(values, percent))
    assert percentile(values, percent) == pytest.approx(expected, abs=1e-6)


def test_the_block_is_read_back_by_the_parsers():
    """Our own dialect of the benchmark: what is printed is what the parser finds."""
    from parsers.dialects import vllm_bench  # noqa: F401 - the dialect exists
    from tests.runner.parsing import parse_text
    from warmup_insights.model.events import BenchmarkResult

    values = benchmark_values(TWO, duration_s=5.0, request_rate=2.0, model="m")
    found = [
        e for e in parse_text(result_block(values)) if isinstance(e, BenchmarkResult)
    ]
    assert len(found) == 1
    for key, value in found[0].values.items():
        assert values[key] == pytest.approx(value, abs=0.006), key
    assert len(found[0].values) >= 15
