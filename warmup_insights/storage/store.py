"""The store: opens a database, hands out transactions, answers questions."""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from sqlalchemy.engine import Connection, Engine

from warmup_insights.model.events import AnyEvent
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.storage import queries, source_queries
from warmup_insights.storage.engine import BUSY_TIMEOUT_S, Location, open_engine
from warmup_insights.storage.faults import explained
from warmup_insights.storage.journal import use_wal, vacuum
from warmup_insights.storage.rows import read_payload
from warmup_insights.storage.transaction import Transaction
from warmup_insights.storage.upgrade import is_current, prepare_schema

READ_BLOCK = 5_000
"""Events per query while streaming; no read transaction outlives a block."""


class EventReader(Iterator[AnyEvent]):
    """The events of a run, in order; `skipped` counts what could not be read, by kind.

    A newer version may have stored kinds that this one does not know.
    """

    def __init__(self, blocks: Iterator[list[tuple[int, str, str]]]) -> None:
        self.skipped: Counter[str] = Counter()
        self._events = self._read(blocks)

    def __next__(self) -> AnyEvent:
        return next(self._events)

    def _read(self, blocks: Iterator[list[tuple[int, str, str]]]) -> Iterator[AnyEvent]:
        for block in blocks:
            for _, kind, payload in block:
                event = read_payload(payload)
                if event is None:
                    self.skipped[kind] += 1
                else:
                    yield event


class EventStore:
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
        self.location = Location(url)
        self._url = url
        self._read_only = read_only
        self._busy_timeout_s = busy_timeout_s
        self._engine = self._make_engine()
        with ExitStack() as unless_done:
            unless_done.callback(self._engine.dispose)
            with explained(str(self.location)):
                self._prepare()
            unless_done.pop_all()
        _open_stores.add(self)

    def _prepare(self) -> None:
        where = str(self.location)
        if not self._read_only:
            prepare_schema(self._engine, where)
            use_wal(self._engine)
        elif not is_current(self._engine, where):
            self._engine.dispose()
            EventStore(self._url, busy_timeout_s=self._busy_timeout_s).close()

    def _make_engine(self) -> Engine:
        return open_engine(
            self.location,
            read_only=self._read_only,
            busy_timeout_s=self._busy_timeout_s,
        )

    def __enter__(self) -> EventStore:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every connection."""
        with explained(str(self.location)):
            self._engine.dispose()

    def forget_connections(self) -> None:
        """Use new connections from now on and leave the old ones as they are.

        For the child of a fork: SQLite connections must not be used, nor even closed,
        on the other side.
        """
        _inherited.append(self._engine)
        self._engine = self._make_engine()

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        """A transaction: everything written in it is stored, or nothing is."""
        with explained(str(self.location)), self._engine.connect() as plain:
            connection = plain.execution_options(sqlite_begin="IMMEDIATE")
            with connection.begin():
                yield Transaction(connection)

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with explained(str(self.location)), self._engine.connect() as connection:
            yield connection

    def runs(
        self, *, limit: int | None = None, offset: int = 0, **filters: Any
    ) -> list[RunRecord]:
        """Runs, newest first.

        Filters: label, source_id, source_kind, engine, version, model, device_kind,
        status, synthetic (equal); since, until (start time in seconds); text (part of
        a name, model, label or note). A filter that is None is none.
        """
        with self._reading() as connection:
            return queries.runs(connection, limit=limit, offset=offset, **filters)

    def count_runs(self, **filters: Any) -> int:
        """How many runs pass the filters of `runs`."""
        with self._reading() as connection:
            return queries.count_runs(connection, **filters)

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

        The columns of a run and `ready_s`, `warmup_s`, `captured_percent`,
        `num_kv_blocks` and `missed` of its summary; sorted by `newest` or by one of
        them, unknown last. Filters as in `runs`.
        """
        with self._reading() as connection:
            return queries.run_table(
                connection,
                order=order,
                descending=descending,
                limit=limit,
                offset=offset,
                **filters,
            )

    def newest_change(self) -> tuple[int, float]:
        """Number of runs and time of the last change; differs when a list would."""
        with self._reading() as connection:
            return queries.newest_change(connection)

    def distinct(self, column: str) -> list[str]:
        """The values of a column of `runs`, in order, without null."""
        with self._reading() as connection:
            return queries.distinct(connection, column)

    def run(self, run_id: str) -> RunRecord:
        """The run with an id. Raises StoreError when there is none."""
        with self._reading() as connection:
            return queries.run(connection, run_id)

    def find_run(self, text: str) -> RunRecord:
        """The run that a user means: `latest`, an id, a label, or the start of an id.

        Raises StoreError when there is none or more than one.
        """
        with self._reading() as connection:
            return queries.find_run(connection, text)

    def events(
        self, run_id: str, kinds: Iterable[str] | None = None, after_seq: int = -1
    ) -> EventReader:
        """The events of a run in order, read block by block."""
        wanted = None if kinds is None else tuple(kinds)
        return EventReader(self._blocks(run_id, wanted, after_seq))

    def event_table(
        self, run_id: str, kinds: Iterable[str], **equal: Any
    ) -> list[dict[str, Any]]:
        """The typed columns of some kinds of events, in order, without their JSON.

        `equal` names columns and the values they must have.
        """
        with self._reading() as connection:
            return queries.event_table(connection, run_id, kinds, **equal)

    def _blocks(
        self, run_id: str, kinds: tuple[str, ...] | None, after_seq: int
    ) -> Iterator[list[tuple[int, str, str]]]:
        while True:
            with self._reading() as connection:
                block = queries.payloads(
                    connection,
                    run_id,
                    kinds=kinds,
                    after_seq=after_seq,
                    limit=READ_BLOCK,
                )
            if block:
                yield block
            if len(block) < READ_BLOCK:
                return
            after_seq = block[-1][0]

    def summary(self, run_id: str) -> dict[str, Any] | None:
        """The stored summary of a run; None when it has none yet."""
        return self.summaries([run_id]).get(run_id)

    def summaries(
        self, run_ids: Iterable[str] | None = None, *, with_lists: bool = True
    ) -> dict[str, dict[str, Any]]:
        """Run id to stored summary, for all runs or for some.

        Without the lists of buckets many summaries are read several times as fast.
        """
        with self._reading() as connection:
            return queries.summaries(connection, run_ids, with_lists=with_lists)

    def stale_runs(self) -> list[str]:
        """Ids of runs whose summary is missing or older than their events."""
        with self._reading() as connection:
            return queries.stale_runs(connection)

    def bucket_summaries(self, run_id: str) -> list[dict[str, Any]]:
        """What became of each bucket of a run, by phase and dimensions."""
        with self._reading() as connection:
            return queries.buckets(connection, run_id)

    def sources(
        self, *, limit: int | None = None, offset: int = 0
    ) -> list[SourceRecord]:
        """Sources, the last ingested first."""
        with self._reading() as connection:
            return source_queries.sources(connection, limit=limit, offset=offset)

    def source(self, source_id: str) -> SourceRecord:
        """The source with an id. Raises StoreError when there is none."""
        with self._reading() as connection:
            return source_queries.source(connection, source_id)

    def source_with_digest(self, digest: str) -> SourceRecord | None:
        """The source with exactly these bytes, if it is stored."""
        with self._reading() as connection:
            return source_queries.source_with_digest(connection, digest)

    def sources_with_head(self, head_digest: str) -> list[SourceRecord]:
        """Sources that begin with the same bytes, the longest first."""
        with self._reading() as connection:
            return source_queries.sources_with_head(connection, head_digest)

    def beginnings(self, head_digest: str) -> list[tuple[int, str, str]]:
        """Size, digest and id of sources that begin with these bytes, the longest first."""
        with self._reading() as connection:
            return source_queries.beginnings(connection, head_digest)

    def sources_naming(self, head_digest: str, digest: str) -> list[SourceRecord]:
        """Sources that begin so and have, or name in their report, a digest."""
        with self._reading() as connection:
            return source_queries.sources_naming(connection, head_digest, digest)

    def source_lines(self, source_id: str) -> list[tuple[int, str | None, str]]:
        """The kept lines of a source as `(line, rule or None, text)`, in order."""
        with self._reading() as connection:
            return source_queries.source_lines(connection, source_id)

    def set_label(self, run_id: str, label: str | None) -> None:
        """Name a run; None takes the name away."""
        with self.begin() as transaction:
            transaction.update_run(run_id, label=label)

    def set_notes(self, run_id: str, notes: str | None) -> None:
        """Write notes on a run; None takes them away."""
        with self.begin() as transaction:
            transaction.update_run(run_id, notes=notes)

    def delete_run(self, run_id: str) -> None:
        """Remove a run with all that belongs to it, and its source if it was the last."""
        with self.begin() as transaction:
            transaction.delete_run(run_id)

    def size_bytes(self) -> int:
        """What the database takes on disk, its log not counted."""
        with self._reading() as connection:
            return queries.size_bytes(connection)

    def vacuum(self) -> None:
        """Give the space of what was removed back to the disk."""
        with explained(str(self.location)):
            vacuum(self._engine)


_open_stores: weakref.WeakSet[EventStore] = weakref.WeakSet()
_inherited: list[Engine] = []


def _after_fork() -> None:
    for store in list(_open_stores):
        store.forget_connections()


os.register_at_fork(after_in_child=_after_fork)
