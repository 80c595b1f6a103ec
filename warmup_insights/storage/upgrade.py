"""Makes sure that a database has the newest schema, or says why it cannot."""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from warmup_insights.errors import StoreError
from warmup_insights.storage.plain import refuse_programs
from warmup_insights.storage.schema import (
    NEEDS_VERSION,
    SCHEMA_REVISION,
    metadata,
    store_info,
)

MIGRATIONS = Path(__file__).with_name("migrations")
_REVISION_TABLE = "alembic_version"
_UPGRADE_LOCK = 0x77617270
"""Number of the advisory lock that keeps two upgrades of one PostgreSQL apart."""


def is_current(engine: Engine, where: str) -> bool:
    """True when the database has the newest schema; it is only read.

    Raises StoreError for a database of another program or of a newer version.
    """
    with engine.connect() as connection:
        return stored_revision(connection, where) == SCHEMA_REVISION


def prepare_schema(engine: Engine, where: str) -> None:
    """Create or upgrade the tables where needed; StoreError if that cannot be.

    A database that is up to date is only read, so opening never waits for a writer.
    """
    if is_current(engine, where):
        return
    with engine.connect() as plain:
        connection = plain.execution_options(sqlite_begin="IMMEDIATE")
        with connection.begin():
            _take_turn(connection)
            revision = stored_revision(connection, where)
            if revision is None:
                create_schema(connection)
            elif revision != SCHEMA_REVISION:
                upgrade_schema(connection)


def stored_revision(connection: Connection, where: str) -> str | None:
    """The schema version in the database; None when it is empty.

    Raises StoreError for a database of another program or of a newer version.
    """
    refuse_programs(connection, where)
    tables = set(sa.inspect(connection).get_table_names())
    if store_info.name not in tables:
        if _is_foreign(connection, tables):
            raise StoreError(
                f"{where} is a database of another program; choose another one with --db"
            )
        return None
    revision = connection.execute(
        sa.text(f"SELECT version_num FROM {_REVISION_TABLE}")
    ).scalar_one()
    revision = str(revision)[:20]
    if not re.fullmatch("[0-9]{1,9}", revision) or int(revision) > int(SCHEMA_REVISION):
        raise StoreError(_too_new(connection, where, revision))
    return revision


def _is_foreign(connection: Connection, tables: set[str]) -> bool:
    if connection.dialect.name == "sqlite":
        return bool(tables)
    return bool(tables & {*metadata.tables, _REVISION_TABLE})


def _too_new(connection: Connection, where: str, revision: str) -> str:
    needed = connection.execute(
        sa.select(store_info.c.value).where(store_info.c.name == "needs_version")
    ).scalar()
    return (
        f"The database {where} has schema {revision} of a newer version; install "
        f"it with pip install 'warmup-insights>={str(needed or 'unknown')[:20]}'"
    )


def _take_turn(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))


def create_schema(connection: Connection) -> None:
    """Create the newest tables at once; the same as running every migration."""
    metadata.create_all(connection)
    connection.execute(
        sa.text(
            f"CREATE TABLE {_REVISION_TABLE} (version_num VARCHAR(32) NOT NULL, "
            f"CONSTRAINT {_REVISION_TABLE}_pkc PRIMARY KEY (version_num))"
        )
    )
    connection.execute(
        sa.text(f"INSERT INTO {_REVISION_TABLE} VALUES (:revision)"),
        {"revision": SCHEMA_REVISION},
    )
    _write_needs_version(connection)


def upgrade_schema(connection: Connection, revision: str = "head") -> None:
    """Run the migrations up to a revision, in the transaction of the connection."""
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
    _write_needs_version(connection)


def _write_needs_version(connection: Connection) -> None:
    connection.execute(store_info.delete().where(store_info.c.name == "needs_version"))
    connection.execute(
        store_info.insert().values(name="needs_version", value=NEEDS_VERSION)
    )
