"""Blocks of `vllm bench serve` and `vllm bench startup`, collected row by row.

Rows: vLLM `benchmarks/serve.py` (`{:<40} {:<10}`) and `benchmarks/startup.py`; keys are
those of `--save-result` and of the JSON output.
"""

from __future__ import annotations

from typing import Any

from parsers.engine.signals import BenchEdge, BenchLine
from warmup_insights.model.events import BenchmarkResult, Event

SERVE_ROWS: dict[str, str] = {
    "Successful requests": "completed",
    "Failed requests": "failed",
    "Maximum request concurrency": "max_concurrency",
    "Request rate configured (RPS)": "request_rate",
    "Benchmark duration (s)": "duration",
    "Total input tokens": "total_input_tokens",
    "Total generated tokens": "total_output_tokens",
    "Request throughput (req/s)": "request_throughput",
    "Request goodput (req/s)": "request_goodput",
    "Output token throughput (tok/s)": "output_throughput",
    "Peak output token throughput (tok/s)": "max_output_tokens_per_s",
    "Peak concurrent requests": "max_concurrent_requests",
    "Total token throughput (tok/s)": "total_token_throughput",
    "Total Token throughput (tok/s)": "total_token_throughput",
    "Acceptance rate (%)": "spec_decode_acceptance_rate",
    "Acceptance length": "spec_decode_acceptance_length",
    "Drafts": "spec_decode_num_drafts",
    "Draft tokens": "spec_decode_draft_tokens",
    "Accepted tokens": "spec_decode_accepted_tokens",
}
_METRICS = {"TTFT": "ttft", "TPOT": "tpot", "ITL": "itl", "E2EL": "e2el"}


def serve_key(text: str) -> str:
    """The key of `--save-result` for a row, or the row's own text in snake case."""
    known = SERVE_ROWS.get(text)
    if known is not None:
        return known
    words = text.replace("(ms)", "").split()
    if len(words) == 2 and words[1] in _METRICS:
        return f"{words[0].lower()}_{_METRICS[words[1]]}_ms"
    kept = [c.lower() if c.isalnum() else "_" for c in text]
    return "_".join(part for part in "".join(kept).split("_") if part)


class BenchCollector:
    """Collects the rows between the head and the foot of a block.

    Edges: `serve` and `startup` open a block, `cold` and `warm` a section of the
    latter, `percentiles NAME` a table in it; None closes a block of `serve`.
    """

    def __init__(self) -> None:
        self._kind: str | None = None
        self._section = "cold"
        self._table: str | None = None
        self._values: dict[str, Any] = {}
        self._line = 0

    def take(self, made: BenchEdge | BenchLine, line: int) -> list[Event]:
        """A complete block, when this line ends one."""
        if isinstance(made, BenchLine):
            if self._kind is not None:
                self._add(made)
            return []
        if made.name in ("cold", "warm"):
            self._section, self._table = made.name, None
            return []
        if made.name is not None and made.name.startswith("percentiles "):
            self._table = made.name.removeprefix("percentiles ")
            return []
        if made.name is None and self._kind == "startup":
            return []
        done = self.close()
        self._kind, self._line = made.name, line
        return done

    def close(self) -> list[Event]:
        """The block so far, when it holds anything."""
        values, kind = self._values, self._kind
        self._kind, self._values = None, {}
        if not values or kind is None:
            return []
        return [BenchmarkResult(values=values, line=self._line)]

    def _add(self, made: BenchLine) -> None:
        if self._kind == "startup":
            self._add_startup(made)
            return
        is_count = made.value.is_integer() and "(" not in made.key
        self._values[serve_key(made.key)] = int(made.value) if is_count else made.value

    def _add_startup(self, made: BenchLine) -> None:
        if made.key.endswith("%"):
            name = f"{self._section}_{self._table or 'startup'}_percentiles"
            self._values.setdefault(name, {})[made.key.rstrip("%")] = made.value
            return
        name = "_".join(made.key.lower().removeprefix("avg ").split())
        self._values[f"avg_{self._section}_{name.removesuffix('_time')}_time"] = (
            made.value
        )
