"""Reads one log into the store, in this process: one transaction or nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from parsers.files import digests, head_digest
from parsers.source import modified_at, open_path
from warmup_insights.drainer import drain
from warmup_insights.errors import StoreError
from warmup_insights.ingest.log import LogEnd, Part, rare_collections, read_log
from warmup_insights.ingest.outcome import Options, Outcome, Progress
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore
from warmup_insights.storage.spool import is_spool, read_spool, spools_beside
from warmup_insights.storage.store import Transaction

BATCH = 10_000
"""Events read before the transaction begins; small logs never hold the lock long."""

REMEMBERED = 64
"""So many shorter versions of a source are recognised, the last ones."""
_SHORTER = "shorter_versions"


class AlreadyStoredError(Exception):
    """Another process stored the same bytes while they were read."""

    def __init__(self, source: SourceRecord) -> None:
        self.source = source


def store_log(
    store: EventStore,
    parts: Iterator[Part],
    path: str,
    options: Options,
    older: SourceRecord | None,
) -> Outcome:
    """Store the parts of a log in one transaction, which begins late.

    `older` is the stored source that this one continues; its runs keep their ids.
    """
    try:
        with rare_collections():
            first = _first_parts(parts)
            with store.begin() as transaction:
                writer = _Writer(transaction, Path(path).name, options, older)
                for part in chain(first, parts):
                    if isinstance(part, LogEnd):
                        report = writer.finish(part)
                        break
                    for ordinal, events in part.batch:
                        run_id = writer.run_id(ordinal, part.digest)
                        transaction.append(run_id, events)
    except AlreadyStoredError as stored:
        return unchanged(store, stored.source, path, options)
    ids = [run.run_id for _, run in sorted(writer.runs.items())]
    state = "continued" if older else "new" if ids else "nothing"
    return Outcome(path, ids, state, report)


def _first_parts(parts: Iterator[Part]) -> list[Part]:
    """All of a small log, the beginning of a large one."""
    first: list[Part] = []
    count = 0
    for part in parts:
        first.append(part)
        if isinstance(part, LogEnd):
            break
        count += sum(len(events) for _, events in part.batch)
        if count >= BATCH:
            break
    return first


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
        self.runs: dict[int, RunRecord] = {}
        """The runs so far, by their ordinal in the log."""
        if replaced is not None:
            runs = transaction.runs(source_id=replaced.source_id)
            self._older = {run.ordinal: run for run in runs}
            transaction.delete_source(replaced.source_id)

    def run_id(self, ordinal: int, digest: str) -> str:
        """The id of a run, which is added when its first events come.

        It follows from the text up to these events and from the ordinal. A run of the
        source that is continued keeps the one that it has.
        """
        if ordinal in self.runs:
            return self.runs[ordinal].run_id
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
        self.runs[ordinal] = run
        return run.run_id

    def finish(self, end: LogEnd) -> dict[str, Any]:
        """Add the source and the summaries; the report.

        A log without a start-up is not kept, so that a later version may read it.
        """
        if not self.runs and self._replaced is None:
            return dict(end.report)
        stored = self._transaction.source_with_digest(end.digest)
        if stored is not None:
            raise AlreadyStoredError(stored)
        report = end.report
        if self._replaced is not None:
            shorter = self._replaced.report.get(_SHORTER, [])
            report[_SHORTER] = [*shorter, self._replaced.digest][-REMEMBERED:]
        source = SourceRecord(
            source_id=end.digest[:16], name=self._name, digest=end.digest,
            head_digest=end.head_digest, size_bytes=end.size, lines=report["lines"],
            dialects=tuple(report["dialects"]), report=report,
            timezone=self._options.timezone,
        )  # fmt: skip
        self._transaction.add_source(source)
        self._transaction.add_source_lines(source.source_id, end.kept_lines)
        for ordinal, run in self.runs.items():
            folded = end.runs[ordinal]
            summary = msgspec.structs.replace(
                folded.summary, run_id=run.run_id, label=run.label
            )
            is_over = summary.progress.stage == "ready" or summary.failure is not None
            if self._options.is_growing and not is_over:
                summary = msgspec.structs.replace(summary, status="running")
            self._transaction.put_summary(
                summary, folded.rows, source_id=source.source_id
            )
        return dict(report)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=6).hexdigest()


def ingest_path(
    store: EventStore,
    path: str,
    options: Options | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Read one file, or standard input for `-`, into the store.

    Raises InputError when there is nothing to read at all.
    """
    if path == "-":
        with _spooled(sys.stdin.buffer) as copy:
            return ingest_file(store, copy, "stdin", options, progress=progress)
    if is_spool(Path(path)):
        return _ingest_spool(store, Path(path))
    with open_path(Path(path)) as file:
        if not file.seekable():
            with _spooled(file) as copy:
                return ingest_file(store, copy, path, options, progress=progress)
        return ingest_file(
            store, file, path, options,
            not_after=modified_at(Path(path)), progress=progress,
        )  # fmt: skip


def _ingest_spool(store: EventStore, path: Path) -> Outcome:
    """Store what a recorder left, with what the others of its run did; the files stay, as
    any that are read."""
    spool = read_spool(path)
    drained = drain(store, spools_beside(spool), removes=False)
    run_id = spool.run.run_id
    refresh(store, run_id)
    read = [event is not None for _, event in spool.read(0)]
    report = {
        "lines": 1 + len(read),
        "events": sum(read),
        "unknown": len(read) - sum(read),
        "dialects": ["recorder"],
    }
    return Outcome(
        str(path), [run_id], "new" if drained.num_events else "unchanged", report
    )


def is_plain(path: str) -> bool:
    """Whether this is a log in a file: no pipe, no events that a recorder kept.

    What cannot be looked at counts as one; reading it raises what is wrong.
    """
    try:
        is_special = path == "-" or stat.S_ISFIFO(Path(path).stat().st_mode)
    except OSError:
        return True
    return not is_special and not is_spool(Path(path))


def _spooled(stream: BinaryIO) -> BinaryIO:
    """A seekable copy of a stream, on disk once it is large."""
    spool = tempfile.SpooledTemporaryFile(max_size=8 << 20)  # noqa: SIM115 - returned
    while chunk := stream.read(1 << 20):
        spool.write(chunk)
    spool.seek(0)
    return spool  # type: ignore[return-value]


def ingest_file(
    store: EventStore,
    file: BinaryIO,
    path: str,
    options: Options | None = None,
    *,
    not_after: float | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Read an open, seekable file into the store; one transaction or nothing."""
    options = options or Options()
    name = Path(path).name
    stored = find_stored(store, file, name)
    if stored.source is not None and stored.is_whole:
        return unchanged(store, stored.source, path, options)
    file.seek(0)
    parts = read_log(file, name, options, not_after=not_after, progress=progress)
    return store_log(store, parts, path, options, stored.source)


def unchanged(
    store: EventStore, source: SourceRecord, path: str, options: Options
) -> Outcome:
    """The outcome for bytes that are stored; a label is still given to their runs."""
    ids = store.run_ids(source.source_id)
    if options.label is not None:
        for run_id in ids:
            store.update_run(run_id, label=options.label)
    return Outcome(path, ids, "unchanged", dict(source.report))


class Stored(NamedTuple):
    """What is stored of a file."""

    head: str
    """How it begins."""
    candidates: list[tuple[int, str, str]]
    """Size, digest and id of the sources that begin so, the longest first."""
    source: SourceRecord | None = None
    """The one that the file repeats or continues."""
    is_whole: bool = False
    """True when it repeats that source or a shorter version of it."""


def find_stored(store: EventStore, file: BinaryIO, name: str) -> Stored:
    """What is stored of an open file."""
    head = head_digest(file, name)
    candidates = store.beginnings(head)
    if not candidates:
        return Stored(head, candidates)
    file.seek(0)
    whole, parts = digests(file, name, sorted({size for size, _, _ in candidates}))
    for source in store.sources_naming(head, whole):
        # A copy of a file from before it grew adds nothing either.
        if whole in (source.digest, *source.report.get(_SHORTER, ())):
            return Stored(head, candidates, source, is_whole=True)
    for size, digest, source_id in candidates:
        if parts.get(size) == digest:
            with suppress(StoreError):  # another process has just removed it
                return Stored(head, candidates, store.source(source_id))
    return Stored(head, candidates)
