"""What is printed of an engine at work: its first answers, its load, its benchmarks.

Source: vLLM `v1/metrics/loggers.py`, `engine/metrics.py`, `entrypoints/logger.py` for
requests and statistics; `benchmarks/serve.py` (`{:<40} {:<10}`) and `benchmarks/startup.py`
for the rows of `vllm bench serve` and `vllm bench startup`, whose keys are those of
`--save-result` and of the JSON output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from parsers.base import LineRule
from parsers.engine.signals import (
    BenchEdge,
    BenchLine,
    Origin,
    RequestLine,
    ResponseLine,
    StatisticsLine,
    stamped,
)
from warmup_insights.model.events import BenchmarkResult, Event, Note, RequestServed

MAX_OPEN = 64
"""Requests whose end is waited for."""
_USED = itemgetter(1, 2, 3)
MAX_COUNTED = 10_000
"""Different figures of statistics lines that are kept."""


class Usage:
    """The requests of one run: the first of each kind is an event at once, a note at the
    end holds the highest figures of all statistics lines."""

    def __init__(self) -> None:
        self.is_waited_for = True
        """False when the first response is there, or was waited for long enough."""
        self._has_tokens = self._is_timed = False
        self._arrived: dict[str, float] = {}
        self._num_lines = 0
        self._counted: set[tuple[bytes, ...]] = set()
        """Figures that were compared with the highest, as written."""
        self._usage_percent = 0.0
        self._running = self._waiting = 0

    def take(
        self,
        made: StatisticsLine | RequestLine | ResponseLine,
        origin: Origin,
        *,
        is_ready: bool,
    ) -> list[Event]:
        """The event that a line makes; only after ready is one the first of its kind."""
        if isinstance(made, StatisticsLine):
            self._num_lines += 1
            self._compare(made.usage_percent, made.running, made.waiting)
            is_first = not self._has_tokens and origin.time is not None
            if not is_ready or not is_first or not made.tokens_per_s:
                return []
            self._has_tokens = True
            return [_served("tokens", origin)]
        if not is_ready:
            return []
        if isinstance(made, RequestLine):
            return self._request(made, origin)
        if not self.is_waited_for:
            return []
        self.is_waited_for = False
        return [_served("response", origin)]

    def counts(self, lines: Sequence[tuple[bytes, ...]]) -> bool:
        """Whether of these lines of statistics, each as the groups of its rule, none is an
        event."""
        return self._has_tokens or not any(float(tokens) for tokens, *_ in lines)

    def count(self, lines: Sequence[tuple[bytes, ...]]) -> None:
        """Count lines of statistics; an engine prints their figures in this order."""
        self._num_lines += len(lines)
        new = set(map(_USED, lines)) - self._counted
        for running, waiting, percent in new:
            self._compare(float(percent), int(running), int(waiting))
        if len(self._counted) < MAX_COUNTED:
            self._counted |= new

    def _compare(self, usage_percent: float, running: int, waiting: int) -> None:
        if usage_percent > self._usage_percent:
            self._usage_percent = usage_percent
        if running > self._running:
            self._running = running
        if waiting > self._waiting:
            self._waiting = waiting

    def _request(self, made: RequestLine, origin: Origin) -> list[Event]:
        """The time of the first request that has both of its lines."""
        if self._is_timed or origin.time is None:
            return []
        if not made.is_end:
            if len(self._arrived) < MAX_OPEN:
                self._arrived.setdefault(made.request, origin.time)
            return []
        began = self._arrived.get(made.request)
        if began is None or origin.time < began:
            return []
        self._is_timed = True
        return [_served("request", origin, origin.time - began)]

    def close(self) -> list[Event]:
        """The note; none without a statistics line."""
        if not self._num_lines:
            return []
        text = (
            f"{self._num_lines:,} lines of statistics: at most {self._usage_percent:g} % of "
            f"the KV cache in use, {self._running:,} requests running, {self._waiting:,} "
            "waiting"
        )
        values = {
            "num_lines": self._num_lines, "usage_percent": self._usage_percent,
            "running": self._running, "waiting": self._waiting,
        }  # fmt: skip
        return [Note(topic="usage", text=text, values=values)]


_TIME = r"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?"
_DATED = re.compile(
    rf"(?:\d{{4}}-)?\d\d-\d\d[T ]{_TIME}|[A-Z][a-z]{{2}} [ \d]\d {_TIME}"
)
_BEHIND = r"[^\n\r\x1b^\[\]-]*\r?"
"""What may follow the figures of a statistics line that is counted: no other record."""


class LinesLike(NamedTuple):
    """The lines that differ from one in the time of the day and in their figures alone."""

    head: str
    """What stands before the message, without a date."""
    find: Callable[[bytes], list[tuple[bytes, ...]]]
    """Takes lines, each behind a line break; gives the figures of those among them."""
    num_literals: int
    """How often each holds the literal of its rule, at least."""


def lines_like(head: str, message: str, rule: LineRule) -> LinesLike:
    """The lines like one that consists of this head and a message of this rule."""
    before = _TIME.join(map(re.escape, re.split(_TIME, head)))
    (literal,) = rule.hints
    times = message.count(literal)
    figures = f"(?:{rule.pattern}){literal.join([_BEHIND] * times)}"
    pattern = re.compile(f"(?m)\\n{before}{figures}$".encode())
    return LinesLike(_DATED.sub("", head), pattern.findall, times)


def _served(
    what: str, origin: Origin, duration_s: float | None = None
) -> RequestServed:
    return stamped(RequestServed(what=what, duration_s=duration_s), origin)


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
