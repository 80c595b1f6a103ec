"""The logs of the documents this project was asked for, to the precision they have."""

from __future__ import annotations

import pytest

from tests.helpers import ROOT, summarize_file
from warmup_insights.units import GIB, MIB

LOGS = ROOT / "sample_logs"


@pytest.fixture(scope="module")
def warmup():
    return summarize_file(LOGS / "vllm-fork" / "warmup_doc_capture.log")


def gib(value: float) -> int:
    return round(value * GIB)


def test_memory_budget_of_the_warm_up_document(warmup):
    memory = warmup["memory"]
    assert memory["total_bytes"] == gib(94.62)
    assert memory["weights_bytes"] == gib(14.97)
    assert memory["profile_bytes"] == 504 * MIB
    assert memory["free_bytes"] == gib(79.16)
    assert memory["usable_bytes"] == gib(39.58)
    assert memory["gpu_memory_utilization"] == 0.5
    assert memory["graph_reserved_bytes"] == gib(15.83)
    assert memory["graph_reserved_fraction"] == 0.4
    assert memory["kv_cache_bytes"] == gib(23.75)
    assert memory["kv_cache_allocated_bytes"] == gib(23.73)
    assert memory["num_kv_blocks"] == 1519
    assert memory["warmup_allocated_bytes"] == gib(14.19)


def test_prompt_buckets_of_the_warm_up_document(warmup):
    prompt = warmup["buckets"]["prompt"]
    assert (prompt["generated"], prompt["captured"]) == (24, 15)
    assert prompt["captured_reported"] == 15
    assert prompt["capture_percent"] == 62.5
    assert prompt["graph_budget_bytes"] == gib(4.755)
    assert prompt["graph_used_bytes"] == gib(14.03)
    assert [4, 256] in prompt["captured_buckets"]
    assert [4, 384] not in prompt["captured_buckets"]


def test_decode_buckets_of_the_warm_up_document(warmup):
    decode = warmup["buckets"]["decode"]
    assert (decode["generated"], decode["captured"]) == (48, 48)
    assert decode["capture_percent"] == 100.0
    assert decode["graph_budget_bytes"] == gib(11.095)
    assert decode["graph_used_bytes"] == round(161.9 * MIB)


def test_time_of_the_warm_up_document(warmup):
    time = warmup["time"]
    assert time["warmup_s"] == 49.0
    assert time["wall_s"] == 59.0
    total = sum(phase["duration_s"] for phase in time["phases"])
    assert total + time["unlogged_s"] == pytest.approx(time["wall_s"])
    assert time["residual_s"] == 0.0
    assert (warmup["engine"]["name"], warmup["device"]["kind"]) == ("vllm-fork", "hpu")


def test_first_drop_is_the_kv_cache_and_not_the_bucket():
    """79.16 to 55.43 GiB is the 23.73 GiB of the cache; the bucket's cost is unknown."""
    from tests.helpers import events, of
    from warmup_insights.model.events import WarmupStep

    lines = [
        "INFO 08-01 22:26:46 habana_worker.py:190] Initializing cache engine took 23.73 "
        "GiB of device memory (39.2 GiB/94.62 GiB used) and 0 B of host memory "
        "(475.4 GiB/1007 GiB used)",
        (LOGS / "vllm-fork" / "warmup_doc_steps.log").read_text(),
    ]
    steps = of(WarmupStep, events("\n".join(lines)))
    assert steps[0].memory_bytes is None
    assert steps[1].memory_bytes == 0
    assert steps[0].duration_s == 0.0
    assert steps[1].duration_s == 1.0


def test_lines_cut_out_leave_the_step_before_without_an_end():
    from tests.helpers import events, of
    from warmup_insights.model.events import WarmupStep

    steps = of(
        WarmupStep, events((LOGS / "vllm-fork" / "warmup_doc_steps.log").read_text())
    )
    third = next(s for s in steps if s.phase == "prompt" and s.index == 3)
    assert third.duration_s is None
    assert third.memory_bytes is None


def test_buckets_of_the_bucketing_document():
    summary = summarize_file(LOGS / "vllm-gaudi" / "bucketing_doc.log")
    prompt, decode = summary["buckets"]["prompt"], summary["buckets"]["decode"]
    assert (prompt["generated"], decode["generated"]) == (36, 42)
    assert len(prompt["buckets"]) == 36
    assert len(decode["buckets"]) == 42
    assert prompt["buckets"][0] == [1, 128, 0]
    assert decode["buckets"][-1] == [4, 1, 5888]
    assert prompt["captured"] is None


def test_ranges_of_the_bucketing_document():
    from tests.helpers import events, of
    from warmup_insights.model.events import BucketRangesConfigured

    text = (LOGS / "vllm-gaudi" / "bucketing_doc.log").read_text()
    (ranges,) = of(BucketRangesConfigured, events(text))
    assert ranges.phase == "prompt"
    assert ranges.ranges == {"bs": [1, 1, 1, 1], "seq": [128, 128, 1024, 11]}
    assert ranges.parameters == ["min", "step", "max", "limit"]


def test_sampler_document():
    sampler = summarize_file(LOGS / "vllm-gaudi" / "sampler_doc.log")["sampler"]
    assert sampler["status"] == "completed"
    assert sampler["batch_sizes"] == [0, 1, 138]
    assert sampler["configs"] == 12
    assert sampler["duration_s"] == 1.0


def test_defragmenter_document():
    defrag = summarize_file(LOGS / "vllm-gaudi" / "defragmenter_doc.log")["defrag"]
    assert defrag["status"] == "completed"
    assert defrag["thresholds"] == [8, 16, 32, 64, 128, 256, 512]
    assert defrag["duration_s"] == 3.0


def test_defragmenter_document_when_it_is_skipped():
    path = LOGS / "vllm-gaudi" / "defragmenter_doc_skipped.log"
    defrag = summarize_file(path)["defrag"]
    assert defrag["status"] == "skipped"
    assert defrag["reason"] == "insufficient blocks (1)"
    assert defrag["thresholds"] == [8, 16, 32, 64, 128, 256, 512]


def test_startup_capture_of_the_pull_request():
    graphs = summarize_file(LOGS / "vllm" / "startup_capture_pr.log")["graphs"]
    assert graphs["captured"] == 67
    assert graphs["duration_s"] == 4.0
    assert graphs["memory_bytes"] == gib(0.54)


def test_delayed_captures_of_the_pull_request():
    summary = summarize_file(LOGS / "vllm" / "delayed_capture_pr.log")
    lazy = summary["graphs"]["lazy"]
    assert len(lazy) == 67
    for row in lazy:
        row.pop("time")
    assert lazy[0] == {
        "num_tokens": 512, "duration_s": 0.073, "memory_bytes": -342 * MIB,
    }  # fmt: skip
    assert lazy[1]["num_tokens"] == 1
    assert lazy[-1] == {"num_tokens": 2, "duration_s": 0.046, "memory_bytes": 6 * MIB}
    assert all(row["duration_s"] is not None for row in lazy)
    assert sorted(row["num_tokens"] for row in lazy) == [1, 2, 4, *range(8, 513, 8)]


def test_both_benchmark_blocks_of_the_pull_request():
    first, second = summarize_file(LOGS / "vllm-bench" / "serve_pr.log")["benchmarks"]
    assert first == {
        "completed": 1000, "duration": 72.82, "total_input_tokens": 215196,
        "total_output_tokens": 197914, "request_throughput": 13.73,
        "output_throughput": 2717.77, "total_token_throughput": 5672.85,
        "mean_ttft_ms": 20493.77, "median_ttft_ms": 18837.80, "p99_ttft_ms": 48674.65,
        "mean_tpot_ms": 79.60, "median_tpot_ms": 75.12, "p99_tpot_ms": 168.10,
        "mean_itl_ms": 69.61, "median_itl_ms": 55.84, "p99_itl_ms": 172.96,
    }  # fmt: skip
    assert second["duration"] == 74.10
    assert second["mean_ttft_ms"] == 20431.48
    assert second["p99_itl_ms"] == 173.86
    assert len(second) == 16
