"""Databases that a dashboard may meet: full, empty, damaged, from a newer version."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tests.dashboard.browser import ARGUMENTS, CHROMIUM, Visitor, serving
from tests.dashboard.builders import add_recorded_runs
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.single import ingest_path
from warmup_insights.storage import EventStore

ROOT = Path(__file__).resolve().parents[2]
APP = ROOT / "dashboard" / "app.py"


@pytest.fixture(scope="session")
def full_database(tmp_path_factory) -> Path:
    """Every sample log, and recorded runs of a simulated device."""
    path = tmp_path_factory.mktemp("dashboard") / "full.db"
    with EventStore(path) as store:
        for log in find_files([str(ROOT / "sample_logs")]):
            ingest_path(store, log, Options(synthetic="made_" in log))
        add_recorded_runs(store)
    return path


@pytest.fixture
def empty_database(tmp_path) -> Path:
    path = tmp_path / "empty.db"
    EventStore(path).close()
    return path


@pytest.fixture
def damaged_database(tmp_path) -> Path:
    path = tmp_path / "damaged.db"
    path.write_bytes(b"this was a database once\n" * 400)
    return path


@pytest.fixture
def newer_database(tmp_path) -> Path:
    path = tmp_path / "newer.db"
    EventStore(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.execute(
            "UPDATE store_info SET value = '9.9' WHERE name = 'needs_version'"
        )
    connection.close()
    return path


@pytest.fixture(scope="module")
def chromium():
    """A browser for one module: while it runs, asyncio cannot be used in this process."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def full_server(full_database):
    with serving(full_database) as (address, _):
        yield address


@pytest.fixture
def visit(chromium):
    visitors: list[Visitor] = []

    def make(address: str, **options) -> Visitor:
        visitors.append(Visitor(chromium, address, **options))
        return visitors[-1]

    yield make
    for visitor in visitors:
        visitor.close()
