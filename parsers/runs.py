"""Where one start-up ends and the next begins in the same file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.base import LineRule, Made
from parsers.envelope import Record
from parsers.signals import ConfigLine, StepLine
from warmup_insights.model.events import (
    BucketRangesConfigured,
    BucketsGenerated,
    ConfigRecorded,
    MemoryBudgetSet,
    MemoryMeasured,
    WarmupStep,
)

_SINGLE = re.compile(r"APIServer|EngineCore(?:_(?:DP)?\d{1,4})?")
_STARTUP = (
    BucketRangesConfigured, BucketsGenerated, ConfigRecorded, MemoryBudgetSet,
    MemoryMeasured, WarmupStep, StepLine, ConfigLine,
)  # fmt: skip
LEAP_S = 6 * 3600.0
"""No step of a start-up takes longer; between such lines lies another start-up."""
BACK_S = 3600.0


class RunSplitter:
    """Decides for every matched line whether it opens another run."""

    def __init__(self) -> None:
        self._highest = 0
        self._forget()

    def goes_on(
        self, rule: LineRule, record: Record, time: float | None, last: float | None
    ) -> bool:
        """Cheap answer for most lines: the same process, shortly after the last one."""
        return (
            not rule.starts
            and (record.pid or 0) == self._last_pid
            and time is not None
            and last is not None
            and -BACK_S <= time - last <= LEAP_S
        )

    def begins_run(
        self,
        rule: LineRule,
        record: Record,
        time: float | None,
        last: float | None,
        made: Iterable[Made],
        *,
        is_ready: bool,
    ) -> bool:
        """Whether the record of this rule belongs to a new start-up."""
        is_new = (
            self._repeats_opening(rule, record, is_ready)
            or self._process_restarted(record)
            or _leaps(time, last, made)
        )
        if is_new:
            self._forget()
        if rule.starts:
            self._openings.add((rule.starts, record.process))
            self._highest = max(self._highest, rule.starts)
        self._last_pid = record.pid or 0
        if record.process and record.pid and _SINGLE.fullmatch(record.process):
            self._pids[record.process] = record.pid
        return is_new

    def _forget(self) -> None:
        self._last_pid = -1
        self._openings: set[tuple[int, str | None]] = set()
        self._highest = 0
        self._pids: dict[str, int] = {}

    def _repeats_opening(self, rule: LineRule, record: Record, is_ready: bool) -> bool:
        if not rule.starts:
            return False
        key = (rule.starts, record.process)
        return key in self._openings or rule.starts < self._highest or is_ready

    def _process_restarted(self, record: Record) -> bool:
        """A process that exists once per engine appears with another pid."""
        if record.process is None or record.pid is None:
            return False
        known = self._pids.get(record.process)
        return known is not None and known != record.pid


def _leaps(time: float | None, last: float | None, made: Iterable[Made]) -> bool:
    if time is None or last is None:
        return False
    if -BACK_S <= time - last <= LEAP_S:
        return False
    return any(isinstance(item, _STARTUP) for item in made)
