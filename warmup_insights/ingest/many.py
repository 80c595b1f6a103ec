"""Reads many logs into the store: several processes read, this one stores.

A file is read by one process, which makes its events and summaries; what it found waits
here until the file can be stored at once, in a transaction of its own. The database is
the only state: whatever ends this in the middle, the same call goes on from there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from parsers.files import digests
from parsers.source import open_path
from warmup_insights.errors import InputError
from warmup_insights.ingest.alike import Alike
from warmup_insights.ingest.board import Board, Result
from warmup_insights.ingest.cores import STREAM_BYTES
from warmup_insights.ingest.garbage import rare_collections
from warmup_insights.ingest.lane import Lane
from warmup_insights.ingest.messages import Parsed, Refused, read_parsed
from warmup_insights.ingest.opening import source_name
from warmup_insights.ingest.outcome import Options, Outcome, Progress, Watcher
from warmup_insights.ingest.parsed import ParsedLog
from warmup_insights.ingest.single import ingest_path, is_plain, unchanged
from warmup_insights.ingest.streamed import ingest_streamed
from warmup_insights.ingest.write import (
    AlreadyStoredError,
    LogWriter,
    digests_in,
)
from warmup_insights.model.run import SourceRecord
from warmup_insights.storage import EventStore

_TICK_S = 1e-6


def ingest_files(
    store: EventStore,
    files: Sequence[str],
    options: Options | None = None,
    *,
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Read files into the store; what came of each, in their order.

    The result does not depend on `jobs`, the number of processes that read; 1 means
    that this one reads. A file that cannot be read does not stop the others. Raises
    StoreError when the database fails.
    """
    options, watcher = options or Options(), watcher or Watcher()
    is_shared = store.location.path is not None or store.location.url is not None
    if jobs < 2 or len(files) < 2 or not is_shared or not sys.executable:
        return [_ingest_one(store, path, options, watcher, jobs) for path in files]
    return _Ingest(store, list(files), options, watcher).run(min(jobs, len(files)))


def _ingest_one(
    store: EventStore, path: str, options: Options, watcher: Watcher, jobs: int
) -> Outcome:
    unread = _size(path)

    def advance(count: int) -> None:
        nonlocal unread
        unread -= count
        watcher.read(count)

    try:
        outcome = _with_help(store, path, options, advance) if jobs > 1 else None
        if outcome is None:
            outcome = ingest_path(store, path, options, advance)
    except InputError as error:
        outcome = Outcome(path, state="failed", error=str(error))
    watcher.read(max(0, unread))
    watcher.done(outcome)
    return outcome


def _with_help(
    store: EventStore, path: str, options: Options, progress: Progress
) -> Outcome | None:
    """Read a large file with another process; None when it must be read here."""
    if _size(path) < STREAM_BYTES or not is_plain(path) or not sys.executable:
        return None
    return ingest_streamed(store, path, options, progress)


class _Ingest:
    """One work of several processes."""

    def __init__(
        self, store: EventStore, files: list[str], options: Options, watcher: Watcher
    ) -> None:
        self._store = store
        self._files = files
        self._options = options
        self._began_at = time.time()
        self._alike = Alike(store)
        self._salts: dict[str, int] = {}
        apart = {n for n, path in enumerate(files) if not is_plain(path)}
        sizes = [_size(path) for path in files]
        self._board = Board(sizes, apart, watcher)

    def run(self, jobs: int) -> list[Outcome]:
        """Read and store everything; the outcomes in the order of the files."""
        outcomes: dict[int, Outcome] = {}
        with ExitStack() as stack:
            stack.enter_context(rare_collections())
            stack.callback(self._board.held.close)
            threads = stack.enter_context(ThreadPoolExecutor(jobs, "ingest"))
            stack.callback(self._board.close)
            for _ in range(jobs):
                lane = Lane(self._board, self._alike, self._files, self._options)
                threads.submit(lane.run).add_done_callback(self._board.end_of)
            while (found := self._board.next_result()) is not None:
                index, result = found
                outcomes[index] = self._take(index, result)
                self._board.stored(index, outcomes[index])
        return [outcomes[index] for index in range(len(self._files))]

    def _take(self, index: int, result: Result | None) -> Outcome:
        path = self._files[index]
        try:
            if result is None:
                return self._read_here(path)
            return self._store_file(index, path, result)
        except InputError as error:
            return Outcome(path, state="failed", error=str(error))
        finally:
            for _, slip in result.frames if result is not None else ():
                self._board.held.drop(slip)

    def _store_file(self, index: int, path: str, result: Result) -> Outcome:
        if isinstance(result.answer, Refused):
            return Outcome(path, state="failed", error=result.answer.error)
        answer = result.answer or self._parsed(result)
        sources = self._alike.sources(result.head)
        for source in sources:
            if answer.digest in digests_in(source):
                known = unchanged(self._store, source, path, self._options)
                if known.run_ids or self._store.source_with_digest(source.digest):
                    return known
        if not isinstance(answer, Parsed):
            # It was stored when it was read, and somebody removed it since.
            return self._read_here(path)
        older = _continued(path, sources, answer)
        log = ParsedLog(answer, result.frames, self._board.held)
        writer = LogWriter(
            self._store, log, source_name(path), self._options, replaced=older,
            # Lists that go by time shall not depend on who was read first either.
            stored_at=self._began_at + index * _TICK_S, salts=self._salts,
        )  # fmt: skip
        try:
            run_ids = writer.write()
        except AlreadyStoredError as stored:
            return unchanged(self._store, stored.source, path, self._options)
        assert writer.source is not None
        self._alike.add(result.head, writer.source, older)
        return Outcome(path, run_ids, "continued" if older else "new", writer.report)

    def _read_here(self, path: str) -> Outcome:
        self._alike.forget()
        try:
            return ingest_path(self._store, path, self._options)
        finally:
            self._alike.forget()

    def _parsed(self, result: Result) -> Parsed:
        _, slip = result.frames.pop()
        body = self._board.held.get(slip)
        self._board.held.drop(slip)
        return read_parsed(body)


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def _continued(
    path: str, sources: list[SourceRecord], parsed: Parsed
) -> SourceRecord | None:
    """The longest source that a file begins with; it has the bytes of none."""
    known = dict(parsed.beginnings)
    shorter = [source for source in sources if source.size_bytes < parsed.size]
    unknown = [s.size_bytes for s in shorter if s.size_bytes not in known]
    if unknown:
        # Stored since the file was read, most likely by us.
        with open_path(Path(path)) as file:
            known |= digests(file, source_name(path), unknown)[1]
    return next((s for s in shorter if known.get(s.size_bytes) == s.digest), None)
