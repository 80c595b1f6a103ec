"""In which order files may be stored that were read in any order."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque


class Turns:
    """Files that begin alike are stored in their order, others as they come.

    One of them may continue another, or its run may want the other's id: the result
    must not depend on who was read first. Files that begin differently have nothing to
    do with each other. Files are numbers from 0.
    """

    def __init__(self, count: int) -> None:
        self._heads: list[str | None] = [None] * count
        self._lines: defaultdict[str, deque[int]] = defaultdict(deque)
        self._read: set[int] = set()
        self._ready: list[int] = []
        self._lined_up = 0
        self._stored = 0

    def __bool__(self) -> bool:
        """Whether a file can be stored now."""
        return bool(self._ready)

    @property
    def is_over(self) -> bool:
        """Whether every file is stored."""
        return self._stored == len(self._heads)

    @property
    def alone(self) -> int | None:
        """The file whose beginning alone is awaited: all before it are stored."""
        is_alone = self._stored == self._lined_up and not self.is_over
        return self._lined_up if is_alone else None

    def begins(self, index: int, head: str) -> None:
        """Say how a file begins; once is enough."""
        if self._heads[index] is not None:
            return
        self._heads[index] = head
        while self._lined_up < len(self._heads):
            known = self._heads[self._lined_up]
            if known is None:
                break
            self._lines[known].append(self._lined_up)
            self._look(known)
            self._lined_up += 1

    def read(self, index: int) -> None:
        """Say that a file was read; how it begins must be known."""
        self._read.add(index)
        head = self._heads[index]
        assert head is not None
        if index < self._lined_up:
            self._look(head)

    def _look(self, head: str) -> None:
        """Make the first of a line ready if it was read."""
        line = self._lines[head]
        if line and line[0] in self._read:
            self._read.discard(line[0])
            heapq.heappush(self._ready, line[0])

    def next(self) -> int:
        """The first file that can be stored; `stored` must follow."""
        return heapq.heappop(self._ready)

    def stored(self, index: int) -> None:
        """Say that a file is stored."""
        head = self._heads[index]
        assert head is not None
        self._lines[head].popleft()
        self._stored += 1
        self._look(head)
