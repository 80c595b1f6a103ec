"""Ingest: nothing twice, nothing half-way, grown files continued."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.helpers import ROOT, public
from tests.ingest.builders import steps
from warmup_insights.errors import InputError
from warmup_insights.ingest import single as write
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.single import ingest_path
from warmup_insights.storage import EventStore
from warmup_insights.storage.store import Transaction

CAPTURE = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
TWO = ROOT / "sample_logs" / "vllm" / "made_two_starts_new_year.log"
SCHEMA_1 = {
    "schema", "run_id", "label", "source", "engine", "device", "model", "ranks", "config",
    "status", "failure", "time", "memory", "buckets", "multimodal", "sampler", "defrag",
    "graphs", "misses", "benchmarks",
}  # fmt: skip


@pytest.fixture
def store(tmp_path):
    with EventStore(tmp_path / "a.db") as opened:
        yield opened


def copy(path: Path, to: Path) -> Path:
    to.write_bytes(path.read_bytes())
    return to


def test_same_bytes_twice_add_nothing(store):
    first = ingest_path(store, str(CAPTURE))
    again = ingest_path(store, str(CAPTURE))
    assert (first.state, again.state) == ("new", "unchanged")
    assert again.run_ids == first.run_ids
    assert again.report == first.report
    assert len(store.runs()) == 1


def test_same_bytes_under_another_name_or_compressed_add_nothing(store, tmp_path):
    ingest_path(store, str(CAPTURE))
    other = copy(CAPTURE, tmp_path / "other.log")
    packed = tmp_path / "other.log.gz"
    packed.write_bytes(gzip.compress(CAPTURE.read_bytes()))
    assert ingest_path(store, str(other)).state == "unchanged"
    assert ingest_path(store, str(packed)).state == "unchanged"
    assert len(store.runs()) == 1


def test_grown_file_is_continued_and_keeps_its_run_and_label(store, tmp_path):
    lines = CAPTURE.read_bytes().splitlines(keepends=True)
    log = tmp_path / "growing.log"
    log.write_bytes(b"".join(lines[:14]))
    first = ingest_path(store, str(log))
    store.update_run(first.run_ids[0], label="mine")
    store.update_run(first.run_ids[0], notes="noted")
    log.write_bytes(b"".join(lines))
    second = ingest_path(store, str(log))
    assert second.state == "continued"
    assert second.run_ids == first.run_ids
    (run,) = store.runs()
    assert (run.label, run.notes) == ("mine", "noted")
    whole = store.summary(run.run_id)
    with EventStore(tmp_path / "b.db") as fresh:
        (whole_id,) = ingest_path(fresh, str(log)).run_ids
        expected = fresh.summary(whole_id)
    assert whole.buckets == expected.buckets
    assert len(list(store.events(run.run_id))) == second.report["events"]


def test_copy_from_before_a_file_grew_adds_nothing(store, tmp_path):
    """A folder with both can be read again and again."""
    lines = CAPTURE.read_bytes().splitlines(keepends=True)
    short, longer, whole = (tmp_path / f"{n}.log" for n in range(3))
    for path, count in ((short, 10), (longer, 20), (whole, None)):
        path.write_bytes(b"".join(lines[:count]))
    paths = [str(path) for path in (short, longer, whole)]
    first = [ingest_path(store, path) for path in paths]
    assert [outcome.state for outcome in first] == ["new", "continued", "continued"]
    again = [ingest_path(store, path) for path in paths]
    assert [outcome.state for outcome in again] == ["unchanged"] * 3
    assert {tuple(outcome.run_ids) for outcome in again} == {tuple(first[2].run_ids)}
    assert len(store.runs()) == 1


def test_logs_that_begin_alike_and_differ_later_are_different_runs(store, tmp_path):
    lines = CAPTURE.read_bytes().splitlines(keepends=True)
    one, two = tmp_path / "one.log", tmp_path / "two.log"
    one.write_bytes(b"".join(lines[:20]))
    two.write_bytes(b"".join(lines[:10] + lines[15:]))
    ids = ingest_path(store, str(one)).run_ids + ingest_path(store, str(two)).run_ids
    assert len(set(ids)) == 2
    assert len(store.runs()) == 2


def test_id_of_a_run_follows_from_its_text_alone(store, tmp_path):
    """Not from the file's name, nor from what is stored already."""
    lines = CAPTURE.read_bytes().splitlines(keepends=True)
    (tmp_path / "short.log").write_bytes(b"".join(lines[:10] + lines[15:]))
    ingest_path(store, str(tmp_path / "short.log"))
    ids = ingest_path(store, str(CAPTURE)).run_ids
    with EventStore(tmp_path / "b.db") as other:
        again = ingest_path(other, str(copy(CAPTURE, tmp_path / "other.log")))
    assert again.run_ids == ids


def test_hundreds_of_logs_that_begin_alike_find_their_ids_at_once(
    store, tmp_path, monkeypatch
):
    tried = []
    ensure = Transaction.ensure_run
    monkeypatch.setattr(
        Transaction,
        "ensure_run",
        lambda self, run: tried.append(1) or ensure(self, run),
    )
    for number in range(100):
        log = tmp_path / f"{number}.log"
        log.write_bytes(b"+ vllm serve\n" + CAPTURE.read_bytes() + b"%d\n" % number)
        assert ingest_path(store, str(log)).state == "new"
    assert len(tried) == store.count_runs() == 100


def test_logs_with_thousands_of_common_events_are_different_runs(store, tmp_path):
    """Their ids follow from the same beginning; the second one takes another."""
    common = steps(11_000)
    ids = []
    for number in range(3):
        log = tmp_path / f"{number}.log"
        log.write_text(
            common + steps(3).replace("query_len:128", f"query_len:{number}")
        )
        ids += ingest_path(store, str(log)).run_ids
    assert len(set(ids)) == 3
    for run_id in ids:
        assert store.summary(run_id).run_id == run_id


def test_grown_file_keeps_its_ids_whatever_version_chose_them(
    store, tmp_path, monkeypatch
):
    """Another version had another rule; labels and links are by id."""
    lines = TWO.read_bytes().splitlines(keepends=True)
    log = tmp_path / "growing.log"
    log.write_bytes(b"".join(lines[:4]))
    monkeypatch.setattr(write, "_hash", lambda text: "0123456789ab")
    assert ingest_path(store, str(log)).run_ids == ["0123456789ab"]
    store.update_run("0123456789ab", label="mine")
    monkeypatch.undo()
    log.write_bytes(b"".join(lines))
    grown = ingest_path(store, str(log))
    assert (grown.state, len(grown.run_ids)) == ("continued", 2)
    assert grown.run_ids[0] == "0123456789ab"
    assert store.run("0123456789ab").label == "mine"


def test_several_start_ups_keep_their_order(store):
    outcome = ingest_path(store, str(TWO), Options(year=2025))
    assert len(outcome.run_ids) == 2
    runs = [store.run(run_id) for run_id in outcome.run_ids]
    assert [run.ordinal for run in runs] == [0, 1]
    assert runs[0].started_at < runs[1].started_at


def test_summary_has_every_section_of_the_contract(store):
    (run_id,) = ingest_path(store, str(CAPTURE)).run_ids
    summary = public(store.summary(run_id))
    assert set(summary) >= SCHEMA_1
    assert summary["schema"] == 1
    assert summary["source"] == {"kind": "log", "name": CAPTURE.name}
    assert store.run(run_id).status == "finished"


def test_failure_in_the_middle_leaves_nothing(store, monkeypatch):
    """Ingest is one transaction per file."""

    def broken(*args: object, **named: object) -> None:
        raise RuntimeError("power is gone")

    monkeypatch.setattr(Transaction, "put_summary", broken)
    with pytest.raises(RuntimeError):
        ingest_path(store, str(CAPTURE))
    assert store.runs() == []
    assert store.sources() == []
    monkeypatch.undo()
    assert ingest_path(store, str(CAPTURE)).state == "new"


@pytest.mark.long
def test_kill_in_the_middle_leaves_nothing_and_a_rerun_completes(tmp_path):
    line = "INFO 07-07 19:15:38 [x.py:1] [Warmup][Graph/prompt][{}/900000] batch_size:{} query_len:128 num_blocks:0 free_mem:9 GiB\n"
    log, db = tmp_path / "big.log", tmp_path / "a.db"
    log.write_text("".join(line.format(n, n) for n in range(1, 60_000)))
    command = [
        sys.executable,
        "-m",
        "warmup_insights",
        "ingest",
        str(log),
        "--db",
        str(db),
    ]
    process = subprocess.Popen(command, cwd=ROOT)
    wal = Path(f"{db}-wal")
    while process.poll() is None and not (
        wal.exists() and wal.stat().st_size > 200_000
    ):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    with EventStore(db) as store:
        assert store.runs() == []
        outcome = ingest_path(store, str(log))
        assert outcome.state == "new"
        assert store.run(outcome.run_ids[0]).num_events == outcome.report["events"]


def test_two_at_once_store_one(tmp_path):
    db = tmp_path / "a.db"
    EventStore(db).close()
    states: list[str] = []

    def work() -> None:
        with EventStore(db) as mine:
            states.append(ingest_path(mine, str(CAPTURE)).state)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with EventStore(db) as store:
        assert len(store.runs()) == 1
    assert sorted(states) == ["new", "unchanged", "unchanged", "unchanged"]


def test_label_and_synthetic_mark_reach_the_run(store):
    options = Options(label="tuned", synthetic=True)
    (run_id,) = ingest_path(store, str(CAPTURE), options).run_ids
    run = store.run(run_id)
    assert (run.label, run.synthetic) == ("tuned", True)
    assert store.summary(run_id).synthetic is True


def test_label_of_a_stored_log_can_be_changed_by_reading_it_again(store):
    ingest_path(store, str(CAPTURE))
    ingest_path(store, str(CAPTURE), Options(label="later"))
    assert store.runs()[0].label == "later"


def test_pipe_is_read(store, tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(CAPTURE.read_bytes()))
    writer.start()
    outcome = ingest_path(store, str(pipe))
    writer.join()
    assert len(outcome.run_ids) == 1


def test_kept_lines_show_rule_and_text(store):
    outcome = ingest_path(store, str(CAPTURE))
    run = store.run(outcome.run_ids[0])
    lines = store.source_lines(run.source_id)
    assert lines[0][:2] == (1, "bucket_ranges")
    assert any(rule == "warmup_finished" for _, rule, _ in lines)


def test_lines_that_state_nothing_are_counted_and_not_kept(store, tmp_path):
    route = "INFO 08-02 17:38:50 [launcher.py:36] Route: /v1/models, Methods: GET\n"
    log = tmp_path / "routes.log"
    log.write_text(CAPTURE.read_text() + route * 40)
    outcome = ingest_path(store, str(log))
    run = store.run(outcome.run_ids[0])
    source = store.source(run.source_id)
    (name,) = (name for name, times in source.report["ignored"].items() if times == 40)
    assert name not in {rule for _, rule, _ in store.source_lines(run.source_id)}


def test_folders_give_their_logs_and_patterns_their_matches(tmp_path):
    (tmp_path / "sub").mkdir()
    copy(CAPTURE, tmp_path / "sub" / "a.log")
    copy(CAPTURE, tmp_path / "b.log.gz")
    (tmp_path / "c.py").write_text("")
    (tmp_path / "link.log").symlink_to(CAPTURE)
    found = [Path(path).name for path in find_files([str(tmp_path)])]
    assert sorted(found) == ["a.log", "b.log.gz"]
    assert len(list(find_files([str(tmp_path / "**" / "*.log")]))) == 2


def test_pattern_and_folder_without_logs_get_sentences(tmp_path):
    with pytest.raises(InputError, match="Nothing matches"):
        list(find_files([str(tmp_path / "*.log")]))
    with pytest.raises(InputError, match="holds no log files"):
        list(find_files([str(tmp_path)]))
