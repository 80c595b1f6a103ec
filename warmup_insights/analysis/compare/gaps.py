"""Time between the same two lines of several logs, which no phase explains in them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from warmup_insights.model.summary import Gap, RunSummary
from warmup_insights.units import format_duration

MOST = 20
LEAST_S = 5.0
LEAST_SHARE = 0.1
"""Of the longer start, below which a gap that grew is no reason to name."""
_VARIES = re.compile(r"0x[0-9a-f]{1,40}|/[^\s'\",)]{1,300}|\d{1,30}")


@dataclass(frozen=True)
class GapRow:
    """Two lines, and the seconds between them in each run.

    None where a run has no such gap: it is under two seconds there, or a line is missing.
    """

    before: str
    after: str
    values: tuple[float | None, ...]


def match_gaps(summaries: Sequence[RunSummary]) -> tuple[GapRow, ...]:
    """The gaps by their lines, those that differ most first; numbers and paths in a line
    make it no other line."""
    texts: dict[tuple[str, str], tuple[str, str]] = {}
    seconds: dict[tuple[str, str], list[float | None]] = {}
    for number, summary in enumerate(summaries):
        for gap in summary.time.gaps:
            key = _key(gap)
            texts.setdefault(key, (gap.before, gap.after))
            own = seconds.setdefault(key, [None] * len(summaries))
            own[number] = (own[number] or 0.0) + gap.unlogged_s
    rows = [GapRow(*texts[key], tuple(own)) for key, own in seconds.items()]
    return tuple(sorted(rows, key=lambda row: -_spread(row.values))[:MOST])


def gap_sentence(rows: Sequence[GapRow], runs: Sequence[RunSummary]) -> str | None:
    """The gap between the same two lines that grew or shrank most from the first run to
    the second; None where it is a small part of both starts."""
    both = [
        (row, second - first)
        for row in rows
        for first, second in [row.values]
        if first is not None and second is not None
    ]
    if not both:
        return None
    row, change = max(both, key=lambda pair: abs(pair[1]))
    longest = max(run.time.wall_s or 0.0 for run in runs)
    if abs(change) < max(LEAST_S, LEAST_SHARE * longest):
        return None
    first, second = (format_duration(value) for value in row.values)
    return (
        f"Between the lines '{row.before[:80]}' and '{row.after[:80]}' pass {second} "
        f"instead of {first}, and no line explains it."
    )


def _key(gap: Gap) -> tuple[str, str]:
    return _VARIES.sub("#", gap.before), _VARIES.sub("#", gap.after)


def _spread(values: Sequence[float | None]) -> float:
    known = [value or 0.0 for value in values]
    return max(known) - min(known)
