"""Care of the database file: its write-ahead log, and giving space back."""

from __future__ import annotations

import sqlite3

from sqlalchemy.engine import Engine


def use_wal(engine: Engine) -> None:
    """Switch a database file to WAL: readers and the writer do not wait for each other.

    Kept in the file, so usually done already.
    Where it cannot be (a network disk, or somebody else is writing at this moment) the
    database works without it, and the next to open it tries again.
    """
    if engine.dialect.name != "sqlite":
        return
    raw = engine.raw_connection()
    try:
        connection = raw.driver_connection
        assert isinstance(connection, sqlite3.Connection)
        if connection.execute("PRAGMA journal_mode").fetchone() == ("wal",):
            return
        connection.execute("PRAGMA journal_mode = WAL")
    except sqlite3.OperationalError as error:
        if "locked" not in str(error):
            raise
    finally:
        raw.close()


def vacuum(engine: Engine) -> None:
    """Rewrite the database without the space of what was removed."""
    raw = engine.raw_connection()
    try:
        connection = raw.driver_connection
        assert connection is not None
        if engine.dialect.name == "sqlite":
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        else:
            connection.rollback()
            connection.autocommit = True
            connection.execute("VACUUM ANALYZE")
            connection.autocommit = False
    finally:
        raw.close()
