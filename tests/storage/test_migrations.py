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
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

from tests.storage.builders import add_run, make_steps
from warmup_insights.errors import StoreError
from warmup_insights.storage import EventStore
from warmup_insights.storage.schema import NEEDS_VERSION, SCHEMA_REVISION, metadata
from warmup_insights.storage.upgrade import MIGRATIONS, create_schema, upgrade_schema
from warmup_insights.version import __version__

FIXTURES = Path(__file__).parents[1] / "fixtures" / "databases"
GOLDEN = Path(__file__).parents[1] / "golden" / "schema.sql"
OLD = sorted(FIXTURES.glob("schema_*.db"))


def revisions():
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    config.set_main_option("path_separator", "os")
    script = ScriptDirectory.from_config(config)
    return [step.revision for step in script.walk_revisions()], script.get_heads()


def sql_of(path):
    """The schema of a SQLite file, one statement per line, blanks made equal."""
    connection = sqlite3.connect(path)
    rows = connection.execute(
        "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY type DESC, name"
    ).fetchall()
    connection.close()
    statements = (re.sub(r"\s+", " ", row[0]) for row in rows)
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


def migrated(tmp_path):
    """A file that went through every migration."""
    path = tmp_path / "migrated.db"
    engine = sa.create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        upgrade_schema(connection)
    engine.dispose()
    return path


def test_the_newest_migration_is_the_schema_version():
    names, heads = revisions()
    assert heads == [SCHEMA_REVISION] == [names[0]]
    assert names == [f"{n:04d}" for n in range(len(names), 0, -1)]


def test_this_version_can_read_its_own_schema():
    numbers = [tuple(map(int, v.split("."))) for v in (NEEDS_VERSION, __version__)]
    assert numbers[0] <= numbers[1]


def test_every_old_schema_is_kept_as_a_file():
    names, _ = revisions()
    assert [path.stem for path in OLD] == [f"schema_{n}" for n in sorted(names)]


def test_a_new_database_equals_a_migrated_one(tmp_path):
    new = tmp_path / "new.db"
    EventStore(new).close()
    assert columns_of(new) == columns_of(migrated(tmp_path))


def test_a_new_database_equals_the_golden_schema(tmp_path, request):
    new = tmp_path / "new.db"
    EventStore(new).close()
    text = ";\n".join(sql_of(new)) + ";\n"
    if request.config.getoption("--update-golden", default=False):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("old", OLD, ids=lambda path: path.stem)
def test_an_old_database_goes_forward_and_keeps_everything(old, tmp_path):
    path = copied(old, tmp_path)
    EventStore(path).close()
    new = tmp_path / "new.db"
    EventStore(new).close()
    assert columns_of(path) == columns_of(new)
    before = json.loads(old.with_suffix(".json").read_text(encoding="utf-8"))
    connection = sqlite3.connect(path)
    connection.row_factory = sqlite3.Row
    for table in set(before) - {"alembic_version", "store_info"}:
        rows = [dict(row) for row in connection.execute(f"SELECT * FROM {table}")]
        kept = [{name: row[name] for name in before[table][0]} for row in rows]
        assert sorted(kept, key=str) == sorted(before[table], key=str)
    connection.close()


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
        assert store.summary(first.run_id)["memory"] == {"num_kv_blocks": 1519}
        assert len(store.bucket_summaries(first.run_id)) == 2
        assert store.source("src0001").name == "server übung.log"
        assert store.stale_runs() == [newest.run_id]
    with EventStore(path) as store, store.begin() as transaction:
        assert transaction.append(first.run_id, make_steps(1)) == 8


def test_an_old_database_that_cannot_be_upgraded_is_left_as_it_was(
    tmp_path, monkeypatch
):
    """A migration that fails in the middle undoes what it did."""
    path = copied(OLD[0], tmp_path)
    before = columns_of(path)
    from warmup_insights.storage import upgrade

    def fail(connection):
        raise StoreError("no")

    monkeypatch.setattr(upgrade, "_write_needs_version", fail)
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


@pytest.mark.postgres
@pytest.mark.parametrize("make", [create_schema, upgrade_schema])
def test_both_ways_make_the_same_postgres_tables(postgres_url, make):
    engine = sa.create_engine(
        postgres_url.replace("postgresql", "postgresql+psycopg", 1)
    )
    with engine.begin() as connection:
        make(connection)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection)
        differences = compare_metadata(context, metadata)
        query = "SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'"
        names = {row[0] for row in connection.execute(sa.text(query))}
    engine.dispose()
    assert differences == []
    assert "ix_runs_newest" in names
