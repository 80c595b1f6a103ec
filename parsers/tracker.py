"""From signals to events within one run: steps, progress bars, two-line records.

vllm-gaudi and vllm-fork print the line of a bucket before it runs
(`hpu_model_runner.py`, `log_warmup`), so a step ends where the next thing begins.
The bars `Prompt warmup processing` and `Decode warmup processing` are redrawn for
every bucket and carry their own clock; their buckets run in reverse order of the list.
"""

from __future__ import annotations

import msgspec

from parsers.bench import BenchCollector
from parsers.failures import failure_of
from parsers.pending import PASSING, BarClock, PendingStep, RankState
from parsers.signals import (
    BarUpdate,
    BenchEdge,
    BenchLine,
    ConfigLine,
    ConfigSection,
    Elided,
    ExecutedShape,
    FailureLine,
    LazyCaptureFinished,
    LazyCaptureStarted,
    OmittedBucket,
    Origin,
    Signal,
    StepLine,
    ValidationMarked,
)
from warmup_insights.model.events import (
    Bucket,
    BucketsGenerated,
    BucketsOmitted,
    CaptureProgress,
    ConfigRecorded,
    Event,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    WarmupStep,
)

Rank = int | None

_STEP_BARS = {
    "Prompt warmup processing": "prompt",
    "Decode warmup processing": "decode",
    "Unified Attention warmup": "unified",
}
_LIST_LIMIT = 5000


class RunTracker:
    """Keeps what has to be remembered between the lines of one run."""

    def __init__(self) -> None:
        self._ranks: dict[Rank, RankState] = {}
        self._bench = BenchCollector()

    def take(self, made: Event | Signal, origin: Origin) -> list[Event]:
        """The events that are complete now that this was seen."""
        state = self.state_of(origin.rank)
        if isinstance(made, Event):
            return self._event(state, made, origin)
        return self._signal(state, made, origin)

    def state_of(self, rank: Rank) -> RankState:
        """What is pending for a rank."""
        state = self._ranks.get(rank)
        if state is None:
            state = self._ranks[rank] = RankState()
        return state

    def close(self) -> list[Event]:
        """What is left when the run's lines are over."""
        events: list[Event] = []
        for rank, state in self._ranks.items():
            origin = Origin(None, rank, 0)
            events += _end_step(state, None, is_finished=False)
            events += self._flush(state, origin)
            events += _captures_done(state)
        events += self._bench.close()
        return events

    def _event(self, state: RankState, event: Event, origin: Origin) -> list[Event]:
        if type(event) in PASSING:
            if state.is_idle:
                return [event]
            return [*self._flush(state, origin), *_end_step(state, origin), event]
        events = self._flush(state, origin)
        if not isinstance(event, PhaseMarked) or event.edge == "end":
            events += _end_step(state, origin)
        if isinstance(event, MemoryBudgetSet) and event.kv_cache_bytes:
            state.cache_bytes.append(event.kv_cache_bytes)
        elif isinstance(event, KVCacheAllocated) and event.allocated_bytes:
            state.cache_bytes.append(event.allocated_bytes)
        elif isinstance(event, MemoryMeasured) and event.stage == "kv_cache":
            state.cache_bytes += [event.delta_bytes] if event.delta_bytes else []
        elif isinstance(event, BucketsGenerated):
            state.generated[event.phase] = event.buckets
            state.clocks.clear()
        events.append(event)
        return events

    def _signal(  # noqa: C901, PLR0912 - a table: one case for each kind
        self, state: RankState, made: Signal, origin: Origin
    ) -> list[Event]:
        if type(made) is StepLine:
            return self.step(state, made, origin)
        match made:
            case BarUpdate():
                return self._bar(state, made, origin)
            case ExecutedShape():
                step = state.step
                if step is not None and step.executed is None:
                    step.executed = made.shape
            case LazyCaptureStarted():
                state.lazy_tokens, state.lazy_origin = made, origin
            case LazyCaptureFinished():
                return _lazy_done(state, made, origin)
            case Elided():
                ended = [e for s in self._ranks.values() for e in _end_step(s, None)]
                text = "lines were cut out of this log"
                return [*ended, Note(topic="elided", text=text, line=origin.line)]
            case ConfigSection():
                state.section = made.name
            case ConfigLine():
                if state.section is not None or not made.needs_section:
                    state.settings[made.key] = made.value
            case OmittedBucket():
                state.omitted.append(made)
            case ValidationMarked():
                state.is_validating = made.running
                edge = "start" if made.running else "end"
                marked = PhaseMarked(
                    name="validation_warmup", edge=edge,
                    time=origin.time, rank=origin.rank, line=origin.line,
                )  # fmt: skip
                return [*_end_step(state, origin), marked]
            case FailureLine():
                ended = _end_step(state, origin, is_finished=False)
                return [*ended, failure_of(made, origin)]
            case BenchEdge() | BenchLine():
                return self._bench.take(made, origin.line)
        return []

    def step(self, state: RankState, made: StepLine, origin: Origin) -> list[Event]:
        """The events that are complete now that a rank printed this line."""
        events = _end_step(state, origin, following=made)
        if state.settings or state.omitted:
            events = self._flush(state, origin) + events
        if state.clocks and (clock := state.clocks.get(made.phase)) is not None:
            clock.has_lines = True
        if not state.is_validating:
            state.step = PendingStep(made, origin)
        return events

    def _bar(self, state: RankState, made: BarUpdate, origin: Origin) -> list[Event]:
        phase = _STEP_BARS.get(made.name)
        if origin.rank is None and self._is_redraw(made, phase):
            return []
        if phase is not None:
            return _warmup_bar(state, phase, made, origin)
        if made.name.startswith("Capturing"):
            key = f"{made.name}/{made.total}"
            state.captures[key] = (made, origin)
        return []

    def _is_redraw(self, made: BarUpdate, phase: str | None) -> bool:
        """A bar without an owner, where others draw it with their name."""
        others = [state for rank, state in self._ranks.items() if rank is not None]
        if phase is not None:
            return any(phase in state.clocks for state in others)
        return any(
            key.startswith(f"{made.name}/") for s in others for key in s.captures
        )

    def _flush(self, state: RankState, origin: Origin) -> list[Event]:
        """Close a configuration dump or a list of omitted buckets."""
        events: list[Event] = []
        if state.settings:
            name = state.settings.get("hw")
            events.append(
                ConfigRecorded(
                    settings=state.settings,
                    time=origin.time,
                    rank=origin.rank,
                    line=origin.line,
                    device_name=name or None,
                )
            )
            state.settings, state.section = {}, None
        if state.omitted:
            events += _omitted(state, origin)
        return events


def _warmup_bar(
    state: RankState, phase: str, made: BarUpdate, origin: Origin
) -> list[Event]:
    clock = state.clocks.get(phase)
    if clock is None or clock.total != made.total or made.done < clock.done:
        clock = state.clocks[phase] = BarClock(total=made.total)
        clock.has_lines = _steps_of(state, phase)
    if made.done <= clock.done:
        return []
    took = made.elapsed_s - clock.elapsed_s if made.done == clock.done + 1 else None
    first, clock.done, clock.elapsed_s = clock.done + 1, made.done, made.elapsed_s
    step = state.step
    if step is not None and step.signal.phase == phase:
        if step.signal.index == made.done:
            step.bar_s = took
        return []
    if clock.has_lines or state.is_validating:
        return []
    buckets = state.generated.get(phase, [])
    last = min(made.done, first + _LIST_LIMIT)
    return [
        WarmupStep(
            phase=phase, bucket=_reversed_bucket(buckets, index, made.total),
            index=index, total=made.total, duration_s=took if first == last else None,
            time=origin.time if first == last else None,
            rank=origin.rank, line=origin.line,
        )
        for index in range(first, last + 1)
    ]  # fmt: skip


def _steps_of(state: RankState, phase: str) -> bool:
    return state.step is not None and state.step.signal.phase == phase


def _reversed_bucket(buckets: list[Bucket], index: int, total: int) -> Bucket | None:
    """The bucket at a place of the bar; None when the list does not have `total`."""
    return buckets[-index] if len(buckets) == total and index <= total else None


def _end_step(
    state: RankState,
    end: Origin | None,
    *,
    following: StepLine | None = None,
    is_finished: bool = True,
) -> list[Event]:
    """The pending step as an event, with what is known of its end."""
    step = state.step
    if step is None:
        return []
    state.step = None
    made, origin = step.signal, step.origin
    is_next = _is_next(made, following)
    duration = step.bar_s
    if duration is None and is_next and is_finished and end is not None:
        duration = _between(origin.time, end.time)
    free_after = following.free_bytes if following and is_next else None
    return [
        WarmupStep(
            phase=made.phase, mode=made.mode, bucket=made.bucket, index=made.index,
            total=made.total, duration_s=duration, free_before_bytes=made.free_bytes,
            free_after_bytes=free_after,
            memory_bytes=_memory(state, made.free_bytes, free_after),
            is_finished=is_finished, executed=step.executed,
            time=origin.time, rank=origin.rank, line=origin.line,
        )
    ]  # fmt: skip


def _is_next(made: StepLine, following: StepLine | None) -> bool:
    """Whether nothing can lie between two step lines.

    The index of graph captures has holes where a candidate was skipped.
    """
    if following is not None and following.index == made.index + 1:
        return True
    if following is None or following.phase != made.phase:
        return made.index == made.total or made.mode == "graph"
    return made.mode == following.mode == "graph"


def _between(start: float | None, end: float | None) -> float | None:
    if start is None or end is None or end < start:
        return None
    return end - start


def _memory(state: RankState, before: int | None, after: int | None) -> int | None:
    """Difference of free memory; None for a first drop that is the KV cache itself."""
    if before is None or after is None:
        return None
    taken = before - after
    if not state.cache_booked and taken > 0:
        state.cache_booked = True
        if any(abs(taken - size) <= 0.005 * size for size in state.cache_bytes):
            return None
    return taken


def _lazy_done(
    state: RankState, made: LazyCaptureFinished, origin: Origin
) -> list[Event]:
    started, first = state.lazy_tokens, state.lazy_origin or origin
    state.lazy_tokens = None
    if started is None:
        return []
    return [
        LazyCapture(
            num_tokens=started.num_tokens, duration_s=made.duration_s,
            memory_bytes=made.memory_bytes,
            time=first.time, rank=origin.rank, line=first.line,
        )
    ]  # fmt: skip


def _captures_done(state: RankState) -> list[Event]:
    """The last state of every capture bar."""
    return [
        CaptureProgress(
            mode=_capture_mode(bar.name), captured=bar.done, total=bar.total,
            duration_s=bar.elapsed_s,
            time=origin.time, rank=origin.rank, line=origin.line,
        )
        for bar, origin in state.captures.values()
    ]  # fmt: skip


def _capture_mode(name: str) -> str:
    inside = name.partition("(")[2].rstrip(")")
    if name.startswith(("Capturing prefill", "Capturing decode")):
        return f"{name.split()[1]}, {inside}" if inside else name.split()[1]
    return inside or "graphs"


def _omitted(state: RankState, origin: Origin) -> list[Event]:
    by_reason: dict[str, list[Bucket]] = {}
    for item in state.omitted:
        by_reason.setdefault(item.condition, []).append(item.bucket)
    state.omitted = []
    return [
        BucketsOmitted(
            phase="decode" if buckets[0][1:2] == (1,) else "prompt",
            count=len(buckets), reason=reason, buckets=buckets,
            time=origin.time, rank=origin.rank, line=origin.line,
        )
        for reason, buckets in by_reason.items()
    ]  # fmt: skip


_replace = msgspec.structs.replace


def stamped(event: Event, origin: Origin) -> Event:
    """The event with its origin filled in."""
    return _replace(event, time=origin.time, rank=origin.rank, line=origin.line)
