"""The sink of a recorder that writes into the store, and never gives up quietly."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from warmup_insights.errors import StoreError
from warmup_insights.events import (
    ConfigRecorded,
    Event,
    Failure,
    RunFinished,
    RunStarted,
    ServerReady,
)
from warmup_insights.storage.engine import Location
from warmup_insights.storage.faults import StoreBusyError
from warmup_insights.storage.process import own_process
from warmup_insights.storage.records import RunRecord
from warmup_insights.storage.spill import SpillFile, read_spill, spill_folders
from warmup_insights.storage.store import EventStore

PATIENCE_S = 2.0
"""How long a batch waits for other writers before it goes to the spill file."""
RETRY_S = 5.0
"""How long a database that failed is left alone."""
_STEP_S = 0.1
_LEARNED = ("engine", "version", "model", "device_kind", "device_name")

logger = logging.getLogger(__name__)


class StoreSink:
    """Creates a run and writes batches of its events, each in one transaction.

    Several processes may write one run, each with a sink of its own. What the database
    does not take goes to a JSONL file beside it, and into the database as soon as that
    works again; only when neither works does a batch raise StoreError.
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
        self._identity: tuple[int, int] | None = None
        self._retry_at = 0.0
        self._is_hurried = False
        self._has_warned = False
        self._spill = self._new_spill()
        os.register_at_fork(after_in_child=self._after_fork)

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

    def _after_fork(self) -> None:
        self._spill = self._new_spill()

    def open(self) -> None:
        """Open the database and create the run now. Raises StoreError."""
        self._opened()

    def __call__(self, events: Sequence[Event]) -> None:
        """Store a batch. Raises StoreError when neither database nor file takes it."""
        if time.monotonic() >= self._retry_at:
            try:
                self._write_patiently(events)
            except StoreError as error:
                self._note_failure(error)
            else:
                return
        self._spill.append(events)
        if not self._has_warned:
            self._has_warned = True
            logger.warning("Events are kept in %s for now", self._spill.path)

    def heartbeat(self) -> None:
        """Say that the recorder is alive, and retry what waits in the spill file."""
        self(())

    def hurry(self) -> None:
        """The program is about to end: wait for nobody."""
        self._is_hurried = True

    def close(self) -> None:
        """Try once more to empty the spill file, then close the database."""
        self._is_hurried = True
        self._retry_at = 0.0
        if self._spill.path is not None:
            self(())
        if self._spill.path is not None:
            logger.warning(
                "%d events of run %s are in %s; add them with "
                "`warmup-insights ingest %s`",
                self._spill.num_events,
                self.run_id,
                self._spill.path,
                self._spill.path,
            )
        self._close_store()

    def _close_store(self) -> None:
        store, self._store = self._store, None
        if store is None:
            return
        try:
            if self._on_close is not None:
                self._on_close(store, self.run_id)
        finally:
            store.close()

    def _note_failure(self, error: StoreError) -> None:
        if not isinstance(error, StoreBusyError):
            self._retry_at = time.monotonic() + RETRY_S
        if not self._has_warned:
            logger.warning("%s", error)

    def _write_patiently(self, events: Sequence[Event]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._write(events)
            except StoreBusyError:
                if self._is_hurried or time.monotonic() >= deadline:
                    raise
            else:
                return

    def _write(self, events: Sequence[Event]) -> None:
        store = self._opened()
        spilled = self._spilled()
        everything = [*spilled, *events]
        with store.begin() as transaction:
            if everything:
                transaction.append(self.run_id, everything)
            transaction.update_run(
                self.run_id, heartbeat_at=time.time(), **learned_columns(everything)
            )
        if spilled:
            self._spill.remove()

    def _spilled(self) -> list[Event]:
        if self._spill.path is None or not self._spill.path.exists():
            return []
        return list(read_spill(self._spill.path)[1])

    def _opened(self) -> EventStore:
        """The open store; opened again when its file was removed or replaced."""
        if self._store is not None and self._file_identity() != self._identity:
            logger.warning(
                "The database %s was removed while recording", self._location
            )
            self._store.close()
            self._store = None
        if self._store is None:
            store = EventStore(self._url, busy_timeout_s=_STEP_S)
            with store.begin() as transaction:
                transaction.ensure_run(self._run)
            self._store = store
            self._identity = self._file_identity()
        return self._store

    def _file_identity(self) -> tuple[int, int] | None:
        if self._location.path is None:
            return None
        try:
            found = self._location.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino


def learned_columns(events: Sequence[Event]) -> dict[str, Any]:
    """What events tell about the run itself: columns of `runs` and their values."""
    columns: dict[str, Any] = {}
    for event in events:
        if isinstance(event, RunStarted | ConfigRecorded):
            known = {name: getattr(event, name) for name in _LEARNED}
            columns |= {
                name: value for name, value in known.items() if value is not None
            }
        if isinstance(event, RunStarted):
            columns["synthetic"] = event.synthetic
        elif isinstance(event, ServerReady):
            columns["status"] = "finished"
        elif isinstance(event, Failure):
            columns["status"] = "failed"
        elif isinstance(event, RunFinished):
            columns["status"] = event.status
    return columns
