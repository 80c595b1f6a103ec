"""Sampler and defragmenter: what was warmed up, how long it took, what ran live."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import widgets
from dashboard.charts.base import Picture
from dashboard.charts.steps import defrag_picture, sampler_picture, threshold_bars
from dashboard.shown import Headline, figure
from dashboard.text import markdown
from dashboard.widgets import View
from warmup_insights.model.summary import DefragFacts


def show(view: View) -> None:
    """Two halves."""
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
