"""`compare` on the command line."""

from __future__ import annotations

import json

import pytest

from tests.analysis.builders import config, start_up
from tests.cli.decisions import invoke, simulated_run, store_run
from warmup_insights.analysis.compare import compare
from warmup_insights.errors import InputError, StoreError
from warmup_insights.storage import EventStore


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("compare") / "runs.db"
    simulated_run(path, "aaa111", "base")
    simulated_run(path, "bbb222", "more", graph_reserved_mem=0.6)
    return path


def test_the_table_shows_what_differs(db):
    result = invoke("compare", "base", "more", "--db", db)
    assert result.exit_code == 0
    assert "VLLM_GRAPH_RESERVED_MEM" in result.stdout
    assert "VLLM_GRAPH_PROMPT_RATIO" not in result.stdout
    assert "-506 (-33.3 %) worse" in result.stdout
    assert "graph gained" in result.stdout


def test_a_long_setting_is_shown_from_where_it_differs(tmp_path):
    path = tmp_path / "runs.db"
    for run, mode in (("aaa111", "FULL"), ("bbb222", "PIECEWISE")):
        long = f"{{'ops': {list(range(200))}, 'cudagraph_mode': '{mode}'}}"
        store_run(path, run, [*start_up(), config(compilation_config=long)], label=run)
    text = invoke("compare", "aaa111", "bbb222", "--db", path, "--markdown").stdout
    (row,) = [
        line for line in text.splitlines() if "compilation" in line and "mode" in line
    ]
    assert "FULL" in row
    assert "PIECEWISE" in row
    assert "'ops'" not in row


def test_json_is_the_analysis(db):
    """The page of the dashboard calls the same function: nothing is added or lost."""
    result = invoke("compare", "aaa111", "bbb222", "--db", db, "--json")
    with EventStore(db) as store:
        ids = ("aaa111", "bbb222")
        made = compare(
            [store.summary(run) for run in ids],
            [store.bucket_summaries(run) for run in ids],
        )
    assert json.loads(result.stdout) == json.loads(json.dumps(made.as_dict()))


def test_markdown_fits_a_pull_request(db):
    result = invoke("compare", "base", "more", "--db", db, "--markdown")
    lines = result.stdout.splitlines()
    assert lines[0] == "## Warm-up: base against more"
    tables = [line for line in lines if line.startswith("|")]
    assert len(tables) > 20
    assert all(line.endswith("|") for line in tables)
    assert "\x1b" not in result.stdout


def test_unchanged_figures_are_hidden_without_full(db):
    assert (
        "weights"
        not in invoke("compare", "base", "more", "--db", db).stdout.split(
            "Memory budget"
        )[0]
    )
    full = invoke("compare", "base", "more", "--db", db, "--full").stdout
    assert "weights" in full.split("Memory budget")[0]


def test_text_from_logs_is_harmless(tmp_path):
    db = tmp_path / "x.db"
    hostile = "[red]\x1b[31m|<script>`"
    store_run(db, "aaa", start_up(config(name=hostile)), label=hostile)
    store_run(db, "bbb", start_up(config(name="x")), label="b")
    text = invoke("compare", "aaa", "bbb", "--db", db).stdout
    assert "\x1b" not in text
    assert "[red]" in text
    markdown = invoke("compare", "aaa", "bbb", "--db", db, "--markdown").stdout
    assert "<script>" not in markdown
    assert "\\|\\<script\\>" in markdown


def test_wrong_input_is_one_sentence(db, tmp_path):
    assert isinstance(invoke("compare", "base", "--db", db).exception, InputError)
    missing = invoke("compare", "base", "nothing", "--db", db).exception
    assert isinstance(missing, StoreError)
    assert "There is no run 'nothing'" in str(missing)
    assert invoke("compare", "--db", db).exit_code == 2
    assert (
        invoke("compare", "base", "more", "--db", db, "--json", "--markdown").exit_code
        == 2
    )
    nowhere = invoke("compare", "base", "more", "--db", tmp_path / "no.db").exception
    assert isinstance(nowhere, StoreError)


def test_a_goal_names_one_of_the_runs(db):
    result = invoke("compare", "base", "more", "--db", db, "--goal", "captured")
    assert "Pick for most captured" in result.stdout
    found = json.loads(
        invoke(
            "compare", "base", "more", "--db", db, "--goal", "captured", "--json"
        ).stdout
    )["pick"]
    assert found["run_id"] == "aaa111"  # 87.5 % against 91.7 %: within the tolerance
    assert list(found["settings"]) == ["VLLM_GRAPH_RESERVED_MEM"]


def test_no_run_is_chosen_between_two_models(db, tmp_path):
    store_run(db, "ccc333", start_up(model="another/model"))
    result = invoke("compare", "base", "ccc333", "--db", db, "--goal", "requests")
    assert isinstance(result.exception, InputError)
    assert "one model on one kind of device; the models differ" in str(result.exception)
