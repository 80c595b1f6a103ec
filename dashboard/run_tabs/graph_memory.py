"""Graph memory: the budget, captures against it, reserved against used."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import data, graph_memory, widgets
from dashboard.budget import budget_steps, steps_frame
from dashboard.charts_buckets import bucket_text
from dashboard.charts_memory import budget_waterfall, capture_curve, reserved_used
from dashboard.run_tabs.view import View
from dashboard.text import markdown
from warmup_insights.units import format_count

TITLE = "Graph memory"


def has_content(summary: dict[str, Any]) -> bool:
    """Whether any line says something about memory."""
    return summary["memory"] is not None


def show(view: View) -> None:
    """Waterfall, curve, reserved against used."""
    left, right = st.columns(2)
    with left:
        _waterfall(view)
    with right:
        _reserved(view)
    _curve(view)


def _waterfall(view: View) -> None:
    steps = budget_steps(view.summary)
    if not steps:
        widgets.empty("No budget", "No line divides the memory of the device.")
        return
    memory = view.summary["memory"]
    facts = []
    if memory["gpu_memory_utilization"] is not None:
        facts.append(f"gpu_memory_utilization {memory['gpu_memory_utilization']:g}")
    if memory["graph_reserved_fraction"] is not None:
        facts.append(f"VLLM_GRAPH_RESERVED_MEM {memory['graph_reserved_fraction']:g}")
    widgets.chart(
        budget_waterfall(steps, dark=view.dark), steps_frame(steps),
        key=view.key("waterfall"), title="Memory budget",
        hint="What each part takes away, down to the KV cache. "
        + (f"Set with {markdown(' and '.join(facts))}." if facts else ""),
        simulated=view.simulated,
    )  # fmt: skip


def _reserved(view: View) -> None:
    shares = graph_memory.reserved_used(view.summary)
    if shares.empty:
        widgets.empty(
            "Graph memory is not in this log",
            "No line states what was set aside for graphs or what they took.",
        )
        return
    widgets.chart(
        reserved_used(shares, dark=view.dark), shares,
        key=view.key("reserved"), title="Reserved against used",
        hint=_verdict(view.summary), simulated=view.simulated,
    )  # fmt: skip


def _verdict(summary: dict[str, Any]) -> str:
    gained = graph_memory.gained_blocks(summary)
    if gained is None:
        return "What was set aside for graphs, and what they took."
    if gained < 0:
        return (
            "Graphs took more than was reserved: as much as "
            f"{format_count(-gained)} KV blocks."
        )
    return (
        f"What was reserved and not used would hold {format_count(gained)} more KV "
        "blocks."
    )


def _curve(view: View) -> None:
    curve = data.capture_curve(view.run)
    if curve.points.empty:
        return
    skipped = int((curve.points["state"] == "skipped").sum())
    text = (
        "Free memory that went away during the warm-up, step by step"
        if curve.is_warmup
        else "What graphs take together, in the order in which they were captured"
    )
    if skipped:
        text += f"; {skipped} candidates were skipped because they did not fit"
    points = curve.points.assign(
        bucket=[bucket_text(bucket) for bucket in curve.points["bucket"]]
    )
    widgets.chart(
        capture_curve(curve.points, curve.budget_bytes, dark=view.dark), points,
        key=view.key("curve"),
        title="Memory in the order of warm-up" if curve.is_warmup else "Captures",
        hint=text + ".", simulated=view.simulated,
    )  # fmt: skip
