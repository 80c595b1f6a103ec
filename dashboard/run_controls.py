"""Choosing stored runs, with the choice in the address; naming, deleting and reporting them."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from dashboard import data, widgets
from dashboard.report import report_html
from dashboard.text import short_name
from warmup_insights.export.runs import RunWithLines
from warmup_insights.model.run import RunRecord
from warmup_insights.runs import delete_runs, kept_lines

MOST_LISTED = 500


def names(extra: tuple[str, ...] = ()) -> dict[str, str]:
    """Run id to what a list shows: the newest runs, and those chosen."""
    rows = data.run_rows(data.store(), {}, MOST_LISTED)
    found = {
        run_id: short_name(name)
        for run_id, name in zip(rows["run_id"], rows["name"], strict=True)
    }
    for run_id in extra:
        found.setdefault(run_id, f"run {run_id}")
    return found


def requested_runs() -> list[str]:
    """The ids of the runs that the address names; raises StoreError for unknown ones."""
    wanted = st.query_params.get_all("run")
    return list(dict.fromkeys(data.store().find_run(text).run_id for text in wanted))


def choose_several(most: int) -> list[str]:
    """Two or more runs; the first is the baseline."""
    requested = requested_runs()
    known = names(tuple(requested))
    chosen = st.multiselect(
        "Runs", list(known), default=requested[:most], max_selections=most,
        format_func=known.__getitem__, label_visibility="collapsed",
        placeholder=f"Choose two to {most} runs; the first is the baseline",
    )  # fmt: skip
    if len(requested) > most:
        st.warning(
            f"{len(requested)} runs are named; the first {most} are compared. `warmup-insights "
            "compare` has no such limit."
        )
    if chosen != requested:
        st.query_params["run"] = chosen
    return list(chosen)


@st.dialog("Label and notes")
def edit(run: RunRecord) -> None:
    """Name a run and write notes on it."""
    st.caption(f"Run {run.run_id}")
    with st.form("edit", border=False):
        label = st.text_input("Label", run.label or "", max_chars=200)
        notes = st.text_area("Notes", run.notes or "", max_chars=20_000)
        if not st.form_submit_button("Save", type="primary"):
            return
    with widgets.guarded():
        label, notes = label.strip(), notes.strip()
        data.store().update_run(run.run_id, label=label or None, notes=notes or None)
        st.rerun()


@st.dialog("Delete runs")
def delete(runs: list[RunRecord]) -> None:
    """Delete runs after a second question."""
    names = [f"{run.run_id}  {short_name(run.name)}" for run in runs]
    st.markdown(
        f"Delete {len(runs)} run{'s' if len(runs) > 1 else ''} with all events? "
        "This cannot be undone. A log that is read again comes back."
    )
    st.text("\n".join(names[:12]) + ("\n\u2026" if len(names) > 12 else ""))
    row = st.container(horizontal=True)
    if row.button("Delete", type="primary", icon=":material/delete:"):
        with widgets.guarded():
            delete_runs(data.store(), [run.run_id for run in runs])
            st.rerun()
    if row.button("Keep"):
        st.rerun()


def report_button(runs: Sequence[RunRecord], key: str) -> None:
    """One run, or the comparison of several, as an HTML file to take away."""

    def text() -> str:
        store = data.store()
        return report_html(
            [
                RunWithLines(
                    data.folded(run), kept_lines(store, run), data.findings(store, run)
                )
                for run in runs
            ]
        )

    widgets.download(
        "Report", text, "report.html", "text/html", key=key, icon="description",
        help="One HTML file that opens without a server: `warmup-insights report`",
    )  # fmt: skip
