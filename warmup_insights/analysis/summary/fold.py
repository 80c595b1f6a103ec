"""The fold: events of one run, in order, become its summary and its bucket rows.

It does not matter whether a recorder or a log gave the events, and there is a
result at any time: the summary of a beginning is the progress of a start-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from warmup_insights.analysis.summary import compilation, serving, stages
from warmup_insights.analysis.summary.buckets import Buckets
from warmup_insights.analysis.summary.compilation import OF_BUILD, Recipes
from warmup_insights.analysis.summary.identity import Identity, ProgressFold
from warmup_insights.analysis.summary.laws import contradictions
from warmup_insights.analysis.summary.memory import Memory
from warmup_insights.analysis.summary.ranks import KeptEvents, copied, leading
from warmup_insights.analysis.summary.serving import ServingFold
from warmup_insights.analysis.summary.timeline import Timeline
from warmup_insights.model.events import (
    BenchmarkResult,
    CaptureProgress,
    CaptureSummary,
    DefragRan,
    DefragStep,
    DefragWarmup,
    Event,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PodSeen,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import (
    FOLD,
    AutotuneFacts,
    BucketRow,
    DeviceName,
    EngineName,
    NoteFacts,
    PodFacts,
    Progress,
    RunSummary,
    SourceName,
    Times,
    UsageFacts,
)

# Kinds that only a process with a device prints: each number on them is a rank.
_RANK_EVENTS = (WarmupStep, MemoryMeasured, CaptureSummary, GraphsCaptured, CaptureProgress,
                SamplerWarmup, DefragWarmup, GraphMemoryEstimated)  # fmt: skip
_KEPT = (BenchmarkResult, CaptureProgress, DefragRan, DefragStep, DefragWarmup, GraphCaptured,
         GraphMemoryEstimated, GraphsCaptured, LazyCapture, MemoryBudgetSet, Note, PodSeen,
         SamplerConfig, SamplerStep, SamplerWarmup, WarmupFinished)  # fmt: skip
"""What `stages` and the summary itself are made of as it is."""
MAX_NOTES = 100
LONGEST_IMPORT_S = 600.0
"""What prints for longer, and of vLLM only that it was imported, starts no engine."""
_PARALLEL = ("tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size")


@dataclass(frozen=True)
class Folded:
    """What the fold gives: the summary of a run and a row for each bucket."""

    summary: RunSummary
    rows: list[BucketRow]


class RunFold:
    """Takes the events of one run in order; `result` gives the summary so far."""

    def __init__(self) -> None:
        self._identity = Identity()
        self._timeline = Timeline()
        self._progress = ProgressFold()
        self._memory = Memory()
        self._buckets = Buckets()
        self._serving = ServingFold()
        self._built = KeptEvents(OF_BUILD, until=ServerReady)
        self._recipes = Recipes()
        self._notes: dict[tuple[str, str], int] = {}
        self._kept = KeptEvents(_KEPT)
        self._ranks: set[int | None] = set()
        self._routes: dict[type[Event], tuple[Callable[[Any], None], ...]] = {}

    def add_all(self, events: Iterable[Event]) -> None:
        """Take events, in the order of the run."""
        routes, ranks = self._routes, self._ranks
        for event in events:
            kind = type(event)
            if kind not in routes:
                routes[kind] = tuple(self._routes_for(kind))
            for take in routes[kind]:
                take(event)
            rank = event.rank
            if rank not in ranks and (rank is not None or kind in _RANK_EVENTS):
                ranks.add(rank)

    def _routes_for(self, kind: type[Event]) -> Iterator[Callable[[Any], None]]:
        """What takes the events of one class."""
        yield self._timeline.add
        yield self._serving.seen if kind in serving.KINDS else self._progress.add
        for section in (
            self._serving, self._buckets, self._identity, self._memory,
            self._built, self._recipes, self._kept,
        ):  # fmt: skip
            if kind in section.routes:
                yield section.routes[kind]
        if kind is Note:
            yield self._noted

    def _noted(self, event: Note) -> None:
        """Count a note: how often each of the distinct ones came."""
        key = (event.topic, event.text)
        if key in self._notes or len(self._notes) < MAX_NOTES:
            self._notes[key] = self._notes.get(key, 0) + event.count

    def _num_ranks(
        self, status: str, config: Mapping[str, Any], *, is_recorded: bool
    ) -> int | None:
        """As stated, else as many as have events, else the one of a known engine; None
        without these, when the first of several has, and where a start with several, or
        one whose settings were not recorded, failed before any of them."""
        stated = self._identity.num_ranks
        seen = len({rank or 0 for rank in self._ranks})
        if stated is not None:
            return stated or None
        is_early = status == "failed" and not self._ranks
        is_unstated = is_recorded and not any(name in config for name in _PARALLEL)
        if is_early and (
            is_unstated or any(config.get(name, 1) != 1 for name in _PARALLEL)
        ):
            return None
        return seen or (1 if self._identity.engine is not None else None)

    def result(self, run: RunRecord) -> Folded:
        """The summary and the rows of the events so far."""
        is_recorded = run.source_kind == "recorder"
        identity, progress, kept = self._identity, self._progress.result(), self._kept
        status = identity.status(is_recorded=is_recorded)
        config = identity.config()
        graphs = stages.graphs(kept, config, is_over=status == "finished")
        ranks = self._num_ranks(status, config, is_recorded=is_recorded)
        size = _ranks_of_one(config, ranks)
        misses = self._serving.misses(size)
        rows = self._buckets.rows(misses)
        if is_recorded:
            # A recorder's times are UTC; only logs leave the zone open.
            self._timeline.timezone = "UTC"
        # Its workers measure what is in use (tpu-inference `worker/tpu_worker.py`).
        self._timeline.has_profile_run = identity.engine != "tpu-inference"
        section = self._memory.result(
            config,
            identity.engine,
            is_log=not is_recorded,
            graph_budget=leading(self._buckets.budgets),
            graphs=graphs,
        )
        others = self._buckets.other_phases()
        shapes = [values["shape"] for values in kept.values("profile_run", "shape")]
        benchmarks, time = stages.benchmarks(kept), self._timeline.result()
        # A client of a benchmark, or a trainer whose engines are in processes of their own.
        is_other = bool(benchmarks) or (time.wall_s or 0.0) > LONGEST_IMPORT_S
        # Its processes pass messages, behind their imports (`shm_broadcast.py acquire_read`).
        is_other |= any(topic == "keep_alive" for topic, _ in self._notes)
        is_client = status == "unknown" and (
            (is_other and self._timeline.is_import)
            or (bool(benchmarks) and self._timeline.is_configuration)
        )
        pods = kept.of(PodSeen)
        pod = copied(pods[-1], PodFacts) if pods else None
        compiled = compilation.compiled(self._built)
        summary = RunSummary(
            run_id=run.run_id,
            label=run.label,
            source=SourceName(kind=run.source_kind, name=run.source_name),
            engine=EngineName(
                name=identity.engine,
                version=identity.version or identity.beside.version,
            ),
            device=DeviceName(
                kind=identity.device_kind,
                name=identity.device_name,
                total_bytes=section.total_bytes if section else None,
            ),
            synthetic=identity.synthetic or run.synthetic,
            model=identity.model,
            ranks=ranks,
            config=config,
            arguments=identity.arguments,
            status=status,
            failure=identity.failure(self._progress),
            stop=identity.stop,
            start=compilation.start(
                self._built,
                compiled,
                config,
                identity.device_kind,
                is_skipped=status == "skipped",
                is_woken=self._serving.begins_awake,
                is_restored=pod is not None and pod.is_restored,
            ),
            time=Times() if is_client else time,
            memory=section,
            buckets=self._buckets.phases(rows, misses),
            bucket_ranges=list(self._buckets.ranges.values()),
            multimodal=others.pop("multimodal", None),
            other_phases=others,
            sampler=stages.sampler(kept),
            defrag=stages.defrag(kept),
            graphs=graphs,
            misses=misses,
            benchmarks=benchmarks,
            notes=[
                NoteFacts(topic=topic, text=text, count=count)
                for (topic, text), count in self._notes.items()
            ],
            gc=stages.garbage_collection(self._buckets.gc, kept),
            compile=compiled,
            recipes=leading(self._recipes.by_rank),
            checkpoint=stages.checkpoint(kept),
            autotune=next(iter(kept.stated("autotune", AutotuneFacts)), None),
            usage=next(reversed(kept.stated("usage", UsageFacts)), None),
            pod=pod,
            profile_shape=tuple(shapes[-1]) if shapes else None,
            defaults=identity.defaults(),
            serving=self._serving.result(
                self._timeline.ready_at, identity.serving_end, identity.ended_at, size
            ),
            progress=Progress() if is_client else progress,
            guessed=[
                n for n in identity.guessed() if n != "ranks" or ranks is not None
            ],
            lines={**self._memory.lines(), **self._timeline.lines},
            fold=FOLD,
        )
        main = leading(self._timeline.by_rank)
        found = contradictions(summary, rows, main.stated if main else [])
        return Folded(msgspec.structs.replace(summary, contradictions=found), rows)


def summarize(run: RunRecord, events: Iterable[Event]) -> Folded:
    """The summary and the rows of a run from its events, in one pass."""
    fold = RunFold()
    fold.add_all(events)
    return fold.result(run)


def _ranks_of_one(config: Mapping[str, Any], ranks: int | None) -> int | None:
    """How many ranks each data parallel engine of a server has; None where there is one
    engine, or a server for each."""
    count = config.get("data_parallel_size")
    if not isinstance(count, int) or count < 2 or not ranks or ranks % count:
        return None
    return None if config.get("data_parallel_rank") is not None else ranks // count
