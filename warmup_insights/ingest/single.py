"""Reads one log into the store, in this process."""

from __future__ import annotations

import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from parsers.files import digests, head_digest
from parsers.source import modified_at, open_path
from warmup_insights.ingest.log import Part, read_log, source_name
from warmup_insights.ingest.outcome import Options, Outcome, Progress
from warmup_insights.ingest.write import AlreadyStoredError, digests_in, write_log
from warmup_insights.model.run import SourceRecord
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore
from warmup_insights.storage.drain import drain
from warmup_insights.storage.spool import is_spool, read_spool


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
    """Store what a recorder left; the file stays, as any that is read."""
    spool = read_spool(path)
    drained = drain(store, [spool], removes=False)
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
    name = source_name(path)
    stored = find_stored(store, file, name)
    if stored.source is not None and stored.is_whole:
        return unchanged(store, stored.source, path, options)
    file.seek(0)
    parts = read_log(file, name, options, not_after=not_after, progress=progress)
    return store_log(store, parts, path, options, stored.source)


def store_log(
    store: EventStore,
    parts: Iterator[Part],
    path: str,
    options: Options,
    older: SourceRecord | None,
) -> Outcome:
    """Store the parts of a log that continues an older source or none."""
    try:
        ids, report = write_log(store, parts, source_name(path), options, older)
    except AlreadyStoredError as stored:
        return unchanged(store, stored.source, path, options)
    state = "continued" if older else "new" if ids else "nothing"
    return Outcome(path, ids, state, report)


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
        if whole in digests_in(source):
            return Stored(head, candidates, source, is_whole=True)
    for size, digest, source_id in candidates:
        if parts.get(size) == digest:
            return Stored(head, candidates, store.source(source_id))
    return Stored(head, candidates)
