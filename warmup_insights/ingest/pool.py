"""Processes that read logs, each log into a file of its own; this one stores them."""

from __future__ import annotations

import os
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from types import TracebackType

from warmup_insights.errors import InputError
from warmup_insights.ingest import worker
from warmup_insights.ingest.outcome import Options, Progress

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
        context = get_context("spawn")
        # They end when this end of the pipe is closed, or this process dies.
        self._theirs, self._stop = context.Pipe(duplex=False)
        self._inbound, self._outbound = context.Pipe(duplex=False)
        self._pool = self._new_pool(jobs)

    def _new_pool(self, jobs: int) -> ProcessPoolExecutor:
        with worker.starting(self._folder) as current:
            arguments = (self._theirs, self._outbound, current, self._folder)
            return ProcessPoolExecutor(
                jobs, get_context("spawn"), worker.begin, arguments
            )

    def __enter__(self) -> ReaderPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End every process: at once after an error, whatever it is reading."""
        if error is not None:
            self._stop.close()
        self._pool.shutdown(cancel_futures=True)
        for end in (self._stop, self._theirs, self._inbound, self._outbound):
            end.close()

    def submit(self, path: str, target: str) -> Future[None]:
        """Have a log read into a file. Raises BrokenProcessPool when a process died."""
        return self._submit(self._pool, path, target)

    def _submit(
        self, pool: ProcessPoolExecutor, path: str, target: str
    ) -> Future[None]:
        with worker.starting(self._folder):
            return pool.submit(worker.read_to_file, path, self._options, target)

    def restart(self) -> None:
        """Start new processes after one of them died, which ended the others too."""
        self._pool.shutdown()
        self._pool = self._new_pool(self._jobs)

    def read_alone(self, path: str, target: str) -> None:
        """Have a log read again by a process of its own, after one died.

        Raises InputError, also when this one dies too.
        """
        pool = self._new_pool(1)
        try:
            self.wait_for(self._submit(pool, path, target))
        except BrokenProcessPool:
            raise InputError(
                f"{path} could not be read: the process that read it died, twice; "
                "free some memory, or read it alone with --jobs 1"
            ) from None
        finally:
            pool.shutdown(wait=False)

    def wait_for(self, reading: Future[None]) -> None:
        """Wait until a log is read.

        Raises InputError when it cannot be read, BrokenProcessPool when a process died.
        """
        while not wait([reading], LOOK_S).done:
            self.report()
        reading.result()

    def report(self) -> None:
        """Report the progress since the last time."""
        read = 0
        while self._inbound.poll():
            more, written = worker.PROGRESS.unpack(self._inbound.recv_bytes())
            read += more
            self.held_bytes += written
        if read:
            self._progress(read)

    def forget(self, target: str) -> None:
        """Remove what was read of a log."""
        if os.path.exists(target):
            self.held_bytes = max(0, self.held_bytes - os.path.getsize(target))
            os.unlink(target)
