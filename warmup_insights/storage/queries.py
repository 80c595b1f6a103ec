"""The reads of the store: runs, events, summaries, sources."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from warmup_insights.errors import SeveralRunsError, StoreError
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.model.summary import FOLD, BucketRow, RunSummary
from warmup_insights.storage.rows import (
    COLUMNS,
    ForeignValueError,
    clean_text,
    read_bucket_row,
    read_summary,
)
from warmup_insights.storage.schema import (
    bucket_summaries,
    events,
    run_summaries,
    runs,
    source_lines,
    sources,
)

_EQUAL = frozenset(
    {"label", "source_id", "source_kind", "engine", "version", "model",
     "device_kind", "status", "synthetic"}
)  # fmt: skip
_SEARCHED = (
    "run_id", "label", "notes", "model", "source_name", "device_name", "engine",
)  # fmt: skip
_TIMES = ("started_at", "created_at", "updated_at", "heartbeat_at")
RUN_COLUMNS = (
    "run_id", "label", "notes", "engine", "version", "model", "device_kind",
    "device_name", "status", *_TIMES, "synthetic", "source_kind", "source_name",
    "num_events", "process", *COLUMNS, "doubtful", "start",
)  # fmt: skip
"""Of a run list: columns of a run, then those of its summary."""
SHORTEST_START = 4
"""Fewer characters of an id are likelier a slip than a name."""
_NUMBERS = (*COLUMNS, *_TIMES, "num_events")
_NUMERIC = {int, float, bool, type(None)}
_INFINITE = frozenset({float("inf"), float("-inf")})
_started = sa.func.coalesce(runs.c.started_at, runs.c.created_at)

# What is read for each of many logs: a query that is built anew takes twice as long.
_BEGINNINGS = sa.text(
    "SELECT size_bytes, digest, source_id FROM sources WHERE head_digest = :head "
    "ORDER BY size_bytes DESC"
)
_SOURCES = f"SELECT {', '.join(sources.c.keys())} FROM sources"
_WITH_DIGEST = sa.text(f"{_SOURCES} WHERE digest = :digest")
_NAMING = sa.text(
    f"{_SOURCES} WHERE head_digest = :head "
    "AND (digest = :digest OR report LIKE '%' || :digest || '%')"
)
_RUN_IDS = sa.text(
    "SELECT run_id FROM runs WHERE source_id = :source_id ORDER BY ordinal"
)
# What a drainer reads each second, maybe in the process of an engine.
_RUN = sa.select(runs).where(runs.c.run_id == sa.bindparam("id"))
_SPOOLS = sa.text(
    "SELECT name, value FROM store_info WHERE substr(name, 1, :length) = :prefix"
)

T = TypeVar("T")


class Queries(ABC):
    """What can be read; a subclass has the connection.

    Filters of runs: label, source_id, source_kind, engine, version, model, device_kind,
    status, synthetic (equal); since, until (start time in seconds); is_dated (has a time
    of its own); text (part of a name, model, label or note). A filter that is None is none.
    """

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Connection]:
        """A connection to read from."""

    def _fetch(
        self, query: sa.Executable, make: Callable[[Any], T], **values: Any
    ) -> list[T]:
        with self._reading() as connection:
            return [make(row) for row in connection.execute(query, values)]

    def runs(
        self, *, limit: int | None = None, offset: int = 0, **filters: Any
    ) -> list[RunRecord]:
        """Runs that pass all filters, newest first."""
        query = (
            sa.select(runs)
            .where(*_conditions(filters))
            .order_by(_started.desc(), runs.c.run_id.desc())
            .limit(limit)
            .offset(offset)
        )
        return self._fetch(query, _run_record)

    def count_runs(self, **filters: Any) -> int:
        """How many runs pass all filters."""
        query = sa.select(sa.func.count()).select_from(runs)
        return int(self._fetch(query.where(*_conditions(filters)), _first)[0])

    def run_table(
        self,
        *,
        order: str = "newest",
        descending: bool = True,
        limit: int | None = None,
        offset: int = 0,
        **filters: Any,
    ) -> list[dict[str, Any]]:
        """Rows of a run list, without reading any summary.

        The columns of a run and the figures of its summary that `run_summaries` holds
        as columns; sorted by `newest` or by one of them, unknown last.
        """
        columns: dict[str, sa.ColumnElement[Any]] = {
            name: (runs if name in runs.c else run_summaries).c[name]
            for name in RUN_COLUMNS
        }
        keys = {"newest": _started, **columns}
        if order not in keys:
            raise TypeError(f"no such order: {order}")
        key = keys[order].desc() if descending else keys[order].asc()
        query = (
            sa.select(*columns.values())
            .select_from(
                runs.outerjoin(run_summaries, runs.c.run_id == run_summaries.c.run_id)
            )
            .where(*_conditions(filters))
            .order_by(
                key if order == "newest" else key.nulls_last(), runs.c.run_id.desc()
            )
        )
        if order != "newest":
            return self._fetch(query.limit(limit).offset(offset), _plain)
        # Two queries in the order of an index; one that sorts takes 500 times as long.
        dated = query.where(runs.c.started_at.is_not(None))
        found = self._fetch(dated.limit(limit).offset(offset), _plain)
        if limit is not None and len(found) >= limit:
            return found
        left = None if limit is None else limit - len(found)
        # A run may be removed between the queries.
        skipped = (
            0
            if found
            else max(0, offset - self.count_runs(**{**filters, "is_dated": True}))
        )
        undated = query.where(runs.c.started_at.is_(None)).limit(left).offset(skipped)
        return found + self._fetch(undated, _plain)

    def newest_change(self) -> tuple[int, float]:
        """Number of runs and time of the last change; differs when a list would."""
        query = sa.select(sa.func.count(), sa.func.max(runs.c.updated_at))
        ((count, changed),) = self._fetch(query, tuple)
        return int(count), float(changed or 0.0)

    def distinct(self, column: str) -> list[str]:
        """The values of a column of `runs`, in order, without null."""
        known = runs.c[column]
        query = sa.select(known).where(known.is_not(None)).distinct().order_by(known)
        return [str(value) for value in self._fetch(query, _first)]

    def run(self, run_id: str) -> RunRecord:
        """The run with an id. Raises StoreError when there is none."""
        found = self._fetch(_RUN, _run_record, id=run_id)
        if not found:
            raise StoreError(_no_run(run_id))
        return found[0]

    def find_run(self, text: str) -> RunRecord:
        """The run that a user means: `latest`, an id, a label, the name of a log, or the
        first characters of an id, `SHORTEST_START` at least.

        The latest is the one that started last; one without a time only where none has
        any. Raises StoreError when there is no such run, or more than one.
        """
        if text == "latest":
            newest = self.runs(limit=1, is_dated=True) or self.runs(limit=1)
            if not newest:
                raise StoreError(
                    "The database has no runs yet; add one with "
                    "`warmup-insights ingest FILE`"
                )
            return newest[0]
        names = (runs.c.run_id, runs.c.label, runs.c.source_name)
        conditions = [name == text for name in names]
        if len(text) >= SHORTEST_START:
            conditions.append(runs.c.run_id.istartswith(text, autoescape=True))
        for condition in conditions:
            query = sa.select(runs).where(condition).order_by(_started.desc()).limit(6)
            found = self._fetch(query, _run_record)
            if len(found) == 1:
                return found[0]
            if found:
                shown = ", ".join(run.run_id for run in found[:5])
                shown += ", ..." if len(found) > 5 else ""
                raise SeveralRunsError(
                    f"{text[:60]!r} means several runs: {shown}; give one of these ids"
                )
        raise StoreError(_no_run(text))

    def payloads(
        self, run_id: str, *, kinds: Iterable[str] | None, after_seq: int, limit: int
    ) -> list[tuple[int, str, str]]:
        """Up to `limit` events as `(seq, kind, payload)`, in order."""
        query = (
            sa.select(events.c.seq, events.c.kind, events.c.payload)
            .where(events.c.run_id == run_id, events.c.seq > after_seq)
            .order_by(events.c.seq)
            .limit(limit)
        )
        if kinds is not None:
            query = query.where(events.c.kind.in_(list(kinds)))
        return self._fetch(query, tuple)

    def event_table(
        self, run_id: str, kinds: Iterable[str], **equal: Any
    ) -> list[dict[str, Any]]:
        """The typed columns of some kinds of events, in order, without their JSON.

        `equal` names columns and the values they must have.
        """
        columns = [column for column in events.c if column.name != "payload"]
        query = (
            sa.select(*columns)
            .where(events.c.run_id == run_id, events.c.kind.in_(list(kinds)))
            .where(*(events.c[name] == value for name, value in equal.items()))
            .order_by(events.c.seq)
        )
        return self._fetch(query, _columns)

    def summary(self, run_id: str) -> RunSummary | None:
        """The stored summary of a run; None when it has none yet."""
        return self.summaries([run_id]).get(run_id)

    def summaries(
        self, run_ids: Iterable[str] | None = None, *, with_lists: bool = True
    ) -> dict[str, RunSummary]:
        """Run id to summary, of all runs or of some, where this fold has made one.

        Without the lists of buckets many summaries are read several times as fast.
        """
        table = run_summaries.c
        query = sa.select(table.run_id, table.summary).where(table.fold == FOLD)
        if run_ids is not None:
            query = query.where(table.run_id.in_(list(run_ids)))
        return dict(
            self._fetch(
                query, lambda row: (row[0], read_summary(row[1], with_lists=with_lists))
            )
        )

    def spool_offsets(self, run_id: str) -> dict[str, int]:
        """How far each spool of a run was stored: its key to an offset in bytes."""
        prefix = spool_prefix(run_id)
        length = len(prefix)
        found = self._fetch(_SPOOLS, tuple, length=length, prefix=prefix)
        return {name[length:]: int(value) for name, value in found}

    def stale_runs(self) -> list[str]:
        """Ids of runs without a summary of this fold, or with events newer than it."""
        query = (
            sa.select(runs.c.run_id)
            .select_from(
                runs.outerjoin(run_summaries, runs.c.run_id == run_summaries.c.run_id)
            )
            .where(
                sa.or_(
                    run_summaries.c.fold.is_distinct_from(FOLD),
                    run_summaries.c.num_events != runs.c.num_events,
                )
            )
        )
        return self._fetch(query, _first)

    def bucket_summaries(self, run_id: str) -> list[BucketRow]:
        """What became of each bucket of a run, by phase and dimensions."""
        table = bucket_summaries.c
        query = (
            sa.select(bucket_summaries)
            .where(table.run_id == run_id)
            .order_by(table.phase, table.d0, table.d1, table.d2, table.d3)
        )
        return self._fetch(query, lambda row: read_bucket_row(_columns(row)))

    def sources(self) -> list[SourceRecord]:
        """All sources, the last ingested first."""
        order = sources.c.ingested_at.desc(), sources.c.source_id
        return self._fetch(sa.select(sources).order_by(*order), _source_record)

    def source(self, source_id: str) -> SourceRecord:
        """The source with an id. Raises StoreError when there is none."""
        query = sa.select(sources).where(sources.c.source_id == source_id)
        found = self._fetch(query, _source_record)
        if not found:
            raise StoreError(
                f"There is no source {source_id[:60]!r}; another process removed it"
            )
        return found[0]

    def source_with_digest(self, digest: str) -> SourceRecord | None:
        """The source with exactly these bytes, if it is stored."""
        found = self._fetch(_WITH_DIGEST, _source_record, digest=digest)
        return next(iter(found), None)

    def beginnings(self, head_digest: str) -> list[tuple[int, str, str]]:
        """Size, digest and id of the sources that begin with the same bytes.

        The longest first. There may be thousands: their reports are not read.
        """
        return self._fetch(_BEGINNINGS, tuple, head=head_digest)

    def sources_naming(self, head_digest: str, digest: str) -> list[SourceRecord]:
        """Sources that begin so and have, or name in their report, a digest."""
        return self._fetch(_NAMING, _source_record, head=head_digest, digest=digest)

    def run_ids(self, source_id: str) -> list[str]:
        """The runs of a source, in their order in it."""
        return self._fetch(_RUN_IDS, _first, source_id=source_id)

    def source_lines(self, source_id: str) -> list[tuple[int, str | None, str]]:
        """The kept lines of a source as `(line, rule or None, text)`, in order."""
        table = source_lines.c
        query = (
            sa.select(table.line, table.rule, table.text)
            .where(table.source_id == source_id)
            .order_by(table.line)
        )
        return self._fetch(query, tuple)

    def size_bytes(self) -> int:
        """What the database takes on disk, its log not counted."""
        with self._reading() as connection:
            if connection.dialect.name == "sqlite":
                text = "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
            else:
                text = "SELECT pg_database_size(current_database())"
            return int(connection.execute(sa.text(text)).scalar_one())


def _conditions(filters: dict[str, Any]) -> list[sa.ColumnElement[bool]]:
    conditions = []
    for name, value in filters.items():
        if value is None:
            continue
        if name in _EQUAL:
            conditions.append(runs.c[name] == value)
        elif name == "status_now":
            status, cut_off = value  # with the ids of runs whose recorder was cut off
            is_cut = runs.c.run_id.in_(cut_off)
            stored = runs.c.status == status
            conditions.append(
                sa.or_(stored, is_cut)
                if status == "failed"
                else sa.and_(stored, ~is_cut)
            )
        elif name == "since":
            conditions.append(_started >= value)
        elif name == "until":
            conditions.append(_started < value)
        elif name == "is_dated":
            conditions.append(runs.c.started_at.is_not(None))
        elif name == "text":
            parts = (runs.c[c].icontains(value, autoescape=True) for c in _SEARCHED)
            conditions.append(sa.or_(*parts))
        else:
            raise TypeError(f"no such filter: {name}")
    return conditions


def _no_run(text: str) -> str:
    return f"There is no run {text[:60]!r}; `warmup-insights runs` lists them"


def _first(row: Any) -> Any:
    return row[0]


def _columns(row: Any) -> dict[str, Any]:
    return dict(row._mapping)


def _run_record(row: Any) -> RunRecord:
    return RunRecord(**_plain(row))


def _source_record(row: Any) -> SourceRecord:
    values = _columns(row)
    values["dialects"] = tuple(msgspec.json.decode(values["dialects"]))
    values["report"] = msgspec.json.decode(values["report"])
    return SourceRecord(**values)


def _plain(row: Any) -> dict[str, Any]:
    """A row without bytes, which no column of ours holds, and with figures for figures."""
    found = _columns(row)
    if bytes in map(type, found.values()):
        raise ForeignValueError("bytes")
    if not {type(found.get(name)) for name in _NUMBERS} <= _NUMERIC:
        raise ForeignValueError("a text for a number")
    if not _INFINITE.isdisjoint(found.values()):
        raise ForeignValueError("a number that is none")
    return found


def spool_prefix(run_id: str) -> str:
    """How the names of a run's spools begin in `store_info`."""
    return f"spool {clean_text(run_id)} "
