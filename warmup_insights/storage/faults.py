"""What went wrong with a database, in one sentence a person can act on."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from warmup_insights.errors import StoreBusyError, StoreError

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
    (
        "readonly database",
        "The database {where} cannot be written; check the permissions of the file and "
        "its folder, or choose another file with --db",
    ),
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


class ForeignValueError(Exception):
    """A stored value has another type than its column."""


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
    return StoreError(f"The database {where} failed: {first_line}")
