"""The GPU worker of vLLM V1: memory, KV cache, warm-up.

Source: vLLM `v1/worker/gpu_worker.py`; the same calls exist for both model runners.
"""

from __future__ import annotations

from typing import Any

from warmup_insights.model.events import (
    CompileFinished,
    ConfigRecorded,
    GraphMemoryEstimated,
    MemoryBudgetSet,
    MemoryMeasured,
    WarmupFinished,
)
from warmup_insights.vllm_plugin import device
from warmup_insights.vllm_plugin.calls import Call, Watch, bytes_of
from warmup_insights.vllm_plugin.engine_core import note_blocks, note_start
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Capturing


def worker_device(session: Session, call: Call) -> Watch:
    """`Worker.init_device`: what device it is, and what is free before loading."""
    yield from session.watch_phase("init_device")
    free, total = device.free_and_total()
    session.state.total_bytes = total
    if device.kind() is not None:
        session.emit(
            ConfigRecorded, device_kind=device.kind(), device_name=device.name()
        )
    note_start(session, free, total)


def load_model(session: Session, call: Call) -> Watch:
    """`Worker.load_model`; the runner holds what the weights took."""
    _, duration = yield from session.watch_phase("load_model")
    runner = getattr(call.owner, "model_runner", None)
    session.emit(
        MemoryMeasured,
        stage="weights",
        delta_bytes=bytes_of(runner, "model_memory_usage"),
        duration_s=duration,
    )


def profile_run(session: Session, call: Call) -> Watch:
    """`profile_run` of a model runner; compiles, where the model is compiled."""
    if session.state.is_compiling_run:
        return
    yield from session.watch_phase("profile_run")


def determine_memory(session: Session, call: Call) -> Watch:
    """`Worker.determine_available_memory`: the worker keeps what it measured."""
    outcome = yield
    session.note_failure(outcome, phase="profile_run")
    if outcome.error is None:
        _note_budget(session, call.owner, outcome.result)


def _note_budget(session: Session, worker: Any, result: Any) -> None:
    snapshot = getattr(worker, "init_snapshot", None)
    cache_config = getattr(worker, "cache_config", None)
    session.emit(
        MemoryBudgetSet,
        total_bytes=bytes_of(snapshot, "total_memory"),
        free_bytes=bytes_of(snapshot, "free_memory"),
        usable_bytes=bytes_of(worker, "requested_memory"),
        gpu_memory_utilization=getattr(cache_config, "gpu_memory_utilization", None),
        weights_bytes=bytes_of(
            getattr(worker, "model_runner", None), "model_memory_usage"
        ),
        activation_bytes=bytes_of(worker, "peak_activation_memory"),
        non_torch_bytes=bytes_of(worker, "non_torch_memory"),
        kv_cache_bytes=int(result) if isinstance(result, int | float) else None,
    )


def initialize_cache(session: Session, call: Call) -> Watch:
    """`Worker.initialize_from_config`."""
    free_before, _ = device.free_and_total()
    outcome, _ = yield from session.watch_phase("kv_cache")
    if outcome.error is not None:
        return
    note_blocks(session, call)
    free, total = device.free_and_total()
    if free is not None and free_before is not None:
        session.emit(
            MemoryMeasured,
            stage="kv_cache",
            delta_bytes=free_before - free,
            free_bytes=free,
            total_bytes=total,
        )


def warm_up(session: Session, call: Call) -> Watch:
    """`Worker.compile_or_warm_up_model`; returns compile times since 0.18."""
    session.begin_phase("warmup")
    free_before, _ = device.free_and_total()
    session.collector.switch_on()
    collector_s = session.collector.total_s
    outcome = yield
    session.collector.switch_off()
    session.wait_for_device()
    session.note_failure(outcome, phase="warmup")
    duration = session.end_phase("warmup")
    if outcome.error is None:
        free, _ = device.free_and_total()
        known = free is not None and free_before is not None
        session.emit(
            WarmupFinished,
            duration_s=duration,
            allocated_bytes=free_before - free if known else None,  # type: ignore[operator]
            gc_s=session.collector.total_s - collector_s,
        )
        _note_compile_time(session, call.owner, outcome.result)
    session.report_lost()


def _note_compile_time(session: Session, worker: Any, result: Any) -> None:
    config = getattr(getattr(worker, "vllm_config", None), "compilation_config", None)
    seconds = getattr(result, "language_model", None)
    if seconds is None:
        seconds = getattr(config, "compilation_time", None)
    if isinstance(seconds, int | float) and seconds > 0:
        session.emit(CompileFinished, what="total", duration_s=float(seconds))
    encoder = getattr(result, "encoder", None)
    if isinstance(encoder, int | float) and encoder > 0:
        session.emit(CompileFinished, what="encoder", duration_s=float(encoder))


def estimate_graphs(session: Session, call: Call) -> Watch:
    """`profile_cudagraph_memory`: captures a few graphs to estimate all of them."""
    if session.state.capturing is not None:
        return
    session.state.capturing = Capturing(is_estimate=True)
    outcome, _ = yield from session.watch_phase("graph_memory_profile")
    session.state.capturing = None
    if isinstance(outcome.result, int | float):
        session.emit(GraphMemoryEstimated, estimated_bytes=int(outcome.result))
