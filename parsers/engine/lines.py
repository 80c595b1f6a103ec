"""The one engine for every dialect: physical lines in, events of runs out.

It names no dialect and no rule. Lines are split at LF, then at CR; each piece
is peeled into records, each record is dispatched to a rule, and what the rule makes
goes through the tracker of the run it belongs to.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import structs

from parsers.base import LineRule
from parsers.engine.copies import Copies
from parsers.engine.dispatch import Dispatcher, Matched
from parsers.engine.envelope import (
    Record,
    begins_with_head,
    clean,
    peel,
    peel_redrawn,
)
from parsers.engine.evidence import (
    API_SERVER,
    ENGINE_CONFIG,
    IMPORTING,
    MAX_PROCESSES,
    SPAWNING,
    imports_late,
    imports_unnamed,
    shown_by,
)
from parsers.engine.failures import Traceback
from parsers.engine.fronts import ENOUGH, Fronts, Units
from parsers.engine.runs import STOPPING, OpenRun, begins_inside
from parsers.engine.serving import LinesLike, lines_like
from parsers.engine.signals import (
    BarUpdate,
    CodeFence,
    Elided,
    EnvironmentListed,
    FailureLine,
    FrameSeen,
    Origin,
    OtherEngine,
    RankNamed,
    RequestLine,
    ShutdownLine,
    StatisticsLine,
    is_at_work,
    is_cause,
    is_foreign,
    stamped,
)
from parsers.engine.stamps import Clock, has_zone
from parsers.engine.streams import LISTED_LINES, BeforeRun, Stream
from parsers.report import ParseReport
from warmup_insights.model.events import (
    Event,
    Failure,
    KVCacheAllocated,
    PhaseMarked,
    RunStarted,
    ServerReady,
    ServingFailure,
)

MAX_STREAMS = 256
"""Containers that are kept apart in one file; lines of further ones are read as one."""
MAX_STARTS = 10_000
"""Start-ups of one file; nothing is read behind the first line of one more."""
CREDITED_LINES = 5_000
"""By then it is clear which engine wrote the log."""
_EXITED = re.compile(
    r"(?P<name>[\w.@-]{1,120}) exited with code \d{1,3}(?: \(restarting\))?\s{0,20}$"
)
_STOPPING = ("Gracefully stopping", "Gracefully Stopping", "Aborting on container exit")
"""docker compose, outside of the prefixes of its containers: that one has ended, and that it
ends all of them (`pkg/compose/printer.go`, `pkg/compose/up.go`)."""
_SERVER_PROCESS = "server_process"
"""The rule of what any web server prints before it is ready."""
_EXITING = "destroy_process_group() was not called before program exit"
"""What torch prints at the end of a process, whatever it did before (`ProcessGroupNCCL.cpp`)."""
EXITING_WITHIN = 200
"""Characters of a line in which it stands."""
_OF_BENCH = "bench_"
"""How the names of rules begin of what `vllm bench` prints."""
_AT_WORK = (StatisticsLine, RequestLine)
"""What an engine prints of requests."""
_OF_SERVERS = (ServerReady, ShutdownLine)
"""What any web server prints."""
MAX_HEADS, MAX_HEAD = 32, 400
"""Different texts before statistics lines that are kept, and characters of each."""


class _Counted(NamedTuple):
    """The statistics lines of a ready server that look like one before them."""

    lines: LinesLike
    rule: str
    name: str | None
    """Of the stream."""
    stream: Stream
    run: OpenRun


class LineParser:
    """Turns the lines of one file into events, in order.

    Args:
        dispatcher: the rules of all dialects.
        report: counts what happened to the lines; a new one if none is given.
        clock: gives timestamps a year and a zone.
        timezone: name of the zone for `RunStarted`; None when unknown.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        *,
        report: ParseReport | None = None,
        clock: Clock | None = None,
        timezone: str | None = None,
    ) -> None:
        self.report = report or ParseReport()
        self.num_runs = 0
        """Start-ups so far."""
        self._events: defaultdict[int, list[Event]] = defaultdict(list)
        """Since `take`, by the ordinal of their run."""
        self._dispatch = dispatcher
        self._statistics = [text.encode() for text in dispatcher.statistics]
        self._clock = clock or Clock()
        self._timezone = timezone
        self._fronts, self._units = Fronts(), Units()
        self._copies = Copies()
        self._streams: dict[str | None, Stream] = {}
        self._stream_name: str | None = None
        self._stages: dict[tuple[str | None, int | None], str] = {}
        """Stages of vllm-omni and servers of a trainer, by container and process."""
        self._read_from(None)
        self._line = 0
        self._text = ""
        """That line, where it is one record."""
        self._counted: dict[str, _Counted] = {}
        self._stops_all = False
        """Whether docker compose ends all containers."""

    def _read_from(self, name: str | None) -> None:
        """From here on lines are those of this container, pod or unit."""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = Stream()
        self._stream_name, self._stream = name, stream

    @property
    def reads_all(self) -> bool:
        """Whether ordinary lines matter now."""
        is_before_any = True
        for stream in self._streams.values():
            if stream.run is not None:
                if stream.run.reads_all(self._line):
                    return True
                is_before_any = False
        return is_before_any

    @property
    def num_waiting(self) -> int:
        """How many events `take` would give."""
        return sum(map(len, self._events.values()))

    @property
    def open_run(self) -> int | None:
        """The ordinal of the start-up of the last line; None where none is open."""
        run = self._stream.run
        return None if run is None else run.ordinal

    @property
    def ending(self) -> Failure | ServingFailure | None:
        """The failure of the start-up that is open, as far as it is printed."""
        run = self._stream.run
        return None if run is None else run.tracker.ending

    @property
    def has_stopped(self) -> bool:
        """Whether the engine of the start-up that is open failed or was stopped."""
        run = self._stream.run
        return run is not None and run.tracker.failures.has_ended

    def take(self) -> list[tuple[int, list[Event]]]:
        """The events since the last call, by the ordinal of their run."""
        taken = list(self._events.items())
        self._events.clear()
        return taken

    def look_at(self, text: str) -> None:
        """Find in the beginning of the log what another program put in front of its lines:
        the first of them have it as well."""
        num_own = 0
        for line in map(clean, text.split("\n")):
            num_own += begins_with_head(line)
            if num_own < ENOUGH and "\r" not in line:
                peel(line, self._fronts)
            if num_own == ENOUGH or self._fronts.is_known:
                break
        self._fronts.drop_counts()

    def feed(self, line: str, number: int) -> None:
        """Read one physical line."""
        if self.num_runs > MAX_STARTS:
            return
        self._line = number
        line = clean(line)
        records = (peel_redrawn if "\r" in line else peel)(line, self._fronts)
        self._text = line if len(records) == 1 else ""
        for record in records:
            if record.source is not None and record.writer is not None:
                record.source = self._units.source_of(record.source, record.writer)
            if self._is_of_no_stream(record):
                continue
            self._note_stage(record)
            if record.source != self._stream_name and not self._is_of_last(record):
                self._read_from(record.source)
            joiner = self._stream.joiner
            if joiner.passes(record):
                self._read_record(record, number)
                continue
            for whole, first in joiner.add(record, number):
                self._read_record(whole, first)

    def _is_of_no_stream(self, record: Record) -> bool:
        """Whether a line states the end of a container that printed none, or was ended by
        docker compose itself; else such a line is one of that container."""
        text = record.message
        if record.source is not None or record.is_headed:
            return False
        self._stops_all = self._stops_all or text.startswith(_STOPPING)
        match = _EXITED.match(text) if " exited with code " in text else None
        if match is None:
            return False
        name = match["name"]
        own = (s for s in self._streams if s and (name == s or name.endswith(f"_{s}")))
        record.source = next(own, None)
        return record.source is None or self._stops_all

    def _note_stage(self, record: Record) -> None:
        """The stage of a line is a source inside of its container. In a stage of vllm-omni only
        vLLM's own logger has the mark: other lines of the process get it."""
        if record.stage is None and not self._stages:
            return
        process = record.source, record.pid
        if record.stage is None:
            record.stage = self._stages.get(process)
        elif record.pid is not None and len(self._stages) < MAX_STREAMS:
            self._stages[process] = record.stage
        if record.stage is not None:
            record.source = f"{record.source or ''}/{record.stage}"

    def _is_of_last(self, record: Record) -> bool:
        """Whether a text is read as one of the container that printed the line before it:
        a prefix is put before a line, and not before what is drawn over it."""
        has_head = record.stamp or record.process or record.level
        is_bare = record.source is None and not has_head
        is_redrawn = is_bare and self._streams[None].run is None
        return is_redrawn or len(self._streams) >= MAX_STREAMS

    def counts(self, lines: bytes) -> bool:
        """Count the statistics in whole lines; False, and none is counted, where `feed`
        would do more than count them.

        A ready server prints statistics as long as it runs. A line that differs from an
        earlier one in the time of the day and in its figures alone belongs to the same
        start, while none began or ended and no process joined one.
        """
        missing = sum(map(lines.count, self._statistics))
        if missing == 0:
            return True
        found = []
        for like in self._counted.values():
            if figures := like.lines.find(b"\n" + lines):
                found.append((like, like.run.tracker.usage, figures))
                missing -= like.lines.num_literals * len(figures)
        if missing or len({like.name for like, _, _ in found}) > 1:
            return False
        for like, usage, figures in found:
            if not like.stream.joiner.is_idle or not usage.counts(figures):
                return False
        for like, usage, figures in found:
            if like.name != self._stream_name:
                self._read_from(like.name)
            usage.count(figures)
            like.run.lines += len(figures)
            self.report.matched[like.rule] += len(figures)
        return True

    def _keep_statistics(self, rule: LineRule, record: Record, run: OpenRun) -> None:
        """Keep what a statistics line looks like, and whose it is."""
        if run.waits_for_request(self._line) or self._copies.are_of(record):
            return
        text = self._text.rstrip()
        head = text.removesuffix(record.message)
        is_whole = len(head) + len(record.message) == len(text)
        # A shipper's clock without a zone is held against that of the engine, line by line.
        has_one_clock = record.outer is None or record.outer.has_zone
        if not is_whole or not has_one_clock or len(head) > MAX_HEAD:
            return
        lines = lines_like(head, record.message, rule)
        if lines.head in self._counted or len(self._counted) < MAX_HEADS:
            like = _Counted(lines, rule.name, self._stream_name, self._stream, run)
            self._counted[lines.head] = like

    def settle(self) -> None:
        """Read errors without the lines that may follow: in a log that grows they may never
        come."""
        last = self._stream_name
        for name, stream in list(self._streams.items()):
            for record, line in stream.joiner.take_error():
                if name != self._stream_name:
                    self._read_from(name)
                self._read_record(record, line)
        if self._stream_name != last:
            self._read_from(last)

    def close(self) -> None:
        """Read nothing more: finish what is pending."""
        for name in list(self._streams):
            self._read_from(name)
            for record, line in self._stream.joiner.close():
                self._read_record(record, line)
            if self.num_runs == 0:
                for matched in self._stream.traceback.proven(self._line):
                    self._add_line(self._run_of(matched), matched)
            for run in self._stream.end_all():
                self._end(run)

    def _read_record(self, record: Record, line: int) -> None:
        time = self._clock.time_of(record.outer, record.stamp)
        if time is None:
            time = self._clock.native(record.message)
        record.message = record.message.rstrip()
        if self._stream.begins_anew(record, time):
            self._read_anew()
        if self._copies.has(record, time):
            return
        found = self._dispatch.find(record.message, record.level, record.file)
        matched = None
        if found is not None:
            rule, match = found
            try:
                made = rule.make(match)
            except (ValueError, OverflowError, IndexError, KeyError):
                self.report.add_failed(line, rule.name, record.message)
                return
            if record.is_json:
                self.report.dialects["json"] += 1
            matched = Matched(rule, made, record, time, line)
            run = self._stream.run
            if (
                run is not None
                and not self._stream.is_fenced
                and run.continues(matched)
            ):
                if record.process is not None:
                    self._stream.last_owner = None
                self._count_line(run, matched)
                self._take_events(run, matched)
                return
        self._find_run(record, matched, line, time)

    def _find_run(
        self, record: Record, matched: Matched | None, line: int, time: float | None
    ) -> None:
        """Find the start-up of a record: an earlier one, the current one or the next."""
        if matched is not None and self._take_mark(matched):
            return
        stream, owner = self._stream, None
        for ended in stream.begin_worker(record, matched):
            self._end(ended)
        if stream.earlier:
            owner = stream.owner(record, matched, time)
        if owner is not None:
            owner.has_late_lines = True
        if matched is None:
            self._add_unmatched(owner or self._stream.run, record, line, time)
        elif owner is not None or not self._is_late(matched):
            self._add_line(owner or self._run_of(matched), matched)
        elif self._stream.run is None:
            self._stream.traceback.take(matched)
            if any(isinstance(m, FailureLine) for m in matched.made):
                # What stands above an error is of the program that it ended.
                self._stream.before_run = BeforeRun()

    def _read_anew(self) -> None:
        """The log of a container stands in the file once more: its starts are others."""
        for ended in self._stream.end_all():
            self._end(ended)
        self._stream = self._streams[self._stream_name] = self._stream.anew()
        self._counted.clear()

    def _take_mark(self, matched: Matched) -> bool:
        """Take what shows where the log in a page begins and ends; whether the line is none
        of a log, as an edge of a block of code.

        The next block goes on with the log of the one before it, or holds another one; a
        page can quote how busy engines were, line by line, and such a line alone begins
        none.
        """
        made, time, run = matched.made, matched.time, self._stream.run
        if self._take_listing(matched):
            return True
        if any(isinstance(item, CodeFence) for item in made):
            self._stream.is_fenced = run is not None
            self._counted.clear()
            return True
        if not self._stream.is_fenced or time is None:
            return False
        if run is not None and run.is_near(time):
            elided = Elided("it is quoted in pieces")
            self._add(run, run.tracker.take(elided, Origin(None, None, matched.line)))
        elif made and all(isinstance(item, StatisticsLine) for item in made):
            return True
        else:
            for ended in self._stream.end_all():
                self._end(ended)
        self._stream.is_fenced = False
        return False

    def _take_listing(self, matched: Matched) -> bool:
        """Take back the run that began with lines of a program which lists what the machine
        has, and imports vLLM for that; whether a line is of one."""
        run, stream = self._stream.run, self._stream
        if any(isinstance(item, EnvironmentListed) for item in matched.made):
            stream.listed_line = matched.line
            if run is not None and run.is_import:
                self._withdraw(run, stream)
            return True
        if any(isinstance(item, OtherEngine) for item in matched.made):
            stream.is_of_other = True
            return True
        is_near = matched.line - stream.listed_line < LISTED_LINES
        return is_near and imports_unnamed(matched.rule, matched.record)

    def _withdraw_importer(self, stage: str) -> None:
        """Take back the run of a program that only imports vLLM, as its engines are in the
        processes of stages or servers, of which one begins a start."""
        stream = self._streams.get((self._stream_name or "").removesuffix(f"/{stage}"))
        stream = stream or self._streams[None]
        if stream.run is not None and stream.run.has_imports_alone:
            self._withdraw(stream.run, stream)

    def _withdraw(self, run: OpenRun, stream: Stream) -> None:
        """Take back the last run, unless some of its events were given already."""
        events = self._events.get(run.ordinal, [])[:1]
        is_last = run.ordinal == self.num_runs - 1
        if is_last and any(isinstance(event, RunStarted) for event in events):
            stream.run, self.num_runs = None, run.ordinal
            self.report.events -= len(self._events.pop(run.ordinal))

    def _add_line(self, run: OpenRun, matched: Matched) -> None:
        """A line of a start-up, which may show more than what it makes."""
        rule, record = matched.rule, matched.record
        if run.is_after_end(matched):
            run.is_left_behind = True
            self._stream.before_run.add_import(matched.time, shown_by(record))
            return
        if record.pid is not None and record.pid not in run.pids:
            self._add_process(run, rule, record.pid)
        if rule.starts == API_SERVER:
            run.tracker.is_server = True
        elif rule.starts == ENGINE_CONFIG:
            run.has_engine = True
            run.has_buckets = run.is_ready
        self._count_line(run, matched)
        # Ray repeats it late, for processes that it does not name.
        is_late = record.is_repeated or run.is_other(record.actor)
        is_late = is_late or imports_late(rule, record)
        if not is_late or rule.name not in IMPORTING:
            self._take_events(run, matched)

    def _count_line(self, run: OpenRun, matched: Matched) -> None:
        """Count a line of a start-up and take notice of who printed it."""
        rule, record, line = matched.rule, matched.record, matched.line
        if run.evidence.add_line(record):
            run.ranks.add_process(record)
        if matched.made or rule.starts:
            self.report.matched[rule.name] += 1
            if not self.report.is_full:
                self.report.keep(line, rule.name, record.message)
        else:
            self.report.ignored[rule.name] += 1
        if not run.has_engine:
            run.above_engine.add(rule.name)
        if rule.name in SPAWNING:
            run.note_front(rule, record)
        if record.actor is not None and run.is_other(record.actor):
            self._stream.note_actor(record.actor, matched.time)
        # A client measures a server of another log as well, and prints what it imports.
        is_of_client = rule.name.startswith(_OF_BENCH)
        is_left = run.is_left_behind and record.process is None
        is_left = is_left and (is_of_client or is_foreign(matched.made))
        is_own = not (rule.name in IMPORTING or is_of_client or is_left)
        self._add(run, run.add_line(matched.time, line, record, is_own=is_own))
        run.is_left_behind = is_left
        if run.lines < CREDITED_LINES:
            run.evidence.add_rule(rule, matched.made)

    def _run_of(self, matched: Matched) -> OpenRun:
        """The start-up that is open, or another one that begins with a line."""
        if self._stream.run is None:
            self._add_errors_above(matched)
        run = self._stream.run
        if run is None or run.is_followed_by(matched):
            run = self._begin(matched)
        self._add(run, run.moved(matched))
        run.note_opening(matched)
        return run

    def _add_errors_above(self, matched: Matched) -> None:
        """Add what stands above the first line of a start: of an error the cause, where a copy
        begins within its line; else the end of a start that failed, which may be all that a
        log has of it. What a page quotes above a log has neither the name of a process nor a
        shipper's time."""
        if matched.record.is_error:
            for each in self._stream.traceback.logged_above(matched.line):
                self._add_line(self._run_of(each), each)
            return
        if not (matched.rule.starts or imports_unnamed(matched.rule, matched.record)):
            return
        lines, self._stream.traceback = self._stream.traceback.proven(), Traceback()
        if all(each.record.process or each.record.outer for each in lines):
            for each in lines:
                self._add_line(self._run_of(each), each)
            for ended in self._stream.end_all():
                self._end(ended)

    def _is_late(self, matched: Matched) -> bool:
        """Whether a line is of a start that is over, or of none."""
        made, record, run = matched.made, matched.record, self._stream.run
        if run is None:
            # The end of a traceback may be all of it; its prefix shows whose it is.
            is_own = record.process is not None and any(map(is_cause, made))
            serves = any(is_at_work(m) or isinstance(m, RequestLine) for m in made)
            is_own = is_own or (record.level is not None and serves)
            # Any web server gets ready, and a name in front is that of vLLM's.
            is_web = record.process is None and (
                any(isinstance(m, ServerReady) for m in made)
                or (matched.rule.name == _SERVER_PROCESS and record.file is None)
            )
            # The other engine names no module; parts of it print what those of vLLM do.
            is_named = bool(matched.rule.starts) or record.file is not None
            is_other = self._stream.is_of_other and not is_named
            is_other = is_other or self._is_of_trainer(matched)
            return is_web or is_other or (is_foreign(made) and not is_own)
        if run.is_long_before(matched):
            return True
        if record.pid is None or matched.rule.starts or record.pid in run.pids:
            return False
        is_over = record.pid in self._stream.ended_pids
        # A child that a process forks has its name: what it raises may be the cause.
        is_stop = all(isinstance(m, ShutdownLine) for m in made) and (
            bool(made) or record.message.startswith(STOPPING)
        )
        return is_over or (is_stop and run.is_restarted(record))

    def _is_of_trainer(self, matched: Matched) -> bool:
        """Whether a line is of a process beside those with an engine, which are stages or
        servers: another actor of Ray, or a program that imports vLLM."""
        rule, record = matched.rule, matched.record
        is_beside = record.actor is not None or rule.name in IMPORTING
        return (
            bool(self._stages)
            and record.stage is None
            and is_beside
            and not rule.starts
        )

    def _add_process(self, run: OpenRun, rule: LineRule, pid: int) -> None:
        """Note that a process belongs to a run."""
        if len(run.pids) < MAX_PROCESSES:
            run.pids.add(pid)
        self._counted.clear()
        if rule.starts and run is self._stream.run:
            for ended in self._stream.begin_start(pid):
                self._end(ended)

    def _add_unmatched(
        self, run: OpenRun | None, record: Record, line: int, time: float | None
    ) -> None:
        is_beside = run is not None and run.is_left_behind and record.process is None
        is_fenced = self._stream.is_fenced
        is_next = run is not None and run.is_restarted(record)
        is_exit = _EXITING in record.message[:EXITING_WITHIN]
        is_of_no_run = is_beside or is_fenced or is_next or is_exit
        if run is None or is_of_no_run or run.tracker.failures.is_over:
            # The last lines of a process that was stopped begin no later start.
            is_last = run is not None and record.pid in run.pids
            if not is_last and not record.is_error and record.is_headed:
                self._stream.before_run.add_line(time, shown_by(record))
        elif record.pid in run.pids or record.pid not in self._stream.ended_pids:
            if run.evidence.add_line(record):
                run.ranks.add_process(record)
            self._add(run, run.add_line(time, line, record, is_own=False))
        if self._dispatch.looks_relevant(record.message, record.level):
            self.report.add_unknown(line, record.message)

    def _take_events(self, run: OpenRun, matched: Matched) -> None:
        """Give what a line makes to the tracker of its run."""
        made, record = matched.made, matched.record
        if not made:
            return
        if len(made) > 1:
            self._note_rank(matched, run)
        rank = run.ranks.rank_of(record) if record.pid is not None else record.rank
        origin = Origin(matched.time, rank, matched.line)
        for item in made:
            kind = type(item)
            if (
                item is None
                or kind is RankNamed
                or (kind in _OF_SERVERS and run.is_of_other_server(item, record))
                or (kind is Elided and not run.is_beside(matched.line))
                or (kind is BarUpdate and self._stream.is_shared)
            ):
                continue  # nothing, or of another program
            if isinstance(item, Event):
                if isinstance(item, KVCacheAllocated):
                    notes = run.mixed_blocks(item, record)
                    self._add(run, (stamped(note, origin) for note in notes))
                item = run.as_meant(stamped(item, origin))
            elif isinstance(item, FrameSeen) and record.is_error:
                item = structs.replace(item, logged=record.message.strip())
            elif isinstance(item, FailureLine):
                item = run.with_origin(item, record, is_quoted=self._stream.is_fenced)
            elif kind in _AT_WORK:
                self._note_work(matched, run)
            self._add(run, run.tracker.take(item, origin))

    def _note_rank(self, matched: Matched, run: OpenRun) -> None:
        """Take notice of the rank that a process states as its own."""
        record, origin = matched.record, Origin(matched.time, None, matched.line)
        for item in matched.made:
            if isinstance(item, RankNamed):
                run.ranks.set_rank(record, item)
                self._add(run, (stamped(n, origin) for n in run.mixed(item, record)))

    def _note_work(self, matched: Matched, run: OpenRun) -> None:
        """Take notice that an engine answers requests: not one whose start was over."""
        is_over = run.is_ready or run.tracker.failures.is_over
        if not is_over and (run.is_excerpt or run.is_server(matched.record)):
            # The log begins while the engine serves, or has no line that it got ready.
            ready = run.as_meant(ServerReady(line=matched.line))
            origin = Origin(None, None, matched.line)
            self._add(run, run.tracker.take(ready, origin))
        if run.is_ready and matched.rule.makes is StatisticsLine:
            self._keep_statistics(matched.rule, matched.record, run)

    def _add(self, run: OpenRun, events: Iterable[Event]) -> None:
        for event in events:
            self.report.events += 1
            self._events[run.ordinal].append(event)

    def _begin(self, matched: Matched) -> OpenRun:
        """Another start-up begins with a line, or with the lines before it."""
        time, line = matched.time, matched.line
        self._counted.clear()
        if matched.record.stage is not None:
            self._withdraw_importer(matched.record.stage)
        if self._stream.run is not None:
            self._stream.run.end_before_gaps()
        for ended in self._stream.begin_next(time):
            self._end(ended)
        self._stream.run = opened = OpenRun(self.num_runs)
        self.num_runs += 1
        if self.num_runs > MAX_STARTS:
            self.report.add_problem(
                f"there are more than {MAX_STARTS:,} start-ups; the rest was left out"
            )
        began, imported = self._stream.before_run.start(time)
        if began != time:
            for shown in self._stream.before_run.shown:
                opened.evidence.add_shown(shown)
        else:
            began = self._stream.actor_since(matched.record.actor, time)
        zoned = has_zone(matched.record.outer, matched.record.stamp)
        started = RunStarted(
            time=began, line=line, timezone=self._timezone or ("UTC" if zoned else None),
            year_from=self._clock.year_from,
            is_inside=began == time and begins_inside(matched),
        )  # fmt: skip
        self._add(opened, [started])
        if imported is not None:
            begun = PhaseMarked(name="import", edge="start")
            self._add(opened, [stamped(begun, Origin(imported, None, line))])
        return opened

    def _end(self, run: OpenRun) -> None:
        """Give the events that follow when no line of a run comes any more."""
        self._add(run, (*run.tracker.close(), *run.identified()))
