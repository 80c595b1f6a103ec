"""Memory configurations: what was traded for what, over many runs."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import configurations, data, frames, run_picker, widgets
from dashboard.charts_runs import configurations as configurations_figure
from dashboard.text import markdown, visible
from warmup_insights.errors import InputError

MOST = 200
LISTED = 2_000
MOST_COMPARED = 12


def render() -> None:
    """Show the page."""
    st.title("Memory configurations", anchor=False)
    st.caption(
        "More memory for graphs captures more buckets and leaves less for the KV cache. "
        "Each point is a run; ringed ones are not beaten by any other in captured share, "
        "KV blocks and warm-up time together."
    )
    if data.list_version()[0] == 0:
        _empty()
        return
    row = st.container(horizontal=True, vertical_alignment="bottom", gap="small")
    with row:
        text = st.text_input(
            "Search", placeholder="Search, such as the name of a sweep", width=320,
            key="q", bind="query-params", label_visibility="collapsed",
            icon=":material/search:",
        )  # fmt: skip
        rows = data.run_rows(data.store(), {"text": text.strip()}, LISTED)
        if rows.empty:
            widgets.empty("No run matches", "Search for something else.")
            return
        rows = _group(rows)
    points = data.configuration_points(data.store(), list(rows["run_id"]))
    known = configurations.comparable(points)
    planned, note = _planned(rows)
    if known.empty and planned.empty:
        _empty()
    else:
        _figure(configurations.joined(known, planned), rows, note)
    _table(points)
    _recommendation()


def _empty() -> None:
    widgets.empty(
        "No run states all three figures",
        "Captured share, KV blocks and warm-up time are needed. A sweep of the reference "
        "engine has them all:",
        "warmup-insights sweep --gpu-memory-utilization 0.5,0.7,0.9 "
        "--graph-reserved-mem 0.1,0.2,0.4",
    )


def _group(rows: pd.DataFrame) -> pd.DataFrame:
    """The runs of one model on one device: only they can be traded for each other."""
    named = frames.with_series(rows)
    known = named.dropna(subset=list(configurations.FIGURES))
    counts = known["series"].value_counts()
    rest = [name for name in named["series"].unique() if name not in counts.index]
    options = [*counts.index, *rest]
    chosen = st.selectbox(
        "Model and device", options, label_visibility="collapsed", width=420,
        format_func=lambda name: f"{visible(name, 60)}  \u00b7  {counts.get(name, 0)} runs",
        key="group",
    )  # fmt: skip
    kept: pd.DataFrame = named[named["series"] == chosen].head(MOST)
    return kept


def _planned(rows: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    """Predictions from one run, if the visitor asks for them."""
    known = run_picker.names()
    chosen = st.selectbox(
        "Predict from a run", [i for i in rows["run_id"] if i in known], index=None,
        format_func=known.__getitem__, placeholder="Add what one run would give with other "
        "settings, without running", label_visibility="collapsed", key="plan-from",
    )  # fmt: skip
    nothing = pd.DataFrame(columns=configurations.COLUMNS)
    if chosen is None:
        return nothing, ""
    try:
        found, notes = data.planned_points(data.store().run(chosen))
    except InputError as error:
        st.warning(markdown(error, 400))
        return nothing, ""
    return found, " ".join(notes)


def _figure(points: pd.DataFrame, rows: pd.DataFrame, note: str) -> None:
    shown = rows[rows["run_id"].isin(points["run_id"])]
    made_up = shown["synthetic"].astype(bool) | (shown["device_kind"] == "simulated")
    label = None
    if made_up.any():
        label = "all synthetic" if made_up.all() else "some synthetic"
    event = widgets.chart(
        configurations_figure(points, dark=widgets.is_dark()), points,
        key="configurations", title="Captured share against KV blocks",
        hint="Up and to the right is better; brighter took longer to warm up. Click a "
        f"point to open its run. {markdown(note, 400)}",
        simulated=label, selectable=True,
    )  # fmt: skip
    picked = [
        p["customdata"][0] for p in event["selection"]["points"] if p.get("customdata")
    ]
    picked = [run_id for run_id in picked if run_id]
    if picked:
        with st.container(horizontal=True):
            for run_id in picked[:MOST_COMPARED]:
                st.page_link(
                    widgets.RUN, label=f"Open run {run_id}", icon=":material/speed:",
                    query_params={"run": run_id},
                )  # fmt: skip


def _table(points: pd.DataFrame) -> None:
    shown = points.drop(columns=["kind", "settings"]).sort_values(
        "best", ascending=False, key=lambda column: column == True  # noqa: E712
    )  # fmt: skip
    with widgets.card(
        "Runs", "Tick two or more to compare them.", data=points, key="points"
    ):
        event = st.dataframe(
            shown, hide_index=True, on_select="rerun", selection_mode="multi-row",
            key=widgets.key_of("memory-runs", shown["run_id"]), height=widgets.table_height(len(shown)), placeholder=widgets.UNKNOWN,
            column_config={
                "run_id": "Id",
                "name": "Run",
                "captured_percent": st.column_config.ProgressColumn(
                    "Captured (%)", format="%.1f", min_value=0.0, max_value=100.0
                ),
                "num_kv_blocks": st.column_config.NumberColumn(
                    "KV blocks", format="localized"
                ),
                "warmup_s": st.column_config.NumberColumn("Warm-up (s)", format="%.4g"),
                "best": st.column_config.CheckboxColumn("Not dominated"),
                "doubtful": widgets.doubtful_column(shown),
            },
        )  # fmt: skip
        ids = [
            shown["run_id"].iloc[n]
            for n in event["selection"]["rows"]
            if n < len(shown)
        ]
        if st.button(
            "Compare", icon=":material/compare_arrows:", type="primary",
            disabled=not 2 <= len(ids) <= MOST_COMPARED,
        ):  # fmt: skip
            st.switch_page(widgets.COMPARE, query_params={"run": ids})


def _recommendation() -> None:
    chosen = st.session_state.get("plan-from")
    if not chosen:
        return
    try:
        table = data.recommendation(data.store().run(chosen))
    except InputError as error:
        st.caption(markdown(error, 400))
        return
    rows = pd.DataFrame(list(table.rows), columns=list(table.header))
    widgets.table(
        rows, key="recommendation", title=markdown(table.title, 120),
        hint=markdown(table.note or "`warmup-insights plan RUN` prints the same.", 600),
    )  # fmt: skip


with widgets.guarded():
    render()
