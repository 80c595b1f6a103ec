"""Logs of a run in the wording of the engines: one table for each.

Sources: vllm-gaudi `hpu_model_runner.py`, `hpu_worker.py`, `extension/bucketing/`,
`extension/defragmentation.py`; vllm-fork `habana_model_runner.py`, `habana_worker.py`,
`habana_executor.py`; vLLM `v1/worker/gpu_model_runner.py`, `v1/worker/gpu_worker.py`,
`v1/core/kv_cache_utils.py`, `v1/engine/core.py`.
"""

from __future__ import annotations

from typing import TextIO

from warmup_insights.errors import SettingError
from warmup_insights.model.events import (
    BucketMiss,
    BucketsGenerated,
    BucketsOmitted,
    CaptureSummary,
    DefragRan,
    DefragWarmup,
    Failure,
    GraphBudgetSet,
    GraphsCaptured,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    SamplerConfig,
    SamplerWarmup,
    WarmupStep,
)
from warmup_insights.runner.log_writer import (
    BUDGET,
    SERVING,
    Line,
    LogDialect,
    LogWriter,
    Seen,
    failure,
    fill,
    hpu,
    stage,
    step_line,
    upstream,
)
from warmup_insights.units import GIB, MIB, engine_bytes


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
        f"{fill(BUDGET, event)}{engine_bytes(dummy)} reserved for KV cache dummy block "
        f"{engine_bytes(event.kv_cache_bytes)} reserved for usable KV cache"
    )


def _usable_blocks(event: KVCacheAllocated, _: Seen) -> str:
    blocks, size = event.num_blocks or 0, event.block_size or 0
    return (
        f"Usable num_blocks: {blocks}, actual allocated num_blocks: {blocks + 1} "
        f"(_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID={blocks * size})"
    )


def _gaudi_step(event: WarmupStep, _: Seen) -> str:
    word = event.phase.capitalize() if event.mode != "graph" else f"Graph/{event.phase}"
    return step_line(event, word, ("batch_size", "query_len", "num_blocks"))


def _gaudi_miss(event: BucketMiss, _: Seen) -> str:
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
        Line(WarmupStep, _gaudi_step, "hpu_model_runner.py:3170"),
        Line(
            CaptureSummary,
            "Graph/{phase:Title} captured:{captured_reported} "
            "used_mem:{used_bytes:bytes}",
            "hpu_model_runner.py:3205",
        ),
        Line(BucketMiss, _gaudi_miss, "common.py:205", "WARNING"),
    ),
)
"""vllm-gaudi, as its lines were between 2025-09-19 and 2025-11-14.

In that time the steps of the warm-up were records of the logger; later they are drawn
by a progress bar, unless VLLM_DEVELOPER_MODE prints them without an envelope.
"""


def _fork_step(event: WarmupStep, _: Seen) -> str:
    word = event.phase.capitalize()
    if event.mode == "graph":
        word = f"Graph/{word}"
    if len(event.bucket or ()) == 3:
        return step_line(event, word, ("batch_size", "query_len", "num_blocks"))
    return step_line(event, word, ("batch_size", "seq_len"))


def _fork_miss(event: BucketMiss, _: Seen) -> str:
    """The engine names the shape that it pads to."""
    shape = (event.phase, *(event.fallback or event.shape))
    return f"Configuration: {shape!r} was not warmed-up!"


def _exceeds_budget(event: BucketsOmitted) -> bool:
    """Conditions of later engines have no such line: their buckets are listed."""
    return bool(event.reason and event.reason.startswith("due to"))


VLLM_FORK = LogDialect(
    has_brackets=False,
    lines=(
        *hpu("hpu_model_runner.py"),
        *SERVING,
        stage(
            "weights", "Loading model weights took in total", "hpu_model_runner.py:442"
        ),
        stage("profile_run", "Model profiling run took", "hpu_worker.py:134"),
        stage("kv_cache", "Initializing cache engine took", "hpu_worker.py:190"),
        Line(
            MemoryBudgetSet,
            BUDGET + "{kv_cache_bytes:bytes} reserved for KV cache",
            "hpu_worker.py:158",
        ),
        Line(
            KVCacheAllocated,
            "# HPU blocks: {num_blocks}, # CPU blocks: {num_host_blocks}",
            "hpu_executor.py:85",
        ),
        Line(
            BucketsOmitted,
            "Omitted {count} {phase} buckets {reason}",
            "hpu_model_runner.py:590",
            when=_exceeds_budget,
        ),
        Line(
            BucketsOmitted,
            "Omitted {phase} buckets: {buckets:tuples}",
            "hpu_model_runner.py:593",
            "DEBUG",
            when=lambda event: not _exceeds_budget(event),
        ),
        Line(WarmupStep, _fork_step, "hpu_model_runner.py:1066"),
        Line(
            GraphBudgetSet,
            "Using {total_bytes:bytes}/{free_bytes:bytes} of free device memory for "
            "HPUGraphs, {prompt_bytes:bytes} for prompt and {decode_bytes:bytes} for "
            "decode (VLLM_GRAPH_PROMPT_RATIO={prompt_ratio:float})",
            "hpu_model_runner.py:1159",
        ),
        Line(
            CaptureSummary,
            "Graph/{phase:Title} captured:{captured_reported} ({percent_reported:.1f}%) "
            "used_mem:{used_bytes:bytes} buckets:{buckets:tuples}",
            "hpu_model_runner.py:1128",
        ),
        Line(BucketMiss, _fork_miss, "hpu_model_runner.py:1013", "WARNING"),
    ),
)
"""HabanaAI vllm-fork 1.17, two dimensions: the log of the warm-up documentation."""


_MODES = {
    "prompt": "mixed prefill-decode, PIECEWISE",
    "decode": "decode, FULL",
}


def _bar(event: CaptureSummary, seen: Seen) -> str:
    """The last state of the progress bar; it ends below its total after skipped graphs."""
    done, seconds = event.captured_reported, seen.capture_s[event.phase]
    total = done + seen.num_skipped[event.phase]
    percent = 100 * done // total if total else 100
    rate = f"{done / seconds:5.2f}" if seconds else "?"
    minutes, rest = divmod(int(seconds), 60)
    bar = "█" * (percent // 10)
    return (
        f"Capturing CUDA graphs ({_MODES[event.phase]}): {percent:3d}%|{bar:<10}| "
        f"{done}/{total} [{minutes:02d}:{rest:02d}<00:00, {rate}it/s]"
    )


def _out_of_memory(event: Failure, seen: Seen) -> str:
    return (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
        f"{(event.needed_bytes or 0) / MIB:.2f} MiB. GPU 0 has a total capacity "
        f"of {seen.total_bytes / GIB:.2f} GiB of which "
        f"{(event.free_bytes or 0) / MIB:.2f} MiB is free."
    )


VLLM = LogDialect(
    lines=(
        *upstream(
            config="utils.py:326",
            load="gpu_model_runner.py:1953",
            size="kv_cache_utils.py:849",
            concurrency="kv_cache_utils.py:853",
            ready="core.py:214",
        ),
        *SERVING,
        Line(
            MemoryMeasured,
            "Model loading took {delta_bytes:GiB.4f} GiB and {duration_s:.6f} seconds",
            "gpu_model_runner.py:2007",
            when=lambda event: event.stage == "weights",
        ),
        Line(
            MemoryBudgetSet,
            "Available KV cache memory: {kv_cache_bytes:GiB.2f} GiB",
            "gpu_worker.py:276",
        ),
        Line(CaptureSummary, _bar),
        Line(
            GraphsCaptured,
            "Graph capturing finished in {duration_s:.0f} secs, "
            "took {memory_bytes:GiB.2f} GiB",
            "gpu_model_runner.py:2718",
        ),
        Line(
            LazyCapture,
            "Graph capturing for {num_tokens} input tokens\n"
            + " " * 24
            + "finished in {duration_s:.3f} secs, took {memory_bytes:MiB.2f} MiB",
            "gpu_model_runner.py:2721",
        ),
        Line(Failure, failure(_out_of_memory), "core.py:700", "ERROR"),
    ),
)
"""Upstream vLLM, V1, as of the delayed capture proposal (2025-08).

The lines of captures while serving are those of pull request 23184, which was never
merged: no released vLLM prints them.
"""


LOG_FORMATS = {"vllm-fork": VLLM_FORK, "vllm-gaudi": VLLM_GAUDI, "vllm": VLLM}


def open_log(name: str, stream: TextIO) -> LogWriter:
    """A writer of that dialect. Raises SettingError."""
    if name not in LOG_FORMATS:
        known = ", ".join(LOG_FORMATS)
        raise SettingError(f"Unknown log format {name!r}; use one of {known}")
    return LogWriter(LOG_FORMATS[name], stream)
