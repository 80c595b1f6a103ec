"""From signals to events within one run: steps, progress bars, two-line records.

`steps.py`, `bars.py` and `failures.py` make the events of each.
"""

from __future__ import annotations

import msgspec

from parsers.bars import (
    STEP_BARS,
    bar_phase,
    capture_bar,
    captures_done,
    stage_bar,
    warmup_bar,
)
from parsers.bench import BenchCollector
from parsers.failures import Failures
from parsers.pending import PendingStep, RankState
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
    ModelNamed,
    OmittedBucket,
    Origin,
    PrecompileFinished,
    PrecompileStarted,
    ShutdownLine,
    Signal,
    StepLine,
    ValidationMarked,
)
from parsers.steps import end_kernel_warmup, end_step, follow_stage
from warmup_insights.model.events import (
    Bucket,
    BucketMiss,
    BucketsGenerated,
    BucketsOmitted,
    CompileFinished,
    ConfigRecorded,
    DefragRan,
    EngineInitialized,
    Event,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    ServerReady,
)

Rank = int | None


class RunTracker:
    """Keeps what has to be remembered between the lines of one run."""

    def __init__(self) -> None:
        self._ranks: dict[Rank, RankState] = {}
        self._failures = Failures()
        self.is_server = False
        """Whether an API server starts: the engine alone is not all of it."""
        self._has_model = False
        self._bench = BenchCollector()

    def take(self, made: Event | Signal, origin: Origin) -> list[Event]:
        """The events that are complete now that this was seen."""
        state = self._ranks.get(origin.rank)
        if state is None:
            state = self._ranks[origin.rank] = RankState()
        if isinstance(made, Event):
            return self._event(state, made, origin)
        return self._signal(state, made, origin)

    @property
    def has_ended(self) -> bool:
        """Whether the engine failed or was stopped: what starts now is another."""
        return self._failures.has_ended

    def close(self) -> list[Event]:
        """What is left when the run's lines are over."""
        events: list[Event] = []
        self._give_bars_to_first_rank()
        for rank, state in self._ranks.items():
            origin = Origin(None, rank, 0)
            events += end_step(state, None, is_finished=False)
            events += self._flush(state, origin)
            events += captures_done(state)
        events += self._bench.close()
        events += self._failures.close()
        return events

    def _give_bars_to_first_rank(self) -> None:
        """A capture bar without a name is the first rank's: the others draw none."""
        nameless, ranked = (
            self._ranks.get(None),
            [r for r in self._ranks if r is not None],
        )
        if nameless is None or not nameless.captures or not ranked:
            return
        first = self._ranks[min(ranked)]
        if not any(
            state.captures for state in self._ranks.values() if state is not nameless
        ):
            first.captures, nameless.captures = nameless.captures, {}
            first.capture_states = nameless.capture_states
            for key, (bar, origin) in first.captures.items():
                origin = Origin(origin.time, min(ranked), origin.line)
                first.captures[key] = (bar, origin)

    def _event(self, state: RankState, event: Event, origin: Origin) -> list[Event]:
        if isinstance(event, (BucketMiss, DefragRan, Note)):
            # Events of a server at work: they mean nothing to what comes after them.
            return [*self._flush(state, origin), *end_step(state, origin), event]
        events = [*self._flush(state, origin), *self._progress(state, event)]
        if not isinstance(event, PhaseMarked) or event.edge == "end":
            events += end_step(state, origin)
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

    def _progress(self, state: RankState, event: Event) -> list[Event]:
        """Keep how far the start-up has come; the ends that follow from it."""
        follow_stage(state, event)
        self._failures.went_on()
        match event:
            case ConfigRecorded() if event.model is not None:
                self._has_model = True
            case ServerReady():
                return self._failures.ready()
            case EngineInitialized():
                ends = [
                    end
                    for rank, each in self._ranks.items()
                    for end in end_kernel_warmup(each, event, rank)
                ]
                return ends if self.is_server else [*ends, *self._failures.ready()]
        return end_kernel_warmup(state, event, event.rank)

    def _signal(  # noqa: C901, PLR0912 - a table: one case for each kind
        self, state: RankState, made: Signal, origin: Origin
    ) -> list[Event]:
        match made:
            case StepLine():
                return self._step(state, made, origin)
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
                ended = [e for s in self._ranks.values() for e in end_step(s, None)]
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
                return [*end_step(state, origin), marked]
            case FailureLine():
                phase = bar_phase(state) or state.stage
                self._failures.take(made, origin, phase)
                return end_step(state, origin, is_finished=False)
            case ModelNamed():
                if not self._has_model:
                    self._has_model = True
                    named = ConfigRecorded(model=made.model)
                    return [stamped(named, origin)]
            case PrecompileStarted():
                state.precompile = made
            case PrecompileFinished():
                return [_precompiled(state, made, origin)]
            case ShutdownLine():
                return self._failures.stop(made, origin)
            case BenchEdge() | BenchLine():
                return self._bench.take(made, origin.line)
        return []

    def _step(self, state: RankState, made: StepLine, origin: Origin) -> list[Event]:
        """The events that are complete now that a rank printed this line."""
        events = end_step(state, origin, following=made)
        events = self._flush(state, origin) + events
        if state.clocks and (clock := state.clocks.get(made.phase)) is not None:
            clock.has_lines = True
        if not state.is_validating:
            state.step = PendingStep(made, origin)
        return events

    def _bar(self, state: RankState, made: BarUpdate, origin: Origin) -> list[Event]:
        phase = STEP_BARS.get(made.name)
        if origin.rank is None and self._is_redraw(made, phase):
            return []
        if phase is not None:
            return warmup_bar(state, phase, made, origin)
        if made.name.startswith("Capturing"):
            capture_bar(state, made, origin)
            return []
        return stage_bar(state, made, origin)

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


def _precompiled(state: RankState, made: PrecompileFinished, origin: Origin) -> Event:
    started, state.precompile = state.precompile, None
    return CompileFinished(
        what=started.graph if started is not None else "graph",
        detail=started.shape if started is not None else None,
        duration_s=made.duration_s,
        time=origin.time, rank=origin.rank, line=origin.line,
    )  # fmt: skip


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
