"""Writes one log into the store: one transaction or nothing."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

from parsers.files import Batch
from warmup_insights.analysis.refresh import run_columns
from warmup_insights.ingest.garbage import rare_collections
from warmup_insights.ingest.log import Log
from warmup_insights.ingest.outcome import Options
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.storage import EventStore, Transaction

BATCH = 10_000
"""Events held before the transaction begins; small logs never hold the lock long."""

REMEMBERED = 64
"""So many shorter versions of a source are known again, the last ones."""
_SHORTER = "shorter_versions"


def digests_in(source: SourceRecord) -> set[str]:
    """Digests of the source and of the shorter versions of it that were stored before.

    A copy of a file from before it grew adds nothing either.
    """
    return {source.digest, *source.report.get(_SHORTER, ())}


class AlreadyStoredError(Exception):
    """Somebody else stored the same bytes while we read them."""

    def __init__(self, source: SourceRecord) -> None:
        self.source = source


class LogWriter:
    """Writes what a log gives, in one transaction that begins late.

    Args:
        store: where to.
        log: what.
        name: how the source and its runs are called.
        options: what else is said about the runs.
        replaced: the stored source that this one continues.
        stored_at: when to say it was stored, seconds since the epoch; None for now.
        salts: how often each key of a run was used in this work; saves the search.
    """

    def __init__(
        self,
        store: EventStore,
        log: Log,
        name: str,
        options: Options,
        *,
        replaced: SourceRecord | None = None,
        stored_at: float | None = None,
        salts: dict[str, int] | None = None,
    ) -> None:
        self._store = store
        self._log = log
        self._name = name
        self._options = options
        self._replaced = replaced
        self._stored_at = stored_at
        self._salts = {} if salts is None else salts
        self._used: dict[str, int] = {}
        self._records: dict[int, RunRecord] = {}
        self.source: SourceRecord | None = None
        """The source, once it is stored."""

    @property
    def report(self) -> dict[str, Any]:
        """The stored report, once the source is stored."""
        return {} if self.source is None else dict(self.source.report)

    def write(self) -> list[str]:
        """Store everything; the ids of the runs. Raises AlreadyStoredError."""
        with rare_collections():
            return self._write()

    def _write(self) -> list[str]:
        batches = self._log.batches()
        held: Batch = []
        for batch in batches:
            held += batch
            if sum(len(events) for _, events in held) >= BATCH:
                break
        labels = self._labels()
        with self._store.begin() as transaction:
            if self._replaced is not None:
                transaction.delete_source(self._replaced.source_id)
            self._append(transaction, held)
            for batch in batches:
                self._append(transaction, batch)
            source = self._finish(transaction, labels)
        self.source = source
        self._salts.update(self._used)
        return [self._records[n].run_id for n in sorted(self._records)]

    def _labels(self) -> dict[str, tuple[str | None, str | None]]:
        """Labels and notes that people gave to the runs of the replaced source."""
        if self._replaced is None:
            return {}
        runs = self._store.runs(source_id=self._replaced.source_id)
        return {run.run_id: (run.label, run.notes) for run in runs}

    def _append(self, transaction: Transaction, batch: Batch) -> None:
        for ordinal, events in batch:
            record = self._records.get(ordinal) or self._add_run(transaction, ordinal)
            transaction.append(record.run_id, events)

    def _add_run(self, transaction: Transaction, ordinal: int) -> RunRecord:
        first_line, run_key = self._log.start_of(ordinal)
        key = f"{self._log.head_digest}/{first_line}/{run_key}"
        record = RunRecord(
            run_id="", source_kind="log", source_name=self._name,
            ordinal=ordinal, label=self._options.label,
            synthetic=self._options.synthetic, created_at=self._stored_at,
        )  # fmt: skip
        # What it continues has given its ids free: it takes the first free one again.
        salt = 0 if self._replaced is not None else self._salts.get(key, 0)
        record = dataclasses.replace(record, run_id=_run_id(key, salt))
        while not transaction.ensure_run(record):
            # Another file begins in the same way and went on differently.
            salt = self._free_salt(transaction, key, salt)
            record = dataclasses.replace(record, run_id=_run_id(key, salt))
        self._used[key] = salt + 1
        self._records[ordinal] = record
        return record

    def _free_salt(self, transaction: Transaction, key: str, taken: int) -> int:
        """A salt above a taken one whose id is free; ever wider steps, then halves.

        Thousands of logs may begin alike. The file that continues one of them goes step
        by step instead, so that it has the same id again.
        """
        if self._replaced is not None:
            return taken + 1
        width = 1
        while transaction.has_run(_run_id(key, taken + width)):
            taken, width = taken + width, 2 * width
        free = taken + width
        while free - taken > 1:
            middle = (taken + free) // 2
            if transaction.has_run(_run_id(key, middle)):
                taken = middle
            else:
                free = middle
        return free

    def _finish(
        self, transaction: Transaction, labels: dict[str, tuple[str | None, str | None]]
    ) -> SourceRecord:
        stored = transaction.source_with_digest(self._log.digest)
        if stored is not None:
            raise AlreadyStoredError(stored)
        source = self._source()
        transaction.add_source(source)
        transaction.add_source_lines(source.source_id, self._log.kept_lines)
        for ordinal, record in self._records.items():
            label, notes = labels.get(record.run_id, (None, None))
            run = dataclasses.replace(
                record, source_id=source.source_id, notes=notes,
                label=self._options.label or label,
            )  # fmt: skip
            self._finish_run(transaction, ordinal, run)
        return source

    def _source(self) -> SourceRecord:
        log, report = self._log, self._log.report
        if self._replaced is not None:
            shorter = self._replaced.report.get(_SHORTER, [])
            report[_SHORTER] = [*shorter, self._replaced.digest][-REMEMBERED:]
        return SourceRecord(
            source_id=log.digest[:16], name=self._name, digest=log.digest,
            head_digest=log.head_digest, size_bytes=log.size, lines=report["lines"],
            dialects=tuple(report["dialects"]), report=report,
            timezone=self._options.timezone, ingested_at=self._stored_at,
        )  # fmt: skip

    def _finish_run(
        self, transaction: Transaction, ordinal: int, run: RunRecord
    ) -> None:
        result = self._log.summary(ordinal, run)
        summary = result.summary
        if self._options.is_growing and summary["status"] == "unknown":
            summary["status"] = "running"
        transaction.put_summary(run.run_id, summary, result.bucket_rows)
        transaction.update_run(
            run.run_id, source_id=run.source_id, label=run.label, notes=run.notes,
            **run_columns(summary),
        )  # fmt: skip


def _run_id(key: str, salt: int) -> str:
    text = f"{key}/{salt}" if salt else key
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
