"""Figures about time: the start-up on an axis, and where its seconds went."""

from __future__ import annotations

import pandas as pd

from dashboard.charts.base import (
    Figure,
    bars_height,
    name_axes,
    new_figure,
    outline,
    time_unit,
)
from dashboard.palette import colour
from dashboard.text import figure_text
from warmup_insights.model.summary import OF_OTHER_RANK
from warmup_insights.units import format_duration


def timeline(phases: pd.DataFrame, *, dark: bool = False) -> Figure:
    """Every phase on a time axis, one row per phase; unexplained time is hatched."""
    rows = [figure_text(words) for words in phases["label"]]
    return _on_axis(phases, rows, dark=dark)


def rank_timeline(
    phases: pd.DataFrame, wall_s: float = 0.0, *, dark: bool = False
) -> Figure:
    """The phases of each rank on the axis of the start-up, one row per rank."""
    rows = [rank_name(rank) for rank in phases["rank"]]
    return _on_axis(phases, rows, wall_s, dark=dark)


def rank_name(rank: object) -> str:
    """A rank, or the processes that have none."""
    if not isinstance(rank, int | float) or pd.isna(rank):
        return "no rank"
    return f"rank {int(rank)}"


def _on_axis(
    phases: pd.DataFrame, rows: list[str], wall_s: float = 0.0, *, dark: bool
) -> Figure:
    order = list(dict.fromkeys(rows))
    ends = phases["start_s"] + phases["duration_s"]
    longest = max(ends.max(), wall_s) if len(phases) else 1.0
    unit, factor = time_unit(longest)
    figure = new_figure(bars_height(len(order)), dark=dark)
    figure.add_bar(
        orientation="h",
        y=rows,
        x=phases["duration_s"] / factor,
        base=phases["start_s"] / factor,
        marker=_fill(phases, dark=dark),
        customdata=[_hover(row) for row in phases.to_dict("records")],
        hovertemplate="%{customdata[0]}<extra></extra>",
        name="phases",
    )
    figure.update_yaxes(
        autorange="reversed", showgrid=False, categoryorder="array", categoryarray=order
    )
    figure.update_xaxes(range=[0, longest / factor * 1.01])
    figure.update_layout(showlegend=False, dragmode="zoom")
    name_axes(figure, f"since the first line ({unit})", None)
    return figure


def _fill(phases: pd.DataFrame, *, dark: bool) -> dict[str, object]:
    return {
        "color": [colour(meaning, dark=dark) for meaning in phases["meaning"]],
        "pattern": {
            "shape": ["/" if m == "unlogged" else "" for m in phases["meaning"]],
            "size": 6,
            "solidity": 0.25,
        },
        "line": outline(dark),
    }


def _hover(row: dict[object, object]) -> list[str]:
    duration, start = row["duration_s"], row["start_s"]
    assert isinstance(duration, float | int)
    assert isinstance(start, float | int)
    text = (
        f"<b>{figure_text(row['label'])}</b> {format_duration(duration)}"
        f"<br>from {format_duration(start)} to {format_duration(start + duration)}"
    )
    return [text + _detail(str(row.get("detail") or ""))]


def phase_bars(totals: pd.DataFrame, *, dark: bool = False) -> Figure:
    """Time per phase, in the order of the start-up."""
    # On two lines, so that a phone has room for the bars.
    names = [
        figure_text(words).replace(OF_OTHER_RANK, f"<br>{OF_OTHER_RANK.strip()}")
        for words in totals["label"]
    ]
    return _ranked(
        names,
        totals["duration_s"],
        _fill(totals, dark=dark),
        dark=dark,
    )


def step_bars(steps: pd.DataFrame, *, dark: bool = False) -> Figure:
    """The costliest steps: columns name, meaning, duration_s, the longest first."""
    return _ranked(
        [figure_text(name, 44) for name in steps["name"]],
        steps["duration_s"],
        _fill(steps, dark=dark),
        dark=dark,
    )


def dimension_bars(costs: pd.DataFrame, name: str, *, dark: bool = False) -> Figure:
    """What each value of one bucket dimension cost: columns value, duration_s."""
    longest = costs["duration_s"].max() if len(costs) else 1.0
    unit, factor = time_unit(longest)
    figure = new_figure(260, dark=dark)
    figure.add_bar(
        x=[str(value) for value in costs["value"]],
        y=costs["duration_s"] / factor,
        marker={"color": colour("warmed", dark=dark), "line": outline(dark)},
        customdata=[
            [format_duration(row["duration_s"]), int(row["count"])]
            for row in costs.to_dict("records")
        ],
        hovertemplate="%{x}: %{customdata[0]} in %{customdata[1]} buckets<extra></extra>",
        name=name,
    )
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_layout(showlegend=False)
    name_axes(figure, name, f"time ({unit})")
    return figure


def _ranked(
    names: list[str], seconds: pd.Series, marker: dict[str, object], *, dark: bool
) -> Figure:
    longest = float(seconds.max()) if len(seconds) else 1.0
    unit, factor = time_unit(longest)
    texts = [format_duration(value) for value in seconds]
    # Room for the text behind the longest bar, on a phone as well.
    room = 1.2 + 0.05 * max(map(len, texts), default=0)
    figure = new_figure(bars_height(len(names)), dark=dark)
    figure.add_bar(
        orientation="h", y=names, x=seconds / factor, marker=marker, text=texts,
        textposition="outside", cliponaxis=False,
        hovertemplate="%{y}: %{text}<extra></extra>", name="time",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(range=[0, (longest / factor) * room or 1.0])
    figure.update_layout(showlegend=False)
    name_axes(figure, f"time ({unit})", None)
    return figure


def _detail(text: str) -> str:
    if not text:
        return ""
    wrapped = "<br>".join(
        figure_text(text[start : start + 78], 78) for start in range(0, len(text), 78)
    )
    return "<br>" + wrapped
