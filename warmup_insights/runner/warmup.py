"""The start-up of the reference engine: read `Warmup.start` from top to bottom."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial

from warmup_insights.bucketing.base import Phase
from warmup_insights.model.events import (
    Bucket,
    EngineInitialized,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.rules.memory import CacheLayout, MemoryBudget, make_layout
from warmup_insights.runner.buckets import KINDS, Buckets
from warmup_insights.runner.engine import (
    Emitter,
    Engine,
    Measured,
    SamplingParams,
    measure,
)
from warmup_insights.runner.graphs import GraphCapture
from warmup_insights.runner.scheduler import warm_up_defragmenter
from warmup_insights.runner.settings import RunSettings


class Warmup:
    """Start-up of one engine; after `start` it is ready to serve."""

    budget: MemoryBudget
    layout: CacheLayout
    buckets: Buckets

    def __init__(self, engine: Engine, settings: RunSettings, emitter: Emitter) -> None:
        self.engine = engine
        self.device = engine.device
        self.settings = settings
        self.emitter = emitter
        self.graphs = GraphCapture(engine, settings, emitter)
        self._kind = KINDS[settings.bucket_dimensions]

    def start(self) -> None:
        """Everything between nothing and ready."""
        self.load_model()
        profiled = self.emitter.now()
        self.profile_run()
        self.allocate_kv_cache()
        self.generate_buckets()
        if self.settings.skip_warmup:
            self.emitter.emit(WarmupFinished, skipped=True)
        else:
            self.warm_up()
        took = self.emitter.now() - profiled
        self.emitter.emit(EngineInitialized, duration_s=took)
        self.emitter.emit(ServerReady)

    def load_model(self) -> None:
        """Put the weights on the device."""
        with self.emitter.phase("load_model"):
            self._note_memory("weights", measure(self.device, self.engine.load_model))

    def profile_run(self) -> None:
        """Run the largest prompt, then divide what is left."""
        bucket = self._kind.profile_bucket(self.settings)
        with self.emitter.phase("profile_run", bucket):
            work = partial(self.engine.profile_run, bucket)
            self._note_memory("profile_run", measure(self.device, work))
        self.budget = self._divide_memory()

    def allocate_kv_cache(self) -> None:
        """Make the paged cache in whole blocks."""
        settings = self.settings
        with self.emitter.phase("kv_cache"):
            self.layout = make_layout(
                self.budget, settings.block_size, max_model_len=settings.max_model_len
            )
            work = partial(self.engine.allocate_kv_cache, self.layout)
            taken = measure(self.device, work)
            tokens = self.layout.num_blocks * settings.block_size
            self.emitter.emit(
                KVCacheAllocated,
                num_blocks=self.layout.num_blocks,
                block_size=settings.block_size,
                num_tokens=tokens,
                max_concurrency=self.layout.num_blocks
                / self.layout.blocks_for(settings.max_model_len),
                tokens_per_request=settings.max_model_len,
                num_host_blocks=0,
                allocated_bytes=taken.used_bytes,
                time=taken.ended,
            )
            self._note_memory("kv_cache", taken)

    def generate_buckets(self) -> None:
        """Generate the buckets, and record the outcome."""
        with self.emitter.phase("bucket_generation"):
            self.buckets = self._kind(self.settings, self.layout)
            self.buckets.record(self.emitter)
            for note in self.buckets.notes:
                self.emitter.emit(Note, topic="bucketing", text=note)

    def warm_up(self) -> None:
        """Sampler, defragmenter, every bucket, then the graphs."""
        started, before = self.emitter.now(), self.device.memory()
        if not self.settings.enforce_eager:
            sizes = [bucket[0] for bucket in self.buckets.of("decode")]
            warm_up_sampler(self.engine, sizes, self.emitter)
        if self.settings.defrag:
            warm_up_defragmenter(
                self.engine,
                self.layout,
                self.emitter,
                with_graphs=self.settings.swaps_with_graphs,
            )
        self._warm_up_buckets("prompt")
        self._warm_up_buckets("decode")
        if self.settings.uses_graphs:
            self.graphs.capture(self.budget, self.buckets)
        self.emitter.move("ready")
        ended, after = self.emitter.now(), self.device.memory()
        self.emitter.emit(
            WarmupFinished,
            duration_s=ended - started,
            allocated_bytes=after.used_bytes - before.used_bytes,
            time=ended,
        )

    def _warm_up_buckets(self, phase: Phase) -> None:
        """Run every bucket once, the largest first."""
        buckets = self.buckets.warmup_order(phase)
        with self.emitter.phase(f"{phase}_warmup"):
            for index, bucket in enumerate(buckets, start=1):
                self.emitter.move(phase, bucket)
                self._warm_up_bucket(phase, bucket, index, len(buckets))

    def _warm_up_bucket(
        self, phase: Phase, bucket: Bucket, index: int, total: int
    ) -> None:
        device = self.device
        before, began = device.memory(), device.now()
        compiled = device.num_compiled()
        is_finished = False
        try:
            self.engine.run_bucket(phase, bucket)
            device.synchronize()
            is_finished = True
        finally:
            ended = device.now()
            after = device.memory() if is_finished else None
            self.emitter.emit(
                WarmupStep,
                phase=phase,
                mode="eager",
                bucket=bucket,
                index=index,
                total=total,
                duration_s=ended - began,
                free_before_bytes=before.free_bytes,
                free_after_bytes=after.free_bytes if after else None,
                memory_bytes=after.used_bytes - before.used_bytes if after else None,
                executed=bucket,
                is_finished=is_finished,
                compiled=_difference(device.num_compiled(), compiled),
                time=began,
            )

    def _divide_memory(self) -> MemoryBudget:
        reading = self.device.memory()
        settings = self.settings
        budget = MemoryBudget(
            total_bytes=reading.total_bytes,
            free_bytes=reading.free_bytes,
            gpu_memory_utilization=settings.gpu_memory_utilization,
            graph_reserved_fraction=settings.reserved_fraction,
            block_bytes=self.engine.block_bytes,
            has_own_padding=self._kind.has_own_padding,
        )
        self.emitter.emit(
            MemoryBudgetSet,
            total_bytes=budget.total_bytes,
            free_bytes=budget.free_bytes,
            usable_bytes=budget.usable_bytes,
            graph_reserved_bytes=budget.graph_reserved_bytes,
            kv_cache_bytes=budget.kv_cache_bytes,
            gpu_memory_utilization=budget.gpu_memory_utilization,
            graph_reserved_fraction=budget.graph_reserved_fraction,
        )
        return budget

    def _note_memory(self, stage: str, taken: Measured) -> None:
        before, after = taken.before, taken.after
        self.emitter.emit(
            MemoryMeasured,
            stage=stage,
            delta_bytes=taken.used_bytes,
            used_bytes=after.used_bytes,
            free_bytes=after.free_bytes,
            total_bytes=after.total_bytes,
            host_delta_bytes=_difference(after.host_used_bytes, before.host_used_bytes),
            host_used_bytes=after.host_used_bytes,
            host_total_bytes=after.host_total_bytes,
            duration_s=taken.duration_s,
            time=taken.ended,
        )


def _difference(after: int | None, before: int | None) -> int | None:
    return None if after is None or before is None else after - before


# Source: `warmup_sampler` of vllm-gaudi (`hpu_model_runner.py`): six settings, first
# with a changed batch, then with the same one.
WARMUP_PARAMS = (
    SamplingParams(0.0, 1.0, 0),
    SamplingParams(1.0, 1.0, 0),
    SamplingParams(0.7, 0.9, 50),
    SamplingParams(0.3, 0.95, 20),
    SamplingParams(1.2, 0.8, 100),
    SamplingParams(0.8, 0.85, 0),
)
WARMUP_CONFIGS = tuple(
    (params, changed) for changed in (True, False) for params in WARMUP_PARAMS
)


def sampler_batch_sizes(decode_batch_sizes: Iterable[int]) -> list[int]:
    """0 and 1, then the other batch sizes of the decode buckets, rising."""
    return [0, 1, *sorted(set(decode_batch_sizes) - {0, 1})]


def warm_up_sampler(
    engine: Engine, decode_batch_sizes: Iterable[int], emitter: Emitter
) -> None:
    """Sample with every configuration at every batch size, each step an event."""
    with emitter.phase("sampler_warmup"):
        started = emitter.now()
        sizes = sampler_batch_sizes(decode_batch_sizes)
        emitter.emit(SamplerWarmup, status="started", batch_sizes=sizes)
        for params, changed in WARMUP_CONFIGS:
            emitter.emit(SamplerConfig, **asdict(params), batch_changed=changed)
        for size in sizes:
            for params, changed in WARMUP_CONFIGS:
                began = emitter.now()
                engine.warm_sampler(size, params, batch_changed=changed)
                engine.device.synchronize()
                emitter.emit(
                    SamplerStep,
                    **asdict(params),
                    batch_size=size,
                    batch_changed=changed,
                    duration_s=emitter.now() - began,
                    time=began,
                )
        took = emitter.now() - started
        emitter.emit(
            SamplerWarmup, status="completed", batch_sizes=sizes, duration_s=took
        )
