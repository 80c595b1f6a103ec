"""No summary breaks a law of every run without saying so, whatever the events were."""

from __future__ import annotations

import random

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers import folded
from warmup_insights.analysis.oddities import oddities
from warmup_insights.analysis.summary.laws import contradictions
from warmup_insights.model.events import (
    BucketMiss,
    BucketsGenerated,
    BucketUsed,
    CaptureSummary,
    CompileFinished,
    ConfigRecorded,
    EngineInitialized,
    Failure,
    GraphBudgetSet,
    GraphCaptured,
    GraphSkipped,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.figures import BY_NAME, FIGURES, contradictory, phase_figure
from warmup_insights.model.summary import (
    PHASES,
    MemoryFacts,
    RunSummary,
    SourceName,
    TimePhase,
    Times,
)
from warmup_insights.units import GIB

RANKS = st.sampled_from([None, 0, 1, 3])
TIMES = st.one_of(st.none(), st.integers(0, 300).map(float))
SECONDS = st.one_of(st.none(), st.integers(0, 200).map(float))
SIZES = st.one_of(st.none(), st.integers(-1, 100).map(lambda n: n * GIB))
BUCKETS = st.sampled_from([(1, 128, 0), (1, 256, 0), (2, 128, 0), (2, 1, 16)])
PHASE = st.sampled_from(PHASES)
COMMON = {
    "rank": RANKS,
    "time": TIMES,
    "line": st.one_of(st.none(), st.integers(1, 99)),
}


def made(kind, **fields):
    return st.builds(kind, **COMMON, **fields)


EVENTS = st.one_of(
    made(RunStarted, engine=st.sampled_from(["vllm", "vllm-gaudi", "vllm-fork"])),
    made(ConfigRecorded, settings=st.just({"block_size": 128})),
    made(MemoryMeasured, stage=st.sampled_from(["weights", "profile_run", "kv_cache"]),
         delta_bytes=SIZES, total_bytes=SIZES, used_bytes=SIZES, duration_s=SECONDS),
    made(MemoryBudgetSet, total_bytes=SIZES, free_bytes=SIZES, usable_bytes=SIZES,
         graph_reserved_bytes=SIZES, kv_cache_bytes=SIZES, padding_bytes=SIZES,
         gpu_memory_utilization=st.sampled_from([None, 0.5, 0.9])),
    made(KVCacheAllocated, num_blocks=st.one_of(st.none(), st.integers(0, 50)),
         allocated_bytes=SIZES),
    made(BucketsGenerated, phase=PHASE, count=st.integers(0, 4),
         buckets=st.lists(BUCKETS, max_size=4)),
    made(WarmupStep, phase=PHASE, bucket=BUCKETS, index=st.integers(1, 4),
         mode=st.sampled_from([None, "eager", "graph"]), duration_s=SECONDS,
         memory_bytes=SIZES, is_finished=st.booleans(),
         executed=st.one_of(st.none(), BUCKETS)),
    made(GraphCaptured, phase=PHASE, bucket=BUCKETS, duration_s=SECONDS,
         memory_bytes=SIZES, executed=st.one_of(st.none(), BUCKETS)),
    made(GraphSkipped, phase=PHASE, bucket=BUCKETS, reason=st.just("budget")),
    made(GraphBudgetSet, total_bytes=SIZES, prompt_bytes=SIZES),
    made(CaptureSummary, phase=PHASE, captured_reported=st.integers(0, 5),
         used_bytes=SIZES, buckets=st.one_of(st.none(), st.lists(BUCKETS, max_size=4))),
    made(PhaseMarked, name=st.sampled_from(["load_model", "prompt_warmup", "x"]),
         edge=st.sampled_from(["start", "end"]), duration_s=SECONDS),
    made(CompileFinished, what=st.sampled_from(["graph", "total"]), duration_s=SECONDS),
    made(EngineInitialized, duration_s=SECONDS, compile_s=SECONDS),
    made(WarmupFinished, duration_s=SECONDS), made(ServerReady),
    made(Failure, failure=st.just("error"), message=st.just("m")),
    made(BucketMiss, phase=PHASE, shape=BUCKETS),
    made(BucketUsed, phase=PHASE, shape=BUCKETS, bucket=BUCKETS),
)  # fmt: skip
RUNS = st.lists(EVENTS, max_size=25)


KINDS = st.sampled_from(["log", "recorder"])


@given(RUNS, KINDS)
def test_the_parts_of_memory_add_up_or_the_device_is_contradictory(found, kind):
    summary = folded(found, source_kind=kind).summary
    memory, doubtful = summary.memory_or_none, contradictory(summary)
    if memory.parts:
        total = sum(part.bytes for part in memory.parts)
        assert abs(total - memory.total_bytes) <= 0.01 * memory.total_bytes
        assert all(part.bytes > 0 for part in memory.parts)
    elif memory.total_bytes:
        known = [memory.weights_bytes, memory.profile_bytes, memory.kv_cache_bytes]
        if sum(max(size or 0, 0) for size in known) > 1.02 * memory.total_bytes:
            assert "total_bytes" in doubtful
    reserved = memory.graph_reserved_bytes
    used = BY_NAME["graph_memory_bytes"].read(summary)
    if reserved and used and reserved > 0 and used > 1.06 * reserved:
        assert any("more than the" in sentence for sentence in oddities(summary))


@given(RUNS, KINDS)
def test_phases_follow_each_other_and_add_up(found, kind):
    times = folded(found, source_kind=kind).summary.time
    if times.wall_s is None:
        return
    explained = sum(phase.duration_s for phase in times.phases)
    assert explained + times.unlogged_s == pytest.approx(times.wall_s, abs=1e-3)
    end = 0.0
    for phase in times.phases:
        assert phase.start_s >= end - 1e-6
        end = phase.start_s + phase.duration_s
    assert end <= times.wall_s + 1e-3


@given(RUNS, KINDS)
def test_counts_fall_and_steps_fit_or_they_are_contradictory(found, kind):
    made = folded(found, source_kind=kind)
    summary, doubtful = made.summary, contradictory(made.summary)
    for phase in PHASES:
        part = summary.phase(phase)
        if part.captured is not None and part.generated is not None:
            assert part.captured <= part.generated or f"{phase}_captured" in doubtful
        if part.warmed is not None and part.generated is not None:
            assert part.warmed <= part.generated or f"{phase}_warmed" in doubtful
    spent = sum(row.duration_s or 0.0 for row in made.rows)
    warmup_s = summary.time.warmup_s
    if warmup_s is not None and spent > 1.02 * warmup_s + 1 + len(made.rows):
        assert "warmup_s" in doubtful


@given(RUNS)
def test_a_summary_is_json_that_comes_back(found):
    made = folded(found)
    text = msgspec.json.encode(made.summary)
    assert msgspec.json.decode(text, type=RunSummary) == made.summary
    for figure in FIGURES:
        assert figure.read(made.summary) is None or figure.text(made.summary) != "?"


@given(RUNS, st.integers(0, 25))
@example(
    [
        GraphSkipped(phase="prompt", bucket=(1, 128, 0), reason="budget", time=0.0),
        Failure(failure="error", message="a line without a time"),
        ServerReady(time=1.0),
    ],
    2,
)
def test_a_summary_of_a_beginning_changes_nothing_later(found, cut):
    from warmup_insights.analysis.summary import RunFold
    from warmup_insights.model.run import RunRecord

    record = RunRecord(run_id="abc", source_kind="log")
    fold = RunFold()
    fold.add_all(found[:cut])
    fold.result(record)
    fold.add_all(found[cut:])
    assert fold.result(record) == folded(found)


BUCKET = (1, 128, 0)


def execution(duration=2.0, memory=8, *, rank=None, executed=None, mode="graph"):
    """The events that the plugin records of one execution that made a graph."""
    common = {
        "phase": "prompt",
        "bucket": BUCKET,
        "time": 10.0,
        "rank": rank,
        "index": 1,
    }
    cost = {"duration_s": duration, "memory_bytes": memory, "executed": executed}
    return [
        WarmupStep(**common, is_finished=False),
        WarmupStep(**common, **cost, mode=mode),
        GraphCaptured(**common, **cost),
    ]


@given(st.permutations(range(3)))
def test_a_cost_counts_once_in_whatever_order_its_events_come(order):
    found = execution()
    (row,) = folded([found[n] for n in order], source_kind="recorder").rows
    assert (row.duration_s, row.memory_bytes, row.captured) == (2.0, 8, True)
    assert row.run is None


def test_a_capture_after_an_eager_run_is_a_cost_of_its_own():
    eager = WarmupStep(
        phase="prompt", bucket=BUCKET, mode="eager", index=1, duration_s=3.0
    )
    (row,) = folded([eager, *execution()], source_kind="recorder").rows
    assert row.duration_s == 5.0
    assert (row.run.duration_s, row.capture.duration_s) == (3.0, 2.0)


def test_two_buckets_that_run_as_one_shape_have_one_graph():
    shape = (1, 256, 0)
    second = WarmupStep(
        phase="prompt", bucket=shape, mode="graph", index=2, duration_s=0.1,
        memory_bytes=0, executed=shape,
    )  # fmt: skip
    made = folded([*execution(executed=shape), second], source_kind="recorder")
    assert made.summary.phase("prompt").captured == 1
    assert made.summary.phase("prompt").captured_buckets == [shape]
    assert made.summary.phase("prompt").graph_used_bytes == 8
    states = {row.bucket: row.state for row in made.rows}
    assert states == {BUCKET: "executed_differently", shape: "captured"}


def test_an_older_recording_names_the_shape_of_a_graph_and_costs_once():
    shape = (1, 256, 0)
    step = WarmupStep(
        phase="prompt", bucket=BUCKET, mode="graph", index=1, duration_s=2.0,
        memory_bytes=8, executed=shape,
    )  # fmt: skip
    capture = GraphCaptured(
        phase="prompt", bucket=shape, index=1, duration_s=2.0, memory_bytes=8
    )
    made = folded([step, capture], source_kind="recorder")
    assert sum(row.duration_s or 0 for row in made.rows) == 2.0
    assert made.summary.phase("prompt").captured_buckets == [shape]


def test_events_of_ranks_may_come_in_any_order():
    found = [
        *execution(rank=0), *execution(rank=1, memory=9),
        MemoryMeasured(stage="weights", delta_bytes=GIB, rank=1),
        MemoryMeasured(stage="weights", delta_bytes=2 * GIB, rank=0),
    ]  # fmt: skip
    expected = folded(found, source_kind="recorder").rows
    for seed in range(20):
        mixed = random.Random(seed).sample(found, len(found))
        made = folded(mixed, source_kind="recorder")
        costs = [(row.duration_s, row.memory_bytes) for row in made.rows]
        assert costs == [(row.duration_s, row.memory_bytes) for row in expected]
        assert made.summary.memory.weights_bytes == 2 * GIB


def test_memory_beyond_the_device_is_a_contradiction_with_both_sides():
    found = [
        MemoryMeasured(stage="weights", delta_bytes=60 * GIB, total_bytes=80 * GIB, line=3),
        MemoryBudgetSet(kv_cache_bytes=30 * GIB, line=7),
    ]  # fmt: skip
    summary = folded(found).summary
    (broken,) = summary.contradictions
    assert "total: 80 GiB (line 3)" in broken.evidence
    assert "kv cache: 30 GiB (line 7)" in broken.evidence
    assert {"total_bytes", "weights_bytes", "kv_cache_bytes"} <= contradictory(summary)
    assert summary.memory.parts == []
    assert "fit into what is divided" in oddities(summary)[0]


@pytest.mark.parametrize(
    ("memory", "figures"),
    [
        ({"free_bytes": 81 * GIB, "total_bytes": 80 * GIB}, {"free_bytes", "total_bytes"}),
        ({"kv_cache_bytes": 9 * GIB, "usable_bytes": 8 * GIB},
         {"kv_cache_bytes", "usable_bytes"}),
        ({"kv_cache_bytes": 4 * GIB, "kv_cache_allocated_bytes": 8 * GIB,
          "num_kv_blocks": 100}, {"kv_cache_bytes", "kv_cache_allocated_bytes"}),
        ({"kv_cache_allocated_bytes": 8 * GIB, "num_kv_blocks": 100,
          "block_bytes": GIB // 100}, {"block_bytes"}),
    ],
)  # fmt: skip
def test_memory_that_breaks_a_law_is_contradictory(memory, figures):
    summary = RunSummary(
        run_id="0" * 12, source=SourceName(kind="log"), memory=MemoryFacts(**memory)
    )
    (broken,) = contradictions(summary, [], [])
    assert set(broken.figures) == figures
    kept = {name: 4 * GIB for name in memory if name.endswith("_bytes")}
    kept |= {"num_kv_blocks": 4, "block_bytes": GIB}
    summary = msgspec.structs.replace(summary, memory=MemoryFacts(**kept))
    assert contradictions(summary, [], []) == []


def test_phases_that_exceed_the_start_are_contradictory():
    times = Times(
        wall_s=4.0, unlogged_s=0.0, residual_s=-2.0,
        phases=[TimePhase(name="load_weights", start_s=0.0, duration_s=6.0)],
    )  # fmt: skip
    summary = RunSummary(run_id="0" * 12, source=SourceName(kind="log"), time=times)
    (broken,) = contradictions(summary, [], [])
    assert set(broken.figures) == {"wall_s", "unlogged_s"}


def test_steps_longer_than_the_warmup_are_contradictory():
    def summary_of(step_s):
        step = WarmupStep(phase="prompt", bucket=(1, 128, 0), duration_s=step_s)
        found = [RunStarted(time=0.0), step, WarmupFinished(duration_s=5.0, time=9.0)]
        return folded(found).summary

    (broken,) = summary_of(8.0).contradictions
    assert broken.figures == ["warmup_s", "prompt_steps_s"]
    assert summary_of(5.0).contradictions == []


def test_misses_and_uses_belong_to_serving_and_failures_after_ready_end_it():
    found = [
        RunStarted(time=0.0), WarmupFinished(duration_s=5.0, time=6.0),
        ServerReady(time=10.0), BucketUsed(phase="prompt", shape=BUCKET, bucket=BUCKET),
        Failure(failure="out_of_memory", message="no memory", time=50.0, line=9),
    ]  # fmt: skip
    summary = folded(found).summary
    assert (summary.status, summary.failure) == ("finished", None)
    assert (summary.serving.end.kind, summary.serving.end.line) == ("out_of_memory", 9)
    assert summary.time.wall_s == 10.0
    assert len(summary.serving.uses) == 1


def test_serving_that_ends_before_ready_is_a_contradiction():
    found = [
        RunStarted(time=0.0), ServerReady(time=10.0, line=4),
        Failure(failure="out_of_memory", message="no memory", time=5.0, line=9),
    ]  # fmt: skip
    summary = folded(found).summary
    assert summary.serving.ready_at > summary.serving.ended_at
    (broken,) = summary.contradictions
    assert broken.figures == ["ready_s"]
    assert "(line 9)" in broken.evidence[1]


def test_compilations_while_serving_are_none_of_the_start():
    found = [
        CompileFinished(what="graph", duration_s=3.0, time=1.0), ServerReady(time=5.0),
        CompileFinished(what="graph", duration_s=30.0, time=9.0),
    ]  # fmt: skip
    assert folded(found).summary.compile.seconds == 3.0


def test_more_graphs_than_buckets_are_a_contradiction():
    found = [
        BucketsGenerated(phase="prompt", count=1, buckets=[BUCKET]),
        GraphCaptured(phase="prompt", bucket=BUCKET),
        GraphCaptured(phase="prompt", bucket=(1, 256, 0)),
    ]
    summary = folded(found).summary
    assert {"prompt_captured", "captured_percent"} <= contradictory(summary)
    assert BY_NAME["captured_percent"].trusted(summary) is None


def test_phases_that_overlap_without_nesting_are_a_contradiction():
    def marks(name, start, end):
        return [
            PhaseMarked(name=name, edge=edge, time=time, rank=0)
            for edge, time in (("start", start), ("end", end))
        ]

    load, profile = marks("load_model", 0.0, 10.0), marks("profile_run", 5.0, 20.0)
    mixed = sorted([*load, *profile], key=lambda event: event.time)
    assert folded(mixed).summary.contradictions[0].figures == [
        "phase:load_model", "phase:profile_run",
    ]  # fmt: skip
    nested = [*marks("load_model", 0.0, 10.0), *marks("load_weights", 2.0, 8.0)]
    nested.sort(key=lambda event: event.time)
    assert folded(nested).summary.contradictions == []


def test_an_initialisation_longer_than_the_start_up_is_a_contradiction():
    found = [
        RunStarted(time=0.0), PhaseMarked(name="start_engine", edge="start", time=0.0),
        EngineInitialized(duration_s=200.0, time=20.0, line=4), ServerReady(time=30.0),
    ]  # fmt: skip
    (broken,) = folded(found).summary.contradictions
    assert broken.figures == ["engine_init_s", "wall_s"]


def test_phases_longer_than_the_initialisation_are_a_contradiction_and_marked():
    found = [
        RunStarted(time=0.0), PhaseMarked(name="profile_run", edge="start", time=2.0),
        PhaseMarked(name="profile_run", edge="end", time=12.0),
        EngineInitialized(duration_s=1.23, time=13.0, line=4), ServerReady(time=30.0),
    ]  # fmt: skip
    made = folded(found).summary
    (broken,) = made.contradictions
    assert broken.figures == ["engine_init_s", "phase:profile_run"]
    assert "(line 4)" in broken.evidence[0]
    assert phase_figure("profile_run").text(made) == "10 s (contradictory)"
    assert BY_NAME["engine_init_s"].text(made) == "1.23 s (contradictory)"
    assert BY_NAME["wall_s"].text(made) == "30 s"


def test_how_long_the_start_of_an_excerpt_took_is_unknown():
    found = [
        RunStarted(time=300.0, line=1),
        EngineInitialized(duration_s=200.0, time=320.0, line=4),
        ServerReady(time=330.0),
    ]  # fmt: skip
    made = folded(found).summary
    assert (made.contradictions, made.time.wall_s) == ([], None)


def test_graph_captured_while_serving_is_no_cost_of_the_warmup():
    found = [
        RunStarted(time=0.0),
        WarmupStep(
            phase="prompt", bucket=BUCKET, mode="eager", duration_s=1.0, time=1.0
        ),
        WarmupFinished(duration_s=1.5, time=3.0),
        ServerReady(time=4.0),
        GraphCaptured(phase="prompt", bucket=BUCKET, duration_s=9.0, time=5.0),
    ]
    made = folded(found, source_kind="recorder")
    (row,) = made.rows
    assert made.summary.contradictions == []
    assert (row.duration_s, row.capture.duration_s, row.captured) == (1.0, 9.0, True)
    assert made.summary.phase("prompt").steps_s == 1.0


def test_uses_while_serving_have_count_and_time_of_one_rank():
    found = [
        BucketUsed(phase="prompt", shape=BUCKET, bucket=BUCKET, duration_s=1.0,
                   count=10, rank=rank)
        for rank in (0, 1)
    ]  # fmt: skip
    (use,) = folded(found, source_kind="recorder").summary.serving.uses
    assert (use.count, use.duration_s) == (10, 1.0)


def test_each_of_several_engines_states_its_own_initialisation():
    first, second = (
        EngineInitialized(time=50.0, duration_s=44.0 - 16 * rank, rank=rank)
        for rank in (0, 1)
    )
    for order in ((first, second), (second, first)):
        made = folded(order).summary
        assert made.time.engine_init_s == 44.0
