"""Everything that is written to the store, all or nothing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from itertools import chain
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import DataError, InterfaceError, ProgrammingError

from warmup_insights.errors import StoreError
from warmup_insights.model.events import Event
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.model.summary import BucketRow, RunSummary
from warmup_insights.storage.queries import Queries, spool_prefix
from warmup_insights.storage.rows import (
    EVENT_COLUMNS,
    Row,
    careful_rows,
    clean,
    clean_text,
    event_rows,
    to_json,
)
from warmup_insights.storage.schema import (
    bucket_summaries,
    events,
    run_summaries,
    runs,
    source_lines,
    sources,
    store_info,
)
from warmup_insights.storage.summaries import bucket_row, run_columns, summary_row

AT_ONCE = 70
"""So many rows go in one statement of SQLite: old ones take 999 values in all, and the
text of a longer statement takes longer to read than its rows to write."""
BLOCK = 10_000
"""Rows per driver call: large enough to be fast, small enough for memory."""

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
        return self._insert_new(runs, values)

    def _insert_new(self, table: sa.Table, values: Mapping[str, Any]) -> bool:
        names = list(values)
        places = ", ".join(f":{name}" for name in names)
        statement = sa.text(
            f"INSERT INTO {table.name} ({', '.join(names)}) VALUES ({places}) "
            "ON CONFLICT DO NOTHING"
        )
        return self._connection.execute(statement, dict(values)).rowcount == 1

    def update_run(self, run_id: str, **columns: Any) -> None:
        """Change columns of a run; raises StoreError when there is no such run."""
        self._change(run_id, "", (), columns)

    def _change(
        self, run_id: str, first: str, given: Row, columns: Mapping[str, Any]
    ) -> None:
        """Change columns of a run; `first` is another change, with the values given."""
        unknown = sorted(columns.keys() - _RUN_COLUMNS)
        if unknown:
            raise TypeError(f"no such column: {', '.join(unknown)}")
        values = {"updated_at": time.time(), **columns}
        settings = ", ".join(f'"{name}" = {self._mark}' for name in values)
        changed = self._connection.exec_driver_sql(
            f"UPDATE runs SET {first}{settings} WHERE run_id = {self._mark}",
            (*given, *map(clean, values.values()), run_id),
        )
        if changed.rowcount == 0:
            raise NoRunError(run_id)

    def append(self, run_id: str, new: Sequence[Event], **columns: Any) -> int:
        """Add events to the end of a run, and change columns of it in the same step.

        Gives the sequence number of the first one. Raises StoreError when there is no
        such run.
        """
        first = self._reserve(run_id, len(new), columns)
        for start in range(0, len(new), BLOCK):
            self._append_block(run_id, first + start, new[start : start + BLOCK])
        return first

    def _reserve(self, run_id: str, count: int, columns: Mapping[str, Any]) -> int:
        """Take `count` sequence numbers; writers of one run wait for each other here."""
        more = f"num_events = num_events + {self._mark}, "
        self._change(run_id, more, (count,), columns)
        return self._num_events(run_id) - count

    def _num_events(self, run_id: str) -> int:
        count = self._connection.exec_driver_sql(
            f"SELECT num_events FROM runs WHERE run_id = {self._mark}", (run_id,)
        ).scalar()
        if count is None:
            raise NoRunError(run_id)
        return int(count)

    def _append_block(self, run_id: str, first: int, block: Sequence[Event]) -> None:
        self._connection.exec_driver_sql("SAVEPOINT append_block")
        try:
            self._insert_rows(event_rows(run_id, first, block))
        except _REFUSED:
            self._connection.exec_driver_sql("ROLLBACK TO SAVEPOINT append_block")
            self._insert_rows(careful_rows(run_id, first, block))
        self._connection.exec_driver_sql("RELEASE SAVEPOINT append_block")

    def _insert_rows(self, rows: list[Row]) -> None:
        self._insert_many(_insert_sql(events.name, EVENT_COLUMNS, self._mark), rows)

    def _insert_many(
        self, insert: str, rows: Sequence[Row], conflict: str = ""
    ) -> None:
        """Add rows, many of them in one step of SQLite's driver.

        The driver releases the interpreter lock at every step: a program that is recorded
        would wait once per row. Large blocks take a fifth less time as well.
        """
        if self._mark != "?":
            if rows:
                self._connection.exec_driver_sql(insert + conflict, list(rows))
            return
        for start in range(0, len(rows), AT_ONCE):
            part = rows[start : start + AT_ONCE]
            values = tuple(chain.from_iterable(part))
            statement = _repeated(insert, len(part)) + conflict
            self._connection.exec_driver_sql(statement, values)

    def add_source(self, source: SourceRecord) -> None:
        """Add a source. Raises StoreError when its bytes are stored already."""
        texts = {"dialects": to_json(source.dialects), "report": to_json(source.report)}
        columns = {**vars(source), **texts}
        values = {name: clean(value) for name, value in columns.items()}
        if values["ingested_at"] is None:
            values["ingested_at"] = time.time()
        if not self._insert_new(sources, values):
            raise StoreError(f"{source.name} is stored already; remove it first")

    def add_source_lines(
        self, source_id: str, lines: Iterable[tuple[int, str | None, str]]
    ) -> None:
        """Keep lines of a source: `(line, rule or None, text)`; known lines stay."""
        rows = [(source_id, line, rule, clean_text(text)) for line, rule, text in lines]
        columns = ("source_id", "line", "rule", "text")
        insert = _insert_sql(source_lines.name, columns, self._mark)
        for start in range(0, len(rows), BLOCK):
            part = rows[start : start + BLOCK]
            self._insert_many(insert, part, " ON CONFLICT DO NOTHING")

    def put_summary(
        self, summary: RunSummary, bucket_rows: Iterable[BucketRow], **columns: Any
    ) -> None:
        """Replace the summary of a run and of its buckets, and what lists show of it;
        change columns of the run in the same step.

        Raises StoreError when there is no such run.
        """
        run_id = summary.run_id
        count = self._num_events(run_id)
        self._replace(run_summaries, run_id, [summary_row(summary, count)])
        rows = [bucket_row(run_id, row) for row in bucket_rows]
        self._replace(bucket_summaries, run_id, rows)
        self.update_run(run_id, **run_columns(summary), **columns)

    def _replace(
        self, table: sa.Table, run_id: str, rows: Sequence[Mapping[str, Any]]
    ) -> None:
        """Replace the rows of a run in a table; all have the same columns."""
        remove = f"DELETE FROM {table.name} WHERE run_id = {self._mark}"
        self._connection.exec_driver_sql(remove, (run_id,))
        if rows:
            insert = _insert_sql(table.name, list(rows[0]), self._mark)
            values = [(*row.values(),) for row in rows]
            self._connection.exec_driver_sql(insert, values)

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


def _insert_sql(table: str, columns: Sequence[str], mark: str) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join([mark] * len(columns))})"


@lru_cache(maxsize=AT_ONCE)
def _repeated(insert: str, count: int) -> str:
    """The statement for so many rows."""
    values = insert[insert.rindex("(") :]
    return insert + f", {values}" * (count - 1)
