"""What a serving engine did first, and how busy it was at most.

Source: vLLM `v1/metrics/loggers.py`, `engine/metrics.py`, `entrypoints/logger.py`.
"""

from __future__ import annotations

from parsers.engine.signals import Origin, RequestLine, ResponseLine, StatisticsLine
from warmup_insights.model.events import Event, Note, RequestServed

MAX_OPEN = 64
"""Requests whose end is waited for."""


class Usage:
    """The requests of one run: the first of each kind is an event at once, a note at the
    end holds the highest figures of all statistics lines."""

    def __init__(self) -> None:
        self.is_waited_for = True
        """False when the first response is there, or was waited for long enough."""
        self._has_tokens = self._is_timed = False
        self._arrived: dict[str, float] = {}
        self._num_lines = 0
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
            self._count(made)
            return self._tokens(made, origin) if is_ready else []
        if not is_ready:
            return []
        if isinstance(made, RequestLine):
            return self._request(made, origin)
        return self._response(origin)

    def _count(self, made: StatisticsLine) -> None:
        self._num_lines += 1
        self._usage_percent = max(self._usage_percent, made.usage_percent)
        self._running = max(self._running, made.running)
        self._waiting = max(self._waiting, made.waiting)

    def _tokens(self, made: StatisticsLine, origin: Origin) -> list[Event]:
        if self._has_tokens or not made.tokens_per_s or origin.time is None:
            return []
        self._has_tokens = True
        return [_served("tokens", origin)]

    def _response(self, origin: Origin) -> list[Event]:
        if not self.is_waited_for:
            return []
        self.is_waited_for = False
        return [_served("response", origin)]

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


def _served(
    what: str, origin: Origin, duration_s: float | None = None
) -> RequestServed:
    return RequestServed(
        what=what, duration_s=duration_s,
        time=origin.time, rank=origin.rank, line=origin.line,
    )  # fmt: skip
