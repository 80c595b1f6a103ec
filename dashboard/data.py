"""Cached loaders: what pages show, read once per change of the database.

Every loader takes plain values, so that its cache key is what it was asked for; the
version of a run or of the list of runs is one of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import configurations, frames, frames_steps, graph_memory, progress
from dashboard.charts_steps import config_name
from dashboard.settings import Settings, read_settings
from warmup_insights.analysis.advice import Finding, advise
from warmup_insights.analysis.advice_facts import collect_facts
from warmup_insights.analysis.plan_evidence import collect_evidence
from warmup_insights.analysis.plan_recommend import recommend
from warmup_insights.analysis.planning import Planner, PlanSettings
from warmup_insights.analysis.refresh import current_summary
from warmup_insights.analysis.summary import summarize
from warmup_insights.errors import StoreError
from warmup_insights.export.plans import recommendation_table
from warmup_insights.export.tables import TextTable
from warmup_insights.model.run import RunRecord, SourceRecord
from warmup_insights.storage import EventStore

Version = tuple[float, ...]
MOST_LIVE = 12
MOST_HISTORY = 200


def settings() -> Settings:
    """What the command line said."""
    return read_settings()


def store() -> EventStore:
    """The store of this app. Raises StoreError when it cannot be used."""
    database = settings().database
    return _open(database, _identity(database))


def _identity(database: str) -> int:
    """Differs when the file of a database was replaced by another one."""
    if "://" in database:
        return 0
    try:
        return os.stat(database).st_ino
    except OSError:
        return -1


@st.cache_resource(max_entries=4, show_spinner=False)
def _open(database: str, identity: int) -> EventStore:
    try:
        return EventStore(database)
    except StoreError:
        if not Path(database).is_file():
            raise
        return EventStore(database, read_only=True)


def list_version() -> Version:
    """Changes whenever the list of runs does."""
    return store().newest_change()


def run_version(run: RunRecord) -> Version:
    """Changes whenever a run does."""
    return (float(run.num_events), run.updated_at or 0.0)


Filters = tuple[tuple[str, Any], ...]


@st.cache_data(max_entries=16, ttl=30.0, show_spinner=False)
def _run_rows(
    database: str, version: Version, filters: Filters, limit: int, offset: int
) -> pd.DataFrame:
    found = store().run_table(limit=limit, offset=offset, **dict(filters))
    return frames.runs_frame(found)


def run_rows(filters: dict[str, Any], limit: int, offset: int = 0) -> pd.DataFrame:
    """Runs that pass the filters, newest first; columns of `frames.runs_frame`.

    They are read again after half a minute even if nothing changed: a recorder that
    went silent changes nothing.
    """
    return _run_rows(
        settings().database, list_version(), _chosen(filters), limit, offset
    )


@st.cache_data(max_entries=16, show_spinner=False)
def _count_runs(database: str, version: Version, filters: Filters) -> int:
    return store().count_runs(**dict(filters))


def count_runs(filters: dict[str, Any]) -> int:
    """How many runs pass the filters."""
    return _count_runs(settings().database, list_version(), _chosen(filters))


def _chosen(filters: dict[str, Any]) -> Filters:
    return tuple(sorted((k, v) for k, v in filters.items() if v))


@st.cache_data(max_entries=16, show_spinner=False)
def _choices(database: str, version: Version, column: str) -> list[str]:
    return store().distinct(column)


def choices(column: str) -> list[str]:
    """What a column of the runs holds, for a filter."""
    return _choices(settings().database, list_version(), column)


@st.cache_data(max_entries=64, show_spinner=False)
def _summary(database: str, run_id: str, version: Version) -> dict[str, Any]:
    opened = store()
    return current_summary(opened, opened.run(run_id))


def summary(run: RunRecord) -> dict[str, Any]:
    """The summary of a run, as `show RUN --json` prints it."""
    return _summary(settings().database, run.run_id, run_version(run))


@st.cache_data(max_entries=32, show_spinner=False)
def _buckets(database: str, run_id: str, version: Version) -> pd.DataFrame:
    return frames.buckets_frame(_bucket_rows(database, run_id, version))


def buckets(run: RunRecord) -> pd.DataFrame:
    """What became of each bucket; columns of `frames.buckets_frame`."""
    return _buckets(settings().database, run.run_id, run_version(run))


@st.cache_data(max_entries=32, show_spinner=False)
def _dimensions(
    database: str, run_id: str, version: Version
) -> dict[str, tuple[str, ...]]:
    kinds = ("buckets_generated", "bucket_ranges_configured")
    return frames.dimension_names(store().events(run_id, kinds))


def dimensions(run: RunRecord) -> dict[str, tuple[str, ...]]:
    """Phase to the names of its bucket dimensions, as far as the engine says them."""
    return _dimensions(settings().database, run.run_id, run_version(run))


@st.cache_data(max_entries=32, show_spinner=False)
def _events(
    database: str, run_id: str, version: Version, kinds: Sequence[str]
) -> pd.DataFrame:
    return pd.DataFrame(store().event_table(run_id, kinds))


def events(run: RunRecord, *kinds: str) -> pd.DataFrame:
    """The typed columns of some kinds of events of a run, in order."""
    return _events(settings().database, run.run_id, run_version(run), kinds)


@st.cache_data(max_entries=8, show_spinner=False)
def _source(
    database: str, source_id: str, version: Version
) -> tuple[SourceRecord, pd.DataFrame]:
    opened = store()
    lines = opened.source_lines(source_id)
    return opened.source(source_id), frames.lines_frame(lines)


def source(run: RunRecord) -> tuple[SourceRecord, pd.DataFrame] | None:
    """The log of a run and its kept lines; None for a recorder."""
    if run.source_id is None:
        return None
    return _source(settings().database, run.source_id, run_version(run))


@st.cache_data(max_entries=16, show_spinner=False)
def _rank_phases(
    database: str, run_id: str, version: Version, started_at: str | None
) -> pd.DataFrame:
    return frames_steps.rank_phases(store().events(run_id), started_at)


def rank_phases(run: RunRecord, started_at: str | None) -> pd.DataFrame:
    """The phases of each rank; columns of `frames_steps.rank_phases`."""
    return _rank_phases(settings().database, run.run_id, run_version(run), started_at)


@st.cache_data(max_entries=16, show_spinner=False)
def _padding(database: str, run_id: str, version: Version) -> pd.DataFrame:
    return frames_steps.padding_frame(store().events(run_id, ["bucket_used"]))


def padding(run: RunRecord) -> pd.DataFrame:
    """Padding of the steps while serving; columns of `frames_steps.padding_frame`."""
    return _padding(settings().database, run.run_id, run_version(run))


@st.cache_data(max_entries=16, show_spinner=False)
def _capture_curve(
    database: str, run_id: str, version: Version
) -> tuple[pd.DataFrame, int | None, bool]:
    curve = graph_memory.capture_curve(store().events(run_id, graph_memory.KINDS))
    return curve.points, curve.budget_bytes, curve.is_warmup


def capture_curve(run: RunRecord) -> graph_memory.Curve:
    """Graph memory in the order of capture."""
    return graph_memory.Curve(
        *_capture_curve(settings().database, run.run_id, run_version(run))
    )


def bucket_events(run: RunRecord, phase: str, bucket: tuple[int, ...]) -> pd.DataFrame:
    """What happened to one bucket, in order."""
    equal = frames_steps.bucket_columns(bucket)
    if not equal:
        return frames_steps.bucket_history(pd.DataFrame())
    rows = store().event_table(
        run.run_id, frames_steps.HISTORY_KINDS, phase=phase, **equal
    )
    return frames_steps.bucket_history(pd.DataFrame(rows))


@st.cache_data(max_entries=16, show_spinner=False)
def _sampler_cells(
    database: str, run_id: str, version: Version, section: dict[str, Any] | None
) -> pd.DataFrame:
    events = store().events(run_id, ["sampler_step", "sampler_config"])
    return frames_steps.sampler_cells(section, events, config_name)


def sampler_cells(run: RunRecord, summary: dict[str, Any]) -> pd.DataFrame:
    """The sampler grid; columns of `frames_steps.sampler_cells`."""
    sampler = summary["sampler"] or {}
    section = {"batch_sizes": sampler.get("batch_sizes")}
    return _sampler_cells(settings().database, run.run_id, run_version(run), section)


def defrag_runs(run: RunRecord, summary: dict[str, Any]) -> pd.DataFrame:
    """Live defragmentations; columns of `frames_steps.defrag_runs`."""
    return frames_steps.defrag_runs(events(run, "defrag_ran"), summary)


def cuda_graphs(
    run: RunRecord, summary: dict[str, Any]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Captures and the last state of the capture bars."""
    found = list(
        store().events(
            run.run_id, ["graph_captured", "lazy_capture", "capture_progress"]
        )
    )
    return (
        frames_steps.graph_captures(found, summary),
        frames_steps.capture_progress(found),
    )


@st.cache_data(max_entries=32, show_spinner=False)
def _bucket_rows(database: str, run_id: str, version: Version) -> list[dict[str, Any]]:
    opened = store()
    rows = opened.bucket_summaries(run_id)
    if rows or run_id not in opened.stale_runs():
        return rows
    # The run is still being written: its rows are not stored yet.
    return summarize(opened.run(run_id), opened.events(run_id)).bucket_rows


def bucket_rows(run: RunRecord) -> list[dict[str, Any]]:
    """The bucket summaries of a run, as they are stored."""
    return _bucket_rows(settings().database, run.run_id, run_version(run))


def going_on() -> list[RunRecord]:
    """Runs that are being recorded or followed, newest first, interrupted ones last."""
    now = time.time()
    running = store().runs(status="running", limit=MOST_LIVE)
    return sorted(running, key=lambda run: run.is_interrupted(now))


@st.cache_data(max_entries=16, show_spinner=False)
def _journey(database: str, run_id: str, version: Version) -> progress.Journey:
    return progress.journey(store().events(run_id, progress.KINDS))


def journey(run: RunRecord) -> progress.Journey:
    """How far a run is, from its events so far."""
    return _journey(settings().database, run.run_id, run_version(run))


def earlier_run(run: RunRecord) -> RunRecord | None:
    """The last finished run of the same model on the same kind of device."""
    if run.model is None:
        return None
    found = store().runs(
        model=run.model, device_kind=run.device_kind, status="finished", limit=1
    )
    return found[0] if found else None


@st.cache_data(max_entries=8, show_spinner=False)
def _points(database: str, version: Version, ids: tuple[str, ...]) -> pd.DataFrame:
    opened = store()
    found = opened.summaries(ids, with_lists=False)
    records = {run_id: opened.run(run_id) for run_id in ids}
    summaries = [
        found.get(run_id) or current_summary(opened, records[run_id]) for run_id in ids
    ]
    names = {run_id: frames.name_of(record) for run_id, record in records.items()}
    return configurations.points_frame(summaries, names)


def configuration_points(rows: pd.DataFrame) -> pd.DataFrame:
    """The runs of a list as points; columns of `configurations.points_frame`."""
    return _points(settings().database, list_version(), tuple(rows["run_id"]))


@st.cache_resource(max_entries=4, show_spinner="Reading the costs of the run")
def _planner(database: str, run_id: str, version: Version, is_log: bool) -> Planner:
    return Planner(collect_evidence(store().events(run_id), is_log=is_log))


def planner(run: RunRecord) -> Planner:
    """What plans from a run; raises InputError when it tells too little."""
    is_log = run.source_kind == "log"
    return _planner(settings().database, run.run_id, run_version(run), is_log)


def planned_points(run: RunRecord) -> tuple[pd.DataFrame, list[str]]:
    """Predictions from a run over a grid of settings, and what to know about them."""
    made = planner(run)
    notes = made.plan(PlanSettings()).notes
    return configurations.planned_points(made), list(notes)


def recommendation(run: RunRecord) -> TextTable:
    """What `plan RUN` recommends, as its table."""
    return recommendation_table(recommend(planner(run)))


def status_of(run_id: str) -> str | None:
    """The status of a run now; None when it was deleted."""
    try:
        return store().run(run_id).status_at(time.time())
    except StoreError:
        return None


@st.cache_data(max_entries=8, show_spinner=False)
def _findings(
    database: str, run_id: str, version: Version, everything: Version
) -> list[Finding]:
    opened = store()
    run = opened.run(run_id)
    facts = collect_facts(
        summary(run), bucket_rows(run), opened.events(run_id), _history(opened, run)
    )
    return advise(facts)


def findings(run: RunRecord) -> list[Finding]:
    """What `advise` says about a run, the most important first."""
    return _findings(settings().database, run.run_id, run_version(run), list_version())


def _history(opened: EventStore, run: RunRecord) -> list[dict[str, Any]]:
    """Summaries of other runs of the same engine, model and device, as `advise` has."""
    if run.model is None or run.device_kind is None:
        return []
    others = opened.runs(
        limit=MOST_HISTORY,
        model=run.model,
        device_kind=run.device_kind,
        engine=run.engine,
        synthetic=run.synthetic,
    )
    ids = [
        other.run_id
        for other in others
        if other.run_id != run.run_id and other.device_name == run.device_name
    ]
    return list(opened.summaries(ids).values())
