from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.storage.builders import add_run, make_run, make_source, make_steps
from warmup_insights.cli.prune import prune
from warmup_insights.runs import delete_runs, runs_to_prune
from warmup_insights.storage import EventStore

NOW = 1_000_000.0


def ids(runs):
    return [run.run_id for run in runs]


@pytest.fixture
def runs():
    return [
        make_run("recording", started_at=NOW, status="running", heartbeat_at=NOW),
        make_run("new", started_at=NOW - 10),
        make_run("labelled", started_at=NOW - 20, label="keep me"),
        make_run(
            "interrupted", started_at=NOW - 90, status="running", heartbeat_at=1.0
        ),
        make_run("undated", started_at=None, created_at=NOW - 95),
        make_run("old", started_at=NOW - 100),
    ]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, ["new", "interrupted", "undated", "old"]),
        ({"keep": 0}, ["new", "interrupted", "undated", "old"]),
        ({"keep": 4}, ["undated", "old"]),
        ({"keep": 99}, []),
        ({"older_than_s": 92.0}, ["undated", "old"]),
        ({"older_than_s": 97.0}, ["old"]),
        ({"older_than_s": 5.0, "keep": 5}, ["old"]),
        ({"older_than_s": 200.0, "keep": 0}, []),
        ({"keep": 0, "with_labelled": True},
         ["new", "labelled", "interrupted", "undated", "old"]),
    ],
)  # fmt: skip
def test_what_no_rule_keeps_is_pruned(runs, rules, expected):
    assert ids(runs_to_prune(runs, now=NOW, **rules)) == expected


def test_many_runs_are_removed_and_their_space_is_given_back(store):
    for number in range(120):
        with store.begin() as transaction:
            transaction.add_source(make_source(f"source{number}"))
        add_run(store, f"run{number}", make_steps(50), source_id=f"source{number}")
    before = store.size_bytes()
    delete_runs(store, [f"run{number}" for number in range(1, 120)])
    store.vacuum()
    assert ids(store.runs()) == ["run0"]
    assert len(store.sources()) == 1
    assert len(list(store.events("run0"))) == 50
    assert store.size_bytes() < before
    add_run(store, "afterwards")


@pytest.fixture
def filled(tmp_path):
    path = str(tmp_path / "a.db")
    with EventStore(path) as store:
        for number in range(6):
            add_run(store, f"run{number}", make_steps(400), started_at=100.0 + number)
        store.update_run("run0", label="baseline")
    return path


def call(*arguments, **options):
    result = CliRunner().invoke(prune, arguments, **options)
    return result


def left(filled):
    with EventStore(filled) as store:
        return ids(store.runs())


def test_prune_keeps_the_newest_and_the_labelled(filled):
    result = call("--keep", "2", "--yes", "--json", "--db", filled)
    assert result.exit_code == 0
    answer = json.loads(result.stdout)
    assert answer["runs"] == ["run3", "run2", "run1"]
    assert (answer["kept"], answer["dry_run"]) == (3, False)
    assert answer["freed_bytes"] > 3 * 400 * 100
    assert left(filled) == ["run5", "run4", "run0"]


def test_prune_says_what_it_would_do(filled):
    result = call("--older-than", "1", "--dry-run", "--db", filled)
    first, *names = result.output.splitlines()
    assert first == "Would remove 5 of 6 runs"
    assert [line.split()[0] for line in names] == [
        "run5",
        "run4",
        "run3",
        "run2",
        "run1",
    ]
    assert len(left(filled)) == 6


def test_prune_asks(filled):
    result = call("--keep", "5", "--labelled", "--db", filled, input="n\n")
    assert result.exit_code == 1
    assert "1 of 6 runs:\n  run0  baseline\n" in result.stderr
    assert len(left(filled)) == 6
    result = call("--keep", "5", "--labelled", "--db", filled, input="y\n")
    assert result.exit_code == 0
    assert result.stdout.startswith("Removed 1 of 6 runs")
    assert left(filled) == ["run5", "run4", "run3", "run2", "run1"]


def test_prune_removes_named_runs(filled):
    result = call("baseline", "run0", "latest", "--yes", "--db", filled)
    assert result.exit_code == 0
    assert left(filled) == ["run4", "run3", "run2", "run1"]


def test_prune_without_vacuum_leaves_the_file_as_long(filled):
    result = call("--keep", "1", "--yes", "--no-vacuum", "--json", "--db", filled)
    assert json.loads(result.stdout)["freed_bytes"] == 0


@pytest.mark.parametrize("arguments", [(), ("run1", "--keep", "3"), ("--keep", "-1")])
def test_prune_wants_to_know_what(filled, arguments):
    assert call(*arguments, "--db", filled).exit_code == 2
    assert len(left(filled)) == 6


def test_prune_makes_no_database(tmp_path):
    result = call("--keep", "1", "--yes", "--db", str(tmp_path / "none.db"))
    assert "There is no database" in str(result.exception)
    assert list(tmp_path.iterdir()) == []
