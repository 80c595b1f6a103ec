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

    message: str
    time: float | None
    is_copy: bool = False
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
        if record.stamp is None:
            if record.file is None:
                return False  # not of a logger
            time = None
        key, message = (record.source, record.process, record.pid), record.message
        own = self._processes.get(key)
        if own is None:
            if len(self._processes) < MAX_PROCESSES:
                self._processes[key] = _Process(message, time, records=1)
            return False
        is_copy = (
            own.message == message
            and not own.is_copy
            and own.has_copies
            and (time is None or own.time is None or abs(time - own.time) <= APART_S)
        )
        own.message, own.time, own.is_copy = message, time, is_copy
        own.records += 1
        own.copies += is_copy
        return is_copy

    def are_of(self, record: Record) -> bool:
        """Whether the records of the process of this one stand twice."""
        own = self._processes.get((record.source, record.process, record.pid))
        return own is not None and own.copies > 0 and own.has_copies
