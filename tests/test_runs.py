"""Stored summaries stay true."""

from __future__ import annotations

import time

import pytest

from warmup_insights.model.events import (
    RunFinished,
    RunStarted,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.model.summary import (
    FOLD,
    Progress,
    RunSummary,
    SourceName,
    Times,
)
from warmup_insights.runs import (
    at_the_same_time,
    beside,
    current,
    refresh,
    refresh_stale,
)
from warmup_insights.storage import EventStore
from warmup_insights.units import isoformat


@pytest.fixture
def store(tmp_path):
    with EventStore(tmp_path / "a.db") as opened:
        yield opened


def add(store, *events, **run):
    with store.begin() as transaction:
        transaction.ensure_run(RunRecord(run_id="r1", **run))
        transaction.append("r1", events)


def test_summary_is_made_anew_when_events_came_after_it(store):
    add(store, RunStarted(engine="vllm"))
    refresh(store, "r1")
    add(store, WarmupFinished(duration_s=3.0))
    assert current(store, store.run("r1")).summary.time.warmup_s == 3.0


def test_refresh_fills_the_columns_that_lists_show(store):
    add(store, RunStarted(engine="vllm", time=5.0), WarmupFinished(duration_s=3.0))
    refresh(store, "r1")
    run = store.run("r1")
    assert (run.engine, run.status, run.started_at) == ("vllm", "finished", 5.0)


def test_a_recorder_without_a_heartbeat_shows_as_killed_in_its_last_bucket(store):
    step = WarmupStep(phase="prompt", bucket=(1, 128, 0), free_before_bytes=7)
    add(store, RunStarted(), step, status="running", heartbeat_at=time.time() - 3600)
    summary = current(store, store.run("r1")).summary
    assert summary.status == "failed"
    failure = summary.failure
    assert (failure.kind, failure.bucket) == ("killed", (1, 128, 0))
    assert failure.free_bytes == 7


def test_a_recorder_with_a_heartbeat_is_running(store):
    add(store, RunStarted(), status="running", heartbeat_at=time.time())
    assert current(store, store.run("r1")).summary.status == "running"


@pytest.mark.parametrize("status", ["running", "finished"])
def test_recorder_that_died_while_serving_leaves_the_start_up_as_it_was(store, status):
    """Its run is finished from the moment when the server is ready."""
    add(store, RunStarted(), ServerReady(time=1.0), status=status,
        heartbeat_at=time.time() - 3600)  # fmt: skip
    summary = current(store, store.run("r1")).summary
    assert (summary.status, summary.failure) == ("finished", None)
    assert summary.serving.end.kind == "killed"


@pytest.mark.parametrize("is_over", [True, False])
def test_a_server_is_not_killed_that_ended_or_goes_on(store, is_over):
    ended = [RunFinished(status="finished", time=2.0)] if is_over else []
    add(store, RunStarted(), ServerReady(time=1.0), *ended, status="finished",
        heartbeat_at=time.time() - 3600 * is_over)  # fmt: skip
    assert current(store, store.run("r1")).summary.serving.end is None


def test_stale_summaries_are_folded_anew_but_not_those_of_running_recorders(store):
    add(store, RunStarted(engine="vllm"), WarmupFinished(duration_s=3.0))
    assert refresh_stale(store) == 1
    assert store.run_table()[0]["warmup_s"] == 3.0
    add(store, RunStarted())
    with store.begin() as transaction:
        transaction.update_run("r1", status="running")
    assert refresh_stale(store) == 0


def test_a_run_of_unknown_length_is_beside_until_its_last_line():
    def run(begin: float, last: float, wall: float | None) -> RunSummary:
        name = SourceName(kind="log")
        return RunSummary(
            run_id=str(begin), source=name, fold=FOLD,
            time=Times(started_at=isoformat(begin), wall_s=wall),
            progress=Progress(last_at=last),
        )  # fmt: skip

    own = run(50.0, 90.0, 40.0)
    others = [run(10.0, 60.0, None), run(10.0, 40.0, None), run(10.0, 10.0, None)]
    assert at_the_same_time(own, others) == others[:1]


@pytest.mark.parametrize(
    ("started", "expected"), [(50.0, ["r2"]), (100.0, []), (500.0, [])]
)
def test_runs_of_one_log_whose_lines_are_of_the_same_time_are_beside(
    store, started, expected
):
    source = SourceRecord(source_id="s1", name="a.log", digest="d", head_digest="h")
    times = {"r1": 0.0, "r2": started, "other": 10.0}
    with store.begin() as transaction:
        transaction.add_source(source)
        for name, begin in times.items():
            source_id = None if name == "other" else "s1"
            transaction.ensure_run(RunRecord(run_id=name, source_id=source_id))
            transaction.append(
                name,
                [
                    RunStarted(engine="vllm", device_kind="cuda", time=begin),
                    ServerReady(time=begin + 100.0),
                ],
            )
    for name in times:
        refresh(store, name)
    assert [each.run_id for each in beside(store, store.run("r1"))] == expected
