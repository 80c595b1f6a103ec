"""Runs from the store, as commands that only read need them."""

from __future__ import annotations

from collections.abc import Sequence

from warmup_insights.analysis.summary import Folded
from warmup_insights.drainer import open_store
from warmup_insights.runs import current


def load_runs(db: str, names: Sequence[str]) -> list[Folded]:
    """Summaries and bucket rows of the runs that a user named, in that order.

    Raises:
        StoreError: there is no such run, or more than one, or no database.
    """
    with open_store(db) as store:
        return [current(store, store.find_run(name)) for name in names]
