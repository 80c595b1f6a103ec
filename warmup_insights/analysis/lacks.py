"""What matters of a start and its log does not hold, with the switch that logs it."""

from __future__ import annotations

from collections.abc import Iterator

from warmup_insights.analysis.advice.setting_lives import knows
from warmup_insights.model.summary import PHASES, RunSummary

RECORD = "`warmup-insights vllm serve ...`"
_DEVELOPER = "VLLM_DEVELOPER_MODE"


def lacks(summary: RunSummary) -> list[str]:
    """A sentence for each kind of figure that a log of a finished start lacks.

    Sources of the switches: vllm-gaudi `v1/worker/hpu_model_runner.py`,
    `log_warmup` (only in developer mode); vLLM `v1/worker/gpu_worker.py`,
    `determine_available_memory` (the division of memory at DEBUG).
    """
    if not summary.is_log or summary.status != "finished":
        return []
    if summary.engine.name in ("vllm-gaudi", "vllm-fork"):
        return list(_buckets(summary))
    if summary.engine.name == "vllm":
        return [*_memory(summary), *_graphs(summary)]
    return []


def _buckets(summary: RunSummary) -> Iterator[str]:
    phases = [name for name in PHASES if summary.phase(name).generated]
    without = [name for name in phases if summary.phase(name).steps_s is None]
    if without:
        switch = f"{_DEVELOPER}=true logs" if knows(summary, _DEVELOPER) else ""
        by = f"{switch} the buckets as they run, and " if switch else ""
        yield (
            f"The time of each {' and '.join(without)} bucket: {by}{RECORD} records all"
        )
    if any(summary.phase(name).captured is None for name in phases):
        yield f"Which buckets have a graph: {RECORD} counts the captures"


def _memory(summary: RunSummary) -> Iterator[str]:
    memory = summary.memory_or_none
    if memory.kv_cache_bytes is not None and memory.profile_bytes is None:
        yield (
            "What weights, activations and graphs take of the device: "
            "VLLM_LOGGING_LEVEL=DEBUG logs what the profiling run measured"
        )


def _graphs(summary: RunSummary) -> Iterator[str]:
    graphs = summary.graphs
    if graphs is None or not graphs.captured or graphs.captures:
        return
    if not any(bar.states for bar in graphs.bars):
        yield f"The time of each graph size: {RECORD} records it"
