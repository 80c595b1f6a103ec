"""Figures of a serving run, with the keys of `vllm bench serve --save-result`."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RequestTimes:
    """One finished request: lengths in tokens, and when it came and each token went."""

    input_len: int
    output_len: int
    arrived_at: float
    token_times: tuple[float, ...]

    @property
    def ttft_s(self) -> float:
        """Time to first token."""
        return self.token_times[0] - self.arrived_at

    @property
    def itls_s(self) -> list[float]:
        """Times between tokens."""
        pairs = zip(self.token_times, self.token_times[1:], strict=False)
        return [later - earlier for earlier, later in pairs]

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; None for a single token."""
        if self.output_len < 2:
            return None
        return (self.token_times[-1] - self.token_times[0]) / (self.output_len - 1)


def percentile(values: Sequence[float], percent: float) -> float:
    """The percentile with linear interpolation, as numpy's default."""
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def benchmark_values(
    requests: Sequence[RequestTimes],
    *,
    duration_s: float,
    request_rate: float,
    model: str,
) -> dict[str, Any]:
    """The result of a run in which every request finished."""
    inputs = sum(request.input_len for request in requests)
    outputs = sum(request.output_len for request in requests)
    values: dict[str, Any] = {
        "backend": "reference",
        "model_id": model,
        "num_prompts": len(requests),
        "request_rate": request_rate if request_rate != float("inf") else "inf",
        "burstiness": 1.0,
        "max_concurrency": None,
        "duration": duration_s,
        "completed": len(requests),
        "failed": 0,
        "total_input_tokens": inputs,
        "total_output_tokens": outputs,
        "request_throughput": len(requests) / duration_s,
        "output_throughput": outputs / duration_s,
        "total_token_throughput": (inputs + outputs) / duration_s,
        "max_concurrent_requests": _most_at_once(requests),
    }
    values |= _spread("ttft", [request.ttft_s for request in requests])
    tpots = [request.tpot_s for request in requests if request.tpot_s is not None]
    values |= _spread("tpot", tpots)
    values |= _spread("itl", [itl for request in requests for itl in request.itls_s])
    return values


def _spread(name: str, seconds: Sequence[float]) -> dict[str, float]:
    """Mean, median, deviation and P99 in milliseconds; 0 where there is nothing.

    Source: `calculate_metrics` of `vllm bench serve`, which writes 0 for no values.
    """
    found = [value * 1000 for value in seconds] or [0.0]
    return {
        f"mean_{name}_ms": statistics.fmean(found),
        f"median_{name}_ms": statistics.median(found),
        f"std_{name}_ms": statistics.pstdev(found),
        f"p99_{name}_ms": percentile(found, 99),
    }


def _most_at_once(requests: Sequence[RequestTimes]) -> int:
    edges = [(request.arrived_at, 1) for request in requests]
    edges += [(request.token_times[-1], -1) for request in requests]
    most = now = 0
    for _, change in sorted(edges):
        now += change
        most = max(most, now)
    return most


_HEAD = "{:=^50}"
_ROW = "{:<40} {:<10}"


def result_block(values: dict[str, Any]) -> str:
    """The block that `vllm bench serve` prints at its end."""
    lines = [_HEAD.format(" Serving Benchmark Result ")]
    for title, key in _COUNTS:
        lines.append(_ROW.format(title, _shown(values[key])))
    for title, name, key in _SECTIONS:
        lines.append(f"{title:-^50}")
        lines.extend(
            _ROW.format(f"{word} {name} (ms):", f"{values[f'{prefix}_{key}_ms']:.2f}")
            for word, prefix in (("Mean", "mean"), ("Median", "median"), ("P99", "p99"))
        )
    return "\n".join([*lines, "=" * 50])


_COUNTS = (
    ("Successful requests:", "completed"),
    ("Failed requests:", "failed"),
    ("Benchmark duration (s):", "duration"),
    ("Total input tokens:", "total_input_tokens"),
    ("Total generated tokens:", "total_output_tokens"),
    ("Request throughput (req/s):", "request_throughput"),
    ("Output token throughput (tok/s):", "output_throughput"),
    ("Peak concurrent requests:", "max_concurrent_requests"),
    ("Total token throughput (tok/s):", "total_token_throughput"),
)
_SECTIONS = (
    ("Time to First Token", "TTFT", "ttft"),
    ("Time per Output Token (excl. 1st token)", "TPOT", "tpot"),
    ("Inter-token Latency", "ITL", "itl"),
)


def _shown(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)
