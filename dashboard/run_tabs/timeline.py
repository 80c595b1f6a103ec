"""Where the time went: phases on an axis, per rank, gaps, the costliest steps."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, frames, frames_steps, widgets
from dashboard.charts_time import rank_timeline, step_bars, timeline
from dashboard.run_tabs.view import View
from dashboard.text import visible
from warmup_insights.units import format_duration, format_percent

TITLE = "Timeline"
COSTLIEST = 15


def has_content(summary: dict[str, Any]) -> bool:
    """Whether the lines had time stamps, or steps had durations."""
    return summary["time"]["wall_s"] is not None


def show(view: View) -> None:
    """Phases, ranks, gaps, steps."""
    times = view.summary["time"]
    phases = frames.phases_frame(view.summary)
    widgets.chart(
        timeline(phases, dark=view.dark), phases,
        key=view.key("timeline"), title="Start-up", hint=_hint(times),
        simulated=view.simulated,
    )  # fmt: skip
    if view.summary["ranks"] > 1:
        _ranks(view)
    left, right = st.columns(2)
    with left:
        _steps(view)
    with right:
        _gaps(view)


def _hint(times: dict[str, Any]) -> str:
    wall, unlogged = times["wall_s"], times["unlogged_s"] or 0.0
    share = 100 * unlogged / wall if wall else 0.0
    text = (
        f"{format_duration(wall)} from the first line to "
        f"{'ready' if times['ready_at'] else 'the last line of the start-up'}; "
        f"{format_duration(unlogged)} ({format_percent(share)}) of it lies between lines "
        "that no phase explains and is hatched. Drag to zoom, double-click to reset."
    )
    if times["residual_s"]:
        text += f" The parts miss the whole by {format_duration(times['residual_s'])}."
    if not times["timezone"]:
        text += " The log names no time zone; its stamps are read as UTC."
    return text


def _ranks(view: View) -> None:
    lanes = data.rank_phases(view.run, view.summary["time"]["started_at"])
    if lanes.empty:
        return
    widgets.chart(
        rank_timeline(lanes, dark=view.dark), lanes,
        key=view.key("ranks"), title="Each rank",
        hint="What each rank says it does; ranks above 0 often say little. Colours are "
        "those of the phases above.",
        simulated=view.simulated,
    )  # fmt: skip


def _steps(view: View) -> None:
    events = data.events(view.run, *frames_steps.COSTLY_KINDS)
    steps = frames_steps.costly_steps(events, COSTLIEST)
    if steps.empty:
        widgets.empty(
            "No step has a duration", "The log states no time for single steps."
        )
        return
    widgets.chart(
        step_bars(steps, dark=view.dark), steps,
        key=view.key("steps"), title=f"The {len(steps)} costliest steps",
        hint="Single buckets, captures and compilations, the longest first.",
        simulated=view.simulated,
    )  # fmt: skip


def _gaps(view: View) -> None:
    gaps = pd.DataFrame(view.summary["time"]["gaps"])
    if gaps.empty:
        widgets.empty(
            "Time in no line", "No gap of a second or more lies between two lines."
        )
        return
    table = gaps[["start_s", "unlogged_s", "line", "before", "after"]].assign(
        before=[visible(text) for text in gaps["before"]],
        after=[visible(text) for text in gaps["after"]],
    )
    widgets.table(
        table, key=view.key("gaps"), title="Time in no line",
        hint="Gaps of a second or more, the longest first, with their two lines.",
        columns={
            "start_s": st.column_config.NumberColumn("from (s)", format="%.1f"),
            "unlogged_s": st.column_config.NumberColumn("gap (s)", format="%.1f"),
            "line": st.column_config.NumberColumn("line", format="%d"),
            "before": "last line before it",
            "after": "first line after it",
        },
    )  # fmt: skip
