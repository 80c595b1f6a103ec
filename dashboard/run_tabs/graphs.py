"""Graphs: their memory, the share of buckets captured, and those of CUDA by size."""

from __future__ import annotations

import msgspec
import pandas as pd
import streamlit as st

from dashboard import data, widgets
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
from dashboard.charts.steps import (
    capture_bars,
    capture_frame,
    capture_hint,
    graph_captures,
    graphs_by_size,
    lazy_timeline,
)
from dashboard.text import markdown
from dashboard.widgets import View, figure
from warmup_insights.model.figures import BY_NAME, text_of
from warmup_insights.model.summary import CaptureBar, PhaseBuckets, RunSummary


def show_memory(view: View) -> None:
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
    view.chart(
        budget_waterfall(steps), steps,
        key="waterfall", title="Memory budget", hint=hint,
    )  # fmt: skip


def _reserved(view: View) -> None:
    shares = graph_shares(view.summary)
    if shares.empty:
        widgets.empty(
            "Graph memory is not in this log",
            "No line states what was set aside for graphs or what they took.",
        )
        return
    view.chart(
        reserved_used(shares), shares,
        key="reserved", title="Reserved against used",
        hint=_verdict(view.summary),
    )  # fmt: skip


def _verdict(summary: RunSummary) -> str:
    unused = BY_NAME["graph_unused_blocks"].read(summary)
    hint = "What was set aside for graphs, and what they took."
    if unused is None:
        return hint
    more = "is unused" if unused >= 0 else "graphs took beyond it"
    blocks = text_of(summary, "graph_unused_blocks").removeprefix("-")
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
    captured = sum(row.captured is True for row in rows)
    if not is_warmup and len(points) < captured:
        text += f"; the log states it for {len(points)} of {captured}"
    if skipped:
        text += f"; skipped because they did not fit: {skipped}"
    budget = view.summary.memory_or_none.graph_budget
    view.chart(
        capture_curve(points, budget.total_bytes if budget else None),
        points.assign(bucket=[bucket_text(bucket) for bucket in points["bucket"]]),
        key="curve",
        title="Memory in the order of warm-up" if is_warmup else "Captures",
        hint=text + ".",
    )  # fmt: skip


def has_captures(summary: RunSummary) -> bool:
    """Whether any phase states how many buckets it has; a share needs a whole."""
    return any(part.generated for part in (summary.buckets or {}).values())


def show_captures(view: View) -> None:
    """Shares per phase, a sentence for each, the buckets without a graph."""
    captures = capture_frame(view.summary)
    if captures.empty:
        widgets.empty(
            "No counts",
            "No line states how many buckets were warmed or captured.",
        )
    else:
        view.chart(
            capture_bars(captures), captures,
            key="shares", title="Warmed and captured",
            hint=capture_hint(captures),
        )  # fmt: skip
    for phase, part in (view.summary.buckets or {}).items():
        with widgets.card(phase.capitalize(), simulated=view.simulated):
            st.markdown(explanation(view.summary, phase))
            _without(part)


def explanation(summary: RunSummary, phase: str) -> str:
    """What is known about the captures of a phase, and how."""
    part = summary.phase(phase)
    captured, reported = part.captured, part.captured_reported

    def shows(key: str) -> str:
        return text_of(summary, f"{phase}_{key}")

    if captured is None and reported is None:
        return f"Buckets: {shows('generated')}; no line is about captured graphs."
    if captured is None:
        return (
            f"The log reports {shows('captured_reported')} captured of "
            f"{shows('generated')}. That number is the length of the bucket list, "
            "printed whether or not a graph was recorded; no line states which were. "
            "Only a recorder can count them."
        )
    text = f"{shows('captured')} of {shows('generated')} buckets have a graph "
    text += f"({shows('capture_percent')})"
    if reported is not None and reported != captured:
        text += f", although the log reports {shows('captured_reported')}"
    if part.graph_used_bytes is not None:
        text += f". They take {shows('graph_used_bytes')}"
        if part.graph_budget_bytes is not None:
            text += f" of a budget of {shows('graph_budget_bytes')}"
    return text + "."


def _without(part: PhaseBuckets) -> None:
    if part.captured_buckets is None or not part.buckets:
        return
    captured = set(part.captured_buckets)
    missing = [bucket for bucket in part.buckets if bucket not in captured]
    if not missing:
        st.caption("Every generated bucket is captured.")
        return
    with st.expander(f"Buckets without a graph: {len(missing)}"):
        st.text(", ".join(bucket_text(bucket) for bucket in missing[:2000]))


def has_sizes(summary: RunSummary) -> bool:
    """Whether any line mentions them; graphs of buckets have tabs of their own."""
    graphs = summary.graphs
    if summary.serving_or_none.graph_uses:
        return True
    if graphs is None:
        return False
    return summary.engine.name != "reference" or bool(graphs.lazy)


def show_sizes(view: View) -> None:
    """Headline, by size, delayed ones, the bars of the log."""
    summary, graphs = view.summary, view.summary.graphs
    _uses(view)
    if graphs is None:
        return
    estimate = None
    if graphs.estimated_bytes is not None:
        estimate = f"{text_of(summary, 'graph_estimated_bytes')} estimated"
    lasted = text_of(summary, "lazy_s") if graphs.lazy else None
    widgets.headline(
        [
            *figure(summary, "graphs_captured"),
            *figure(summary, "graph_capture_s"),
            *figure(summary, "graph_memory_bytes", note=estimate),
            *figure(summary, "lazy_captures", note=lasted),
        ]
    )
    captures = graph_captures(summary)
    left, right = st.columns(2)
    for place, by, words in (
        (left, "duration_s", "Time"),
        (right, "memory_bytes", "Memory"),
    ):
        if captures[by].notna().any():
            with place:
                view.chart(
                    graphs_by_size(captures, by=by), captures,
                    key=f"graphs-{by}", title=f"{words} by graph size",
                    hint="One bar per captured graph. Memory is a difference of free "
                    "memory and can be negative."
                    if by == "memory_bytes" else "One bar per captured graph.",
                )  # fmt: skip
    _lazy(view, captures)
    _bars(view, graphs.bars)


def _uses(view: View) -> None:
    uses = view.summary.serving_or_none.graph_uses
    share = text_of(view.summary, "graph_steps_percent")
    padding = text_of(view.summary, "graph_padding_percent")
    view.table(
        pd.DataFrame([msgspec.to_builtins(use) for use in uses]),
        key="uses", title="Steps while serving",
        hint=f"{share} ran in a CUDA graph; {padding} of the tokens in graphs are padding. "
        "Steps without a graph are larger than every captured size, or of a kind that none "
        "was captured for.",
        columns={"num_tokens": st.column_config.NumberColumn("tokens", format="%d"),
                 "padded_tokens": st.column_config.NumberColumn("ran as", format="%d"),
                 "mode": "graph",
                 "count": st.column_config.NumberColumn("steps", format="%d")},
    )  # fmt: skip


def _lazy(view: View, captures: pd.DataFrame) -> None:
    lazy = captures[(captures["when"] == "while serving") & captures["since_s"].notna()]
    if lazy.empty:
        return
    view.chart(
        lazy_timeline(lazy), lazy,
        key="lazy", title="Captures while serving",
        hint="When each delayed capture interrupted a request; larger marks took longer.",
    )  # fmt: skip


def _bars(view: View, bars: list[CaptureBar]) -> None:
    view.table(
        pd.DataFrame(map(msgspec.to_builtins, bars)), key="bars", title="Progress bars of the log",
        hint="The last state of each capture bar.",
        columns={"duration_s": st.column_config.NumberColumn("time (s)", format="%.1f")},
    )  # fmt: skip
