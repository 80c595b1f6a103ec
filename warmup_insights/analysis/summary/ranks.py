"""Which rank's figures are the run's: decided here, for every section.

Ranks are numbered from 0; processes that state none count as one rank before them. A
figure of a run is that of the lowest rank that has it, never a sum or an average. Only
counts of buckets are those of the rank with the fewest (`buckets.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from warmup_insights.model.events import Event
from warmup_insights.model.summary import Part

E = TypeVar("E", bound=Event)
T = TypeVar("T")

Routes = dict[type[Event], Callable[[Any], None]]
"""Of a section: classes of events to what takes them, in the order of the run."""
MAX_ROWS = 10_000
"""Rows of one kind that a summary keeps; the events hold all."""
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


class KeptEvents:
    """Events of the kinds of which there are few, as they are: what the sections are made
    of that are functions of them."""

    def __init__(self, kinds: Iterable[type[Event]]) -> None:
        self.routes: Routes = dict.fromkeys(kinds, self.add)
        self._by_kind: dict[type[Event], dict[int, list[Any]]] = {}

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        by_rank = self._by_kind.setdefault(type(event), {})
        rows = by_rank.setdefault(rank_of(event), [])
        if len(rows) < MAX_ROWS:
            rows.append(event)

    def of(self, kind: type[E]) -> list[E]:
        """The events of a kind, in order, of the lowest rank that has any."""
        return leading(self._by_kind.get(kind, {})) or []

    def last(self, kind: type[Event], field: str) -> Any:
        """A field as the lowest rank that states it has it in its last event of a kind."""
        by_rank = self._by_kind.get(kind, {})
        stated = (
            getattr(event, field)
            for rank in sorted(by_rank)
            for event in reversed(by_rank[rank])
        )
        return next((value for value in stated if value is not None), None)
