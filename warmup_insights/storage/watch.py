"""Notices that a database file was removed or replaced under an open connection."""

from __future__ import annotations

from pathlib import Path

Identity = tuple[int, int]


class WatchedFile:
    """A SQLite file as it was when we opened it, and its write-ahead log."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._identity: Identity | None = None
        self._log_identity: Identity | None = None

    def remember(self) -> None:
        """What is there now is ours."""
        self._identity = _identity(self._path)
        self._log_identity = _identity(self._log)

    def is_gone(self) -> bool:
        """True when the file that we opened is not there any more."""
        return self._identity is not None and _identity(self._path) != self._identity

    def forget(self) -> None:
        """Give the lost file up, and its log: SQLite would apply it to a new file."""
        if (
            self._log_identity is not None
            and _identity(self._log) == self._log_identity
        ):
            self._log.unlink(missing_ok=True)
        self._identity = None


def _identity(path: Path) -> Identity | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
