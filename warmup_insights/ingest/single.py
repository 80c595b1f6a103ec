"""Reads one log into the store, in this process."""

from __future__ import annotations

import stat
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO

from parsers.files import digests, head_digest
from parsers.source import modified_at, open_path
from warmup_insights.ingest.opening import Watched, open_log, source_name
from warmup_insights.ingest.outcome import Options, Outcome, Progress
from warmup_insights.ingest.write import AlreadyStoredError, LogWriter, digests_in
from warmup_insights.model.run import SourceRecord
from warmup_insights.storage import EventStore
from warmup_insights.storage.spill import ingest_spill, is_spill_file


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


def is_plain(path: str) -> bool:
    """Whether this is a log in a file: no pipe, no events that a recorder kept.

    What cannot be looked at counts as one; reading it will say what is wrong.
    """
    try:
        is_special = path == "-" or stat.S_ISFIFO(Path(path).stat().st_mode)
    except OSError:
        return True
    return not is_special and not is_spill_file(Path(path))


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
    name = source_name(path)
    older = _stored_beginning(store, file, name)
    if older is not None and older[1]:
        return unchanged(store, older[0], path, options)
    file.seek(0)
    watched = file if progress is None else Watched(file, progress)
    log = open_log(watched, name, options, not_after=not_after)
    replaced = older[0] if older else None
    writer = LogWriter(store, log, name, options, replaced=replaced)
    try:
        run_ids = writer.write()
    except AlreadyStoredError as stored:
        return unchanged(store, stored.source, path, options)
    return Outcome(path, run_ids, "continued" if older else "new", writer.report)


def unchanged(
    store: EventStore, source: SourceRecord, path: str, options: Options
) -> Outcome:
    """The outcome for bytes that are stored; a label is still given to their runs."""
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
    head = head_digest(file, name)
    candidates = store.beginnings(head)
    if not candidates:
        return None
    file.seek(0)
    whole, parts = digests(file, name, sorted({size for size, _, _ in candidates}))
    for source in store.sources_naming(head, whole):
        if whole in digests_in(source):
            return source, True
    for size, digest, source_id in candidates:
        if parts.get(size) == digest:
            return store.source(source_id), False
    return None
