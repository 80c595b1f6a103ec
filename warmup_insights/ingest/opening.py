"""Opening a log for reading, the same in every process."""

from __future__ import annotations

import os
from typing import BinaryIO

from parsers.files import LogReader
from warmup_insights.ingest.log import ReadLog
from warmup_insights.ingest.outcome import Options, Progress


class Watched:
    """A file that tells how much was read; 0 at its end."""

    def __init__(self, file: BinaryIO, progress: Progress) -> None:
        self._file = file
        self._progress = progress

    def read(self, size: int = -1) -> bytes:
        """Read from the file, and tell."""
        return self._tell(self._file.read(size))

    def readline(self, size: int = -1) -> bytes:
        """Read to the end of the line, and tell."""
        return self._tell(self._file.readline(size))

    def _tell(self, data: bytes) -> bytes:
        self._progress(len(data))
        return data


def source_name(path: str) -> str:
    """How a source is called that was read from a path."""
    return os.path.basename(path) or path


def open_log(
    file: BinaryIO | Watched, name: str, options: Options, *, not_after: float | None
) -> ReadLog:
    """The log in an open file, last written at `not_after`."""
    reader = LogReader(
        file,  # type: ignore[arg-type]
        name,
        not_after=not_after,
        year=options.year,
        zone=options.zone,
        timezone=options.timezone,
    )
    return ReadLog(reader, name)
