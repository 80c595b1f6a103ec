"""Every command shows the figures of the table: for every sample, and every real log."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner

from tests.helpers import REAL_LOGS, ROOT, public
from warmup_insights.analysis.compare import compare
from warmup_insights.analysis.sentences import SHORTEST_S
from warmup_insights.cli import cli
from warmup_insights.ingest.many import ingest_files
from warmup_insights.ingest.outcome import Options
from warmup_insights.model.figures import BY_NAME, all_figures
from warmup_insights.runs import current
from warmup_insights.storage import EventStore

LISTED = {
    "wall_s": "wall_s", "warmup_s": "warmup_s", "capture_percent": "captured_percent",
    "num_kv_blocks": "num_kv_blocks", "missed": "misses",
}  # fmt: skip
"""Columns of `runs --json` to the figures in them."""
SHOWN = (
    "wall_s", "warmup_s", "gc_s", "total_bytes", "num_kv_blocks", "prompt_generated",
    "decode_graph_used_bytes", "graphs_captured", "sampler_s", "defrag_s",
)  # fmt: skip
"""Figures that `show` has wherever their section is."""


@pytest.fixture(
    scope="module", params=["samples", pytest.param("real", marks=pytest.mark.long)]
)
def db(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("figures") / "runs.db"
    logs = [
        str(log)
        for folder in [REAL_LOGS if request.param == "real" else ROOT / "sample_logs"]
        for log in sorted(folder.rglob("*"))
        if log.is_file() and log.suffix not in (".md", ".txt")
    ]
    with EventStore(path) as store:
        ingest_files(store, logs, Options(year=2026))
    return path


@pytest.fixture(scope="module")
def folded(db):
    with EventStore(db, read_only=True) as store:
        return [current(store, run) for run in store.runs()]


def output(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)), env={"COLUMNS": "400"})
    assert result.exit_code == 0, (arguments, result.output, result.exception)
    return result.stdout


def test_the_list_of_runs_has_the_figures_of_the_table(db, folded):
    rows = json.loads(output("runs", "--json", "--db", db, "--limit", 1000))["runs"]
    by_id = {row["run_id"]: row for row in rows}
    assert len(by_id) == len(folded)
    for run in folded:
        row = by_id[run.summary.run_id]
        for column, name in LISTED.items():
            assert row[column] == BY_NAME[name].read(run.summary), (row, name)


def test_show_prints_the_summary_and_the_rows(db, folded):
    for run in folded:
        run_id = run.summary.run_id
        shown = json.loads(output("show", run_id, "--json", "--buckets", "--db", db))
        assert shown.pop("bucket_rows") == public(run.rows)
        assert shown == public(run.summary)


def test_show_has_the_figures_of_the_table_as_text(db, folded):
    for run in folded:
        text = output("show", run.summary.run_id, "--db", db)
        for name in SHOWN:
            value = BY_NAME[name].read(run.summary)
            is_shown = name != "wall_s" or (value or 0.0) >= SHORTEST_S
            if value is not None and is_shown:
                assert BY_NAME[name].text(run.summary) in text, (name, text)
        for part in run.summary.memory_or_none.parts:
            assert part.label in text


def test_exports_have_the_figures_of_the_table(db, folded):
    for run in folded:
        run_id = run.summary.run_id
        text = output("export", run_id, "--format", "csv", "--db", db)
        values = {
            row["figure"]: row["value"] for row in csv.DictReader(io.StringIO(text))
        }
        for figure in all_figures([run.summary]):
            value = figure.read(run.summary)
            assert values[figure.name] == ("" if value is None else str(value))
        markdown = output("export", run_id, "--format", "markdown", "--db", db)
        for figure in all_figures([run.summary]):
            if figure.read(run.summary) is not None and figure.group != "serving":
                assert f"| {figure.title} | {figure.text(run.summary)} |" in markdown


def test_comparisons_have_the_figures_of_the_table(db, folded):
    for other in folded[1:]:
        first = folded[0]
        pair = (first.summary, other.summary)
        result = compare(pair, (first.rows, other.rows))
        figures = {figure.name: figure for figure in all_figures(pair)}
        for row in result.figures:
            assert row.values == tuple(figures[row.name].read(run) for run in pair)
        for memory, run in zip(result.memory, pair, strict=True):
            assert list(memory) == run.memory_or_none.parts
