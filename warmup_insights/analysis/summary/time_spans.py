"""Stretches of time with a name, and which of several explains a moment."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

OTHER_RANK, ASSUMED, BOUNDED, MEASURED = range(4)
"""How a span is known, weakest first: from a slower rank; from a line that opens it up
to the next one; from the line before to the line that closes it; from a duration."""


STAMP_S = 1.0
"""Resolution of the timestamps of most logs: two may be off by twice as much together."""


@dataclass(frozen=True, slots=True)
class Span:
    """A named stretch of time, in seconds since the epoch."""

    name: str
    start: float
    end: float
    strength: int

    @property
    def duration_s(self) -> float:
        """Length in seconds."""
        return self.end - self.start


def partition(spans: Iterable[Span], start: float, end: float) -> list[Span]:
    """The moments between `start` and `end` that a span explains, in order.

    A stronger span wins over a weaker one, and among equals the shorter one, because
    it lies inside the longer. Neighbours of one name are one. O(n log n).
    """
    kept = sorted(
        (
            Span(s.name, max(s.start, start), min(s.end, end), s.strength)
            for s in spans
            if s.end > start and s.start < end and s.end > s.start
        ),
        key=lambda span: span.start,
    )
    points = sorted({p for s in kept for p in (s.start, s.end)})
    active: list[tuple[int, float, int]] = []
    result: list[Span] = []
    following = 0
    for left, right in pairwise(points):
        while following < len(kept) and kept[following].start <= left:
            span = kept[following]
            heapq.heappush(active, (-span.strength, span.duration_s, following))
            following += 1
        while active and kept[active[0][2]].end <= left:
            heapq.heappop(active)
        if active:
            _append(result, kept[active[0][2]], left, right)
    return result


def joined(spans: Iterable[Span], resolution_s: float) -> list[Span]:
    """Neighbours of one name as one, where less than the resolution of the timestamps
    lies between them: that is no evidence of anything else."""
    result: list[Span] = []
    for span in spans:
        last = result[-1] if result else None
        if (
            last is not None
            and last.name == span.name
            and span.start - last.end < resolution_s
        ):
            result[-1] = Span(last.name, last.start, span.end, last.strength)
        else:
            result.append(span)
    return result


def _append(result: list[Span], span: Span, left: float, right: float) -> None:
    last = result[-1] if result else None
    if last is not None and last.name == span.name and last.end == left:
        result[-1] = Span(last.name, last.start, right, span.strength)
    else:
        result.append(Span(span.name, left, right, span.strength))
