"""Writes docs/schema.md from a database that went through every migration.

`python docs/make_schema.py` rewrites the page; `--check` exits 1 when it is not current.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from warmup_insights.storage.schema import SCHEMA_REVISION, metadata
from warmup_insights.storage.upgrade import upgrade_schema

PAGE = Path(__file__).with_name("schema.md")
HEAD = f"""\
# Database schema

Version {SCHEMA_REVISION}, as in the table `alembic_version`. This page is made by
`python docs/make_schema.py`; a test compares it with a migrated database.

Times are seconds since the epoch in UTC, sizes bytes, durations seconds; what is unknown
is null, never 0. JSON is kept as text. The tables are the same in SQLite and PostgreSQL.
"""


def page() -> str:
    """The text of the page."""
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        upgrade_schema(connection)
        parts = [HEAD, *(_table(connection, table) for table in _tables(connection))]
    engine.dispose()
    return "\n".join(parts)


def _tables(connection: Connection) -> list[str]:
    """The names in the order of `schema.py`: what belongs to a thing stands after it."""
    stored = set(sa.inspect(connection).get_table_names()) - {"alembic_version"}
    return [name for name in metadata.tables if name in stored] + sorted(
        stored - set(metadata.tables)
    )


def _table(connection: Connection, name: str) -> str:
    described = metadata.tables.get(name)
    about = "" if described is None else described.info.get("doc", "")
    lines = [f"## {name}", "", about, "", "| column | type | | |", "|---|---|---|---|"]
    lines += _columns(connection, name)
    indexes = list(_indexes(connection, name))
    if indexes:
        lines += ["", f"Indexes: {'; '.join(indexes)}."]
    return "\n".join(lines) + "\n"


def _columns(connection: Connection, table: str) -> Iterator[str]:
    query = sa.text('SELECT name, type, "notnull", pk FROM pragma_table_info(:table)')
    foreign = {
        row[0]: f"{row[1]}.{row[2]}"
        for row in connection.execute(
            sa.text(
                'SELECT "from", "table", "to" FROM pragma_foreign_key_list(:table)'
            ),
            {"table": table},
        )
    }
    for name, kind, is_required, key in connection.execute(query, {"table": table}):
        notes = ["key"] if key else ["required"] if is_required else []
        if name in foreign:
            notes.append(f"of {foreign[name]}")
        yield f"| `{name}` | {kind.lower()} | {', '.join(notes)} | {_about(table, name)} |"


def _about(table: str, column: str) -> str:
    described = metadata.tables.get(table)
    if described is None or column not in described.c:
        return ""
    return described.c[column].doc or ""


def _indexes(connection: Connection, table: str) -> Iterator[str]:
    query = sa.text(
        "SELECT sql FROM sqlite_master WHERE type = 'index' AND tbl_name = :table "
        "AND sql IS NOT NULL ORDER BY name"
    )
    for (statement,) in connection.execute(query, {"table": table}):
        yield f"`{statement[statement.index('(') :]}`"


def main() -> int:
    """Write the page, or compare it."""
    text = page()
    if "--check" in sys.argv[1:]:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
