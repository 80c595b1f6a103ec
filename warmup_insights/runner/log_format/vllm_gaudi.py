"""vllm-gaudi, as its lines were between 2025-09-19 and 2025-11-14.

In that time the steps of the warm-up were records of the logger; later they are drawn
by a progress bar, unless VLLM_DEVELOPER_MODE prints them without an envelope.
Source: `hpu_model_runner.py`, `hpu_worker.py`, `extension/bucketing/`,
`extension/defragmentation.py`.
"""

from __future__ import annotations

from warmup_insights.model.events import (
    BucketMiss,
    BucketsGenerated,
    CaptureSummary,
    DefragRan,
    DefragWarmup,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    SamplerConfig,
    SamplerWarmup,
    WarmupStep,
)
from warmup_insights.runner.log_format.writer import (
    BUDGET,
    SERVING,
    Line,
    LogDialect,
    Seen,
    fill,
    hpu,
    stage,
    step_line,
    upstream,
)
from warmup_insights.units import format_bytes


def _omitted(event: BucketsGenerated, seen: Seen) -> str:
    """One record with the omitted buckets of the phase; none where there are none."""
    rows = [
        f"('condition: {omitted.reason}', '-> bs, query, ctx: ', "
        f"{', '.join(map(str, bucket))})"
        for omitted in seen.omitted
        for bucket in omitted.buckets
    ]
    if not seen.omitted:
        return ""
    return "\n".join([f"Omitted {len(rows)} {event.phase} buckets:", *rows])


def _budget(event: MemoryBudgetSet, _: Seen) -> str:
    rest = (event.usable_bytes or 0) - (event.graph_reserved_bytes or 0)
    dummy = rest - (event.kv_cache_bytes or 0)
    return (
        f"{fill(BUDGET, event)}{format_bytes(dummy)} reserved for KV cache dummy block "
        f"{format_bytes(event.kv_cache_bytes)} reserved for usable KV cache"
    )


def _usable_blocks(event: KVCacheAllocated, _: Seen) -> str:
    blocks, size = event.num_blocks or 0, event.block_size or 0
    return (
        f"Usable num_blocks: {blocks}, actual allocated num_blocks: {blocks + 1} "
        f"(_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID={blocks * size})"
    )


def _step(event: WarmupStep, _: Seen) -> str:
    word = event.phase.capitalize() if event.mode != "graph" else f"Graph/{event.phase}"
    return step_line(event, word, ("batch_size", "query_len", "num_blocks"))


def _miss(event: BucketMiss, _: Seen) -> str:
    shape, added = tuple(event.shape), tuple(event.fallback or event.shape)
    return (
        f"{event.phase.capitalize()} bucket for {shape} was not prepared. "
        f"Adding new bucket: {added}"
    )


VLLM_GAUDI = LogDialect(
    lines=(
        Line(BucketsGenerated, _omitted, "common.py:150", "DEBUG"),
        *hpu("common.py"),
        *upstream(
            config="utils.py:233",
            load="hpu_model_runner.py:2700",
            size="kv_cache_utils.py:829",
            concurrency="kv_cache_utils.py:833",
            ready="core.py:193",
        ),
        *SERVING,
        Line(
            MemoryMeasured,
            "Loading model weights took {delta_bytes:GiB.4f} GB",
            "hpu_model_runner.py:2740",
            when=lambda event: event.stage == "weights",
        ),
        stage("profile_run", "Model profiling run took", "hpu_worker.py:225"),
        stage("kv_cache", "Initializing cache engine took", "hpu_worker.py:290"),
        Line(MemoryBudgetSet, _budget, "hpu_worker.py:250"),
        Line(KVCacheAllocated, _usable_blocks, "hpu_worker.py:285"),
        Line(
            SamplerWarmup,
            "Warming up sampler with batch sizes: {batch_sizes} and following configs:",
            "hpu_model_runner.py:3347",
            when=lambda event: event.status == "started",
        ),
        Line(
            SamplerWarmup,
            "Sampler warmup completed successfully",
            "hpu_model_runner.py:3411",
            when=lambda event: event.status == "completed",
        ),
        Line(
            SamplerConfig,
            "temp={temperature}, top_p={top_p}, top_k={top_k}, "
            "batch_changed={batch_changed}",
            "hpu_model_runner.py:3349",
        ),
        Line(
            SamplerConfig,
            "Starting sampler warmup...",
            "hpu_model_runner.py:3350",
            # After the last of the twelve.
            when=lambda event: not event.batch_changed and event.top_p == 0.85,
        ),
        Line(
            DefragWarmup,
            "Warming up defragmenter with thresholds: {thresholds}",
            "hpu_model_runner.py:3428",
            when=lambda event: event.status == "started",
        ),
        Line(
            DefragWarmup,
            "Skipping defragmenter warmup, {reason}",
            "hpu_model_runner.py:3436",
            "WARNING",
            when=lambda event: event.status == "skipped",
        ),
        Line(
            DefragWarmup,
            "Defragmenter warmup completed successfully",
            "hpu_model_runner.py:3452",
            when=lambda event: event.status == "completed",
        ),
        Line(
            DefragRan,
            "[defrag] defragmentation done max_id_used={max_id_before}->{max_id_after} "
            "num_used={num_used} swapped={swapped}/{padded}",
            "debug.py:18",
            "WARNING",
        ),
        Line(WarmupStep, _step, "hpu_model_runner.py:3170"),
        Line(
            CaptureSummary,
            "Graph/{phase:Title} captured:{captured_reported} "
            "used_mem:{used_bytes:bytes}",
            "hpu_model_runner.py:3205",
        ),
        Line(BucketMiss, _miss, "common.py:205", "WARNING"),
    ),
)
