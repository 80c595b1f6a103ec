"""The one engine for every dialect: physical lines in, events of runs out.

It knows no dialect and no rule by name. Lines are split at LF, then at CR; each piece
is peeled into records, each record is dispatched to a rule, and what the rule makes
goes through the tracker of the run it belongs to.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from parsers.base import LineRule, Made
from parsers.dispatch import Dispatcher
from parsers.envelope import Record, clean, owner_of, peel
from parsers.joining import Joiner
from parsers.open_run import BeforeRun, OpenRun, ParsedRun
from parsers.repeats import STAMP, KnownHead, KnownMessage, Repeats, is_plain
from parsers.report import ParseReport, shown_text
from parsers.runs import BACK_S, LEAP_S, RunSplitter
from parsers.signals import Origin, RankNamed, StepLine
from parsers.stamps import Clock
from parsers.tracker import stamped
from warmup_insights.model.events import (
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
CREDITED_LINES = 20_000
"""By then it is clear which engine speaks."""
STARTUP_LINES = 50_000
"""After so many lines without a ready server only candidate lines are read."""


class _Unreadable(Exception):
    """A rule, named here, knows the line and cannot convert what it holds."""


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
        self._open: OpenRun | None = None
        self._before = BeforeRun()
        self._repeats = Repeats()
        self._heads = self._repeats.heads
        self._stamps = self._clock.known
        self._groups: list[tuple[int, list[Event]]] = []
        self._out: list[Event] = []
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

    @property
    def num_waiting(self) -> int:
        """How many events `take` would give."""
        return sum(len(events) for _, events in self._groups)

    def take(self) -> list[tuple[int, list[Event]]]:
        """The events since the last call, by the ordinal of their run."""
        groups = [group for group in self._groups if group[1]]
        self._groups = []
        if self._open is not None:
            self._collect_for(self._open.ordinal)
        return groups

    def _collect_for(self, ordinal: int) -> None:
        """From here on events belong to this run."""
        self._out = []
        self._groups.append((ordinal, self._out))

    def feed(self, line: str, number: int) -> None:
        """Read one physical line."""
        if not self.feed_known(line, number):
            self.feed_slowly(line, number)

    def feed_known(self, line: str, number: int) -> bool:
        """Read a line whose head was seen before; False when it needs a closer look.

        It gives what `feed_slowly` would give, which a test compares.
        """
        # The hot path: calls that can be saved are saved.
        end = line.find("] ") + 2
        cut = line.find(" [", 0, end)
        if cut < STAMP:
            return False
        head = self._heads.get(line[: cut - STAMP] + line[cut:end])
        run = self._open
        if head is None or run is None or not self._joiner.is_idle:
            return False
        stamp = line[cut - STAMP : cut]
        time = self._stamps.get(stamp) or self._clock.short(stamp)
        if time is None or (
            run.last_time is not None and not -BACK_S <= time - run.last_time <= LEAP_S
        ):
            return False
        message = line[end:]
        known = head.messages.get(message) or self._make_quickly(head.level, message)
        if known is None:
            return False
        self._count(run, known, time, message, number)
        if known.event is not None and head.state.is_idle:
            self.report.events += 1
            event = replace(known.event, time=time, rank=head.rank, line=number)
            self._out.append(event)
        elif known.made:
            self._emit_known(run, head, known.made[0], Origin(time, head.rank, number))
        return True

    def _emit_known(
        self, run: OpenRun, head: KnownHead, item: Made, origin: Origin
    ) -> None:
        if type(item) is StepLine:
            ready = run.tracker.step(head.state, item, origin)
            self.report.events += len(ready)
            self._out += ready
        else:
            self._emit_item(run, item, origin, 1)

    def feed_slowly(self, line: str, number: int) -> None:
        """Read one physical line, whatever it is."""
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

    def _make_quickly(self, level: str | None, message: str) -> KnownMessage | None:
        """What a rule makes of a message; None when that is not all there is to do."""
        if not is_plain(message):
            return None
        try:
            known = self._make(level, message)
        except _Unreadable:
            return None
        if known is None or known.rule.starts or len(known.made) > 1:
            return None
        return known

    def _count(
        self,
        run: OpenRun,
        known: KnownMessage,
        time: float | None,
        message: str,
        line: int,
    ) -> None:
        """Take notice of a line that a rule knows."""
        rule = known.rule
        known.counter[rule.name] += 1
        if not self.report.is_full:
            self.report.keep(line, rule.name, message)
        if run.is_ready:
            run.lines += 1
        else:
            self._gap(run, time, line, message)
        if run.lines < CREDITED_LINES:
            run.run.credit(rule)

    def _learn_head(self, line: str, record: Record) -> None:
        """Remember who says what, if a rule knew the line."""
        run = self._open
        if run is not None and self._known_line == self._line:
            rank = run.ranks.rank_of(record) if record.pid is not None else record.rank
            state = run.tracker.state_of(rank)
            self._repeats.add_head(line, record, rank, state)

    def _pieces(self, line: str) -> None:
        """Read a physical line that was drawn over itself."""
        owner: Record | None = None
        for piece in line.split("\r"):
            if not piece:
                continue
            records = peel(piece)
            if not records:
                owner = owner_of(piece) or owner
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
        rule, made = known.rule, known.made
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
        run: OpenRun,
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
            self._emit_item(run, item, origin, record.count)

    def _emit_item(self, run: OpenRun, item: Made, origin: Origin, count: int) -> None:
        if item is None or type(item) is RankNamed:
            return
        if isinstance(item, Event):
            item = stamped(item, origin)
            if type(item) is ServerReady:
                run.is_ready = True
        ready = run.tracker.take(item, origin)
        if ready:
            self.report.events += len(ready)
            self._out += ready
        if count == 1:
            return
        # A collector folded equal lines of other ranks into this one.
        for other in run.ranks.folded(origin.rank, count):
            if isinstance(item, Event):
                self._emit(stamped(item, Origin(origin.time, other, origin.line)))

    def _emit(self, event: Event) -> None:
        self.report.events += 1
        self._out.append(event)

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
    ) -> OpenRun:
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
        self._open = OpenRun(run)
        self._collect_for(run.ordinal)
        started = RunStarted(
            time=self._before.start(time), line=line, timezone=self._timezone
        )
        self._emit(started)
        return self._open

    def _close_run(self) -> None:
        if self._open is None:
            return
        for event in self._open.tracker.close():
            self._emit(event)
        engine, device = self._open.run.identified()
        if engine is not None or device is not None:
            self._emit(ConfigRecorded(engine=engine, device_kind=device))
        self._open = None

    def _gap(self, run: OpenRun, time: float | None, line: int, text: str) -> None:
        run.lines += 1
        if time is None or run.is_ready:
            return
        last = run.last_time
        if last is not None and time - last >= GAP_S and run.gaps < MAX_GAPS:
            run.gaps += 1
            self._emit(
                GapSeen(
                    time=last, line=run.last_line, duration_s=time - last,
                    next_line=line, before=shown_text(run.last_text, GAP_TEXT),
                    after=shown_text(text, GAP_TEXT),
                )
            )  # fmt: skip
        if last is None or time >= last:
            run.last_time, run.last_line, run.last_text = time, line, text
