"""The sink that writes a run into the store, whatever happens to the database."""

from __future__ import annotations

import logging
import os
import threading
import time

import pytest

from tests.storage.builders import add_run, make_run, make_steps
from warmup_insights.errors import StoreError
from warmup_insights.model.events import (
    ConfigRecorded,
    Failure,
    Note,
    RunFinished,
    RunStarted,
    ServerReady,
)
from warmup_insights.storage import EventStore, StoreSink
from warmup_insights.storage import sink as sink_module
from warmup_insights.storage.spill import restore_spill


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, logger="warmup_insights")
    return lambda: [record.getMessage() for record in caplog.records]


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(sink_module, "PATIENCE_S", 0.15)
    monkeypatch.setattr(sink_module, "RETRY_S", 0.0)
    monkeypatch.setattr(sink_module, "LOCKED_S", 0.0)


def events_of(location, run_id="run1"):
    with EventStore(location) as store:
        return list(store.events(run_id))


def test_batches_become_a_run(database):
    sink = StoreSink(database, make_run(label="mine"))
    sink(make_steps(3))
    with EventStore(database) as store:
        run = store.run("run1")
        assert (run.status, run.label, run.source_kind) == (
            "running",
            "mine",
            "recorder",
        )
        assert not run.is_interrupted(time.time())
        before = run.heartbeat_at
        sink.heartbeat()
        assert store.run("run1").heartbeat_at > before
        sink(make_steps(2))
        assert list(store.events("run1")) == make_steps(3) + make_steps(2)
    sink.close()
    assert sink.spill_path is None


def test_events_tell_about_the_run(database):
    sink = StoreSink(database, make_run())
    with EventStore(database) as store:
        sink([RunStarted(engine="vllm", device_kind="simulated", synthetic=True)])
        sink([ConfigRecorded(model="llama", engine=None, version="0.19")])
        run = store.run("run1")
        assert (run.engine, run.version, run.model) == ("vllm", "0.19", "llama")
        assert (run.device_kind, run.synthetic) == ("simulated", True)
        for event, status in (
            (ServerReady(), "finished"),
            (Failure(failure="out_of_memory", message="no"), "failed"),
            (RunFinished(status="skipped"), "skipped"),
        ):
            sink([event])
            assert store.run("run1").status == status
    sink.close()


def test_several_sinks_write_one_run(database):
    """The ranks of a server share a run id."""
    sinks = [StoreSink(database, make_run(label=f"rank {rank}")) for rank in range(3)]
    for number in range(4):
        for rank, sink in enumerate(sinks):
            sink(make_steps(2, rank=rank, index=number))
    for sink in sinks:
        sink.close()
    assert len(events_of(database)) == 24
    with EventStore(database) as store:
        assert store.run("run1").label == "rank 0"


def test_opening_early_tells_what_is_wrong(tmp_path):
    sink = StoreSink(tmp_path, make_run())
    with pytest.raises(StoreError, match="is a folder"):
        sink.open()
    good = StoreSink(tmp_path / "a.db", make_run())
    good.open()
    good.close()
    with EventStore(tmp_path / "a.db") as store:
        assert store.run("run1").status == "running"


def test_the_end_calls_back_with_the_open_store(database):
    seen = []
    sink = StoreSink(
        database,
        make_run(),
        on_close=lambda store, run_id: seen.append(store.run(run_id)),
    )
    sink(make_steps(1))
    sink.close()
    assert [run.num_events for run in seen] == [1]


def test_a_locked_database_loses_nothing(tmp_path, impatient, warnings):
    """Events wait in a file, and go in first when the lock is gone."""
    path = tmp_path / "a.db"
    sink = StoreSink(path, make_run())
    steps = make_steps(6)
    sink(steps[:1])
    with EventStore(path) as other, other.begin():
        sink(steps[1:3])
        sink(steps[3:4])
        assert sink.spill_path.parent == tmp_path
        assert events_of(path) == steps[:1]
    sink(steps[4:])
    assert sink.spill_path is None
    sink.close()
    assert events_of(path) == steps
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.db"]
    assert len(warnings()) == 2
    assert "stayed locked" in warnings()[0]


def test_a_lock_that_passes_is_not_worth_a_word(
    tmp_path, impatient, monkeypatch, warnings
):
    """Many programs write; that some batch has to wait is nobody's trouble."""
    monkeypatch.setattr(sink_module, "LOCKED_S", 30.0)
    path = tmp_path / "a.db"
    sink = StoreSink(path, make_run())
    steps = make_steps(6)
    sink(steps[:1])
    with EventStore(path) as other, other.begin():
        sink(steps[1:3])
        assert sink.spill_path is not None
    sink(steps[3:])
    sink.close()
    assert events_of(path) == steps
    assert warnings() == []
    later = time.monotonic() + 31
    sink = StoreSink(path, make_run("run2"))
    sink(steps[:1])
    with EventStore(path) as other, other.begin():
        sink(steps[1:2])
        monkeypatch.setattr(time, "monotonic", lambda: later)
        sink._is_hurried = True
        sink._has_stored(steps[2:3])
    assert len(warnings()) == 1
    assert "stayed locked" in warnings()[0]
    sink.close()


def test_the_end_waits_longer_for_others(tmp_path, impatient, monkeypatch, warnings):
    """No file is left for the user because many programs end at the same moment."""
    monkeypatch.setattr(sink_module, "LOCKED_S", 30.0)
    path = tmp_path / "a.db"
    sink = StoreSink(path, make_run())
    sink.open()
    with EventStore(path) as other:
        with other.begin():
            sink(make_steps(2))
            closing = threading.Thread(target=sink.close)
            closing.start()
            closing.join(1.0)  # longer than the patience of a batch
            assert closing.is_alive()
        closing.join(20)
    assert warnings() == []
    assert sink.spill_path is None
    assert events_of(path) == make_steps(2)


def test_a_sign_of_life_empties_the_file(tmp_path, impatient):
    path = tmp_path / "a.db"
    sink = StoreSink(path, make_run())
    sink.open()
    with EventStore(path) as other, other.begin():
        sink(make_steps(2))
    sink.heartbeat()
    assert sink.spill_path is None
    assert events_of(path) == make_steps(2)
    sink.close()


def test_hurry_ends_the_waiting(tmp_path):
    path = tmp_path / "a.db"
    sink = StoreSink(path, make_run())
    sink.open()
    with EventStore(path) as other, other.begin():
        sink.hurry()
        start = time.monotonic()
        sink(make_steps(2))
        sink.close()
        assert time.monotonic() - start < 1.5
    with EventStore(path) as store:
        assert restore_spill(store, sink.spill_path) == 2
    assert events_of(path) == make_steps(2)


def test_a_database_that_stays_away_leaves_a_file_to_ingest(
    tmp_path, impatient, warnings
):
    sink = StoreSink(tmp_path, make_run())
    sink(make_steps(2))
    sink(make_steps(1))
    sink.close()
    spill = sink.spill_path
    assert spill.parent == tmp_path.parent
    assert any(f"`warmup-insights ingest {spill}`" in text for text in warnings())
    with EventStore(tmp_path / "a.db") as store:
        assert restore_spill(store, spill) == 3
        assert restore_spill(store, spill) == 0
        assert list(store.events("run1")) == make_steps(2) + make_steps(1)
        assert store.run("run1").process == sink._run.process


def test_a_broken_database_is_left_alone_for_a_while(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr(
        sink_module,
        "EventStore",
        lambda *a, **k: opened.append(a) or EventStore(*a, **k),
    )
    sink = StoreSink(tmp_path, make_run())
    for _ in range(5):
        sink(make_steps(1))
    assert len(opened) == 1
    later = time.monotonic() + 100
    monkeypatch.setattr(time, "monotonic", lambda: later)
    sink(make_steps(1))
    assert len(opened) == 2
    assert sink._spill.num_events == 6
    sink.spill_path.unlink()


@pytest.mark.parametrize("names", ["a.db", "a.db*"], ids=["file only", "all files"])
def test_a_database_removed_while_running_is_made_again(names, tmp_path, warnings):
    path = tmp_path / "a.db"
    sink = StoreSink(path, make_run())
    sink(make_steps(3))
    for file in tmp_path.glob(names):
        file.unlink()
    sink(make_steps(2))
    sink.close()
    note, *steps = events_of(path)
    assert isinstance(note, Note)
    assert (note.topic, note.count) == ("run_removed", 3)
    assert steps == make_steps(2)
    assert any("3 events of this run were removed" in text for text in warnings())


def test_a_database_replaced_while_running_gets_the_rest(tmp_path):
    """The log of the lost database is not applied to the new one."""
    path = tmp_path / "a.db"
    sink = StoreSink(path, make_run())
    sink(make_steps(3))
    with EventStore(tmp_path / "other.db") as other:
        add_run(other, "run2")
    path.unlink()
    os.rename(tmp_path / "other.db", path)
    sink(make_steps(2))
    sink.close()
    assert [type(event).__name__ for event in events_of(path)] == [
        "Note",
        "WarmupStep",
        "WarmupStep",
    ]
    with EventStore(path) as store:
        assert {run.run_id for run in store.runs()} == {"run1", "run2"}


def test_two_recorders_survive_the_removal_of_their_database(tmp_path):
    path = tmp_path / "a.db"
    sinks = [StoreSink(path, make_run()), StoreSink(path, make_run("run2"))]
    for sink in sinks:
        sink(make_steps(3))
    path.unlink()
    for _ in range(2):
        for sink in sinks:
            sink(make_steps(2))
    for sink in sinks:
        sink.close()
    for run_id in ("run1", "run2"):
        assert events_of(path, run_id)[1:] == make_steps(2) * 2


def test_a_deleted_run_comes_back(database):
    """Somebody deletes the run that is being recorded: the rest is not lost."""
    sink = StoreSink(database, make_run())
    sink(make_steps(3))
    with EventStore(database) as store:
        store.delete_run("run1")
    sink(make_steps(2))
    sink(make_steps(1))
    sink.close()
    note, *steps = events_of(database)
    assert (note.topic, note.count) == ("run_removed", 3)
    assert steps == make_steps(2) + make_steps(1)


def test_the_program_may_change_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sink = StoreSink("a.db", make_run())
    sink(make_steps(1))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    sink(make_steps(1))
    sink.close()
    assert len(events_of(tmp_path / "a.db")) == 2


def test_no_disk_takes_anything(tmp_path, monkeypatch, impatient):
    """Only now the recorder is told, which counts and says it."""
    sink = StoreSink(tmp_path / "missing" / "a.db", make_run())
    monkeypatch.setattr(sink._spill, "_folders", [tmp_path / "missing"])
    with pytest.raises(StoreError, match="No folder takes the recorded events"):
        sink(make_steps(1))


@pytest.mark.postgres
def test_a_server_that_drops_its_connections_is_found_again(postgres_url):
    sink = StoreSink(postgres_url, make_run())
    sink(make_steps(2))
    with EventStore(postgres_url) as other, other._engine.connect() as connection:
        connection.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    sink(make_steps(1))
    sink.close()
    assert sink.spill_path is None
    assert events_of(postgres_url) == make_steps(2) + make_steps(1)


@pytest.mark.postgres
def test_a_server_that_is_away_leaves_a_file(postgres_url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sink = StoreSink(postgres_url.replace("?host=", "?host=/nowhere"), make_run())
    sink(make_steps(2))
    sink.close()
    assert sink.spill_path.parent == tmp_path
    with EventStore(postgres_url) as store:
        assert restore_spill(store, sink.spill_path) == 2
