"""Every set of buckets compared, where there are few enough."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

from warmup_insights.analysis.traffic import ShapeCounts, Traffic
from warmup_insights.analysis.traffic_cost import as_bucket, measure_waste
from warmup_insights.bucketing.base import Bucket

MAX_SETS = 20_000
"""Sets of one phase that are compared at most."""

MAX_GRID = 64

Admissible = Callable[[str, Bucket], bool]
Curve = dict[int, tuple[int, tuple[Bucket, ...]]]
"""Number of buckets to the least executed work and the set that has it."""


def best_of_all(
    traffic: Traffic,
    phases: Sequence[str],
    max_buckets: int,
    block_weight: int,
    admissible: Admissible,
) -> dict[str, list[Bucket]] | None:
    """The best set of at most that many buckets; None where there are too many sets."""
    curves = []
    for phase in phases:
        own = curve(
            traffic.of(phase),
            phase,
            max_buckets - len(phases) + 1,
            block_weight,
            admissible,
        )
        if own is None:
            return None
        curves.append(own)
    best: tuple[int, tuple[int, ...]] | None = None
    for numbers in itertools.product(*curves):
        if sum(numbers) <= max_buckets:
            cost = sum(own[n][0] for own, n in zip(curves, numbers, strict=True))
            if best is None or cost < best[0]:
                best = cost, numbers
    if best is None:
        return None
    return {
        phase: list(own[n][1])
        for phase, own, n in zip(phases, curves, best[1], strict=True)
    }


def curve(
    traffic: ShapeCounts,
    phase: str,
    max_buckets: int,
    block_weight: int,
    admissible: Admissible,
) -> Curve | None:
    """The best set of each size up to a limit; None where there are too many sets.

    Buckets are taken from the grid of the values that occur. Those that are no larger
    than the shapes they hold would not do: a larger one comes later in the engine's
    order, and leaves shapes to a better one.
    """
    buckets = _grid(traffic, phase, admissible)
    if buckets is None:
        return None
    sizes = range(1, min(max_buckets, len(buckets)) + 1)
    if sum(math.comb(len(buckets), size) for size in sizes) > MAX_SETS:
        return None
    found: Curve = {}
    for size in sizes:
        for chosen in itertools.combinations(buckets, size):
            waste = measure_waste(traffic, chosen, phase, block_weight)
            if waste.uncovered_shapes:
                continue
            if size not in found or waste.executed < found[size][0]:
                found[size] = waste.executed, chosen
    return found


def _grid(
    traffic: ShapeCounts, phase: str, admissible: Admissible
) -> list[Bucket] | None:
    """Every combination of values that may be a bucket; None where there are too many."""
    values = [np.unique(traffic.shapes[:, column]).tolist() for column in range(3)]
    if math.prod(len(own) for own in values) > MAX_GRID:
        return None
    buckets = {as_bucket(shape, phase) for shape in itertools.product(*values)}
    return sorted(bucket for bucket in buckets if admissible(phase, bucket))
