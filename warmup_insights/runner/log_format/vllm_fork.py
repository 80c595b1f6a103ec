"""HabanaAI vllm-fork 1.17, two dimensions: the log of the warm-up documentation.

Source: `habana_model_runner.py`, `habana_worker.py`, `habana_executor.py`.
"""

from __future__ import annotations

from warmup_insights.model.events import (
    BucketMiss,
    BucketsOmitted,
    CaptureSummary,
    GraphBudgetSet,
    KVCacheAllocated,
    MemoryBudgetSet,
    WarmupStep,
)
from warmup_insights.runner.log_format.writer import (
    BUDGET,
    SERVING,
    Line,
    LogDialect,
    Seen,
    hpu,
    stage,
    step_line,
)


def _step(event: WarmupStep, _: Seen) -> str:
    word = event.phase.capitalize()
    if event.mode == "graph":
        word = f"Graph/{word}"
    if len(event.bucket or ()) == 3:
        return step_line(event, word, ("batch_size", "query_len", "num_blocks"))
    return step_line(event, word, ("batch_size", "seq_len"))


def _miss(event: BucketMiss, _: Seen) -> str:
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
        Line(WarmupStep, _step, "hpu_model_runner.py:1066"),
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
        Line(BucketMiss, _miss, "hpu_model_runner.py:1013", "WARNING"),
    ),
)
