"""Which configurations no other beats."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.analysis.builders import contradicting, start_up, started, summary_of
from warmup_insights.analysis.pareto import configuration_rows, non_dominated
from warmup_insights.model.events import Failure

OBJECTIVES = (("a", "higher"), ("b", "lower"))


def test_the_beaten_row_is_marked():
    rows = [{"a": 1, "b": 5}, {"a": 2, "b": 5}, {"a": 1, "b": 3}, {"a": 2, "b": 6}]
    assert non_dominated(rows, OBJECTIVES) == [False, True, True, False]


def test_equal_rows_stay_together():
    rows = [{"a": 1, "b": 1}, {"a": 1, "b": 1}]
    assert non_dominated(rows, OBJECTIVES) == [True, True]


def test_unknown_rows_neither_beat_nor_are_beaten():
    rows = [{"a": 9, "b": None}, {"a": 1, "b": 1}]
    assert non_dominated(rows, OBJECTIVES) == [None, True]


points = st.lists(
    st.fixed_dictionaries({"a": st.integers(0, 5), "b": st.integers(0, 5)}), max_size=12
)


@given(points)
def test_marks_are_those_of_the_definition(rows):
    def beats(one, other):
        no_worse = one["a"] >= other["a"] and one["b"] <= other["b"]
        return no_worse and (one["a"] > other["a"] or one["b"] < other["b"])

    wanted = [not any(beats(other, row) for other in rows) for row in rows]
    assert non_dominated(rows, OBJECTIVES) == wanted


def test_failed_runs_are_never_marked():
    objectives = (("num_kv_blocks", "higher"), ("warmup_s", "lower"))
    good = summary_of(start_up())
    failed = summary_of(
        [*start_up(seconds=1.0)[:-1], Failure(failure="killed", message="x")], "bbb"
    )
    broken = contradicting(summary_of(start_up(seconds=2.0), "ddd"), "warmup_s")
    rows = configuration_rows(
        [good, failed, summary_of([started()], "ccc"), broken], objectives
    )
    assert [row.is_non_dominated for row in rows] == [True, None, None, None]
    assert rows[0].settings == {
        "gpu_memory_utilization": 0.9,
        "VLLM_GRAPH_RESERVED_MEM": 0.1,
    }
