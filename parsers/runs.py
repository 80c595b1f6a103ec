"""Where one start-up ends and the next begins in the same file."""

from __future__ import annotations

import re
from collections.abc import Iterable

from parsers.base import LineRule, Made
from parsers.envelope import Record
from parsers.evidence import ENGINE_CONFIG
from parsers.signals import ConfigLine, StepLine
from warmup_insights.model.events import (
    BucketRangesConfigured,
    BucketsGenerated,
    ConfigRecorded,
    GraphsCaptured,
    MemoryBudgetSet,
    MemoryMeasured,
    WarmupFinished,
    WarmupStep,
)

_SINGLE = re.compile(r"APIServer|EngineCore(?:_(?:DP)?\d{1,4})?")
_STARTUP = (
    BucketRangesConfigured, BucketsGenerated, ConfigRecorded, MemoryBudgetSet,
    MemoryMeasured, WarmupStep, StepLine, ConfigLine, WarmupFinished, GraphsCaptured,
)  # fmt: skip
LEAP_S = 6 * 3600.0
"""No step of a start-up takes longer; between such lines lies another start-up."""
BACK_S = 3600.0
EARLIER_S = 30.0
"""Lines of one start are mixed up by less: its engine does not begin before them."""


class RunSplitter:
    """Decides for every matched line whether it opens another run."""

    def __init__(self) -> None:
        self._highest = 0
        self._version: str | None = None
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
            and -EARLIER_S <= time - last <= LEAP_S
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
        has_ended: bool,
    ) -> bool:
        """Whether the record of this rule belongs to a new start-up."""
        is_new = (
            (has_ended and any(isinstance(item, ConfigRecorded) for item in made))
            or self._repeats_opening(rule, record, is_ready)
            or self._process_restarted(record)
            or self._is_another_engine(rule, time, last, made)
            or _leaps(time, last, made)
        )
        if is_new:
            self._forget()
        if rule.starts == ENGINE_CONFIG:
            self._version = _version(made)
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
        self._version = None
        self._pids: dict[str, int] = {}

    def _repeats_opening(self, rule: LineRule, record: Record, is_ready: bool) -> bool:
        if not rule.starts:
            return False
        key = (rule.starts, record.process)
        return key in self._openings or rule.starts < self._highest or is_ready

    def _is_another_engine(
        self,
        rule: LineRule,
        time: float | None,
        last: float | None,
        made: Iterable[Made],
    ) -> bool:
        """An engine of another version, or one that began before the last line."""
        if rule.starts != ENGINE_CONFIG or self._highest == 0:
            return False
        known = self._version
        if known is not None and _version(made) not in (known, None):
            return True
        return time is not None and last is not None and last - time > EARLIER_S

    def _process_restarted(self, record: Record) -> bool:
        """A process that exists once per engine appears with another pid."""
        if record.process is None or record.pid is None:
            return False
        known = self._pids.get(record.process)
        return known is not None and known != record.pid


def _version(made: Iterable[Made]) -> str | None:
    versions = (item.version for item in made if isinstance(item, ConfigRecorded))
    return next((version for version in versions if version is not None), None)


def _leaps(time: float | None, last: float | None, made: Iterable[Made]) -> bool:
    if time is None or last is None:
        return False
    if -BACK_S <= time - last <= LEAP_S:
        return False
    return any(isinstance(item, _STARTUP) for item in made)
