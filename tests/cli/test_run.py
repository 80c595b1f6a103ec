"""`run`: what it prints, what it stores, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from tests.helpers import public
from tests.runner.parsing import read_log
from warmup_insights.cli import cli
from warmup_insights.cli.run import engine_environment, run
from warmup_insights.errors import DeviceError, InputError, SettingError, StoreError
from warmup_insights.model.events import BenchmarkResult, WarmupStep
from warmup_insights.storage.store import EventStore

SMALL = (
    "--memory=64MiB",
    "--block-size=16",
    "--max-model-len=64",
    "--max-num-seqs=2",
    "--max-num-batched-tokens=64",
)
TITLE = f"{'loading the model':<34} "
SIMULATED = ("--device=simulated:gaudi2", "--max-model-len=1024", "--max-num-seqs=4")


@pytest.fixture(autouse=True)
def _no_engine_variables(monkeypatch):
    """Variables of the shell that runs the tests are not those of a test."""
    for name in list(os.environ):
        if name.startswith(("VLLM_", "PT_HPU_")):
            monkeypatch.delenv(name)


@pytest.fixture
def db(tmp_path):
    return str(tmp_path / "runs.db")


def invoke(db, *arguments, exit_code=0):
    result = CliRunner().invoke(cli, ["run", "--db", db, *arguments])
    assert result.exit_code == exit_code, (result.output, result.exception)
    return result


def refused(db, error, words, *arguments):
    result = CliRunner().invoke(cli, ["run", "--db", db, *arguments])
    assert isinstance(result.exception, error), (result.output, result.exception)
    assert words in str(result.exception)
    return result


def stored(db, run="latest"):
    with EventStore(db) as store:
        record = store.find_run(run)
        found = store.summary(record.run_id)
        return record, list(store.events(record.run_id)), found and public(found)


def test_every_option_has_help():
    for parameter in run.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name


def test_a_cpu_run_is_stored_with_its_events_and_summary(db):
    result = invoke(db, *SMALL, "--label", "mine")
    record, events, summary = stored(db, "mine")
    assert record.status == "finished"
    assert (record.engine, record.device_kind, record.synthetic) == (
        "reference", "cpu", False,
    )  # fmt: skip
    assert record.run_id in result.stdout
    assert summary["status"] == "finished"
    steps = [e for e in events if isinstance(e, WarmupStep) and e.mode == "eager"]
    counts = summary["buckets"]
    assert len(steps) == counts["prompt"]["warmed"] + counts["decode"]["warmed"]
    assert counts["prompt"]["generated"] == counts["prompt"]["warmed"]
    assert summary["memory"]["num_kv_blocks"] > 0


def test_results_go_to_stdout_and_progress_to_stderr(db):
    result = invoke(db, *SMALL)
    assert "Where the time went" in result.stdout
    assert "KV blocks" in result.stdout
    assert TITLE in result.stderr
    assert "Where the time went" not in result.stderr


def test_json_is_the_run_id_and_its_summary(db):
    result = invoke(db, *SIMULATED, "--json")
    printed = json.loads(result.stdout)
    record, _, summary = stored(db)
    assert printed == {"run_id": record.run_id, "summary": summary}


def test_quiet_prints_nothing(db):
    assert invoke(db, *SIMULATED, "--quiet").stderr == ""


def test_a_simulated_run_is_marked_everywhere(db):
    result = invoke(db, *SIMULATED)
    record, events, summary = stored(db)
    assert "simulated figures" in result.stdout
    assert record.synthetic is True
    assert record.device_kind == "simulated"
    assert events[0].synthetic is True
    assert summary["device"]["kind"] == "simulated"


def test_the_default_run_has_about_70_buckets(db):
    """On the simulated device, with the limits that a CPU run has by default."""
    result = invoke(
        db, "--device=simulated:gaudi2", "--model=tiny", "--dtype=float32",
        "--block-size=32", "--max-model-len=512", "--max-num-seqs=8",
        "--max-num-batched-tokens=512", "--json",
    )  # fmt: skip
    counts = json.loads(result.stdout)["summary"]["buckets"]
    assert 60 <= counts["prompt"]["generated"] + counts["decode"]["generated"] <= 80


class TestEnvironment:
    @pytest.mark.parametrize(
        ("variable", "value", "setting", "expected"),
        [
            ("VLLM_GRAPH_RESERVED_MEM", "0.25", "VLLM_GRAPH_RESERVED_MEM", 0.25),
            ("VLLM_GRAPH_PROMPT_RATIO", "0.6", "VLLM_GRAPH_PROMPT_RATIO", 0.6),
            (
                "VLLM_GRAPH_PROMPT_STRATEGY",
                "max_bs",
                "VLLM_GRAPH_PROMPT_STRATEGY",
                "max_bs",
            ),
            (
                "VLLM_GRAPH_DECODE_STRATEGY",
                "min_tokens",
                "VLLM_GRAPH_DECODE_STRATEGY",
                "min_tokens",
            ),
            ("VLLM_DEFRAG_THRESHOLD", "7", "VLLM_DEFRAG_THRESHOLD", 7),
            ("VLLM_DEFRAG_WITH_GRAPHS", "true", "VLLM_DEFRAG_WITH_GRAPHS", True),
        ],
    )
    def test_engine_variables_are_defaults(
        self, db, monkeypatch, variable, value, setting, expected
    ):
        monkeypatch.setenv(variable, value)
        invoke(db, *SIMULATED)
        _, events, _ = stored(db)
        assert events[1].settings[setting] == expected

    @pytest.mark.parametrize("value", ["true", "1", "True"])
    def test_a_skipped_warm_up_follows_its_variable(self, db, monkeypatch, value):
        monkeypatch.setenv("VLLM_SKIP_WARMUP", value)
        invoke(db, *SIMULATED)
        record, events, summary = stored(db)
        assert record.status == summary["status"] == "skipped"
        assert not [e for e in events if isinstance(e, WarmupStep)]

    def test_an_option_wins_over_the_variable(self, db, monkeypatch):
        monkeypatch.setenv("VLLM_GRAPH_RESERVED_MEM", "0.25")
        invoke(db, *SIMULATED, "--graph-reserved-mem=0.5")
        assert stored(db)[1][1].settings["VLLM_GRAPH_RESERVED_MEM"] == 0.5

    def test_set_is_like_a_variable_for_buckets(self, db):
        invoke(db, *SIMULATED, "--set", "VLLM_PROMPT_BS_BUCKET_MAX=2", "--label", "two")
        _, _, two = stored(db, "two")
        assert {bucket[0] for bucket in two["buckets"]["prompt"]["buckets"]} == {1, 2}

    def test_variables_that_a_run_does_not_read_are_not_stored(self):
        read = {"VLLM_DECODE_BLOCK_BUCKET_MAX": "9", "VLLM_GRAPH_RESERVED_MEM": "0.2"}
        other = {"VLLM_API_KEY": "secret", "HOME": "/x", "VLLM_HOST_IP": "192.0.2.1"}
        assert engine_environment({**read, **other}, ()) == read

    @pytest.mark.parametrize(
        "assignment", ["VLLM_X", "HOME=/x", "=1", "", "VLLM_API_KEY=x"]
    )
    def test_a_bad_assignment_is_refused(self, db, assignment):
        refused(db, SettingError, "NAME=VALUE", *SIMULATED, "--set", assignment)


class TestServing:
    def test_serving_ends_with_the_result_block_and_stores_it(self, db, tmp_path):
        path = tmp_path / "result.json"
        result = invoke(
            db, *SIMULATED, "--serve", "--num-prompts=5", "--save-result", str(path)
        )
        assert "============ Serving Benchmark Result ============" in result.stdout
        saved = json.loads(path.read_text())
        assert saved["completed"] == 5
        _, events, summary = stored(db)
        assert [e.values for e in events if isinstance(e, BenchmarkResult)] == [saved]
        assert summary["benchmarks"][0]["completed"] == 5

    @pytest.mark.parametrize("strategy", ["startup", "delayed", "lazy", "none"])
    def test_every_capture_strategy_serves(self, db, strategy):
        invoke(
            db, *SIMULATED, "--serve", "--num-prompts=5", "--capture-strategy", strategy
        )
        record, _, summary = stored(db)
        assert record.status == "finished"
        assert summary["config"]["capture_strategy"] == strategy

    def test_a_trace_is_served(self, db, tmp_path):
        trace = tmp_path / "trace.jsonl"
        trace.write_text('{"input_len": 9, "output_len": 4}\n' * 3)
        result = invoke(db, *SIMULATED, "--serve", "--trace", str(trace), "--json")
        values = json.loads(result.stdout)["summary"]["benchmarks"][0]
        assert (values["total_input_tokens"], values["total_output_tokens"]) == (27, 12)

    def test_a_bad_trace_is_refused_before_anything_is_stored(self, db, tmp_path):
        trace = tmp_path / "trace.jsonl"
        trace.write_text('{"input_len": 9}\n')
        refused(
            db, InputError, "line 1: Object missing required field `output_len`", *SIMULATED, "--serve",
            "--trace", str(trace),
        )  # fmt: skip
        with EventStore(db) as store:
            assert store.runs() == []

    @pytest.mark.parametrize("option", ["--trace=x", "--save-result=x"])
    def test_options_of_serving_need_it(self, db, option):
        refused(db, SettingError, "--serve", *SIMULATED, option)


class TestLog:
    @pytest.mark.parametrize("dialect", ["vllm-fork", "vllm-gaudi", "vllm"])
    def test_a_log_is_written_and_can_be_ingested(self, db, tmp_path, dialect):
        path = tmp_path / "engine.log"
        invoke(db, *SIMULATED, "--log-format", dialect, "--log-file", str(path))
        events, report = read_log(path.read_text())
        assert len(events) > 5
        assert not report.failed

    def test_without_a_file_the_log_goes_to_stderr(self, db):
        result = invoke(db, *SIMULATED, "--log-format=vllm-gaudi")
        assert "[Warmup][Prompt][1/" in result.stderr
        assert TITLE not in result.stderr
        assert "[Warmup]" not in result.stdout

    def test_a_file_needs_a_format(self, db, tmp_path):
        refused(
            db, SettingError, "--log-format", *SIMULATED, f"--log-file={tmp_path / 'x'}"
        )

    def test_a_file_that_cannot_be_written_is_refused(self, db, tmp_path):
        refused(
            db, InputError, "cannot be written", *SIMULATED, "--log-format=vllm",
            f"--log-file={tmp_path / 'no' / 'x'}",
        )  # fmt: skip


def test_files_are_overwritten_only_by_force(db, tmp_path):
    log, result = tmp_path / "engine.log", tmp_path / "result.json"
    options = {
        log: ("--log-format=vllm", f"--log-file={log}"),
        result: ("--serve", "--num-prompts=3", f"--save-result={result}"),
    }
    for path, arguments in options.items():
        path.write_text("mine")
        refused(db, InputError, "--force", *SIMULATED, *arguments)
        assert path.read_text() == "mine"
        invoke(db, *SIMULATED, *arguments, "--force")
        assert path.read_text() != "mine"
    with EventStore(db) as store:
        assert store.count_runs() == 2


class TestFailure:
    def test_out_of_memory_keeps_the_events_and_exits_with_1(self, db):
        result = invoke(db, "--memory=2MiB", exit_code=1)
        record, events, summary = stored(db)
        assert record.status == "failed"
        assert summary["failure"]["kind"] == "out_of_memory"
        assert summary["failure"]["free_bytes"] is not None
        assert "Error: load_model: out of device memory" in result.stderr
        assert len(events) > 3

    def test_a_cause_is_named_once_where_the_message_begins_with_it(self, db):
        result = invoke(db, *SIMULATED, "--graph-reserved-mem=1", exit_code=1)
        assert (
            "no room for the KV cache, 79.16 GiB free: 79.16 GiB are" in result.stdout
        )

    @pytest.mark.parametrize(
        ("error", "words", "arguments"),
        [
            (SettingError, "Unknown model 'gpt'", ["--model=gpt"]),
            (SettingError, "dtype 'int4'", ["--dtype=int4"]),
            (SettingError, "block_size=0", ["--block-size=0"]),
            (DeviceError, "--memory", ["--memory=0"]),
            (
                SettingError,
                "cpu device only",
                ["--device=simulated:gaudi2", "--threads=2"],
            ),
            (StoreError, "no-folder", ["--db=/no-folder/x.db"]),
        ],
    )
    def test_what_cannot_work_is_one_sentence(self, db, error, words, arguments):
        refused(db, error, words, *SMALL, *arguments)

    @pytest.mark.parametrize(
        "arguments",
        [
            ["--device=tpu"],
            ["--memory=much"],
            ["--graph-reserved-mem=some"],
            ["--capture-strategy=x"],
        ],
    )
    def test_usage_errors_exit_with_2(self, db, arguments):
        invoke(db, *arguments, exit_code=2)

    @pytest.mark.long
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_an_interrupt_while_serving_ends_serving(self, db, number):
        """A real process, a real signal, in the middle of serving a long workload."""
        process = subprocess.Popen(
            [
                sys.executable, "-m", "warmup_insights", "run", "--db", db, *SMALL,
                "--serve", "--num-prompts=100000", "--input-len=20", "--output-len=20",
            ],
            stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + 600
            for line in process.stderr:
                assert time.monotonic() < deadline
                if "graphs of decode buckets" in line:
                    break
            time.sleep(0.5)
            process.send_signal(number)
            _, stderr = process.communicate(timeout=600)
        finally:
            process.kill()
        assert process.returncode == 1
        assert "Error: interrupted" in stderr
        record, events, summary = stored(db)
        assert record.status == "finished"
        assert summary["status"] == "finished"
        assert summary["serving"]["end"]["kind"] == "shutdown"
        text = f"interrupted by {signal.Signals(number).name} while it served"
        assert summary["serving"]["end"]["message"] == text
        assert len(events) > 50
        assert events[-1].status == "stopped"


def test_a_simulated_run_needs_no_torch(db):
    code = (
        "import sys; sys.modules['torch'] = None; from warmup_insights.cli import main; "
        f"sys.argv = ['x', 'run', '--db', {db!r}, *{SIMULATED!r}, '--serve', "
        "'--num-prompts', '3']; main()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert stored(db)[0].status == "finished"


def test_a_cpu_run_without_torch_names_what_to_install(db):
    code = (
        "import sys; sys.modules['torch'] = None; from warmup_insights.cli import main; "
        f"sys.argv = ['x', 'run', '--db', {db!r}]; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert "warmup-insights[runner]" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_imports_no_torch():
    """The options can be shown where nothing but the core is installed."""
    code = (
        "import sys; from warmup_insights.cli.run import run; "
        "assert 'torch' not in sys.modules; assert 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
