"""Runs, sources and events with the values that a test does not care about."""

from __future__ import annotations

from warmup_insights.model.events import WarmupStep
from warmup_insights.model.run import RunRecord, SourceRecord


def make_run(run_id="run1", **columns):
    return RunRecord(run_id=run_id, **columns)


def make_source(source_id="source1", **columns):
    values = {"name": "server.log", "digest": source_id * 4, "head_digest": "head"}
    return SourceRecord(source_id=source_id, **{**values, **columns})


def make_steps(count, **fields):
    usual = {"phase": "prompt", "mode": "graph", "duration_s": 0.5, "total": count}
    return [
        WarmupStep(**{"bucket": (1, 128, n), "index": n + 1, **usual, **fields})
        for n in range(count)
    ]


def add_run(store, run_id="run1", events=(), **columns):
    """Store a run with events."""
    with store.begin() as transaction:
        transaction.ensure_run(make_run(run_id, **columns))
        transaction.append(run_id, list(events))
