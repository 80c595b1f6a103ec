"""Figures about memory: the budget, graphs against their budget."""

from __future__ import annotations

from collections.abc import Sequence

from dashboard.budget import Step
from dashboard.charts import Figure, bars_height, in_gib, name_axes, new_figure, outline
from dashboard.palette import colour
from warmup_insights.units import GIB, format_bytes


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
    )  # fmt: skip
    figure.update_yaxes(autorange="reversed", showgrid=False)
    top = max((step.start_bytes + step.size_bytes for step in steps), default=0)
    figure.update_xaxes(range=[0, (in_gib(top) or 0) * 1.16])
    figure.update_layout(showlegend=False)
    name_axes(figure, "device memory (GiB)", None)
    return figure
