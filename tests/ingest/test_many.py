"""Many processes that read give what one gives, whoever is quick, slow or killed."""

from __future__ import annotations

import gzip
import os
import random
import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ingest.builders import (
    CAPTURE,
    SAMPLES,
    Recording,
    ThreadChild,
    contents,
    steps,
    write_logs,
)
from warmup_insights.errors import StoreError
from warmup_insights.ingest import Options, ingest_files, lane, many, worker
from warmup_insights.ingest.child import Child
from warmup_insights.ingest.held import Held
from warmup_insights.ingest.messages import Read
from warmup_insights.ingest.worker import Worker
from warmup_insights.model.events import Note
from warmup_insights.model.run import RunRecord
from warmup_insights.storage import EventStore
from warmup_insights.storage.spill import SpillFile

SMALL = [path for path in SAMPLES if path.stat().st_size < 8_000]


def ingest(db: Path, files: list[str], jobs: int, **options):
    with EventStore(db) as store:
        outcomes = ingest_files(store, files, Options(**options), jobs=jobs)
        order = [run.run_id for run in store.runs()], [s.name for s in store.sources()]
    return [(o.path, o.run_ids, o.state, o.report, o.error) for o in outcomes], order


@pytest.fixture
def threads(monkeypatch):
    """Readers are threads: no time to start, and the test can hold them up."""
    monkeypatch.setattr(lane, "Child", ThreadChild)


def test_all_samples_give_the_same_database_with_four_processes(tmp_path):
    files = [str(path) for path in SAMPLES]
    one = ingest(tmp_path / "1.db", files, 1, year=2026)
    four = ingest(tmp_path / "4.db", files, 4, year=2026)
    assert four == one
    assert contents(tmp_path / "4.db") == contents(tmp_path / "1.db")
    assert len(one[1][0]) > 30


def damaged(data: st.DataObject, path: Path) -> bytes:
    """A sample as it is, cut, doubled, in a storm of bytes, or with other line ends."""
    whole = path.read_bytes()
    kind = data.draw(
        st.sampled_from(["whole", "cut", "doubled", "bytes", "crlf", "gzip"])
    )
    if kind == "cut":
        return whole[: data.draw(st.integers(0, len(whole)))]
    if kind == "doubled":
        return whole + whole
    if kind == "bytes":
        at = data.draw(st.integers(0, len(whole)))
        return whole[:at] + data.draw(st.binary(max_size=80)) + whole[at:]
    if kind == "crlf":
        return whole.replace(b"\n", b"\r\n")
    return gzip.compress(whole, mtime=0) if kind == "gzip" else whole


class Dawdling(Worker):
    """Takes a moment for some files, a different one each time."""

    def _answer(self, path):
        time.sleep(random.choice([0, 0, 0.003]))
        return super()._answer(path)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_folder_gives_the_same_database_in_any_order_of_reading(data):
    """Copies, beginnings of each other and damaged files are likely among them."""
    paths = data.draw(st.lists(st.sampled_from(SMALL[:8]), min_size=2, max_size=9))
    ours = pytest.MonkeyPatch()
    with tempfile.TemporaryDirectory() as folder, ours.context() as patch:
        patch.setattr(lane, "Child", ThreadChild)
        patch.setattr(ThreadChild, "worker", Dawdling)
        files = []
        for n, path in enumerate(paths):
            (Path(folder) / f"{n}.log").write_bytes(damaged(data, path))
            files.append(f"{folder}/{n}.log")
        one, four = Path(folder, "1.db"), Path(folder, "4.db")
        assert ingest(four, files, 4) == ingest(one, files, 1)
        assert contents(four) == contents(one)
        again = ingest(four, files, 4)
        assert {state for _, _, state, _, _ in again[0]} == {"unchanged"}
        assert again[1] == ingest(one, files, 1)[1]


def test_same_bytes_under_many_names_are_stored_once(tmp_path):
    for n in range(12):
        (tmp_path / f"{n:02}.log").write_bytes(CAPTURE.read_bytes())
    files = sorted(map(str, tmp_path.glob("*.log")))
    outcomes, (runs, sources) = ingest(tmp_path / "a.db", files, 3)
    assert [state for _, _, state, _, _ in outcomes] == ["new"] + ["unchanged"] * 11
    assert (len(runs), sources) == (1, ["00.log"])


def test_a_file_and_its_longer_copies_are_one_run(tmp_path, threads):
    lines = CAPTURE.read_bytes().splitlines(keepends=True)
    for n in range(5):
        (tmp_path / f"{n}.log").write_bytes(b"".join(lines[: 10 + 4 * n]))
    files = sorted(map(str, tmp_path.glob("*.log")))
    outcomes, (runs, _) = ingest(tmp_path / "a.db", files, 5)
    assert [state for _, _, state, _, _ in outcomes] == ["new"] + ["continued"] * 4
    assert len(runs) == 1


def test_what_cannot_be_read_does_not_stop_the_others(tmp_path, threads):
    files = [str(tmp_path / "none.log"), *write_logs(tmp_path / "logs", 5), "/dev/null"]
    outcomes, (runs, _) = ingest(tmp_path / "a.db", files, 3)
    assert [state for _, _, state, _, _ in outcomes] == [
        "failed",
        *["new"] * 5,
        "failed",
    ]
    assert "There is no file" in outcomes[0][4]
    assert len(runs) == 5


def test_pipes_and_events_of_a_recorder_are_stored_in_their_place(tmp_path, threads):
    files = write_logs(tmp_path / "logs", 4)
    spill = SpillFile(RunRecord(run_id="recorded"), [tmp_path], "x")
    spill.append([Note(topic="a", text="b")])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given = [files[0], str(spill.path), files[1], str(pipe), files[2], files[3]]
    writer = threading.Thread(target=lambda: pipe.write_bytes(CAPTURE.read_bytes()))
    writer.start()
    outcomes, (runs, _) = ingest(tmp_path / "a.db", given, 3)
    writer.join()
    assert [state for _, _, state, _, _ in outcomes] == ["new"] * 6
    assert len(set(runs)) == 6
    assert outcomes[1][1] == ["recorded"]


def kill_readers_of(monkeypatch, path: str, times: int) -> list[int]:
    """Whoever has opened that file is killed, so many times; the ids of the dead."""
    killed: list[int] = []
    reading: dict[int, str] = {}
    honest = Child.send

    def send(self, question):
        if isinstance(question, Read):
            reading[self.pid] = question.path
        elif reading[self.pid] == path and len(killed) < times:
            killed.append(self.pid)
            os.kill(self.pid, signal.SIGKILL)
        honest(self, question)

    monkeypatch.setattr(Child, "send", send)
    return killed


def test_death_of_a_reader_costs_nothing_at_first(tmp_path, monkeypatch):
    files = write_logs(tmp_path / "logs", 12)
    expected = ingest(tmp_path / "1.db", files, 1)
    killed = kill_readers_of(monkeypatch, files[5], times=1)
    assert ingest(tmp_path / "2.db", files, 2) == expected
    assert contents(tmp_path / "2.db") == contents(tmp_path / "1.db")
    assert len(killed) == 1


def test_a_file_that_kills_its_readers_fails_alone(tmp_path, monkeypatch):
    files = write_logs(tmp_path / "logs", 12)
    killed = kill_readers_of(monkeypatch, files[5], times=99)
    outcomes, (runs, _) = ingest(tmp_path / "2.db", files, 2)
    failed = [
        (path, error) for path, _, state, _, error in outcomes if state == "failed"
    ]
    assert [path for path, _ in failed] == [files[5]]
    assert "was killed by SIGKILL, 2 times; free some memory" in failed[0][1]
    assert len(runs) == 11
    assert len(set(killed)) == 2


class Gated(Worker):
    """Reads the huge file only when the gate is open."""

    gate = threading.Event()

    def _parsed(self, log, beginnings):
        if log.name == "huge.log":
            assert self.gate.wait(30)
        return super()._parsed(log, beginnings)


def test_a_huge_file_among_small_ones_holds_nobody_up(tmp_path, threads, monkeypatch):
    """All others are stored before it is through, although it comes first."""
    files = write_logs(tmp_path / "logs", 20)
    huge = tmp_path / "huge.log"
    huge.write_text("huge\n" + steps(1))
    monkeypatch.setattr(ThreadChild, "worker", Gated)
    Gated.gate.clear()
    watcher = Recording()

    def done(outcome):
        watcher.outcomes.append(outcome)
        if len(watcher.outcomes) == 20:
            Gated.gate.set()

    watcher.done = done
    with EventStore(tmp_path / "a.db") as store:
        outcomes = ingest_files(store, [str(huge), *files], jobs=2, watcher=watcher)
    assert [o.path for o in outcomes] == [str(huge), *files]
    assert watcher.outcomes[-1].path == str(huge)


def test_files_that_begin_like_a_huge_one_are_read_meanwhile(
    tmp_path, threads, monkeypatch
):
    """They wait for their turn, in a temporary file if need be, but nobody stops."""
    files = write_logs(tmp_path / "logs", 20)
    huge = tmp_path / "huge.log"
    huge.write_text("alike\n" + steps(1))
    for n, path in enumerate(files):
        text = Path(path).read_text().partition("\n")[2]
        Path(path).write_text(f"alike\nINFO 07-07 19:15:38 {n}\n{text}")
    expected = ingest(tmp_path / "1.db", [str(huge), *files], 1)
    monkeypatch.setattr(ThreadChild, "worker", Gated)
    monkeypatch.setattr(Held.__init__, "__defaults__", (1000,))
    Gated.gate.clear()
    read: list[int] = []
    honest = many.Board.put

    def put(self, index, result):
        honest(self, index, result)
        read.append(index)
        if len(read) == 20:
            Gated.gate.set()

    monkeypatch.setattr(many.Board, "put", put)
    assert ingest(tmp_path / "2.db", [str(huge), *files], 2) == expected
    assert read[-1] == 0


def test_events_come_in_bounded_pieces(tmp_path, threads, monkeypatch):
    sizes: list[int] = []
    honest = Held.add
    monkeypatch.setattr(
        Held, "add", lambda self, body: sizes.append(len(body)) or honest(self, body)
    )
    log = tmp_path / "large.log"
    log.write_text(steps(60_000))
    outcomes, _ = ingest(tmp_path / "a.db", [str(log), str(CAPTURE)], 2)
    assert outcomes[0][3]["events"] > 59_000
    assert len(sizes) > 5
    assert max(sizes) < 2 << 20


def test_progress_adds_up_to_every_byte(tmp_path, threads):
    files = write_logs(tmp_path / "logs", 6)
    total = sum(os.path.getsize(path) for path in files)
    for jobs in (1, 3):
        for state in ("new", "unchanged"):
            watcher = Recording()
            with EventStore(tmp_path / f"{jobs}.db") as store:
                ingest_files(store, files, jobs=jobs, watcher=watcher)
            assert watcher.read_bytes == total
            assert {outcome.state for outcome in watcher.outcomes} == {state}
            assert sorted(outcome.path for outcome in watcher.outcomes) == files


def test_a_file_that_continues_a_pipe_before_it_is_recognised(tmp_path, threads):
    """It is opened while the pipe is not yet stored."""
    lines = CAPTURE.read_bytes().splitlines(keepends=True)
    pipe, whole = tmp_path / "pipe", tmp_path / "whole.log"
    os.mkfifo(pipe)
    whole.write_bytes(b"".join(lines))

    def fill():
        time.sleep(0.3)
        pipe.write_bytes(b"".join(lines[:14]))

    (writer := threading.Thread(target=fill)).start()
    files = [str(pipe), str(whole), *write_logs(tmp_path / "logs", 2)]
    outcomes, (runs, _) = ingest(tmp_path / "a.db", files, 2)
    writer.join()
    assert [o[2] for o in outcomes] == ["new", "continued", "new", "new"]
    assert len(runs) == 3


def test_failing_database_ends_the_work_at_once(tmp_path, threads, monkeypatch):
    files = write_logs(tmp_path / "logs", 30)
    heads: list[str] = []

    def broken(self, head):
        heads.append(head)
        raise StoreError("the database is gone")

    with EventStore(tmp_path / "a.db") as store:
        monkeypatch.setattr(EventStore, "sources_with_head", broken)
        with pytest.raises(StoreError, match="the database is gone"):
            ingest_files(store, files, jobs=2)
    assert len(heads) <= 2


def test_source_that_is_removed_meanwhile_is_read_again(tmp_path, threads, monkeypatch):
    files = write_logs(tmp_path / "logs", 2)
    ingest(tmp_path / "a.db", files, 1)

    class Late(Worker):
        def _answer(self, path):
            answer = super()._answer(path)
            with EventStore(tmp_path / "a.db") as other:
                for source in other.sources():
                    if source.name == Path(path).name:
                        with other.begin() as transaction:
                            transaction.delete_source(source.source_id)
            return answer

    monkeypatch.setattr(ThreadChild, "worker", Late)
    outcomes, (runs, _) = ingest(tmp_path / "a.db", files, 2)
    assert [state for _, _, state, _, _ in outcomes] == ["new", "new"]
    assert len(runs) == 2


def test_what_is_stored_is_hashed_and_not_parsed(tmp_path, threads, monkeypatch):
    parsed: list[str] = []

    class Noting(Worker):
        def _parsed(self, log, beginnings):
            parsed.append(log.name)
            return super()._parsed(log, beginnings)

    monkeypatch.setattr(ThreadChild, "worker", Noting)
    files = write_logs(tmp_path / "logs", 5)
    ingest(tmp_path / "a.db", files, 2)
    assert len(parsed) == 5
    ingest(tmp_path / "a.db", files, 2)
    assert len(parsed) == 5


def test_readers_do_not_import_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "parsers").mkdir()
    for name in ("parsers/__init__.py", "json.py"):
        (tmp_path / name).write_text("raise SystemExit('imported')")
    files = write_logs(tmp_path / "logs", 4)
    monkeypatch.chdir(tmp_path)
    outcomes, _ = ingest(tmp_path / "a.db", files, 2)
    assert [state for _, _, state, _, _ in outcomes] == ["new"] * 4


def test_reader_that_cannot_start_is_a_sentence(tmp_path, monkeypatch):
    from warmup_insights.errors import InputError

    def refused(*_):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(lane.Child, "_start", refused)
    with (
        EventStore(tmp_path / "a.db") as store,
        pytest.raises(InputError, match="No further process can be started"),
    ):
        ingest_files(store, write_logs(tmp_path / "logs", 4), jobs=2)


def test_worker_tells_progress_of_a_large_file(tmp_path, threads, monkeypatch):
    monkeypatch.setattr(worker, "TELL_BYTES", 1000)
    watcher = Recording()
    steps: list[int] = []
    watcher.read = steps.append
    files = [*write_logs(tmp_path / "logs", 1), str(CAPTURE)]
    with EventStore(tmp_path / "a.db") as store:
        ingest_files(store, files, jobs=2, watcher=watcher)
    assert sum(steps) == sum(os.path.getsize(path) for path in files)
    assert len([step for step in steps if step]) >= 2
