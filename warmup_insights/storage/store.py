"""The store: opens a database, hands out transactions, answers questions."""

from __future__ import annotations

import os
import time
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DataError, InterfaceError, ProgrammingError
from sqlalchemy.pool import Pool

from warmup_insights.errors import StoreError
from warmup_insights.model.events import AnyEvent, Event
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.model.summary import BucketRow, RunSummary
from warmup_insights.storage.engine import (
    BUSY_TIMEOUT_S,
    explained,
    open_engine,
    server_url,
    use_wal,
    vacuum,
)
from warmup_insights.storage.location import database_path, shown_location
from warmup_insights.storage.queries import Queries, spool_prefix
from warmup_insights.storage.rows import (
    EVENT_COLUMNS,
    Row,
    bucket_row,
    careful_rows,
    clean,
    clean_text,
    event_rows,
    read_payload,
    run_columns,
    summary_row,
    to_json,
)
from warmup_insights.storage.schema import (
    bucket_summaries,
    events,
    is_current,
    prepare_schema,
    run_summaries,
    runs,
    source_lines,
    sources,
    store_info,
)

VALUES_AT_ONCE = 999
"""So many values go in one statement of SQLite: old ones take no more, and the text of a
longer statement takes longer to read than its rows to write."""
BLOCK = 10_000
"""Rows per driver call: large enough to be fast, small enough for memory."""
READ_BLOCK = 5_000
"""Events per query while streaming."""

_REFUSED = (
    DataError,
    InterfaceError,
    ProgrammingError,
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
)
"""What an event with unfit values raises, in our code or in a driver."""
_RUN_COLUMNS = frozenset(runs.c.keys()) - {"run_id", "num_events", "created_at"}
_UNLESS_KNOWN = " ON CONFLICT DO NOTHING"


class NoRunError(StoreError):
    """The run that shall change is not in the store."""

    def __init__(self, run_id: str) -> None:
        super().__init__(f"There is no run {run_id}; another process removed it")


class Transaction(Queries):
    """Writes between `EventStore.begin()` and its end; an exception undoes them all.

    What it reads holds what it has written.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._mark = "?" if connection.dialect.paramstyle == "qmark" else "%s"

    def _reading(self) -> AbstractContextManager[Connection]:
        return nullcontext(self._connection)

    def ensure_run(self, run: RunRecord) -> bool:
        """Add a run unless there is one of that id; True when it was added."""
        now = time.time()
        values = {name: clean(value) for name, value in vars(run).items()}
        values["num_events"] = 0
        values["created_at"] = now if run.created_at is None else run.created_at
        values["updated_at"] = now
        return self._insert(runs, values, [(*values.values(),)], _UNLESS_KNOWN) == 1

    def _insert(
        self,
        table: sa.Table,
        columns: Iterable[str],
        rows: Sequence[Row],
        conflict: str = "",
    ) -> int:
        """Add rows, many of them in one step of SQLite's driver; how many were added.

        The driver releases the interpreter lock at every step: a program that is recorded
        would wait once per row. Large blocks take a fifth less time as well.
        """
        names = tuple(columns)
        if self._mark != "?" and rows:  # psycopg sends many rows in one step of its own
            insert = _insert_sql(table.name, names, self._mark, 1) + conflict
            return self._connection.exec_driver_sql(insert, list(rows)).rowcount
        at_once = VALUES_AT_ONCE // len(names)
        added = 0
        for start in range(0, len(rows), at_once):
            part = rows[start : start + at_once]
            insert = _insert_sql(table.name, names, self._mark, len(part)) + conflict
            values = tuple(chain.from_iterable(part))
            added += self._connection.exec_driver_sql(insert, values).rowcount
        return added

    def update_run(self, run_id: str, *, num_new: int = 0, **columns: Any) -> None:
        """Change columns of a run, and count new events of it.

        Raises StoreError when there is no such run.
        """
        unknown = sorted(columns.keys() - _RUN_COLUMNS)
        if unknown:
            raise TypeError(f"no such column: {', '.join(unknown)}")
        values = {"updated_at": time.time(), **columns}
        settings = ", ".join(f'"{name}" = {self._mark}' for name in values)
        changed = self._connection.exec_driver_sql(
            f"UPDATE runs SET num_events = num_events + {self._mark}, {settings} "
            f"WHERE run_id = {self._mark}",
            (num_new, *map(clean, values.values()), run_id),
        )
        if changed.rowcount == 0:
            raise NoRunError(run_id)

    def append(self, run_id: str, new: Sequence[Event], **columns: Any) -> int:
        """Add events to the end of a run, and change columns of it in the same step.

        Gives the sequence number of the first one. Raises StoreError when there is no
        such run.
        """
        # Writers of one run wait for each other here.
        self.update_run(run_id, num_new=len(new), **columns)
        first = self._num_events(run_id) - len(new)
        execute = self._connection.exec_driver_sql
        for start in range(0, len(new), BLOCK):
            block, seq = new[start : start + BLOCK], first + start
            execute("SAVEPOINT append_block")
            try:
                self._insert(events, EVENT_COLUMNS, event_rows(run_id, seq, block))
            except _REFUSED:
                execute("ROLLBACK TO SAVEPOINT append_block")
                self._insert(events, EVENT_COLUMNS, careful_rows(run_id, seq, block))
            execute("RELEASE SAVEPOINT append_block")
        return first

    def _num_events(self, run_id: str) -> int:
        count = self._connection.exec_driver_sql(
            f"SELECT num_events FROM runs WHERE run_id = {self._mark}", (run_id,)
        ).scalar()
        if count is None:
            raise NoRunError(run_id)
        return int(count)

    def add_source(self, source: SourceRecord) -> None:
        """Add a source. Raises StoreError when its bytes are stored already."""
        texts = {"dialects": to_json(source.dialects), "report": to_json(source.report)}
        columns = {**vars(source), **texts}
        values = {name: clean(value) for name, value in columns.items()}
        if values["ingested_at"] is None:
            values["ingested_at"] = time.time()
        if not self._insert(sources, values, [(*values.values(),)], _UNLESS_KNOWN):
            raise StoreError(f"{source.name} is stored already; remove it first")

    def add_source_lines(
        self, source_id: str, lines: Iterable[tuple[int, str | None, str]]
    ) -> None:
        """Keep lines of a source: `(line, rule or None, text)`; known lines stay."""
        rows = [(source_id, line, rule, clean_text(text)) for line, rule, text in lines]
        columns = ("source_id", "line", "rule", "text")
        self._insert(source_lines, columns, rows, _UNLESS_KNOWN)

    def put_summary(
        self, summary: RunSummary, bucket_rows: Iterable[BucketRow], **columns: Any
    ) -> None:
        """Replace the summary of a run and of its buckets, and what lists show of it;
        change columns of the run in the same step.

        Raises StoreError when there is no such run.
        """
        run_id = summary.run_id
        count = self._num_events(run_id)
        buckets = [bucket_row(run_id, row) for row in bucket_rows]
        for table, rows in (
            (run_summaries, [summary_row(summary, count)]), (bucket_summaries, buckets),
        ):  # fmt: skip
            remove = f"DELETE FROM {table.name} WHERE run_id = {self._mark}"
            self._connection.exec_driver_sql(remove, (run_id,))
            if rows:
                values = [(*row.values(),) for row in rows]
                self._insert(table, rows[0], values)
        self.update_run(run_id, **run_columns(summary), **columns)

    def put_spool_offsets(self, run_id: str, offsets: Mapping[str, int]) -> None:
        """Store how far each spool of a run is stored."""
        statement = sa.text(
            "INSERT INTO store_info (name, value) VALUES (:name, :value) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        prefix = spool_prefix(run_id)
        rows = [{"name": prefix + key, "value": str(n)} for key, n in offsets.items()]
        self._connection.execute(statement, rows)

    def delete_run(self, run_id: str) -> None:
        """Remove a run with all that belongs to it, and its source if it was the last.

        Raises StoreError when there is no such run.
        """
        source_id = self.run(run_id).source_id
        names = [spool_prefix(run_id) + key for key in self.spool_offsets(run_id)]
        self._connection.execute(
            sa.delete(store_info).where(store_info.c.name.in_(names))
        )
        self._connection.execute(sa.delete(runs).where(runs.c.run_id == run_id))
        if source_id is not None and not self.runs(source_id=source_id, limit=1):
            self.delete_source(source_id)

    def delete_source(self, source_id: str) -> None:
        """Remove a source, its lines and the runs that were read from it."""
        self._connection.execute(
            sa.delete(sources).where(sources.c.source_id == source_id)
        )


@lru_cache(maxsize=256)
def _insert_sql(table: str, columns: tuple[str, ...], mark: str, count: int) -> str:
    """The statement that adds so many rows."""
    names = ", ".join(f'"{name}"' for name in columns)
    row = f"({', '.join([mark] * len(columns))})"
    rows = ", ".join([row] * count)
    return f"INSERT INTO {table} ({names}) VALUES {rows}"


class EventReader:
    """The events of a run, in order; `skipped` counts what could not be read, by kind.

    A newer version may have stored kinds that this one does not have. No read
    transaction outlives a block of events.
    """

    def __init__(
        self, store: Queries, run_id: str, kinds: Iterable[str] | None, after_seq: int
    ) -> None:
        self._store = store
        self._run_id = run_id
        self._kinds = None if kinds is None else tuple(kinds)
        self._after_seq = after_seq
        self.skipped: Counter[str] = Counter()
        self.last_seq: int | None = None
        """Number of the last event that was read, or skipped."""

    def __iter__(self) -> Iterator[AnyEvent]:
        after = self._after_seq
        is_more = True
        while is_more:
            block = self._store.payloads(
                self._run_id, kinds=self._kinds, after_seq=after, limit=READ_BLOCK
            )
            for after, kind, payload in block:
                self.last_seq = after
                event = read_payload(payload)
                if event is None:
                    self.skipped[kind] += 1
                else:
                    yield event
            is_more = len(block) == READ_BLOCK


class EventStore(Queries):
    """Runs, their events, sources and summaries, in SQLite or PostgreSQL.

    Takes a path or a SQLAlchemy URL. Safe to use from several threads and, each with
    its own connections, after a fork. Every failure is a StoreError.

    `read_only` never writes a row; it upgrades an older schema, because nothing could
    be read otherwise.
    """

    def __init__(
        self,
        url: str | Path,
        *,
        read_only: bool = False,
        busy_timeout_s: float = BUSY_TIMEOUT_S,
    ) -> None:
        self.where = where = shown_location(str(url))
        self._engine = open_engine(
            server_url(url) or database_path(url),
            read_only=read_only,
            busy_timeout_s=busy_timeout_s,
        )
        with ExitStack() as unless_done, explained(where):
            unless_done.callback(self._engine.dispose)
            if not read_only:
                prepare_schema(self._engine, where)
                use_wal(self._engine)
            elif not is_current(self._engine, where):
                self._engine.dispose()
                EventStore(url, busy_timeout_s=busy_timeout_s).close()
            unless_done.pop_all()
        _open_stores.add(self)

    def __enter__(self) -> EventStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        with explained(self.where):
            self._engine.dispose()

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        """A transaction: everything written in it is stored, or nothing is."""
        with explained(self.where), self._engine.connect() as plain:
            connection = plain.execution_options(sqlite_begin="IMMEDIATE")
            with connection.begin():
                yield Transaction(connection)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(self.where), self._engine.connect() as connection:
            yield connection

    def events(
        self, run_id: str, kinds: Iterable[str] | None = None, after_seq: int = -1
    ) -> EventReader:
        """The events of a run in order, read block by block."""
        return EventReader(self, run_id, kinds, after_seq)

    def update_run(self, run_id: str, **columns: Any) -> None:
        """Change columns of a run, such as `label` and `notes`; None empties one."""
        with self.begin() as transaction:
            transaction.update_run(run_id, **columns)

    def vacuum(self) -> None:
        """Give the space of what was removed back to the disk."""
        with explained(self.where):
            vacuum(self._engine)


_open_stores: weakref.WeakSet[EventStore] = weakref.WeakSet()
_inherited: list[Pool] = []


def _after_fork() -> None:
    """Use new connections in the child: those of SQLite must not be used, nor even closed,
    on the other side of a fork."""
    for store in list(_open_stores):
        _inherited.append(store._engine.pool)
        store._engine.dispose(close=False)


if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork)
