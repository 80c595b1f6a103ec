"""How serving ended stands beside the status of the start, wherever that is shown."""

from __future__ import annotations

import json

import pytest

from dashboard.charts.runs import runs_frame, runs_table
from dashboard.palette import SERVING_COLOURS
from dashboard.report import report_html
from tests.cli.decisions import invoke, store_run
from tests.dashboard.test_pages import open_page
from warmup_insights.analysis.sentences import serving_words
from warmup_insights.export.runs import RunWithLines
from warmup_insights.model.events import (
    Failure,
    RunStarted,
    ServerReady,
    ServingFailure,
    ShutdownRequested,
)
from warmup_insights.storage import EventStore
from warmup_insights.testing import folded

START = [RunStarted(time=1.0, engine="vllm"), ServerReady(time=61.0)]
OUT = ServingFailure(failure="out_of_memory", message="CUDA out of memory", time=99.0)


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "runs.db"
    store_run(path, "a" * 12, [*START, OUT], label="broken")
    store_run(path, "b" * 12, START, label="serving")
    return path


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([*START, OUT], "out of memory"),
        ([*START, ServingFailure(failure="killed", message="exit -9")], "killed"),
        ([*START, Failure(failure="error", message="ValueError")], "failed"),
        ([*START, ShutdownRequested(message="SIGTERM")], "stopped"),
        ([*START, ShutdownRequested(message="SIGTERM", in_start=True)], "stopped"),
        ([START[0], ShutdownRequested(message="SIGTERM")], None),
        (START, None),
    ],
)
def test_the_end_of_serving_is_a_word_or_two(events, words):
    """An order to stop counts where a line states that the server was ready."""
    assert serving_words(folded(events).summary) == words
    assert words is None or words in SERVING_COLOURS


def test_no_colour_of_an_end_is_that_of_a_start_that_finished():
    assert "green" not in SERVING_COLOURS.values()


def test_the_list_has_a_column_for_it_where_serving_ended(db, tmp_path):
    lines = invoke("runs", "--db", db).output.splitlines()
    assert "serving ended" in lines[0]
    broken = next(line for line in lines if "broken" in line)
    assert broken.split()[1:6] == ["broken", "finished", "out", "of", "memory"]
    rows = json.loads(invoke("runs", "--db", db, "--json").output)["runs"]
    ends = {row["label"]: row["serving_end"] for row in rows}
    assert ends == {"broken": "out of memory", "serving": None}
    store_run(tmp_path / "b.db", "b" * 12, START)
    assert "serving ended" not in invoke("runs", "--db", tmp_path / "b.db").output


def test_a_run_and_a_comparison_have_it_beside_the_status(db):
    assert (
        "finished   serving: out of memory"
        in invoke("show", "broken", "--db", db).output
    )
    compared = invoke("compare", "broken", "serving", "--db", db)
    assert "finished, serving: out of memory" in compared.output


def test_the_page_of_runs_has_it_behind_the_status_and_above_other_runs(db):
    with EventStore(db) as store:
        rows = runs_frame(store.run_table())
        table = runs_table(rows, store.summaries(list(rows["run_id"])))
    assert list(table["status"]) == [
        ["finished", "serving: out of memory"], ["finished"],
    ]  # fmt: skip


def test_a_run_page_has_a_badge_for_it(db, monkeypatch):
    app = open_page(monkeypatch, db, "run", run="broken")
    badges = [each.value for each in app.markdown if "-badge[" in each.value]
    assert ":red-badge[serving: out of memory]" in badges
    assert ":gray-badge[finished]" in badges


def test_a_report_has_a_badge_for_it():
    page = report_html([RunWithLines(folded([*START, OUT]))])
    assert '<span class="badge failed">serving: out of memory</span>' in page


def test_metrics_have_it_beside_the_status(db):
    lines = invoke("export", "--format", "prometheus", "--db", db).stdout.splitlines()
    (end,) = [line for line in lines if line.startswith("vllm_startup_serving_end{")]
    assert 'label="broken"' in end
    assert end.endswith('how="out of memory"} 1')
