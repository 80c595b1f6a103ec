"""Bring the stored summaries of a run up to date with its events."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from warmup_insights.analysis.summary import RunSummary, summarize
from warmup_insights.model.events import WarmupStep
from warmup_insights.units import parse_isoformat

if TYPE_CHECKING:
    from warmup_insights.model.run import RunRecord
    from warmup_insights.storage import EventStore, Transaction

SECTIONS = frozenset(
    {
        "run_id",
        "label",
        "status",
        "engine",
        "device",
        "model",
        "time",
        "memory",
        "buckets",
    }
)
"""What a stored summary must have; one without is made anew from the events."""


def refresh_summary(store: EventStore, run_id: str) -> dict[str, Any]:
    """Summarise a run from its events, store the result and return it."""
    run = store.run(run_id)
    result = summarize(run, store.events(run_id))
    with store.begin() as transaction:
        put(transaction, run, result)
    return result.summary


def current_summary(store: EventStore, run: RunRecord) -> dict[str, Any]:
    """The stored summary, made anew when events came after it.

    A recorder that fell silent in the middle shows as failed, killed.
    """
    stored = store.summary(run.run_id)
    is_whole = stored is not None and stored.keys() >= SECTIONS
    if stored and is_whole and run.run_id not in store.stale_runs():
        summary = {**stored, "label": run.label}
    else:
        summary = summarize(run, store.events(run.run_id)).summary
    if run.is_interrupted(time.time()) and summary["status"] == "running":
        summary = _interrupted(store, run, summary)
    return summary


def _interrupted(
    store: EventStore, run: RunRecord, summary: dict[str, Any]
) -> dict[str, Any]:
    """The summary of a run whose process went away without a word."""
    step: WarmupStep | None = None
    for event in store.events(run.run_id, kinds=["warmup_step"]):
        if isinstance(event, WarmupStep):
            step = event
    at = f"; the last bucket was {step.bucket} ({step.phase})" if step else ""
    failure = {
        "kind": "killed",
        "phase": step.phase if step else None,
        "bucket": list(step.bucket) if step and step.bucket else None,
        "free_bytes": step.free_before_bytes if step else None,
        "needed_bytes": None,
        "message": f"the recording process ended without a word{at}",
        "line": None,
    }
    return {**summary, "status": "failed", "failure": failure}


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
