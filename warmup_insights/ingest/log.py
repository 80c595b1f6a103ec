"""Reading one log: its events as they come, then its report."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import msgspec

from parsers.files import LogReader
from warmup_insights.analysis.summary import Folded, RunFold
from warmup_insights.ingest.outcome import Options, Progress
from warmup_insights.model.events import AnyEvent
from warmup_insights.model.run import RunRecord

LARGE_BYTES = 32 << 20
"""A log of this size is stored while another process still reads it."""
PROGRESS_BYTES = 4 << 20
"""Progress is reported this often."""


class Events(msgspec.Struct, tag=True):
    """Some events of a log, in its order."""

    digest: str
    """Hash of the text up to the last of them."""
    batch: list[tuple[int, list[AnyEvent]]]
    """Ordinals of runs, each once, with their events."""


class LogEnd(msgspec.Struct, tag=True):
    """What is known of a log when it was read to its end."""

    head_digest: str
    """Hash of its first line."""
    digest: str
    """Hash of all its text."""
    size: int
    """Bytes of its text, uncompressed."""
    report: dict[str, Any]
    """The report of its parsing, plain JSON values."""
    kept_lines: list[tuple[int, str | None, str]]
    """Lines to keep: `(line, rule or None, text)`."""
    runs: dict[int, Folded]
    """Ordinals of the runs with events to summaries and rows, without id and label."""


Part = Events | LogEnd


def read_log(
    file: BinaryIO,
    name: str,
    options: Options,
    *,
    not_after: float | None = None,
    progress: Progress | None = None,
) -> Iterator[Part]:
    """The events of an open log, last written at `not_after`, and one `LogEnd`.

    `progress` is called with the bytes of the file read since the last call.
    """
    reader = LogReader(
        file if progress is None else _Watched(file, progress),  # type: ignore[arg-type]
        name,
        not_after=not_after,
        year=options.year,
        zone=options.zone,
        timezone=options.timezone,
    )
    folds: dict[int, RunFold] = {}
    for groups in reader:
        batch: dict[int, list[AnyEvent]] = {}
        for ordinal, events in groups:
            batch.setdefault(ordinal, []).extend(events)  # type: ignore[arg-type]
        for ordinal, own in batch.items():
            if ordinal not in folds:
                folds[ordinal] = RunFold()
            folds[ordinal].add_all(own)
        yield Events(reader.digest, [*batch.items()])
    yield LogEnd(
        head_digest=reader.head_digest,
        digest=reader.digest,
        size=reader.size,
        report=reader.report.as_dict(),
        kept_lines=reader.report.kept_lines,
        runs={
            # Id and label are filled in where they are stored.
            ordinal: fold.result(
                RunRecord(
                    run_id="",
                    source_kind="log",
                    source_name=name,
                    ordinal=ordinal,
                    synthetic=options.synthetic,
                )
            )
            for ordinal, fold in folds.items()
        },
    )


class _Watched:
    """A file that reports how much of it was read, every few MiB and at its end."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress
        self._unreported = 0

    def read(self, size: int = -1) -> bytes:
        """Read from the file."""
        data = self._file.read(size)
        self._unreported += len(data)
        if self._unreported and (not data or self._unreported >= PROGRESS_BYTES):
            self._progress(self._unreported)
            self._unreported = 0
        return data


@contextmanager
def rare_collections() -> Iterator[None]:
    """Run the garbage collector seldom: none of the many small objects is in a cycle."""
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)
