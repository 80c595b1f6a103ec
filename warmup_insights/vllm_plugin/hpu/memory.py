"""Memory and loading in vllm-gaudi and vllm-fork.

Source: `v1/worker/hpu_worker.py` (`determine_available_memory`,
`initialize_from_config`), `v1/worker/hpu_model_runner.py` (`load_model`,
`initialize_kv_cache`), `extension/profiler.py` (`HabanaMemoryProfiler`).
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import Any

from warmup_insights.model.events import (
    ConfigRecorded,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
)
from warmup_insights.vllm_plugin import device, facts
from warmup_insights.vllm_plugin.calls import (
    Call,
    Outcome,
    Watch,
    attribute,
    bytes_of,
    size,
    whole,
)
from warmup_insights.vllm_plugin.hpu.bridge import subscribe
from warmup_insights.vllm_plugin.hpu.warmup import begin_step, end_step
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Measurement
from warmup_insights.vllm_plugin.workers import note_blocks, note_device, phase

DEFAULT_RESERVED_FRACTION = 0.1
"""`VLLM_GRAPH_RESERVED_MEM` when it is not set (`determine_available_memory`)."""


def worker_device(session: Session, call: Call) -> Watch:
    """`HPUWorker.init_device`: what device it is, and what is free before loading."""
    yield from session.watch_phase("init_device")
    note_device(session, device.kind() or "hpu")
    subscribe(session)


def load_model(session: Session, call: Call) -> Watch:
    """`HPUModelRunner.load_model` measures the weights, INC, the wrapping, a draft model."""
    runner = call.owner
    names: list[str | None] = ["weights"]
    is_quantised = getattr(runner, "_is_quant_with_inc", None)
    if is_quantised is not None and is_quantised():
        names.append("quantization")
    if hasattr(runner, "drafter"):
        names += [None, "drafter_weights"]
    with session.state.naming(*names):
        yield from session.watch_phase("load_model")


def load_model_fork(session: Session, call: Call) -> Watch:
    """`load_model` of vllm-fork: the weights are measured around everything."""
    with session.state.naming("weights", "preload_weights"):
        yield from session.watch_phase("load_model")


def profiler_enter(session: Session, call: Call) -> Watch:
    """`HabanaMemoryProfiler.__enter__`: it collects garbage, then reads the memory."""
    state = session.state
    names = state.stages[-1] if state.stages else []
    measurement = Measurement(names.pop(0) if names else None)
    if state.current is not None and state.step is None:
        begin_step(session)
        measurement.opened_step = True
    if measurement.stage == "kv_cache":
        session.begin_phase("kv_cache")
    state.measurements.append(measurement)
    outcome = yield
    if outcome.error is not None:
        state.measurements.pop()


def profiler_exit(session: Session, call: Call) -> Watch:
    """`HabanaMemoryProfiler.__exit__`: it collects garbage and has the figures."""
    yield
    state = session.state
    if not state.measurements:
        return
    measurement = state.measurements.pop()
    if measurement.stage is not None:
        _note_measurement(session, measurement.stage, call.owner)
    if measurement.stage == "kv_cache":
        session.end_phase("kv_cache")
    if measurement.opened_step:
        end_step(
            session,
            Outcome(error=call.arg("exc_val")),
            used=_used(call.owner),
            total_bytes=_total(session),
        )


def _used(profiler: Any) -> tuple[int, int] | None:
    before = getattr(profiler, "initial_device_memory", None)
    after = getattr(profiler, "final_device_memory", None)
    if before is None or after is None:
        return None
    return int(before), int(after)


def _total(session: Session) -> int | None:
    if session.state.total_bytes is None:
        session.state.total_bytes = device.free_and_total()[1]
    return session.state.total_bytes


def _note_measurement(session: Session, stage: str, profiler: Any) -> None:
    used, total = _used(profiler), _total(session)
    free = total - used[1] if used and total is not None else None
    if stage == "profile_run":
        session.state.profile_free = free
    session.emit(
        MemoryMeasured,
        stage=stage,
        delta_bytes=used[1] - used[0] if used else None,
        used_bytes=used[1] if used else None,
        free_bytes=free,
        total_bytes=total,
        host_delta_bytes=bytes_of(profiler, "consumed_host_memory"),
        host_used_bytes=bytes_of(profiler, "final_host_memory"),
        host_total_bytes=_host_total(),
    )


def _host_total() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def determine_memory(session: Session, call: Call) -> Watch:
    """`determine_available_memory`, in V0 `determine_num_available_blocks`."""
    with session.state.naming("profile_run"):
        outcome, _ = yield from session.watch_phase("profile_run")
    if outcome.error is not None:
        return
    worker, free = call.owner, session.state.profile_free
    margin = attribute(worker, "model_runner.mem_margin")
    fraction = _reserved_fraction(worker)
    usable = reserved = None
    if free is not None and margin is not None:
        usable = int(free - margin)
        reserved = usable * fraction
    # V1 returns the bytes; V0 returns blocks, and the bytes are what is left.
    cache = size(outcome.result)
    if cache is None and usable is not None and reserved is not None:
        cache = int(usable - reserved)
    session.emit(
        MemoryBudgetSet,
        total_bytes=_total(session),
        free_bytes=free,
        usable_bytes=usable,
        graph_reserved_bytes=size(reserved),
        graph_reserved_fraction=fraction,
        gpu_memory_utilization=attribute(worker, "cache_config.gpu_memory_utilization"),
        kv_cache_bytes=cache,
    )


def _reserved_fraction(worker: Any) -> float:
    if attribute(worker, "model_config.enforce_eager"):
        return 0.0
    text = os.environ.get("VLLM_GRAPH_RESERVED_MEM")
    try:
        return float(text) if text else DEFAULT_RESERVED_FRACTION
    except ValueError:
        return DEFAULT_RESERVED_FRACTION


def initialize_cache(session: Session, call: Call) -> Watch:
    """`initialize_from_config`: its first measurement is that of the KV cache.

    It warms the model up before it returns, so it is no phase of its own.
    """
    with session.state.naming("kv_cache"):
        outcome = yield
    session.note_failure(outcome, phase="kv_cache")


def kv_cache(session: Session, call: Call) -> Watch:
    """`HPUModelRunner.initialize_kv_cache`: how many blocks there are."""
    outcome, _ = yield from session.watch_phase("kv_cache")
    if outcome.error is None:
        note_blocks(session, call)


def kv_cache_fork(session: Session, call: Call) -> Watch:
    """`initialize_cache(num_gpu_blocks, num_cpu_blocks)` of vllm-fork V0."""
    blocks = whole(call.arg("num_gpu_blocks"))
    block_size = whole(attribute(call.owner, "cache_config.block_size"))
    session.emit(
        KVCacheAllocated,
        num_blocks=blocks,
        block_size=block_size,
        num_tokens=blocks * block_size if blocks and block_size else None,
        num_host_blocks=whole(call.arg("num_cpu_blocks")),
    )
    with session.state.naming("kv_cache"):
        outcome = yield
    session.note_failure(outcome, phase="kv_cache")


compile_model = partial(phase, name="compile")
"""`_maybe_compile`: set-up of `torch.compile`, part of loading."""


def runtime_config(session: Session, call: Call) -> Watch:
    """`finalize_config`: the features and flags that vllm-gaudi prints."""
    outcome = yield
    if outcome.error is None:
        runtime = sys.modules.get("vllm_gaudi.extension.runtime")
        found = facts.hpu_runtime(runtime)
        session.state.device_name = found.get("hw")
        session.emit(ConfigRecorded, settings=dict(found))
