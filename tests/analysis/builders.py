"""Runs to compare, plan from and advise on; everything is made from events."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from tests.helpers import ROOT, events
from warmup_insights.analysis.advice import RunFacts
from warmup_insights.analysis.plan.planning import Planner
from warmup_insights.analysis.summary import Folded, summarize
from warmup_insights.devices.simulated import PROFILES, SimulatedDevice
from warmup_insights.model.events import (
    AnyEvent,
    BucketsGenerated,
    ConfigRecorded,
    Event,
    KVCacheAllocated,
    MemoryBudgetSet,
    RunStarted,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import Contradiction, RunSummary
from warmup_insights.runner.session import Outcome, Session
from warmup_insights.runner.settings import RunSettings
from warmup_insights.units import GIB

SEED_LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"

PROMPTS = [(1, 128, 0), (1, 256, 0), (2, 128, 0)]
DECODES = [(1, 1, 8), (2, 1, 8), (2, 1, 16)]


def run_record(run_id: str = "aaa", **more: Any) -> RunRecord:
    return RunRecord(run_id=run_id, **{"source_kind": "recorder", **more})


def summary_of(events: list[Event], run_id: str = "aaa", **more: Any) -> RunSummary:
    return summarize(run_record(run_id, **more), events).summary


def summarized(events: list[Event], run_id: str = "aaa", **more: Any) -> Folded:
    return summarize(run_record(run_id, **more), events)


def planner_of(events: list[Event], **more: Any) -> Planner:
    """A planner from events alone."""
    made = summarized(events, **more)
    return Planner(made.summary, made.rows)


def changed(summary: RunSummary, **sections: Any) -> RunSummary:
    """A summary with other values: `status="failed"`, `time={"wall_s": 3.0}`.

    A mapping changes those fields of its section, anything else replaces it.
    """
    values = {
        name: msgspec.structs.replace(getattr(summary, name), **value)
        if isinstance(value, dict) and name not in ("config", "buckets")
        else value
        for name, value in sections.items()
    }
    return msgspec.structs.replace(summary, **values)


def contradicting(summary: RunSummary, *figures: str) -> RunSummary:
    """A summary with evidence for these figures that contradicts itself."""
    broken = Contradiction(
        law="one is the other", figures=[*figures], evidence=["a", "b"]
    )
    return changed(summary, contradictions=[broken])


def facts_of(events: list[Event], history: Any = (), **more: Any) -> RunFacts:
    """What advice is based on, from events alone."""
    made = summarized(events, **more)
    return RunFacts(made.summary, made.rows, history)


def started(engine: str = "vllm-gaudi", **more: Any) -> RunStarted:
    values = {
        "engine": engine, "version": "0.26.0", "model": "m", "device_kind": "hpu",
        "time": 1_000_000.0, **more,
    }  # fmt: skip
    return RunStarted(**values)


def budget(**more: Any) -> MemoryBudgetSet:
    values = {
        "total_bytes": 96 * GIB, "free_bytes": 80 * GIB, "usable_bytes": 72 * GIB,
        "graph_reserved_bytes": 7 * GIB, "kv_cache_bytes": 65 * GIB,
        "gpu_memory_utilization": 0.9, "graph_reserved_fraction": 0.1,
        "time": 1_000_010.0, **more,
    }  # fmt: skip
    return MemoryBudgetSet(**values)


def cache(num_blocks: int = 4160, **more: Any) -> KVCacheAllocated:
    values = {"num_blocks": num_blocks, "block_size": 128, **more}
    return KVCacheAllocated(time=1_000_011.0, **values)


def generated(phase: str, buckets: list[Any]) -> BucketsGenerated:
    return BucketsGenerated(
        phase=phase, count=len(buckets), buckets=buckets, time=1_000_012.0
    )


def step(phase: str, bucket: Any, **more: Any) -> WarmupStep:
    values = {"mode": "eager", "time": 1_000_020.0, **more}
    return WarmupStep(phase=phase, bucket=bucket, **values)


def config(**settings: Any) -> ConfigRecorded:
    return ConfigRecorded(settings=settings, time=1_000_001.0)


def finished(seconds: float = 60.0, **more: Any) -> list[AnyEvent]:
    end = 1_000_020.0 + seconds
    return [
        WarmupFinished(duration_s=seconds, time=end, **more),
        ServerReady(time=end + 1),
    ]


def start_up(*extra: Event, seconds: float = 60.0, **more: Any) -> list[Any]:
    """A whole start-up of vllm-gaudi, with the events given before its end."""
    head = [
        started(**more), budget(), cache(), generated("prompt", PROMPTS),
        generated("decode", DECODES),
    ]  # fmt: skip
    return [*head, *extra, *finished(seconds)]


SEED_SETTINGS: dict[str, Any] = {
    "model": "llama-3-8b", "dtype": "bfloat16", "block_size": 128,
    "max_model_len": 2048, "max_num_seqs": 4, "max_num_batched_tokens": 8192,
    "gpu_memory_utilization": 0.5, "graph_reserved_mem": 0.4,
    "graph_prompt_ratio": 0.3, "bucket_dimensions": 2,
}  # fmt: skip
"""The settings of the start-up log in the warm-up documentation."""


def simulate(
    settings: dict[str, Any] | None = None,
    total_bytes: int | None = None,
    **changes: Any,
) -> tuple[Outcome, list[AnyEvent]]:
    """A run of the reference engine on a simulated Gaudi 2."""
    profile = PROFILES["gaudi2"]
    if total_bytes is not None:
        profile = dataclasses.replace(profile, total_bytes=total_bytes)
    device = SimulatedDevice(profile, started_at=1_700_000_000.0)
    found: list[AnyEvent] = []
    values = {**(SEED_SETTINGS if settings is None else settings), **changes}
    outcome = Session(device, RunSettings(**values), found.append).run()
    return outcome, found


def seed_run() -> Folded:
    """The log of the warm-up documentation."""
    return summarized(events(SEED_LOG.read_bytes()), source_kind="log")


def seed_planner() -> Planner:
    """A planner from that log."""
    folded = seed_run()
    return Planner(folded.summary, folded.rows)
