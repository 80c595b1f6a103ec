"""One large log is read by another process while this one stores: the same database."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.ingest.builders import SAMPLES, Recording, contents, write_logs
from warmup_insights.errors import InputError
from warmup_insights.ingest import many as many_module
from warmup_insights.ingest import streamed
from warmup_insights.ingest.many import ingest_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.storage import EventStore


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    monkeypatch.setattr(many_module, "STREAM_BYTES", 0)


@pytest.fixture
def helped(monkeypatch):
    """Paths that were read with help."""
    found = []

    def note(store, path, options, progress):
        outcome = original(store, path, options, progress)
        if outcome is not None:
            found.append(path)
        return outcome

    original = streamed.ingest_streamed
    monkeypatch.setattr(streamed, "ingest_streamed", note)
    return found


def ingest(db: Path, path: str, jobs: int, watcher=None):
    with EventStore(db) as store:
        (outcome,) = ingest_files(
            store, [path], Options(year=2026), jobs=jobs, watcher=watcher
        )
    return outcome


@pytest.mark.parametrize("path", SAMPLES[:: len(SAMPLES) // 6], ids=lambda p: p.name)
def test_samples_give_the_same_database(tmp_path, path, helped):
    alone = ingest(tmp_path / "alone.db", str(path), 1)
    assert helped == []
    together = ingest(tmp_path / "together.db", str(path), 2)
    assert helped == [str(path)]
    assert together.as_dict() == alone.as_dict()
    assert contents(tmp_path / "together.db") == contents(tmp_path / "alone.db")


def test_many_runs_in_many_batches(tmp_path, helped):
    log = tmp_path / "many.log"
    parts = write_logs(tmp_path / "parts", 3, lines=4000)
    log.write_text("".join(Path(part).read_text() for part in parts))
    alone = ingest(tmp_path / "alone.db", str(log), 1)
    together = ingest(tmp_path / "together.db", str(log), 2)
    assert helped
    assert len(together.run_ids) == len(alone.run_ids)
    assert contents(tmp_path / "together.db") == contents(tmp_path / "alone.db")


def test_what_is_stored_is_not_stored_again(tmp_path, helped):
    (path,) = write_logs(tmp_path / "logs", 1)
    first = ingest(tmp_path / "runs.db", path, 2)
    second = ingest(tmp_path / "runs.db", path, 2)
    assert (first.state, second.state) == ("new", "unchanged")
    assert helped == [path]
    with open(path, "a") as file:
        file.write(Path(path).read_text().splitlines()[-1] + "\n")
    assert ingest(tmp_path / "runs.db", path, 2).state == "continued"


def test_death_of_the_other_process_costs_nothing(tmp_path, monkeypatch):
    """It dies when events of it are stored already."""
    (path,) = write_logs(tmp_path / "logs", 1, lines=40_000)
    processes = []
    start, decode = streamed._start, streamed.decode_part

    def started(*arguments):
        process, inbound = start(*arguments)
        processes.append(process.pid)
        return process, inbound

    def received(data):
        os.kill(processes[0], signal.SIGKILL)
        return decode(data)

    monkeypatch.setattr(streamed, "_start", started)
    monkeypatch.setattr(streamed, "decode_part", received)
    outcome = ingest(tmp_path / "runs.db", path, 2)
    assert len(processes) == 1
    monkeypatch.undo()
    assert outcome.as_dict() == ingest(tmp_path / "alone.db", path, 1).as_dict()
    assert contents(tmp_path / "runs.db") == contents(tmp_path / "alone.db")


def test_what_cannot_be_read_is_a_sentence(tmp_path, monkeypatch):
    """Also when it goes away between the first look and the reading."""
    (path,) = write_logs(tmp_path / "logs", 1)
    start = streamed._start

    def remove(*arguments):
        os.unlink(path)
        return start(*arguments)

    monkeypatch.setattr(streamed, "_start", remove)
    with EventStore(tmp_path / "runs.db") as store:
        for _ in range(2):
            with pytest.raises(InputError, match="There is no file"):
                streamed.ingest_streamed(store, path, Options(), lambda count: None)
        assert store.sources() == []


def test_progress_adds_up_to_the_file(tmp_path, helped):
    (path,) = write_logs(tmp_path / "logs", 1, lines=40_000)
    watcher = Recording()
    steps = []
    watcher.read = steps.append
    ingest(tmp_path / "runs.db", path, 2, watcher)
    assert helped
    assert sum(steps) == Path(path).stat().st_size
    assert len([step for step in steps if step]) >= 2
