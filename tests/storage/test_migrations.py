"""Every old schema goes forward to the newest, and a new database is the same."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.storage.builders import add_run, make_steps
from warmup_insights.errors import StoreError
from warmup_insights.model.summary import FOLD
from warmup_insights.runs import current, refresh_stale
from warmup_insights.storage import EventStore
from warmup_insights.storage import schema as migrations
from warmup_insights.storage.schema import NEEDS_VERSION, NEWEST, VERSIONS
from warmup_insights.version import __version__

FIXTURES = Path(__file__).parents[1] / "fixtures" / "databases"
GOLDEN = Path(__file__).parents[1] / "golden" / "schema.sql"
OLD = sorted(FIXTURES.glob("schema_*.db"))
RENEW = "`pytest tests/storage/test_migrations.py --update-golden` renews it"


def statements_of(path, order="rowid"):
    """The statements that made a SQLite file, as they were given."""
    connection = sqlite3.connect(path)
    rows = connection.execute(
        f"SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY {order}"
    ).fetchall()
    connection.close()
    return [row[0] for row in rows]


def sql_of(path):
    """The schema of a SQLite file, one statement per line, blanks made equal."""
    found = statements_of(path, order="type DESC, name")
    statements = (re.sub(r"\s+", " ", statement) for statement in found)
    return [re.sub(r"\( | (?=\))", lambda m: m[0].strip(), s) for s in statements]


def columns_of(path):
    """What a schema means: columns, keys and indexes, without their spelling."""
    connection = sqlite3.connect(path)

    def ask(query, *values):
        return connection.execute(query, values).fetchall()

    found = {}
    for table, without_rowid in ask("SELECT name, wr FROM pragma_table_list"):
        found[table] = {
            "columns": ask(
                'SELECT name, type, "notnull", pk FROM pragma_table_info(?)', table
            ),
            "foreign": ask(
                'SELECT "table", "from", "to", on_delete FROM pragma_foreign_key_list(?)',
                table,
            ),
            "unique": ask(
                'SELECT name, "unique" FROM pragma_index_list(?) ORDER BY name', table
            ),
            "without rowid": without_rowid,
        }
    found["indexes"] = ask(
        "SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name"
    )
    connection.close()
    return found


def copied(old, tmp_path):
    path = tmp_path / "old.db"
    shutil.copy(old, path)
    path.chmod(0o644)
    return path


def test_versions_are_numbered_without_a_gap():
    assert [f"{n:04d}" for n in range(1, len(VERSIONS) + 1)] == VERSIONS


def test_this_version_can_read_its_own_schema():
    numbers = [tuple(map(int, v.split("."))) for v in (NEEDS_VERSION, __version__)]
    assert numbers[0] <= numbers[1]


def keep_newest():
    """Keep a database of the newest schema: the last one that is kept, brought forward. One
    that is there stays as it is; remove it to have it made anew before its release."""
    path = FIXTURES / f"schema_{NEWEST}.db"
    if path.exists():
        return
    shutil.copy(OLD[-1], path)
    path.chmod(0o644)
    with EventStore(path) as store:
        refresh_stale(store)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.row_factory = sqlite3.Row
    tables = json.loads(OLD[-1].with_suffix(".json").read_text(encoding="utf-8"))
    rows = {
        table: [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
        for table in tables
    }
    connection.close()
    text = json.dumps(rows, ensure_ascii=False, indent=1)
    path.with_suffix(".json").write_text(f"{text}\n", encoding="utf-8")


def test_every_old_schema_is_kept_as_a_file(update_golden):
    if update_golden:
        keep_newest()
    kept = [path.stem for path in sorted(FIXTURES.glob("schema_*.db"))]
    assert kept == [f"schema_{n}" for n in VERSIONS], RENEW


def test_a_new_database_equals_the_golden_schema(tmp_path, update_golden):
    new = tmp_path / "new.db"
    EventStore(new).close()
    text = ";\n".join(sql_of(new)) + ";\n"
    if update_golden:
        GOLDEN.write_text(text, encoding="utf-8")
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines(), RENEW


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_an_old_database_goes_forward_and_keeps_everything(old, tmp_path):
    path = copied(old, tmp_path)
    EventStore(path).close()
    new = tmp_path / "new.db"
    EventStore(new).close()
    upgraded, made = columns_of(path), columns_of(new)
    for table in made:
        assert upgraded.get(table) == made[table], (
            f"{table}: a column that `MIGRATIONS` adds is the last one of its `Table`"
        )
    assert upgraded.keys() == made.keys()
    before = json.loads(old.with_suffix(".json").read_text(encoding="utf-8"))
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    for table in set(before) - {"alembic_version", "store_info"}:
        rows = [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
        kept = [{name: row[name] for name in before[table][0]} for row in rows]
        assert sorted(kept, key=str) == sorted(before[table], key=str)
    connection.close()


def has_newest_summary(old):
    """Whether the schema and the fold of its summaries are the newest ones."""
    if old != OLD[-1]:
        return False
    connection = sqlite3.connect(old)
    folds = {fold for (fold,) in connection.execute("SELECT fold FROM run_summaries")}
    connection.close()
    return folds == {FOLD}


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
@pytest.mark.parametrize("read_only", [False, True], ids=["writing", "reading"])
def test_an_old_database_works(old, read_only, tmp_path):
    path = copied(old, tmp_path)
    with EventStore(path, read_only=read_only) as store:
        newest, first = store.runs()
        assert (first.label, first.num_events, first.process) == ("first", 8, None)
        reader = store.events(first.run_id)
        assert len(list(reader)) == 8
        assert not reader.skipped
        is_old = not has_newest_summary(old)
        assert (store.summary(first.run_id) is None) is is_old
        assert current(store, first).summary.fold == FOLD
        assert store.source("src0001").name == "server übung.log"
        stale = {newest.run_id, first.run_id} if is_old else {newest.run_id}
        assert set(store.stale_runs()) == stale
    with EventStore(path) as store:
        refresh_stale(store)
        assert store.summary(first.run_id) == current(store, first).summary
        with store.begin() as transaction:
            assert transaction.append(first.run_id, make_steps(1)) == 8


def test_an_old_database_that_cannot_be_upgraded_is_left_as_it_was(
    tmp_path, monkeypatch
):
    """A migration that fails in the middle undoes what it did."""
    path = copied(OLD[0], tmp_path)
    before = columns_of(path)

    def fail(connection):
        raise StoreError("no")

    monkeypatch.setattr(migrations, "_write_version", fail)
    with pytest.raises(StoreError, match="no"):
        EventStore(path)
    assert columns_of(path) == before


def test_a_newer_database_says_what_to_install(tmp_path):
    path = tmp_path / "newer.db"
    EventStore(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE alembic_version SET version_num = '0999'")
    connection.execute("UPDATE store_info SET value = '7.5.0'")
    connection.commit()
    connection.close()
    for read_only in (False, True):
        with pytest.raises(StoreError) as error:
            EventStore(path, read_only=read_only)
        assert str(error.value) == (
            f"The database {path} has schema 0999 of a newer version; install it with "
            "pip install 'warmup-insights>=7.5.0'"
        )


def test_a_database_says_which_version_it_needs(tmp_path):
    path = copied(OLD[0], tmp_path)
    EventStore(path).close()
    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT value FROM store_info").fetchall()
    connection.close()
    assert rows == [(NEEDS_VERSION,)]


@pytest.mark.parametrize("start", ["nothing", "old"])
def test_many_open_a_database_at_the_same_moment(start, tmp_path):
    """Threads, each with a store of its own, create or upgrade one file together."""
    path = tmp_path / "new.db" if start == "nothing" else copied(OLD[0], tmp_path)
    barrier = threading.Barrier(8)
    failures = []

    def open_it(number):
        barrier.wait()
        try:
            with EventStore(path) as store:
                add_run(store, f"run{number}")
        except StoreError as error:
            failures.append(error)

    threads = [threading.Thread(target=open_it, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    with EventStore(path) as store:
        assert len(store.runs()) == (8 if start == "nothing" else 10)


POSTGRES_SCHEMA = """
SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns
WHERE table_schema = 'public'
UNION ALL SELECT tablename, indexname, indexdef, '' FROM pg_indexes
WHERE schemaname = 'public'
UNION ALL SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), ''
FROM pg_constraint WHERE connamespace = 'public'::regnamespace ORDER BY 1, 2, 3
"""


def postgres_schema(url):
    """What a PostgreSQL database holds after it was opened by the store."""
    EventStore(url).close()
    engine = sa.create_engine(url.replace("postgresql", "postgresql+psycopg", 1))
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.execute(sa.text(POSTGRES_SCHEMA))]
        version = connection.execute(
            sa.text("SELECT * FROM alembic_version")
        ).scalar_one()
    engine.dispose()
    return rows, version


@pytest.mark.postgres
@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_an_old_postgres_database_goes_forward(old, postgres_server):
    url = postgres_server.new_database()
    engine = sa.create_engine(url.replace("postgresql", "postgresql+psycopg", 1))
    with engine.begin() as connection:
        for statement in statements_of(old):
            connection.execute(sa.text(statement.replace("WITHOUT ROWID", "")))
        version = old.stem.removeprefix("schema_")
        connection.execute(sa.text(f"INSERT INTO alembic_version VALUES ('{version}')"))
    engine.dispose()
    new = postgres_schema(postgres_server.new_database())
    assert postgres_schema(url) == new
    assert new[1] == NEWEST
    assert "ix_runs_newest" in {row[1] for row in new[0]}
