"""Warm-up steps, stages and bars: what begins in one line and ends in another, or in none.

`RankState` holds what is pending for one rank. vllm-gaudi and vllm-fork print the line of a
bucket before it runs (`hpu_model_runner.py`, `log_warmup`), vllm-gaudi that of a multimodal
item after it (`warmup_multimodal_graphs`). Bars are drawn with tqdm; those
over buckets are redrawn for each and carry their own clock, and their buckets run in
reverse order of the list (`hpu_model_runner.py`, `warmup_graphs`). Where several ranks
draw, a line may have lost the name of the one that it is of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from parsers.engine.signals import (
    BarUpdate,
    DevicesSeen,
    LazyCaptureStarted,
    OmittedBucket,
    Origin,
    PaddingsBegun,
    PrecompileStarted,
    StepLine,
    stamped,
)
from warmup_insights.model.events import (
    Bucket,
    BucketsGenerated,
    CaptureProgress,
    CompileFinished,
    DefragWarmup,
    EngineInitialized,
    Event,
    GraphsCaptured,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)

_NEW, _OLD = 0.3, 0.7
SLACK_S = 1.0
"""The elapsed time is drawn in whole seconds; the sum may not leave it by more."""


@dataclass(slots=True)
class Average:
    """The averages of one bar since its first update: a smoothed rate, turned back.

    tqdm (`std.py`, `EMA` and `update`) keeps two moving averages with smoothing 0.3, of
    the items and of the seconds of each update that it draws, and draws their ratio. With
    a = 0.3, b = 0.7 and S(x) = a x + b S(x before), the drawn seconds per item are
    E = S(dt) / S(dn), so dt = (E S(dn) - b E_before S(dn)_before) / a. An update that tqdm
    left out is part of the next one that it draws.
    """

    _items: float = 0.0
    _item_s: float = 0.0
    _error_s: float = 0.0
    _sum_s: float = 0.0

    def add(
        self,
        items: int,
        item_s: float,
        error_s: float,
        elapsed_s: float,
        *,
        is_last: bool,
    ) -> tuple[float, float] | None:
        """Seconds of the items of an update, and how far they can be off.

        None when they contradict the elapsed time.
        """
        before, before_error = self._items * self._item_s, self._items * self._error_s
        self._items = _NEW * items + _OLD * self._items
        self._item_s, self._error_s = item_s, error_s
        took = (self._items * item_s - _OLD * before) / _NEW
        error = (self._items * error_s + _OLD * before_error) / _NEW
        if is_last:
            # The average of all updates, where tqdm left this one out until it was closed.
            rest = elapsed_s - self._sum_s
            took, error = min(max(took, rest), rest + 1), error + SLACK_S
        self._sum_s += took
        is_likely = elapsed_s - SLACK_S <= self._sum_s <= elapsed_s + 1 + SLACK_S
        if took < -error or not is_likely:
            self._sum_s = elapsed_s + 0.5
            return None
        return max(took, 0.0), error


@dataclass(slots=True)
class PendingStep:
    """A step whose line was read; it ends where the next thing begins."""

    signal: StepLine
    origin: Origin
    bar_s: float | None = None
    bar_error_s: float | None = None
    group_size: int = 1
    """With how many steps, itself the last, it has `bar_s` together."""
    executed: Bucket | None = None


@dataclass(slots=True)
class BarClock:
    """What was read of a warm-up bar so far."""

    total: int
    line: int
    """Of its first state."""
    done: int = 0
    """Steps that were reported."""
    elapsed_s: float = 0.0
    has_lines: bool = False
    """Whether the steps have lines of their own."""
    drawn: int = 0
    """Steps in the last state, which may be drawn again before the next step."""
    item_s: float | None = None
    """Average of the last update, as it is drawn again."""
    average: Average | None = None
    """None when a state is missing: the bar is drawn before each step."""


@dataclass(slots=True)
class DrawnBar:
    """A bar over CUDA graphs: its last state, and how it came there."""

    bar: BarUpdate
    origin: Origin
    states: list[tuple[int, float]] = field(default_factory=list)
    """Graphs so far and seconds, in the order drawn."""


@dataclass(slots=True)
class RankState:
    """What is pending for one rank."""

    has_events: bool = False
    """Whether it printed more than an error and the lines of buckets."""
    is_drawing: bool = False
    """Whether a bar over buckets stands in the line that it writes."""
    step: PendingStep | None = None
    mixed_prompt: Bucket = ()
    """The prompt in the mixed batches that are warmed up."""
    item_from: tuple[float | None, int | None] | None = None
    """Time and free memory of the line before the multimodal item that runs."""
    item_total: int | None = None
    item_index: int = 0
    """Number of the item of that line; several have one, and each kind counts from 1."""
    stage: str | None = None
    """Name of the stage that has begun and not ended."""
    is_warming_model: bool = False
    """Whether a CPU's worker warms its model, the first run of it included (vLLM
    `v1/worker/cpu_model_runner.py warming_up_model`)."""
    before_captures: str | None = None
    """The stage that goes on and ends where graphs are captured."""
    has_captured: bool = False
    """Whether graphs were captured since it began."""
    sought_at: float | None = None
    """When it began to look for its weights."""
    precompile: PrecompileStarted | None = None
    full_bar: str | None = None
    """Name of the bar that was drawn last, if it was full."""
    open_bar: tuple[BarUpdate, Origin, float | None] | None = None
    """The bar over a stage that was drawn last, if it was not full; the time of the last line
    above its first one."""
    clocks: dict[str, BarClock] = field(default_factory=dict)
    generated: dict[str, list[Bucket]] = field(default_factory=dict)
    lazy_tokens: LazyCaptureStarted | None = None
    lazy_origin: Origin | None = None
    captures: dict[str, DrawnBar] = field(default_factory=dict)
    captured: GraphsCaptured | None = None
    """The end of a capture from before the KV cache was divided."""
    is_divided: bool = False
    """Whether it is known what of the memory is left for the KV cache."""
    cache_bytes: list[int] = field(default_factory=list)
    cache_booked: bool = False
    section: str | None = None
    cache_factors: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    omitted: list[OmittedBucket] = field(default_factory=list)
    is_validating: bool = False
    paddings: PaddingsBegun | None = None
    padding_sizes: list[int] = field(default_factory=list)
    num_shapes: int = 0
    """Shapes of the graph that is being compiled that were named so far."""
    frame: str | None = None
    """What the innermost function of a traceback did, as far as it shows."""
    open_traceback: tuple[Origin, str | None, str] | None = None
    """Where the last function of a start stands in a traceback that the engine logged and of
    which no error is printed so far, its stage, and the text of its line."""
    module: tuple[int, str] | None = None
    """Line and path of the last file of the engine or a package in a traceback above."""
    dump_line: int | None = None
    """Number of the heading of the frames in which a signal ended the process."""
    asserted: tuple[int, str] = (0, "")
    """Number and text of the last line of source with an assertion."""
    ignored_line: int | None = None
    """Of the error that Python ignores, above its traceback."""
    devices: DevicesSeen | None = None
    """Devices of the process, where it sums up over several."""

    def is_ignored(self, line: int) -> bool:
        """Whether an error that ends on a line is one that Python ignores."""
        return (
            self.ignored_line is not None and line - self.ignored_line <= MAX_TRACEBACK
        )


def end_step(
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
    is_group = step.group_size > 1
    duration = step.bar_s if not is_group else None
    began, ended = origin.time, end.time if end is not None else None
    is_bounded = duration is None and is_next and is_finished
    if is_bounded and began is not None and ended is not None and ended >= began:
        duration, is_group = ended - began, False
    free_after = following.free_bytes if following and is_next else None
    return [
        WarmupStep(
            phase=made.phase, mode=made.mode, bucket=made.bucket, index=made.index,
            total=made.total, duration_s=duration,
            resolution_s=_resolution(step, end),
            group_size=step.group_size if is_group else None,
            group_duration_s=step.bar_s if is_group else None,
            free_before_bytes=made.free_bytes,
            free_after_bytes=free_after,
            memory_bytes=_memory(state, made.free_bytes, free_after),
            is_finished=is_finished, executed=step.executed,
            time=origin.time, rank=origin.rank, line=origin.line,
        )
    ]  # fmt: skip


def finished_step(state: RankState, made: StepLine, origin: Origin) -> Event:
    """A step whose line is printed after it: it ran since the line before."""
    began, free_before = state.item_from or (None, None)
    last, is_first = state.item_index, made.index == 1
    if made.index not in (last, last + 1) and not (
        is_first and last == state.item_total
    ):
        began, free_before = None, None  # a line is missing
    state.item_from = (origin.time, made.free_bytes)
    state.item_index, state.item_total = made.index, made.total
    ended, duration = origin.time, None
    if began is not None and ended is not None and ended >= began:
        duration = ended - began
    return WarmupStep(
        phase=made.phase, mode=made.mode, bucket=made.bucket, index=made.index,
        total=made.total, duration_s=duration,
        free_before_bytes=free_before, free_after_bytes=made.free_bytes,
        memory_bytes=_memory(state, free_before, made.free_bytes),
        modality=made.modality, time=began, rank=origin.rank, line=origin.line,
    )  # fmt: skip


def _is_next(made: StepLine, following: StepLine | None) -> bool:
    """Whether nothing can lie between two step lines.

    The index of graph captures has holes where a candidate was skipped.
    """
    if following is not None and following.index == made.index + 1:
        return True
    may_skip = made.mode == "graph" and made.may_skip
    if following is None or following.phase != made.phase:
        return made.index == made.total or may_skip
    return may_skip and following.mode == "graph"


def _resolution(step: PendingStep, end: Origin | None) -> float | None:
    """How far the time of a step can be off, where its two timestamps are not alike.

    One of whole seconds beside one with a fraction can be off by a second.
    """
    if step.bar_s is not None or end is None:
        return step.bar_error_s if step.bar_s is not None else None
    began, ended = step.origin.time, end.time
    if began is None or ended is None:
        return None
    return 1.0 if (began % 1.0 == 0.0) != (ended % 1.0 == 0.0) else None


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


_WIDE_STAGES = frozenset({"import", "configure", "start_workers", "start_engine"})
"""Stages with no line at their end: what fails in them is anything at all."""


def _note_mark(state: RankState, mark: PhaseMarked) -> None:
    if mark.name == "model_warmup":
        state.is_warming_model = mark.edge == "start"
    elif mark.name == "download":
        state.sought_at = None  # a line states how long it took


def follow_stage(state: RankState, event: Event) -> None:
    """Keep the stage that has begun and not ended."""
    if isinstance(event, PhaseMarked):
        _note_mark(state, event)
    match event:
        case BucketsGenerated(phase="multimodal"):
            # Printed before the first item, which has no line before it ran.
            state.item_from, state.item_index = (event.time, None), 0
        case SamplerWarmup() | DefragWarmup():
            name = "sampler" if isinstance(event, SamplerWarmup) else "defrag"
            state.stage = f"{name}_warmup" if event.status == "started" else None
        case PhaseMarked(edge="start"):
            state.stage = None if event.name in _WIDE_STAGES else event.name
        case PhaseMarked() if event.name == state.stage:
            state.stage = None
        case MemoryBudgetSet() if state.stage == "configure":
            pass  # that of a CPU follows from its settings
        case CompileFinished(what="dynamo"):
            state.stage = "compile"
        case (
            MemoryMeasured(stage="weights") | MemoryBudgetSet() | GraphsCaptured()
            | CompileFinished(what="total" | "total_with_profile_run" | "graph")
            | WarmupFinished() | EngineInitialized() | ServerReady()
        ):  # fmt: skip
            state.stage = None


_BEFORE_CAPTURES = ("compile_warmup", "kernel_warmup")
"""Stages of a worker that end where it begins to capture graphs, or with the next one."""


def end_kernel_warmup(state: RankState, event: Event, rank: int | None) -> list[Event]:
    """The end of warm-ups that print none: where the capture of graphs began.

    vLLM `gpu_worker.py compile_or_warm_up_model` runs one after the other. Where no line
    states how long the capture took, it is unknown when it began.
    """
    if isinstance(event, PhaseMarked) and event.name in _BEFORE_CAPTURES:
        state.before_captures = event.name if event.edge == "start" else None
        state.has_captured = False
        return []
    name = state.before_captures
    if name is None:
        return []
    if isinstance(event, GraphsCaptured):
        seconds = event.duration_s or 0.0
    elif isinstance(event, EngineInitialized):
        seconds = 0.0
    else:
        is_capture = isinstance(event, PhaseMarked) and event.name == "graph_capture"
        state.has_captured = state.has_captured or is_capture
        return []
    state.before_captures = None
    is_unknown = state.has_captured and isinstance(event, EngineInitialized)
    if event.time is None or is_unknown:
        return []
    return [
        PhaseMarked(
            name=name, edge="end", time=event.time - seconds, rank=rank, line=event.line,
        )
    ]  # fmt: skip


STEP_BARS = {
    "Prompt warmup processing": "prompt",
    "Decode warmup processing": "decode",
    "Unified Attention warmup": "unified",
}
_LIST_LIMIT = 5000
MAX_TRACEBACK = 100
"""Lines of one traceback."""
_STATES_LIMIT = 1000


def bar_phase(state: RankState) -> str | None:
    """The phase whose bar began last and has not ended; None without one."""
    if state.clocks:
        phase, clock = next(reversed(state.clocks.items()))
        if clock.done < clock.total:
            return phase
    if any(each.bar.done < each.bar.total for each in state.captures.values()):
        return "graph_capture"
    return None


def warmup_bar(
    state: RankState, phase: str, made: BarUpdate, origin: Origin, *, is_shared: bool
) -> list[Event]:
    """The steps that ended since the last state of a bar over buckets.

    Where it `is_shared`, several processes draw bars into one line, and only the first state
    in it has a name: the states show how far any of them is, and no times.
    """
    clock = state.clocks.get(phase)
    is_known = clock is not None and clock.total == made.total
    if clock is None or not (is_known and (is_shared or made.done >= clock.done)):
        clock = state.clocks[phase] = BarClock(total=made.total, line=origin.line)
        step = state.step
        clock.has_lines = step is not None and step.signal.phase == phase
        clock.average = Average() if made.done <= 1 else None
    is_skipping = made.place is not None and made.place > made.done
    step = state.step
    own = step if step is not None and step.signal.phase == phase else None
    # Drawn again for the next item, or below its line: with the average of the last update.
    is_again = made.place == made.done < made.total
    is_again |= own is not None and own.signal.index > made.done
    is_missing = made.place is not None and made.done > clock.drawn + 1
    if is_missing or (is_again and made.item_s != clock.item_s):
        clock.average = None
    clock.drawn = made.done
    if made.done <= clock.done or is_again:
        return []
    items = made.done - clock.done
    clock.item_s = made.item_s
    took, error = (None, None) if is_shared else _took(clock, made, items)
    first, clock.done, clock.elapsed_s = clock.done + 1, made.done, made.elapsed_s
    if own is not None:
        if own.signal.index == made.done and took is not None:
            own.bar_s, own.bar_error_s, own.group_size = took, error, items
        return []
    if clock.has_lines or state.is_validating:
        return []
    buckets = [] if is_skipping else state.generated.get(phase, [])
    listed = made.total if len(buckets) == made.total else 0
    last = min(made.done, first + _LIST_LIMIT)
    steps: list[Event] = [
        WarmupStep(
            phase=phase, bucket=buckets[-index] if index <= listed else None,
            index=index, total=made.total, rank=origin.rank, line=origin.line,
        )
        for index in range(first, last + 1)
    ]  # fmt: skip
    steps[-1] = replace(
        steps[-1],
        duration_s=took if items == 1 else None,
        group_size=items if items > 1 else None,
        group_duration_s=took if items > 1 else None,
        resolution_s=error,
        time=origin.time if items == 1 else None,
    )
    return steps


def untouched_bars(state: RankState, rank: int | None) -> list[Event]:
    """How many buckets there are by bars of which no step ended in the lines."""
    return [
        BucketsGenerated(phase=phase, count=clock.total, rank=rank, line=clock.line)
        for phase, clock in state.clocks.items()
        if not (clock.done or clock.has_lines or phase in state.generated)
    ]


def _took(
    clock: BarClock, made: BarUpdate, items: int
) -> tuple[float | None, float | None]:
    """Seconds of the items since the last update, and how far they can be off."""
    whole = made.elapsed_s - clock.elapsed_s
    if clock.average is None or made.item_s is None:
        # A difference of two whole numbers of seconds, both cut off.
        return (whole, 1.0) if items == 1 and whole >= 0 else (None, None)
    found = clock.average.add(
        items, made.item_s, made.item_error_s, made.elapsed_s,
        is_last=made.done == made.total,
    )  # fmt: skip
    if found is None:
        return None, None
    took, error = found
    return round(took, 4), round(error, 4)


def stage_bar(
    state: RankState, made: BarUpdate, origin: Origin, timed: float | None
) -> list[Event]:
    """The end of a stage whose bar is full; the bar has a clock of whole seconds.

    `timed`: time of the last line that has one.
    """
    was_full, state.full_bar = state.full_bar, None
    if made.done != made.total:
        drawn = state.open_bar
        since = drawn[2] if drawn and drawn[0].name == made.name else timed
        state.open_bar = made, origin, since
        return []
    state.open_bar = None
    state.full_bar = made.name
    if was_full == made.name:
        return []  # drawn once more when it is closed
    took = made.elapsed_s or None
    ended = PhaseMarked(name=_stage_of(made), edge="end", duration_s=took)
    return [stamped(ended, origin)]


def open_stage(state: RankState) -> list[Event]:
    """How far the bar over a stage is that was not full when the lines were over. Without a
    timestamp it was drawn that long after the last line above it that has one, or later."""
    if state.open_bar is None:
        return []
    made, origin, since = state.open_bar
    if origin.time is None and since is not None:
        origin = Origin(since + made.elapsed_s, origin.rank, origin.line)
    reached = PhaseMarked(
        name=_stage_of(made), edge="start", done=made.done, total=made.total,
        duration_s=made.elapsed_s or None,
    )  # fmt: skip
    return [stamped(reached, origin)]


def _stage_of(bar: BarUpdate) -> str:
    if "Pre-compiling" in bar.name:
        return "kernel_build"
    return "load_weights" if "oading " in bar.name else "kernel_warmup"


def capture_bar(state: RankState, made: BarUpdate, origin: Origin) -> None:
    """Keep the state of a bar over CUDA graphs."""
    drawn = state.captures.setdefault(_key(made), DrawnBar(made, origin))
    drawn.bar, drawn.origin = made, origin
    states = drawn.states
    if states and made.done < states[-1][0]:
        states.clear()
    if len(states) < _STATES_LIMIT and (not states or made.done > states[-1][0]):
        states.append((made.done, made.elapsed_s))


def captures_done(state: RankState) -> list[Event]:
    """The last state of every capture bar."""
    return [
        CaptureProgress(
            mode=_capture_mode(drawn.bar.name), captured=drawn.bar.done,
            total=drawn.bar.total, duration_s=drawn.bar.elapsed_s, states=drawn.states,
            time=drawn.origin.time, rank=drawn.origin.rank, line=drawn.origin.line,
        )
        for drawn in state.captures.values()
    ]  # fmt: skip


def profiled_graphs(state: RankState) -> list[Event]:
    """The end of a capture that was a part of the profiling run: what it took is none of
    the graphs that are used, and it captures only a few of some kinds (vLLM
    `v1/worker/gpu/cudagraph_utils.py`, `profile_cudagraph_memory`)."""
    done, state.captured, state.is_divided = state.captured, None, True
    if done is None:
        return []
    state.captures.clear()
    return [
        PhaseMarked(
            name="graph_memory_profile", edge="end", duration_s=done.duration_s,
            time=done.time, rank=done.rank, line=done.line,
        )
    ]  # fmt: skip


def _key(bar: BarUpdate) -> str:
    return f"{bar.name}/{bar.total}"


def _capture_mode(name: str) -> str:
    inside = name.partition("(")[2].rstrip(")")
    # A draft model's bars name it (`gpu/spec_decode/` `progress_bar_desc`).
    of = name.removeprefix("Capturing").partition("CUDA graph")[0].strip()
    return ", ".join(part for part in (of, inside) if part) or "graphs"


RankStates = Mapping[int | None, RankState]


def drawn_by(ranks: RankStates, made: BarUpdate) -> int | None:
    """The only rank whose bar over graphs this goes on from, its name having been pushed
    off the line by another process; None when it is of none or of several.
    """
    drawn = {
        rank: state.captures[_key(made)].bar
        for rank, state in ranks.items()
        if rank is not None and _key(made) in state.captures
    }
    if len(drawn) != 1:
        return None
    ((rank, bar),) = drawn.items()
    goes_on = bar.done < made.done and bar.elapsed_s <= made.elapsed_s
    return rank if goes_on else None


def has_step_line(ranks: RankStates, phase: str) -> bool:
    """Whether the line of a step of a phase is the last of any rank."""
    steps = [state.step for state in ranks.values() if state.step is not None]
    return any(step.signal.phase == phase for step in steps)


def is_redraw(ranks: RankStates, made: BarUpdate) -> bool:
    """A bar without an owner, where others draw it with their name."""
    others = [state for rank, state in ranks.items() if rank is not None]
    return any(key.startswith(f"{made.name}/") for s in others for key in s.captures)


def give_bars_to_first_rank(ranks: RankStates) -> None:
    """A capture bar without a name is the first rank's: the others draw none."""
    nameless, ranked = ranks.get(None), [rank for rank in ranks if rank is not None]
    if nameless is None or not nameless.captures or not ranked:
        return
    first = ranks[min(ranked)]
    if any(state.captures for state in ranks.values() if state is not nameless):
        return
    first.captures, nameless.captures = nameless.captures, {}
    for drawn in first.captures.values():
        drawn.origin = Origin(drawn.origin.time, min(ranked), drawn.origin.line)
