"""What a person wants to see at once, and what stands out."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import data, frames, widgets
from dashboard.budget import budget_steps, steps_frame
from dashboard.charts_memory import budget_waterfall
from dashboard.charts_steps import capture_bars, stage_bars, stages_frame
from dashboard.charts_time import phase_bars
from dashboard.run_tabs.coverage import coverage_chart
from dashboard.run_tabs.view import View
from dashboard.text import markdown
from warmup_insights.analysis.oddities import oddities
from warmup_insights.units import format_duration

TITLE = "Overview"


def has_content(summary: dict[str, Any]) -> bool:
    """Every run has one."""
    return True


def show(view: View) -> None:
    """Coverage, graph memory, captures, sampler and defragmenter, time, oddities."""
    left, right = st.columns(2)
    buckets = data.buckets(view.run)
    with left:
        for phase in frames.phases_in_order(buckets):
            coverage_chart(view, buckets, phase)
        if buckets.empty:
            _time(view)
        _captures(view)
    with right:
        _memory(view)
        _stages(view)
        _oddities(view)
    if not buckets.empty:
        _time(view)


def _oddities(view: View) -> None:
    found = oddities(view.summary)
    with widgets.card("What stands out", simulated=view.simulated):
        if not found:
            st.caption("Nothing: no rule of this project found anything odd.")
        for sentence in found:
            st.markdown(f"- {markdown(sentence, 500)}")


def _memory(view: View) -> None:
    steps = budget_steps(view.summary)
    if not steps:
        return
    widgets.chart(
        budget_waterfall(steps, dark=view.dark),
        steps_frame(steps),
        key=view.key("budget"),
        title="Memory budget",
        hint="From the whole device down to what is left for the KV cache.",
        simulated=view.simulated,
    )


def _captures(view: View) -> None:
    captures = frames.capture_frame(view.summary)
    if captures.empty or not captures["generated"].notna().any():
        return
    widgets.chart(
        capture_bars(captures, dark=view.dark),
        captures,
        key=view.key("captures"),
        title="Warmed and captured",
        hint="Shares of the generated buckets. What a log reports as captured can be "
        "more than its lines support.",
        simulated=view.simulated,
    )


def _stages(view: View) -> None:
    stages = stages_frame(view.summary)
    if stages.empty:
        return
    words = [
        f"{row['stage']} {row['status']}"
        + (
            ""
            if row["duration_s"] is None
            else f" in {format_duration(row['duration_s'])}"
        )
        for row in stages.to_dict("records")
    ]
    widgets.chart(
        stage_bars(stages, dark=view.dark),
        stages,
        key=view.key("stages"),
        title="Sampler and defragmenter warm-up",
        hint=f"{'; '.join(words).capitalize()}. More on their tab.",
        simulated=view.simulated,
    )


def _time(view: View) -> None:
    phases = frames.phases_frame(view.summary)
    if phases.empty:
        return
    totals = frames.phase_totals(phases)
    widgets.chart(
        phase_bars(totals, dark=view.dark),
        totals,
        key=view.key("phases"),
        title="Where the time went",
        hint=f"{format_duration(view.summary['time']['wall_s'])} in all. Hatched time "
        "lies between two log lines that no phase explains.",
        simulated=view.simulated,
    )
