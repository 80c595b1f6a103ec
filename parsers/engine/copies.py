"""Records that stand twice because two handlers of a logger print each of them.

Python gives a record to the handlers of its logger and of the loggers above it, one after
the other (`logging.Logger.callHandlers`): where the root logger has one too, each record of
a process is there twice in a row, in one format or in two. A notebook service that keeps
what processes print can write it twice too: some records, then the same ones again.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from parsers.engine.envelope import Record

MAX_PROCESSES = 4096
"""Processes whose records are compared."""
MAX_WAITING = 64
"""Records of a process of which the copy may follow."""
BLOCK = 3
"""So many records before they begin anew are no loop, where nothing stood twice so far."""
APART_S = 1.0
"""One format may cut off the fraction of a second that the other one has."""
MAX_KNOWN = 50_000
"""Records that are known again."""
_NO_SOURCE = "\0"
"""Stands for none, as None is the source of most logs."""
SHARE = 0.9
"""So much of the records before stands twice: some are of code that prints by itself."""


@dataclass(slots=True)
class _Process:
    """What one process printed so far."""

    waiting: deque[tuple[str, float | None]] = field(default_factory=deque)
    """Records without a copy so far, with their times; the oldest is the first."""
    copies: int = 0
    single: int = 0
    """Records of which no copy came."""
    turns: int = 0
    """How often time had gone back when it printed last."""

    @property
    def has_copies(self) -> bool:
        """Whether its records stand twice, as far as their copies came or did not."""
        pairs = 2 * self.copies + 1
        return pairs >= SHARE * (pairs + self.single)

    def take_copy(self, message: str, time: float | None) -> bool:
        """Whether a record stands before; those before that one have no copy then."""
        for index, (known, at) in enumerate(self.waiting):
            is_near = time is None or at is None or abs(time - at) <= APART_S
            if known == message and is_near:
                self.give_up(index)
                self.waiting.popleft()
                self.copies += 1
                return True
            if self.copies == 0:
                return False  # the first copy is that of its first record
        return False

    def give_up(self, count: int) -> None:
        """No copy of the oldest records came."""
        self.single += count
        for _ in range(count):
            self.waiting.popleft()


class Copies:
    """Finds the second one of two equal records where nearly all of a process stand twice.

    An engine can print two equal lines in a row too, so one pair alone is no copy unless
    it is the first that a process prints, with no record of another one between. So are its
    first records where they begin anew: it prints some lines in a loop as well, such as one
    before and one behind each graph.
    """

    def __init__(self) -> None:
        self._processes: dict[tuple[str | None, str | None, int | None], _Process] = {}
        self._last: _Process | None = None
        """The process that printed the last record."""
        self._clocks: dict[str | None, tuple[float, int]] = {}
        """Of each source, the time of its last record and how often it went back."""
        self._are_there = False
        """Whether a record of a process that is named stands twice."""
        self._known: set[int] = set()
        """Hashes of records."""
        self._spans: dict[str | None, tuple[int, float]] = {}
        """Of each source its first record and the latest time."""
        self._quoted: str | None = _NO_SOURCE
        """The source that stands before once more, as the end of a log that is printed while
        the log grows."""

    def has(self, record: Record, time: float | None) -> bool:
        """Whether a record is the copy of one of its process, or stands before already."""
        if self._is_quoted(record, time):
            return True
        if record.stamp is None and record.file is None:
            return False  # not of a logger
        own, last = self._own(record), self._last
        self._last = own
        if own is None or not own.has_copies:
            return False
        time = None if record.stamp is None else time
        if own.turns != (turns := self._turns(record.source, time)):
            own.turns = turns
            own.waiting.clear()
        is_named = record.pid is not None
        is_pair = own is last and len(own.waiting) == 1
        is_block = is_named and (self._are_there or len(own.waiting) >= BLOCK)
        if (own.copies > 0 or is_pair or is_block) and own.take_copy(
            record.message, time
        ):
            self._are_there |= is_named
            return True
        waiting, kept = own.waiting, MAX_WAITING - 1 if is_named else 0
        if own.copies == 0 and any(record.message == known for known, _ in waiting):
            own.single += 1  # it prints equal ones itself
        is_late = 0
        if time is not None:
            is_late = sum(at is not None and time - at > APART_S for _, at in waiting)
        own.give_up(max(is_late, len(waiting) - kept))
        waiting.append((record.message, time))
        return False

    def _is_quoted(self, record: Record, time: float | None) -> bool:
        """Whether a record stands before with the same time, process and text: time goes
        back to the first of such, and goes on with the last."""
        source, is_timed = record.source, record.stamp is not None
        at = time if is_timed else None
        key = hash((source, record.process, record.pid, at, record.message))
        is_known = key in self._known
        if not is_known and len(self._known) < MAX_KNOWN:
            self._known.add(key)
        if is_timed and time is not None:
            first, end = self._spans.get(source, (key, time))
            self._spans[source] = first, max(time, end)
            if not is_known:
                self._quoted = _NO_SOURCE
            elif end - time > APART_S and key == first:
                # The whole log stands once more.
                self._quoted, self._known = _NO_SOURCE, {key}
                self._spans[source] = first, time
            elif end - time > APART_S and record.pid is not None:
                self._quoted = source
        return is_known and self._quoted == source

    def _turns(self, source: str | None, time: float | None) -> int:
        """How often time went back in a source: a start that stands below another one is
        no copy, even where its lines are the same."""
        last, turns = self._clocks.get(source, (time, 0))
        if time is None or last is None:
            return turns
        turns += last - time > APART_S
        self._clocks[source] = time, turns
        return turns

    def are_of(self, record: Record) -> bool:
        """Whether the records of the process of this one stand twice."""
        own = self._own(record)
        return own is not None and own.copies > 0 and own.has_copies

    def _own(self, record: Record) -> _Process | None:
        key = record.source, record.process, record.pid
        own = self._processes.get(key)
        if own is None and len(self._processes) < MAX_PROCESSES:
            own = self._processes[key] = _Process()
        return own
