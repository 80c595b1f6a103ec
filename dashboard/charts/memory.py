"""Figures about memory: the budget, and graphs against what was set aside for them."""

from __future__ import annotations

import pandas as pd

from dashboard.charts.base import (
    Figure,
    bars_height,
    name_axes,
    new_figure,
    outline,
    size_unit,
)
from dashboard.charts.buckets import bucket_text
from dashboard.palette import colour
from warmup_insights.units import GIB, format_bytes

PHASE_SYMBOLS = {"prompt": "circle", "decode": "diamond"}


def budget_waterfall(steps: pd.DataFrame, *, dark: bool = False) -> Figure:
    """From total memory to the KV cache, top to bottom, in GiB; `frames_memory.budget_frame`."""
    figure = new_figure(bars_height(len(steps)), dark=dark)
    figure.add_bar(
        orientation="h", y=steps["step"], x=steps["bytes"] / GIB,
        base=steps["start_bytes"] / GIB,
        marker={
            "color": [colour(meaning, dark=dark) for meaning in steps["meaning"]],
            "pattern": {"shape": ["/" if m == "reserved" else "" for m in steps["meaning"]]},
            "line": outline(dark),
        },
        text=steps["text"], textposition="outside", cliponaxis=False,
        hovertemplate="%{y}: %{text}<extra></extra>", name="budget",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    ends = [*steps["start_bytes"] + steps["bytes"], 0]
    longest = steps["text"].str.len().max() if len(steps) else 0
    room = 1.45 if longest < 12 else 2.1  # for the text behind a bar
    low, top = min(ends) / GIB, max(ends) / GIB
    # What is left is negative where the parts take more than there is.
    left = -(room - 1) * max(top, -low) if low < 0 else 0
    figure.update_xaxes(range=[low + left, top * room])
    figure.update_layout(showlegend=False)
    name_axes(figure, "device memory (GiB)", None)
    return figure


def capture_curve(
    points: pd.DataFrame, budget_bytes: int | None, *, dark: bool = False
) -> Figure:
    """Cumulative memory in the order of capture, and the budget."""
    top = max([*points["cumulative_bytes"], budget_bytes or 0], default=0)
    unit, factor = size_unit(top)
    figure = new_figure(340, dark=dark)
    figure.add_scatter(
        x=points["position"], y=points["cumulative_bytes"] / factor, mode="lines",
        line={"shape": "hv", "width": 2, "color": colour("captured", dark=dark)},
        hoverinfo="skip", showlegend=False, name="cumulative",
    )  # fmt: skip
    for phase, rows in points.groupby("phase", sort=False):
        figure.add_scatter(
            x=rows["position"], y=rows["cumulative_bytes"] / factor, mode="markers",
            name=str(phase),
            marker={
                "symbol": PHASE_SYMBOLS.get(str(phase), "square"), "size": 7,
                "line": {"width": 0.5, "color": colour("total", dark=dark)},
                "color": colour("captured", dark=dark),
            },
            customdata=[
                [bucket_text(row["bucket"]), _size(row["memory_bytes"]),
                 format_bytes(row["cumulative_bytes"]), _size(row["estimate_bytes"])]
                for row in rows.to_dict("records")
            ],
            hovertemplate="%{customdata[0]}<br>took %{customdata[1]}<br>together "
            "%{customdata[2]}<br>estimated %{customdata[3]}<extra>%{fullData.name}</extra>",
        )  # fmt: skip
    if budget_bytes is not None:
        figure.add_hline(
            y=budget_bytes / factor, line={"dash": "dash", "width": 1.5, "color": colour("total", dark=dark)},
            annotation={"text": f"budget {format_bytes(budget_bytes)}", "font": {"size": 12}},
            annotation_position="top left",
        )  # fmt: skip
    figure.update_yaxes(rangemode="tozero", range=[0, max(top / factor * 1.12, 1e-9)])
    name_axes(figure, "order of capture", f"memory taken ({unit})")
    return figure


def _size(value: object) -> str:
    if not isinstance(value, int | float) or pd.isna(value):
        return "unknown"
    return format_bytes(value)


def reserved_used(shares: pd.DataFrame, *, dark: bool = False) -> Figure:
    """What was set aside (hatched) and what was taken, per phase and together."""
    top = max([0, *shares["reserved_bytes"].dropna(), *shares["used_bytes"].dropna()])
    unit, factor = size_unit(top)
    figure = new_figure(max(200, len(shares) * 64 + 92), dark=dark)
    for name, meaning, words in (
        ("used", "captured", "used"),
        ("reserved", "reserved", "reserved"),
    ):
        known = shares[shares[f"{name}_bytes"].notna()]
        figure.add_bar(
            orientation="h", name=words, y=known["share"], x=known[f"{name}_bytes"] / factor,
            marker={"color": colour(meaning, dark=dark), "line": outline(dark),
                    "pattern": {"shape": "/" if name == "reserved" else ""}},
            text=known[f"{name}_text"],
            textposition="outside", cliponaxis=False,
            hovertemplate=f"%{{y}}, {words}: %{{text}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="group", legend={"traceorder": "reversed"})
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(range=[0, top / factor * 1.5 or 1])
    name_axes(figure, f"memory ({unit})", None)
    return figure
