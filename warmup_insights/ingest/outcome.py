"""How logs are read, and what came of each."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any

from warmup_insights.errors import InputError

YEARS = (2023, 2100)
"""The first and the last year that a log can be of."""
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
    """The file is still being written: a start-up that is neither ready nor failed is
    running."""

    @property
    def zone(self) -> tzinfo | None:
        """The time zone of the timestamps; None when unknown. Raises SettingError."""
        # The help of `ingest` loads no parser.
        from parsers.engine.stamps import zone_of

        return zone_of(self.timezone)


@dataclass
class Outcome:
    """What came of one file."""

    path: str
    run_ids: list[str] = field(default_factory=list)
    state: str = "new"
    """`new`, `unchanged` (these bytes are stored), `continued`, `nothing` (no start-up was
    found, nothing is stored) or `failed`."""
    report: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def named(self, path: str) -> Outcome:
        """The same of a file that is called by another path, also in the error."""
        error = self.error and self.error.replace(self.path, path)
        return replace(self, path=path, error=error)

    @property
    def unknown_note(self) -> str | None:
        """How many lines no rule matches that look as if one should; None for none."""
        count = self.report.get("unknown", 0)
        if count == 1:
            return "1 line looks relevant but is not known"
        return f"{count:,} lines look relevant but are not known" if count else None

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


class Watcher:
    """Called with how far the reading is, one call at a time, perhaps from other threads."""

    def read(self, count: int) -> None:
        """So many bytes more were read."""

    def done(self, outcome: Outcome) -> None:
        """One file more is done, in whatever order."""

    def again(self, path: str, problem: str) -> None:
        """A file could not be read and is tried again."""


class ReadBytes:
    """Reports every byte of some files to a watcher once, also of those never read."""

    def __init__(self, files: Sequence[str], watcher: Watcher) -> None:
        self._unread = sum(map(file_size, files))
        self._watcher = watcher

    def add(self, count: int) -> None:
        """So many bytes more were read."""
        count = min(count, self._unread)
        self._unread -= count
        self._watcher.read(count)

    def finish(self) -> None:
        """Nothing more will be read."""
        self.add(self._unread)


def file_size(path: str) -> int:
    """Bytes of a file; 0 for what is none."""
    return os.path.getsize(path) if os.path.isfile(path) else 0


@contextmanager
def temporary_folder() -> Iterator[str]:
    """A folder that is gone in the end. Raises InputError when there can be none."""
    try:
        folder = tempfile.TemporaryDirectory(
            prefix="warmup-insights-", ignore_cleanup_errors=True
        )
    except OSError as error:
        raise no_room(error) from None
    with folder as name:
        yield name


def no_room(error: OSError) -> InputError:
    """The error for a folder that takes no temporary file."""
    return InputError(
        "The folder for temporary files cannot be written to "
        f"({error.strerror or error}); set TMPDIR to another one, or read with --jobs 1"
    )
