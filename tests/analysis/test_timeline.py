"""Time: phases and what no line explains add up to the whole."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import events, summary_of
from warmup_insights.analysis.summary.rank_time import MEASURED, Span, partition
from warmup_insights.model.events import (
    CaptureSummary,
    CompileFinished,
    ConfigRecorded,
    DefragWarmup,
    EngineInitialized,
    Failure,
    GapSeen,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    RunFinished,
    RunStarted,
    ServerReady,
    ShutdownRequested,
    SleepModeChanged,
    WarmupFinished,
    WarmupStep,
)  # fmt: skip


def time_of(*events):
    return summary_of(list(events))["time"]


def totals(time) -> dict[str, float]:
    found: dict[str, float] = {}
    for phase in time["phases"]:
        found[phase["name"]] = found.get(phase["name"], 0.0) + phase["duration_s"]
    return found


def test_the_first_of_several_recorded_servers_is_that_of_the_run():
    time = time_of(RunStarted(time=0.0), ServerReady(time=50.0), ServerReady(time=53.0))
    assert (time["wall_s"], time["ready_at"]) == (50.0, "1970-01-01T00:00:50Z")


def test_measured_span_lies_before_its_line():
    time = time_of(
        RunStarted(time=0.0),
        MemoryMeasured(stage="weights", duration_s=30.0, time=40.0, rank=0),
        ServerReady(time=50.0),
    )
    assert time["phases"][0] == {
        "name": "load_model",
        "start_s": 10.0,
        "duration_s": 30.0,
    }
    assert time["wall_s"] == 50.0
    assert time["ready_at"] == "1970-01-01T00:00:50Z"


def test_an_engine_without_a_server_ends_before_the_process_of_the_next():
    time = time_of(
        PhaseMarked(name="import", edge="start", time=0.0),
        PhaseMarked(name="load_weights", edge="end", duration_s=20.0, time=30.0),
        EngineInitialized(duration_s=22.0, time=56.0),
        ConfigRecorded(device_kind="cuda", time=115.0),
        PhaseMarked(name="import", edge="start", time=115.0),
    )
    assert time["wall_s"] == 56.0
    assert "server_start" not in totals(time)


def test_no_rank_of_an_engine_without_a_server_starts_one():
    time = time_of(
        PhaseMarked(name="load_model", edge="start", time=0.0, rank=0),
        PhaseMarked(name="load_model", edge="start", time=0.0, rank=1),
        PhaseMarked(name="load_model", edge="end", time=20.0, rank=1),
        PhaseMarked(name="load_model", edge="end", time=20.0, rank=0),
        EngineInitialized(duration_s=22.0, time=22.0, rank=0),
        WarmupStep(phase="decode", mode="eager", duration_s=1.0, time=60.0, rank=1),
    )
    assert "server_start" not in totals(time)
    for rank in time["ranks"]:
        assert "server_start" not in {phase["name"] for phase in rank["phases"]}


def test_inner_span_wins_over_the_outer_one():
    time = time_of(
        PhaseMarked(name="load_model", edge="start", time=0.0),
        PhaseMarked(name="load_weights", edge="end", duration_s=20.0, time=25.0),
        MemoryMeasured(stage="weights", duration_s=30.0, time=30.0),
    )
    assert totals(time) == {"load_model": 10.0, "load_weights": 20.0}


def test_slower_rank_explains_what_rank_0_does_not():
    time = time_of(
        PhaseMarked(name="load_model", edge="start", time=0.0, rank=0),
        PhaseMarked(name="distributed_init", edge="start", time=0.0, rank=1),
        PhaseMarked(name="load_model", edge="end", time=10.0, rank=0),
        PhaseMarked(name="load_model", edge="end", time=60.0, rank=1),
        CompileFinished(what="total", duration_s=20.0, time=80.0, rank=0),
    )
    assert totals(time) == {
        "load_model": 10.0, "load_model (other rank)": 50.0, "compile": 20.0,
    }  # fmt: skip
    assert time["unlogged_s"] == 0.0


def test_time_before_the_start_is_no_unlogged_time_of_it():
    """Lines of another program, such as `collect_env`, can stand above a start."""
    time = time_of(
        RunStarted(time=84.0),
        GapSeen(time=10.0, line=3, next_line=9, duration_s=74.0, before="a", after="b"),
        ServerReady(time=184.0),
    )
    assert time["wall_s"] == 100.0
    assert time["gaps"] == []


def test_gap_that_no_phase_explains_is_shown_between_its_lines():
    time = time_of(
        RunStarted(time=0.0),
        GapSeen(time=0.0, line=3, next_line=4, duration_s=30.0, before="a", after="b"),
        MemoryMeasured(stage="weights", duration_s=10.0, time=30.0),
        ServerReady(time=30.0),
    )
    assert time["unlogged_s"] == 20.0
    (gap,) = time["gaps"]
    assert (gap["line"], gap["next_line"], gap["unlogged_s"]) == (3, 4, 20.0)


def test_an_excerpt_in_which_nothing_is_known_to_take_time_has_no_length():
    found = events(
        "INFO 07-16 10:02:01 [hpu_model_runner.py:9] Loading model weights took 1.25 GB\n"
        "INFO 07-16 10:02:41 [hpu_worker.py:9] something else\n"
    )
    assert summary_of(found)["time"]["wall_s"] is None


def test_serving_is_no_part_of_the_start():
    time = time_of(
        RunStarted(time=0.0),
        ServerReady(time=10.0),
        CompileFinished(what="recipe", duration_s=5.0, time=900.0),
    )
    assert time["wall_s"] == 10.0


def test_run_without_times_has_unknown_ones():
    time = time_of(RunStarted(), WarmupStep(phase="prompt", bucket=(1, 128, 0)))
    assert time["wall_s"] is None
    assert time["unlogged_s"] is None
    assert time["phases"] == []


def test_warm_up_time_is_that_of_the_slowest_rank():
    time = time_of(
        WarmupFinished(duration_s=49.0, rank=0, time=1.0),
        WarmupFinished(duration_s=52.0, rank=1, time=2.0),
    )
    assert time["warmup_s"] == 52.0


spans = st.lists(
    st.builds(
        lambda name, start, length, strength: Span(
            name, start, start + length, strength
        ),
        st.sampled_from("abcd"),
        st.integers(-20, 120),
        st.integers(0, 60),
        st.integers(0, MEASURED),
    ),
    max_size=25,
)


@given(spans)
def test_partition_equals_a_look_at_every_second(found):
    """Naive reference: for each second the strongest, then shortest span."""
    expected = {}
    for second in range(100):
        here = [s for s in found if max(s.start, 0) <= second < min(s.end, 100)]
        if here:
            best = max(
                here, key=lambda s: (s.strength, -(min(s.end, 100) - max(s.start, 0)))
            )
            expected[second] = (
                best.strength, min(best.end, 100) - max(best.start, 0)
            )  # fmt: skip
    parts = partition(found, 0, 100)
    covered = {
        second: part.name
        for part in parts
        for second in range(int(part.start), int(part.end))
    }
    assert set(covered) == set(expected)
    assert sum(p.duration_s for p in parts) == len(expected)
    for second, name in covered.items():
        strength, length = expected[second]
        assert any(
            s.name == name
            and s.strength == strength
            and min(s.end, 100) - max(s.start, 0) == length
            and s.start <= second < s.end
            for s in found
        )


@given(spans)
def test_parts_are_in_order_and_do_not_overlap(found):
    parts = partition(found, 0, 100)
    for left, right in pairwise(parts):
        assert left.end <= right.start
        assert left.end < right.start or left.name != right.name


def test_blocks_stated_after_the_engine_is_ready_are_no_phase():
    time = time_of(
        RunStarted(time=0.0),
        KVCacheAllocated(num_tokens=4096, time=10.0, rank=0),
        EngineInitialized(duration_s=20.0, time=20.0),
        KVCacheAllocated(num_blocks=256, time=22.0),
        ServerReady(time=23.0),
    )
    assert totals(time).get("kv_cache", 0.0) <= 10.0


def test_phase_begun_in_one_rank_ends_where_another_states_it():
    time = time_of(
        PhaseMarked(name="graph_memory_profile", edge="start", time=0.0, rank=0),
        PhaseMarked(name="graph_capture", edge="end", time=24.0, rank=1),
        PhaseMarked(name="graph_memory_profile", edge="end", time=3.0, rank=3),
    )
    assert totals(time)["graph_memory_profile"] == 3.0


def test_utilisation_alone_ends_no_profile_run():
    time = time_of(
        RunStarted(time=0.0),
        PhaseMarked(name="graph_memory_profile", edge="end", time=2.0, rank=1),
        MemoryBudgetSet(gpu_memory_utilization=0.9, time=4.0, rank=1),
        PhaseMarked(name="server_start", edge="start", time=5.0, rank=0),
        ServerReady(time=6.0),
    )
    assert not any("profile_run" in name for name in totals(time))


def test_lines_whose_times_go_back_are_of_no_one_start():
    time = time_of(
        PhaseMarked(name="load_model", edge="start", time=800.0, line=1),
        PhaseMarked(name="load_model", edge="end", time=801.0, line=2),
        PhaseMarked(name="compile", edge="start", time=10.0, line=3),
        PhaseMarked(name="compile", edge="end", time=13.0, line=4),
    )
    assert (time["wall_s"], time["unlogged_s"], time["phases"]) == (None, None, [])


def test_an_event_before_its_line_does_not_go_back():
    """The end of a capture states 81 s, so the kernel warm-up before it ended earlier."""
    time = time_of(
        PhaseMarked(name="kernel_warmup", edge="start", time=0.0, line=1),
        PhaseMarked(
            name="graph_capture", edge="end", duration_s=81.0, time=90.0, line=2
        ),
        PhaseMarked(name="kernel_warmup", edge="end", time=9.0, line=2),
        PhaseMarked(name="server_start", edge="start", time=95.0, line=3),
    )
    assert time["wall_s"] == 95.0


def test_when_a_capture_began_behind_a_warm_up_of_kernels_is_unknown():
    """Only its end has a line, so the warm-up lasted until its own last line at least."""
    lines = [
        PhaseMarked(name="start_engine", edge="start", time=0.0, line=1),
        PhaseMarked(name="kernel_warmup", edge="start", time=1.0, line=2),
        Note(topic="kernel_warmup", text="Warmed up 2 kernels", time=10.0, line=3),
        PhaseMarked(name="graph_capture", edge="end", time=74.0, line=4),
    ]
    assert totals(time_of(*lines)) == {"kernel_warmup": 9.0}
    took = [
        PhaseMarked(name="kernel_warmup", edge="end", time=12.0, line=5),
        GraphsCaptured(duration_s=64.0, time=76.0, line=5),
    ]
    whole = totals(time_of(*lines, *took))
    assert (whole["kernel_warmup"], whole["graph_capture"]) == (11.0, 64.0)


def test_a_setting_ends_the_import_of_a_program_that_makes_an_engine():
    time = time_of(
        PhaseMarked(name="import", edge="start", time=0.0, line=1),
        ConfigRecorded(settings={"task": "generate"}, time=28.0, line=2),
        PhaseMarked(name="start_engine", edge="start", time=346.0, line=3),
        EngineInitialized(duration_s=4.0, time=350.0, line=4),
    )
    assert totals(time)["import"] == 28.0
    assert totals(time)["configure"] == 318.0


def test_a_recorder_marks_where_the_configuration_begins():
    """The command and the environment are recorded before the engine is imported."""
    time = time_of(
        PhaseMarked(name="import", edge="start", time=0.0),
        ConfigRecorded(settings={"command": "vllm serve m"}, time=0.0),
        PhaseMarked(name="configure", edge="start", time=85.0),
        Failure(failure="error", message="refused", phase="configure", time=145.0),
    )
    assert totals(time) == {"import": 85.0, "configure": 60.0}


def test_a_start_ends_with_its_failure_though_other_processes_wait_on():
    """One rank failed, and the engine states for a minute that it waits for it."""
    time = time_of(
        PhaseMarked(name="configure", edge="start", time=0.0, line=1),
        PhaseMarked(name="kv_cache", edge="end", time=10.0, line=2),
        Note(topic="waiting", text="No broadcast block found", time=70.0, line=4),
        Failure(failure="error", message="e", time=12.0, rank=3, line=3),
    )
    assert time["wall_s"] == 12.0


def test_the_command_that_a_recorder_has_at_once_does_not_end_the_import():
    begun = (
        RunStarted(time=0.0, engine="vllm"),
        PhaseMarked(name="import", edge="start", time=0.0),
        ConfigRecorded(settings={"command": "vllm serve m"}, time=0.0),
    )
    whole = time_of(
        *begun,
        PhaseMarked(name="configure", edge="start", time=28.0),
        PhaseMarked(name="start_engine", edge="start", time=60.0),
        ServerReady(time=100.0),
    )
    assert totals(whole) == {"import": 28.0, "configure": 32.0}
    ended = time_of(*begun, RunFinished(status="failed", time=11.0))
    assert totals(ended) == {"import": 11.0}


@pytest.mark.parametrize(
    "end",
    [
        Failure(failure="error", message="e", phase="configure", time=25.0),
        ShutdownRequested(message="a signal", in_start=True, time=25.0),
    ],
    ids=["failed", "stopped"],
)
def test_a_start_that_is_given_up_ends_before_its_processes_do(end):
    time = time_of(
        RunStarted(time=0.0),
        PhaseMarked(name="import", edge="start", time=0.0),
        PhaseMarked(name="configure", edge="start", time=20.0),
        end,
        RunFinished(status="failed", time=30.0),
    )
    assert time["wall_s"] == 25.0
    assert totals(time) == {"import": 20.0, "configure": 5.0}


def test_a_server_that_fails_to_start_was_starting_until_then():
    begun = (
        RunStarted(time=0.0),
        PhaseMarked(name="load_model", edge="start", time=0.0),
        EngineInitialized(duration_s=2.0, time=12.0),
    )
    failure = Failure(failure="error", message="e", phase="server_start", time=26.0)
    assert totals(time_of(*begun, failure))["server_start"] == 14.0
    assert "server_start" not in totals(
        time_of(*begun, RunFinished(status="failed", time=26.0))
    )


def test_captures_that_memory_is_estimated_with_are_a_part_of_that():
    time = time_of(
        PhaseMarked(name="graph_memory_profile", edge="start", time=1.0, rank=1),
        PhaseMarked(name="graph_capture", edge="end", time=8.0, rank=1),
    )
    assert totals(time) == {"graph_memory_profile": 7.0}


def test_the_end_of_a_stage_twice_bounds_no_time():
    """Quoted lines of two starts: nothing states that loading took the time between."""
    lines = [MemoryMeasured(stage="weights", time=0.0, line=1),
             MemoryMeasured(stage="weights", time=11_999.0, line=2)]  # fmt: skip
    assert time_of(*lines)["wall_s"] is None
    assert totals(time_of(*lines)) == {}
    begun = time_of(PhaseMarked(name="load_model", edge="start", time=-5.0), *lines)
    assert totals(begun) == {"load_model": 12_004.0}


def test_the_time_to_ready_is_unknown_where_the_first_lines_are_not_there():
    """What a server prints on standard error: kernels, then a ready line without time."""
    time = time_of(
        RunStarted(time=0.0, line=1),
        PhaseMarked(name="kernel_warmup", edge="start", time=1.0, line=2),
        PhaseMarked(name="kernel_warmup", edge="end", time=2.0, line=3),
        ServerReady(line=9),
    )
    assert (time["wall_s"], totals(time)) == (None, {"kernel_warmup": 1.0})


def test_a_phase_that_began_before_the_first_line_makes_an_excerpt():
    time = time_of(
        RunStarted(time=100.0, line=1),
        MemoryMeasured(stage="weights", duration_s=9.0, time=100.0, line=1),
        PhaseMarked(name="profile_run", edge="end", time=101.0, line=2),
    )
    assert (time["wall_s"], totals(time)["load_model"]) == (None, 9.0)


def test_the_cache_is_allocated_behind_the_division_where_the_head_was_cut_off():
    """vllm-fork `hpu_executor.py`: the number of blocks, then `init_cache_engine`."""
    time = time_of(
        RunStarted(time=10.0, line=1),
        KVCacheAllocated(num_blocks=3184, time=10.0, line=1),
        MemoryMeasured(stage="kv_cache", delta_bytes=2**30, time=13.0, line=2),
    )
    assert totals(time) == {"kv_cache": 3.0}


def test_weights_that_are_there_are_not_downloaded():
    """tpu-inference reads its first file; no rank began a download."""
    ranks = [
        event
        for rank in (0, 1)
        for event in (
            PhaseMarked(name="load_model", edge="start", time=1.0, rank=rank),
            PhaseMarked(name="download", edge="end", time=4.0, rank=rank),
            PhaseMarked(name="load_weights", edge="start", time=4.0, rank=rank),
            PhaseMarked(name="load_weights", edge="end", time=9.0, rank=rank),
        )
    ]
    time = time_of(
        RunStarted(time=0.0), *sorted(ranks, key=lambda each: each.time or 0)
    )
    assert totals(time) == {"load_model": 3.0, "load_weights": 5.0}


def test_a_cache_is_not_allocated_again_behind_the_warm_up():
    """vllm-gaudi `core_patch.py` logs the number of blocks once more when all is over."""
    time = time_of(
        RunStarted(time=0.0, line=1),
        PhaseMarked(name="profile_run", edge="end", time=8.0, line=2),
        KVCacheAllocated(num_blocks=9, time=10.0, line=3),
        WarmupFinished(duration_s=15.0, time=30.0, line=4),
        KVCacheAllocated(num_blocks=9, time=32.0, line=5),
        EngineInitialized(duration_s=31.0, time=32.0, line=6),
    )
    assert totals(time)["kv_cache"] == 2.0


def test_the_kv_cache_is_divided_after_the_last_rank_has_profiled():
    time = time_of(
        RunStarted(time=0.0, line=1),
        PhaseMarked(name="configure", edge="start", time=0.0, line=1),
        PhaseMarked(name="load_model", edge="start", time=1.0, rank=0, line=2),
        MemoryMeasured(stage="weights", duration_s=9.0, time=10.0, rank=0, line=3),
        MemoryBudgetSet(kv_cache_bytes=2, time=39.0, rank=1, line=4),
        KVCacheAllocated(num_tokens=3, time=40.0, line=5),
        ServerReady(time=50.0, line=6),
    )
    assert totals(time)["kv_cache"] == 1.0


def test_a_bar_over_the_weights_that_ray_printed_at_another_moment_is_part_of_the_loading():
    time = time_of(
        RunStarted(time=0.0, line=1),
        PhaseMarked(name="configure", edge="start", time=0.0, line=1),
        PhaseMarked(name="load_weights", edge="end", duration_s=90.0, line=3),
        GapSeen(time=2.0, line=2, duration_s=8.0, next_line=4, before="", after=""),
        MemoryMeasured(stage="weights", duration_s=95.0, time=110.0, line=9),
        ServerReady(time=120.0, line=10),
    )
    assert totals(time)["load_weights"] == 90.0
    assert totals(time)["load_model"] == 5.0


def test_a_log_that_begins_with_the_import_of_the_core_lacks_the_lines_of_its_server():
    """The core prints its platform before it has a name, and then its configuration."""
    lines = (
        RunStarted(time=0.0, line=1),
        ConfigRecorded(device_kind="cuda", time=0.0, line=1),
        PhaseMarked(name="import", edge="start", time=0.0, line=1),
        ConfigRecorded(version="0.26.0", model="a/b", time=3.0, line=3),
        ServerReady(time=30.0, line=9),
    )
    assert time_of(*lines)["wall_s"] is None
    configured = PhaseMarked(name="configure", edge="start", time=1.0, line=2)
    assert time_of(*lines[:3], configured, *lines[3:])["wall_s"] == 30.0


def test_totals_alone_are_of_the_whole_warmup():
    time = time_of(
        RunStarted(time=0.0),
        PhaseMarked(name="load_model", edge="start", time=1.0),
        MemoryMeasured(stage="weights", duration_s=9.0, time=10.0),
        KVCacheAllocated(num_blocks=3, time=20.0),
        CaptureSummary(phase="prompt", captured_reported=1, time=70.0),
        CaptureSummary(phase="decode", captured_reported=1, time=70.0),
        ServerReady(time=71.0),
    )
    assert totals(time)["model_warmup"] == 50.0
    assert totals(time)["profile_run"] == 10.0  # the cache is divided when it ends
    assert {"kv_cache", "prompt_warmup"}.isdisjoint(totals(time))


def test_ranks_that_no_name_keeps_apart_have_one_warmup():
    phases = ("prompt", "prompt", "decode", "decode")
    time = time_of(
        RunStarted(time=0.0),
        KVCacheAllocated(num_blocks=3, time=20.0),
        DefragWarmup(status="completed", time=30.0),
        *(
            CaptureSummary(phase=phase, captured_reported=1, time=70.0)
            for phase in phases
        ),
        ServerReady(time=71.0),
    )
    assert totals(time)["model_warmup"] == 40.0
    assert {"prompt_warmup", "decode_warmup"}.isdisjoint(totals(time))


def test_a_warmup_whose_steps_are_not_there_has_the_time_that_its_end_states():
    events = (
        RunStarted(time=0.0, line=1),
        KVCacheAllocated(num_blocks=3, time=20.0, line=2),
        WarmupFinished(duration_s=48.0, time=70.0, line=9),
    )
    assert totals(time_of(*events))["model_warmup"] == 48.0
    step = WarmupStep(phase="prompt", mode=None, bucket=(1, 128, 0), time=60.0, line=5)
    assert totals(time_of(*events[:2], step, events[2])) == {"prompt_warmup": 10.0}


def compiled(what, duration_s, time, *, from_cache=False):
    return CompileFinished(
        what=what, duration_s=duration_s, time=time, rank=0, from_cache=from_cache
    )


def compile_time(*parts, profiled):
    time = time_of(
        RunStarted(time=0.0),
        MemoryMeasured(stage="weights", duration_s=9.0, time=9.0, rank=0),
        *parts,
        MemoryBudgetSet(kv_cache_bytes=2**30, time=profiled, rank=0),
        ServerReady(time=100.0),
    )
    return totals(time)["compile"], totals(time)["profile_run"]


def test_a_total_that_is_the_sum_of_its_parts_has_no_time_of_its_own():
    """It is printed when the last graph has run, long after the parts (vLLM up to 0.17)."""
    made = compiled("dynamo", 2.15, 14.0), compiled("graph", 4.03, 18.03)
    total = compiled("total", 6.18, 50.0)
    found = compile_time(*made, total, profiled=80.0)
    assert [round(seconds, 2) for seconds in found] == [6.18, 61.97]
    loaded = compiled("graph", 5.0, 19.0, from_cache=True)
    without = compiled("total", 2.15, 50.0)
    assert compile_time(made[0], loaded, without, profiled=80.0) == (7.15, 61.0)


def test_a_total_that_a_recorder_reads_after_the_warm_up_has_no_time_of_its_own():
    """As recorded of vLLM 0.26 on an H200: the function that was compiled as a whole holds
    its graphs, so that the parts are no sum of the total."""
    time = time_of(
        RunStarted(time=0.0),
        PhaseMarked(name="profile_run", edge="start", time=53.4, rank=0),
        compiled("dynamo", 3.5, 56.9),
        PhaseMarked(name="compile", edge="start", time=56.9, rank=0),
        compiled("graph", 5.3, 62.3),
        compiled("graph", 3.6, 65.9),
        compiled("aot", 12.7, 66.1),
        PhaseMarked(name="profile_run", edge="end", duration_s=15.2, time=68.6, rank=0),
        PhaseMarked(name="warmup", edge="start", time=69.1, rank=0),
        GraphsCaptured(duration_s=5.8, time=75.0, rank=0),
        PhaseMarked(name="warmup", edge="end", duration_s=21.2, time=90.3, rank=0),
        WarmupFinished(duration_s=21.2, time=90.3, rank=0),
        compiled("total", 13.5, 90.3),
        EngineInitialized(duration_s=37.5, compile_s=13.5, time=90.4, rank=0),
        ServerReady(time=90.5),
    )
    found = totals(time)
    assert found["compile"] == pytest.approx(12.7)
    assert found["profile_run"] == pytest.approx(2.5)
    assert found["warmup"] == pytest.approx(21.2 - 5.8)


def test_what_lies_between_dynamo_and_the_first_graph_is_compilation():
    parts = compiled("dynamo", 11.0, 22.0), compiled("graph", 2.0, 36.0)
    found = compile_time(*parts, compiled("total", 13.0, 36.0), profiled=37.0)
    assert found == (25.0, 1.0)


def test_a_node_without_the_first_rank_has_the_phases_of_its_lowest_one():
    """`vllm serve --headless` prints that it launches workers, and nothing later."""
    time = time_of(
        RunStarted(time=0.0),
        PhaseMarked(name="start_engine", edge="start", time=1.0),
        PhaseMarked(name="load_model", edge="start", time=5.0, rank=1),
        PhaseMarked(name="load_model", edge="end", time=25.0, rank=1),
        GraphsCaptured(duration_s=5.0, time=35.0, rank=1),
    )
    assert totals(time) == {
        "start_engine": 4.0, "load_model": 20.0, "graph_capture": 5.0,
    }  # fmt: skip


def test_ranks_compile_until_one_of_them_fails():
    events = [
        RunStarted(time=0.0),
        compiled("dynamo", 11.0, 22.0),
        Failure(failure="error", phase="compile", message="no", rank=2, time=40.0),
    ]
    time = time_of(*events)
    assert totals(time)["compile"] == 29.0
    # No line states how long that was but for the bytecode.
    assert summary_of(events)["compile"]["seconds"] is None


def test_a_total_that_is_no_sum_is_the_time_before_its_line():
    parts = compiled("dynamo", 5.0, 16.0), compiled("graph", 10.0, 26.0)
    found = compile_time(*parts, compiled("total", 20.0, 30.0), profiled=31.0)
    assert found == (20.0, 1.0)


def test_the_stated_time_of_a_capture_is_its_phase():
    """A line at its end came before, and what lies ahead of it is something else."""
    time = time_of(
        RunStarted(time=0.0),
        MemoryBudgetSet(kv_cache_bytes=2**30, time=10.0, rank=0),
        KVCacheAllocated(num_tokens=64, time=11.0),
        MemoryBudgetSet(kv_cache_bytes=2**30, time=10.0, rank=1),
        PhaseMarked(name="graph_capture", edge="end", time=70.0, rank=0),
        PhaseMarked(name="graph_capture", edge="end", time=70.0, rank=1),
        GraphsCaptured(duration_s=15.0, time=70.0, rank=0),
        ServerReady(time=71.0),
    )
    assert totals(time)["graph_capture"] == 15.0
    assert "graph_capture (other rank)" not in totals(time)
    assert time["unlogged_s"] == 54.0


def test_no_rank_warms_up_before_the_kv_cache_is_divided():
    """The end of its warm-up can be the first line of a rank since it loaded the model
    (`gpu_worker.py`, `_maybe_activate_jit_monitor`): what came before is not its warm-up."""
    time = time_of(
        RunStarted(time=0.0),
        MemoryMeasured(stage="weights", duration_s=9.0, time=10.0, rank=0),
        MemoryMeasured(stage="weights", duration_s=9.0, time=10.0, rank=1),
        compiled("dynamo", 11.0, 25.0),
        compiled("total", 12.0, 26.0),
        MemoryBudgetSet(kv_cache_bytes=2**30, time=31.0, rank=0),
        KVCacheAllocated(num_tokens=64, time=32.0),
        GraphsCaptured(duration_s=5.0, time=45.0, rank=0),
        PhaseMarked(name="model_warmup", edge="end", time=46.0, rank=1),
        ServerReady(time=50.0),
    )
    assert totals(time)["model_warmup (other rank)"] == 8.0
    warmup = time["ranks"][1]["phases"][-1]
    assert warmup == {"name": "model_warmup", "start_s": 32.0, "duration_s": 14.0}


def test_no_rank_profiles_behind_the_division_of_the_memory():
    """Other ranks than the first print no line there; their next one is the balance at the
    end of the warm-up (`gpu_worker.py`, `compile_or_warm_up_model`)."""
    both = [
        MemoryMeasured(stage="weights", duration_s=9.0, time=10.0, rank=rank)
        for rank in (0, 1)
    ]
    first = (
        MemoryBudgetSet(kv_cache_bytes=2**30, time=31.0, rank=0),
        KVCacheAllocated(num_tokens=64, time=32.0),
    )
    balance = MemoryBudgetSet(
        kv_cache_bytes=2**30, suggested_kv_cache_bytes=2**30, time=47.0, rank=1
    )
    time = time_of(RunStarted(time=0.0), *both, *first, balance, ServerReady(time=50.0))
    profile = {"name": "profile_run", "start_s": 10.0, "duration_s": 22.0}
    assert time["ranks"][1]["phases"][-1] == profile
    assert "profile_run (other rank)" not in totals(time)


def test_the_time_to_an_engine_is_unknown_where_the_first_lines_are_not_there():
    time = time_of(
        EngineInitialized(duration_s=1.5, time=36.0, line=1),
        PhaseMarked(name="load_weights", edge="end", duration_s=1.0, time=37.0, line=2),
    )
    assert (time["wall_s"], time["engine_init_s"]) == (None, 1.5)


def test_a_pass_over_buckets_is_one_phase_whether_its_steps_are_captured_or_not():
    """The log of vllm-gaudi has one bar of prompts; a recording knows each step's graph."""
    time = time_of(
        PhaseMarked(name="prompt_warmup", edge="start", time=0.0, rank=0),
        WarmupStep(phase="prompt", mode="graph", duration_s=4.0, time=0.0, rank=0),
        WarmupStep(phase="prompt", mode="eager", duration_s=2.0, time=4.0, rank=0),
        PhaseMarked(name="prompt_warmup", edge="end", time=6.0, rank=0),
        WarmupStep(phase="prompt", mode="graph", duration_s=2.0, time=6.0, rank=0),
    )
    assert totals(time) == {"prompt_warmup": 6.0, "prompt_graphs": 2.0}


@pytest.mark.parametrize(
    ("ends", "known"),
    [("profile_run", False), ("load_weights", True), ("load_model", True)],
)
def test_what_went_on_behind_lines_that_were_cut_out_is_unknown(ends, known):
    """Unless the phase that ends there is the one before, or a part of it."""
    time = time_of(
        RunStarted(time=0.0),
        PhaseMarked(name="load_model", edge="start", time=10.0),
        Note(topic="elided", text="..."),
        PhaseMarked(name=ends, edge="end", duration_s=5.0, time=200.0),
    )
    found = totals(time)
    assert ("load_model" in found) is known
    assert ("lines_cut_out" in found) is (ends == "profile_run")


def test_time_around_lines_that_were_cut_out_is_no_unlogged_time():
    """Where nothing else explains it: a failure ends no phase, and the marks of a person
    are between the two lines."""
    before = [RunStarted(time=0.0), Note(topic="elided", text="...", line=2)]
    gap = GapSeen(
        time=10.0, line=5, duration_s=20.0, next_line=8, before="a", after="b"
    )
    failed = Failure(
        failure="other", message="b", phase="init_worker", time=30.0, line=8
    )
    started = PhaseMarked(name="configure", edge="start", time=10.0, line=5)
    cut = Note(topic="elided", text="...", line=6)
    time = time_of(*before, started, cut, gap, failed)
    assert totals(time) == {"lines_cut_out": 20.0}
    assert (time["unlogged_s"], time["gaps"]) == (10.0, [])
    whole = time_of(*before, started, gap, failed)
    assert "lines_cut_out" not in totals(whole)


def test_what_stands_below_a_ready_line_without_a_time_is_no_part_of_the_start():
    """As the ranks do that a trainer connects to its server minutes later."""
    time = time_of(
        ConfigRecorded(version="0.9.2", time=0.0, line=1),
        EngineInitialized(duration_s=30.0, time=48.0, line=2),
        ServerReady(line=3),
        PhaseMarked(name="distributed_init", edge="start", time=66.0, line=5),
    )
    assert (time["wall_s"], time["ready_at"]) == (48.0, None)


def test_weights_that_an_engine_loads_again_after_its_sleep_are_no_part_of_the_start():
    """A program without a server has no line at which it was ready."""
    time = time_of(
        ConfigRecorded(version="0.11.2", time=0.0, line=1),
        EngineInitialized(duration_s=9.0, time=19.0, line=2),
        SleepModeChanged(action="sleep", time=23.0, line=3),
        PhaseMarked(name="load_weights", edge="end", duration_s=1.0, time=25.0, line=4),
    )
    assert time["wall_s"] == 19.0
    assert "load_weights" not in totals(time)


def test_graphs_of_an_audio_decoder_are_captured_inside_of_the_loading():
    """vllm-omni captures them when it has loaded the weights of that stage."""
    decoder = "decoder_graph_capture"
    time = time_of(
        RunStarted(time=0.0),
        PhaseMarked(name="load_model", edge="start", time=0.0),
        PhaseMarked(name=decoder, edge="start", time=10.0),
        PhaseMarked(name=decoder, edge="end", time=50.0),
        MemoryMeasured(stage="weights", duration_s=52.0, time=52.0),
    )
    assert totals(time) == {"load_model": 12.0, decoder: 40.0}
