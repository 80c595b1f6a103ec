"""Shapes that no bucket covered, kernels and recipes compiled late: what made requests
wait."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import widgets
from dashboard.charts.buckets import misses_frame
from dashboard.widgets import View
from warmup_insights.analysis.misses import diagnose, highest_settings
from warmup_insights.model.summary import RunSummary


def has_content(summary: RunSummary) -> bool:
    """Whether there are any."""
    return bool(summary.misses or summary.serving_or_none.jit)


def show(view: View) -> None:
    """The misses, and the kernels and recipes that were compiled while serving."""
    if view.summary.misses:
        _misses(view)
    late = [
        {
            "kernel": row.kernel,
            "count": row.count,
            "after ready": row.after_ready_s,
            "compiled by": row.what,
            "configuration": row.detail or "",
            "duration_s": row.duration_s,
        }
        for row in view.summary.serving_or_none.jit
    ]
    view.table(
        pd.DataFrame(late), key="late", title="Compiled while serving",
        hint="Each kept a request waiting. A warm-up that runs these shapes compiles "
        "them before.",
        columns={
            "count": st.column_config.NumberColumn("times", format="%d"),
            "after ready": st.column_config.NumberColumn(format="%.0f s"),
            "duration_s": st.column_config.NumberColumn("time (s)", format="%.4g"),
        },
    )  # fmt: skip


def _misses(view: View) -> None:
    """A table, the settings and the lines of a bucket file."""
    found = diagnose(view.summary)
    table = misses_frame(view.summary, found)
    view.table(
        table, key="misses", title="Shapes without a bucket",
        hint="Each compiles when it first comes, in the middle of a request. The nearest "
        "bucket, why it is too small, and what the shape ran in.",
        columns={"count": st.column_config.NumberColumn("times", format="%d")},
    )  # fmt: skip
    left, right = st.columns(2)
    with left, widgets.card("Settings that cover them"):
        settings = highest_settings(found)
        if all(item.cause == "skipped" for item in found):
            st.caption(
                "Nothing was warmed up: `VLLM_SKIP_WARMUP=false` comes first. "
                "`warmup-insights advise` states whether the ranges cover them then."
            )
        elif settings:
            st.code("\n".join(settings), language=None, wrap_lines=True)
        else:
            st.caption(
                "No single maximum is too small; the shapes need buckets of their own."
            )
    with right, widgets.card("Lines for a bucket file"):
        lines = [item.file_line for item in found if item.file_line]
        if lines:
            st.code("\n".join(dict.fromkeys(lines)), language=None)
            st.caption("For VLLM_BUCKETING_FROM_FILE; (batch, query, blocks).")
        else:
            st.caption("Bucket files need shapes of three numbers.")
