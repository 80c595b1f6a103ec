"""Serving: same tokens whatever graphs, defragmentation and capture strategy do."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runner.dense import dense_greedy
from tests.runner.helpers import of_kind, only, simulated_device, weights_of
from warmup_insights.devices.cpu import CpuDevice
from warmup_insights.model.events import (
    BenchmarkResult,
    BucketMiss,
    BucketUsed,
    ConfigRecorded,
    DefragRan,
    GraphCaptured,
    GraphSkipped,
    LazyCapture,
    Note,
    ServerReady,
)
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.runner.scheduler import Scheduler, plan_swaps
from warmup_insights.runner.session import Session
from warmup_insights.runner.settings import RunSettings
from warmup_insights.runner.simulated_engine import SimulatedEngine
from warmup_insights.runner.workload import Request, WorkloadSettings
from warmup_insights.units import MIB

SMALL = {
    "block_size": 8,
    "max_model_len": 96,
    "max_num_seqs": 4,
    "max_num_batched_tokens": 48,
    "graph_reserved_mem": 0.5,
}
WORK = WorkloadSettings(num_prompts=8, input_len=30, output_len=12, sigma=0.7, seed=3)


def serve(work=WORK, device=None, budget=96 * MIB, **changes):
    events = []
    device = device or CpuDevice(budget)
    session = Session(device, RunSettings(**{**SMALL, **changes}), events.append, work)
    outcome = session.run()
    device.close()
    assert outcome.status == "finished", outcome.error
    return session, events


@pytest.fixture(scope="module")
def plain():
    """No graphs, no defragmentation."""
    return serve(capture_strategy="none", defrag=False)


def test_tokens_equal_the_dense_decoder(plain):
    """Batching, padding, splitting and paging change no token."""
    session, _ = plain
    weights = weights_of(session.engine)
    for request in session.requests[:6]:
        expected = dense_greedy(
            weights, session.shape, list(request.prompt), request.output_len
        )
        assert session.tokens[request.request_id] == expected


def test_long_prompts_run_in_parts_with_context(plain):
    """The token budget is below the longest prompt, so some steps have context."""
    session, events = plain
    assert max(len(request.prompt) for request in session.requests) > 48
    used = [e for e in of_kind(events, BucketUsed) if e.phase == "prompt"]
    assert any(event.shape[2] > 0 for event in used)


@pytest.mark.long
@pytest.mark.parametrize(
    "changes",
    [
        {"capture_strategy": "startup"},
        {"capture_strategy": "delayed"},
        {"capture_strategy": "lazy"},
        {"enforce_eager": True},
        {"skip_warmup": True, "capture_strategy": "none"},
        {"defrag_threshold": 0},
        {"defrag_threshold": 0, "defrag_with_graphs": True, "capture_strategy": "lazy"},
        {
            "environment": {"VLLM_CONTIGUOUS_PA": "true"},
            "defrag_threshold": 2,
            "gpu_memory_utilization": 0.03,
        },
        {"bucket_dimensions": 2},
        {"environment": {"VLLM_PROMPT_BS_BUCKET_MAX": "4"}},
    ],
    ids=lambda changes: "-".join(f"{k}={v}" for k, v in changes.items()),
)
def test_greedy_tokens_do_not_depend_on_how_steps_are_run(plain, changes):
    if changes == {"skip_warmup": True, "capture_strategy": "none"}:
        events = []
        session = Session(
            CpuDevice(96 * MIB),
            RunSettings(**{**SMALL, **changes}),
            events.append,
            WORK,
        )
        assert session.run().status == "skipped"
    else:
        session, events = serve(**changes)
    assert session.tokens == plain[0].tokens
    if changes.get("defrag_threshold") == 0:
        assert of_kind(events, DefragRan)


def test_defragmentation_lowers_the_highest_block():
    _, events = serve(defrag_threshold=4)
    runs = of_kind(events, DefragRan)
    assert runs
    for run in runs:
        assert run.max_id_before - 4 > run.num_used
        assert run.max_id_after < run.max_id_before
        assert run.swapped <= run.padded


def test_lazy_captures_only_what_is_used_and_each_once():
    _, events = serve(capture_strategy="lazy")
    used = {(event.phase, event.bucket) for event in of_kind(events, BucketUsed)}
    captured = [(event.phase, event.bucket) for event in of_kind(events, GraphCaptured)]
    assert len(captured) == len(set(captured)) == len(of_kind(events, LazyCapture))
    assert set(captured) == used
    ready = only(events, ServerReady).time
    assert all(event.time > ready for event in of_kind(events, GraphCaptured))


@pytest.mark.long
def test_delayed_captures_the_largest_first_then_the_step_at_hand_or_the_largest():
    """The rule of the proposal, replayed over the steps that really ran."""
    session, events = serve(capture_strategy="delayed", budget=400 * MIB)
    missing = [
        (phase, bucket)
        for phase in ("prompt", "decode")
        for bucket in session.warmup.buckets.of(phase)
    ]
    missing.sort(
        key=lambda item: (item[0] != "prompt", -item[1][0] * item[1][1], item[1])
    )
    captured = of_kind(events, GraphCaptured)
    assert (captured[0].phase, captured[0].bucket) == missing.pop(0)
    assert captured[0].time < only(events, ServerReady).time
    later = iter(captured[1:])
    for step in of_kind(events, BucketUsed):
        if not missing:
            break
        at_hand = (step.phase, step.bucket)
        wanted = at_hand if at_hand in missing else missing[0]
        got = next(later)
        assert (got.phase, got.bucket) == wanted
        assert got.time <= step.time
        missing.remove(wanted)
    assert next(later, None) is None


@pytest.mark.long
def test_capturing_is_switched_off_when_all_is_captured():
    longer = replace(WORK, num_prompts=14)
    _, events = serve(longer, capture_strategy="delayed", budget=400 * MIB)
    off = [e for e in of_kind(events, Note) if e.topic == "graph_capture_off"]
    assert len(off) == 1
    assert "nothing is left" in off[0].text
    last = max(event.time for event in of_kind(events, GraphCaptured))
    assert last <= off[0].time


def test_delayed_warns_when_the_memory_will_not_suffice():
    _, events = serve(capture_strategy="delayed", budget=40 * MIB)
    note = next(e for e in of_kind(events, Note) if e.topic == "graph_memory")
    assert note.values["expected_bytes"] > note.values["left_bytes"]
    assert note.time < only(events, ServerReady).time
    assert of_kind(events, GraphSkipped)


def test_a_shape_beyond_all_buckets_is_a_miss_and_runs():
    """Decode buckets end at 8 blocks of the batch: longer batches are misses."""
    session, events = serve(
        environment={
            "VLLM_BUCKETING_STRATEGY": "lin",
            "VLLM_DECODE_BLOCK_BUCKET_MAX": "8",
        },
        capture_strategy="none",
    )
    misses = of_kind(events, BucketMiss)
    assert misses
    assert len(session.tokens) == WORK.num_prompts
    for miss in misses:
        assert all(
            have >= need for have, need in zip(miss.fallback, miss.shape, strict=True)
        )


def test_the_sampler_hears_when_the_batch_changed(monkeypatch):
    """True for the first step and whenever the requests of a step are others."""
    seen = []
    step = SimulatedEngine.step

    def spy(self, phase, bucket, rows, sampling, *, batch_changed):
        seen.append((phase, len(rows), batch_changed))
        return step(self, phase, bucket, rows, sampling, batch_changed=batch_changed)

    monkeypatch.setattr(SimulatedEngine, "step", spy)
    work = WorkloadSettings(num_prompts=1, input_len=40, output_len=4, sigma=0)
    serve(work, device=simulated_device())
    assert [changed for _, _, changed in seen] == [True, False, False, False]
    seen.clear()
    work = WorkloadSettings(num_prompts=2, input_len=40, output_len=3, sigma=0)
    serve(work, device=simulated_device())
    assert [changed for _, _, changed in seen] == [True, True, True, False]


@pytest.mark.long
def test_every_used_bucket_covers_its_step():
    _, events = serve()
    for event in of_kind(events, BucketUsed):
        assert all(b >= s for b, s in zip(event.bucket, event.shape, strict=True))


def test_the_result_counts_what_was_served(plain):
    session, events = plain
    values = only(events, BenchmarkResult).values
    assert values["completed"] == WORK.num_prompts
    assert values["total_input_tokens"] == sum(len(r.prompt) for r in session.requests)
    assert values["total_output_tokens"] == sum(r.output_len for r in session.requests)
    assert values["request_rate"] == "inf"
    assert values["mean_ttft_ms"] > 0


def test_the_workload_is_part_of_the_configuration(plain):
    _, events = plain
    config = only(events, ConfigRecorded).settings
    assert config["serve_num_prompts"] == WORK.num_prompts
    assert config["serve_request_rate"] == "inf"
    assert config["capture_strategy"] == "none"


def test_the_time_to_the_first_token_includes_waiting():
    """On the simulated clock: four arrivals far apart never wait for each other."""
    work = WorkloadSettings(num_prompts=4, request_rate=0.001, input_len=30, sigma=0)
    _, events = serve(work, device=simulated_device())
    values = only(events, BenchmarkResult).values
    assert values["duration"] > 100
    assert values["mean_ttft_ms"] < 1000
    together = WorkloadSettings(
        num_prompts=4, request_rate=math.inf, input_len=30, sigma=0
    )
    _, events = serve(together, device=simulated_device())
    burst = only(events, BenchmarkResult).values
    assert burst["mean_ttft_ms"] > values["mean_ttft_ms"]


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(
    lengths=st.lists(
        st.tuples(st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=9
    ),
    num_blocks=st.integers(12, 30),
    max_num_seqs=st.integers(1, 5),
    rows=st.integers(1, 4),
    budget=st.integers(8, 80),
)
def test_the_scheduler_finishes_every_request_and_leaks_no_block(
    lengths, num_blocks, max_num_seqs, rows, budget
):
    """With little memory requests are preempted, but all end, and all blocks return."""
    layout = CacheLayout(num_blocks, 8)
    scheduler = Scheduler(
        layout,
        max_num_seqs=max_num_seqs,
        max_prefill_seqs=rows,
        max_num_batched_tokens=budget,
        can_split=True,
    )
    for number, (prompt, output) in enumerate(lengths):
        scheduler.add(Request(number, 0.0, tuple(range(prompt)), output))
    finished, cache = {}, {}
    for _ in range(10_000):
        if not scheduler.has_work:
            break
        step = scheduler.next_step()
        assert step.parts
        assert len(scheduler.running) <= max_num_seqs
        if step.phase == "prompt":
            assert len(step.parts) <= rows
        blocks = [block for sequence in scheduler.running for block in sequence.blocks]
        assert len(blocks) == len(set(blocks))
        assert set(blocks) == scheduler.pool.used
        swap(scheduler, cache)
        for sequence, count in step.parts:
            compute(sequence, count, cache)
        scheduler.finish_step(step, [7] * len(step.parts), 1.0)
        for sequence, _ in step.parts:
            if sequence.is_finished:
                finished[sequence.request.request_id] = sequence.num_generated
    assert finished == {number: output for number, (_, output) in enumerate(lengths)}
    assert scheduler.pool.num_free == num_blocks


def swap(scheduler, cache):
    """Move the contents of the cache as a defragmentation does."""
    plan = plan_swaps(scheduler.pool.used, 0, range(30))
    for used, free in plan.pairs if plan else ():
        for offset in range(8):
            cache[free * 8 + offset] = cache.pop(used * 8 + offset, None)
    if plan:
        scheduler.apply_swaps(plan.pairs)


def compute(sequence, count, cache):
    """What is in the cache is what the sequence computed; then it computes more."""
    request_id = sequence.request.request_id
    for position in range(sequence.num_computed + count):
        slot = sequence.blocks[position // 8] * 8 + position % 8
        if position < sequence.num_computed:
            assert cache[slot] == (request_id, position)
        cache[slot] = (request_id, position)
