"""The memory budget in parts that add up to the device's memory."""

from __future__ import annotations

from typing import Any, TypedDict


class MemoryPart(TypedDict):
    """One stretch of the budget, in bytes."""

    name: str
    label: str
    bytes: int


def memory_parts(memory: dict[str, Any]) -> list[MemoryPart]:
    """Total memory from weights to KV cache; empty when too little is known.

    On HPU free memory is what is left after the profiling run, and usable a share of
    it (vllm-gaudi `hpu_worker.py`, `determine_available_memory`); what remains of free
    is the margin. Elsewhere the parts that are known stand beside an `other` rest.
    """
    total = memory["total_bytes"]
    if total is None:
        return []
    parts: list[MemoryPart] = []

    def add(name: str, label: str, size: int | None) -> None:
        if size is not None and size > 0:
            parts.append({"name": name, "label": label, "bytes": int(size)})

    add("weights", "weights", memory["weights_bytes"])
    add("profiling", "profiling run", memory["profile_bytes"])
    free, usable = memory["free_bytes"], memory["usable_bytes"]
    reserved = memory["graph_reserved_bytes"]
    if reserved is not None and free is not None and usable is not None:
        add("margin", "margin, never used", free - usable)
    add("graphs", "reserved for graphs", reserved)
    add("kv_cache", "KV cache", _cache_bytes(memory))
    if len(parts) < 2:
        return []
    rest = total - sum(part["bytes"] for part in parts)
    if rest < -0.02 * total:
        return []
    # A rest within the rounding of the log is no part of its own.
    add("other", "not accounted for", rest if rest > 0.005 * total else None)
    return parts


def _cache_bytes(memory: dict[str, Any]) -> int | None:
    budget: int | None = memory["kv_cache_bytes"]
    return budget if budget is not None else memory["kv_cache_allocated_bytes"]
