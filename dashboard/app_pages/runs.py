"""Runs, the first page: drop a log, see the latest start-ups, failed ones first."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, logs, shown, widgets
from dashboard.charts.base import Picture
from dashboard.charts.runs import level_words, runs_table, trend, trend_frame
from dashboard.palette import SERVING_COLOURS, STATUS_COLOURS
from dashboard.run_controls import delete, edit
from dashboard.text import markdown, visible
from warmup_insights.units import format_duration

PAGE = 1_000
MOST_PANELS = 6
STATUSES = ("finished", "running", "failed", "stopped", "skipped", "unknown")
_STATUS_COLOURS = STATUS_COLOURS | {
    f"serving: {end}": tone for end, tone in SERVING_COLOURS.items()
}
_TREND = {"ready_s": "time to ready", "warmup_s": "warm-up"}


def render() -> None:
    """Show the page."""
    st.title("Runs", anchor=False)
    _drop()
    total, _ = data.store().newest_change()
    if total == 0:
        widgets.empty(
            "No runs yet",
            "Drop a log onto the field above, let the command line read one, or look at "
            "the demo, warm-ups in five steps:",
            "warmup-insights ingest server.log\nwarmup-insights demo",
        )
        return
    filters = _filters()
    view = filters.pop("view")
    rows = data.run_rows(data.store(), filters, PAGE, _page(int(total), filters))
    if rows.empty:
        widgets.empty("No run matches", "Take a filter away.")
        return
    if view == "Trend":
        _trend(rows)
        return
    actions = st.container(horizontal=True, vertical_alignment="center", gap="small")
    ids = _table(rows)
    with actions:
        _actions(len(rows), ids, int(total))


def _drop() -> None:
    """Logs dropped here are read at once; the same log twice adds nothing."""
    files = logs.upload_field()
    with st.expander("Year, time zone and label"):
        options = logs.upload_options()
    for outcome in logs.ingested(files, options):
        logs.show_outcome(outcome)


def _filters() -> dict[str, Any]:
    """The filters and the view a visitor chose; search and view are in the address."""
    with st.container(
        horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"
    ):
        with st.container(
            horizontal=True, vertical_alignment="bottom", gap="small", width="content"
        ):
            text = st.text_input(
                "Search", placeholder="Search name, model, notes", key="q", width=260,
                icon=":material/search:", label_visibility="collapsed",
                bind="query-params",
            )  # fmt: skip
            chosen = {
                "text": text.strip(),
                "status": _choice("Any status", STATUSES, "status"),
                "engine": _choice(
                    "Any engine", data.store().distinct("engine"), "engine"
                ),
                "model": _choice("Any model", data.store().distinct("model"), "model"),
                "device_kind": _choice(
                    "Any device", data.store().distinct("device_kind"), "device"
                ),
            }
        view = st.segmented_control(
            "View", ["Table", "Trend"], default="Table", required=True, key="view",
            label_visibility="collapsed", bind="query-params",
        )  # fmt: skip
    return {**chosen, "view": view}


def _choice(words: str, options: Sequence[str], key: str) -> str | None:
    chosen: str | None = st.selectbox(
        words, options, index=None, placeholder=words, key=f"filter-{key}",
        label_visibility="collapsed", width=150, format_func=visible,
    )  # fmt: skip
    return chosen


def _page(total: int, filters: dict[str, Any]) -> int:
    """The first row to show; a choice only when there are more than fit one page."""
    matching = (
        data.store().count_runs(**data.chosen(filters))
        if any(filters.values())
        else total
    )
    if matching <= PAGE:
        return 0
    starts = list(range(0, matching, PAGE))
    chosen = st.selectbox(
        "Rows", starts, width=240, label_visibility="collapsed",
        format_func=lambda n: f"{n + 1:,}-{min(n + PAGE, matching):,} of {matching:,} runs",
    )  # fmt: skip
    return int(chosen)


def _open() -> None:
    click = st.session_state["open-run"]
    st.session_state["go-to"] = st.session_state["shown-runs"][click["row"]]


def _table(rows: pd.DataFrame) -> list[str]:
    """The list; gives the ids of the rows that are ticked."""
    stored = data.stored_summaries(data.store(), list(rows["run_id"]))
    table = runs_table(rows, stored)
    st.session_state["shown-runs"] = list(table["run_id"])
    columns = _columns(table)
    event = st.dataframe(
        table,
        hide_index=True,
        height=widgets.table_height(len(rows), most=16),
        on_select="rerun",
        selection_mode="multi-row",
        key=widgets.key_of("runs", table["run_id"]),
        placeholder=widgets.UNKNOWN,
        column_config={str(name): columns[str(name)] for name in table},
    )
    if wanted := st.session_state.pop("go-to", None):
        st.switch_page(widgets.RUN, query_params={"run": wanted})
    return widgets.ticked(event, table["run_id"])


def _columns(table: pd.DataFrame) -> dict[str, Any]:
    column = st.column_config
    return {
        "open": column.ButtonColumn(
            "", type="tertiary", key="open-run", on_click=_open, width=64
        ),
        "name": column.TextColumn(
            "Run", width=widgets.text_width(table, "name"),
            help="Long names are cut in the middle; the last column has all of them",
        ),
        "status": column.MultiselectColumn(
            "Status", options=list(_STATUS_COLOURS), color=[*_STATUS_COLOURS.values()],
            width=90 if table["status"].map(len).max() == 1 else 225,
            help="Of the start, then how serving ended where that is stated",
        ),
        "happened": column.TextColumn(
            "Cause or content", width=widgets.text_width(table, "happened"),
            help="What ended a start, where the log ends, or what a file without a start "
            "holds; Open leads to the whole text",
        ),
        "ready_s": _seconds(table, "ready_s", "Ready after (s)"),
        "start": column.TextColumn("Start", width=90, help=shown.HELP["start"]),
        "largest": column.TextColumn(
            "Largest phase", width=widgets.text_width(table, "largest")
        ),
        "change": column.TextColumn(
            "Change", width=100,
            help="Time to ready, else the warm-up, against the last finished run before "
            "it of the same model, device and kind of start; equal starts differ by up to 10 %",
        ),
        "captured_percent": column.ProgressColumn(
            "Captured (%)", format="%.1f", min_value=0.0, max_value=100.0, width=100
        ),
        "kv_cache_tokens": column.NumberColumn("KV tokens", format="localized"),
        "max_concurrency": column.NumberColumn(
            "Requests", format="%.4g", help="Of the full length, at once"
        ),
        "num_kv_blocks": column.NumberColumn("KV blocks", format="localized"),
        "warmup_s": _seconds(table, "warmup_s", "Warm-up (s)"),
        "missed": column.NumberColumn(
            "Bucket misses", format="localized", help=shown.HELP["misses"]
        ),
        "started": column.DatetimeColumn(
            "Started (UTC)", format="YYYY-MM-DD HH:mm", width=130,
            help="A log that names no zone is read as UTC",
        ),
        "year": column.TextColumn(
            "Year", width=80, help="Guessed where the log states none; `--year` gives it"
        ),
        "engine": column.TextColumn("Engine", width=150),
        "device": column.TextColumn("Device", width=110),
        "model": column.TextColumn("Model", width=150),
        "doubtful": widgets.DOUBTFUL,
        "figures": column.TextColumn(
            "Figures", width=85,
            help="Made up or simulated runs are not from a real device",
        ),
        "notes": column.TextColumn("Notes", width="medium"),
        "run_id": column.TextColumn("Id", width=115),
        "full_name": column.TextColumn("Whole name", width="large"),
    }  # fmt: skip


def _seconds(table: pd.DataFrame, name: str, title: str) -> Any:
    longest = table[name].max() if name in table else None
    return st.column_config.ProgressColumn(
        title, format="%.4g", min_value=0.0, width=110,
        max_value=float(longest) if pd.notna(longest) and longest > 0 else 1.0,
    )  # fmt: skip


def _actions(shown_runs: int, ids: list[str], total: int) -> None:
    if not ids:
        st.caption(
            f"{shown_runs:,} of {total:,} runs. Open one, or tick some to compare, name "
            "or delete them."
        )
        return
    st.caption(f"{len(ids)} chosen", width="content")
    widgets.compare_button(ids)
    if st.button("Label and notes", icon=":material/edit:", disabled=len(ids) != 1):
        edit(data.store().run(ids[0]))
    if st.button("Delete", icon=":material/delete:"):
        delete([data.store().run(run_id) for run_id in ids])


def _trend(rows: pd.DataFrame) -> None:
    known = [by for by in _TREND if rows[by].notna().sum() > 1]
    if not known:
        widgets.empty("No trend yet", "A trend needs two runs with a time.")
        return
    by = str(
        st.segmented_control(
            "Trend of", known, default=known[0], required=True,
            format_func=_TREND.__getitem__, key="trend",
        )
    )  # fmt: skip
    runs = trend_frame(rows, by)
    if runs.empty:
        widgets.empty(
            "No trend yet",
            "It needs two runs of one model, device and kind of start.",
        )
        return
    columns = st.columns(3)
    for number, (name, series) in enumerate(runs.groupby("series", sort=False)):
        if number == MOST_PANELS:
            break
        with columns[number % 3]:
            _panel(str(name), series, by, number)


def _panel(name: str, series: pd.DataFrame, by: str, number: int) -> None:
    mark = series["figures"].iloc[0]  # not text where the runs are real
    picture = Picture(
        markdown(name.replace(f" ({mark})", "")),  # the badge has it
        f"{len(series)} runs, median {format_duration(series[by].median())}, "
        f"slowest {format_duration(series[by].max())}."
        f"{markdown(level_words(series, by))}",
        series,
        partial(trend, by=by, words=_TREND[by]),
    )
    simulated = mark if isinstance(mark, str) else None
    widgets.chart(picture, key=f"trend-{by}-{number}", simulated=simulated)


with widgets.guarded():
    render()
