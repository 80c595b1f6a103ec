"""Warm-up steps and stages: what begins in one line and ends in another, or in none.

vllm-gaudi and vllm-fork print the line of a bucket before it runs
(`hpu_model_runner.py`, `log_warmup`).
"""

from __future__ import annotations

from parsers.engine.pending import PendingStep, RankState
from parsers.engine.signals import Origin, StepLine
from warmup_insights.model.events import (
    CompileFinished,
    EngineInitialized,
    Event,
    GraphsCaptured,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    ServerReady,
    WarmupStep,
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
    duration = step.bar_s
    if duration is None and is_next and is_finished and end is not None:
        duration = _between(origin.time, end.time)
    free_after = following.free_bytes if following and is_next else None
    return [
        WarmupStep(
            phase=made.phase, mode=made.mode, bucket=made.bucket, index=made.index,
            total=made.total, duration_s=duration,
            resolution_s=_resolution(step, end),
            free_before_bytes=made.free_bytes,
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


def _resolution(step: PendingStep, end: Origin | None) -> float | None:
    """How far the time of a step can be off, where its two timestamps are not alike.

    One of whole seconds beside one with a fraction can be off by a second.
    """
    if step.bar_s is not None or end is None:
        return step.bar_error_s if step.bar_s is not None else None
    stamps = (step.origin.time, end.time)
    fine = [stamp % 1.0 != 0.0 for stamp in stamps if stamp is not None]
    return 1.0 if len(set(fine)) > 1 else None


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


_WIDE_STAGES = frozenset({"import", "configure", "start_workers", "start_engine"})
"""Stages with no line at their end: what fails in them is anything at all."""


def follow_stage(state: RankState, event: Event) -> None:
    """Keep the stage that has begun and not ended."""
    match event:
        case PhaseMarked(edge="start"):
            state.stage = None if event.name in _WIDE_STAGES else event.name
        case PhaseMarked() if event.name == state.stage:
            state.stage = None
        case MemoryMeasured(stage="weights") | MemoryBudgetSet() | GraphsCaptured():
            state.stage = None
        case CompileFinished(what="total") | EngineInitialized() | ServerReady():
            state.stage = None


def end_kernel_warmup(state: RankState, event: Event, rank: int | None) -> list[Event]:
    """The end of kernel warm-ups that print none: where the capture of graphs began.

    vLLM `gpu_worker.py compile_or_warm_up_model` runs one after the other.
    """
    if isinstance(event, PhaseMarked) and event.name == "kernel_warmup":
        state.is_warming_kernels = event.edge == "start"
        return []
    if not state.is_warming_kernels:
        return []
    if isinstance(event, GraphsCaptured):
        seconds = event.duration_s or 0.0
    elif isinstance(event, EngineInitialized):
        seconds = 0.0
    else:
        return []
    state.is_warming_kernels = False
    if event.time is None:
        return []
    return [
        PhaseMarked(
            name="kernel_warmup", edge="end", time=event.time - seconds,
            rank=rank, line=event.line,
        )
    ]  # fmt: skip
