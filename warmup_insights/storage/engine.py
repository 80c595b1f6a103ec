"""SQLAlchemy engines for the databases that the store can use.

SQLite connections do not begin transactions behind our back: a read begins deferred,
a write begins IMMEDIATE, so that it waits for other writers instead of failing later when a
read becomes a write.
"""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import URL, Connection, Engine
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import Pool, QueuePool, StaticPool

from warmup_insights.errors import StoreBusyError, StoreError
from warmup_insights.storage.rows import ForeignValueError

_UNWRITABLE = (
    "The database {where} cannot be written; check the permissions of the file and its "
    "folder, or choose another file with --db"
)
_SENTENCES = (
    (
        "file is not a database",
        "{where} is not a SQLite database; choose another file with --db",
    ),
    (
        "unable to open database file",
        "The database {where} cannot be opened; check that its folder exists and that "
        "you may write there, or choose another file with --db",
    ),
    ("readonly database", _UNWRITABLE),
    (
        "disk is full",
        "The disk of the database {where} is full; free some space and try again",
    ),
    (
        "disk I/O error",
        "The disk of the database {where} reports an error; check the disk, or choose "
        "another file with --db",
    ),
    (
        "malformed",
        "The database {where} is damaged; restore a copy, or start a new one with --db",
    ),
)
_UNREACHABLE = (
    "The database server of {where} cannot be reached; check the URL and that the "
    "server runs: {reason}"
)
_LOCKED = (
    "The database {where} stayed locked by another program; try again when it is done"
)


_FOREIGN = (
    "The database {where} holds a value that this program would not have stored; restore "
    "a copy, or start a new one with --db"
)


@contextmanager
def explained(where: str) -> Iterator[None]:
    """Turn errors of the driver into a StoreError that names the database."""
    try:
        yield
    except (SQLAlchemyError, sqlite3.Error) as error:
        raise explanation(error, where) from error
    except (ForeignValueError, msgspec.DecodeError, RecursionError) as error:
        raise StoreError(_FOREIGN.format(where=where)) from error


def explanation(error: Exception, where: str) -> StoreError:
    """The StoreError for an error of SQLAlchemy or of a driver."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig else error
    text = str(cause)
    if "database is locked" in text or "database table is locked" in text:
        return StoreBusyError(_LOCKED.format(where=where))
    for part, sentence in _SENTENCES:
        if part in text:
            return StoreError(sentence.format(where=where))
    first_line = text.strip().split("\n", 1)[0][:300]
    if isinstance(error, DBAPIError) and error.statement is None:
        return StoreError(_UNREACHABLE.format(where=where, reason=first_line))
    return StoreError(
        f"The database {where} failed: {first_line}; try again, or choose another with --db"
    )


BUSY_TIMEOUT_S = 30.0
"""How long a write waits for other writers."""
PAGE_SIZE = 8192
"""Bytes; of a new file only. Events are long rows: 14 % less time than with 4096."""
MAX_VALUE = 256 << 20
"""Bytes of a row at most; a foreign database may hold larger ones."""
CONNECT_TIMEOUT_S = 10
"""How long to wait for a PostgreSQL server."""


def server_url(database: str | Path) -> URL | None:
    """The URL of a database on a PostgreSQL server; None for SQLite.

    Raises StoreError for a URL of anything else.
    """
    text = str(database)
    if isinstance(database, Path) or "://" not in text:
        return None
    try:
        url = sa.make_url(text)
    except ArgumentError:
        raise StoreError(
            "The database URL cannot be read; write a path, or "
            "postgresql://user@host/name"
        ) from None
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StoreError(
            f"The database URL starts with {backend}; use sqlite or postgresql"
        )
    return None


def open_engine(
    place: URL | Path | None, *, read_only: bool, busy_timeout_s: float
) -> Engine:
    """An engine for a server, a SQLite file, or memory; nothing is connected yet."""
    if isinstance(place, URL):
        return _postgres_engine(place, read_only=read_only)
    uri = "file::memory:"
    pool: type[Pool] = StaticPool
    if place is not None:
        check_path(place, read_only=read_only)
        if not read_only and place.exists() and not _may(place, os.W_OK):
            raise StoreError(_UNWRITABLE.format(where=place))
        mode = _read_mode(place) if read_only else "mode=rwc"
        uri = f"{place.as_uri()}?{mode}"
        pool = QueuePool

    def connect() -> sqlite3.Connection:
        connection = sqlite3.connect(
            uri,
            uri=True,
            timeout=busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            _set_up(connection, read_only=read_only)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def begin(connection: Connection) -> None:
        mode = connection.get_execution_options().get("sqlite_begin", "DEFERRED")
        connection.exec_driver_sql(f"BEGIN {mode}")

    engine = sa.create_engine("sqlite://", creator=connect, poolclass=pool)
    sa.event.listen(engine, "begin", begin)
    return engine


def _set_up(connection: sqlite3.Connection, *, read_only: bool) -> None:
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")
    if sys.version_info >= (3, 11):
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE)
    connection.execute("PRAGMA synchronous = NORMAL")
    if read_only:
        connection.execute("PRAGMA query_only = ON")
    else:
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")


def check_path(path: Path, *, read_only: bool) -> None:
    """Raises StoreError for what cannot be a database file, or cannot be read."""
    try:
        if stat.S_ISDIR(os.stat(path).st_mode):
            raise StoreError(
                f"{path} is a folder; --db takes the name of a database file"
            )
    except (FileNotFoundError, NotADirectoryError):
        _check_missing(path, read_only=read_only)
    except OSError as error:
        raise StoreError(
            f"The database {path} cannot be opened: {error.strerror}; check its path and "
            "the permissions of its folders, or choose another file with --db"
        ) from None
    else:
        if not _may(path, os.R_OK):
            raise StoreError(
                f"No permission to read the database {path}; change its mode, run as its "
                "owner, or choose another file with --db"
            )


def _check_missing(path: Path, *, read_only: bool) -> None:
    if read_only:
        raise StoreError(
            f"There is no database {path} yet; add runs with `warmup-insights ingest "
            "LOG`, or name another with --db"
        )
    if not path.parent.is_dir():
        raise StoreError(
            f"The folder {path.parent} does not exist; create it, or choose another "
            "file with --db"
        )


def _read_mode(path: Path) -> str:
    """How a database is opened that is only read.

    One in WAL mode needs a log and a shared-memory file beside it. The last connection
    removes them when it is closed, unless it is `mode=ro`. They cannot be made in a
    folder that is read-only: `immutable=1` does without, where there is no log to share.
    """
    log = path.with_name(path.name + "-wal")
    has_log = log.exists() and log.stat().st_size > 0
    if not _may(path.parent, os.W_OK):
        return "mode=ro" if has_log else "mode=ro&immutable=1"
    return "mode=rw" if _may(path, os.W_OK) else "mode=ro"


def _may(path: Path, access: int) -> bool:
    effective = os.access in os.supports_effective_ids
    return os.access(path, access, effective_ids=effective)


def _postgres_engine(url: URL, *, read_only: bool) -> Engine:
    options = {"postgresql_readonly": True} if read_only else {}
    try:
        return sa.create_engine(
            url,
            pool_pre_ping=True,
            connect_args={"connect_timeout": CONNECT_TIMEOUT_S},
            execution_options=options,
        )
    except ModuleNotFoundError:
        raise StoreError(
            "A PostgreSQL database needs a driver; install it with "
            "pip install 'warmup-insights[postgres]'"
        ) from None


def use_wal(engine: Engine) -> None:
    """Switch a database file to WAL: readers and the writer do not wait for each other.

    Kept in the file, so usually done already.
    Where it cannot be (a network disk, or another writer at this moment) the
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
