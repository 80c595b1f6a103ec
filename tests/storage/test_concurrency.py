from __future__ import annotations

import pytest

from tests.postgres import find_binaries, running_server
from tests.storage.crowd import count_wrong, crowd
from tests.storage.outages import record_once


@pytest.mark.long
def test_a_crowd_of_writers_loses_and_doubles_nothing(tmp_path):
    """`python -m tests.storage.crowd` does the same with 16 processes of 8 ranks."""
    database = str(tmp_path / "a.db")
    outcome = crowd(database, processes=5, ranks=2, events=1000)
    assert outcome.errors == []
    assert "locked" not in outcome.said
    assert outcome.dropped == 0
    assert outcome.num_reads > 0
    assert outcome.num_ingests > 0
    assert count_wrong(database, processes=5, ranks=2, events=1000) == 0


@pytest.mark.long
@pytest.mark.postgres
def test_a_crowd_of_writers_on_postgres(postgres_url):
    outcome = crowd(postgres_url, processes=8, ranks=1, events=500)
    assert (outcome.errors, outcome.said, outcome.dropped) == ([], "", 0)
    assert count_wrong(postgres_url, processes=8, ranks=1, events=500) == 0


@pytest.mark.long
@pytest.mark.postgres
@pytest.mark.usefixtures("postgres_server")
@pytest.mark.parametrize("ends_away", [False, True])
def test_a_server_that_stops_and_starts_again_gets_everything(
    ends_away, tmp_path, monkeypatch
):
    """`python -m tests.storage.outages` does the same at random moments."""
    monkeypatch.chdir(tmp_path)
    with running_server(find_binaries()) as server:
        found = record_once(server, [(0.5, 0.5)], ends_away=ends_away)
    assert found.num_recorded == found.num_stored
    assert found.is_whole
    assert (found.num_spools_left, found.exit_code) == (0, 0)
