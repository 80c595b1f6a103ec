"""Run: one start-up, from its headline figures to its raw lines."""

from __future__ import annotations

import streamlit as st

from dashboard import data, widgets
from dashboard.run_tabs import TABS
from dashboard.run_tabs.overview import show_head
from dashboard.run_tabs.view import View


def render() -> None:
    """Show the page."""
    if data.store().newest_change()[0] == 0:
        st.title("Run", anchor=False)
        widgets.empty(
            "No runs yet",
            "Drop a log onto the first page, or let the command line read one:",
            "warmup-insights ingest server.log",
        )
        return
    run = data.store().find_run(st.query_params.get("run", "latest"))
    summary = data.summary(run)
    view = View(run, summary, widgets.is_dark())
    show_head(run, summary)
    tabs = [tab for tab in TABS if tab.has_content(summary)]
    names = [tab.title for tab in tabs]
    chosen = st.tabs(names, key="tab", on_change="rerun", bind="query-params")
    for tab, place in zip(tabs, chosen, strict=True):
        if place.open:
            with place:
                tab.show(view)


with widgets.guarded():
    render()
