"""The memory section of a run summary: from total memory to KV cache blocks.

Figures are those of the lowest rank that gives them; ranks are never averaged.
"""

from __future__ import annotations

from typing import Any

from warmup_insights.model.events import (
    Event,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    WarmupFinished,
)

Rank = int | None

_BUDGET = (
    "total_bytes", "free_bytes", "usable_bytes", "graph_reserved_bytes",
    "kv_cache_bytes", "gpu_memory_utilization", "graph_reserved_fraction",
)  # fmt: skip


class MemoryBudget:
    """Collects what is said about memory; `result` gives the `memory` section."""

    def __init__(self) -> None:
        self._by_rank: dict[int, dict[str, Any]] = {}
        self._weights: dict[int, int] = {}

    def add(self, event: Event) -> None:
        """Take notice of an event, in the order of the run."""
        facts = self._by_rank.setdefault(-1 if event.rank is None else event.rank, {})
        match event:
            case MemoryBudgetSet():
                _budget(facts, event)
            case MemoryMeasured():
                self._measured(facts, event)
            case KVCacheAllocated():
                _cache(facts, event)
            case WarmupFinished() if event.allocated_bytes is not None:
                facts["warmup_allocated_bytes"] = event.allocated_bytes

    def _measured(self, facts: dict[str, Any], event: MemoryMeasured) -> None:
        if event.total_bytes is not None:
            facts.setdefault("total_bytes", event.total_bytes)
        if event.delta_bytes is None:
            return
        rank = -1 if event.rank is None else event.rank
        if event.stage == "weights":
            # A draft model is loaded after the main one and counts as well.
            self._weights[rank] = self._weights.get(rank, 0) + event.delta_bytes
            facts["weights_bytes"] = self._weights[rank]
        elif event.stage == "preload_weights" and rank not in self._weights:
            facts["weights_bytes"] = event.delta_bytes
        elif event.stage == "profile_run":
            facts["profile_bytes"] = event.delta_bytes
        elif event.stage == "kv_cache":
            facts["kv_cache_allocated_bytes"] = event.delta_bytes

    def result(self, config: dict[str, Any]) -> dict[str, Any] | None:
        """The section, or None when no line says anything about memory."""
        names = (
            "total_bytes", "weights_bytes", "profile_bytes", "free_bytes",
            "usable_bytes", "gpu_memory_utilization", "graph_reserved_bytes",
            "graph_reserved_fraction", "kv_cache_bytes", "kv_cache_allocated_bytes",
            "num_kv_blocks", "block_size", "kv_cache_tokens", "max_concurrency",
            "warmup_allocated_bytes",
        )  # fmt: skip
        section = {name: self._first(name) for name in names}
        if all(value is None for value in section.values()):
            return None
        if section["gpu_memory_utilization"] is None:
            section["gpu_memory_utilization"] = _number(
                config, "gpu_memory_utilization"
            )
        if section["block_size"] is None:
            section["block_size"] = _number(config, "block_size")
        if section["kv_cache_tokens"] is None:
            blocks, size = section["num_kv_blocks"], section["block_size"]
            if blocks is not None and size is not None:
                section["kv_cache_tokens"] = int(blocks * size)
        return section

    def _first(self, name: str) -> Any:
        for rank in sorted(self._by_rank):
            value = self._by_rank[rank].get(name)
            if value is not None:
                return value
        return None


def _budget(facts: dict[str, Any], event: MemoryBudgetSet) -> None:
    for name in _BUDGET:
        value = getattr(event, name)
        if value is not None:
            facts[name] = value
    if event.weights_bytes is not None:
        facts.setdefault("weights_bytes", event.weights_bytes)
    if event.activation_bytes is not None:
        facts.setdefault("profile_bytes", event.activation_bytes)


def _cache(facts: dict[str, Any], event: KVCacheAllocated) -> None:
    pairs = (
        ("num_kv_blocks", event.num_blocks),
        ("block_size", event.block_size),
        ("kv_cache_tokens", event.num_tokens),
        ("max_concurrency", event.max_concurrency),
        ("kv_cache_allocated_bytes", event.allocated_bytes),
    )
    facts.update({name: value for name, value in pairs if value is not None})


def _number(config: dict[str, Any], name: str) -> float | int | None:
    value = config.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value
