"""The writer process: nothing is lost, and the engine's process is left alone."""

from __future__ import annotations

import gc
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from tests.vllm_plugin.running import environment, run_standin
from warmup_insights.model.events import Note, PhaseMarked, encode
from warmup_insights.model.run import RunRecord
from warmup_insights.storage.store import EventStore
from warmup_insights.vllm_plugin import writer
from warmup_insights.vllm_plugin.pipe import PipeSink


def stored(database, run_id="r"):
    with EventStore(database, read_only=True) as store:
        return list(store.events(run_id))


def wait_for(condition, seconds=20.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_what_is_given_is_stored_in_order(tmp_path):
    database = tmp_path / "runs.db"
    sink = PipeSink(str(database), RunRecord(run_id="r", label="a"))
    for number in range(5):
        sink([Note(topic="t", text=str(number), time=float(number))] * 3)
    sink.close()
    wait_for(lambda: database.exists() and len(stored(database)) == 15)
    assert [event.text for event in stored(database)] == [
        str(number) for number in range(5) for _ in range(3)
    ]
    with EventStore(database, read_only=True) as store:
        run = store.run("r")
    assert (run.label, run.status) == ("a", "running")
    assert run.process.split("|")[1] == str(os.getpid())


def test_the_writer_is_no_descendant(tmp_path):
    """vLLM kills every descendant of a process that fails."""
    sink = PipeSink(str(tmp_path / "runs.db"), RunRecord(run_id="r"))
    sink([Note(topic="t", text="x")])
    children = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert "vllm_plugin.writer" not in children
    sink.close()


def test_events_of_a_killed_process_are_stored(tmp_path):
    database = tmp_path / "runs.db"
    program = (
        "import os, signal, sys, time\n"
        "from warmup_insights.model.events import Note\n"
        "from warmup_insights.model.run import RunRecord\n"
        "from warmup_insights.vllm_plugin.pipe import PipeSink\n"
        f"sink = PipeSink({str(database)!r}, RunRecord(run_id='r'))\n"
        "sink([Note(topic='t', text=str(n)) for n in range(500)])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment("v0_26"), check=False
    )
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: database.exists() and len(stored(database)) == 500)


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_forked_child_leaves_the_writer_to_its_parent(tmp_path):
    database = tmp_path / "runs.db"
    sink = PipeSink(str(database), RunRecord(run_id="r"))
    sink([Note(topic="t", text="parent")])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if sink._socket is None else 1
            sink.close()
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    sink([Note(topic="t", text="parent again")])
    sink.close()
    wait_for(lambda: database.exists() and len(stored(database)) == 2)


def test_a_dead_writer_is_replaced_by_a_file_without_a_signal(tmp_path):
    """A program may have set SIGPIPE back to what it kills by."""
    sink = PipeSink(str(tmp_path / "runs.db"), RunRecord(run_id="r"))
    sink([Note(topic="t", text="first")])
    ours, theirs = socket.socketpair()
    theirs.close()
    sink._socket.close()
    sink._socket = ours
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        sink([Note(topic="t", text="second")])
        sink([Note(topic="t", text="third")])
    finally:
        signal.signal(signal.SIGPIPE, before)
    (kept,) = tmp_path.glob("*.events.jsonl")
    texts = [json.loads(line).get("text") for line in kept.read_text().splitlines()[1:]]
    assert texts == ["second", "third"]


def test_a_cut_line_is_left_out_and_the_rest_kept():
    batches = []
    good = encode(PhaseMarked(name="warmup", edge="start"))
    writer.write([good, good[:-5], b"", good], batches.append)
    assert [len(batch) for batch in batches] == [2]


def test_lines_are_put_together_from_pieces():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lines = writer.read_lines(theirs.fileno())
        ours.sendall(b"one\ntw")
        assert next(lines) == [b"one"]
        ours.sendall(b"o\nthree\nfour")
        assert next(lines) == [b"two", b"three"]
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(StopIteration):
            next(lines)


def test_silence_is_told(monkeypatch):
    monkeypatch.setattr(writer, "HEARTBEAT_S", 0.01)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        lines = writer.read_lines(theirs.fileno())
        assert next(lines) == []
        assert next(lines) == []


def test_the_engine_does_not_load_the_store(tmp_path):
    """Its objects would be visited by every collection of garbage in the warm-up."""
    program = (
        "import gc, os, sys\n"
        "before = len(gc.get_objects())\n"
        "from warmup_insights.vllm_plugin import register\n"
        "register()\n"
        "loaded = [n for n in ('sqlalchemy', 'alembic', 'pandas', 'rich') if n in sys.modules]\n"
        "assert not loaded, loaded\n"
        "assert 'warmup_insights.vllm_plugin.table' in sys.modules\n"
    )
    database = str(tmp_path / "runs.db")
    subprocess.run(
        [sys.executable, "-c", program],
        env=environment("v0_26", WARMUP_INSIGHTS_DB=database),
        check=True,
    )
    gc.collect()


def test_the_end_of_the_engine_does_not_wait_for_a_locked_database(tmp_path):
    database = tmp_path / "runs.db"
    EventStore(database).close()
    import sqlite3

    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    started = time.monotonic()
    ran = run_standin("v0_26", tmp_path, STANDIN_STEPS="[]")
    took = time.monotonic() - started
    other.execute("ROLLBACK")
    other.close()
    assert ran.exit_code == 0
    assert took < 20.0
    wait_for(lambda: list(tmp_path.glob("*.events.jsonl")) or ran.runs())
