"""A log wherever a run is named: the same answers as from the database, and nothing kept."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.decisions import invoke
from warmup_insights.cli import cli
from warmup_insights.errors import WarmupInsightsError

SAMPLES = Path(__file__).parents[2] / "sample_logs"
HPU = SAMPLES / "vllm-fork" / "warmup_doc_capture.log"
SERVED = SAMPLES / "vllm-gaudi" / "made_v0_26_developer_mode.log"
FIT = ("--max-num-seqs", 64, "--max-model-len", 4096, "--max-num-batched-tokens", 4096)
FIT += ("--num-kv-blocks", 1000, "--trace", "TRACE")
CUDA = SAMPLES / "vllm" / "made_v1_2026_tp2.log"
COMMANDS = [
    ("show",),
    ("show", "--json"),
    ("show", "--buckets"),
    ("show", "--events"),
    ("advise",),
    ("advise", "--json"),
    ("export", "--format", "csv"),
    ("export", "--format", "markdown"),
    ("check", "--max", "wall_s=1h"),
]


def answer(*arguments):
    found = invoke(*arguments)
    assert found.exit_code == 0, found.output
    return re.sub(r"\b[0-9a-f]{12}\b", "ID", found.output)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / "runs.db"
    for log in (HPU, CUDA):
        assert invoke("ingest", log, "--db", path).exit_code == 0
    return path


def run_of(db, log):
    return json.loads(invoke("ingest", log, "--db", db, "--json").stdout)["files"][0][
        "runs"
    ][-1]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("log", [HPU, CUDA], ids=["hpu", "cuda"])
def test_a_log_gets_the_answer_of_its_run(stored, tmp_path, log, command):
    name, *options = command
    absent = tmp_path / "absent.db"
    expected = answer(name, run_of(stored, log), *options, "--db", stored)
    assert answer(name, log, *options, "--db", absent) == expected
    assert not absent.exists()


def test_runs_and_logs_are_compared_with_each_other(stored, tmp_path):
    expected = answer(
        "compare", run_of(stored, HPU), run_of(stored, CUDA), "--db", stored
    )
    assert answer("compare", run_of(stored, HPU), CUDA, "--db", stored) == expected
    assert answer("compare", HPU, CUDA, "--db", tmp_path / "absent.db") == expected


@pytest.mark.parametrize(
    "command",
    [
        ("show", "-"), ("advise", "-"), ("compare", "-", CUDA),
        ("check", "-", "--max", "wall_s=1h"), ("plan", "-", "--graph-reserved-mem", "0.5"),
        ("export", "-"), ("report", "-", "-o", "OUT"), ("buckets", "fit", "-", *FIT),
        ("export", "-", "--format", "parquet", "-o", "OUT"),
    ],
    ids=lambda command: " ".join(map(str, command[:2])),
)  # fmt: skip
def test_a_log_comes_from_standard_input_too(
    tmp_path, tmp_path_factory, monkeypatch, command
):
    """For every command that takes a run; nothing is left behind but what was asked."""
    log = SERVED if command[0] == "buckets" else HPU
    monkeypatch.chdir(tmp_path)
    out, trace = tmp_path / "out", tmp_path_factory.mktemp("trace") / "trace.jsonl"
    trace.write_text('{"input_len": 96, "output_len": 24}\n')
    names = {"OUT": out, "TRACE": trace}
    done = CliRunner().invoke(
        cli, [str(names.get(a, a)) for a in command], input=log.read_bytes()
    )
    assert done.exit_code == 0, done.output
    assert list(tmp_path.iterdir()) == ([out] if "OUT" in command else [])


def test_plan_from_a_log(stored, tmp_path):
    expected = answer(
        "plan", run_of(stored, HPU), "--graph-reserved-mem", "0.5", "--db", stored
    )
    found = answer(
        "plan", HPU, "--graph-reserved-mem", "0.5", "--db", tmp_path / "absent.db"
    )
    assert found == expected


def test_a_log_can_be_the_baseline(tmp_path):
    limits = ("--max", "wall_s=+10%", "--db", tmp_path / "absent.db")
    assert invoke("check", HPU, "--baseline", HPU, *limits).exit_code == 0


def test_an_exported_file_of_any_name_is_still_a_baseline(stored, tmp_path):
    exported = tmp_path / "base"
    run = run_of(stored, HPU)
    assert invoke("export", run, "--db", stored, "-o", exported).exit_code == 0
    found = invoke(
        "check", run, "--baseline", exported, "--max", "wall_s=+10%", "--db", stored
    )
    assert found.exit_code == 0, found.output


def test_several_starts_in_a_log(tmp_path):
    log = tmp_path / "two.log"
    log.write_bytes(CUDA.read_bytes() + HPU.read_bytes() + HPU.read_bytes())
    absent = tmp_path / "absent.db"
    found = invoke("show", log, "--json", "--db", absent)
    count = int(re.search(r"holds (\d+) start-ups", found.stderr)[1])
    assert count >= 2
    assert f"this is #{count}" in found.stderr
    last = json.loads(found.stdout)
    first = json.loads(invoke("show", f"{log}#1", "--json", "--db", absent).stdout)
    assert first["engine"] != last["engine"]
    beyond = invoke("show", f"{log}#{count + 1}", "--db", absent)
    assert beyond.exit_code == 1
    assert f"#1 to #{count}" in str(beyond.exception)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("nothing.log", "holds no line of an engine's start-up"),
        ("binary.log", "is not a text file"),
        ("empty.log", "empty.log is empty"),
        ("folder", "is a folder"),
        ("./absent.log", "absent.log"),
    ],
)
def test_what_is_no_log_gets_one_sentence(tmp_path, monkeypatch, name, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nothing.log").write_text("a line of something else\n" * 3)
    (tmp_path / "binary.log").write_bytes(bytes(range(256)) * 20)
    (tmp_path / "empty.log").touch()
    (tmp_path / "folder").mkdir()
    found = invoke("show", name, "--db", tmp_path / "absent.db")
    assert found.exit_code == 1
    assert isinstance(found.exception, WarmupInsightsError)
    assert text in str(found.exception)
    assert "\n" not in str(found.exception)
    assert not (tmp_path / "absent.db").exists()


def test_a_log_that_is_not_there_is_named(tmp_path):
    error = invoke("show", "nothing.log", "--db", tmp_path / "none.db").exception
    assert "neither a file nor a run nothing.log" in str(error)


@pytest.mark.parametrize("command", [("show",), ("check", "--max", "wall_s=1h")])
def test_what_is_damaged_is_named_beside_the_answer(tmp_path, command):
    whole = gzip.compress(HPU.read_bytes())
    cut = tmp_path / "cut.log.gz"
    cut.write_bytes(whole[: len(whole) * 3 // 4])
    name, *options = command
    found = invoke(name, cut, *options, "--db", tmp_path / "absent.db")
    assert "Note: " in found.stderr
    assert "is damaged" in found.stderr


def test_a_database_is_no_log(stored):
    """It holds the texts of logs; lines of them gave a start that nobody made."""
    found = invoke("show", stored)
    assert isinstance(found.exception, WarmupInsightsError)
    assert "is a SQLite database" in str(found.exception)


@pytest.mark.parametrize("command", ["show", "ingest"])
def test_an_address_is_named_whole_with_a_way_to_read_it(command, tmp_path):
    found = invoke(command, "http://a.example/x.log", "--db", tmp_path / "absent.db")
    assert isinstance(found.exception, WarmupInsightsError)
    assert str(found.exception).startswith("http://a.example/x.log is an address")
    assert "| warmup-insights ingest -" in str(found.exception)
