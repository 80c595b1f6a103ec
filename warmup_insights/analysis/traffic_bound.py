"""What no set of buckets can be better than, when padding in one dimension is counted.

Any N buckets have at most N different values in one dimension. Paying only for padding
in that dimension, with the best N values for it, is a problem on a line, and no more
than what the N buckets pay. The dimension that gives most is taken for each phase.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from warmup_insights.analysis.traffic import ShapeCounts, Traffic
from warmup_insights.analysis.traffic_cost import as_bucket, execution_cost
from warmup_insights.analysis.traffic_limits import Limits
from warmup_insights.analysis.traffic_line import Line, solve_lines
from warmup_insights.bucketing.base import Bucket

MAX_VALUES = 1_500


def lower_bound(
    traffic: Traffic, phases: Sequence[str], limits: Limits, block_weight: int
) -> int:
    """A cost that no set of buckets within the limits is below.

    Bounds on seconds or bytes count through the number of buckets that they allow at
    most, were all of them as cheap as the cheapest.
    """
    needed = sum(
        int(
            (
                execution_cost(traffic.of(p).shapes, p, block_weight)
                * traffic.of(p).counts
            ).sum()
        )
        for p in phases
    )
    count = most_buckets(traffic, phases, limits)
    if count is None or count < len(phases):
        return needed
    options = [_lines(traffic.of(phase), phase, block_weight) for phase in phases]
    best = needed
    for chosen in itertools.product(*options):
        paths = solve_lines([line for line, _ in chosen], count)
        padding = sum(
            path.cost - least for path, (_, least) in zip(paths, chosen, strict=True)
        )
        best = max(best, needed + int(padding))
    return best


def most_buckets(traffic: Traffic, phases: Sequence[str], limits: Limits) -> int | None:
    """How many buckets the limits allow at most; None when they bound nothing."""
    bounds = [] if limits.max_buckets is None else [limits.max_buckets]
    smallest = {
        phase: as_bucket(traffic.of(phase).shapes.min(axis=0), phase)
        for phase in phases
    }
    for bound, cost in (
        (limits.max_warmup_s, limits.seconds),
        (limits.max_graph_bytes, limits.bytes),
    ):
        if bound is not None and cost is not None:
            least = min(cost(phase, bucket) for phase, bucket in smallest.items())
            if least > 0:
                bounds.append(math.floor(bound / least))
    return min(bounds) if bounds else None


def _lines(
    traffic: ShapeCounts, phase: str, block_weight: int
) -> list[tuple[Line, int]]:
    """A line per dimension with more than one value, and its cost without padding."""
    batch, query, blocks = (traffic.shapes[:, i] for i in range(3))
    weights = {
        0: query + block_weight * blocks if phase == "prompt" else np.ones_like(batch),
        1: batch,
        2: block_weight * (batch if phase == "prompt" else np.ones_like(batch)),
    }
    found = []
    for column, weight in weights.items():
        values = traffic.shapes[:, column]
        if len(np.unique(values)) > 1:
            found.append(_line(values, weight * traffic.counts))
    # Nothing varies: the single shape needs no padding.
    return found or [_line(traffic.shapes[:, 0], traffic.counts)]


def _line(values: Any, weights: Any) -> tuple[Line, int]:
    distinct, inverse = np.unique(values, return_inverse=True)
    sums = np.bincount(inverse.ravel(), weights=weights).astype(np.int64)
    least = int((distinct * sums).sum())
    if len(distinct) > MAX_VALUES:
        # Values of a bin count as its smallest: that only lowers the bound.
        bins = np.linspace(0, len(distinct), MAX_VALUES + 1).astype(np.int64)[:-1]
        sums, distinct = np.add.reduceat(sums, bins), distinct[bins]
    count = len(distinct)
    line = Line(
        (Bucket(1, 1, 0),) * count,
        tuple(distinct.tolist()),
        tuple(sums.tolist()),
        (1.0,) * count,
    )
    return line, least
