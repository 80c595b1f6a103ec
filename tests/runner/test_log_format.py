"""Parsing our own log gives the events that the recorder stored, within the rounding.

Runs are simulated, so that many random configurations take little time; the figures of
sizes and times are as varied as those of real runs.
"""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.helpers import folded
from tests.runner.helpers import of_kind, seed_settings, simulated_device
from tests.runner.parsing import read_log
from warmup_insights.model.events import (
    BenchmarkResult,
    BucketMiss,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
    CaptureProgress,
    CaptureSummary,
    ConfigRecorded,
    DefragRan,
    DefragWarmup,
    EngineInitialized,
    Failure,
    GraphBudgetSet,
    GraphCaptured,
    GraphsCaptured,
    GraphSkipped,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    SamplerConfig,
    SamplerWarmup,
    ServerReady,
    ServingFailure,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.rules.model_shape import PRESETS
from warmup_insights.runner.log_format import LOG_FORMATS, LogWriter
from warmup_insights.runner.session import Session
from warmup_insights.runner.settings import RunSettings
from warmup_insights.runner.workload import WorkloadSettings
from warmup_insights.units import GIB, MIB


def exact(a, b):
    return a == b


def four_digits(a, b):
    """`format_bytes`: 14.97 GiB is at most half a unit of the fourth digit away."""
    if a is None or b is None:
        return a == b
    return abs(a - b) <= max(abs(a), abs(b)) * 5.01e-4 + 1


def within(step, slack=1.0):
    """Half a unit of the last printed digit; unknown stays unknown."""

    def same(a, b):
        if a is None or b is None:
            return a == b
        return abs(a - b) <= step / 2 + slack

    return same


def seconds(step):
    return within(step, 1e-9)


def figures(a, b):
    """Each value that the block prints, to two decimals."""
    return (
        all(k in a and abs(a[k] - v) <= 0.0051 for k, v in b.items()) and len(b) >= 17
    )


def part_of(a, b):
    """The printed settings are among the recorded ones."""
    return all(k == "model" or a.get(k) == v for k, v in b.items()) and len(b) > 10


SIZES = dict.fromkeys(("delta_bytes", "used_bytes", "total_bytes"), four_digits)
STEP = {
    "phase": exact, "bucket": exact, "index": exact, "total": exact,
    "free_before_bytes": four_digits,
}  # fmt: skip
RANGES = {"phase": exact, "ranges": exact, "parameters": exact}
LISTS = {"phase": exact, "count": exact, "buckets": exact}
BLOCK = {
    BenchmarkResult: {"values": figures}, ServerReady: {}, Failure: {"failure": exact},
}  # fmt: skip
BUDGET = {
    "free_bytes": four_digits, "usable_bytes": four_digits,
    "graph_reserved_bytes": four_digits, "kv_cache_bytes": four_digits,
    "gpu_memory_utilization": exact, "graph_reserved_fraction": exact,
}  # fmt: skip
FINISHED = {
    "duration_s": seconds(1.0), "allocated_bytes": four_digits, "skipped": exact,
}  # fmt: skip

# What each dialect prints: class, fields, and how far printing may move a value.
PRINTED = {
    "vllm-fork": {
        MemoryMeasured: {"stage": exact, **SIZES},
        MemoryBudgetSet: BUDGET,
        KVCacheAllocated: {"num_blocks": exact, "num_host_blocks": exact},
        BucketRangesConfigured: RANGES,
        BucketsGenerated: LISTS,
        WarmupStep: {"mode": exact, **STEP},
        GraphBudgetSet: {
            "total_bytes": four_digits, "free_bytes": four_digits,
            "prompt_bytes": four_digits, "decode_bytes": four_digits,
            "prompt_ratio": exact,
        },
        CaptureSummary: {
            "phase": exact, "captured_reported": exact, "buckets": exact,
            "used_bytes": four_digits, "percent_reported": seconds(0.1),
        },
        WarmupFinished: FINISHED,
        **BLOCK,
    },
    "vllm-gaudi": {
        MemoryBudgetSet: BUDGET,
        BucketRangesConfigured: RANGES,
        BucketsOmitted: {"count": exact, "buckets": exact, "reason": exact},
        BucketsGenerated: LISTS,
        SamplerWarmup: {"status": exact},
        SamplerConfig: {
            "temperature": exact, "top_p": exact, "top_k": exact, "batch_changed": exact,
        },
        DefragWarmup: {"status": exact},
        WarmupStep: STEP,
        CaptureSummary: {
            "phase": exact, "captured_reported": exact, "used_bytes": four_digits,
        },
        WarmupFinished: FINISHED,
        EngineInitialized: {"duration_s": seconds(0.01)},
        BucketMiss: {"phase": exact, "shape": exact, "fallback": exact},
        DefragRan: dict.fromkeys(
            ("swapped", "padded", "max_id_before", "max_id_after", "num_used"), exact
        ),
        **BLOCK,
    },
    "vllm": {
        MemoryBudgetSet: {"kv_cache_bytes": within(0.01 * GIB)},
        GraphsCaptured: {
            "duration_s": seconds(1.0), "memory_bytes": within(0.01 * GIB),
        },
        LazyCapture: {
            "num_tokens": exact, "duration_s": seconds(0.001),
            "memory_bytes": within(0.01 * MIB),
        },
        EngineInitialized: {"duration_s": seconds(0.01)},
        **BLOCK,
    },
}  # fmt: skip


def record(run_settings, dialect, workload=None):
    """A simulated run: its events and its log."""
    events, stream = [], io.StringIO()
    device = simulated_device()
    writer = LogWriter(LOG_FORMATS[dialect], stream)

    def sink(event):
        events.append(event)
        writer.take(event)

    outcome = Session(device, run_settings, sink, workload).run()
    return outcome, events, stream.getvalue()


def compare(events, parsed, dialect):
    """Every class that the dialect prints: same number, same order, same values."""
    for kind, fields in PRINTED[dialect].items():
        recorded, read = of_kind(events, kind), of_kind(parsed, kind)
        if kind is BucketsOmitted:
            # The headline of a list is an event of its own, without the buckets.
            read = [event for event in read if event.buckets]
        if kind is Failure:
            # After ready, which the fold tells for a recording.
            read += of_kind(parsed, ServingFailure)
        assert len(read) == len(recorded), (kind, len(recorded), len(read))
        for ours, theirs in zip(recorded, read, strict=True):
            for name, same in fields.items():
                left, right = getattr(ours, name), getattr(theirs, name)
                assert same(left, right), (kind.__name__, name, left, right)
            if theirs.time is not None:
                # A stamp is made of whole microseconds.
                assert -1e-6 <= ours.time - theirs.time < 1.0, (
                    kind,
                    ours.time,
                    theirs.time,
                )


MODELS = sorted(set(PRESETS) - {"llama-3.1-70b"})


@st.composite
def configurations(draw, dialect):
    block_size = draw(st.sampled_from([16, 32, 64, 128]))
    max_model_len = block_size * draw(st.integers(2, 10))
    dimensions = 2 if dialect == "vllm-fork" else 3
    environment = {}
    if dimensions == 3:
        strategies = ["exp", "lin", "pad"] if block_size >= 64 else ["exp"]
        environment["VLLM_BUCKETING_STRATEGY"] = draw(st.sampled_from(strategies))
        environment["VLLM_PROMPT_BS_BUCKET_MAX"] = str(draw(st.integers(1, 2)))
    return RunSettings(
        model=draw(st.sampled_from(MODELS)),
        dtype=draw(st.sampled_from(["bfloat16", "float32"])),
        block_size=block_size,
        max_model_len=max_model_len,
        max_num_seqs=draw(st.integers(1, 6)),
        max_num_batched_tokens=max_model_len * draw(st.integers(1, 3)),
        gpu_memory_utilization=draw(st.sampled_from([0.5, 0.7, 0.9, 0.95, 1.0])),
        graph_reserved_mem=draw(st.sampled_from([0.0, 0.001, 0.1, 0.4])),
        graph_prompt_ratio=draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        graph_prompt_strategy=draw(st.sampled_from(["min_tokens", "max_bs"])),
        graph_decode_strategy=draw(st.sampled_from(["min_tokens", "max_bs"])),
        capture_strategy=draw(
            st.sampled_from(["startup", "startup", "delayed", "lazy", "none"])
        ),
        skip_warmup=draw(st.sampled_from([False, False, False, True])),
        enforce_eager=draw(st.sampled_from([False, False, False, True])),
        defrag=draw(st.booleans()),
        defrag_threshold=draw(st.sampled_from([0, 4, 32])),
        bucket_dimensions=dimensions,
        environment=environment,
    )


WORKLOADS = st.one_of(
    st.none(),
    st.builds(
        WorkloadSettings,
        num_prompts=st.integers(1, 6),
        input_len=st.integers(1, 200),
        output_len=st.integers(1, 20),
        seed=st.integers(0, 5),
    ),
)


@pytest.mark.parametrize("dialect", sorted(LOG_FORMATS))
@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_log_is_read_back_as_the_events_of_its_run(dialect, data):
    run_settings = data.draw(configurations(dialect))
    _, events, log = record(run_settings, dialect, data.draw(WORKLOADS))
    parsed, report = read_log(log, started_at=events[0].time)
    compare(events, parsed, dialect)
    assert not report.failed
    assert not report.unknown


def test_the_misses_of_the_v0_scheme_are_told_padded():
    """The engine warns of the shape that it pads to, once for each."""
    shorter = {"VLLM_PROMPT_SEQ_BUCKET_MAX": "512"}
    settings_ = seed_settings(environment=shorter)
    work = WorkloadSettings(num_prompts=12, input_len=600, output_len=3, sigma=0.2)
    _, events, log = record(settings_, "vllm-fork", work)
    ours = [(e.phase, e.fallback) for e in of_kind(events, BucketMiss)]
    theirs = [(e.phase, e.shape) for e in of_kind(read_log(log)[0], BucketMiss)]
    assert theirs == ours
    assert len(set(ours)) == len(ours) > 0


@pytest.mark.parametrize("strategy", ["delayed", "lazy"])
def test_captures_while_serving_are_read_back(strategy):
    _, events, log = record(
        seed_settings(bucket_dimensions=3, capture_strategy=strategy),
        "vllm",
        WorkloadSettings(num_prompts=8),
    )
    assert len(of_kind(events, LazyCapture)) >= 5
    compare(events, read_log(log, started_at=events[0].time)[0], "vllm")


@pytest.mark.parametrize("dialect", ["vllm-gaudi", "vllm"])
def test_settings_and_model_are_read_back(dialect):
    _, events, log = record(seed_settings(bucket_dimensions=3), dialect)
    parsed, _ = read_log(log)
    ours = of_kind(events, ConfigRecorded)[0]
    theirs = next(e for e in of_kind(parsed, ConfigRecorded) if e.settings)
    assert part_of(ours.settings, theirs.settings)
    assert theirs.model == "llama-3-8b"


def test_cache_sizes_are_read_back_from_several_lines():
    _, events, log = record(seed_settings(bucket_dimensions=3), "vllm-gaudi")
    ours = of_kind(events, KVCacheAllocated)[0]
    found = of_kind(read_log(log)[0], KVCacheAllocated)
    assert {e.num_blocks for e in found} >= {ours.num_blocks}
    assert {e.num_tokens for e in found} >= {ours.num_tokens}
    assert any(
        e.max_concurrency is not None
        and abs(e.max_concurrency - ours.max_concurrency) <= 0.0051
        for e in found
    )


def test_the_capture_bars_tell_how_many_were_captured():
    """In the CUDA dialect the bars stand for the summaries."""
    _, events, log = record(seed_settings(bucket_dimensions=3), "vllm")
    bars = of_kind(read_log(log)[0], CaptureProgress)
    for summary, bar in zip(of_kind(events, CaptureSummary), bars, strict=True):
        skipped = [e for e in of_kind(events, GraphSkipped) if e.phase == summary.phase]
        took = sum(
            e.duration_s
            for e in of_kind(events, GraphCaptured)
            if e.phase == summary.phase
        )
        assert bar.captured == summary.captured_reported
        assert bar.total == summary.captured_reported + len(skipped)
        assert 0 <= took - bar.duration_s < 1


@pytest.mark.parametrize("dialect", sorted(LOG_FORMATS))
@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"model": "llama-3.1-70b"}, "out_of_memory"),
        ({"gpu_memory_utilization": 0.001}, "no_kv_cache"),
    ],
)
def test_failures_are_read_back(dialect, changes, kind):
    dimensions = 2 if dialect == "vllm-fork" else 3
    outcome, events, log = record(
        seed_settings(bucket_dimensions=dimensions, **changes), dialect
    )
    assert outcome.status == "failed"
    (failure,) = of_kind(read_log(log)[0], Failure)
    assert failure.failure == of_kind(events, Failure)[0].failure == kind


def test_memory_that_ran_out_while_serving_is_read_back():
    """A lazy capture of a server that is ready, on a device without room for it."""
    settings = RunSettings(
        model="llama-3-8b", max_model_len=64, block_size=16, max_num_seqs=2,
        max_num_batched_tokens=192, gpu_memory_utilization=1.0, graph_reserved_mem=0.0,
        graph_prompt_ratio=0.0, graph_prompt_strategy="min_tokens", capture_strategy="lazy",
        defrag=False, defrag_threshold=0,
        environment={"VLLM_BUCKETING_STRATEGY": "exp", "VLLM_PROMPT_BS_BUCKET_MAX": "2"},
    )  # fmt: skip
    workload = WorkloadSettings(num_prompts=2, input_len=12, output_len=1, seed=2)
    _, events, log = record(settings, "vllm", workload)
    parsed, _ = read_log(log, started_at=events[0].time)
    compare(events, parsed, "vllm")
    for found in (events, parsed):
        assert folded(found).summary.serving.end.kind == "out_of_memory"
        assert folded(found).summary.failure is None


def test_the_lines_of_the_documentation_are_reproduced():
    """The seed run in the dialect of its log: each kind of line, letter for letter."""
    _, _, log = record(seed_settings(), "vllm-fork")
    lines = [
        re.sub(r"^(\w+) \d\d-\d\d \d\d:\d\d:\d\d ", r"\1 ", line)
        for line in log.split("\n")
    ]
    runner = "INFO hpu_model_runner.py:"
    for expected in (
        f"{runner}36] Prompt bucket config (min, step, max_warmup) bs:[1, 32, 4], "
        "seq:[128, 128, 1024]",
        f"{runner}36] Decode bucket config (min, step, max_warmup) bs:[1, 128, 4], "
        "seq:[128, 128, 2048]",
        f"{runner}442] Loading model weights took in total 14.97 GiB of device memory "
        "(14.97 GiB/94.62 GiB used)",
        "INFO hpu_worker.py:134] Model profiling run took 504 MiB of device memory "
        "(15.46 GiB/94.62 GiB used)",
        "INFO hpu_worker.py:158] Free device memory: 79.16 GiB, 39.58 GiB usable "
        "(gpu_memory_utilization=0.5), 15.83 GiB reserved for HPUGraphs "
        "(VLLM_GRAPH_RESERVED_MEM=0.4), 23.75 GiB reserved for KV cache",
        "INFO hpu_executor.py:85] # HPU blocks: 1519, # CPU blocks: 0",
        "INFO hpu_worker.py:190] Initializing cache engine took 23.73 GiB of device "
        "memory (39.2 GiB/94.62 GiB used)",
        f"{runner}1066] [Warmup][Prompt][1/24] batch_size:4 seq_len:1024 "
        "free_mem:55.43 GiB",
        f"{runner}1066] [Warmup][Decode][48/48] batch_size:1 seq_len:128 "
        "free_mem:55.43 GiB",
        f"{runner}1066] [Warmup][Graph/Prompt][1/24] batch_size:1 seq_len:128 "
        "free_mem:55.43 GiB",
        f"{runner}1206] Warmup finished in 49 secs, allocated 14.19 GiB of device memory",
    ):
        assert expected in lines
    captured = next(line for line in lines if "Graph/Prompt captured" in line)
    assert captured.startswith(
        f"{runner}1128] Graph/Prompt captured:15 (62.5%) used_mem:14.03 GiB "
        "buckets:[(1, 128), (1, 256), (1, 384),"
    )


def test_a_log_says_who_wrote_it_and_whether_it_was_measured():
    _, _, log = record(seed_settings(), "vllm-fork")
    assert log.startswith("# written by the reference engine of warmup-insights")
    assert "simulated on simulated Gaudi 2" in log.split("\n")[0]
