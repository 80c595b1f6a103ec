"""Reads many logs with several processes: they read ahead, this one stores.

Each process reads a log into a file of its own; every log is stored in input order, in a
transaction of its own, a large one while it is still being read.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe, get_context
from pathlib import Path

from parsers.source import open_path
from warmup_insights.errors import InputError, WarmupInsightsError
from warmup_insights.ingest import worker
from warmup_insights.ingest.log import LARGE_BYTES, LogEnd, Part
from warmup_insights.ingest.outcome import (
    Options,
    Outcome,
    Progress,
    ReadBytes,
    Watcher,
    file_size,
    temporary_folder,
)
from warmup_insights.ingest.single import (
    Stored,
    find_stored,
    ingest_path,
    is_plain,
    store_log,
    unchanged,
)
from warmup_insights.storage import EventStore

FOLLOW_S = 0.02
"""How often a log that is stored while it is read is looked at."""
LOOK_S = 0.2
"""While a log is awaited, progress is reported this often."""


class ReaderPool:
    """So many processes, started when they are needed.

    Args:
        jobs: how many.
        options: how logs are read.
        folder: for their files; empty.
        progress: called with the bytes read since the last call.
    """

    def __init__(
        self, jobs: int, options: Options, folder: str, progress: Progress
    ) -> None:
        self.held_bytes = 0
        """Written by the processes and not yet forgotten."""
        self._jobs = jobs
        self._options = options
        self._folder = folder
        self._progress = progress
        # Progress comes by it; they end when this end is closed, or this process dies.
        self._ours, self._theirs = Pipe()
        self._pools: dict[int, ProcessPoolExecutor] = {}
        """Number of processes to those that were started; none where all is stored."""

    def _new_pool(self, jobs: int) -> ProcessPoolExecutor:
        with worker.starting(self._folder) as current:
            arguments = (self._theirs, current, self._folder)
            return ProcessPoolExecutor(
                jobs, get_context("spawn"), worker.begin, arguments
            )

    def __enter__(self) -> ReaderPool:
        return self

    def __exit__(self, _: object, error: object, trace: object) -> None:
        """End every process: at once after an error, whatever it is reading."""
        if error is not None:
            self._ours.close()
        for pool in self._pools.values():
            pool.shutdown(cancel_futures=True)
        self._ours.close()
        self._theirs.close()

    def submit(self, path: str, target: str) -> Future[None]:
        """Have a log read into a file."""
        return self._submit(self._jobs, path, target)

    def _submit(self, jobs: int, path: str, target: str) -> Future[None]:
        if jobs in self._pools:
            with suppress(BrokenProcessPool), worker.starting(self._folder):
                return self._pools[jobs].submit(
                    worker.read_to_file, path, self._options, target
                )
            self._pools[jobs].shutdown()  # the end of one process has ended them all
        pool = self._pools[jobs] = self._new_pool(jobs)
        with worker.starting(self._folder):
            return pool.submit(worker.read_to_file, path, self._options, target)

    def read_alone(self, path: str, target: str) -> Future[None]:
        """Have a log read again by a process that reads nothing else, after one died.

        Of all logs that were not read by then one may be to blame. Raises InputError, also
        when this process dies too.
        """
        self.remove(target)
        reading = self._submit(1, path, target)
        try:
            self.wait_for(reading)
        except BrokenProcessPool:
            if not os.path.exists(target):
                raise WarmupInsightsError(
                    "The processes that read logs end before they begin; read with --jobs 1"
                ) from None
            raise InputError(
                f"{path} could not be read: the process that read it died; free some "
                "memory, or read it alone with --jobs 1"
            ) from None
        return reading

    def wait_for(self, reading: Future[None]) -> None:
        """Wait until a log is read.

        Raises InputError when it cannot be read, BrokenProcessPool when a process died.
        """
        while not wait([reading], LOOK_S).done:
            self.report()
        reading.result()

    def parts(self, reading: Future[None], target: str) -> Iterator[Part]:
        """What a process finds in a log, as it comes.

        Raises InputError when it cannot be read, BrokenProcessPool when a process died.
        """
        while not os.path.exists(target) and not wait([reading], FOLLOW_S).done:
            self.report()
        if not os.path.exists(target):
            reading.result()
        with open(target, "rb") as file:
            part: Part | None = None
            while not isinstance(part, LogEnd):
                is_over = reading.done()
                part = worker.read_part(file)
                if part is not None:
                    yield part
                    # A process whose progress is not taken waits.
                    self.report()
                elif is_over:
                    reading.result()
                else:
                    wait([reading], FOLLOW_S)
                    self.report()

    def report(self) -> None:
        """Report the progress since the last time."""
        read = 0
        while self._ours.poll():
            more, written = worker.PROGRESS.unpack(self._ours.recv_bytes())
            read += more
            self.held_bytes += written
        if read:
            self._progress(read)

    def remove(self, target: str) -> None:
        """Remove what was read of a log."""
        if os.path.exists(target):
            self.held_bytes = max(0, self.held_bytes - os.path.getsize(target))
            os.unlink(target)


AHEAD_PER_JOB = 4
"""So many logs are always given to each process, so that none of them waits."""
MAX_AHEAD = 1000
"""So many logs are read ahead at most, while a large one is awaited."""
MAX_AHEAD_BYTES = 256 << 20
"""No further log is given away while so much waits in temporary files."""


@dataclass
class _Ahead:
    """A log that is not stored yet."""

    path: str
    target: str
    """File for what a process reads in it."""
    stored: Stored | None = None
    """What was stored of it when it was looked at; None when that was not possible."""
    version: tuple[int, ...] | None = None
    """Which version of the file was looked at."""
    reading: Future[None] | None = None
    """None when no process reads it: it is stored, or no plain file."""


class ParallelIngest:
    """One call with several processes."""

    def __init__(
        self,
        store: EventStore,
        files: Sequence[str],
        options: Options,
        watcher: Watcher,
    ) -> None:
        self._store = store
        self._files = files
        self._options = options
        self._watcher = watcher
        self._progress = ReadBytes(files, watcher)
        self._ahead: deque[_Ahead] = deque()
        self._pool: ReaderPool

    def run(self, jobs: int) -> list[Outcome]:
        """Read and store everything; the outcomes in the order of the files."""
        outcomes = []
        with (
            temporary_folder() as folder,
            ReaderPool(jobs, self._options, folder, self._progress.add) as self._pool,
        ):
            unread = (
                self._look_at(path, f"{folder}/{number}")
                for number, path in enumerate(self._files)
            )
            for _ in self._files:
                self._look_ahead(unread, AHEAD_PER_JOB * jobs)
                outcomes.append(self._store_next())
                self._ahead.popleft()
                self._watcher.done(outcomes[-1])
        self._progress.finish()
        return outcomes

    def _look_at(self, path: str, target: str) -> _Ahead:
        """The next log; a process begins to read it unless it is stored."""
        ahead = _Ahead(path, target)
        if is_plain(path):
            # What cannot be opened fails when it is stored.
            with suppress(InputError), open_path(Path(path)) as file:
                ahead.version = _version(path)
                ahead.stored = find_stored(self._store, file, Path(path).name)
        if ahead.stored is not None and not ahead.stored.is_whole:
            ahead.reading = self._pool.submit(path, target)
        return ahead

    def _look_ahead(self, unread: Iterator[_Ahead], minimum: int) -> None:
        """Keep the processes busy, also while the next log to store takes long."""
        while self._has_room(minimum) and (ahead := next(unread, None)) is not None:
            self._ahead.append(ahead)

    def _has_room(self, minimum: int) -> bool:
        num_ahead = len(self._ahead)
        if num_ahead == 0:
            return True
        if num_ahead >= MAX_AHEAD or self._pool.held_bytes >= MAX_AHEAD_BYTES:
            return False
        first = self._ahead[0].reading
        return num_ahead < minimum or (first is not None and not first.done())

    def _store_next(self) -> Outcome:
        ahead = self._ahead[0]
        try:
            try:
                outcome = self._outcome(ahead)
            except BrokenProcessPool:  # nothing of the log is stored
                ahead.reading = self._pool.read_alone(ahead.path, ahead.target)
                outcome = self._outcome(ahead)
        except InputError as error:
            outcome = Outcome(ahead.path, state="failed", error=str(error))
        if ahead.reading is None:
            self._progress.add(file_size(ahead.path))
        else:
            self._pool.remove(ahead.target)
            self._pool.report()
        return outcome

    def _outcome(self, ahead: _Ahead) -> Outcome:
        path, options = ahead.path, self._options
        if ahead.reading is not None and file_size(path) < LARGE_BYTES:
            self._pool.wait_for(ahead.reading)
        stored = self._stored_by_now(ahead)
        if stored is not None and stored.source is not None and stored.is_whole:
            outcome = unchanged(self._store, stored.source, path, options)
            if outcome.run_ids:
                return outcome
            stored = None  # it holds no start, or another process has removed it
        if stored is None or ahead.reading is None:
            return ingest_path(self._store, path, options)
        parts = self._pool.parts(ahead.reading, ahead.target)
        return store_log(self._store, parts, path, options, stored.source)

    def _stored_by_now(self, ahead: _Ahead) -> Stored | None:
        """What is stored of a log when it is its place; None when it must be read here.

        A log before it may be the same or its beginning.
        """
        stored, path = ahead.stored, ahead.path
        if stored is None or ahead.version != _version(path):
            return None
        if stored.is_whole or (
            self._store.beginnings(stored.head) == stored.candidates
        ):
            return stored
        with open_path(Path(path)) as file:
            return find_stored(self._store, file, Path(path).name)


def _version(path: str) -> tuple[int, ...]:
    """Differs when a file was written or replaced."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
