"""`kill -9` of an ingest leaves nothing half-way, and a rerun completes it."""

from __future__ import annotations

import os

import pytest

from tests.safety import ingest_killing
from tests.safety.hostile import run_script
from tests.safety.ingest_killing import NUM_FILES, kill_often, look, make_logs, whole
from warmup_insights.ingest.single import ingest_path
from warmup_insights.storage import EventStore

KILLS = int(os.environ.get("WARMUP_INSIGHTS_KILLS", "3"))


@pytest.mark.long
def test_nothing_is_half_way_and_a_rerun_completes(tmp_path):
    found = kill_often(KILLS, tmp_path)
    for left in found:
        assert left.is_sound
        assert not left.is_half
        assert left.processes_left == 0
        assert left.is_completed
    assert any(left.was_killed for left in found)


@pytest.mark.parametrize("table", ["events", "sources", "runs"])
def test_what_is_half_way_is_seen(table, tmp_path, monkeypatch):
    """The check finds a missing event, source or run."""
    monkeypatch.setattr(ingest_killing, "NUM_LINES", 40)
    sizes = make_logs(tmp_path)
    database = tmp_path / "a.db"
    with EventStore(database) as store:
        for name in sizes:
            ingest_path(store, str(tmp_path / name))
    assert look(database) == (NUM_FILES, True, False)
    assert whole(database).keys() == sizes.keys()
    which = {"events": "seq = 3", "sources": "name = '0.log'", "runs": "ordinal = 0"}
    run_script(database, f"DELETE FROM {table} WHERE {which[table]}")
    assert look(database)[2]
