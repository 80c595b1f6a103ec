"""Figures over many runs: time to ready, memory configurations, runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dashboard.charts.base import Figure, name_axes, new_figure, outline, time_unit
from dashboard.palette import HEAT, MUTED, PART_MEANINGS, colour
from dashboard.text import figure_text
from warmup_insights.analysis.change_points import change_points
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
            x=rows["duration_s"] / factor, name=figure_text(str(name).replace("_", " ")),
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
    return "x" if name.endswith("(other rank)") else ""


def configurations(
    points: pd.DataFrame, picked: str = "", *, dark: bool = False
) -> Figure:
    """Captured share against KV blocks from zero; colour is warm-up time, rings are best.

    Columns of `configurations.points_frame`. Planned points are diamonds; `picked` are
    the settings of the one that is named.
    """
    longest = float(points["warmup_s"].max()) if len(points) else 1.0
    unit, factor = time_unit(longest)
    figure = new_figure(460, dark=dark)
    for _, line in points.groupby("line", sort=False):
        if len(line) > 1:
            rows = line.sort_values("num_kv_blocks")
            figure.add_scatter(
                x=rows["num_kv_blocks"], y=rows["captured_percent"], mode="lines",
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
                x=rows["num_kv_blocks"], y=rows["captured_percent"], mode="markers",
                name=name, hoverinfo="skip", marker={**ring, **marker},
            )  # fmt: skip
    for kind, symbol in (
        ("run", "circle"), ("planned", "diamond"), ("planned, does not fit", "x-thin-open"),
    ):  # fmt: skip
        rows = points[points["kind"] == kind]
        if rows.empty:
            continue
        figure.add_scatter(
            x=rows["num_kv_blocks"], y=rows["captured_percent"], mode="markers", name=kind,
            marker={
                "symbol": symbol, "size": 13 if kind == "run" else 9,
                "color": rows["warmup_s"] / factor, "coloraxis": "coloraxis",
                "line": outline(dark),
            },
            customdata=[
                [row["run_id"] or "", figure_text(row["name"], 60),
                 figure_text(row["settings"], 200).replace(", ", "<br>"), format_duration(row["warmup_s"])]
                for row in rows.to_dict("records")
            ],
            hovertemplate="<b>%{customdata[1]}</b><br>%{customdata[2]}<br>%{x:,} KV blocks, "
            "%{y:.1f} % captured<br>warm-up %{customdata[3]}<extra>" + kind + "</extra>",
            selected={"marker": {"size": 18}}, unselected={"marker": {"opacity": 0.6}},
        )  # fmt: skip
    figure.update_layout(
        coloraxis={"colorscale": HEAT, "showscale": points["warmup_s"].nunique() > 1, "colorbar": {
            "title": {"text": f"warm-up ({unit})", "side": "right"},
            "thickness": 12, "outlinewidth": 0}},
        clickmode="event+select",
    )  # fmt: skip
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(ticksuffix="", range=[0, 108], tickvals=[0, 25, 50, 75, 100])
    name_axes(figure, "KV blocks", "buckets with a graph (%)")
    return figure
