"""The sink of a recorder that writes into the store, and never gives up quietly."""

from __future__ import annotations

import logging
import os
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from warmup_insights.errors import StoreError
from warmup_insights.model.events import (
    AnyEvent,
    ConfigRecorded,
    Event,
    Failure,
    Note,
    RunFinished,
    RunStarted,
    ServerReady,
)
from warmup_insights.model.process import own_process
from warmup_insights.model.run import RunRecord
from warmup_insights.storage.engine import Location
from warmup_insights.storage.faults import StoreBusyError
from warmup_insights.storage.spill import SpillFile, read_spill, spill_folders
from warmup_insights.storage.store import EventStore
from warmup_insights.storage.transaction import NoRunError
from warmup_insights.storage.watch import WatchedFile

PATIENCE_S = 2.0
"""How long a batch waits for other writers before it goes to the spill file."""
RETRY_S = 5.0
"""How long a database that failed is left alone."""
LOCKED_S = 30.0
"""A database that is locked for longer is worth a warning: others only take turns."""
_STEP_S = 0.1
_LEARNED = ("engine", "version", "model", "device_kind", "device_name")
_TELLING = frozenset({RunStarted, ConfigRecorded, ServerReady, Failure, RunFinished})

logger = logging.getLogger(__name__)


class StoreSink:
    """Creates a run and writes batches of its events, each in one transaction.

    Several processes may write one run, each with a sink of its own. What the database
    does not take goes to a JSONL file beside it, and into the database as soon as that
    works again; only when neither works does a batch raise StoreError.

    `on_close` is called with the open store and the run id when all is written, for
    example to refresh the summary.
    """

    def __init__(
        self,
        url: str | Path,
        run: RunRecord,
        *,
        on_close: Callable[[EventStore, str], None] | None = None,
    ) -> None:
        self._url = url
        self._location = Location(url)
        self._run = replace(
            run,
            status="running" if run.status == "unknown" else run.status,
            started_at=time.time() if run.started_at is None else run.started_at,
            heartbeat_at=time.time(),
            process=run.process or own_process(),
        )
        self._on_close = on_close
        self._store: EventStore | None = None
        path = self._location.path
        self._file = None if path is None else WatchedFile(path)
        self._num_stored = 0
        self._retry_at = 0.0
        self._is_hurried = False
        self._locked_since: float | None = None
        self._said: set[str] = set()
        self._spill = self._new_spill()
        _sinks.add(self)

    @property
    def run_id(self) -> str:
        """The id of the run that is written."""
        return self._run.run_id

    @property
    def spill_path(self) -> Path | None:
        """The file with events that the database has not taken yet; None if all are in."""
        return self._spill.path

    def _new_spill(self) -> SpillFile:
        path = self._location.path
        stem = "warmup_insights" if path is None else path.name
        return SpillFile(self._run, spill_folders(path), stem)

    def open(self) -> None:
        """Open the database and create the run now. Raises StoreError."""
        self._write(())

    def __call__(self, events: Sequence[Event]) -> None:
        """Store a batch. Raises StoreError when neither database nor file takes it."""
        if self._is_hurried or not self._has_stored(events):
            self._spill.append(events)
            if self._is_worth_saying():
                self._say(
                    "Events wait in %s until the database takes them", self._spill.path
                )

    def heartbeat(self) -> None:
        """Say that the recorder is alive, and retry what waits in the spill file."""
        self._has_stored(())

    def hurry(self) -> None:
        """The program is about to end: from now on the spill file takes everything."""
        self._is_hurried = True

    def close(self) -> None:
        """Try once more to empty the spill file, then close the database.

        Others may have their turn as long as nobody calls `hurry`.
        """
        self._retry_at = 0.0
        if self._spill.path is not None and not self._is_hurried:
            self._has_stored((), patience_s=LOCKED_S)
        if self._spill.path is not None:
            self._say(
                "%d events of run %s wait in a file; add them with "
                "`warmup-insights ingest %s`",
                self._spill.num_events,
                self.run_id,
                self._spill.path,
            )
        store, self._store = self._store, None
        if store is None:
            return
        try:
            if self._on_close is not None and not self._is_hurried:
                self._on_close(store, self.run_id)
        finally:
            store.close()

    def _has_stored(
        self, events: Sequence[Event], patience_s: float | None = None
    ) -> bool:
        """True when the database took the events and what waited before them."""
        if time.monotonic() < self._retry_at:
            return False
        try:
            self._write_patiently(
                events, PATIENCE_S if patience_s is None else patience_s
            )
        except StoreBusyError as error:
            self._locked_since = self._locked_since or time.monotonic()
            if self._is_worth_saying():
                self._say("%s", error)
            return False
        except StoreError as error:
            self._locked_since = None
            self._retry_at = time.monotonic() + RETRY_S
            self._say("%s", error)
            return False
        self._locked_since = None
        return True

    def _is_worth_saying(self) -> bool:
        """False while other writers only have their turn."""
        since = self._locked_since
        return since is None or time.monotonic() - since >= LOCKED_S

    def _write_patiently(self, events: Sequence[Event], patience_s: float) -> None:
        """Write, waiting for other writers in small steps so that `hurry` is heard."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                self._write(events)
            except StoreBusyError:
                if self._is_hurried or time.monotonic() >= deadline:
                    raise
            else:
                return

    def _write(self, events: Sequence[Event]) -> None:
        with self._opened().begin() as transaction:
            everything = [*self._waiting(), *events]
            columns = {"heartbeat_at": time.time(), **learned_columns(everything)}
            try:
                transaction.append(self.run_id, everything, **columns)
            except NoRunError:
                transaction.ensure_run(self._run)
                everything = [*self._removal(), *everything]
                transaction.append(self.run_id, everything, **columns)
        self._num_stored += len(everything)
        if self._file is not None:
            self._file.remember()
        if self._spill.path is not None:
            self._spill.remove()

    def _waiting(self) -> list[AnyEvent]:
        if self._spill.path is None or not self._spill.path.exists():
            return []
        return read_spill(self._spill.path)[1]

    def _opened(self) -> EventStore:
        """The open store; opened again when its file was removed or replaced."""
        if self._file is not None and self._file.is_gone():
            if self._store is not None:
                self._store.close()
                self._store = None
            self._file.forget()
        if self._store is None:
            self._store = EventStore(self._url, busy_timeout_s=_STEP_S)
        return self._store

    def _removal(self) -> list[Event]:
        """What the run says when it vanished from the database and begins anew."""
        if self._num_stored == 0:
            return []
        text = (
            f"{self._num_stored} events of this run were removed while it was recorded"
        )
        self._say("%s: %s", self._location, text)
        count = self._num_stored
        return [Note(time=time.time(), topic="run_removed", text=text, count=count)]

    def _say(self, text: str, *values: object) -> None:
        """Say something once, not with every batch."""
        if text not in self._said:
            self._said.add(text)
            logger.warning(text, *values)

    def forget_spill(self) -> None:
        """In the child of a fork: what waits in the file is the parent's."""
        self._spill = self._new_spill()


_sinks: weakref.WeakSet[StoreSink] = weakref.WeakSet()


def _after_fork() -> None:
    for sink in list(_sinks):
        sink.forget_spill()


os.register_at_fork(after_in_child=_after_fork)


def learned_columns(events: Sequence[Event]) -> dict[str, Any]:
    """What events tell about the run itself: columns of `runs` and their values."""
    columns: dict[str, Any] = {}
    for event in events:
        if type(event) in _TELLING:
            columns |= _learned(event)
    return columns


def _learned(event: Event) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if isinstance(event, RunStarted | ConfigRecorded):
        known = {name: getattr(event, name) for name in _LEARNED}
        columns = {name: value for name, value in known.items() if value is not None}
    if isinstance(event, RunStarted):
        columns["synthetic"] = event.synthetic
    elif isinstance(event, ServerReady):
        columns["status"] = "finished"
    elif isinstance(event, Failure):
        columns["status"] = "failed"
    elif isinstance(event, RunFinished):
        columns["status"] = event.status
    return columns
