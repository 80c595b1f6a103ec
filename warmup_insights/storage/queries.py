"""The reads of runs, their events and summaries; each takes a connection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Row

from warmup_insights.errors import StoreError
from warmup_insights.model.run import RunRecord
from warmup_insights.storage import schema
from warmup_insights.storage.faults import ForeignValueError
from warmup_insights.storage.summaries import read_bucket_row, read_summary

_EQUAL = frozenset(
    {"label", "source_id", "source_kind", "engine", "version", "model",
     "device_kind", "status", "synthetic"}
)  # fmt: skip
_SEARCHED = (
    "run_id",
    "label",
    "notes",
    "model",
    "source_name",
    "device_name",
    "engine",
)
_LISTED = (
    "run_id",
    "label",
    "notes",
    "engine",
    "version",
    "model",
    "device_kind",
    "device_name",
    "status",
    "started_at",
    "created_at",
    "updated_at",
    "heartbeat_at",
    "synthetic",
    "source_kind",
    "source_name",
    "num_events",
    "process",
)
_FIGURES = ("ready_s", "warmup_s", "captured_percent", "num_kv_blocks", "missed")
_NUMBERS = (
    *_FIGURES,
    "started_at",
    "created_at",
    "updated_at",
    "heartbeat_at",
    "num_events",
)
_NUMERIC = {int, float, bool, type(None)}
_INFINITE = frozenset({float("inf"), float("-inf")})
_started = sa.func.coalesce(schema.runs.c.started_at, schema.runs.c.created_at)


def runs(
    connection: Connection,
    *,
    limit: int | None = None,
    offset: int = 0,
    **filters: Any,
) -> list[RunRecord]:
    """Runs that pass all filters, newest first."""
    query = (
        sa.select(schema.runs)
        .where(*_conditions(filters))
        .order_by(_started.desc(), schema.runs.c.run_id.desc())
        .limit(limit)
        .offset(offset)
    )
    return [_run_record(row) for row in connection.execute(query)]


def count_runs(connection: Connection, **filters: Any) -> int:
    """How many runs pass all filters."""
    query = sa.select(sa.func.count()).select_from(schema.runs)
    return int(connection.execute(query.where(*_conditions(filters))).scalar_one())


def run_table(
    connection: Connection,
    *,
    order: str = "newest",
    descending: bool = True,
    limit: int | None = None,
    offset: int = 0,
    **filters: Any,
) -> list[dict[str, Any]]:
    """Runs with the figures that lists show, as plain columns; unknown sorts last."""
    summary = schema.run_summaries.c
    columns: dict[str, sa.ColumnElement[Any]] = {
        **{name: schema.runs.c[name] for name in _LISTED},
        **{name: summary[name] for name in _FIGURES},
    }
    keys = {"newest": _started, **columns}
    if order not in keys:
        raise TypeError(f"no such order: {order}")
    key = keys[order].desc() if descending else keys[order].asc()
    query = (
        sa.select(*columns.values())
        .select_from(
            schema.runs.outerjoin(
                schema.run_summaries, schema.runs.c.run_id == summary.run_id
            )
        )
        .where(*_conditions(filters))
        .order_by(
            key if order == "newest" else key.nulls_last(), schema.runs.c.run_id.desc()
        )
        .limit(limit)
        .offset(offset)
    )
    return [_plain(row) for row in connection.execute(query).mappings()]


def newest_change(connection: Connection) -> tuple[int, float]:
    """How many runs there are, and when one of them last changed."""
    columns = schema.runs.c
    query = sa.select(sa.func.count(), sa.func.max(columns.updated_at))
    count, changed = connection.execute(query).one()
    return int(count), float(changed or 0.0)


def distinct(connection: Connection, column: str) -> list[str]:
    """The values of a column of `runs`, in order, without null."""
    known = schema.runs.c[column]
    query = sa.select(known).where(known.is_not(None)).distinct().order_by(known)
    return [str(value) for value in connection.execute(query).scalars()]


def event_table(
    connection: Connection, run_id: str, kinds: Iterable[str], **equal: Any
) -> list[dict[str, Any]]:
    """The typed columns of some kinds of events of a run, in order, without JSON.

    `equal` names columns and the values they must have.
    """
    columns = [column for column in schema.events.c if column.name != "payload"]
    query = (
        sa.select(*columns)
        .where(schema.events.c.run_id == run_id, schema.events.c.kind.in_(list(kinds)))
        .where(*(schema.events.c[name] == value for name, value in equal.items()))
        .order_by(schema.events.c.seq)
    )
    return [dict(row) for row in connection.execute(query).mappings()]


def _conditions(filters: dict[str, Any]) -> list[sa.ColumnElement[bool]]:
    conditions = []
    for name, value in filters.items():
        if value is None:
            continue
        if name in _EQUAL:
            conditions.append(schema.runs.c[name] == value)
        elif name == "since":
            conditions.append(_started >= value)
        elif name == "until":
            conditions.append(_started < value)
        elif name == "text":
            columns = [schema.runs.c[column] for column in _SEARCHED]
            conditions.append(
                sa.or_(
                    *(column.icontains(value, autoescape=True) for column in columns)
                )
            )
        else:
            raise TypeError(f"no such filter: {name}")
    return conditions


def run(connection: Connection, run_id: str) -> RunRecord:
    """The run with an id. Raises StoreError when there is none."""
    row = connection.execute(
        sa.select(schema.runs).where(schema.runs.c.run_id == run_id)
    ).first()
    if row is None:
        raise StoreError(_no_run(run_id))
    return _run_record(row)


def find_run(connection: Connection, text: str) -> RunRecord:
    """The run that a user means: `latest`, an id, a label, or the start of an id.

    Raises StoreError when there is none or more than one.
    """
    if text == "latest":
        newest = runs(connection, limit=1)
        if not newest:
            raise StoreError(
                "The database has no runs yet; add one with `warmup-insights ingest FILE`"
            )
        return newest[0]
    starts = schema.runs.c.run_id.istartswith(text, autoescape=True)
    for condition in (
        schema.runs.c.run_id == text,
        schema.runs.c.label == text,
        starts,
    ):
        query = sa.select(schema.runs).where(condition)
        found = connection.execute(query.order_by(_started.desc()).limit(6)).all()
        if len(found) == 1:
            return _run_record(found[0])
        if found and text:
            raise StoreError(_several_runs(text, [row.run_id for row in found]))
    raise StoreError(_no_run(text))


def _no_run(text: str) -> str:
    return f"There is no run {text[:60]!r}; `warmup-insights runs` lists them"


def _several_runs(text: str, run_ids: list[str]) -> str:
    shown = ", ".join(run_ids[:5]) + (", ..." if len(run_ids) > 5 else "")
    return f"{text[:60]!r} means several runs: {shown}; give one of these ids"


def source_of_run(connection: Connection, run_id: str) -> str | None:
    """The source id of a run. Raises StoreError when there is no such run."""
    return run(connection, run_id).source_id


def payloads(
    connection: Connection,
    run_id: str,
    *,
    kinds: Iterable[str] | None,
    after_seq: int,
    limit: int,
) -> list[tuple[int, str, str]]:
    """Up to `limit` events as `(seq, kind, payload)`, in order."""
    query = (
        sa.select(schema.events.c.seq, schema.events.c.kind, schema.events.c.payload)
        .where(schema.events.c.run_id == run_id, schema.events.c.seq > after_seq)
        .order_by(schema.events.c.seq)
        .limit(limit)
    )
    if kinds is not None:
        query = query.where(schema.events.c.kind.in_(list(kinds)))
    return [(row[0], row[1], row[2]) for row in connection.execute(query)]


def summaries(
    connection: Connection,
    run_ids: Iterable[str] | None,
    *,
    with_lists: bool = True,
) -> dict[str, dict[str, Any]]:
    """Run id to summary, for all runs or for some; see `read_summary` for the lists."""
    query = sa.select(schema.run_summaries.c.run_id, schema.run_summaries.c.summary)
    if run_ids is not None:
        query = query.where(schema.run_summaries.c.run_id.in_(list(run_ids)))
    return {
        row[0]: read_summary(row[1], with_lists=with_lists)
        for row in connection.execute(query)
    }


def stale_runs(connection: Connection) -> list[str]:
    """Ids of runs without a summary, or with events newer than it."""
    joined = schema.runs.outerjoin(
        schema.run_summaries, schema.runs.c.run_id == schema.run_summaries.c.run_id
    )
    query = (
        sa.select(schema.runs.c.run_id)
        .select_from(joined)
        .where(
            sa.or_(
                schema.run_summaries.c.run_id.is_(None),
                schema.run_summaries.c.num_events != schema.runs.c.num_events,
            )
        )
    )
    return list(connection.execute(query).scalars())


def buckets(connection: Connection, run_id: str) -> list[dict[str, Any]]:
    """The bucket summaries of a run, by phase and dimensions."""
    table = schema.bucket_summaries
    query = (
        sa.select(table)
        .where(table.c.run_id == run_id)
        .order_by(table.c.phase, table.c.d0, table.c.d1, table.c.d2, table.c.d3)
    )
    return [read_bucket_row(dict(row)) for row in connection.execute(query).mappings()]


def size_bytes(connection: Connection) -> int:
    """What the database takes on disk."""
    if connection.dialect.name == "sqlite":
        query = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    else:
        query = "SELECT pg_database_size(current_database())"
    return int(connection.execute(sa.text(query)).scalar_one())


def _run_record(row: Row[Any]) -> RunRecord:
    return RunRecord(**_plain(row._mapping))


def _plain(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row without bytes, which no column of ours holds, and with figures for figures."""
    found = dict(row)
    if bytes in map(type, found.values()):
        raise ForeignValueError("bytes")
    if not {type(found.get(name)) for name in _NUMBERS} <= _NUMERIC:
        raise ForeignValueError("a text for a number")
    if not _INFINITE.isdisjoint(found.values()):
        raise ForeignValueError("a number that is none")
    return found
