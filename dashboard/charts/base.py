"""What all figures share: size, fonts, axes with units, colours of the page.

A figure function takes a frame and gives a `plotly.graph_objects.Figure`, without
Streamlit, so tests read what is drawn as data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from plotly.graph_objects import Figure as Figure

from dashboard.palette import GRID, INK, MUTED, colour, darkened
from warmup_insights.units import GIB, KIB, MIB, format_bytes

FONT_SIZE = 13
ROW_PX = 30
"""Height of one bar in horizontal bar charts."""
LEGEND_PX = 12
"""More height for each entry of a legend beyond the first four."""

Values = Sequence[Any] | pd.Series


@dataclass(frozen=True)
class Picture:
    """A figure with its data and what stands above it: a title and what to look at."""

    title: str
    hint: str
    frame: pd.DataFrame
    draw: Callable[[pd.DataFrame], Figure]


def new_figure(height: int) -> Figure:
    """An empty figure in the style of the pages."""
    axis = {
        "gridcolor": GRID,
        "zeroline": False,
        "automargin": True,
        "title": {"font": {"size": FONT_SIZE, "color": MUTED}, "standoff": 8},
        "ticklabelstandoff": 4,
        "tickfont": {"size": FONT_SIZE - 1, "color": MUTED},
    }  # fmt: skip
    # Given whole: updates of a figure that exists take ten times as long.
    return Figure(layout={
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "font": {"size": FONT_SIZE, "color": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left", "font": {"size": FONT_SIZE}},
        "legend": {
            "orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0.0,
            "maxheight": 0.8,
            "itemclick": False, "itemdoubleclick": False, "font": {"size": FONT_SIZE},
        },
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": MUTED,
                    "activecolor": INK},
        "bargap": 0.28,
        "dragmode": False,
        "uirevision": "keep",
        "xaxis": axis,
        "yaxis": axis,
    })  # fmt: skip


def name_axes(figure: Figure, x: str | None, y: str | None) -> None:
    """Titles of the axes, with their units."""
    layout = figure.layout
    layout.xaxis.title.text = x
    layout.yaxis.title.text = y
    if y is not None:
        # The theme of the pages puts the title of this axis onto its labels.
        layout.yaxis.title.standoff = 14
        layout.margin.l = 62


def on_dark(figure: Figure) -> Figure:
    """The same figure for a dark page."""
    return Figure(darkened(figure.to_dict()))


def make_room(figure: Figure) -> int:
    """Room for a legend of many entries, which lies above the plot; how many they are."""
    if figure.layout.showlegend is False:
        return 0
    entries = sum(
        1 for trace in figure.data if trace.name and trace.showlegend is not False
    )
    figure.update_layout(height=figure.layout.height + LEGEND_PX * max(0, entries - 4))
    return entries


def mark_synthetic(figure: Figure, label: str) -> Figure:
    """Write on the figure itself that its figures are not from a real device."""
    figure.update_layout(
        margin_b=(figure.layout.margin.b or 8) + 24,
        title={
            "text": label, "x": 1.0, "xanchor": "right", "y": 0.0, "yanchor": "bottom",
            "yref": "container", "pad": {"r": 8, "b": 2},
            "font": {"size": 11, "color": MUTED, "weight": "normal"},
        }
    )  # fmt: skip
    return figure


def bars_height(count: int) -> int:
    """Height of a chart of `count` horizontal bars."""
    return max(120, count * ROW_PX + 70)


def known_text(value: object, write: Callable[[float], str]) -> str:
    """A number of a frame as text; `unknown` where it is missing."""
    if not isinstance(value, int | float) or value != value:
        return "unknown"
    return write(value)


OUTLINE = {"width": 0.5, "color": MUTED}
"""A thin edge that keeps pale bars visible."""
HATCHED = ("reserved", "unlogged")
"""Meanings of bars that stand for no memory and no work."""


def filled(meanings: str | Iterable[str]) -> dict[str, Any]:
    """The fill of marks that mean one thing, or each its own."""
    if isinstance(meanings, str):
        shade: Any = colour(meanings)
        shape: Any = "/" if meanings in HATCHED else ""
    else:
        shade = [colour(meaning) for meaning in meanings]
        shape = ["/" if meaning in HATCHED else "" for meaning in meanings]
    return {"color": shade, "line": OUTLINE, "pattern": {"shape": shape}}


def row_figure(height: int) -> Figure:
    """An empty figure for horizontal bars, the first at the top."""
    figure = new_figure(height)
    figure.update_yaxes(autorange="reversed", showgrid=False)
    return figure


def add_rows(
    figure: Figure, names: Values, sizes: pd.Series, texts: Values,
    *, name: str, marker: dict[str, Any], hover: str = "%{y}: %{text}", **more: Any,
) -> None:  # fmt: skip
    """Add horizontal bars with a text behind each."""
    figure.add_bar(
        orientation="h", y=names, x=sizes, marker=marker, text=texts,
        textposition="outside", cliponaxis=False,
        hovertemplate=f"{hover}<extra></extra>", name=name, **more,
    )  # fmt: skip


def time_rows(
    names: Values, seconds: pd.Series, texts: Values,
    *, name: str, marker: dict[str, Any], room: float,
) -> Figure:  # fmt: skip
    """A horizontal bar for each of some times; the axis is `room` times the longest."""
    longest = float(seconds.max()) if len(seconds) else 1.0
    unit, factor = time_unit(longest)
    figure = row_figure(bars_height(len(names)))
    add_rows(figure, names, seconds / factor, texts, name=name, marker=marker)
    figure.update_xaxes(range=[0, (longest / factor) * room or 1.0])
    figure.update_layout(showlegend=False)
    name_axes(figure, f"time ({unit})", None)
    return figure


def time_columns(
    values: Values, seconds: pd.Series, texts: Values,
    *, name: str, title: str, meaning: str, hover: str,
) -> Figure:  # fmt: skip
    """A vertical bar for the time of each value."""
    unit, factor = time_unit(float(seconds.max()) if len(seconds) else 1.0)
    figure = new_figure(260)
    figure.add_bar(
        x=[str(value) for value in values], y=seconds / factor,
        marker=filled(meaning), customdata=texts,
        hovertemplate=f"{hover}<extra></extra>", name=name,
    )  # fmt: skip
    figure.update_xaxes(type="category", showgrid=False)
    figure.update_layout(showlegend=False)
    name_axes(figure, title, f"time ({unit})")
    return figure


def size_unit(largest: float) -> tuple[str, float]:
    """The unit of the text of a size of `largest` bytes, KiB to GiB, and its bytes."""
    unit = format_bytes(largest).split()[1].replace("TiB", "GiB")
    factors = {"GiB": GIB, "MiB": MIB}
    return (unit, float(factors[unit])) if unit in factors else ("KiB", float(KIB))


def time_unit(longest: float) -> tuple[str, float]:
    """The unit in which times up to `longest` seconds read well, and its seconds."""
    for unit, factor in (("h", 3600.0), ("min", 60.0)):
        if longest >= 3 * factor:
            return unit, factor
    return ("ms", 0.001) if 0 < longest < 0.5 else ("s", 1.0)
