"""What a set of buckets may take: number, seconds of warm-up, bytes of graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from warmup_insights.bucketing.base import Bucket
from warmup_insights.errors import InputError, SettingError

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

    Seconds and bytes need the functions that give them for a bucket.

    Raises:
        SettingError: there is no bound, or one that leaves nothing.
        InputError: a bound on seconds or bytes without their function.
    """

    max_buckets: int | None = None
    max_warmup_s: float | None = None
    max_graph_bytes: float | None = None
    seconds: Cost | None = None
    bytes: Cost | None = None

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
                    f"A limit on {name} needs a run that tells what buckets take; name "
                    "one, or limit the number of buckets"
                )

    @property
    def counts_only(self) -> bool:
        """Whether only the number of buckets is bounded."""
        return self.max_warmup_s is None and self.max_graph_bytes is None

    def usage(self, buckets: Iterable[tuple[str, Bucket]]) -> Usage:
        """What the buckets take."""
        pairs = list(buckets)
        return Usage(
            len(pairs),
            sum(self.seconds(*pair) for pair in pairs) if self.seconds else None,
            sum(self.bytes(*pair) for pair in pairs) if self.bytes else None,
        )

    def allow(self, usage: Usage) -> bool:
        """Whether every bound holds."""
        pairs = (
            (usage.num_buckets, self.max_buckets),
            (usage.warmup_s, self.max_warmup_s),
            (usage.graph_bytes, self.max_graph_bytes),
        )
        return all(
            bound is None or (value is not None and value <= bound * (1 + 1e-12))
            for value, bound in pairs
        )

    def price(self, phase: str, bucket: Bucket) -> float:
        """The share of the bounds that one bucket takes, added up."""
        share = 1.0 / self.max_buckets if self.max_buckets else 0.0
        if self.max_warmup_s is not None and self.seconds is not None:
            share += self.seconds(phase, bucket) / self.max_warmup_s
        if self.max_graph_bytes is not None and self.bytes is not None:
            share += self.bytes(phase, bucket) / self.max_graph_bytes
        return share
