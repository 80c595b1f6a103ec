from __future__ import annotations

import pytest

from tests.storage.builders import add_run, make_steps

SUMMARY = {
    "schema": 1,
    "status": "finished",
    "time": {
        "started_at": "2026-11-20T08:00:00Z",
        "ready_at": 1795161660.5,
        "warmup_s": 49,
    },
    "memory": {"num_kv_blocks": 1519},
    "buckets": {
        "prompt": {"generated": 24, "captured": 15, "missed": 1},
        "decode": {"generated": 48, "captured": 48, "missed": None},
        "multimodal": {"generated": 4, "captured": None},
        "pooler": None,
    },
    "odd": ["\ud800\0", float("inf")],
}


def put(store, run_id, summary, rows=()):
    with store.begin() as transaction:
        transaction.put_summary(run_id, summary, list(rows))


def test_a_summary_comes_back(store):
    add_run(store)
    assert store.summary("run1") is None
    put(store, "run1", SUMMARY)
    put(store, "run1", SUMMARY)
    expected = {**SUMMARY, "odd": ["?\ufffd", None]}
    assert store.summary("run1") == expected
    add_run(store, "run2")
    put(store, "run2", {"schema": 1})
    assert store.summaries() == {"run1": expected, "run2": {"schema": 1}}
    assert store.summaries(["run2", "none"]) == {"run2": {"schema": 1}}


def test_the_run_table_shows_and_sorts_by_what_summaries_say(store):
    add_run(store, "bare", started_at=3.0)
    add_run(store, "full", started_at=2.0, model="llama")
    add_run(store, "other", started_at=1.0)
    put(store, "full", SUMMARY)
    put(store, "other", {"schema": 1, "time": {"warmup_s": 60.0}, "buckets": {}})
    rows = store.run_table()
    assert [row["run_id"] for row in rows] == ["bare", "full", "other"]
    full = rows[1]
    assert full["ready_s"] == pytest.approx(60.5)
    assert full["warmup_s"] == 49
    assert full["captured_percent"] == pytest.approx(100 * 63 / 72)
    assert (full["num_kv_blocks"], full["missed"]) == (1519, 1)
    assert full["model"] == "llama"
    assert {rows[0][name] for name in ("ready_s", "warmup_s", "missed")} == {None}
    assert (rows[2]["captured_percent"], rows[2]["missed"]) == (None, None)

    def order(**options):
        return [row["run_id"] for row in store.run_table(**options)]

    assert order(order="warmup_s") == ["other", "full", "bare"]
    assert order(order="warmup_s", descending=False) == ["full", "other", "bare"]
    assert order(order="run_id", limit=1, offset=1) == ["full"]
    assert order(model="llama") == ["full"]
    with pytest.raises(TypeError, match="no such order: colour"):
        store.run_table(order="colour")


def test_a_summary_is_stale_when_events_came_later(store):
    add_run(store)
    assert store.stale_runs() == ["run1"]
    put(store, "run1", SUMMARY)
    assert store.stale_runs() == []
    with store.begin() as transaction:
        transaction.append("run1", make_steps(1))
    assert store.stale_runs() == ["run1"]


def test_buckets_come_back_by_phase_and_size(store):
    add_run(store)
    put(store, "run1", {}, [{"phase": "prompt", "bucket": (9, 9)}])
    rows = [
        {"phase": "prompt", "bucket": (16, 128, 0), "generated": True, "captured": False},
        {"phase": "prompt", "bucket": [2, 128, 0], "missed": 3, "duration_s": 0.5,
         "memory_bytes": -7, "executed": (2, 128, 1), "state": "missed"},
        {"phase": "decode", "bucket": (1, 2, 3, 4)},
        {"phase": "decode", "bucket": (512,)},
    ]  # fmt: skip
    put(store, "run1", {}, rows)
    unknown = dict.fromkeys(
        ("generated", "warmed", "captured", "skipped", "missed",
         "duration_s", "memory_bytes", "executed", "state"),
    )  # fmt: skip
    assert store.bucket_summaries("run1") == [
        {**unknown, "phase": "decode", "bucket": [1, 2, 3, 4]},
        {**unknown, "phase": "decode", "bucket": [512]},
        {**unknown, "phase": "prompt", "bucket": [2, 128, 0], "missed": 3,
         "duration_s": 0.5, "memory_bytes": -7, "executed": [2, 128, 1], "state": "missed"},
        {**unknown, "phase": "prompt", "bucket": [16, 128, 0],
         "generated": 1, "captured": 0},
    ]  # fmt: skip
    assert store.bucket_summaries("none") == []
