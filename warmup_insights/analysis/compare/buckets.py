"""Bucket sets of two runs: what came, what went, and what changed its cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from warmup_insights.analysis.compare.comparability import Comparability
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import Unit, resolution
from warmup_insights.model.summary import PHASES, BucketRow, RunSummary

Run = tuple[RunSummary, Sequence[BucketRow]]

NOTICEABLE = 0.10
"""A cost that moved by less than this share is the same cost."""


@dataclass(frozen=True)
class CostChange:
    """What one bucket took before and after: seconds and bytes, None if unknown."""

    bucket: Bucket
    duration_s: tuple[float | None, float | None]
    memory_bytes: tuple[int | None, int | None]


@dataclass(frozen=True)
class BucketChange:
    """The buckets of one phase in the baseline and in one other run.

    `added` and `removed` are None when a run does not list its buckets, or the lists
    have different dimensions (`reason` names them). `captured` got a graph and
    `uncaptured` lost it; they are None when the graphs of a run are unknown. `slower`,
    `faster`, `larger` and `smaller` hold what has a graph in both runs or in neither,
    and moved by more than a tenth and by more than the rounding.
    """

    run_id: str
    phase: str
    added: tuple[Bucket, ...] | None
    removed: tuple[Bucket, ...] | None
    num_common: int | None
    captured: tuple[Bucket, ...] | None
    uncaptured: tuple[Bucket, ...] | None
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
        lists = [_listed(summary, phase) for summary, _ in (old, new)]
        if lists == [None, None]:
            continue
        changes.append(_change(phase, old, new, lists, fit))
    return changes


def _listed(summary: RunSummary, phase: str) -> frozenset[Bucket] | None:
    """The generated buckets; None when the run does not list them."""
    return frozenset(summary.phase(phase).buckets) or None


def _change(
    phase: str,
    old: Run,
    new: Run,
    lists: list[frozenset[Bucket] | None],
    fit: Comparability,
) -> BucketChange:
    run_id = new[0].run_id
    before, after = lists
    reason = fit.bucket_reasons[phase]
    if reason is None and (before is None or after is None):
        reason = "only one of the runs lists its buckets"
    if before is None or after is None or reason is not None:
        unknown = (None,) * 5
        return BucketChange(run_id, phase, *unknown, (), (), (), (), None, None, reason)
    costs = [_costs(rows, phase) for _, rows in (old, new)]
    gained, lost = _graphs(old[0], new[0], phase)
    common = sorted(before & after)
    both = [b for b in common if b not in {*(gained or ()), *(lost or ())}]

    def moved(index: int, unit: Unit, *, up: bool) -> tuple[CostChange, ...]:
        if not fit.times_are_comparable:
            return ()
        return _moved(old[0], new[0], costs, both, index, unit, up=up)

    added, removed = tuple(sorted(after - before)), tuple(sorted(before - after))
    return BucketChange(
        run_id,
        phase,
        added,
        removed,
        len(common),
        gained,
        lost,
        moved(0, "s", up=True),
        moved(0, "s", up=False),
        moved(1, "bytes", up=True),
        moved(1, "bytes", up=False),
        _total(costs[1], added),
        _total(costs[0], removed),
    )


def _graphs(
    old: RunSummary, new: RunSummary, phase: str
) -> tuple[tuple[Bucket, ...] | None, tuple[Bucket, ...] | None]:
    """Buckets that got a graph, and those that lost it."""
    before, after = (s.phase(phase).captured_buckets for s in (old, new))
    if before is None or after is None:
        return None, None
    first, second = set(before), set(after)
    return tuple(sorted(second - first)), tuple(sorted(first - second))


_Cost = tuple[float | None, int | None]


def _costs(rows: Sequence[BucketRow], phase: str) -> Mapping[Bucket, _Cost]:
    return {
        row.bucket: (row.duration_s, row.memory_bytes)
        for row in rows
        if row.phase == phase
    }


def _total(costs: Mapping[Bucket, _Cost], buckets: Sequence[Bucket]) -> float | None:
    """Seconds of all the buckets; None unless each is known."""
    seconds = [costs.get(bucket, (None, None))[0] for bucket in buckets]
    known = [value for value in seconds if value is not None]
    return sum(known) if len(known) == len(seconds) else None


def _moved(
    old: RunSummary,
    new: RunSummary,
    costs: Sequence[Mapping[Bucket, _Cost]],
    buckets: Sequence[Bucket],
    index: int,
    unit: Unit,
    *,
    up: bool,
) -> tuple[CostChange, ...]:
    """The buckets of which one of the costs is noticeably higher, or lower."""
    found = []
    for bucket in buckets:
        first, second = (each.get(bucket, (None, None)) for each in costs)
        before, after = first[index], second[index]
        if before is None or after is None:
            continue
        difference = after - before
        step = max(resolution(old, before, unit), resolution(new, after, unit))
        is_noticeable = abs(difference) > max(step, NOTICEABLE * abs(before))
        if is_noticeable and (difference > 0) is up:
            pairs = (first[0], second[0]), (first[1], second[1])
            found.append((abs(difference), CostChange(bucket, *pairs)))
    found.sort(key=lambda item: (-item[0], item[1].bucket))
    return tuple(change for _, change in found)
