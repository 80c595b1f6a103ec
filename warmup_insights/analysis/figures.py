"""The figures of a run summary by name: unit, which way is better, how to read them.

Comparing, gating and sweeping all use this one table, so that a figure has the same
name and direction everywhere. A figure that a run does not know is None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from warmup_insights.units import (
    GIB,
    KIB,
    MIB,
    TIB,
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    parse_isoformat,
)  # fmt: skip

Unit = Literal["s", "bytes", "count", "percent", "number"]
Better = Literal["lower", "higher"]
Summary = Mapping[str, Any]

PHASES = ("prompt", "decode")
CLOCK_STEP_S = 1e-4
"""Recorded times that differ by less are the same time."""


@dataclass(frozen=True)
class Figure:
    """One number of a summary.

    `better` is None where neither direction is an improvement. `per_device` is true
    when the number says something about the device as well, so that it cannot be judged
    between devices; `per_rank` when it is one rank's share of a model.
    """

    name: str
    title: str
    unit: Unit
    group: str
    better: Better | None
    read: Callable[[Summary], float | None]
    per_device: bool = False
    per_rank: bool = False


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def _at(section: str, key: str) -> Callable[[Summary], float | None]:
    def read(summary: Summary) -> float | None:
        part = summary.get(section)
        return _number(part.get(key)) if isinstance(part, Mapping) else None

    return read


def phase_part(summary: Summary, phase: str) -> Mapping[str, Any]:
    """The section of one phase, empty when no line mentions it."""
    part = (summary.get("buckets") or {}).get(phase)
    return part if isinstance(part, Mapping) else {}


def _bucket(phase: str, key: str) -> Callable[[Summary], float | None]:
    return lambda summary: _number(phase_part(summary, phase).get(key))


def ready_s(summary: Summary) -> float | None:
    """Seconds from the first line to the first request that could be answered."""
    time = summary.get("time") or {}
    start, ready = time.get("started_at"), time.get("ready_at")
    if not isinstance(start, str) or not isinstance(ready, str):
        return None
    try:
        first, last = parse_isoformat(start), parse_isoformat(ready)
    except ValueError:
        return None
    return None if first is None or last is None else last - first


def graph_memory_bytes(summary: Summary) -> float | None:
    """What graphs took: of both phases together, or of the CUDA graphs.

    None while one of the phases that exist does not say.
    """
    used = [
        _number(part.get("graph_used_bytes"))
        for phase in PHASES
        if (part := phase_part(summary, phase))
    ]
    known = [value for value in used if value is not None]
    if used and len(known) == len(used):
        return sum(known)
    return _at("graphs", "memory_bytes")(summary) if not known else None


def graph_unused_bytes(summary: Summary) -> float | None:
    """Reserved for graphs and not taken by them; negative when they took more."""
    reserved = _at("memory", "graph_reserved_bytes")(summary)
    used = graph_memory_bytes(summary)
    return None if reserved is None or used is None else reserved - used


def captured_percent(summary: Summary) -> float | None:
    """Share of the generated buckets with a graph; None if a phase does not know."""
    pairs = [
        (_number(part.get("captured")), _number(part.get("generated")))
        for phase in PHASES
        if (part := phase_part(summary, phase))
    ]
    captured = [pair[0] for pair in pairs if pair[0] is not None]
    generated = [pair[1] for pair in pairs if pair[1] is not None]
    complete = len(captured) == len(pairs) == len(generated)
    total = sum(generated)
    return 100.0 * sum(captured) / total if complete and total else None


def num_misses(summary: Summary, phase: str | None = None) -> float | None:
    """Distinct shapes that no bucket covered, of both phases or of one.

    A log that ends before the server was ready cannot have misses: none is not zero.
    """
    misses = summary.get("misses")
    if not isinstance(misses, list):
        return None
    kinds = [miss.get("phase") for miss in misses if isinstance(miss, Mapping)]
    count = sum(1 for kind in kinds if phase in (None, kind))
    if misses:
        return count
    return 0 if (summary.get("time") or {}).get("ready_at") else None


def _num_lazy(summary: Summary) -> float | None:
    graphs = summary.get("graphs")
    if not isinstance(graphs, Mapping) or not isinstance(graphs.get("lazy"), list):
        return None
    return len(graphs["lazy"])


def _bucket_figures(phase: str) -> tuple[Figure, ...]:
    def figure(
        key: str, title: str, unit: Unit, better: Better | None, **more: bool
    ) -> Figure:
        name = f"{phase}_{key}"
        read = _bucket(phase, key)
        return Figure(name, f"{phase} {title}", unit, "buckets", better, read, **more)

    return (
        figure("generated", "buckets generated", "count", None),
        figure("omitted", "buckets omitted", "count", None),
        figure("warmed", "buckets warmed", "count", None),
        figure("captured", "graphs captured", "count", None),
        figure("captured_reported", "graphs captured, as logged", "count", None),
        figure("capture_percent", "share captured", "percent", "higher"),
        figure("graph_budget_bytes", "graph budget", "bytes", None, per_device=True),
        figure(
            "graph_used_bytes", "graph memory", "bytes", "lower",
            per_device=True, per_rank=True,
        ),
        Figure(
            f"{phase}_missed",
            f"{phase} shapes missed",
            "count",
            "buckets",
            "lower",
            lambda summary: num_misses(summary, phase),
        ),
    )  # fmt: skip


def _time(name: str, title: str, read: Callable[[Summary], float | None]) -> Figure:
    return Figure(name, title, "s", "time", "lower", read, per_device=True)


def _memory(
    name: str, title: str, better: Better | None, *, per_rank: bool = True
) -> Figure:
    return Figure(
        name, title, "bytes", "memory", better, _at("memory", name),
        per_device=True, per_rank=per_rank,
    )  # fmt: skip


FIGURES: tuple[Figure, ...] = (
    _time("ready_s", "time to ready", ready_s),
    _time("wall_s", "start-up, first to last line", _at("time", "wall_s")),
    _time("warmup_s", "warm-up", _at("time", "warmup_s")),
    _time("graph_capture_s", "graph capture", _at("graphs", "duration_s")),
    _time("sampler_s", "sampler warm-up", _at("sampler", "duration_s")),
    _time("defrag_s", "defragmenter warm-up", _at("defrag", "duration_s")),
    _time("unlogged_s", "time in no line", _at("time", "unlogged_s")),
    _memory("total_bytes", "device memory", None, per_rank=False),
    _memory("weights_bytes", "weights", "lower"),
    _memory("profile_bytes", "profiling run", "lower"),
    _memory("free_bytes", "free after profiling", "higher"),
    _memory("usable_bytes", "usable", None),
    _memory("graph_reserved_bytes", "reserved for graphs", None),
    Figure(
        "graph_memory_bytes", "taken by graphs", "bytes", "memory", "lower",
        graph_memory_bytes, per_device=True, per_rank=True,
    ),
    Figure(
        "graph_unused_bytes", "reserved for graphs, unused", "bytes", "memory", None,
        graph_unused_bytes, per_device=True, per_rank=True,
    ),
    _memory("kv_cache_bytes", "KV cache", "higher"),
    _memory("kv_cache_allocated_bytes", "KV cache, as allocated", None),
    _memory("warmup_allocated_bytes", "taken by warm-up", "lower"),
    Figure(
        "graph_estimated_bytes", "graphs, as estimated", "bytes", "memory", None,
        _at("graphs", "estimated_bytes"), per_device=True, per_rank=True,
    ),
    Figure(
        "num_kv_blocks", "KV blocks", "count", "capacity", "higher",
        _at("memory", "num_kv_blocks"), per_device=True, per_rank=True,
    ),
    Figure(
        "kv_cache_tokens", "KV cache tokens", "count", "capacity", "higher",
        _at("memory", "kv_cache_tokens"), per_device=True,
    ),
    Figure(
        "max_concurrency", "requests at full length", "number", "capacity", "higher",
        _at("memory", "max_concurrency"), per_device=True,
    ),
    Figure(
        "captured_percent", "share of buckets with a graph", "percent", "buckets",
        "higher", captured_percent,
    ),
    *_bucket_figures("prompt"),
    *_bucket_figures("decode"),
    Figure(
        "graphs_captured", "CUDA graphs captured", "count", "buckets", None,
        _at("graphs", "captured"),
    ),
    Figure(
        "lazy_captures", "captures while serving", "count", "buckets", "lower", _num_lazy
    ),
    Figure("misses", "shapes missed", "count", "buckets", "lower", num_misses),
)  # fmt: skip
"""Every figure, in the order in which tables show them."""

BY_NAME: dict[str, Figure] = {figure.name: figure for figure in FIGURES}


def read_figures(summary: Summary) -> dict[str, float | None]:
    """Figure name to value; unknown is None."""
    return {figure.name: figure.read(summary) for figure in FIGURES}


def format_figure(value: float | None, unit: Unit) -> str:
    """A value for people; `?` for None."""
    if value is None:
        return "?"
    if unit == "bytes":
        return format_bytes(value)
    if unit == "s":
        return format_duration(value)
    if unit == "percent":
        return format_percent(value)
    if unit == "count":
        return format_count(int(value) if float(value).is_integer() else value)
    return f"{value:,.4g}"


def resolution(summary: Summary, value: float, unit: Unit) -> float:
    """The step between two neighbouring values that this run could have stated.

    Logs round: HPU engines print memory with four significant digits
    (`format_bytes`), upstream vLLM GiB with two decimals; times have whole seconds
    unless the value itself has a fraction. Recorded sizes are exact, recorded times
    are sums of clock readings.
    """
    is_log = (summary.get("source") or {}).get("kind") == "log"
    if unit == "s":
        return 1.0 if is_log and float(value).is_integer() else CLOCK_STEP_S
    if not is_log or unit != "bytes" or value == 0:
        return 0.0
    if (summary.get("engine") or {}).get("name") == "vllm":
        return 0.01 * GIB
    scale = next((s for s in (TIB, GIB, MIB, KIB) if abs(value) > s), 1)
    return float(scale * 10.0 ** (math.floor(math.log10(abs(value) / scale)) - 3))
