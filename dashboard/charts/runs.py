"""Figures over many runs: time to ready, memory configurations, runs side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dashboard.charts.base import Figure, name_axes, new_figure, outline, time_unit
from dashboard.configurations import Axes
from dashboard.frames.run import phase_label
from dashboard.palette import HEAT, MUTED, PART_MEANINGS, colour
from dashboard.text import figure_text
from warmup_insights.analysis.change_points import change_points
from warmup_insights.model.figures import BY_NAME, format_figure
from warmup_insights.model.summary import OF_OTHER_RANK
from warmup_insights.units import GIB, format_bytes, format_duration

_STATUS_SYMBOLS = {"finished": "circle", "failed": "x", "running": "circle-open"}


def trend(runs: pd.DataFrame, *, by: str, words: str, dark: bool = False) -> Figure:
    """A figure over the start of the runs of one series; the dashed line is the median,
    a dotted one stands at the first run of a new level.

    Columns: started_at (seconds since the epoch), name, status, and `by` in seconds.
    """
    rows = runs.sort_values("started_at")
    unit, factor = time_unit(float(rows[by].max()) if len(rows) else 1.0)
    figure = new_figure(230, dark=dark)
    figure.add_scatter(
        x=pd.to_datetime(rows["started_at"], unit="s"), y=rows[by] / factor,
        mode="lines+markers", line={"color": colour("total", dark=dark), "width": 1},
        marker={
            "size": 8, "color": colour("warmed", dark=dark), "line": outline(dark),
            "symbol": [_STATUS_SYMBOLS.get(s, "diamond") for s in rows["status"]],
        },
        customdata=[
            [figure_text(row["name"], 48), format_duration(row[by]), row["status"]]
            for row in rows.to_dict("records")
        ],
        hovertemplate="%{customdata[0]}<br>%{customdata[1]}, %{customdata[2]}"
        "<br>%{x}<extra></extra>",
        name=words,
    )  # fmt: skip
    starts = list(pd.to_datetime(rows["started_at"], unit="s"))
    for change in change_points(list(rows[by])):
        figure.add_vline(
            x=starts[change.index],
            line={"dash": "dot", "width": 2, "color": colour("missed", dark=dark)},
        )
    if len(rows):
        figure.add_hline(
            y=float(rows[by].median()) / factor,
            line={"dash": "dash", "width": 1, "color": MUTED.on(dark=dark)},
        )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(nticks=5)
    figure.update_yaxes(rangemode="tozero")
    name_axes(figure, "start of the run (UTC)", f"{words} ({unit})")
    return figure


def part_stacks(
    parts: pd.DataFrame, order: Sequence[str], *, dark: bool = False
) -> Figure:
    """Memory budgets of several runs, one stacked bar each, in GiB.

    Columns: run, name, label, bytes.
    """
    figure = new_figure(len(order) * 44 + 150, dark=dark)
    for name in PART_MEANINGS:
        rows = parts[parts["name"] == name]
        if rows.empty:
            continue
        meaning = PART_MEANINGS[name]
        figure.add_bar(
            orientation="h", y=[figure_text(run, 40) for run in rows["run"]],
            x=rows["bytes"] / GIB, name=figure_text(rows["label"].iloc[0]),
            marker={"color": colour(meaning, dark=dark), "line": outline(dark),
                    "pattern": {"shape": "/" if meaning == "reserved" else ""}},
            customdata=[format_bytes(value) for value in rows["bytes"]],
            hovertemplate="%{y}<br>%{fullData.name}: %{customdata}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", legend={"traceorder": "normal"})
    _order(figure, order)
    name_axes(figure, "device memory (GiB)", None)
    return figure


def _order(figure: Figure, order: Sequence[str]) -> None:
    figure.update_yaxes(
        autorange="reversed", showgrid=False, categoryorder="array",
        categoryarray=[figure_text(run, 40) for run in order],
    )  # fmt: skip


def phase_stacks(
    phases: pd.DataFrame, order: Sequence[str], *, dark: bool = False
) -> Figure:
    """Phase times of several runs, one stacked bar each.

    Columns: run, name, meaning, duration_s.
    """
    totals = phases.groupby("run", sort=False)["duration_s"].sum()
    longest = float(totals.max()) if len(totals) else 1.0
    unit, factor = time_unit(longest)
    figure = new_figure(len(order) * 44 + 150, dark=dark)
    for name, rows in phases.groupby("name", sort=False):
        meaning = rows["meaning"].iloc[0]
        figure.add_bar(
            orientation="h", y=[figure_text(run, 40) for run in rows["run"]],
            x=rows["duration_s"] / factor, name=figure_text(phase_label(str(name))),
            marker={"color": colour(meaning, dark=dark), "line": outline(dark),
                    "pattern": {"shape": pattern_of(str(name)), "size": 6}},
            customdata=[format_duration(value) for value in rows["duration_s"]],
            hovertemplate="%{y}<br>%{fullData.name}: %{customdata}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="stack", legend={"traceorder": "normal"})
    figure.update_yaxes(
        autorange="reversed", showgrid=False, categoryorder="array",
        categoryarray=[figure_text(run, 40) for run in order],
    )  # fmt: skip
    name_axes(figure, f"time ({unit})", None)
    return figure


def pattern_of(name: str) -> str:
    """Phases that share a colour differ in their pattern."""
    if name == "unlogged":
        return "/"
    if name.startswith("decode"):
        return "."
    return "x" if name.endswith(OF_OTHER_RANK) else ""


def configurations(
    points: pd.DataFrame, axes: Axes, picked: str = "", *, dark: bool = False
) -> Figure:
    """Configurations by two figures from zero; colour is a third, rings are best.

    Columns of `configurations.points_frame`. Planned points are diamonds; `picked` are
    the settings of the one that is named.
    """
    points = points.assign(
        x=points[axes.x[0]] / _unit(points, axes.x[0])[1],
        y=points[axes.y[0]] / _unit(points, axes.y[0])[1],
    )
    figure = new_figure(460, dark=dark)
    _lines_and_rings(figure, points, picked, dark=dark)
    for kind, symbol in (
        ("run", "circle"), ("run, not compared", "circle-open"), ("planned", "diamond"),
        ("planned, does not fit", "x-thin-open"),
    ):  # fmt: skip
        rows = points[points["kind"] == kind]
        if len(rows):
            marker: dict[str, Any] = {
                "symbol": symbol, "size": 13 if kind.startswith("run") else 9,
                "color": colour("warmed", dark=dark), "line": outline(dark),
            }  # fmt: skip
            if axes.colour is not None:
                name = axes.colour[0]
                marker["color"] = rows[name] / _unit(points, name)[1]
                marker["coloraxis"] = "coloraxis"
            figure.add_scatter(
                x=rows["x"], y=rows["y"], mode="markers", name=kind, marker=marker,
                customdata=_hover(rows, axes), hovertemplate="<b>%{customdata[1]}</b>"
                "<br>%{customdata[2]}<extra>" + kind + "</extra>",
                selected={"marker": {"size": 18}}, unselected={"marker": {"opacity": 0.6}},
            )  # fmt: skip
    if axes.colour is not None:
        figure.update_layout(
            coloraxis={"colorscale": HEAT, "colorbar": {
                "title": {"text": _title(points, axes.colour[0]), "side": "right"},
                "thickness": 12, "outlinewidth": 0}},
        )  # fmt: skip
    figure.update_layout(clickmode="event+select")
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(rangemode="tozero")
    if axes.y[0] == "captured_percent":
        figure.update_yaxes(range=[0, 108], tickvals=[0, 25, 50, 75, 100])
    name_axes(figure, _title(points, axes.x[0]), _title(points, axes.y[0]))
    return figure


def _lines_and_rings(
    figure: Figure, points: pd.DataFrame, picked: str, *, dark: bool
) -> None:
    """Lines of equal settings, and rings around the points that are not beaten."""
    for _, line in points.groupby("line", sort=False):
        if len(line) > 1:
            rows = line.sort_values("x")
            figure.add_scatter(
                x=rows["x"], y=rows["y"], mode="lines",
                line={"width": 1, "color": MUTED.on(dark=dark)}, hoverinfo="skip",
                showlegend=False, name="line",
            )  # fmt: skip
    best = points[points["best"] == True]  # noqa: E712 - None is neither
    ring = {"symbol": "circle-open", "color": colour("kv_cache", dark=dark)}
    for name, rows, marker in (
        ("not beaten", best, {"size": 22, "line": {"width": 2}}),
        ("pick", best[best["settings"] == picked], {"size": 30, "line": {"width": 4}}),
    ):
        if len(rows):
            figure.add_scatter(
                x=rows["x"], y=rows["y"], mode="markers", name=name, hoverinfo="skip",
                marker={**ring, **marker},
            )  # fmt: skip


def _hover(rows: pd.DataFrame, axes: Axes) -> list[list[str]]:
    """Of each point its run, its name, and its settings and figures as lines of text."""
    shown = [one[0] for one in axes if one is not None]
    return [
        [
            row["run_id"] or "",
            figure_text(row["name"], 60),
            "<br>".join(
                [figure_text(row["settings"], 300).replace(", ", "<br>")]
                + [f"{BY_NAME[name].title}: {format_figure(row[name], BY_NAME[name].unit)}"
                   for name in shown]
            ),
        ]
        for row in rows.to_dict("records")
    ]  # fmt: skip


def _unit(points: pd.DataFrame, name: str) -> tuple[str, float]:
    """The unit in which a figure of all points reads well, and its size."""
    if BY_NAME[name].unit != "s":
        return ("%", 1.0) if BY_NAME[name].unit == "percent" else ("", 1.0)
    return time_unit(float(points[name].max()) if len(points) else 1.0)


def _title(points: pd.DataFrame, name: str) -> str:
    unit = _unit(points, name)[0]
    return BY_NAME[name].title + (f" ({unit})" if unit else "")
