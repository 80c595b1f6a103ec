"""Compare: two to twelve runs side by side, the first is the baseline."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import streamlit as st
from pandas.io.formats.style import Styler

from dashboard import comparing, data, shown, widgets
from dashboard.charts.memory import budget_picture
from dashboard.palette import colour, darkened
from dashboard.run_controls import choose_several, report_button
from dashboard.text import kept_together, markdown, visible
from warmup_insights.analysis.compare import Comparison
from warmup_insights.analysis.compare import compare as compare_runs
from warmup_insights.analysis.sentences import count_text
from warmup_insights.export.comparison import bucket_sets_table, comparison_markdown
from warmup_insights.export.tables import MAX_CELL
from warmup_insights.model.summary import RunSummary

WATERFALLS = 4
_LONG_WORD = re.compile(r"\S{40,}")


def render() -> None:
    """Show the page."""
    st.title("Compare", anchor=False)
    if data.store().newest_change()[0] < 2:
        widgets.empty(
            "Two runs are needed",
            "Add some; the command line compares them, too:",
            "warmup-insights ingest a.log b.log\nwarmup-insights compare RUN RUN",
        )
        return
    chosen = choose_several(widgets.MOST_COMPARED)
    if len(chosen) < 2:
        widgets.empty(
            "Choose at least two runs",
            "Or tick them on the page **Runs**. The command line does the same:",
            "warmup-insights compare RUN RUN",
        )
        return
    runs = [data.store().run(run_id) for run_id in chosen]
    folded = [data.folded(run) for run in runs]
    summaries = [one.summary for one in folded]
    result = compare_runs(summaries, [one.rows for one in folded])
    for line in comparing.run_lines(result):
        st.caption(markdown(line))
    places = st.tabs(list(TABS), key="view", on_change="rerun", bind="query-params")
    for place, show in zip(places, TABS.values(), strict=True):
        if place.open:
            with place:
                show(result, summaries)


def _simulated(result: Comparison) -> str | None:
    return shown.how_synthetic([run.synthetic for run in result.runs])


def _figures(result: Comparison, summaries: Sequence[RunSummary]) -> None:
    full = st.toggle("Show figures that did not change", key="full")
    cells, verdicts = comparing.figures_table(result, summaries, full=full)
    made_up = [run for run in result.runs if run.synthetic]
    hint = "Every run against the first; ? is unknown: no line states it."
    if made_up:
        hint += f" {len(made_up)} of {len(result.runs)} are simulated or made up."
    with widgets.card(
        "Figures", hint, data=cells, key="figures", simulated=_simulated(result)
    ):
        for text in result.reasons:
            st.markdown(markdown(text))
        for note in result.notes:
            st.caption(markdown(note))
        cells = cells.map(kept_together).assign(figure=cells["figure"].map(markdown))
        cells.columns = verdicts.columns = [markdown(name) for name in cells.columns]
        _wrapped(cells.style.apply(_colours, verdicts=verdicts, axis=None))
    _settings(result)


def _wrapped(cells: pd.DataFrame | Styler) -> None:
    """A table of Markdown whose cells wrap: no column is cut in a narrow window."""
    st.table(cells, border="horizontal", hide_index=True)


def _colours(cells: pd.DataFrame, verdicts: pd.DataFrame) -> pd.DataFrame:
    """Better and worse, by an edge in colour as well as in words."""
    tones = {"better": colour("kv_cache"), "worse": colour("missed")}
    if widgets.is_dark():
        tones = {verdict: darkened(tone) for verdict, tone in tones.items()}
    styles = {
        verdict: f"box-shadow: inset 3px 0 {tone}; font-weight: 600"
        for verdict, tone in tones.items()
    }
    return verdicts.map(lambda verdict: styles.get(verdict, ""))


def _settings(result: Comparison) -> None:
    differing = comparing.settings_table(result)
    if differing.empty:
        widgets.empty("Settings", "No setting that both state differs.")
    else:
        hint = "Only these; 0.9 and 0.90, true and 1 count as the same."
        with widgets.card("Settings that differ", hint, data=differing, key="settings"):
            _wrapped(_settings_cells(differing))
    partly = comparing.settings_table(result, partly=True)
    if not partly.empty:
        count = count_text(len(partly), "setting")
        with st.expander(f"{count} that only some runs state"):
            _wrapped(_settings_cells(partly))


def _settings_cells(settings: pd.DataFrame) -> pd.DataFrame:
    """Settings as Markdown, each as far as `compare` prints it."""

    def cell(text: str) -> str:
        # A word that is too long for a column breaks at its commas.
        broken = _LONG_WORD.sub(lambda word: word[0].replace(",", ", "), text)
        return markdown(visible(broken, MAX_CELL))

    cells = settings.map(cell)
    return cells.rename(columns=markdown)


def _charts(result: Comparison, summaries: Sequence[RunSummary]) -> None:
    made_up = _simulated(result)
    phases = comparing.phases_picture(result, summaries)
    phases = replace(phases, hint=markdown(phases.hint))
    widgets.chart(phases, key="phases", simulated=made_up)
    widgets.table(
        comparing.gaps_frame(result), key="gaps",
        title="Unlogged time between the same lines",
        hint="Numbers and paths in a line make it no other line.",
    )  # fmt: skip
    memory = comparing.memory_picture(result)
    memory = replace(memory, hint=markdown(memory.hint))
    widgets.chart(memory, key="parts", simulated=made_up)
    _waterfalls(result, summaries)


def _waterfalls(result: Comparison, summaries: Sequence[RunSummary]) -> None:
    names = map(markdown, comparing.run_names(result))
    known = [
        (summary, replace(budget, title=f"Memory of {name}"))
        for name, summary in zip(names, summaries, strict=True)
        if len((budget := budget_picture(summary)).frame)
    ]
    if len(known) < 2:
        return
    if len(known) > WATERFALLS:
        st.caption(f"Single budgets of the first {WATERFALLS} of {len(known)} runs:")
    columns = st.columns(2)
    for number, (summary, budget) in enumerate(known[:WATERFALLS]):
        with columns[number % 2]:
            widgets.chart(
                budget,
                key=f"waterfall-{summary.run_id}",
                simulated=shown.provenance(summary),
            )


def _buckets(result: Comparison, _: Sequence[RunSummary]) -> None:
    counts = shown.frame_of(bucket_sets_table(result))
    widgets.table(
        counts, key="bucket-sets", title="Bucket sets",
        hint="Against the first run: which buckets came and went, which gained or "
        "lost a graph, and which changed their cost by more than a tenth: slower or faster, "
        "and larger or smaller in memory.",
        simulated=_simulated(result),
    )  # fmt: skip
    changes = comparing.bucket_changes(result)
    widgets.table(
        changes, key="bucket-changes", title=f"{len(changes):,} buckets that changed",
        hint="What happened to each, and what it took before and after.",
        simulated=_simulated(result),
    )  # fmt: skip
    misses = comparing.misses_table(result)
    if counts.empty and misses.empty:
        widgets.empty("No buckets", "None of these runs lists buckets or misses.")
    widgets.table(
        misses, key="misses", title="Bucket misses",
        hint="Shapes without a bucket, and how often they came in each run.",
    )  # fmt: skip


def _markdown(result: Comparison, _: Sequence[RunSummary]) -> None:
    text = comparison_markdown(result)
    with widgets.card(
        "Copy as Markdown",
        "Fit for a pull request; `warmup-insights compare --markdown` prints the same.",
    ):
        st.code(text, language=None, height=420)
        widgets.download(
            "Markdown", text, "compare.md", "text/markdown", key="markdown"
        )
        report_button([data.store().run(r.run_id) for r in result.runs], "report")


TABS = {
    "Figures": _figures, "Time and memory": _charts,
    "Buckets and misses": _buckets, "Markdown": _markdown,
}  # fmt: skip

with widgets.guarded():
    render()
