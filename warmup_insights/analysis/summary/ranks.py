"""Which rank's figures are the run's: decided here, for every section.

Ranks are numbered from 0; processes that state none count as one rank before them. A
figure of a run is that of the lowest rank that has it, never a sum or an average. Only
counts of buckets are those of the rank with the fewest (`buckets.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from warmup_insights.model.events import Event, Note
from warmup_insights.model.summary import Part

E = TypeVar("E", bound=Event)
P = TypeVar("P", bound=Part)
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


def engines(by_rank: Mapping[int, T], size: int | None) -> list[dict[int, T]]:
    """What the ranks of each data parallel engine have, which serves requests of its own;
    `size` is the number of ranks of one, None where there is one engine."""
    found: dict[int, dict[int, T]] = {}
    for rank, value in by_rank.items():
        found.setdefault(rank // size if size else 0, {})[rank] = value
    return list(found.values())


def of_lowest(rows: Sequence[E]) -> list[E]:
    """Those of the lowest rank that has any."""
    lowest = min(map(rank_of, rows), default=RANKLESS)
    return [row for row in rows if rank_of(row) == lowest]


class KeptEvents:
    """Events of the kinds of which there are few, as they are: what the sections are made
    of that are functions of them. None is kept after one of the kind `until`."""

    def __init__(
        self, kinds: Iterable[type[Event]], until: type[Event] | None = None
    ) -> None:
        self.routes: Routes = dict.fromkeys(kinds, self.add)
        if until is not None:
            self.routes[until] = self._end
        self._rows: dict[type[Event], list[Any]] = {}
        self._counts: dict[tuple[type[Event], int], int] = {}
        self._is_over = False

    def add(self, event: Event) -> None:
        """Take an event, in the order of the run."""
        key = type(event), rank_of(event)
        count = self._counts.get(key, 0)
        if count < MAX_ROWS and not self._is_over:
            self._counts[key] = count + 1
            self._rows.setdefault(key[0], []).append(event)

    def _end(self, _: Event) -> None:
        self._is_over = True

    def all(self, kind: type[E]) -> list[E]:
        """The events of a kind of all ranks, in order."""
        return self._rows.get(kind, [])

    def of(self, kind: type[E]) -> list[E]:
        """The events of a kind, in order, of the lowest rank that has any."""
        return of_lowest(self.all(kind))

    def last(self, kind: type[Event], field: str) -> Any:
        """A field as the lowest rank that states it has it in its last event of a kind."""
        rows = sorted(self.all(kind), key=rank_of, reverse=True)
        known = [v for event in rows if (v := getattr(event, field)) is not None]
        return known[-1] if known else None

    def values(self, topic: str, *fields: str) -> list[dict[str, Any]]:
        """The figures of all notes of a topic, in order, that have these fields."""
        found = (note.values for note in self.all(Note) if note.topic == topic)
        return [values for values in found if values.keys() >= set(fields)]

    def stated(self, topic: str, kind: type[P]) -> list[P]:
        """The notes of a topic that have all fields of a section, as such sections."""
        found = self.values(topic, *kind.__struct_fields__)
        return [msgspec.convert(values, kind) for values in found]
