"""One large log is read by another process while this one stores: the same database."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.builders import contents, write_logs
from warmup_insights.errors import InputError
from warmup_insights.ingest import Options, ingest_files, streamed
from warmup_insights.ingest import many as many_module
from warmup_insights.ingest.child import Child, ChildDiedError
from warmup_insights.ingest.messages import Read, Refused, read_answer
from warmup_insights.storage import EventStore

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted((ROOT / "sample_logs").rglob("*.log"))


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

    original = many_module.ingest_streamed
    monkeypatch.setattr(many_module, "ingest_streamed", note)
    return found


def ingest(db: Path, path: str, jobs: int):
    with EventStore(db) as store:
        (outcome,) = ingest_files(store, [path], Options(year=2026), jobs=jobs)
    return outcome


@pytest.mark.parametrize("path", SAMPLES[:: max(1, len(SAMPLES) // 12)], ids=str)
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
    (path,) = write_logs(tmp_path / "logs", 1, lines=40_000)
    frames = 0

    def receive(self):
        nonlocal frames
        frames += 1
        if frames == 4:
            self.kill()
            raise ChildDiedError("was killed by SIGKILL")
        return original(self)

    original = Child.receive
    monkeypatch.setattr(Child, "receive", receive)
    outcome = ingest(tmp_path / "runs.db", path, 2)
    assert frames == 4
    monkeypatch.undo()
    expected = ingest(tmp_path / "alone.db", path, 1)
    assert outcome.as_dict() == expected.as_dict()
    assert contents(tmp_path / "runs.db") == contents(tmp_path / "alone.db")


def test_what_cannot_be_read_is_a_sentence(tmp_path):
    missing = tmp_path / "missing.log"
    with EventStore(tmp_path / "runs.db") as store, pytest.raises(InputError) as error:
        streamed.ingest_streamed(store, str(missing), Options(), lambda count: None)
    assert "There is no file" in str(error.value)


def test_progress_adds_up_to_the_file(tmp_path):
    (path,) = write_logs(tmp_path / "logs", 1, lines=40_000)
    told = []
    with EventStore(tmp_path / "runs.db") as store:
        streamed.ingest_streamed(store, path, Options(year=2026), told.append)
    assert sum(told) == Path(path).stat().st_size


def test_a_pipe_that_may_not_grow_is_used_as_it_is(monkeypatch):
    def refuse(*_):
        raise PermissionError("no more pipe pages for this user")

    monkeypatch.setattr("warmup_insights.ingest.child.fcntl.fcntl", refuse)
    child = Child(Options())
    try:
        child.send(Read("/nowhere.log"))
        assert isinstance(read_answer(child.receive()[1]), Refused)
    finally:
        child.close()
