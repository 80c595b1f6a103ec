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

CUT_OUT, OTHER_RANK, ASSUMED, BOUNDED, MEASURED = range(5)
"""How a span is known, weakest first: not, as lines are missing; from a slower rank; from a line
that opens it up to the next one; from the line before to the line that closes it; from a
duration."""
IDLE_S = 30.0
"""A rank that prints nothing for longer may have done anything at all."""
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
ENCODER = "encoder_profile"
BUILD = "kernel_build"
_NESTED = (BUILD, "decoder_graph_capture")
"""Stages inside of another one, which goes on."""
CUT = "lines_cut_out"
"""Time in which a person took lines out of the log, where nothing else explains it."""

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
        ("compile", "profile_run"), ("kv_cache", "kv_offload"),
        ("chat_template_warmup", "compile_warmup", "defrag_warmup", "graph_capture", "kernel_warmup",
         "sampler_warmup", "speech_warmup", "prompt_warmup", "prompt_graphs", "decode_warmup",
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
    """One rank: its phases so far, and the one that goes on.

    `prints_few_lines`: a rank above 0 prints so few lines that one which ends a phase stands
    for all the time before it.
    """

    prints_few_lines: bool = False
    stated: list[Span] = field(default_factory=list)
    """Phases whose beginning and end are both marked."""
    marks: dict[str, float] = field(default_factory=dict)
    """Beginnings of phases whose end is not marked yet."""
    spans: list[Span] = field(default_factory=list)
    """Phases that are over, or went on until another one began."""
    current: str | None = None
    """Name of the phase that goes on, and when it began or was last seen."""
    current_since: float | None = None
    last: float | None = None
    """Time of the last mark."""
    last_ended: str | None = None
    """Name of the phase whose end was marked last."""
    ended: dict[str, float] = field(default_factory=dict)
    """When each phase was last marked as over."""
    is_cut: bool = False
    """Lines are missing since the last mark."""
    divided_at: float | None = None
    """When the number of KV blocks was first known."""
    is_warmed: bool = False
    """The whole warm-up was over."""
    is_initialized: bool = False
    """The engine stated that its start-up was over."""
    begun: set[str] = field(default_factory=set)
    """Phases of which a beginning is marked."""
    measured_stage: str | None = None
    """Stage of the last measured memory, which ends a phase."""
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
    compiled_s: float = 0.0
    """What the engine compiled since it last stated a total."""
    compiled_or_loaded_s: float = 0.0
    """The same, with what it loaded from a cache."""
    traced_at: float | None = None
    """When Dynamo was done with a model whose graphs follow."""
    encoder_since: float | None = None
    """When a profiling run began that runs an encoder before the model is compiled."""
    bar_phase: str | None = None
    """Phase of the steps that only a bar shows, which has no time."""
    untimed: dict[str, float] = field(default_factory=dict)
    """Seconds of phases whose line has no time and stands in another moment."""

    def note_line(self, line: int | None, time: float) -> None:
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
        """At `time` the phase `name` begins."""
        self._pass_cut(name, time)
        self._end_current(time, name)
        self.begun.add(name)
        self.current, self.current_since = name, time

    def end(self, name: str, time: float, duration_s: float | None) -> None:
        """At `time` the phase `name` is over."""
        is_again = self.ended.get(name) == time and time.is_integer()
        self.ended[name] = time
        is_cut, before = self.is_cut, self.last
        self._pass_cut(name, time - (duration_s or 0.0))
        if duration_s is not None:
            self._end_current(time, name)
            stop = time
            if is_again and duration_s < STAMP_S and self.spans[-1:]:
                # One of several within a second, one after the other.
                stop = max(self.spans[-1].start, time - STAMP_S)
            start = stop - duration_s
            if before is not None and _is_rounded(start, before):
                # The one before ended at an exact time, and this one up to a second later.
                start, stop = before, min(before + duration_s, stop + STAMP_S)
            self.spans.append(Span(name, start, stop, MEASURED))
        elif self.current == name and self.current_since is not None:
            self.spans.append(Span(name, self.current_since, time, BOUNDED))
        elif self.current is not None and not self.prints_few_lines:
            # Where one ended and the other began is not stated.
            self._end_current(time, name, is_end=True)
        elif (
            before is not None
            and not is_cut
            and (
                (self.prints_few_lines and name in _LOADING)
                or not self.skips(name, is_end=True)
            )
        ):
            self.spans.append(Span(name, before, time, BOUNDED))
        is_later = _ORDER.get(name, -1) > _ORDER.get(self.current or "", math.inf)
        if self.current in (name, CUT) or duration_s is None or is_later:
            self.current = self.current_since = None
        self.last, self.last_ended = time, name

    def _pass_cut(self, name: str, until: float) -> None:
        """Where another phase begins or ends behind lines that are missing, it is unknown how
        long the one before went on, unless that is no time `until` the other began."""
        is_part = self.current == "load_model" and name in _LOADING
        since = self.current_since
        if self.is_cut and since is not None and until - since >= 2 * STAMP_S:
            self.current = self.current if is_part or self.current == name else CUT
        self.is_cut = False

    def mark(self, event: PhaseMarked, time: float) -> None:
        """A phase begins or ends, and its name is stated."""
        if event.edge == "start":
            if self._begins_nothing(event.name, time):
                return self.note_time(time)
            if event.name == GRAPH_PROFILE and "profile_run" not in self.ended:
                self._profiled(time)
            if self.ended.get(event.name) != time:  # or it goes on
                self.marks[event.name] = time
            self.begin(event.name, time)
            return
        if event.name == "compile" and self.current == WARMUP:
            return self._compiled_in_warmup(time)
        began = self.marks.pop(event.name, None)
        is_over = event.name in self.ended and self.current is None
        # A later line shows once more that it ended, or a file that none is missing.
        is_nothing = is_over or event.name == DOWNLOAD
        if began is None and is_nothing and event.duration_s is None:
            return self.note_time(time)
        if began is not None:
            self.stated.append(Span(event.name, began, time, MEASURED))
        is_capture = event.name == CAPTURES and event.duration_s is None
        if is_capture and self.current in (KERNELS, GRAPH_PROFILE):
            self._capture_in(time)
        elif began is not None and self.current is None and time < (self.last or time):
            # A later line states how long what follows took.
            self.spans.append(Span(event.name, began, time, BOUNDED))
        else:
            self.end(event.name, time, event.duration_s)

    def _nested(self, event: PhaseMarked, time: float) -> None:
        """Kernels are built at their first use, inside of a stage that goes on (aiter
        `jit/core.py`, TileLang `jit/kernel.py`), and graphs of an audio decoder are
        captured while the model is loaded (vllm-omni)."""
        if event.edge == "start":
            self.marks[event.name] = time
            return
        began = self.marks.pop(event.name, None)
        if event.duration_s is not None:
            began = time - event.duration_s
        if began is not None:
            self.spans.append(Span(event.name, began, time, MEASURED))

    def _begins_nothing(self, name: str, time: float) -> bool:
        """Whether a line is of imports, which Ray repeats late, or of one more group of
        ranks."""
        since = self.current_since
        is_late = name == "import" and since is not None and time < since
        return is_late or (name == "distributed_init" and name in self.ended)

    def _compiled_in_warmup(self, time: float) -> None:
        """A warm-up that compiles begins with that, and goes on (vLLM
        `v1/worker/cpu_model_runner.py warming_up_model`)."""
        if self.current_since is not None:
            self.spans.append(Span("compile", self.current_since, time, BOUNDED))
            self.ended["compile"] = self.current_since = self.last = time

    def _profiled(self, time: float) -> None:
        """The profiling run is over where graphs are captured to estimate what they take
        (vLLM `gpu_worker.py determine_available_memory`). What a rank above 0 compiles in
        it, it does not print."""
        if not self.prints_few_lines:
            self.end("profile_run", time, None)

    def extend(self, name: str, time: float) -> None:
        """A line shows that the phase `name` goes on."""
        if self.current == name:
            self._end_current(time, name)

    def _capture_in(self, time: float) -> None:
        """Captures that end where no line states that they began (vLLM
        `custom_all_reduce.py capture`): those that memory is estimated with are a part of
        that; when those behind the warm-up of kernels began is unknown."""
        if self.current == GRAPH_PROFILE:
            self._end_current(time, GRAPH_PROFILE)
            return
        self.ended[CAPTURES] = self.last = time
        self.current = self.current_since = None

    def _end_current(
        self, time: float, following: str, *, is_end: bool = False
    ) -> None:
        """What this rank does goes on until another stage begins, or is over, at `time`,
        unless a stage that is printed lies between."""
        if self.skips(following, is_end=is_end):
            self.current = self.current_since = None
        if self.current is not None and self.current_since is not None:
            self.spans.append(Span(self.current, self.current_since, time, ASSUMED))
            self.current_since = time
        self.last = time

    def skips(self, following: str, *, is_end: bool) -> bool:
        """Whether a stage that engines print lies behind what this rank does and before a
        later one, or the beginning of its loading, and none of its lines is there.

        Ranks above 0 print neither the engine's start nor its cache.
        """
        here = _ORDER.get(self.current or self.last_ended or "import")
        there = _ORDER.get(following)
        if here is None or there is None:
            return False
        shown = {*self.begun, *self.ended} - ({following} if is_end else set())
        if shown & _LOADING:
            shown.add("load_model")
        printed = _PRINTED - shown - (_OF_RANK_0 if self.prints_few_lines else set())
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
        if self.current is None or self.current_since is None:
            return [*self.spans, *self._weights()]
        return [
            *self.spans,
            Span(self.current, self.current_since, end, ASSUMED),
            *self._weights(),
        ]

    def waits_for(self, download: Span) -> bool:
        """Whether this rank waits while another one downloads: it holds the lock of the
        folder (vLLM `model_loader/weight_utils.py`, `download_weights_from_hf`)."""
        at_work = (DOWNLOAD, "load_weights")
        return not any(
            span.start < download.end and download.start < span.end
            for span in self.spans
            if span.name in at_work
        )

    def spans_after(self, main: RankTime, end: float) -> Iterator[Span]:
        """The spans until `end`, of another rank than the main one: the end of its warm-up
        can be its first line since it loaded the model (vLLM `gpu_worker.py`,
        `_maybe_activate_jit_monitor`), and its profiling run is over where the memory is
        divided, which the engine does when all its ranks have measured theirs: the others
        print no line there (`gpu_worker.py determine_available_memory`)."""
        cached = main.ended.get("kv_cache", -math.inf)
        connected = main.ended.get("distributed_init", math.inf)
        measured = math.inf
        if self.divided_at is None and main.divided_at is not None:
            measured = main.divided_at
        for span in self.spans_until(end):
            if span.name == "profile_run" and span.start < measured < span.end:
                yield Span(span.name, span.start, measured, span.strength)
            elif span.name == "distributed_init" and span.strength == ASSUMED:
                # Ranks connect together, and some versions print the end for one alone.
                yield Span(
                    span.name, span.start, min(span.end, connected), span.strength
                )
            elif span.strength == BOUNDED and span.name in _BEHIND_CACHE:
                start = max(span.start, cached)
                yield Span(span.name, start, span.end, span.strength)
            else:
                yield span

    def spans_as_other_rank(self, main: RankTime, end: float) -> Iterator[Span]:
        """The spans of a slower rank, as they explain what is left of the main one's."""
        for span in self.spans_after(main, end):
            if span.name == DOWNLOAD and main.waits_for(span):
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

    def note_time(self, time: float) -> None:
        """An event at `time` that neither begins nor ends a phase."""
        if self.current is None:
            self.last = time

    def take_mark(  # noqa: C901, PLR0912 - a table: one case for each kind
        self, event: Event, time: float
    ) -> None:
        """Begin or end the phase that an event marks."""
        match event:
            case PhaseMarked() if event.name in _NESTED:
                self._nested(event, time)
            case PhaseMarked():
                self.mark(event, time)
            case MemoryMeasured() if event.stage in _STAGES:
                self._stage(event, time)
            case BucketsGenerated():
                self.end("bucket_generation", time, None)
            case CaptureSummary():
                self._end_warmup(event, time)
            case SamplerWarmup() | DefragWarmup() if event.status == "started":
                self.begin(PHASE_OF[type(event)], time)
            case SamplerWarmup() | DefragWarmup() | GraphsCaptured():
                self._ended(event, time)
            case CompileFinished(what="module"):
                # One of several, compiled at the same time or one after the other.
                self.end("compile", time, None)
            case CompileFinished() if event.duration_s is not None:
                self._compiled(event, time, event.duration_s)
            case MemoryBudgetSet() if self._is_profiled(event):
                self.end("profile_run", time, None)
            case KVCacheAllocated() if not (self.is_initialized or self.is_warmed):
                self.divided_at = time if self.divided_at is None else self.divided_at
                self.end(PHASE_OF[KVCacheAllocated], time, None)
            case ServerReady():
                self.end(SERVER_START, time, None)
            case EngineInitialized():
                self.is_initialized = True
                self._loaded(event, time)
                self.begin(SERVER_START, time)
            case WarmupFinished():
                self._warmed(event, time)
            case ConfigRecorded(line=int()) if (
                self.current == "import" and event.settings
            ):
                # A program makes the configuration behind its imports, with no line where it
                # begins; a recorder marks that, and has the command before the imports.
                self.begin("configure", time)
            case ConfigRecorded():
                self.note_time(time)

    def take_step(self, event: WarmupStep | GraphCaptured, time: float) -> None:
        """Steps of one phase are one span while they follow each other.

        A pass that runs buckets and captures them is one phase, whichever of the two a step
        is: that of its mark, as in the log of the same start.
        """
        name = _step_name(event)
        if f"{event.phase}_warmup" in self.marks:
            name = f"{event.phase}_warmup"
        if event.duration_s is None:
            if self.current != name:
                self.begin(name, time)
            return
        end = time + event.duration_s
        last = self.spans[-1] if self.spans else None
        if last is not None and last.name == name and 0 <= time - last.end <= 0.05:
            if end > last.end:
                self.spans[-1] = Span(name, last.start, end, MEASURED)
        else:
            self.begin(name, time)
            self.spans.append(Span(name, time, end, MEASURED))
        self.current = self.current_since = None
        self.last = end

    def take_failure(self, event: Failure, time: float) -> None:
        """What fails in a stage without a first line of its own was in it since the line
        before; the bars of a capture state how long it had run."""
        is_drawn = event.phase is not None and event.phase in (*PHASES, self.bar_phase)
        if event.phase == CAPTURES and CAPTURES not in self.ended:
            self.end(CAPTURES, time, self.captured_s or None)
        elif (
            event.phase in _AFTER_LOADING
            and self.current is None
            and self.last is not None
        ):
            self.end(event.phase, time, None)
        elif is_drawn and self.current is None and self.last is not None:
            self.end(
                f"{event.phase}_warmup", time, None
            )  # a bar has no line with a time
        elif event.failure == "no_kv_cache" and self._runs_profile:
            # Its end is the division of the memory, which is what failed.
            self.end("profile_run", time, None)
        else:
            stage = "kv_cache" if event.failure == "no_kv_cache" else event.phase or ""
            is_loading = self.current == "init_worker" and stage in _LOADING
            if is_loading or self.skips(stage, is_end=False):
                self.current = self.current_since = None
            self.note_time(time)

    @property
    def _runs_profile(self) -> bool:
        """Whether the model is loaded, and no line is there of its profiling run."""
        is_loaded = self.current is None and self.last_ended in (
            "load_model",
            "compile",
        )
        return is_loaded and "profile_run" not in self.ended

    def _warmed(self, event: WarmupFinished, time: float) -> None:
        """The end of the whole warm-up, and of the part of it that only a bar shows: vllm-gaudi
        prints no summary of unified attention (`warmup_unified_graphs`). Its time has one name
        where no line shows its steps."""
        if self.bar_phase not in (None, *PHASES) and self.current is None:
            self.end(f"{self.bar_phase}_warmup", time, None)
        elif event.duration_s is not None and self.current not in _WARMING:
            began = time - event.duration_s
            if not any(s.name in _WARMING and s.end > began for s in self.spans):
                self.spans.append(Span(WARMUP, began, time, BOUNDED))
        self.is_warmed = True
        self.note_time(time)

    def _ended(
        self, event: SamplerWarmup | DefragWarmup | GraphsCaptured, time: float
    ) -> None:
        """The end of a phase of one event. How long a capture took replaces what a line
        before counted as its time: that line is printed when captures end (vLLM
        `custom_all_reduce.py register_graph_buffers`), and none when they begin."""
        name, duration_s = PHASE_OF[type(event)], event.duration_s
        if isinstance(event, GraphsCaptured) and duration_s is not None:
            since = time - duration_s
            while (
                self.spans
                and self.spans[-1].name == name
                and self.spans[-1].end > since
            ):
                self.spans.pop()
        self.end(name, time, duration_s)

    def _is_profiled(self, event: MemoryBudgetSet) -> bool:
        """Whether a budget follows from the profiling run, and not from settings alone: those
        of a CPU state its KV cache."""
        is_measured = (event.kv_cache_bytes, event.activation_bytes) != (None, None)
        is_open = self.current == "profile_run" or "profile_run" not in self.ended
        return is_measured and is_open and self.current != "configure"

    def _compiled(self, event: CompileFinished, time: float, duration_s: float) -> None:
        """A part of a compilation, or its total.

        Before vLLM 0.18 the total is the sum of the parts, which have their own lines, and is
        printed when the last graph has run (`compilation/monitor.py`): no time of its own.
        Between Dynamo and the first graph lies nothing but the rest of the compilation
        (`compilation/backends.py`, `VllmBackend.__call__`), and before the first of a profiling
        run nothing but its encoder (`v1/worker/gpu_model_runner.py profile_run`). A recorder
        reads the total when the warm-up is over, long after the compilation.
        """
        since, self.encoder_since = self.encoder_since, None
        is_over = "profile_run" in self.ended
        if since is not None and not is_over and event.what != "total":
            self.spans.append(Span(ENCODER, since, time - duration_s, BOUNDED))
        traced, self.traced_at = (
            self.traced_at,
            time if event.what == "dynamo" else None,
        )
        if traced is not None and event.what == "graph":
            self.spans.append(Span("compile", traced, time, BOUNDED))
        if event.what == "total" and self.is_warmed:
            self.note_time(time)
            return
        if event.what != "total":
            self.compiled_or_loaded_s += duration_s
            self.compiled_s += 0.0 if event.from_cache else duration_s
        else:
            sums, self.compiled_s, self.compiled_or_loaded_s = (
                (self.compiled_s, self.compiled_or_loaded_s),
                0.0,
                0.0,
            )
            if any(abs(duration_s - known) <= ROUNDED_S for known in sums):
                return
            if (
                self.prints_few_lines
                and not any(sums)
                and self._is_sum(time, duration_s)
            ):
                return self.note_time(time)
        compiled = self.ended.get("compile", -math.inf)
        if event.what == "total_with_profile_run" and time - duration_s <= compiled:
            # Behind the last line of the compilation the model runs (`monitor.py`).
            self.spans.append(Span("compile", time - duration_s, compiled, BOUNDED))
            self.end("profile_run", time, time - compiled)
            return self.begin("profile_run", time)
        self.end("compile", time, duration_s)

    def _is_sum(self, time: float, duration_s: float) -> bool:
        """Whether a total may have been printed long after what it is the sum of, of which
        this rank prints nothing (before vLLM 0.18, where Ray deduplicates lines): what it
        did right before that time is not known."""
        return self.last is None or time - duration_s - self.last > IDLE_S

    def _loaded(self, event: EngineInitialized, time: float) -> None:
        """A model whose end of loading is not printed was there when the engine began to
        initialise itself (vLLM `engine/llm_engine.py`, `__init__`)."""
        weights = self.ended.get("load_weights")
        if weights is None or event.duration_s is None or "load_model" in self.ended:
            return
        self.spans.append(Span("load_model", weights, time - event.duration_s, BOUNDED))

    def _stage(self, event: MemoryMeasured, time: float) -> None:
        """The end of a stage. One that is stated twice in a row without any beginning is of
        another process or of another start, so the time between is not known to be its own.
        """
        name = _STAGES[event.stage]
        is_again = self.measured_stage == event.stage and name not in self.begun
        self.measured_stage = event.stage
        if is_again and event.duration_s is None:
            self.is_repeated = True
            self.ended[name] = time
            self.note_time(time)
            return
        self.end(name, time, event.duration_s)

    def _end_warmup(self, event: CaptureSummary, time: float) -> None:
        """The phase that ends where its summary is printed: what was going on, if it fits.

        vllm-gaudi prints the summary of the prompts before the decode warm-up begins
        (`hpu_model_runner.py`, `warmup_model`), the fork both when all is over: two that come
        together with no step before them are the end of one warm-up. Ranks that no name keeps
        apart print each of them several times.
        """
        warmup = f"{event.phase}_warmup"
        last = self.spans[-1] if self.spans else None
        is_summed = last is not None and last.name in self.summed
        if last is None or not is_summed or time - last.end > TOGETHER_S:
            last = None
        elif last.name in (warmup, WARMUP):
            return
        for suffix in ("graphs", "warmup"):
            name = f"{event.phase}_{suffix}"
            if self.current == name or any(
                span.name == name for span in self.spans[-3:]
            ):
                self.end(name, time, None)
                return
        if last is not None:
            self.spans[-1] = Span(WARMUP, last.start, time, last.strength)
            self.summed.add(WARMUP)
            self.last = time
            return
        self.summed.add(warmup)
        self.end(warmup, time, None)


def _is_rounded(start: float, before: float) -> bool:
    """Whether a time counted back from whole seconds is that of an exact one, which is a
    little later."""
    is_whole = start.is_integer() and not before.is_integer()
    return is_whole and 0 < before - start < 2 * STAMP_S


def is_before(name: str, other: str) -> bool:
    """Whether engines go through a stage before another one."""
    return _ORDER.get(name, math.inf) < _ORDER.get(other, -math.inf)


def _step_name(event: WarmupStep | GraphCaptured) -> str:
    if isinstance(event, GraphCaptured):
        known = event.phase in ("prompt", "decode")
        return f"{event.phase}_graphs" if known else "graph_capture"
    if event.phase == "tokens":
        # A TPU compiles a shape where it first runs (vLLM `v1/worker/tpu_model_runner.py
        # _precompile_backbone`), and states the time of all of them as that of compilation.
        return "compile"
    return f"{event.phase}_{'graphs' if event.mode == 'graph' else 'warmup'}"
