"""Capture percentages, and how far the evidence supports them."""

from __future__ import annotations

import streamlit as st

from dashboard import shown, widgets
from dashboard.charts.buckets import bucket_text
from dashboard.charts.steps import capture_bars, capture_frame
from dashboard.run_tabs.view import View
from warmup_insights.model.summary import PhaseBuckets, RunSummary

TITLE = "Capture"


def has_content(summary: RunSummary) -> bool:
    """Whether any phase states how many buckets it has; a share needs a whole."""
    return any(part.generated for part in (summary.buckets or {}).values())


def show(view: View) -> None:
    """Shares per phase, a sentence for each, the buckets without a graph."""
    captures = capture_frame(view.summary)
    widgets.chart(
        capture_bars(captures, dark=view.dark), captures,
        key=view.key("shares"), title="Warmed and captured",
        hint="Shares of the generated buckets.", simulated=view.simulated,
    )  # fmt: skip
    for phase, part in (view.summary.buckets or {}).items():
        with widgets.card(phase.capitalize(), simulated=view.simulated):
            st.markdown(explanation(view.summary, phase))
            _without(part)


def explanation(summary: RunSummary, phase: str) -> str:
    """What is known about the captures of a phase, and how."""
    part = summary.phase(phase)
    captured, reported = part.captured, part.captured_reported

    def shows(key: str) -> str:
        return shown.text(summary, f"{phase}_{key}")

    if captured is None and reported is None:
        return f"{shows('generated')} buckets; no line is about captured graphs."
    if captured is None:
        return (
            f"The log reports {shows('captured_reported')} captured of "
            f"{shows('generated')}. That number is the length of the bucket list, "
            "printed whether or not a graph was recorded; no line states which were. "
            "Only a recorder can count them."
        )
    text = f"{shows('captured')} of {shows('generated')} buckets have a graph "
    text += f"({shows('capture_percent')})"
    if reported is not None and reported != captured:
        text += f", although the log reports {shows('captured_reported')}"
    if part.graph_used_bytes is not None:
        text += f". They take {shows('graph_used_bytes')}"
        if part.graph_budget_bytes is not None:
            text += f" of a budget of {shows('graph_budget_bytes')}"
    return text + "."


def _without(part: PhaseBuckets) -> None:
    if part.captured_buckets is None or not part.buckets:
        return
    captured = set(part.captured_buckets)
    missing = [bucket for bucket in part.buckets if bucket not in captured]
    if not missing:
        st.caption("Every generated bucket is captured.")
        return
    with st.expander(f"Buckets without a graph: {len(missing)}"):
        st.text(", ".join(bucket_text(bucket) for bucket in missing[:2000]))
