"""The process that drains for an engine: nothing is lost, and the engine is left alone."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.vllm_plugin.running import environment, run_standin
from warmup_insights.drainer import open_store
from warmup_insights.model.events import Note, kind_of
from warmup_insights.storage.store import EventStore
from warmup_insights.vllm_plugin import session
from warmup_insights.vllm_plugin.session import store_recorder
from warmup_insights.vllm_plugin.settings import DRAINER, Settings, drainer_of

PROGRAM = """
import os, signal, sys
from warmup_insights.model.events import Note
from warmup_insights.vllm_plugin.session import store_recorder
from warmup_insights.vllm_plugin.settings import Settings
recorder = store_recorder(Settings(database=sys.argv[1], run_id="r", is_first=True))
for number in range(500):
    recorder.record(Note(topic="t", text=str(number)))
recorder.flush()
"""


@pytest.fixture(autouse=True)
def _no_drainer(monkeypatch):
    monkeypatch.setenv(DRAINER, "")


def wait_for(condition, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def stored(database, run_id="r"):
    """Events that somebody else has stored."""
    if not database.exists():
        return []
    with EventStore(database, read_only=True) as store:
        return list(store.events(run_id))


def run_program(database, before="", after=""):
    return subprocess.run(
        [sys.executable, "-c", before + PROGRAM + after, str(database)],
        env=environment("v0_26"), capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_events_are_stored_while_the_program_runs(tmp_path):
    database = tmp_path / "runs.db"
    recorder = store_recorder(
        Settings(database=str(database), run_id="r", is_first=True, label="a")
    )
    recorder.record(Note(topic="t", text="x"))
    wait_for(lambda: stored(database))
    with EventStore(database, read_only=True) as store:
        run = store.run("r")
    assert (run.label, run.status) == ("a", "running")
    assert run.process.split("|")[1] == str(os.getpid())
    recorder.close()
    wait_for(lambda: not list(tmp_path.glob("*.events.jsonl")))


def test_the_process_is_no_descendant(tmp_path):
    """vLLM kills every descendant of a process that fails."""
    session.ensure_drainer(str(tmp_path / "runs.db"), "r")
    children = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert "warmup_insights.drainer" not in children


def test_a_run_has_one_such_process_on_a_machine(monkeypatch):
    monkeypatch.setattr(session.sys, "executable", "")
    monkeypatch.setenv(DRAINER, drainer_of("r"))
    session.ensure_drainer("a.db", "r")
    assert os.environ[DRAINER] == drainer_of("r")
    session.ensure_drainer("a.db", "another run")
    assert os.environ[DRAINER] == drainer_of("another run")


def test_events_of_a_killed_process_are_stored(tmp_path):
    database = tmp_path / "runs.db"
    done = run_program(database, after="os.kill(os.getpid(), signal.SIGKILL)\n")
    assert done.returncode == -signal.SIGKILL
    wait_for(lambda: len(stored(database)) == 500)


def test_events_wait_where_no_process_can_be_started(tmp_path):
    database = tmp_path / "runs.db"
    done = run_program(database, before="import sys; sys.executable = ''\n")
    assert "Recorded events wait in their files" in done.stderr
    assert not database.exists()
    with open_store(database) as store:
        assert len(list(store.events("r"))) == 500


def test_the_engine_does_not_load_the_store(tmp_path):
    """Its objects would be visited by every collection of garbage in the warm-up."""
    program = (
        "import os, sys\n"
        "from warmup_insights.vllm_plugin import register\n"
        "register()\n"
        "from warmup_insights.vllm_plugin.attach import start\n"
        "session = start(os.environ)\n"
        "session.begin_run(); session.end_run()\n"
        "loaded = [n for n in ('sqlalchemy', 'pandas', 'rich') if n in sys.modules]\n"
        "assert not loaded, loaded\n"
        "assert 'warmup_insights.vllm_plugin.table' in sys.modules\n"
    )
    database = tmp_path / "runs.db"
    subprocess.run(
        [sys.executable, "-c", program],
        env=environment("v0_26", WARMUP_INSIGHTS_DB=str(database)),
        check=True,
    )
    wait_for(lambda: not list(tmp_path.glob("*.events.jsonl")))
    with open_store(database) as store:
        assert store.runs()[0].num_events > 0


def test_the_end_of_the_engine_does_not_wait_for_a_locked_database(tmp_path):
    database = tmp_path / "runs.db"
    EventStore(database).close()
    other = sqlite3.connect(database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(database)],
        env=environment("v0_26"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert process.wait(30) == 0
    assert list(tmp_path.glob("*.events.jsonl"))
    other.execute("ROLLBACK")
    other.close()
    wait_for(lambda: len(stored(database)) == 500)


def test_a_run_of_the_standin_leaves_no_file(tmp_path):
    ran = run_standin("v0_26", tmp_path, drained=True, STANDIN_STEPS="[]")
    assert ran.exit_code == 0
    assert ran.runs()[0].status == "finished"
    assert list(tmp_path.glob("*.events.jsonl")) == []


def test_an_engine_in_a_child_process_is_a_run_that_ends(tmp_path):
    """`multiprocessing` ends a child without `atexit`."""
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing, os\n"
        "from warmup_insights.vllm_plugin.attach import start\n"
        "def child():\n"
        "    session = start(os.environ)\n"
        "    session.begin_run(is_own=True)\n"
        "    session.note_ready()\n"
        "if __name__ == '__main__':\n"
        "    start(os.environ)\n"
        "    for _ in range(2):\n"
        "        process = multiprocessing.get_context('spawn').Process(target=child)\n"
        "        process.start(); process.join()\n",
        encoding="utf-8",
    )
    database = tmp_path / "runs.db"
    subprocess.run(
        [sys.executable, str(program)],
        env=environment("v0_26", WARMUP_INSIGHTS_DB=str(database)),
        check=True,
    )
    wait_for(lambda: not list(tmp_path.glob("*.events.jsonl")))
    with open_store(database) as store:
        found = store.runs()
        assert len(found) == 2
        for run in found:
            kinds = [kind_of(event) for event in store.events(run.run_id)]
            assert kinds.count("run_finished") == 1
            assert run.status == "finished"
