"""Thousands of logs that begin alike cost no more questions than others."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ingest.builders import steps, write_logs
from warmup_insights.ingest import alike as module
from warmup_insights.ingest import ingest_files, ingest_path
from warmup_insights.ingest.alike import Alike
from warmup_insights.model.run import SourceRecord
from warmup_insights.storage import EventStore, Transaction


def source(name: str, size: int) -> SourceRecord:
    return SourceRecord(
        source_id=name, name=name, digest=name, head_digest="h", size_bytes=size
    )


class Store:
    def __init__(self) -> None:
        self.stored = [source("a", 1)]
        self.asked = 0

    def sources_with_head(self, head):
        self.asked += 1
        return self.stored if head == "h" else []


@pytest.fixture
def store():
    return Store()


def names(alike: Alike, head: str = "h") -> list[str]:
    return [found.name for found in alike.sources(head)]


def test_what_was_stored_here_is_known_without_asking(store):
    alike = Alike(store)
    assert names(alike) == ["a"]
    alike.add("h", source("b", 3), None)
    alike.add("h", source("c", 2), None)
    assert names(alike) == ["b", "c", "a"]
    alike.add("h", source("d", 4), source("b", 3))
    assert names(alike) == ["d", "c", "a"]
    assert store.asked == 1


def test_what_others_stored_is_seen_after_a_moment(store, monkeypatch):
    alike = Alike(store)
    assert names(alike) == ["a"]
    store.stored = [*store.stored, source("b", 3)]
    assert names(alike) == ["a"]
    monkeypatch.setattr(module, "FRESH_S", -1.0)
    alike.forget()
    assert names(alike) == ["b", "a"]
    store.stored = []
    assert names(alike) == []


def test_many_beginnings_are_not_all_remembered(store):
    alike = Alike(store)
    for number in range(3 * module.MAX_HEADS):
        alike.sources(str(number))
    assert len(alike._found) <= module.MAX_HEADS


def test_logs_that_begin_alike_are_asked_about_once_and_not_once_each(
    tmp_path, monkeypatch
):
    files = write_logs(tmp_path / "logs", 40)
    for number, path in enumerate(files):
        rest = Path(path).read_text().partition("\n")[2]
        Path(path).write_text(f"alike\n{rest}the end {number}\n")
    asked: list[str] = []
    tried: list[str] = []
    honest = EventStore.sources_with_head
    monkeypatch.setattr(module, "FRESH_S", 60.0)
    monkeypatch.setattr(
        EventStore,
        "sources_with_head",
        lambda self, head: asked.append(head) or honest(self, head),
    )
    ensure = Transaction.ensure_run
    monkeypatch.setattr(
        Transaction,
        "ensure_run",
        lambda self, run: tried.append(run.run_id) or ensure(self, run),
    )
    with EventStore(tmp_path / "many.db") as store:
        many = ingest_files(store, files, jobs=2)
    assert (len(asked), len(tried)) == (1, 40)
    monkeypatch.undo()
    with EventStore(tmp_path / "one.db") as store:
        one = ingest_files(store, files, jobs=1)
    assert [o.run_ids for o in many] == [o.run_ids for o in one]


def test_hundreds_of_logs_that_begin_alike_are_asked_for_a_few_times_each(
    tmp_path, monkeypatch
):
    asked = 0

    def counting(method):
        def call(self, *arguments):
            nonlocal asked
            asked += 1
            return method(self, *arguments)

        return call

    for name in ("ensure_run", "has_run"):
        method = getattr(Transaction, name)
        monkeypatch.setattr(Transaction, name, counting(method))
    log = tmp_path / "a.log"
    counts = []
    with EventStore(tmp_path / "a.db") as store:
        for number in range(200):
            log.write_text(
                f"+ vllm serve model\nINFO 07-07 19:15:37 host {number}\n" + steps(2)
            )
            asked = 0
            assert ingest_path(store, str(log)).state == "new"
            counts.append(asked)
        assert store.count_runs() == 200
    assert max(counts) <= 20
    assert max(counts[100:]) > 5, "they did not begin alike"
