"""Every figure on every page equals the one of the table, for every sample and log."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from msgspec import structs
from streamlit.testing.v1 import AppTest

from dashboard import configurations, shown
from dashboard.charts.runs import doubtful
from dashboard.run_tabs import TABS
from dashboard.text import markdown
from tests.dashboard.builders import GIB, add_run, recorded_events
from tests.dashboard.conftest import ROOT
from tests.dashboard.test_pages import open_page, texts
from tests.helpers import REAL_LOGS
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import (
    EngineInitialized,
    MemoryBudgetSet,
    Note,
    RecipeCompiled,
    WarmupStep,
)
from warmup_insights.model.figures import (
    BY_NAME,
    FIGURES,
    all_figures,
    contradictory,
    text_of,
)
from warmup_insights.model.summary import RunSummary
from warmup_insights.runs import current
from warmup_insights.storage import EventStore
from warmup_insights.storage.rows import COLUMNS

BY_LABEL = {shown.label(figure.name): figure for figure in FIGURES}
NO_FIGURES = {
    "Batch sizes", "Configurations", "Thresholds", "Ran while serving",
    "Garbage collector", "Log", "Size", "Lines", "Events", "Not understood",
}  # fmt: skip
"""Headlines that are fields of the summary or counts of a source."""
DOUBTFUL = "d" * 12
NUM_SAMPLES = len(list(find_files([str(ROOT / "sample_logs")])))


def doubtful_events() -> Iterator[object]:
    """A start-up with a share of the device that is larger than the device."""
    for event in recorded_events():
        if isinstance(event, MemoryBudgetSet):
            event = structs.replace(event, usable_bytes=130 * GIB)
        if isinstance(event, WarmupStep):
            event = structs.replace(event, gc_s=0.25, compiled=event.index)
        yield event
        if isinstance(event, WarmupStep):
            yield RecipeCompiled(
                recipe=f"{event.phase}_{event.index}", duration_s=0.25, time=event.time,
                phase=event.phase, bucket=event.bucket,
            )  # fmt: skip
        if isinstance(event, WarmupStep) and event.index == 1:
            yield EngineInitialized(duration_s=30.0, compile_s=11.0, time=event.time)
            values = {"duration_s": 0.8}
            yield Note(topic="gc_freeze", text="frozen", values=values, time=event.time)


@pytest.fixture(
    scope="module", params=["some", pytest.param("all", marks=pytest.mark.long)]
)
def known(request, tmp_path_factory):
    """The database, and the summary of every run in it by its id."""
    path = tmp_path_factory.mktemp("every") / "runs.db"
    logs = list(find_files([str(ROOT / "sample_logs")]))
    logs += [str(log) for log in sorted(REAL_LOGS.glob("*.log"))]
    if request.param == "some":
        logs = logs[:NUM_SAMPLES:4]
    with EventStore(path) as store:
        for log in logs:
            ingest_path(store, log, Options())
        add_run(store, DOUBTFUL, doubtful_events(), label="doubtful")
        return path, {r.run_id: current(store, r).summary for r in store.runs()}


def check_headlines(app: AppTest, summary: RunSummary) -> int:
    """Compare every headline figure; how many there are."""
    count = 0
    for metric in app.metric:
        if metric.label in NO_FIGURES:
            continue
        figure = BY_LABEL[metric.label]
        assert metric.value.replace("\\", "") == figure.text(summary), metric.label
        is_marked = metric.delta.startswith(shown.MARK)
        assert is_marked == (figure.name in contradictory(summary)), metric.label
        count += 1
    return count


def drawn_texts(app: AppTest) -> list[str]:
    """What is written beside the bars of the page's charts."""
    traces = [
        t for c in app.get("plotly_chart") for t in json.loads(c.proto.spec)["data"]
    ]
    return [text for trace in traces for text in trace.get("text") or [] if text]


def show_tab(app: AppTest, run_id: str, title: str) -> None:
    """Open a tab of a run."""
    app.query_params["run"] = run_id
    app.query_params["tab"] = app.session_state["tab"] = title
    app.run()
    assert not app.exception, (run_id, title)


def overview(app: AppTest, summary: RunSummary) -> None:
    warned = any("Contradictory evidence" in w.value for w in app.warning)
    assert warned == bool(summary.contradictions)
    drawn = drawn_texts(app)
    memory = summary.memory_or_none
    is_less = any(part.name == "unused" for part in memory.parts)
    cache = "kv_cache_allocated_bytes" if is_less else "kv_cache_bytes"
    names = ["total_bytes", *([cache] if memory.kv_cache_bytes else [])]
    for name in names if memory.parts else []:
        assert text_of(summary, name) in drawn, name
    if summary.sampler is not None and summary.sampler.duration_s is not None:
        assert text_of(summary, "sampler_s") in drawn


def timeline(app: AppTest, summary: RunSummary) -> None:
    names = ("engine_init_s", "compile_s", "gc_s", "gc_freeze_s", "unlogged_s")
    labels = {metric.label for metric in app.metric}
    for name in names:
        value = BY_NAME[name].read(summary)
        is_shown = value is not None and (name != "unlogged_s" or value > 0)
        assert (shown.label(name) in labels) == is_shown, name


def buckets(app: AppTest, summary: RunSummary) -> None:
    phase = "prompt" if summary.phase("prompt").steps_s is not None else None
    for name in ("steps_s", "gc_s", "compiled") if phase else ():
        if BY_NAME[f"{phase}_{name}"].read(summary) is not None:
            assert text_of(summary, f"{phase}_{name}") in texts(app)


def graph_memory(app: AppTest, summary: RunSummary) -> None:
    drawn = drawn_texts(app)
    names = ["graph_reserved_bytes", "graph_memory_bytes"]
    names += [f"{phase}_graph_{key}_bytes" for phase in summary.buckets or {}
              for key in ("budget", "used")]  # fmt: skip
    for name in names:
        if BY_NAME[name].read(summary) is not None:
            assert text_of(summary, name) in drawn, name


def capture(app: AppTest, summary: RunSummary) -> None:
    written = [line.value for line in app.markdown]
    for phase, part in (summary.buckets or {}).items():
        if part.captured is not None and part.generated is not None:
            share = text_of(summary, f"{phase}_capture_percent")
            assert any(share in line for line in written), phase


CHECKS = {
    "Overview": overview, "Timeline": timeline, "Buckets": buckets,
    "Graph memory": graph_memory, "Capture": capture, "Graphs by size": None,
    "Sampler and defragmenter": None,
}  # fmt: skip
"""What a tab shows besides headlines, by its title."""


@pytest.mark.long
def test_every_tab_of_every_run(monkeypatch, known):
    database, summaries = known
    app = open_page(monkeypatch, database, "run", run=DOUBTFUL)
    count = 0
    for run_id, summary in summaries.items():
        for tab in TABS:
            if tab.title in CHECKS and tab.has_content(summary):
                show_tab(app, run_id, tab.title)
                count += check_headlines(app, summary)
                check = CHECKS[tab.title]
                if check is not None:
                    check(app, summary)
    assert count > 5 * len(summaries)


def test_the_list_of_runs(monkeypatch, known):
    database, summaries = known
    app = open_page(monkeypatch, database, "runs")
    table = app.dataframe[0].value
    assert len(table) == len(summaries)
    for row in table.to_dict("records"):
        summary = summaries[row["run_id"]]
        for column in (
            "ready_s", "warmup_s", "captured_percent", "kv_cache_tokens",
            "max_concurrency", "num_kv_blocks", "missed",
        ):  # fmt: skip
            figure = BY_NAME["misses" if column == "missed" else column]
            value = figure.read(summary)
            shown = row.get(column)  # a column that is empty for all is left out
            unknown = shown is None or shown != shown
            assert (None if unknown else shown) == value, (row["name"], column)
        doubted = [n for n in COLUMNS.values() if n in contradictory(summary)]
        marked = row.get("doubtful")
        written = marked if isinstance(marked, str) else None
        assert written == doubtful(doubted)


def test_the_comparison(monkeypatch, known):
    """Cells begin with the figure's text, and are marked like it."""
    database, summaries = known
    others = [i for i, s in summaries.items() if s.memory and s.buckets][:3]
    ids = [DOUBTFUL, *(i for i in others if i != DOUBTFUL)]
    app = open_page(monkeypatch, database, "compare", run=ids)
    app.toggle[0].set_value(True).run()
    compared = [summaries[run_id] for run_id in ids]
    titles = {markdown(figure.title): figure for figure in all_figures(compared)}
    cells = app.table[0].value.map(lambda cell: cell.replace("\u00a0", " "))
    marked = 0
    for row in cells.to_dict("records"):
        figure = titles[row["figure"]]
        for summary, column in zip(compared, cells.columns[1:], strict=True):
            text = figure.text(summary)
            assert row[column].startswith(text), (figure.name, column)
            assert (shown.MARK in row[column]) == (shown.MARK in text)
            marked += shown.MARK in row[column]
    assert len(cells) > 15
    assert marked


def test_the_memory_configurations(monkeypatch, known):
    database, summaries = known
    app = open_page(monkeypatch, database, "memory")
    rows = app.dataframe[0].value
    assert len(rows)
    for row in rows.to_dict("records"):
        for name in configurations.FIGURES:
            value = BY_NAME[name].read(summaries[row["run_id"]])
            if value is not None and name.endswith("_bytes"):
                value /= 2**30
            shown_value = row.get(name)
            assert (shown_value if shown_value == shown_value else None) == value
