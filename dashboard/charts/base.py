"""What all figures share: size, fonts, axes with units, colours of the page.

A figure function takes a frame and gives a `plotly.graph_objects.Figure`, without
Streamlit, so tests read what is drawn as data.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from plotly.graph_objects import Figure as Figure

from dashboard.palette import GRID, INK, MUTED
from warmup_insights.units import GIB, KIB, MIB

FONT_SIZE = 13
ROW_PX = 30
"""Height of one bar in horizontal bar charts."""
LEGEND_PX = 12
"""More height for each entry of a legend beyond the first four."""


def new_figure(height: int, *, dark: bool = False) -> Figure:
    """An empty figure in the style of the pages."""
    axis = {
        "gridcolor": GRID.on(dark=dark),
        "zeroline": False,
        "automargin": True,
        "title": {"font": {"size": FONT_SIZE, "color": MUTED.on(dark=dark)}, "standoff": 8},
        "ticklabelstandoff": 4,
        "tickfont": {"size": FONT_SIZE - 1, "color": MUTED.on(dark=dark)},
    }  # fmt: skip
    # Given whole: updates of a figure that exists take ten times as long.
    return Figure(layout={
        "height": height,
        "margin": {"l": 8, "r": 12, "t": 8, "b": 8},
        "font": {"size": FONT_SIZE, "color": INK.on(dark=dark)},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hoverlabel": {"align": "left", "font": {"size": FONT_SIZE}},
        "legend": {
            "orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0.0,
            "itemclick": False, "itemdoubleclick": False, "font": {"size": FONT_SIZE},
        },
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": MUTED.on(dark=dark),
                    "activecolor": INK.on(dark=dark)},
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


def make_room(figure: Figure) -> int:
    """Room for a legend of many entries, which lies above the plot; how many they are."""
    if figure.layout.showlegend is False:
        return 0
    entries = sum(
        1 for trace in figure.data if trace.name and trace.showlegend is not False
    )
    figure.update_layout(height=figure.layout.height + LEGEND_PX * max(0, entries - 4))
    return entries


def mark_synthetic(figure: Figure, label: str, *, dark: bool = False) -> Figure:
    """Write on the figure itself that its figures are not from a real device."""
    figure.update_layout(
        margin_b=(figure.layout.margin.b or 8) + 24,
        title={
            "text": label, "x": 1.0, "xanchor": "right", "y": 0.0, "yanchor": "bottom",
            "yref": "container", "pad": {"r": 8, "b": 2},
            "font": {"size": 11, "color": MUTED.on(dark=dark), "weight": "normal"},
        }
    )  # fmt: skip
    return figure


def bars_height(count: int, *, extra: int = 70) -> int:
    """Height of a chart of `count` horizontal bars."""
    return max(120, count * ROW_PX + extra)


def known_text(value: object, write: Callable[[float], str]) -> str:
    """A number of a frame as text; `unknown` where it is missing."""
    if not isinstance(value, int | float) or value != value:
        return "unknown"
    return write(value)


def outline(dark: bool) -> dict[str, Any]:
    """A thin edge that keeps pale bars visible."""
    return {"width": 0.5, "color": MUTED.on(dark=dark)}


def size_unit(largest: float) -> tuple[str, float]:
    """The unit in which sizes up to `largest` bytes read well, and its bytes."""
    for unit, factor in (("GiB", GIB), ("MiB", MIB)):
        if abs(largest) >= factor:
            return unit, float(factor)
    return "KiB", float(KIB)


def time_unit(longest: float) -> tuple[str, float]:
    """The unit in which times up to `longest` seconds read well, and its seconds."""
    for unit, factor in (("h", 3600.0), ("min", 60.0)):
        if longest >= 3 * factor:
            return unit, factor
    return ("s", 1.0) if longest >= 0.5 else ("ms", 0.001)
