"""A whole start-up of the stand-in under the plugin, in three ranges of versions."""

from __future__ import annotations

import itertools

import pytest

from tests.vllm_plugin.running import VERSIONS, run_standin
from warmup_insights.model.events import (
    BucketsGenerated,
    GraphCaptured,
    PhaseMarked,
    WarmupStep,
)

PARTS = ("sampler_warmup", "defrag_warmup", "prompt_warmup", "decode_warmup")


@pytest.fixture(scope="module", params=VERSIONS)
def ran(request, tmp_path_factory):
    return run_standin(
        request.param, tmp_path_factory.mktemp(request.param), drained=True
    )


def steps_of(ran, phase, **more):
    return ran.steps(phase, **more)


def ends_of(ran, **more):
    marks = ran.events("phase_marked", **more)
    return {mark.name: mark.duration_s for mark in marks if mark.edge == "end"}


def test_engine_works_as_without(ran, tmp_path):
    plain = run_standin(ran.version, tmp_path, records=False)
    assert ran.exit_code == plain.exit_code == 0
    assert ran.tokens == plain.tokens
    assert not plain.database.exists()


def test_one_run_with_engine_model_and_device(ran):
    (run,) = ran.runs()
    assert run.engine == "vllm-gaudi"
    assert run.version in ("0.10.1", "0.13.0", "0.26.0")
    assert run.model == "standin/tiny"
    assert run.device_kind == "hpu"
    assert run.status == "finished"
    assert run.synthetic


@pytest.mark.parametrize("phase", ["prompt", "decode"])
def test_every_bucket_has_one_complete_step(ran, phase):
    (generated,) = [e for e in ran.events("buckets_generated") if e.phase == phase]
    steps = steps_of(ran, phase)
    assert [step.bucket for step in steps] == generated.buckets[::-1]
    assert [step.index for step in steps] == list(range(1, generated.count + 1))
    for step in steps:
        assert step.is_finished
        assert step.duration_s >= 0.001
        assert 0 < step.gc_s < step.duration_s
        assert step.free_before_bytes - step.free_after_bytes == step.memory_bytes
        assert step.executed is not None
        assert step.mode == "graph"


def test_memory_and_compilation_belong_to_the_bucket_that_caused_them(ran):
    steps = steps_of(ran, "prompt") + steps_of(ran, "decode")
    for step in steps:
        assert step.memory_bytes == step.compiled * 8 * 2**20
    graphs = ran.events("graph_captured")
    assert len(graphs) == sum(step.compiled for step in steps)
    assert {(g.phase, g.executed) for g in graphs} == {
        (step.phase, step.executed) for step in steps
    }


def test_what_the_bridge_counts_is_noted_when_the_warm_up_is_over(ran):
    notes = {
        n.topic: n
        for n in ran.events("note")
        if n.topic.startswith("bridge_") and n.text.endswith("the end of the warm-up")
    }
    steps = ran.steps()
    compiled = notes["bridge_graph_compilation"]
    assert compiled.values["compiled"] >= sum(s.compiled for s in steps if s.compiled)
    assert notes["bridge_cpu_fallback"].values["operators"] == {"aten::sort": 2}
    assert notes["bridge_memory_defragmentation"].values["count"] == 0
    assert notes["bridge_pool"].values["peak_bytes"] > 0
    assert "bridge_recipe_cache" not in notes  # registered with a variable only
    late = [n for n in ran.events("note") if n.text.endswith("by the end of serving")]
    assert {n.topic for n in late} <= {"bridge_graph_compilation", "bridge_pool"}


def test_a_graph_is_the_cost_of_the_step_that_made_it(ran):
    """Same rank, phase, bucket and time: whoever adds up counts one of them."""
    steps = {(s.rank, s.phase, s.bucket, s.time): s for s in ran.steps()}
    graphs = ran.events("graph_captured")
    for graph in graphs:
        step = steps[graph.rank, graph.phase, graph.bucket, graph.time]
        assert step.compiled == 1
        for name in ("duration_s", "memory_bytes", "executed", "index", "total"):
            assert getattr(graph, name) == getattr(step, name)
    shapes = [(graph.phase, graph.executed) for graph in graphs]
    assert len(shapes) == len(set(shapes))


def test_a_step_is_recorded_when_it_begins_and_when_it_has_ended(ran):
    """In this order, with the graph behind it; the beginning has no cost."""
    events = ran.events("warmup_step", "graph_captured")
    steps = [event for event in events if isinstance(event, WarmupStep)]
    assert [step.is_finished for step in steps] == [False, True] * (len(steps) // 2)
    for began, ended in zip(steps[::2], steps[1::2], strict=True):
        assert (began.bucket, began.time, began.index) == (
            ended.bucket, ended.time, ended.index,
        )  # fmt: skip
        assert began.duration_s is began.memory_bytes is None
    for before, event in itertools.pairwise(events):
        if isinstance(event, GraphCaptured):
            assert (before.bucket, before.time) == (event.bucket, event.time)


def test_time_of_compilation_is_that_of_the_step(ran):
    for step in ran.steps():
        assert step.compile_s == pytest.approx(0.0015 * step.compiled)


def test_phases_of_the_warmup_sum_to_it(ran):
    ends = ends_of(ran)
    (finished,) = ran.events("warmup_finished")
    parts = sum(ends.get(name, 0.0) for name in PARTS)
    assert parts == pytest.approx(finished.duration_s, rel=0.1)
    assert parts <= finished.duration_s
    assert 0 < finished.gc_s < finished.duration_s
    assert finished.duration_s <= ends["warmup"]
    for phase in ("prompt", "decode"):
        inside = sum(step.duration_s for step in steps_of(ran, phase))
        assert inside <= ends[f"{phase}_warmup"]


def test_every_phase_that_begins_also_ends(ran):
    open_ended = {"import", "start_engine", "start_workers"}  # the next event ends them
    opened = []
    for mark in ran.events("phase_marked"):
        if mark.name in open_ended:
            continue
        if mark.edge == "start":
            opened.append(mark.name)
        else:
            assert opened.pop() == mark.name
    assert opened == []


def test_memory_budget_is_that_of_the_engine(ran):
    (budget,) = ran.events("memory_budget_set")
    measured = {e.stage: e for e in ran.events("memory_measured")}
    assert measured["weights"].delta_bytes == 3 * 2**30
    assert measured["profile_run"].delta_bytes == 504 * 2**20
    assert measured["kv_cache"].delta_bytes == 65 * 32 * 2**20  # 64 and the padding
    assert budget.free_bytes == measured["profile_run"].free_bytes
    assert budget.usable_bytes == budget.free_bytes // 2
    assert budget.graph_reserved_bytes == int(budget.usable_bytes * 0.1)
    assert budget.kv_cache_bytes == int(budget.usable_bytes * 0.9) - 32 * 2**20


def test_kv_cache_blocks_and_concurrency(ran):
    blocks = [e for e in ran.events("kv_cache_allocated") if e.num_blocks is not None]
    assert [(e.num_blocks, e.block_size) for e in blocks] == [(64, 128)]
    assert [e.num_padding_blocks for e in blocks] == [1]
    (times,) = [e for e in ran.events("kv_cache_allocated") if e.max_concurrency]
    assert (times.max_concurrency, times.tokens_per_request) == (8.0, 1024)
    assert {times.num_tokens, blocks[0].num_tokens} == {8192, None}


def test_misses_equal_those_of_the_log(ran):
    misses = ran.events("bucket_miss")
    fallbacks = [e for e in misses if e.fallback is not None]
    assert len(misses) - len(fallbacks) == ran.stdout.count("was not warmed-up!")
    assert len(fallbacks) == ran.stdout.count("was not prepared")
    for miss in fallbacks:
        assert f"{miss.shape} was not prepared. Adding new bucket: {miss.fallback}" in (
            ran.stdout
        )


def test_nothing_is_missing_and_nothing_was_taken_off(ran):
    notes = [e for e in ran.events("note") if not e.topic.startswith("bridge_")]
    assert notes == []
    assert "warmup" not in ran.stderr


def test_events_of_a_rank_come_in_the_order_of_time(ran):
    ended = [
        event.time
        + ((event.duration_s or 0.0) if isinstance(event, WarmupStep) else 0.0)
        for event in ran.events(rank=0)
        if isinstance(event, WarmupStep | BucketsGenerated | PhaseMarked)
    ]
    assert all(b >= a - 0.001 for a, b in itertools.pairwise(ended))
