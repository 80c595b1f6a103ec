"""Shapes that differ in two dimensions: cut along one, exact lines along the other.

The engine looks for a bucket along the outer dimension first (batch size in decode,
query length in prompts). Cut into stretches of the outer dimension, each stretch is a
line along the inner one that its own buckets cover, and the engine never leaves it. The
best cut for a price per bucket is a shortest path over a grid of candidates, with an
inner shortest path per stretch; the exact values are chosen later on the lines.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warmup_insights.analysis.traffic import ShapeCounts
from warmup_insights.analysis.traffic_cost import as_bucket, execution_cost
from warmup_insights.analysis.traffic_line import Line
from warmup_insights.bucketing.base import Bucket

MAX_GRID = 2_500
"""Candidates of both dimensions multiplied; the search takes its square in steps."""

Price = Callable[[Bucket], float]
Admissible = Callable[[Bucket], bool]


def count_price(bucket: Bucket) -> float:
    """Every bucket counts as one."""
    return 1.0


@dataclass(frozen=True)
class Plane:
    """Shapes of one phase and one batch range, with the dimensions that vary.

    `outer` and `inner` are columns of a shape; `batch_size` is what prompts of the plane
    run with, and is not used in decode, where the outer dimension is the batch size.
    """

    traffic: ShapeCounts
    phase: str
    block_weight: int
    batch_size: int

    @property
    def outer(self) -> int:
        """The column that the engine searches first."""
        return 1 if self.phase == "prompt" else 0

    @property
    def inner(self) -> int:
        """The column of the blocks."""
        return 2

    @property
    def is_line(self) -> bool:
        """Whether one of the two dimensions has a single value."""
        return self.num_outer == 1 or self.num_inner == 1

    @property
    def num_outer(self) -> int:
        """Distinct values of the outer dimension."""
        return len(np.unique(self.traffic.shapes[:, self.outer]))

    @property
    def num_inner(self) -> int:
        """Distinct values of the inner dimension."""
        return len(np.unique(self.traffic.shapes[:, self.inner]))

    def bucket(self, outer: int, inner: int) -> Bucket:
        """The bucket of one value in each dimension."""
        if self.phase == "prompt":
            return as_bucket((self.batch_size, outer, inner), self.phase)
        return as_bucket((outer, 1, inner), self.phase)

    def lines(self, cuts: Sequence[int], price: Price) -> list[Line]:
        """The lines of the stretches that end at these outer values, the last included.

        Where the inner dimension has a single value, the outer one is the line.
        """
        if self.num_inner == 1:
            return [self._line(self.traffic, self.outer, None, price)]
        values = self.traffic.shapes[:, self.outer]
        place = np.searchsorted(np.asarray(cuts), values)
        found = []
        for number, cut in enumerate(cuts):
            mine = place == number
            if mine.any():
                part = ShapeCounts(self.traffic.shapes[mine], self.traffic.counts[mine])
                found.append(self._line(part, self.inner, int(cut), price))
        return found

    def _line(
        self, part: ShapeCounts, column: int, cut: int | None, price: Price
    ) -> Line:
        values, inverse = np.unique(part.shapes[:, column], return_inverse=True)
        counts = np.bincount(
            inverse.ravel(), weights=part.counts, minlength=len(values)
        ).astype(np.int64)
        if cut is None:
            inner = int(part.shapes[0, self.inner])
            buckets = [self.bucket(value, inner) for value in values.tolist()]
        else:
            # No larger than the stretch needs, even if the cut lies further out.
            outer = int(part.shapes[:, self.outer].max())
            buckets = [self.bucket(outer, value) for value in values.tolist()]
        costs = execution_cost(
            np.array(buckets, dtype=np.int64), self.phase, self.block_weight
        )
        return Line(
            tuple(buckets),
            tuple(costs.tolist()),
            tuple(counts.tolist()),
            tuple(price(bucket) for bucket in buckets),
        )


class PlaneGrid:
    """The search for good cuts of one plane; buckets that may not be cost infinity."""

    def __init__(self, plane: Plane, price: Price, admissible: Admissible) -> None:
        self.plane = plane
        limit = math.isqrt(MAX_GRID)
        inner_count = min(plane.num_inner, max(limit, MAX_GRID // plane.num_outer))
        outer_count = min(plane.num_outer, max(limit, MAX_GRID // inner_count))
        shapes, counts = plane.traffic.shapes, plane.traffic.counts
        self.outer = candidates(shapes[:, plane.outer], counts, outer_count)
        self.inner = candidates(shapes[:, plane.inner], counts, inner_count)
        self._weights = self._cumulative(counts)
        self._present = self._cumulative(np.ones(len(counts)))
        buckets = [
            [plane.bucket(int(o), int(i)) for i in self.inner] for o in self.outer
        ]
        flat = np.array(buckets, dtype=np.int64).reshape(-1, 3)
        size = (len(self.outer), len(self.inner))
        cost = execution_cost(flat, plane.phase, plane.block_weight)
        self._cost = cost.astype(float).reshape(size)
        self._price = np.array(
            [[price(b) if admissible(b) else math.inf for b in row] for row in buckets]
        )

    def _cumulative(self, counts: Any) -> Any:
        """Sum over everything up to each candidate, with a row and column of zeros."""
        plane = self.plane
        grid = np.zeros((len(self.outer) + 1, len(self.inner) + 1))
        rows = np.searchsorted(self.outer, plane.traffic.shapes[:, plane.outer]) + 1
        columns = np.searchsorted(self.inner, plane.traffic.shapes[:, plane.inner]) + 1
        np.add.at(grid, (rows, columns), counts)
        return grid.cumsum(axis=0).cumsum(axis=1)

    def cut(self, price: float) -> tuple[list[int], int]:
        """The best cuts at a price, as outer values, and how many buckets that makes."""
        number = len(self.outer)
        best = np.full(number + 1, math.inf)
        counts = np.zeros(number + 1, dtype=np.int64)
        before = np.zeros(number + 1, dtype=np.int64)
        best[0] = 0.0
        for j in range(1, number + 1):
            costs, sizes = self._stretches(j, price)
            total = best[:j] + costs
            i = int(np.argmin(total))
            best[j], before[j], counts[j] = total[i], i, counts[i] + sizes[i]
        cuts, j = [], number
        while j > 0:
            cuts.append(int(self.outer[j - 1]))
            j = int(before[j])
        return cuts[::-1], int(counts[number])

    def _stretches(self, j: int, price: float) -> tuple[Any, Any]:
        """Cost and number of buckets of the stretch from each earlier cut to cut `j`.

        Arrays of length j: entry i is the stretch that begins after candidate i.
        """
        weights = self._weights[j] - self._weights[:j]
        present = self._present[j] - self._present[:j]
        cost, prices = self._cost[j - 1], self._price[j - 1]
        fee = np.where(np.isinf(prices), math.inf, price * np.minimum(prices, 1e300))
        width = len(self.inner)
        best = np.zeros((j, width + 1))
        sizes = np.zeros((j, width + 1), dtype=np.int64)
        rows = np.arange(j)
        for k in range(1, width + 1):
            options = best[:, :k] - weights[:, :k] * cost[k - 1]
            i = options.argmin(axis=1)
            best[:, k] = options[rows, i] + weights[:, k] * cost[k - 1] + fee[k - 1]
            sizes[:, k] = sizes[rows, i] + 1
        # A stretch is covered from the first value on that holds all its shapes.
        last = (present < present[:, -1:]).sum(axis=1)
        return best[rows, last], sizes[rows, last]


def candidates(values: Any, counts: Any, number: int) -> Any:
    """At most `number` of the distinct values: evenly spaced in weight, and the largest."""
    distinct, inverse = np.unique(values, return_inverse=True)
    if len(distinct) <= number:
        return distinct
    weights = np.bincount(inverse.ravel(), weights=counts + 1.0)
    heavy = np.searchsorted(
        np.cumsum(weights), np.linspace(0, weights.sum(), number // 2)
    )
    even = np.linspace(0, len(distinct) - 1, number - number // 2)
    chosen = np.concatenate([heavy, even.astype(np.int64), [len(distinct) - 1]])
    return distinct[np.unique(np.clip(chosen, 0, len(distinct) - 1))]
