"""Costs of buckets from single figures and from sums, and how sure they are."""

from __future__ import annotations

import pytest

from warmup_insights.analysis.plan.costs import LinearCost, Observation

SETS = (
    lambda b: (1.0, float(b[0] * b[1])),
    lambda b: (1.0, float(b[0] * b[1]), float(b[2])),
)


def alone(bucket, total, step=0.0):
    return Observation(frozenset({bucket}), total, step)


def line(bucket):
    return 3.0 + 2.0 * bucket[0] * bucket[1]


def test_measured_buckets_keep_their_cost():
    cost = LinearCost([alone((1, 8, 0), 100.0), alone((1, 9, 0), 1.0)], SETS)
    assert cost.estimate((1, 8, 0)).value == 100.0
    assert cost.estimate((1, 8, 0)).source == "measured"


def test_a_line_is_found_and_its_reach_is_told():
    known = [(1, 8, 0), (1, 16, 0), (2, 16, 0), (4, 16, 0)]
    cost = LinearCost([alone(bucket, line(bucket)) for bucket in known], SETS)
    inside, outside = cost.estimate((1, 24, 0)), cost.estimate((8, 16, 0))
    assert inside.value == pytest.approx(line((1, 24, 0)))
    assert outside.value == pytest.approx(line((8, 16, 0)))
    assert (inside.source, outside.source) == ("interpolated", "extrapolated")
    assert cost.error == pytest.approx(0, abs=1e-9)


def test_a_further_dimension_is_used_only_where_it_helps():
    buckets = [(1, q, k) for q in (8, 16, 32, 64) for k in (0, 4, 9)]
    flat = LinearCost([alone(b, line(b)) for b in buckets], SETS)
    deep = LinearCost([alone(b, line(b) + 7 * b[2]) for b in buckets], SETS)
    assert flat.estimate((1, 20, 50)).value == pytest.approx(line((1, 20, 50)))
    assert deep.estimate((1, 20, 6)).value == pytest.approx(line((1, 20, 6)) + 42)


def test_the_error_is_that_on_what_was_not_shown():
    """One of five figures is 20 % off: leaving it out, the rest predict it 20 % off."""
    known = {(1, q, 0): line((1, q, 0)) for q in (8, 16, 32, 64, 128)}
    known[1, 32, 0] *= 1.2
    cost = LinearCost([alone(b, v) for b, v in known.items()], SETS)
    assert cost.worst_error == pytest.approx(0.2 / 1.2, rel=0.15)
    assert 0 < cost.error < cost.worst_error


def test_the_rest_of_a_sum_is_measured_when_all_else_is():
    whole = Observation(frozenset({(1, 8, 0), (1, 16, 0)}), 54.0)
    cost = LinearCost([whole, alone((1, 8, 0), 19.0)], SETS)
    assert cost.estimate((1, 16, 0)).value == pytest.approx(35.0)
    assert cost.estimate((1, 16, 0)).source == "measured"


def test_a_sum_is_shared_in_proportion_and_comes_out_whole():
    buckets = [(1, 8, 0), (1, 16, 0), (1, 24, 0)]
    singles = [alone((1, q, 0), line((1, q, 0))) for q in (32, 64, 128)]
    whole = Observation(frozenset(buckets), 2.0 * sum(map(line, buckets)), 1e-6)
    cost = LinearCost([*singles, whole], SETS)
    values = [cost.estimate(bucket) for bucket in buckets]
    assert {value.source for value in values} == {"shared"}
    assert sum(value.value for value in values) == pytest.approx(whole.total)


def test_a_finer_sum_wins_over_a_coarser_one():
    inner = frozenset({(1, 8, 0), (1, 16, 0)})
    outer = inner | {(1, 24, 0)}
    coarse, fine = Observation(inner, 80.0, 20.0), Observation(outer, 90.0, 0.01)
    cost = LinearCost([coarse, fine], SETS)
    total = sum(cost.estimate(bucket).value for bucket in outer)
    assert total == pytest.approx(90.0)
    # Taken first, the coarse sum would leave 10 for the largest bucket.
    assert cost.estimate((1, 24, 0)).value > cost.estimate((1, 16, 0)).value


def test_figures_that_are_all_rounding_tell_nothing():
    cost = LinearCost([alone((1, 8, 0), 1.0, 5.0), alone((1, 16, 0), 0.0, 5.0)], SETS)
    assert cost.is_empty
    assert cost.estimate((1, 8, 0)).value == 0.0
    assert cost.error is None


def test_one_figure_gives_a_proportion_of_unknown_error():
    cost = LinearCost([alone((1, 8, 0), 16.0)], SETS)
    assert cost.estimate((1, 16, 0)).value == pytest.approx(32.0)
    assert (cost.error, cost.worst_error) == (None, None)


def test_costs_are_never_negative():
    """A falling line is refused: memory does not shrink with the number of tokens."""
    cost = LinearCost([alone((1, q, 0), 100.0 - q) for q in (8, 16, 32, 64)], SETS)
    assert cost.estimate((1, 10_000, 0)).value >= 0


def test_a_few_slow_buckets_do_not_vanish_from_the_sum():
    """Most compile in 0.3 s and some in 3 s: relative errors alone favour the many."""
    known = [alone((1, 8 * n, 0), 3.0 if n % 5 == 0 else 0.3) for n in range(1, 21)]
    new = [(1, 8 * n + 4, 0) for n in range(1, 21)]
    measured = sum(each.total for each in known)
    low = LinearCost(known, SETS)
    kept = LinearCost(known, SETS, keeps_sum=True)
    assert sum(low.fitted(bucket) for bucket in new) < 0.6 * measured
    assert sum(kept.fitted(b) for b in new) == pytest.approx(measured, rel=0.1)


def test_the_variance_grows_with_what_was_never_measured():
    known = [alone((1, 8 * n, 0), 3.0 if n % 5 == 0 else 0.3) for n in range(1, 21)]
    cost = LinearCost(known, SETS, keeps_sum=True)
    measured = [(1, 8 * n, 0) for n in range(1, 21)]
    new = [(1, 8 * n + 4, 0) for n in range(1, 21)]
    assert 0 < cost.variance(measured) < cost.variance(new)
    exact = LinearCost([alone(b, line(b)) for b in measured], SETS, keeps_sum=True)
    assert exact.variance(new) == pytest.approx(0, abs=1e-9)
