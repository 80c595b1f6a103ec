"""Many configurations as points of a trade: graphs, KV cache and time; pure.

The figures, the marks and the pick are those of `analysis.pareto`, which `sweep` and
`plan` print.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

import pandas as pd

from dashboard.charts.base import Figure, name_axes, new_figure, time_unit
from dashboard.charts.runs import doubtful
from dashboard.palette import HEAT, MUTED, colour
from dashboard.shown import frame_of
from dashboard.text import figure_text, short_name, visible
from warmup_insights.analysis.pareto import (
    COLUMNS,
    TRADED,
    ConfigurationRow,
    differing,
    planned_rows,
    settings_text,
)
from warmup_insights.analysis.plan.cache import CachePlan
from warmup_insights.analysis.plan.planning import Planner, PlanSettings
from warmup_insights.bucketing.base import WITHOUT_BUCKETS
from warmup_insights.errors import InputError
from warmup_insights.export.plans import cache_tables
from warmup_insights.model.figures import BY_NAME, contradictory, format_figure
from warmup_insights.model.summary import RunSummary

UTILIZATIONS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
RESERVES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
FIGURES = tuple(name for name in COLUMNS if name != "misses")
FEW = 3
"""Points of which a trade can be seen."""


def points_frame(
    rows: Sequence[ConfigurationRow],
    names: Mapping[str, str],
    summaries: Sequence[RunSummary] = (),
) -> pd.DataFrame:
    """One row per configuration: run_id, name, those of FIGURES that any states, best,
    kind, settings, line, doubtful, and the settings that differ by the engine's names.

    `best` is true where every other marked one is beaten in something, None where a
    figure is unknown. `line` is equal for points that a line connects: those that differ
    in the last of the settings only.
    """
    settings = differing(rows)
    figures = [
        name
        for name in FIGURES
        if any(row.figures.get(name) is not None for row in rows)
    ]
    doubts = {summary.run_id: contradictory(summary) for summary in summaries}
    found = []
    for row in rows:
        kind = "planned" if row.label == "planned" and not row.run_id else "run"
        if kind == "planned" and row.is_non_dominated is None:
            kind = "planned, does not fit"
        elif row.is_non_dominated is None:
            kind = "run, not compared"
        title = names.get(row.run_id) or row.label or row.run_id
        found.append(
            {
                "name": short_name(title),
                **{name: visible(row.settings.get(name, "")) for name in settings},
                **{name: row.figures.get(name) for name in figures},
                "best": row.is_non_dominated,
                "run_id": row.run_id,
                "kind": kind,
                "settings": settings_text(row, settings),
                "line": f"{kind} {settings_text(row, settings[:-1])}",
                "doubtful": doubtful(
                    name for name in FIGURES if name in doubts.get(row.run_id, ())
                ),
            }
        )
    return pd.DataFrame(found)


class FigureAxes(NamedTuple):
    """Which figures a chart of configurations shows, by their names."""

    x: str
    y: str
    colour: str | None


def axes_of(
    rows: Sequence[ConfigurationRow], points: pd.DataFrame
) -> tuple[FigureAxes, pd.DataFrame] | None:
    """What is drawn of the figures by which configurations are compared, and the points
    that state it; None where none are compared.

    The KV cache goes to the right; a figure that is the same everywhere is not drawn
    while another one differs.
    """
    compared = next((row.compared_by for row in rows if row.compared_by), ())
    if not compared:
        return None
    known = points.dropna(subset=list(compared))
    varied = [one for one in compared if known[one].nunique() > 1]
    x = next((one for one in compared if one in TRADED[1]), compared[-1])
    rest = [one for one in compared if one != x]
    rest.sort(key=lambda one: one not in varied)
    colour = next((one for one in rest[1:] if one in varied), None)
    return FigureAxes(x, rest[0], colour), known


def planned(planner: Planner, settings: PlanSettings) -> list[ConfigurationRow]:
    """What the run behind a planner would give with these settings and other utilisations
    and reserves."""
    plans = []
    for utilization, reserve in itertools.product(UTILIZATIONS, RESERVES):
        other = replace(
            settings, gpu_memory_utilization=utilization, graph_reserved_mem=reserve
        )
        with suppress(InputError):
            plans.append(planner.plan(other))
    return planned_rows(plans)


def cache_frames(plans: Sequence[CachePlan]) -> Iterator[tuple[str, pd.DataFrame]]:
    """Plans without graphs as `plan` prints them, and how far they may be off: titles and
    tables."""
    for table in cache_tables(plans):
        yield table.title, frame_of(table).rename(columns={"": "plan"})


def sweep_command(summary: RunSummary) -> str:
    """A sweep whose points compare with this run, ready to be copied."""
    grid = "--gpu-memory-utilization 0.8,0.9,0.95"
    if summary.device.kind not in WITHOUT_BUCKETS:
        grid += " --graph-reserved-mem 0.05,0.1,0.2"
    if summary.engine.name == "reference":
        device = (
            "simulated:gaudi2" if summary.synthetic else summary.device.kind or "cpu"
        )
        return f"warmup-insights sweep {grid} -- --device {device}"
    model = visible(summary.model or "MODEL")
    return f"warmup-insights sweep --engine vllm {grid} -- {model}"


def configurations_figure(
    points: pd.DataFrame, axes: FigureAxes, picked: str = ""
) -> Figure:
    """Configurations by two figures from zero; colour is a third, rings are best.

    Columns of `configurations_figure.points_frame`. Planned points are diamonds; `picked` are
    the settings of the one that is named.
    """
    points = points.assign(
        x=points[axes.x] / _unit(points, axes.x)[1],
        y=points[axes.y] / _unit(points, axes.y)[1],
    )
    figure = new_figure(460)
    _lines_and_rings(figure, points, picked)
    for kind, symbol in (
        ("run", "circle"), ("run, not compared", "circle-open"), ("planned", "diamond"),
        ("planned, does not fit", "x-thin-open"),
    ):  # fmt: skip
        rows = points[points["kind"] == kind]
        if len(rows):
            marker: dict[str, Any] = {
                "symbol": symbol, "size": 13 if kind.startswith("run") else 9,
                "color": colour("warmed"), "line": {"width": 1, "color": MUTED},
            }  # fmt: skip
            if axes.colour is not None:
                name = axes.colour
                marker["color"] = rows[name] / _unit(points, name)[1]
                marker["coloraxis"] = "coloraxis"
                # A mark of the legend has no place on the scale: it would be black.
                figure.add_scatter(
                    x=[None], y=[None], mode="markers", name=kind,
                    marker=marker | {"color": MUTED, "coloraxis": None},
                )  # fmt: skip
            figure.add_scatter(
                x=rows["x"], y=rows["y"], mode="markers", name=kind, marker=marker,
                customdata=_hover(rows, axes), hovertemplate="<b>%{customdata[1]}</b>"
                "<br>%{customdata[2]}<extra>" + kind + "</extra>",
                selected={"marker": {"size": 18}}, unselected={"marker": {"opacity": 0.6}},
                showlegend=axes.colour is None,
            )  # fmt: skip
    if axes.colour is not None:
        figure.update_layout(
            coloraxis={"colorscale": HEAT, "colorbar": {
                "title": {"text": _title(points, axes.colour), "side": "right"},
                "thickness": 12, "outlinewidth": 0}},
        )  # fmt: skip
    figure.update_layout(clickmode="event+select")
    figure.update_xaxes(rangemode="tozero")
    figure.update_yaxes(rangemode="tozero")
    if axes.y == "captured_percent":
        figure.update_yaxes(range=[0, 108], tickvals=[0, 25, 50, 75, 100])
    name_axes(figure, _title(points, axes.x), _title(points, axes.y))
    return figure


def _lines_and_rings(figure: Figure, points: pd.DataFrame, picked: str) -> None:
    """Lines of equal settings, and rings around the points that are not beaten."""
    for _, line in points.groupby("line", sort=False):
        if len(line) > 1:
            rows = line.sort_values("x")
            figure.add_scatter(
                x=rows["x"], y=rows["y"], mode="lines",
                line={"width": 1, "color": MUTED}, hoverinfo="skip",
                showlegend=False, name="line",
            )  # fmt: skip
    best = points[points["best"] == True]  # noqa: E712 - None is neither
    ring = {"symbol": "circle-open", "color": colour("kv_cache")}
    for name, rows, marker in (
        ("not beaten", best, {"size": 22, "line": {"width": 2}}),
        ("pick", best[best["settings"] == picked], {"size": 30, "line": {"width": 4}}),
    ):
        if len(rows):
            figure.add_scatter(
                x=rows["x"], y=rows["y"], mode="markers", name=name, hoverinfo="skip",
                marker={**ring, **marker},
            )  # fmt: skip


def _hover(rows: pd.DataFrame, axes: FigureAxes) -> list[list[str]]:
    """Of each point its run, its name, and its settings and figures as lines of text."""
    shown = [name for name in axes if name is not None]
    return [
        [
            row["run_id"] or "",
            figure_text(row["name"]),
            "<br>".join(
                [figure_text(row["settings"]).replace(", ", "<br>")]
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
