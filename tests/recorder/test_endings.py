"""Fork, interpreter exit and kill: each in a process of its own."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.recorder.killing import kill_once
from tests.recorder.programs import run_program, start_program
from warmup_insights.drainer import open_store
from warmup_insights.model.events import Note, WarmupStep
from warmup_insights.storage import EventStore

KILLS = int(os.environ.get("WARMUP_INSIGHTS_KILLS", "6"))
"""How many times to kill; `python -m tests.recorder.killing 200` counts more."""


def events_of(path, run_id="run1"):
    """What is stored of a run, with what its recorders left beside the database."""
    with open_store(path) as store:
        return list(store.events(run_id))


def indexes(events, rank=None):
    steps = [event for event in events if isinstance(event, WarmupStep)]
    return [step.index for step in steps if step.rank == rank]


def test_the_end_of_the_program_stores_what_waits(tmp_path):
    """Without flush or close, also after an exception."""
    path = tmp_path / "a.db"
    result = run_program(
        """
        recorder = Recorder(Spool(path, RunRecord(run_id="run1")))
        for number in range(5000):
            recorder.record(step(number))
        raise ValueError("the program failed")
        """,
        path,
    )
    assert result.returncode == 1
    assert result.stderr.strip().endswith("ValueError: the program failed")
    assert indexes(events_of(path)) == list(range(5000))


@pytest.mark.long
def test_a_full_queue_at_the_end_neither_hangs_nor_loses(tmp_path):
    path = tmp_path / "a.db"
    result = run_program(
        """
        import atexit
        recorder = Recorder(Spool(path, RunRecord(run_id="run1")), flush_interval_s=60)
        recorder.record(step(0))
        recorder.flush()
        for number in range(1, 60_000):
            recorder.record(step(number))
        import warmup_insights.recorder as module
        started = []
        atexit.unregister(module._close_at_exit)
        atexit.register(lambda: print(time.monotonic() - started[0], recorder.dropped))
        atexit.register(module._close_at_exit)
        atexit.register(lambda: started.append(time.monotonic()))
        """,
        path,
    )
    assert result.returncode == 0
    seconds, dropped = result.stdout.split()
    assert float(seconds) < 2  # 0.8 s, and room for a busy machine
    assert int(dropped) == 0
    assert indexes(events_of(path)) == list(range(60_000))


def test_a_spool_that_hangs_does_not_keep_the_program(tmp_path):
    result = run_program(
        """
        spool = Spool(path, RunRecord(run_id="run1"))
        spool.append = lambda events: time.sleep(10_000)
        recorder = Recorder(spool)
        for number in range(100):
            recorder.record(step(number))
        time.sleep(0.3)
        for number in range(50):
            recorder.record(step(number))
        """,
        tmp_path / "a.db",
        timeout=600,
    )
    assert result.returncode == 0
    assert "The program ended before 50 events were written" in result.stderr


def test_a_locked_database_does_not_keep_the_program(tmp_path):
    path = tmp_path / "a.db"
    with EventStore(path) as store, store.begin():
        result = run_program(
            """
            from warmup_insights import drainer
            drainer.BUSY_S = drainer.LOCKED_S = 0.1
            with drainer.recording(path, RunRecord(run_id="run1")) as recorder:
                recorder.record(step(0))
            """,
            path,
            timeout=600,
        )
    assert result.returncode == 0
    assert "wait in a file" in result.stderr
    assert "Traceback" not in result.stderr
    assert indexes(events_of(path)) == [0]


def test_a_fork_loses_and_doubles_nothing(tmp_path):
    """Parent and child go on recording into one run, while batches are being written."""
    path = tmp_path / "a.db"
    result = run_program(
        """
        recorder = Recorder(Spool(path, RunRecord(run_id="run1")), flush_interval_s=0.001)
        for number in range(200):
            recorder.record(step(number, rank=0))
        children = []
        for child in range(1, 6):
            for number in range(300):
                recorder.record(step(200 + 300 * (child - 1) + number, rank=0))
            pid = os.fork()
            if pid == 0:
                for number in range(500):
                    recorder.record(step(number, rank=child))
                assert recorder.flush()
                sys.exit(0)       # with atexit, as a program that forks by itself
            children.append(pid)
        for pid in children:
            assert os.waitpid(pid, 0)[1] == 0
        recorder.close()
        print(recorder.dropped)
        """,
        path,
    )
    assert (result.returncode, result.stdout) == (0, "0\n"), result.stderr
    events = events_of(path)
    assert indexes(events, rank=0) == list(range(1700))
    for child in range(1, 6):
        assert indexes(events, rank=child) == list(range(500))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_of_multiprocessing_store_what_waits(method, tmp_path):
    """A forked worker ends without atexit."""
    path = tmp_path / "a.db"
    program = tmp_path / "program.py"
    program.write_text(
        """
import multiprocessing, sys
from warmup_insights.model.events import WarmupStep
from warmup_insights.recorder import Recorder
from warmup_insights.model.run import RunRecord
from warmup_insights.storage.spool import Spool

recorder = Recorder(Spool(sys.argv[1], RunRecord(run_id="run1")))

def work(rank):
    for number in range(100):
        recorder.record(WarmupStep(phase="prompt", index=number, rank=rank))

if __name__ == "__main__":
    recorder.record(WarmupStep(phase="prompt", index=0, rank=0))
    context = multiprocessing.get_context(sys.argv[2])
    workers = [context.Process(target=work, args=(rank,)) for rank in (1, 2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
"""
    )
    result = run_program(
        "import runpy; sys.argv = sys.argv[1:]; sys.path.insert(0, os.path.dirname(sys.argv[0]))\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')",
        program,
        path,
        method,
    )
    assert result.returncode == 0, result.stderr
    events = events_of(path)
    assert indexes(events, rank=0) == [0]
    for rank in (1, 2):
        assert indexes(events, rank=rank) == list(range(100))


def test_a_store_has_connections_of_its_own_in_a_child(tmp_path):
    """SQLite's must not be used, nor closed, on the other side of a fork."""
    result = run_program(
        """
        import gc
        from warmup_insights.storage import EventStore
        store = EventStore(path)
        assert store.runs() == []
        [inherited] = [c for c in os.listdir("/proc/self/fd")
                       if os.path.realpath(f"/proc/self/fd/{c}") == path]
        pool = store._engine.pool
        pid = os.fork()
        if pid == 0:
            assert store._engine.pool is not pool
            del pool
            gc.collect()
            assert os.readlink(f"/proc/self/fd/{inherited}") == path
            with store.begin() as transaction:
                transaction.ensure_run(RunRecord(run_id="child"))
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        with store.begin() as transaction:
            transaction.ensure_run(RunRecord(run_id="parent"))
        print(sorted(run.run_id for run in store.runs()))
        """,
        tmp_path / "a.db",
    )
    assert result.stdout == "['child', 'parent']\n", result.stderr


def test_a_closed_recorder_stays_closed_in_a_child(tmp_path):
    result = run_program(
        """
        recorder = Recorder(Spool(path, RunRecord(run_id="run1")))
        recorder.record(step(0))
        recorder.close()
        pid = os.fork()
        if pid == 0:
            recorder.record(step(1))
            os._exit(recorder.dropped)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
        tmp_path / "a.db",
    )
    assert result.stdout == "1\n", result.stderr
    assert indexes(events_of(tmp_path / "a.db")) == [0]


@pytest.mark.long
def test_kill_at_random_moments_keeps_what_was_acknowledged(tmp_path):
    """The database opens, flushed events are there, and the run shows as failed."""
    chance = random.Random(20261120)
    for number in range(KILLS):
        left = kill_once(tmp_path / f"{number}.db", chance.uniform(0, 1.8))
        assert left.is_gapless
        assert left.num_stored >= left.num_flushed
        assert left.missing_s < 0.8  # 0.25 s, and room for a busy machine
        assert left.status == ("failed" if left.num_stored else None)
        assert left.names_last_bucket


def test_a_living_recorder_is_not_interrupted(tmp_path):
    """Its process is there, even when it has been silent for a while."""
    path = tmp_path / "a.db"
    program = start_program(
        """
        recorder = Recorder(Spool(path, RunRecord(run_id="run1")))
        recorder.record(step(0))
        recorder.flush()
        print("ready", flush=True)
        time.sleep(60)
        """,
        path,
    )
    assert program.stdout.readline() == "ready\n"
    with open_store(path) as store:
        run = store.run("run1")
        assert run.status_at(time.time() + 30) == "running"
        assert run.status_at(time.time() + 90) == "failed"
        assert run.status_at(time.time() - 90) == "failed"
        program.kill()
        program.wait()
        program.stdout.close()
        assert run.status_at(time.time() + 1) == "running"
        assert run.status_at(time.time() + 30) == "failed"


def test_a_full_disk_reaches_nobody(tmp_path):
    """No file can grow: the beginning is kept, and what is lost is counted."""
    path = tmp_path / "a.db"
    result = run_program(
        """
        import resource
        recorder = Recorder(Spool(path, RunRecord(run_id="run1")))
        recorder.record(step(0))
        assert recorder.flush()
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        for batch in range(10):
            for number in range(1000):
                recorder.record(step(1 + 1000 * batch + number))
            recorder.flush()
        dropped = recorder.dropped
        recorder.close()
        print(dropped)
        """,
        path,
    )
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr
    lost = int(result.stdout)
    assert 0 < lost < 10_000
    assert "No folder has room for them" in result.stderr
    assert f"{lost} events are missing in the run in all" in result.stderr
    events = events_of(path)
    assert indexes(events) == list(range(10_001 - lost))
    notes = [event for event in events if isinstance(event, Note)]
    assert sum(note.count for note in notes) <= lost
