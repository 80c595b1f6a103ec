"""Which configurations no other beats."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.builders import (
    changed,
    config,
    contradicting,
    start_up,
    started,
    summary_of,
)
from warmup_insights.analysis.pareto import (
    ConfigurationRow,
    configuration_rows,
    differing,
    non_dominated,
    objectives_of,
    pick,
)
from warmup_insights.model.events import Failure, ServerReady, ShutdownRequested
from warmup_insights.model.summary import MemoryFacts

A, B = OBJECTIVES = ("kv_cache_tokens", "ready_s")
"""More of the first is better, less of the second."""


def test_the_beaten_row_is_marked():
    rows = [{A: 1, B: 5}, {A: 2, B: 5}, {A: 1, B: 3}, {A: 2, B: 6}]
    assert non_dominated(rows, OBJECTIVES) == [False, True, True, False]


def test_equal_rows_stay_together():
    rows = [{A: 1, B: 1}, {A: 1, B: 1}]
    assert non_dominated(rows, OBJECTIVES) == [True, True]


def test_unknown_rows_neither_beat_nor_are_beaten():
    rows = [{A: 9, B: None}, {A: 1, B: 1}]
    assert non_dominated(rows, OBJECTIVES) == [None, True]


points = st.lists(
    st.fixed_dictionaries({A: st.integers(0, 5), B: st.integers(0, 5)}), max_size=12
)


@given(points)
def test_marks_are_those_of_the_definition(rows):
    def beats(one, other):
        no_worse = one[A] >= other[A] and one[B] <= other[B]
        return no_worse and (one[A] > other[A] or one[B] < other[B])

    wanted = [not any(beats(other, row) for other in rows) for row in rows]
    assert non_dominated(rows, OBJECTIVES) == wanted


def test_failed_and_stopped_starts_are_never_marked():
    good = summary_of(start_up())
    failed = summary_of(
        [*start_up(seconds=1.0)[:-1], Failure(failure="killed", message="x")], "bbb"
    )
    stopped = summary_of(
        [*start_up(seconds=1.0)[:-1], ShutdownRequested(message="x", in_start=True)],
        "eee",
    )
    shorter = summary_of(start_up(seconds=2.0), "ddd")
    broken = contradicting(shorter, "ready_s", "warmup_s")
    unknown = summary_of([started()], "ccc")
    rows = configuration_rows([good, failed, unknown, broken, stopped])
    assert [row.is_non_dominated for row in rows] == [True, None, None, None, None]
    assert rows[0].settings == {
        "gpu_memory_utilization": 0.9,
        "VLLM_GRAPH_RESERVED_MEM": 0.1,
    }


def test_a_difference_within_the_tolerance_saves_no_point():
    rows = [{A: 100, B: 10}, {A: 80, B: 9.9}, {A: 80, B: 5}]
    assert non_dominated(rows, OBJECTIVES) == [True, False, True]
    rows = [{A: 100, B: 10}, {A: 96, B: 9.7}]
    assert non_dominated(rows, OBJECTIVES) == [True, True]
    assert non_dominated(rows, OBJECTIVES, 0.05).count(True) == 1


@given(points, st.floats(0, 0.5))
def test_with_any_tolerance_some_point_is_marked(rows, tolerance):
    marks = non_dominated(rows, OBJECTIVES, tolerance)
    assert not rows or True in marks


def test_the_spread_of_equal_configurations_is_no_difference():
    """Two starts of one configuration, 10 s and 13 s: 12 s are not less than 13 s."""
    runs = [
        summary_of(start_up(seconds=seconds), name)
        for name, seconds in (("aaa", 10.0), ("bbb", 13.0))
    ]
    rows = configuration_rows(runs)
    assert [row.is_non_dominated for row in rows].count(True) == 1


GAUDI = {"captured_percent": 50.0, "num_kv_blocks": 100, "warmup_s": 9.0}
CUDA = {"kv_cache_tokens": 18_400, "ready_s": 25.0}


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([GAUDI, GAUDI], ["captured_percent", "num_kv_blocks", "warmup_s"]),
        ([CUDA, {"kv_cache_tokens": 9, "ready_s": 30.0}], ["kv_cache_tokens", "ready_s"]),
        # One run that states less takes no figure from the eight others.
        ([*[GAUDI] * 8, CUDA], ["captured_percent", "num_kv_blocks", "warmup_s"]),
        # What is the same in all runs decides nothing, so it costs no run.
        (
            [{**CUDA, "captured_percent": 100.0}, {"kv_cache_tokens": 9, "ready_s": 8.0},
             {"kv_cache_tokens": 7, "ready_s": 6.0, "captured_percent": 100.0}],
            ["kv_cache_tokens", "ready_s"],
        ),
        ([{"engine_init_s": 3.0, "num_kv_blocks": 2.0}],
         ["num_kv_blocks", "engine_init_s"]),
        ([{"ready_s": 3.0}, {}], []),
    ],
)  # fmt: skip
def test_runs_are_compared_by_what_all_of_them_state(rows, wanted):
    assert list(objectives_of(rows)) == wanted


def test_cuda_runs_are_compared_by_tokens_and_time_to_ready():
    runs = [
        changed(
            summary_of(
                [
                    started("vllm", device_kind="cuda"),
                    config(max_num_seqs=seqs),
                    ServerReady(time=1_000_000.0 + seconds),
                ],
                name,
            ),
            memory=MemoryFacts(kv_cache_tokens=tokens),
        )
        for name, seqs, tokens, seconds in (
            ("aaa", 64, 20_000, 30.0), ("bbb", 256, 18_000, 24.0), ("ccc", 512, 15_000, 30.0),
        )
    ]  # fmt: skip
    rows = configuration_rows(runs)
    assert [row.is_non_dominated for row in rows] == [True, True, False]
    assert rows[0].compared_by == ("kv_cache_tokens", "ready_s")
    found = pick(rows, "fastest")
    assert found is not None
    assert (found.row.run_id, differing(rows)) == ("bbb", ("max_num_seqs",))
    assert "time to ready 24 s" in found.why


def test_a_start_without_its_warm_up_is_no_quick_one():
    """What it saves comes back with each shape while serving."""
    whole = [
        summary_of(start_up(seconds=seconds), run_id)
        for run_id, seconds in (("aaa", 60.0), ("bbb", 30.0))
    ]
    short = changed(
        summary_of(start_up(seconds=1.0), "ccc"), status="skipped",
        start={"kind": "skipped"},
    )  # fmt: skip
    found = pick(configuration_rows([*whole, short]), "fastest")
    assert found is not None
    assert found.row.run_id == "bbb"
    only = [changed(short, run_id=name) for name in ("ddd", "eee")]
    assert [row.is_non_dominated for row in configuration_rows(only)] == [True, True]


def row(run_id: str, **figures: float) -> ConfigurationRow:
    return ConfigurationRow(
        run_id, None, "finished", {}, dict(figures), True, objectives_of([figures])
    )


CHOICE = [
    row("many", max_concurrency=30, num_kv_blocks=3000, captured_percent=40.0,
        warmup_s=60.0),
    row("middle", max_concurrency=25, num_kv_blocks=2500, captured_percent=80.0,
        warmup_s=70.0),
    row("full", max_concurrency=10, num_kv_blocks=1000, captured_percent=100.0,
        warmup_s=90.0),
]  # fmt: skip


@pytest.mark.parametrize(
    ("goal", "wanted"),
    [("requests", "many"), ("captured", "full"), ("fastest", "many"),
     ("balanced", "middle")],
)  # fmt: skip
def test_one_configuration_is_named_for_a_goal(goal, wanted):
    found = pick(CHOICE, goal)
    assert found is not None
    assert found.row.run_id == wanted
    assert len(found.others) == 2
    assert all("gives up" in text for _, text in found.others)


def test_a_configuration_that_ran_several_times_is_no_alternative_to_itself():
    again = [
        replace(one, run_id=f"{one.run_id}{n}", settings={"block_size": one.run_id})
        for n in range(3)
        for one in CHOICE
    ]
    found = pick(again, "balanced")
    named = [found.row, *(other for other, _ in found.others)]
    assert len({str(one.settings) for one in named}) == 3


def test_nothing_is_picked_where_the_figure_of_the_goal_is_unknown():
    unknown = row("x", num_kv_blocks=1000, captured_percent=99.0)
    assert pick([unknown], "fastest") is None
    assert pick([], "balanced") is None
