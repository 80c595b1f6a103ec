"""The helpers that are shipped for tests do what they promise."""

from __future__ import annotations

import pytest

from warmup_insights.model.events import MemoryBudgetSet, ServerReady
from warmup_insights.testing import (
    events,
    folded,
    log_line,
    matches,
    of,
    read,
    recorded,
)

BANNER = log_line("vLLM API server version 0.26.0", file="api_server.py:1")
MEMORY = log_line("Available KV cache memory: 62.1 GiB", process="EngineCore pid=72")


def test_lines_of_a_log_become_events_and_a_summary():
    found = events(BANNER + MEMORY)
    (budget,) = of(MemoryBudgetSet, found)
    assert budget.line == 2
    assert budget.kv_cache_bytes == pytest.approx(62.1 * 2**30)
    assert folded(found).summary.memory.kv_cache_bytes == budget.kv_cache_bytes


def test_several_runs_are_an_error():
    two = BANNER + MEMORY + BANNER.replace("0.26.0", "0.27.0")
    assert len(read(two)[0]) == 2
    with pytest.raises(AssertionError, match="2 runs"):
        events(two)


def test_the_rule_of_a_line_is_named():
    ((rule, made),) = matches(MEMORY)
    assert rule.makes is type(made[0])
    assert matches(log_line("something else")) == []


def test_what_is_recorded_comes_back():
    with recorded() as recording:
        recording.recorder.record(ServerReady(time=5.0))
        assert recording.events == []
    assert recording.events == [ServerReady(time=5.0)]
