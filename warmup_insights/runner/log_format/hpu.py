"""Lines that the HPU dialects share.

Source: `hpu_model_runner.py` and `hpu_worker.py` of vllm-fork and vllm-gaudi.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from warmup_insights.model.events import (
    BenchmarkResult,
    BucketRangesConfigured,
    BucketsGenerated,
    Failure,
    ServerReady,
    WarmupFinished,
)
from warmup_insights.runner.log_format.base import Line, LogDialect, tuples
from warmup_insights.runner.metrics import result_block
from warmup_insights.units import MIB, format_bytes


class HpuDialect(LogDialect):
    """Buckets, the end of the warm-up, failures and benchmarks."""

    runner_file: ClassVar[str]
    bucket_file: ClassVar[str]
    worker_file: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        self.handlers = {
            BucketRangesConfigured: self.ranges,
            BucketsGenerated: self.generated,
            WarmupFinished: self.finished,
            ServerReady: self.ready,
            Failure: self.failure,
            BenchmarkResult: self.benchmark,
        }

    def ranges(self, event: BucketRangesConfigured) -> Iterable[Line]:
        """`Prompt bucket config (min, step, max_warmup) bs:[1, 32, 4], seq:[...]`."""
        names = ["max_warmup" if name == "max" else name for name in event.parameters]
        values = ", ".join(f"{name}:{list(v)}" for name, v in event.ranges.items())
        yield Line(
            f"{event.phase.capitalize()} bucket config ({', '.join(names)}) {values}",
            f"{self.bucket_file}:36",
        )

    def generated(self, event: BucketsGenerated) -> Iterable[Line]:
        """`Generated 24 prompt buckets: [(1, 128), ...]`."""
        legend = (
            "" if len(event.dimensions) == 2 else f" [{', '.join(event.dimensions)}]"
        )
        yield Line(
            f"Generated {event.count} {event.phase} buckets{legend}: "
            f"{tuples(event.buckets)}",
            f"{self.bucket_file}:85",
        )

    def finished(self, event: WarmupFinished) -> Iterable[Line]:
        """`Warmup finished in 49 secs, allocated 14.19 GiB of device memory`."""
        if event.skipped:
            yield Line("Skipping warmup...", f"{self.runner_file}:1131")
            return
        yield Line(
            f"Warmup finished in {event.duration_s or 0.0:.0f} secs, allocated "
            f"{format_bytes(event.allocated_bytes)} of device memory",
            f"{self.runner_file}:1206",
        )

    def ready(self, event: ServerReady) -> Iterable[Line]:
        """Uvicorn's line, which has no stamp."""
        yield Line("INFO:     Application startup complete.")

    def benchmark(self, event: BenchmarkResult) -> Iterable[Line]:
        """The block of `vllm bench serve`."""
        yield Line(result_block(event.values))

    def failure(self, event: Failure) -> Iterable[Line]:
        """The last line of the traceback."""
        yield Line(_failure_text(event), f"{self.worker_file}:210", "ERROR")


def _failure_text(event: Failure) -> str:
    if event.failure == "out_of_memory":
        needed = event.needed_bytes or 0
        return (
            "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed "
            f"for size::{needed} ({needed // MIB})MB"
        )
    if event.failure == "no_kv_cache":
        return (
            "ValueError: No available memory for the cache blocks. Try increasing "
            "`gpu_memory_utilization` when initializing the engine."
        )
    return f"RuntimeError: {' '.join(event.message.split())}"
