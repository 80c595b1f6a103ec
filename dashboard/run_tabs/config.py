"""Everything that is known about how the run was started."""

from __future__ import annotations

from typing import Any

import msgspec
import pandas as pd
import streamlit as st

from dashboard import widgets
from dashboard.run_tabs.view import View
from dashboard.text import visible
from warmup_insights.model.summary import RunSummary

TITLE = "Config"


def has_content(summary: RunSummary) -> bool:
    """Always: also what is unknown."""
    return True


def show(view: View) -> None:
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
        st.download_button(
            "Summary as JSON", summary_json(view.summary),
            f"{view.run.run_id}.json", "application/json", on_click="ignore",
            icon=":material/download:", type="tertiary", key=view.key("json"),
        )  # fmt: skip
    _notes(view.summary)


def config_frame(config: dict[str, Any]) -> pd.DataFrame:
    """Setting and value, as text that does nothing."""
    rows = [(visible(name), visible(value, 4000)) for name, value in config.items()]
    return pd.DataFrame(sorted(rows), columns=["setting", "value"])


def summary_json(summary: RunSummary) -> str:
    """The summary as `show RUN --json` prints it."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=2).decode()


def _notes(summary: RunSummary) -> None:
    notes = summary.notes
    if not notes:
        return
    table = pd.DataFrame(
        [(n.topic, n.count, visible(n.text, 600)) for n in notes],
        columns=["topic", "times", "text"],
    )
    widgets.table(
        table, key=f"{summary.run_id}-notes", title="Remarks in the log",
        hint="Lines worth knowing that are no figure.",
    )  # fmt: skip
