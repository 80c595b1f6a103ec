"""What is left of a start-up: a prediction from an earlier run, else from its own pace.

If a run of the same model became ready before, this one will take what that one took from
the same bucket on, stretched by how much slower it has been so far; where that bucket or
its time is not known, what that one took after the same stage. Else only the steps of the
current stage count, at the pace of this run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from warmup_insights.analysis.summary import Folded
from warmup_insights.model.summary import BucketRow, Progress, TimePhase

RECENT = 12
"""Steps whose mean is the pace."""
MIN_STEPS = 2
"""Fewer are no pace: the first step is slower than the others."""
Stage = tuple[str, bool]
"""A phase, and whether its graphs are captured."""


@dataclass(frozen=True)
class Remaining:
    """What is left, in seconds, and what that rests on: `earlier run` or `own pace`."""

    seconds: float
    basis: str


def remaining(now: Folded, earlier: Folded | None) -> Remaining | None:
    """What is left until the server is ready, or of the stage; None when unknown."""
    here = now.summary.progress
    if here.stage == "ready" or now.summary.failure is not None:
        return None
    steps = step_times(now.rows)
    stage = (here.phase or "", here.mode == "graph")
    own = left_of_stage(here, steps.get(stage, {}))
    if earlier is not None:
        found = _like_earlier(now, earlier, stage) if stage in steps else None
        left = _after_stage(now, earlier, own) if found is None else found
        if left is not None:
            return Remaining(max(0.0, left), "earlier run")
    return None if own is None else Remaining(own, "own pace")


def left_of_stage(here: Progress, began: Mapping[int, float]) -> float | None:
    """Seconds that the steps of the stage still to come take, at the pace of recent ones.

    `began` has when steps of that stage began, by their number. The last one counts for
    the pace once it has ended. None where one step is all there is to go by.
    """
    if here.index is None or here.total is None:
        return None
    recent = sorted(began.items())[-RECENT:]
    if here.index in began and len(recent) > 1:
        (low, first), (high, last) = recent[0], recent[-1]
        num_steps, ended = high - low, here.last_at
        if high == here.index and not here.is_in_step and ended and ended > last:
            num_steps, last = num_steps + 1, ended
        return max(0.0, (last - first) / num_steps * (here.total - high))
    if here.step_s is None or here.index < MIN_STEPS:
        return None
    return max(0.0, here.step_s * (here.total - here.index))


def _like_earlier(now: Folded, earlier: Folded, stage: Stage) -> float | None:
    """What the earlier run took from this step on, stretched by the pace so far."""
    progress, finished = now.summary.progress, earlier.summary.progress.finished_at
    own, other = step_times(now.rows), step_times(earlier.rows)
    index = progress.index or 0
    same, here = other.get(stage, {}).get(index), own[stage].get(index)
    if same is None or here is None or finished is None or finished < same:
        return None
    spent, took = here - _first(own), same - _first(other)
    stretch = spent / took if spent > 0 and took > 0 else 1.0
    since = max(0.0, (progress.last_at or here) - here)
    return (finished - same) * stretch - since


def _after_stage(now: Folded, earlier: Folded, own: float | None) -> float | None:
    """What is left of the stage, and what the earlier run took from its end to ready.

    The stage takes what its own pace gives, else as long as it did in the earlier run.
    """
    stage = now.summary.progress.stage
    here, there = _last(now, stage), _last(earlier, stage)
    wall, ready = now.summary.time.wall_s, earlier.summary.time.ready_s
    if here is None or there is None or wall is None or ready is None:
        return None
    rest = ready - there.start_s - there.duration_s
    spent = wall - here.start_s
    return rest + (max(0.0, there.duration_s - spent) if own is None else own)


def _last(folded: Folded, stage: str) -> TimePhase | None:
    """The last stretch of a stage."""
    phases = folded.summary.time.phases
    return next((phase for phase in reversed(phases) if phase.name == stage), None)


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
