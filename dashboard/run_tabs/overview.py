"""The figures at a glance, and what stands out."""

from __future__ import annotations

from collections.abc import Callable

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from dashboard import data, shown, widgets
from dashboard.charts.base import bars_height
from dashboard.charts.buckets import map_height, of_phase, phases_in_order
from dashboard.charts.memory import BUDGET_HINTS, budget_frame, budget_waterfall
from dashboard.charts.steps import capture_bars, capture_frame, stage_bars, stages_frame
from dashboard.charts.time import phase_bars, phase_totals, phases_frame
from dashboard.run_tabs import advice
from dashboard.run_tabs.coverage import coverage_chart
from dashboard.run_tabs.view import View
from dashboard.text import markdown, sentence
from warmup_insights.analysis.oddities import lacks, oddities
from warmup_insights.analysis.sentences import (
    contradiction_sentence,
    serving_sentences,
)
from warmup_insights.model.summary import RunSummary

TITLE = "Overview"


def has_content(summary: RunSummary) -> bool:
    """Every run has one."""
    return True


def show(view: View) -> None:
    """Contradictions, advice, then what the start did, then what serving did."""
    _contradictions(view.summary)
    if view.summary.failure is None:
        advice.first(view)
    cards = _cards(view)
    columns = _Columns()
    for number, (height, draw) in enumerate(cards):
        if number == 1 and widgets.comes_later("rest-of-overview"):
            return
        with columns.next(FRAME_PX + height):
            draw(view)
    serving = serving_sentences(view.summary)
    if serving:
        with widgets.card("After the start", simulated=view.simulated):
            for text in serving:
                st.markdown(markdown(text, 500))


def _cards(view: View) -> list[tuple[int, Callable[[View], None]]]:
    """The cards that have something to show, with the height of what is in them."""
    buckets = data.buckets(view.run)
    maps = [
        (_map_height(of_phase(buckets, phase)), _coverage(buckets, phase))
        for phase in phases_in_order(buckets)
    ]
    others: list[tuple[int, Callable[[View], None]]] = [
        (_steps_height(view), _memory),
        (_captures_height(view), _captures),
        (_phases_height(view), _time),
        (_stages_height(view), _stages),
        (36 * len(_odd(view.summary)), _oddities),
        (60 * len(lacks(view.summary)), _lacks),
    ]
    return [*maps, *(card for card in others if card[0])]


def _coverage(buckets: pd.DataFrame, phase: str) -> Callable[[View], None]:
    return lambda view: coverage_chart(view, buckets, phase)


class _Columns:
    """Two columns that grow evenly: the next card goes into the shorter one."""

    def __init__(self) -> None:
        self._places = st.columns(2)
        self._heights = [0, 0]

    def next(self, height: int) -> DeltaGenerator:
        """Where a card of so many pixels goes."""
        shorter = self._heights.index(min(self._heights))
        self._heights[shorter] += height
        return self._places[shorter]


FRAME_PX = 110
"""Title, hint and edges of a card."""


def _map_height(rows: pd.DataFrame) -> int:
    sizes = len({bucket[0] for bucket in rows["bucket"]})
    return map_height(sizes)


def _steps_height(view: View) -> int:
    steps = budget_frame(view.summary)
    return bars_height(len(steps)) if len(steps) else 0


def _captures_height(view: View) -> int:
    captures = capture_frame(view.summary)
    return 100 + 86 * captures["phase"].nunique() if len(captures) else 0


def _stages_height(view: View) -> int:
    stages = stages_frame(view.summary)
    return bars_height(len(stages)) if len(stages) else 0


def _phases_height(view: View) -> int:
    phases = phases_frame(view.summary)
    return bars_height(phases["name"].nunique()) if len(phases) else 0


def _contradictions(summary: RunSummary) -> None:
    """Evidence that breaks a law of every run, before anything that is built on it."""
    if summary.contradictions:
        found = [contradiction_sentence(broken) for broken in summary.contradictions]
        lines = "\n".join(f"- {markdown(sentence, 600)}" for sentence in found)
        st.warning(
            "**Contradictory evidence.** Figures from it are marked, and no advice, "
            f"plan or check is built on them.\n\n{lines}",
            icon=":material/rule:",
        )


def _odd(summary: RunSummary) -> list[str]:
    """What a person should look at, without the contradictions."""
    known = {contradiction_sentence(broken) for broken in summary.contradictions}
    return [sentence for sentence in oddities(summary) if sentence not in known]


def _oddities(view: View) -> None:
    found = _odd(view.summary)
    with widgets.card("What stands out", simulated=view.simulated):
        for text in found:
            st.markdown(f"- {markdown(text, 500)}")


def _lacks(view: View) -> None:
    with widgets.card("Not in this log", simulated=view.simulated):
        for text in lacks(view.summary):
            st.markdown(f"- {sentence(text, 500)}")


def _memory(view: View) -> None:
    steps = budget_frame(view.summary)
    widgets.chart(
        budget_waterfall(steps, dark=view.dark), steps,
        key=view.key("budget"), title="Memory budget",
        hint=BUDGET_HINTS[bool(view.summary.memory_or_none.parts)],
        simulated=view.simulated,
    )  # fmt: skip


def _captures(view: View) -> None:
    captures = capture_frame(view.summary)
    widgets.chart(
        capture_bars(captures, dark=view.dark),
        captures,
        key=view.key("captures"),
        title="Warmed and captured",
        hint="Shares of the generated buckets. What a log reports as captured can be "
        "more than its lines support.",
        simulated=view.simulated,
    )


def _stages(view: View) -> None:
    stages = stages_frame(view.summary)
    words = [
        f"{row['stage']} {row['status']}"
        + ("" if row["duration_s"] is None else f" in {row['text']}")
        for row in stages.to_dict("records")
    ]
    widgets.chart(
        stage_bars(stages, dark=view.dark),
        stages,
        key=view.key("stages"),
        title="Sampler and defragmenter warm-up",
        hint=f"{'; '.join(words).capitalize()}. More on their tab.",
        simulated=view.simulated,
    )


def _time(view: View) -> None:
    totals = phase_totals(phases_frame(view.summary))
    widgets.chart(
        phase_bars(totals, dark=view.dark),
        totals,
        key=view.key("phases"),
        title="Where the time went",
        hint=f"{shown.text(view.summary, 'wall_s')} in all; unlogged time is hatched.",
        simulated=view.simulated,
    )
