"""Bucket sets of two runs: what came, what went, and what changed its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from warmup_insights.analysis.comparability import Comparability
from warmup_insights.analysis.figures import PHASES, resolution

Summary = Mapping[str, Any]
Run = tuple[Summary, Sequence[Mapping[str, Any]]]
Shape = tuple[int, ...]

NOTICEABLE = 0.10
"""A cost that moved by less than this share is the same cost."""


@dataclass(frozen=True)
class CostChange:
    """What one bucket took before and after: seconds and bytes, None if unknown."""

    bucket: Shape
    duration_s: tuple[float | None, float | None]
    memory_bytes: tuple[int | None, int | None]


@dataclass(frozen=True)
class BucketChange:
    """The buckets of one phase in the baseline and in one other run.

    `added` and `removed` are None when a run does not list its buckets, or the lists
    have different dimensions (`reason` says which). `captured` got a graph and
    `uncaptured` lost it; they are None when a run does not know its graphs. `slower`,
    `faster`, `larger` and `smaller` hold what has a graph in both runs or in neither,
    and moved by more than a tenth and by more than the rounding.
    """

    run_id: str
    phase: str
    added: tuple[Shape, ...] | None
    removed: tuple[Shape, ...] | None
    num_common: int | None
    captured: tuple[Shape, ...] | None
    uncaptured: tuple[Shape, ...] | None
    slower: tuple[CostChange, ...]
    faster: tuple[CostChange, ...]
    larger: tuple[CostChange, ...]
    smaller: tuple[CostChange, ...]
    added_cost_s: float | None
    removed_cost_s: float | None
    reason: str | None = None


def compare_buckets(old: Run, new: Run, fit: Comparability) -> list[BucketChange]:
    """One entry per phase that both or one of the runs mention."""
    changes = []
    for phase in PHASES:
        lists = [listed_buckets(summary, phase) for summary, _ in (old, new)]
        if lists == [None, None]:
            continue
        changes.append(_change(phase, old, new, lists, fit))
    return changes


def listed_buckets(summary: Summary, phase: str) -> frozenset[Shape] | None:
    """The generated buckets; None when the run does not list them."""
    part = (summary.get("buckets") or {}).get(phase) or {}
    buckets = part.get("buckets")
    return frozenset(tuple(bucket) for bucket in buckets) if buckets else None


def _change(
    phase: str,
    old: Run,
    new: Run,
    lists: list[frozenset[Shape] | None],
    fit: Comparability,
) -> BucketChange:
    run_id = str(new[0].get("run_id"))
    before, after = lists
    reason = fit.bucket_reasons[phase]
    if reason is None and (before is None or after is None):
        reason = "only one of the runs lists its buckets"
    if before is None or after is None or reason is not None:
        return BucketChange(
            run_id,
            phase,
            None,
            None,
            None,
            None,
            None,
            (),
            (),
            (),
            (),
            None,
            None,
            reason,
        )
    costs = [_costs(rows, phase) for _, rows in (old, new)]
    gained, lost = _graphs(old[0], new[0], phase)
    common = sorted(before & after)
    both = [b for b in common if b not in {*(gained or ()), *(lost or ())}]
    moved = _Moved(old[0], new[0], costs) if fit.times_are_comparable else None
    added, removed = tuple(sorted(after - before)), tuple(sorted(before - after))
    return BucketChange(
        run_id,
        phase,
        added,
        removed,
        len(common),
        gained,
        lost,
        moved.seconds(both, up=True) if moved else (),
        moved.seconds(both, up=False) if moved else (),
        moved.bytes(both, up=True) if moved else (),
        moved.bytes(both, up=False) if moved else (),
        _total(costs[1], added),
        _total(costs[0], removed),
    )


def _graphs(
    old: Summary, new: Summary, phase: str
) -> tuple[tuple[Shape, ...] | None, tuple[Shape, ...] | None]:
    """Buckets that got a graph, and those that lost it."""
    before, after = (
        ((s.get("buckets") or {}).get(phase) or {}).get("captured_buckets")
        for s in (old, new)
    )
    if before is None or after is None:
        return None, None
    first, second = ({tuple(b) for b in listed} for listed in (before, after))
    return tuple(sorted(second - first)), tuple(sorted(first - second))


_Cost = tuple[float | None, int | None]


def _costs(rows: Sequence[Mapping[str, Any]], phase: str) -> Mapping[Shape, _Cost]:
    return {
        tuple(row["bucket"]): (row.get("duration_s"), row.get("memory_bytes"))
        for row in rows
        if row["phase"] == phase
    }


def _total(costs: Mapping[Shape, _Cost], buckets: Sequence[Shape]) -> float | None:
    """Seconds of all the buckets; None unless each is known."""
    seconds = [costs.get(bucket, (None, None))[0] for bucket in buckets]
    known = [value for value in seconds if value is not None]
    return sum(known) if len(known) == len(seconds) else None


class _Moved:
    """The buckets whose cost is noticeably another."""

    def __init__(
        self, old: Summary, new: Summary, costs: Sequence[Mapping[Shape, _Cost]]
    ) -> None:
        self._old, self._new = old, new
        self._before, self._after = costs

    def seconds(self, buckets: Sequence[Shape], *, up: bool) -> tuple[CostChange, ...]:
        return self._moved(buckets, 0, "s", up)

    def bytes(self, buckets: Sequence[Shape], *, up: bool) -> tuple[CostChange, ...]:
        return self._moved(buckets, 1, "bytes", up)

    def _moved(
        self, buckets: Sequence[Shape], index: int, unit: Any, up: bool
    ) -> tuple[CostChange, ...]:
        found = []
        for bucket in buckets:
            before = self._before.get(bucket, (None, None))[index]
            after = self._after.get(bucket, (None, None))[index]
            if before is None or after is None:
                continue
            difference = after - before
            step = max(
                resolution(self._old, before, unit), resolution(self._new, after, unit)
            )
            is_noticeable = abs(difference) > max(step, NOTICEABLE * abs(before))
            if is_noticeable and (difference > 0) is up:
                found.append((abs(difference), bucket))
        found.sort(key=lambda item: (-item[0], item[1]))
        return tuple(self._entry(bucket) for _, bucket in found)

    def _entry(self, bucket: Shape) -> CostChange:
        before, after = self._before[bucket], self._after[bucket]
        return CostChange(bucket, (before[0], after[0]), (before[1], after[1]))
