"""Upstream vLLM, V1, as of the delayed capture proposal (2025-08).

The lines of captures while serving are those of pull request 23184, which was never
merged: no released vLLM prints them.
Source: `v1/worker/gpu_model_runner.py`, `v1/worker/gpu_worker.py`,
`v1/core/kv_cache_utils.py`, `v1/engine/core.py`.
"""

from __future__ import annotations

from warmup_insights.model.events import (
    CaptureSummary,
    Failure,
    GraphsCaptured,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
)
from warmup_insights.runner.log_format.writer import (
    SERVING,
    Line,
    LogDialect,
    Seen,
    failure,
    upstream,
)
from warmup_insights.units import GIB, MIB

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
