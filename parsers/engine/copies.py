"""Records that stand twice because two handlers of a logger print each of them.

Python gives a record to the handlers of its logger and of the loggers above it, one after
the other (`logging.Logger.callHandlers`): where the root logger has one too, each record of
a process is there twice in a row, in one format or in two.
"""

from __future__ import annotations

from dataclasses import dataclass

from parsers.engine.envelope import Record

MAX_PROCESSES = 4096
"""Processes whose records are compared."""
APART_S = 1.0
"""One format may cut off the fraction of a second that the other one has."""
SHARE = 0.9
"""So much of the records before stands twice: some are of code that prints by itself."""


@dataclass(slots=True)
class _Process:
    """What one process printed so far."""

    message: str = ""
    time: float | None = None
    is_copy: bool = True
    """Whether its last record is a copy itself."""
    records: int = 0
    copies: int = 0

    @property
    def has_copies(self) -> bool:
        """Whether its records stand twice, as far as they were read."""
        return 2 * self.copies + 1 >= SHARE * self.records


class Copies:
    """Finds the second one of two equal records where nearly all of a process stand twice.

    An engine can print two equal lines in a row too, so one pair alone is no copy unless
    it is the first that a process prints, with no record of another one between.
    """

    def __init__(self) -> None:
        self._processes: dict[tuple[str | None, str | None, int | None], _Process] = {}
        self._last: _Process | None = None
        """The process that printed the last record."""

    def has(self, record: Record, time: float | None) -> bool:
        """Whether a record is the copy of the last one of its process."""
        if record.stamp is None and record.file is None:
            return False  # not of a logger
        own, last = self._own(record), self._last
        self._last = own
        if own is None:
            return False
        time = None if record.stamp is None else time
        is_copy = (
            own.message == record.message
            and not own.is_copy
            and own.has_copies
            and (own.copies > 0 or own is last)
            and (time is None or own.time is None or abs(time - own.time) <= APART_S)
        )
        own.message, own.time, own.is_copy = record.message, time, is_copy
        own.records += 1
        own.copies += is_copy
        return is_copy

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
