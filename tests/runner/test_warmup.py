"""The start-up: its steps in order, their events, and how it fails."""

from __future__ import annotations

import pytest

from tests.runner.helpers import (
    of_kind,
    only,
    run_simulated,
    seed_settings,
    simulated_device,
)
from warmup_insights.devices.base import DeviceOutOfMemory
from warmup_insights.devices.cpu import CpuDevice
from warmup_insights.errors import DeviceError, InputError, SettingError
from warmup_insights.model.events import (
    BucketsGenerated,
    BucketsOmitted,
    CaptureSummary,
    ConfigRecorded,
    DefragWarmup,
    Failure,
    GraphCaptured,
    GraphsCaptured,
    GraphSkipped,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    RunFinished,
    RunStarted,
    SamplerWarmup,
    ServerReady,
    ShutdownRequested,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.rules.memory import MemoryBudget, make_layout
from warmup_insights.runner.engine import Emitter
from warmup_insights.runner.session import Session
from warmup_insights.runner.settings import RunSettings
from warmup_insights.units import GIB, MIB

SMALL = {
    "block_size": 16,
    "max_model_len": 64,
    "max_num_seqs": 2,
    "max_num_batched_tokens": 64,
}


def run_cpu(budget=64 * MIB, **changes):
    events = []
    device = CpuDevice(budget)
    outcome = Session(device, RunSettings(**{**SMALL, **changes}), events.append).run()
    device.close()
    return outcome, events


@pytest.fixture(scope="module")
def events():
    outcome, found = run_cpu()
    assert outcome.status == "finished"
    return found


def test_the_phases_come_in_order_and_end(events):
    marks = [(mark.name, mark.edge) for mark in of_kind(events, PhaseMarked)]
    names = [name for name, edge in marks if edge == "start"]
    assert names[:9] == [
        "load_model", "profile_run", "kv_cache", "bucket_generation", "sampler_warmup",
        "defrag_warmup", "prompt_warmup", "decode_warmup", "prompt_graphs",
    ]  # fmt: skip
    assert "decode_graphs" in names
    assert marks == [(n, edge) for n in names for edge in ("start", "end")]


def test_first_and_last_events(events):
    assert isinstance(events[0], RunStarted)
    assert events[0].engine == "reference"
    assert events[0].synthetic is False
    assert isinstance(events[1], ConfigRecorded)
    assert isinstance(events[-1], RunFinished)
    assert events[-1].status == "finished"


def test_every_event_has_a_time(events):
    assert all(event.time is not None for event in events)


def test_every_bucket_runs_once_the_largest_first(events):
    for generated in of_kind(events, BucketsGenerated):
        steps = [
            step
            for step in of_kind(events, WarmupStep)
            if step.phase == generated.phase and step.mode == "eager"
        ]
        assert [step.bucket for step in steps] == generated.buckets[::-1]
        assert [step.index for step in steps] == list(range(1, len(steps) + 1))
        assert all(step.total == len(steps) for step in steps)
        assert all(step.is_finished and step.duration_s > 0 for step in steps)
        assert all(step.free_before_bytes and step.free_after_bytes for step in steps)


def test_stages_tell_memory_before_and_after(events):
    stages = {event.stage: event for event in of_kind(events, MemoryMeasured)}
    assert set(stages) == {"weights", "profile_run", "kv_cache"}
    for event in stages.values():
        assert event.used_bytes + event.free_bytes == event.total_bytes == 64 * MIB
        assert event.duration_s > 0
    # 2048 x 128 twice, and two layers: 3.4 MiB of float32 parameters.
    assert stages["weights"].delta_bytes == pytest.approx(3.4 * MIB, abs=MIB)
    cache = only(events, KVCacheAllocated)
    assert stages["kv_cache"].delta_bytes == pytest.approx(
        (cache.num_blocks + 1) * 16 * 2 * 64 * 4 * 2, rel=0.02
    )


def test_the_budget_is_divided_as_the_engines_do_it(events):
    budget = only(events, MemoryBudgetSet)
    assert budget.usable_bytes == int(budget.free_bytes * 0.9)
    assert budget.graph_reserved_bytes == int(budget.usable_bytes * 0.1)
    block = 16 * 2 * 64 * 4 * 2
    rest = budget.usable_bytes - budget.graph_reserved_bytes - block
    assert budget.kv_cache_bytes == rest
    assert only(events, KVCacheAllocated).num_blocks == rest // block


def test_graphs_stay_within_their_budget(events):
    """The sum may pass it by the error of one estimate, not more."""
    captured = of_kind(events, GraphCaptured)
    summary = {event.phase: event for event in of_kind(events, CaptureSummary)}
    for phase, event in summary.items():
        mine = [graph for graph in captured if graph.phase == phase]
        assert sorted(graph.bucket for graph in mine) == event.buckets
        assert event.used_bytes == sum(graph.memory_bytes for graph in mine)
    total = only(events, GraphsCaptured)
    assert total.count == len(captured)
    assert total.memory_bytes == sum(event.used_bytes for event in summary.values())


def test_captured_and_skipped_make_all_buckets(events):
    for generated in of_kind(events, BucketsGenerated):
        graphs = [
            event.bucket
            for event in of_kind(events, GraphCaptured, GraphSkipped)
            if event.phase == generated.phase
        ]
        assert sorted(graphs) == generated.buckets


def test_a_small_reserve_skips_and_says_why():
    outcome, events = run_cpu(graph_reserved_mem=0.001)
    assert outcome.status == "finished"
    skipped = of_kind(events, GraphSkipped)
    assert skipped
    for event in skipped:
        assert event.estimate_bytes >= event.available_bytes
        assert "estimate" in event.reason


def test_three_counters_of_graph_memory_stand_side_by_side(events):
    note = next(e for e in of_kind(events, Note) if e.topic == "graph_memory_counters")
    used = sum(event.memory_bytes for event in of_kind(events, GraphCaptured))
    assert note.values["storage_bytes"] == pytest.approx(used, rel=0.25, abs=MIB)
    assert note.values["resident_bytes"] > note.values["storage_bytes"]


def test_a_skipped_warm_up_goes_straight_to_ready():
    outcome, events = run_cpu(skip_warmup=True)
    assert outcome.status == "skipped"
    assert only(events, WarmupFinished).skipped
    assert of_kind(events, WarmupStep, SamplerWarmup, DefragWarmup, GraphCaptured) == []
    assert of_kind(events, ServerReady)
    assert events[-1].status == "skipped"


def test_eager_mode_reserves_nothing_and_captures_nothing():
    """As the documentation has it: no graphs, no separate sampler warm-up."""
    outcome, events = run_cpu(enforce_eager=True)
    assert outcome.status == "finished"
    assert only(events, MemoryBudgetSet).graph_reserved_bytes == 0
    assert of_kind(events, GraphCaptured, SamplerWarmup, CaptureSummary) == []
    assert of_kind(events, WarmupStep)


def test_prompts_beyond_the_token_budget_are_omitted():
    settings = seed_settings(max_num_batched_tokens=2048)
    _, events = run_simulated(settings)
    omitted = only(events, BucketsOmitted)
    assert omitted.count == len(omitted.buckets) == 24 - 20
    assert all(b * s > 2048 for b, s in omitted.buckets)
    assert "2048" in omitted.reason


class TestFailure:
    def test_out_of_memory_in_a_bucket_names_it_and_both_figures(self):
        """A long context needs more than the margin leaves."""
        settings = seed_settings(
            bucket_dimensions=3,
            gpu_memory_utilization=1.0,
            graph_reserved_mem=0.0,
            max_num_batched_tokens=128,
            max_num_seqs=512,
        )
        outcome, events = run_simulated(settings)
        assert outcome.status == "failed"
        failure = only(events, Failure)
        assert failure.failure == "out_of_memory"
        assert failure.phase == "decode"
        assert len(failure.bucket) == 3
        assert failure.needed_bytes > failure.free_bytes
        assert str(failure.bucket) in failure.message
        assert str(failure.bucket) in outcome.error
        assert events[-1] == RunFinished(status="failed", time=events[-1].time)
        last = of_kind(events, WarmupStep)[-1]
        assert (last.bucket, last.is_finished) == (failure.bucket, False)
        assert of_kind(events, BucketsGenerated)

    def test_a_model_larger_than_the_device_fails_at_loading(self):
        outcome, events = run_simulated(seed_settings(model="llama-3.1-70b"))
        failure = only(events, Failure)
        assert (failure.failure, failure.phase) == ("out_of_memory", "load_model")
        assert failure.needed_bytes > 130 * GIB
        assert outcome.error == failure.message

    def test_the_model_does_not_fit_a_small_cpu_budget(self):
        outcome, events = run_cpu(budget=2 * MIB)
        assert outcome.status == "failed"
        assert only(events, Failure).phase == "load_model"

    def test_no_room_for_a_sequence_is_one_sentence(self):
        outcome, events = run_simulated(
            seed_settings(gpu_memory_utilization=0.001), simulated_device()
        )
        failure = only(events, Failure)
        assert failure.failure == "no_kv_cache"
        assert failure.free_bytes > 70 * GIB
        assert "--gpu-memory-utilization" in outcome.error
        assert ". " not in outcome.error

    def test_ctrl_c_keeps_the_events_and_stops_the_run(self):
        events = []

        def sink(event):
            events.append(event)
            if isinstance(event, WarmupStep) and event.index == 3:
                raise KeyboardInterrupt

        outcome = Session(simulated_device(), seed_settings(), sink).run()
        assert outcome.status == "stopped"
        assert outcome.error.startswith("interrupted by SIGINT in prompt (")
        assert of_kind(events, Failure) == []
        assert only(events, ShutdownRequested).in_start
        assert len(of_kind(events, WarmupStep)) == 3
        assert events[-1].status == "stopped"

    def test_an_unexpected_error_fails_the_run_and_is_raised(self, monkeypatch):
        events = []
        session = Session(simulated_device(), seed_settings(), events.append)
        monkeypatch.setattr(session.engine, "load_model", lambda: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            session.run()
        assert only(events, Failure).message == "ZeroDivisionError: division by zero"
        assert events[-1].status == "failed"

    def test_running_out_while_capturing_names_the_graph(self, monkeypatch):
        events = []
        session = Session(simulated_device(), seed_settings(), events.append)
        capture = session.engine.capture_bucket

        def fail(phase, bucket):
            if bucket == (2, 256):
                raise DeviceOutOfMemory(needed_bytes=5, free_bytes=4)
            capture(phase, bucket)

        monkeypatch.setattr(session.engine, "capture_bucket", fail)
        assert session.run().status == "failed"
        failure = only(events, Failure)
        assert (failure.phase, failure.bucket) == ("prompt", (2, 256))
        assert (failure.needed_bytes, failure.free_bytes) == (5, 4)
        assert of_kind(events, GraphCaptured)


class TestSettings:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"block_size": 0}, "block_size=0"),
            ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization=1.5"),
            ({"graph_reserved_mem": -0.1}, "VLLM_GRAPH_RESERVED_MEM=-0.1"),
            ({"graph_prompt_ratio": 2}, "VLLM_GRAPH_PROMPT_RATIO=2"),
            ({"graph_prompt_strategy": "best"}, "graph strategy 'best'"),
            ({"capture_strategy": "never"}, "capture strategy 'never'"),
            ({"dtype": "int4"}, "dtype 'int4'"),
            ({"bucket_dimensions": 4}, "4 dimensions"),
            ({"defrag_threshold": -1}, "VLLM_DEFRAG_THRESHOLD=-1"),
        ],
    )
    def test_a_bad_value_is_named(self, changes, words):
        with pytest.raises(SettingError) as caught:
            RunSettings(**changes)
        assert words in str(caught.value)

    def test_nan_is_no_share(self):
        with pytest.raises(SettingError):
            RunSettings(gpu_memory_utilization=float("nan"))


class TestMemory:
    def budget(self, free=1000, own=True, **changes):
        values = {
            "total_bytes": 2000,
            "free_bytes": free,
            "gpu_memory_utilization": 0.9,
            "graph_reserved_fraction": 0.1,
            "block_bytes": 10,
            "has_own_padding": own,
        }
        return MemoryBudget(**{**values, **changes})

    def test_by_hand(self):
        """900 usable, 90 for graphs, 810 left: 80 blocks and the padding block."""
        budget = self.budget()
        assert budget.usable_bytes == 900
        assert budget.margin_bytes in (99, 100)
        assert budget.graph_reserved_bytes == 90
        assert budget.kv_cache_bytes == 800
        assert budget.num_blocks == 80
        layout = make_layout(budget, 16, max_model_len=64)
        assert (layout.num_allocated, layout.padding_block) == (81, 80)
        assert layout.usable_ids == range(80)

    def test_the_v0_scheme_counts_its_padding_block(self):
        layout = make_layout(self.budget(own=False), 16, max_model_len=64)
        assert (layout.num_blocks, layout.num_allocated) == (81, 81)
        assert (layout.padding_block, layout.usable_ids) == (0, range(1, 81))

    def test_too_little_for_one_sequence(self):
        with pytest.raises(DeviceError, match="one sequence of 64 tokens needs 4"):
            make_layout(self.budget(free=50), 16, max_model_len=64)
        assert self.budget(free=0).num_blocks == 0


def test_an_unknown_model_is_named():
    with pytest.raises(SettingError, match=r"'gpt-9'.*tiny"):
        Session(simulated_device(), seed_settings(model="gpt-9"), lambda event: None)


def test_a_broken_bucketing_variable_fails_the_run_with_its_name():
    settings = RunSettings(**SMALL, environment={"VLLM_BUCKETING_STRATEGY": "best"})
    with pytest.raises((SettingError, InputError), match="VLLM_BUCKETING_STRATEGY"):
        Session(simulated_device(), settings, lambda event: None).warmup.start()


def test_an_event_without_a_time_gets_that_of_the_device():
    events, device = [], simulated_device()
    emitter = Emitter(events.append, device)
    device.wait(5.0)
    emitter.emit(Note, topic="t", text="a")
    emitter.emit(Note, topic="t", text="b", time=1.0)
    assert [event.time for event in events] == [device.now(), 1.0]
