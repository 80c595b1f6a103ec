"""Databases for the tests of the store: each test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from tests.postgres import postgres_server, postgres_url  # noqa: F401 - fixtures
from warmup_insights.storage import EventStore


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request, tmp_path):
    """The location of an empty database."""
    if request.param == "sqlite":
        return str(tmp_path / "store.db")
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def store(database):
    """An empty store."""
    with EventStore(database) as opened:
        yield opened
