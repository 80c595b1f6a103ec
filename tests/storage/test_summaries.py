"""Summaries and rows of buckets come back as they were, and lists show their figures."""

from __future__ import annotations

import msgspec
import pytest

from tests.storage.builders import add_run, make_steps
from warmup_insights.model.summary import (
    FOLD,
    BucketRow,
    MemoryFacts,
    Miss,
    NoteFacts,
    PhaseBuckets,
    RunSummary,
    SourceName,
    StepCost,
    Times,
)

LOG = SourceName(kind="log")
SUMMARY = RunSummary(
    run_id="run1",
    source=LOG,
    fold=FOLD,
    status="finished",
    model="llama",
    time=Times(
        started_at="2026-11-20T08:00:00Z",
        ready_at="2026-11-20T08:01:00.5Z",
        warmup_s=49.0,
    ),
    memory=MemoryFacts(num_kv_blocks=1519),
    buckets={
        "prompt": PhaseBuckets(
            generated=24, captured=15, buckets=[(1, 2), (3, 4)], missed=1
        ),
        "decode": PhaseBuckets(generated=48, captured=48),
    },
    misses=[Miss(phase="prompt", shape=(1, 7, 0))],
    notes=[NoteFacts(topic="odd", text="\ud800\0")],
)


def named(run_id, **fields):
    return msgspec.structs.replace(SUMMARY, run_id=run_id, **fields)


def put(store, summary, rows=()):
    with store.begin() as transaction:
        transaction.put_summary(summary, list(rows))


def test_a_summary_comes_back(store):
    add_run(store)
    assert store.summary("run1") is None
    put(store, SUMMARY)
    put(store, SUMMARY)
    expected = named("run1", notes=[NoteFacts(topic="odd", text="?\ufffd")])
    assert store.summary("run1") == expected
    add_run(store, "run2")
    other = RunSummary(run_id="run2", source=LOG, fold=FOLD)
    put(store, other)
    assert store.summaries() == {"run1": expected, "run2": other}
    assert store.summaries(["run2", "none"]) == {"run2": other}


def test_a_summary_without_lists_keeps_everything_else(store):
    add_run(store)
    put(store, named("run1", notes=[]))
    light = store.summaries(["run1"], with_lists=False)["run1"]
    prompt = light.phase("prompt")
    assert (prompt.generated, prompt.captured, prompt.buckets) == (24, 15, [])
    assert light.time == SUMMARY.time
    assert isinstance(light, RunSummary)


def test_the_run_table_shows_and_sorts_by_figures_of_summaries(store):
    add_run(store, "bare", started_at=3.0)
    add_run(store, "full", started_at=2.0)
    add_run(store, "other", started_at=1.0)
    put(store, named("full"))
    put(
        store,
        RunSummary(run_id="other", source=LOG, fold=FOLD, time=Times(warmup_s=60.0)),
    )
    rows = {row["run_id"]: row for row in store.run_table()}
    full, other, bare = rows["full"], rows["other"], rows["bare"]
    assert full["ready_s"] == pytest.approx(60.5)
    assert full["warmup_s"] == 49
    assert full["captured_percent"] == pytest.approx(100 * 63 / 72)
    assert (full["num_kv_blocks"], full["missed"]) == (1519, 1)
    assert full["model"] == "llama"
    assert {bare[name] for name in ("ready_s", "warmup_s", "missed")} == {None}
    assert (other["captured_percent"], other["missed"]) == (None, None)

    def order(**options):
        return [row["run_id"] for row in store.run_table(**options)]

    assert order(order="warmup_s") == ["other", "full", "bare"]
    assert order(order="warmup_s", descending=False) == ["full", "other", "bare"]
    assert order(order="run_id", limit=1, offset=1) == ["full"]
    assert order(model="llama") == ["full"]
    with pytest.raises(TypeError, match="no such order: colour"):
        store.run_table(order="colour")


def test_a_summary_is_stale_when_events_came_later_or_another_fold_made_it(store):
    add_run(store)
    assert store.stale_runs() == ["run1"]
    put(store, SUMMARY)
    assert store.stale_runs() == []
    put(store, named("run1", fold=FOLD - 1))
    assert store.stale_runs() == ["run1"]
    assert store.summary("run1") is None
    put(store, SUMMARY)
    with store.begin() as transaction:
        transaction.append("run1", make_steps(1))
    assert store.stale_runs() == ["run1"]


def test_buckets_come_back_by_phase_and_size(store):
    add_run(store)
    put(store, SUMMARY, [BucketRow(phase="prompt", bucket=(9, 9))])
    rows = [
        BucketRow(phase="decode", bucket=(1, 2, 3, 4)),
        BucketRow(phase="decode", bucket=(512,)),
        BucketRow(
            phase="prompt", bucket=(2, 128, 0), missed=3, duration_s=0.5,
            memory_bytes=-7, executed=(2, 128, 1), state="missed", gc_s=0.1, compiled=2,
            capture=StepCost(position=4, index=1, duration_s=0.5),
        ),
        BucketRow(phase="prompt", bucket=(16, 128, 0), generated=True),
    ]  # fmt: skip
    put(store, SUMMARY, reversed(rows))
    assert store.bucket_summaries("run1") == rows
    assert store.bucket_summaries("none") == []
