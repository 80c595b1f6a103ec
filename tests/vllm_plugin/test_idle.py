"""What vllm-gaudi served before it was idle, or was killed with its server."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from tests.vllm_plugin.listening import of_kind, session_with_list, watch_class
from warmup_insights.vllm_plugin.hpu import serving


@pytest.fixture
def runner(monkeypatch):
    monkeypatch.setattr(serving, "FLUSH_S", 0.05)
    session, events = session_with_list()

    class Runner:
        def execute_model(self):
            use = ("decode", (1, 1, 1), (1, 1, 1), None)
            session.state.serving.used[use] += 1

    watch_class(session, Runner, execute_model=serving.serve_step)
    session.state.serving.flushed = time.perf_counter() + 60
    return SimpleNamespace(step=Runner().execute_model, session=session, events=events)


def counts(runner):
    return [event.count for event in of_kind(runner.events, "bucket_used")]


def test_the_last_steps_are_recorded_though_none_follows(runner):
    for _ in range(3):
        runner.step()
    assert counts(runner) == []
    deadline = time.monotonic() + 600
    while not counts(runner) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert counts(runner) == [3]
    assert not runner.session.state.serving.is_flush_due


def test_no_thread_is_left_for_another_run(runner):
    runner.step()
    runner.session.after_fork()
    time.sleep(0.2)
    assert counts(runner) == []
