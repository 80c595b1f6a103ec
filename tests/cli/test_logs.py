"""The commands that read logs and show runs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from tests.helpers import ROOT
from warmup_insights.cli import cli
from warmup_insights.errors import StoreError, WarmupInsightsError
from warmup_insights.model.events import Note
from warmup_insights.storage import EventStore

CAPTURE = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
BARS = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_bars.log"


@pytest.fixture
def db(tmp_path):
    return str(tmp_path / "a.db")


@pytest.fixture
def run(db):
    def invoke(*args: str, **options):
        runner = CliRunner()
        return runner.invoke(cli, [*args, "--db", db], **options)

    return invoke


def test_ingest_prints_json(run):
    result = run("ingest", str(CAPTURE), "--json")
    assert result.exit_code == 0
    (answer,) = json.loads(result.stdout)["files"]
    assert answer["path"] == str(CAPTURE)
    assert len(answer["runs"]) == 1
    assert answer["lines"] == 29
    assert answer["unknown"] == 0
    assert "vllm-fork" in answer["dialects"]
    assert answer["events"] > 20


def test_ingest_reads_standard_input(run):
    result = run("ingest", "-", "--json", input=CAPTURE.read_bytes())
    assert len(json.loads(result.stdout)["files"][0]["runs"]) == 1


def test_ingest_shows_what_it_did_not_know(run, tmp_path):
    log = tmp_path / "a.log"
    unknown = b"INFO 07-07 19:15:38 [x.py:1] HPUGraph frobnication took 4 GiB\n"
    log.write_bytes(CAPTURE.read_bytes() + unknown)
    result = run("ingest", str(log))
    assert result.exit_code == 0
    assert "HPUGraph frobnication" in result.stdout
    assert run("ingest", str(log), "--strict").exit_code == 1


@pytest.mark.parametrize(
    ("text", "looks"),
    [
        ("<!DOCTYPE html><html></html>\n", "a web page"),
        ('1.2.3.4 - - "GET /health HTTP/1.1" 200\n', "an access log of a web server"),
        (
            "INFO 07-07 19:15:38 Avg prompt throughput: 1 tokens/s\n",
            "engine that serves",
        ),
        ("apiVersion: v1\nkind: Pod\n", "a Kubernetes manifest"),
        ("2026-01-01 10:00:00 something else\n", "a log of another program"),
        ("hello\n", "text without timestamps"),
    ],
)
def test_a_file_without_a_start_up_is_not_kept(run, tmp_path, db, text, looks):
    log = tmp_path / "other.txt"
    log.write_text(text)
    result = run("ingest", str(log))
    assert result.exit_code == 1
    assert looks in result.output
    with EventStore(db) as store:
        assert store.sources() == []
    both = run("ingest", str(log), str(CAPTURE), "--json")
    assert both.exit_code == 0
    assert [f["state"] for f in json.loads(both.stdout)["files"]] == ["nothing", "new"]


def test_one_bad_file_does_not_stop_the_others(run, tmp_path):
    result = run("ingest", str(tmp_path / "none.log"), str(CAPTURE), "--json")
    assert result.exit_code == 1
    bad, good = json.loads(result.stdout)["files"]
    assert "There is no file" in bad["error"]
    assert len(good["runs"]) == 1
    assert "There is no file" in result.stderr


def test_only_bad_files_are_one_sentence(run, tmp_path):
    result = run("ingest", str(tmp_path / "none.log"))
    assert isinstance(result.exception, WarmupInsightsError)
    assert result.output == ""


def test_a_missing_file_leaves_no_database_behind(tmp_path):
    database = tmp_path / "new.db"
    missing = str(tmp_path / "none.log")
    result = CliRunner().invoke(cli, ["ingest", missing, "--db", str(database)])
    assert result.exit_code == 1
    assert not database.exists()


@pytest.mark.parametrize(
    "arguments", [("runs", "--limit", "abc"), ("buckets", "lookup", "1", "a", "3")]
)
def test_text_in_place_of_an_integer_is_refused_in_plain_words(arguments):
    result = CliRunner().invoke(cli, list(arguments))
    assert result.exit_code == 2
    assert "is not a valid integer." in result.output


def test_wrong_time_zone_is_one_sentence(run):
    result = run("ingest", str(CAPTURE), "--timezone", "Mars/Base")
    assert "Mars/Base" in str(result.exception)


def test_show_prints_the_sections_of_a_run(run):
    run("ingest", str(CAPTURE))
    result = run("show", "latest")
    assert result.exit_code == 0
    for text in ("finished", "62.5 %", "94.62 GiB", "KV blocks 1,519", "4.755 GiB",
                 "Where the time went"):  # fmt: skip
        assert text in result.stdout


def test_show_finds_runs_by_prefix_and_label(run):
    run("ingest", str(CAPTURE), "--label", "doc")
    whole = json.loads(run("show", "latest", "--json").stdout)
    by_prefix = json.loads(run("show", whole["run_id"][:5], "--json").stdout)
    by_label = json.loads(run("show", "doc", "--json").stdout)
    assert whole == by_prefix == by_label
    assert whole["label"] == "doc"


def test_show_of_an_unknown_run_is_one_sentence(run):
    run("ingest", str(CAPTURE))
    assert isinstance(run("show", "zzz").exception, WarmupInsightsError)


def test_show_prints_events_and_buckets(run):
    run("ingest", str(BARS))
    events = [
        json.loads(line)
        for line in run("show", "latest", "--events").stdout.splitlines()
    ]
    assert events[0]["kind"] == "run_started"
    assert sum(event["kind"] == "warmup_step" for event in events) == 10
    text = run("show", "latest", "--buckets").stdout
    assert "(2, 512, 0)" in text
    rows = json.loads(run("show", "latest", "--buckets", "--json").stdout)[
        "bucket_rows"
    ]
    assert {row["state"] for row in rows} == {"warmed", "missed"}


@pytest.mark.parametrize(
    "arguments",
    [
        ("runs",), ("show", "latest"), ("show", "latest", "--events"),
        ("compare", "latest", "latest"), ("advise", "latest"), ("plan", "latest"),
        ("check",), ("export", "latest"), ("buckets", "fit", "latest"),
        ("prune", "--keep", "1"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_that_read_make_no_database(run, tmp_path, arguments):
    error = run(*arguments).exception
    assert str(error) == (
        f"There is no database {tmp_path / 'a.db'} yet; add runs with "
        "`warmup-insights ingest LOG`, or name another with --db"
    )
    assert list(tmp_path.iterdir()) == []


def test_an_empty_database_lists_what_to_do(run, db):
    EventStore(db).close()
    assert "warmup-insights ingest" in run("runs").stdout


def test_a_database_that_cannot_be_written_is_listed(run, db, monkeypatch):
    """Also where a summary is missing, which cannot be stored then."""
    run("ingest", str(CAPTURE))
    with EventStore(db) as store, store.begin() as transaction:
        transaction.append(store.runs()[0].run_id, [Note(topic="t", text="x")])

    def refuse(store):
        raise StoreError("attempt to write a readonly database")

    monkeypatch.setattr("warmup_insights.cli.runs.refresh_stale", refuse)
    result = run("runs")
    assert result.exit_code == 0
    assert "vllm-fork" in result.stdout


def test_runs_lists_newest_first(run):
    run("ingest", str(CAPTURE), str(BARS), "--year", "2025")
    rows = json.loads(run("runs", "--json").stdout)["runs"]
    assert [row["source"] for row in rows] == [CAPTURE.name, BARS.name]
    assert rows[0]["capture_percent"] == 100 * (15 + 48) / (24 + 48)
    assert "vllm-fork" in run("runs").stdout
    assert (
        json.loads(run("runs", "--search", "bars", "--json").stdout)["runs"][0][
            "missed"
        ]
        == 2
    )


def test_an_estimate_of_graphs_that_were_never_captured_stands_alone(run, tmp_path):
    """The start failed before: nothing states how many, how long or how large."""
    log = tmp_path / "failed.log"
    log.write_text(
        "INFO 08-03 21:02:48 [core.py:93] Initializing a V1 LLM engine (v0.25.1) with "
        "config: model='o/m', dtype=torch.bfloat16, max_seq_len=4096\n"
        "INFO 08-03 21:03:48 [gpu_model_runner.py:99] Estimated CUDA graph memory: "
        "2.55 GiB total\n"
    )
    text = run("show", str(log)).stdout
    row = text.split("CUDA graphs")[1].splitlines()[1]
    assert row.split() == [
        *["no", "capture", "is", "stated"],
        "2.55",
        "GiB",
        "estimated",
    ]


def test_a_log_of_several_stored_starts_is_named_by_their_ids(
    run, monkeypatch, tmp_path
):
    for text in ("0.11.0", "0.11.1"):
        log = tmp_path / "server.log"
        log.write_text(
            f"INFO 08-03 21:02:48 [core.py:93] Initializing a V1 LLM engine (v{text}) "
            "with config: model='o/m', dtype=torch.bfloat16, max_seq_len=4096\n"
        )
        run("ingest", str(log))
    error = run("show", "server.log").exception
    assert "'server.log' means several runs: " in str(error)


def test_dialects_lists_all_with_a_sample():
    result = CliRunner().invoke(cli, ["dialects", "--json"])
    rows = json.loads(result.stdout)["dialects"]
    names = {row["name"] for row in rows}
    assert names == {
        "vllm-fork", "vllm-hpu-plugin", "vllm-gaudi", "vllm", "vllm-bench",
        "server-events", "otlp-spans", "json", "reference", "tpu-inference",
        "vllm-json", "collect-env",
    }  # fmt: skip
    assert all(row["sample"] for row in rows)
    assert "vllm-gaudi" in CliRunner().invoke(cli, ["dialects"]).stdout


def test_the_demo_is_a_story_that_ends_with_its_addresses(tmp_path):
    db = str(tmp_path / "demo.db")
    result = CliRunner().invoke(cli, ["demo", "--no-dashboard", "--no-run", "--db", db])
    assert result.exit_code == 0, result.output
    runs = json.loads(
        CliRunner().invoke(cli, ["runs", "--json", "--limit", "500", "--db", db]).stdout
    )["runs"]
    assert len(runs) == 7
    documented = [run for run in runs if run["label"] == "documented"]
    assert [run["synthetic"] for run in documented] == [False]
    assert sum(run["synthetic"] for run in runs) == 6
    assert "15 of 24 prompt and 48 of 48 decode buckets have a graph" in result.output
    assert "Failed after" in result.output
    addresses = re.findall(r"http://127.0.0.1:8501(\S+)", result.output)
    assert addresses == [
        "/run?run=documented", "/memory?q=reserve", "/run?run=no+reserve+left",
        "/run?run=cuda+start",
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["notes", "runs"])
def test_the_demo_replaces_nothing_but_a_demo(run, tmp_path, content):
    precious = tmp_path / "precious"
    if content == "runs":
        ingest = ["ingest", str(CAPTURE), "--db", str(precious)]
        assert CliRunner().invoke(cli, ingest).exit_code == 0
    else:
        precious.write_text("what somebody wrote")
    before = precious.read_bytes()
    demo = ["demo", "--no-dashboard", "--no-run", "--db", str(precious)]
    result = CliRunner().invoke(cli, demo)
    assert result.exit_code == 1
    assert isinstance(result.exception, WarmupInsightsError)
    assert precious.read_bytes() == before


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["ingest", ""], "A path is empty"),
        (["show", ""], "no database"),
        (["report", str(CAPTURE), "-o", "."], ". is a folder"),
    ],
)
def test_an_empty_name_and_a_folder_are_named_as_that(run, command, words):
    result = run(*command)
    assert isinstance(result.exception, WarmupInsightsError)
    assert words in str(result.exception)


def test_the_logs_of_the_demo_are_samples():
    samples = {path.name: path for path in (ROOT / "sample_logs").rglob("*.log")}
    logs = sorted((ROOT / "warmup_insights" / "demo_logs").iterdir())
    assert len(logs) == 3
    for log in logs:
        assert log.read_bytes() == samples[log.name].read_bytes()


def test_follow_picks_up_what_is_appended(tmp_path, db):
    lines = CAPTURE.read_bytes().splitlines(keepends=True)
    log = tmp_path / "growing.log"
    log.write_bytes(b"".join(lines[:12]))
    command = [sys.executable, "-m", "warmup_insights", "ingest", str(log), "--follow",
               "--json", "--db", db]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
    )
    from warmup_insights.storage import EventStore

    def status() -> str | None:
        with EventStore(db) as store:
            runs = store.runs()
        return runs[0].status if runs else None

    def wait_for(wanted: str) -> None:
        end = time.monotonic() + 600
        while status() != wanted:
            assert time.monotonic() < end, status()
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.2)

    wait_for("running")
    log.write_bytes(b"".join([*lines, b"INFO:     Application startup complete.\n"]))
    wait_for("finished")
    while "got ready" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(2)
    out, _ = process.communicate(timeout=600)
    assert json.loads(out)["files"][0]["state"] == "continued"


@pytest.mark.parametrize("is_there", [True, False])
def test_follow_states_that_a_file_is_waited_for(run, tmp_path, is_there):
    log = tmp_path / "later.log"
    if is_there:
        log.write_text("", encoding="utf-8")
    answer = run("ingest", str(log), "--follow", "--until-ready", "--timeout", "1s")
    expected = "Following" if is_there else "There is no file yet, waiting for"
    assert f"{expected} {log}" in answer.stderr


@pytest.mark.parametrize("command", ["show", "advise"])
def test_without_a_run_it_is_the_latest(run, command):
    assert "There is no database" in str(run(command).exception)
    run("ingest", str(CAPTURE))
    assert run(command).stdout == run(command, "latest").stdout != ""


@pytest.mark.parametrize("label", ["", "  "])
@pytest.mark.parametrize("command", ["ingest", "run"])
def test_a_label_is_a_name(run, command, label):
    given = [str(CAPTURE)] if command == "ingest" else []
    result = run(command, *given, "--label", label)
    assert result.exit_code == 2
    assert "Invalid value for '--label': A label has to be a name" in result.stderr


def test_a_run_that_two_copies_hold_is_named_once(run, tmp_path):
    copies = [tmp_path / name for name in ("a.log", "b.log")]
    for copy in copies:
        copy.write_bytes(CAPTURE.read_bytes())
    run("ingest", str(copies[0]))
    output = run("ingest", *map(str, copies), "--label", "two").stdout
    [sentence] = [line for line in output.splitlines() if "its label" in line]
    assert "," not in sentence


def test_a_new_label_of_a_stored_run_is_named(run, tmp_path):
    log = tmp_path / "a.log"
    log.write_bytes(CAPTURE.read_bytes())
    run("ingest", str(log), "--label", "one")
    assert "its label is two now" in run("ingest", str(log), "--label", "two").stdout
    assert "its label" not in run("ingest", str(log)).stdout


def test_a_search_without_a_hit_is_no_empty_database(run):
    run("ingest", str(CAPTURE))
    assert "No run has 'absent'" in run("runs", "--search", "absent").stdout


def test_show_has_the_steps_of_the_division_that_a_page_draws():
    text = CliRunner().invoke(cli, ["show", str(CAPTURE)]).output
    assert "free before the division 79.16 GiB" in text
    assert "usable 39.58 GiB" in text


def test_few_starts_are_answered_and_many_empty_files_counted(tmp_path):
    for number in range(7):
        (tmp_path / f"{number}.log").write_text(f"other text {number}\n")
    log = ROOT / "sample_logs" / "vllm" / "made_v1_2026_tp2.log"
    paths = ["ingest", str(log), str(tmp_path), "--db", str(tmp_path / "runs.db")]
    found = CliRunner().invoke(cli, paths)
    assert "Ready after 3 min 31 s" in found.output.splitlines()[-1]
    assert "7 files hold no start-up" in found.output
    assert found.output.count("Note: ") == 1
