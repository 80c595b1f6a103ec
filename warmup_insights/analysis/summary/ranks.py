"""Which rank's figures are the run's: decided here, for every section.

Ranks are numbered from 0; processes that state none count as one rank before them. A
figure of a run is that of the lowest rank that has it, never a sum or an average. Only
counts of buckets are those of the rank with the fewest (`buckets.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from warmup_insights.model.events import Event
from warmup_insights.model.summary import Part

T = TypeVar("T")

RANKLESS = -1
"""The number of the processes that state no rank."""


def rank_of(event: Event) -> int:
    """The rank of an event as a number that can be ordered."""
    return RANKLESS if event.rank is None else event.rank


def copied(event: Event, kind: type[Part]) -> Any:
    """The fields of an event that a section has."""
    return kind(**{name: getattr(event, name) for name in kind.__struct_fields__})


def leading(by_rank: Mapping[int, T]) -> T | None:
    """What the lowest rank has; None when there is no rank."""
    return by_rank[min(by_rank)] if by_rank else None
