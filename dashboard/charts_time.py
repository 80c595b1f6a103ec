"""Figures about time: the start-up on an axis, and where its seconds went."""

from __future__ import annotations

import pandas as pd

from dashboard.charts import Figure, bars_height, name_axes, new_figure, outline
from dashboard.palette import colour
from dashboard.text import figure_text
from warmup_insights.units import format_duration


def timeline(phases: pd.DataFrame, *, dark: bool = False) -> Figure:
    """Every phase on a time axis; time that no line explains is hatched."""
    names = list(dict.fromkeys(phases["name"]))
    figure = new_figure(bars_height(len(names)), dark=dark)
    figure.add_bar(
        orientation="h",
        y=[label(name) for name in phases["name"]],
        x=phases["duration_s"],
        base=phases["start_s"],
        marker={
            "color": [colour(meaning, dark=dark) for meaning in phases["meaning"]],
            "pattern": {
                "shape": ["/" if n == "unlogged" else "" for n in phases["name"]],
                "size": 5,
            },
            "line": outline(dark),
        },
        customdata=[
            [format_duration(row["duration_s"]), format_duration(row["start_s"]), _detail(row["detail"])]
            for row in phases.to_dict("records")
        ],
        hovertemplate="%{y}: %{customdata[0]}<br>from %{customdata[1]}%{customdata[2]}"
        "<extra></extra>",
    )  # fmt: skip
    figure.update_yaxes(
        autorange="reversed",
        showgrid=False,
        categoryorder="array",
        categoryarray=[label(name) for name in names],
    )
    figure.update_xaxes(rangemode="tozero")
    figure.update_layout(showlegend=False, dragmode="zoom")
    name_axes(figure, "time since the first line (s)", None)
    return figure


def phase_bars(totals: pd.DataFrame, *, dark: bool = False) -> Figure:
    """Seconds per phase, in the order of the start-up."""
    figure = new_figure(bars_height(len(totals)), dark=dark)
    figure.add_bar(
        orientation="h",
        y=[label(name) for name in totals["name"]],
        x=totals["duration_s"],
        marker={
            "color": [colour(meaning, dark=dark) for meaning in totals["meaning"]],
            "pattern": {"shape": ["/" if n == "unlogged" else "" for n in totals["name"]]},
            "line": outline(dark),
        },
        text=[format_duration(value) for value in totals["duration_s"]],
        textposition="outside",
        cliponaxis=False,
        hovertemplate="%{y}: %{text}<extra></extra>",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(range=[0, max(totals["duration_s"], default=1.0) * 1.2])
    figure.update_layout(showlegend=False)
    name_axes(figure, "time (s)", None)
    return figure


def label(name: str) -> str:
    """A phase as people read it."""
    return figure_text(name.replace("_", " "))


def _detail(text: str) -> str:
    if not text:
        return ""
    wrapped = "<br>".join(
        figure_text(text[start : start + 78], 78) for start in range(0, len(text), 78)
    )
    return "<br>" + wrapped
