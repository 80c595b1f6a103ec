"""Figures of a run that is still going on."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.charts.base import Figure, name_axes, new_figure, size_unit, time_unit
from dashboard.palette import colour
from warmup_insights.units import format_bytes, format_duration


def memory_line(
    points: Sequence[tuple[float, int]],
    total_bytes: int | None,
    until_s: float,
    *,
    dark: bool = False,
) -> Figure:
    """Device memory in use over time, to the last event: pairs of seconds and bytes."""
    top = max([total_bytes or 0, *(size for _, size in points)], default=1)
    unit, factor = size_unit(top)
    long_unit, seconds = time_unit(until_s)
    figure = new_figure(280, dark=dark)
    figure.add_scatter(
        x=[time / seconds for time, _ in points],
        y=[size / factor for _, size in points],
        mode="lines", line={"shape": "hv", "width": 2, "color": colour("captured", dark=dark)},
        fill="tozeroy", name="in use",
        customdata=[[format_duration(t), format_bytes(s)] for t, s in points],
        hovertemplate="%{customdata[1]} after %{customdata[0]}<extra></extra>",
    )  # fmt: skip
    if total_bytes is not None:
        figure.add_hline(
            y=total_bytes / factor,
            line={"dash": "dash", "width": 1.5, "color": colour("total", dark=dark)},
            annotation={"text": f"device {format_bytes(total_bytes)}"},
            annotation_position="bottom right",
        )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(range=[0, until_s / seconds])
    figure.update_yaxes(range=[0, top / factor * 1.05])
    name_axes(figure, f"time since the start ({long_unit})", f"in use ({unit})")
    return figure
