"""The time of one rank: its phases, from the marks that its events are.

Phases are spans, which overlap: weights are loaded inside the loading of the model, ranks
run at the same time. `partition` gives every moment to the span that shows most of it, so
that durations add up.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from warmup_insights.model.events import (
    SERVER_START,
    BucketsGenerated,
    CaptureSummary,
    CompileFinished,
    ConfigRecorded,
    DefragWarmup,
    EngineInitialized,
    Event,
    Failure,
    GraphCaptured,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)  # fmt: skip
from warmup_insights.model.summary import OF_OTHER_RANK, PHASES

OTHER_RANK, ASSUMED, BOUNDED, MEASURED = range(4)
"""How a span is known, weakest first: from a slower rank; from a line that opens it up
to the next one; from the line before to the line that closes it; from a duration."""
STAMP_S = 1.0
"""Resolution of the timestamps of most logs: two may be off by twice as much together."""


@dataclass(frozen=True, slots=True)
class Span:
    """A named stretch of time, in seconds since the epoch."""

    name: str
    start: float
    end: float
    strength: int

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.end - self.start


def partition(
    spans: Iterable[Span], start: float, end: float, resolution_s: float = 0.0
) -> list[Span]:
    """The moments between `start` and `end` that a span explains, in order.

    A stronger span wins over a weaker one, and among equals the shorter one, because
    it lies inside the longer. Neighbours of one name are one, also where less than the
    resolution of the timestamps lies between them: that is no evidence of anything
    else. O(n log n).
    """
    kept = sorted(
        (
            Span(s.name, max(s.start, start), min(s.end, end), s.strength)
            for s in spans
            if s.end > start and s.start < end and s.end > s.start
        ),
        key=lambda span: span.start,
    )
    points = sorted({p for s in kept for p in (s.start, s.end)})
    active: list[tuple[int, float, int]] = []
    result: list[Span] = []
    following = 0
    for left, right in pairwise(points):
        while following < len(kept) and kept[following].start <= left:
            span = kept[following]
            heapq.heappush(active, (-span.strength, span.duration_s, following))
            following += 1
        while active and kept[active[0][2]].end <= left:
            heapq.heappop(active)
        if not active:
            continue
        span = kept[active[0][2]]
        last = result[-1] if result else None
        if (
            last is not None
            and last.name == span.name
            and (last.end == left or left - last.end < resolution_s)
        ):
            result[-1] = Span(last.name, last.start, right, span.strength)
        else:
            result.append(Span(span.name, left, right, span.strength))
    return result


DOWNLOAD = "download"
CUT = "lines_cut_out"
"""Time between two phases where a person took lines out of the log."""

BACK_S = 60.0
"""Lines of several processes can be this much out of order."""
ROUNDED_S = 0.03
"""Some durations of two decimals and their sum differ by less."""
TOGETHER_S = 1.0
"""Lines printed together are at most this far apart: timestamps are whole seconds."""
WARMUP = "model_warmup"
"""Of prompts and decodes, where nothing keeps them apart."""
_ORDER = {
    name: place
    for place, names in enumerate((
        ("import",), ("configure",), ("start_engine",), ("start_workers",),
        ("distributed_init", "init_worker"),
        ("download", "load_model", "load_weights"),
        ("compile", "profile_run"), ("kv_cache",),
        ("chat_template_warmup", "defrag_warmup", "graph_capture", "kernel_warmup",
         "sampler_warmup", "prompt_warmup", "prompt_graphs", "decode_warmup",
         "decode_graphs", "unified_warmup", "multimodal_warmup", "multimodal_graphs"),
        (SERVER_START,),
    ))
    for name in names
}  # fmt: skip
"""Stages in the order in which engines go through them; what is none of them may be
anywhere."""
_PRINTED = frozenset({"start_engine", "load_model", "kv_cache"})
"""Stages that every engine prints. Where none of a stage's lines is between two others, lines
were selected from a log, or an engine prints none (vllm-neuron its loading, vLLM before
0.5.1): the one before it ended at an unknown time."""
_OF_RANK_0 = frozenset({"start_engine", "kv_cache"})
_LOADING = frozenset(name for name in _ORDER if _ORDER[name] == _ORDER["load_model"])
_WARMING = frozenset(
    name for name in _ORDER if name.startswith(("prompt", "decode", "unified", "multi"))
) | {WARMUP, "mixed_graphs", "mixed_warmup"}
_BEHIND_CACHE = frozenset(
    name
    for name, place in _ORDER.items()
    if _ORDER["kv_cache"] < place < _ORDER[SERVER_START]
) | {WARMUP}
"""Stages that no rank begins before the KV cache is divided: the engine does that when all
ranks have measured their memory (vLLM `v1/engine/core.py`, `_initialize_kv_caches`)."""
_AFTER_LOADING = ("compile", "profile_run", "kernel_warmup", "sampler_warmup")

STEPS = (WarmupStep, GraphCaptured)
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
CAPTURES, KERNELS, GRAPH_PROFILE = (
    "graph_capture", "kernel_warmup", "graph_memory_profile",
)  # fmt: skip
PHASE_OF: dict[type[Event], str] = {
    GraphsCaptured: CAPTURES, KVCacheAllocated: "kv_cache",
    SamplerWarmup: "sampler_warmup", DefragWarmup: "defrag_warmup",
}  # fmt: skip
"""Events of one phase to its name."""


@dataclass(slots=True)
class RankTime:
    """One rank: its spans so far, what it is doing, and since when.

    `is_quiet`: a rank above 0 prints so few lines that one which ends a phase stands
    for all the time before it.
    """

    is_quiet: bool = False
    stated: list[Span] = field(default_factory=list)
    """Phases whose beginning and end are both marked."""
    marks: dict[str, float] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    doing: str | None = None
    since: float | None = None
    last: float | None = None
    done: str | None = None
    """Whose end was marked last."""
    ended: dict[str, float] = field(default_factory=dict)
    """When each phase was last marked as over."""
    is_cut: bool = False
    """Lines are missing since the last mark."""
    divided: float | None = None
    """When the number of KV blocks was first known."""
    is_warmed: bool = False
    """The whole warm-up was over."""
    is_initialized: bool = False
    """The engine stated that its start-up was over."""
    begun: set[str] = field(default_factory=set)
    """Phases of which a beginning is marked."""
    stage: str | None = None
    """Whose end was marked last."""
    is_repeated: bool = False
    """The end of a stage is stated twice, and its beginning never."""
    line: int | None = None
    line_at: float = -math.inf
    """Time of the last line; that of an event made from it can be earlier."""
    earlier_at: float = -math.inf
    """Time of the line before it."""
    went_back: bool = False
    summed: set[str] = field(default_factory=set)
    """Phases that only the summary of their graphs ends."""
    captured_s: float = 0.0
    """What the bars over captures state that they took."""

    made_s: float = 0.0
    """What the engine compiled since it last stated a total."""
    compiled_s: float = 0.0
    """The same, with what it loaded from a cache."""
    traced: float | None = None
    """When Dynamo was done with a model whose graphs follow."""
    drawn: str | None = None
    """Phase of the steps that only a bar shows, which has no time."""
    untimed: dict[str, float] = field(default_factory=dict)
    """Seconds of phases whose line has no time and stands in another moment."""

    def write(self, line: int | None, time: float) -> None:
        """A line was written, or one more event came of it."""
        if line is not None and line == self.line:
            self.line_at = max(self.line_at, time)
        elif line is not None:
            self.went_back = self.goes_back
            self.line, self.earlier_at, self.line_at = line, self.line_at, time

    @property
    def goes_back(self) -> bool:
        """Whether a line is earlier than the one before it by more than BACK_S: lines
        are written in order, so these are not of one start on one clock."""
        return self.went_back or self.line_at < self.earlier_at - BACK_S

    def begin(self, name: str, time: float) -> None:
        """From `time` on this rank does `name`."""
        if self.is_cut and self.doing is not None and self.doing != name:
            self.doing = CUT
        self.is_cut = False
        self._settle(time, name)
        self.begun.add(name)
        self.doing, self.since = name, time

    def end(self, name: str, time: float, duration_s: float | None) -> None:
        """At `time` this rank is done with `name`."""
        is_again = self.ended.get(name) == time and time.is_integer()
        self.ended[name] = time
        before = self.last
        if duration_s is not None:
            self._settle(time, name)
            stop = time
            if is_again and duration_s < STAMP_S and self.spans[-1:]:
                # One of several within a second, one after the other.
                stop = max(self.spans[-1].start, time - STAMP_S)
            self.spans.append(Span(name, stop - duration_s, stop, MEASURED))
        elif self.doing == name and self.since is not None:
            self.spans.append(Span(name, self.since, time, BOUNDED))
        elif self.doing is not None and not self.is_quiet:
            # Where one ended and the other began is not stated.
            self._settle(time, name, is_end=True)
        elif (
            before is not None
            and not self.is_cut
            and (self.is_quiet or not self.skips(name, is_end=True))
        ):
            self.spans.append(Span(name, before, time, BOUNDED))
        self.is_cut = False
        is_later = _ORDER.get(name, -1) > _ORDER.get(self.doing or "", math.inf)
        if self.doing == name or duration_s is None or is_later:
            self.doing = self.since = None
        self.last, self.done = time, name

    def mark(self, event: PhaseMarked, time: float) -> None:
        """A phase begins or ends, and its name is stated."""
        if event.edge == "start":
            if event.name == "import" and self.since is not None and time < self.since:
                return  # Ray repeats late what its workers printed
            if self.ended.get(event.name) != time:  # or it goes on
                self.marks[event.name] = time
            self.begin(event.name, time)
            return
        began = self.marks.pop(event.name, None)
        is_over = event.name in self.ended and self.doing is None
        # A later line shows once more that it ended, or a file that none is missing.
        is_nothing = is_over or event.name == DOWNLOAD
        if began is None and is_nothing and event.duration_s is None:
            return self.touch(time)
        if began is not None:
            self.stated.append(Span(event.name, began, time, MEASURED))
        is_capture = event.name == CAPTURES and event.duration_s is None
        if is_capture and self.doing in (KERNELS, GRAPH_PROFILE):
            self._capture_in(time)
        elif began is not None and self.doing is None and time < (self.last or time):
            # A later line states how long what follows took.
            self.spans.append(Span(event.name, began, time, BOUNDED))
        else:
            self.end(event.name, time, event.duration_s)

    def go_on(self, name: str, time: float) -> None:
        """A line shows that this rank is not done with `name`."""
        if self.doing == name:
            self._settle(time, name)

    def _capture_in(self, time: float) -> None:
        """Captures that end where no line states that they began (vLLM
        `custom_all_reduce.py capture`): those that memory is estimated with are a part of
        that; when those behind the warm-up of kernels began is unknown."""
        if self.doing == GRAPH_PROFILE:
            self._settle(time, GRAPH_PROFILE)
            return
        self.ended[CAPTURES] = self.last = time
        self.doing = self.since = None

    def _settle(self, time: float, following: str, *, is_end: bool = False) -> None:
        """What this rank does goes on until another stage begins, or is over, at `time`,
        unless a stage that is printed lies between."""
        if self.skips(following, is_end=is_end):
            self.doing = self.since = None
        if self.doing is not None and self.since is not None:
            self.spans.append(Span(self.doing, self.since, time, ASSUMED))
            self.since = time
        self.last = time

    def skips(self, following: str, *, is_end: bool) -> bool:
        """Whether a stage that engines print lies behind what this rank does and before a
        later one, or the beginning of its loading, and none of its lines is there.

        Ranks above 0 print neither the engine's start nor its cache.
        """
        here = _ORDER.get(self.doing or self.done or "import")
        there = _ORDER.get(following)
        if here is None or there is None:
            return False
        shown = {*self.begun, *self.ended} - ({following} if is_end else set())
        if shown & _LOADING:
            shown.add("load_model")
        printed = _PRINTED - shown - (_OF_RANK_0 if self.is_quiet else set())
        if is_end and there != _ORDER["load_model"]:
            printed -= {following}
        last = there if is_end else there - 1
        return any(here < _ORDER[stage] <= last for stage in printed)

    def _weights(self) -> Iterator[Span]:
        """Reading the weights, of which only the duration is known: it ends the loading."""
        lasted = self.untimed.get("load_weights")
        if lasted is None or any(span.name == "load_weights" for span in self.spans):
            return
        for span in self.spans:
            if span.name == "load_model" and span.duration_s >= lasted:
                yield Span("load_weights", span.end - lasted, span.end, MEASURED)

    def spans_until(self, end: float) -> list[Span]:
        """The spans so far, and what is going on until `end`."""
        if self.doing is None or self.since is None:
            return [*self.spans, *self._weights()]
        return [
            *self.spans,
            Span(self.doing, self.since, end, ASSUMED),
            *self._weights(),
        ]

    def waits_in(self, download: Span) -> bool:
        """Whether this rank waits while another one downloads: it holds the lock of the
        folder (vLLM `model_loader/weight_utils.py`, `download_weights_from_hf`)."""
        at_work = (DOWNLOAD, "load_weights")
        return not any(
            span.start < download.end and download.start < span.end
            for span in self.spans
            if span.name in at_work
        )

    def spans_behind(self, main: RankTime, end: float) -> Iterator[Span]:
        """The spans until `end`, of another rank than the main one: the end of its warm-up
        can be its first line since it loaded the model (vLLM `gpu_worker.py`,
        `_maybe_activate_jit_monitor`), and its profiling run is over where the memory is
        divided, which the engine does when all its ranks have measured theirs: the others
        print no line there (`gpu_worker.py determine_available_memory`)."""
        cached = main.ended.get("kv_cache", -math.inf)
        measured = math.inf
        if self.divided is None and main.divided is not None:
            measured = main.divided
        for span in self.spans_until(end):
            if span.name == "profile_run" and span.start < measured < span.end:
                yield Span(span.name, span.start, measured, span.strength)
            elif span.strength == BOUNDED and span.name in _BEHIND_CACHE:
                start = max(span.start, cached)
                yield Span(span.name, start, span.end, span.strength)
            else:
                yield span

    def spans_beside(self, main: RankTime, end: float) -> Iterator[Span]:
        """The spans of a slower rank, as they explain what is left of the main one's."""
        for span in self.spans_behind(main, end):
            if span.name == DOWNLOAD and main.waits_in(span):
                yield span
            else:
                name, start = f"{span.name}{OF_OTHER_RANK}", span.start
                if span.name == CAPTURES:
                    start = max(start, main.captures_since(span))
                yield Span(name, start, span.end, OTHER_RANK)

    def captures_since(self, other: Span) -> float:
        """When the capture of another rank began at the earliest: with that of this one,
        where it states how long its own took, as ranks capture together."""
        return max(
            (
                span.start
                for span in self.spans
                if span.name == other.name and span.strength == MEASURED
                and span.start < other.end
            ),
            default=-math.inf,
        )  # fmt: skip

    def touch(self, time: float) -> None:
        """An event at `time` that neither begins nor ends a phase."""
        if self.doing is None:
            self.last = time


def take_mark(  # noqa: C901, PLR0912 - a table: one case for each kind
    own: RankTime, event: Event, time: float
) -> None:
    """Begin or end the phase that an event marks."""
    match event:
        case PhaseMarked():
            own.mark(event, time)
        case MemoryMeasured() if event.stage in _STAGES:
            _stage(own, event, time)
        case BucketsGenerated():
            own.end("bucket_generation", time, None)
        case CaptureSummary():
            _end_warmup(own, event, time)
        case SamplerWarmup() | DefragWarmup() if event.status == "started":
            own.begin(PHASE_OF[type(event)], time)
        case SamplerWarmup() | DefragWarmup() | GraphsCaptured():
            _ended(own, event, time)
        case CompileFinished() if event.duration_s is not None:
            _compiled(own, event, time, event.duration_s)
        # Without these it follows from settings alone, not from the profile run.
        case MemoryBudgetSet() if (
            event.kv_cache_bytes is not None or event.activation_bytes is not None
        ) and (own.doing == "profile_run" or "profile_run" not in own.ended):
            own.end("profile_run", time, None)
        case KVCacheAllocated() if not (own.is_initialized or own.is_warmed):
            own.divided = time if own.divided is None else own.divided
            own.end(PHASE_OF[KVCacheAllocated], time, None)
        case ServerReady():
            own.end(SERVER_START, time, None)
        case EngineInitialized():
            own.is_initialized = True
            _loaded(own, event, time)
            own.begin(SERVER_START, time)
        case WarmupFinished():
            _warmed(own, event, time)
        case ConfigRecorded(line=int()) if own.doing == "import" and event.settings:
            # A program makes the configuration behind its imports, with no line where it
            # begins; a recorder marks that, and has the command before the imports.
            own.begin("configure", time)
        case ConfigRecorded():
            own.touch(time)


def _warmed(own: RankTime, event: WarmupFinished, time: float) -> None:
    """The end of the whole warm-up, and of the part of it that only a bar shows: vllm-gaudi
    prints no summary of unified attention (`warmup_unified_graphs`). Its time has one name
    where no line shows its steps."""
    if own.drawn not in (None, *PHASES) and own.doing is None:
        own.end(f"{own.drawn}_warmup", time, None)
    elif event.duration_s is not None and own.doing not in _WARMING:
        began = time - event.duration_s
        if not any(s.name in _WARMING and s.end > began for s in own.spans):
            own.spans.append(Span(WARMUP, began, time, BOUNDED))
    own.is_warmed = True
    own.touch(time)


def _ended(
    own: RankTime, event: SamplerWarmup | DefragWarmup | GraphsCaptured, time: float
) -> None:
    """The end of a phase of one event. How long a capture took replaces what a line
    before counted as its time: that line is printed when captures end (vLLM
    `custom_all_reduce.py register_graph_buffers`), and none when they begin."""
    name, duration_s = PHASE_OF[type(event)], event.duration_s
    if isinstance(event, GraphsCaptured) and duration_s is not None:
        since = time - duration_s
        while own.spans and own.spans[-1].name == name and own.spans[-1].end > since:
            own.spans.pop()
    own.end(name, time, duration_s)


def _compiled(
    own: RankTime, event: CompileFinished, time: float, duration_s: float
) -> None:
    """A part of a compilation, or its total.

    Before vLLM 0.18 the total is the sum of the parts, which have their own lines, and is
    printed when the last graph has run (`compilation/monitor.py`): no time of its own.
    Between Dynamo and the first graph lies nothing but the rest of the compilation
    (`compilation/backends.py`, `VllmBackend.__call__`).
    """
    traced, own.traced = own.traced, time if event.what == "dynamo" else None
    if traced is not None and event.what == "graph":
        own.spans.append(Span("compile", traced, time, BOUNDED))
    if event.what != "total":
        own.compiled_s += duration_s
        own.made_s += 0.0 if event.from_cache else duration_s
    else:
        sums, own.made_s, own.compiled_s = (own.made_s, own.compiled_s), 0.0, 0.0
        if any(abs(duration_s - known) <= ROUNDED_S for known in sums):
            return
    own.end("compile", time, duration_s)


def _loaded(own: RankTime, event: EngineInitialized, time: float) -> None:
    """A model whose end of loading is not printed was there when the engine began to
    initialise itself (vLLM `engine/llm_engine.py`, `__init__`)."""
    weights = own.ended.get("load_weights")
    if weights is None or event.duration_s is None or "load_model" in own.ended:
        return
    own.spans.append(Span("load_model", weights, time - event.duration_s, BOUNDED))


def take_failure(own: RankTime, event: Failure, time: float) -> None:
    """What fails in a stage without a first line of its own was in it since the line
    before; the bars of a capture state how long it had run."""
    is_drawn = event.phase is not None and event.phase in (*PHASES, own.drawn)
    if event.phase == CAPTURES and CAPTURES not in own.ended:
        own.end(CAPTURES, time, own.captured_s or None)
    elif event.phase in _AFTER_LOADING and own.doing is None and own.last is not None:
        own.end(event.phase, time, None)
    elif is_drawn and own.doing is None and own.last is not None:
        own.end(f"{event.phase}_warmup", time, None)  # a bar has no line with a time
    else:
        stage = "kv_cache" if event.failure == "no_kv_cache" else event.phase or ""
        is_loading = own.doing == "init_worker" and stage in _LOADING
        if is_loading or own.skips(stage, is_end=False):
            own.doing = own.since = None
        own.touch(time)


def _stage(own: RankTime, event: MemoryMeasured, time: float) -> None:
    """The end of a stage. One that is stated twice in a row without any beginning is of
    another process or of another start, so the time between is not known to be its own.
    """
    name = _STAGES[event.stage]
    is_again = own.stage == event.stage and name not in own.begun
    own.stage = event.stage
    if is_again and event.duration_s is None:
        own.is_repeated = True
        own.ended[name] = time
        own.touch(time)
        return
    own.end(name, time, event.duration_s)


def _step_name(event: WarmupStep | GraphCaptured) -> str:
    if isinstance(event, GraphCaptured):
        known = event.phase in ("prompt", "decode")
        return f"{event.phase}_graphs" if known else "graph_capture"
    return f"{event.phase}_{'graphs' if event.mode == 'graph' else 'warmup'}"


def take_step(own: RankTime, event: WarmupStep | GraphCaptured, time: float) -> None:
    """Steps of one phase are one span while they follow each other.

    A pass that runs buckets and captures them is one phase, whichever of the two a step
    is: that of its mark, as in the log of the same start.
    """
    name = _step_name(event)
    if f"{event.phase}_warmup" in own.marks:
        name = f"{event.phase}_warmup"
    if event.duration_s is None:
        if own.doing != name:
            own.begin(name, time)
        return
    end = time + event.duration_s
    last = own.spans[-1] if own.spans else None
    if last is not None and last.name == name and 0 <= time - last.end <= 0.05:
        if end > last.end:
            own.spans[-1] = Span(name, last.start, end, MEASURED)
    else:
        own.begin(name, time)
        own.spans.append(Span(name, time, end, MEASURED))
    own.doing = own.since = None
    own.last = end


def _end_warmup(own: RankTime, event: CaptureSummary, time: float) -> None:
    """The phase that ends where its summary is printed: what was going on, if it fits.

    vllm-gaudi prints the summary of the prompts before the decode warm-up begins
    (`hpu_model_runner.py`, `warmup_model`), the fork both when all is over: two that come
    together with no step before them are the end of one warm-up. Ranks that no name keeps
    apart print each of them several times.
    """
    own_name = f"{event.phase}_warmup"
    last = own.spans[-1] if own.spans else None
    is_summed = last is not None and last.name in own.summed
    if last is None or not is_summed or time - last.end > TOGETHER_S:
        last = None
    elif last.name in (own_name, WARMUP):
        return
    for suffix in ("graphs", "warmup"):
        name = f"{event.phase}_{suffix}"
        if own.doing == name or any(span.name == name for span in own.spans[-3:]):
            own.end(name, time, None)
            return
    if last is not None:
        own.spans[-1] = Span(WARMUP, last.start, time, last.strength)
        own.summed.add(WARMUP)
        own.last = time
        return
    own.summed.add(own_name)
    own.end(own_name, time, None)
