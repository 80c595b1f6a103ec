"""Archives that are dropped onto a page give the logs in them."""

from __future__ import annotations

import io

import pytest
from streamlit.testing.v1 import AppTest

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


FORM = """
import streamlit as st
from dashboard.logs import upload_options
st.text(upload_options().year)
"""


def test_a_year_is_one_that_a_log_can_be_of():
    """Anything else was left out without a word, and a superscript was a trace."""
    app = AppTest.from_string(FORM, default_timeout=60).run()
    (year,) = app.number_input
    assert (year.value, year.min, year.max) == (None, 2023, 2100)
    year.set_value(2024).run()
    assert [text.value for text in app.text] == ["2024"]
