"""Draining: what recorders appended to their spools goes into the database, once.

How far each spool was read is stored in the transaction that stores its events, so any
number of processes may drain, and a database that was lost is filled again.

Processes do so that run anyway: `warmup-insights run` and `vllm` in a thread, every
command that reads a database before it does. A program that only has the plugin gets a
process of its own for it, `main`, because an engine's process must not load the
libraries of the store: some 50,000 objects, which vllm-gaudi makes the garbage collector
of Python visit twice per bucket.
"""

from __future__ import annotations

import logging
import math
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from warmup_insights import storage
from warmup_insights.errors import StoreBusyError, StoreError
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
from warmup_insights.model.run import RunRecord
from warmup_insights.recorder import Recorder
from warmup_insights.runs import refresh
from warmup_insights.storage.location import database_path
from warmup_insights.storage.spool import CLOSED, Spool, SpoolFile, find_spools

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore

BATCH = 20_000
"""Events per transaction."""
HEARTBEAT_S = 1.0
"""A sign of life that is newer by less is not stored."""
STEP_S = 0.75
"""How often spools are looked at: with `FLUSH_INTERVAL_S` of the recorder, live pages show
events within a second."""
QUIET_STEPS = 2
"""So many looks find no spool that is written to before the process that drains ends: one
of the engine's may begin after another one is over."""
BUSY_S = 2.0
"""How long a write waits for other writers before its spool is looked at again."""
RETRY_S = 5.0
"""How long a database that failed is left alone."""
LOCKED_S = 30.0
"""How long the end waits for other writers."""

_LEARNED = ("engine", "version", "model", "device_kind", "device_name")
_Line = tuple[float, int, SpoolFile, "AnyEvent | None"]

logger = logging.getLogger(__name__)


@dataclass
class Drained:
    """What a drain did."""

    num_events: int = 0
    ended: set[str] = field(default_factory=set)
    """Runs to which no spool will add anything, of those that were drained."""


def drain(
    store: EventStore, spools: Sequence[SpoolFile], *, removes: bool = True
) -> Drained:
    """Store what is new in spools; remove those that are over and stored whole."""
    drained = Drained()
    ordered = sorted(spools, key=lambda s: (s.run.run_id, s.run.process or "", s.part))
    for run_id, of_run in groupby(ordered, key=lambda spool: spool.run.run_id):
        files = list(of_run)
        try:
            over = [spool for spool in files if spool.is_over()]
            _drain_run(store, run_id, files, over, drained)
        except FileNotFoundError:  # another process has stored and removed it
            continue
        for spool in over if removes else ():
            spool.path.unlink(missing_ok=True)
        if len(over) == len(files):
            drained.ended.add(run_id)
    return drained


def _drain_run(
    store: EventStore,
    run_id: str,
    files: list[SpoolFile],
    over: list[SpoolFile],
    drained: Drained,
) -> None:
    heartbeat = max(spool.path.stat().st_mtime for spool in files)
    known = store.spool_offsets(run_id)
    is_new = any(s.path.stat().st_size > known.get(s.key, 0) for s in files)
    before = store.run(run_id).heartbeat_at if known and not is_new else None
    if not is_new and abs(heartbeat - (before or 0.0)) < HEARTBEAT_S:
        return
    is_more = True
    while is_more:
        with store.begin() as transaction:
            transaction.ensure_run(min((s.run for s in files), key=_began))
            # Changed first, so that others who drain the run wait here.
            transaction.update_run(run_id, heartbeat_at=heartbeat)
            reached = {spool.key: spool.start for spool in files}
            reached |= transaction.spool_offsets(run_id)
            lines = list(islice(_lines(files, reached), BATCH))
            is_more = len(lines) == BATCH
            reached |= {spool.key: end for _, end, spool, _ in lines}
            events: list[Event] = [line[3] for line in lines if line[3] is not None]
            num_unreadable = len(lines) - len(events)
            if not is_more:
                num_unreadable += _end_spools(over, reached)
            drained.num_events += len(events)
            if num_unreadable:
                events.append(_note(num_unreadable, heartbeat))
            if events:
                transaction.append(run_id, events, **learned_columns(events))
            transaction.put_spool_offsets(run_id, reached)


def _began(run: RunRecord) -> float:
    """When the process began that has this record of the run."""
    return math.inf if run.started_at is None else run.started_at


def _end_spools(over: list[SpoolFile], reached: dict[str, int]) -> int:
    """Take the rest of spools that are over as read; how many have a cut last line."""
    num_cut = 0
    for spool in over:
        with spool.path.open("rb") as file:
            file.seek(reached[spool.key])
            rest = file.read()
            reached[spool.key] = file.tell()
        num_cut += rest not in (b"", CLOSED)
    return num_cut


def _lines(files: list[SpoolFile], offsets: Mapping[str, int]) -> Iterator[_Line]:
    """New lines of all processes of a run, by time; of each in the order of recording."""
    streams = [
        _stream(list(parts), offsets)
        for _, parts in groupby(files, key=lambda spool: spool.run.process or spool.key)
    ]
    return merge(*streams, key=lambda line: line[0])


def _stream(parts: list[SpoolFile], offsets: Mapping[str, int]) -> Iterator[_Line]:
    latest = 0.0
    for spool in parts:
        for end, event in spool.read(offsets.get(spool.key, 0)):
            if event is not None and event.time is not None:
                latest = max(latest, event.time)
            yield latest, end, spool, event


def _note(count: int, time: float) -> Note:
    text = f"{count} recorded events could not be read, such as one that was cut off"
    return Note(time=time, topic="events_dropped", text=text, count=count)


def learned_columns(events: Sequence[Event]) -> dict[str, Any]:
    """What events state about the run itself: columns of `runs` and their values.

    An end that leaves open how far the start came has no column: other events state it,
    and the summary that is made when no process records any more.
    """
    columns: dict[str, Any] = {}
    for event in events:
        match event:
            case RunStarted() | ConfigRecorded():
                known = {name: getattr(event, name) for name in _LEARNED}
                columns |= {name: v for name, v in known.items() if v is not None}
                if isinstance(event, RunStarted):
                    columns["synthetic"] = event.synthetic
            case ServerReady():
                columns["status"] = "finished"
            case Failure():
                columns["status"] = "failed"
            case RunFinished() if event.status != "unknown":
                columns["status"] = event.status
    return columns


def store_spools(store: EventStore, spools: Sequence[SpoolFile]) -> None:
    """Drain spools, and refresh the summaries of runs that have ended."""
    for run_id in drain(store, spools).ended:
        refresh(store, run_id)


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
    """Drains the spools of one run again and again, whatever happens to the database.

    It may run in the process of an engine: a step does next to nothing where no spool has
    changed.
    """

    def __init__(self, database: str | Path, run_id: str) -> None:
        self._database = database
        self._run_id = run_id
        self._store: EventStore | None = None
        self._file: _FileId | None = None
        self._stored: _States = []
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
            states = [(spool.key, spool.state()) for spool in spools]
            if states != self._stored:
                store_spools(self._open(), spools)
                self._stored = states
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
        return [spool for spool in spools if spool.path.exists()]

    def _open(self) -> EventStore:
        """The database; another one where its file was removed or replaced."""
        path = database_path(self._database)
        if (
            self._store is not None
            and path is not None
            and _file_id(path) != self._file
        ):
            self.close()
        if self._store is None:
            self._store = storage.EventStore(self._database, busy_timeout_s=BUSY_S)
            self._file = None if path is None else _file_id(path)
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
        waiting = [str(spool.path) for spool in over(left) if spool.path.exists()]
        if waiting:
            logger.warning(
                "Events of run %s wait in a file; the next command that can write the "
                "database stores them, or `warmup-insights ingest %s`",
                self._run_id,
                " ".join(waiting),
            )

    def close(self) -> None:
        """Close the database; the next step opens it again."""
        store, self._store = self._store, None
        if store is not None:
            with suppress(StoreError):
                store.close()


_FileId = tuple[int, int]
_States = list[tuple[str, tuple[int, float, bool]]]


def _file_id(path: Path) -> _FileId | None:
    """What no other file has that is there; None where there is none of this name."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def over(spools: Sequence[SpoolFile]) -> list[SpoolFile]:
    """Those to which nothing will be added, and those that were just removed."""
    found = []
    for spool in spools:
        with suppress(FileNotFoundError):
            if not spool.is_over():
                continue
        found.append(spool)
    return found


ENDINGS = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))
"""Signals that end a program, beside Ctrl-C; Windows has no SIGHUP."""


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
    for number in (signal.SIGINT, *ENDINGS):
        signal.signal(number, signal.SIG_IGN)
    drainer = Drainer(database, run_id)
    num_quiet = 0
    while num_quiet < QUIET_STEPS:
        spools = drainer.step()
        num_quiet = num_quiet + 1 if len(over(spools)) == len(spools) else 0
        time.sleep(STEP_S)
    drainer.finish()
