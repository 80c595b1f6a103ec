"""How busy a serving engine was: the highest figures of its statistics lines.

Source: vLLM `v1/metrics/loggers.py`, `engine/metrics.py`.
"""

from __future__ import annotations

from parsers.engine.signals import StatisticsLine
from warmup_insights.model.events import Event, Note


class UsageCollector:
    """Keeps the highest figures of one run; a note at its end holds them."""

    def __init__(self) -> None:
        self._num_lines = 0
        self._usage_percent = 0.0
        self._running = self._waiting = 0

    def take(self, made: StatisticsLine) -> None:
        """Count a line."""
        self._num_lines += 1
        self._usage_percent = max(self._usage_percent, made.usage_percent)
        self._running = max(self._running, made.running)
        self._waiting = max(self._waiting, made.waiting)

    def close(self) -> list[Event]:
        """The note; none without such a line."""
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
