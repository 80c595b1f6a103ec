"""Shapes that no bucket covered, why, and what would cover them."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, frames, widgets
from dashboard.charts_buckets import bucket_text
from dashboard.misses import Diagnosis, diagnose
from dashboard.run_tabs.view import View
from warmup_insights.units import format_count

TITLE = "Misses"


def has_content(summary: dict[str, Any]) -> bool:
    """Whether there are any."""
    return bool(summary["misses"])


def show(view: View) -> None:
    """A table, the settings and the lines of a bucket file."""
    found = diagnose(view.summary)
    times = sum(item.count for item in found)
    st.markdown(
        f"**{format_count(len(found))} shapes** met no bucket while serving, "
        f"{format_count(times)} times in all. Each compiles when it is first needed, in "
        "the middle of a request."
    )
    names = data.dimensions(view.run)
    table = misses_frame(found, names)
    widgets.table(
        table, key=view.key("misses"), title="Shapes without a bucket",
        hint="The nearest bucket, why it did not take the shape, and what it ran in.",
        columns={"count": st.column_config.NumberColumn("times", format="%d")},
        simulated=view.simulated,
    )  # fmt: skip
    left, right = st.columns(2)
    with left, widgets.card("Settings that cover them"):
        settings = highest_settings(found)
        if settings:
            st.code("\n".join(settings), language="bash")
        else:
            st.caption(
                "No single maximum is too small; the shapes need buckets of their own."
            )
    with right, widgets.card("Lines for a bucket file"):
        lines = [item.file_line for item in found if item.file_line]
        if lines:
            st.code("\n".join(dict.fromkeys(lines)), language="text")
            st.caption("For VLLM_BUCKETING_FROM_FILE; (batch, query, blocks).")
        else:
            st.caption("Bucket files need shapes of three numbers.")


def misses_frame(
    found: list[Diagnosis], names: dict[str, tuple[str, ...]]
) -> pd.DataFrame:
    """The diagnoses as a table."""
    return pd.DataFrame(
        [
            {
                "phase": item.phase,
                "shape": bucket_text(item.shape),
                "count": item.count,
                "why": item.reason(
                    frames.names_for(len(item.shape), names.get(item.phase))
                ),
                "nearest bucket": bucket_text(item.nearest) if item.nearest else "",
                "ran in": bucket_text(item.fallback) if item.fallback else "",
                "setting": " ".join(item.settings),
            }
            for item in found
        ]
    )


def highest_settings(found: list[Diagnosis]) -> list[str]:
    """One line per variable, with the highest value that any shape needs."""
    highest: dict[str, int] = {}
    for item in found:
        for setting in item.settings:
            name, value = setting.split("=")
            highest[name] = max(highest.get(name, 0), int(value))
    return [f"{name}={value}" for name, value in sorted(highest.items())]
