"""Result blocks of `vllm bench serve` and `vllm bench startup`.

Source: vLLM `vllm/benchmarks/serve.py` and `vllm/benchmarks/startup.py`.
"""

from __future__ import annotations

import re
from typing import Any

from parsers.base import Dialect, LineRule, Made, Sample, line_rule
from parsers.engine.serving import SERVE_ROWS
from parsers.engine.signals import BenchEdge, BenchLine

_METRIC = r"(?:Mean|Median|Std|P\d{1,2}(?:\.\d{1,3})?) (?:TTFT|TPOT|ITL|E2EL) \(ms\)"
_ROWS = "|".join([*map(re.escape, SERVE_ROWS), r"Position \d{1,3}"])


def _row(match: re.Match[str]) -> Made:
    return BenchLine(match["key"], float(match["value"].replace(",", "")))


def _table(match: re.Match[str]) -> Made:
    word = match["word"].strip().lower().replace(" ", "_").removesuffix("_time")
    return BenchEdge(f"percentiles {word}")


def _bench_edge(
    rule: str, pattern: str, name: str | None, line: str, **more: Any
) -> LineRule:
    return line_rule(rule, pattern, BenchEdge, line, fixed={"name": name}, **more)


RULES: tuple[LineRule, ...] = (
    _bench_edge(
        "bench_head",
        r"=+ Serving Benchmark Result =+",
        "serve",
        "============ Serving Benchmark Result ============",
    ),
    line_rule(
        "bench_row",
        rf"(?P<key>{_ROWS}|{_METRIC}):\s{{1,60}}(?P<value>-?[\d.,]{{1,24}})\s*$",
        _row,
        Sample(
            "Successful requests:                     1000      ",
            {"key": "Successful requests", "value": 1000.0},
        ),
        Sample(
            "P99 TTFT (ms):                           48674.65",
            {"key": "P99 TTFT (ms)", "value": 48674.65},
        ),
        hint=(
            "requests:",
            "tokens:",
            "TTFT",
            "TPOT",
            "ITL",
            "E2EL",
            "throughput (",
            "goodput",
            "(s):",
            "concurrency:",
            "Acceptance",
            "Drafts",
            "Position",
            "(RPS)",
        ),
    ),
    _bench_edge("bench_foot", r"={50}\s*$", None, "=" * 50, hint="====="),
    line_rule(
        "bench_section",
        r"-{5,40}(?:Time to First Token|Time per Output Token[^-]{0,30}|"
        r"Inter-token Latency|End-to-end Latency|Speculative Decoding)-{5,40}",
        None,
        "---------------Time to First Token----------------",
    ),
    _bench_edge(
        "bench_startup_head",
        r"STARTUP TIME BENCHMARK RESULTS",
        "startup",
        "STARTUP TIME BENCHMARK RESULTS",
    ),
    _bench_edge("bench_startup_cold", r"COLD STARTUP:", "cold", "COLD STARTUP:"),
    _bench_edge("bench_startup_warm", r"WARM STARTUP:", "warm", "WARM STARTUP:"),
    line_rule(
        "bench_startup_row",
        r"\s{0,4}(?P<key>Avg (?:startup|compilation|encoder compilation) time):\s{1,4}"
        r"(?P<value>[\d.]{1,16}) seconds",
        _row,
        Sample(
            "Avg startup time: 45.12 seconds",
            {"key": "Avg startup time", "value": 45.12},
        ),
        hint=(
            "Avg startup time",
            "Avg compilation time",
            "Avg encoder compilation time",
        ),
    ),
    line_rule(
        "bench_startup_table",
        r"\s{0,4}(?P<word>[A-Z][a-z ]{2,30}) percentiles:\s*$",
        _table,
        Sample("Startup time percentiles:", {"name": "percentiles startup"}),
        hint="time percentiles:",
    ),
    line_rule(
        "bench_startup_percentile",
        r"\s{0,4}(?P<key>\d{1,2}%): (?P<value>[\d.]{1,16}) seconds\s*$",
        _row,
        Sample("  10%: 44.90 seconds", {"key": "10%", "value": 44.9}),
        hint="%: ",
    ),
    line_rule(
        "bench_chatter",
        r"(?:Setting VLLM_ENABLE_V1_MULTIPROCESSING=0 to collect|Measuring \w{1,10} "
        r"startup|Warming up for warm startup|(?:Cold|Warm)(?: startup|up) iterations|"
        r"Starting main benchmark|Benchmark results|Initial test run completed|"
        r"Namespace\(|Starting initial single prompt)",
        None,
        "Measuring cold startup time...",
        hint=(
            "startup time...",
            "startup measurement",
            "startup metrics",
            "benchmark run",
            "startup iterations",
            "enchmark",
        ),
    ),
)

DIALECT = Dialect(
    name="vllm-bench",
    title="vllm bench serve and vllm bench startup",
    versions="2025-08 to 2026-07",
    source="vllm/benchmarks/serve.py, vllm/benchmarks/startup.py",
    rules=RULES,
)
