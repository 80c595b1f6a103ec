"""What is known of a bucket's graph, and which buckets compiled what others reused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import REAL_LOGS, events, folded, read
from tests.parsers.test_bars import bar_of
from warmup_insights.analysis.oddities import oddities
from warmup_insights.analysis.plan.costs import LinearCost, Observation
from warmup_insights.model.events import (
    BucketsGenerated,
    CaptureSummary,
    CompileFinished,
    GraphCaptured,
    GraphSkipped,
    RunStarted,
    WarmupStep,
)
from warmup_insights.model.summary import BucketRow
from warmup_insights.storage.rows import bucket_row, read_bucket_row

SIZES = [(size, 1, 8) for size in range(1, 25)]
LIST = BucketsGenerated(phase="decode", count=24, buckets=SIZES)


def stepped(times, **fields):
    return [
        WarmupStep(phase="decode", bucket=bucket, index=n, duration_s=took, **fields)
        for n, (bucket, took) in enumerate(zip(SIZES, times, strict=False), 1)
    ]


def rows_of(found) -> dict[tuple[int, ...], BucketRow]:
    return {row.bucket: row for row in folded(found).rows}


def test_a_graph_is_unknown_where_nothing_states_it():
    rows = rows_of([LIST, *stepped([1.0] * 24)])
    assert {(row.captured, row.skipped) for row in rows.values()} == {(None, None)}


def test_a_list_of_captured_buckets_proves_the_others_have_none():
    stated = CaptureSummary(phase="decode", captured_reported=1, buckets=[SIZES[0]])
    rows = rows_of([LIST, stated])
    assert (rows[SIZES[0]].captured, rows[SIZES[0]].skipped) == (True, False)
    assert (rows[SIZES[1]].captured, rows[SIZES[1]].skipped) == (False, None)


def test_a_skip_is_of_its_bucket_alone():
    """vllm-gaudi logs what it skips; what it captures it does not."""
    made = folded([LIST, GraphSkipped(phase="decode", bucket=SIZES[3], reason="size")])
    rows = {row.bucket: row for row in made.rows}
    assert (rows[SIZES[3]].captured, rows[SIZES[3]].skipped) == (False, True)
    assert (rows[SIZES[4]].captured, rows[SIZES[4]].skipped) == (None, False)
    assert made.summary.phase("decode").captured is None


def test_all_skipped_is_none_captured():
    skips = [GraphSkipped(phase="decode", bucket=b, reason="size") for b in SIZES]
    assert folded([LIST, *skips]).summary.phase("decode").captured == 0


def test_a_step_in_graph_mode_counts_beside_a_skip():
    """vllm-fork of 2024 states both: the step was dropped from the sum."""
    found = [
        LIST, *stepped([2.0] * 4),
        WarmupStep(phase="decode", bucket=SIZES[0], index=1, mode="graph", duration_s=3.0),
        GraphSkipped(phase="decode", bucket=SIZES[1], reason="memory"),
    ]  # fmt: skip
    assert folded(found).summary.phase("decode").steps_s == 11.0


@pytest.mark.parametrize("known", [True, False, None])
def test_unknown_is_stored_as_unknown(known):
    row = BucketRow(phase="decode", bucket=(1, 1, 8), captured=known, skipped=known)
    assert read_bucket_row(bucket_row("r", row)) == row


@given(
    st.lists(st.floats(1.2, 1.5), min_size=24, max_size=24),
    st.sets(st.integers(0, 7).map(lambda n: 3 * n + 1), max_size=8),
)
def test_spikes_of_a_bar_are_those_that_were_put_in(times, places):
    """Every third bucket may be one: medians of neighbours stay ordinary."""
    took = [t + 4.5 if n in places else t for n, t in enumerate(times)]
    text = "INFO 07-16 10:00:00 [common.py:85] Generated 24 decode buckets [bs, query, "
    text += f"num_blocks]: {SIZES}\n"
    text += "Decode warmup processing:   0%|    | 0/24 [00:00<?, ?item/s]\r"
    made = folded(events(text + bar_of(took[:23]) + "\n"))
    rows = {row.bucket: row for row in made.rows}
    found = {n for n, bucket in enumerate(reversed(SIZES)) if rows[bucket].is_spike}
    assert found == places - {23}
    part = made.summary.phase("decode")
    assert part.spikes == len(found)
    assert (part.spikes_s or 0.0) == pytest.approx(4.5 * len(found), abs=1.0 * 8)


@pytest.mark.parametrize(
    ("engine", "device", "is_compiled"),
    [("vllm-gaudi", "hpu", True), ("reference", "hpu", True), ("reference", "cpu", False)],
)  # fmt: skip
def test_only_an_engine_that_compiles_has_most_likely_compiled(
    engine, device, is_compiled
):
    times = [9.0 if n == 12 else 1.25 + n / 1000 for n in range(24)]
    began = RunStarted(engine=engine, device_kind=device)
    made = folded([began, LIST, *stepped(times)]).summary
    (text,) = [text for text in oddities(made) if "multiple of the time" in text]
    assert ("most likely compilations" in text) == is_compiled


def test_whole_seconds_of_stamps_make_no_spike():
    """0, 1 and 2 s between stamps of whole seconds may be the same time."""
    rows = rows_of([LIST, *stepped([0.0, 1.0, 0.0, 2.0, 0.0, 1.0, 1.0, 0.0] * 3)])
    assert {row.is_spike for row in rows.values()} == {False}


def test_few_neighbours_give_no_answer():
    rows = rows_of([LIST, *stepped([1.5, 1.5, 9.25])])
    assert {row.is_spike for row in rows.values()} == {None}


def test_a_spike_is_measured_and_says_nothing_of_others():
    sums = [Observation(frozenset({(n, 1, 8)}), 1.0 + n) for n in range(1, 9)]
    spike = Observation(frozenset({(9, 1, 8)}), 90.0, is_typical=False)
    cost = LinearCost([*sums, spike], [lambda b: (1.0, float(b[0]))])
    assert cost.estimate((9, 1, 8)).value == 90.0
    assert cost.estimate((10, 1, 8)).value == pytest.approx(11.0)


def test_captures_and_runs_are_compared_apart():
    captures = [
        GraphCaptured(phase="decode", bucket=b, index=n, duration_s=0.25)
        for n, b in enumerate(SIZES[:8], 1)
    ]
    rows = rows_of([LIST, *stepped([2.5] * 8), *captures])
    assert not any(row.is_spike for row in rows.values())


PROFILED = REAL_LOGS / "simdev_gaudi_0.26.0_high_level_profiler"


@pytest.mark.skipif(not REAL_LOGS.is_dir(), reason="the real logs are not here")
def test_the_bar_and_the_profiler_of_the_engine_find_the_same_spikes():
    """The times of the profiler are the truth; the bar's are judged by the same rule."""
    path = PROFILED.with_name(PROFILED.name + ".log")
    runs, _ = read(path.read_bytes(), path.name)
    rows = {(row.phase, row.bucket): row for row in folded(runs[0]).rows}
    truth, _ = read(
        PROFILED.with_name(PROFILED.name + ".server_events.json").read_bytes(),
        "server_events.json",
    )
    profiled = {(r.phase, r.bucket): r for r in folded(truth[0]).rows if r.warmed}
    judged = [
        (row.is_spike, profiled[key].is_spike)
        for key, row in rows.items()
        if key in profiled and row.is_spike is not None
    ]
    assert len(judged) >= 30
    assert all(ours == theirs for ours, theirs in judged)


def test_what_a_tpu_compiles_for_a_number_of_requests_is_of_that_bucket():
    """tpu-inference compiles several graphs for each; Ray may print a line again."""
    shapes = [
        "{'num_reqs': 8, 'do_sampling': True}",
        "{'num_reqs': 8, 'do_sampling': False}",
    ]
    found = [
        BucketsGenerated(phase="requests", count=2, buckets=[(8,), (16,)], dimensions=["num_reqs"]),
        *(
            CompileFinished(what=what, detail=detail, duration_s=seconds)
            for what, detail, seconds in [
                ("compute_logits", "{'num_reqs': 8}", 0.5), ("sample", shapes[0], 2.0),
                ("sample", shapes[1], 0.25), ("sample", shapes[1], 0.25),
                ("select_from_array", "{'array_size': 16, 'index_size': 8}", 9.0),
            ]
        ),
    ]  # fmt: skip
    rows = rows_of(found)
    assert (rows[8,].state, rows[8,].duration_s) == ("warmed", 2.75)
    assert rows[16,].state == "generated"
