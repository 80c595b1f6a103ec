"""Sampler, defragmenter, CUDA graphs, garbage collection, benchmarks, checkpoint of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from warmup_insights.analysis.summary.ranks import (
    KeptEvents,
    copied,
    leading,
    of_lowest,
)
from warmup_insights.model.events import (
    BenchmarkResult,
    Bucket,
    CaptureProgress,
    DefragRan,
    DefragStep,
    DefragWarmup,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    LazyCapture,
    MemoryBudgetSet,
    Note,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    WarmupFinished,
)
from warmup_insights.model.figures import first_known, number
from warmup_insights.model.summary import (
    PHASES,
    CaptureBar,
    CaptureFacts,
    CheckpointFacts,
    DefragFacts,
    DefragRunFacts,
    DefragStepFacts,
    GcFacts,
    GraphFacts,
    LazyCaptureFacts,
    SamplerConfigFacts,
    SamplerFacts,
    SamplerStepFacts,
)

_ORDER = {"completed": 3, "skipped": 2, "started": 1}


def _stage(
    marks: Sequence[SamplerWarmup | DefragWarmup],
) -> tuple[str | None, float | None]:
    """The furthest status of a stage, and how long it took as it states or marks it."""
    known = [m.duration_s for m in marks if m.duration_s is not None]
    times: dict[str, float] = {}
    for mark in marks:
        if mark.time is not None and (mark.status == "started" or times):
            times.setdefault(mark.status, mark.time)
    if not known and {"started", "completed"} <= times.keys():
        known = [times["completed"] - times["started"]]
    statuses = [mark.status for mark in reversed(marks)]
    status = max(statuses, key=lambda status: _ORDER.get(status, 0), default=None)
    return status, known[-1] if known else None


def sampler(kept: KeptEvents) -> SamplerFacts | None:
    """What the sampler warm-up covered; None when no event mentions it."""
    marks, steps = kept.of(SamplerWarmup), kept.of(SamplerStep)
    settings = [*kept.of(SamplerConfig), *steps]
    if not marks and not settings:
        return None
    status, duration_s = _stage(marks)
    distinct = dict.fromkeys(copied(event, SamplerConfigFacts) for event in settings)
    return SamplerFacts(
        status=status or "started",
        batch_sizes=kept.last(SamplerWarmup, "batch_sizes"),
        configs=len(distinct) or None,
        duration_s=duration_s,
        steps=[copied(step, SamplerStepFacts) for step in steps],
        configurations=list(distinct),
    )


def defrag(kept: KeptEvents) -> DefragFacts | None:
    """What the defragmenter did at warm-up and while serving; None without an event."""
    marks, steps = kept.of(DefragWarmup), kept.of(DefragStep)
    runs = kept.of(DefragRan)
    if not marks and not steps and not runs:
        return None
    status, duration_s = _stage(marks)
    return DefragFacts(
        status=status,
        thresholds=kept.last(DefragWarmup, "thresholds"),
        duration_s=duration_s,
        reason=kept.last(DefragWarmup, "reason"),
        steps=[copied(step, DefragStepFacts) for step in steps],
        runs=[copied(run, DefragRunFacts) for run in runs],
    )


_BOTH_MODES = re.compile(
    r"cudagraph_mode['\"]?[:=] ?(?:<CUDAGraphMode\.FULL_AND_PIECEWISE|\[2, ?1\])"
)


def _modes(kept: KeptEvents, config: Mapping[str, object]) -> Sequence[str]:
    """Kinds of graphs that are captured, each with a bar of its own (vLLM
    `v1/cudagraph_dispatcher.py get_capture_descs`): as the engine lists them, else by its
    settings where no line changes them. Where neither is there, `PIECEWISE` comes first."""
    listed: Sequence[str] | None = kept.last(GraphMemoryEstimated, "modes")
    if listed is not None:
        return [mode for mode in listed if mode in ("PIECEWISE", "FULL")]
    settings = config.get("compilation_config")
    notes = (note.text for note in kept.all(Note) if note.topic == "cuda_graphs")
    is_changed = any("cudagraph" in text.lower() for text in notes)
    if settings is None and "dtype" not in config and not is_changed:
        return ["PIECEWISE"]  # the engine's configuration is not in the log
    is_both = _BOTH_MODES.search(str(settings)) is not None and not is_changed
    return ["PIECEWISE", "FULL"] if is_both else []


def _are_known(
    bars: Mapping[str, CaptureProgress], modes: Sequence[str], *, is_over: bool
) -> bool:
    """Whether the bars show how many graphs there are: one of each kind that is captured,
    full where the start-up is over, where any names its kind."""
    is_named = any("FULL" in mode or "PIECEWISE" in mode for mode in bars)
    begun = modes if is_over else modes[:1]
    are_there = all(any(kind in mode for mode in bars) for kind in begun)
    are_full = all(bar.captured >= bar.total for bar in bars.values())
    return (are_there or not is_named) and (are_full or not is_over)


def graphs(
    kept: KeptEvents, config: Mapping[str, object], *, is_over: bool
) -> GraphFacts | None:
    """CUDA graph captures, at start and while serving; None when no event mentions any.

    Once the start-up is over, the last states of a bar that is not full are not in the
    log, and of a kind of graphs without a bar it is unknown how many there are.
    """
    bars: dict[str, CaptureProgress] = {}
    for bar in kept.of(CaptureProgress):
        if bar.mode not in bars or bar.captured >= bars[bar.mode].captured:
            bars[bar.mode] = bar
    single: dict[tuple[str | None, Bucket], CaptureFacts] = {}
    for event in kept.of(GraphCaptured):
        if event.phase not in PHASES:
            key = (event.mode, event.bucket)
            single.setdefault(key, copied(event, CaptureFacts))
    done = next(iter(kept.of(GraphsCaptured)), None)
    is_over = is_over or done is not None
    estimated = kept.last(GraphMemoryEstimated, "estimated_bytes")
    taken = kept.last(GraphMemoryEstimated, "actual_bytes")
    if taken is None:
        taken = kept.last(MemoryBudgetSet, "graph_bytes")
    lazy = kept.of(LazyCapture)
    if not any((bars, single, done, estimated, taken, lazy)):
        return None
    done = done or GraphsCaptured()
    if done.memory_bytes is not None:
        taken = done.memory_bytes
    captured = len(single) or None
    if done.count is not None:
        captured = done.count
    elif bars and _are_known(bars, _modes(kept, config), is_over=is_over):
        captured = sum(bar.captured for bar in bars.values())
    return GraphFacts(
        captured=captured,
        duration_s=done.duration_s,
        memory_bytes=taken,
        estimated_bytes=estimated,
        is_reserved=kept.last(GraphMemoryEstimated, "is_reserved"),
        utilization_without=kept.last(GraphMemoryEstimated, "utilization_without"),
        lazy=[copied(event, LazyCaptureFacts) for event in lazy],
        captures=list(single.values()),
        bars=[copied(bar, CaptureBar) for bar in bars.values()],
    )


def garbage_collection(
    steps: Mapping[int, tuple[float, float]], kept: KeptEvents
) -> GcFacts | None:
    """The share of the garbage collector in the bucket steps, and whether it was frozen;
    None when nothing is known of it.

    `steps` has seconds in the garbage collector and seconds of the same steps, by rank.
    """
    seconds, steps_s = leading(steps) or (None, None)
    warmup_s = kept.last(WarmupFinished, "gc_s")
    frozen = [number(values.get("duration_s")) for values in kept.values("gc_freeze")]
    if seconds is None and warmup_s is None and not frozen:
        return None
    return GcFacts(
        seconds=seconds,
        share=min(1.0, seconds / steps_s) if seconds is not None and steps_s else None,
        steps_s=steps_s,
        warmup_s=warmup_s,
        frozen=bool(frozen),
        freeze_s=first_known(*frozen),
    )


def benchmarks(kept: KeptEvents) -> list[dict[str, Any]]:
    """The results; equal to the last digit is the same one, pasted once more."""
    results = [event.values for event in kept.of(BenchmarkResult)]
    return list({msgspec.json.encode(result): result for result in results}.values())


def checkpoint(kept: KeptEvents) -> CheckpointFacts | None:
    """The checkpoints that the leading rank states; memory as before the first.

    One of the same size again is the same files: a draft model that is part of them.
    """
    notes = [note for note in kept.all(Note) if note.topic == "checkpoint"]
    sized = [note for note in notes if isinstance(note.values.get("size_bytes"), int)]
    read = [note.values for note in of_lowest(sized)]
    if not read:
        return None
    return CheckpointFacts(
        size_bytes=sum({values["size_bytes"] for values in read}),
        available_bytes=read[0].get("available_bytes"),
        filesystem=read[0].get("filesystem"),
    )
