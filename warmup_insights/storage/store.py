"""The store: opens a database, hands out transactions, answers questions."""

from __future__ import annotations

import os
import weakref
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy.engine import Connection, Engine

from warmup_insights.model.events import AnyEvent
from warmup_insights.storage.engine import (
    BUSY_TIMEOUT_S,
    Location,
    explained,
    open_engine,
    use_wal,
    vacuum,
)
from warmup_insights.storage.queries import Queries
from warmup_insights.storage.rows import read_payload
from warmup_insights.storage.schema import is_current, prepare_schema
from warmup_insights.storage.transaction import Transaction

READ_BLOCK = 5_000
"""Events per query while streaming; no read transaction outlives a block."""


class EventReader(Iterator[AnyEvent]):
    """The events of a run, in order; `skipped` counts what could not be read, by kind.

    A newer version may have stored kinds that this one does not have.
    """

    def __init__(self, blocks: Iterator[list[tuple[int, str, str]]]) -> None:
        self.skipped: Counter[str] = Counter()
        self.last_seq: int | None = None
        """Number of the last event that was read, or skipped."""
        self._events = self._read(blocks)

    def __next__(self) -> AnyEvent:
        return next(self._events)

    def _read(self, blocks: Iterator[list[tuple[int, str, str]]]) -> Iterator[AnyEvent]:
        for block in blocks:
            for self.last_seq, kind, payload in block:
                event = read_payload(payload)
                if event is None:
                    self.skipped[kind] += 1
                else:
                    yield event


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

    def __exit__(self, *_: object) -> None:
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

    def events(
        self, run_id: str, kinds: Iterable[str] | None = None, after_seq: int = -1
    ) -> EventReader:
        """The events of a run in order, read block by block."""
        wanted = None if kinds is None else tuple(kinds)
        return EventReader(self._blocks(run_id, wanted, after_seq))

    def _blocks(
        self, run_id: str, kinds: tuple[str, ...] | None, after_seq: int
    ) -> Iterator[list[tuple[int, str, str]]]:
        while True:
            block = self.payloads(
                run_id, kinds=kinds, after_seq=after_seq, limit=READ_BLOCK
            )
            if block:
                yield block
            if len(block) < READ_BLOCK:
                return
            after_seq = block[-1][0]

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
