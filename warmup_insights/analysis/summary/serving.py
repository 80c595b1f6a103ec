"""What happened after the server was ready: misses, uses, sleeps, late compilations."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec.structs import replace

from warmup_insights.analysis.summary.ranks import MAX_ROWS, Routes, engines, rank_of
from warmup_insights.model.events import (
    Bucket,
    BucketMiss,
    BucketUsed,
    DefragRan,
    Event,
    GraphUsed,
    LazyCapture,
    RequestServed,
    RuntimeCompile,
    ServingFailure,
    ShutdownRequested,
    SleepModeChanged,
)
from warmup_insights.model.summary import (
    GraphUse,
    Miss,
    RuntimeCompileFacts,
    Serving,
    ServingEnd,
    SleepFacts,
    UsedShape,
)
from warmup_insights.units import isoformat

MAX_SHAPES = 100_000
"""Distinct shapes of use that are kept; steps of others are only counted."""
KINDS = frozenset(
    (BucketMiss, BucketUsed, DefragRan, GraphUsed, LazyCapture, RequestServed, RuntimeCompile,
     ServingFailure, ShutdownRequested, SleepModeChanged)
)  # fmt: skip
"""Events of serving: their time is none of the start-up's."""


_OF_SLEEP = ("freed_bytes", "used_bytes", "host_bytes", "duration_s")


@dataclass(slots=True)
class _Sleep:
    """One sleep, wake-up or discard: the allocator and the worker of each rank state
    sizes, the executor of each engine then how long it took."""

    facts: SleepFacts
    stated: set[tuple[str, int | None]] = field(default_factory=set)
    """What was stated, and by which rank."""

    def add(self, event: SleepModeChanged) -> bool:
        """Take what an event states; False if it is of another one."""
        names = [name for name in _OF_SLEEP if getattr(event, name) is not None]
        stated = {(name, event.rank) for name in names}
        if self.facts.action != event.action or stated & self.stated:
            return False
        self.stated |= stated
        known = {n: getattr(event, n) for n in names if getattr(self.facts, n) is None}
        if event.duration_s is not None:
            known["duration_s"] = max(event.duration_s, self.facts.duration_s or 0.0)
        self.facts = replace(
            self.facts,
            **known,
            tags=event.tags or self.facts.tags,
            time=self.facts.time if event.time is None else event.time,
        )
        return True


@dataclass(slots=True)
class _Miss:
    """A shape that no bucket covered."""

    fallback: Bucket | None = None
    counts: dict[int, int] = field(default_factory=dict)
    """How often, by rank."""


@dataclass(slots=True)
class _Use:
    """Steps of one shape in one bucket."""

    counts: dict[int, int] = field(default_factory=dict)
    """How often, by rank."""
    durations: dict[int, float] = field(default_factory=dict)
    """Seconds, by rank."""
    firsts: dict[int, float] = field(default_factory=dict)
    """Seconds of the first step, by rank."""
    executed: Bucket | None = None


class ServingFold:
    """Collects the events of serving; `result` gives the section."""

    def __init__(self) -> None:
        self._misses: dict[tuple[str, Bucket], _Miss] = {}
        self._fallbacks: set[tuple[str, Bucket]] = set()
        self._uses: dict[tuple[str, Bucket, Bucket], _Use] = {}
        self._num_uncounted = 0
        self._sleeps: list[_Sleep] = []
        self._compiles: dict[tuple[str, str, str | None], RuntimeCompileFacts] = {}
        self._until: float | None = None
        self._first: dict[str, RequestServed] = {}
        self._graphs: dict[tuple[int, int, str], int] = {}
        self.routes: Routes = {
            BucketMiss: self._missed,
            BucketUsed: self._used,
            SleepModeChanged: self._slept,
            RuntimeCompile: self._compiled,
            RequestServed: self._served,
            GraphUsed: self._ran,
        }

    def seen(self, event: Event) -> None:
        """Serving lasted at least until this event."""
        if event.time is not None and (self._until is None or event.time > self._until):
            self._until = event.time

    def _missed(self, event: BucketMiss) -> None:
        key = (event.phase, event.shape)
        if key in self._fallbacks:
            # The second warning about one step: its fallback bucket is new as well.
            return
        miss = self._misses.get(key)
        if miss is None:
            miss = self._misses[key] = _Miss()
        fallback = event.fallback
        if fallback is not None:
            self._fallbacks.add((event.phase, fallback))
            miss.fallback = fallback
        rank = rank_of(event)
        miss.counts[rank] = miss.counts.get(rank, 0) + event.count

    def _used(self, event: BucketUsed) -> None:
        key = (event.phase, event.shape, event.bucket)
        use = self._uses.get(key)
        if use is None:
            if len(self._uses) >= MAX_SHAPES:
                self._num_uncounted += event.count
                return
            use = self._uses[key] = _Use()
        rank = rank_of(event)
        use.counts[rank] = use.counts.get(rank, 0) + event.count
        if event.duration_s is not None:
            use.durations[rank] = use.durations.get(rank, 0.0) + event.duration_s
            if event.count == 1:
                use.firsts.setdefault(rank, event.duration_s)
        use.executed = event.executed or use.executed

    def _slept(self, event: SleepModeChanged) -> None:
        if self._sleeps and self._sleeps[-1].add(event):
            return
        if len(self._sleeps) < MAX_ROWS:
            found = _Sleep(SleepFacts(action=event.action))
            found.add(event)
            self._sleeps.append(found)

    def _compiled(self, event: RuntimeCompile) -> None:
        key = (event.what, event.kernel, event.detail)
        known = self._compiles.get(key)
        if known is None:
            if len(self._compiles) >= MAX_ROWS:
                return
            known = RuntimeCompileFacts(
                what=event.what, kernel=event.kernel, detail=event.detail,
                time=event.time, count=0,
            )  # fmt: skip
        times = [s for s in (known.duration_s, event.duration_s) if s is not None]
        self._compiles[key] = replace(
            known, count=known.count + 1, duration_s=max(times, default=None)
        )

    def _served(self, event: RequestServed) -> None:
        self._first.setdefault(event.what, event)

    def _ran(self, event: GraphUsed) -> None:
        key = (event.num_tokens, event.padded_tokens, event.mode)
        if key in self._graphs or len(self._graphs) < MAX_SHAPES:
            self._graphs[key] = self._graphs.get(key, 0) + event.count
        else:
            self._num_uncounted += event.count

    def _graph_uses(self) -> list[GraphUse]:
        ranked = sorted(self._graphs.items(), key=lambda item: (-item[1], item[0]))
        return [
            GraphUse(num_tokens=tokens, padded_tokens=padded, mode=mode, count=count)
            for (tokens, padded, mode), count in ranked
        ]

    def _first_s(self, what: str, ready_at: float | None) -> float | None:
        """Seconds from ready to the first of this kind."""
        event = self._first.get(what)
        return None if event is None else _after(ready_at, event.time)

    @property
    def begins_awake(self) -> bool:
        """Whether the first thing known of sleeping is that the engine woke up."""
        return bool(self._sleeps) and self._sleeps[0].facts.action == "wake_up"

    def misses(self, size: int | None = None) -> list[Miss]:
        """Distinct shapes that no bucket covered, with the lowest count of any rank of an
        engine of so many ranks."""
        return [
            Miss(phase=phase, shape=shape, fallback=miss.fallback,
                 count=sum(min(counts.values()) for counts in engines(miss.counts, size)))
            for (phase, shape), miss in self._misses.items()
        ]  # fmt: skip

    def _used_shapes(self, size: int | None) -> list[UsedShape]:
        """Shapes and the buckets they ran in, as the leading rank of each engine has it."""
        found = []
        for (phase, shape, bucket), use in self._uses.items():
            leaders = [min(counts) for counts in engines(use.counts, size)]
            times = [use.durations.get(rank) for rank in leaders]
            known = [seconds for seconds in times if seconds is not None]
            found.append(
                UsedShape(
                    phase=phase,
                    shape=shape,
                    bucket=bucket,
                    executed=use.executed,
                    count=sum(use.counts[rank] for rank in leaders),
                    duration_s=sum(known) if len(known) == len(times) else None,
                    first_s=use.firsts.get(min(leaders)),
                )
            )
        return found

    def result(
        self,
        ready_at: float | None,
        end: ServingEnd | None,
        ended_at: float | None,
        size: int | None = None,
    ) -> Serving | None:
        """The section; None when nothing is known of it. `size` is the number of ranks of
        each data parallel engine."""
        is_shown = self._uses or self._graphs or self._compiles or self._sleeps
        if ready_at is None and end is None and not is_shown:
            return None
        request = self._first.get("request")
        # A log whose steps are not in it has no event of what was served last.
        last = self._until if self._uses or self._graphs else None
        until = ended_at if ended_at is not None else last
        return Serving(
            ready_at=isoformat(ready_at),
            ended_at=isoformat(ended_at),
            duration_s=_after(ready_at, until),
            first_response_s=self._first_s("response", ready_at),
            first_tokens_s=self._first_s("tokens", ready_at),
            first_request_s=request.duration_s if request is not None else None,
            end=end,
            sleeps=[sleep.facts for sleep in self._sleeps],
            jit=[
                replace(row, after_ready_s=_after(ready_at, row.time))
                for row in self._compiles.values()
            ],
            uses=self._used_shapes(size),
            graph_uses=self._graph_uses(),
            num_uncounted=self._num_uncounted,
        )  # fmt: skip


def _after(ready_at: float | None, time: float | None) -> float | None:
    """Seconds from ready to a later time; None where one is unknown or it is earlier."""
    if ready_at is None or time is None or time < ready_at:
        return None
    return time - ready_at
