"""Graphs by number of tokens, as CUDA has them: at the start and while serving."""

from __future__ import annotations

import msgspec
import pandas as pd
import streamlit as st

from dashboard import shown, widgets
from dashboard.charts.steps import graph_captures, graphs_by_size, lazy_timeline
from dashboard.run_tabs.view import View
from dashboard.widgets import figure
from warmup_insights.model.summary import CaptureBar, RunSummary

TITLE = "Graphs by size"


def has_content(summary: RunSummary) -> bool:
    """Whether any line mentions them; graphs of buckets have tabs of their own."""
    graphs = summary.graphs
    if summary.serving is not None and summary.serving.graph_uses:
        return True
    if graphs is None:
        return False
    return summary.engine.name != "reference" or bool(graphs.lazy)


def show(view: View) -> None:
    """Headline, by size, delayed ones, the bars of the log."""
    summary, graphs = view.summary, view.summary.graphs
    _uses(view)
    if graphs is None:
        return
    estimate = None
    if graphs.estimated_bytes is not None:
        estimate = f"{shown.text(summary, 'graph_estimated_bytes')} estimated"
    lasted = shown.text(summary, "lazy_s") if graphs.lazy else None
    widgets.headline(
        [
            *figure(summary, "graphs_captured"),
            *figure(summary, "graph_capture_s"),
            *figure(summary, "graph_memory_bytes", note=estimate),
            *figure(summary, "lazy_captures", note=lasted),
        ]
    )
    captures = graph_captures(summary)
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
    _bars(view, graphs.bars)


def _uses(view: View) -> None:
    serving = view.summary.serving
    if serving is None or not serving.graph_uses:
        return
    share = shown.text(view.summary, "graph_steps_percent")
    padding = shown.text(view.summary, "graph_padding_percent")
    widgets.table(
        pd.DataFrame([msgspec.to_builtins(use) for use in serving.graph_uses]),
        key=view.key("uses"), title="Steps while serving",
        hint=f"{share} ran in a CUDA graph; {padding} of the tokens in graphs are padding. "
        "Steps without a graph are larger than every captured size, or of a kind that none "
        "was captured for.",
        columns={"num_tokens": st.column_config.NumberColumn("tokens", format="%d"),
                 "padded_tokens": st.column_config.NumberColumn("ran as", format="%d"),
                 "mode": "graph",
                 "count": st.column_config.NumberColumn("steps", format="%d")},
        simulated=view.simulated,
    )  # fmt: skip


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


def _bars(view: View, bars: list[CaptureBar]) -> None:
    if not bars:
        return
    progress = pd.DataFrame([msgspec.to_builtins(bar) for bar in bars])
    widgets.table(
        progress, key=view.key("bars"), title="Progress bars of the log",
        hint="The last state of each capture bar.", simulated=view.simulated,
        columns={"duration_s": st.column_config.NumberColumn("time (s)", format="%.1f")},
    )  # fmt: skip
