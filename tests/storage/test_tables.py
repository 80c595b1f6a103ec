from __future__ import annotations

import pytest

from warmup_insights.model.events import WarmupFinished, WarmupStep
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import FOLD, RunSummary, SourceName, Times
from warmup_insights.runs import delete_runs
from warmup_insights.storage import EventStore

A, B = "a" * 12, "b" * 12
SUMMARY = RunSummary(
    run_id=A, source=SourceName(kind="log"), model="m", fold=FOLD,
    time=Times(started_at="1970-01-01T00:00:02Z", warmup_s=3.5),
)  # fmt: skip


@pytest.fixture
def filled(tmp_path):
    with EventStore(tmp_path / "runs.db") as store:
        with store.begin() as transaction:
            transaction.ensure_run(RunRecord(run_id=A, started_at=2.0, model="m"))
            transaction.ensure_run(RunRecord(run_id=B, started_at=1.0))
            transaction.put_summary(SUMMARY, [])
        yield store


def test_run_table_lists_runs_without_a_summary_with_unknown_figures(filled):
    rows = filled.run_table()
    assert [(row["run_id"], row["warmup_s"]) for row in rows] == [(A, 3.5), (B, None)]


def test_run_table_takes_the_filters_of_runs(filled):
    assert [row["run_id"] for row in filled.run_table(model="m")] == [A]
    assert [row["run_id"] for row in filled.run_table(limit=1, offset=1)] == [B]
    assert filled.distinct("model") == ["m"]


def test_run_table_has_runs_without_a_time_last_on_every_page(filled):
    with filled.begin() as transaction:
        for name in ("c", "d"):
            transaction.ensure_run(RunRecord(run_id=name * 12, created_at=9.0))
    ids = [row["run_id"] for row in filled.run_table()]
    assert ids == [A, B, "d" * 12, "c" * 12]
    assert [filled.run_table(limit=1, offset=n)[0]["run_id"] for n in range(4)] == ids
    assert [row["run_id"] for row in filled.run_table(limit=3, offset=1)] == ids[1:]
    assert [row["run_id"] for row in filled.run_table(model="m", offset=1)] == []


def test_newest_change_differs_after_a_change(filled):
    before = filled.newest_change()
    filled.update_run(A, label="x")
    between = filled.newest_change()
    delete_runs(filled, [B])
    assert len({before, between, filled.newest_change()}) == 3


def test_event_table_has_columns_instead_of_json(filled):
    step = WarmupStep(phase="prompt", bucket=(1, 128, 0), duration_s=2.0)
    with filled.begin() as transaction:
        transaction.append(A, [step, WarmupFinished(duration_s=1.0)])
    (row,) = filled.event_table(A, ["warmup_step"])
    assert (row["seq"], row["query_len"], row["duration_s"]) == (0, 128, 2.0)
    assert "payload" not in row


def test_event_table_filters_by_columns(filled):
    steps = [
        WarmupStep(phase=phase, bucket=(1, length, 0))
        for phase in ("prompt", "decode")
        for length in (128, 256)
    ]
    with filled.begin() as transaction:
        transaction.append(A, steps)
    rows = filled.event_table(A, ["warmup_step"], phase="decode", query_len=256)
    assert [row["seq"] for row in rows] == [3]
