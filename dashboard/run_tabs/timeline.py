"""Where the time went: phases on an axis, per rank, gaps, the costliest steps; the sampler
and the defragmenter."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import data, shown, widgets
from dashboard.charts.base import Picture
from dashboard.charts.steps import defrag_picture, sampler_picture, threshold_bars
from dashboard.charts.time import (
    gaps_frame,
    phases_frame,
    ranks_picture,
    steps_picture,
    timeline,
)
from dashboard.shown import Headline, figure
from dashboard.text import markdown
from dashboard.widgets import View
from warmup_insights.analysis.sentences import cache_text
from warmup_insights.model.figures import BY_NAME, text_of
from warmup_insights.model.summary import DefragFacts, RunSummary
from warmup_insights.units import format_duration


def show(view: View) -> None:
    """Phases, ranks, gaps, steps."""
    _stated(view.summary)
    phases = phases_frame(view.summary)
    view.chart(
        Picture("Start-up", _hint(view.summary), phases, timeline), "timeline",
        without=("Start-up", "No line states when the start-up did anything."),
    )  # fmt: skip
    view.chart(ranks_picture(view.summary), "ranks")
    left, right = st.columns(2)
    with left:
        view.chart(
            steps_picture(data.folded(view.run)), "steps",
            without=("No step has a duration", "No time is stated for single steps."),
        )  # fmt: skip
    with right:
        _gaps(view)


def _stated(summary: RunSummary) -> None:
    """What the engine states about its start, and the garbage collector."""
    share = None
    if summary.gc is not None and summary.gc.share is not None:
        share = f"{text_of(summary, 'gc_percent')} of the steps"
    caches = cache_text(summary)
    figures = [
        *figure(summary, "engine_init_s"),
        *figure(summary, "compile_s", note=caches and markdown(caches)),
        *figure(summary, "gc_s", note=share),
        *figure(summary, "gc_freeze_s"),
    ]
    if summary.gc is not None and summary.gc.frozen and summary.gc.freeze_s is None:
        help_text = shown.HELP["gc_freeze_s"]
        figures.append(Headline("Garbage collector", "frozen", help_text))
    if BY_NAME["unlogged_s"].read(summary):
        figures += figure(summary, "unlogged_s")
    widgets.headline(figures)


def _hint(summary: RunSummary) -> str:
    times, unit = summary.time, "line" if summary.is_log else "event"
    text = (
        f"{text_of(summary, 'wall_s')} from the first {unit} to "
        f"{'ready' if times.ready_at else f'the last {unit} of the start-up'}"
    )
    if times.wall_s is None:
        text = "The start-up in the lines of this log; how long all of it took is not in them"
    if BY_NAME["unlogged_s"].read(summary):
        text += f"; {text_of(summary, 'unlogged_s')} of it is unlogged time and hatched"
    text += ". Drag to zoom, double-click to reset."
    if not times.timezone:
        text += " The log names no time zone; its timestamps are read as UTC."
    return text


def _gaps(view: View) -> None:
    gaps = gaps_frame(view.summary)
    if gaps.empty:
        what = "lines" if view.summary.is_log else "events"
        text = (
            f"Wherever two seconds or more pass between two {what}, all but "
            "less than a second of it is explained."
        )
        cut = view.summary.time.seconds_of("lines_cut_out")
        if cut:
            text += (
                f" The {format_duration(cut)} where lines were cut out are not counted."
            )
        widgets.empty("Unlogged time", text)
    seconds = st.column_config.NumberColumn(format="%.1f")
    view.table(
        gaps, key="gaps", title="Unlogged time",
        hint="Two seconds or more without a line, a second or more of it unexplained; the "
        "longest first, with the two lines around it.",
        columns={
            "from (s)": seconds, "gap (s)": seconds,
            "line": st.column_config.NumberColumn(format="%d"),
        },
    )  # fmt: skip


def show_stages(view: View) -> None:
    """Sampler and defragmenter: what was warmed up, how long it took, what ran live."""
    left, right = st.columns(2)
    with left:
        _sampler(view)
    with right:
        _defrag(view)


def _sampler(view: View) -> None:
    section = view.summary.sampler
    if section is None:
        widgets.empty("Sampler", "No line is about a warm-up of the sampler.")
        return
    sizes, configs = section.batch_sizes, section.configs
    widgets.headline(
        [
            *figure(view.summary, "sampler_s", note=section.status),
            Headline("Batch sizes", "?" if sizes is None else str(len(sizes))),
            Headline("Configurations", "?" if configs is None else str(configs)),
        ],
        even=False,
    )
    view.chart(sampler_picture(section), "sampler")


def _defrag(view: View) -> None:
    section = view.summary.defrag
    if section is None:
        widgets.empty("Defragmenter", "No line is about the defragmenter.")
        return
    sizes = section.thresholds
    widgets.headline(
        [
            *figure(view.summary, "defrag_s", note=section.status),
            Headline("Thresholds", "?" if sizes is None else str(len(sizes))),
            Headline("Ran while serving", str(len(section.runs))),
        ],
        even=False,
    )
    if section.reason:
        st.warning(markdown(f"Skipped: {section.reason}"))
    _thresholds(view, section)
    view.chart(defrag_picture(view.summary), "defrag")


def _thresholds(view: View, section: DefragFacts) -> None:
    pairs = [(step.threshold, step.duration_s) for step in section.steps]
    steps = pd.DataFrame(pairs, columns=["threshold", "duration_s"])
    if steps["duration_s"].notna().any():
        # The first threshold runs once more when their number is odd.
        steps = steps.groupby("threshold", as_index=False).agg(
            duration_s=("duration_s", "sum")
        )
        hint = "Each padded swap size compiles a graph of its own."
        picture = Picture("Warm-up by swap size", hint, steps, threshold_bars)
        view.chart(picture, "thresholds")
    elif section.thresholds:
        sizes = ", ".join(str(value) for value in section.thresholds)
        st.caption(f"Thresholds {sizes}; the log states no time for each.")
