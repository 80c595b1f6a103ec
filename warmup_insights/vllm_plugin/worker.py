"""What the workers of all engines have: a rank, a device that is free at first, blocks.

Source: vLLM `v1/worker/gpu_worker.py`, vllm-gaudi `v1/worker/hpu_worker.py` and
`v1/worker/hpu_model_runner.py` (`initialize_kv_cache`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from warmup_insights.model.events import KVCacheAllocated, MemoryMeasured
from warmup_insights.vllm_plugin import facts
from warmup_insights.vllm_plugin.calls import Call, Watch
from warmup_insights.vllm_plugin.session import Session
from warmup_insights.vllm_plugin.values import whole


def worker_init(session: Session, call: Call) -> Watch:
    """`__init__` of a worker: which rank this process is."""
    session.rank = facts.rank_of(call.arg("vllm_config"), whole(call.arg("rank")))
    yield


def note_start(session: Session, free: int | None, total: int | None) -> None:
    """Record what is free before anything is loaded."""
    if free is not None and total is not None:
        session.emit(
            MemoryMeasured,
            stage="start",
            used_bytes=total - free,
            free_bytes=free,
            total_bytes=total,
        )


def note_blocks(session: Session, config: Any, runner: Any) -> None:
    """Record the blocks of a `KVCacheConfig`; tokens only for a single group.

    vllm-gaudi allocates one block more, for what padding writes: its number is that
    behind the last usable one (`initialize_kv_cache`, `_PAD_BLOCK_ID`).
    """
    blocks = whole(getattr(config, "num_blocks", None))
    groups: Sequence[Any] = getattr(config, "kv_cache_groups", None) or ()
    spec = getattr(groups[0], "kv_cache_spec", None) if len(groups) == 1 else None
    size = whole(getattr(spec, "block_size", getattr(runner, "block_size", None)))
    padding = whole(getattr(runner, "_PAD_BLOCK_ID", None))
    session.emit(
        KVCacheAllocated,
        num_blocks=blocks,
        num_padding_blocks=1 if blocks and blocks == padding else None,
        block_size=size,
        num_tokens=blocks * size if blocks and size and len(groups) <= 1 else None,
    )
