from __future__ import annotations

import dataclasses
import threading
from pathlib import Path

import pytest

from tests.storage.builders import add_run, make_run, make_source, make_steps
from warmup_insights.errors import StoreError
from warmup_insights.model.events import (
    BucketMiss,
    GraphCaptured,
    LazyCapture,
    MemoryMeasured,
    Note,
    ServerReady,
    WarmupStep,
)
from warmup_insights.model.summary import FOLD, BucketRow, RunSummary, SourceName
from warmup_insights.runs import delete_runs
from warmup_insights.storage import store as store_module
from warmup_insights.storage.rows import EVENT_COLUMNS
from warmup_insights.storage.schema import events

EVENTS = [
    MemoryMeasured(time=1.5, stage="weights", delta_bytes=14 * 2**30, line=3),
    *make_steps(3, rank=1, time=2.0),
    GraphCaptured(phase="decode", bucket=(512,), mode="FULL", memory_bytes=-5),
    BucketMiss(phase="prompt", shape=(1, 77)),
    LazyCapture(num_tokens=8),
    Note(topic="odd", text="nul \0, half \ud800 pair", values={"deep": [1, None]}),
    ServerReady(),
]


def test_events_come_back_as_they_were(store):
    add_run(store, events=EVENTS)
    expected = list(EVENTS)
    expected[7] = Note(
        topic="odd", text="nul \ufffd, half ? pair", values={"deep": [1, None]}
    )
    assert list(store.events("run1")) == expected


def test_order_and_numbers_continue_over_transactions(store):
    steps = make_steps(25)
    add_run(store, events=steps[:10])
    for part in (steps[10:11], steps[11:]):
        with store.begin() as transaction:
            assert transaction.append("run1", part) in (10, 11)
    assert list(store.events("run1")) == steps
    assert list(store.events("run1", after_seq=20)) == steps[21:]
    assert store.run("run1").num_events == 25


def test_kinds_select_events(store):
    add_run(store, events=EVENTS)
    found = list(store.events("run1", kinds=["warmup_step", "server_ready"]))
    assert [type(event) for event in found] == [WarmupStep] * 3 + [ServerReady]
    assert list(store.events("run1", kinds=[])) == []


def test_reading_goes_block_by_block(store, monkeypatch):
    monkeypatch.setattr(store_module, "READ_BLOCK", 4)
    steps = make_steps(13)
    add_run(store, events=steps)
    assert list(store.events("run1")) == steps
    reader = iter(store.events("run1"))
    next(reader)
    add_run(store, "run2")  # a writer is not kept out by a reader in the middle
    assert len(list(reader)) == 12


def test_unknown_kinds_are_skipped_and_counted(store):
    """A newer version may have written kinds that this one does not know."""
    add_run(store, events=make_steps(2))
    with store.begin() as transaction:
        transaction._insert(
            events,
            EVENT_COLUMNS,
            [
                (
                    "run1",
                    2,
                    "from_the_future",
                    *[None] * 10,
                    '{"kind":"from_the_future"}',
                ),
                ("run1", 3, "warmup_step", *[None] * 10, '{"kind":"warmup_step"}'),
                ("run1", 4, "warmup_step", *[None] * 10, "{"),
            ],
        )
    reader = store.events("run1")
    assert len(list(reader)) == 2
    assert reader.skipped == {"from_the_future": 1, "warmup_step": 2}


def test_an_exception_undoes_everything(store):
    def write_and_fail():
        with store.begin() as transaction:
            transaction.ensure_run(make_run())
            transaction.append("run1", make_steps(5))
            raise KeyError("oops")

    with pytest.raises(KeyError):
        write_and_fail()
    assert store.runs() == []


def test_unfit_values_lose_nothing_else(store):
    """An event that a driver refuses does not take its batch with it."""

    class Number:
        def __index__(self):
            return 64

    class Fraction:
        def __float__(self):
            return 0.5

    odd = [
        WarmupStep(phase="prompt", bucket=(Number(), 1, 2)),  # as from numpy or torch
        WarmupStep(phase="prompt", duration_s=Fraction()),
        WarmupStep(phase=Path("a/b")),
        WarmupStep(phase="a\0b\ud800", bucket=(2**70, 1, 2), memory_bytes=-(2**80)),
        WarmupStep(phase=3, bucket="nonsense"),
        WarmupStep(phase="prompt", duration_s=float("nan")),
    ]
    steps = make_steps(2)
    add_run(store, events=[steps[0], *odd, steps[1]])
    reader = store.events("run1")
    assert list(reader) == [
        steps[0],
        WarmupStep(phase="prompt", bucket=(64, 1, 2)),
        WarmupStep(phase="prompt", duration_s=0.5),
        WarmupStep(phase="a/b"),
        WarmupStep(phase="a\ufffdb?", bucket=(2**70, 1, 2), memory_bytes=-(2**80)),
        WarmupStep(phase="prompt"),
        steps[1],
    ]
    assert reader.skipped == {"warmup_step": 1}


def test_runs_come_newest_first_and_filtered(store):
    add_run(store, "old", started_at=100.0, model="llama-8b", status="finished")
    add_run(store, "new", started_at=300.0, engine="vllm", label="baseline")
    add_run(store, "mid", started_at=None, created_at=200.0, device_kind="hpu")
    ids = lambda **filters: [run.run_id for run in store.runs(**filters)]  # noqa: E731
    assert ids() == ["new", "mid", "old"]
    assert ids(limit=1, offset=1) == ["mid"]
    assert ids(status="finished") == ids(model="llama-8b") == ["old"]
    assert ids(engine="vllm", device_kind=None) == ["new"]
    assert ids(since=150.0, until=250.0) == ["mid"]
    assert ids(text="LLAMA") == ["old"]
    assert ids(text="%") == []
    assert store.count_runs() == 3
    assert store.count_runs(status="unknown") == 2
    with pytest.raises(TypeError, match="no such filter: colour"):
        store.runs(colour="red")


def test_find_run_knows_ids_labels_prefixes_and_latest(store):
    add_run(store, "abcd12", started_at=1.0)
    add_run(store, "abcd45", started_at=2.0, label="baseline")
    add_run(store, "b", started_at=0.0, label="twice")
    add_run(store, "c", started_at=0.0, label="twice")
    assert store.find_run("latest").run_id == "abcd45"
    assert store.find_run("abcd1").run_id == store.find_run("ABCD1").run_id == "abcd12"
    assert store.find_run("baseline").run_id == "abcd45"
    assert store.find_run("b").run_id == "b"
    for text in ("abcd", "twice"):
        with pytest.raises(StoreError, match=f"'{text}' means several runs: .*, .*;"):
            store.find_run(text)
    for text in ("zzzz", "%", "abcd_", "", "ab", "abc"):
        with pytest.raises(StoreError, match="There is no run"):
            store.find_run(text)


def test_a_run_without_a_time_is_the_latest_only_where_none_has_one(store):
    """Such a file may be of any year, and may hold no start-up at all."""
    add_run(store, "undated", started_at=None, created_at=9e9)
    assert store.find_run("latest").run_id == "undated"
    add_run(store, "dated", started_at=100.0)
    assert store.find_run("latest").run_id == "dated"


def test_find_run_knows_the_names_of_logs_that_lists_show(store):
    add_run(store, "abc123", source_name="a.log")
    add_run(store, "abd456", source_name="b.log")
    add_run(store, "abe789", source_name="b.log")
    assert store.find_run("a.log").run_id == "abc123"
    with pytest.raises(StoreError, match=r"'b\.log' means several runs: "):
        store.find_run("b.log")


def test_find_run_in_an_empty_store_says_what_to_do(store):
    with pytest.raises(StoreError, match="no runs yet; add one with"):
        store.find_run("latest")


def test_runs_keep_every_column(store):
    run = make_run(
        label="l", notes="n\0", engine="e", version="v", model="m", device_kind="hpu",
        device_name="d", status="running", started_at=1.25, created_at=2.0,
        heartbeat_at=3.0, synthetic=True, ordinal=4, source_name="s", process="p",
    )  # fmt: skip
    with store.begin() as transaction:
        transaction.ensure_run(run)
    stored = store.run("run1")
    assert stored.updated_at is not None
    assert dataclasses.replace(stored, updated_at=None) == dataclasses.replace(
        run, notes="n\ufffd"
    )


def test_a_run_is_added_once(store):
    add_run(store, label="first")
    with store.begin() as transaction:
        assert not transaction.ensure_run(make_run(label="third"))
        assert transaction.ensure_run(make_run("run2"))
    assert store.run("run1").label == "first"


def test_columns_of_a_run_change(store):
    add_run(store)
    store.update_run("run1", label="named")
    store.update_run("run1", notes="seen")
    with store.begin() as transaction:
        transaction.update_run("run1", status="failed", heartbeat_at=9.0)
        with pytest.raises(TypeError, match="no such column: colour"):
            transaction.update_run("run1", colour="red")
    run = store.run("run1")
    assert (run.label, run.notes, run.status) == ("named", "seen", "failed")
    store.update_run("run1", label=None)
    assert store.run("run1").label is None


def summary(run_id):
    return RunSummary(run_id=run_id, source=SourceName(kind="recorder"), fold=FOLD)


@pytest.mark.parametrize(
    "write",
    [
        lambda t: t.append("none", make_steps(1)),
        lambda t: t.update_run("none", label="x"),
        lambda t: t.put_summary(summary("none"), []),
        lambda t: t.delete_run("none"),
    ],
    ids=["append", "update_run", "put_summary", "delete_run"],
)
def test_writing_to_nothing_is_an_error(store, write):
    with (
        pytest.raises(StoreError, match="There is no run"),
        store.begin() as t,
    ):
        write(t)


def test_deleting_a_run_takes_everything_with_it(store):
    add_run(store, "kept", make_steps(2))
    add_run(store, events=make_steps(3))
    with store.begin() as transaction:
        row = BucketRow(phase="p", bucket=(1,))
        transaction.put_summary(summary("run1"), [row])
    delete_runs(store, ["run1"])
    assert [run.run_id for run in store.runs()] == ["kept"]
    assert list(store.events("run1")) == []
    assert store.summary("run1") is None
    assert store.bucket_summaries("run1") == []
    assert len(list(store.events("kept"))) == 2


@pytest.mark.parametrize("count", [1, 2, 70, 71, 299, 300, 301, 1234])
@pytest.mark.parametrize("odd_at", [None, 0, -1])
def test_blocks_of_every_size_keep_their_order(store, count, odd_at):
    """Rows go many to a statement; one that is refused takes no other with it."""
    steps = make_steps(count)
    if odd_at is not None:
        steps[odd_at] = WarmupStep(phase="prompt", memory_bytes=2**80)
    add_run(store, events=steps)
    assert list(store.events("run1")) == steps


def test_the_last_run_of_a_source_takes_the_source_with_it(store):
    """Otherwise the same log could never be read again."""
    with store.begin() as transaction:
        transaction.add_source(make_source())
        transaction.add_source_lines("source1", [(1, "rule", "text")])
        transaction.ensure_run(make_run("a", source_id="source1"))
        transaction.ensure_run(make_run("b", source_id="source1"))
    delete_runs(store, ["a"])
    assert store.source("source1").name == "server.log"
    delete_runs(store, ["b"])
    assert store.sources() == []
    assert store.source_lines("source1") == []


def test_sources_and_their_lines(store):
    report = {"unknown": [[7, "\ud800"]], "rules": {"a": 1}}
    source = make_source(
        name="a\0b.log", dialects=("vllm", "bench"), report=report, size_bytes=10,
        lines=3, timezone="UTC", ingested_at=5.0,
    )  # fmt: skip
    with store.begin() as transaction:
        transaction.add_source(source)
        transaction.add_source(make_source("longer", size_bytes=20))
        lines = [(2, None, "odd \0"), (1, "rule", "first"), (2, "rule", "again")]
        transaction.add_source_lines("source1", lines)
        assert transaction.source_with_digest(source.digest) is not None
    stored = store.source("source1")
    assert stored == dataclasses.replace(
        source, name="a\ufffdb.log", report={"unknown": [[7, "?"]], "rules": {"a": 1}}
    )
    assert store.source_lines("source1") == [
        (1, "rule", "first"),
        (2, None, "odd \ufffd"),
    ]
    assert [s.source_id for s in store.sources()] == ["longer", "source1"]
    assert [found[2] for found in store.beginnings("head")] == ["longer", "source1"]
    assert store.source_with_digest("other") is None
    with pytest.raises(StoreError, match="There is no source 'none'"):
        store.source("none")


def test_the_same_bytes_are_one_source(store):
    with store.begin() as transaction:
        transaction.add_source(make_source())
    twin = make_source("twin", name="copy.log", digest=make_source().digest)
    with (
        pytest.raises(StoreError, match=r"copy\.log is stored already"),
        store.begin() as t,
    ):
        t.add_source(twin)


def test_threads_share_a_store(store):
    """Several threads append to one run at once; every event is there, once."""
    add_run(store)

    def append(rank):
        for step in make_steps(20, rank=rank):
            with store.begin() as transaction:
                transaction.append("run1", [step])

    threads = [threading.Thread(target=append, args=(rank,)) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = list(store.events("run1"))
    for rank in range(4):
        own = [event for event in found if event.rank == rank]
        assert own == make_steps(20, rank=rank)


def test_a_transaction_that_reads_first_may_write_later(store):
    """It holds its place from the start: another writer waits, and both succeed."""
    is_reading = threading.Event()

    def write_meanwhile():
        is_reading.wait(10)
        add_run(store, "meanwhile")

    thread = threading.Thread(target=write_meanwhile)
    thread.start()
    with store.begin() as transaction:
        assert transaction.source_with_digest("any") is None
        is_reading.set()
        thread.join(0.3)
        transaction.ensure_run(make_run())
    thread.join()
    assert {run.run_id for run in store.runs()} == {"meanwhile", "run1"}
