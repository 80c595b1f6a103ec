"""Where the time went: phases on an axis, per rank, gaps, the costliest steps."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import data, shown, widgets
from dashboard.charts.base import Picture
from dashboard.charts.time import (
    COSTLY_KINDS,
    costly_steps,
    phases_frame,
    ranks_picture,
    step_bars,
    timeline,
)
from dashboard.shown import Headline, figure
from dashboard.text import markdown, visible
from dashboard.widgets import View
from warmup_insights.analysis.sentences import cache_text
from warmup_insights.model.figures import BY_NAME, text_of
from warmup_insights.model.summary import RunSummary

COSTLIEST = 15


def show(view: View) -> None:
    """Phases, ranks, gaps, steps."""
    _stated(view.summary)
    phases = phases_frame(view.summary)
    if phases.empty:
        widgets.empty("Start-up", "No line states when the start-up did anything.")
    view.chart(Picture("Start-up", _hint(view.summary), phases, timeline), "timeline")
    view.chart(ranks_picture(view.summary), "ranks")
    left, right = st.columns(2)
    with left:
        _steps(view)
    with right:
        _gaps(view)


def _caches(summary: RunSummary) -> str | None:
    text = cache_text(summary)
    return None if text is None else markdown(text)


def _stated(summary: RunSummary) -> None:
    """What the engine states about its start, and the garbage collector."""
    share = None
    if summary.gc is not None and summary.gc.share is not None:
        share = f"{text_of(summary, 'gc_percent')} of the steps"
    figures = [
        *figure(summary, "engine_init_s"),
        *figure(summary, "compile_s", note=_caches(summary)),
        *figure(summary, "gc_s", note=share),
        *figure(summary, "gc_freeze_s"),
    ]
    if summary.gc is not None and summary.gc.frozen and summary.gc.freeze_s is None:
        help_text = shown.HELP["gc_freeze_s"]
        figures.append(Headline("Garbage collector", "frozen", help_text))
    if BY_NAME["unlogged_s"].read(summary):
        figures += figure(summary, "unlogged_s")
    widgets.headline(figures)


def _hint(summary: RunSummary) -> str:
    times, unit = summary.time, "line" if summary.is_log else "event"
    text = (
        f"{text_of(summary, 'wall_s')} from the first {unit} to "
        f"{'ready' if times.ready_at else f'the last {unit} of the start-up'}"
    )
    if times.wall_s is None:
        text = "The start-up in the lines of this log; how long all of it took is not in them"
    if BY_NAME["unlogged_s"].read(summary):
        text += f"; {text_of(summary, 'unlogged_s')} of it is unlogged time and hatched"
    text += ". Drag to zoom, double-click to reset."
    if not times.timezone:
        text += " The log names no time zone; its timestamps are read as UTC."
    return text


def _steps(view: View) -> None:
    events = data.events(view.run, *COSTLY_KINDS)
    steps = costly_steps(events, view.summary.compile, COSTLIEST)
    if steps.empty:
        widgets.empty("No step has a duration", "No time is stated for single steps.")
        return
    hint = "Single buckets, captures and compilations, the longest first."
    title = f"The {len(steps)} costliest steps"
    view.chart(Picture(title, hint, steps, step_bars), "steps")


def _gaps(view: View) -> None:
    gaps = view.summary.time.gaps
    if not gaps:
        widgets.empty(
            "Unlogged time",
            "No two lines are two seconds or more apart with a second of it unexplained.",
        )
        return
    table = pd.DataFrame(
        [
            (g.start_s, g.unlogged_s, g.line, visible(g.before), visible(g.after))
            for g in gaps
        ],
        columns=["start_s", "unlogged_s", "line", "before", "after"],
    )
    view.table(
        table, key="gaps", title="Unlogged time",
        hint="Two seconds or more without a line, a second or more of it unexplained; the "
        "longest first, with the two lines around it.",
        columns={
            "start_s": st.column_config.NumberColumn("from (s)", format="%.1f"),
            "unlogged_s": st.column_config.NumberColumn("gap (s)", format="%.1f"),
            "line": st.column_config.NumberColumn("line", format="%d"),
            "before": "last line before it",
            "after": "first line after it",
        },
    )  # fmt: skip
