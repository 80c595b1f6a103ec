"""Keeping the database up with the spools of recorders, while they write or later.

Called by processes that run anyway: `warmup-insights run` and `vllm` in a thread, every
command that reads a database before it does. A program that only has the plugin gets a
process of its own for it, `main`, because an engine's process must not load the
libraries of the store: some 50,000 objects, which vllm-gaudi makes the garbage collector
of Python visit twice per bucket.
"""

from __future__ import annotations

import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from warmup_insights import storage
from warmup_insights.errors import StoreBusyError, StoreError
from warmup_insights.model.run import RunRecord
from warmup_insights.recorder import Recorder
from warmup_insights.runs import refresh
from warmup_insights.storage.drain import Drained, drain
from warmup_insights.storage.spool import Spool, SpoolFile, find_spools

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore

STEP_S = 0.4
"""How often spools are looked at."""
BUSY_S = 2.0
"""How long a write waits for other writers before its spool is looked at again."""
RETRY_S = 5.0
"""How long a database that failed is left alone."""
LOCKED_S = 30.0
"""How long the end waits for other writers."""
REOPEN_S = 2.0
"""How long a database that was removed may still be written to; nothing is lost by it,
because no spool is removed before the database was opened anew."""

logger = logging.getLogger(__name__)


def store_spools(store: EventStore, spools: Sequence[SpoolFile]) -> Drained:
    """Drain spools, and refresh the summaries of runs that have ended."""
    drained = drain(store, spools)
    for run_id in drained.ended:
        refresh(store, run_id)
    return drained


def open_store(database: str | Path, *, read_only: bool = True) -> EventStore:
    """A database to read, with what recorders left beside it stored as far as it goes."""
    spools = find_spools(database)
    if spools:
        with (
            suppress(StoreError),
            storage.EventStore(database, busy_timeout_s=BUSY_S) as store,
        ):
            store_spools(store, spools)
    return storage.EventStore(database, read_only=read_only)


class Drainer:
    """Drains the spools of one run again and again, whatever happens to the database."""

    def __init__(self, database: str | Path, run_id: str) -> None:
        self._database = database
        self._run_id = run_id
        self._store: EventStore | None = None
        self._opened_at = 0.0
        self._retry_at = 0.0
        self._is_locked = False
        self._problem: str | None = None

    def step(self) -> list[SpoolFile]:
        """Store what is new; the spools that are left."""
        spools = find_spools(self._database, self._run_id)
        if not spools or time.monotonic() < self._retry_at:
            return spools
        self._is_locked = False
        try:
            store_spools(self._open(spools), spools)
        except StoreBusyError:  # other writers hold the lock
            self._is_locked = True
        except StoreError as error:
            self.close()
            self._retry_at = time.monotonic() + RETRY_S
            if str(error) != self._problem:
                self._problem = str(error)
                logger.warning("%s", error)
        except OSError:  # a spool that another process has just removed
            pass
        return find_spools(self._database, self._run_id)

    def _open(self, spools: list[SpoolFile]) -> EventStore:
        is_old = time.monotonic() - self._opened_at > REOPEN_S
        if is_old or _over(spools):
            self.close()
        if self._store is None:
            self._store = storage.EventStore(self._database, busy_timeout_s=BUSY_S)
            self._opened_at = time.monotonic()
        return self._store

    def finish(self) -> None:
        """Store what the recorders left that are over, and name what could not be.

        Other writers are waited for; a database that fails is tried once.
        """
        deadline = time.monotonic() + LOCKED_S
        self._retry_at = 0.0
        left = self.step()
        while self._is_locked and time.monotonic() < deadline:
            left = self.step()
        self.close()
        over = [str(spool.path) for spool in _over(left) if spool.path.exists()]
        if over:
            logger.warning(
                "Events of run %s wait in a file; the next command that can write the "
                "database stores them, or `warmup-insights ingest %s`",
                self._run_id,
                " ".join(over),
            )

    def close(self) -> None:
        """Close the database; the next step opens it again."""
        store, self._store = self._store, None
        if store is not None:
            with suppress(StoreError):
                store.close()


def _over(spools: Sequence[SpoolFile]) -> list[SpoolFile]:
    """Those to which nothing will be added, and those that were just removed."""
    found = []
    for spool in spools:
        with suppress(FileNotFoundError):
            if not spool.is_over():
                continue
        found.append(spool)
    return found


@contextmanager
def draining(database: str | Path, run_id: str) -> Iterator[None]:
    """Drain the spools of a run in a thread, and once more at the end."""
    drainer, is_over = Drainer(database, run_id), threading.Event()

    def work() -> None:
        while not is_over.wait(STEP_S):
            drainer.step()

    thread = threading.Thread(target=work, name="warmup-insights-drainer", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        drainer.finish()


@contextmanager
def recording(database: str | Path, run: RunRecord) -> Iterator[Recorder]:
    """A recorder whose events this process stores as well."""
    with (
        draining(database, run.run_id),
        Recorder(Spool(database, run)) as recorder,
    ):
        yield recorder


def main() -> None:
    """Drain the spools of the run that standard input names, until all are over."""
    database, run_id = msgspec.json.decode(
        sys.stdin.buffer.read(), type=tuple[str, str]
    )
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    drainer = Drainer(database, run_id)
    while len(_over(spools := drainer.step())) < len(spools):
        time.sleep(STEP_S)
    time.sleep(STEP_S)  # a process of the engine may have begun meanwhile
    drainer.finish()
