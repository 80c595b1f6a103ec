"""A path that may not be looked at is one sentence, whichever command it is given to."""

from __future__ import annotations

import os
import shutil
import sys

import pytest

from tests.helpers import ROOT
from warmup_insights.cli import main
from warmup_insights.storage import EventStore, engine

LOG = ROOT / "sample_logs" / "vllm" / "made_v1_2026_tp2.log"


@pytest.fixture
def locked(tmp_path, monkeypatch):
    """The current folder holds `locked`, which may not be entered, and a log beside it."""
    folder = tmp_path / "locked"
    folder.mkdir()
    shutil.copy(LOG, tmp_path / "a.log")
    monkeypatch.chdir(tmp_path)

    def refusing(call, is_refused):
        def refuse(path, *args, **options):
            if is_refused(os.path.abspath(os.fspath(path))):
                raise PermissionError(13, "Permission denied", os.fspath(path))
            return call(path, *args, **options)

        return refuse

    below = f"{folder}{os.sep}"
    for name in ("stat", "lstat", "mkdir"):
        call = refusing(getattr(os, name), lambda path: path.startswith(below))
        monkeypatch.setattr(os, name, call)
    listing = refusing(os.scandir, lambda path: path == str(folder))
    monkeypatch.setattr(os, "scandir", listing)
    return folder


@pytest.fixture
def said(capsys, monkeypatch):
    """Exit code, standard output and standard error of a command line."""

    def call(line: str):
        monkeypatch.setattr(sys, "argv", ["warmup-insights", *line.split()])
        with pytest.raises(SystemExit) as done:
            main()
        return done.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(
    "line",
    [
        "show locked/x.log", "ingest locked/x.log", "ingest --follow locked/x.log",
        "compare a.log locked/x.log", "plan locked/x.log", "report locked/x.log",
        "check locked/x.log --max-ready 1h", "ingest locked",
    ],
)  # fmt: skip
def test_a_log_in_a_locked_folder(line, locked, said):
    path = "locked" if line == "ingest locked" else "locked/x.log"
    code, _, err = said(line)
    assert code == 1
    assert err == f"Error: {path} cannot be read: Permission denied; check the path\n"


@pytest.mark.parametrize(
    "command", ["runs", "advise", "dashboard --no-browser", "run --quiet", "demo"]
)
def test_a_database_in_a_locked_folder(command, locked, said):
    code, _, err = said(f"{command} --db locked/x.db")
    assert code == 1
    assert err.count("\n") == 1
    assert "x.db cannot be opened: Permission denied; check its path and the" in err


@pytest.mark.parametrize("command", ["report a.log -o", "run --save-result"])
def test_a_result_in_a_locked_folder_is_refused_before_the_work(command, locked, said):
    assert said(f"{command} locked/x") == (
        1, "", "Error: locked/x cannot be written: Permission denied; use another path\n"
    )  # fmt: skip


def test_any_other_path_is_one_sentence_too(locked, said):
    code, _, err = said("run --quiet --model locked/model")
    assert code == 1
    assert err.splitlines() == [
        "Error: locked/model/config.json: Permission denied; check its mode and that of "
        "its folders"
    ]


@pytest.mark.parametrize(
    ("line", "help"),
    [
        ("run --quiet --model ./{0}", "use a shorter one"),
        ("ingest --follow {0}", "check the path"),
        ("export a.log --format parquet -o {0}", "use a shorter one"),
    ],
)
def test_a_name_that_no_file_can_have(line, help, locked, said):
    code, _, err = said(line.format("x" * 300))
    assert code == 1
    assert "File name too long" in err
    assert err.splitlines()[-1].endswith(f"; {help}")


def test_what_is_readable_beside_a_locked_folder_is_read(locked, said):
    code, out, err = said("ingest .")
    assert code == 1
    assert "a.log  new" in out
    assert "Error: ./locked cannot be read: Permission denied" in err


def refuse(monkeypatch, name, access):
    may = engine._may
    monkeypatch.setattr(
        engine, "_may",
        lambda path, what: what != access and may(path, what) if path.name == name
        else may(path, what),
    )  # fmt: skip


def test_a_database_that_may_not_be_read(tmp_path, monkeypatch, said):
    EventStore(tmp_path / "a.db").close()
    refuse(monkeypatch, "a.db", os.R_OK)
    code, _, err = said(f"runs --db {tmp_path}/a.db")
    assert code == 1
    assert err.startswith(f"Error: No permission to read the database {tmp_path}/a.db;")


def test_a_database_that_may_not_be_written_ends_a_run_before_it_begins(
    tmp_path, monkeypatch, said
):
    EventStore(tmp_path / "a.db").close()
    refuse(monkeypatch, "a.db", os.W_OK)
    assert said(f"run --quiet --db {tmp_path}/a.db") == (
        1, "",
        f"Error: The database {tmp_path}/a.db cannot be written; check the permissions of "
        "the file and its folder, or choose another file with --db\n",
    )  # fmt: skip
    code, out, _ = said(f"runs --db {tmp_path}/a.db")
    assert (code, out.partition(";")[0]) == (0, "No runs")
