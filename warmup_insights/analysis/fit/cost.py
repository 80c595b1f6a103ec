"""What buckets cost while serving, and what they may take before it.

Cost is counted in tokens: those that are computed, plus `block_weight` for each context
block that is read. A prompt bucket reads its blocks for every row, a decode bucket once
for the batch. The waste of a shape is the cost of its bucket less its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from warmup_insights.analysis.fit.traffic import ShapeCounts, Traffic
from warmup_insights.analysis.sentences import count_of
from warmup_insights.bucketing.base import Bucket, context_blocks
from warmup_insights.bucketing.lookup import BucketIndex
from warmup_insights.errors import InputError, SettingError
from warmup_insights.units import format_bytes, format_duration

Pairs = list[tuple[str, Bucket]]
"""Buckets, each with its phase."""


def execution_cost(shapes: Any, phase: str, block_weight: int) -> Any:
    """Cost of each shape or bucket, (n, 3) to (n,)."""
    sizes = shapes.T
    return sizes[0] * sizes[1] + block_weight * context_blocks(phase, sizes)


@dataclass(frozen=True)
class Waste:
    """Padding of a set of buckets over some traffic, in tokens.

    `uncovered` counts the steps that no bucket covers, `uncovered_shapes` their shapes,
    those that never ran among them; their padding is not in `wasted`, and `executed`
    holds the cost of the covered ones.
    """

    needed: int
    executed: int
    uncovered: int
    uncovered_shapes: int = 0

    @property
    def wasted(self) -> int:
        """Executed without need."""
        return self.executed - self.needed


def refuse_overflow(
    traffic: Traffic, buckets: Iterable[Bucket], phase: str, block_weight: int
) -> None:
    """Raise InputError where costs are no numbers of 64 bits: they would be wrong.

    Every step of a phase is taken to run in the largest of its shapes and buckets.
    """
    part = traffic.of(phase)
    largest = [
        max(sizes) for sizes in zip(*buckets, *part.shapes.tolist(), strict=True)
    ]
    if not largest:
        return
    exact = np.array([largest], dtype=object)
    (cost,) = execution_cost(exact, phase, block_weight)
    if cost * max(1, part.total) >= 1 << 62:
        raise InputError(
            f"The {phase} steps of {traffic.name} are too many or too large to be "
            "weighed; give smaller counts or shapes"
        )


def assign(shapes: Any, buckets: Iterable[Bucket]) -> Any:
    """Index into the sorted buckets that the engine takes for each shape; -1 for none.

    It takes the first in sorted order that is not smaller in any dimension.
    """
    ordered = sorted(set(buckets))
    index = BucketIndex(ordered)
    place: dict[Bucket | None, int] = {b: i for i, b in enumerate(ordered)}
    found = [place.get(index.find(*shape), -1) for shape in shapes.tolist()]
    return np.array(found, dtype=np.int64)


def measure_waste(
    traffic: ShapeCounts, buckets: Iterable[Bucket], phase: str, block_weight: int
) -> Waste:
    """The waste of the buckets over the traffic of a phase, chosen as the engine does."""
    ordered = sorted(set(buckets))
    chosen = assign(traffic.shapes, ordered)
    covered = chosen >= 0
    counts = traffic.counts[covered]
    needed = execution_cost(traffic.shapes[covered], phase, block_weight)
    table = np.array(ordered, dtype=np.int64).reshape(-1, 3)
    executed = execution_cost(table, phase, block_weight)[chosen[covered]]
    return Waste(
        int((needed * counts).sum()),
        int((executed * counts).sum()),
        int(traffic.counts[~covered].sum()),
        int((~covered).sum()),
    )


def used_buckets(traffic: ShapeCounts, buckets: Iterable[Bucket]) -> list[Bucket]:
    """The buckets that some shape runs in, sorted."""
    ordered = sorted(set(buckets))
    chosen = assign(traffic.shapes, ordered)
    return [ordered[position] for position in np.unique(chosen[chosen >= 0])]


def tighten(
    traffic: ShapeCounts, buckets: Iterable[Bucket], phase: str
) -> list[Bucket]:
    """The buckets that are used, each no larger than what it has to hold.

    A smaller bucket may come earlier in the engine's order and take over shapes, so this
    is repeated until nothing changes. Covers what the given buckets cover.
    """
    current, before = sorted(set(buckets)), None
    while current != before:
        before = current
        chosen = assign(traffic.shapes, current)
        groups = (traffic.shapes[chosen == i] for i in np.unique(chosen[chosen >= 0]))
        current = sorted({as_bucket(shapes.max(axis=0), phase) for shapes in groups})
    return current


def as_bucket(shape: Any, phase: str) -> Bucket:
    """A shape as a bucket that a bucket file can hold: query length 1 means decode."""
    batch, query, blocks = (int(value) for value in shape)
    return Bucket(batch, max(2, query) if phase == "prompt" else 1, blocks)


Cost = Callable[[str, Bucket], float]
"""Seconds or bytes of a bucket of a phase; grows with every dimension."""


@dataclass(frozen=True)
class Usage:
    """What a set of buckets takes; None where the costs are not known."""

    num_buckets: int
    warmup_s: float | None
    graph_bytes: float | None


@dataclass(frozen=True)
class Limits:
    """Upper bounds on the buckets of both phases together; None is no bound.

    Seconds and bytes need the functions that give them for a bucket. `fixed` are buckets
    beside those that are counted, whatever these are.

    Raises:
        SettingError: there is no bound, or one that leaves nothing.
        InputError: a bound on seconds or bytes without their function, or one that the
            fixed buckets exceed.
    """

    max_buckets: int | None = None
    max_warmup_s: float | None = None
    max_graph_bytes: float | None = None
    seconds: Cost | None = None
    bytes: Cost | None = None
    fixed: tuple[tuple[str, Bucket], ...] = ()

    def __post_init__(self) -> None:
        bounds = (self.max_buckets, self.max_warmup_s, self.max_graph_bytes)
        if all(bound is None for bound in bounds):
            raise SettingError(
                "There is no limit; give a number of buckets, seconds or bytes"
            )
        if any(bound is not None and bound <= 0 for bound in bounds):
            raise SettingError("A limit of 0 or less leaves no bucket; raise it")
        for bound, cost, name in (
            (self.max_warmup_s, self.seconds, "time"),
            (self.max_graph_bytes, self.bytes, "graph memory"),
        ):
            if bound is not None and cost is None:
                raise InputError(
                    f"A limit on {name} needs a run that states what buckets take; name "
                    "one, or limit the number of buckets"
                )
        if any(bound <= 0 for bound, _ in self.bounds()):
            raise InputError(
                f"A limit of {self} leaves nothing beside the bucket that a phase without "
                "steps needs; raise it"
            )

    def __str__(self) -> str:
        parts = []
        if self.max_buckets is not None:
            parts.append(count_of(self.max_buckets, "bucket"))
        if self.max_warmup_s is not None:
            parts.append(f"{format_duration(self.max_warmup_s)} of warm-up")
        if self.max_graph_bytes is not None:
            parts.append(f"{format_bytes(self.max_graph_bytes)} of graphs")
        return " and ".join(parts)

    def usage(self, pairs: Pairs) -> Usage:
        """What buckets, each with its phase, take."""
        return Usage(
            len(pairs),
            sum(self.seconds(*pair) for pair in pairs) if self.seconds else None,
            sum(self.bytes(*pair) for pair in pairs) if self.bytes else None,
        )

    def bounds(self) -> list[tuple[float, Cost]]:
        """What the fixed buckets leave of each bound, and what a bucket takes of it."""
        found = (
            (self.max_buckets, lambda phase, bucket: 1),
            (self.max_warmup_s, self.seconds),
            (self.max_graph_bytes, self.bytes),
        )
        return [
            (bound - sum(cost(*pair) for pair in self.fixed), cost)
            for bound, cost in found
            if bound is not None and cost
        ]

    def each(self) -> list[Limits]:
        """One for each bound, as if there were no other."""
        names = ("max_buckets", "max_warmup_s", "max_graph_bytes")
        alone: list[dict[str, Any]]
        alone = [dict.fromkeys(names) | {n: getattr(self, n)} for n in names]
        return [replace(self, **own) for own in alone if any(own.values())]

    def load(self, pairs: Pairs) -> float:
        """The largest share of a bound that the buckets take; at most 1 is allowed."""
        return max(
            sum(cost(*p) for p in pairs) / bound for bound, cost in self.bounds()
        )

    @property
    def budget(self) -> int:
        """The number of buckets if that alone is bounded, else the number of bounds."""
        bounds = self.bounds()
        return (
            int(bounds[0][0]) if self.max_buckets and len(bounds) == 1 else len(bounds)
        )
