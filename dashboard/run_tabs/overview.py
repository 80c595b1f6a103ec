"""The figures of a run at a glance, and what stands out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from dashboard import data, widgets
from dashboard.charts.base import bars_height
from dashboard.charts.buckets import map_height, of_phase, phases_in_order
from dashboard.charts.memory import BUDGET_HINTS, budget_frame, budget_waterfall
from dashboard.charts.steps import (
    capture_bars,
    capture_frame,
    capture_hint,
    stage_bars,
    stages_frame,
)
from dashboard.charts.time import phase_bars, phase_totals, phases_frame
from dashboard.run_tabs import advice
from dashboard.run_tabs.buckets import coverage_chart
from dashboard.text import markdown, sentence
from dashboard.widgets import View
from warmup_insights.analysis.oddities import lacks, oddities
from warmup_insights.analysis.sentences import (
    contradiction_sentence,
    serving_sentences,
)
from warmup_insights.model.figures import text_of


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
    if summary.failure is None:
        advice.first(view)
    # Two columns that grow evenly: the next card goes into the shorter one.
    places, heights = st.columns(2), [0, 0]
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


FRAME_PX = 110
"""Title, hint and edges of a card."""


def _cards(view: View) -> Iterator[tuple[int, Callable[[], object]]]:
    """What is in a card in pixels, and what draws it; none for what has nothing to show."""
    summary, buckets = view.summary, data.buckets(view.run)
    for phase in phases_in_order(buckets):
        sizes = {bucket[0] for bucket in of_phase(buckets, phase)["bucket"]}
        yield map_height(len(sizes)), partial(coverage_chart, view, buckets, phase)
    steps = budget_frame(summary)
    if len(steps):
        yield bars_height(len(steps)), lambda: view.chart(
            budget_waterfall(steps), steps, key="budget",
            title="Memory budget", hint=BUDGET_HINTS[bool(summary.memory_or_none.parts)],
        )  # fmt: skip
    captures = capture_frame(summary)
    if len(captures):
        yield 100 + 86 * captures["phase"].nunique(), lambda: view.chart(
            capture_bars(captures), captures, key="captures",
            title="Warmed and captured", hint=capture_hint(captures),
        )  # fmt: skip
    phases = phases_frame(summary)
    if len(phases):
        totals = phase_totals(phases)
        yield bars_height(len(totals)), lambda: view.chart(
            phase_bars(totals), totals, key="phases",
            title="Where the time went",
            hint=f"{text_of(summary, 'wall_s')} in all; unlogged time is hatched.",
        )  # fmt: skip
    stages = stages_frame(summary)
    if len(stages):
        yield bars_height(len(stages)), lambda: view.chart(
            stage_bars(stages), stages, key="stages",
            title="Sampler and defragmenter warm-up", hint=_stages_hint(stages),
        )  # fmt: skip
    known = {contradiction_sentence(broken) for broken in summary.contradictions}
    odd = [f"- {markdown(t)}" for t in oddities(summary) if t not in known]
    if odd:
        yield 36 * len(odd), lambda: _sentences(view, "What stands out", odd)
    lacking = [f"- {sentence(text)}" for text in lacks(summary)]
    if lacking:
        yield 60 * len(lacking), lambda: _sentences(view, "Not in this log", lacking)


def _stages_hint(stages: pd.DataFrame) -> str:
    words = [
        f"{row['stage']} {row['status']}"
        + ("" if row["duration_s"] is None else f" in {row['text']}")
        for row in stages.to_dict("records")
    ]
    return f"{'; '.join(words).capitalize()}. More on their tab."


def _sentences(view: View, title: str, lines: Sequence[str]) -> None:
    with widgets.card(title, simulated=view.simulated):
        for line in lines:
            st.markdown(line)
