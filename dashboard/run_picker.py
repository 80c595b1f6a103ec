"""Choosing runs, with the choice in the address."""

from __future__ import annotations

import streamlit as st

from dashboard import data
from dashboard.text import visible

MOST_LISTED = 500


def names(extra: tuple[str, ...] = ()) -> dict[str, str]:
    """Run id to what a list shows: the newest runs, and those chosen."""
    rows = data.run_rows(data.store(), {}, MOST_LISTED)
    found = {
        row["run_id"]: f"{visible(row['name'], 50)}  \u00b7  {row['run_id'][:6]}"
        for row in rows.to_dict("records")
    }
    for run_id in extra:
        found.setdefault(run_id, f"run {run_id}")
    return found


def asked_for() -> list[str]:
    """The ids of the runs that the address names; raises StoreError for unknown ones."""
    wanted = st.query_params.get_all("run")
    return list(dict.fromkeys(data.store().find_run(text).run_id for text in wanted))


def choose_several(most: int) -> list[str]:
    """Two or more runs; the first is the baseline."""
    asked = asked_for()
    known = names(tuple(asked))
    chosen = st.multiselect(
        "Runs", list(known), default=asked, max_selections=most,
        format_func=known.__getitem__, label_visibility="collapsed",
        placeholder=f"Choose two to {most} runs; the first is the baseline",
    )  # fmt: skip
    if chosen != asked:
        st.query_params["run"] = chosen
    return list(chosen)
