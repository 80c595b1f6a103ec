"""What those who read and the one who stores have to know of each other."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from warmup_insights.ingest.child import Child
from warmup_insights.ingest.held import Held, Slip
from warmup_insights.ingest.messages import Refused, Same
from warmup_insights.ingest.outcome import Outcome, Watcher
from warmup_insights.ingest.turns import Turns

LARGE_BYTES = 32 << 20
"""Larger files are read first, so that none is left to a single process at the end."""


class ClosedError(Exception):
    """The work was broken off."""


@dataclass
class Result:
    """What came of reading a file."""

    answer: Same | Refused | None = None
    """None when it was parsed; then it waits in frames, its events first."""
    head: str = ""
    frames: list[tuple[bytes, Slip]] = field(default_factory=list)


class Board:
    """The state of a work; files are numbers, every method is safe in any thread.

    Args:
        sizes: bytes of each file, for the progress and the order of reading.
        apart: files that nobody reads ahead: whoever stores them reads them too.
        watcher: is told of the progress.
    """

    def __init__(
        self, sizes: Sequence[int], apart: Collection[int], watcher: Watcher
    ) -> None:
        self.held = Held()
        self._unread = list(sizes)
        self._apart = apart
        self._watcher = watcher
        mine = [n for n in range(len(sizes)) if n not in apart]
        self._todo = deque(sorted(mine, key=lambda n: sizes[n] < LARGE_BYTES))
        self._turns = Turns(len(sizes))
        self._results: dict[int, Result] = {}
        self._children: set[Child] = set()
        self._is_closed = False
        self._failure: BaseException | None = None
        self._changed = threading.Condition()

    def next_file(self) -> int:
        """The next file to read; waits while too much is held that could be stored.

        Raises ClosedError when there is none.
        """
        with self._changed:
            while self.held.is_full and self._turns and not self._is_closed:
                self._changed.wait()
            if self._is_closed or not self._todo:
                raise ClosedError
            return self._todo.popleft()

    def begins(self, index: int, head: str) -> None:
        """A file was opened and begins like this."""
        with self._changed:
            self._turns.begins(index, head)
            self._changed.notify_all()

    def advance(self, index: int, count: int) -> None:
        """So many bytes more of a file were read."""
        with self._changed:
            count = min(count, self._unread[index])
            self._unread[index] -= count
            self._watcher.read(count)

    def put(self, index: int, result: Result) -> None:
        """A file was read."""
        with self._changed:
            self._results[index] = result
            self._turns.begins(index, result.head or f"file {index}")
            self._turns.read(index)
            self._changed.notify_all()

    def next_result(self) -> tuple[int, Result | None] | None:
        """A file to store and its result; None for a file apart; None at the end.

        Raises what a reader raised.
        """
        with self._changed:
            while True:
                if self._failure is not None:
                    raise self._failure
                if self._turns:
                    index = self._turns.next()
                    return index, self._results.pop(index)
                if self._turns.is_over:
                    return None
                alone = self._turns.alone
                if alone is not None and alone in self._apart:
                    return alone, None
                self._changed.wait()

    def stored(self, index: int, outcome: Outcome) -> None:
        """A file is stored, or will not be."""
        with self._changed:
            if index in self._apart:
                self._turns.begins(index, f"file {index}")
                self._turns.read(index)
                self._turns.next()
            self._turns.stored(index)
            self._watcher.read(self._unread[index])
            self._unread[index] = 0
            self._watcher.done(outcome)
            self._changed.notify_all()

    def hire(self, start: Callable[[], Child]) -> Child:
        """Start a process that ends when this is closed. Raises ClosedError."""
        child = start()
        with self._changed:
            if not self._is_closed:
                self._children.add(child)
                return child
        child.kill()
        child.close()
        raise ClosedError

    def dismiss(self, child: Child) -> None:
        """A process is gone or no longer wanted."""
        with self._changed:
            self._children.discard(child)
        child.close()

    def check(self) -> None:
        """Raise ClosedError when this is closed."""
        with self._changed:
            if self._is_closed:
                raise ClosedError

    def end_of(self, reader: Future[None]) -> None:
        """A reader ended: if it failed, so does the work."""
        error = reader.exception()
        with self._changed:
            if error is not None:
                self._failure = self._failure or error
            self._changed.notify_all()

    def close(self) -> None:
        """End every process and let all waiting go."""
        with self._changed:
            self._is_closed = True
            children = list(self._children)
            self._changed.notify_all()
        for child in children:
            child.kill()
