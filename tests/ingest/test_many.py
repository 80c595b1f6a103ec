"""Many processes that read give what one gives, whoever is quick, slow or killed."""

from __future__ import annotations

import gzip
import os
import random
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
    ThreadReaders,
    contents,
    die_or_read,
    steps,
    write_logs,
)
from warmup_insights.errors import StoreError, WarmupInsightsError
from warmup_insights.ingest import log, parallel, worker
from warmup_insights.ingest.many import ingest_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.single import find_stored
from warmup_insights.model.events import Note
from warmup_insights.model.run import RunRecord
from warmup_insights.storage import EventStore
from warmup_insights.storage.spool import Spool

SMALL = [path for path in SAMPLES if path.stat().st_size < 8_000]
READ = worker.read_to_file


def ingest(db: Path, files: list[str], jobs: int, **options):
    with EventStore(db) as store:
        outcomes = ingest_files(store, files, Options(**options), jobs=jobs)
        order = [run.run_id for run in store.runs()], [s.name for s in store.sources()]
    return [(o.path, o.run_ids, o.state, o.report, o.error) for o in outcomes], order


@pytest.fixture
def threads(monkeypatch):
    """Readers are threads: no time to start, and the test can hold them up."""
    monkeypatch.setattr(parallel, "ReaderPool", ThreadReaders)


@pytest.mark.long
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


def dawdle(path, options, target):
    """Take a moment for some files, different ones each time."""
    time.sleep(random.choice([0, 0, 0.003]))
    READ(path, options, target)


@pytest.mark.long
@given(st.data())
@settings(max_examples=25)
def test_any_folder_gives_the_same_database_in_any_order_of_reading(data):
    """Copies, beginnings of each other and damaged files are likely among them."""
    paths = data.draw(st.lists(st.sampled_from(SMALL[:8]), min_size=2, max_size=9))
    ours = pytest.MonkeyPatch()
    with tempfile.TemporaryDirectory() as folder, ours.context() as patch:
        patch.setattr(parallel, "ReaderPool", ThreadReaders)
        patch.setattr(worker, "read_to_file", dawdle)
        files = []
        for n, path in enumerate(paths):
            (Path(folder) / f"{n}.log").write_bytes(damaged(data, path))
            files.append(f"{folder}/{n}.log")
        one, four = Path(folder, "1.db"), Path(folder, "4.db")
        assert ingest(four, files, 4) == ingest(one, files, 1)
        assert contents(four) == contents(one)
        again = ingest(four, files, 4)
        states = {state for _, _, state, _, _ in again[0]}
        assert states <= {"unchanged", "nothing"}  # one without a start-up is not kept
        assert again[1] == ingest(one, files, 1)[1]


@pytest.mark.long
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


def test_no_process_is_started_where_everything_is_stored(tmp_path, monkeypatch):
    files = write_logs(tmp_path / "logs", 3)
    ingest(tmp_path / "a.db", files, 1)

    def start(*_):
        raise AssertionError("a process was started")

    monkeypatch.setattr(parallel.ReaderPool, "_new_pool", start)
    outcomes, _ = ingest(tmp_path / "a.db", files, 2)
    assert [state for _, _, state, _, _ in outcomes] == ["unchanged"] * 3


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
    spool = Spool(tmp_path / "x.db", RunRecord(run_id="recorded"))
    spool.append([Note(topic="a", text="b")])
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    given = [files[0], str(spool.path), files[1], str(pipe), files[2], files[3]]
    writer = threading.Thread(target=lambda: pipe.write_bytes(CAPTURE.read_bytes()))
    writer.start()
    outcomes, (runs, _) = ingest(tmp_path / "a.db", given, 3)
    writer.join()
    assert [state for _, _, state, _, _ in outcomes] == ["new"] * 6
    assert len(set(runs)) == 6
    assert outcomes[1][1] == ["recorded"]


@pytest.mark.long
def test_death_of_a_reader_costs_nothing_at_first(tmp_path, monkeypatch):
    files = write_logs(tmp_path / "logs", 12)
    expected = ingest(tmp_path / "1.db", files, 1)
    monkeypatch.setattr(worker, "read_to_file", die_or_read)
    (deaths := Path(f"{files[5]}.deaths")).write_text("1")
    assert ingest(tmp_path / "2.db", files, 2) == expected
    assert contents(tmp_path / "2.db") == contents(tmp_path / "1.db")
    assert deaths.read_text() == "0"


@pytest.mark.long
def test_files_that_kill_their_readers_fail_alone(tmp_path, monkeypatch):
    files = write_logs(tmp_path / "logs", 12)
    monkeypatch.setattr(worker, "read_to_file", die_or_read)
    for n in (5, 6, 11):
        Path(f"{files[n]}.deaths").write_text("9")
    outcomes, (runs, _) = ingest(tmp_path / "2.db", files, 2)
    failed = {path: error for path, _, state, _, error in outcomes if state == "failed"}
    assert list(failed) == [files[5], files[6], files[11]]
    assert "the process that read it died; free some memory" in failed[files[5]]
    assert len(runs) == 9
    left = [int(Path(f"{files[n]}.deaths").read_text()) for n in (5, 6, 11)]
    assert set(left) <= {7, 8}  # read alone once, whether it had begun before or not


@pytest.mark.long
def test_processes_that_die_at_once_are_not_started_for_ever(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "begin", os.abort)
    with (
        EventStore(tmp_path / "a.db") as store,
        pytest.raises(WarmupInsightsError, match="end before they begin"),
    ):
        ingest_files(store, write_logs(tmp_path / "logs", 4), jobs=2)


@pytest.fixture
def gate(monkeypatch):
    """Holds up `huge.log` until as many logs as asked for were read."""
    opened, read = threading.Event(), []

    def gated(path, options, target):
        if Path(path).name == "huge.log":
            assert opened.wait(30)
        READ(path, options, target)
        read.append(path)
        if len(read) == gated.count:
            opened.set()

    gated.count, gated.read = 20, read
    monkeypatch.setattr(worker, "read_to_file", gated)
    return gated


def test_a_huge_file_among_small_ones_holds_nobody_up(tmp_path, threads, gate):
    """All others are read before it is through, although it comes first."""
    files = write_logs(tmp_path / "logs", 20)
    huge = tmp_path / "huge.log"
    huge.write_text("huge\n" + steps(1))
    expected = ingest(tmp_path / "1.db", [str(huge), *files], 1)
    assert ingest(tmp_path / "2.db", [str(huge), *files], 2) == expected
    assert gate.read[-1] == str(huge)


def test_what_waits_is_bounded(tmp_path, threads, gate, monkeypatch):
    files = write_logs(tmp_path / "logs", 40)
    huge = tmp_path / "huge.log"
    huge.write_text("huge\n" + steps(1))
    waiting = []
    monkeypatch.setattr(parallel, "MAX_AHEAD", 12)
    honest = parallel.ParallelIngest._store_next

    def store_next(self):
        waiting.append(len(self._ahead))
        return honest(self)

    monkeypatch.setattr(parallel.ParallelIngest, "_store_next", store_next)
    gate.count = 11
    outcomes, _ = ingest(tmp_path / "a.db", [str(huge), *files], 2)
    assert {state for _, _, state, _, _ in outcomes} == {"new"}
    assert max(waiting) <= 12
    monkeypatch.setattr(parallel, "MAX_AHEAD_BYTES", 0)
    waiting.clear()
    gate.read.clear()
    gate.count = 0
    huge.rename(tmp_path / "other.log")
    ingest(tmp_path / "b.db", files, 2)
    assert max(waiting) <= 8


def test_a_log_that_changes_while_it_is_read_is_read_again(
    tmp_path, threads, monkeypatch
):
    """It may not even begin as it did when it was looked at."""
    files = write_logs(tmp_path / "logs", 4)

    def late(path, options, target):
        READ(path, options, target)
        if path == files[1]:
            Path(path).write_text("another\n" + steps(3))

    monkeypatch.setattr(worker, "read_to_file", late)
    outcomes, _ = ingest(tmp_path / "a.db", files, 2)
    assert [report["lines"] for _, _, _, report, _ in outcomes] == [41, 4, 41, 41]


def test_full_folder_for_temporary_files_is_a_sentence(tmp_path, threads, monkeypatch):
    def full(file, parts):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(worker, "write_parts", full)
    outcomes, _ = ingest(tmp_path / "a.db", write_logs(tmp_path / "logs", 2), 2)
    assert {state for _, _, state, _, _ in outcomes} == {"failed"}
    assert (
        "cannot be written to (No space left on device); set TMPDIR" in outcomes[0][4]
    )


def test_no_folder_for_temporary_files_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with (
        EventStore(tmp_path / "a.db") as store,
        pytest.raises(WarmupInsightsError, match=r"No such file or directory.*TMPDIR"),
    ):
        ingest_files(store, write_logs(tmp_path / "logs", 2), jobs=2)


@pytest.mark.long
def test_temporary_files_are_gone_in_the_end(tmp_path, monkeypatch):
    (folder := tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    ingest(tmp_path / "a.db", write_logs(tmp_path / "logs", 4), 2)
    assert list(folder.iterdir()) == []


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
    asked: list[str] = []

    def broken(self):
        asked.append("")
        raise StoreError("the database is gone")

    with EventStore(tmp_path / "a.db") as store:
        monkeypatch.setattr(EventStore, "begin", broken)
        with pytest.raises(StoreError, match="the database is gone"):
            ingest_files(store, files, jobs=2)
    assert len(asked) == 1


def test_source_removed_while_it_is_looked_up_is_read_as_new(tmp_path):
    class Shrinking(EventStore):
        """A store from which a source goes between two queries."""

        def beginnings(self, head):
            found = super().beginnings(head)
            with self.begin() as transaction:
                for _, _, source_id in found:
                    transaction.delete_source(source_id)
            return found

    (file,) = write_logs(tmp_path / "logs", 1)
    ingest(tmp_path / "a.db", [file], 1)
    longer = tmp_path / "longer.log"
    longer.write_bytes(Path(file).read_bytes() + b"one line more\n")
    with Shrinking(tmp_path / "a.db") as store, longer.open("rb") as stream:
        stored = find_stored(store, stream, "longer.log")
    assert stored.candidates
    assert stored.source is None


def test_source_that_is_removed_meanwhile_is_read_again(tmp_path, threads, monkeypatch):
    files = write_logs(tmp_path / "logs", 4)
    ingest(tmp_path / "a.db", files[2:], 1)

    def late(path, options, target):
        with EventStore(tmp_path / "a.db") as other, other.begin() as transaction:
            for source in other.sources():
                if source.name == Path(files[2]).name:
                    transaction.delete_source(source.source_id)
        READ(path, options, target)

    monkeypatch.setattr(worker, "read_to_file", late)
    outcomes, (runs, _) = ingest(tmp_path / "a.db", files, 2)
    states = [state for _, _, state, _, _ in outcomes]
    assert states == ["new", "new", "new", "unchanged"]
    assert len(runs) == 4


def test_what_is_stored_is_hashed_and_not_parsed(tmp_path, threads, monkeypatch):
    parsed: list[str] = []

    def noting(path, options, target):
        parsed.append(path)
        READ(path, options, target)

    monkeypatch.setattr(worker, "read_to_file", noting)
    files = write_logs(tmp_path / "logs", 5)
    ingest(tmp_path / "a.db", files, 2)
    assert sorted(parsed) == files
    ingest(tmp_path / "a.db", files, 2)
    assert len(parsed) == 5


@pytest.mark.long
def test_readers_do_not_import_from_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "parsers").mkdir()
    for name in ("parsers/__init__.py", "json.py", "socket.py", "struct.py"):
        (tmp_path / name).write_text("raise SystemExit('imported')")
    files = write_logs(tmp_path / "logs", 4)
    monkeypatch.chdir(tmp_path)
    outcomes, _ = ingest(tmp_path / "a.db", files, 2)
    assert [state for _, _, state, _, _ in outcomes] == ["new"] * 4


def test_reader_that_cannot_start_is_a_sentence(tmp_path, monkeypatch):
    def refused(*_):
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("multiprocessing.util.spawnv_passfds", refused)
    with (
        EventStore(tmp_path / "a.db") as store,
        pytest.raises(WarmupInsightsError, match="No further process can be started"),
    ):
        ingest_files(store, write_logs(tmp_path / "logs", 4), jobs=2)


def test_progress_is_told_while_a_log_is_read(tmp_path, threads, monkeypatch):
    files = write_logs(tmp_path / "logs", 3)
    told = threading.Event()

    def slow(path, options, target):
        worker._report(100, 0)
        assert told.wait(30)
        READ(path, options, target)

    watcher = Recording()
    watcher.read = lambda count: told.set()
    monkeypatch.setattr(worker, "read_to_file", slow)
    with EventStore(tmp_path / "a.db") as store:
        ingest_files(store, files, jobs=2, watcher=watcher)


def test_reading_tells_its_progress_in_steps(monkeypatch):
    monkeypatch.setattr(log, "PROGRESS_BYTES", 1000)
    steps: list[int] = []
    with CAPTURE.open("rb") as file:
        for _ in log.read_log(file, "a", Options(), progress=steps.append):
            pass
    assert sum(steps) == CAPTURE.stat().st_size
