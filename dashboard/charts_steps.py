"""Figures about captures, the sampler and the defragmenter."""

from __future__ import annotations

from typing import Any

import pandas as pd

from dashboard.charts import Figure, bars_height, name_axes, new_figure, outline
from dashboard.palette import colour
from warmup_insights.units import format_duration, format_percent

_SHARES = (
    ("warmed_percent", "warmed", "warmed"),
    ("captured_reported_percent", "captured, as the log reports it", "reserved"),
    ("captured_percent", "captured, supported by evidence", "captured"),
)


def capture_bars(captures: pd.DataFrame, *, dark: bool = False) -> Figure:
    """Shares of the generated buckets, per phase, in percent."""
    shown = [share for share in _SHARES if captures[share[0]].notna().any()]
    figure = new_figure(max(170, len(captures) * len(shown) * 26 + 90), dark=dark)
    for column, words, meaning in reversed(shown):
        known = captures[captures[column].notna()]
        count = column.removesuffix("_percent")
        figure.add_bar(
            orientation="h", name=words, y=known["phase"], x=known[column],
            marker={"color": colour(meaning, dark=dark), "line": outline(dark),
                    "pattern": {"shape": "/" if meaning == "reserved" else ""}},
            text=[
                f"{format_percent(row[column])}  ({row[count]:.0f} of {row['generated']:.0f})"
                for row in known.to_dict("records")
            ],
            textposition="outside", cliponaxis=False,
            hovertemplate=f"%{{y}}, {words}: %{{text}}<extra></extra>",
        )  # fmt: skip
    figure.update_layout(
        barmode="group", legend={"traceorder": "reversed"}, bargap=0.22
    )
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(range=[0, 138], tickvals=[0, 25, 50, 75, 100])
    name_axes(figure, "share of the generated buckets (%)", None)
    return figure


def stage_bars(summary: dict[str, Any], *, dark: bool = False) -> Figure:
    """Sampler and defragmenter warm-up, in seconds."""
    rows = [
        (name, meaning, summary[section]["duration_s"])
        for name, meaning, section in (
            ("sampler", "sampler", "sampler"),
            ("defragmenter", "defrag", "defrag"),
        )
        if summary[section] and summary[section]["duration_s"] is not None
    ]
    figure = new_figure(bars_height(len(rows)), dark=dark)
    figure.add_bar(
        orientation="h", y=[row[0] for row in rows], x=[row[2] for row in rows],
        marker={"color": [colour(row[1], dark=dark) for row in rows], "line": outline(dark)},
        text=[format_duration(row[2]) for row in rows], textposition="outside",
        cliponaxis=False, hovertemplate="%{y}: %{text}<extra></extra>",
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    figure.update_xaxes(
        range=[0, max([row[2] for row in rows], default=1.0) * 1.25 or 1.0]
    )
    figure.update_layout(showlegend=False)
    name_axes(figure, "time (s)", None)
    return figure
