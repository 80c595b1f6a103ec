"""Upstream vLLM, V1, as of the delayed capture proposal (2025-08).

The lines of captures while serving are those of pull request 23184, which was never
merged: no released vLLM prints them.
Source: `v1/worker/gpu_model_runner.py`, `v1/worker/gpu_worker.py`,
`v1/core/kv_cache_utils.py`, `v1/engine/core.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from warmup_insights.model.events import (
    BenchmarkResult,
    CaptureSummary,
    ConfigRecorded,
    EngineInitialized,
    Failure,
    GraphCaptured,
    GraphsCaptured,
    GraphSkipped,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    ServerReady,
)
from warmup_insights.runner.log_format.base import Line, LogDialect
from warmup_insights.runner.metrics import result_block
from warmup_insights.units import GIB, MIB

_MODES = {
    "prompt": "mixed prefill-decode, PIECEWISE",
    "decode": "decode, FULL",
}


class VllmLog(LogDialect):
    """The dialect `vllm`."""

    name: ClassVar[str] = "vllm"

    def __init__(self) -> None:
        super().__init__()
        self._model = ""
        self._total_bytes = 0
        self._seconds = {"prompt": 0.0, "decode": 0.0}
        self._skipped = {"prompt": 0, "decode": 0}
        self.handlers = {
            RunStarted: self.started,
            ConfigRecorded: self.config,
            PhaseMarked: self.phase,
            MemoryMeasured: self.measured,
            MemoryBudgetSet: self.budget,
            KVCacheAllocated: self.cache,
            GraphCaptured: self.graph,
            GraphSkipped: self.skipped,
            CaptureSummary: self.captured,
            GraphsCaptured: self.all_captured,
            LazyCapture: self.lazy,
            EngineInitialized: self.initialized,
            ServerReady: self.ready,
            Failure: self.failure,
            BenchmarkResult: self.benchmark,
        }

    def started(self, event: RunStarted) -> Iterable[Line]:
        """No line of its own: the name of the model is needed later."""
        self._model = event.model or ""
        return ()

    def config(self, event: ConfigRecorded) -> Iterable[Line]:
        """`non-default args: {...}`."""
        settings = {"model": self._model, **event.settings}
        yield Line(f"non-default args: {settings!r}", "utils.py:326")

    def phase(self, event: PhaseMarked) -> Iterable[Line]:
        """The start of loading is the only one with a line."""
        if (event.name, event.edge) == ("load_model", "start"):
            yield Line(
                f"Starting to load model {self._model}...", "gpu_model_runner.py:1953"
            )

    def measured(self, event: MemoryMeasured) -> Iterable[Line]:
        """`Model loading took 2.3185 GiB and 0.903764 seconds`."""
        if event.stage == "weights":
            yield Line(
                f"Model loading took {(event.delta_bytes or 0) / GIB:.4f} GiB and "
                f"{event.duration_s or 0.0:.6f} seconds",
                "gpu_model_runner.py:2007",
            )

    def budget(self, event: MemoryBudgetSet) -> Iterable[Line]:
        """`Available KV cache memory: 37.10 GiB`."""
        self._total_bytes = event.total_bytes or 0
        yield Line(
            f"Available KV cache memory: {(event.kv_cache_bytes or 0) / GIB:.2f} GiB",
            "gpu_worker.py:276",
        )

    def cache(self, event: KVCacheAllocated) -> Iterable[Line]:
        """`GPU KV cache size: 1,215,552 tokens` and the concurrency."""
        yield Line(
            f"GPU KV cache size: {event.num_tokens or 0:,} tokens",
            "kv_cache_utils.py:849",
        )
        yield Line(
            f"Maximum concurrency for {event.tokens_per_request or 0:,} tokens per "
            f"request: {event.max_concurrency or 0.0:.2f}x",
            "kv_cache_utils.py:853",
        )

    def graph(self, event: GraphCaptured) -> Iterable[Line]:
        """No line of its own: the bar at the end has their time."""
        self._seconds[event.phase] += event.duration_s or 0.0
        return ()

    def skipped(self, event: GraphSkipped) -> Iterable[Line]:
        """No line of its own: the bar ends below its total."""
        self._skipped[event.phase] += 1
        return ()

    def captured(self, event: CaptureSummary) -> Iterable[Line]:
        """The last state of the progress bar."""
        done, skipped = event.captured_reported, self._skipped[event.phase]
        total, seconds = done + skipped, self._seconds[event.phase]
        percent = 100 * done // total if total else 100
        rate = f"{done / seconds:5.2f}" if seconds else "?"
        bar = "█" * (percent // 10)
        yield Line(
            f"Capturing CUDA graphs ({_MODES[event.phase]}): {percent:3d}%|{bar:<10}| "
            f"{done}/{total} [{_clock(seconds)}<00:00, {rate}it/s]"
        )

    def all_captured(self, event: GraphsCaptured) -> Iterable[Line]:
        """`Graph capturing finished in 4 secs, took 0.54 GiB`."""
        yield Line(
            f"Graph capturing finished in {event.duration_s or 0.0:.0f} secs, took "
            f"{(event.memory_bytes or 0) / GIB:.2f} GiB",
            "gpu_model_runner.py:2718",
        )

    def lazy(self, event: LazyCapture) -> Iterable[Line]:
        """Two lines of one record."""
        yield Line(
            f"Graph capturing for {event.num_tokens} input tokens\n{' ' * 24}finished in "
            f"{event.duration_s or 0.0:.3f} secs, took "
            f"{(event.memory_bytes or 0) / MIB:.2f} MiB",
            "gpu_model_runner.py:2721",
        )

    def initialized(self, event: EngineInitialized) -> Iterable[Line]:
        """`init engine (profile, create kv cache, warmup model) took 12.23 seconds`."""
        yield Line(
            "init engine (profile, create kv cache, warmup model) took "
            f"{event.duration_s or 0.0:.2f} seconds",
            "core.py:214",
        )

    def ready(self, event: ServerReady) -> Iterable[Line]:
        """Uvicorn's line, which has no stamp."""
        yield Line("INFO:     Application startup complete.")

    def benchmark(self, event: BenchmarkResult) -> Iterable[Line]:
        """The block of `vllm bench serve`."""
        yield Line(result_block(event.values))

    def failure(self, event: Failure) -> Iterable[Line]:
        """The last line of the traceback."""
        if event.failure == "out_of_memory":
            text = (
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
                f"{(event.needed_bytes or 0) / MIB:.2f} MiB. GPU 0 has a total capacity "
                f"of {self._total_bytes / GIB:.2f} GiB of which "
                f"{(event.free_bytes or 0) / MIB:.2f} MiB is free."
            )
        elif event.failure == "no_kv_cache":
            text = (
                "ValueError: No available memory for the cache blocks. Try increasing "
                "`gpu_memory_utilization` when initializing the engine."
            )
        else:
            text = f"RuntimeError: {' '.join(event.message.split())}"
        yield Line(text, "core.py:700", "ERROR")


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"
