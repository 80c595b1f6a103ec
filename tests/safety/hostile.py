"""Databases as somebody might hand them over who means harm."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.helpers import ROOT
from warmup_insights.ingest.single import ingest_path
from warmup_insights.storage import EventStore

LOG = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_bars.log"
MARKUP = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>**b** $x$ [l](javascript:x) "
    "\x1b[2J\u202e ../../../../tmp/outside"
)
HOSTILE: tuple[Any, ...] = (
    MARKUP, "x" * 3_000_000, "[" * 200_000, '{"a":' * 50_000, "{}", "[]", "null", "1",
    '"text"', "not json", '{"kind":"no such"}', "-1", 2**62, -(2**62), 9e999, -1.5,
    b"\xff\xfe\x00", sqlite3.Binary(b"\x00" * 1000), None, "",
)  # fmt: skip
KEYS = ("run_id", "source_id", "digest", "seq")
"""What rows are found by; other values of these would only be other rows."""


def make_database(path: Path) -> str:
    """A database with one run of a log; the id of the run."""
    with EventStore(path) as store:
        (run_id,) = ingest_path(store, str(LOG)).run_ids
    return run_id


def columns(path: Path) -> Iterator[tuple[str, str]]:
    """The tables and columns whose values can be anything."""
    connection = sqlite3.connect(path)
    tables = connection.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' "
        "AND name NOT LIKE 'sqlite%' AND name <> 'alembic_version'"
    ).fetchall()
    for (table,) in tables:
        for row in connection.execute(
            "SELECT name FROM pragma_table_info(?)", (table,)
        ):
            if row[0] not in KEYS:
                yield table, row[0]
    connection.close()


def poison(path: Path, table: str, column: str, value: Any) -> bool:
    """Put a value into every row of a column; False where the database forbids it."""
    with sqlite3.connect(path) as connection:
        try:
            connection.execute(
                f'UPDATE OR IGNORE "{table}" SET "{column}" = ?', (value,)
            )
        except sqlite3.IntegrityError:
            return False
        finally:
            connection.commit()
    connection.close()
    return True


def run_script(path: Path, script: str) -> None:
    """Change a database as its owner can."""
    connection = sqlite3.connect(path)
    connection.executescript(script)
    connection.close()
