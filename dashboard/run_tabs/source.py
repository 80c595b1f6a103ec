"""The lines that the run was read from, and what became of them."""

from __future__ import annotations

import streamlit as st

from dashboard import data, widgets
from dashboard.run_tabs.view import View
from dashboard.text import markdown, visible
from dashboard.widgets import Headline
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import format_bytes, format_count

TITLE = "Source"
UNKNOWN = "not understood"


def has_content(summary: RunSummary) -> bool:
    """Whether there is a log."""
    return summary.is_log


def show(view: View) -> None:
    """Counts, then lines with numbers and rules; unknown ones first."""
    found = data.source(view.run)
    if found is None:
        widgets.empty("No log", "This run was recorded, not read from a log.")
        return
    source, lines = found
    report = source.report
    widgets.headline(
        [
            Headline("Log", visible(source.name, 40)),
            Headline("Size", format_bytes(source.size_bytes)),
            Headline("Lines", format_count(source.lines)),
            Headline("Events", format_count(report.get("events"))),
            Headline("Not understood", format_count(report.get("unknown"))),
        ]
    )
    for problem in report.get("problems", []):
        st.warning(markdown(problem, 600))
    if lines.empty:
        widgets.empty(
            "No line was kept", "The log was read, but no line of it matched."
        )
        return
    shown = lines.assign(
        rule=lines["rule"].fillna(UNKNOWN), text=[visible(t) for t in lines["text"]]
    )
    rules = sorted(shown["rule"].unique(), key=lambda rule: (rule != UNKNOWN, rule))
    chosen = st.multiselect(
        "Rules", rules, key=view.key("rules"), placeholder="All rules",
        label_visibility="collapsed",
    )  # fmt: skip
    if chosen:
        shown = shown[shown["rule"].isin(chosen)]
    shown = shown.sort_values(
        by=["rule", "line"], key=lambda c: c != UNKNOWN if c.name == "rule" else c,
        kind="stable",
    )  # fmt: skip
    st.caption(
        f"{format_count(len(shown))} lines that matched a rule or look relevant; those "
        "not understood come first."
    )
    st.dataframe(
        shown[["line", "rule", "text"]], hide_index=True, height=560,
        column_config={
            "line": st.column_config.NumberColumn("line", format="%d", width="small"),
            "rule": st.column_config.TextColumn("rule", width="medium"),
            "text": st.column_config.TextColumn("text", width=1000),
        },
    )  # fmt: skip
