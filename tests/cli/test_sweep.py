"""`sweep`: points run in processes of their own, resumed, stopped, reported."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.cli.decisions import invoke
from warmup_insights.analysis.sweep import make_experiment
from warmup_insights.cli import endings_as_interrupts
from warmup_insights.cli import sweep as sweep_runs
from warmup_insights.cli.sweep import read_grid, read_point
from warmup_insights.errors import InputError, SettingError, WarmupInsightsError
from warmup_insights.storage import EventStore

ROOT = Path(__file__).resolve().parents[2]
SIMULATED = ("--", "--device", "simulated:gaudi2", "--model", "llama-3.2-1b")


@pytest.fixture(autouse=True)
def _importable(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def sweep(db, *arguments, fixed=SIMULATED):
    return invoke("sweep", "--db", db, *arguments, *fixed)


@pytest.mark.long
def test_a_grid_is_run_resumed_and_reported(tmp_path):
    db = tmp_path / "s.db"
    grid = ("--name", "memory", "--gpu-memory-utilization", "0.5,0.9")
    first = sweep(db, *grid, "--json")
    assert first.exit_code == 0, first.output
    points = json.loads(first.stdout)["points"]
    assert [point["status"] for point in points] == ["finished"] * 2
    assert [point["settings"] for point in points] == [
        {"gpu_memory_utilization": "0.5"}, {"gpu_memory_utilization": "0.9"},
    ]  # fmt: skip
    assert points[0]["figures"]["num_kv_blocks"] < points[1]["figures"]["num_kv_blocks"]
    assert any(point["is_non_dominated"] for point in points)
    assert "[2/2] gpu_memory_utilization=0.9: finished" in first.stderr

    again = sweep(
        db, "--name", "memory", "--gpu-memory-utilization", "0.5,0.7,0.9", "--json"
    )
    assert "2 of 3 done before" in again.stderr
    ids = [point["run_id"] for point in json.loads(again.stdout)["points"]]
    assert [ids[0], ids[2]] == [point["run_id"] for point in points]
    with EventStore(db) as store:
        labels = sorted(str(run.label) for run in store.runs())
    assert labels == [f"memory: gpu_memory_utilization={u}" for u in (0.5, 0.7, 0.9)]

    table = sweep(db, *grid).stdout
    assert [line for line in table.splitlines() if line.startswith("*")]
    assert "gpu_memory_utilization" in table
    assert "Pick for balanced" in table

    other = ("--", "--device", "simulated:gaudi3")
    error = sweep(
        db, "--name", "memory", "--graph-reserved-mem", "0.2", fixed=other
    ).exception
    assert isinstance(error, InputError)
    assert "other fixed options" in str(error)


@pytest.mark.long
def test_points_that_fail_are_results_and_can_be_retried(tmp_path):
    db = tmp_path / "s.db"
    grid = ("--graph-reserved-mem", "0.1,1")
    result = sweep(db, *grid, "--json")
    assert result.exit_code == 0
    good, bad = json.loads(result.stdout)["points"]
    assert (good["status"], bad["status"]) == ("finished", "failed")
    assert "no room for the KV cache" in bad["reason"]
    assert bad["is_non_dominated"] is None
    assert "2 of 2 done before" in sweep(db, *grid).stderr
    assert "1 of 2 done before" in sweep(db, *grid, "--retry-failed").stderr


def test_a_sweep_in_which_everything_fails_exits_1(tmp_path):
    assert sweep(tmp_path / "s.db", "--graph-reserved-mem", "1").exit_code == 1


@pytest.mark.long
def test_variables_and_options_reach_the_engine(tmp_path):
    db = tmp_path / "s.db"
    result = sweep(
        db, "--bucketing-strategy", "lin", "--prompt-ratio", "0.25",
        "--grid", "block_size=64", "--grid", "VLLM_DECODE_BS_BUCKET_MAX=4", "--json",
    )  # fmt: skip
    (point,) = json.loads(result.stdout)["points"]
    with EventStore(db) as store:
        config = store.summary(point["run_id"]).config
    assert config["VLLM_BUCKETING_STRATEGY"] == "lin"
    assert config["VLLM_GRAPH_PROMPT_RATIO"] == 0.25
    assert config["VLLM_DECODE_BS_BUCKET_MAX"] == "4"
    assert config["block_size"] == 64


def test_points_are_listed_without_running(tmp_path):
    db = tmp_path / "s.db"
    result = sweep(db, "--point", "max_num_seqs=8,block_size=64", "--dry-run")
    assert result.stdout == "max_num_seqs=8 block_size=64\n"
    assert not db.exists()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "nothing to sweep"),
        (["--graph-reserved-mem", ","], "graph_reserved_mem has no value"),
        (["--grid", "block_size"], "cannot be used; write NAME=VALUE"),
        (["--point", "block_size"], "cannot be used; write NAME=VALUE"),
        (["--grid", "PATH=1"], "is no setting; use an engine option"),
    ],
)
def test_wrong_input_is_one_sentence(tmp_path, arguments, sentence):
    error = sweep(tmp_path / "s.db", *arguments).exception
    assert isinstance(error, SettingError)
    assert sentence in str(error)


def test_an_option_that_run_refuses_ends_the_sweep(tmp_path):
    error = sweep(
        tmp_path / "s.db", "--graph-reserved-mem", "0.1", fixed=("--", "--memry", "3")
    ).exception
    assert isinstance(error, WarmupInsightsError)
    assert "No such option" in str(error)


def test_a_served_model_has_to_be_named(tmp_path):
    error = invoke("sweep", "--db", tmp_path / "s.db", "--engine", "vllm",
                   "--graph-reserved-mem", "0.1").exception  # fmt: skip
    assert "No model is named" in str(error)


def experiment(engine="vllm"):
    grid = {"gpu_memory_utilization": ["0.5"], "VLLM_GRAPH_RESERVED_MEM": ["0.2"]}
    return make_experiment("e", grid, [], engine=engine, base=["MODEL", "--tp", "2"])


def test_the_real_engine_gets_options_and_environment():
    made = experiment()
    command, environment = sweep_runs.point_command("x.db", made, made.points[0])
    assert command[1:4] == ["-m", "warmup_insights", "vllm"]
    assert command[4:] == [
        "--db", "x.db", "--label", made.label(made.points[0]), "serve", "MODEL", "--tp",
        "2", "--gpu-memory-utilization", "0.5",
    ]  # fmt: skip
    assert environment == {"VLLM_GRAPH_RESERVED_MEM": "0.2"}


SERVER = """
    import os, signal, sys, time
    from warmup_insights.model.events import *
    from warmup_insights.model.run import RunRecord
    from warmup_insights.storage import EventStore
    db, label, mode = sys.argv[1:4]
    def record_stop():
        with EventStore(db) as store, store.begin() as t:
            t.append("srv", [
                ShutdownRequested(message="a signal", in_start=True, time=6.0),
                RunFinished(status="stopped", time=6.0),
            ])
            t.update_run("srv", status="stopped")
        sys.exit(130)
    if mode == "deaf":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with EventStore(db) as store, store.begin() as t:
        t.ensure_run(RunRecord(run_id="srv", label=label, started_at=1.0))
        events = [RunStarted(engine="vllm", time=1.0)]
        if mode == "fails":
            events.append(Failure(failure="error", message="no such model", time=2.0))
        if mode in ("ready", "deaf"):
            events.append(WarmupFinished(duration_s=3.0, time=4.0))
            events.append(ServerReady(time=5.0))
        if mode in ("dies", "refused"):
            events.append(RunFinished(status="failed", time=3.0))
        t.append("srv", events)
        if mode in ("dies", "refused"):
            t.update_run("srv", status="failed")
    if mode == "refused":
        print("usage: vllm [-h]\\nvllm: error: unrecognized arguments: --x", file=sys.stderr)
        sys.exit(2)
    if mode == "dies":
        print("(APIServer pid=1) Traceback (most recent call last):", file=sys.stderr)
        print("(EngineCore pid=2) a.b.NoSuchModelError: no model at http://me:pw@host/m",
              file=sys.stderr)
        print("(APIServer pid=1) RuntimeError: Engine core initialization failed. See "
              "root cause above.", file=sys.stderr)
        print("nanobind: leaked 4 instances!", file=sys.stderr)
        print("Recorded as run srv: warmup-insights show srv", file=sys.stderr)
        sys.exit(1)
    print("Error: no such model" if mode == "fails" else "serving", file=sys.stderr)
    if mode == "fails":
        sys.exit(1)
    if mode == "stopped":
        signal.signal(signal.SIGINT, lambda *_: record_stop())
    if os.fork() == 0:
        time.sleep(300)  # a worker, which has to end with its parent
    try:
        time.sleep(300)
    except KeyboardInterrupt:
        sys.exit(130)
"""


def run_server(tmp_path, monkeypatch, mode, timeout_s=60.0):
    """A point whose command is a stand-in for a server that records itself."""
    program = tmp_path / "server.py"
    program.write_text(textwrap.dedent(SERVER))
    made = experiment()
    label = made.label(made.points[0])
    db = str(tmp_path / "v.db")
    monkeypatch.setattr(
        sweep_runs, "point_command",
        lambda *_: ([sys.executable, str(program), db, label, mode], {}),
    )  # fmt: skip
    monkeypatch.setattr(sweep_runs, "POLL_S", 0.1)
    monkeypatch.setattr(sweep_runs, "STOP_S", 1.0)
    return sweep_runs.run_point(db, made, made.points[0], timeout_s)


def children_of(program):
    found = subprocess.run(
        ["ps", "-ewwo", "args"], capture_output=True, text=True, check=True
    )
    return [line for line in found.stdout.splitlines() if str(program) in line]


@pytest.mark.long
@pytest.mark.parametrize("mode", ["ready", "deaf"])
def test_a_server_is_stopped_when_it_is_ready(tmp_path, monkeypatch, mode):
    """With an interrupt, and by force where that is ignored; workers end as well."""
    outcome = run_server(tmp_path, monkeypatch, mode)
    assert (outcome.run_id, outcome.status) == ("srv", "finished")
    deadline = time.monotonic() + 600
    while children_of(tmp_path / "server.py") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert children_of(tmp_path / "server.py") == []
    with EventStore(tmp_path / "v.db") as store:
        assert store.run("srv").notes == experiment().note


def test_a_server_that_fails_is_a_result(tmp_path, monkeypatch):
    outcome = run_server(tmp_path, monkeypatch, "fails")
    assert (outcome.status, outcome.reason) == ("failed", "no such model")


def test_why_a_server_died_unrecorded_is_its_last_error_and_is_kept(
    tmp_path, monkeypatch
):
    """An engine may end before anything in it is watched."""
    outcome = run_server(tmp_path, monkeypatch, "dies")
    said = "a.b.NoSuchModelError: no model at http://***@host/m"
    assert (outcome.status, outcome.reason) == ("failed", said)
    with EventStore(tmp_path / "v.db") as store:
        assert store.summary("srv").failure.message == said
        made = experiment()
        found = sweep_runs.find_done(store, made, made.points[0], retry_failed=False)
    assert (found.run_id, found.status, found.reason) == ("srv", "failed", said)


def test_options_that_the_server_refuses_end_the_sweep(tmp_path, monkeypatch):
    with pytest.raises(WarmupInsightsError) as caught:
        run_server(tmp_path, monkeypatch, "refused")
    assert str(caught.value) == (
        "The run was refused: vllm: error: unrecognized arguments: --x; "
        "change the options of the sweep"
    )


@pytest.mark.long
@pytest.mark.parametrize("mode", ["slow", "stopped"])
def test_a_server_that_is_never_ready_is_given_up(tmp_path, monkeypatch, mode):
    limit_s = {"slow": 2.0, "stopped": 6.0}[mode]
    outcome = run_server(tmp_path, monkeypatch, mode, timeout_s=limit_s)
    assert outcome.reason == f"not ready within {limit_s:g} s"
    if mode == "stopped":
        assert outcome.status == "failed"
    assert children_of(tmp_path / "server.py") == []


def test_a_command_that_records_nothing_is_a_failure(tmp_path, monkeypatch):
    made = experiment("reference")
    monkeypatch.setattr(
        sweep_runs, "point_command",
        lambda *_: ([sys.executable, "-c", "import sys; sys.exit('Error: boom')"], {}),
    )  # fmt: skip
    outcome = sweep_runs.run_point(str(tmp_path / "n.db"), made, made.points[0], None)
    assert (outcome.run_id, outcome.status, outcome.reason) == (None, "failed", "boom")


def test_a_hangup_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with endings_as_interrupts():
            signal.raise_signal(signal.SIGHUP)
            with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
                signal.raise_signal(signal.SIGTERM)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


SWEEPER = """
    import signal, sys
    from warmup_insights.cli import sweep as sweep_runs
    from warmup_insights.cli import endings_as_interrupts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where tests run under nohup
    program, db, label = sys.argv[1:]
    command = [sys.executable, program, db, label, "slow"]
    with endings_as_interrupts():
        sweep_runs.run_until_ready(
            command, {}, lambda: False, stays=True, timeout_s=None
        )
"""


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_sweep_that_is_ended_takes_its_server_with_it(tmp_path, number):
    """By Ctrl-C, by a scheduler, by a closed terminal."""
    program, sweeper = tmp_path / "server.py", tmp_path / "sweeper.py"
    program.write_text(textwrap.dedent(SERVER))
    sweeper.write_text(textwrap.dedent(SWEEPER))
    process = subprocess.Popen(
        [sys.executable, sweeper, program, tmp_path / "v.db", "x"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and len(children_of(program)) < 3:
        time.sleep(0.1)
    assert len(children_of(program)) == 3  # the sweep, the server and its worker
    process.send_signal(number)
    assert process.wait(timeout=600) != 0
    assert children_of(program) == []


@pytest.mark.long
def test_an_interrupted_sweep_leaves_no_process_and_goes_on_later(tmp_path):
    """Ctrl-C in the middle of a point: the point is run again, the others are not."""
    db = tmp_path / "s.db"
    command = [
        sys.executable, "-m", "warmup_insights", "sweep", "--db", str(db),
        "--name", "cut", "--graph-reserved-mem", "0.1,0.2,0.3,0.4,0.5,0.6,0.7",
        *SIMULATED,
    ]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    for line in process.stderr:
        if line.startswith("[2/7]"):
            break
    os.kill(process.pid, signal.SIGINT)
    process.stderr.read()
    assert process.wait(timeout=600) != 0
    done = sweep(db, "--name", "cut", "--graph-reserved-mem", "0.1,0.2,0.3", "--json")
    points = json.loads(done.stdout)["points"]
    assert [point["status"] for point in points] == ["finished"] * 3
    before = int(done.stderr.partition(": ")[2].partition(" of ")[0])
    assert 2 <= before <= 3


def test_grids_and_points_are_read():
    options = {"max_num_seqs": "8, 16", "prompt_ratio": None}
    assert read_grid(options, ("block_size=64,",)) == {
        "max_num_seqs": ["8", "16"], "block_size": ["64"],
    }  # fmt: skip
    assert read_point("a=1,b=x=y") == {"a": "1", "b": "x=y"}
