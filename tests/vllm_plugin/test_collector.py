"""The collector's time, and freezing."""

from __future__ import annotations

import gc

import pytest

from warmup_insights.vllm_plugin.collector import CollectorClock, Freeze


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
    freeze = Freeze()
    freeze.begin()
    assert gc.get_freeze_count() == freeze.num_objects > 1000
    assert freeze.lift()
    assert gc.get_freeze_count() == 0


def test_what_the_program_had_frozen_stays_frozen():
    gc.freeze()
    freeze = Freeze()
    freeze.begin()
    assert not freeze.lift()
    assert gc.get_freeze_count() > 1000
