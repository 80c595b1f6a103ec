"""The run summary from events, whoever made them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers import folded, summary_of
from warmup_insights.analysis.oddities import oddities
from warmup_insights.analysis.summary import buckets as bucket_fates
from warmup_insights.analysis.summary import summarize
from warmup_insights.model.events import (
    BenchmarkResult,
    BucketMiss,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
    BucketUsed,
    CaptureProgress,
    CaptureSummary,
    ConfigRecorded,
    DefragRan,
    DefragStep,
    DefragWarmup,
    EngineInitialized,
    Event,
    Failure,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    GraphSkipped,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    RunFinished,
    RunStarted,
    SamplerStep,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)  # fmt: skip
from warmup_insights.model.run import RunRecord
from warmup_insights.units import GIB

PROMPT = [(1, 128, 0), (1, 256, 0), (2, 128, 0)]


def generated(rank=None):
    return BucketsGenerated(phase="prompt", count=3, buckets=PROMPT, rank=rank)


def step(bucket, rank=None, **more):
    return WarmupStep(phase="prompt", bucket=bucket, rank=rank, **more)


def test_empty_run_knows_nothing():
    summary = summary_of([RunStarted()])
    for name in (
        "failure",
        "memory",
        "buckets",
        "multimodal",
        "sampler",
        "defrag",
        "graphs",
    ):
        assert summary[name] is None
    assert summary["status"] == "unknown"
    assert (summary["misses"], summary["benchmarks"]) == ([], [])
    assert summary["ranks"] is None


def test_a_known_engine_that_names_no_rank_is_one():
    assert summary_of([RunStarted(engine="vllm")])["ranks"] == 1


def test_a_benchmark_result_that_was_pasted_twice_counts_once():
    first, second = (BenchmarkResult(values={"mean_ttft_ms": v}) for v in (5.0, 5.01))
    found = summary_of([RunStarted(), first, second, first])["benchmarks"]
    assert found == [first.values, second.values]


def test_captures_that_were_counted_are_evidence():
    found = [
        generated(),
        GraphCaptured(phase="prompt", bucket=PROMPT[0], memory_bytes=5),
        GraphCaptured(phase="prompt", bucket=PROMPT[1], memory_bytes=7),
        GraphSkipped(phase="prompt", bucket=PROMPT[2], reason="budget"),
    ]
    part = summary_of(found)["buckets"]["prompt"]
    assert part["captured"] == 2
    assert part["capture_percent"] == round(200 / 3, 4)
    assert part["graph_used_bytes"] == 12
    assert part["captured_buckets"] == [[1, 128, 0], [1, 256, 0]]


def test_buckets_without_a_graph_do_not_show_that_others_have_none():
    """Lines that were selected: neither the list nor the steps of the others are there."""
    skips = [GraphSkipped(phase="prompt", bucket=b, reason="budget") for b in PROMPT]
    assert summary_of([RunStarted(), *skips])["buckets"]["prompt"]["captured"] is None
    assert summary_of([generated(), *skips])["buckets"]["prompt"]["captured"] == 0


def test_an_execution_stated_as_step_and_capture_has_one_place_in_either_order():
    one = [
        step(PROMPT[0], mode="graph", index=1, duration_s=1.0),
        GraphCaptured(phase="prompt", bucket=PROMPT[0], index=1, duration_s=1.0),
    ]
    two = [
        step(PROMPT[1], mode="graph", index=2, duration_s=2.0),
        GraphCaptured(phase="prompt", bucket=PROMPT[1], index=2, duration_s=2.0),
    ]
    rows = folded([generated(), *one, *two]).rows
    assert [row.capture.position for row in rows if row.capture] == [0, 1]
    assert folded([generated(), *reversed(one), *reversed(two)]).rows == rows


def test_names_of_dimensions_are_those_of_the_list_and_not_of_the_ranges():
    """Ranges of decode buckets have no query, which is always 1."""
    ranges = BucketRangesConfigured(
        phase="decode", ranges={"bs": [1, 1, 4], "blocks": [8, 8, 16]}
    )
    names = ["bs", "query", "num_blocks"]
    listed = BucketsGenerated(
        phase="decode", count=1, buckets=[(1, 1, 8)], dimensions=names
    )
    for events in ([ranges, listed], [listed, ranges]):
        assert folded(events).summary.phase("decode").dimensions == names


def test_reported_captures_alone_are_no_evidence():
    found = [generated(), CaptureSummary(phase="prompt", captured_reported=3)]
    part = summary_of(found)["buckets"]["prompt"]
    assert (part["captured"], part["captured_reported"]) == (None, 3)
    assert part["captured_buckets"] is None


def test_counts_are_the_lowest_of_any_rank_and_never_a_sum():
    found = [generated(0), generated(1)]
    found += [step(b, 0) for b in PROMPT] + [step(b, 1) for b in PROMPT[:2]]
    summary = summary_of(found)
    assert summary["ranks"] == 2
    assert summary["buckets"]["prompt"]["generated"] == 3
    assert summary["buckets"]["prompt"]["warmed"] == 2


@pytest.mark.parametrize(
    ("mode", "noted", "warmed"),
    [(None, [], None), (None, [Note(topic="elided", text="...")], 3), ("eager", [], 3)],
    ids=["passed over", "cut out", "the fork runs all"],
)
@pytest.mark.parametrize("numbers", [(1, 2), (1, 3), (2, 3)])
def test_numbers_that_are_not_there_ran_only_where_all_run(
    numbers, mode, noted, warmed
):
    """vllm-gaudi passes over lengths above the most tokens of a step."""
    ran = [step(PROMPT[i - 1], index=i, total=3, mode=mode) for i in numbers]
    found = [generated(), *noted, *ran, WarmupFinished(duration_s=9.0)]
    assert summary_of(found)["buckets"]["prompt"]["warmed"] == warmed


@pytest.mark.parametrize(("num_timed", "total_s"), [(3, 6.0), (2, None)])
def test_a_few_of_many_steps_have_no_sum(num_timed, total_s):
    """A log that quotes some steps of its warm-up."""
    steps = [
        step(
            (1, 128 * index, 0), index=index, total=4,
            duration_s=2.0 if index <= num_timed else None,
        )
        for index in range(1, 5)
    ]  # fmt: skip
    part = folded([RunStarted(), *steps]).summary.phase("prompt")
    assert (part.warmed, part.steps_s) == (4, total_s)


def test_unfinished_step_is_not_warmed():
    found = [generated(), step(PROMPT[0]), step(PROMPT[1], is_finished=False)]
    assert summary_of(found)["buckets"]["prompt"]["warmed"] == 1


def test_omitted_buckets_are_counted_once():
    """The same fact is printed as a number and, at another level, as a list."""
    found = [
        BucketsOmitted(phase="prompt", count=2, reason="budget"),
        BucketsOmitted(phase="prompt", buckets=[(8, 640, 0), (8, 768, 0)]),
    ]
    assert summary_of(found)["buckets"]["prompt"]["omitted"] == 2


def test_missed_counts_distinct_shapes():
    found = [generated()] + [BucketMiss(phase="prompt", shape=(3, 999, 0))] * 4
    summary = summary_of(found)
    assert summary["buckets"]["prompt"]["missed"] == 1
    assert summary["misses"][0]["count"] == 4


def test_memory_is_that_of_the_lowest_rank():
    found = [
        KVCacheAllocated(num_blocks=90, rank=1),
        KVCacheAllocated(num_blocks=100, rank=0),
        MemoryMeasured(stage="weights", delta_bytes=8, rank=1),
    ]
    memory = summary_of(found)["memory"]
    assert (memory["num_kv_blocks"], memory["weights_bytes"]) == (100, 8)


def test_the_line_of_a_memory_figure_is_that_of_its_rank():
    summary = summary_of(
        [
            MemoryBudgetSet(rank=0, line=5, suggested_kv_cache_bytes=9 * GIB),
            MemoryBudgetSet(rank=1, line=6, suggested_kv_cache_bytes=8 * GIB),
            KVCacheAllocated(rank=0, line=7, num_blocks=100, block_size=16),
            KVCacheAllocated(rank=0, line=8, num_tokens=800, max_concurrency=1.0),
            KVCacheAllocated(rank=1, line=9, num_tokens=1600, max_concurrency=2.0),
        ]
    )
    memory, lines = summary["memory"], summary["lines"]
    assert memory["suggested_kv_cache_bytes"] == 8 * GIB
    assert lines["memory.suggested_kv_cache_bytes"] == 6
    assert (memory["kv_cache_tokens"], memory["max_concurrency"]) == (1600, 2.0)
    assert lines["memory.kv_cache_tokens"] == lines["memory.max_concurrency"] == 9
    assert lines["memory.num_kv_blocks"] == 7


def test_tokens_follow_from_blocks_and_their_size():
    found = [
        KVCacheAllocated(num_blocks=10), ConfigRecorded(settings={"block_size": 128}),
    ]  # fmt: skip
    assert summary_of(found)["memory"]["kv_cache_tokens"] == 1280


def test_settings_are_flat_and_printed_ones_fill_in():
    found = [
        ConfigRecorded(settings={"compilation_config": {"mode": 3}, "seed": 0}),
        MemoryBudgetSet(gpu_memory_utilization=0.9, graph_reserved_fraction=0.1),
    ]
    assert summary_of(found)["config"] == {
        "compilation_config.mode": 3, "seed": 0, "gpu_memory_utilization": 0.9,
        "VLLM_GRAPH_RESERVED_MEM": 0.1,
    }  # fmt: skip


def test_an_engine_configured_as_the_only_one_is_one_of_those_the_server_has():
    server = ConfigRecorded(settings={"data_parallel_size": 2})
    engine = ConfigRecorded(settings={"data_parallel_size": 1})
    for found in ([server, engine, engine], [server, engine, server]):
        assert summary_of(found)["config"] == {"data_parallel_size": 2}
    assert summary_of([engine])["config"] == {"data_parallel_size": 1}


def test_requests_of_each_engine_count_and_ranks_of_one_serve_the_same():
    used = {"phase": "prompt", "shape": (1, 5, 0), "bucket": (1, 128, 0)}
    missed = {"phase": "prompt", "shape": (1, 7, 0)}
    found = [
        event
        for rank, count in enumerate((3, 3, 5, 5))
        for event in (
            BucketUsed(rank=rank, count=count, duration_s=count / 2, **used),
            BucketMiss(rank=rank, count=count, **missed),
        )
    ]
    two = [ConfigRecorded(settings={"data_parallel_size": 2}), *found]
    for events, count in (found, 3), (two, 8):
        summary = summary_of(events)
        [shape] = summary["serving"]["uses"]
        assert (shape["count"], shape["duration_s"]) == (count, count / 2)
        assert [miss["count"] for miss in summary["misses"]] == [count]


def test_status_of_recorders_and_logs():
    assert summary_of([RunStarted()], source_kind="recorder")["status"] == "running"
    assert summary_of([WarmupFinished(skipped=True)])["status"] == "skipped"
    assert summary_of([WarmupFinished(duration_s=1.0)])["status"] == "finished"
    assert summary_of([ServerReady()])["status"] == "finished"
    assert summary_of([RunFinished(status="failed")])["status"] == "failed"


def test_failure_with_a_cause_wins_over_a_vague_one():
    found = [
        step(PROMPT[0], is_finished=False, free_before_bytes=11),
        Failure(failure="error", message="failed to start", line=4),
        Failure(failure="out_of_memory", message="no memory", line=5),
        Failure(failure="error", message="later", line=6),
    ]
    failure = summary_of(found)["failure"]
    assert (failure["kind"], failure["line"]) == ("out_of_memory", 5)
    assert (failure["bucket"], failure["free_bytes"]) == ([1, 128, 0], 11)


def test_sampler_and_defragmenter_sections():
    found = [
        SamplerWarmup(status="started", batch_sizes=[0, 1], time=10.0),
        SamplerStep(
            batch_size=1, temperature=0.0, top_p=1.0, top_k=0, batch_changed=True
        ),
        SamplerStep(
            batch_size=1, temperature=0.0, top_p=1.0, top_k=0, batch_changed=False
        ),
        SamplerWarmup(status="completed", time=12.5),
        DefragWarmup(status="started", thresholds=[8, 16], time=13.0),
        DefragStep(threshold=8, duration_s=0.5),
        DefragWarmup(status="completed", time=14.0, duration_s=0.9),
        DefragRan(swapped=3, padded=8, max_id_before=9, max_id_after=4),
    ]
    summary = summary_of(found)
    assert summary["sampler"]["configs"] == 2
    assert summary["sampler"]["duration_s"] == 2.5
    assert summary["defrag"]["duration_s"] == 0.9
    assert summary["defrag"]["steps"] == [{"threshold": 8, "duration_s": 0.5}]
    assert summary["defrag"]["runs"][0]["swapped"] == 3


def test_capture_modes_are_summed_for_one_rank():
    found = [
        CaptureProgress(mode="PIECEWISE", captured=51, total=51, rank=0),
        CaptureProgress(mode="FULL", captured=35, total=35, rank=0),
        CaptureProgress(mode="FULL", captured=35, total=35, rank=1),
        GraphsCaptured(duration_s=4.0, memory_bytes=9, rank=0),
    ]
    graphs = summary_of(found)["graphs"]
    assert (graphs["captured"], graphs["duration_s"]) == (86, 4.0)


def test_graphs_of_a_kind_without_a_bar_are_not_counted():
    piecewise, full = (
        CaptureProgress(mode="mixed prefill-decode, PIECEWISE", captured=19, total=19),
        CaptureProgress(mode="decode, FULL", captured=11, total=11),
    )
    done, listed = (
        GraphsCaptured(duration_s=4.0),
        GraphMemoryEstimated(modes=["PIECEWISE", "FULL"]),
    )
    both = ConfigRecorded(
        settings={
            "compilation_config": "{'cudagraph_mode': <CUDAGraphMode.FULL_AND_PIECEWISE: (2, 1)>}"
        }
    )
    changed = Note(topic="cuda_graphs", text="... setting cudagraph_mode=PIECEWISE")

    def captured(*found):
        return summary_of([*found, done])["graphs"]["captured"]

    assert captured(both, piecewise, full) == captured(listed, full, piecewise) == 30
    assert captured(both, piecewise) is None
    assert captured(both, changed, piecewise) == captured(piecewise) == 19
    assert captured(listed, full) is None
    assert captured(full) is None  # the other kind comes first
    assert captured(GraphMemoryEstimated(modes=["FULL"]), full) == 11
    going = CaptureProgress(mode="decode, FULL", captured=7, total=11)
    assert summary_of([piecewise, going])["graphs"]["captured"] == 26
    assert summary_of([going])["graphs"]["captured"] is None


def test_parts_of_the_budget_add_up_to_the_device():
    from tests.helpers import ROOT, summarize_file

    path = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
    memory = summarize_file(path)["memory"]
    parts = memory["parts"]
    total = sum(part["bytes"] for part in parts)
    assert abs(total - memory["total_bytes"]) < 0.005 * memory["total_bytes"]
    assert [part["name"] for part in parts] == [
        "weights", "profiling", "margin", "graphs", "kv_cache",
    ]  # fmt: skip


def cuda_budget(**more: Any) -> MemoryBudgetSet:
    """What vLLM states of a device of 80 GiB at a utilisation of 0.9."""
    return MemoryBudgetSet(
        total_bytes=80 * GIB, usable_bytes=72 * GIB, gpu_memory_utilization=0.9,
        **{"weights_bytes": 15 * GIB, "activation_bytes": 5 * GIB,
           "kv_cache_bytes": 52 * GIB, **more},
    )  # fmt: skip


def cuda_parts(*found: Event) -> dict[str, tuple[str, float]]:
    parts = summary_of(list(found))["memory"]["parts"]
    assert sum(part["bytes"] for part in parts) == 80 * GIB
    return {part["name"]: (part["label"], part["bytes"] / GIB) for part in parts}


def test_what_was_in_use_at_the_start_is_no_part_of_the_margin():
    """vLLM `v1/worker/gpu_worker.py`: unrequested = free at the start - requested."""
    parts = cuda_parts(cuda_budget(free_bytes=75 * GIB))
    assert parts["at_start"] == ("in use at the start", 5)
    assert parts["margin"] == ("margin, never used", 3)
    memory = summary_of([cuda_budget(free_bytes=75 * GIB)])["memory"]
    assert memory["at_start_bytes"] == 5 * GIB


def test_where_no_line_states_it_the_rest_of_the_device_is_no_margin():
    parts = cuda_parts(cuda_budget())
    assert "at_start" not in parts
    assert parts["margin"] == ("outside of the utilisation", 8)
    assert summary_of([cuda_budget()])["memory"]["at_start_bytes"] is None


def test_less_free_than_asked_for_divides_nothing():
    """The engine refuses such a start: figures of two devices, or of two starts."""
    parts = cuda_parts(cuda_budget(free_bytes=60 * GIB))
    assert parts["margin"] == ("outside of the utilisation", 8)


def test_graphs_come_out_of_what_was_free():
    taken = GraphsCaptured(memory_bytes=GIB, time=3.0)
    parts = cuda_parts(cuda_budget(free_bytes=75 * GIB), taken)
    assert parts["graphs"] == ("graphs, out of the margin", 1)
    assert parts["margin"] == ("margin, never used", 2)


def test_what_graphs_take_beyond_the_estimate_comes_out_of_the_margin():
    taken = GraphsCaptured(memory_bytes=3 * GIB, time=3.0)
    aside = GraphMemoryEstimated(estimated_bytes=GIB, is_reserved=True)
    budget = cuda_budget(free_bytes=75 * GIB, kv_cache_bytes=51 * GIB)
    parts = summary_of([budget, aside, taken])["memory"]["parts"]
    sizes = {part["label"]: part["bytes"] / GIB for part in parts}
    assert sizes["graphs, as estimated"] == 1
    assert sizes["graphs, out of the margin"] == 2
    assert sizes["margin, never used"] == 1
    assert sum(sizes.values()) == 80


def test_an_estimate_within_the_activations_is_not_taken_out_of_the_margin_again():
    """Since 0.27 the peak of activations holds the estimate for graphs that is set aside."""
    budget = cuda_budget(weights_bytes=None, consumed_bytes=15 * GIB)
    taken = GraphsCaptured(memory_bytes=GIB, time=3.0)
    estimate = GraphMemoryEstimated(estimated_bytes=GIB, is_reserved=True)
    parts = cuda_parts(budget, estimate, taken)
    assert "graphs" not in parts
    assert parts["profiling"] == ("peak activations and graphs, as estimated", 5)
    assert parts["margin"][1] == 8


def test_what_is_consumed_beside_the_weights_is_a_part_however_small():
    """vLLM since 0.27 states the sum of weights and other memory only."""
    rest, cache = GIB // 4, 52 * GIB - GIB // 4
    parts = cuda_parts(
        cuda_budget(consumed_bytes=15 * GIB + rest, kv_cache_bytes=cache)
    )
    assert parts["other"][0] == "other memory in use"


def test_a_failed_warmup_of_requests_is_worth_a_look():
    failed = Note(topic="frontend_warmup", text="Multi-modal warmup failed")
    tried = Note(topic="frontend_warmup", text="Warming up chat template processing...")
    (sentence,) = oddities(folded([failed, tried]).summary)
    assert sentence.endswith("Multi-modal warmup failed.")


def test_too_little_known_gives_no_parts():
    assert summary_of([KVCacheAllocated(num_blocks=1)])["memory"]["parts"] == []


def test_oddities_name_their_numbers():
    found = [
        generated(),
        MemoryBudgetSet(kv_cache_bytes=-(1024**3), graph_reserved_bytes=1024**3),
        GraphCaptured(phase="prompt", bucket=PROMPT[0], memory_bytes=1024**2),
        BucketMiss(phase="prompt", shape=(3, 999, 0)),
    ]
    text = " ".join(oddities(folded(found).summary))
    assert "-1024 MiB" in text or "-1 GiB" in text
    assert "2 of 3 prompt buckets have no graph" in text
    assert "1 shape met no warmed bucket while serving" in text


def test_a_cache_that_holds_tokens_was_not_without_memory():
    found = [
        MemoryBudgetSet(kv_cache_bytes=-(1024**3)),
        KVCacheAllocated(num_tokens=400_000),
    ]
    assert oddities(folded(found).summary) == []


def test_a_run_without_flaws_has_no_oddities():
    found = [generated(), *(step(bucket) for bucket in PROMPT), WarmupFinished()]
    assert oddities(folded(found).summary) == []


def test_recorder_knows_its_time_zone_and_a_log_does_not():
    recorded = summary_of([RunStarted(time=1.0)], source_kind="recorder")
    assert recorded["time"]["timezone"] == "UTC"
    assert summary_of([RunStarted(time=1.0)])["time"]["timezone"] is None


def test_a_line_that_is_printed_again_is_no_second_model():
    first = MemoryMeasured(stage="weights", delta_bytes=100, duration_s=38.2, time=9.0)
    draft = MemoryMeasured(stage="weights", delta_bytes=10, duration_s=1.5, time=11.0)
    memory = summary_of([RunStarted(), first, first, draft])["memory"]
    assert memory["weights_bytes"] == 110


def test_ranks_that_no_name_keeps_apart_load_one_model():
    ranks = [
        MemoryMeasured(
            stage="weights", delta_bytes=size, duration_s=took, time=9.0 + took
        )
        for size, took in (
            (1000, 38.2),
            (1004, 39.1),
            (1000, 40.0),
            (100, 2.0),
            (100, 2.5),
        )
    ]
    assert summary_of([RunStarted(), *ranks])["memory"]["weights_bytes"] == 1100


@pytest.mark.parametrize(
    ("sizes", "ranks"),
    [({}, 1), ({"tensor_parallel_size": 1}, 1), ({"tensor_parallel_size": 2}, None),
     ({"pipeline_parallel_size": 2, "tensor_parallel_size": 1}, None)],
)  # fmt: skip
def test_a_start_with_several_workers_that_fails_before_them_has_an_unknown_number(
    sizes, ranks
):
    """Which of them are on this machine is not known."""
    failed = Failure(failure="error", message="no space in /dev/shm", time=3.0)
    start = [RunStarted(engine="vllm", time=0.0), ConfigRecorded(settings=sizes)]
    assert summary_of([*start, failed])["ranks"] == ranks
    seen = MemoryMeasured(stage="start", rank=0, time=2.0)
    assert summary_of([*start, seen, failed])["ranks"] == 1


@pytest.mark.parametrize("source_kind", ["recorder", "log"])
def test_a_recording_without_settings_leaves_the_ranks_of_a_failed_start_unknown(
    source_kind,
):
    """The program ended before vLLM read its options; a log has all that are not defaults."""
    events = [
        RunStarted(engine="vllm", time=1.0),
        Failure(failure="error", message="exit status 2", time=2.0),
        RunFinished(status="failed", time=3.0),
    ]
    run = RunRecord(run_id="r", source_kind=source_kind)
    summary, read = summarize(run, events).summary, source_kind == "log"
    assert summary.ranks == (1 if read else None)


def test_rows_take_time_in_proportion_to_buckets(monkeypatch):
    """What is looked up once for a phase is not looked up for each of its buckets."""
    calls = []
    original = bucket_fates._captured_buckets
    monkeypatch.setattr(
        bucket_fates,
        "_captured_buckets",
        lambda facts: calls.append(1) or original(facts),
    )
    steps = [
        WarmupStep(
            phase="prompt", mode="graph", bucket=(n, 128, 0), index=n, time=1.0 * n
        )
        for n in range(1, 200)
    ]
    assert len(folded(steps).rows) == 199
    assert len(calls) <= 4


def test_notes_that_are_kept_are_counted_to_the_end():
    notes = [Note(topic="platform", text=str(number)) for number in range(150)]
    found = folded([*notes, *notes]).summary.notes
    assert len(found) == 100
    assert {note.count for note in found} == {2}


@pytest.mark.parametrize(
    ("config", "more", "status"),
    [
        ({"use_bucketing": "False"}, [EngineInitialized(duration_s=6.0)], "skipped"),
        ({"use_bucketing": "True"}, [EngineInitialized(duration_s=6.0)], "finished"),
        ({"use_bucketing": "False"}, [WarmupFinished(duration_s=9.0)], "finished"),
        ({"use_bucketing": "False"}, [], "unknown"),
    ],
)
def test_without_buckets_an_engine_that_is_made_warmed_nothing_up(config, more, status):
    found = summary_of([ConfigRecorded(settings=config), *more])
    assert found["status"] == status


def test_what_is_free_before_memory_is_divided_belongs_to_no_part():
    weights = MemoryMeasured(
        stage="weights", delta_bytes=15 * GIB, total_bytes=94 * GIB
    )
    profile = MemoryMeasured(stage="profile_run", delta_bytes=GIB, total_bytes=94 * GIB)
    assert summary_of([weights, profile])["memory"]["parts"] == []
    cache = MemoryMeasured(stage="kv_cache", delta_bytes=60 * GIB, total_bytes=94 * GIB)
    parts = summary_of([weights, profile, cache])["memory"]["parts"]
    assert [part["name"] for part in parts] == [
        "weights",
        "profiling",
        "other",
        "kv_cache",
    ]


@pytest.mark.parametrize("status", ["failed", "finished"])
def test_missing_kernels_are_shown_where_the_start_failed(status):
    """Other platforms print the same line and go on without them."""
    text = "Failed to import from vllm._C: ImportError('libcuda.so.1: no such file')"
    ended = (
        Failure(failure="error", message="no kernel")
        if status == "failed"
        else ServerReady()
    )
    summary = folded([Note(topic="kernels_missing", text=text), ended]).summary
    assert summary.status == status
    assert any(text in line for line in oddities(summary)) == (status == "failed")


@pytest.mark.parametrize(
    ("kind", "is_shown"), [("cuda", True), ("tpu", False), ("hpu", False)]
)
def test_kernels_are_missing_only_where_vllm_has_some_for_the_device(kind, is_shown):
    text = "Failed to import from vllm._C: ImportError('libcuda.so.1: no such file')"
    events = [RunStarted(engine="vllm", device_kind=kind),
              Note(topic="kernels_missing", text=text),
              Failure(failure="error", message="no device")]  # fmt: skip
    assert any(text in line for line in oddities(folded(events).summary)) == is_shown


def test_an_empty_cache_stands_out_without_a_remedy_that_the_advice_may_refuse():
    events = [
        RunStarted(engine="vllm", device_kind="tpu"),
        MemoryBudgetSet(kv_cache_bytes=-3),
    ]
    (line,) = [each for each in oddities(folded(events).summary) if "KV cache" in each]
    assert line == "There is no memory for the KV cache (-3 B)."


def test_a_step_without_a_mode_and_its_capture_are_one_cost():
    """As recordings have it where `torch.compile` made what the step compiled."""
    made = {"duration_s": 3.0, "memory_bytes": 7, "time": 5.0, "index": 1}
    result = folded(
        [
            RunStarted(engine="vllm-gaudi"),
            generated(),
            step(PROMPT[0], total=3, **made),
            GraphCaptured(phase="prompt", bucket=PROMPT[0], total=3, **made),
        ]
    )
    [row] = [row for row in result.rows if row.warmed]
    assert (row.duration_s, row.memory_bytes) == (3.0, 7)
    assert result.summary.phase("prompt").steps_s == 3.0


def test_a_bucket_without_a_graph_is_no_hole_between_those_that_have_one():
    """vllm-gaudi runs a prompt that is too long for a graph in the middle of others."""
    modes = enumerate(["graph", "eager", "graph"], 1)
    events = [
        step(bucket, index=index, total=4, mode=mode)
        for bucket, (index, mode) in zip(PROMPT, modes, strict=True)
    ]
    failed = [
        RunStarted(engine="vllm-gaudi"),
        *events,
        Failure(failure="error", message="gone"),
    ]
    assert summary_of(failed)["buckets"]["prompt"]["warmed"] == 3


READ = MemoryMeasured(stage="weights", used_bytes=15 * GIB, total_bytes=96 * GIB)
CACHE = KVCacheAllocated(num_blocks=4160)
OVER = (WarmupFinished(duration_s=9.0), ServerReady())


@pytest.mark.parametrize(
    ("events", "used"),
    [
        ([READ], 15 * GIB),
        ([READ, CACHE], None),
        ([READ, *OVER], None),
        ([READ, WarmupFinished(skipped=True)], 15 * GIB),
        ([READ, step((1, 128, 0))], None),
        ([READ, step((1, 128, 0), free_before_bytes=40 * GIB)], 56 * GIB),
        ([READ, step((1, 128, 0), free_before_bytes=40 * GIB), *OVER],
         None),
        ([READ, step((1, 128, 0), free_after_bytes=39 * GIB), *OVER,
          CACHE], 57 * GIB),
    ],
)  # fmt: skip
def test_memory_in_use_is_out_of_date_once_more_is_taken(events, used):
    """Of a start that is over, what its weights took is not what is in use."""
    assert summary_of([RunStarted(), *events])["progress"]["used_bytes"] == used


def test_a_few_steps_of_an_unknown_number_have_no_sum():
    """The engine may have passed over the buckets whose lines are not there."""
    steps = [
        step((1, 128 * index, 0), index=index, total=48, duration_s=0.5, mode=None)
        for index in (1, 48)
    ]
    part = folded([RunStarted(), *steps]).summary.phase("prompt")
    assert (part.warmed, part.steps_s) == (None, None)


def test_kinds_of_multimodal_items_are_bounded():
    steps = [
        WarmupStep(phase="multimodal", modality=f"kind{n}", bucket=(n, n, 1))
        for n in range(1000)
    ]
    phases = {row.phase for row in folded(steps).rows}
    assert len(phases) == bucket_fates.MAX_KINDS + 1


@pytest.mark.parametrize(("done", "warmed"), [(3, None), (2, 2)])
def test_warmed_buckets_of_an_engine_are_not_counted_for_another(done: int, warmed):
    """Data parallel engines have lists of their own; bars show those of the first alone."""
    lists = [
        BucketsGenerated(phase="prompt", count=3, buckets=PROMPT, rank=0),
        BucketsGenerated(phase="prompt", count=2, buckets=PROMPT[:2], rank=1),
    ]
    steps = [
        WarmupStep(phase="prompt", bucket=bucket, index=n + 1, total=3, rank=0)
        for n, bucket in enumerate(PROMPT[:done])
    ]
    summary = folded([*lists, *steps]).summary
    assert summary.phase("prompt").warmed == warmed
    assert summary.contradictions == []


def test_of_too_many_buckets_counts_are_unknown(monkeypatch):
    steps = [
        WarmupStep(phase="decode", bucket=(1, 1, n), index=n, is_finished=True, line=n)
        for n in range(1, 10)
    ]
    everything = folded(steps)
    assert everything.summary.buckets["decode"].warmed == 9
    monkeypatch.setattr(bucket_fates, "MAX_BUCKETS", 5)
    cut = folded(steps)
    assert len(cut.rows) == 5
    assert cut.summary.buckets["decode"].warmed is None
