"""The figures of benchmark results: throughput and latency, by the keys of vLLM."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from warmup_insights.analysis.figures import Better, Figure

Summary = Mapping[str, Any]


def serving_figures(summaries: Sequence[Summary]) -> list[Figure]:
    """One figure per number that a benchmark of any run gives.

    The first result of one run stands against the first of the other, and so on. Keys
    are those of `vllm bench serve --save-result`; `..._throughput` is better higher,
    `..._ms` better lower, anything else has no direction.
    """
    count = max((len(_results(summary)) for summary in summaries), default=0)
    figures = []
    for index in range(count):
        keys = dict.fromkeys(
            key
            for summary in summaries
            for key, value in _result(summary, index).items()
            if _number(value) is not None
        )
        figures += [_figure(key, index, count) for key in keys]
    return figures


def _figure(key: str, index: int, count: int) -> Figure:
    prefix = f"benchmark {index + 1}: " if count > 1 else ""
    name = f"bench{index + 1}_{key}" if count > 1 else f"bench_{key}"

    def read(summary: Summary) -> float | None:
        return _number(_result(summary, index).get(key))

    title = f"{prefix}{key.replace('_', ' ')}"
    return Figure(
        name, title, "number", "serving", _direction(key), read, per_device=True
    )


def _direction(key: str) -> Better | None:
    if key.endswith("throughput") or key == "request_goodput":
        return "higher"
    return "lower" if key.endswith("_ms") else None


def _results(summary: Summary) -> list[Any]:
    results = summary.get("benchmarks")
    return results if isinstance(results, list) else []


def _result(summary: Summary, index: int) -> Mapping[str, Any]:
    results = _results(summary)
    found = results[index] if index < len(results) else None
    return found if isinstance(found, Mapping) else {}


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None
