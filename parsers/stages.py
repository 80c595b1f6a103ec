"""Stages of a start-up that begin in one line and end in another, or in none."""

from __future__ import annotations

from parsers.pending import RankState
from warmup_insights.model.events import (
    CompileFinished,
    EngineInitialized,
    Event,
    GraphsCaptured,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    ServerReady,
)

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
