"""The startup probe lets the longest start pass."""

from __future__ import annotations

import pytest

from tests.analysis.builders import changed, start_up, started, summary_of
from warmup_insights.analysis.advice.rules_settings import probe_of


def runs(*seconds):
    return [
        changed(summary_of(start_up(seconds=s), f"run{n}"), device={"kind": "cuda"})
        for n, s in enumerate(seconds)
    ]


def test_the_longest_start_and_half_of_it_are_allowed():
    """From the first line to ready is 21 s more than the warm-up in these runs."""
    probe = probe_of(runs(79.0, 679.0, 179.0))
    assert (probe.num_runs, probe.median_s, probe.longest_s) == (3, 200.0, 700.0)
    assert (probe.period_s, probe.failure_threshold, probe.allowed_s) == (10, 105, 1050)
    assert "failureThreshold: 105" in probe.yaml()


def test_runs_that_never_became_ready_do_not_count():
    assert probe_of([summary_of([started()])]) is None
    assert probe_of([]) is None


@pytest.mark.parametrize("seconds", [0.5, 3.0, 6.6])
@pytest.mark.parametrize(("is_gaudi", "least"), [(False, 600), (True, 1800)])
def test_a_first_start_gets_patience(seconds, is_gaudi, least):
    times = {
        "ready_at": "1970-01-12T13:46:40Z",
        "started_at": f"1970-01-12T13:46:{40 - seconds:09.6f}Z",
    }
    device = {"kind": "hpu" if is_gaudi else "cuda"}
    summary = changed(runs(10.0)[0], time=times, device=device)
    probe = probe_of([summary])
    assert probe.longest_s == pytest.approx(seconds)
    assert (probe.period_s, probe.allowed_s) == (10, least)
    assert f"times 1.5 and {least} s at least" in probe.yaml()


def test_the_port_is_that_of_the_server():
    summary = runs(10.0)[0]
    assert "port: 8000" in probe_of([summary]).yaml()
    served = changed(summary, config={**summary.config, "port": 8101})
    assert "port: 8101" in probe_of([summary, served]).yaml()
