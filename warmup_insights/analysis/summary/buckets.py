"""What became of every bucket: generated, omitted, warmed, captured.

`captured` is what the evidence supports, and unknown without any. Only vllm-fork V0 to 2025-07 prints the list
of buckets that were really captured; a recorder counts captures; everything else that
reads "captured" prints the length of the bucket list (vllm-gaudi
`log_graph_warmup_summary`), which goes to `captured_reported` alone.

A capture may be stated twice, as a step in graph mode and as a capture, in either order:
it is one cost. A bucket may run in another shape than declared (vllm-gaudi
`_check_config`), and several in one; there is one graph for each shape that ran.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import asdict, replace

from warmup_insights.analysis.summary.compilation import mark_spikes, num_reused
from warmup_insights.analysis.summary.ranks import Routes, rank_of
from warmup_insights.model.events import (
    Bucket,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
    CaptureSummary,
    CompileFinished,
    ConfigRecorded,
    Event,
    GraphBudgetSet,
    GraphCaptured,
    GraphSkipped,
    Note,
    PhaseMarked,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.figures import first_known, least_known, sum_known
from warmup_insights.model.summary import (
    PHASES,
    BucketRange,
    BucketRow,
    Miss,
    OtherPhase,
    PhaseBuckets,
    StepCost,
)

MULTIMODAL = "multimodal"
"""The phase whose list may be of something else than what runs: of the patches or batches
that images are made of, or of counts above the limit of a prompt (vllm-gaudi
`warmup_multimodal_graphs`)."""
_PADDED = re.compile(r"\{'num_(tokens|reqs)': (\d{1,9})[,}]")
"""How the shape of a graph begins."""
MAX_BUCKETS = 100_000
"""Buckets of all phases and ranks of which something is kept; engines stop far below."""
MAX_KINDS = 16
"""Kinds of multimodal items that are counted apart; an engine has three or four."""
_OF_A_CAPTURE = ("duration_s", "memory_bytes")
_OF_THE_FIRST = (
    "index", "time", "free_before_bytes", "free_after_bytes", "estimate_bytes",
)  # fmt: skip
_OF_A_STEP = (*_OF_A_CAPTURE, "gc_s", "compiled", "compile_s", "resolution_s")


@dataclass(slots=True)
class _Steps:
    """Executions of one bucket in one way: the first whole, the time of all."""

    first: WarmupStep | GraphCaptured
    position: int
    keys: set[tuple[str | None, int | None]] = field(default_factory=set)
    duration_s: float | None = None
    memory_bytes: int | None = None
    gc_s: float | None = None
    compiled: int | None = None
    compile_s: float | None = None
    resolution_s: float | None = None

    def add(self, event: WarmupStep | GraphCaptured) -> None:
        """Add a cost, unless it is stated again: Ray prints lines of ranks twice."""
        key = (event.mode, event.index)
        if key in self.keys:
            return
        self.keys.add(key)
        for name in _OF_A_STEP if isinstance(event, WarmupStep) else _OF_A_CAPTURE:
            more = getattr(event, name)
            if more is not None:
                setattr(self, name, more + (getattr(self, name) or 0))

    def cost(self, other: _Steps | None = None) -> StepCost:
        """As stated; what is missing is taken from `other`, the same stated otherwise."""
        cost = StepCost(
            position=self.position,
            duration_s=self.duration_s,
            memory_bytes=self.memory_bytes,
            **{name: getattr(self.first, name, None) for name in _OF_THE_FIRST},
        )
        if other is None:
            return cost
        known = {k: v for k, v in asdict(cost).items() if v is not None}
        return replace(other.cost(), **known)


@dataclass(slots=True)
class _Fate:
    """What happened to one bucket of one phase on one rank."""

    warmed: bool = False
    skipped: bool = False
    executed: Bucket | None = None
    runs: _Steps | None = None
    """Steps in eager mode, or in a mode that is not stated."""
    graph_steps: _Steps | None = None
    captures: _Steps | None = None
    is_late: bool = False
    """Its graph was captured while serving, which is no cost of the warm-up."""


@dataclass(slots=True)
class _PhaseFacts:
    """Everything about one phase on one rank."""

    fates: dict[Bucket, _Fate] = field(default_factory=dict)
    generated: int | None = None
    total: int | None = None
    listed: list[Bucket] | None = None
    strategy: str | None = None
    omitted_counted: int | None = None
    omitted_listed: int | None = None
    steps: set[tuple[int | None, Bucket | None]] = field(default_factory=set)
    """Number and bucket of each step that finished, in whatever mode."""
    together_s: float | None = None
    """Of steps whose time is known together alone."""
    declared: dict[int, Bucket] = field(default_factory=dict)
    """Number of a step in graph mode to its bucket."""
    reached_end: bool = False
    has_hole: bool = False
    may_skip: bool = False
    """Whether a number that is not there may be of a bucket that did not run: vllm-gaudi
    passes over lengths above the most tokens of a step (`warmup_graphs`)."""
    runs_last: bool = False
    """Whether the bucket with the last number runs in any case: the smallest one."""
    last_index: int = 0
    summary: CaptureSummary | None = None
    captured: set[Bucket] = field(default_factory=set)
    capture_bytes: int | None = None
    saw_captures: bool = False
    saw_skips: bool = False

    def is_listed(self) -> bool:
        """Whether the list has all that ran, as far as a list was printed."""
        ran = {bucket for _, bucket in self.steps}
        return not ran or (self.listed is not None and ran <= set(self.listed))


class Buckets:
    """Collects the fates of buckets; `phase` gives a section of the summary."""

    def __init__(self) -> None:
        self._facts: dict[tuple[int, str], _PhaseFacts] = defaultdict(_PhaseFacts)
        self.budgets: dict[int, GraphBudgetSet] = {}
        self.gc: dict[int, tuple[float, float]] = {}
        """Rank to seconds in the garbage collector and seconds of the same steps."""
        self._positions: dict[int, int] = {}
        self._dimensions: dict[str, list[str]] = {}
        self.ranges: dict[tuple[str, str], BucketRange] = {}
        """By phase and dimension."""
        self._is_finished = False
        self._num_buckets = 0
        self._is_elided = False
        self._is_ready = False
        self._validated: set[int] = set()
        """Ranks whose validation has a beginning."""
        self._most_tokens: int | None = None
        """Tokens of a step, as they were set."""
        self._modality: dict[int, str] = {}
        """Rank to the first kind of multimodal items that it ran."""
        self._other_kinds: set[str] = set()
        """Phases of the others."""
        self.routes: Routes = {
            WarmupStep: self._stepped,
            GraphCaptured: self._captured,
            CompileFinished: self._compiled,
            BucketsGenerated: self._generated,
            BucketRangesConfigured: self._of_the_run,
            BucketsOmitted: self._of_a_phase,
            GraphSkipped: self._of_a_phase,
            CaptureSummary: self._of_a_phase,
            GraphBudgetSet: self._of_the_run,
            WarmupFinished: self._of_the_run,
            ServerReady: self._of_the_run,
            Note: self._of_the_run,
            PhaseMarked: self._marked,
            ConfigRecorded: self._configured,
        }

    def _configured(self, event: ConfigRecorded) -> None:
        tokens = event.settings.get("max_num_batched_tokens")
        if isinstance(tokens, int):
            self._most_tokens = tokens

    def _generated(self, event: BucketsGenerated) -> None:
        if event.dimensions:
            # Ranges have a name less where a number of the bucket is always the same.
            self._dimensions[event.phase] = event.dimensions
        facts = self._facts[rank_of(event), event.phase]
        # Without patches the sizes that are set run, which another line has.
        is_elsewhere = event.phase == MULTIMODAL and event.count == 0
        facts.generated = None if is_elsewhere else event.count
        facts.strategy = event.strategy or facts.strategy
        if event.buckets or facts.listed is None:
            facts.listed = sorted(set(event.buckets))

    def _phase_of(self, event: WarmupStep) -> str:
        """The phase of a step. Of multimodal items each kind has its own, but the first: they
        may be of one size, and run the same list (vllm-gaudi `warmup_multimodal_graphs`)."""
        if event.modality is None:
            return event.phase
        rank = rank_of(event)
        if self._modality.setdefault(rank, event.modality) == event.modality:
            return event.phase
        phase = f"{event.phase}_{event.modality}"
        if phase not in self._other_kinds and len(self._other_kinds) >= MAX_KINDS:
            return event.phase
        self._other_kinds.add(phase)
        facts, first = self._facts[rank, phase], self._facts[rank, event.phase]
        facts.listed, facts.generated = first.listed, first.generated
        return phase

    def _fate(self, facts: _PhaseFacts, bucket: Bucket) -> _Fate | None:
        """What is kept of a bucket; None where there are too many, as if its line were left
        out."""
        fate = facts.fates.get(bucket)
        if fate is None and self._num_buckets < MAX_BUCKETS:
            self._num_buckets += 1
            fate = facts.fates[bucket] = _Fate()
        self._is_elided |= fate is None
        return fate

    def _of_a_phase(
        self, event: BucketsOmitted | GraphSkipped | CaptureSummary
    ) -> None:
        facts = self._facts[rank_of(event), event.phase]
        match event:
            case GraphSkipped():
                if (fate := self._fate(facts, event.bucket)) is not None:
                    fate.skipped = facts.saw_skips = True
            case CaptureSummary():
                facts.summary = event
                facts.captured.update(event.buckets or ())
            case BucketsOmitted() if event.buckets:
                known = facts.omitted_listed or 0
                facts.omitted_listed = known + len(event.buckets)
            case BucketsOmitted() if event.count is not None:
                facts.omitted_counted = event.count

    def _of_the_run(self, event: Event) -> None:
        match event:
            case BucketRangesConfigured():
                self._dimensions.setdefault(event.phase, list(event.ranges))
                names = event.parameters or ("min", "step", "max")
                for dimension, values in event.ranges.items():
                    self.ranges[event.phase, dimension] = BucketRange(
                        phase=event.phase,
                        dimension=dimension,
                        values=dict(zip(names, values, strict=False)),
                    )
            case GraphBudgetSet():
                self.budgets[rank_of(event)] = event
            case WarmupFinished() if not event.skipped:
                self._is_finished = True
            case ServerReady():
                self._is_ready = True
            case Note() if event.topic == "elided":
                self._is_elided = True

    def _marked(self, event: PhaseMarked) -> None:
        """A validation runs some buckets once more (vllm-gaudi `warmup_model`). Where its
        beginning was cut off, the steps so far are its own, and no part of the warm-up."""
        rank = rank_of(event)
        if event.name != "validation_warmup":
            return
        if event.edge == "start":
            self._validated.add(rank)
        elif rank not in self._validated:
            for phase in PHASES:
                if self._facts[rank, phase].generated is None:
                    del self._facts[rank, phase]

    def _position(self, rank: int) -> int:
        position = self._positions.get(rank, -1) + 1
        self._positions[rank] = position
        return position

    def _position_with(self, other: _Steps | None, rank: int) -> int:
        """The place of the same execution stated otherwise, else the next one."""
        return self._position(rank) if other is None else other.position

    def _stepped(self, event: WarmupStep) -> None:
        rank = rank_of(event)
        facts = self._facts[rank, self._phase_of(event)]
        if event.gc_s is not None and event.duration_s is not None:
            gc_s, steps_s = self.gc.get(rank, (0.0, 0.0))
            self.gc[rank] = gc_s + event.gc_s, steps_s + event.duration_s
        if event.total is not None:
            facts.total = event.total
        if not event.is_finished and event.duration_s is None:
            return  # it only began: the same step follows when it is done
        fate = self._fate(facts, event.bucket) if event.bucket is not None else None
        if fate is not None or event.bucket is None:
            _count_step(facts, event)
        if fate is not None:
            self._ran(event, facts, fate)

    def _compiled(self, event: CompileFinished) -> None:
        """A TPU compiles the model for each number of tokens, and what follows it for each
        number of requests: its buckets (tpu-inference `runner/compilation_manager.py
        _precompile_backbone_helper`, `_precompile_sampling`)."""
        shape = _PADDED.match(event.detail or "")
        if shape is None or event.duration_s is None:
            return
        phase = "tokens" if shape[1] == "tokens" else "requests"
        if phase == "requests" or event.what == "backbone":
            self._stepped(
                WarmupStep(
                    phase=phase, bucket=(int(shape[2]),), duration_s=event.duration_s,
                    mode=f"{event.what} {event.detail}",
                    time=event.time, rank=event.rank, line=event.line,
                )
            )  # fmt: skip

    def _ran(self, event: WarmupStep, facts: _PhaseFacts, fate: _Fate) -> None:
        """A step ran a bucket."""
        rank = rank_of(event)
        if event.group_duration_s is not None:
            facts.together_s = (facts.together_s or 0.0) + event.group_duration_s
        fate.warmed = fate.warmed or event.is_finished
        fate.executed = event.executed or fate.executed
        if event.mode == "graph":
            if event.index is not None and event.bucket is not None:
                facts.declared[event.index] = event.bucket
            if fate.graph_steps is None:
                position = self._position_with(fate.captures, rank)
                fate.graph_steps = _Steps(event, position)
            fate.graph_steps.add(event)
            return
        if fate.runs is None:
            fate.runs = _Steps(event, self._position(rank))
        fate.runs.add(event)

    def _captured(self, event: GraphCaptured) -> None:
        rank = rank_of(event)
        facts = self._facts[rank, event.phase]
        facts.saw_captures = True
        bucket, ran = event.bucket, event.executed or event.bucket
        # A recording of an older version names the shape that ran: the bucket is that
        # of the step with the same number.
        declared = facts.declared.get(event.index) if event.index is not None else None
        if declared is not None and facts.fates[declared].executed == bucket:
            bucket = declared
        fate = self._fate(facts, bucket)
        if fate is None:
            return
        facts.captured.add(ran)
        is_known = event.time is not None and fate.graph_steps is None
        if is_known and fate.runs is not None and fate.runs.first.time == event.time:
            # One execution, whose step states no mode.
            fate.graph_steps, fate.runs = fate.runs, None
        if fate.captures is None:
            position = self._position_with(fate.graph_steps, rank)
            fate.captures = _Steps(event, position)
            fate.is_late = self._is_ready
        fate.captures.add(event)
        facts.capture_bytes = sum_known((facts.capture_bytes, event.memory_bytes))

    def phases(
        self, rows: Sequence[BucketRow], misses: Sequence[Miss]
    ) -> dict[str, PhaseBuckets] | None:
        """The sections of prompt and decode; None when no event mentions either."""
        found = {phase: self._phase(phase, rows, misses) for phase in PHASES}
        return {phase: part for phase, part in found.items() if part} or None

    def _phase(
        self, phase: str, rows: Sequence[BucketRow], misses: Sequence[Miss]
    ) -> PhaseBuckets | None:
        facts = self._by_rank(phase)
        missed = sum(1 for miss in misses if miss.phase == phase)
        budget = first_known(
            *(
                getattr(budget, f"{phase}_bytes")
                for _, budget in sorted(self.budgets.items())
            )
        )
        if not facts and not missed and budget is None:
            return None
        generated = least_known(
            first_known(of_rank.generated, of_rank.total) for of_rank in facts
        )
        captured_lists = [c for c in map(_captured_buckets, facts) if c is not None]
        captured = least_known(len(buckets) for buckets in captured_lists)
        fewest = min(captured_lists, key=len) if captured_lists else None
        first = facts[0] if facts else _PhaseFacts()
        phase_rows = [row for row in rows if row.phase == phase]
        warmed = self._warmed(facts)
        return PhaseBuckets(
            generated=generated,
            omitted=least_known(
                first_known(item.omitted_counted, item.omitted_listed) for item in facts
            ),
            warmed=warmed,
            captured=captured,
            captured_reported=least_known(
                item.summary.captured_reported if item.summary else None
                for item in facts
            ),
            capture_percent=_percent(captured, generated, first.summary),
            graph_budget_bytes=budget,
            graph_used_bytes=first_known(
                first.summary and first.summary.used_bytes, first.capture_bytes
            ),
            buckets=first.listed or [],
            captured_buckets=None if fewest is None else sorted(fewest),
            missed=missed,
            strategy=first.strategy,
            dimensions=self._dimensions.get(phase, []),
            steps_s=_steps_s(
                first.together_s,
                phase_rows,
                first_known(warmed, generated),
                first.has_hole,
            ),
            gc_s=sum_known(row.gc_s for row in phase_rows),
            compiled=sum_known(row.compiled for row in phase_rows),
            compile_s=sum_known(row.compile_s for row in phase_rows),
            reused=num_reused(phase_rows),
            spikes=sum_known(row.is_spike for row in phase_rows),
            spikes_s=sum_known(row.spike_s for row in phase_rows),
        )

    def _by_rank(self, phase: str) -> list[_PhaseFacts]:
        """What each rank has of a phase, the lowest rank first of those that name buckets:
        bars without a rank beside lines of ranks name none."""
        found = [self._facts[key] for key in sorted(self._facts) if key[1] == phase]
        return sorted(found, key=lambda of_rank: not (of_rank.fates or of_rank.listed))

    def _warmed(self, ranks: Sequence[_PhaseFacts]) -> int | None:
        """Buckets that ran in the rank with the fewest; unknown where the fewest known are
        those of a rank of another engine, whose list is longer (data parallel engines have
        KV caches of their own)."""
        counts = [
            (self._warmed_count(facts), first_known(facts.generated, facts.total))
            for facts in ranks
        ]
        warmed = least_known(count for count, _ in counts)
        fewest = least_known(listed for _, listed in counts)
        is_beyond = None not in (warmed, fewest) and warmed > fewest
        fit_own = all(None in pair or pair[0] <= pair[1] for pair in counts)
        return None if is_beyond and fit_own else warmed

    def _warmed_count(self, facts: _PhaseFacts) -> int | None:
        """Distinct buckets that ran; unknown when lines were cut out between them."""
        if not facts.steps:
            return None
        buckets = {bucket for _, bucket in facts.steps if bucket is not None}
        named = {index for index, bucket in facts.steps if bucket is not None}
        unnamed = {index for index, bucket in facts.steps if bucket is None} - named
        seen = len(buckets) + len(unnamed)
        # A warm-up that is over went on to its last bucket.
        is_over = facts.reached_end or self._is_finished
        has_end = facts.reached_end or not facts.runs_last
        if not (facts.has_hole or self._is_elided or (is_over and not has_end)):
            return seen
        if not is_over:
            return None
        if (run := self._that_run(facts)) is not None:
            return len(run)
        return facts.total if self._is_elided or not facts.may_skip else None

    def _that_run(self, facts: _PhaseFacts) -> set[Bucket] | None:
        """The buckets of a whole list that a warm-up runs, which passes over those that are
        longer than a step may be; None where a list or that limit is unknown."""
        listed = facts.listed or []
        passes_over = facts.may_skip and facts.runs_last
        if not passes_over or self._most_tokens is None or len(listed) != facts.total:
            return None
        if any(len(bucket) != 3 for bucket in listed):
            return None
        return {bucket for bucket in listed if bucket[1] <= self._most_tokens}

    def other_phases(self) -> dict[str, OtherPhase]:
        """Generated and warmed of the rarer kinds: multimodal, unified, pooler, ..."""
        names = sorted({phase for _, phase in self._facts} - set(PHASES))
        result = {}
        for name in names:
            facts = self._by_rank(name)
            result[name] = OtherPhase(
                generated=least_known(
                    first_known(of_rank.generated, of_rank.total)
                    for of_rank in facts
                    if not _is_multimodal(name) or of_rank.is_listed()
                ),
                warmed=self._warmed(facts),
            )
        kinds = [result.pop(name) for name in names if _is_multimodal(name)]
        if kinds:
            result[MULTIMODAL] = OtherPhase(
                generated=_all_known(each.generated for each in kinds),
                warmed=_all_known(each.warmed for each in kinds),
            )
        return result

    def rows(self, misses: Sequence[Miss]) -> list[BucketRow]:
        """One row per phase and bucket, as the lowest rank with that phase has it."""
        missed = {(miss.phase, miss.shape): miss.count for miss in misses}
        rows = []
        for phase in sorted({p for _, p in self._facts} | {p for p, _ in missed}):
            ranks = self._by_rank(phase)
            facts = ranks[0] if ranks else _PhaseFacts()
            is_listed = not _is_multimodal(phase) or facts.is_listed()
            listed = set(facts.listed or ()) if is_listed else set()
            warmed = self._warmed(ranks)
            that_run = self._that_run(facts)
            is_some = is_listed and that_run is not None and warmed == len(that_run)
            ran = listed if warmed == len(listed) else set()
            ran = that_run if that_run is not None and is_some else ran
            shapes = {shape for name, shape in missed if name == phase}
            captured = _captured_buckets(facts)
            rows += [
                _row(phase, bucket, facts, captured, bucket in listed, bucket in ran,
                     missed.get((phase, bucket), 0))
                for bucket in sorted({*facts.fates, *facts.captured, *listed, *shapes})
            ]  # fmt: skip
        return mark_spikes(rows)


def _is_multimodal(phase: str) -> bool:
    return phase.startswith(MULTIMODAL)


def _all_known(counts: Iterable[int | None]) -> int | None:
    """What counts add up to; None with an unknown one."""
    known = list(counts)
    return None if None in known else sum_known(known)


def _count_step(facts: _PhaseFacts, event: WarmupStep) -> None:
    index, mode = event.index, event.mode
    if index is not None and mode == "graph":
        # What has no room is left out, but of buckets that ran before.
        facts.has_hole = facts.has_hole or (index > 1 and not facts.steps)
    elif index is not None:
        if index not in (facts.last_index, facts.last_index + 1, 1):
            facts.has_hole = True
        facts.may_skip = facts.may_skip or mode is None
        facts.runs_last = event.phase in PHASES
    facts.last_index = index or facts.last_index
    if index == event.total:
        facts.reached_end = True
    if event.is_finished:
        facts.steps.add((index, event.bucket))


def _captured_buckets(facts: _PhaseFacts) -> set[Bucket] | None:
    """Buckets with evidence of a capture; None when there is no evidence either way."""
    is_listed = facts.summary is not None and facts.summary.buckets is not None
    skipped = {bucket for bucket, fate in facts.fates.items() if fate.skipped}
    # Those that ran or are listed; without either, others may have got a graph.
    all_ = facts.listed or (facts.fates if facts.steps else None)
    got_none = bool(skipped) and all_ is not None and skipped.issuperset(all_)
    return facts.captured if is_listed or facts.saw_captures or got_none else None


def _percent(
    captured: int | None, generated: int | None, summary: CaptureSummary | None
) -> float | None:
    if captured is None:
        return None
    if generated:
        return round(100.0 * captured / generated, 4)
    return summary.percent_reported if summary is not None else None


def _row(
    phase: str, bucket: Bucket, facts: _PhaseFacts, captured_ones: set[Bucket] | None,
    is_listed: bool, ran: bool, missed: int,
) -> BucketRow:  # fmt: skip
    """`captured_ones` are those of `_captured_buckets`; `ran`: all that are listed did."""
    fate = facts.fates.get(bucket) or _Fate()
    warmed = fate.warmed or ran
    runs, capture = fate.runs, None
    if fate.captures is not None:
        capture = fate.captures.cost(fate.graph_steps)
    elif fate.graph_steps is not None and not facts.saw_captures:
        # A log states captures as steps alone.
        capture = fate.graph_steps.cost()
    elif fate.graph_steps is not None:
        # Captures are stated apart and this bucket has none: it ran, in another's graph.
        runs = runs or fate.graph_steps
    run = runs.cost() if runs is not None else None
    at_start = (run, None if fate.is_late else capture)
    costs = [cost for cost in at_start if cost is not None]
    steps = [steps for steps in (fate.runs, fate.graph_steps) if steps is not None]
    captured, skipped = _graph_fate(bucket, fate, facts, captured_ones)
    differs = fate.executed is not None and fate.executed != bucket
    states = (
        ("missed", missed), ("executed_differently", differs), ("captured", captured),
        ("skipped", skipped), ("warmed", warmed), ("generated", True),
    )  # fmt: skip
    return BucketRow(
        phase=phase,
        bucket=bucket,
        generated=is_listed,
        warmed=warmed,
        captured=captured,
        skipped=skipped,
        missed=missed,
        duration_s=sum_known(cost.duration_s for cost in costs),
        resolution_s=sum_known(step.resolution_s for step in steps),
        memory_bytes=sum_known(cost.memory_bytes for cost in costs),
        executed=fate.executed,
        state=next(word for word, holds in states if holds),
        gc_s=sum_known(step.gc_s for step in steps),
        compiled=sum_known(step.compiled for step in steps),
        compile_s=sum_known(step.compile_s for step in steps),
        run=run,
        capture=capture,
    )


def _graph_fate(
    bucket: Bucket, fate: _Fate, facts: _PhaseFacts, captured_ones: set[Bucket] | None
) -> tuple[bool | None, bool | None]:
    """Whether the bucket has a graph, and whether it was a candidate and got none."""
    if bucket in facts.captured:
        return True, False
    if fate.skipped:
        return False, True
    captured = None if captured_ones is None else False
    return captured, False if facts.saw_skips or facts.saw_captures else None


def _steps_s(
    together_s: float | None,
    rows: Sequence[BucketRow],
    count: int | None,
    has_hole: bool,
) -> float | None:
    """Seconds of so many steps; None where more than the last one has no time."""
    timed = [row.duration_s for row in rows if row.duration_s is not None]
    num_known = len(timed) + (not has_hole)
    is_short = together_s is None and num_known < (count or 0)
    if is_short or (has_hole and together_s is not None):
        return None
    known: float | None = sum_known((together_s, *timed))
    return known
