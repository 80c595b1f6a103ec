"""Writes one log into the store: one transaction or nothing."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec

from warmup_insights.analysis.summary import Folded
from warmup_insights.ingest.log import LogEnd, Part, rare_collections
from warmup_insights.ingest.outcome import Options
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.storage import EventStore, Transaction

BATCH = 10_000
"""Events read before the transaction begins; small logs never hold the lock long."""

REMEMBERED = 64
"""So many shorter versions of a source are recognised, the last ones."""
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


def write_log(
    store: EventStore,
    parts: Iterator[Part],
    name: str,
    options: Options,
    replaced: SourceRecord | None = None,
) -> tuple[list[str], dict[str, Any]]:
    """Store the parts of a log; the ids of its runs, and the stored report.

    Args:
        store: where to.
        parts: what, in one transaction that begins late.
        name: of the source and its runs.
        options: what else is known about the runs.
        replaced: the stored source that this one continues; its runs keep their ids.

    Raises AlreadyStoredError.
    """
    with rare_collections():
        first = _first_parts(parts)
        with store.begin() as transaction:
            writer = _Writer(transaction, name, options, replaced)
            for part in chain(first, parts):
                if isinstance(part, LogEnd):
                    report = writer.finish(part)
                else:
                    for ordinal, events in part.batch:
                        run_id = writer.run_id(ordinal, part.digest)
                        transaction.append(run_id, events)
        return writer.run_ids, report


def _first_parts(parts: Iterator[Part]) -> list[Part]:
    """All of a small log, the beginning of a large one."""
    held: list[Part] = []
    count = 0
    for part in parts:
        held.append(part)
        if isinstance(part, LogEnd):
            break
        count += sum(len(events) for _, events in part.batch)
        if count >= BATCH:
            break
    return held


class _Writer:
    """One log in one transaction."""

    def __init__(
        self,
        transaction: Transaction,
        name: str,
        options: Options,
        replaced: SourceRecord | None,
    ) -> None:
        self._transaction = transaction
        self._name = name
        self._options = options
        self._replaced = replaced
        self._older: dict[int, RunRecord] = {}
        self._runs: dict[int, RunRecord] = {}
        if replaced is not None:
            runs = transaction.runs(source_id=replaced.source_id)
            self._older = {run.ordinal: run for run in runs}
            transaction.delete_source(replaced.source_id)

    @property
    def run_ids(self) -> list[str]:
        """The runs so far, in their order in the log."""
        return [self._runs[ordinal].run_id for ordinal in sorted(self._runs)]

    def run_id(self, ordinal: int, digest: str) -> str:
        """The id of a run, which is added when its first events come.

        It follows from the text up to these events and from the ordinal. A run of the
        source that is continued keeps the one that it has.
        """
        if ordinal in self._runs:
            return self._runs[ordinal].run_id
        older = self._older.get(ordinal)
        run = RunRecord(
            run_id=_hash(f"{digest}/{ordinal}") if older is None else older.run_id,
            source_kind="log", source_name=self._name, ordinal=ordinal,
            label=self._options.label or (older.label if older else None),
            notes=older.notes if older else None, synthetic=self._options.synthetic,
        )  # fmt: skip
        while not self._transaction.ensure_run(run):
            # Another log has the same beginning of thousands of events.
            run = dataclasses.replace(run, run_id=_hash(run.run_id))
        self._runs[ordinal] = run
        return run.run_id

    def finish(self, end: LogEnd) -> dict[str, Any]:
        """Add the source and the summaries; the report.

        A log without a start-up is not kept, so that a later version may read it.
        """
        if not self._runs and self._replaced is None:
            return dict(end.report)
        stored = self._transaction.source_with_digest(end.digest)
        if stored is not None:
            raise AlreadyStoredError(stored)
        source = self._source(end)
        self._transaction.add_source(source)
        self._transaction.add_source_lines(source.source_id, end.kept_lines)
        for ordinal, run in self._runs.items():
            self._put_summary(run, source.source_id, end.runs[ordinal])
        return dict(source.report)

    def _source(self, end: LogEnd) -> SourceRecord:
        report = end.report
        if self._replaced is not None:
            shorter = self._replaced.report.get(_SHORTER, [])
            report[_SHORTER] = [*shorter, self._replaced.digest][-REMEMBERED:]
        return SourceRecord(
            source_id=end.digest[:16], name=self._name, digest=end.digest,
            head_digest=end.head_digest, size_bytes=end.size, lines=report["lines"],
            dialects=tuple(report["dialects"]), report=report,
            timezone=self._options.timezone,
        )  # fmt: skip

    def _put_summary(self, run: RunRecord, source_id: str, folded: Folded) -> None:
        summary = msgspec.structs.replace(
            folded.summary, run_id=run.run_id, label=run.label
        )
        if self._options.is_growing and summary.status == "unknown":
            summary = msgspec.structs.replace(summary, status="running")
        self._transaction.update_run(run.run_id, source_id=source_id)
        self._transaction.put_summary(summary, folded.rows)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
