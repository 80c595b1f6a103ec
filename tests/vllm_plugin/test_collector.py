"""The collector's time, freezing, and what it visits of ours."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import pytest

from warmup_insights.model.events import PhaseMarked, RecipeCompiled, WarmupStep
from warmup_insights.recorder import Recorder
from warmup_insights.vllm_plugin.hpu.warmup import freeze, lift
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.settings import Settings
from warmup_insights.vllm_plugin.state import CollectorClock

pytestmark = pytest.mark.long


@pytest.fixture
def clock():
    clock = CollectorClock()
    yield clock
    clock.switch_off()
    clock.switch_off()


def test_time_passes_only_while_switched_on(clock):
    gc.collect()
    assert clock.total_s == 0.0
    clock.switch_on()
    gc.collect()
    first = clock.total_s
    assert first > 0.0
    clock.switch_off()
    gc.collect()
    assert clock.total_s == first
    assert clock._measure not in gc.callbacks


def test_it_stays_on_until_the_last_user_is_done(clock):
    clock.switch_on()
    clock.switch_on()
    clock.switch_off()
    gc.collect()
    assert clock.total_s > 0.0
    assert gc.callbacks.count(clock._measure) == 1


@pytest.fixture
def nothing_frozen():
    """The suite itself has frozen what it imported."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_freezing_and_lifting():
    notes = []
    session = SimpleNamespace(emit=lambda _, **note: notes.append(note["values"]))
    had_frozen = freeze(session)
    assert gc.get_freeze_count() == notes[0]["objects"] > 1000
    lift(session, had_frozen)
    assert notes[1] == {"lifted": True}
    assert gc.get_freeze_count() == 0


def test_what_the_program_had_frozen_stays_frozen():
    gc.freeze()
    notes = []
    session = SimpleNamespace(emit=lambda _, **note: notes.append(note["values"]))
    lift(session, freeze(session))
    assert notes[1] == {"lifted": False}
    assert gc.get_freeze_count() > 1000


def test_what_waits_to_be_written_is_not_visited():
    """Events and their places in the queue; buckets are numbers, too."""
    spool = SimpleNamespace(append=lambda _: None, close=lambda _: None)
    recorder = Recorder(spool, flush_interval_s=600)
    session = Session(Settings("x", "r", is_first=False), lambda _: recorder)
    session.emit(PhaseMarked, name="warmup", edge="start")
    recorder.flush()
    gc.collect()
    before = len(gc.get_objects())
    for number in range(1000):
        bucket = (number, 1, 8)
        session.emit(WarmupStep, phase="decode", bucket=bucket, executed=bucket)
        session.emit(RecipeCompiled, recipe=f"r_{number}", bucket=bucket)
    gc.collect()
    more = len(gc.get_objects()) - before
    assert len(recorder._queue) == 2000
    recorder.close()
    assert more < 10
