"""The simulated device against the start-up log that its costs were fitted to.

The log is in the warm-up page of the vllm-gaudi documentation: Llama 3 8B on a 96 GiB
device, gpu_memory_utilization 0.5, VLLM_GRAPH_RESERVED_MEM 0.4.
"""

from __future__ import annotations

import pytest

from tests.runner.helpers import (
    of_kind,
    only,
    run_simulated,
    seed_settings,
)
from warmup_insights.model.events import (
    BucketsGenerated,
    CaptureSummary,
    GraphBudgetSet,
    GraphCaptured,
    GraphSkipped,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.units import GIB, MIB, format_bytes

PROMPTS_IN_LOG = [
    (1, 128), (1, 256), (1, 384), (1, 512), (1, 640), (1, 768), (1, 896), (1, 1024),
    (2, 128), (2, 256), (2, 384), (2, 512), (2, 640), (4, 128), (4, 256),
]  # fmt: skip
DECODES_IN_LOG = [(b, s) for b in (1, 2, 4) for s in range(128, 2049, 128)]


@pytest.fixture(scope="module")
def events():
    outcome, found = run_simulated()
    assert outcome.status == "finished"
    return found


def test_the_buckets_are_those_of_the_log(events):
    prompt, decode = of_kind(events, BucketsGenerated)
    assert (prompt.count, decode.count) == (24, 48)
    assert prompt.buckets == [(b, s) for b in (1, 2, 4) for s in range(128, 1025, 128)]
    assert decode.buckets == DECODES_IN_LOG


def test_the_memory_lines_are_those_of_the_log(events):
    """Every figure of the log, in the digits that it prints."""
    weights, profile, cache = of_kind(events, MemoryMeasured)
    assert format_bytes(weights.delta_bytes) == "14.97 GiB"
    assert format_bytes(weights.total_bytes) == "94.62 GiB"
    assert format_bytes(profile.delta_bytes) == "504 MiB"
    assert format_bytes(profile.used_bytes) == "15.46 GiB"
    assert format_bytes(cache.delta_bytes) == "23.73 GiB"
    assert format_bytes(cache.used_bytes) == "39.2 GiB"
    budget = only(events, MemoryBudgetSet)
    assert [
        format_bytes(value)
        for value in (
            budget.free_bytes,
            budget.usable_bytes,
            budget.graph_reserved_bytes,
            budget.kv_cache_bytes,
        )
    ] == ["79.16 GiB", "39.58 GiB", "15.83 GiB", "23.75 GiB"]
    assert only(events, KVCacheAllocated).num_blocks == 1519


def test_the_graph_budget_is_that_of_the_log(events):
    """The documentation multiplied the rounded 15.85 by hand: 4.755 for 4.754."""
    budget = only(events, GraphBudgetSet)
    assert format_bytes(budget.total_bytes) == "15.85 GiB"
    assert format_bytes(budget.free_bytes) == "55.43 GiB"
    assert budget.prompt_bytes / GIB == pytest.approx(4.755, abs=0.0016)
    assert budget.decode_bytes / GIB == pytest.approx(11.095, abs=0.0036)


def test_the_captured_sets_are_those_of_the_log(events):
    prompt, decode = of_kind(events, CaptureSummary)
    assert prompt.buckets == PROMPTS_IN_LOG
    assert (prompt.captured_reported, prompt.percent_reported) == (15, 62.5)
    assert format_bytes(prompt.used_bytes) == "14.03 GiB"
    assert decode.buckets == DECODES_IN_LOG
    assert decode.percent_reported == 100.0
    assert format_bytes(decode.used_bytes) == "161.9 MiB"
    assert len(of_kind(events, GraphSkipped)) == 9
    finished = only(events, WarmupFinished)
    assert format_bytes(finished.allocated_bytes) == "14.19 GiB"


def test_the_ratio_of_the_original_run_gives_its_order():
    """With ratio 0.5 as it ran, 11 prompts come before the decodes and 4 after."""
    _, events = run_simulated(seed_settings(graph_prompt_ratio=0.5))
    captured = of_kind(events, GraphCaptured)
    assert [event.phase for event in captured] == (
        ["prompt"] * 11 + ["decode"] * 48 + ["prompt"] * 4
    )
    assert captured[10].bucket == (1, 896)
    assert [(event.index, event.bucket) for event in captured[-4:]] == [
        (12, (4, 256)), (13, (2, 512)), (14, (1, 1024)), (15, (2, 640)),
    ]  # fmt: skip
    assert format_bytes(only(events, GraphBudgetSet).prompt_bytes) == "7.923 GiB"
    steps = [step for step in of_kind(events, WarmupStep) if step.mode == "graph"]
    free = [format_bytes(steps[i].free_before_bytes) for i in (0, 10, 11, 59)]
    assert free == ["55.43 GiB", "48.77 GiB", "47.51 GiB", "47.35 GiB"]


def test_the_buckets_run_in_the_order_of_the_log(events):
    """First and last lines of the warm-up steps in the document."""
    steps = [step for step in of_kind(events, WarmupStep) if step.mode == "eager"]
    prompts = [step.bucket for step in steps if step.phase == "prompt"]
    decodes = [step.bucket for step in steps if step.phase == "decode"]
    assert prompts[:3] == [(4, 1024), (4, 896), (4, 768)]
    assert prompts[-1] == (1, 128)
    assert decodes[:3] == [(4, 2048), (4, 1920), (4, 1792)]
    assert decodes[-2:] == [(2, 128), (1, 128)]


def test_the_times_are_near_those_of_the_log(events):
    """Whole seconds in the log: 28 s of eager steps, 21 s of graphs, 49 s in all."""
    spans = {}
    for mark in of_kind(events, PhaseMarked):
        if mark.edge == "end":
            spans[mark.name] = spans.get(mark.name, 0.0) + mark.duration_s
    assert spans["prompt_warmup"] + spans["decode_warmup"] == pytest.approx(28, abs=1.5)
    assert spans["prompt_graphs"] + spans["decode_graphs"] == pytest.approx(21, abs=1.5)
    assert only(events, WarmupFinished).duration_s == pytest.approx(49, abs=2)


def test_a_larger_device_captures_more():
    """The costs are functions: other settings give other sets, not the log's."""
    _, events = run_simulated(seed_settings(gpu_memory_utilization=0.9))
    prompt, _ = of_kind(events, CaptureSummary)
    assert 15 < prompt.captured_reported < 24
    _, events = run_simulated(seed_settings(graph_reserved_mem=0.1))
    prompt, _ = of_kind(events, CaptureSummary)
    assert prompt.captured_reported < 15


def test_a_simulated_run_says_so(events):
    started = only(events, RunStarted)
    assert started.synthetic is True
    assert started.device_kind == "simulated"
    assert "simulated" in started.device_name


def test_graph_memory_is_linear_in_tokens_beyond_a_base():
    from warmup_insights.devices.simulated import PROFILES
    from warmup_insights.rules.model_shape import PRESETS
    from warmup_insights.runner.costs import GRAPH_BASE_BYTES, CostModel

    costs = CostModel(PRESETS["llama-3-8b"], "bfloat16", 128, PROFILES["gaudi2"])
    one = costs.graph_bytes((1, 128, 0)) - GRAPH_BASE_BYTES
    ten = costs.graph_bytes((10, 128, 0)) - GRAPH_BASE_BYTES
    assert ten == pytest.approx(10 * one, rel=1e-6)
    assert one / 128 == pytest.approx(1.439 * MIB, rel=1e-3)
