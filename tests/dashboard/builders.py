"""Recorded runs for the dashboard's tests, small enough to know every figure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from warmup_insights.model.events import (
    BucketMiss,
    BucketsGenerated,
    BucketUsed,
    ConfigRecorded,
    DefragRan,
    DefragStep,
    DefragWarmup,
    Event,
    GraphBudgetSet,
    GraphCaptured,
    GraphSkipped,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    RunFinished,
    RunStarted,
    SamplerConfig,
    SamplerStep,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.run import RunRecord
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore

GIB = 1024**3
START = 1_790_000_000.0
PROMPTS = ((1, 128, 0), (1, 256, 0), (2, 128, 0), (2, 256, 0))
DECODES = ((1, 1, 16), (2, 1, 16), (2, 1, 32))


def recorded_events(*, captured: int = 3, scale: float = 1.0) -> Iterator[Event]:
    """A start-up with every kind of event; `captured` prompt graphs of four fit.

    100 GiB in all, 20 for weights, 1 for the profiling run, 70 usable, 10 for graphs.
    """
    clock = START
    yield RunStarted(
        time=clock, engine="reference", version="0.1.0", model="tiny/model",
        device_kind="simulated", device_name="simulated Gaudi 2", synthetic=True,
    )  # fmt: skip
    yield ConfigRecorded(
        time=clock,
        settings={
            "gpu_memory_utilization": 0.9, "VLLM_GRAPH_RESERVED_MEM": 0.125 * scale,
            "block_size": 128, "max_model_len": 4096, "max_num_seqs": 2,
            "max_num_batched_tokens": 256,
        },
    )  # fmt: skip
    yield PhaseMarked(name="load_model", edge="start", time=clock)
    yield MemoryMeasured(
        stage="weights", delta_bytes=20 * GIB, used_bytes=20 * GIB,
        total_bytes=100 * GIB, time=clock + 4,
    )  # fmt: skip
    yield MemoryMeasured(
        stage="profile_run", delta_bytes=1 * GIB, used_bytes=21 * GIB,
        total_bytes=100 * GIB, time=clock + 5,
    )  # fmt: skip
    yield MemoryBudgetSet(
        total_bytes=100 * GIB, free_bytes=79 * GIB, usable_bytes=70 * GIB,
        graph_reserved_bytes=10 * GIB, kv_cache_bytes=60 * GIB,
        gpu_memory_utilization=0.9, graph_reserved_fraction=0.125 * scale,
        time=clock + 5,
    )  # fmt: skip
    yield KVCacheAllocated(
        num_blocks=int(600 / scale), block_size=128, allocated_bytes=60 * GIB,
        time=clock + 6,
    )  # fmt: skip
    yield BucketsGenerated(
        phase="prompt", count=4, buckets=list(PROMPTS), time=clock + 6
    )
    yield BucketsGenerated(
        phase="decode", count=3, buckets=list(DECODES), time=clock + 6
    )
    yield from _sampler_and_defrag(clock + 6)
    clock += 8
    for phase, buckets in (("prompt", PROMPTS), ("decode", DECODES)):
        for index, bucket in enumerate(buckets, 1):
            yield WarmupStep(
                phase=phase, mode="eager", bucket=bucket, index=index,
                total=len(buckets), duration_s=float(index), time=clock,
                executed=(2, 1, 64) if bucket == (2, 1, 32) else bucket,
            )  # fmt: skip
            clock += index
    yield GraphBudgetSet(
        total_bytes=10 * GIB, prompt_bytes=3 * GIB, decode_bytes=7 * GIB,
        prompt_ratio=0.3, time=clock,
    )  # fmt: skip
    yield from _captures(clock, captured)
    clock += 10
    yield WarmupFinished(
        duration_s=clock - START - 8, allocated_bytes=8 * GIB, time=clock
    )
    yield ServerReady(time=clock)
    yield from _serving(clock)
    yield RunFinished(status="finished", time=clock + 30)


def _sampler_and_defrag(clock: float) -> Iterator[Event]:
    config = {"temperature": 0.7, "top_p": 0.9, "top_k": 50, "batch_changed": True}
    yield SamplerWarmup(status="started", batch_sizes=[0, 1, 2], time=clock)
    yield SamplerConfig(**config)
    for size in (0, 1, 2):
        yield SamplerStep(batch_size=size, duration_s=0.01 * (size + 1), **config)
    yield SamplerWarmup(status="completed", duration_s=0.06, time=clock + 1)
    yield DefragWarmup(status="started", thresholds=[8, 16], time=clock + 1)
    yield DefragStep(threshold=8, duration_s=0.5)
    yield DefragStep(threshold=16, duration_s=0.25)
    yield DefragWarmup(status="completed", duration_s=0.75, time=clock + 2)


def _captures(clock: float, captured: int) -> Iterator[Event]:
    for index, bucket in enumerate(PROMPTS, 1):
        if index <= captured:
            yield GraphCaptured(
                phase="prompt", bucket=bucket, index=index, total=4, duration_s=1.0,
                memory_bytes=2 * GIB, time=clock + index,
            )  # fmt: skip
        else:
            yield GraphSkipped(
                phase="prompt", bucket=bucket, reason="too large",
                estimate_bytes=5 * GIB, available_bytes=4 * GIB, time=clock + index,
            )  # fmt: skip
    for index, bucket in enumerate(DECODES, 1):
        yield GraphCaptured(
            phase="decode", bucket=bucket, index=index, total=3, duration_s=0.5,
            memory_bytes=GIB // 2, time=clock + 4 + index,
        )  # fmt: skip


def _serving(clock: float) -> Iterator[Event]:
    yield BucketUsed(phase="prompt", shape=(1, 100, 0), bucket=(1, 128, 0), count=3)
    yield BucketUsed(phase="decode", shape=(1, 1, 9), bucket=(2, 1, 16), count=2)
    yield BucketMiss(phase="prompt", shape=(1, 300, 0), fallback=(1, 384, 0), count=5)
    yield BucketMiss(phase="decode", shape=(2, 1, 40))
    for number in range(3):
        yield DefragRan(
            swapped=4, padded=8, max_id_before=90 + number, max_id_after=40,
            duration_s=0.001, time=clock + number,
        )  # fmt: skip


def add_run(store: EventStore, run_id: str, events: Any, **columns: Any) -> None:
    """A recorded run with its summary."""
    with store.begin() as transaction:
        transaction.ensure_run(RunRecord(run_id=run_id, started_at=START, **columns))
        transaction.append(run_id, list(events))
    refresh(store, run_id)


def add_recorded_runs(store: EventStore) -> None:
    """Three runs of one model: different reserves, captures and caches."""
    for number, (captured, scale) in enumerate([(3, 1.0), (4, 1.5), (2, 0.8)]):
        add_run(
            store, f"{'abc'[number]}0{number}" * 4,
            recorded_events(captured=captured, scale=scale),
            label=f"recorded {number}", source_name="reference",
        )  # fmt: skip
