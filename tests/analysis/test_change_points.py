"""Where the level of a series changed."""

from __future__ import annotations

import random

import numpy as np
import pytest
from scipy.stats import rankdata

from warmup_insights.analysis.change_points import _ranks, change_points


def noisy(*levels: tuple[int, float], seed: int = 7) -> list[float]:
    source = random.Random(seed)
    return [level * source.uniform(0.97, 1.03) for n, level in levels for _ in range(n)]


@pytest.mark.parametrize("seed", range(5))
def test_a_regression_is_found_with_its_first_run(seed):
    (found,) = change_points(noisy((20, 60.0), (15, 80.0), seed=seed))
    assert found.index == 20
    assert found.before == pytest.approx(60, rel=0.03)
    assert found.since == pytest.approx(80, rel=0.03)


def test_a_regression_and_what_undid_it():
    found = change_points(noisy((20, 60.0), (20, 90.0), (20, 60.0)))
    assert [each.index for each in found] == [20, 40]


@pytest.mark.parametrize("seed", range(10))
def test_noise_and_single_slow_runs_are_no_change(seed):
    values = noisy((60, 60.0), seed=seed)
    values[10] = values[40] = 600.0
    assert change_points(values) == []


def test_a_significant_change_that_nobody_would_notice_is_none():
    assert change_points([60.0 + n * 0.001 for n in range(100)]) == []


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 50, [60.0] * 5 + [90.0] * 5])
def test_too_few_runs_or_equal_ones_have_no_change(values):
    assert change_points(values) == []


def test_ranks_are_those_of_scipy():
    values = np.asarray([3.0, 1.0, 3.0, 2.0, 3.0, 1.0])
    assert list(_ranks(values)) == list(rankdata(values))
