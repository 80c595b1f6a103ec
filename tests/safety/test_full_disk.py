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
from warmup_insights.model.events import Note
from warmup_insights.storage import EventStore
from warmup_insights.storage.spill import read_spill

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
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


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
        recorder = Recorder(StoreSink(path, RunRecord(run_id="run1")))
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
    assert "is full" in done.stderr
    moved = tmp_path / "b.db"
    for suffix in ("", "-wal", "-shm"):
        if (file := small_disk / f"a.db{suffix}").exists():
            shutil.copy(file, f"{moved}{suffix}")
    for spill in [*other.glob("*.events.jsonl"), *small_disk.glob("*.events.jsonl")]:
        shutil.copy(spill, tmp_path / f"b.db.{spill.name}")
    assert indexes(events_of(moved)) == list(range(10_000))


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
            recorder = Recorder(StoreSink(path, RunRecord(run_id="run1")))
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
    assert "could not be stored" in done.stderr
    dropped, seconds = done.stdout.split()
    assert int(dropped) == 2000
    assert float(seconds) < 2


@pytest.mark.parametrize("what", ["file", "folder"])
def test_a_database_removed_from_under_a_recording(what, tmp_path):
    """The run is made again, or the rest lies in a file; what is gone is said."""
    place, other = tmp_path / "place", tmp_path / "other"
    place.mkdir()
    other.mkdir()
    done = run_program(
        """
        import shutil, tempfile
        tempfile.tempdir = sys.argv[3]
        place = os.path.dirname(path)
        recorder = Recorder(StoreSink(path, RunRecord(run_id="run1")))
        for number in range(1000):
            recorder.record(step(number))
        assert recorder.flush()
        if sys.argv[2] == "file":
            os.unlink(path)
        else:
            shutil.rmtree(place)
        for number in range(1000, 2000):
            recorder.record(step(number))
        recorder.flush()
        recorder.close()
        print(recorder.dropped)
        """,
        place / "a.db",
        what,
        other,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == "0\n"
    assert "run1" in done.stderr or "a.db" in done.stderr
    if what == "file":
        found = events_of(place / "a.db")
        assert indexes(found) == list(range(1000, 2000))
        assert [event.count for event in found if isinstance(event, Note)] == [1000]
    else:
        found = read_spill(next(other.glob("a.db.run1.*.jsonl")))[1]
        assert indexes(found) == list(range(1000, 2000))
