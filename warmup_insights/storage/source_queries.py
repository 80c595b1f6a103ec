"""The reads of sources and their lines; each takes a connection."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from warmup_insights.errors import StoreError
from warmup_insights.model.run import SourceRecord
from warmup_insights.storage import schema
from warmup_insights.storage.text import from_json


def sources(
    connection: Connection, *, limit: int | None = None, offset: int = 0
) -> list[SourceRecord]:
    """Sources, the last ingested first."""
    table = schema.sources
    query = sa.select(table).order_by(table.c.ingested_at.desc(), table.c.source_id)
    found = connection.execute(query.limit(limit).offset(offset))
    return [_source_record(row) for row in found]


def source(connection: Connection, source_id: str) -> SourceRecord:
    """The source with an id. Raises StoreError when there is none."""
    row = connection.execute(
        sa.select(schema.sources).where(schema.sources.c.source_id == source_id)
    ).first()
    if row is None:
        raise StoreError(f"There is no source {source_id[:60]!r}")
    return _source_record(row)


def source_with_digest(connection: Connection, digest: str) -> SourceRecord | None:
    """The source with exactly these bytes, if it is stored."""
    row = connection.execute(
        sa.select(schema.sources).where(schema.sources.c.digest == digest)
    ).first()
    return None if row is None else _source_record(row)


def sources_with_head(connection: Connection, head_digest: str) -> list[SourceRecord]:
    """Sources that begin with the same bytes, the longest first."""
    query = (
        sa.select(schema.sources)
        .where(schema.sources.c.head_digest == head_digest)
        .order_by(schema.sources.c.size_bytes.desc())
    )
    return [_source_record(row) for row in connection.execute(query)]


def beginnings(connection: Connection, head_digest: str) -> list[tuple[int, str, str]]:
    """Size, digest and id of the sources that begin with the same bytes.

    The longest first. There may be thousands: their reports are not read.
    """
    table = schema.sources
    query = (
        sa.select(table.c.size_bytes, table.c.digest, table.c.source_id)
        .where(table.c.head_digest == head_digest)
        .order_by(table.c.size_bytes.desc())
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def sources_naming(
    connection: Connection, head_digest: str, digest: str
) -> list[SourceRecord]:
    """Sources that begin so and have, or name in their report, a digest."""
    table = schema.sources
    query = sa.select(table).where(
        table.c.head_digest == head_digest,
        sa.or_(table.c.digest == digest, table.c.report.contains(digest)),
    )
    return [_source_record(row) for row in connection.execute(query)]


def source_lines(
    connection: Connection, source_id: str
) -> list[tuple[int, str | None, str]]:
    """The kept lines of a source as `(line, rule or None, text)`, in order."""
    query = (
        sa.select(
            schema.source_lines.c.line,
            schema.source_lines.c.rule,
            schema.source_lines.c.text,
        )
        .where(schema.source_lines.c.source_id == source_id)
        .order_by(schema.source_lines.c.line)
    )
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def _source_record(row: Row[Any]) -> SourceRecord:
    values = dict(row._mapping)
    values["dialects"] = tuple(from_json(values["dialects"]))
    values["report"] = from_json(values["report"])
    return SourceRecord(**values)
