"""vllm-gaudi, as its lines were between 2025-09-19 and 2025-11-14.

In that time the steps of the warm-up were records of the logger; later they are drawn
by a progress bar, unless VLLM_DEVELOPER_MODE prints them without an envelope.
Source: `hpu_model_runner.py`, `hpu_worker.py`, `extension/bucketing/`,
`extension/defragmentation.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from warmup_insights.model.events import (
    BucketMiss,
    BucketsGenerated,
    BucketsOmitted,
    CaptureSummary,
    ConfigRecorded,
    DefragRan,
    DefragWarmup,
    EngineInitialized,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    SamplerConfig,
    SamplerWarmup,
    WarmupStep,
)
from warmup_insights.runner.log_format.base import Line, number, took
from warmup_insights.runner.log_format.hpu import HpuDialect
from warmup_insights.units import GIB, format_bytes


class VllmGaudiLog(HpuDialect):
    """The dialect `vllm-gaudi`."""

    name: ClassVar[str] = "vllm-gaudi"
    runner_file: ClassVar[str] = "hpu_model_runner.py"
    bucket_file: ClassVar[str] = "common.py"
    worker_file: ClassVar[str] = "hpu_worker.py"

    def __init__(self) -> None:
        super().__init__()
        self._model = ""
        self._omitted: list[BucketsOmitted] = []
        self.handlers |= {
            RunStarted: self.started,
            ConfigRecorded: self.config,
            PhaseMarked: self.phase,
            MemoryMeasured: self.measured,
            MemoryBudgetSet: self.budget,
            KVCacheAllocated: self.cache,
            BucketsOmitted: self.omitted,
            SamplerWarmup: self.sampler,
            SamplerConfig: self.sampler_config,
            DefragWarmup: self.defragmenter,
            DefragRan: self.defragmented,
            WarmupStep: self.step,
            CaptureSummary: self.captured,
            EngineInitialized: self.initialized,
            BucketMiss: self.miss,
        }

    def started(self, event: RunStarted) -> Iterable[Line]:
        """No line of its own: the name of the model is needed later."""
        self._model = event.model or ""
        return ()

    def config(self, event: ConfigRecorded) -> Iterable[Line]:
        """`non-default args: {...}`."""
        settings = {"model": self._model, **event.settings}
        yield Line(f"non-default args: {settings!r}", "utils.py:233")

    def phase(self, event: PhaseMarked) -> Iterable[Line]:
        """The start of loading is the only one with a line."""
        if (event.name, event.edge) == ("load_model", "start"):
            yield Line(
                f"Starting to load model {self._model}...", "hpu_model_runner.py:2700"
            )

    def measured(self, event: MemoryMeasured) -> Iterable[Line]:
        """`Model profiling run took ...`; the weights in GB with four decimals."""
        if event.stage == "weights":
            size = (event.delta_bytes or 0) / GIB
            yield Line(
                f"Loading model weights took {size:.4f} GB", "hpu_model_runner.py:2740"
            )
        elif event.stage == "profile_run":
            yield Line(f"Model profiling run took {took(event)}", "hpu_worker.py:225")
        elif event.stage == "kv_cache":
            yield Line(
                f"Initializing cache engine took {took(event)}", "hpu_worker.py:290"
            )

    def budget(self, event: MemoryBudgetSet) -> Iterable[Line]:
        """`Free device memory: ..., 64 KiB reserved for KV cache dummy block ...`."""
        rest = (event.usable_bytes or 0) - (event.graph_reserved_bytes or 0)
        dummy = rest - (event.kv_cache_bytes or 0)
        yield Line(
            f"Free device memory: {format_bytes(event.free_bytes)}, "
            f"{format_bytes(event.usable_bytes)} usable (gpu_memory_utilization="
            f"{number(event.gpu_memory_utilization or 0)}), "
            f"{format_bytes(event.graph_reserved_bytes)} reserved for HPUGraphs "
            f"(VLLM_GRAPH_RESERVED_MEM={number(event.graph_reserved_fraction or 0)}), "
            f"{format_bytes(dummy)} reserved for KV cache dummy block "
            f"{format_bytes(event.kv_cache_bytes)} reserved for usable KV cache",
            "hpu_worker.py:250",
        )

    def cache(self, event: KVCacheAllocated) -> Iterable[Line]:
        """The upstream lines, and the usable blocks."""
        blocks, size = event.num_blocks or 0, event.block_size or 0
        yield Line(
            f"GPU KV cache size: {event.num_tokens or 0:,} tokens",
            "kv_cache_utils.py:829",
        )
        yield Line(
            f"Maximum concurrency for {event.tokens_per_request or 0:,} tokens per "
            f"request: {event.max_concurrency or 0.0:.2f}x",
            "kv_cache_utils.py:833",
        )
        yield Line(
            f"Usable num_blocks: {blocks}, actual allocated num_blocks: {blocks + 1} "
            f"(_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID={blocks * size})",
            "hpu_worker.py:285",
        )

    def omitted(self, event: BucketsOmitted) -> Iterable[Line]:
        """Kept for the record that comes before the list of the phase."""
        self._omitted.append(event)
        return ()

    def generated(self, event: BucketsGenerated) -> Iterable[Line]:
        """One debug record of what was omitted, then the list."""
        if self._omitted:
            rows = [
                f"('condition: {omitted.reason}', '-> bs, query, ctx: ', "
                f"{', '.join(map(str, bucket))})"
                for omitted in self._omitted
                for bucket in omitted.buckets
            ]
            head = f"Omitted {len(rows)} {event.phase} buckets:"
            yield Line("\n".join([head, *rows]), "common.py:150", "DEBUG")
            self._omitted = []
        yield from super().generated(event)

    def sampler(self, event: SamplerWarmup) -> Iterable[Line]:
        """`Warming up sampler with batch sizes: [0, 1, 138] and following configs:`."""
        if event.status == "started":
            yield Line(
                f"Warming up sampler with batch sizes: {event.batch_sizes} and following "
                "configs:",
                "hpu_model_runner.py:3347",
            )
        elif event.status == "completed":
            yield Line(
                "Sampler warmup completed successfully", "hpu_model_runner.py:3411"
            )

    def sampler_config(self, event: SamplerConfig) -> Iterable[Line]:
        """`temp=0.7, top_p=0.9, top_k=50, batch_changed=True`."""
        yield Line(
            f"temp={event.temperature}, top_p={event.top_p}, top_k={event.top_k}, "
            f"batch_changed={event.batch_changed}",
            "hpu_model_runner.py:3349",
        )
        if not event.batch_changed and event.top_p == 0.85:
            # The last of the twelve; then the engine says that it starts.
            yield Line("Starting sampler warmup...", "hpu_model_runner.py:3350")

    def defragmenter(self, event: DefragWarmup) -> Iterable[Line]:
        """`Warming up defragmenter with thresholds: [8, 16, ...]`."""
        if event.status == "started":
            yield Line(
                f"Warming up defragmenter with thresholds: {event.thresholds}",
                "hpu_model_runner.py:3428",
            )
        elif event.status == "completed":
            yield Line(
                "Defragmenter warmup completed successfully", "hpu_model_runner.py:3452"
            )
        else:
            yield Line(
                f"Skipping defragmenter warmup, {event.reason}",
                "hpu_model_runner.py:3436",
                "WARNING",
            )

    def defragmented(self, event: DefragRan) -> Iterable[Line]:
        """`[defrag] defragmentation done max_id_used=4000->812 ...`."""
        yield Line(
            f"[defrag] defragmentation done max_id_used={event.max_id_before}->"
            f"{event.max_id_after} num_used={event.num_used} "
            f"swapped={event.swapped}/{event.padded}",
            "debug.py:18",
            "WARNING",
        )

    def step(self, event: WarmupStep) -> Iterable[Line]:
        """`[Warmup][Prompt][1/96] batch_size:1 query_len:2048 num_blocks:0 ...`."""
        word = event.phase.capitalize()
        if event.mode == "graph":
            word = f"Graph/{event.phase}"
        sizes = event.bucket or (0, 0, 0)
        names = ("batch_size", "query_len", "num_blocks")
        shape = " ".join(f"{n}:{size}" for n, size in zip(names, sizes, strict=False))
        yield Line(
            f"[Warmup][{word}][{event.index}/{event.total}] {shape} "
            f"free_mem:{format_bytes(event.free_before_bytes)}",
            "hpu_model_runner.py:3170",
        )

    def captured(self, event: CaptureSummary) -> Iterable[Line]:
        """`Graph/Prompt captured:96 used_mem:1.234 GiB`."""
        yield Line(
            f"Graph/{event.phase.capitalize()} captured:{event.captured_reported} "
            f"used_mem:{format_bytes(event.used_bytes)}",
            "hpu_model_runner.py:3205",
        )

    def initialized(self, event: EngineInitialized) -> Iterable[Line]:
        """`init engine (profile, create kv cache, warmup model) took 12.23 seconds`."""
        yield Line(
            "init engine (profile, create kv cache, warmup model) took "
            f"{event.duration_s or 0.0:.2f} seconds",
            "core.py:193",
        )

    def miss(self, event: BucketMiss) -> Iterable[Line]:
        """`Prompt bucket for (1, 2108, 0) was not prepared. Adding new bucket: ...`."""
        yield Line(
            f"{event.phase.capitalize()} bucket for {tuple(event.shape)} was not "
            f"prepared. Adding new bucket: {tuple(event.fallback or event.shape)}",
            "common.py:205",
            "WARNING",
        )
