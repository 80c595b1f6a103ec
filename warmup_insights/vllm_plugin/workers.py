"""The workers of vLLM V1, on a GPU or a CPU: device, weights, KV cache, compilation, warm-up,
the graphs of the two GPU model runners, and errors while serving.

Source: vLLM `v1/worker/gpu_worker.py`, `v1/worker/gpu_model_runner.py` (`capture_model`,
`_dummy_run`), `v1/worker/gpu/cudagraph_utils.py` (`CudaGraphManager.capture`,
`prepare_inputs_to_capture`), `v1/worker/cpu_worker.py`, `v1/worker/cpu_model_runner.py`,
`compilation/backends.py`, `compilation/monitor.py`, `utils/jit_monitor.py`. Workers of vllm-gaudi share what a rank,
a device that is free at first and blocks are (`v1/worker/hpu_worker.py`,
`v1/worker/hpu_model_runner.py`, `initialize_kv_cache`). Free memory is read between captures,
never inside one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from packaging.version import Version

from warmup_insights.model.events import (
    CompileFinished,
    ConfigRecorded,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    RuntimeCompile,
    WarmupFinished,
)
from warmup_insights.vllm_plugin import device, facts
from warmup_insights.vllm_plugin.calls import (
    Call,
    Watch,
    attribute,
    bytes_of,
    size,
    whole,
)
from warmup_insights.vllm_plugin.engine_core import counts_whole_requests
from warmup_insights.vllm_plugin.facts import installed_version
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.state import Capturing, Expected

_LEAST_EPOCH_S = 1e9
"""A reading of the clock since 1970 is more, one of `perf_counter` less."""
_PREPARES_TWICE = Version("0.21.0")
MAX_KERNEL = 300
"""Characters of the name of a kernel, and of its configuration."""
_ORDER = ("PIECEWISE", "FULL")
"""In which order model runner V2 captures (`CudaGraphManager.capture`)."""


def worker_init(session: Session, call: Call, kind: str | None = None) -> Watch:
    """`__init__` of a worker: which rank this process is, and on which kind of device."""
    session.rank = facts.rank_of(call.arg("vllm_config"), whole(call.arg("rank")))
    if kind is not None:
        session.emit(ConfigRecorded, device_kind=kind)
    outcome = yield
    session.note_failure(outcome, phase="start_workers")


cpu_init = partial(worker_init, kind="cpu")
"""`CPUWorker.__init__`: it fails where less is free than the share that it may take."""


def worker_device(session: Session, call: Call) -> Watch:
    """`Worker.init_device`: what device it is, and what is free before loading."""
    yield from session.watch_phase("init_device")
    note_device(session, device.kind())


def note_device(session: Session, kind: str | None) -> None:
    """Record what device it is, and what is free before anything is loaded."""
    free, total = device.free_and_total()
    session.state.total_bytes = total
    if kind is not None:
        # vllm-gaudi finds out which Gaudi it is; else there is only the driver's name.
        name = session.state.device_name or device.name()
        session.emit(ConfigRecorded, device_kind=kind, device_name=name)
    if free is not None and total is not None:
        session.emit(
            MemoryMeasured,
            stage="start",
            used_bytes=total - free,
            free_bytes=free,
            total_bytes=total,
        )


def load_model(session: Session, call: Call) -> Watch:
    """`Worker.load_model`; the runner holds what the weights took."""
    _, duration = yield from session.watch_phase("load_model")
    session.emit(
        MemoryMeasured,
        stage="weights",
        delta_bytes=bytes_of(call.owner, "model_runner.model_memory_usage"),
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
    if outcome.error is not None:
        return
    worker = call.owner
    session.emit(
        MemoryBudgetSet,
        total_bytes=bytes_of(worker, "init_snapshot.total_memory"),
        free_bytes=bytes_of(worker, "init_snapshot.free_memory"),
        usable_bytes=bytes_of(worker, "requested_memory"),
        gpu_memory_utilization=attribute(worker, "cache_config.gpu_memory_utilization"),
        weights_bytes=bytes_of(worker, "model_runner.model_memory_usage"),
        activation_bytes=bytes_of(worker, "peak_activation_memory"),
        non_torch_bytes=bytes_of(worker, "non_torch_memory"),
        kv_cache_bytes=size(outcome.result),
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


def note_blocks(session: Session, call: Call) -> None:
    """Record the blocks of a call's `KVCacheConfig`; tokens only for a single group, and
    where they are not counted by requests (`concurrency`).

    vllm-gaudi allocates one block more, for what padding writes: its number is that
    behind the last usable one (`initialize_kv_cache`, `_PAD_BLOCK_ID`). A model without a
    KV cache has no group, and one block that stands for none.
    Source: vLLM `v1/core/kv_cache_utils.py`, `get_kv_cache_config_from_groups`.
    """
    config, runner = call.arg("kv_cache_config"), call.owner
    groups: Sequence[Any] | None = getattr(config, "kv_cache_groups", None)
    if groups is not None and not groups:
        return
    groups = groups or ()
    blocks = whole(getattr(config, "num_blocks", None))
    spec = getattr(groups[0], "kv_cache_spec", None) if len(groups) == 1 else None
    block_size = whole(getattr(spec, "block_size", getattr(runner, "block_size", None)))
    padding = whole(getattr(runner, "_PAD_BLOCK_ID", None))
    counts_slots = len(groups) <= 1 and not counts_whole_requests()
    session.emit(
        KVCacheAllocated,
        num_blocks=blocks,
        num_padding_blocks=1 if blocks and blocks == padding else None,
        block_size=block_size,
        num_tokens=blocks * block_size
        if blocks and block_size and counts_slots
        else None,
    )


def warm_up(session: Session, call: Call) -> Watch:
    """`Worker.compile_or_warm_up_model`; returns compile times since 0.18."""
    session.begin_phase("warmup")
    free_before, _ = device.free_and_total()
    session.collector.switch_on()
    collector_s = session.collector.total_s
    outcome = yield
    session.collector.switch_off()
    duration = session.finish_phase("warmup", outcome)
    if outcome.error is None:
        session.emit(
            WarmupFinished,
            duration_s=duration,
            allocated_bytes=device.taken_since(free_before),
            gc_s=session.collector.total_s - collector_s,
        )
        _note_compile_time(session, call.owner, outcome.result)
    session.report_lost()


def _note_compile_time(session: Session, worker: Any, result: Any) -> None:
    seconds = getattr(result, "language_model", None)
    if seconds is None:
        seconds = attribute(worker, "vllm_config.compilation_config.compilation_time")
    for what, took in (("total", seconds), ("encoder", getattr(result, "encoder", 0))):
        if isinstance(took, int | float) and took > 0:
            session.emit(CompileFinished, what=what, duration_s=float(took))


def phase(session: Session, call: Call, *, name: str) -> Watch:
    """A call that is a phase of its own, and nothing more."""
    yield from session.watch_phase(name)


warm_kernels = partial(phase, name="kernel_warmup")
"""`kernel_warmup`, before the graphs are captured: autotuning and JIT of libraries."""
warm_model = partial(phase, name="model_warmup")
"""`warmup_kernels` of model runner V2, after the capture: whole steps, so that their
Triton kernels are compiled."""


def compiled_late(session: Session, call: Call) -> Watch:
    """`_handle_jit_event(backend, event, fn_name, detail)`: a request waits for a kernel."""
    what, kernel = call.arg("event"), call.arg("fn_name")
    if isinstance(what, str) and isinstance(kernel, str):
        session.emit(
            RuntimeCompile,
            what=f"{call.arg('backend')} {what}",
            kernel=kernel[:MAX_KERNEL],
            detail=str(call.arg("detail") or "")[:MAX_KERNEL] or None,
        )
    yield


def step(session: Session, call: Call) -> Watch:
    """`Worker.execute_model` and `sample_tokens`: what the core gets of an error is a text,
    and that only of one worker."""
    session.note_failure((yield))


def open_cache(session: Session, call: Call) -> Watch:
    """`CompilerManager.initialize_cache(cache_dir, disable_cache)`: the model is traced
    (Dynamo), its graphs come next."""
    monitor = sys.modules.get("vllm.compilation.monitor")
    began = getattr(monitor, "torch_compile_start_time", None)
    if isinstance(began, float) and began > 0:
        is_of_epoch = began > _LEAST_EPOCH_S  # vLLM to 0.16
        now = time.time() if is_of_epoch else time.perf_counter()
        session.emit(
            CompileFinished, what="dynamo", duration_s=now - began, from_cache=False
        )
    path = None if call.arg("disable_cache") else call.arg("cache_dir")
    session.emit(PhaseMarked, name="compile", edge="start", path=path)
    yield


def compile_graph(session: Session, call: Call) -> Watch:
    """`CompilerManager.compile`: one graph for one range of sizes.

    A graph equal to an earlier one is that one once more, whether it was compiled or loaded
    (vLLM `compilation/backends.py`, `StopCompiling`): neither a hit nor a miss.
    """
    stored = [getattr(call.owner, name, ()) for name in ("loaded_artifacts", "cache")]
    before = sum(map(len, stored))
    started = time.perf_counter()
    outcome = yield
    if outcome.error is None:
        took = time.perf_counter() - started
        cached: bool | None = session.state.loaded_from_cache
        if not cached and stored[0] and before == sum(map(len, stored)):
            cached = None
        session.emit(
            CompileFinished,
            what="graph",
            duration_s=took,
            from_cache=cached,
            detail=_detail(call),
        )
    session.state.loaded_from_cache = False


def load_graph(session: Session, call: Call) -> Watch:
    """`CompilerManager.load`: gives a graph when the cache has it."""
    outcome = yield
    session.state.loaded_from_cache = (
        outcome.error is None and outcome.result is not None
    )


def load_aot(session: Session, call: Call) -> Watch:
    """`_try_load_aot_compiled_fn(model, path)`: a function that an earlier start saved."""
    started = time.perf_counter()
    path = session.state.aot_path = call.arg("aot_compilation_path")
    outcome = yield
    if outcome.error is None and outcome.result is not None:
        _note_aot(session, started, from_cache=True)
    elif isinstance(path, str) and os.path.exists(path):
        text = f"The compiled function in {path} was not loaded"
        # The engine keeps the error to its log.
        values = {"outcome": "refused", "path": path, "reason": "the log states why"}
        session.emit(Note, topic="compile", text=text, values=values)


def compile_aot(session: Session, call: Call) -> Watch:
    """`aot_compile` of a compiled model: all of it, the graphs included."""
    started = time.perf_counter()
    outcome = yield
    if outcome.error is None:
        _note_aot(session, started, from_cache=False)


def _note_aot(session: Session, started: float, *, from_cache: bool) -> None:
    session.emit(
        CompileFinished,
        what="aot",
        duration_s=time.perf_counter() - started,
        from_cache=from_cache,
        detail=session.state.aot_path,
    )


def _detail(call: Call) -> str | None:
    sizes = call.arg("compile_range", "runtime_shape")
    index, total = call.arg("graph_index", default=0), call.arg("num_graphs", default=1)
    where = f"graph {index + 1} of {total}"
    start, end = getattr(sizes, "start", None), getattr(sizes, "end", None)
    if isinstance(start, int) and isinstance(end, int):
        return f"sizes {start} to {end}, {where}"
    return f"size {sizes}, {where}" if isinstance(sizes, int) else where


def cpu_memory(session: Session, call: Call) -> Watch:
    """`CPUWorker.determine_available_memory`: the size that was set, else what is left of
    a share of the host's memory."""
    outcome = yield
    session.note_failure(outcome, phase="profile_run")
    kv_cache = size(outcome.result)
    if kv_cache is None:
        return
    worker = call.owner
    share = attribute(worker, "cache_config.gpu_memory_utilization")
    requested = bytes_of(worker, "requested_cpu_memory")
    is_set = attribute(worker, "cache_config.kv_cache_memory_bytes") is not None
    usable = None if is_set else requested
    session.emit(
        MemoryBudgetSet,
        total_bytes=round(requested / share) if requested and share else None,
        usable_bytes=usable,
        consumed_bytes=None if usable is None else usable - kv_cache,
        gpu_memory_utilization=share,
        kv_cache_bytes=kv_cache,
    )


def cpu_warm_up(session: Session, call: Call) -> Watch:
    """`CPUModelRunner.warming_up_model`: a profiling run, for the compilation that it
    starts; without compilation it does nothing."""
    mode = attribute(call.owner, "vllm_config.compilation_config.mode.name", "NONE")
    if mode == "NONE":
        return
    session.state.is_compiling_run = True
    yield from session.watch_phase("model_warmup")
    session.state.is_compiling_run = False


def estimate_graphs(session: Session, call: Call) -> Watch:
    """`profile_cudagraph_memory`: captures a few graphs to estimate all of them."""
    state = session.state
    if state.is_estimating or state.capturing is not None:
        return
    state.is_estimating = True
    outcome, _ = yield from session.watch_phase("graph_memory_profile")
    state.is_estimating = False
    estimate = size(outcome.result)
    if estimate is not None:
        session.emit(GraphMemoryEstimated, estimated_bytes=estimate)


def capture_model(session: Session, call: Call) -> Watch:
    """`capture_model`: all graphs; returns the bytes they took."""
    state = session.state
    if state.is_estimating or state.capturing is not None:
        return  # inside of an estimate, and a part of it
    capturing = state.capturing = Capturing()
    outcome, duration = yield from session.watch_phase("graph_capture")
    state.capturing = None
    if outcome.error is None:
        memory = size(outcome.result)
        # None observed, but memory taken: captured in a way that is not watched.
        is_certain = capturing.is_certain and bool(capturing.count or memory == 0)
        session.emit(
            GraphsCaptured,
            count=capturing.count if is_certain else None,
            duration_s=duration,
            memory_bytes=memory,
        )


def dummy_run(session: Session, call: Call) -> Watch:
    """`_dummy_run` of model runner V1: runs without a graph, then one that captures."""
    capturing = session.state.capturing
    if capturing is None:
        return
    mode = _mode_name(call.arg("cudagraph_runtime_mode"))
    _begin(capturing)
    if mode is None:
        return
    outcome = yield
    session.wait_for_device()
    if outcome.error is not None:
        session.note_failure(outcome, phase="graph_capture")
        return
    _end(
        session,
        capturing,
        mode,
        whole(call.arg("num_tokens")),
        is_uniform=bool(call.arg("uniform_decode")),
    )


def _mode_name(mode: Any) -> str | None:
    """`FULL` or `PIECEWISE`; None for a run that captures nothing."""
    name = getattr(mode, "name", None)
    return name if name in _ORDER else None


def capture_all(session: Session, call: Call) -> Watch:
    """`CudaGraphManager.capture` of model runner V2: what it will capture, in order."""
    capturing = session.state.capturing
    if capturing is None:
        return
    if not _prepares_all(call.owner):
        capturing.is_certain = False
        return
    capturing.expected = expected_captures(call.owner)
    yield
    _finish_current(session, capturing)
    if capturing.expected:
        _lose_order(capturing)


def expected_captures(manager: Any) -> list[Expected]:
    """The descriptors of a manager, in the order in which it captures them.

    Inputs are prepared once for a piecewise graph, twice for any other.
    """
    by_mode = getattr(manager, "_capture_descs", None) or {}
    breakable = bool(getattr(manager, "use_breakable_cg", False))
    named = {mode.name: descriptors for mode, descriptors in by_mode.items()}
    return [
        Expected(
            mode=name,
            num_tokens=descriptor.num_tokens,
            is_uniform=getattr(descriptor, "uniform_token_count", None) is not None,
            calls_left=1 if name == "PIECEWISE" and not breakable else 2,
        )
        for name in _ORDER
        for descriptor in named.get(name, ())
    ]


def _prepares_all(manager: Any) -> bool:
    """Whether inputs are prepared for each graph as often as expected.

    Before 0.21 they are prepared once for any graph, and never for one of a batch that
    is split in two (dual batch overlap, 0.30 and later).
    """
    version = installed_version("vllm")
    splits = attribute(manager, "vllm_config.parallel_config.use_ubatching")
    return (version is None or version >= _PREPARES_TWICE) and not splits


def _lose_order(capturing: Capturing) -> None:
    """Graphs are captured in another way than expected: count none from here on."""
    capturing.expected = []
    capturing.is_certain = False
    capturing.step_time = None


def prepare_inputs(session: Session, call: Call) -> Watch:
    """`prepare_inputs_to_capture`: called before each capture, outside of the graph."""
    capturing = session.state.capturing
    if capturing is None or not capturing.expected:
        return
    if capturing.expected[0].calls_left == 0:
        _finish_current(session, capturing)
    if capturing.expected and capturing.expected[0].num_tokens == call.arg(
        "num_tokens"
    ):
        capturing.expected[0].calls_left -= 1
        _begin(capturing)
    else:
        _lose_order(capturing)
    yield


def _finish_current(session: Session, capturing: Capturing) -> None:
    if not capturing.expected or capturing.expected[0].calls_left:
        return
    current = capturing.expected.pop(0)
    _end(
        session,
        capturing,
        current.mode,
        current.num_tokens,
        is_uniform=current.is_uniform,
    )


def _begin(capturing: Capturing) -> None:
    """A capture begins, with the runs that prepare it."""
    if capturing.step_time is None:
        capturing.step_time = time.time()
        capturing.step_started = time.perf_counter()
        capturing.free_before, _ = device.free_and_total()


def _end(
    session: Session,
    capturing: Capturing,
    mode: str,
    num_tokens: int | None,
    *,
    is_uniform: bool,
) -> None:
    capturing.count += 1
    session.emit(
        GraphCaptured,
        phase="decode" if is_uniform else "mixed",
        bucket=(num_tokens,) if num_tokens is not None else (),
        mode=mode,
        index=capturing.count,
        duration_s=time.perf_counter() - capturing.step_started,
        memory_bytes=device.taken_since(capturing.free_before),
        time=capturing.step_time,
    )
    capturing.step_time = None
