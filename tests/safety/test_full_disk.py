"""A disk that is full, and a folder that cannot be written: said, counted, no exception."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.recorder.programs import run_program
from tests.recorder.test_endings import events_of, indexes
from tests.safety.ingest_killing import STEP
from warmup_insights.drainer import drain, open_store
from warmup_insights.model.events import Note
from warmup_insights.storage import EventStore
from warmup_insights.storage.spool import read_spool

SMALL = 400 << 10
"""Bytes of the disk."""


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own, in memory, that is soon full."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL}", "none", str(place)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"cannot mount here: {done.stderr.strip()}")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def ingest(log: Path, database: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "warmup_insights", "ingest", str(log), "--db", str(database)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=600,
    )  # fmt: skip


@pytest.mark.long
def test_an_ingest_onto_a_full_disk_is_a_sentence_and_leaves_nothing(
    small_disk, tmp_path
):
    log, database = tmp_path / "large.log", small_disk / "a.db"
    small = tmp_path / "small.log"
    small.write_text("".join(STEP.format(n, n) for n in range(1, 20)))
    log.write_text("".join(STEP.format(n, 7 * n) for n in range(1, 40_000)))
    assert ingest(small, database).returncode == 0
    done = ingest(log, database)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "is full; free some space" in done.stderr
    assert database.stat().st_size < SMALL
    with EventStore(database, read_only=True) as store:
        (source,) = store.sources()
        (run,) = store.runs()
        assert source.name == "small.log"
        assert len(list(store.events(run.run_id))) == run.num_events
    # With room again, the same command completes it.
    moved = shutil.copy(database, tmp_path / "b.db")
    assert ingest(log, Path(moved)).returncode == 0
    with EventStore(moved) as store:
        assert len(store.runs()) == 2


def test_a_recording_onto_a_full_disk_goes_on(small_disk, tmp_path):
    """The rest is in a file on another disk, and nothing is lost."""
    database = small_disk / "a.db"
    other = tmp_path / "other"
    other.mkdir()
    done = run_program(
        """
        import tempfile
        tempfile.tempdir = sys.argv[2]
        recorder = Recorder(Spool(path, RunRecord(run_id="run1")))
        for batch in range(20):
            for number in range(500):
                recorder.record(step(500 * batch + number))
            assert recorder.flush()
        recorder.close()
        print(recorder.dropped)
        """,
        database,
        other,
    )
    assert (done.returncode, done.stdout) == (0, "0\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "No space left" in done.stderr
    moved = tmp_path / "b.db"
    for suffix in ("", "-wal", "-shm"):
        if (file := small_disk / f"a.db{suffix}").exists():
            shutil.copy(file, f"{moved}{suffix}")
    with EventStore(moved) as store:
        spools = [read_spool(p) for p in tmp_path.glob("*/*.events.jsonl")]
        drain(store, spools)
    assert indexes(events_of(moved)) == list(range(10_000))


def test_a_recording_onto_full_disks_keeps_its_beginning(small_disk):
    """The run is taken up once there is room, with a count of what is missing."""
    database = small_disk / "a.db"
    done = run_program(
        """
        import tempfile
        from warmup_insights.drainer import recording
        tempfile.tempdir = os.path.dirname(path)
        with recording(path, RunRecord(run_id="run1")) as recorder:
            recorder.record(RunStarted(engine="vllm", model="llama"))
            for number in range(20_000):
                recorder.record(step(number))
            recorder.flush()
            recorder.record(RunFinished(status="finished"))
        print(recorder.dropped)
        """,
        database,
    )
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert done.stderr.count("No folder has room for them") == 1
    lost = int(done.stdout)
    assert lost > 0
    subprocess.run(["mount", "-o", "remount,size=40M", str(small_disk)], check=True)
    with open_store(database) as store:
        run, events = store.run("run1"), list(store.events("run1"))
        assert (run.engine, run.status) == ("vllm", "finished")
        assert store.summary("run1").status == "finished"
    assert indexes(events) == list(range(20_000 - lost))
    assert [event.count for event in events if isinstance(event, Note)] == [lost]
    assert list(small_disk.glob("*.events.jsonl")) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="giving up privileges needs root")
def test_a_recording_into_a_folder_that_is_read_only_goes_on():
    """Nothing can be written anywhere: the program runs on, and the loss is said."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        place.chmod(0o555)
        done = run_program(
            """
            import tempfile
            os.setuid(65534)
            os.chdir(os.path.dirname(path))
            tempfile.tempdir = os.path.dirname(path)
            recorder = Recorder(Spool(path, RunRecord(run_id="run1")))
            for number in range(2000):
                recorder.record(step(number))
            recorder.flush()
            begin = time.monotonic()
            recorder.close()
            print(recorder.dropped, time.monotonic() - begin)
            """,
            place / "a.db",
        )
        assert list(place.iterdir()) == []
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert "No folder has room for them" in done.stderr
    assert "2000 events are missing in the run in all" in done.stderr
    dropped, seconds = done.stdout.split()
    assert int(dropped) == 2000
    assert float(seconds) < 2


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_database_removed_from_under_a_recording(what, tmp_path):
    """A file is filled again from the spool; without the folder the rest is elsewhere."""
    place, other = tmp_path / "place", tmp_path / "other"
    place.mkdir()
    other.mkdir()
    done = run_program(
        """
        import shutil, tempfile
        from warmup_insights.drainer import recording
        tempfile.tempdir = sys.argv[3]
        place = os.path.dirname(path)
        with recording(path, RunRecord(run_id="run1")) as recorder:
            for number in range(1000):
                recorder.record(step(number))
            assert recorder.flush()
            while not os.path.exists(path):
                time.sleep(0.05)
            time.sleep(1)
            if sys.argv[2] == "file":
                os.unlink(path)
            else:
                shutil.rmtree(place)
            for number in range(1000, 2000):
                recorder.record(step(number))
            recorder.flush()
        print(recorder.dropped)
        """,
        place / "a.db",
        what,
        other,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == "0\n"
    if what == "file":
        assert indexes(events_of(place / "a.db")) == list(range(2000))
    else:
        assert "a.db" in done.stderr
        spool = read_spool(next(other.glob("a.db.run1.*.jsonl")))
        found = [event for _, event in spool.read(0)]
        assert indexes(found) == list(range(1000, 2000))
