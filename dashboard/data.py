"""Cached loaders: what pages show, read once per change of the database.

What a loader gives is kept until its arguments change: a run does with its events, its
label and its status, a store with its list of runs.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Lock
from typing import Any

import pandas as pd
import streamlit as st

from dashboard.charts.buckets import (
    HISTORY_KINDS,
    bucket_columns,
    bucket_history,
    buckets_frame,
)
from dashboard.charts.runs import runs_frame
from dashboard.server import read_settings
from warmup_insights import runs
from warmup_insights.analysis.advice import Finding
from warmup_insights.analysis.plan.planning import Planner
from warmup_insights.analysis.summary import Folded, RunFold
from warmup_insights.drainer import open_store
from warmup_insights.errors import StoreError
from warmup_insights.model.events import Bucket
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.model.summary import RunSummary
from warmup_insights.storage import EventStore

MOST_LIVE = 12
Filters = dict[str, Any]


def store() -> EventStore:
    """The store of this app. Raises StoreError when it cannot be used."""
    return _open(*_place())


def _place() -> tuple[str, int]:
    """The database, and a number that is another one when its file was replaced."""
    database = read_settings().database
    if "://" in database:
        return database, 0
    try:
        return database, os.stat(database).st_ino
    except OSError:
        return database, -1


@st.cache_resource(max_entries=4, show_spinner=False)
def _open(database: str, identity: int) -> EventStore:
    try:
        return open_store(database, read_only=False)
    except StoreError:
        if not Path(database).is_file():
            raise
        return EventStore(database, read_only=True)


VERSIONS: Any = {
    RunRecord: lambda run: (
        *_place(), run.run_id, run.num_events, run.updated_at,
        run.status, run.has_no_heartbeat(time.time()),
    ),
    EventStore: lambda opened: (*_place(), *opened.newest_change()),
}  # fmt: skip
"""What the caches compare to find out whether an argument changed."""


# A recorder that stopped writing changes nothing in the store: read it again.
@st.cache_data(hash_funcs=VERSIONS, max_entries=16, ttl=30.0, show_spinner=False)
def run_rows(
    opened: EventStore, filters: Filters, limit: int, offset: int = 0
) -> pd.DataFrame:
    """Runs that pass the filters, newest first; columns of `runs_frame`."""
    found = opened.run_table(limit=limit, offset=offset, **chosen(filters))
    return runs_frame(found)


def chosen(filters: Filters) -> Filters:
    """The filters that a visitor set; the status is the one that the list shows."""
    found = {name: value for name, value in filters.items() if value}
    if "status" in found:
        now = time.time()
        running = store().runs(status="running")
        cut_off = [run.run_id for run in running if run.is_interrupted(now)]
        found["status_now"] = (found.pop("status"), cut_off)
    return found


class _Beginning:
    """The fold over what a run has so far; takes only what was added since."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._fold = RunFold()
        self._last_seq = -1

    def result(self, run: RunRecord) -> Folded:
        with self._lock:
            if run.num_events <= self._last_seq:  # its events were cleared
                self._fold, self._last_seq = RunFold(), -1
            events = store().events(run.run_id, after_seq=self._last_seq)
            self._fold.add_all(events)
            if events.last_seq is not None:
                self._last_seq = events.last_seq
            return self._fold.result(run)


@st.cache_resource(
    hash_funcs={RunRecord: lambda run: (*_place(), run.run_id)},
    max_entries=MOST_LIVE, show_spinner=False,
)  # fmt: skip
def _beginning(run: RunRecord) -> _Beginning:
    return _Beginning()


@st.cache_resource(hash_funcs=VERSIONS, max_entries=64, show_spinner=False)
def folded(run: RunRecord) -> Folded:
    """The summary of a run, as `show RUN --json` prints it, and its bucket rows."""
    if run.source_kind == "recorder" and run.status_at(time.time()) == "running":
        return _beginning(run).result(run)
    return runs.current(store(), run)


def summary(run: RunRecord) -> RunSummary:
    """The summary of a run."""
    return folded(run).summary


@st.cache_data(hash_funcs=VERSIONS, max_entries=32, show_spinner=False)
def buckets(run: RunRecord) -> pd.DataFrame:
    """What became of each bucket; columns of `buckets_frame`."""
    return buckets_frame(folded(run).rows)


@st.cache_data(hash_funcs=VERSIONS, max_entries=8, show_spinner=False)
def source(run: RunRecord) -> tuple[SourceRecord, pd.DataFrame] | None:
    """The log of a run and its kept lines, `rule` None where none matches; None for a
    recorder."""
    if run.source_id is None:
        return None
    lines = pd.DataFrame(
        store().source_lines(run.source_id), columns=["line", "rule", "text"]
    )
    return store().source(run.source_id), lines


def bucket_events(run: RunRecord, phase: str, bucket: Bucket) -> pd.DataFrame:
    """What happened to one bucket, in order."""
    equal = bucket_columns(bucket)
    if not equal:
        return bucket_history(pd.DataFrame())
    rows = store().event_table(run.run_id, HISTORY_KINDS, phase=phase, **equal)
    return bucket_history(pd.DataFrame(rows))


def going_on() -> list[RunRecord]:
    """Runs that are being recorded or followed, newest first, interrupted ones last."""
    now = time.time()
    running = store().runs(status="running", limit=MOST_LIVE)
    return sorted(running, key=lambda run: run.is_interrupted(now))


@st.cache_data(hash_funcs=VERSIONS, max_entries=8, show_spinner=False)
def stored_summaries(opened: EventStore, ids: list[str]) -> dict[str, RunSummary]:
    """The stored summaries of runs by id, without their lists."""
    return opened.summaries(ids, with_lists=False)


def summaries(opened: EventStore, ids: list[str]) -> list[RunSummary]:
    """The summaries of runs without their lists, in the order given."""
    stored = stored_summaries(opened, ids)
    return [stored.get(run_id) or summary(opened.run(run_id)) for run_id in ids]


@st.cache_resource(
    hash_funcs=VERSIONS, max_entries=4, show_spinner="Reading the costs of the run"
)
def planner(run: RunRecord) -> Planner:
    """What plans from a run; raises InputError when the run states too little."""
    known = folded(run)
    return Planner(known.summary, known.rows)


def status_of(run_id: str) -> str | None:
    """The status of a run now; None when it was deleted."""
    try:
        return store().run(run_id).status_at(time.time())
    except StoreError:
        return None


@st.cache_data(hash_funcs=VERSIONS, max_entries=8, show_spinner=False)
def findings(opened: EventStore, run: RunRecord) -> list[Finding]:
    """What `advise` finds in a run, the most important first."""
    return runs.findings(opened, run, folded(run))
