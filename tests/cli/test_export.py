"""`export`: a run as a file."""

from __future__ import annotations

import csv
import io
import json

import pytest

from tests.analysis.builders import config, contradicting, start_up, summary_of
from tests.cli.decisions import invoke, simulated_run, store_run
from tests.helpers import ROOT
from warmup_insights.errors import InputError
from warmup_insights.export.runs import (
    figures_csv,
    read_run_json,
    run_json,
    run_markdown,
)
from warmup_insights.export.tables import csv_text, make_table, markdown_table, plain
from warmup_insights.model.figures import FIGURES
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


def test_a_file_of_an_older_version_reads_with_what_it_lacks_unknown(tmp_path):
    """Keys that came later are unknown, keys without a reader are left out."""
    summary = {
        "schema": 1, "run_id": "old", "source": {"kind": "log", "name": "x.log"},
        "status": "finished", "time": {"wall_s": 12.5, "gone": True},
        "buckets": {"prompt": {"generated": 1, "buckets": [[1, 128]]}},
    }  # fmt: skip
    rows = [{"phase": "prompt", "bucket": [1, 128], "duration_s": 3}]
    for content in ({"summary": summary, "bucket_rows": rows},
                    {**summary, "bucket_rows": rows}):  # fmt: skip
        path = tmp_path / "old.json"
        path.write_text(json.dumps(content))
        read, (row,) = read_run_json(path)
        assert (read.time.wall_s, read.time.warmup_s, read.gc) == (12.5, None, None)
        assert read.phase("prompt").buckets == [(1, 128)]
        assert (row.bucket, row.duration_s, row.run) == ((1, 128), 3.0, None)


def test_contradictions_are_in_every_format():
    summary = contradicting(summary_of(start_up()), "warmup_s")
    sentence = "One is the other, but the evidence differs: a; b."
    (row,) = [
        r for r in rows_of(figures_csv(summary)) if r["figure"] == "contradiction"
    ]
    assert row["value"] == sentence
    assert sentence in run_markdown(summary, [])
    assert json.loads(run_json(summary, []))["summary"]["contradictions"]


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
    assert "the figures come from a simulated device" in text
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
        transaction.ensure_run(RunRecord(run_id="live"))
        transaction.append("live", start_up(config(a=1))[:5])
    rows = rows_of(
        invoke("export", "live", "--db", db, "--format", "buckets-csv").stdout
    )
    assert len(rows) == 6


def test_unknown_runs_are_refused(db):
    assert "There is no run" in str(invoke("export", "zzz", "--db", db).exception)
    store_run(db, "bbb222", start_up(), label="other")
    assert invoke("export", "other", "--db", db).exit_code == 0


def test_markdown_begins_with_what_became_of_the_start():
    log = ROOT / "sample_logs" / "vllm" / "made_v1_negative_kv_cache.log"
    text = invoke("export", log, "--format", "markdown").stdout
    assert text.splitlines()[2].startswith(
        "Failed after 2 min 11 s: no room for the KV"
    )
    assert "| failure | no room for the KV cache: ValueError" in text
