"""Runs from the store, as the deciding commands need them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmup_insights.model.run import RunRecord
    from warmup_insights.storage import EventStore


@dataclass(frozen=True)
class LoadedRun:
    """One run: what is stored about it, its summary and its bucket rows."""

    record: RunRecord
    summary: dict[str, Any]
    bucket_rows: list[dict[str, Any]]


def load_runs(db: str, names: Sequence[str]) -> list[LoadedRun]:
    """The runs that a user named, in that order.

    Raises:
        StoreError: there is no such run, or more than one.
    """
    from warmup_insights.storage import EventStore

    with EventStore(db, read_only=True) as store:
        return [load_run(store, store.find_run(name)) for name in names]


def load_run(store: EventStore, record: RunRecord) -> LoadedRun:
    """A run with what is known of it now, whether or not it is still being written."""
    from warmup_insights.analysis.refresh import current_summary
    from warmup_insights.analysis.summary import summarize

    summary = current_summary(store, record)
    rows = store.bucket_summaries(record.run_id)
    if not rows and summary["buckets"]:
        # The summary was made just now; its rows were never stored.
        rows = summarize(record, store.events(record.run_id)).bucket_rows
    return LoadedRun(record, summary, rows)
