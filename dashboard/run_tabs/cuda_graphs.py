"""Graphs by number of tokens, as CUDA has them: at the start and while serving."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, widgets
from dashboard.charts_steps import graphs_by_size, lazy_timeline
from dashboard.run_tabs.view import View
from dashboard.widgets import Figures
from warmup_insights.units import format_bytes, format_count, format_duration

TITLE = "Graphs by size"


def has_content(summary: dict[str, Any]) -> bool:
    """Whether any line mentions them; graphs of buckets have tabs of their own."""
    graphs = summary["graphs"]
    if graphs is None:
        return False
    return summary["engine"]["name"] != "reference" or bool(graphs["lazy"])


def show(view: View) -> None:
    """Headline, by size, delayed ones, the bars of the log."""
    section = view.summary["graphs"]
    lazy = section["lazy"]
    figures = [
        Figures("Captured at start", format_count(section["captured"])),
        Figures("Time", format_duration(section["duration_s"])),
        Figures(
            "Memory", format_bytes(section["memory_bytes"]), note=_estimate(section)
        ),
        Figures(
            "Captured while serving", format_count(len(lazy)), note=_lazy_cost(lazy)
        ),
    ]
    widgets.headline([figure for figure in figures if figure.value != "?"])
    captures, progress = data.cuda_graphs(view.run, view.summary)
    left, right = st.columns(2)
    for place, by, words in (
        (left, "duration_s", "Time"),
        (right, "memory_bytes", "Memory"),
    ):
        if captures[by].notna().any():
            with place:
                widgets.chart(
                    graphs_by_size(captures, by=by, dark=view.dark), captures,
                    key=view.key(f"graphs-{by}"), title=f"{words} by graph size",
                    hint="One bar per captured graph. Memory is a difference of free "
                    "memory and can be negative."
                    if by == "memory_bytes" else "One bar per captured graph.",
                    simulated=view.simulated,
                )  # fmt: skip
    _lazy(view, captures)
    _bars(view, progress)


def _estimate(section: dict[str, Any]) -> str | None:
    estimated = section["estimated_bytes"]
    return None if estimated is None else f"{format_bytes(estimated)} estimated"


def _lazy_cost(lazy: list[dict[str, Any]]) -> str | None:
    seconds = [row["duration_s"] for row in lazy if row["duration_s"] is not None]
    return format_duration(sum(seconds)) if seconds else None


def _lazy(view: View, captures: pd.DataFrame) -> None:
    lazy = captures[(captures["when"] == "while serving") & captures["since_s"].notna()]
    if lazy.empty:
        return
    widgets.chart(
        lazy_timeline(lazy, dark=view.dark), lazy,
        key=view.key("lazy"), title="Captures while serving",
        hint="When each delayed capture interrupted a request; larger marks took longer.",
        simulated=view.simulated,
    )  # fmt: skip


def _bars(view: View, progress: pd.DataFrame) -> None:
    if progress.empty:
        return
    widgets.table(
        progress, key=view.key("bars"), title="Progress bars of the log",
        hint="The last state of each capture bar.", simulated=view.simulated,
        columns={"duration_s": st.column_config.NumberColumn("time (s)", format="%.1f")},
    )  # fmt: skip
