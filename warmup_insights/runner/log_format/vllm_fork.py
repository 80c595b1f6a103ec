"""HabanaAI vllm-fork 1.17, two dimensions: the log of the warm-up documentation.

Source: `habana_model_runner.py`, `habana_worker.py`, `habana_executor.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from warmup_insights.model.events import (
    BucketMiss,
    BucketsOmitted,
    CaptureSummary,
    GraphBudgetSet,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    WarmupStep,
)
from warmup_insights.runner.log_format.base import Line, number, took, tuples
from warmup_insights.runner.log_format.hpu import HpuDialect
from warmup_insights.units import format_bytes

_STAGES = {
    "weights": ("Loading model weights took in total ", "hpu_model_runner.py:442"),
    "profile_run": ("Model profiling run took ", "hpu_worker.py:134"),
    "kv_cache": ("Initializing cache engine took ", "hpu_worker.py:190"),
}


class VllmForkLog(HpuDialect):
    """The dialect `vllm-fork`."""

    name: ClassVar[str] = "vllm-fork"
    has_brackets: ClassVar[bool] = False
    runner_file: ClassVar[str] = "hpu_model_runner.py"
    bucket_file: ClassVar[str] = "hpu_model_runner.py"
    worker_file: ClassVar[str] = "hpu_worker.py"

    def __init__(self) -> None:
        super().__init__()
        self.handlers |= {
            MemoryMeasured: self.measured,
            MemoryBudgetSet: self.budget,
            KVCacheAllocated: self.cache,
            BucketsOmitted: self.omitted,
            WarmupStep: self.step,
            GraphBudgetSet: self.graph_budget,
            CaptureSummary: self.captured,
            BucketMiss: self.miss,
        }

    def measured(self, event: MemoryMeasured) -> Iterable[Line]:
        """`Model profiling run took 504 MiB of device memory (...) and ...`."""
        if event.stage in _STAGES:
            words, source = _STAGES[event.stage]
            yield Line(words + took(event), source)

    def budget(self, event: MemoryBudgetSet) -> Iterable[Line]:
        """`Free device memory: 79.16 GiB, 39.58 GiB usable (...), ...`."""
        yield Line(
            f"Free device memory: {format_bytes(event.free_bytes)}, "
            f"{format_bytes(event.usable_bytes)} usable (gpu_memory_utilization="
            f"{number(event.gpu_memory_utilization or 0)}), "
            f"{format_bytes(event.graph_reserved_bytes)} reserved for HPUGraphs "
            f"(VLLM_GRAPH_RESERVED_MEM={number(event.graph_reserved_fraction or 0)}), "
            f"{format_bytes(event.kv_cache_bytes)} reserved for KV cache",
            "hpu_worker.py:158",
        )

    def cache(self, event: KVCacheAllocated) -> Iterable[Line]:
        """`# HPU blocks: 1519, # CPU blocks: 0`."""
        yield Line(
            f"# HPU blocks: {event.num_blocks}, # CPU blocks: {event.num_host_blocks}",
            "hpu_executor.py:85",
        )

    def omitted(self, event: BucketsOmitted) -> Iterable[Line]:
        """`Omitted 4 prompt buckets due to exceeded token budget (...)`.

        Conditions of later engines have no such line: their buckets are listed.
        """
        if event.reason and event.reason.startswith("due to"):
            yield Line(
                f"Omitted {event.count} {event.phase} buckets {event.reason}",
                "hpu_model_runner.py:590",
            )
        else:
            yield Line(
                f"Omitted {event.phase} buckets: {tuples(event.buckets)}",
                "hpu_model_runner.py:593",
                "DEBUG",
            )

    def step(self, event: WarmupStep) -> Iterable[Line]:
        """`[Warmup][Graph/Prompt][1/24] batch_size:1 seq_len:128 free_mem:55.43 GiB`."""
        word = event.phase.capitalize()
        if event.mode == "graph":
            word = f"Graph/{word}"
        batch_size, *rest = event.bucket or (0, 0)
        shape = f"batch_size:{batch_size} seq_len:{rest[0]}"
        if len(rest) == 2:
            shape = f"batch_size:{batch_size} query_len:{rest[0]} num_blocks:{rest[1]}"
        yield Line(
            f"[Warmup][{word}][{event.index}/{event.total}] {shape} "
            f"free_mem:{format_bytes(event.free_before_bytes)}",
            "hpu_model_runner.py:1066",
        )

    def graph_budget(self, event: GraphBudgetSet) -> Iterable[Line]:
        """`Using 15.85 GiB/55.43 GiB of free device memory for HPUGraphs, ...`."""
        yield Line(
            f"Using {format_bytes(event.total_bytes)}/{format_bytes(event.free_bytes)} "
            f"of free device memory for HPUGraphs, {format_bytes(event.prompt_bytes)} "
            f"for prompt and {format_bytes(event.decode_bytes)} for decode "
            f"(VLLM_GRAPH_PROMPT_RATIO={number(event.prompt_ratio or 0)})",
            "hpu_model_runner.py:1159",
        )

    def captured(self, event: CaptureSummary) -> Iterable[Line]:
        """`Graph/Prompt captured:15 (62.5%) used_mem:14.03 GiB buckets:[...]`."""
        yield Line(
            f"Graph/{event.phase.capitalize()} captured:{event.captured_reported} "
            f"({event.percent_reported or 0.0:.1f}%) "
            f"used_mem:{format_bytes(event.used_bytes)} buckets:{tuples(event.buckets)}",
            "hpu_model_runner.py:1128",
        )

    def miss(self, event: BucketMiss) -> Iterable[Line]:
        """`Configuration: ('prompt', 16, 896) was not warmed-up!`, the padded shape."""
        shape = (event.phase, *(event.fallback or event.shape))
        yield Line(
            f"Configuration: {shape!r} was not warmed-up!",
            "hpu_model_runner.py:1013",
            "WARNING",
        )
