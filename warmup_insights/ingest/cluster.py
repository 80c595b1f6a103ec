"""Reads logs on a Ray cluster: one task per file, into one PostgreSQL database.

Files that begin alike are read one after the other, in their order, because one may
continue another; all others at the same time. A task whose machine fails is
given to another one. The database is the only state: a rerun completes what is missing.
"""

from __future__ import annotations

import logging
import os
import socket
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from parsers.files import head_digest
from parsers.source import open_path
from warmup_insights.errors import InputError, StoreError
from warmup_insights.ingest.find import INSTALL, RemoteFile, UnsteadyError, open_remote
from warmup_insights.ingest.outcome import Options, Outcome, Watcher
from warmup_insights.ingest.single import ingest_file, ingest_path, is_plain
from warmup_insights.storage import EventStore
from warmup_insights.storage.engine import server_url


def heads(files: Sequence[RemoteFile]) -> list[str | None]:
    """How files begin; None where that is unknown."""
    return [_head(file) for file in files]


def _head(file: RemoteFile) -> str | None:
    try:
        if file.address is not None:
            with open_remote(file) as (opened, _):
                return head_digest(opened, file.shown)
        if not is_plain(file.name):
            return None
        with open_path(Path(file.name)) as log:
            return head_digest(log, file.name)
    except InputError:
        return None


def read(file: RemoteFile, database: str, options: Options) -> Outcome | str:
    """Read one file into the database, in one transaction; what came of it, or why it
    should be tried again."""
    try:
        return _ingest(_store(database), file, options)
    except (StoreError, UnsteadyError) as error:
        return str(error)
    except InputError as error:
        return Outcome(file.shown, state="failed", error=str(error))


def _ingest(store: EventStore, file: RemoteFile, options: Options) -> Outcome:
    if file.address is None:
        return ingest_path(store, file.name, options)
    with open_remote(file) as (opened, modified):
        outcome = ingest_file(
            store, opened, Path(file.name).name, options, not_after=modified
        )
    outcome.path = file.shown
    return outcome


@lru_cache(maxsize=1)
def _store(database: str) -> EventStore:
    """One store for all files that this process reads."""
    return EventStore(database)


ATTEMPTS = 3
HEADS_PER_TASK = 100
CONNECT_TIMEOUT_S = 10.0
PER_CORE = 2
"""Tasks given to the cluster ahead of its cores, so that none of them waits."""


def ingest_on_ray(
    database: str,
    files: Sequence[RemoteFile],
    options: Options | None = None,
    *,
    address: str,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Read files with the machines of a cluster; what came of each, in their order.

    Raises InputError when the database is a file, Ray is not there, or the cluster does
    not answer; StoreError when the database does not.
    """
    ray = _connect(database, address)
    try:
        return _Work(ray, database, files, options or Options(), watcher).run()
    finally:
        ray.shutdown()


def _connect(database: str, address: str) -> Any:
    """Ray, connected to a cluster. The database is ready then."""
    if server_url(database) is None:
        raise InputError(
            f"Other machines cannot write the SQLite database {database}; "
            "give a PostgreSQL one: --db postgresql://user@host/name"
        )
    EventStore(database).close()
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray
    except ImportError:
        raise InputError(
            f"Reading on a Ray cluster needs Ray; {INSTALL} brings it"
        ) from None
    _check_reachable(address)
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"The Ray cluster {address} cannot be used: {reason}; check the address, "
            "and that Ray and Python have the same versions there"
        ) from None
    return ray


def _check_reachable(address: str) -> None:
    """Raise InputError when nothing answers at `host:port`: Ray would try for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection(
            (host.strip("[]"), int(port)), CONNECT_TIMEOUT_S
        ).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"The Ray cluster {address} does not answer ({error}); check the address, "
            "and that the cluster runs"
        ) from None


class _Work:
    """One work of a cluster; files are numbers."""

    def __init__(
        self,
        ray: Any,
        database: str,
        files: Sequence[RemoteFile],
        options: Options,
        watcher: Watcher | None,
    ) -> None:
        self._ray = ray
        self._files = list(files)
        self._database = database
        self._options = options
        self._watcher = watcher or Watcher()
        # We try again ourselves, so that every attempt is counted and printed.
        remote = ray.remote(max_retries=0)
        self._heads, self._read = remote(heads), remote(read)
        self._lines: deque[deque[int]] = deque()
        self._running: dict[Any, deque[int]] = {}
        self._attempts: Counter[int] = Counter()
        self._outcomes: dict[int, Outcome] = {}

    def run(self) -> list[Outcome]:
        """Read everything; the outcomes in the order of the files."""
        self._lines.extend(self._line_up())
        try:
            while self._lines or self._running:
                self._hand_out()
                done, _ = self._ray.wait(list(self._running))
                for task in done:
                    self._take(task)
        finally:
            for task in self._running:
                with suppress(self._ray.exceptions.RayError):
                    self._ray.cancel(task, force=True)
        return [self._outcomes[index] for index in range(len(self._files))]

    def _line_up(self) -> list[deque[int]]:
        """Files that begin alike, in their order, line by line."""
        starts = range(0, len(self._files), HEADS_PER_TASK)
        parts = [self._files[n : n + HEADS_PER_TASK] for n in starts]
        tasks = [self._heads.remote(part) for part in parts]
        lines: dict[str, deque[int]] = {}
        index = 0
        for part, task in zip(parts, tasks, strict=True):
            for head in self._heads_of(part, task):
                lines.setdefault(head or f"file {index}", deque()).append(index)
                index += 1
        return list(lines.values())

    def _heads_of(self, part: list[RemoteFile], task: Any) -> list[str | None]:
        for _ in range(ATTEMPTS):
            with suppress(self._ray.exceptions.RayError):
                found: list[str | None] = self._ray.get(task)
                return found
            task = self._heads.remote(part)
        raise InputError(
            f"The machines of the cluster could not open {part[0].shown} and the files "
            "after it; check that each has this version of warmup-insights"
        )

    def _hand_out(self) -> None:
        """Give out as much as keeps the cluster busy."""
        cores = int(self._ray.cluster_resources().get("CPU", 1))
        while self._lines and len(self._running) < PER_CORE * max(1, cores):
            line = self._lines.popleft()
            file = self._files[line[0]]
            task = self._read.remote(file, self._database, self._options)
            self._running[task] = line

    def _take(self, task: Any) -> None:
        line = self._running.pop(task)
        index = line[0]
        try:
            found: Outcome | str = self._ray.get(task)
        except self._ray.exceptions.RayError as error:
            found = self._reason(error)
        self._attempts[index] += 1
        outcome = self._failed(index, found) if isinstance(found, str) else found
        if outcome is not None:
            self._outcomes[index] = outcome
            self._watcher.read(self._files[index].size_bytes)
            self._watcher.done(outcome)
            line.popleft()
        if line:
            self._lines.append(line)

    def _reason(self, error: Exception) -> str:
        """Ray's message about a task, in a line."""
        lines = str(error).strip().splitlines() or [""]
        is_ours = isinstance(error, self._ray.exceptions.RayTaskError)
        return f"{type(error).__name__}: {lines[-1 if is_ours else 0][:300]}"

    def _failed(self, index: int, problem: str) -> Outcome | None:
        """The outcome of a file whose task failed; None when it is tried again."""
        path = self._files[index].shown
        if self._attempts[index] < ATTEMPTS:
            self._watcher.again(path, problem)
            return None
        error = f"{path} could not be read, {ATTEMPTS} times; the last time: {problem}"
        return Outcome(path, state="failed", error=error)
