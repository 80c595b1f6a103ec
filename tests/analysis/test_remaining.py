"""What is left of a warm-up, and the points of the live memory chart."""

from __future__ import annotations

import pytest

from dashboard.charts.memory import memory_points
from warmup_insights.analysis.remaining import remaining
from warmup_insights.analysis.summary import Folded, summarize
from warmup_insights.model.events import (
    BucketsGenerated,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.run import RunRecord

GIB = 1024**3


def warming(*, steps: int, pace: float, start: float = 100.0, total: int = 10):
    """A run that does one step every `pace` seconds from second 10 on."""
    yield RunStarted(time=start)
    yield MemoryMeasured(
        stage="weights", used_bytes=2 * GIB, total_bytes=10 * GIB, time=start + 5
    )
    yield BucketsGenerated(phase="prompt", count=total, time=start + 10)
    for index in range(1, steps + 1):
        yield WarmupStep(
            phase="prompt", bucket=(1, 128 * index, 0), index=index, total=total,
            duration_s=pace, free_after_bytes=(8 * GIB) - index * GIB // 2,
            time=start + 10 + (index - 1) * pace,
        )  # fmt: skip


def folded(events) -> Folded:
    return summarize(RunRecord(run_id="r"), events)


def test_the_fold_of_a_beginning_is_its_progress():
    now = folded(warming(steps=4, pace=2.0))
    here = now.summary.progress
    assert (here.stage, here.index, here.total) == ("prompt_warmup", 4, 10)
    assert here.used_bytes == 4 * GIB
    points = memory_points(now)
    assert (points[0], points[-1]) == ((5.0, 2 * GIB), (16.0, 4 * GIB))


def test_what_is_left_at_its_own_pace():
    left = remaining(folded(warming(steps=4, pace=2.0)), None)
    assert (left.seconds, left.basis) == (pytest.approx(12.0), "own pace")


def test_an_earlier_run_predicts_what_is_left_stretched_by_the_pace():
    earlier = [*warming(steps=10, pace=1.0), WarmupFinished(time=150.0)]
    left = remaining(folded(warming(steps=5, pace=3.0)), folded(earlier))
    # The earlier run took 4 s to step 5 and 36 s from there; this one took 12 s, and
    # step 5 itself is over for 3 s.
    assert (left.seconds, left.basis) == (pytest.approx(36 * 3 - 3), "earlier run")


def test_a_finished_run_has_nothing_left():
    now = folded([*warming(steps=10, pace=1.0), ServerReady(time=130.0)])
    assert remaining(now, None) is None
    assert now.summary.progress.stage == "ready"


def test_one_step_is_too_few_for_a_pace():
    assert remaining(folded(warming(steps=1, pace=1.0)), None) is None


def test_silence_is_the_longest_time_without_an_event():
    progress = folded(warming(steps=3, pace=40.0)).summary.progress
    assert progress.longest_silence_s == 40.0


def test_other_ranks_are_no_progress():
    events = [
        PhaseMarked(name="load_model", edge="start", time=1.0, rank=0),
        PhaseMarked(name="compile", edge="start", time=2.0, rank=1),
    ]
    assert folded(events).summary.progress.stage == "load_model"


def test_a_child_that_imports_the_engine_later_is_no_step_back():
    events = [
        PhaseMarked(name="load_weights", edge="end", time=1.0),
        PhaseMarked(name="import", edge="start", time=2.0),
    ]
    assert folded(events).summary.progress.stage == "load_weights"


def test_measured_weights_show_the_stage_where_the_line_before_is_missing():
    events = [
        RunStarted(time=1.0),
        PhaseMarked(name="configure", edge="start", time=2.0),
        MemoryMeasured(stage="weights", delta_bytes=GIB, duration_s=3.4, time=9.0),
    ]
    assert folded(events).summary.progress.stage == "load_model"
