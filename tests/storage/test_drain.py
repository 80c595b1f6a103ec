"""What recorders wrote goes into the database: all of it, once, and in order."""

from __future__ import annotations

import os
import threading
import time

import pytest

from tests.storage.builders import make_run, make_steps
from warmup_insights import drainer
from warmup_insights.drainer import drain, learned_columns, open_store
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import (
    ConfigRecorded,
    Failure,
    Note,
    RunFinished,
    RunStarted,
    ServerReady,
)
from warmup_insights.runs import delete_runs
from warmup_insights.storage import EventStore
from warmup_insights.storage.spool import Spool, find_spools


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def drained(database):
    with EventStore(database) as store:
        return drain(store, find_spools(database))


def events_of(database, run_id="run1"):
    with EventStore(database) as store:
        return list(store.events(run_id))


def test_events_are_stored_as_they_come(database):
    spool = Spool(database, make_run(label="mine"))
    spool.append(make_steps(3))
    assert drained(database).num_events == 3
    with EventStore(database) as store:
        run = store.run("run1")
    assert (run.status, run.label, run.source_kind) == ("running", "mine", "recorder")
    assert run.process.split("|")[1] == str(os.getpid())
    assert not run.is_interrupted(time.time())
    spool.append(make_steps(2))
    assert drained(database).num_events == 2
    assert drained(database).num_events == 0
    assert spool.path.exists()
    spool.close()
    assert drained(database).ended == {"run1"}
    assert not spool.path.exists()
    assert events_of(database) == make_steps(3) + make_steps(2)


def test_a_sign_of_life_is_stored(database):
    spool = Spool(database, make_run())
    spool.append(make_steps(1))
    drained(database)
    os.utime(spool.path, (5000.0, 5000.0))
    drained(database)
    with EventStore(database) as store:
        assert store.run("run1").heartbeat_at == 5000.0
    spool.append([])
    drained(database)
    with EventStore(database) as store:
        assert store.run("run1").heartbeat_at > 5000.0


def test_large_spools_take_several_transactions(database, monkeypatch):
    monkeypatch.setattr(drainer, "BATCH", 7)
    spool = Spool(database, make_run())
    spool.append(make_steps(28))
    spool.close()
    assert drained(database).num_events == 28
    assert events_of(database) == make_steps(28)


def test_processes_of_a_run_are_merged_by_time(database):
    """Also those that were all left behind: the last event is that of the end."""
    parent, child = (
        Spool(database, make_run(process=f"{name}|1|1", label=name))
        for name in ("a", "b")
    )
    note = lambda time: Note(topic="t", text="", time=time)  # noqa: E731
    parent.append([note(1.0), note(2.0), RunFinished(status="finished", time=9.0)])
    child.append([note(1.5), note(3.0)])
    parent.close()
    child.close()
    drained(database)
    assert [event.time for event in events_of(database)] == [1.0, 1.5, 2.0, 3.0, 9.0]
    with EventStore(database) as store:
        assert store.run("run1").status == "finished"


def test_what_many_drain_at_once_is_stored_once(database):
    spools = [Spool(database, make_run(process=f"p{n}|1|1")) for n in range(3)]
    EventStore(database).close()
    problems, is_over = [], threading.Event()

    def work():
        while not is_over.is_set():
            try:
                drained(database)
            except Exception as error:
                problems.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for number in range(20):
        for rank, spool in enumerate(spools):
            spool.append(make_steps(5, rank=rank, index=number))
    for spool in spools:
        spool.close()
    time.sleep(0.2)
    is_over.set()
    for thread in threads:
        thread.join()
    drained(database)
    assert problems == []
    for rank in range(3):
        own = [event.index for event in events_of(database) if event.rank == rank]
        assert own == [number for number in range(20) for _ in range(5)]


def test_a_cut_last_line_is_counted_in_the_run(database):
    spool = Spool(database, make_run(process="elsewhere|1|1"))
    spool.append(make_steps(3))
    spool.path.write_bytes(spool.path.read_bytes()[:-30])
    drained(database)
    assert events_of(database) == make_steps(3)[:2]  # the rest may still come
    os.utime(spool.path, (5000.0, 5000.0))
    drained(database)
    *steps, note = events_of(database)
    assert steps == make_steps(3)[:2]
    assert (note.topic, note.count) == ("events_dropped", 1)
    assert not spool.path.exists()


def test_a_database_that_was_removed_is_filled_again(tmp_path):
    path = tmp_path / "a.db"
    spool = Spool(path, make_run())
    spool.append(make_steps(3))
    drained(path)
    for file in tmp_path.glob("a.db*"):
        if file != spool.path:
            file.unlink()
    spool.append(make_steps(2))
    drained(path)
    assert events_of(path) == make_steps(3) + make_steps(2)


def test_a_deleted_run_comes_back_while_it_is_recorded(database):
    spool = Spool(database, make_run())
    spool.append(make_steps(3))
    drained(database)
    with EventStore(database) as store:
        delete_runs(store, ["run1"])
        assert store.spool_offsets("run1") == {}
    spool.append(make_steps(2))
    drained(database)
    assert events_of(database) == make_steps(3) + make_steps(2)


def test_events_tell_about_the_run():
    started = RunStarted(engine="vllm", device_kind="simulated", synthetic=True)
    config = ConfigRecorded(model="llama", engine=None, version="0.19")
    assert learned_columns([started, config]) == {
        "engine": "vllm", "device_kind": "simulated", "synthetic": True,
        "model": "llama", "version": "0.19",
    }  # fmt: skip
    for event, status in (
        (ServerReady(), "finished"),
        (Failure(failure="out_of_memory", message="no"), "failed"),
        (RunFinished(status="skipped"), "skipped"),
    ):
        assert learned_columns([event]) == {"status": status}


def test_an_end_that_leaves_the_start_open_hides_no_ready_server(database):
    """The program ends before the processes of its server and its engine."""
    program, server = (
        Spool(database, make_run(process=f"{name}|1|1")) for name in ("a", "b")
    )
    server.append([ServerReady(time=5.0)])
    drained(database)
    program.append([RunFinished(status="unknown", time=9.0)])
    drained(database)
    with EventStore(database) as store:
        assert store.run("run1").status == "finished"
    program.close()
    server.close()


def left_behind(database):
    """A whole run in a spool that nobody has drained."""
    spool = Spool(database, make_run(started_at=90.0))
    spool.append([
        RunStarted(engine="vllm", version="0.19", model="llama", time=100.0),
        *make_steps(3),
        RunFinished(status="finished", time=110.0),
    ])  # fmt: skip
    spool.close()
    return spool


def assert_is_whole(store):
    run = store.run("run1")
    assert (run.engine, run.version, run.model) == ("vllm", "0.19", "llama")
    assert run.status_at(time.time() + 1000) == "finished"
    assert run.started_at is not None
    assert store.summary("run1").status == "finished"
    assert store.stale_runs() == []


def test_a_command_that_reads_takes_what_was_left(database):
    """With engine, status and summary, as if it had been stored at once."""
    spool = left_behind(database)
    with open_store(database) as store:
        assert_is_whole(store)
    assert not spool.path.exists()


def test_ingest_takes_what_was_left_once_and_leaves_the_file(database):
    spool = left_behind(database)
    with EventStore(database) as store:
        for state in ("new", "unchanged"):
            answer = ingest_path(store, str(spool.path)).as_dict()
            assert answer["state"] == state
            assert (answer["runs"], answer["lines"], answer["events"]) == (
                ["run1"],
                6,
                5,
            )
            assert answer["dialects"] == ["recorder"]
            assert len(list(store.events("run1"))) == 5
        assert_is_whole(store)
    assert spool.path.exists()


@pytest.mark.postgres
def test_a_server_that_was_away_gets_everything(postgres_url, tmp_path):
    spool = Spool(postgres_url, make_run())
    spool.append(make_steps(2))
    assert spool.path.parent == tmp_path
    with EventStore(postgres_url) as store:
        drain(store, find_spools(postgres_url))
        with store._engine.connect() as connection:
            connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND datname = current_database()"
            )
        spool.append(make_steps(1))
        drain(store, find_spools(postgres_url))
    assert events_of(postgres_url) == make_steps(2) + make_steps(1)


@pytest.mark.parametrize("first", [0, 1])
def test_spools_that_are_read_one_by_one_are_in_the_order_of_time(tmp_path, first):
    """In a folder for temporary files too, where one went on that had no room."""
    started = RunStarted(engine="vllm", time=10.0)
    ready = ServerReady(time=90.0)
    ended = RunFinished(status="finished", time=99.0)
    paths = []
    for name, began, events in (
        ("m|1", 10.0, [started, ended]),
        ("m|2", 50.0, [ready]),
    ):
        run = make_run(process=name, started_at=began)
        spool = Spool(tmp_path / "full.db", run)
        spool.append(events)
        spool.close()
        paths.append(str(spool.path))
    with EventStore(tmp_path / "other.db") as store:
        outcomes = [ingest_path(store, paths[n]).state for n in (first, 1 - first)]
        assert list(store.events("run1")) == [started, ready, ended]
        assert store.run("run1").started_at == 10.0
    assert outcomes == ["new", "unchanged"]
