"""What is drawn equals what is known: figures read as data."""

from __future__ import annotations

from types import SimpleNamespace

import pandas as pd
import pytest
from msgspec import structs, to_builtins

from dashboard import comparing, shown
from dashboard.charts.base import (
    LEGEND_PX,
    make_room,
    mark_synthetic,
    new_figure,
)
from dashboard.charts.buckets import (
    bucket_map,
    buckets_frame,
    choose_axes,
    of_phase,
)
from dashboard.charts.memory import (
    budget_frame,
    budget_waterfall,
    capture_curve,
    capture_points,
    curve_picture,
    failure_frame,
    graph_shares,
    reserve_picture,
    reserved_used,
)
from dashboard.charts.runs import (
    MAX_CAUSE,
    runs_frame,
    runs_table,
    trend,
    trend_frame,
)
from dashboard.charts.steps import (
    capture_bars,
    capture_frame,
    defrag_frame,
    defrag_runs,
    graph_captures,
    graphs_by_size,
    lazy_timeline,
    sampler_cells,
    sampler_grid,
    stage_bars,
    stages_frame,
    threshold_bars,
)
from dashboard.charts.time import (
    costly_steps,
    phase_bars,
    phase_totals,
    phases_frame,
    rank_phases,
    rank_timeline,
    step_bars,
    timeline,
)
from dashboard.palette import STATES
from dashboard.run_tabs.graphs import (
    has_captures,
    has_memory,
    has_sizes,
    without_reserve,
)
from dashboard.shown import device_words, evidence_text
from tests.dashboard.builders import GIB, START, recorded_events
from tests.dashboard.conftest import ROOT
from warmup_insights.analysis.advice import Finding
from warmup_insights.analysis.compare import BucketChange, compare
from warmup_insights.analysis.sentences import start_sentences
from warmup_insights.analysis.summary import Folded, summarize
from warmup_insights.analysis.summary.memory import budget_parts
from warmup_insights.export.comparison import bucket_sets_table
from warmup_insights.export.findings import finding_pairs
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import (
    GraphCaptured,
    LazyCapture,
    PhaseMarked,
    ServerReady,
)
from warmup_insights.model.phases import phase_words
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import (
    CompileFacts,
    CompilePart,
    Contradiction,
    FailureFacts,
    Gap,
    GraphFacts,
    MemoryFacts,
    PhaseBuckets,
    RunSummary,
    SamplerFacts,
    SamplerStepFacts,
    Serving,
    ServingEnd,
    SourceName,
    TimePhase,
    Times,
)
from warmup_insights.runs import current
from warmup_insights.storage import EventStore
from warmup_insights.storage.queries import RUN_COLUMNS


@pytest.fixture(scope="module")
def recorded():
    return summarize(RunRecord(run_id="r" * 12), recorded_events())


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    """The warm-up log of the vllm-gaudi documentation, from upload to summary."""
    path = tmp_path_factory.mktemp("document") / "runs.db"
    log = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
    with EventStore(path) as store:
        (run_id,) = ingest_path(store, str(log)).run_ids
        return (
            store.summary(run_id),
            store.bucket_summaries(run_id),
        )


def bars(figure, number=0):
    trace = figure.data[number]
    return dict(zip(trace.y, trace.x, strict=True))


def test_the_waterfall_ends_at_the_kv_cache(document):
    steps = budget_frame(document[0])
    expected = {
        "Device total": 94.62, "Weights": 14.97, "Profiling run": 504 / 1024,
        "Free after profiling": 79.16, "Margin, never used": 39.58, "Usable": 39.58,
        "Reserved for graphs": 15.83, "Taken by graphs": 14.03 + 161.9 / 1024,
        "KV cache": 23.75,
    }  # fmt: skip
    assert bars(budget_waterfall(steps)) == pytest.approx(expected, abs=0.006)
    ends = dict(zip(steps["step"], steps["start_bytes"] + steps["bytes"], strict=True))
    starts = dict(zip(steps["step"], steps["start_bytes"], strict=True))
    assert ends["Weights"] == ends["Device total"]
    assert starts["Reserved for graphs"] == pytest.approx(ends["KV cache"], rel=0.001)
    assert ends["Taken by graphs"] == ends["Reserved for graphs"]


def summary_with(memory, **sections):
    return RunSummary(
        run_id="r", source=SourceName(kind="recorder"),
        memory=structs.replace(memory, parts=budget_parts(memory, sections.get("graphs"))),
        **sections,
    )  # fmt: skip


def test_the_waterfall_of_cuda_takes_weights_out_of_the_usable_share():
    """Upstream vLLM: usable is a share of the whole device."""
    memory = MemoryFacts(
        total_bytes=80 * GIB, usable_bytes=72 * GIB, weights_bytes=15 * GIB,
        profile_bytes=5 * GIB, kv_cache_bytes=50 * GIB, gpu_memory_utilization=0.9,
    )  # fmt: skip
    graphs = GraphFacts(memory_bytes=GIB, estimated_bytes=GIB)
    steps = budget_frame(summary_with(memory, graphs=graphs))
    assert list(zip(steps["step"], steps["bytes"] // GIB, steps["start_bytes"] // GIB,
                    strict=True)) == [
        ("Device total", 80, 0), ("Outside of the utilisation", 8, 72), ("Usable", 72, 0),
        ("Weights", 15, 57), ("Peak activations", 5, 52), ("Graphs, as estimated", 1, 51),
        ("Taken by graphs", 1, 51), ("Not accounted for", 1, 50), ("KV cache", 50, 0),
    ]  # fmt: skip


def test_the_estimate_is_what_cuda_sets_aside_for_graphs():
    memory = MemoryFacts(
        total_bytes=80 * GIB, usable_bytes=72 * GIB, weights_bytes=15 * GIB,
        profile_bytes=5 * GIB, kv_cache_bytes=50 * GIB, gpu_memory_utilization=0.9,
    )  # fmt: skip
    graphs = GraphFacts(memory_bytes=GIB // 2, estimated_bytes=2 * GIB)
    (row,) = graph_shares(summary_with(memory, graphs=graphs)).to_dict("records")
    assert (row["reserved_text"], row["used_text"]) == ("2 GiB", "512 MiB")
    graphs = GraphFacts(memory_bytes=GIB, estimated_bytes=GIB, is_reserved=False)
    aside = summary_with(memory, graphs=graphs)
    assert graph_shares(aside).empty
    assert without_reserve(aside) == ("1 GiB estimated; not taken off the KV cache.")


def test_an_estimate_is_drawn_where_the_device_is_not_divided():
    """A start that failed before its budget states weights, cache and estimate only."""
    memory = MemoryFacts(weights_bytes=95 * GIB, kv_cache_bytes=8 * GIB)
    graphs = GraphFacts(estimated_bytes=2 * GIB, is_reserved=True)
    failed = summary_with(memory, graphs=graphs)
    steps = budget_frame(failed)
    assert list(zip(steps["step"], steps["text"], steps["meaning"], strict=True)) == [
        ("Weights", "95 GiB", "load"), ("Graphs, as estimated", "2 GiB", "reserved"),
        ("KV cache", "8 GiB", "kv_cache"),
    ]  # fmt: skip
    assert "what they took is not stated" in reserve_picture(failed).hint
    (row,) = graph_shares(failed).to_dict("records")
    assert (row["reserved_text"], row["used_bytes"]) == ("2 GiB", None)
    unsure = summary_with(memory, graphs=GraphFacts(estimated_bytes=2 * GIB))
    assert graph_shares(unsure).empty
    assert without_reserve(unsure) == (
        "2 GiB estimated; whether it was set aside is not stated."
    )


def test_a_tab_is_left_out_where_it_would_state_nothing():
    """Memory of a device without graphs, an estimate without sizes, buckets without counts."""
    memory = MemoryFacts(weights_bytes=95 * GIB, kv_cache_bytes=8 * GIB)
    bare = summary_with(memory, buckets={"prompt": PhaseBuckets(generated=18)})
    assert has_memory(bare)
    assert not has_captures(bare)
    assert not has_memory(summary_with(memory))
    estimated = summary_with(memory, graphs=GraphFacts(estimated_bytes=2 * GIB))
    assert has_memory(estimated)
    assert not has_sizes(estimated)
    assert has_sizes(summary_with(memory, graphs=GraphFacts(captured=54)))


def test_graphs_beyond_their_estimate_have_two_bars_and_no_third():
    memory = MemoryFacts(
        total_bytes=80 * GIB, usable_bytes=72 * GIB, weights_bytes=15 * GIB,
        profile_bytes=5 * GIB, kv_cache_bytes=51 * GIB, gpu_memory_utilization=0.9,
    )  # fmt: skip
    graphs = GraphFacts(memory_bytes=3 * GIB, estimated_bytes=GIB, is_reserved=True)
    steps = set(budget_frame(summary_with(memory, graphs=graphs))["step"])
    assert {"Graphs, out of the margin", "Graphs, as estimated"} <= steps
    assert "Taken by graphs" not in steps


def test_graphs_out_of_the_margin_are_above_what_is_usable():
    memory = MemoryFacts(
        total_bytes=80 * GIB, free_bytes=78 * GIB, at_start_bytes=2 * GIB,
        usable_bytes=72 * GIB, weights_bytes=15 * GIB, profile_bytes=5 * GIB,
        kv_cache_bytes=52 * GIB, gpu_memory_utilization=0.9,
    )  # fmt: skip
    steps = budget_frame(summary_with(memory, graphs=GraphFacts(memory_bytes=GIB)))
    assert list(zip(steps["step"], steps["bytes"] // GIB, steps["start_bytes"] // GIB,
                    strict=True)) == [
        ("Device total", 80, 0), ("In use at the start", 2, 78),
        ("Free at the start", 78, 0), ("Graphs, out of the margin", 1, 77),
        ("Margin, never used", 5, 72), ("Usable", 72, 0), ("Weights", 15, 57),
        ("Peak activations", 5, 52), ("KV cache", 52, 0),
    ]  # fmt: skip


def test_sizes_without_a_total_are_bars_of_their_own():
    memory = MemoryFacts(usable_bytes=10 * GIB, kv_cache_bytes=6 * GIB)
    steps = budget_frame(summary_with(memory))
    assert list(steps["kind"]) == ["stated", "stated"]
    assert list(steps["start_bytes"]) == [0, 0]
    assert list(steps["text"]) == ["10 GiB", "6 GiB"]


def test_a_run_without_memory_lines_has_no_waterfall(recorded):
    bare = structs.replace(recorded.summary, memory=None, buckets=None, graphs=None)
    assert budget_frame(bare).empty


def test_figures_whose_evidence_contradicts_itself_are_marked(recorded):
    broken = Contradiction(law="a law", figures=["usable_bytes"], evidence=["a", "b"])
    doubted = structs.replace(recorded.summary, contradictions=[broken])
    steps = budget_frame(doubted).set_index("step")["text"]
    assert steps["Usable"] == "70 GiB (contradictory)"
    assert steps["KV cache"] == "60 GiB"
    assert shown.figure(doubted, "usable_bytes")[0].doubt == (
        "A law, but the evidence differs: a; b."
    )


def test_the_map_counts_what_the_summary_counts(document):
    summary, buckets = document[0], buckets_frame(document[1])
    for phase, size in (("prompt", 24), ("decode", 48)):
        section = summary.phase(phase)
        rows = of_phase(buckets, phase)
        figure = bucket_map(rows, choose_axes(list(rows["bucket"]), ("bs", "seq")))
        states = [code for row in figure.data[0].z for code in row if code is not None]
        names = list(STATES)
        assert len(states) == size == section.generated
        assert states.count(names.index("captured")) == section.captured
        assert states.count(names.index("warmed")) == size - section.captured
        legend = [t.name for t in figure.data if t.showlegend is not False and t.name]
        assert f"captured {section.captured}" in legend


def test_the_map_marks_shapes_that_ran_differently_and_misses(recorded):
    rows = buckets_frame(recorded.rows)
    decode = of_phase(rows, "decode")
    figure = bucket_map(decode, choose_axes(list(decode["bucket"]), ("bs", "q", "ctx")))
    heat = figure.data[0]
    signs = {
        f"({y}, 1, {x})": heat.text[row][column]
        for row, y in enumerate(heat.y)
        for column, x in enumerate(heat.x)
    }
    assert signs["(2, 1, 32)"] == "\u2260"
    assert signs["(2, 1, 40)"] == "\u2715"
    assert signs["(1, 1, 16)"] == ""
    hover = {custom[0]: custom[1] for custom in figure.data[-1].customdata}
    assert "ran as (2, 1, 64)" in hover["(2, 1, 32)"]


def test_the_map_by_time_draws_the_seconds_of_each_bucket(recorded):
    rows = of_phase(buckets_frame(recorded.rows), "prompt")
    rows = rows[rows["generated"] > 0]
    axes = choose_axes(list(rows["bucket"]), ("bs", "query", "ctx"))
    figure = bucket_map(rows, axes, by="duration_s")
    heat = figure.data[0]
    # (1, 128) warmed in 1 s and captured in 1 s; (2, 256) warmed in 4 s, not captured.
    assert heat.z[heat.y.index("1")][heat.x.index("128")] == 2.0
    assert heat.z[heat.y.index("2")][heat.x.index("256")] == 4.0
    assert "(s)" in heat.colorbar.title.text


@pytest.mark.parametrize(
    ("buckets", "expected"),
    [
        ([(1, 128), (2, 256)], (1, 0, None)),
        ([(1, 1, 16), (2, 1, 32)], (2, 0, None)),
        ([(1, 128, 0), (1, 256, 4)], (1, 2, None)),
        ([(1, 128, 0), (2, 256, 4)], (1, 0, 2)),
        ([(1, 128), (2, 128)], (1, 0, None)),
        ([(8,), (16,)], (0, None, None)),
        ([(2048, 256, 32, 1), (8, 0, 32, 0)], (1, 0, 3)),
    ],
)
def test_axes_leave_out_what_does_not_vary(buckets, expected):
    axes = choose_axes(buckets, ("a", "b", "c", "d")[: len(buckets[0])])
    assert (axes.x, axes.y, axes.panel) == expected


def test_the_timeline_adds_up_to_the_wall_time(document):
    phases = phases_frame(document[0])
    figure = timeline(phases)
    assert sum(figure.data[0].x) == pytest.approx(document[0].time.wall_s)
    ends = [b + x for b, x in zip(figure.data[0].base, figure.data[0].x, strict=True)]
    assert list(figure.data[0].base[1:]) == pytest.approx(ends[:-1])


def test_unlogged_time_is_hatched_and_names_its_lines(recorded):
    gap = Gap(start_s=4.0, duration_s=6.0, unlogged_s=6.0, line=7, next_line=8,
              before="the <b>last</b>", after="the next")  # fmt: skip
    phase = TimePhase(name="load_model", start_s=0.0, duration_s=4.0)
    times = Times(wall_s=10.0, phases=[phase], gaps=[gap])
    figure = timeline(phases_frame(structs.replace(recorded.summary, time=times)))
    assert list(figure.data[0].marker.pattern.shape) == ["", "/"]
    hover = figure.data[0].customdata[1][0]
    assert "line 7" in hover
    assert "&lt;b&gt;last" in hover


def test_phase_bars_sum_each_name(document):
    totals = phase_totals(phases_frame(document[0]))
    drawn = bars(phase_bars(totals))
    assert drawn["capturing graphs of prompt buckets"] == pytest.approx(7.0)
    assert sum(drawn.values()) == pytest.approx(document[0].time.wall_s)


def test_each_rank_has_its_own_row():
    events = [
        PhaseMarked(name="load_model", edge="start", time=START, rank=0),
        PhaseMarked(name="load_model", edge="end", time=START + 5, rank=0),
        PhaseMarked(name="load_model", edge="start", time=START + 1, rank=1),
        PhaseMarked(name="load_model", edge="end", time=START + 9, rank=1),
        ServerReady(time=START + 10),
    ]
    summary = summarize(RunRecord(run_id="a"), events).summary
    figure = rank_timeline(rank_phases(summary))
    drawn = zip(figure.data[0].y, figure.data[0].base, figure.data[0].x, strict=True)
    assert ("rank 0", 0.0, 5.0) in list(drawn)
    drawn = zip(figure.data[0].y, figure.data[0].base, figure.data[0].x, strict=True)
    assert ("rank 1", 1.0, 8.0) in list(drawn)


def test_captures_rise_to_what_they_took(recorded):
    points, is_warmup = capture_points(recorded.rows)
    figure = capture_curve(points, 10 * GIB)
    assert not is_warmup
    assert list(figure.data[0].y) == pytest.approx([2, 4, 6, 6.5, 7, 7.5])
    assert figure.layout.shapes[0].y0 == 10.0


def test_captures_of_a_log_are_differences_of_free_memory(document):
    points, is_warmup = capture_points(document[1])
    assert not is_warmup
    last = points["cumulative_bytes"].iloc[-1] / GIB
    assert last == pytest.approx(55.43 - 43.03, abs=0.01)


def test_reserved_and_used_are_those_of_the_table(recorded):
    figure = reserved_used(graph_shares(recorded.summary))
    assert bars(figure, 0) == {"all graphs": 7.5, "prompt": 6.0, "decode": 1.5}
    assert bars(figure, 1) == {"all graphs": 10.0, "prompt": 3.0, "decode": 7.0}
    assert list(figure.data[0].text) == ["7.5 GiB", "6 GiB", "1.5 GiB"]


def drawn_shares(summary):
    figure = capture_bars(capture_frame(summary))
    return {trace.name: bars(figure, n) for n, trace in enumerate(figure.data)}


def test_capture_shares_are_those_of_the_summary(document):
    drawn = drawn_shares(document[0])
    assert drawn["captured, supported by evidence"] == {"prompt": 62.5, "decode": 100.0}
    assert drawn["warmed"] == {"prompt": 100.0, "decode": 100.0}
    texts = capture_frame(document[0]).set_index(["phase", "what"])["text"]
    assert texts["prompt", "captured"] == "15 of 24, 62.5 %"
    # What the log reports is the same.
    assert "captured_reported" not in set(capture_frame(document[0])["what"])


def test_what_only_the_log_claims_is_drawn_apart(recorded):
    """vllm-gaudi prints the length of the bucket list as captured."""
    section = PhaseBuckets(generated=8, warmed=8, captured_reported=8)
    summary = structs.replace(recorded.summary, buckets={"prompt": section})
    assert list(drawn_shares(summary)) == [
        "captured, as the engine reports it",
        "warmed",
    ]


def test_sampler_and_defragmenter_times(recorded):
    figure = stage_bars(stages_frame(recorded.summary))
    assert bars(figure) == pytest.approx({"sampler": 0.06, "defragmenter": 0.75})
    grid = sampler_grid(sampler_cells(recorded.summary.sampler))
    assert grid.data[0].x == ("0", "1", "2")
    assert list(grid.data[0].z[0]) == pytest.approx([10.0, 20.0, 30.0])
    steps = pd.DataFrame([to_builtins(s) for s in recorded.summary.defrag.steps])
    thresholds = threshold_bars(steps)
    assert dict(zip(thresholds.data[0].x, thresholds.data[0].y, strict=True)) == {
        "8": 0.5, "16": 0.25,
    }  # fmt: skip


def test_a_sampler_log_without_times_shows_what_was_covered(sample_logs, tmp_path):
    with EventStore(tmp_path / "s.db") as store:
        log = sample_logs / "vllm-gaudi" / "sampler_doc.log"
        (run_id,) = ingest_path(store, str(log)).run_ids
        cells = sampler_cells(store.summary(run_id).sampler)
    figure = sampler_grid(cells)
    assert figure.data[0].x == ("0", "1", "138")
    assert len(figure.data[0].y) == 12
    assert {value for row in figure.data[0].z for value in row} == {1.0}


def test_the_kv_cache_is_part_of_the_memory_when_serving_fails(recorded):
    serving = Serving(end=ServingEnd(kind="out_of_memory"))
    rows = failure_frame(structs.replace(recorded.summary, serving=serving))
    ((_, size),) = [row for row in zip(rows["step"], rows["bytes"], strict=True)
                    if row[0] == "KV cache"]  # fmt: skip
    assert size == recorded.summary.memory.kv_cache_bytes


def test_live_defragmentations_are_drawn_since_ready(recorded):
    figure = defrag_runs(defrag_frame(recorded.summary))
    before = next(t for t in figure.data if t.name == "highest block before")
    assert list(before.x) == [0.0, 1.0, 2.0]
    assert list(before.y) == [90, 91, 92]
    assert figure.layout.xaxis.title.text == "time since ready (s)"


def test_cuda_graphs_by_size_keep_a_negative_size():
    """The first delayed capture of the published log took -342 MiB."""
    events = [
        ServerReady(time=START),
        GraphCaptured(phase="graphs", bucket=(64,), duration_s=0.5, time=START - 9),
        LazyCapture(num_tokens=512, duration_s=0.073, memory_bytes=-342 * 2**20,
                    time=START + 5),
        LazyCapture(num_tokens=1, duration_s=0.036, memory_bytes=28 * 2**20,
                    time=START + 6),
    ]  # fmt: skip
    summary = summarize(RunRecord(run_id="a"), events).summary
    captures = graph_captures(summary)
    memory = graphs_by_size(captures, by="memory_bytes")
    assert dict(zip(memory.data[0].x, memory.data[0].y, strict=True)) == {
        "1": 28.0, "512": -342.0,
    }  # fmt: skip
    times = graphs_by_size(captures, by="duration_s")
    assert [t.name for t in times.data] == ["at start", "while serving"]
    lazy = lazy_timeline(captures[captures["when"] == "while serving"])
    assert list(lazy.data[0].x) == [5.0, 6.0]


def test_the_mark_of_simulated_figures_is_in_the_picture(recorded):
    figure = budget_waterfall(budget_frame(recorded.summary))
    assert mark_synthetic(figure, "simulated device").layout.title.text == (
        "simulated device"
    )


def test_every_figure_names_its_units(recorded):
    figures = [
        budget_waterfall(budget_frame(recorded.summary)),
        timeline(phases_frame(recorded.summary)),
        capture_curve(capture_points(recorded.rows)[0], 10 * GIB),
        reserved_used(graph_shares(recorded.summary)),
        capture_bars(capture_frame(recorded.summary)),
        stage_bars(stages_frame(recorded.summary)),
    ]
    for figure in figures:
        titles = [figure.layout.xaxis.title.text, figure.layout.yaxis.title.text]
        assert any(title and "(" in title for title in titles), titles


def test_steps_of_one_name_are_bars_of_their_own(recorded):
    sampler = SamplerFacts(
        status="completed",
        steps=[
            SamplerStepFacts(
                batch_size=8, temperature=1.0, top_p=0.9, top_k=0, batch_changed=False,
                duration_s=seconds,
            )
            for seconds in (5.0, 7.0)
        ]
    )  # fmt: skip
    steps = costly_steps(
        Folded(structs.replace(recorded.summary, sampler=sampler), recorded.rows)
    )
    name = "sampler (8), T 1, p 0.9, k 0"
    assert {key: s for key, s in bars(step_bars(steps)).items() if name in key} == {
        f"{name} 1": 7.0, f"{name} 2": 5.0,
    }  # fmt: skip


def test_the_total_of_a_compilation_is_no_step_beside_its_parts(recorded):
    graphs = [("dynamo", 2.0), ("graph", 5.0), ("graph", 1.0), ("total", 8.0)]
    parts = [CompilePart(what=what, duration_s=s) for what, s in graphs]

    def steps(parts):
        compiled = CompileFacts(parts=parts)
        changed = structs.replace(recorded.summary, compile=compiled)
        found = bars(step_bars(costly_steps(Folded(changed, ()))))
        return {name: s for name, s in found.items() if name.startswith("compile")}

    assert steps(parts) == {
        "compile graph 1": 5.0, "compile dynamo": 2.0, "compile graph 2": 1.0,
    }  # fmt: skip
    assert steps(parts[-1:]) == {"compile total": 8.0}


def test_room_is_made_for_legends_only():
    figure = new_figure(100)
    for name in "abcdef":
        figure.add_bar(name=name)
    assert (make_room(figure), figure.layout.height) == (6, 100 + 2 * LEGEND_PX)
    figure.update_layout(showlegend=False)
    assert (make_room(figure), figure.layout.height) == (0, 100 + 2 * LEGEND_PX)


def test_a_finding_is_shown_without_suffixes_of_units_and_empty_lines():
    finding = Finding(
        "low", "t", {"needed_bytes": 2 * GIB, "read_s": 2.0, "num_ranks": 4}, "s",
        "`warmup-insights buckets fit RUN`", "faster", gain_s=(1.0, 2.0),
    )  # fmt: skip
    pairs = finding_pairs(finding, "abc")
    assert pairs[0] == ("Advice", "`warmup-insights buckets fit abc`")
    assert evidence_text(finding) == "needed 2 GiB, read 2 s, ranks 4"
    assert [name for name, _ in pairs] == ["Advice", "Effect", "Gain"]
    assert device_words("hpu", "gaudi3") == "Gaudi 3"


def trend_of(*started_at):
    rows = pd.DataFrame(
        [{"started_at": at, "name": "a", "status": "finished", "ready_s": 60.0}
         for at in started_at]
    )  # fmt: skip
    return trend(rows, by="ready_s", words="time to ready")


@pytest.mark.parametrize(
    ("started_at", "minutes"),
    [((1e9, 1e9), 4), ((1e9, 1e9 + 1), 4), ((1e9, 1e9 + 6000), 110)],
)
def test_the_axis_of_a_trend_has_no_parts_of_seconds(started_at, minutes):
    axis = trend_of(*started_at).layout.xaxis
    first, last = map(pd.Timestamp, axis.range)
    assert (last - first) == pd.Timedelta(minutes=minutes)
    assert not any("%S" in stop.value for stop in axis.tickformatstops)


def test_what_a_single_kind_of_bar_is_stands_in_a_legend():
    """Six of six, as the engine reports it, are not six graphs."""
    captures = pd.DataFrame(
        [("prompt", "captured_reported", 6, 6, "6 of 6")],
        columns=["phase", "what", "count", "generated", "text"],
    )
    assert capture_bars(captures).layout.showlegend


def test_a_trend_is_of_one_kind_of_start():
    kinds = ["cold", "warm", "cold", "warm", None]
    rows = runs_frame(
        [
            {
                **dict.fromkeys(RUN_COLUMNS), "run_id": f"r{n}", "model": "o/m",
                "device_kind": "cuda", "status": "finished", "started_at": float(n),
                "ready_s": 10.0 * n + 10, "start": kind, "source_kind": "log",
                "synthetic": False, "created_at": 0.0,
            }
            for n, kind in enumerate(kinds)
        ]
    )  # fmt: skip
    trend = trend_frame(rows, "ready_s")
    assert {name: list(part["run_id"]) for name, part in trend.groupby("series")} == {
        "m on CUDA GPU, cold start": ["r0", "r2"],
        "m on CUDA GPU, warm start": ["r1", "r3"],
    }
    table = runs_table(rows, {})
    changes = dict(zip(table["run_id"], table["change"], strict=True))
    assert (changes["r2"], changes["r3"]) == ("200 % slower", "100 % slower")
    assert pd.isna(changes["r4"])
    # Runs that are called the same are told apart wherever they are named.
    assert list(table["name"]) == [f"m \u00b7 r{n}" for n in range(5)]


@pytest.mark.parametrize("name", ["warmup_doc_capture.log", "made_1_22.log"])
def test_the_list_of_runs_names_the_largest_phase_as_its_sentence_does(tmp_path, name):
    with EventStore(tmp_path / "runs.db") as store:
        (run_id,) = ingest_path(
            store, ROOT / "sample_logs" / "vllm-fork" / name
        ).run_ids
        summary = current(store, store.run(run_id)).summary
        frame = runs_table(runs_frame(store.run_table()), {run_id: summary})
        sentence = start_sentences(summary)[0]
    words = frame["largest"][0].partition(", ")[2]
    assert f"went into {words}" in sentence


def test_what_is_not_compared_has_no_zeros():
    change = BucketChange("b", "prompt", *[None] * 5, *[()] * 4, None, None, "no lists")
    heads = [SimpleNamespace(run_id=run_id, head=run_id) for run_id in "ab"]
    result = SimpleNamespace(runs=heads, buckets=(change,))
    (row,) = bucket_sets_table(result).rows
    assert row == ("b", "prompt", "?", "not compared: no lists", *[""] * 7)


def test_a_stack_has_the_phases_in_the_order_of_a_start():
    """What only a later run did is not drawn last."""
    starts = {"a": "import load_weights compile unlogged", "b": "import download compile",
              "c": "configure import"}  # fmt: skip
    phases = pd.DataFrame(
        [(run, name, "load", 1.0) for run, names in starts.items() for name in names.split()],
        columns=["run", "name", "meaning", "duration_s"],
    )  # fmt: skip
    assert comparing.start_order(phases) == [
        "configure", "import", "download", "load_weights", "compile", "unlogged",
    ]  # fmt: skip
    figure = comparing.phase_stacks(phases, ["a", "b", "c"])
    drawn = [trace.name for trace in figure.data]
    assert drawn == [phase_words(name) for name in comparing.start_order(phases)]


def test_a_guessed_year_is_marked_in_the_list(recorded):
    rows = [
        dict.fromkeys(RUN_COLUMNS)
        | {"run_id": run_id, "status": "finished", "name": run_id, "started_at": START}
        for run_id in ("told", "guessed")
    ]
    summaries = {
        "told": recorded.summary,
        "guessed": structs.replace(recorded.summary, guessed=["time.started_at"]),
    }
    table = runs_table(pd.DataFrame(rows), summaries).set_index("name")
    assert table["year"]["guessed"] == "guessed"
    assert pd.isna(table["year"]["told"])


def test_captures_of_which_only_some_are_stated_are_no_row_of_all(document):
    hint = curve_picture(Folded(*document)).hint
    assert "stated for 8 of 63, which are drawn side by side" in hint
    assert "budget is what the engine set aside when captures began" in hint
    assert "it had reserved 15.83 GiB" in hint


def test_a_legend_of_many_phases_holds_the_longest_ones(monkeypatch):
    """More entries scroll in a narrow window; every bar keeps its name and its text."""
    rows = [("run", f"phase {n}", "load", float(n)) for n in range(1, 16)]
    columns = ["run", "name", "meaning", "duration_s"]
    phases = pd.DataFrame(rows, columns=columns)
    figure = comparing.phase_stacks(phases, ["run"])
    named = [trace.name for trace in figure.data if trace.showlegend]
    assert named == [f"phase {n}" for n in range(6, 16)]
    assert len(figure.data) == 15
    assert all(trace.name and trace.customdata for trace in figure.data)
    monkeypatch.setattr(comparing, "run_names", lambda _: ["run"])
    monkeypatch.setattr(comparing, "phases_table", lambda *_: phases)
    hint = comparing.phases_picture(None, ()).hint
    assert "The 5 shortest phases are in no legend" in hint
    monkeypatch.setattr(comparing, "phases_table", lambda *_: phases.tail(10))
    assert "legend" not in comparing.phases_picture(None, ()).hint


def test_long_names_are_letters_above_the_columns_of_a_comparison(recorded):
    """What each letter stands for is a line of its own, with how the run ended."""
    summaries = [
        structs.replace(recorded.summary, run_id=letter * 12, label=letter * 40)
        for letter in "xyz"
    ]
    result = compare(summaries)
    cells, _ = comparing.figures_table(result, summaries, full=True)
    assert list(cells) == ["figure", "A", "B", "C"]
    lines = comparing.run_lines(result)
    assert lines[1].startswith(f"B \u00b7 {'y' * 40} \u00b7 {'y' * 12} \u00b7 finished")


def test_a_long_cause_is_cut_with_a_mark_and_its_column_is_as_wide(recorded):
    failure = FailureFacts(kind="error", message="ValueError: " + "much too long " * 9)
    summary = structs.replace(recorded.summary, failure=failure)
    row = dict.fromkeys(RUN_COLUMNS) | {"run_id": summary.run_id}
    row |= {"status": "failed", "name": "a"}
    table = runs_table(pd.DataFrame([row]), {summary.run_id: summary})
    (cause,) = table["happened"]
    assert cause.startswith("ValueError: much too long")
    assert cause.endswith("\u2026")
    assert len(cause) <= MAX_CAUSE


def test_phases_of_one_colour_differ_in_their_pattern():
    names = {"load_model": "load", "load_weights": "load", "compile": "compile",
             "unlogged": "unlogged", "lines_cut_out": "unlogged"}  # fmt: skip
    phases = pd.DataFrame(
        [("a", name, meaning, 1.0) for name, meaning in names.items()],
        columns=["run", "name", "meaning", "duration_s"],
    )
    drawn = {
        (trace.marker.color, trace.marker.pattern.shape)
        for trace in comparing.phase_stacks(phases, ["a"]).data
    }
    assert len(drawn) == len(names)
    assert comparing.patterns_of(phases)["unlogged"] == "/"


def test_a_run_without_a_bar_is_named(recorded):
    empty = structs.replace(
        recorded.summary, run_id="e" * 12, label="empty", memory=None
    )
    whole = structs.replace(recorded.summary, label="whole")
    hint = comparing.memory_picture(compare([whole, empty])).hint
    assert hint.endswith("Without a bar, since too little is stated: empty.")
    assert (
        "Without"
        not in comparing.phases_picture(compare([whole, empty]), [whole, empty]).hint
    )
