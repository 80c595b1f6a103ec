"""What is left of a warm-up: a prediction from an earlier run, else from its own pace.

If a run of the same model finished before, this one will take what that one took from
the same bucket on, stretched by how much slower it has been so far. Else only the steps
of the current stage count, at the pace of this run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from warmup_insights.analysis.summary import Folded
from warmup_insights.model.summary import BucketRow

RECENT = 12
"""Steps whose mean is the pace."""
Stage = tuple[str, bool]
"""A phase, and whether its graphs are captured."""


@dataclass(frozen=True)
class Remaining:
    """What is left, in seconds, and what that rests on: `earlier run` or `own pace`."""

    seconds: float
    basis: str


def remaining(now: Folded, earlier: Folded | None) -> Remaining | None:
    """What is left of a warm-up; None when nothing is known of it."""
    here, marks = now.summary.progress, step_times(now.rows)
    stage = (here.phase or "", here.mode == "graph")
    steps = marks.get(stage, {})
    if here.finished_at is not None or here.index not in steps:
        return None
    if earlier is not None:
        found = _like_earlier(now, earlier, stage)
        if found is not None:
            return found
    recent = sorted(steps.items())[-RECENT:]
    (low, began), (high, ended) = recent[0], recent[-1]
    if here.total is None or high == low:
        return None
    pace = (ended - began) / (high - low)
    return Remaining(max(0.0, pace * (here.total - high)), "own pace")


def _like_earlier(now: Folded, earlier: Folded, stage: Stage) -> Remaining | None:
    """What the earlier run took from this step on, stretched by the pace so far."""
    progress, finished = now.summary.progress, earlier.summary.progress.finished_at
    own, other = step_times(now.rows), step_times(earlier.rows)
    index = progress.index or 0
    same = other.get(stage, {}).get(index)
    if same is None or finished is None or finished < same:
        return None
    here = own[stage][index]
    spent, took = here - _first(own), same - _first(other)
    stretch = spent / took if spent > 0 and took > 0 else 1.0
    since = max(0.0, (progress.last_at or here) - here)
    return Remaining(max(0.0, (finished - same) * stretch - since), "earlier run")


def _first(marks: dict[Stage, dict[int, float]]) -> float:
    return min(time for steps in marks.values() for time in steps.values())


def step_times(rows: Iterable[BucketRow]) -> dict[Stage, dict[int, float]]:
    """Stage to number of a step to when it began."""
    found: dict[Stage, dict[int, float]] = {}
    for row in rows:
        for is_graph, cost in ((False, row.run), (True, row.capture)):
            if cost is not None and cost.index is not None and cost.time is not None:
                found.setdefault((row.phase, is_graph), {})[cost.index] = cost.time
    return found
