"""What the Gaudi graph compiler made: single recipes, buckets that needed none."""

from __future__ import annotations

from collections.abc import Iterable

from warmup_insights.analysis.summary.ranks import leading, rank_of
from warmup_insights.analysis.summary.stages import copied
from warmup_insights.model.events import RecipeCompiled
from warmup_insights.model.summary import BucketRow, RecipeFacts, RecipePart

MAX_SLOWEST = 20
"""Recipes that are kept by name."""


class Recipes:
    """The recipes that the Gaudi bridge compiled before requests were served."""

    def __init__(self) -> None:
        self._by_rank: dict[int, RecipeFacts] = {}

    def add(self, event: RecipeCompiled) -> None:
        """Take a recipe."""
        rank = rank_of(event)
        own = self._by_rank.get(rank) or RecipeFacts()
        is_outside = event.bucket is None
        slowest = own.slowest
        last = slowest[-1].duration_s or 0.0 if len(slowest) == MAX_SLOWEST else -1.0
        if (event.duration_s or 0.0) > last:
            ranked = [*slowest, copied(event, RecipePart)]
            ranked.sort(key=lambda part: -(part.duration_s or 0.0))
            slowest = ranked[:MAX_SLOWEST]
        self._by_rank[rank] = RecipeFacts(
            count=own.count + 1,
            seconds=_added(own.seconds, event.duration_s),
            outside=own.outside + is_outside,
            outside_s=_added(own.outside_s, event.duration_s if is_outside else None),
            slowest=slowest,
        )

    def result(self) -> RecipeFacts | None:
        """The section; None without a recipe."""
        return leading(self._by_rank)


def _added(total: float | None, more: float | None) -> float | None:
    """A sum in which unknown parts are left out; None without a known one."""
    return total if more is None else (total or 0.0) + more


def num_reused(rows: Iterable[BucketRow]) -> int | None:
    """Buckets that ran and compiled nothing; None where nothing counted compilations."""
    known = [row.compiled for row in rows if row.warmed and row.compiled is not None]
    return known.count(0) if known else None
