"""Where the time of a start-up went, from the events of a run alone.

Engines print little about time: a line when something begins, or when it ended and how
long it took. Marks are collected per rank; the timeline of the run is that of the
lowest rank and of the processes without one, and slower ranks explain what is left.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable

from msgspec.structs import replace

from warmup_insights.analysis.summary import serving
from warmup_insights.analysis.summary.rank_time import (
    BOUNDED,
    BUILD,
    CUT,
    CUT_OUT,
    KERNELS,
    MEASURED,
    STAMP_S,
    STEPS,
    WARMUP,
    RankTime,
    Span,
    is_before,
    partition,
)
from warmup_insights.model.events import (
    SERVER_START,
    CaptureProgress,
    CompileFinished,
    ConfigRecorded,
    EngineInitialized,
    Event,
    Failure,
    GapSeen,
    GraphsCaptured,
    MemoryMeasured,
    Note,
    PhaseMarked,
    RecipeCompiled,
    RequestServed,
    RunFinished,
    RunStarted,
    RuntimeCompile,
    ServerReady,
    ServingFailure,
    ShutdownRequested,
    SleepModeChanged,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.summary import (
    SHORTEST_S,
    Gap,
    RankPhases,
    TimePhase,
    Times,
)
from warmup_insights.units import isoformat

READY_WITHIN_S = 60.0
"""`Starting vLLM server` and `Application startup complete` belong together in a log; of
several servers that are recorded the first is that of the run."""
MAX_GAPS = 200
LAUNCH = "start_engine"
_FIRST_STAGES = ("import", "configure", "model_switch")

_OF_KERNELS = ("kernel_warmup", "autotune")
"""Notes that are printed while kernels are warmed up."""
AHEAD_S = 5.0
"""Lines of several processes are at most this far out of order around ready."""
OTHER_S = 3600.0
"""A line that much earlier than the first one is of another start."""
_SERVING = serving.KINDS | {GapSeen, Note, RecipeCompiled}
_ENDS = (WarmupFinished, EngineInitialized, GraphsCaptured, ShutdownRequested)
"""Of a warm-up or of a start, as a failure with a time is: what follows may be use."""
_BEHIND_THE_END = (Failure, RunFinished)
"""A failure of one process makes others fail, which a recorder sees in each of them."""
_SERVED = (RuntimeCompile, RequestServed, SleepModeChanged)
_AFTER_READY = (ServerReady, ServingFailure, SleepModeChanged)
_AT_WORK = (Note, ShutdownRequested)
"""A start that is not over, and did not fail before, goes on until then at least."""
_LASTING = (CompileFinished, GraphsCaptured, MemoryMeasured, PhaseMarked)
"""What states how long it took when it is over."""
_SPECIAL = frozenset(
    (CaptureProgress, EngineInitialized, Failure, GapSeen, Note, PhaseMarked, RunStarted,
     ServerReady, WarmupFinished)
)  # fmt: skip


class _Head:
    """What the first lines of a start show: whether they are there at all."""

    def __init__(self) -> None:
        self.is_there = False
        self.has_settings = False
        """Whether the engine or its server stated what it is started with."""
        self.first_line: int | None = None
        """Of an event with a time."""
        self.only_imports = True
        """All lines so far are of a process that imports the engine."""
        self.only_configures = True
        """Or that reads the configuration of a model besides."""

    def add(self, event: Event) -> None:
        """A server's banner is the beginning wherever it is, others only in the first line,
        without which a log may have lost its head.

        What imports the engine right before its core states its version and model is
        that core, and its parent began before.
        """
        is_first = self.first_line in (None, event.line)
        self.first_line = self.first_line or event.line
        is_import = False
        if isinstance(event, PhaseMarked):
            is_import = event.name == "import"
            self.is_there |= is_first and event.name in _FIRST_STAGES
            # It states the model alone: the other settings are those of the server.
            self.has_settings |= event.name == "model_switch"
        elif isinstance(event, ConfigRecorded):
            has_version, has_model = event.version is not None, event.model is not None
            is_import = not (has_version or has_model or event.settings)
            self.has_settings |= has_version or (has_model and bool(event.settings))
            if has_version and not has_model:
                self.is_there = True
            elif has_version:
                self.is_there = self.is_there and not self.only_imports
            elif is_first and has_model and event.settings:
                self.is_there = True
        reads = isinstance(event, PhaseMarked) and event.name == "configure"
        self.only_configures = self.only_configures and (is_import or reads)
        self.only_imports = self.only_imports and is_import


class Timeline:
    """Collects the marks of a run; `result` gives the `time` section of a summary."""

    def __init__(self) -> None:
        self.by_rank: dict[int, RankTime] = {}
        self._gaps: list[GapSeen] = []
        self._cut_line = 0
        """The last one at which lines were cut out."""
        self._cuts: list[Span] = []
        """Gaps with such a line between their two."""
        self._untimed: list[PhaseMarked] = []
        """Ends of stages since the last line that had a timestamp."""
        self.started_at: float | None = None
        self.ready_at: float | None = None
        self.last_at: float | None = None
        self._worked_at = -math.inf
        """When something was printed that shows a start going on, and no more."""
        self._failed_at = math.inf
        self.warmup_s: float | None = None
        self.engine_init_s: float | None = None
        self._init_rank: int | None = None
        """Which rank states that: the lowest."""
        self.has_profile_run = True
        """Whether the engine runs its model to measure what is left for the KV cache."""
        self.lines: dict[str, int] = {}
        """Figure to the line that states it."""
        self.timezone: str | None = None
        self._resolution_s = 1.0
        """Of the timestamps: none has a fraction of a second."""
        self._is_warm = False
        self._is_over = False
        self._is_failed = False
        self._has_server = False
        """An engine got as far as the start of its server, and no further."""
        self._is_given_up = False
        """A start that failed, or had to stop, at a time that is known."""
        self._failed_line: int | None = None
        """Of a failure whose line has no time."""
        self._undated: Failure | None = None
        """That failure, until the start is known to last up to it."""
        self._head = _Head()
        self._is_excerpt = False
        self._is_ready = False

    def _reaches(self, time: float) -> bool:
        """Take a time of the run; whether it is within the start-up.

        What a copy of a terminal has below a ready server is no part of its start, nor is
        what stands below the line of a server that was ready at an unknown time.
        """
        if self.started_at is not None and time < self.started_at - OTHER_S:
            self._is_excerpt = True
        if self.started_at is None or (time < self.started_at and not self._is_ready):
            self.started_at = time
        if self._is_ready and self.ready_at is None:
            return False
        return self.started_at <= time <= (self.ready_at or math.inf)

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        kind, time = type(event), event.time
        was_over = self._is_over or self._is_ready
        if kind in _SERVED and self.ready_at is None:
            # Requests are served: where the start ended is not in its lines.
            self._is_excerpt = self._is_excerpt or not self._is_over
            self._is_over = True
        self._is_over = self._is_over or kind in _ENDS
        self._is_ready = self._is_ready or kind in _AFTER_READY
        if isinstance(event, Failure) and event.phase == SERVER_START:
            self.ready_at = None  # vLLM's line that its server starts stands before it
            self._has_server = True
        if kind in _SPECIAL:
            self._special(event)
        if time is None and isinstance(event, WarmupStep):
            self._times_of(event.rank or 0).bar_phase = event.phase
        if time is None or kind is GapSeen:
            return
        if kind in _AT_WORK and self.last_at is not None and not was_over:
            self._worked_at = max(self._worked_at, time)
        if self._is_given_up and kind in _BEHIND_THE_END:
            return  # what lies before it is the end of processes
        if isinstance(event, RunFinished) and self._did_other_work(event):
            return
        self._is_given_up |= kind in (Failure, ShutdownRequested)
        if self._reaches(time) and kind not in _SERVING:
            self._startup(event, time)

    def _did_other_work(self, end: RunFinished) -> bool:
        """Whether what a program did up to its end is no part of a start: its engine was up,
        for a server elsewhere, or it had none."""
        going_on = {times.current for times in self.by_rank.values()}
        has_none = end.status == "unknown" and going_on <= {None, "import"}
        return self._init_rank is not None or has_none

    def _special(  # noqa: C901, PLR0912 - a table: one case for each kind
        self, event: Event
    ) -> None:
        """Events with a duration or a mark besides their time."""
        match event:
            case GapSeen():
                self._gaps.append(event)
                self._fill(event)
            case CaptureProgress():
                self._times_of(event.rank or 0).captured_s += event.duration_s or 0.0
            case PhaseMarked() if event.time is None and event.duration_s is not None:
                self._untimed.append(event)
            case WarmupFinished() if event.duration_s is not None:
                self._is_warm = True
                if event.duration_s >= (self.warmup_s or 0.0):
                    self.warmup_s = event.duration_s
                    self._stated("time.warmup_s", event)
            case EngineInitialized() if event.duration_s is not None:
                for times in self.by_rank.values():
                    if times.current == SERVER_START and event.time is not None:
                        times.current_since = event.time  # behind the last engine
                rank = event.rank or 0
                if self._init_rank is None or rank <= self._init_rank:
                    self.engine_init_s, self._init_rank = event.duration_s, rank
                    self._stated("time.engine_init_s", event)
                if event.time is not None:
                    self._note_excerpt(event.time, event.duration_s)
                # The first line: what it is the end of is not in the log.
                self._is_excerpt |= event.line is not None and not (
                    self._head.first_line or self._head.is_there
                )
            case Failure() if event.time is None:
                # It came after the lines above it, which may have times.
                self._undated, self._failed_line = event, event.line
                self._is_failed = True
            case Failure():
                self._is_failed = self._is_over = True
                self._failed_at = event.time or 0.0
            case ServerReady() if event.time is not None and (
                self.ready_at is None
                or (event.line and 0 <= event.time - self.ready_at <= READY_WITHIN_S)
            ):
                self.ready_at = event.time
                self._drop_other_clocks(event.time)
            case RunStarted():
                self.timezone = event.timezone
                if event.line is None:  # a recorder is there from the beginning
                    self._head.is_there = self._head.has_settings = True
                self._is_excerpt = self._is_excerpt or event.is_inside
            case Note():
                self._note(event)

    def _drop_other_clocks(self, ready: float) -> None:
        """No rank begins or ends a stage of the start after ready: where the lines of one
        state that, its host has another clock, and what it did lies at other times."""
        own = min(self.by_rank, default=0)
        for rank, times in list(self.by_rank.items()):
            if rank != own and times.last is not None and times.last > ready + AHEAD_S:
                del self.by_rank[rank]

    def _note(self, note: Note) -> None:
        """What a note states about the lines around it."""
        if note.topic == "begins_here":
            self.by_rank, self._gaps, self._cuts, self._untimed = {}, [], [], []
            self.started_at = self.last_at = None
            self._worked_at = -math.inf
            self._head.first_line = None
        elif note.topic == "elided":
            self._cut_line = note.line or 0
            for times in self.by_rank.values():
                times.is_cut = True
        elif note.topic in _OF_KERNELS and note.time is not None:
            self._times_of(note.rank or 0).extend(KERNELS, note.time)
        elif note.values.get("runs_encoder"):
            self._times_of(note.rank or 0).encoder_since = note.time

    def _fill(self, gap: GapSeen) -> None:
        """What a line without a timestamp states as its time lies in the gap around it, as
        what was printed in lines that were cut out does."""
        ended, self._untimed = self._untimed, []
        if gap.time is None or gap.line is None:
            return
        stop = gap.time + gap.duration_s
        if gap.line < self._cut_line <= gap.next_line:
            self._cuts.append(Span(CUT, gap.time, stop, CUT_OUT))
        for event in reversed(ended):
            if not gap.line < (event.line or 0) < gap.next_line:
                continue
            times, lasted = self._times_of(event.rank or 0), event.duration_s or 0.0
            if lasted > gap.duration_s + 2 * STAMP_S:
                times.untimed[event.name] = lasted  # Ray printed it late
                continue
            start = max(gap.time, stop - lasted)
            times.spans.append(Span(event.name, start, stop, MEASURED))
            stop = start

    def _times_of(self, rank: int) -> RankTime:
        times = self.by_rank.get(rank)
        if times is None:
            times = self.by_rank[rank] = RankTime(prints_few_lines=rank > 0)
        return times

    def _note_excerpt(self, time: float, duration_s: float) -> None:
        """An excerpt begins within something that states how long it took, such as the
        engine's initialisation: how long the start took is not in its lines."""
        began = time - duration_s
        if self._head.is_there or self.started_at is None:
            return
        if began < self.started_at - 2 * STAMP_S:
            self.started_at, self._is_excerpt = began, True

    def _stated(self, figure: str, event: Event) -> None:
        if event.line is not None:
            self.lines[figure] = event.line

    def _failed(self, event: Failure, times: RankTime, time: float) -> None:
        """The end of what a rank did. Ranks compile at the same time, and one fails first."""
        times.take_failure(event, time)
        for each in self.by_rank.values():
            is_open = each.traced_at is not None and each.current is None
            if event.phase == "compile" and is_open and each is not times:
                each.end("compile", time, None)

    def _startup(self, event: Event, time: float) -> None:
        # The processes without a rank and rank 0 print in turns: one rank.
        times = self._times_of(event.rank or 0)
        if type(event) is not RunStarted:
            self._head.add(event)
        if _is_behind_the_start(event, times):
            return
        if time % 1.0:
            self._resolution_s = 0.0
        end = time
        if isinstance(event, STEPS):
            times.take_step(event, time)
            end += event.duration_s or 0.0
        elif isinstance(event, Failure):
            self._failed(event, times, time)
        elif isinstance(event, PhaseMarked) and event.total is not None:
            # A bar over a stage, as far as it was drawn when the lines were over.
            began = time - (event.duration_s or 0.0)
            times.spans.append(Span(event.name, began, time, MEASURED))
        else:
            times.note_line(event.line, time)
            times.take_mark(event, time)
            if isinstance(event, _LASTING) and event.duration_s is not None:
                self._note_excerpt(time, event.duration_s)
            if self._is_warm and isinstance(event, CompileFinished):
                return
        if self.last_at is None or end > self.last_at:
            self.last_at = end

    @property
    def is_import(self) -> bool:
        """Whether its lines are of a program that imports the engine, as a client of a
        benchmark does, and starts none."""
        return self._head.first_line is not None and self._head.only_imports

    @property
    def is_configuration(self) -> bool:
        """Whether it reads the configuration of a model besides, for its tokenizer."""
        return self._head.first_line is not None and self._head.only_configures

    def result(self) -> Times:
        """The `time` section: phases and `unlogged_s` add up to `wall_s`.

        Of an excerpt both are unknown: one that begins in the middle, or whose lines are
        of more than one start. Where times go back, none lies where it seems to.
        """
        start = self.started_at
        end = self._end()
        if self._undated is not None and end is not None and self.by_rank:
            # So far it is the end; more lines may come.
            so_far = copy.deepcopy(self)
            so_far.by_rank[min(self.by_rank)].take_failure(self._undated, end)
            so_far._undated = None
            return replace(so_far.result(), is_at_least=True)
        goes_back = any(times.goes_back for times in self.by_rank.values())
        if start is None or end is None or end < start or goes_back:
            return Times(
                started_at=isoformat(start), ready_at=isoformat(self.ready_at),
                timezone=self.timezone, warmup_s=self.warmup_s,
                engine_init_s=self.engine_init_s, is_excerpt=goes_back,
            )  # fmt: skip
        phases = partition(self._spans(end), start, end, self._resolution_s)
        wall = round(end - start, 6)
        # The start is over, but its first lines are not there, or what they bound is not
        # one start: how long it took is unknown.
        is_unbounded = (
            self._is_excerpt
            or any(times.is_repeated for times in self.by_rank.values())
            or ((self._is_ready or self._is_failed) and not self._head.is_there)
            or (wall < SHORTEST_S and not self._head.is_there)
            or (self._is_ready and not self._head.has_settings)
        )
        explained = sum(round(span.duration_s, 6) for span in phases)
        unlogged = max(0.0, round(wall - explained, 6))
        return Times(
            started_at=isoformat(start),
            ready_at=isoformat(self.ready_at),
            timezone=self.timezone,
            wall_s=None if is_unbounded else wall,
            warmup_s=self.warmup_s,
            engine_init_s=self.engine_init_s,
            is_excerpt=is_unbounded or not self._head.is_there,
            phases=[_phase(span, start) for span in phases],
            unlogged_s=None if is_unbounded else unlogged,
            residual_s=None
            if is_unbounded
            else round(wall - explained - unlogged, 6) + 0.0,
            gaps=self._unexplained(phases, start, end),
            ranks=self._ranks(start, end),
        )

    def _end(self) -> float | None:
        """Ready, or the last event; the last line of a start of which no end is known."""
        if self.ready_at is not None:
            return self.ready_at
        if self.last_at is None:
            return None
        is_beyond = self._worked_at > self._failed_at
        last_at = self.last_at if is_beyond else max(self.last_at, self._worked_at)
        is_over = self._is_over or self._is_ready
        if is_over or not any(
            times.spans or times.current for times in self.by_rank.values()
        ):
            return last_at
        last_line = self._failed_line or math.inf
        waited = [
            gap.time + gap.duration_s
            for gap in self._gaps
            if gap.time is not None and gap.next_line <= last_line
        ]
        return max([last_at, *waited])

    def _ranks(self, start: float, end: float) -> list[RankPhases]:
        """The phases of each rank; empty where there is one, or no rank has any."""
        if len(self.by_rank) < 2:
            return []
        main = self.by_rank[self._main()]
        found = []
        for rank, times in sorted(self.by_rank.items()):
            until = self._until(times, end)
            spans = (
                times.spans_until(until)
                if times is main
                else times.spans_after(main, until)
            )
            phases = [_phase(span, start) for span in partition(spans, start, end)]
            found.append(RankPhases(rank=rank, phases=phases))
        return found if any(each.phases for each in found) else []

    def _spans(self, end: float) -> Iterable[Span]:
        yield from self._cuts
        main = self._main()
        for rank, times in self.by_rank.items():
            until = self._until(times, end)
            if rank == main:
                yield from map(self._behind_profiling, times.spans_until(until))
            elif rank < main:
                began = (span.start for span in self.by_rank[main].spans_until(end))
                yield from times.spans_until(min(began, default=until))
            elif not self._has_other_clock(times):
                yield from times.spans_as_other_rank(self.by_rank[main], until)

    def _main(self) -> int:
        """The rank that stands for all: the lowest. On a node without that one its launcher
        waits, without a rank, and the lowest of its workers does (`vllm serve --headless`)."""
        ranks = sorted(self.by_rank)
        waits = len(ranks) > 1 and self.by_rank[ranks[0]].current == LAUNCH
        return ranks[waits] if ranks else 0

    def _has_other_clock(self, times: RankTime) -> bool:
        """Whether a rank ended something after the server was ready, which waits for all:
        it is on a host whose clock is ahead."""
        ready = self.ready_at
        return ready is not None and any(
            at > ready + 2 * STAMP_S for at in times.ended.values()
        )

    def _behind_profiling(self, span: Span) -> Span:
        """The KV cache is divided when all ranks have measured what is left for it; Ray may
        print that of one alone. Where none prints it (vLLM 0.8.3), the time up to the
        division is that of the profiling run: it follows at once and takes none
        (`v1/engine/core.py`, `_initialize_kv_caches`). The allocation is behind it."""
        is_bounded = span.name == "kv_cache" and span.strength == BOUNDED
        if not (is_bounded and self.has_profile_run):
            return span
        divided = [
            times.divided_at
            for times in self.by_rank.values()
            if times.divided_at is not None
        ]
        if divided and min(divided) <= span.start:
            return span
        measured = [times.ended.get("profile_run") for times in self.by_rank.values()]
        ended = [at for at in measured if at is not None and at <= span.end]
        if not ended:
            return Span("profile_run", span.start, span.end, span.strength)
        return Span(span.name, max(span.start, *ended), span.end, span.strength)

    def _until(self, times: RankTime, end: float) -> float:
        """When the phase of a rank was over of which no end is marked.

        Ray prints one of several equal lines, so a phase can begin in the lines of one
        rank and end in those of another. An engine without a server starts none.
        """
        if times.current is None or times.current_since is None:
            return end
        if (
            times.current == SERVER_START
            and self.ready_at is None
            and not self._has_server
        ):
            return times.current_since
        ends = [
            other.ended[times.current]
            for other in self.by_rank.values()
            if other is not times
            and other.ended.get(times.current, -math.inf) >= times.current_since
        ]
        if not ends and times.current == "init_worker":
            ends = self._connecting()
        if not ends and self.ready_at is not None:
            ends = self._next_stage(times)
        return min(end, max(ends, default=end))

    def _connecting(self) -> list[float]:
        """When ranks began to connect that have not ended it: they do so together, and Ray may
        print the line of another rank alone."""
        open_marks = [other.marks for other in self.by_rank.values()]
        name = "distributed_init"
        return [marks[name] for marks in open_marks if name in marks]

    def _next_stage(self, times: RankTime) -> list[float]:
        """When the others began what follows the stage of a rank above 0, of which Ray may
        print no more: in a start that got ready it went on as they did."""
        current, since = times.current or "", times.current_since or 0.0
        later = [
            (span.name, span.start)
            for other in self.by_rank.values()
            if other is not times and times.prints_few_lines
            for span in other.spans
            if is_before(current, span.name) and span.start >= since
        ]
        return [
            start
            for name, start in later
            if not any(is_before(earlier, name) for earlier, _ in later)
        ]

    def _unexplained(self, phases: list[Span], start: float, end: float) -> list[Gap]:
        """Gaps between two lines that no phase explains, the longest first."""
        found = []
        for gap in self._gaps:
            if gap.time is None or gap.time >= end:
                continue
            begin, stop = max(gap.time, start), min(gap.time + gap.duration_s, end)
            covered = sum(
                max(0.0, min(span.end, stop) - max(span.start, begin))
                for span in phases
            )
            open_s = stop - begin - covered
            if open_s >= 1.0:
                found.append(_gap(gap, start, open_s))
        found.sort(key=lambda row: -row.unlogged_s)
        return found[:MAX_GAPS]


def _is_behind_the_start(event: Event, times: RankTime) -> bool:
    """Whether an event is of a program without a server that makes its next engine, or of
    a worker without one that answers its first requests."""
    marked = event.name if isinstance(event, PhaseMarked) else None
    begins = marked == "import" or isinstance(event, ConfigRecorded)
    is_built = marked == BUILD and WARMUP in times.ended
    return (times.is_initialized and begins) or is_built


def _phase(span: Span, start: float) -> TimePhase:
    return TimePhase(
        name=span.name,
        start_s=round(span.start - start, 6),
        duration_s=round(span.duration_s, 6),
    )


def _gap(gap: GapSeen, start: float, open_s: float) -> Gap:
    return Gap(
        start_s=round((gap.time or 0.0) - start, 6),
        duration_s=round(gap.duration_s, 6),
        unlogged_s=round(open_s, 6),
        line=gap.line,
        next_line=gap.next_line,
        before=gap.before,
        after=gap.after,
    )
