from __future__ import annotations

import pytest

from tests.storage.crowd import count_wrong, crowd


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
