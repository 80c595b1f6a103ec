"""From signals to events within one run: steps, progress bars, two-line records.

`steps.py` and `failures.py` make the events of each.
"""

from __future__ import annotations

import re
from statistics import fmean

import msgspec

from parsers.engine.convert import CUT_WORD
from parsers.engine.failures import Failures, names_engine, stage_of
from parsers.engine.serving import BenchCollector, Usage
from parsers.engine.signals import (
    AT_WORK,
    EXECUTING,
    IN_REQUEST,
    ArtifactFrame,
    AssertionSeen,
    BarUpdate,
    BenchEdge,
    BenchLine,
    CacheFactor,
    CallFailed,
    ConfigLine,
    ConfigSection,
    CrashDumped,
    CrashFrame,
    DevicesSeen,
    Elided,
    ErrorFollowed,
    ErrorIgnored,
    ExecutedShape,
    FailureLine,
    FrameSeen,
    HbmLoaded,
    HbmSums,
    LazyCaptureFinished,
    LazyCaptureStarted,
    MixedPrompt,
    ModelNamed,
    OmittedBucket,
    Origin,
    PackageFrame,
    PaddingListed,
    PaddingsBegun,
    PrecompileFinished,
    PrecompileStarted,
    RequestLine,
    ResponseLine,
    RoutesListed,
    ShapeBegun,
    ShutdownLine,
    Signal,
    StatisticsLine,
    StepLine,
    ValidationMarked,
    WeightsSought,
    is_at_work,
    stamped,
)
from parsers.engine.steps import (
    STEP_BARS,
    PendingStep,
    RankState,
    bar_phase,
    capture_bar,
    captures_done,
    drawn_by,
    end_kernel_warmup,
    end_step,
    finished_step,
    follow_stage,
    give_bars_to_first_rank,
    has_step_line,
    is_redraw,
    open_stage,
    profiled_graphs,
    stage_bar,
    untouched_bars,
    warmup_bar,
)
from warmup_insights.model.events import (
    SERVER_START,
    Bucket,
    BucketMiss,
    BucketsGenerated,
    BucketsOmitted,
    CompileFinished,
    ConfigRecorded,
    DefragRan,
    EngineInitialized,
    Event,
    Failure,
    GraphsCaptured,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    RuntimeCompile,
    ServerReady,
    ServingFailure,
    SleepModeChanged,
    WarmupFinished,
)

Rank = int | None
MAX_FACTORS = 2000
DOWNLOADED_S = 2.0
"""Looking for files that are there takes less."""
_WITH_CACHE = (KVCacheAllocated, GraphsCaptured, WarmupFinished)
_OF_SERVING = (BucketMiss, DefragRan, Note)
_DIVISIONS = (
    MemoryBudgetSet, KVCacheAllocated, EngineInitialized, ServerReady, WarmupFinished,
)  # fmt: skip


_TITLE = re.compile(r": \d{1,6} validation errors? for \S{1,200}$")
"""What pydantic prints above the error itself."""


class RunTracker:
    """Keeps what has to be remembered between the lines of one run."""

    def __init__(self) -> None:
        self._ranks: dict[Rank, RankState] = {}
        self.failures = Failures()
        self.is_server = False
        """Whether an API server starts: the engine alone is not all of it."""
        self._has_model = self._has_cache = False
        self.is_made = False
        """Whether the engine is there, as far as its lines show."""
        self._sets_blocks = False
        """Whether the engine itself overrides the number of KV blocks, to fill its share."""
        self._is_whole = True
        """No lines were cut out of the start, and no request is answered in it."""
        self._has_routes = False
        self._timed: float | None = None
        """Time of the last line that has one."""
        self._routes_at: float | None = None
        """When the routes were listed: the next line, of uvicorn, has no timestamp."""
        self._bench = BenchCollector()
        self.usage = Usage()

    def take(self, made: Event | Signal, origin: Origin) -> list[Event]:
        """The events that are complete now that this was seen."""
        state = self._ranks.get(origin.rank)
        if state is None:
            state = self._ranks[origin.rank] = RankState()
        if origin.time is not None:
            self._timed = origin.time
        if not isinstance(made, BarUpdate):
            state.is_drawing = False
        if isinstance(made, Event):
            # What stands between is of no traceback: its frames were of one that is over.
            state.frame = state.module = state.open_traceback = None
            return self._event(state, made, origin)
        return self._signal(state, made, origin)

    @property
    def waits_for_engine(self) -> bool:
        """Whether an API server started that listed no routes yet."""
        return self.is_server and not self._has_routes

    def _at_work(self, state: RankState) -> RankState:
        """What was going on in the process of an error: an engine without workers prints
        no rank but before the lines of a traceback, where torch does (`[rank0]:`)."""
        alone = self._ranks.get(None)
        is_idle = state.step is None and state.stage is None and not state.clocks
        is_idle = is_idle and not state.has_events
        is_busy = alone is not None and (alone.step or bar_phase(alone))
        return alone if alone is not None and is_idle and is_busy else state

    @property
    def _may_serve(self) -> bool:
        """Whether a KV cache or graphs are there, as far as the lines show."""
        return self._has_cache or any(each.captured for each in self._ranks.values())

    def _is_in_start(self) -> bool:
        """Whether an engine of which no line states that it is ready is none yet: a server
        has such a line, another program only until it has a KV cache."""
        begun = self.is_server or (self._has_model and not self._may_serve)
        return begun and self._is_whole

    @property
    def ending(self) -> Failure | ServingFailure | None:
        """The failure, as far as it is printed; None while nothing failed for good."""
        found = self.failures.close() if self.failures.has_ended else []
        failed = (e for e in found if isinstance(e, Failure | ServingFailure))
        return next(failed, None)

    def close(self) -> list[Event]:
        """What is left when the run's lines are over."""
        events: list[Event] = []
        give_bars_to_first_rank(self._ranks)
        for rank, state in self._ranks.items():
            origin = Origin(None, rank, 0)
            events += self._captured(state)
            events += end_step(state, None, is_finished=False)
            events += self._flush(state, origin)
            events += [*captures_done(state), *open_stage(state)]
            events += untouched_bars(state, rank)
            if state.open_traceback is not None and not self.failures.is_known:
                # The last line of it, which holds the error, is not there.
                at, phase, text = state.open_traceback
                cut = FailureLine(text, is_heading=True)
                self.failures.take(cut, at, phase, is_of_start=True)
        events += self._bench.close()
        events += self.usage.close()
        events += self.failures.close()
        return events

    def _event(self, state: RankState, event: Event, origin: Origin) -> list[Event]:
        if isinstance(event, _OF_SERVING):
            # They mean nothing to what comes after them.
            return [*self._flush(state, origin), *end_step(state, origin), event]
        meant = self._as_meant(state, event)
        if meant is None:
            return []
        event, state.has_events = meant, True
        if isinstance(event, GraphsCaptured) and not state.is_divided:
            before = self._captured(state)
            state.captured = event
            return before
        is_undated = isinstance(event, ServerReady) and event.time is None
        if is_undated and not self.failures.is_ready:
            event = msgspec.structs.replace(event, time=self._routes_at)
        events = self._division(state, event) if isinstance(event, _DIVISIONS) else []
        events += [*self._flush(state, origin), *self._progress(state, event)]
        if not isinstance(event, PhaseMarked) or event.edge == "end":
            events += end_step(state, origin)
        self._has_cache = self._has_cache or isinstance(event, _WITH_CACHE)
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

    def _as_meant(self, state: RankState, event: Event) -> Event | None:
        """The event as it is meant here; None where it is none: a CPU's warm-up has no
        profiling run, and a number of KV blocks that the engine itself found is no setting.
        """
        if isinstance(event, PhaseMarked):
            is_start = (event.name, event.edge) == ("profile_run", "start")
            return None if is_start and state.is_warming_model else event
        if isinstance(event, ConfigRecorded):
            self._sets_blocks |= "mamba_num_blocks" in event.settings
            if self._sets_blocks and "num_gpu_blocks_override" in event.settings:
                rest = dict(event.settings)
                del rest["num_gpu_blocks_override"]
                return msgspec.structs.replace(event, settings=rest)
        return event

    def _division(self, state: RankState, event: Event) -> list[Event]:
        """What a capture was of which it was open whether it is one of the profiling run:
        that is over where the memory for the KV cache is known, or the cache itself."""
        everyone = list(self._ranks.values())
        match event:
            case MemoryBudgetSet(suggested_kv_cache_bytes=int()):
                # The balance at the end of the warm-up (vLLM `v1/worker/gpu_worker.py
                # compile_or_warm_up_model`), which captures what is used.
                return self._captured(state)
            case MemoryBudgetSet() if event.kv_cache_bytes:
                profiled = profiled_graphs(state)
            case KVCacheAllocated() if event.rank is None:
                profiled = [end for each in everyone for end in profiled_graphs(each)]
            case KVCacheAllocated():
                profiled = profiled_graphs(state)
            case MemoryBudgetSet():
                return []
            case _:
                return [made for each in everyone for made in self._captured(each)]
        if profiled and (nameless := self._ranks.get(None)) is not None:
            nameless.captures.clear()
        return profiled

    def _captured(self, state: RankState) -> list[Event]:
        """The capture that a rank ended, where no line shows that it was for the profile."""
        done, state.captured = state.captured, None
        if done is None:
            return []
        state.is_divided = True
        return self._event(state, done, Origin(done.time, done.rank, done.line or 0))

    def _progress(self, state: RankState, event: Event) -> list[Event]:
        """Keep how far the start-up has come; the ends that follow from it."""
        follow_stage(state, event)
        self.failures.went_on()
        match event:
            case ConfigRecorded() if event.model is not None:
                self._has_model = True
            case PhaseMarked(edge="start") if event.name == SERVER_START:
                self.failures.starting_line = event.line
            case RuntimeCompile() | SleepModeChanged():
                self.failures.was_at_work = True
            case ServerReady():
                return self.failures.ready(event.line)
            case GraphsCaptured():
                self.is_made = self.is_made or self._has_cache
            case EngineInitialized():
                self.is_made = True
                ends = [
                    end
                    for rank, each in self._ranks.items()
                    for end in end_kernel_warmup(each, event, rank)
                ]
                if self.is_server:
                    return ends
                return [*ends, *self.failures.ready()]
        return end_kernel_warmup(state, event, event.rank)

    def _signal(  # noqa: C901, PLR0912, PLR0915 - a table: one case for each kind
        self, state: RankState, made: Signal, origin: Origin
    ) -> list[Event]:
        match made:
            case StepLine():
                return self._step(state, made, origin)
            case MixedPrompt():
                state.mixed_prompt = made.bucket
                return end_step(state, origin)
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
                self._is_whole = False
                note = Note(topic="elided", text=made.text, line=origin.line)
                return [*ended, note]
            case ConfigSection():
                state.section = made.name
            case ConfigLine(value=value) if value != CUT_WORD:
                if state.section is not None or not made.needs_section:
                    state.settings[made.key] = value
            case CacheFactor():
                return _cache_factor(state, made, origin)
            case ArtifactFrame():
                self.failures.artifact = self.failures.artifact or made.path
            case CrashDumped():
                state.dump_line = origin.line if made.is_current else None
                self.failures.announce_traceback(state.dump_line)
            case CrashFrame():
                if state.dump_line is not None:
                    self.failures.crashed_in(made, origin, state.dump_line)
            case PackageFrame():
                state.module = (origin.line, made.path)
            case OmittedBucket():
                state.omitted.append(made)
            case ValidationMarked():
                state.is_validating = made.running
                edge = "start" if made.running else "end"
                marked = PhaseMarked(name="validation_warmup", edge=edge)
                return [*end_step(state, origin), stamped(marked, origin)]
            case WeightsSought():
                return self._weights_sought(state, made, origin)
            case ErrorFollowed():
                self.failures.follow_last(origin)
            case CallFailed():
                self.failures.answered(origin)
            case ErrorIgnored():
                state.ignored_line = origin.line
            case FailureLine() if made.is_bare and state.is_ignored(origin.line):
                state.ignored_line = None
            case FailureLine() if made.message.startswith("raise "):
                return []  # the source line of a frame
            case AssertionSeen():
                state.asserted = (origin.line, made.text)
            case FailureLine():
                state.open_traceback = None
                made = _with_source(made, state, origin)
                module = _module_above(state, origin)
                is_of_engine = state.frame is not None or names_engine(made.message)
                is_of_engine = is_of_engine or (module or "").startswith("vllm")
                if made.is_elsewhere and not is_of_engine:
                    return []
                at = self._at_work(state)
                # A bar that is drawn meanwhile is that of another rank.
                is_before = at.stage in ("sampler_warmup", "defrag_warmup")
                phase = at.stage if is_before else bar_phase(at) or at.stage
                if at.step is not None:
                    phase = at.step.signal.phase
                is_of_start = state.frame not in (None, AT_WORK)
                self.failures.take(
                    made, origin, stage_of(state.frame, phase), is_of_start=is_of_start,
                    module=module,
                )  # fmt: skip
                state.module = None
                if _TITLE.search(made.message) is None:
                    state.frame = None
                return end_step(at, origin, is_finished=False)
            case ModelNamed(model=model) if model != CUT_WORD:
                if not self._has_model:
                    self._has_model = True
                    named = ConfigRecorded(model=model)
                    return [stamped(named, origin)]
            case PrecompileStarted():
                state.precompile, state.num_shapes = made, 0
                state.stage = "compile"
                return self._flush(state, origin)
            case PaddingsBegun():
                listed = self._flush(state, origin)
                state.paddings = made
                return listed
            case PaddingListed():
                state.padding_sizes.append(made.size)
            case ShapeBegun():
                return self._step(state, _shape_step(state, made), origin)
            case FrameSeen() if made.phase == EXECUTING:
                # With no stage above it, and all that runs the model in a start is over.
                if self.is_made and state.frame is None:
                    self.failures.was_at_work, state.frame = True, AT_WORK
            case FrameSeen(is_weak=True):
                state.frame = state.frame or made.phase
            case FrameSeen():
                self.failures.was_at_work |= is_at_work(made)
                if made.phase == IN_REQUEST:
                    state.frame = None
                elif made.phase or state.frame is None:
                    # A module can be imported at any stage, which a frame above it names.
                    state.frame = made.phase
                if made.logged and made.is_of_start:
                    state.open_traceback = origin, state.frame or None, made.logged
            case RoutesListed():
                self._has_routes, self._routes_at = True, origin.time
            case DevicesSeen():
                state.devices = made
            case HbmLoaded():
                return self._event(state, _hbm_weights(state, made, origin), origin)
            case HbmSums():
                # These workers have no profiling run: they divide what is left.
                begun = stamped(PhaseMarked(name="kv_cache", edge="start"), origin)
                divided = _of_one_device(state, made, origin)
                return [*self._event(state, begun, origin), *divided]
            case PrecompileFinished():
                state.stage = None
                return [*end_step(state, origin), _precompiled(state, made, origin)]
            case ShutdownLine():
                return self.failures.stop(made, origin, in_start=self._is_in_start())
            case StatisticsLine() | RequestLine() | ResponseLine():
                self._is_whole = False
                is_foreign = isinstance(made, ResponseLine)  # of any web server
                self.failures.was_at_work |= self._may_serve and not is_foreign
                return self.usage.take(made, origin, is_ready=self.failures.is_ready)
            case BenchEdge() | BenchLine():
                return self._bench.take(made, origin.line)
        return []

    def _weights_sought(
        self, state: RankState, made: WeightsSought, origin: Origin
    ) -> list[Event]:
        """The download of weights for which no line states how long it took (vLLM
        `model_loader/weight_utils.py download_weights_from_hf`)."""
        since, state.sought_at = state.sought_at, None
        if not made.are_there:
            state.sought_at = origin.time
        elif since is not None and origin.time is not None:
            lasted = origin.time - since
            if lasted >= DOWNLOADED_S:
                end = PhaseMarked(name="download", edge="end", duration_s=lasted)
                return self._event(state, stamped(end, origin), origin)
        return []

    def _step(self, state: RankState, made: StepLine, origin: Origin) -> list[Event]:
        """The events that are complete now that a rank printed this line."""
        if made.phase == "mixed" and made.bucket is not None:
            both = state.mixed_prompt + made.bucket
            made = msgspec.structs.replace(made, bucket=both)
        events = end_step(state, origin, following=made)
        events = self._flush(state, origin) + events
        if state.clocks and (clock := state.clocks.get(made.phase)) is not None:
            clock.has_lines = True
        is_last = made.is_over and made.index == made.total
        state.stage = None if is_last else made.phase
        if made.is_over:
            return [*events, finished_step(state, made, origin)]
        if not state.is_validating:
            state.step = PendingStep(made, origin)
        return events

    def _bar(self, state: RankState, made: BarUpdate, origin: Origin) -> list[Event]:
        phase = STEP_BARS.get(made.name)
        if phase is not None:
            return self._warmup_bar(state, phase, made, origin)
        if origin.rank is None and (rank := drawn_by(self._ranks, made)) is not None:
            state, origin = self._ranks[rank], Origin(origin.time, rank, origin.line)
        elif origin.rank is None and is_redraw(self._ranks, made):
            return []
        if made.name.startswith("Capturing"):
            capture_bar(state, made, origin)
            return []
        return stage_bar(state, made, origin, self._timed)

    def _warmup_bar(
        self, state: RankState, phase: str, made: BarUpdate, origin: Origin
    ) -> list[Event]:
        """Steps by a bar. A process that has no peers has no rank.

        Of those that have, what stands first in a line has a name, and what is drawn over it
        none (vLLM `system_utils.py _add_prefix`): where each process ends its line for that
        of a step, the bar below is its own. Bars in one line count for the first of them.
        """
        ranks = [rank for rank in self._ranks if rank is not None]
        if not ranks:
            return warmup_bar(state, phase, made, origin, is_shared=False)
        is_below = state.step is not None and state.step.signal.phase == phase
        drawing = {rank for rank in ranks if self._ranks[rank].is_drawing}
        if origin.rank is not None and is_below and drawing <= {origin.rank}:
            state.is_drawing = True
            return warmup_bar(state, phase, made, origin, is_shared=False)
        if has_step_line(self._ranks, phase):
            return []
        first = Origin(origin.time, min(ranks), origin.line)
        return warmup_bar(self._ranks[first.rank], phase, made, first, is_shared=True)

    def _flush(self, state: RankState, origin: Origin) -> list[Event]:
        """Close a configuration dump or a list of omitted buckets."""
        events: list[Event] = []
        if state.settings:
            name = state.settings.get("hw") or None
            dump = ConfigRecorded(settings=state.settings, device_name=name)
            events.append(stamped(dump, origin))
            state.settings, state.section = {}, None
        if state.omitted:
            events += _omitted(state, origin)
        if state.paddings is not None:
            events += _padded(state, state.paddings, origin)
        return events


def _cache_factor(state: RankState, made: CacheFactor, origin: Origin) -> list[Event]:
    """The variables that the key of the compile cache is made of, when all are there."""
    if made.name is not None:
        if len(state.cache_factors) < MAX_FACTORS:
            state.cache_factors[f"env.{made.name}"] = made.value
        return []
    factors, state.cache_factors = state.cache_factors, {}
    if not factors:
        return []
    text = "factors of the compile cache, from the log"
    note = Note(topic="compile_cache_key", text=text, values={"factors": factors})
    return [stamped(note, origin)]


def _padded(state: RankState, begun: PaddingsBegun, origin: Origin) -> list[Event]:
    sizes, state.paddings, state.padding_sizes = state.padding_sizes, None, []
    if not sizes:
        return []
    listed = BucketsGenerated(
        phase=begun.phase, count=len(sizes), buckets=[(size,) for size in sizes],
        dimensions=[begun.dimension],
    )  # fmt: skip
    state.generated[begun.phase] = listed.buckets
    return [stamped(listed, origin)]


def _shape_step(state: RankState, made: ShapeBegun) -> StepLine:
    """The line is printed before its shape runs (`_precompile_backbone`)."""
    state.num_shapes += 1
    listed = len(state.generated.get("tokens", ()))
    return StepLine(
        phase="tokens", mode=None, index=state.num_shapes, total=listed or None,
        bucket=(made.num_tokens,), free_bytes=None,
    )  # fmt: skip


def _precompiled(state: RankState, made: PrecompileFinished, origin: Origin) -> Event:
    started, state.precompile = state.precompile, None
    compiled = CompileFinished(
        what=started.graph if started is not None else "shape",
        detail=(started.shape or None) if started is not None else None,
        duration_s=made.duration_s,
        from_cache=None,
    )
    return stamped(compiled, origin)


_CARETS = 2
"""Lines that Python puts below a line of source: the marks of the part that failed."""


_FRAMES_BELOW = 16
"""Lines of frames that Python's own modules may have below one of a package."""


def _with_source(made: FailureLine, state: RankState, origin: Origin) -> FailureLine:
    """An AssertionError without a text, with the line of source above it."""
    line, text = state.asserted
    is_bare = made.message == "AssertionError" and text
    if not is_bare or not 0 < origin.line - line <= 1 + _CARETS:
        return made
    return msgspec.structs.replace(made, message=f"AssertionError: {text}")


def _module_above(state: RankState, origin: Origin) -> str | None:
    """The innermost file of the engine or a package in the traceback of an error."""
    line, path = state.module or (-_FRAMES_BELOW, None)
    return path if origin.line - line < _FRAMES_BELOW else None


def _hbm_weights(state: RankState, made: HbmLoaded, origin: Origin) -> Event:
    """What the weights took of a device, beside what was in use before."""
    # The mean, since the engine divides what all of them have left.
    used = round(fmean(made.used_bytes))
    taken = None
    if state.devices is None:
        # What was in use before is unknown.
        state.devices = DevicesSeen(made.used_bytes)
    else:
        taken = max(used - round(fmean(state.devices.used_bytes)), 0)
    loaded = MemoryMeasured(
        stage="weights", total_bytes=made.total_bytes, used_bytes=used, delta_bytes=taken,
    )  # fmt: skip
    return stamped(loaded, origin)


def _of_one_device(state: RankState, made: HbmSums, origin: Origin) -> list[Event]:
    """What a device has of the sums; nothing where their number is not known."""
    if state.devices is None:
        return []
    count = len(state.devices.used_bytes)
    usable = None if made.usable_bytes is None else made.usable_bytes // count
    budget = MemoryBudgetSet(
        total_bytes=made.total_bytes // count,
        usable_bytes=usable,
        consumed_bytes=made.used_bytes // count,
        kv_cache_bytes=made.available_bytes // count,
    )
    return [stamped(budget, origin)]


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
