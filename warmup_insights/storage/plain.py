"""A SQLite database from somebody else may hold more than tables: programs.

A trigger runs when a row is written, a view or a generated column when one is read, and
either can run without an end. What this program makes holds none, so nothing is lost by
refusing them. They cannot call unsafe functions: see `trusted_schema` in `engine.py`.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from warmup_insights.errors import StoreError
from warmup_insights.storage.schema import metadata

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
    """Raise StoreError when a SQLite database would run something of its own."""
    if connection.dialect.name != "sqlite":
        return
    ours = [*metadata.tables, "alembic_version"]
    found = connection.execute(_QUERY, {"ours": ours}).first()
    if found is not None:
        raise StoreError(
            f"{where} holds a {found[0]} ({str(found[1])[:80]!r}) that this program did "
            "not make and will not run; take the tables over into a new database, or "
            "choose another file with --db"
        )
