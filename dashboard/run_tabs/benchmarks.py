"""Benchmark results in the log."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import widgets
from dashboard.run_tabs.view import View
from dashboard.text import visible
from warmup_insights.model.summary import RunSummary

TITLE = "Benchmarks"


def has_content(summary: RunSummary) -> bool:
    """Whether there are any."""
    return bool(summary.benchmarks)


def show(view: View) -> None:
    """One column per result."""
    table = benchmarks_frame(view.summary)
    st.caption("Keys are those of `vllm bench serve --save-result`.")
    st.dataframe(table, height="content")
    widgets.csv_button(table.reset_index(), view.key("benchmarks"))


def benchmarks_frame(summary: RunSummary) -> pd.DataFrame:
    """Figure by result; numbers as they are, everything else as text."""
    columns = {
        f"result {n}": {visible(k): _shown(v) for k, v in values.items()}
        for n, values in enumerate(summary.benchmarks, 1)
    }
    return pd.DataFrame(columns).rename_axis("figure")


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}"
    return visible(value, 120)
