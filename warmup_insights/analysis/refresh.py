"""Bring the stored summaries of a run up to date with its events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warmup_insights.analysis.summary import RunSummary, summarize
from warmup_insights.units import parse_isoformat

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore, RunRecord, Transaction


def refresh_summary(store: EventStore, run_id: str) -> dict[str, Any]:
    """Summarise a run from its events, store the result and return it."""
    run = store.run(run_id)
    result = summarize(run, store.events(run_id))
    with store.begin() as transaction:
        put(transaction, run, result)
    return result.summary


def current_summary(store: EventStore, run: RunRecord) -> dict[str, Any]:
    """The stored summary, made anew when events came after it."""
    stored = store.summary(run.run_id)
    if stored is not None and run.run_id not in store.stale_runs():
        return {**stored, "label": run.label}
    return summarize(run, store.events(run.run_id)).summary


def put(transaction: Transaction, run: RunRecord, result: RunSummary) -> None:
    """Write a summary, its bucket rows, and the columns that lists are sorted by."""
    summary = result.summary
    transaction.put_summary(run.run_id, summary, result.bucket_rows)
    transaction.update_run(run.run_id, **run_columns(summary))


def run_columns(summary: dict[str, Any]) -> dict[str, Any]:
    """The columns of `runs` that follow from a summary."""
    return {
        "engine": summary["engine"]["name"],
        "version": summary["engine"]["version"],
        "model": summary["model"],
        "device_kind": summary["device"]["kind"],
        "device_name": summary["device"]["name"],
        "status": summary["status"],
        "synthetic": summary["synthetic"],
        "started_at": parse_isoformat(summary["time"]["started_at"]),
    }
