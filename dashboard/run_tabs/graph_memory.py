"""Graph memory: the budget, captures against it, reserved against used."""

from __future__ import annotations

import streamlit as st

from dashboard import data, shown, widgets
from dashboard.charts.buckets import bucket_text
from dashboard.charts.memory import (
    BUDGET_HINTS,
    budget_frame,
    budget_waterfall,
    capture_curve,
    capture_points,
    graph_shares,
    reserved_used,
)
from dashboard.run_tabs.view import View
from dashboard.text import markdown
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import RunSummary

TITLE = "Graph memory"


def has_content(summary: RunSummary) -> bool:
    """Whether any line states something about memory."""
    return summary.memory is not None


def show(view: View) -> None:
    """Waterfall, curve, reserved against used."""
    left, right = st.columns(2)
    with left:
        _waterfall(view)
    with right:
        _reserved(view)
    _curve(view)


def _waterfall(view: View) -> None:
    steps = budget_frame(view.summary)
    if steps.empty:
        widgets.empty("No budget", "No line divides the memory of the device.")
        return
    memory = view.summary.memory_or_none
    facts = []
    if memory.gpu_memory_utilization is not None:
        facts.append(f"gpu_memory_utilization {memory.gpu_memory_utilization:g}")
    if memory.graph_reserved_fraction is not None:
        facts.append(f"VLLM_GRAPH_RESERVED_MEM {memory.graph_reserved_fraction:g}")
    hint = BUDGET_HINTS[bool(memory.parts)]
    if facts:
        hint += f" Set with {markdown(' and '.join(facts))}."
    widgets.chart(
        budget_waterfall(steps, dark=view.dark), steps,
        key=view.key("waterfall"), title="Memory budget", hint=hint,
        simulated=view.simulated,
    )  # fmt: skip


def _reserved(view: View) -> None:
    shares = graph_shares(view.summary)
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


def _verdict(summary: RunSummary) -> str:
    unused = BY_NAME["graph_unused_blocks"].read(summary)
    hint = "What was set aside for graphs, and what they took."
    if unused is None:
        return hint
    more = "is unused" if unused >= 0 else "graphs took beyond it"
    blocks = shown.text(summary, "graph_unused_blocks").removeprefix("-")
    return f"{hint} What {more} would hold {blocks} KV blocks."


def _curve(view: View) -> None:
    rows = data.folded(view.run).rows
    points, is_warmup = capture_points(rows)
    if points.empty:
        return
    skipped = sum(row.skipped is True for row in rows)
    text = (
        "Free memory that went away during the warm-up, step by step"
        if is_warmup
        else "What graphs take together, in the order in which they were captured"
    )
    if skipped:
        text += f"; skipped because they did not fit: {skipped}"
    budget = view.summary.memory_or_none.graph_budget
    widgets.chart(
        capture_curve(points, budget.total_bytes if budget else None, dark=view.dark),
        points.assign(bucket=[bucket_text(bucket) for bucket in points["bucket"]]),
        key=view.key("curve"),
        title="Memory in the order of warm-up" if is_warmup else "Captures",
        hint=text + ".", simulated=view.simulated,
    )  # fmt: skip
