"""What the Gaudi bridge counts of itself, as notes of a run.

Source: `habana_frameworks/torch/hpu/metrics/metrics.py` of the bridge 1.19; the figures
of a metric add up from the start of the process on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from warmup_insights.model.events import Note
from warmup_insights.units import format_bytes, format_count, format_duration

METRICS = (
    "graph_compilation",
    "cpu_fallback",
    "memory_defragmentation",
    "recipe_cache",
)
MAX_NAMED = 20
"""So many operators and recipes are kept by name."""


def metric_note(name: str, figures: Mapping[str, Any], **of_event: Any) -> Note | None:
    """The note of a metric; None where the metric is unknown or its figures are.

    Args:
        name: of the metric, one of `METRICS`.
        figures: what its `stats()` gives, as a mapping.
        of_event: rank or time of the note.
    """
    build = _BUILDERS.get(name)
    try:
        text, values = build(figures) if build is not None else ("", {})
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return None
    if not text:
        return None
    return Note(topic=f"bridge_{name}", text=text, values=values, **of_event)


def peak_note(peak_bytes: int, **of_event: Any) -> Note:
    """The most of the pool of the process that was in use at once."""
    text = f"At most {format_bytes(peak_bytes)} of the process's pool was in use"
    return Note(
        topic="bridge_pool", text=text, values={"peak_bytes": peak_bytes}, **of_event
    )


def _compiled(figures: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    count, total_s = int(figures["TotalNumber"]), int(figures["TotalTime"]) / 1e6
    values: dict[str, Any] = {"compiled": count, "compile_s": total_s}
    # With PT_HPU_METRICS_GC_DETAILS: pairs of a recipe and its microseconds.
    recipes = figures.get("recipe")
    if isinstance(recipes, list) and recipes:
        slowest = sorted(recipes, key=lambda pair: -int(pair[1]))[:MAX_NAMED]
        values["slowest"] = [[str(recipe), int(us) / 1e6] for recipe, us in slowest]
    text = f"{format_count(count)} recipes compiled in {format_duration(total_s)}"
    return text, values


def _fell_back(figures: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    count = int(figures["TotalNumber"])
    counts = {str(op): int(n) for op, n in dict(figures["FallbackOps"]).items()}
    often = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MAX_NAMED]
    text = f"Operators fell back to the CPU {format_count(count)} times"
    if often:
        text += ": " + ", ".join(f"{name} ({n:,})" for name, n in often)
    return text, {"count": count, "operators": dict(often)}


def _defragmented(figures: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    count, done = int(figures["TotalNumber"]), int(figures["TotalSuccessful"])
    longest_s = float(figures["MaxTime"]) / 1e3
    text = f"Device memory was defragmented {format_count(count)} times"
    if count:
        text += (
            f", {format_count(done)} with success, at most {format_duration(longest_s)}"
        )
    return text, {"count": count, "successful": done, "longest_s": longest_s}


def _cached(figures: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    hits, misses = int(figures["TotalHit"]), int(figures["TotalMiss"])
    text = f"Recipe cache: {format_count(hits)} hits, {format_count(misses)} misses"
    return text, {"hits": hits, "misses": misses}


_BUILDERS = {
    "graph_compilation": _compiled,
    "cpu_fallback": _fell_back,
    "memory_defragmentation": _defragmented,
    "recipe_cache": _cached,
}
