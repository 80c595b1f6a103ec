"""`export`: a run as a file."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.analysis_decisions.builders import config, start_up
from tests.cli.decisions import invoke, simulated_run, store_run
from warmup_insights.analysis.figures import FIGURES
from warmup_insights.errors import InputError
from warmup_insights.export.baseline import read_run_json
from warmup_insights.export.tables import csv_text, make_table, markdown_table, plain
from warmup_insights.storage import EventStore


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "runs.db"
    simulated_run(path, "aaa111", "base")
    return path


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_json_reads_back_as_the_stored_run(db, tmp_path):
    path = tmp_path / "run.json"
    assert invoke("export", "base", "--db", db, "-o", path).exit_code == 0
    summary, rows = read_run_json(path)
    with EventStore(db) as store:
        assert summary == store.summary("aaa111")
        assert rows == store.bucket_summaries("aaa111")
    assert json.loads(path.read_text())["format"] == "warmup-insights-run"


def test_csv_has_every_figure_and_no_zero_for_unknown(db):
    rows = rows_of(invoke("export", "base", "--db", db, "--format", "csv").stdout)
    names = [row["figure"] for row in rows]
    assert names[: len(FIGURES)] == [figure.name for figure in FIGURES]
    assert "phase:prompt_graphs" in names
    values = {row["figure"]: row["value"] for row in rows}
    assert values["num_kv_blocks"] == "1519"
    assert values["graph_estimated_bytes"] == ""


def test_csv_of_buckets(db):
    rows = rows_of(
        invoke("export", "base", "--db", db, "--format", "buckets-csv").stdout
    )
    assert len(rows) == 72
    assert sum(row["captured"] == "1" for row in rows) == 63
    assert {row["d2"] for row in rows} == {""}
    assert all(float(row["duration_s"]) > 0 for row in rows)


def test_markdown_names_what_is_simulated(db):
    text = invoke("export", "base", "--db", db, "--format", "markdown").stdout
    assert text.startswith("## base (aaa111)")
    assert "the figures come from a simulation" in text
    assert "Costliest buckets" in text


def test_files_are_not_overwritten(db, tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("mine")
    result = invoke("export", "base", "--db", db, "--format", "csv", "-o", path)
    assert isinstance(result.exception, InputError)
    assert path.read_text() == "mine"
    folder = invoke("export", "base", "--db", db, "-o", tmp_path / "no" / "x.json")
    assert "cannot be written" in str(folder.exception)


def test_formulas_do_not_reach_a_spreadsheet():
    text = csv_text(("a", "b"), [["=cmd()", None], ["@x", -3]])
    assert text == "a,b\n'=cmd(),\n'@x,-3\n"


def test_cells_are_one_line_without_control_characters():
    assert plain("a\n\tb\x1b[31m") == "a b\N{REPLACEMENT CHARACTER}[31m"
    assert plain("x" * 1000).endswith("\N{HORIZONTAL ELLIPSIS}")
    assert plain("\u202eabc") == "\N{REPLACEMENT CHARACTER}abc"


def test_markdown_cells_are_escaped():
    table = make_table("T|", ("a_b",), [("x|y",), ("`z`",)], note="n*")
    assert markdown_table(table) == (
        "### T\\|\n\n| a\\_b |\n| --- |\n| x\\|y |\n| \\`z\\` |\n\nn\\*\n"
    )


def test_a_run_that_is_still_going_on_has_its_buckets(tmp_path):
    """Its summary is made when it is asked for; so are its rows."""
    from warmup_insights.model.run import RunRecord

    db = tmp_path / "x.db"
    with EventStore(db) as store, store.begin() as transaction:
        transaction.add_run(RunRecord(run_id="live"))
        transaction.append("live", start_up(config(a=1))[:5])
    rows = rows_of(
        invoke("export", "live", "--db", db, "--format", "buckets-csv").stdout
    )
    assert len(rows) == 6


def test_unknown_runs_are_refused(db):
    assert "There is no run" in str(invoke("export", "zzz", "--db", db).exception)
    store_run(db, "bbb222", start_up(), label="other")
    assert invoke("export", "other", "--db", db).exit_code == 0
