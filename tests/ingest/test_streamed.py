"""One large log is read by another process while this one stores: the same database."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from tests.ingest.builders import SAMPLES, Recording, contents, write_logs
from warmup_insights.ingest import many, parallel, worker
from warmup_insights.ingest.log import Events, LogEnd, read_log
from warmup_insights.ingest.many import ingest_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.parallel import ReaderPool
from warmup_insights.ingest.worker import write_parts
from warmup_insights.storage import EventStore


@pytest.fixture(autouse=True)
def any_size(monkeypatch):
    for module in (many, parallel):
        monkeypatch.setattr(module, "LARGE_BYTES", 0)


@pytest.fixture
def helped(monkeypatch):
    """Paths that were given to another process."""
    found = []

    def submit(pool, path, target):
        found.append(path)
        return original(pool, path, target)

    original = ReaderPool.submit
    monkeypatch.setattr(ReaderPool, "submit", submit)
    return found


def ingest(db: Path, path: str, jobs: int, watcher=None):
    with EventStore(db) as store:
        (outcome,) = ingest_files(
            store, [path], Options(year=2026), jobs=jobs, watcher=watcher
        )
    return outcome


@pytest.mark.long
@pytest.mark.parametrize("path", SAMPLES[:: len(SAMPLES) // 2], ids=lambda p: p.name)
def test_samples_give_the_same_database(tmp_path, path, helped):
    alone = ingest(tmp_path / "alone.db", str(path), 1)
    assert helped == []
    together = ingest(tmp_path / "together.db", str(path), 2)
    assert helped == [str(path)]
    assert together.as_dict() == alone.as_dict()
    assert contents(tmp_path / "together.db") == contents(tmp_path / "alone.db")


@pytest.mark.long
def test_many_runs_in_many_batches(tmp_path, helped):
    log = tmp_path / "many.log"
    parts = write_logs(tmp_path / "parts", 3, lines=4000)
    log.write_text("".join(Path(part).read_text() for part in parts))
    alone = ingest(tmp_path / "alone.db", str(log), 1)
    together = ingest(tmp_path / "together.db", str(log), 2)
    assert helped
    assert len(together.run_ids) == len(alone.run_ids)
    assert contents(tmp_path / "together.db") == contents(tmp_path / "alone.db")


@pytest.mark.long
def test_what_is_stored_is_not_stored_again(tmp_path, helped):
    (path,) = write_logs(tmp_path / "logs", 1)
    first = ingest(tmp_path / "runs.db", path, 2)
    second = ingest(tmp_path / "runs.db", path, 2)
    assert (first.state, second.state) == ("new", "unchanged")
    assert helped == [path]
    with open(path, "a") as file:
        file.write(Path(path).read_text().splitlines()[-1] + "\n")
    assert ingest(tmp_path / "runs.db", path, 2).state == "continued"


@pytest.mark.long
def test_a_log_is_stored_while_it_is_read(tmp_path, monkeypatch):
    """The process that reads waits until something of the log is stored."""
    (path,) = write_logs(tmp_path / "logs", 1, lines=12_000)
    monkeypatch.setattr(worker, "read_to_file", read_half_then_wait)
    begin, gate = EventStore.begin, tmp_path / "logs" / "go"

    def begun(store):
        gate.touch()
        return begin(store)

    monkeypatch.setattr(EventStore, "begin", begun)
    assert ingest(tmp_path / "runs.db", path, 2).report["events"] >= 12_000


def read_half_then_wait(path, options, target):
    """Runs in the other process: the end of the log comes when `go` is there."""
    with open(target, "wb", buffering=0) as out, open(path, "rb") as log:
        for part in read_log(log, Path(path).name, options):
            while isinstance(part, LogEnd) and not Path(path).with_name("go").exists():
                time.sleep(0.01)
            list(write_parts(out, [part]))


@pytest.mark.long
def test_death_of_the_other_process_costs_nothing(tmp_path, monkeypatch):
    """It dies once, when events of it are in the transaction already."""
    (path,) = write_logs(tmp_path / "logs", 1, lines=12_000)
    monkeypatch.setattr(worker, "read_to_file", read_half_then_die)
    outcome = ingest(tmp_path / "runs.db", path, 2)
    assert Path(path).with_name("died").exists()
    monkeypatch.undo()
    assert outcome.as_dict() == ingest(tmp_path / "alone.db", path, 1).as_dict()
    assert contents(tmp_path / "runs.db") == contents(tmp_path / "alone.db")


def read_half_then_die(path, options, target):
    died = Path(path).with_name("died")
    with open(target, "wb", buffering=0) as out, open(path, "rb") as log:
        for part in read_log(log, Path(path).name, options):
            if isinstance(part, LogEnd) and not died.exists():
                died.touch()
                time.sleep(0.2)
                os.kill(os.getpid(), signal.SIGKILL)
            list(write_parts(out, [part]))


@pytest.mark.long
def test_what_cannot_be_read_is_a_sentence(tmp_path, monkeypatch):
    """Also when it goes away between the first look and the reading."""
    (path,) = write_logs(tmp_path / "logs", 1)
    submit = ReaderPool.submit

    def remove(pool, path, target):
        os.unlink(path)
        return submit(pool, path, target)

    monkeypatch.setattr(ReaderPool, "submit", remove)
    for _ in range(2):
        assert "There is no file" in str(ingest(tmp_path / "runs.db", path, 2).error)
    with EventStore(tmp_path / "runs.db") as store:
        assert store.sources() == []


@pytest.mark.long
def test_progress_adds_up_to_the_file(tmp_path, helped, monkeypatch):
    """It is sent several times, however often this process looks at it."""
    (path,) = write_logs(tmp_path / "logs", 1, lines=40_000)
    sent: list[int] = []
    steps: list[int] = []
    monkeypatch.setattr(worker, "PROGRESS", _KeepingProgress(sent))
    watcher = Recording()
    watcher.read = steps.append
    ingest(tmp_path / "runs.db", path, 2, watcher)
    assert helped
    assert sum(steps) == Path(path).stat().st_size
    assert len([count for count in sent if count]) >= 2


class _KeepingProgress:
    """Unpacks messages of progress as they arrive; keeps the bytes read of each."""

    def __init__(self, sent: list[int]) -> None:
        self._sent = sent
        self._format = worker.PROGRESS

    def unpack(self, message: bytes) -> tuple[int, ...]:
        read, written = self._format.unpack(message)
        self._sent.append(read)
        return read, written


def test_the_progress_of_all_processes_is_taken_while_one_log_is_stored(tmp_path):
    """Else those that read other logs fill the pipe, and wait until this one is stored."""
    target, reading, read = tmp_path / "0", Future(), []
    end = LogEnd("", "", 0, {}, [], {})
    with target.open("wb") as out:
        count = len([*write_parts(out, [Events("", []), Events("", []), end])])
    with ReaderPool(1, Options(), str(tmp_path), read.append) as pool:
        for _ in pool.parts(reading, str(target)):
            pool._theirs.send_bytes(worker.PROGRESS.pack(1, 0))
    assert read == [1] * count
