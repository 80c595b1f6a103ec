"""Run: one start-up, from its headline figures to its raw lines."""

from __future__ import annotations

import time

import streamlit as st

from dashboard import data, shown, widgets
from dashboard.run_controls import edit, report_button
from dashboard.run_tabs import TABS
from dashboard.text import WHOLE, markdown, sentence, visible
from dashboard.widgets import View
from warmup_insights.analysis.sentences import pod_text, start_sentences
from warmup_insights.errors import StoreError
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import RunSummary


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
    try:
        run = data.store().find_run(st.query_params.get("run", "latest"))
    except StoreError as error:
        st.title("Run", anchor=False)
        st.error(sentence(error), icon=":material/error:")
        st.page_link(widgets.RUNS, label="All runs", icon=":material/list:")
        return
    summary = data.summary(run)
    view = View(run, summary)
    _head(run, summary)
    tabs = [tab for tab in TABS if tab.has_content(summary)]
    names = [tab.title for tab in tabs]
    chosen = st.tabs(names, key="tab", on_change="rerun", bind="query-params")
    for tab, place in zip(tabs, chosen, strict=True):
        if place.open:
            with place:
                tab.show(view)


def _head(run: RunRecord, summary: RunSummary) -> None:
    """Name, badges, the answer in a sentence or two, headline figures."""
    with st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    ):
        with st.container(
            horizontal=True, vertical_alignment="center", gap="small", width="content"
        ):
            st.title(markdown(run.name), anchor=False, width="content")
            widgets.status_badges(run.status_at(time.time()), summary)
            for text in filter(
                None, [*shown.badges(summary), shown.provenance(summary)]
            ):
                st.badge(markdown(text), color="gray")
        with st.container(
            horizontal=True, vertical_alignment="center", gap="small", width="content"
        ):
            if st.button("Label and notes", icon=":material/edit:", type="tertiary"):
                edit(run)
            report_button([run], f"{run.run_id}-report")
            st.page_link(
                widgets.COMPARE, label="Compare", icon=":material/compare_arrows:",
                query_params={"run": run.run_id},
            )  # fmt: skip
    facts = [*shown.facts(summary), pod_text(summary)]
    st.caption(markdown("  \u00b7  ".join(filter(None, facts))))
    if run.notes:
        st.text(visible(run.notes, WHOLE))
    first, *rest = [markdown(text) for text in start_sentences(summary)]
    if summary.failure is not None:
        st.error(first, icon=":material/error:")
    else:
        st.subheader(first, anchor=False)
    for text in rest:
        st.markdown(text)
    widgets.headline(shown.headline(summary))


with widgets.guarded():
    render()
