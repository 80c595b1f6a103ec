"""The memory budget of a start-up as steps of a waterfall; no I/O, no Streamlit.

The HPU engines divide what is free after loading: usable is free times the allowed
utilisation (vllm-gaudi `hpu_worker.py`, `determine_num_available_blocks`). Upstream
vLLM divides the whole device: usable is total times the utilisation, and weights and
activations come out of it (`gpu_worker.py`, `determine_available_memory`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from warmup_insights.analysis.figures import graph_memory_bytes

Summary = Mapping[str, Any]
TOLERANCE = 0.002
"""Share of the total below which a difference is rounding, not memory."""


@dataclass(frozen=True)
class Step:
    """One bar: what it is, how much, and where it starts.

    `kind` is `level` for a subtotal, `part` for what is taken away, `inside` for a
    share of the part above it.
    """

    name: str
    meaning: str
    size_bytes: int
    start_bytes: int
    kind: str = "part"


def graphs_used_bytes(summary: Summary) -> int | None:
    """Memory that graphs took; else, with a label, what the whole warm-up took."""
    used = graph_memory_bytes(summary)
    if used is None:
        used = (summary["memory"] or {}).get("warmup_allocated_bytes")
    return None if used is None else int(used)


def used_name(summary: Summary) -> str:
    """What `graphs_used_bytes` stands for."""
    known = graph_memory_bytes(summary) is not None
    return "Used by graphs" if known else "Taken by warm-up"


def block_bytes(summary: Summary) -> float | None:
    """Bytes of one KV block, from what was allocated, else from the budget."""
    memory = summary["memory"]
    if memory is None or not memory["num_kv_blocks"]:
        return None
    size = memory["kv_cache_allocated_bytes"] or memory["kv_cache_bytes"]
    return None if not size else float(size) / float(memory["num_kv_blocks"])


def budget_steps(summary: Summary) -> list[Step]:
    """The waterfall from total memory to the KV cache; empty when too little is known."""
    memory = summary["memory"]
    if memory is None:
        return []
    if _divides_total(memory):
        steps = _Waterfall(memory["total_bytes"]).of_total(summary)
    else:
        steps = _Waterfall(memory["total_bytes"]).of_free(summary)
    return list(steps)


def _divides_total(memory: Mapping[str, Any]) -> bool:
    total, usable = memory["total_bytes"], memory["usable_bytes"]
    fraction = memory["gpu_memory_utilization"]
    if memory["graph_reserved_bytes"] is not None:
        return False  # only the HPU engines set memory aside for graphs
    if not total or usable is None or fraction is None:
        return False
    return bool(abs(usable - total * fraction) < 5 * TOLERANCE * total)


class _Waterfall:
    """Takes parts away from a level, top to bottom."""

    def __init__(self, total: int | None) -> None:
        self._total = total
        self._left = total

    def _level(self, name: str, meaning: str, size: int | None) -> Iterator[Step]:
        if size is not None:
            self._left = size
            yield Step(name, meaning, size, 0, "level")

    def _part(self, name: str, meaning: str, size: int | None) -> Iterator[Step]:
        if size is None:
            return
        if self._left is None:
            yield Step(name, meaning, size, 0)
            return
        self._left -= size
        yield Step(name, meaning, size, self._left)

    def _rest(self, name: str, meaning: str, down_to: int | None) -> Iterator[Step]:
        """What lies between the level and the next one, unless it is rounding."""
        if self._left is None or down_to is None:
            return
        size = self._left - down_to
        if size > TOLERANCE * (self._total or self._left):
            yield from self._part(name, meaning, size)

    def of_free(self, summary: Summary) -> Iterator[Step]:
        """Total, weights, profiling, free, margin, usable, graphs, KV cache."""
        memory = summary["memory"]
        yield from self._level("Device total", "total", memory["total_bytes"])
        yield from self._part("Weights", "load", memory["weights_bytes"])
        yield from self._part("Profiling run", "profile", memory["profile_bytes"])
        yield from self._rest("Other", "prepare", memory["free_bytes"])
        yield from self._level("Free after profiling", "total", memory["free_bytes"])
        yield from self._rest("Margin, never used", "margin", memory["usable_bytes"])
        yield from self._level("Usable", "total", memory["usable_bytes"])
        yield from self._graphs(summary, memory["graph_reserved_bytes"])
        yield from self._level("KV cache", "kv_cache", memory["kv_cache_bytes"])

    def of_total(self, summary: Summary) -> Iterator[Step]:
        """Total, margin, usable, weights, activations, graphs, other, KV cache."""
        memory, graphs = summary["memory"], summary["graphs"] or {}
        yield from self._level("Device total", "total", memory["total_bytes"])
        yield from self._rest("Margin, never used", "margin", memory["usable_bytes"])
        yield from self._level("Usable", "total", memory["usable_bytes"])
        yield from self._part("Weights", "load", memory["weights_bytes"])
        yield from self._part("Peak activations", "profile", memory["profile_bytes"])
        yield from self._graphs(summary, graphs.get("estimated_bytes"))
        yield from self._rest("Other", "prepare", memory["kv_cache_bytes"])
        yield from self._level("KV cache", "kv_cache", memory["kv_cache_bytes"])

    def _graphs(self, summary: Summary, reserved: int | None) -> Iterator[Step]:
        used = graphs_used_bytes(summary)
        if reserved is not None:
            top = self._left
            yield from self._part("Reserved for graphs", "reserved", reserved)
            start = 0 if top is None else top - (used or 0)
            if used is not None:
                yield Step(used_name(summary), "captured", used, start, "inside")
        elif used is not None:
            yield Step(used_name(summary), "captured", used, 0, "inside")


def steps_frame(steps: list[Step]) -> pd.DataFrame:
    """The waterfall as a table: step, kind, bytes, start_bytes."""
    rows = [(s.name, s.kind, s.size_bytes, s.start_bytes) for s in steps]
    return pd.DataFrame(rows, columns=["step", "kind", "bytes", "start_bytes"])
