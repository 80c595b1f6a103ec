"""Whole start-ups for the rules about time: where each applies, and where it must not."""

from __future__ import annotations

from typing import Any

from tests.analysis.builders import cache, config, generated, started, step
from warmup_insights.model.events import (
    BucketMiss,
    CaptureProgress,
    CompileFinished,
    ConfigRecorded,
    EngineInitialized,
    Event,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryMeasured,
    Note,
    PhaseMarked,
    RuntimeCompile,
    ServerReady,
    WarmupFinished,
)
from warmup_insights.units import GIB

T0 = 1_000_000.0
NOT_LOADED = Note(
    topic="compile", text="not loaded",
    values={"outcome": "refused", "path": "/c/model", "reason": "no attribute x"},
)  # fmt: skip
OFF = Note(topic="compile", text="off", values={"outcome": "off"})
NOT_BUILT = Note(
    topic="kernel_build",
    text="Failed to initialize FlashInfer All Reduce workspace: Ninja build failed. Ninja output:",
)
LATE = RuntimeCompile(
    what="Triton kernel JIT compilation",
    kernel="_zero_kv_blocks_kernel",
    time=T0 + 60.0,
)


def phased(
    *phases: tuple[str, float],
    extra: tuple[Event, ...] = (),
    engine: str = "vllm",
    **more: Any,
) -> list[Event]:
    """A start-up of these phases, one after the other, and ready at their end."""
    values = {"version": "0.25.0", "device_kind": "cuda", **more}
    found: list[Event] = [started(engine, **values), *extra]
    time = T0
    for name, seconds in phases:
        time += seconds
        found.append(PhaseMarked(name=name, edge="end", duration_s=seconds, time=time))
    return [*found, ServerReady(time=time)]


def checkpoint(size_gib: float, ram_gib: float, filesystem: str = "EXT4") -> Note:
    values = {
        "size_bytes": int(size_gib * GIB), "available_bytes": int(ram_gib * GIB),
        "filesystem": filesystem,
    }  # fmt: skip
    return Note(topic="checkpoint", text="read", values=values)


def compiled(
    seconds: float,
    *more: Event,
    rest: float = 20.0,
    path: str | None = "/cache",
    saved: str | None = None,
    engine: str = "vllm",
    from_cache: bool = False,
) -> list[Event]:
    """A start with a compilation of so many seconds, most of them one graph."""
    parts = [
        PhaseMarked(name="compile", edge="start", time=T0, path=path),
        CompileFinished(what="dynamo", duration_s=0.4 * seconds),
        CompileFinished(what="graph", duration_s=0.6 * seconds, from_cache=from_cache),
        *more,
        CompileFinished(what="total", duration_s=seconds, from_cache=from_cache),
        PhaseMarked(name="compile", edge="end", time=T0 + seconds, path=saved),
    ]
    ends = T0 + seconds + rest
    return [
        started(engine, version="0.25.0", device_kind="cuda"), *parts,
        PhaseMarked(name="load_weights", edge="end", duration_s=rest, time=ends),
        ServerReady(time=ends),
    ]  # fmt: skip


def captured(
    sizes: list[int], seconds: float, fits: float | None, **settings: Any
) -> list[Event]:
    """A start that captures graphs of these sizes, each as long as another."""
    each = seconds / len(sizes)
    states = [(n, float(round(n * each))) for n in range(len(sizes) + 1)]
    names = {"compilation_config": f"{{'cudagraph_capture_sizes': {sizes}}}"}
    bar = CaptureProgress(
        mode="PIECEWISE", captured=len(sizes), total=len(sizes), duration_s=seconds,
        states=states,
    )  # fmt: skip
    done = GraphsCaptured(
        count=len(sizes), duration_s=seconds, memory_bytes=GIB, time=T0 + 20 + seconds
    )
    extra = (config(**names, **settings),)
    if fits is not None:
        extra = (
            *extra,
            KVCacheAllocated(num_tokens=int(1024 * fits), max_concurrency=fits),
        )
    head = phased(("configure", 20.0), extra=extra)[:-1]
    return [*head, bar, done, ServerReady(time=T0 + 20 + seconds)]


SIZES = [1, 2, 4, *range(8, 513, 8)]


def tuned(new: int, previous: int = 0) -> Note:
    values = {"new": new, "previous": previous, "path": "/c/autotune.json"}
    return Note(topic="autotune", text="saved", values=values)


def profiled(shape: tuple[int, ...] | None, longest: int = 20480) -> list[Event]:
    """A Gaudi start with a profile run of 39 s, and prompt buckets up to a length."""
    notes = [Note(topic="profile_run", text="ran", values={"shape": shape})]
    buckets = [(1, longest // 2, 0), (1, longest, 0)]
    return phased(
        ("profile_run", 39.0), ("load_model", 20.0), engine="vllm-gaudi",
        device_kind="hpu", version="0.14.1",
        extra=(*(notes if shape else ()), generated("prompt", buckets)),
    )  # fmt: skip


def ranked(ends: dict[int, float]) -> list[Event]:
    """A start in which each rank has read its weights at another time."""
    events: list[Event] = [
        started("vllm", version="0.25.0", device_kind="cuda"),
        *(MemoryMeasured(stage="weights", delta_bytes=GIB, duration_s=end, rank=rank,
                         time=T0 + end) for rank, end in ends.items()),
        EngineInitialized(time=T0 + max(ends.values())),
        ServerReady(time=T0 + max(ends.values()) + 1),
    ]  # fmt: skip
    return sorted(events, key=lambda event: event.time or T0)


def gaudi_steps(
    decode: dict[tuple[int, int, int], float],
    prompt: dict[tuple[int, int, int], float],
    *,
    lead_s: float = 40.0,
    num_blocks: int = 1189,
    ranges: bool = True,
    **settings: Any,
) -> list[Event]:
    """A start of vllm-gaudi 0.14.1 whose buckets took these seconds each."""
    asked = {"VLLM_DECODE_BS_BUCKET_STEP": "4", "VLLM_DECODE_BLOCK_BUCKET_STEP": "128",
             "bucketing_strategy": "linear_bucketing"}  # fmt: skip
    values: dict[str, Any] = {**(asked if ranges else {}), **settings}
    time = T0 + lead_s
    events: list[Event] = [
        started(version="0.14.1"),
        ConfigRecorded(settings=values, time=T0),
        PhaseMarked(name="load_model", edge="end", duration_s=lead_s, time=time),
        cache(num_blocks),
        generated("prompt", list(prompt)),
        generated("decode", list(decode)),
    ]
    for phase, buckets in (("prompt", prompt), ("decode", decode)):
        for bucket, seconds in buckets.items():
            events.append(step(phase, bucket, duration_s=seconds, time=time))
            time += seconds
    taken = sum(prompt.values()) + sum(decode.values())
    return [
        *events,
        WarmupFinished(duration_s=taken, time=time),
        ServerReady(time=time),
    ]


DECODE_STEPS = {
    (bs, 1, blocks): 1.0
    for bs in (1, 2, 4, *range(8, 65, 4))
    for blocks in (256, 512, 1024, 1152, 1189)
}
PROMPT_STEPS = {(1, q, c): 2.0 for q in (1024, 2048) for c in (0, 12, 24)}
NO_PREFIXES = {
    "enable_prefix_caching": False, "prefix_caching": "False", "max_model_len": 2048,
    "max_num_batched_tokens": 2048,
}  # fmt: skip
PLAIN = gaudi_steps(DECODE_STEPS, PROMPT_STEPS)
CONFIGURED = phased(("configure", 4.0), ("load_model", 30.0))
SKIPPED = [
    *phased(("load_model", 30.0), extra=(WarmupFinished(skipped=True),))[:-1],
    ServerReady(time=T0 + 30),
]

TIME_CASES: dict[str, tuple[list[list[Event]], list[list[Event]]]] = {
    "largest_part": (
        [CONFIGURED, phased(("init_worker", 17.0), ("configure", 5.0))],
        [phased(("download", 30.0)), [started("vllm")], PLAIN,
         phased(("load_model", 4.0), extra=(Note(topic="elided", text="cut"),))[:-1],
         phased(("init_worker", 7.0), ("configure", 5.0)),
         phased(("load_weights", 14.0), extra=(checkpoint(60.0, 10.0),))],
    ),
    "weights_download": (
        [phased(("download", 110.0), ("load_weights", 20.0))],
        [phased(("download", 2.0), ("load_weights", 20.0)), CONFIGURED],
    ),
    "weights_read": (
        [phased(("load_weights", 40.0), ("configure", 10.0)),
         phased(("load_weights", 40.0), extra=(checkpoint(14, 100),))],
        [phased(("load_weights", 2.0), ("configure", 40.0)),
         # 5 GB/s, from the page cache, is not slow.
         phased(("load_weights", 12.0), ("configure", 40.0), extra=(checkpoint(57, 100),))],
    ),
    "slowest_rank": (
        [ranked({0: 20.0, 1: 60.0, 2: 22.0})],
        [ranked({0: 20.0, 1: 21.0}), phased(("load_weights", 60.0))],
    ),
    "slow_imports": (
        [phased(("import", 30.0), ("configure", 6.0), ("load_model", 20.0))],
        [phased(("import", 10.0), ("load_model", 5.0)),
         phased(("import", 30.0), ("load_model", 300.0))],
    ),
    "ray_wait": (
        [phased(("start_workers", 200.0), ("load_model", 20.0),
                extra=(Note(topic="ray_wait", text="Waiting for creating a placement group of "
                            "specs for 150 seconds. specs=[]"),)),
         [started("vllm"), Note(topic="ray_wait", text="(autoscaler +30s) Error: No available node "
                                "types can fulfill resource request")]],
        [phased(("start_workers", 200.0), ("load_model", 20.0))],
    ),
    "profile_run": (
        [phased(("profile_run", 60.0), ("load_model", 30.0))],
        [phased(("profile_run", 3.0), ("load_model", 30.0)), profiled((1, 32768, 0))],
    ),
    "startup_plan": (
        [phased(("profile_run", 20.0), ("graph_memory_profile", 9.0), ("load_model", 50.0),
                version="0.27.1")],
        [phased(("profile_run", 20.0), ("load_model", 50.0)),
         phased(("profile_run", 20.0), ("load_model", 50.0), version="0.27.1",
                extra=(config(VLLM_ENABLE_STARTUP_PLAN="1"),)),
         phased(("profile_run", 20.0), version="0.27.1",
                extra=(Note(topic="startup_plan", text="Applying"),))],
    ),
    "kernel_autotune": (
        [phased(("kernel_warmup", 102.0), ("load_model", 90.0), extra=(tuned(84),))],
        [phased(("kernel_warmup", 102.0)),
         phased(("kernel_warmup", 102.0), extra=(tuned(4, 80),))],
    ),
    "kernels_built": (
        [phased(("kernel_warmup", 102.0), ("load_model", 90.0))],
        [phased(("kernel_warmup", 102.0), extra=(tuned(84),)),
         phased(("kernel_warmup", 80.0), ("load_model", 90.0))],
    ),
    "triton_kernels": (
        [phased(("model_warmup", 14.0), ("load_model", 40.0), extra=(config(model_runner="V2"),))],
        [phased(("model_warmup", 14.0), ("load_model", 40.0)),
         phased(("model_warmup", 2.0), ("load_model", 40.0), extra=(config(model_runner="V2"),)),
         phased(("model_warmup", 14.0), ("load_model", 40.0),
                extra=(config(model_runner="V2", TRITON_CACHE_DIR="/c"),))],
    ),
    "multimodal_warmup": (
        [phased(("multimodal_warmup", 46.0), ("load_model", 100.0)),
         phased(("multimodal_warmup", 28.0), ("load_model", 30.0), engine="vllm-gaudi",
                device_kind="hpu")],
        [phased(("multimodal_warmup", 2.0), ("load_model", 100.0))],
    ),
    "encoder_profile": (
        [phased(("encoder_profile", 273.0), ("load_model", 29.0)),
         phased(("encoder_profile", 20.0), ("load_model", 29.0), version="0.10.2")],
        [phased(("encoder_profile", 2.0), ("load_model", 100.0))],
    ),
    "profile_shape": (
        [profiled((1, 32768, 0)), profiled((1, 32768, 0), 32000), profiled(None)],
        [phased(("profile_run", 40.0)),
         phased(("profile_run", 4.0), ("load_model", 20.0), engine="vllm-gaudi",
                device_kind="hpu")],
    ),
    "compile_cache": (
        [compiled(52.0), compiled(52.0, path="/home/u/.cache", rest=20.0),
         [*compiled(30.0)[:1], config(VLLM_DISABLE_COMPILE_CACHE="1"),
          *compiled(30.0)[1:]]],
        [compiled(5.0), compiled(52.0, from_cache=True), compiled(52.0, engine="vllm-gaudi"),
         # Kept under a home directory, and not the largest part.
         compiled(15.0, path="/home/u/.cache", rest=40.0),
         compiled(52.0, CompileFinished(what="graph", duration_s=1.0, from_cache=True)),
         compiled(52.0, NOT_LOADED),
         compiled(52.0)[:-1]],
    ),
    "compile_cache_off": (
        [compiled(52.0, OFF)[:-1],
         [config(VLLM_DISABLE_COMPILE_CACHE="1"), *compiled(52.0)[:-1]]],
        [compiled(52.0, OFF), compiled(52.0)[:-1], compiled(5.0, OFF)[:-1]],
    ),
    "all_reduce_not_built": (
        [[*CONFIGURED, NOT_BUILT]],
        [CONFIGURED,
         [*CONFIGURED, Note(topic="kernel_build", text="Failed to initialize FlashInfer Allreduce "
                            "norm fusion workspace with backend=trtllm")]],
    ),
    "saved_not_loaded": (
        [compiled(30.0, NOT_LOADED)],
        [compiled(30.0), compiled(30.0, CompileFinished(what="aot", from_cache=True))],
    ),
    "late_kernels": (
        [[*phased(("load_model", 20.0)), LATE]],
        [[*phased(("load_model", 20.0), engine="vllm-gaudi", device_kind="hpu"),
          RuntimeCompile(what="recipe", kernel="gemm", time=T0 + 60.0)], phased(("load_model", 20.0))],
    ),
    "xla_cache": (
        [compiled(400.0, engine="tpu-inference")],
        [compiled(3.0, engine="tpu-inference", rest=90.0), compiled(400.0)],
    ),
    "neuron_cache": (
        [phased(("load_model", 20.0), ("compile", 400.0), device_kind="neuron")],
        [phased(("load_model", 90.0), ("compile", 3.0), device_kind="neuron"),
         phased(("load_model", 20.0), ("compile", 400.0))],
    ),
    "capture_sizes": (
        [captured(SIZES, 200.0, 1.81), captured(SIZES, 200.0, None),
         captured(SIZES, 200.0, 300.0, max_num_seqs=16)],
        [captured(SIZES, 3.0, 1.81), CONFIGURED],
    ),
    "decode_buckets": (
        [PLAIN, gaudi_steps(DECODE_STEPS, PROMPT_STEPS, ranges=False)],
        [gaudi_steps({(1, 1, 256): 1.0}, PROMPT_STEPS), CONFIGURED],
    ),
    "long_warmup": (
        [[started(device_kind="hpu"), WarmupFinished(duration_s=61.0)]],
        [[started(device_kind="hpu"), WarmupFinished(duration_s=59.0)],
         [started("vllm"), WarmupFinished(duration_s=61.0)],
         gaudi_steps(DECODE_STEPS, PROMPT_STEPS, **NO_PREFIXES)],
    ),
    "sampler_warmup": (
        [phased(("sampler_warmup", 30.0), ("load_model", 70.0), engine="vllm-gaudi",
                device_kind="hpu", version="0.20.1")],
        [phased(("sampler_warmup", 3.0), ("load_model", 70.0), engine="vllm-gaudi",
                device_kind="hpu"),
         phased(("sampler_warmup", 30.0), ("load_model", 70.0))],
    ),
    "prompt_buckets": (
        [gaudi_steps(DECODE_STEPS, PROMPT_STEPS, **NO_PREFIXES), PLAIN],
        [gaudi_steps(DECODE_STEPS, {(1, 1024, 0): 1.0}), CONFIGURED],
    ),
}  # fmt: skip
"""Rule to starts that it applies to, and starts that it does not apply to."""

MISSED = [
    *gaudi_steps(DECODE_STEPS, PROMPT_STEPS, **NO_PREFIXES),
    BucketMiss(phase="prompt", shape=(1, 1500, 30), fallback=(1, 2048, 36)),
]
"""A prompt with a context came: contexts have a use."""
