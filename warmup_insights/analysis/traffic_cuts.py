"""Ways to take multi-dimensional traffic apart into lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from warmup_insights.analysis.traffic import ShapeCounts, Traffic
from warmup_insights.analysis.traffic_cost import as_bucket
from warmup_insights.analysis.traffic_limits import Limits
from warmup_insights.analysis.traffic_line import Line, shortest_path
from warmup_insights.analysis.traffic_plane import Plane, PlaneGrid, Price, count_price
from warmup_insights.bucketing.base import Bucket

PhasePlane = tuple[str, Plane]
PhaseLine = tuple[str, Line]
Admissible = Callable[[str, Bucket], bool]

_BISECTIONS = 12
_MAX_GROUPED = 6


def plane_sets(
    traffic: Traffic,
    phases: Sequence[str],
    block_weight: int,
    admissible: Admissible,
) -> Iterator[list[PhasePlane]]:
    """Planes of both phases, once per way to put batch sizes of prompts together."""
    decode: list[PhasePlane] = []
    if "decode" in phases:
        decode = [("decode", Plane(traffic.decode, "decode", block_weight, 0))]
    if "prompt" not in phases:
        yield decode
        return
    for groups in batch_groups(traffic.prompt):
        prompts = [Plane(part, "prompt", block_weight, size) for size, part in groups]
        if all(_is_possible(plane, admissible) for plane in prompts):
            yield [*(("prompt", plane) for plane in prompts), *decode]


def batch_groups(traffic: ShapeCounts) -> Iterator[list[tuple[int, ShapeCounts]]]:
    """Partitions of the batch sizes into ranges, as (largest size, shapes).

    All of them where there are few sizes; else every size alone, powers of two, one.
    """
    sizes = np.unique(traffic.shapes[:, 0]).tolist()
    if len(sizes) <= _MAX_GROUPED:
        for mask in range(1 << (len(sizes) - 1)):
            ends = [s for i, s in enumerate(sizes[:-1]) if mask >> i & 1]
            yield _groups(traffic, [*ends, sizes[-1]])
        return
    powers = sorted({1 << (size - 1).bit_length() for size in sizes})
    inside = [max(s for s in sizes if s <= power) for power in powers[:-1]]
    for ends in (sizes, sorted({*inside, sizes[-1]}), [sizes[-1]]):
        yield _groups(traffic, ends)


def _groups(traffic: ShapeCounts, ends: Sequence[int]) -> list[tuple[int, ShapeCounts]]:
    place = np.searchsorted(np.asarray(ends), traffic.shapes[:, 0])
    return [
        (int(end), ShapeCounts(traffic.shapes[place == i], traffic.counts[place == i]))
        for i, end in enumerate(ends)
        if (place == i).any()
    ]


def _is_possible(plane: Plane, admissible: Admissible) -> bool:
    """Whether the longest shape may run with the largest batch of its plane."""
    largest = as_bucket(plane.traffic.shapes.max(axis=0), plane.phase)
    return admissible(plane.phase, largest._replace(batch_size=plane.batch_size))


def cut_sets(
    planes: Sequence[PhasePlane], limits: Limits, admissible: Admissible, tries: int
) -> Iterator[list[PhaseLine]]:
    """Lines for at most `tries` sets of cuts, the most promising first.

    Cuts follow from a price per bucket; prices are halved in until the number of buckets
    (or the share of the limits) meets the limit, and the sets nearest to it are taken.
    """
    prices = {phase: _price(limits, phase) for phase, _ in planes}
    if all(plane.is_line for _, plane in planes):
        yield [(p, line) for p, plane in planes for line in plane.lines((), prices[p])]
        return
    search = _CutSearch(planes, prices, admissible)
    for cuts in search.nearest(limits, tries):
        yield [
            (phase, line)
            for (phase, plane), own in zip(planes, cuts, strict=True)
            for line in plane.lines(own, prices[phase])
        ]


def _price(limits: Limits, phase: str) -> Price:
    return count_price if limits.counts_only else partial(limits.price, phase)


Cuts = tuple[tuple[int, ...], ...]


class _CutSearch:
    """Cuts of several planes at one price."""

    def __init__(
        self,
        planes: Sequence[PhasePlane],
        prices: dict[str, Price],
        admissible: Admissible,
    ) -> None:
        self._grids = [
            None
            if plane.is_line
            else PlaneGrid(plane, prices[phase], partial(admissible, phase))
            for phase, plane in planes
        ]
        self._lines = [
            plane.lines(_outermost(plane), prices[phase])[0] if grid is None else None
            for (phase, plane), grid in zip(planes, self._grids, strict=True)
        ]
        self._whole = [_outermost(plane) for _, plane in planes]
        self._high = float(
            max(plane.traffic.total * _largest_cost(plane) for _, plane in planes) + 1
        )

    def at(self, price: float) -> tuple[Cuts, int]:
        """The cuts at a price, and how many buckets they would hold."""
        cuts, number = [], 0
        for grid, line, whole in zip(
            self._grids, self._lines, self._whole, strict=True
        ):
            if grid is not None:
                own, count = grid.cut(price)
                cuts.append(tuple(own))
                number += count
            else:
                assert line is not None, "a plane is a grid or a line"
                cuts.append(whole)
                number += len(shortest_path(line, price))
        return tuple(cuts), number

    def nearest(self, limits: Limits, tries: int) -> list[Cuts]:
        """The cuts whose number of buckets comes nearest to the limit."""
        wanted = limits.max_buckets or 1 << 30
        seen: dict[Cuts, float] = {}
        low, high = 0.0, self._high
        scale = 1.0 if limits.counts_only else 1e-3
        for step in range(_BISECTIONS + 1):
            # Prices of use span many orders of magnitude: halve their logarithm.
            price = high if step == 0 else max(scale, low) ** 0.5 * high**0.5
            cuts, number = self.at(price)
            distance = abs(number - wanted) if limits.counts_only else float(step)
            seen[cuts] = min(seen.get(cuts, distance), distance)
            if step == 0:
                continue
            low, high = (price, high) if number > wanted else (low, price)
        return sorted(seen, key=lambda cuts: seen[cuts])[:tries]


def _outermost(plane: Plane) -> tuple[int, ...]:
    return (int(plane.traffic.shapes[:, plane.outer].max()),)


def _largest_cost(plane: Plane) -> float:
    bucket = plane.traffic.shapes.max(axis=0)
    return float(bucket[0] * bucket[1] + plane.block_weight * bucket[0] * bucket[2])
