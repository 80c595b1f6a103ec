"""A start-up that is being read: what was found, and what must be remembered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from parsers.evidence import Evidence
from parsers.joining import Joiner
from parsers.ranks import RankTable
from parsers.repeats import KnownHead
from parsers.report import shown_text
from parsers.runs import RunSplitter
from parsers.tracker import RunTracker
from warmup_insights.model.events import (
    BucketMiss,
    BucketsGenerated,
    ConfigRecorded,
    EngineInitialized,
    Event,
    GapSeen,
    Note,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)

GAP_S = 2.0
"""Shorter steps between lines are not kept: stamps have a resolution of a second."""
MAX_GAPS = 2000
GAP_TEXT = 160


@dataclass
class ParsedRun:
    """One start-up found in a file."""

    ordinal: int
    first_line: int
    key: str
    """Text of the first record: names the run however the file grows."""


class OpenRun:
    """What the engine keeps of the run that is being read."""

    def __init__(self, run: ParsedRun) -> None:
        self.run = run
        self.ordinal = run.ordinal
        self.tracker = RunTracker()
        self.ranks = RankTable()
        self.evidence = Evidence()
        self.last_time: float | None = None
        self.last_line = 0
        self.last_text = ""
        self.gaps = 0
        self.lines = 0
        self.is_ready = False
        self.has_buckets = True
        """False from the engine's first line until its buckets exist."""

    def pass_line(self, time: float | None, line: int, text: str) -> GapSeen | None:
        """Count a line; the stretch of time before it, if nothing was printed in it."""
        self.lines += 1
        if time is None or self.is_ready:
            return None
        last, gap = self.last_time, None
        if last is not None and time - last >= GAP_S and self.gaps < MAX_GAPS:
            self.gaps += 1
            gap = GapSeen(
                time=last, line=self.last_line, duration_s=time - last,
                next_line=line, before=shown_text(self.last_text, GAP_TEXT),
                after=shown_text(text, GAP_TEXT),
            )  # fmt: skip
        if last is None or time >= last:
            self.last_time, self.last_line, self.last_text = time, line, text
        return gap

    def identified(self) -> Iterator[Event]:
        """Engine, device and number of ranks, now that all lines were read."""
        engine, device = self.evidence.engine(), self.evidence.device()
        ranks = self.ranks.count()
        if engine is not None or device is not None or ranks is not None:
            yield ConfigRecorded(engine=engine, device_kind=device, num_ranks=ranks)
        contradiction = self.evidence.contradiction()
        if contradiction is not None:
            yield Note(topic="contradiction", text=contradiction)

    def follow(self, event: Event) -> Event:
        """The event as it is meant at this place of the run."""
        match event:
            case ServerReady():
                self.is_ready = self.has_buckets = True
            case ConfigRecorded():
                self.ranks.learn_sizes(event.settings)
            case BucketMiss() if not self.has_buckets:
                # The profile run of the engine itself, with a shape of its own.
                text = f"{event.phase} {event.shape} ran before there were buckets"
                return Note(
                    topic="profile_run", text=text, values={"shape": event.shape},
                    time=event.time, rank=event.rank, line=event.line,
                )  # fmt: skip
            case BucketsGenerated() | EngineInitialized() | WarmupFinished():
                self.has_buckets = True
            case WarmupStep():
                self.has_buckets = True
        return event


class BeforeRun:
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


class Source:
    """What is kept for one container, pod or unit whose lines are in a file."""

    def __init__(self) -> None:
        self.open: OpenRun | None = None
        self.before = BeforeRun()
        self.splitter = RunSplitter()
        self.joiner = Joiner()
        self.heads: dict[str, KnownHead] = {}
