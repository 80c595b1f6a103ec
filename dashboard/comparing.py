"""A comparison as frames and figures for the compare page; the figures are those of `compare`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from dashboard.charts.base import (
    HATCHED,
    Figure,
    Picture,
    filled,
    name_axes,
    new_figure,
    size_unit,
    time_unit,
)
from dashboard.charts.time import phase_totals, phases_frame
from dashboard.palette import PART_MEANINGS
from dashboard.shown import frame_of
from dashboard.text import figure_text, visible
from warmup_insights.analysis.compare import BucketChange, Comparison, FigureRow
from warmup_insights.export import comparison
from warmup_insights.model.figures import contradiction_mark
from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import format_bytes, format_duration


def run_names(result: Comparison) -> list[str]:
    """A different name for every run: its title, or a letter where titles are long."""
    return [visible(run.head) for run in result.runs]


def run_lines(result: Comparison) -> list[str]:
    """What each run is, one line each, under the name that stands for it."""
    rows = comparison.runs_table(result.runs).rows
    return [visible(" \u00b7 ".join(row)) for row in rows]


def figures_table(
    result: Comparison, summaries: Sequence[RunSummary], *, full: bool
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Figures by run as text, and the verdict of each cell; the first is the baseline.

    Without `full`, figures that are the same in every run are left out. Figures whose
    evidence contradicts itself are marked.
    """
    names = run_names(result)
    rows = [row for row in result.figures if full or row.is_telling]
    cells = [[row.title, *_cells(row, summaries)] for row in rows]
    verdicts = [["", "", *(change.verdict for change in row.changes)] for row in rows]
    columns = ["figure", *names]
    return pd.DataFrame(cells, columns=columns), pd.DataFrame(verdicts, columns=columns)


def _cells(row: FigureRow, summaries: Sequence[RunSummary]) -> list[str]:
    changes = ["", *comparison.change_texts(row)]
    cells = []
    for text, summary, change in zip(row.texts, summaries, changes, strict=True):
        marked = text + contradiction_mark(summary, row.name)
        is_shown = change not in ("", "unknown")
        cells.append(f"{marked}\u2003{change}" if is_shown else marked)
    return cells


def settings_table(result: Comparison, *, partly: bool = False) -> pd.DataFrame:
    """The settings that differ, one column per run."""
    rows = result.partly_stated if partly else result.settings
    return frame_of(comparison.settings_table(rows, run_names(result)))


def gaps_frame(result: Comparison) -> pd.DataFrame:
    """Unlogged time between the same two lines, one column per run."""
    return frame_of(comparison.gaps_table(result, run_names(result)))


def phases_picture(result: Comparison, summaries: Sequence[RunSummary]) -> Picture:
    """Where the time of each start-up went."""
    phases, names = phases_table(result, summaries), run_names(result)
    hint = "Each bar is one start-up: what each phase took in all, in the order of a "
    hint += "start; unlogged time is hatched."
    rest = phases["name"].nunique() - MOST_NAMED
    if rest > 0:
        hint += f" The {rest} shortest phases are in no legend; point at a bar for its name."
    hint += _undrawn(phases, names)
    return Picture(
        "Where the time went", hint, phases, lambda frame: phase_stacks(frame, names)
    )


def _undrawn(frame: pd.DataFrame, names: Sequence[str]) -> str:
    """The runs that state too little for a bar, as a further sentence."""
    drawn = set(frame["run"])
    missing = [name for name in names if name not in drawn]
    return f" Without a bar, since too little is stated: {', '.join(missing)}." * bool(
        drawn and missing
    )


def phases_table(result: Comparison, summaries: Sequence[RunSummary]) -> pd.DataFrame:
    """Phase totals of all runs: run, name, meaning, duration_s."""
    frames = [
        phase_totals(phases_frame(summary)).assign(run=name)
        for name, summary in zip(run_names(result), summaries, strict=True)
        if summary.time.wall_s
    ]
    if not frames:
        return pd.DataFrame([], columns=["run", "name", "meaning", "duration_s"])
    return pd.concat(frames, ignore_index=True)


def memory_picture(result: Comparison) -> Picture:
    """The memory budget of each run."""
    parts, names = memory_table(result), run_names(result)
    hint = "Each bar is one device, from weights to KV cache." + _undrawn(parts, names)
    return Picture(
        "Memory budgets", hint, parts, lambda frame: part_stacks(frame, names)
    )


def memory_table(result: Comparison) -> pd.DataFrame:
    """Budget parts of all runs: run, name, label, bytes."""
    rows = [
        (name, part.name, part.label, part.bytes)
        for name, parts in zip(run_names(result), result.memory, strict=True)
        for part in parts
    ]
    return pd.DataFrame(rows, columns=["run", "name", "label", "bytes"])


def bucket_changes(result: Comparison) -> pd.DataFrame:
    """Every bucket that changed: run, phase, bucket, change, and where a change has
    figures before, after."""
    names = {run.run_id: visible(run.head) for run in result.runs}
    rows: list[tuple[str, ...]] = []
    for change in result.buckets:
        head = (names[change.run_id], change.phase)
        rows += [(*head, *row) for row in _changed(change)]
    columns = ["run", "phase", "bucket", "change", "before", "after"]
    frame = pd.DataFrame(rows, columns=columns)
    has_figures = any(any(row[-2:]) for row in rows)
    return frame if has_figures else frame.drop(columns=["before", "after"])


def _changed(change: BucketChange) -> list[tuple[str, ...]]:
    sets = (
        ("added", change.added), ("removed", change.removed),
        ("graph gained", change.captured), ("graph lost", change.uncaptured),
    )  # fmt: skip
    rows: list[tuple[str, ...]] = [
        (str(b), words, "", "") for words, found in sets for b in found or ()
    ]
    for words, costs in (
        ("slower", change.slower), ("faster", change.faster),
        ("larger", change.larger), ("smaller", change.smaller),
    ):  # fmt: skip
        rows += [
            (str(cost.bucket), words, *map(format_duration, cost.duration_s))
            if words in ("slower", "faster")
            else (str(cost.bucket), words, *map(format_bytes, cost.memory_bytes))
            for cost in costs
        ]
    return rows


def misses_table(result: Comparison) -> pd.DataFrame:
    """Shapes without a bucket, and how often each run met them."""
    return frame_of(comparison.misses_table(result, run_names(result)))


def part_stacks(parts: pd.DataFrame, order: Sequence[str]) -> Figure:
    """Memory budgets of several runs, one stacked bar each.

    Columns: run, name, label, bytes.
    """
    totals = parts.groupby("run", sort=False)["bytes"].sum()
    unit, factor = size_unit(float(totals.max()) if len(totals) else 1.0)
    figure = _stacks(order, f"device memory ({unit})")
    for name, meaning in PART_MEANINGS.items():
        of_name = parts[parts["name"] == name]
        for label, rows in of_name.groupby("label", sort=False):
            texts = [format_bytes(value) for value in rows["bytes"]]
            sizes = rows["bytes"] / factor
            _add(figure, str(label), rows["run"], sizes, texts, filled(meaning))
    return figure


def phase_stacks(phases: pd.DataFrame, order: Sequence[str]) -> Figure:
    """Phase times of several runs, one stacked bar each.

    Columns: run, name, meaning, duration_s.
    """
    totals = phases.groupby("run", sort=False)["duration_s"].sum()
    named, patterns = _named(phases), patterns_of(phases)
    unit, factor = time_unit(float(totals.max()) if len(totals) else 1.0)
    figure = _stacks(order, f"time ({unit})")
    for name in start_order(phases):
        rows = phases[phases["name"] == name]
        pattern = {"shape": patterns[name], "size": 6}
        texts = [format_duration(value) for value in rows["duration_s"]]
        marker = filled(rows["meaning"].iloc[0]) | {"pattern": pattern}
        label, sizes = phase_words(name), rows["duration_s"] / factor
        _add(figure, label, rows["run"], sizes, texts, marker)
        figure.data[-1].showlegend = name in named
    return figure


def start_order(phases: pd.DataFrame) -> list[str]:
    """The phases of all runs as a start has them: what only a later run has comes after
    the phase before it there. Columns: run, name, in the order of each start."""
    order: list[str] = []
    for _, rows in phases.groupby("run", sort=False):
        place = 0
        for name in rows["name"]:
            if name not in order:
                order.insert(place, name)
            place = order.index(name) + 1
    return order


MOST_NAMED = 10
"""Phases in a legend: more of them would scroll in a narrow window."""


def _named(phases: pd.DataFrame) -> set[str]:
    """The phases that took the most time of all runs together."""
    return set(phases.groupby("name")["duration_s"].sum().nlargest(MOST_NAMED).index)


def _stacks(order: Sequence[str], x_title: str) -> Figure:
    """A figure with room for one stacked bar for each run."""
    figure = new_figure(len(order) * 44 + 150)
    figure.update_layout(barmode="stack", legend={"traceorder": "normal"})
    figure.update_yaxes(
        autorange="reversed", showgrid=False, categoryorder="array",
        categoryarray=[figure_text(run) for run in order],
    )  # fmt: skip
    name_axes(figure, x_title, None)
    return figure


def _add(
    figure: Figure, label: str, runs: pd.Series, sizes: pd.Series, texts: list[str],
    marker: dict[str, Any],
) -> None:  # fmt: skip
    """Add one part of every stack."""
    figure.add_bar(
        orientation="h", y=[figure_text(run) for run in runs], x=sizes,
        name=figure_text(label), marker=marker,
        customdata=texts,
        hovertemplate="%{y}<br>%{fullData.name}: %{customdata}<extra></extra>",
    )  # fmt: skip


SHAPES = ("", ".", "x", "-", "|", "+", "\\")
"""Patterns of phases of one colour, in their order."""


def patterns_of(phases: pd.DataFrame) -> dict[str, str]:
    """A pattern for each phase, hatched for unlogged time: phases that share a colour
    differ in it, as far as there are patterns. Columns: name, meaning."""
    found: dict[str, str] = {}
    for meaning, rows in phases.groupby("meaning", sort=False):
        shapes = ("/", *SHAPES[2:]) if meaning in HATCHED else SHAPES
        for number, name in enumerate(dict.fromkeys(rows["name"])):
            found[str(name)] = shapes[min(number, len(shapes) - 1)]
    return found
