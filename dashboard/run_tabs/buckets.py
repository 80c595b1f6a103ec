"""Every bucket: the map of a phase, state, cost, history; cost by dimension; while serving
padding, shapes that no bucket covered and what was compiled late."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, widgets
from dashboard.charts.base import Picture
from dashboard.charts.buckets import (
    BucketAxes,
    bucket_map,
    bucket_text,
    late_frame,
    map_axes,
    map_title,
    misses_frame,
    of_phase,
    padding_frame,
    panels_of,
    phases_in_order,
    sleeps_frame,
    step_facts,
)
from dashboard.charts.time import dimension_bars, dimension_costs, step_bars
from dashboard.palette import STATES
from dashboard.text import visible
from dashboard.widgets import View
from warmup_insights.analysis.misses import diagnose, file_lines, highest_settings
from warmup_insights.analysis.sentences import spike_words
from warmup_insights.model.figures import BY_NAME, text_of
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import format_bytes, format_duration

_HINTS = {
    "state": "One cell per bucket.",
    "duration_s": "Time of each bucket, all its steps together. Empty cells have no time "
    "in the log.",
    "memory_bytes": "Memory that each bucket took. Empty cells have no size in the log.",
}


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
    rows = of_phase(buckets, phase)
    if rows.empty:
        return None
    axes = map_axes(rows, view.summary.phase(phase), phase)
    shown = _panel(view, rows, axes, f"{key}-{phase}")
    hint = _hint(rows, shown, axes, by) + _proof(view, phase)
    picture = Picture(
        map_title(phase), hint, shown, partial(bucket_map, axes=axes, by=by)
    )
    return view.chart(picture, f"{key}-{phase}", selectable=selectable)


def _proof(view: View, phase: str) -> str:
    """How buckets without a line of their own are known to be warmed."""
    bare = sum(
        row.warmed and row.run is None and row.capture is None
        for row in data.folded(view.run).rows
        if row.phase == phase
    )
    if not bare or not view.summary.is_log:
        return ""
    return (
        f" {bare} have no line of their own. They count as warmed: steps are numbered of "
        f"{view.summary.phase(phase).generated}, and the last one, or the end of the "
        "warm-up, is in the log."
    )


def _hint(rows: pd.DataFrame, shown: pd.DataFrame, axes: BucketAxes, by: str) -> str:
    hint = _HINTS[by]
    if by == "state" and (shown["state"] == "generated").any():
        hint += " Of a bucket that is only generated nothing else is stated."
    if axes.panel is None:
        return hint
    value = shown["bucket"].iloc[0][axes.panel]
    return (
        f"{hint} These are the {len(shown)} of {len(rows)} with "
        f"{axes.names[axes.panel]} {value}."
    )


def _panel(view: View, rows: pd.DataFrame, axes: BucketAxes, key: str) -> pd.DataFrame:
    """The rows of one value of the third dimension."""
    panels = panels_of(rows, axes)
    if axes.panel is None:
        return rows
    chosen = st.select_slider(
        axes.names[axes.panel].capitalize(), list(panels), key=view.key(f"{key}-panel")
    )
    return panels[chosen]


COSTLIEST = 10
_BY = {"state": "State", "duration_s": "Time", "memory_bytes": "Memory"}


def has_content(summary: RunSummary) -> bool:
    """Whether any line mentions a bucket."""
    ranges = summary.bucket_ranges
    return bool(summary.buckets or summary.other_phases or summary.multimodal or ranges)


def show(view: View) -> None:
    """Map, history of the selected bucket, costs, padding."""
    buckets = data.buckets(view.run)
    phases = phases_in_order(buckets)
    if not phases:
        ranges_card(view)
        widgets.empty(
            "This run lists no buckets",
            "Its log states at most how many there were, not which. Current vllm-gaudi prints "
            "them with VLLM_DEVELOPER_MODE=true.",
        )
        return
    controls = st.container(horizontal=True, vertical_alignment="bottom", gap="medium")
    phase = controls.segmented_control(
        "Phase", phases, default=phases[0], required=True,
        format_func=str.capitalize, key=view.key("phase"),
    )  # fmt: skip
    by = controls.segmented_control(
        "Colour by", list(_BY), default="state", required=True,
        format_func=_BY.__getitem__, key=view.key("by"),
    )  # fmt: skip
    _totals(view.summary, str(phase))
    event = coverage_chart(
        view, buckets, str(phase), by=str(by), key="map", selectable=True
    )
    rows = of_phase(buckets, str(phase))
    _history(view, rows, str(phase), _selected(event))
    _costs(view, rows, str(phase))
    _recipes(view)
    _padding(view)
    ranges_card(view)


def ranges_card(view: View) -> None:
    """What buckets are made from, as the engine states it."""
    if ranges := view.summary.bucket_ranges:
        with widgets.card("Bucket ranges", "What the engine makes its buckets from."):
            rows = [
                {"phase": each.phase, "dimension": each.dimension, **each.values}
                for each in ranges
            ]
            st.dataframe(pd.DataFrame(rows), hide_index=True)


_TOTALS = ("steps_s", "gc_s", "compiled", "reused")


def _totals(summary: RunSummary, phase: str) -> None:
    """Time, garbage collection and compilations of all steps of a phase."""
    names = [f"{phase}_{key}" for key in _TOTALS if f"{phase}_{key}" in BY_NAME]
    known = [name for name in names if BY_NAME[name].read(summary) is not None]
    if known:
        words = [BY_NAME[name].title.removeprefix(f"{phase} ") for name in known]
        texts = [text_of(summary, name) for name in known]
        parts = [f"{word} {text}" for word, text in zip(words, texts, strict=True)]
        st.caption("  \u00b7  ".join(parts).capitalize())


def _selected(event: Any) -> str | None:
    points = event["selection"]["points"] if event else []
    data = (point.get("customdata") for point in points)
    return next((str(custom[0]) for custom in data if custom), None)


def _history(view: View, rows: pd.DataFrame, phase: str, clicked: str | None) -> None:
    names = {bucket_text(bucket): bucket for bucket in rows["bucket"]}
    with widgets.card("One bucket", "Click a cell of the map, or choose one here."):
        chosen = st.selectbox(
            "Bucket", list(names), label_visibility="collapsed",
            index=list(names).index(clicked) if clicked in names else None,
            placeholder="Choose a bucket", key=view.key(f"bucket-{phase}-{clicked}"),
        )  # fmt: skip
        if chosen is None:
            return
        row = rows[[bucket == names[chosen] for bucket in rows["bucket"]]].iloc[0]
        _facts(row)
        events = data.bucket_events(view.run, phase, names[chosen])
        if events.empty:
            st.caption("No line or recorded step of its own.")
            return
        st.dataframe(
            events, hide_index=True,
            column_config={
                "kind": "what", "mode": "mode", "rank": "rank", "line": "line",
                "time": st.column_config.DatetimeColumn("time (UTC)"),
                "duration_s": st.column_config.NumberColumn("time (s)", format="%.4g"),
                "memory_mib": st.column_config.NumberColumn("memory (MiB)", format="%.1f"),
            },
        )  # fmt: skip


def _facts(row: pd.Series) -> None:
    parts = [f"**{STATES.get(row['state'], row['state'])}**"]
    if pd.notna(row["duration_s"]):
        parts.append(format_duration(row["duration_s"]))
    if pd.notna(row["memory_bytes"]):
        parts.append(format_bytes(row["memory_bytes"]))
    if row["executed"] is not None and row["executed"] != row["bucket"]:
        parts.append(f"ran as {bucket_text(row['executed'])}")
    if row["missed"]:
        parts.append(f"missed {row['missed']} times while serving")
    parts += step_facts(row.to_dict())
    st.markdown(" · ".join(parts))


def _costs(view: View, rows: pd.DataFrame, phase: str) -> None:
    stated = rows[rows["duration_s"].notna()]
    known = stated[stated["duration_s"] > 0]
    total = len(stated) + sum(
        state != "missed" for state in rows["state"].drop(stated.index)
    )
    # Of a few buckets neither the costliest nor what a value costs is known.
    if known.empty or 2 * len(stated) < total:
        return
    axes = map_axes(rows, view.summary.phase(phase), phase)
    left, right = st.columns(2)
    with left:
        top = known.sort_values("duration_s", ascending=False).head(COSTLIEST)
        costs = pd.DataFrame(
            {
                "name": [bucket_text(bucket) for bucket in top["bucket"]],
                "meaning": [
                    "compile" if is_spike else "warmed"
                    for is_spike in top["spike_s"].notna()
                ],
                "duration_s": list(top["duration_s"]),
            }
        )
        title = f"The {len(costs)} costliest buckets"
        hint = f"{len(stated)} of {total} {phase} buckets have a time."
        if len(stated) > len(known):
            hint += f" {len(stated) - len(known)} of them have 0 s."
        hint += _spikes_hint(view, known)
        view.chart(Picture(title, hint, costs, step_bars), f"costly-{phase}")
    with right:
        dimensions = [d for d in (axes.y, axes.x, axes.panel) if d is not None]
        chosen = st.segmented_control(
            "Cost by", dimensions, default=dimensions[0], required=True,
            format_func=axes.names.__getitem__, key=view.key(f"cost-by-{phase}"),
        )  # fmt: skip
        costs = dimension_costs(rows, int(chosen))
        hint = (
            "Leaving one value out saves its bar."
            if len(stated) >= total
            else f"Of the {len(stated)} of {total} buckets whose time is stated; those without "
            "a time are not counted."
        )
        if known["spike_s"].notna().any():
            hint += " A spike counts as its neighbours took."
        draw = partial(dimension_bars, name=axes.names[int(chosen)])
        picture = Picture("What each value costs", hint, costs, draw)
        view.chart(picture, f"cost-{phase}-{chosen}")


def _spikes_hint(view: View, known: pd.DataFrame) -> str:
    count = int(known["spike_s"].notna().sum())
    if not count:
        return ""
    return (
        f" {count} took a multiple of their neighbours' time (another colour)"
        f"{spike_words(view.summary)}."
    )


def _recipes(view: View) -> None:
    """The recipes that took the compiler longest, of all phases."""
    recipes = view.summary.recipes
    if recipes is None:
        return
    table = pd.DataFrame(
        [
            {
                "recipe": visible(part.recipe),
                "duration_s": part.duration_s,
                "phase": part.phase or "",
                "bucket": bucket_text(part.bucket) if part.bucket else "none",
            }
            for part in recipes.slowest
        ]
    )
    view.table(
        table, key="recipes", title="The slowest recipes",
        hint=f"{text_of(view.summary, 'recipes')} compiled before ready, "
        f"{text_of(view.summary, 'recipe_s')} of the compiler's time; "
        f"{recipes.outside:,} of them outside of buckets. Recipes may be compiled side by "
        "side.",
        columns={
            "duration_s": st.column_config.NumberColumn("time (s)", format="%.4g")
        },
    )  # fmt: skip


def _padding(view: View) -> None:
    padding = padding_frame(view.summary.serving_or_none.uses)
    view.table(
        padding.assign(bucket=padding["bucket"].map(bucket_text)),
        key="padding",
        title="Padding while serving",
        hint="What steps needed and what was executed, by bucket. Prompts count tokens, "
        "decode steps count sequences.",
        columns={
            "count": st.column_config.NumberColumn("steps", format="%d"),
            "padding_percent": st.column_config.ProgressColumn(
                "padding (%)", format="%.1f", min_value=0.0, max_value=100.0
            ),
        },
    )


def has_late_work(summary: RunSummary) -> bool:
    """Whether a request met a shape without a bucket or waited for a compilation, or the
    engine slept."""
    serving = summary.serving_or_none
    return bool(summary.misses or serving.jit or serving.sleeps)


def show_late_work(view: View) -> None:
    """The misses, what was compiled while serving, and when the engine slept."""
    if view.summary.misses:
        _misses(view)
    view.table(
        late_frame(view.summary), key="late", title="Compiled while serving",
        hint="Each kept a request waiting. A warm-up that runs these shapes compiles "
        "them before.",
        columns={
            "after ready (s)": st.column_config.NumberColumn(format="%.0f"),
            "time (s)": st.column_config.NumberColumn(format="%.4g"),
        },
    )  # fmt: skip
    view.table(
        sleeps_frame(view.summary), key="sleeps", title="Sleep mode",
        hint="No request is answered between a sleep and the wake-up after it.",
        columns={"time (s)": st.column_config.NumberColumn(format="%.4g")},
    )  # fmt: skip


def _misses(view: View) -> None:
    """A table, the settings and the lines of a bucket file."""
    found = diagnose(view.summary)
    table = misses_frame(view.summary, found)
    view.table(
        table, key="misses", title="Shapes without a bucket",
        hint="Each compiles when it first comes, in the middle of a request. The nearest "
        "bucket, why it is too small, and what the shape ran in.",
    )  # fmt: skip
    left, right = st.columns(2)
    with left, widgets.card("Settings that cover them"):
        settings = highest_settings(found)
        if all(item.cause == "skipped" for item in found):
            st.caption(
                "Nothing was warmed up: `VLLM_SKIP_WARMUP=false` comes first. "
                "`warmup-insights advise` states whether the ranges cover them then."
            )
        elif settings:
            st.code("\n".join(settings), language=None, wrap_lines=True)
        else:
            st.caption(
                "No single maximum is too small; the shapes need buckets of their own."
            )
    with right, widgets.card("Lines for a bucket file"):
        lines = file_lines(view.summary, found)
        if lines:
            st.code("\n".join(lines), language=None)
            st.caption(
                "For VLLM_BUCKETING_FROM_FILE; (batch, query, blocks). The file takes the "
                "place of all ranges: it needs the other buckets as well."
            )
        else:
            st.caption("Bucket files need shapes of three numbers.")
