"""Where the time of a start-up went, from the events of a run alone.

Engines say little about time: a line when something begins, or when it ended and how
long it took. Marks are collected per rank; the timeline of the run is that of the
lowest rank and of the processes without one, and slower ranks explain what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from warmup_insights.analysis.spans import (
    ASSUMED,
    BOUNDED,
    MEASURED,
    OTHER_RANK,
    Span,
    partition,
)
from warmup_insights.model.events import (
    BucketMiss,
    BucketsGenerated,
    BucketUsed,
    CaptureSummary,
    CompileFinished,
    ConfigRecorded,
    DefragRan,
    DefragWarmup,
    EngineInitialized,
    Event,
    Failure,
    GapSeen,
    GraphCaptured,
    GraphsCaptured,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    RunStarted,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.units import isoformat

READY_WITHIN_S = 60.0
"""`Starting vLLM server` and `Application startup complete` belong together."""
MAX_GAPS = 200
CUT = "lines_cut_out"
"""Time between two phases where a person took lines out of the log."""

_SERVING = frozenset((BucketMiss, BucketUsed, DefragRan, GapSeen, LazyCapture, Note))
_SPECIAL = frozenset((GapSeen, WarmupFinished, RunStarted, Note))
_STEPS = (WarmupStep, GraphCaptured)
_STAGES = {
    "weights": "load_model",
    "preload_weights": "load_model",
    "drafter_weights": "load_model",
    "wrap_graphs": "load_model",
    "quantization": "load_model",
    "move_to_device": "load_model",
    "compile": "compile",
    "profile_run": "profile_run",
    "kv_cache": "kv_cache",
}


@dataclass(slots=True)
class _Lane:
    """One rank: what it said it is doing, and since when.

    `is_quiet`: a rank above 0 says so little that a line which ends something speaks
    for all the time before it.
    """

    is_quiet: bool = False
    spans: list[Span] = field(default_factory=list)
    doing: str | None = None
    since: float | None = None
    last: float | None = None
    is_cut: bool = False
    """Lines are missing since the last mark."""

    def begin(self, name: str, time: float) -> None:
        """From `time` on this rank does `name`."""
        if self.is_cut and self.doing is not None and self.doing != name:
            self.doing = CUT
        self.is_cut = False
        self._settle(time)
        self.doing, self.since = name, time

    def end(self, name: str, time: float, duration_s: float | None) -> None:
        """At `time` this rank is done with `name`."""
        before = self.last
        if duration_s is not None:
            self._settle(time)
            self.spans.append(Span(name, time - duration_s, time, MEASURED))
        elif self.doing == name and self.since is not None:
            self.spans.append(Span(name, self.since, time, BOUNDED))
        elif self.doing is not None and not self.is_quiet:
            # Nothing says where one ended and the other began.
            self._settle(time)
        elif before is not None:
            self.spans.append(Span(name, before, time, BOUNDED))
        if self.doing == name or duration_s is None:
            self.doing = self.since = None
        self.last = time

    def _settle(self, time: float) -> None:
        if self.doing is not None and self.since is not None:
            self.spans.append(Span(self.doing, self.since, time, ASSUMED))
            self.since = time
        self.last = time

    def touch(self, time: float) -> None:
        """Something else was said at `time`."""
        if self.doing is None:
            self.last = time


class Timeline:
    """Collects the marks of a run; `result` gives the `time` section of a summary."""

    def __init__(self) -> None:
        self._lanes: dict[int, _Lane] = {}
        self._gaps: list[GapSeen] = []
        self.started_at: float | None = None
        self.ready_at: float | None = None
        self.last_at: float | None = None
        self.warmup_s: float | None = None
        self.timezone: str | None = None
        self._is_warm = False

    def route(self, kind: type[Event]) -> Callable[[Event], None]:
        """What takes notice of the events of one class."""
        if kind in _STEPS:
            return self._stepped
        return self._while_serving if kind in _SERVING - _SPECIAL else self.add

    def _stepped(self, event: Event) -> None:
        """`add` of the events of which there are most."""
        time = event.time
        if time is None:
            return
        if self.started_at is None or time < self.started_at:
            self.started_at = time
        if self.ready_at is None or time <= self.ready_at:
            self._startup(event, time)

    def _while_serving(self, event: Event) -> None:
        """It happens at any time and says nothing about the start-up."""
        time = event.time
        if time is not None and (self.started_at is None or time < self.started_at):
            self.started_at = time

    def add(self, event: Event) -> None:
        """Take notice of an event, in the order of the run."""
        kind = type(event)
        if kind in _SPECIAL:
            self._special(event)
        if kind is GapSeen:
            return
        time = event.time
        if time is None:
            return
        if self.started_at is None or time < self.started_at:
            self.started_at = time
        if kind is ServerReady:
            self._ready(time)
        if kind not in _SERVING and (self.ready_at is None or time <= self.ready_at):
            self._startup(event, time)

    def _special(self, event: Event) -> None:
        """Events that say something about time besides when they happened."""
        match event:
            case GapSeen():
                self._gaps.append(event)
            case WarmupFinished() if event.duration_s is not None:
                self._is_warm = True
                self.warmup_s = max(self.warmup_s or 0.0, event.duration_s)
            case RunStarted():
                self.timezone = event.timezone
            case Note() if event.topic == "elided":
                for lane in self._lanes.values():
                    lane.is_cut = True

    def _ready(self, time: float) -> None:
        if self.ready_at is None or 0 <= time - self.ready_at <= READY_WITHIN_S:
            self.ready_at = time

    def _startup(self, event: Event, time: float) -> None:
        # The processes without a rank and rank 0 take turns: one lane.
        rank = event.rank or 0
        lane = self._lanes.get(rank)
        if lane is None:
            lane = self._lanes[rank] = _Lane(is_quiet=rank > 0)
        end = time
        if isinstance(event, _STEPS):
            _step(lane, event, time)
            end += event.duration_s or 0.0
        else:
            _mark(lane, event, time)
            if self._is_warm and isinstance(event, CompileFinished):
                return
        if self.last_at is None or end > self.last_at:
            self.last_at = end

    def result(self) -> dict[str, Any]:
        """The `time` section: phases and `unlogged_s` add up to `wall_s`."""
        start = self.started_at
        end = self.ready_at if self.ready_at is not None else self.last_at
        phases: list[Span] = []
        wall: float | None = None
        unlogged: float | None = None
        if start is not None and end is not None and end >= start:
            phases = partition(self._spans(end), start, end)
            wall = round(end - start, 6)
            explained = sum(round(span.duration_s, 6) for span in phases)
            unlogged = max(0.0, round(wall - explained, 6))
        return {
            "started_at": isoformat(start),
            "ready_at": isoformat(self.ready_at),
            "timezone": self.timezone,
            "wall_s": wall,
            "warmup_s": self.warmup_s,
            "phases": [_phase(span, start or 0.0) for span in phases],
            "unlogged_s": unlogged,
            "residual_s": _residual(wall, phases, unlogged),
            "gaps": self._unexplained(phases, start, end),
        }

    def _spans(self, end: float) -> Iterable[Span]:
        main = min(self._lanes, default=0)
        for rank, lane in self._lanes.items():
            if lane.doing is not None and lane.since is not None:
                lane.spans.append(Span(lane.doing, lane.since, end, ASSUMED))
                lane.doing = None
            if rank == main:
                yield from lane.spans
            else:
                for span in lane.spans:
                    name = f"{span.name} (other rank)"
                    yield Span(name, span.start, span.end, OTHER_RANK)

    def _unexplained(
        self, phases: list[Span], start: float | None, end: float | None
    ) -> list[dict[str, Any]]:
        """Gaps between two lines that no phase explains, the longest first."""
        if start is None or end is None:
            return []
        found = []
        for gap in self._gaps:
            if gap.time is None or gap.time >= end:
                continue
            stop = min(gap.time + gap.duration_s, end)
            covered = sum(
                max(0.0, min(span.end, stop) - max(span.start, gap.time))
                for span in phases
            )
            open_s = stop - gap.time - covered
            if open_s >= 1.0:
                found.append(_gap(gap, start, open_s))
        found.sort(key=lambda row: -float(row["unlogged_s"]))
        return found[:MAX_GAPS]


def _mark(  # noqa: C901 - a table: one case for each kind
    lane: _Lane, event: Event, time: float
) -> None:
    """What an event says about the phase a rank is in."""
    match event:
        case PhaseMarked(edge="start"):
            lane.begin(event.name, time)
        case PhaseMarked():
            lane.end(event.name, time, event.duration_s)
        case MemoryMeasured() if event.stage in _STAGES:
            lane.end(_STAGES[event.stage], time, event.duration_s)
        case BucketsGenerated():
            lane.end("bucket_generation", time, None)
        case CaptureSummary():
            lane.end(_summary_phase(lane, event), time, None)
        case SamplerWarmup() | DefragWarmup():
            _section(lane, event, time)
        case GraphsCaptured():
            lane.end("graph_capture", time, event.duration_s)
        case CompileFinished() if event.duration_s is not None:
            lane.end("compile", time, event.duration_s)
        case MemoryBudgetSet():
            lane.end("profile_run", time, None)
        case KVCacheAllocated():
            lane.end("kv_cache", time, None)
        case ServerReady():
            lane.end("server_start", time, None)
        case ConfigRecorded() | EngineInitialized() | Failure() | WarmupFinished():
            lane.touch(time)


def _section(lane: _Lane, event: SamplerWarmup | DefragWarmup, time: float) -> None:
    name = "sampler_warmup" if isinstance(event, SamplerWarmup) else "defrag_warmup"
    if event.status == "started":
        lane.begin(name, time)
    else:
        lane.end(name, time, event.duration_s)


def _step_name(event: WarmupStep | GraphCaptured) -> str:
    if isinstance(event, GraphCaptured):
        known = event.phase in ("prompt", "decode")
        return f"{event.phase}_graphs" if known else "graph_capture"
    return f"{event.phase}_{'graphs' if event.mode == 'graph' else 'warmup'}"


def _step(lane: _Lane, event: WarmupStep | GraphCaptured, time: float) -> None:
    """Steps of one phase are one span while they follow each other."""
    name = _step_name(event)
    if event.duration_s is None:
        if lane.doing != name:
            lane.begin(name, time)
        return
    end = time + event.duration_s
    last = lane.spans[-1] if lane.spans else None
    if last is not None and last.name == name and 0 <= time - last.end <= 0.05:
        if end > last.end:
            lane.spans[-1] = Span(name, last.start, end, MEASURED)
    else:
        lane.begin(name, time)
        lane.spans.append(Span(name, time, end, MEASURED))
    lane.doing = lane.since = None
    lane.last = end


def _summary_phase(lane: _Lane, event: CaptureSummary) -> str:
    """The phase that ends where a summary is printed: what was going on, if it fits."""
    for suffix in ("graphs", "warmup"):
        name = f"{event.phase}_{suffix}"
        if lane.doing == name or any(span.name == name for span in lane.spans[-3:]):
            return name
    return f"{event.phase}_warmup"


def _phase(span: Span, start: float) -> dict[str, Any]:
    return {
        "name": span.name,
        "start_s": round(span.start - start, 6),
        "duration_s": round(span.duration_s, 6),
    }


def _residual(
    wall: float | None, phases: list[Span], unlogged: float | None
) -> float | None:
    """How much `phases` and `unlogged_s` miss `wall_s` by; 0 when they add up."""
    if wall is None or unlogged is None:
        return None
    explained = sum(round(span.duration_s, 6) for span in phases)
    return round(wall - explained - unlogged, 6) + 0.0


def _gap(gap: GapSeen, start: float, open_s: float) -> dict[str, Any]:
    return {
        "start_s": round((gap.time or 0.0) - start, 6),
        "duration_s": round(gap.duration_s, 6),
        "unlogged_s": round(open_s, 6),
        "line": gap.line,
        "next_line": gap.next_line,
        "before": gap.before,
        "after": gap.after,
    }
