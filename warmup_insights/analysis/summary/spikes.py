"""Which buckets took a multiple of their neighbours' time: a compilation of their own.

What a step computes changes little from one bucket to the next in the order of the
warm-up, while compiling its recipe or kernels takes several times as long as reusing
those of a neighbour. Nothing in an ordinary log states it; the times do.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from warmup_insights.model.summary import BucketRow, StepCost

SPIKE_FACTOR = 2.5
"""A spike took so many times the median of its neighbours, at the least."""
_SIDE = 4
"""Neighbours on each side, in the order of the warm-up."""
_FEWEST = 4
_STAMP_S = 1.0
"""Whole seconds are differences of stamps, which may be so far off."""


class _Timed(NamedTuple):
    position: int
    row: int
    seconds: float
    error: float


def mark_spikes(rows: Sequence[BucketRow]) -> list[BucketRow]:
    """The rows with `is_spike` and `neighbours_s` of their steps, where they follow.

    Runs and captures of a phase are compared among themselves. What the resolution of
    the times explains is no spike.
    """
    marked = list(rows)
    for way in ("run", "capture"):
        for phase in {row.phase for row in rows}:
            timed = sorted(
                item
                for index, row in enumerate(rows)
                if row.phase == phase
                and (item := _timed(index, row, getattr(row, way))) is not None
            )
            for place, item in enumerate(timed):
                near = [
                    *timed[max(0, place - _SIDE) : place],
                    *timed[place + 1 :][:_SIDE],
                ]
                if len(near) >= _FEWEST:
                    cost = _judged(getattr(marked[item.row], way), item, near)
                    marked[item.row] = replace(marked[item.row], **{way: cost})
    return marked


def _timed(index: int, row: BucketRow, cost: StepCost | None) -> _Timed | None:
    if cost is None or cost.duration_s is None:
        return None
    is_whole = cost.duration_s == int(cost.duration_s)
    error = row.resolution_s or (_STAMP_S if is_whole else 0.0)
    return _Timed(cost.position, index, cost.duration_s, error)


def _judged(cost: StepCost, item: _Timed, near: Sequence[_Timed]) -> StepCost:
    usual = median(other.seconds for other in near)
    error = median(other.error for other in near)
    is_spike = item.seconds - item.error > SPIKE_FACTOR * (usual + error)
    return replace(cost, is_spike=is_spike, neighbours_s=usual)
