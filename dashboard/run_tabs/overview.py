"""The figures of a run at a glance, and what stands out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import streamlit as st

from dashboard import data, widgets
from dashboard.charts.base import Picture, bars_height
from dashboard.charts.buckets import map_height, of_phase, phases_in_order
from dashboard.charts.memory import budget_picture
from dashboard.charts.steps import captures_picture, stages_picture
from dashboard.charts.time import totals_picture
from dashboard.run_tabs import advice
from dashboard.run_tabs.buckets import coverage_chart, ranges_card
from dashboard.text import markdown, sentence
from dashboard.widgets import View
from warmup_insights.analysis.oddities import lacks, oddities
from warmup_insights.analysis.sentences import (
    contradiction_sentence,
    not_a_start,
    serving_sentences,
)
from warmup_insights.model.summary import RunSummary


def show(view: View) -> None:
    """Contradictions, advice, then what the start did, then what serving did."""
    summary = view.summary
    if summary.contradictions:
        found = [contradiction_sentence(broken) for broken in summary.contradictions]
        lines = "\n".join(f"- {markdown(text)}" for text in found)
        st.warning(
            "**Contradictory evidence.** Figures from it are marked, and no advice, "
            f"plan or check is built on them.\n\n{lines}",
            icon=":material/rule:",
        )
    if not_a_start(summary):
        widgets.empty(
            "No start-up in these lines",
            "They are kept for what else they hold. Add the log of a start, from its first line:",
            "warmup-insights ingest server.log",
        )
    advice.first(view)
    # Two columns that grow evenly: the next card goes into the shorter one.
    places, heights = st.columns(2), [0, 0]
    number = -1
    for number, (height, draw) in enumerate(_cards(view)):
        if number == 1 and widgets.comes_later("rest-of-overview"):
            return
        shorter = heights.index(min(heights))
        heights[shorter] += FRAME_PX + height
        with places[shorter]:
            draw()
    serving = serving_sentences(summary)
    if serving:
        _sentences(view, "After the start", [markdown(text) for text in serving])
    if number < 0 and not (serving or not_a_start(summary)):
        widgets.empty(
            "No figures in these lines",
            "They state neither times nor sizes of the start. Add its whole log:",
            "warmup-insights ingest server.log",
        )


FRAME_PX = 110
"""Title, hint and edges of a card."""
_PICTURES: dict[str, Callable[[RunSummary], Picture]] = {
    "budget": budget_picture, "captures": captures_picture, "stages": stages_picture,
}  # fmt: skip
Cards = Iterator[tuple[int, Callable[[], object]]]
"""What is in a card in pixels, and what draws it."""


def _cards(view: View) -> Cards:
    """None for what has nothing to show."""
    summary = view.summary
    yield from _picture(view, "phases", totals_picture)
    yield from _buckets(view)
    for key, draw in _PICTURES.items():
        yield from _picture(view, key, draw)
    known = {contradiction_sentence(broken) for broken in summary.contradictions}
    odd = [f"- {markdown(t)}" for t in oddities(summary) if t not in known]
    if odd:
        yield 36 * len(odd), lambda: _sentences(view, "What stands out", odd)
    lacking = [f"- {sentence(text)}" for text in lacks(summary)]
    if lacking:
        yield 60 * len(lacking), lambda: _sentences(view, "Not in this log", lacking)


def _picture(view: View, key: str, draw: Callable[[RunSummary], Picture]) -> Cards:
    picture = draw(view.summary)
    if len(picture.frame):
        yield bars_height(len(picture.frame)), partial(view.chart, picture, key)


def _buckets(view: View) -> Cards:
    """Where no bucket is listed, what they are made from."""
    ranges, buckets = view.summary.bucket_ranges, data.buckets(view.run)
    phases = phases_in_order(buckets)
    for phase in phases:
        sizes = {bucket[0] for bucket in of_phase(buckets, phase)["bucket"]}
        yield map_height(len(sizes)), partial(coverage_chart, view, buckets, phase)
    if ranges and not phases:
        yield 36 * len(ranges), partial(ranges_card, view)


def _sentences(view: View, title: str, lines: Sequence[str]) -> None:
    with widgets.card(title, simulated=view.simulated):
        for line in lines:
            st.markdown(line)
