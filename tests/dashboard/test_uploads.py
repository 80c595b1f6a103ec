"""Archives that are dropped onto a page give the logs in them."""

from __future__ import annotations

import io

import pytest

from dashboard import data
from dashboard.logs import ingested
from tests.ingest.test_bundles import ARCHIVES, FILES, POD, zip_of
from warmup_insights.ingest.outcome import Options
from warmup_insights.storage import EventStore


@pytest.fixture
def store(tmp_path, monkeypatch):
    with EventStore(tmp_path / "runs.db") as opened:
        monkeypatch.setattr(data, "store", lambda: opened)
        yield opened


def dropped(name, content):
    file = io.BytesIO(content)
    file.name, file.size = name, len(content)
    return file


@pytest.mark.parametrize("name", ARCHIVES)
def test_the_logs_of_an_archive_are_read(store, name):
    found = ingested([dropped(name, ARCHIVES[name])], Options(label="mine"))
    states = {outcome.path: outcome.state for outcome in found}
    assert states == {f"{name}/{POD}": "new", f"{name}/../../outside.log": "nothing"}
    (run,) = store.runs()
    assert run.label == "mine"


def test_a_log_and_an_archive_without_one(store):
    log = dropped("server.log", FILES[POD])
    empty = dropped("b.zip", zip_of({"notes.md": b"x"}))
    good, bad = ingested([log, empty], Options())
    assert (good.state, bad.state) == ("new", "failed")
    assert "none of them named like a log" in bad.error
