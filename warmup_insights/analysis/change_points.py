"""Where the level of a series of runs changed for good: regressions and what undid them.

Pettitt's test on ranks (A. N. Pettitt, 1979) finds one change; the parts on both sides are
searched again. Ranks make single slow runs harmless, and nothing has to be tuned; fewer
than twelve runs can never be significant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

SIGNIFICANT = 0.05
LEAST_SIDE = 5
LEAST_CHANGE = 0.05
"""Of the median before, below which it is no change worth stating."""


@dataclass(frozen=True)
class ChangePoint:
    """The first of the runs with another level, and the medians before and since."""

    index: int
    before: float
    since: float


def change_points(values: Sequence[float]) -> list[ChangePoint]:
    """The changes in these values, which are in the order of the runs."""
    edges = [*_splits(np.asarray(values, dtype=float), 0), len(values)]
    found: list[ChangePoint] = []
    start = 0
    for left, middle in pairwise(edges):
        before, since = median(values[start:left]), median(values[left:middle])
        if abs(since - before) >= LEAST_CHANGE * abs(before):
            found.append(ChangePoint(left, before, since))
            start = left
    return found


def _splits(values: np.ndarray, offset: int) -> list[int]:
    """Places at which a new level begins, in this part of the series."""
    count = len(values)
    if count < 2 * LEAST_SIDE:
        return []
    places = np.arange(1, count)
    excess = np.abs(2 * np.cumsum(_ranks(values))[:-1] - places * (count + 1))
    inner = excess[LEAST_SIDE - 1 : count - LEAST_SIDE]
    split = int(np.argmax(inner)) + LEAST_SIDE
    largest = float(inner.max())
    chance = 2 * math.exp(-6 * largest**2 / (count**3 + count**2))
    if chance >= SIGNIFICANT:
        return []
    left = _splits(values[:split], offset)
    return [*left, offset + split, *_splits(values[split:], offset + split)]


def _ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 1, equal values at their mean; `scipy.stats` takes a second to import."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks: np.ndarray = (np.cumsum(counts) - (counts - 1) / 2)[place]
    return ranks
