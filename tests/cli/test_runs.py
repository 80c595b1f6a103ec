"""`runs` and `show`: what is guessed is marked, and what goes together."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from warmup_insights.cli import cli

LOG = """\
INFO 07-16 09:00:00 [api_server.py:1] vLLM API server version 0.9.0
INFO 07-16 09:00:21 [api_server.py:1] Application startup complete.
INFO 07-16 09:00:22 [api_server.py:1] {name}
"""


@pytest.fixture
def called(tmp_path):
    def call(*arguments):
        return CliRunner().invoke(cli, [*arguments, "--db", str(tmp_path / "a.db")])

    return call


def test_a_guessed_year_is_marked(called, tmp_path):
    for name, options in (("full", ["--year", "2026"]), ("short", [])):
        path = tmp_path / f"{name}.log"
        path.write_text(LOG.format(name=name), encoding="utf-8")
        assert called("ingest", str(path), *options).exit_code == 0
    lines = called("runs").stdout.splitlines()
    (full,) = (line for line in lines if "full.log" in line)
    (short,) = (line for line in lines if "short.log" in line)
    assert "09:00 ?" in short
    assert "2026-07-16 09:00  " in full
    assert "? after a time: the year is guessed, as the log states none" in lines
    rows = json.loads(called("runs", "--json").stdout)["runs"]
    guessed = {row["name"]: "time.started_at" in row["guessed"] for row in rows}
    assert guessed == {"full.log": False, "short.log": True}


def test_simulated_and_made_up_runs_are_told_apart(called, tmp_path):
    made = tmp_path / "made.log"
    made.write_text(LOG.format(name="made"), encoding="utf-8")
    called("ingest", str(made), "--synthetic")
    called("run", "--device", "simulated:gaudi2", "--label", "paper", "--quiet")
    table = called("runs").stdout
    assert "unknown (synthetic)" in table
    assert "finished (simulated)" in table


@pytest.mark.parametrize("option", ["--json", "--buckets"])
def test_events_are_printed_alone(called, option):
    done = called("show", "--events", option)
    assert done.exit_code == 2
    assert "--events goes without --json and --buckets" in done.stderr
