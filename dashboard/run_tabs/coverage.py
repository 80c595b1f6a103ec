"""The bucket map of one phase, as the overview and the buckets tab show it."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import widgets
from dashboard.charts.buckets import (
    Axes,
    bucket_map,
    bucket_text,
    choose_axes,
    filled_in,
    names_for,
    of_phase,
)
from dashboard.run_tabs.view import View

_HINTS = {
    "state": "One cell per bucket. Pale cells were declared and nothing more; "
    "signs mark what needs a look.",
    "duration_s": "Time of each bucket, all its steps together. Empty cells have no time "
    "in the log.",
    "memory_bytes": "Memory that each bucket took. Empty cells have no size in the log.",
}


def rows_of(view: View, buckets: pd.DataFrame, phase: str) -> pd.DataFrame:
    """The buckets of a phase as the summary counts them."""
    return filled_in(of_phase(buckets, phase), view.summary.phase(phase))


def axes_of(view: View, rows: pd.DataFrame, phase: str) -> Axes:
    """Where the dimensions of a phase are drawn."""
    size = len(rows["bucket"].iloc[0])
    names = names_for(size, view.summary.phase(phase), phase)
    return choose_axes(list(rows["bucket"]), names)


def title_of(phase: str) -> str:
    """Prompt and decode buckets; TPU engines pad numbers of tokens and of requests."""
    one = phase.removesuffix("s") if phase in ("tokens", "requests") else phase
    return f"{one.capitalize()} buckets"


def coverage_chart(
    view: View,
    buckets: pd.DataFrame,
    phase: str,
    *,
    by: str = "state",
    key: str = "coverage",
    selectable: bool = False,
) -> Any:
    """The map of a phase; a third dimension that varies has a slider.

    Gives the selection of a selectable map.
    """
    rows = rows_of(view, buckets, phase)
    if rows.empty:
        return None
    axes = axes_of(view, rows, phase)
    shown = _panel(view, rows, axes, f"{key}-{phase}")
    return widgets.chart(
        bucket_map(shown, axes, by=by, dark=view.dark),
        shown.assign(bucket=[bucket_text(bucket) for bucket in shown["bucket"]]),
        key=view.key(f"{key}-{phase}"),
        title=title_of(phase),
        hint=_hint(rows, shown, axes, by) + _proof(view, buckets, phase),
        simulated=view.simulated,
        selectable=selectable,
    )


def _proof(view: View, buckets: pd.DataFrame, phase: str) -> str:
    """How buckets without a line of their own are known to be warmed."""
    before = of_phase(buckets, phase)
    filled = int((rows_of(view, buckets, phase)["state"] != before["state"]).sum())
    if not filled:
        return ""
    return (
        f" {filled} have no line of their own because lines were cut out of the log. "
        f"They count as warmed: steps are numbered of {view.summary.phase(phase).generated},"
        " and the last one, or the end of the warm-up, is in the log."
    )


def _hint(rows: pd.DataFrame, shown: pd.DataFrame, axes: Axes, by: str) -> str:
    if axes.panel is None:
        return _HINTS[by]
    value = shown["bucket"].iloc[0][axes.panel]
    return (
        f"{_HINTS[by]} These are the {len(shown)} of {len(rows)} with "
        f"{axes.names[axes.panel]} {value}."
    )


def _panel(view: View, rows: pd.DataFrame, axes: Axes, key: str) -> pd.DataFrame:
    """The rows of one value of the third dimension."""
    if axes.panel is None:
        return rows
    dimension = axes.panel
    values = sorted({bucket[dimension] for bucket in rows["bucket"]})
    chosen = st.select_slider(
        axes.names[dimension].capitalize(), values, key=view.key(f"{key}-panel")
    )
    return rows[[bucket[dimension] == chosen for bucket in rows["bucket"]]]
