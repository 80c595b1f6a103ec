"""Spools: the files that recorders append events to, one per process.

First line: the run, the database it is meant for, and a token that is this file's alone.
Every further line: one event, as in the `payload` column. Last line, once the recorder
is closed: `CLOSED`. This module loads no database library: it runs in engines.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from warmup_insights.errors import InputError, StoreError
from warmup_insights.model.events import AnyEvent, Event, encode_lines
from warmup_insights.model.run import RunRecord, host, is_gone, own_process
from warmup_insights.storage.location import database_path, shown_location
from warmup_insights.storage.rows import event_payload, read_payload, to_json

SPOOL_FORMAT = 1
CLOSED = b'{"closed":true}\n'
RESERVE = 16 << 10
"""Free bytes that events leave, so that the last lines of the spool find room."""
RETRY_S = 5.0
"""How long folders without room are left alone."""
ABANDONED_S = 86_400.0
"""Age of the last line after which a process that cannot be looked at counts as gone."""

logger = logging.getLogger(__name__)

_KEY = "warmup_insights_events"
_SUFFIX = ".events.jsonl"
_LONGEST_HEAD = 1 << 20


class Spool:
    """Appends the events of one process to a file beside the database.

    Where that folder takes none, or no more, a file in the folder for temporary files
    goes on. What is in a file stays there; what finds no room is left out, from then on
    until there is room again. `on_start` is called when the first events are in a file.
    """

    def __init__(
        self,
        database: str | Path,
        run: RunRecord,
        *,
        on_start: Callable[[], object] | None = None,
    ) -> None:
        self._database = _database_text(database)
        self._stem, self._folders = _places(database)
        self._run = replace(
            run,
            status="running" if run.status == "unknown" else run.status,
            started_at=time.time() if run.started_at is None else run.started_at,
        )
        self._on_start = on_start
        self._is_full = False
        self.renew()

    def renew(self) -> None:
        """Begin anew, in the child of a fork: the file so far is the parent's."""
        if getattr(self, "_file", None) is not None:
            os.close(self._file)  # type: ignore[arg-type]
        self._file: int | None = None
        self.path: Path | None = None
        """The file that is written to, once there is one."""
        self._part = 0
        self._left = list(self._folders)
        self._retry_at = 0.0

    def append(self, events: Sequence[Event]) -> None:
        """Write events to the end, all or none; without any, touch the file.

        Raises StoreError when no folder has room for them.
        """
        if not events:
            if self._file is not None:
                os.utime(self._file)
            return
        self._append(_lines(events))
        if self._on_start is not None:
            start, self._on_start = self._on_start, None
            start()

    def _append(self, data: bytes) -> None:
        reasons = []
        if self._file is not None and not os.fstat(self._file).st_nlink:
            os.close(self._file)  # the file was removed
            self._file, self._left = None, list(self._folders)
        if self._file is not None and self.path is not None and not self._is_full:
            try:
                _put(self._file, data, RESERVE)
            except OSError as error:
                reasons.append(f"{self.path.parent}: {error.strerror}")
                self._is_full = True
                self._retry_at = time.monotonic() + RETRY_S
            else:
                return
        if not self._left and time.monotonic() >= self._retry_at:
            self._left = list(self._folders)
        while self._left:
            folder = self._left.pop(0)
            self._retry_at = time.monotonic() + RETRY_S
            try:
                self._begin(folder, data)
            except OSError as error:
                reasons.append(f"{folder}: {error.strerror}")
            else:
                if reasons:
                    text = "The recorded events go to %s (%s)"
                    logger.warning(text, self.path, ", ".join(reasons))
                return
        raise StoreError(
            f"No folder has room for them ({', '.join(reasons)}); free some space, "
            "until then they are only counted"
        )

    def _begin(self, folder: Path, data: bytes) -> None:
        run = replace(
            self._run,
            heartbeat_at=time.time(),
            process=self._run.process or own_process(),
        )
        token = secrets.token_hex(4)
        head = {
            _KEY: SPOOL_FORMAT,
            "run": vars(run),
            "database": self._database,
            "part": self._part,
            "token": token,
        }
        safe_id = re.sub(r"[^A-Za-z0-9_.-]", "_", run.run_id)[:64]
        path = folder / f"{self._stem}.{safe_id}.{os.getpid()}-{token}{_SUFFIX}"
        # Folders for temporary files are open to all users: what is there is not opened.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL
        flags |= getattr(os, "O_BINARY", 0)  # Windows would change line ends
        file = os.open(path, flags, 0o666)
        try:
            _put(file, f"{to_json(head)}\n".encode() + data, RESERVE)
        except OSError:
            os.close(file)
            path.unlink(missing_ok=True)
            raise
        older, self._file, self.path, self._is_full = self._file, file, path, False
        self._part += 1
        if older is not None:
            _end(older, b"")

    def close(self, last: Sequence[Event] = ()) -> None:
        """Write the last events and the end. Raises StoreError when there is no room."""
        if self._file is None:
            if not last:
                return
            self.append(last)
            last = ()
        assert self._file is not None
        file, self._file = self._file, None
        if not _end(file, _lines(last)):
            raise StoreError(f"The end of {self.path} has no room; free some space")


def _lines(events: Sequence[Event]) -> bytes:
    try:
        return encode_lines(events)
    except (UnicodeEncodeError, TypeError, OverflowError, ValueError):
        return "".join(f"{event_payload(event)}\n" for event in events).encode()


def _put(file: int, data: bytes, reserve: int = 0) -> None:
    """Append data as a whole. Raises OSError, and leaves the file as it was."""
    disk = os.fstatvfs(file)
    if reserve and disk.f_bavail * disk.f_frsize < len(data) + reserve:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    begin, view = os.lseek(file, 0, os.SEEK_END), memoryview(data)
    try:
        while view:
            view = view[os.write(file, view) :]
    except OSError:
        os.ftruncate(file, begin)
        raise


def _end(file: int, data: bytes) -> bool:
    """Write the last lines and close the file; False when there was no room."""
    try:
        _put(file, data + CLOSED)
    except OSError:
        return False
    finally:
        os.close(file)
    return True


def _database_text(database: str | Path) -> str:
    path = database_path(database)
    return shown_location(str(database)) if path is None else str(path)


def _places(database: str | Path) -> tuple[str, list[Path]]:
    """How the names of spools begin, and the folders they are in."""
    path = database_path(database)
    beside = Path.cwd() if path is None else path.parent
    stem = "warmup_insights" if path is None else path.name
    return stem, [beside, Path(tempfile.gettempdir())]


@dataclass(frozen=True)
class SpoolFile:
    """A spool that is there, as its first line describes it."""

    path: Path
    run: RunRecord
    database: str | None
    key: str
    """Identifies it among all spools, whatever its name."""
    part: int
    """Which of its process, from 0."""
    start: int
    """Offset of the first event."""

    def is_over(self) -> bool:
        """True when nothing will be added: it is closed, or its process is gone."""
        with self.path.open("rb") as file:
            file.seek(-min(len(CLOSED), self.path.stat().st_size), os.SEEK_END)
            is_closed = file.read() == CLOSED
        process = self.run.process or ""
        is_elsewhere = not process.startswith(f"{host()}|")
        age = time.time() - self.path.stat().st_mtime
        is_abandoned = is_elsewhere and age > ABANDONED_S
        return is_closed or is_gone(process) or is_abandoned

    def state(self) -> tuple[int, float, bool]:
        """Size, time of the last sign of life, and whether it is over: another one when
        there is something to store."""
        found = self.path.stat()
        return found.st_size, found.st_mtime, self.is_over()

    def read(self, offset: int) -> Iterator[tuple[int, AnyEvent | None]]:
        """Whole lines from an offset on: where each ends, and its event.

        None for a line that cannot be read.
        """
        offset = max(offset, self.start)
        with self.path.open("rb") as file:
            file.seek(offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                if line != CLOSED:
                    yield offset, read_payload(line)


def read_spool(path: Path) -> SpoolFile:
    """The head of a spool. Raises InputError when the file is something else."""
    with path.open("rb") as file:
        first = file.readline(_LONGEST_HEAD)
    try:
        head = msgspec.json.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError):
        head = None
    if not isinstance(head, dict) or head.get(_KEY) != SPOOL_FORMAT:
        raise InputError(f"{path} is no file of a recorder; check the path")
    try:
        run = msgspec.convert(head.get("run"), RunRecord)
        part = msgspec.convert(head.get("part", 0), int)
        database = msgspec.convert(head.get("database"), str | None)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}:1: the run cannot be read: {error}; restore the line"
        ) from None
    key = hashlib.sha256(first).hexdigest()[:16]
    return SpoolFile(path, run, database, key, part, len(first))


def is_spool(path: Path) -> bool:
    """True for a file of events that a recorder wrote."""
    if not path.name.endswith(_SUFFIX) or not os.path.isfile(path):
        return False
    with suppress(OSError), path.open("rb") as file:
        return file.read(64).startswith(f'{{"{_KEY}":{SPOOL_FORMAT},'.encode())
    return False


def _is_mine(path: Path) -> bool:
    """Whether a file is of this user; on Windows the folder for temporary files is."""
    return not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()


def find_spools(database: str | Path, run_id: str | None = None) -> list[SpoolFile]:
    """Spools for a database, or for one run of it; one listing of two folders.

    In the folder for temporary files only those of this user count.
    """
    stem, folders = _places(database)
    meant = _database_text(database)
    found = []
    for folder in dict.fromkeys(folders):
        is_beside = folder == folders[0] and "://" not in meant
        for name in _names(folder, stem):
            try:
                if not (is_beside or _is_mine(folder / name)):
                    continue
                spool = read_spool(folder / name)
            except (OSError, InputError):
                continue
            its = spool.database or meant
            is_meant = Path(its).name == stem if is_beside else its == meant
            if is_meant and run_id in (None, spool.run.run_id):
                found.append(spool)
    return found


def spools_beside(spool: SpoolFile) -> list[SpoolFile]:
    """All spools of the run of a spool: those for its database, and those in its folder.

    Only together can they be put in the order of time.
    """
    found = {spool.key: spool}
    if spool.database is not None:
        for other in find_spools(spool.database, spool.run.run_id):
            found.setdefault(other.key, other)
    for path in sorted(spool.path.parent.iterdir()):
        if path.name.endswith(_SUFFIX) and spool.run.run_id in path.name:
            with suppress(OSError, InputError):
                other = read_spool(path)
                if other.run.run_id == spool.run.run_id:
                    found.setdefault(other.key, other)
    return list(found.values())


def _names(folder: Path, stem: str) -> list[str]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [n for n in names if n.startswith(f"{stem}.") and n.endswith(_SUFFIX)]
