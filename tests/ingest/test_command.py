"""What a person sees of many files."""

from __future__ import annotations

import io
import json
import shutil

import pytest
from click.testing import CliRunner
from rich.console import Console

from tests.helpers import ROOT
from tests.ingest.builders import write_logs
from warmup_insights.cli import cli
from warmup_insights.cli.ingest import (
    BarWatcher,
    IngestWatcher,
    watch,
)
from warmup_insights.ingest.outcome import Outcome

LOG = ROOT / "sample_logs" / "vllm" / "made_v1_2026_tp2.log"
UNKNOWN = (
    "INFO 07-16 09:00:00 [worker.py:1] Capturing HPU graphs of bucket {name} of none\n"
)


@pytest.fixture
def run(tmp_path):
    def invoke(*args: str):
        return CliRunner().invoke(
            cli, ["ingest", *args, "--db", str(tmp_path / "a.db")]
        )

    return invoke


@pytest.mark.long
def test_jobs_and_files_that_are_stored_already(run, tmp_path):
    write_logs(tmp_path / "logs", 6)
    first = run(str(tmp_path / "logs"), "--jobs", "2", "--json")
    assert first.exit_code == 0
    assert "stored already" not in first.stderr
    again = run(str(tmp_path / "logs"), "--jobs", "2", "--json")
    assert "6 of 6 files were stored already" in again.stderr
    runs = [
        [answer["runs"] for answer in json.loads(r.stdout)["files"]]
        for r in (first, again)
    ]
    assert runs[0] == runs[1]


def test_no_jobs_is_a_usage_error(run, tmp_path):
    assert run(str(tmp_path), "--jobs", "0").exit_code == 2


def test_terminal_shows_a_bar_over_bytes_and_files():
    console = Console(file=io.StringIO(), force_terminal=True, width=100)
    with watch([8 << 20] * 2, console) as watcher:
        assert isinstance(watcher, BarWatcher)
        watcher.read(4 << 20)
        watcher.done(Outcome("a", state="unchanged"))
        watcher.bar.refresh()
    shown = console.file.getvalue()
    assert "1 of 2 files" in shown
    assert "4.2/16.8 MB" in shown
    assert (watcher.num_done, watcher.num_unchanged) == (1, 1)


def test_elsewhere_a_line_now_and_then(tmp_path, capsys):
    with watch([8 << 20], Console(file=io.StringIO())) as plain:
        assert type(plain) is IngestWatcher
    patient, eager = IngestWatcher(2, 4096), IngestWatcher(2, 4096, every_s=0)
    for watcher in (patient, eager):
        watcher.read(2048)
        watcher.done(Outcome("a"))
    assert capsys.readouterr().err.splitlines() == [
        "Read 2 KiB of 4 KiB, 0 of 2 files done",
        "Read 2 KiB of 4 KiB, 1 of 2 files done",
    ]


def test_an_empty_folder_beside_a_log_keeps_nobody_from_reading_the_log(run, tmp_path):
    (log,) = write_logs(tmp_path / "logs", 1)
    empty = tmp_path / "empty"
    empty.mkdir()
    result = run(str(empty), str(log), "--json")
    assert result.exit_code == 1
    assert f"Error: {empty} holds no log files" in result.stderr
    files = json.loads(result.stdout)["files"]
    assert [(f["path"], f["state"]) for f in files] == [
        (str(log), "new"), (str(empty), "failed"),
    ]  # fmt: skip
    assert files[0]["runs"]


def test_nothing_but_empty_folders_is_an_error_before_a_database_is_made(run, tmp_path):
    (tmp_path / "empty").mkdir()
    result = run(str(tmp_path / "empty"))
    assert result.exit_code == 1
    assert not (tmp_path / "a.db").exists()


def test_unknown_lines_are_listed_of_new_files_only(run, tmp_path):
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("a", "b"):
        text = UNKNOWN.format(name=name) + LOG.read_text(encoding="utf-8")
        (logs / f"{name}.log").write_text(text, encoding="utf-8")
    assert run(str(logs / "a.log")).stdout.count("look") == 1
    both = run(str(logs)).stdout
    assert "b.log: 1 line looks relevant" in both
    assert "a.log: 1 line looks relevant" not in both
    assert "a.log: 1 line looks relevant" in run(str(logs / "a.log")).stdout


def test_a_name_is_whole_in_a_file(run, tmp_path):
    path = tmp_path / ("a" * 90 + ".log")
    shutil.copy(LOG, path)
    assert f"{path}  new" in run(str(path)).stdout


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--until-ready"], "--until-ready needs --follow"),
        (["--follow", "--timeout", "3m"], "--timeout needs --until-ready"),
    ],
)
def test_what_an_option_needs_is_named(run, options, sentence):
    done = run("a.log", *options)
    assert done.exit_code == 2
    assert sentence in done.stderr
