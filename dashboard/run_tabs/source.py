"""What the log holds besides the start-up: its lines, the settings, benchmark results."""

from __future__ import annotations

from typing import Any

import msgspec
import pandas as pd
import streamlit as st

from dashboard import data, widgets
from dashboard.shown import Headline, config_frame, notes_frame
from dashboard.text import markdown, short_name, visible
from dashboard.widgets import View
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import format_bytes, format_count

UNKNOWN = "not understood"


def show_lines(view: View) -> None:
    """Counts, then lines with numbers and rules; unknown ones first."""
    found = data.source(view.run)
    if found is None:
        widgets.empty("No log", "This run was recorded, not read from a log.")
        return
    source, lines = found
    report = source.report
    widgets.headline(
        [
            Headline("Log", short_name(source.name)),
            Headline("Size", format_bytes(source.size_bytes)),
            Headline("Lines", format_count(source.lines)),
            Headline("Events", format_count(report.get("events"))),
            Headline("Not understood", format_count(report.get("unknown"))),
        ]
    )
    for problem in report.get("problems", []):
        st.warning(markdown(problem))
    if lines.empty:
        widgets.empty(
            "No line was kept", "The log was read, but no line of it matched."
        )
        return
    shown = lines.assign(
        rule=lines["rule"].fillna(UNKNOWN), text=[visible(t) for t in lines["text"]]
    )
    rules = sorted(shown["rule"].unique(), key=lambda rule: (rule != UNKNOWN, rule))
    chosen = st.multiselect(
        "Rules", rules, key=view.key("rules"), placeholder="All rules",
        label_visibility="collapsed",
    )  # fmt: skip
    if chosen:
        shown = shown[shown["rule"].isin(chosen)]
    shown = shown.sort_values(
        by=["rule", "line"], key=lambda c: c != UNKNOWN if c.name == "rule" else c,
        kind="stable",
    )  # fmt: skip
    st.caption(
        f"{format_count(len(shown))} lines that state something or look relevant; those "
        "not understood come first."
    )
    st.dataframe(
        shown[["line", "rule", "text"]], hide_index=True, height=560,
        column_config={
            "line": st.column_config.NumberColumn("line", format="%d", width="small"),
            "rule": st.column_config.TextColumn("rule", width="medium"),
            "text": st.column_config.TextColumn("text", width=1000),
        },
    )  # fmt: skip


def show_config(view: View) -> None:
    """Identity, settings, notes, the summary to take away."""
    config = config_frame(view.summary.config)
    wanted = st.text_input(
        "Search settings", key=view.key("search"), icon=":material/search:",
        placeholder="Search settings", label_visibility="collapsed",
    )  # fmt: skip
    if wanted:
        hits = config["setting"].str.contains(wanted, case=False, regex=False)
        hits |= config["value"].str.contains(wanted, case=False, regex=False)
        config = config[hits]
    if config.empty:
        st.caption("No setting is known." if not wanted else "No setting matches.")
    else:
        st.dataframe(config, hide_index=True, height="auto")
    row = st.container(horizontal=True)
    with row:
        widgets.csv_button(config, view.key("config"))
        widgets.download(
            "Summary as JSON", summary_json(view.summary), f"{view.run.run_id}.json",
            "application/json", key=view.key("json"),
        )  # fmt: skip
    widgets.table(
        notes_frame(view.summary), key=view.key("notes"), title="Remarks in the log",
        hint="Lines worth knowing that are no figure.",
    )  # fmt: skip


def summary_json(summary: RunSummary) -> str:
    """The summary as `show RUN --json` prints it."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=2).decode()


def show_benchmarks(view: View) -> None:
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
    return visible(value)
