"""Opening a database: what works, and the one sentence where it does not."""

from __future__ import annotations

import os
import socket
import sqlite3
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.storage.builders import add_run, make_run, make_steps
from warmup_insights.errors import StoreBusyError, StoreError
from warmup_insights.runs import delete_runs
from warmup_insights.storage import EventStore
from warmup_insights.storage.location import default_database, shown_location

NOBODY = 65534


@contextmanager
def without_privileges():
    """As root, act as a user whom permissions bind."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def open_folder():
    """A folder that every user can reach (the parents of tmp_path are private)."""
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    yield folder
    folder.chmod(0o777)
    shutil.rmtree(folder)


def sentence(path, **options):
    with pytest.raises(StoreError) as error:
        EventStore(path, **options)
    text = str(error.value)
    assert "\n" not in text
    return text


def test_the_option_comes_before_the_variable_before_the_default():
    env = {"WARMUP_INSIGHTS_DB": "env.db"}
    assert default_database("option.db", env) == "option.db"
    assert default_database(None, env) == "env.db"
    assert default_database(None, {}) == "warmup_insights.db"
    assert default_database("", {"WARMUP_INSIGHTS_DB": ""}) == "warmup_insights.db"


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("a b.db", "a b.db"),
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:s@cr:t@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgresql:///db?password=secret&x=1", "postgresql:///db?password=***&x=1"),
    ],
)
def test_passwords_are_not_shown(location, shown):
    assert shown_location(location) == shown


@pytest.mark.parametrize("name", ["plain.db", "q?u#e%41 ü.db", "no_suffix"])
def test_paths_are_taken_as_they_are(tmp_path, name):
    path = tmp_path / name
    for location in (path, str(path), f"sqlite:///{path}"):
        if "?" in name and location != path:
            location = str(path)
        with EventStore(location) as store:
            assert store.run is not None
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_memory_holds_a_store():
    for location in ("sqlite://", ":memory:", "sqlite:///:memory:"):
        with EventStore(location) as store:
            add_run(store, events=make_steps(2))
            assert len(list(store.events("run1"))) == 2
            delete_runs(store, ["run1"])
            assert list(store.events("run1")) == []


def test_a_file_is_a_wal_database_with_large_pages(tmp_path):
    EventStore(tmp_path / "a.db").close()
    connection = sqlite3.connect(tmp_path / "a.db")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA page_size").fetchone() == (8192,)
    connection.close()


def test_a_database_that_cannot_become_wal_works_without(tmp_path):
    """Somebody writes at that moment; the next to open it tries again."""
    path = tmp_path / "a.db"
    EventStore(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN IMMEDIATE")
    with EventStore(path, busy_timeout_s=0.01) as store:
        assert store.runs() == []
        other.execute("COMMIT")
        other.close()
        add_run(store)
    with EventStore(path) as store, store._engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"


def test_no_sqlite_file(tmp_path):
    path = tmp_path / "a.log"
    path.write_text("INFO 08-02 17:38:31 something\n" * 500)
    before = path.read_bytes()
    assert sentence(path) == (
        f"{path} is not a SQLite database; choose another file with --db"
    )
    assert sentence(path, read_only=True) == sentence(path)
    assert path.read_bytes() == before


def test_a_database_of_another_program_is_left_alone(tmp_path):
    path = tmp_path / "firefox.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = path.read_bytes()
    assert f"{path} is a database of another program" in sentence(path)
    assert path.read_bytes() == before


def test_a_folder(tmp_path):
    assert sentence(tmp_path) == (
        f"{tmp_path} is a folder; --db takes the name of a database file"
    )


def test_no_folder(tmp_path):
    path = tmp_path / "missing" / "a.db"
    assert sentence(path).startswith(f"The folder {path.parent} does not exist; create")


def test_reading_what_is_not_there_makes_nothing(tmp_path):
    path = tmp_path / "a.db"
    assert f"There is no database {path} yet; add runs" in sentence(
        path, read_only=True
    )
    assert not path.exists()


def test_reading_an_empty_file(tmp_path):
    path = tmp_path / "a.db"
    path.touch()
    with EventStore(path, read_only=True) as store:
        assert store.runs() == []


def test_a_damaged_file(tmp_path):
    path = tmp_path / "a.db"
    with EventStore(path) as store:
        add_run(store, events=make_steps(2000))
    content = bytearray(path.read_bytes())
    content[8192 * 40 : 8192 * 50] = os.urandom(8192 * 10)
    path.write_bytes(content)
    store = EventStore(path)
    with pytest.raises(StoreError, match="is damaged; restore a copy"):
        list(store.events("run1"))
    store.close()


def test_a_folder_where_nothing_may_be_written(open_folder):
    open_folder.chmod(0o555)
    with without_privileges():
        text = sentence(open_folder / "a.db")
    assert text.startswith(f"The database {open_folder}/a.db cannot be opened; check")


def test_a_read_only_folder_can_be_read(open_folder):
    """The dashboard of a colleague's database; without a log no helper file is needed."""
    path = open_folder / "a.db"
    with EventStore(path) as store:
        add_run(store, events=make_steps(3))
    path.chmod(0o444)
    open_folder.chmod(0o555)
    with without_privileges():
        with EventStore(path, read_only=True) as store:
            assert len(list(store.events("run1"))) == 3
        with pytest.raises(StoreError, match=r"cannot be (written|opened)"):
            add_run(EventStore(path), "run2")


def test_a_reader_writes_nothing(tmp_path):
    path = tmp_path / "a.db"
    EventStore(path).close()
    store = EventStore(path, read_only=True)
    with pytest.raises(StoreError, match="cannot be written"):
        add_run(store)
    store.close()


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_cannot_be_opened_is_closed(read_only, tmp_path):
    path = tmp_path / "a.db"
    path.write_text("no database" * 1000, encoding="utf-8")
    with pytest.raises(StoreError, match="is not a SQLite database"):
        EventStore(path, read_only=read_only)
    opened = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert str(path) not in opened


def test_a_reader_leaves_nothing_beside_the_file(tmp_path):
    path = tmp_path / "a.db"
    with EventStore(path) as store:
        add_run(store, events=make_steps(3))
    before = path.read_bytes()
    with EventStore(path, read_only=True) as store:
        assert len(list(store.events("run1"))) == 3
    assert [*tmp_path.iterdir()] == [path]
    assert path.read_bytes() == before


def test_readers_see_what_a_writer_does_meanwhile(tmp_path):
    path = tmp_path / "a.db"
    with EventStore(path) as writer, EventStore(path, read_only=True) as reader:
        with writer.begin() as transaction:
            transaction.ensure_run(make_run())
            assert reader.runs() == []
        assert [run.run_id for run in reader.runs()] == ["run1"]


def test_opening_does_not_wait_for_a_writer(tmp_path):
    path = tmp_path / "a.db"
    with EventStore(path) as writer, writer.begin() as transaction:
        transaction.ensure_run(make_run())
        with EventStore(path, busy_timeout_s=0.01) as other:
            assert other.runs() == []


def test_a_lock_that_stays(tmp_path):
    path = tmp_path / "a.db"
    writer, other = EventStore(path), EventStore(path, busy_timeout_s=0.01)
    with writer.begin(), pytest.raises(StoreBusyError) as error:
        add_run(other)
    writer.close()
    other.close()
    assert str(error.value) == (
        f"The database {path} stayed locked by another program; try again when it is done"
    )


def test_a_full_disk(tmp_path):
    path = tmp_path / "a.db"
    with EventStore(path) as store:
        add_run(store, events=make_steps(3))
        with store._engine.connect() as connection:
            raw = connection.connection.driver_connection
            raw.execute("PRAGMA max_page_count = 40")
        with pytest.raises(StoreError, match=r"The disk of .* is full; free"):
            add_run(store, "run2", make_steps(20_000))
        assert [run.run_id for run in store.runs()] == ["run1"]
        assert list(store.events("run1")) == make_steps(3)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (
            "mysql://me:secret@host/db",
            "starts with mysql; use sqlite or postgresql",
        ),
        ("://", "URL cannot be read"),
        ("sqlite://", ""),
    ],
)
def test_urls_that_cannot_be_used(url, expected):
    if not expected:
        EventStore(url).close()
        return
    with pytest.raises(StoreError, match=expected) as error:
        EventStore(url)
    assert "secret" not in str(error.value)


def test_a_server_that_is_not_there():
    pytest.importorskip("psycopg")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    text = sentence(f"postgresql://me:secret@127.0.0.1:{port}/runs")
    assert text.startswith("The database server of postgresql://me:***@127.0.0.1")
    assert "cannot be reached; check the URL" in text
    assert "secret" not in text


def test_a_missing_driver_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'warmup-insights[postgres]'" in sentence("postgresql://h/db")


@pytest.mark.postgres
def test_a_postgres_database_of_another_program(postgres_url):
    import sqlalchemy as sa

    engine = sa.create_engine(
        postgres_url.replace("postgresql", "postgresql+psycopg", 1)
    )
    with engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE runs (id int)"))
    engine.dispose()
    assert "is a database of another program" in sentence(postgres_url)


@pytest.mark.postgres
def test_a_postgres_reader_writes_nothing(postgres_url):
    EventStore(postgres_url).close()
    with EventStore(postgres_url, read_only=True) as store:
        assert store.runs() == []
        with pytest.raises(StoreError, match="read-only"):
            add_run(store)
