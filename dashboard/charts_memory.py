"""Figures about memory: the budget, and graphs against what was set aside for them."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from dashboard.budget import Step
from dashboard.charts import (
    Figure,
    bars_height,
    in_gib,
    name_axes,
    new_figure,
    outline,
    size_unit,
)
from dashboard.charts_buckets import bucket_text
from dashboard.palette import colour
from warmup_insights.units import GIB, format_bytes, format_count

PHASE_SYMBOLS = {"prompt": "circle", "decode": "diamond"}


def budget_waterfall(steps: Sequence[Step], *, dark: bool = False) -> Figure:
    """From total memory to the KV cache, top to bottom, in GiB."""
    figure = new_figure(bars_height(len(steps)), dark=dark)
    figure.add_bar(
        orientation="h",
        y=[step.name for step in steps],
        x=[step.size_bytes / GIB for step in steps],
        base=[step.start_bytes / GIB for step in steps],
        marker={
            "color": [colour(step.meaning, dark=dark) for step in steps],
            "pattern": {"shape": ["/" if s.meaning == "reserved" else "" for s in steps]},
            "line": outline(dark),
        },
        text=[format_bytes(step.size_bytes) for step in steps],
        textposition="outside",
        cliponaxis=False,
        customdata=[[format_bytes(step.size_bytes), step.kind] for step in steps],
        hovertemplate="%{y}: %{customdata[0]}<extra></extra>",
        name="budget",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    top = max((step.start_bytes + step.size_bytes for step in steps), default=0)
    figure.update_xaxes(range=[0, (in_gib(top) or 0) * 1.28])
    figure.update_layout(showlegend=False)
    name_axes(figure, "device memory (GiB)", None)
    return figure


def capture_curve(
    points: pd.DataFrame, budget_bytes: int | None, *, dark: bool = False
) -> Figure:
    """Cumulative memory in the order of capture, the budget, and what was skipped."""
    top = max([*points["cumulative_bytes"], budget_bytes or 0], default=0)
    unit, factor = size_unit(top)
    figure = new_figure(340, dark=dark)
    figure.add_scatter(
        x=points["position"], y=points["cumulative_bytes"] / factor, mode="lines",
        line={"shape": "hv", "width": 2, "color": colour("captured", dark=dark)},
        hoverinfo="skip", showlegend=False, name="cumulative",
    )  # fmt: skip
    for (phase, state), rows in points.groupby(["phase", "state"], sort=False):
        is_skipped = state == "skipped"
        figure.add_scatter(
            x=rows["position"], y=rows["cumulative_bytes"] / factor, mode="markers",
            name=f"{phase} {'skipped' if is_skipped else 'captured'}",
            marker={
                "symbol": "x" if is_skipped else PHASE_SYMBOLS.get(str(phase), "square"),
                "size": 7, "line": {"width": 0.5, "color": colour("total", dark=dark)},
                "color": colour("skipped" if is_skipped else "captured", dark=dark),
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
            text=[_with_blocks(row, name) for row in known.to_dict("records")],
            textposition="outside", cliponaxis=False,
            hovertemplate=f"%{{y}}, {words}: %{{text}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(barmode="group", legend={"traceorder": "reversed"})
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(range=[0, top / factor * 1.8 or 1])
    name_axes(figure, f"memory ({unit}), and as KV blocks", None)
    return figure


def _with_blocks(row: dict[object, object], name: str) -> str:
    size, blocks = row[f"{name}_bytes"], row[f"{name}_blocks"]
    text = _size(size)
    if isinstance(blocks, int | float) and not pd.isna(blocks):
        text += f" = {format_count(round(blocks))} blocks"
    return text
