"""Runs that failed or that divide their memory badly, by the rule that must apply to them.

For each rule: runs for which it applies, and runs for which it does not.
"""

from __future__ import annotations

from typing import Any

from tests.analysis.builders import (
    DECODES,
    PROMPTS,
    budget,
    cache,
    config,
    finished,
    generated,
    simulate,
    start_up,
    started,
    step,
)
from warmup_insights.model.events import (
    CaptureSummary,
    CompileFinished,
    ConfigRecorded,
    Event,
    Failure,
    GraphMemoryEstimated,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    RunFinished,
    ServerReady,
    ServingFailure,
    ShutdownRequested,
    SleepModeChanged,
)
from warmup_insights.units import GIB, MIB

KNOWN_TEXTS = {
    "setting_refused": "ValueError: LoRA rank 64 is greater than max_lora_rank 16.",
    "device_unsupported": "RuntimeError: CUDA error: no kernel image is available",
    "memory_changed": "AssertionError: Error in memory profiling. Initial free memory 1",
    "driver_mismatch": "RuntimeError: The NVIDIA driver on your system is too old",
    "device_unreachable": "RuntimeError: No CUDA GPUs are available",
    "port_in_use": "OSError: [Errno 98] Address already in use",
    "shared_memory": "RuntimeError: unable to open shared memory object </torch_1>",
    "disk_full": "OSError: [Errno 28] No space left on device",
    "host_limit": "OSError: [Errno 12] Cannot allocate memory",
    "model_access": "OSError: You are trying to access a gated repo.",
    "model_unsupported": "ValueError: Model architectures ['A'] are not supported for now.",
    "ranks_not_connected": "DistBackendError: NCCL error in: a.cpp:1970, invalid usage",
    "missing_tool": "RuntimeError: Could not find nvcc and default cuda_home",
    "build_failed": "RuntimeError: Failed to find C compiler.",
    "packages_mismatch": "ImportError: /x.so: undefined symbol: _ZN3c10",
}
"""A text for each rule on errors that name their cause."""
MANY = [(1, 128 * n, 0) for n in range(1, 13)]


def used(num_bytes: float, phase: str = "prompt") -> CaptureSummary:
    return CaptureSummary(phase=phase, captured_reported=3, used_bytes=int(num_bytes))


def graphs_took(prompt_gib: float, *extra: Event, missing: bool = False) -> list[Any]:
    prompt = used(prompt_gib * GIB)
    if missing:
        prompt = CaptureSummary(
            phase="prompt", captured_reported=1, used_bytes=int(prompt_gib * GIB),
            buckets=PROMPTS[:1],
        )  # fmt: skip
    decode = CaptureSummary(
        phase="decode", captured_reported=3, used_bytes=int(0.1 * GIB),
        buckets=DECODES if missing else None,
    )  # fmt: skip
    return start_up(*extra, prompt, decode)


def idle(free_gib: float, utilization: float, *extra: Event) -> list[Any]:
    usable = free_gib * utilization
    memory = budget(
        free_bytes=int(free_gib * GIB), usable_bytes=int(usable * GIB),
        graph_reserved_bytes=int(0.1 * usable * GIB),
        kv_cache_bytes=int(0.9 * usable * GIB), gpu_memory_utilization=utilization,
    )  # fmt: skip
    blocks = cache(1000, allocated_bytes=int(0.9 * usable * GIB))
    return [started(), memory, blocks, used(GIB), *extra, *finished()]


def cuda(*extra: Event, **memory: Any) -> list[Any]:
    values = {"total_bytes": 80 * GIB, "kv_cache_bytes": 40 * GIB,
              "usable_bytes": 72 * GIB, **memory}  # fmt: skip
    return [
        started("vllm", device_kind="cuda"),
        MemoryBudgetSet(gpu_memory_utilization=0.9, **values),
        KVCacheAllocated(num_tokens=400_000),
        *extra,
        *finished(),
    ]


def sized(gib: float, concurrency: float, num_seqs: int | None) -> list[Any]:
    limit = [] if num_seqs is None else [config(max_num_seqs=num_seqs)]
    fits = KVCacheAllocated(max_concurrency=concurrency)
    return cuda(fits, *limit, suggested_kv_cache_bytes=int(gib * GIB))


def estimated(expected_gib: float, actual_gib: float, **more: Any) -> list[Any]:
    return cuda(
        GraphMemoryEstimated(
            estimated_bytes=int(expected_gib * GIB),
            actual_bytes=int(actual_gib * GIB), **more,
        )
    )  # fmt: skip


def buckets_then(**more: Any) -> list[Any]:
    """Four buckets, a GiB each, and memory that ran out in the fifth."""
    steps = [
        step("prompt", bucket, free_before_bytes=gib * GIB, index=n)
        for n, (bucket, gib) in enumerate(
            zip(MANY, (10, 9, 8, 7), strict=False), start=1
        )
    ]
    failure = Failure(
        failure="out_of_memory", message="no", phase="prompt", bucket=MANY[4], **more
    )
    return [started(), budget(), cache(), generated("prompt", MANY), *steps, failure]


def killed(seconds: float = 50.0, is_ready: bool = False) -> list[Any]:
    end = 1_000_000.0 + seconds
    ready = [ServerReady(time=end - 1)] if is_ready else []
    return [
        started(), generated("prompt", PROMPTS), step("prompt", PROMPTS[0]), *ready,
        Failure(failure="killed", message="signal 9", time=end),
    ]  # fmt: skip


def stopped(message: str) -> list[Any]:
    """A start that was stopped before it was ready."""
    order = ShutdownRequested(message=message, in_start=True, time=1_000_120.0)
    return [started("vllm", device_kind="cuda", time=1_000_000.0), order]


def ended(kind: str, message: str = "no", *before: Event, **figures: Any) -> list[Any]:
    """A start that failed, of an engine on CUDA."""
    return [
        started("vllm", device_kind="cuda"), *before,
        Failure(failure=kind, message=message, line=7, **figures),
    ]  # fmt: skip


POISONED = ended(
    "error",
    "AssertionError: Expected tensors only",
    CompileFinished(
        what="aot",
        from_cache=True,
        detail="/c/torch_aot_compile/0a1b2c3d/rank_0_0/model",
    ),
    artifact="/venv/torch/_inductor/standalone_compile.py",
)


def served(kind: str, *before: Event, message: str = "no", **figures: Any) -> list[Any]:
    """An engine that failed while it served."""
    failure = ServingFailure(failure=kind, message=message, time=1_000_200.0, **figures)
    return [*cuda(*before, free_bytes=74 * GIB), failure]


def weights(gib: float) -> MemoryMeasured:
    return MemoryMeasured(stage="weights", delta_bytes=int(gib * GIB))


SHORT = {"needed_bytes": 18 * GIB, "free_bytes": 9 * GIB, "max_model_len": 262144,
         "estimated_model_len": 121840}  # fmt: skip
TAKEN = {"needed_bytes": 14 * GIB, "free_bytes": 13 * GIB, "total_bytes": 16 * GIB,
         "wanted_utilization": 0.85}  # fmt: skip
WAITED = Note(
    topic="keep_alive",
    text="No available shared memory broadcast block found in 60 seconds",
    count=4,
)
CONNECTING = [
    started("vllm", device_kind="cuda", version="0.11.0", time=1_000_000.0),
    config(max_model_len=4096, tensor_parallel_size=2),
    ConfigRecorded(num_ranks=2),
    PhaseMarked(name="start_engine", edge="start", time=1_000_010.0),
    PhaseMarked(name="start_workers", edge="start", time=1_000_090.0),
    RunFinished(status="unknown", time=1_000_490.0),
]
LOADING = [
    *CONNECTING[:2],
    PhaseMarked(name="load_model", edge="start", time=1_000_040.0),
    RunFinished(status="unknown", time=1_000_041.0),
]
NO_LINE = [
    started("vllm", device_kind="cuda", time=1_000_000.0), config(max_model_len=4096),
    weights(10), PhaseMarked(name="compile", edge="start", time=1_000_300.0),
    RunFinished(status="unknown", time=1_000_301.0),
]  # fmt: skip
OTHER = [start_up(), killed()]
ROOM_CASES: dict[str, tuple[list[list[Any]], list[list[Any]]]] = {
    "memory_plan": (
        [graphs_took(0.5), idle(80, 0.5), graphs_took(20), simulate()[1],
         sized(44, 2.0, 8)],
        [
            graphs_took(5, config(max_num_seqs=8), KVCacheAllocated(max_concurrency=9.0)),
            graphs_took(0.5, config(num_gpu_blocks_override=4160)),
            graphs_took(20, config(num_gpu_blocks_override=4160)),
            idle(80, 0.5, config(num_gpu_blocks_override=1000)),
            idle(80, 0.95), graphs_took(0.5, missing=True),
            sized(44, 9.0, 8), sized(44, 2.0, None), sized(39, 2.0, 8),
            [*graphs_took(0.5), ServingFailure(failure="error", message="no")],
        ],
    ),
    "graph_estimate_off": (
        [estimated(5, 1), estimated(1, 5)],
        [estimated(1.2, 1.1), estimated(0.1, 0.3), cuda(),
         estimated(5, 1, is_reserved=False),
         [*estimated(5, 1), config(kv_cache_memory_bytes=40 * GIB)]],
    ),
    "kv_cache_too_small": (
        [ended("no_kv_cache", **SHORT),
         ended("no_kv_cache", max_model_len=32768, estimated_model_len=15360)],
        [*OTHER, ended("no_kv_cache"), ended("error", **SHORT)],
    ),
    "memory_taken": (
        [ended("out_of_memory", **TAKEN)],
        [*OTHER, ended("out_of_memory", free_bytes=GIB, needed_bytes=3 * GIB)],
    ),
    "no_room_for_cache": (
        [ended("no_kv_cache"), cuda(kv_cache_bytes=-GIB)[:2],
         ended("no_kv_cache", "no", MemoryBudgetSet(kv_cache_bytes=-GIB))],
        [*OTHER, cuda(), cuda(kv_cache_bytes=-GIB), ended("no_kv_cache", **SHORT)],
    ),
    "weights_too_large": (
        [
            ended("out_of_memory", "no", weights(15.5), total_bytes=16 * GIB),
            ended("out_of_memory", "no",
                  PhaseMarked(name="load_model", edge="start", time=1_000_002.0)),
        ],
        [*OTHER, ended("out_of_memory", "no", weights(5), total_bytes=16 * GIB)],
    ),
    "out_of_memory": (
        [
            buckets_then(), buckets_then(free_bytes=GIB, needed_bytes=3 * GIB),
            ended("out_of_memory", "no"),
        ],
        [*OTHER, ended("out_of_memory", **TAKEN)],
    ),
    "allocation_refused": (
        [ended("out_of_memory", needed_bytes=MIB, free_bytes=90 * GIB)],
        [*OTHER, ended("out_of_memory", needed_bytes=GIB, free_bytes=GIB)],
    ),
    "out_of_memory_serving": (
        [served("out_of_memory"), served("out_of_memory", needed_bytes=GIB)],
        [*OTHER, ended("out_of_memory"),
         [*start_up(), ShutdownRequested(message="SIGTERM")]],
    ),
    "wake_up_failed": (
        [served("out_of_memory", SleepModeChanged(
            action="sleep", freed_bytes=50 * GIB, used_bytes=20 * GIB, time=1_000_100.0))],
        [*OTHER, served("out_of_memory", SleepModeChanged(action="wake_up"))],
    ),
    "deliberate_stop": (
        [ended("error", "AssertionError: Finished profiling")],
        [*OTHER, ended("error", "AssertionError")],
    ),
    **{
        rule: ([ended("error", text), served("error", message=text)],
               [*OTHER, ended("error", "RuntimeError: no")])
        for rule, text in KNOWN_TEXTS.items()
    },
    "program_error": (
        [ended("error", "KeyError: 0"), served("error", message="TypeError: no")],
        [*OTHER, ended("error", "ValueError: no")],
    ),
    "stopped_early": (
        [stopped("KeyboardInterrupt: terminated"),
         stopped("[shutdown] EngineCore: trigger received signal=SIGTERM")],
        [stopped("KeyboardInterrupt"), start_up(), killed()],
    ),
    "killed": (
        [killed(), killed(is_ready=True), served("killed")],
        [start_up(), buckets_then()],
    ),
    "poisoned_cache": (
        [POISONED],
        [[*POISONED[:-1], Failure(failure="error", message="AssertionError: x")],
         [POISONED[0], POISONED[-1]]],
    ),
    "failure_unexplained": (
        [ended("error", "ValueError: no"), served("error"),
         ended("error", "Uncaught exception")],
        [*OTHER, ended("error", "KeyError: 0")],
    ),
    "ended_without_trace": (
        [NO_LINE, LOADING],
        [*OTHER, [*NO_LINE[:3], NO_LINE[-1]], [*NO_LINE[:1], *NO_LINE[2:]],
         [*NO_LINE, Note(topic="elided", text="...")], ended("error"),
         [*NO_LINE, WAITED]],
    ),
    "ended_while_connecting": (
        [CONNECTING, [*CONNECTING, Note(topic="nccl", text="NCCL WARN x failed")]],
        [*OTHER, NO_LINE, [*CONNECTING, Note(topic="elided", text="...")],
         [*CONNECTING, weights(10)], [*CONNECTING, ConfigRecorded(num_ranks=1)],
         ended("error")],
    ),
    "ended_while_waiting": (
        [[*NO_LINE, WAITED], [*CONNECTING, WAITED]],
        [*OTHER, NO_LINE, [*NO_LINE, WAITED, ServerReady(time=1_000_900.0)],
         [*NO_LINE, Note(topic="keep_alive", text=WAITED.text)], ended("error")],
    ),
}  # fmt: skip
