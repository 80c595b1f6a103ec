"""Progress of a run: where it is, what is left, when silence is odd."""

from __future__ import annotations

import pytest

from dashboard.progress import (
    journey,
    percent_done,
    remaining,
    silence_limit,
)
from warmup_insights.model.events import (
    BucketsGenerated,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)

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
            phase="prompt", index=index, total=total, duration_s=pace,
            free_after_bytes=(8 * GIB) - index * GIB // 2,
            time=start + 10 + (index - 1) * pace,
        )  # fmt: skip


def test_a_run_says_where_it_is():
    here = journey(warming(steps=4, pace=2.0))
    assert (here.doing, here.index, here.total) == ("prompt warm-up", 4, 10)
    assert here.memory[0] == (105.0, 2 * GIB)
    assert here.memory[-1] == (116.0, 4 * GIB)
    assert percent_done(here) == 0.4
    assert here.buckets == {"prompt": 10}


def test_what_is_left_at_its_own_pace():
    left = remaining(journey(warming(steps=4, pace=2.0)), None)
    assert (left.seconds, left.basis) == (pytest.approx(12.0), "own pace")


def test_an_earlier_run_tells_what_is_left_stretched_by_the_pace():
    earlier = [*warming(steps=10, pace=1.0), WarmupFinished(time=150.0)]
    left = remaining(journey(warming(steps=5, pace=3.0)), journey(earlier))
    # The earlier run took 4 s to step 5 and 36 s from there; this one took 12 s, and
    # step 5 itself is over for 3 s.
    assert (left.seconds, left.basis) == (pytest.approx(36 * 3 - 3), "earlier run")


def test_a_finished_run_has_nothing_left():
    events = [*warming(steps=10, pace=1.0), ServerReady(time=130.0)]
    here = journey(events)
    assert remaining(here, None) is None
    assert (here.doing, percent_done(here)) == ("ready", 1.0)


def test_one_step_is_too_few_for_a_pace():
    assert remaining(journey(warming(steps=1, pace=1.0)), None) is None


def test_silence_is_odd_when_longer_than_the_longest_step():
    assert silence_limit(journey(warming(steps=3, pace=40.0))) == 40.0
    assert silence_limit(journey(warming(steps=3, pace=1.0))) == 10.0


def test_other_ranks_do_not_speak():
    events = [
        PhaseMarked(name="load_model", edge="start", time=1.0, rank=0),
        PhaseMarked(name="compile", edge="start", time=2.0, rank=1),
    ]
    assert journey(events).doing == "load model"
