"""Capture percentages, and how far the evidence supports them."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import frames, widgets
from dashboard.charts_buckets import bucket_text
from dashboard.charts_steps import capture_bars
from dashboard.run_tabs.view import View
from warmup_insights.units import format_bytes, format_count, format_percent

TITLE = "Capture"


def has_content(summary: dict[str, Any]) -> bool:
    """Whether any phase says how many buckets it has; a share needs a whole."""
    phases = (summary["buckets"] or {}).values()
    return any(section["generated"] for section in phases)


def show(view: View) -> None:
    """Shares per phase, a sentence for each, the buckets without a graph."""
    captures = frames.capture_frame(view.summary)
    widgets.chart(
        capture_bars(captures, dark=view.dark), captures,
        key=view.key("shares"), title="Warmed and captured",
        hint="Shares of the generated buckets.", simulated=view.simulated,
    )  # fmt: skip
    for phase, section in view.summary["buckets"].items():
        with widgets.card(phase.capitalize(), simulated=view.simulated):
            st.markdown(explanation(phase, section))
            _without(section)


def explanation(phase: str, section: dict[str, Any]) -> str:
    """What is known about the captures of a phase, and how."""
    captured, reported = section["captured"], section["captured_reported"]
    generated = format_count(section["generated"])
    if captured is None and reported is None:
        return f"{generated} buckets; no line speaks of captured graphs."
    if captured is None:
        return (
            f"The log reports {reported} captured of {generated}. That number is the "
            "length of the bucket list, printed whether or not a graph was recorded; "
            "nothing in the log says which were. Only a recorder can count them."
        )
    share = format_percent(section["capture_percent"])
    text = f"{captured} of {generated} buckets have a graph ({share})"
    if reported is not None and reported != captured:
        text += f", although the log reports {reported}"
    used, budget = section["graph_used_bytes"], section["graph_budget_bytes"]
    if used is not None:
        text += f". They take {format_bytes(used)}"
        text += f" of a budget of {format_bytes(budget)}" if budget is not None else ""
    return text + "."


def _without(section: dict[str, Any]) -> None:
    if section["captured_buckets"] is None or not section["buckets"]:
        return
    captured = {tuple(bucket) for bucket in section["captured_buckets"]}
    missing = [tuple(b) for b in section["buckets"] if tuple(b) not in captured]
    if not missing:
        st.caption("Every generated bucket is captured.")
        return
    with st.expander(f"{len(missing)} buckets without a graph"):
        st.text(", ".join(bucket_text(bucket) for bucket in missing[:2000]))
