"""Settings of the engine: skipped, eager, contiguous, unified, speculative, ..."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from tests.vllm_plugin.running import run_standin
from warmup_insights.analysis.summary import summarize

pytestmark = pytest.mark.long

RUNNER = "vllm_gaudi.v1.worker.hpu_model_runner"
COMMON = "vllm_gaudi.extension.bucketing.common"


def repeats_of(ran):
    marks = ran.events("phase_marked")
    return [mark.edge for mark in marks if mark.name == "repeated_warmup"]


def test_what_a_second_call_repeats_is_time_and_no_warmup(tmp_path):
    """An eager engine with images warms them up in both calls."""
    ran = run_standin(
        "v0_26",
        tmp_path,
        STANDIN_EAGER="1",
        STANDIN_SET=changed(**{f"{RUNNER}__MULTIMODAL": [[864, 480]]}),
    )
    assert ran.stdout.count("[Warmup][Graph/Multimodal") == 2
    assert ran.counts()["warmup_step"] == 1
    assert repeats_of(ran) == ["start", "end"]


def changed(**values):
    return json.dumps({key.replace("__", ":"): value for key, value in values.items()})


@pytest.mark.parametrize("version", ["v0_10", "v0_13", "v0_26"])
def test_a_skipped_warmup_is_one_although_the_engine_asks_twice(version, tmp_path):
    ran = run_standin(version, tmp_path, VLLM_SKIP_WARMUP="true")
    assert ran.stdout.count("Skipping warmup...") == 2
    (finished,) = ran.events("warmup_finished")
    assert finished.skipped
    assert ran.counts()["buckets_generated"] == 2
    assert ran.runs()[0].status == "skipped"
    assert ran.counts()["bucket_miss"] == ran.stdout.count("was not ") > 0


def test_an_eager_engine_warms_up_twice_and_is_recorded_once(tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_EAGER="1")
    assert ran.stdout.count("Warmup finished in") == 2
    (finished,) = ran.events("warmup_finished")
    assert not finished.skipped
    assert ran.counts()["warmup_step"] == 0
    assert repeats_of(ran) == ["start", "end"]
    (budget,) = ran.events("memory_budget_set")
    assert budget.graph_reserved_fraction == 0.0


@pytest.mark.parametrize("version", ["v0_13", "v0_26"])
def test_defragmenter_is_timed_per_threshold(version, tmp_path):
    ran = run_standin(version, tmp_path, VLLM_CONTIGUOUS_PA="true")
    steps = ran.events("defrag_step")
    assert [s.threshold for s in steps] == [8, 16, 32, 64, 128, 256, 512, 8]
    assert all(step.duration_s >= 0.0002 for step in steps)
    started, completed = ran.events("defrag_warmup")
    assert (started.status, completed.status) == ("started", "completed")
    assert started.thresholds == [8, 16, 32, 64, 128, 256, 512]
    assert sum(step.duration_s for step in steps) <= completed.duration_s


@pytest.mark.parametrize("version", ["v0_13", "v0_26"])
def test_defragmenter_says_why_it_is_skipped(version, tmp_path):
    ran = run_standin(
        version,
        tmp_path,
        VLLM_CONTIGUOUS_PA="true",
        STANDIN_BLOCKS="0",
        STANDIN_STEPS="[]",
    )
    reasons = [(e.status, e.reason) for e in ran.events("defrag_warmup")]
    assert reasons[-1] == ("skipped", "insufficient blocks (1)")
    assert "Skipping defragmenter warmup, insufficient blocks (1)" in ran.stdout


def test_a_disabled_defragmenter_is_skipped(tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_STEPS="[]")
    (skipped,) = ran.events("defrag_warmup")
    assert (skipped.status, skipped.reason) == ("skipped", "disabled")


def test_a_decode_miss_is_told_with_the_blocks_the_engine_looked_for(tmp_path):
    """More blocks than any bucket has are cut to the largest before the lookup."""
    steps = json.dumps([[[1, 10]] * 5])
    ran = run_standin("v0_26", tmp_path, STANDIN_STEPS=steps)
    fallbacks = [e for e in ran.events("bucket_miss") if e.fallback]
    assert [miss.shape for miss in fallbacks] == [(5, 1, 32)]
    assert "Decode bucket for (5, 1, 32) was not prepared" in ran.stdout


def test_defragmentation_while_serving(tmp_path):
    ran = run_standin(
        "v0_26",
        tmp_path,
        VLLM_CONTIGUOUS_PA="true",
        VLLM_DEFRAG_THRESHOLD="1",
        STANDIN_SET=changed(**{f"{RUNNER}__BLOCKS": [[[60, 61, 62]], [], [[40]]]}),
    )
    moves = ran.events("defrag_ran")
    assert len(moves) == ran.stdout.count("defragmentation done") == 2
    for move in moves:
        line = (
            f"max_id_used={move.max_id_before}->{move.max_id_after} "
            f"num_used={move.num_used} swapped={move.swapped}/{move.padded}"
        )
        assert line in ran.stdout
        assert move.duration_s > 0


def test_sampler_runs_every_configuration_at_every_batch_size(tmp_path):
    ran = run_standin("v0_26", tmp_path)
    configs = ran.events("sampler_config")
    steps = ran.events("sampler_step")
    _, completed = ran.events("sampler_warmup")
    assert len(configs) == 12
    assert completed.batch_sizes == [1, 2, 4]
    assert len(steps) == 36
    assert {
        (s.batch_size, s.temperature, s.top_p, s.top_k, s.batch_changed) for s in steps
    } == {
        (size, c.temperature, c.top_p, c.top_k, c.batch_changed)
        for size in (1, 2, 4)
        for c in configs
    }
    assert sum(step.duration_s for step in steps) <= completed.duration_s
    assert f"batch sizes: {completed.batch_sizes} and" in ran.stdout


def test_declared_and_executed_shapes(tmp_path):
    """With 1024 tokens per request (1, 1024, 7) can only run as (1, 1024, 0)."""
    ran = run_standin("v0_26", tmp_path)
    executed = {step.bucket: step.executed for step in ran.steps("prompt")}
    assert executed[(1, 1024, 7)] == (1, 1024, 0)
    assert executed[(1, 128, 2)] == (1, 128, 2)


def test_buckets_that_run_as_one_shape_have_one_graph(tmp_path):
    """Its bucket is the one that ran first, its shape the one that they share."""
    ran = run_standin("v0_26", tmp_path)
    shared = [s.bucket for s in ran.steps("prompt") if s.executed == (1, 1024, 0)]
    assert shared == [(1, 1024, 7), (1, 1024, 4), (1, 1024, 2), (1, 1024, 0)]
    graphs = [e for e in ran.events("graph_captured") if e.bucket in shared]
    assert [(g.bucket, g.executed) for g in graphs] == [((1, 1024, 7), (1, 1024, 0))]


@pytest.mark.parametrize(
    ("version", "executed"), [("v0_13", (2, 128, 2)), ("v0_26", (1, 128, 2))]
)
def test_prompts_with_context_run_one_at_a_time_since_0_14(version, executed, tmp_path):
    ran = run_standin(version, tmp_path, STANDIN_PREFILLS="2", STANDIN_STEPS="[]")
    (step,) = (step for step in ran.steps("prompt") if step.bucket == (2, 128, 2))
    assert step.executed == executed
    assert step.compiled == 1
    graphs = Counter(e.executed for e in ran.events("graph_captured"))
    assert graphs[executed] == 1


def test_a_graph_from_a_cache_on_disk_is_captured_though_nothing_is_compiled(tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_CACHED="1", STANDIN_STEPS="[]")
    assert {step.compiled for step in ran.steps()} == {0}
    shapes = {(step.phase, step.executed) for step in ran.steps()}
    assert len(ran.events("graph_captured")) == len(shapes)


def test_an_engine_that_uses_no_graphs_for_a_shape_has_none_of_it(tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_BYPASS="1", STANDIN_STEPS="[]")
    assert {step.mode for step in ran.steps()} == {"eager"}
    assert ran.events("graph_captured") == []


def test_torch_compile_captures_nothing_and_each_step_is_one_cost(tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_COMPILE="1", STANDIN_STEPS="[]")
    assert ran.events("graph_captured") == []
    steps = ran.steps()
    assert {step.mode for step in steps} == {None}
    assert {step.compiled for step in steps} == {0, 1}
    summary = summarize(ran.runs()[0], ran.events()).summary
    for phase in ("prompt", "decode"):
        own = [step for step in steps if step.phase == phase]
        part = summary.phase(phase)
        assert part.captured is None
        assert part.steps_s == pytest.approx(sum(step.duration_s for step in own))


def test_validation_passes_are_time_and_not_warmup(tmp_path):
    ran = run_standin(
        "v0_26", tmp_path, STANDIN_SET=changed(**{f"{RUNNER}__VALIDATION": True})
    )
    steps = [step.bucket for step in ran.steps()]
    assert len(steps) == len(set(steps)) == 31
    marks = [
        e.edge for e in ran.events("phase_marked") if e.name == "validation_warmup"
    ]
    assert marks == ["start", "end"]


@pytest.mark.parametrize(
    ("version", "shapes", "buckets"),
    [
        ("v0_26", [[864, 480], [1024, 768]], [(864, 480, 1), (1024, 768, 1)]),
        ("v0_13", [1600, 3136], [(1600,), (3136,)]),
    ],
)
def test_multimodal_warmup(version, shapes, buckets, tmp_path):
    ran = run_standin(
        version, tmp_path, STANDIN_SET=changed(**{f"{RUNNER}__MULTIMODAL": shapes})
    )
    steps = ran.steps("multimodal")
    assert [step.bucket for step in steps] == buckets
    assert [(step.index, step.total) for step in steps] == [(1, 2), (2, 2)]
    assert all(step.duration_s >= 0.001 for step in steps)


def test_unified_attention(tmp_path):
    ran = run_standin("v0_13", tmp_path, VLLM_UNIFIED_ATTN="true", STANDIN_STEPS="[]")
    (generated,) = ran.events("buckets_generated")
    assert (generated.phase, generated.count) == ("unified", 3)
    steps = ran.steps()
    assert [step.bucket for step in steps] == generated.buckets[::-1]
    assert [step.executed for step in steps] == generated.buckets[::-1]
    assert [step.compiled for step in steps] == [1, 1, 1]


@pytest.mark.parametrize("version", ["v0_13", "v0_26"])
def test_buckets_of_speculative_decoding(version, tmp_path):
    ran = run_standin(
        version, tmp_path, STANDIN_SET=changed(**{f"{COMMON}__SPECULATIVE": True})
    )
    by_phase = {e.phase: e for e in ran.events("buckets_generated")}
    added = by_phase["spec_decode"]
    assert f"Generated {added.count} spec decode buckets" in ran.stdout
    assert set(added.buckets) < set(by_phase["decode"].buckets)


@pytest.mark.parametrize(
    ("name", "strategy", "parameters"),
    [
        ("exp", "exponential", ["min", "step", "max", "limit"]),
        ("lin", "linear", ["min", "step", "max"]),
        ("pad", "padding_aware", ["min", "step", "max", "pad_max", "pad_percent"]),
    ],
)
def test_ranges_of_each_strategy(name, strategy, parameters, tmp_path):
    ran = run_standin(
        "v0_26", tmp_path, VLLM_BUCKETING_STRATEGY=name, STANDIN_STEPS="[]"
    )
    assert {e.strategy for e in ran.events("buckets_generated")} == {strategy}
    prompt, decode = ran.events("bucket_ranges_configured")
    assert prompt.parameters == decode.parameters == parameters
    for event in (prompt, decode):
        words = ", ".join(f"{key}:{value}" for key, value in event.ranges.items())
        assert f"{event.phase.title()} bucket config" in ran.stdout
        assert words in ran.stdout


def test_buckets_from_a_file(tmp_path):
    file = tmp_path / "buckets.txt"
    file.write_text("(1,128,0)\n(1,256,0)\n(1,1,8)\n", encoding="utf-8")
    ran = run_standin(
        "v0_13", tmp_path, VLLM_BUCKETING_FROM_FILE=str(file), STANDIN_STEPS="[]"
    )
    assert {e.strategy for e in ran.events("buckets_generated")} == {"file"}


def test_buckets_used_while_serving_are_counted(tmp_path):
    steps = json.dumps([[[100, 0]], [[100, 0]], [[1, 1], [1, 9]]])
    ran = run_standin("v0_26", tmp_path, STANDIN_STEPS=steps)
    used: Counter[object] = Counter()
    for event in ran.events("bucket_used"):  # one for each interval
        used[event.phase, event.shape, event.bucket] += event.count
    assert used == {
        ("prompt", (1, 100, 0), (1, 128, 0)): 2,
        ("decode", (2, 1, 10), (2, 1, 16)): 1,
    }


def test_two_engines_in_one_program_are_two_runs(tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_TWICE="1")
    assert len(ran.runs()) == 2
    assert [run.status for run in ran.runs()] == ["finished", "finished"]
    for number in (0, 1):
        assert len(ran.steps(run=number)) == 31
        assert len(ran.events("run_started", run=number)) == 1
        assert len(ran.events("run_finished", run=number)) == 1
