"""`check` on the command line: exit codes, baselines, files."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree as ET

import pytest

from tests.analysis.builders import start_up
from tests.cli.decisions import invoke, simulated_run, store_run
from tests.helpers import ROOT
from warmup_insights.cli import main
from warmup_insights.errors import InputError, SettingError, StoreError


@pytest.fixture
def db(tmp_path):
    path = tmp_path / "runs.db"
    store_run(path, "old1", start_up(seconds=50.0, time=999990.0), label="main")
    store_run(path, "old2", start_up(seconds=60.0, time=999991.0), label="main")
    store_run(path, "new1", start_up(seconds=66.0, time=999992.0), label="main")
    return path


def test_a_passing_check_exits_0_and_a_broken_one_1(db):
    good = invoke("check", "new1", "--db", db, "--max-warmup", "66s")
    bad = invoke(
        "check", "new1", "--db", db, "--max-warmup", "65s", "--max-misses", "0"
    )
    assert (good.exit_code, bad.exit_code) == (0, 1)
    assert "The limit holds" in good.stdout
    assert "1 of 2 limits does not hold" in bad.stdout
    assert "above the limit" in bad.stdout


@pytest.mark.parametrize(
    "given", [("--max-warmup", "soon"), ("--min", "phase:=3s"), ("--max", "=3"), ()]
)
def test_a_wrong_command_line_is_no_broken_limit(db, given, monkeypatch, capsys):
    line = ["warmup-insights", "check", "new1", "--db", str(db), *given]
    monkeypatch.setattr("sys.argv", line)
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_label_means_its_latest_other_run(db):
    """The run itself has the label as well: it is not its own baseline."""
    command = (
        "check",
        "new1",
        "--db",
        db,
        "--baseline",
        "main",
        "--max-warmup",
        "+10%",
    )
    answer = json.loads(invoke(*command, "--json").stdout)
    assert answer["baseline_id"] == "old2"
    assert answer["passed"] is True
    assert invoke(*command[:-1], "+9%").exit_code == 1


def test_an_exported_file_is_a_baseline(db, tmp_path):
    path = tmp_path / "baseline.json"
    assert invoke("export", "old1", "--db", db, "-o", path).exit_code == 0
    command = ("check", "new1", "--db", db, "--baseline", path, "--max-warmup")
    assert invoke(*command, "+32%").exit_code == 0
    assert invoke(*command, "+31%").exit_code == 1


def test_show_json_is_a_baseline_too(db, tmp_path):
    path = tmp_path / "shown.json"
    path.write_text(invoke("show", "old2", "--db", db, "--json").stdout)
    command = ("check", "new1", "--db", db, "--baseline", path, "--max-warmup", "+10%")
    assert invoke(*command).exit_code == 0


def test_files_for_machines_and_people(db, tmp_path):
    junit, markdown = tmp_path / "j.xml", tmp_path / "m.md"
    command = (
        "check", "new1", "--db", db, "--max-warmup", "1s",
        "--junit", junit, "--markdown", markdown,
    )  # fmt: skip
    assert invoke(*command).exit_code == 1
    assert ET.parse(junit).getroot()[0].attrib["failures"] == "1"
    assert markdown.read_text().startswith("## Warm-up check of run `new1`")
    again = invoke(*command)
    assert isinstance(again.exception, InputError)
    assert "--force" in str(again.exception)
    assert invoke(*command, "--force").exit_code == 1


def test_markdown_to_standard_output_comes_alone(db):
    result = invoke(
        "check", "new1", "--db", db, "--max-warmup", "1s", "--markdown", "-"
    )
    assert result.stdout.startswith("## Warm-up check")
    assert result.exit_code == 1


def test_any_figure_can_be_limited(db):
    command = ("check", "new1", "--db", db)
    assert invoke(*command, "--max", "wall_s=99s").exit_code == 0
    assert invoke(*command, "--min", "num_kv_blocks=5000").exit_code == 1
    assert "FIGURE=LIMIT" in str(invoke(*command, "--max", "wall_s").exception)


def test_the_latest_run_is_checked_by_default(db):
    answer = invoke("check", "--db", db, "--max-warmup", "99s", "--json")
    assert json.loads(answer.stdout)["run_id"] == "new1"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["new1"], "No limit is given"),
        (["new1", "--max-warmup", "+3%"], "relative to with --baseline"),
        (["new1", "--max-warmup", "long"], "write it like"),
        (["new1", "--baseline", "new1", "--max-warmup", "+1%"], "is the run itself"),
        (["new1", "--baseline", "other.json", "--max-warmup", "+1%"], "cannot be read"),
        (["simulated", "--baseline", "new1", "--max-warmup", "+1%"], "same device"),
    ],
)
def test_wrong_input_is_one_sentence(db, arguments, sentence):
    simulated_run(db, "sss", "simulated")
    error = invoke("check", "--db", db, *arguments).exception
    assert isinstance(error, InputError)
    assert sentence in str(error)
    assert "\n" not in str(error)


def test_unknown_runs_are_an_error(db):
    assert isinstance(
        invoke("check", "zzz", "--db", db).exception, StoreError | InputError
    )
    error = invoke(
        "check", "new1", "--db", db, "--baseline", "zzz", "--max-warmup", "+1%"
    )
    assert isinstance(error.exception, StoreError)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "holds no JSON"),
        ("[1]", "is no exported run"),
        ('{"schema": 99}', "summary schema 99"),
        (
            '{"schema": 1, "run_id": "a", "source": {"kind": "log"}, "memory": []}',
            "Expected `object | null`, got `array` - at `$.memory`",
        ),
        (
            '{"schema": 1, "run_id": "a", "source": {"kind": "log"}, "bucket_rows": "x"}',
            "Expected `array`, got `str` - at `$.bucket_rows`",
        ),
        ('{"summary": {"schema": 1}}', "missing required field"),
    ],
)
def test_broken_baseline_files_are_refused(db, tmp_path, content, sentence):
    path = tmp_path / "b.json"
    path.write_text(content)
    error = invoke(
        "check", "new1", "--db", db, "--baseline", path, "--max-warmup", "+1%"
    )
    assert sentence in str(error.exception)


def test_in_github_actions_the_job_gets_a_summary_and_annotations(
    db, tmp_path, monkeypatch
):
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    bad = invoke("check", "new1", "--db", db, "--max-warmup", "65s")
    assert bad.exit_code == 1
    (line,) = [text for text in bad.stderr.splitlines() if text.startswith("::")]
    assert line == "::error title=Warm-up check::warm-up broken: 1 min 06 s, max 65s"
    assert "The limit does not hold" in summary.read_text()
    assert invoke("check", "new1", "--db", db, "--max-warmup", "70s").exit_code == 0
    assert summary.read_text().count("## Warm-up check") == 2
    monkeypatch.delenv("GITHUB_ACTIONS")
    assert "::" not in invoke("check", "new1", "--db", db, "--max-warmup", "65s").stderr


@pytest.mark.parametrize("size", ["20", "+20", "20.5"])
def test_a_size_without_a_unit_is_no_limit(db, size):
    """20 bytes of KV cache are what every run has."""
    error = invoke("check", "new1", "--db", db, "--min-kv-cache", size).exception
    assert isinstance(error, SettingError)
    assert "12GiB" in str(error)
    found = invoke("check", "new1", "--db", db, "--max-graph-memory", "0")
    assert "max 0" in found.stdout


@pytest.mark.parametrize(
    "given",
    [("--json", "--junit", "-"), ("--json", "--markdown", "-"), ("--junit", "-", "--markdown", "-")],
)  # fmt: skip
def test_one_answer_goes_to_standard_output(db, given):
    found = invoke("check", "new1", "--db", db, "--max-warmup", "66s", *given)
    assert found.exit_code == 2
    assert found.stdout == ""
    assert "Only one of" in found.stderr


def test_a_failed_start_is_shown_as_failed(tmp_path):
    log = ROOT / "sample_logs" / "vllm" / "made_v1_negative_kv_cache.log"
    found = invoke("check", log, "--max-ready", "5min", "--junit", tmp_path / "a.xml")
    assert re.search("start-up +failed +finished +broken", found.stdout)
    assert "start-up is failed, limit finished" in (tmp_path / "a.xml").read_text()
