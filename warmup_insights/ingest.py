"""From logs to the store: one transaction per file, nothing twice, nothing lost."""

from __future__ import annotations

import dataclasses
import gc
import glob
import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any, BinaryIO

from parsers.engine import ParsedRun
from parsers.files import LogReader, digests, head_digest
from parsers.source import modified_at, open_path
from parsers.stamps import zone_of
from warmup_insights.analysis.refresh import put
from warmup_insights.analysis.summary import Summarizer
from warmup_insights.errors import InputError
from warmup_insights.storage import EventStore, RunRecord, SourceRecord, Transaction
from warmup_insights.storage.spill import ingest_spill, is_spill_file

BATCH = 10_000
"""Events held before the transaction begins; small logs never hold the lock long."""
_SUFFIXES = (".log", ".txt", ".out", ".err", ".json", ".jsonl", ".ipynb", ".gz", ".zst",
             ".log.1", ".stdout", ".stderr")  # fmt: skip

Progress = Callable[[int], None]
"""Called with the number of bytes read since the last call."""


@dataclass(frozen=True)
class Options:
    """How logs are read."""

    year: int | None = None
    timezone: str | None = None
    label: str | None = None
    synthetic: bool = False
    """Mark the runs as made up."""
    is_growing: bool = False
    """The file is still being written: an open run is running, not unknown."""

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the stamps; None when unknown. Raises SettingError."""
        return zone_of(self.timezone)


@dataclass
class Outcome:
    """What came of one file."""

    path: str
    run_ids: list[str] = field(default_factory=list)
    state: str = "new"
    """`new`, `unchanged` (these bytes are stored), `continued` or `failed`."""
    report: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """The answer of `ingest --json` for this file."""
        report = self.report
        return {
            "path": self.path,
            "runs": self.run_ids,
            "lines": report.get("lines", 0),
            "events": report.get("events", 0),
            "unknown": report.get("unknown", 0),
            "dialects": report.get("dialects", []),
            "state": self.state,
            "error": self.error,
            "report": report,
        }


def find_files(paths: Iterable[str]) -> Iterator[str]:
    """The files that paths, folders and globs stand for; `-` is standard input.

    A folder gives the files below it that look like logs, symbolic links left out.
    """
    for text in paths:
        path = Path(text)
        if text == "-" or not (path.is_dir() or glob.has_magic(text)) or path.is_file():
            yield text
        elif path.is_dir():
            yield from _files_below(path)
        else:
            matches = sorted(glob.glob(text, recursive=True))
            if not matches:
                raise InputError(f"Nothing matches {text}; check the pattern")
            yield from (match for match in matches if os.path.isfile(match))


def _files_below(folder: Path) -> Iterator[str]:
    found = [
        str(Path(root) / name)
        for root, _, names in os.walk(folder)
        for name in names
        if name.endswith(_SUFFIXES) and not (Path(root) / name).is_symlink()
    ]
    if not found:
        raise InputError(
            f"{folder} holds no log files ({', '.join(_SUFFIXES[:4])}, ...); "
            "name the files themselves"
        )
    yield from sorted(found)


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
        with _spooled(sys.stdin.buffer) as file:
            return ingest_file(store, file, "stdin", options, progress=progress)
    if is_spill_file(Path(path)):
        return Outcome(path, *ingest_spill(store, Path(path)))
    with open_path(Path(path)) as file:
        if not file.seekable():
            with _spooled(file) as copy:
                return ingest_file(store, copy, path, options, progress=progress)
        return ingest_file(
            store, file, path, options,
            not_after=modified_at(Path(path)), progress=progress,
        )  # fmt: skip


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
    name = os.path.basename(path) or path
    older = _stored_beginning(store, file, name)
    if older is not None and older[1]:
        known = older[0]
        return _unchanged(store, known, path, options)
    file.seek(0)
    reader = LogReader(
        file if progress is None else _Watched(file, progress),  # type: ignore[arg-type]
        name, not_after=not_after, year=options.year, zone=options.zone,
        timezone=options.timezone,
    )  # fmt: skip
    writer = _Writer(store, reader, name, options, older[0] if older else None)
    try:
        run_ids = writer.write()
    except _AlreadyStored as stored:
        return _unchanged(store, stored.source, path, options)
    state = "continued" if older else "new"
    return Outcome(path, run_ids, state, reader.report.as_dict())


class _AlreadyStored(Exception):
    """Somebody else stored the same bytes while we read them."""

    def __init__(self, source: SourceRecord) -> None:
        self.source = source


def _unchanged(
    store: EventStore, source: SourceRecord, path: str, options: Options
) -> Outcome:
    runs = sorted(store.runs(source_id=source.source_id), key=lambda r: r.ordinal)
    if options.label is not None:
        for run in runs:
            store.set_label(run.run_id, options.label)
    ids = [run.run_id for run in runs]
    return Outcome(path, ids, "unchanged", dict(source.report))


def _stored_beginning(
    store: EventStore, file: BinaryIO, name: str
) -> tuple[SourceRecord, bool] | None:
    """The stored source that this file repeats (True) or continues (False)."""
    candidates = store.sources_with_head(head_digest(file, name))
    if not candidates:
        return None
    file.seek(0)
    whole, beginnings = digests(file, name, [c.size_bytes for c in candidates])
    for source in candidates:
        if source.digest == whole:
            return source, True
    for source in candidates:
        if beginnings.get(source.size_bytes) == source.digest:
            return source, False
    return None


class _Watched:
    """A file that tells how much was read."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(size)
        self._progress(len(data))
        return data


@contextmanager
def _rare_collections() -> Iterator[None]:
    """Let the garbage collector look seldom: nothing here is part of a cycle."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


class _Writer:
    """Writes what a reader gives, in one transaction that begins late."""

    def __init__(
        self,
        store: EventStore,
        reader: LogReader,
        name: str,
        options: Options,
        replaced: SourceRecord | None,
    ) -> None:
        self._store = store
        self._reader = reader
        self._name = name
        self._options = options
        self._replaced = replaced
        self._records: dict[int, RunRecord] = {}
        self._summaries: dict[int, Summarizer] = {}

    def write(self) -> list[str]:
        """Store everything; the ids of the runs."""
        with _rare_collections():
            return self._write()

    def _write(self) -> list[str]:
        batches = iter(self._reader)
        held: list[tuple[int, Any]] = []
        for batch in batches:
            held += batch
            if len(held) >= BATCH:
                break
        labels = self._labels()
        with self._store.begin() as transaction:
            if self._replaced is not None:
                transaction.delete_source(self._replaced.source_id)
            self._append(transaction, held)
            for batch in batches:
                self._append(transaction, batch)
            self._finish(transaction, labels)
        return [self._records[n].run_id for n in sorted(self._records)]

    def _labels(self) -> dict[str, tuple[str | None, str | None]]:
        """Labels and notes that people gave to the runs of the replaced source."""
        if self._replaced is None:
            return {}
        runs = self._store.runs(source_id=self._replaced.source_id)
        return {run.run_id: (run.label, run.notes) for run in runs}

    def _append(self, transaction: Transaction, batch: list[tuple[int, Any]]) -> None:
        by_run: dict[int, list[Any]] = {}
        for ordinal, event in batch:
            by_run.setdefault(ordinal, []).append(event)
        for ordinal, events in by_run.items():
            record = self._records.get(ordinal)
            if record is None:
                record = self._add_run(transaction, self._reader.runs[ordinal])
            summary = self._summaries[ordinal]
            for event in events:
                summary.add(event)
            transaction.append(record.run_id, events)

    def _add_run(self, transaction: Transaction, run: ParsedRun) -> RunRecord:
        key = f"{self._reader.head_digest}/{run.first_line}/{run.key}"
        record = RunRecord(
            run_id=_run_id(key), source_kind="log", source_name=self._name,
            ordinal=run.ordinal, label=self._options.label,
            synthetic=self._options.synthetic,
        )  # fmt: skip
        salt = 0
        while not transaction.ensure_run(record):
            # Another file begins in the same way and went on differently.
            salt += 1
            record = dataclasses.replace(record, run_id=_run_id(f"{key}/{salt}"))
        self._records[run.ordinal] = record
        self._summaries[run.ordinal] = Summarizer()
        return record

    def _finish(
        self, transaction: Transaction, labels: dict[str, tuple[str | None, str | None]]
    ) -> None:
        reader, report = self._reader, self._reader.report
        stored = transaction.source_with_digest(reader.digest)
        if stored is not None:
            raise _AlreadyStored(stored)
        source_id = reader.digest[:16]
        source = SourceRecord(
            source_id=source_id, name=self._name, digest=reader.digest,
            head_digest=reader.head_digest, size_bytes=reader.size,
            lines=report.lines, dialects=tuple(sorted(report.dialects)),
            report=report.as_dict(), timezone=self._options.timezone,
        )  # fmt: skip
        transaction.add_source(source)
        transaction.add_source_lines(source_id, report.kept_lines)
        for ordinal, record in self._records.items():
            label, notes = labels.get(record.run_id, (None, None))
            label = self._options.label or label
            record = dataclasses.replace(
                record, source_id=source_id, label=label, notes=notes
            )
            transaction.update_run(
                record.run_id, source_id=source_id, label=label, notes=notes
            )
            summary = self._summaries[ordinal].result(record)
            if self._options.is_growing and summary.summary["status"] == "unknown":
                summary.summary["status"] = "running"
            put(transaction, record, summary)


def _run_id(key: str) -> str:
    return hashlib.blake2b(key.encode(), digest_size=6).hexdigest()
