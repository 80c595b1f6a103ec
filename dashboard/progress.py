"""How far a warm-up is, how long it will take, and whether it is still alive; pure.

Two ways to tell what is left. If a run of the same model finished before, this one will
take what that one took from the same bucket on, stretched by how much slower it has been
so far. Else only the steps of the current stage are counted, at this run's pace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from warmup_insights.model.events import (
    AnyEvent,
    BucketsGenerated,
    GapSeen,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)

RECENT = 12
"""Steps whose mean is the pace."""
SHORTEST_ALARM_S = 10.0
"""Silence below this is never worth an alarm."""

KINDS = (
    "run_started", "config_recorded", "phase_marked", "memory_measured",
    "memory_budget_set", "kv_cache_allocated", "buckets_generated", "warmup_step",
    "graph_captured", "sampler_step", "defrag_step", "capture_summary",
    "warmup_finished", "server_ready", "failure", "run_finished",
)  # fmt: skip
"""Kinds of events that tell how far a run is."""

Stage = tuple[str, str | None]


@dataclass(frozen=True)
class Mark:
    """A step began: its stage, its number, when."""

    stage: Stage
    index: int
    time: float


@dataclass(frozen=True)
class Journey:
    """What the events of a run say about its progress. Times are since the epoch."""

    started_at: float | None
    last_at: float | None
    finished_at: float | None
    doing: str
    index: int | None
    total: int | None
    marks: tuple[Mark, ...]
    longest_silence_s: float
    memory: tuple[tuple[float, int], ...]
    total_bytes: int | None
    buckets: dict[str, int]


@dataclass(frozen=True)
class Remaining:
    """What is left, in seconds, and what that rests on: `earlier run` or `own pace`."""

    seconds: float
    basis: str


def journey(events: Iterable[AnyEvent]) -> Journey:
    """The progress of a run from its events; the lowest rank speaks."""
    reader = _Reader()
    for event in events:
        reader.add(event)
    return reader.result()


class _Reader:
    def __init__(self) -> None:
        self.times: list[float] = []
        self.finished_at: float | None = None
        self.doing = "starting"
        self.step: WarmupStep | None = None
        self.marks: list[Mark] = []
        self.silence = 0.0
        self.memory: list[tuple[float, int]] = []
        self.total_bytes: int | None = None
        self.buckets: dict[str, int] = {}
        self.first: float | None = None
        self.last: float | None = None

    def add(self, event: AnyEvent) -> None:
        if event.rank not in (None, 0):
            return
        if event.time is not None and not isinstance(event, GapSeen):
            self._heard(event.time)
        match event:
            case WarmupStep():
                self._step(event)
            case BucketsGenerated():
                self.buckets[event.phase] = event.count
            case PhaseMarked(edge="start"):
                self.doing, self.step = event.name.replace("_", " "), None
            case MemoryMeasured() | MemoryBudgetSet():
                self._measured(event)
            case WarmupFinished() | ServerReady():
                self.finished_at = event.time or self.last
                self.doing = "ready" if isinstance(event, ServerReady) else "warmed up"

    def _heard(self, time: float) -> None:
        if self.last is not None:
            self.silence = max(self.silence, time - self.last)
        self.first = time if self.first is None else self.first
        self.last = time if self.last is None else max(self.last, time)

    def _step(self, event: WarmupStep) -> None:
        self.step = event
        self.doing = f"{event.phase} {'graphs' if event.mode == 'graph' else 'warm-up'}"
        if event.time is not None and event.index is not None:
            self.marks.append(Mark((event.phase, event.mode), event.index, event.time))
            if event.duration_s is not None:
                self._heard(event.time + event.duration_s)
        free = event.free_after_bytes
        if free is None:
            free = event.free_before_bytes
        if free is not None and event.time is not None and self.total_bytes:
            self.memory.append((event.time, self.total_bytes - free))

    def _measured(self, event: MemoryMeasured | MemoryBudgetSet) -> None:
        self.total_bytes = event.total_bytes or self.total_bytes
        if not isinstance(event, MemoryMeasured) or event.time is None:
            return
        if event.used_bytes is not None:
            self.memory.append((event.time, event.used_bytes))

    def result(self) -> Journey:
        step = self.step
        return Journey(
            started_at=self.first,
            last_at=self.last,
            finished_at=self.finished_at,
            doing=self.doing,
            index=None if step is None else step.index,
            total=None if step is None else step.total,
            marks=tuple(self.marks),
            longest_silence_s=self.silence,
            memory=tuple(self.memory),
            total_bytes=self.total_bytes,
            buckets=self.buckets,
        )


def remaining(now: Journey, earlier: Journey | None) -> Remaining | None:
    """What is left of a warm-up; None when nothing can be said."""
    if now.finished_at is not None or not now.marks:
        return None
    if earlier is not None:
        found = _like_earlier(now, earlier)
        if found is not None:
            return found
    return _at_own_pace(now)


def _like_earlier(now: Journey, earlier: Journey) -> Remaining | None:
    """What the earlier run took from this step on, stretched by the pace so far."""
    here = now.marks[-1]
    same = [m for m in earlier.marks if (m.stage, m.index) == (here.stage, here.index)]
    if not same or earlier.finished_at is None:
        return None
    left = earlier.finished_at - same[-1].time
    if left < 0:
        return None
    spent, took = here.time - now.marks[0].time, same[-1].time - earlier.marks[0].time
    stretch = spent / took if spent > 0 and took > 0 else 1.0
    since = max(0.0, (now.last_at or here.time) - here.time)
    return Remaining(max(0.0, left * stretch - since), "earlier run")


def _at_own_pace(now: Journey) -> Remaining | None:
    here = now.marks[-1]
    if now.total is None or now.index is None:
        return None
    own = [mark for mark in now.marks if mark.stage == here.stage][-RECENT:]
    if len(own) < 2 or own[-1].index == own[0].index:
        return None
    pace = (own[-1].time - own[0].time) / abs(own[-1].index - own[0].index)
    return Remaining(max(0.0, pace * (now.total - now.index)), "own pace")


def silence_limit(now: Journey) -> float:
    """How long a silence may last before it is odd: the longest so far, or 10 s."""
    return max(SHORTEST_ALARM_S, now.longest_silence_s)


def percent_done(now: Journey, stages: Sequence[str] = ("prompt", "decode")) -> float:
    """Share of the current stage, 0 to 1; of the warm-up where it is over."""
    if now.finished_at is not None:
        return 1.0
    if not now.index or not now.total:
        return 0.0
    return min(1.0, now.index / now.total)
