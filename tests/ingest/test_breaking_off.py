"""Whatever ends the command in the middle, nothing is half-way and a rerun completes."""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.ingest.builders import contents, processes_of, wait_until, write_logs
from warmup_insights.ingest.many import ingest_files
from warmup_insights.storage import EventStore

pytestmark = pytest.mark.long

COUNT = 80
LABEL = "one evening"


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """The folder of the logs."""
    folder = tmp_path_factory.mktemp("logs")
    write_logs(folder, COUNT, lines=300)
    return folder


@pytest.fixture(scope="module")
def expected(logs, tmp_path_factory):
    """What a database holds into which all of them were read at once."""
    db = tmp_path_factory.mktemp("whole") / "b.db"
    with EventStore(db) as store:
        ingest_files(store, sorted(map(str, logs.iterdir())))
        for run in store.runs():
            store.update_run(run.run_id, label=LABEL)
    return contents(db)


def start(folder: Path, db: Path, jobs: int = 2) -> subprocess.Popen[str]:
    command = ["-m", "warmup_insights", "ingest", str(folder), "--jobs", str(jobs)]
    return subprocess.Popen(
        [sys.executable, *command, "--db", str(db), "--label", LABEL, "--json"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip


def num_stored(db: Path) -> int:
    with (
        suppress(sqlite3.Error),
        closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as found,
    ):
        return found.execute("SELECT count(*) FROM sources").fetchone()[0]
    return 0


def break_off(process: subprocess.Popen[str], db: Path, number: int) -> tuple[str, str]:
    """Send a signal once some files are stored and others are not.

    To the whole group, as a terminal does it.
    """
    assert wait_until(lambda: num_stored(db) >= 5)
    os.killpg(process.pid, number)
    output = process.communicate(timeout=600)
    assert 5 <= num_stored(db) < COUNT, "it was over before the signal came"
    return output


def assert_whole(db: Path) -> None:
    """Every stored file has its one run, with all events and a summary."""
    with EventStore(db) as store:
        for source in store.sources():
            (run,) = store.runs(source_id=source.source_id)
            assert run.num_events == source.report["events"]
            assert len(list(store.events(run.run_id))) == run.num_events
            assert store.summary(run.run_id) is not None
        assert len(store.runs()) == len(store.sources())


def assert_rerun_completes(logs: Path, db: Path, expected: dict) -> None:
    before = num_stored(db)
    output, talk = start(logs, db).communicate(timeout=600)
    states = [answer["state"] for answer in json.loads(output)["files"]]
    assert states.count("unchanged") == before
    assert f"{before:,} of {COUNT:,} files were stored already" in talk
    assert states.count("new") == COUNT - before
    found = contents(db)
    assert len(found.pop("run_summaries")) == COUNT
    assert found == {n: rows for n, rows in expected.items() if n != "run_summaries"}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_signal_leaves_nothing_half_way(tmp_path, logs, expected, number, jobs):
    db = tmp_path / "a.db"
    _, talk = break_off(process := start(logs, db, jobs), db, number)
    assert process.returncode == 1
    (said,) = re.findall(rf"Stopped: (\d+) of {COUNT} files are done", talk)
    # The signal may come between the end of a transaction and the count.
    assert num_stored(db) - int(said) in (0, 1)
    assert "Traceback" not in talk
    assert "leaked" not in talk
    assert wait_until(lambda: processes_of(process.pid) == [], 20)
    assert_whole(db)
    assert_rerun_completes(logs, db, expected)


def test_kill_leaves_nothing_half_way_and_no_process(tmp_path, logs, expected):
    db = tmp_path / "a.db"
    process = start(logs, db)
    assert wait_until(lambda: num_stored(db) >= 5)
    process.kill()
    _, talk = process.communicate(timeout=600)
    assert 5 <= num_stored(db) < COUNT, "it was over before the signal came"
    assert "Traceback" not in talk
    assert wait_until(lambda: processes_of(process.pid) == [], 20)
    assert_whole(db)
    assert_rerun_completes(logs, db, expected)
