"""Events of a recorder that the database could not take, kept in a JSONL file.

First line: the run. Every further line: one event, as in the `payload` column.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from warmup_insights.errors import InputError, StoreError
from warmup_insights.model.events import AnyEvent, Event
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.storage.rows import event_payload, read_payload
from warmup_insights.storage.store import EventStore
from warmup_insights.storage.text import to_json

SPILL_FORMAT = 1
SPILL_DIALECT = "recorder"
"""What stands for a dialect in the report of such a file."""
SPILL_KEY = "warmup_insights_events"
"""Key of the first line by which such a file is known; its value is the format."""

_SUFFIX = ".events.jsonl"
_LONGEST_HEAD = 1 << 20


class SpillFile:
    """Appends events to a file of their own, in a folder that can be written."""

    def __init__(self, run: RunRecord, folders: Iterable[Path], stem: str) -> None:
        self._run = run
        self._folders = list(folders)
        safe_id = re.sub(r"[^A-Za-z0-9_.-]", "_", run.run_id)[:64]
        self._name = f"{stem}.{safe_id}.{os.getpid()}{_SUFFIX}"
        self.path: Path | None = None
        """The file, once there is one."""
        self.num_events = 0

    def append(self, events: Iterable[Event]) -> None:
        """Write events to the end of the file. Raises StoreError when no disk has room."""
        lines = [event_payload(event) for event in events]
        text = "".join(f"{line}\n" for line in lines)
        if self.path is None:
            self._create(text)
        else:
            self._extend(self.path, text)
        self.num_events += len(lines)

    def _create(self, text: str) -> None:
        head = to_json({SPILL_KEY: SPILL_FORMAT, "run": vars(self._run)})
        reasons = []
        for folder in self._folders:
            path = folder / self._name
            try:
                _write_all(path, f"{head}\n{text}")
            except OSError as error:
                reasons.append(f"{folder}: {error.strerror}")
                path.unlink(missing_ok=True)
            else:
                self.path = path
                return
        raise StoreError(f"No folder takes the recorded events ({'; '.join(reasons)})")

    def _extend(self, path: Path, text: str) -> None:
        size = path.stat().st_size if path.exists() else 0
        if size == 0:
            self.path = None
            self._create(text)
            return
        try:
            _write_all(path, text)
        except OSError as error:
            os.truncate(path, size)
            raise StoreError(
                f"{path} takes no more events: {error.strerror}"
            ) from error

    def remove(self) -> None:
        """Delete the file: its events are in the database."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        self.path = None
        self.num_events = 0


def _write_all(path: Path, text: str) -> None:
    # Folders for temporary files belong to everybody: a link put there is not followed.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags, 0o666), "ab") as file:
        file.write(text.encode())


def spill_folders(database: Path | None) -> list[Path]:
    """Where to try: beside the database, then the folder for temporary files."""
    beside = Path.cwd() if database is None else database.absolute().parent
    return [beside, Path(tempfile.gettempdir())]


def is_spill_file(path: Path) -> bool:
    """True for a file of events that a recorder kept."""
    if not path.name.endswith(_SUFFIX) or not path.is_file():
        return False
    with path.open("rb") as file:
        return _head(file.readline(_LONGEST_HEAD)) is not None


def _head(first_line: str | bytes) -> dict[str, Any] | None:
    try:
        head = msgspec.json.decode(first_line)
    except msgspec.DecodeError:
        return None
    known = isinstance(head, dict) and head.get(SPILL_KEY) == SPILL_FORMAT
    return head if known else None


def read_spill(path: Path) -> tuple[RunRecord, list[AnyEvent], int]:
    """The run, its events, and how many lines could not be read (a cut last line).

    Raises InputError when the file is something else.
    """
    lines = path.read_bytes().splitlines()
    head = _head(lines[0]) if lines else None
    if head is None:
        raise InputError(f"{path} does not hold events that a recorder kept")
    try:
        run = msgspec.convert(head.get("run"), RunRecord)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}:1: the run cannot be read: {error}") from None
    read = [read_payload(line) for line in lines[1:]]
    events = [event for event in read if event is not None]
    return run, events, len(read) - len(events)


def restore_spill(store: EventStore, path: Path) -> int:
    """Add the events of such a file to their run; how many, 0 when they are in already.

    Raises InputError when the file is something else.
    """
    run, events, _ = read_spill(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    source = SourceRecord(
        source_id=digest[:12],
        name=path.name,
        digest=digest,
        head_digest=digest,
        size_bytes=path.stat().st_size,
        lines=len(events) + 1,
        dialects=(SPILL_DIALECT,),
    )
    with store.begin() as transaction:
        if transaction.source_with_digest(digest) is not None:
            return 0
        transaction.add_source(source)
        transaction.ensure_run(run)
        transaction.append(run.run_id, events)
    return len(events)


def ingest_spill(
    store: EventStore, path: Path
) -> tuple[list[str], str, dict[str, Any]]:
    """Restore such a file: its run, `new` or `unchanged`, and a report on it.

    Raises InputError when the file is something else.
    """
    run, events, unreadable = read_spill(path)
    state = "new" if restore_spill(store, path) else "unchanged"
    report = {
        "lines": 1 + len(events) + unreadable,
        "events": len(events),
        "unknown": unreadable,
        "dialects": [SPILL_DIALECT],
    }
    return [run.run_id], state, report
