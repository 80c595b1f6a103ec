"""The one engine for every dialect: physical lines in, events of runs out.

It knows no dialect and no rule by name. Lines are split at LF, then at CR; each piece
is peeled into records, each record is dispatched to a rule, and what the rule makes
goes through the tracker of the run it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo

from parsers.base import LineRule, Made
from parsers.dispatch import Dispatcher
from parsers.envelope import Record, clean, peel
from parsers.joining import Joiner
from parsers.ranks import RankTable
from parsers.reference import ENGINE
from parsers.repeats import STAMP, KnownHead, KnownMessage, Repeats, is_plain
from parsers.report import ParseReport, shown_text
from parsers.runs import BACK_S, LEAP_S, RunSplitter
from parsers.signals import Origin, RankNamed, Signal
from parsers.stamps import Clock
from parsers.tracker import RunTracker, stamped
from warmup_insights.events import (
    ConfigRecorded,
    Event,
    GapSeen,
    RunStarted,
    ServerReady,
)

GAP_S = 2.0
"""Shorter steps between lines are not kept: stamps have a resolution of a second."""
MAX_GAPS = 2000
GAP_TEXT = 160
CREDITED_LINES = 100_000
"""By then it is clear which engine speaks."""
STARTUP_LINES = 50_000
"""After so many lines without a ready server only candidate lines are read."""


@dataclass
class ParsedRun:
    """One start-up found in a file."""

    ordinal: int
    first_line: int
    key: str
    """Text of the first record: names the run however the file grows."""
    engines: dict[str, int] = field(default_factory=dict)
    devices: dict[str, int] = field(default_factory=dict)
    is_synthetic: bool = False


class _Open:
    """What the engine keeps of the run that is being read."""

    def __init__(self, run: ParsedRun) -> None:
        self.run = run
        self.tracker = RunTracker()
        self.ranks = RankTable()
        self.last_time: float | None = None
        self.last_line = 0
        self.last_text = ""
        self.gaps = 0
        self.lines = 0
        self.is_ready = False


class _Unreadable(Exception):
    """A rule, named here, knows the line and cannot convert what it holds."""


class _Before:
    """The first stamped line since the last run: a start-up begins with chatter."""

    LIMIT_S = 600.0

    def __init__(self) -> None:
        self.time: float | None = None
        self.last: float | None = None

    def see(self, time: float | None) -> None:
        """A line without a rule, before any run."""
        if time is None:
            return
        if self.last is None or time - self.last > self.LIMIT_S or time < self.last:
            self.time = time
        self.last = time

    def start(self, time: float | None) -> float | None:
        """When a run began whose first known line has this time."""
        first, last = self.time, self.last
        self.time = self.last = None
        if time is None or first is None or last is None:
            return time
        return first if 0 <= time - last <= self.LIMIT_S else time


class LineParser:
    """Feeds on lines, gives events.

    Args:
        rules: the rules of all dialects, each once.
        clock: gives stamps a year and a zone.
        timezone: name of the zone for `RunStarted`; None when unknown.
    """

    def __init__(
        self,
        rules: Sequence[LineRule],
        *,
        clock: Clock | None = None,
        timezone: str | None = None,
        dispatcher: Dispatcher | None = None,
    ) -> None:
        self.report = ParseReport()
        self.runs: list[ParsedRun] = []
        self._dispatch = dispatcher or Dispatcher(rules)
        self._clock = clock or Clock()
        self._timezone = timezone
        self._splitter = RunSplitter()
        self._joiner = Joiner()
        self._open: _Open | None = None
        self._before = _Before()
        self._repeats = Repeats()
        self._out: list[tuple[int, Event]] = []
        self._line = 0
        self._known_line = -1

    @property
    def wants_all(self) -> bool:
        """Whether ordinary lines matter now: they bound the gaps of a start-up."""
        run = self._open
        return run is None or (not run.is_ready and run.lines < STARTUP_LINES)

    @property
    def literals(self) -> tuple[str, ...]:
        """What a line must hold to matter once ordinary lines do not."""
        return self._dispatch.literals

    def take(self) -> list[tuple[int, Event]]:
        """The events since the last call, with the ordinal of their run."""
        out, self._out = self._out, []
        return out

    def feed(self, line: str, number: int) -> None:
        """Read one physical line."""
        end = line.find("] ") + 2
        cut = line.find(" [", 0, end)
        if cut >= STAMP:
            head = self._repeats.heads.get(line[: cut - STAMP] + line[cut:end])
            if head is not None:
                stamp = line[cut - STAMP : cut]
                if stamp[2] == "-" and self._quickly(head, stamp, line[end:], number):
                    return
        self._line = number
        if "\x1b" in line or "^[" in line or "^M" in line or "\x00" in line:
            line = clean(line)
        if "\r" in line:
            self._pieces(line)
            return
        records = peel(line)
        for record in records:
            self._record(record)
        if len(records) == 1:
            self._learn_head(line, records[0])

    def _quickly(
        self, head: KnownHead, stamp: str, message: str, number: int
    ) -> bool:
        """Read a line whose head is known; False when it needs a closer look."""
        run = self._open
        if run is None or not self._joiner.is_idle:
            return False
        last, time = run.last_time, self._clock.seconds(stamp)
        if last is None or time is None or not -BACK_S <= time - last <= LEAP_S:
            return False
        known = head.messages.get(message)
        if known is None:
            if not is_plain(message):
                return False
            known = self._make_quickly(head.level, message)
            if known is None:
                return False
        self._count(run, known, time, message, number)
        for item in known.made:
            if item is not None:
                self._emit_item(run, item, Origin(time, head.rank, number), 1)
        return True

    def _make_quickly(self, level: str | None, message: str) -> KnownMessage | None:
        """What a rule makes of a message; None when that is not all there is to do."""
        try:
            known = self._make(level, message)
        except _Unreadable:
            return None
        if known is None or known.rule.starts or len(known.made) > 1:
            return None
        return known

    def _count(
        self,
        run: _Open,
        known: KnownMessage,
        time: float | None,
        message: str,
        line: int,
    ) -> None:
        """Take notice of a line that a rule knows."""
        rule = known.rule
        known.counter[rule.name] += 1
        self.report.keep(line, rule.name, message)
        self._gap(run, time, line, message)
        if run.lines < CREDITED_LINES:
            self._credit(run.run, rule)

    def _learn_head(self, line: str, record: Record) -> None:
        """Remember who says what, if a rule knew the line."""
        run = self._open
        if run is not None and self._known_line == self._line:
            rank = run.ranks.rank_of(record) if record.pid is not None else record.rank
            self._repeats.add_head(line, record, rank)

    def _pieces(self, line: str) -> None:
        """Read a physical line that was drawn over itself."""
        owner: Record | None = None
        for piece in line.split("\r"):
            if not piece:
                continue
            records = peel(piece)
            if not records:
                owner = _owner_of(piece) or owner
            for record in records:
                if owner is not None and record.process is None:
                    record.process, record.pid = owner.process, owner.pid
                    record.rank = owner.rank
                self._record(record)

    def close(self) -> None:
        """Read nothing more: finish what is pending."""
        for record, line in self._joiner.close():
            self._dispatch_record(record, line)
        self._close_run()

    def _record(self, record: Record) -> None:
        if self._joiner.passes(record):
            self._dispatch_record(record, self._line)
            return
        for whole, line in self._joiner.add(record, self._line):
            self._dispatch_record(whole, line)

    def _dispatch_record(self, record: Record, line: int) -> None:
        time = self._time(record)
        known = self._repeats.message(record) or self._know(record, line, time)
        if known is None:
            return
        rule, made, _ = known
        if record.is_json:
            self.report.dialects["json"] += 1
        self._known_line = line
        run = self._run_for(rule, record, time, line, made)
        self._count(run, known, time, record.message, line)
        self._deliver(run, record, made, time, line)

    def _know(
        self, record: Record, line: int, time: float | None
    ) -> KnownMessage | None:
        """What a rule makes of a record; None, and noted, when it makes nothing of it."""
        try:
            known = self._make(record.level, record.message)
        except _Unreadable as error:
            self.report.add_failed(line, str(error), record.message)
            return None
        if known is None:
            self._unmatched(record, line, time)
        return known

    def _make(self, level: str | None, message: str) -> KnownMessage | None:
        """What a rule makes of a message; None without a rule. Raises _Unreadable."""
        found = self._dispatch.find(message, level)
        if found is None:
            return None
        rule, match = found
        try:
            made = rule.make(match)
        except (ValueError, OverflowError, IndexError, KeyError):
            raise _Unreadable(rule.name) from None
        report = self.report
        counter = report.matched if made or rule.starts else report.ignored
        known = KnownMessage(rule, made, counter)
        self._repeats.add_message(level, message, known)
        return known

    def _unmatched(self, record: Record, line: int, time: float | None) -> None:
        if self._open is not None:
            self._gap(self._open, time, line, record.message)
        else:
            self._before.see(time)
        if self._dispatch.looks_relevant(record.message, record.level):
            self.report.add_unknown(line, record.message)

    def _deliver(
        self,
        run: _Open,
        record: Record,
        made: list[Made],
        time: float | None,
        line: int,
    ) -> None:
        if len(made) > 1:
            for item in made:
                if isinstance(item, RankNamed):
                    run.ranks.learn(record, item.rank)
                    self._repeats.forget_heads()
        rank = run.ranks.rank_of(record) if record.pid is not None else record.rank
        origin = Origin(time, rank, line)
        for item in made:
            if item is not None and not isinstance(item, RankNamed):
                self._emit_item(run, item, origin, record.count)

    def _emit_item(
        self, run: _Open, item: Event | Signal, origin: Origin, count: int
    ) -> None:
        if isinstance(item, Event):
            item = stamped(item, origin)
            if type(item) is ServerReady:
                run.is_ready = True
        ready = run.tracker.take(item, origin)
        if ready:
            ordinal = run.run.ordinal
            self.report.events += len(ready)
            self._out += [(ordinal, event) for event in ready]
        if count == 1:
            return
        # A collector folded equal lines of other ranks into this one.
        for other in run.ranks.folded(origin.rank, count):
            if isinstance(item, Event):
                self._emit(run, stamped(item, Origin(origin.time, other, origin.line)))

    def _emit(self, run: _Open, event: Event) -> None:
        self.report.events += 1
        self._out.append((run.run.ordinal, event))

    def _time(self, record: Record) -> float | None:
        outer = record.outer
        if outer is None:
            return self._clock.seconds(record.stamp) if record.stamp else None
        inner = self._clock.seconds(record.stamp) if record.stamp else None
        if outer.has_zone:
            return outer.seconds
        if inner is not None:
            self._clock.learn_shift(outer, inner)
            return inner
        return self._clock.outer(outer)

    def _run_for(
        self,
        rule: LineRule,
        record: Record,
        time: float | None,
        line: int,
        made: Iterable[Made],
    ) -> _Open:
        if self._open is not None and self._splitter.goes_on(
            rule, record, time, self._open.last_time
        ):
            return self._open
        last = self._open.last_time if self._open is not None else None
        is_new = self._splitter.begins_run(
            rule, record, time, last, made,
            is_ready=self._open is not None and self._open.is_ready,
        )  # fmt: skip
        if self._open is not None and not is_new:
            return self._open
        self._close_run()
        self._repeats.forget_heads()
        run = ParsedRun(len(self.runs), line, record.message[:200])
        self.runs.append(run)
        self._open = _Open(run)
        started = RunStarted(
            time=self._before.start(time), line=line, timezone=self._timezone
        )
        self._emit(self._open, started)
        return self._open

    def _close_run(self) -> None:
        if self._open is None:
            return
        for event in self._open.tracker.close():
            self._emit(self._open, event)
        engine, device = _identified(self._open.run)
        if engine is not None or device is not None:
            self._emit(self._open, ConfigRecorded(engine=engine, device_kind=device))
        self._open = None

    def _gap(self, run: _Open, time: float | None, line: int, text: str) -> None:
        run.lines += 1
        if time is None or run.is_ready:
            return
        last = run.last_time
        if last is not None and time - last >= GAP_S and run.gaps < MAX_GAPS:
            run.gaps += 1
            self._emit(
                run,
                GapSeen(
                    time=last, line=run.last_line, duration_s=time - last,
                    next_line=line, before=shown_text(run.last_text, GAP_TEXT),
                    after=shown_text(text, GAP_TEXT),
                ),
            )  # fmt: skip
        if last is None or time >= last:
            run.last_time, run.last_line, run.last_text = time, line, text

    def _credit(self, run: ParsedRun, rule: LineRule) -> None:
        if rule.engine is not None:
            run.engines[rule.engine] = run.engines.get(rule.engine, 0) + 1
        if rule.device is not None:
            run.devices[rule.device] = run.devices.get(rule.device, 0) + 1


def _identified(run: ParsedRun) -> tuple[str | None, str | None]:
    """Engine and device by the lines that only one of them prints; a tie is None."""
    if ENGINE in run.engines:
        # It writes in the wording of others, of devices that were not there.
        return ENGINE, None
    device = None
    if run.devices:
        # Engines on HPU share lines of the upstream that speak of CUDA and GPU.
        device = "hpu" if "hpu" in run.devices else max(run.devices)
    names = sorted(run.engines, key=lambda name: -run.engines[name])
    if len(names) == 1 or (names and run.engines[names[0]] > run.engines[names[1]]):
        return names[0], device
    return ("vllm" if device == "cuda" else None), device


def _owner_of(piece: str) -> Record | None:
    """The process named in a piece that holds nothing but a process prefix."""
    records = peel(piece.rstrip() + " x")
    return records[0] if records and records[0].process is not None else None


def parser_clock(
    year: int | None, not_after: float | None, zone: tzinfo | None
) -> Clock:
    """A clock for one file."""
    return Clock(year=year, not_after=not_after, zone=zone)
