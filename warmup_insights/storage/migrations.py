"""Makes sure that a database has the newest schema, or raises why it cannot.

A new database gets all tables at once. An older one goes through the steps it has not
seen, in one transaction. Its version is the number in the table `alembic_version`.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from warmup_insights.errors import StoreError
from warmup_insights.storage.schema import metadata, store_info, version_table

NEEDS_VERSION = "0.1.0"
"""The first version of warmup-insights that can read the newest schema."""
_UPGRADE_LOCK = 0x77617270
"""Number of the advisory lock that keeps two upgrades of one PostgreSQL apart."""


def _recording_process(connection: Connection) -> None:
    _add_columns(connection, "runs", "process TEXT")


def _one_fold(connection: Connection) -> None:
    # Summaries of an older fold are made anew from the events when a run is read.
    _add_columns(
        connection, "run_summaries", "fold INTEGER", "wall_s FLOAT", "doubtful TEXT"
    )
    _add_columns(
        connection, "bucket_summaries",
        "gc_s FLOAT", "compiled INTEGER", "resolution_s FLOAT", "compile_s FLOAT",
        "run TEXT", "capture TEXT",
    )  # fmt: skip


def _add_columns(connection: Connection, table: str, *columns: str) -> None:
    for column in columns:
        connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column}"))


FIRST = "0001"
"""The schema of the first version, which no step leads to."""
MIGRATIONS: list[tuple[str, Callable[[Connection], None]]] = [
    ("0002", _recording_process),
    ("0003", _one_fold),
]
"""Each version of the schema and the step to it from the one before."""
NEWEST = MIGRATIONS[-1][0]


def is_current(engine: Engine, where: str) -> bool:
    """True when the database has the newest schema; it is only read.

    Raises StoreError for a database of another program or of a newer version.
    """
    with engine.connect() as connection:
        return stored_version(connection, where) == NEWEST


def prepare_schema(engine: Engine, where: str) -> None:
    """Create or upgrade the tables where needed; StoreError if that cannot be.

    A database that is up to date is only read, so opening never waits for a writer.
    """
    if is_current(engine, where):
        return
    with engine.connect() as plain:
        connection = plain.execution_options(sqlite_begin="IMMEDIATE")
        with connection.begin():
            if connection.dialect.name == "postgresql":
                lock = sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)
                connection.execute(sa.select(lock))
            version = stored_version(connection, where)
            if version is None:
                metadata.create_all(connection)
            else:
                for number, migrate in MIGRATIONS:
                    if number > version:
                        migrate(connection)
            _write_version(connection)


def stored_version(connection: Connection, where: str) -> str | None:
    """The schema version in the database; None when it is empty.

    Raises StoreError for a database of another program or of a newer version.
    """
    refuse_programs(connection, where)
    tables = set(sa.inspect(connection).get_table_names())
    if store_info.name not in tables:
        is_sqlite = connection.dialect.name == "sqlite"
        if tables if is_sqlite else tables & set(metadata.tables):
            raise StoreError(
                f"{where} is a database of another program; choose another one with --db"
            )
        return None
    query = sa.text("SELECT version_num FROM alembic_version")
    version = str(connection.execute(query).scalar_one())[:20]
    if version not in {FIRST, *(number for number, _ in MIGRATIONS)}:
        raise StoreError(_too_new(connection, where, version))
    return version


def _too_new(connection: Connection, where: str, version: str) -> str:
    needed = connection.execute(
        sa.select(store_info.c.value).where(store_info.c.name == "needs_version")
    ).scalar()
    return (
        f"The database {where} has schema {version} of a newer version; install "
        f"it with pip install 'warmup-insights>={str(needed or 'unknown')[:20]}'"
    )


def _write_version(connection: Connection) -> None:
    connection.execute(version_table.delete())
    connection.execute(version_table.insert().values(version_num=NEWEST))
    connection.execute(store_info.delete().where(store_info.c.name == "needs_version"))
    connection.execute(
        store_info.insert().values(name="needs_version", value=NEEDS_VERSION)
    )


_PROGRAMS = """
SELECT type, name FROM sqlite_master
WHERE type = 'trigger' OR (type = 'view' AND lower(name) IN :ours)
    OR (type = 'table' AND lower(name) IN :ours AND sql LIKE 'create virtual%')
UNION ALL
SELECT 'generated column', master.name || '.' || info.name
FROM sqlite_master AS master, pragma_table_xinfo(master.name) AS info
WHERE master.type = 'table' AND lower(master.name) IN :ours
    AND master.sql NOT LIKE 'create virtual%' AND info.hidden <> 0
LIMIT 1
"""
_QUERY = sa.text(_PROGRAMS).bindparams(sa.bindparam("ours", expanding=True))


def refuse_programs(connection: Connection, where: str) -> None:
    """Raise StoreError when a SQLite database would run something of its own.

    A trigger runs when a row is written, a view or a generated column when one is read,
    and either can run without an end. What this program makes holds none, so nothing is
    lost by refusing them. They cannot call unsafe functions: `trusted_schema` is off.
    """
    if connection.dialect.name != "sqlite":
        return
    found = connection.execute(_QUERY, {"ours": list(metadata.tables)}).first()
    if found is not None:
        raise StoreError(
            f"{where} holds a {found[0]} ({str(found[1])[:80]!r}) that this program did "
            "not make and will not run; take the tables over into a new database, or "
            "choose another file with --db"
        )
