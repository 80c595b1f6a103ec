"""Graphs: their memory, the share of buckets captured, and those of CUDA by size."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pandas as pd
import streamlit as st

from dashboard import data, widgets
from dashboard.charts.base import Picture
from dashboard.charts.buckets import bucket_text
from dashboard.charts.memory import budget_picture, curve_picture, reserve_picture
from dashboard.charts.steps import (
    capture_frame,
    captures_picture,
    graph_captures,
    lazy_timeline,
    sizes_picture,
)
from dashboard.shown import figure
from dashboard.text import markdown
from dashboard.widgets import View
from warmup_insights.analysis.oddities import took_more_than_budget
from warmup_insights.analysis.sentences import division_settings
from warmup_insights.model.figures import BY_NAME, text_of
from warmup_insights.model.summary import (
    CaptureBar,
    GraphFacts,
    PhaseBuckets,
    RunSummary,
)

_OF_MEMORY = ("graph_reserved_bytes", "graph_estimated_bytes", "graph_memory_bytes")


def has_memory(summary: RunSummary) -> bool:
    """Whether any line is about the memory of graphs, or lists buckets that have some."""
    if summary.memory is None:
        return False
    known = (BY_NAME[name].read(summary) for name in _OF_MEMORY)
    return bool(summary.buckets) or any(size is not None for size in known)


def show_memory(view: View) -> None:
    """Waterfall, curve, reserved against used."""
    left, right = st.columns(2)
    with left:
        _waterfall(view)
    with right:
        view.chart(
            reserve_picture(view.summary), "reserved",
            without=("No reserve for graphs", without_reserve(view.summary)),
        )  # fmt: skip
    view.chart(curve_picture(data.folded(view.run)), "curve")


def without_reserve(summary: RunSummary) -> str:
    """Why nothing is known to be set aside for graphs."""
    if BY_NAME["graph_estimated_bytes"].read(summary) is None:
        return "Nothing states what was set aside for them, or estimated."
    taken = "not taken off the KV cache"
    if summary.graphs is not None and summary.graphs.is_reserved is None:
        taken = "whether it was set aside is not stated"
    return f"{text_of(summary, 'graph_estimated_bytes')} estimated; {taken}."


def _waterfall(view: View) -> None:
    budget = budget_picture(view.summary)
    facts = division_settings(view.summary.memory_or_none)
    if facts:
        set_with = f"{budget.hint} Set with {markdown(' and '.join(facts))}."
        budget = replace(budget, hint=set_with)
    view.chart(
        budget, "waterfall",
        without=("No budget", "No line divides the memory of the device."),
    )  # fmt: skip


def has_captures(summary: RunSummary) -> bool:
    """Whether any phase states how many of its buckets were warmed or captured."""
    return len(capture_frame(summary)) > 0


def show_captures(view: View) -> None:
    """Shares per phase, a sentence for each, the buckets without a graph."""
    view.chart(captures_picture(view.summary), "shares")
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
        rest = "no line states which were. Only a recorder can count them."
        if not summary.is_log:
            rest = "the recorder saw no capture, as under torch.compile."
        return (
            f"The engine reports {shows('captured_reported')} captured of "
            f"{shows('generated')}. That number is the length of the bucket list, "
            f"printed whether or not a graph was recorded; {rest}"
        )
    text = f"{shows('captured')} of {shows('generated')} buckets have a graph "
    text += f"({shows('capture_percent')})"
    if reported is not None and reported != captured:
        text += f", although the engine reports {shows('captured_reported')}"
    if part.graph_used_bytes is not None:
        text += f". They take {shows('graph_used_bytes')}"
        if part.graph_budget_bytes is not None:
            text += f" of a budget of {shows('graph_budget_bytes')}"
            if took_more_than_budget(part):
                text += "; the rest came from the other phase"
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
    graphs = summary.graphs or GraphFacts()
    if summary.serving_or_none.graph_uses or graphs.lazy:
        return True
    stated = (graphs.captured, graphs.duration_s, graphs.memory_bytes)
    is_stated = any(value is not None for value in stated)
    return summary.engine.name != "reference" and (
        is_stated or bool(graphs.captures or graphs.bars)
    )


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
    if captures.empty:
        st.caption("No line states the size of a single graph.")
    left, right = st.columns(2)
    for place, by in ((left, "duration_s"), (right, "memory_bytes")):
        with place:
            view.chart(sizes_picture(captures, by), f"graphs-{by}")
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
    hint = "When each delayed capture interrupted a request; larger marks took longer."
    view.chart(Picture("Captures while serving", hint, lazy, lazy_timeline), "lazy")


def _bars(view: View, bars: list[CaptureBar]) -> None:
    rows = [(bar.mode, bar.captured, bar.total, bar.duration_s) for bar in bars]
    view.table(
        pd.DataFrame(rows, columns=["mode", "captured", "total", "duration_s"]),
        key="bars", title="Progress bars of the log",
        hint="The last state of each capture bar.",
        columns={"duration_s": st.column_config.NumberColumn("time (s)", format="%.1f")},
    )  # fmt: skip
