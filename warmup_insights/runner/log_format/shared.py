"""Lines that several dialects have; only the source locations differ.

Sources: `hpu_model_runner.py` and `hpu_worker.py` of vllm-fork and vllm-gaudi, and the
upstream files that vllm-gaudi runs too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from warmup_insights.model.events import (
    BenchmarkResult,
    BucketRangesConfigured,
    BucketsGenerated,
    ConfigRecorded,
    EngineInitialized,
    Failure,
    KVCacheAllocated,
    MemoryMeasured,
    PhaseMarked,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.runner.log_format.writer import Line, Seen, tuples
from warmup_insights.runner.metrics import result_block
from warmup_insights.units import MIB, format_bytes

SERVING = (
    Line(ServerReady, "INFO:     Application startup complete."),
    Line(BenchmarkResult, lambda event, _: result_block(event.values)),
)
"""Lines of uvicorn and of `vllm bench serve`, which have no envelope."""


def upstream(
    *, config: str, load: str, size: str, concurrency: str, ready: str
) -> tuple[Line, ...]:
    """Settings, loading, KV cache and the end, by the places that print them."""
    return (
        Line(
            ConfigRecorded,
            lambda event, seen: (
                f"non-default args: { ({'model': seen.model, **event.settings})!r}"
            ),
            config,
        ),
        Line(
            PhaseMarked,
            lambda _, seen: f"Starting to load model {seen.model}...",
            load,
            when=lambda event: (event.name, event.edge) == ("load_model", "start"),
        ),
        Line(KVCacheAllocated, "GPU KV cache size: {num_tokens:,} tokens", size),
        Line(
            KVCacheAllocated,
            "Maximum concurrency for {tokens_per_request:,} tokens per request: "
            "{max_concurrency:.2f}x",
            concurrency,
        ),
        Line(
            EngineInitialized,
            "init engine (profile, create kv cache, warmup model) took "
            "{duration_s:.2f} seconds",
            ready,
        ),
    )


def hpu(bucket_file: str) -> tuple[Line, ...]:
    """Buckets, the end of the warm-up and failures."""
    return (
        Line(BucketRangesConfigured, _ranges, f"{bucket_file}:36"),
        Line(BucketsGenerated, _generated, f"{bucket_file}:85"),
        Line(
            WarmupFinished,
            "Skipping warmup...",
            "hpu_model_runner.py:1131",
            when=lambda event: event.skipped,
        ),
        Line(
            WarmupFinished,
            "Warmup finished in {duration_s:.0f} secs, allocated {allocated_bytes:bytes} "
            "of device memory",
            "hpu_model_runner.py:1206",
            when=lambda event: not event.skipped,
        ),
        Line(Failure, failure(_hpu_out_of_memory), "hpu_worker.py:210", "ERROR"),
    )


def _ranges(event: BucketRangesConfigured, _: Seen) -> str:
    """`Prompt bucket config (min, step, max_warmup) bs:[1, 32, 4], seq:[...]`."""
    names = ["max_warmup" if name == "max" else name for name in event.parameters]
    values = ", ".join(f"{name}:{list(v)}" for name, v in event.ranges.items())
    return f"{event.phase.capitalize()} bucket config ({', '.join(names)}) {values}"


def _generated(event: BucketsGenerated, _: Seen) -> str:
    """`Generated 24 prompt buckets: [(1, 128), ...]`, with a legend for three sizes."""
    names = event.dimensions
    legend = "" if len(names) == 2 else f" [{', '.join(names)}]"
    buckets = tuples(event.buckets)
    return f"Generated {event.count} {event.phase} buckets{legend}: {buckets}"


def failure(out_of_memory: Callable[[Any, Seen], str]) -> Callable[[Any, Seen], str]:
    """The last line of the traceback; devices differ where memory ran out."""

    def text(event: Failure, seen: Seen) -> str:
        if event.failure == "out_of_memory":
            return out_of_memory(event, seen)
        if event.failure == "no_kv_cache":
            return (
                "ValueError: No available memory for the cache blocks. Try increasing "
                "`gpu_memory_utilization` when initializing the engine."
            )
        return f"RuntimeError: {' '.join(event.message.split())}"

    return text


def _hpu_out_of_memory(event: Failure, _: Seen) -> str:
    needed = event.needed_bytes or 0
    return (
        "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed "
        f"for size::{needed} ({needed // MIB})MB"
    )


def stage(name: str, words: str, source: str) -> Line:
    """What a stage took, as `HabanaMemoryProfiler.get_summary_string` writes it."""
    return Line(
        MemoryMeasured,
        lambda event, _: f"{words} {_took(event)}",
        source,
        when=lambda event: event.stage == name,
    )


def _took(event: MemoryMeasured) -> str:
    """The part about the host is left out where nothing is known of it."""
    text = (
        f"{format_bytes(event.delta_bytes)} of device memory "
        f"({format_bytes(event.used_bytes)}/{format_bytes(event.total_bytes)} used)"
    )
    if event.host_delta_bytes is None:
        return text
    return (
        f"{text} and {format_bytes(event.host_delta_bytes)} of host memory "
        f"({format_bytes(event.host_used_bytes)}/"
        f"{format_bytes(event.host_total_bytes)} used)"
    )


def step_line(event: WarmupStep, word: str, names: tuple[str, ...]) -> str:
    """`[Warmup][Prompt][1/24] batch_size:1 seq_len:128 free_mem:55.43 GiB`."""
    sizes = event.bucket or (0,) * len(names)
    shape = " ".join(f"{n}:{size}" for n, size in zip(names, sizes, strict=False))
    return (
        f"[Warmup][{word}][{event.index}/{event.total}] {shape} "
        f"free_mem:{format_bytes(event.free_before_bytes)}"
    )


BUDGET = (
    "Free device memory: {free_bytes:bytes}, {usable_bytes:bytes} usable "
    "(gpu_memory_utilization={gpu_memory_utilization:float}), "
    "{graph_reserved_bytes:bytes} reserved for HPUGraphs "
    "(VLLM_GRAPH_RESERVED_MEM={graph_reserved_fraction:float}), "
)
"""How every HPU engine begins to divide the memory."""
