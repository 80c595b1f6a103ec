"""What executing a bucket costs, and which bucket the engine takes for each shape.

Cost is counted in tokens: those that are computed, plus `block_weight` for each context
block that is read. A prompt bucket reads its blocks for every row, a decode bucket once
for the batch. The waste of a shape is the cost of its bucket less its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warmup_insights.analysis.traffic import ShapeCounts
from warmup_insights.bucketing.base import Bucket
from warmup_insights.bucketing.index import BucketIndex

DEFAULT_BLOCK_WEIGHT = 1
_FEW_BUCKETS = 512


def execution_cost(shapes: Any, phase: str, block_weight: int) -> Any:
    """Cost of each shape or bucket, (n, 3) to (n,)."""
    rows = shapes[:, 0] if phase == "prompt" else 1
    return shapes[:, 0] * shapes[:, 1] + block_weight * rows * shapes[:, 2]


@dataclass(frozen=True)
class Waste:
    """Padding of a set of buckets over some traffic, in tokens.

    `uncovered` counts the steps that no bucket covers, `uncovered_shapes` their shapes,
    those that never ran among them; their padding is not in `wasted`, and `executed`
    holds the cost of the covered ones.
    """

    needed: int
    executed: int
    uncovered: int
    uncovered_shapes: int = 0

    @property
    def wasted(self) -> int:
        """Executed without need."""
        return self.executed - self.needed

    @property
    def ratio(self) -> float | None:
        """Share of all executed work that is padding."""
        return self.wasted / self.executed if self.executed else None


def assign(shapes: Any, buckets: Sequence[Bucket]) -> Any:
    """Index into the sorted buckets that the engine takes for each shape; -1 for none.

    It takes the first in sorted order that is not smaller in any dimension
    (`BucketIndex`).
    """
    ordered = sorted(set(buckets))
    if len(ordered) > _FEW_BUCKETS:
        return _assign_by_index(shapes, ordered)
    chosen = np.full(len(shapes), -1)
    left = np.arange(len(shapes))
    for position, bucket in enumerate(ordered):
        if not len(left):
            break
        rest = shapes[left]
        covered = (
            (rest[:, 0] <= bucket[0])
            & (rest[:, 1] <= bucket[1])
            & (rest[:, 2] <= bucket[2])
        )
        chosen[left[covered]] = position
        left = left[~covered]
    return chosen


def _assign_by_index(shapes: Any, ordered: Sequence[Bucket]) -> Any:
    index = BucketIndex(ordered)
    place = {bucket: position for position, bucket in enumerate(ordered)}
    found = [
        place[bucket] if (bucket := index.find(*shape)) is not None else -1
        for shape in shapes.tolist()
    ]
    return np.array(found, dtype=np.int64)


def measure_waste(
    traffic: ShapeCounts, buckets: Iterable[Bucket], phase: str, block_weight: int
) -> Waste:
    """The waste of the buckets over the traffic of a phase, chosen as the engine does."""
    ordered = sorted(set(buckets))
    if not len(traffic):
        return Waste(0, 0, 0)
    chosen = assign(traffic.shapes, ordered)
    covered = chosen >= 0
    counts = traffic.counts[covered]
    needed = execution_cost(traffic.shapes[covered], phase, block_weight)
    table = np.array(ordered, dtype=np.int64).reshape(-1, 3)
    executed = execution_cost(table, phase, block_weight)[chosen[covered]]
    return Waste(
        int((needed * counts).sum()),
        int((executed * counts).sum()),
        int(traffic.counts[~covered].sum()),
        int((~covered).sum()),
    )


def used_buckets(traffic: ShapeCounts, buckets: Iterable[Bucket]) -> list[Bucket]:
    """The buckets that some shape runs in, sorted."""
    ordered = sorted(set(buckets))
    chosen = assign(traffic.shapes, ordered)
    return [ordered[position] for position in np.unique(chosen[chosen >= 0])]


def tighten(
    traffic: ShapeCounts, buckets: Iterable[Bucket], phase: str
) -> list[Bucket]:
    """The buckets that are used, each no larger than what it has to hold.

    A smaller bucket may come earlier in the engine's order and take over shapes, so this
    is repeated until nothing changes. Covers what the given buckets cover.
    """
    current = sorted(set(buckets))
    while len(traffic):
        chosen = assign(traffic.shapes, current)
        joined = joins(traffic.shapes, chosen, phase)
        if joined == current:
            break
        current = joined
    return current


def joins(shapes: Any, chosen: Any, phase: str) -> list[Bucket]:
    """For each group of shapes the smallest bucket that holds all of them, sorted."""
    found = set()
    for group in np.unique(chosen[chosen >= 0]):
        largest = shapes[chosen == group].max(axis=0)
        found.add(as_bucket(largest, phase))
    return sorted(found)


def as_bucket(shape: Any, phase: str) -> Bucket:
    """A shape as a bucket that a bucket file can hold: query length 1 means decode."""
    batch, query, blocks = (int(value) for value in shape)
    return Bucket(batch, max(2, query) if phase == "prompt" else 1, blocks)
