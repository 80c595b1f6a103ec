"""Runs: every start-up in the store."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import data, widgets

LIMIT = 10_000


def render() -> None:
    """Show the page."""
    st.title("Runs")
    rows = data.run_rows({}, LIMIT)
    if rows.empty:
        widgets.empty(
            "No runs yet",
            "Upload a log, or let the command line read some:",
            "warmup-insights ingest server.log\nwarmup-insights demo",
        )
        return
    event = st.dataframe(
        shown(rows), hide_index=True, on_select="rerun",
        selection_mode="single-row", key="runs",
    )  # fmt: skip
    chosen = event["selection"]["rows"]
    if chosen:
        st.switch_page(
            widgets.RUN, query_params={"run": rows.iloc[chosen[0]]["run_id"]}
        )


def shown(rows: pd.DataFrame) -> pd.DataFrame:
    """The columns of the table, in the order of reading."""
    return rows[["name", "status", "engine", "device_kind", "warmup_s",
                 "captured_percent", "num_kv_blocks", "missed", "run_id"]]  # fmt: skip


with widgets.guarded():
    render()
