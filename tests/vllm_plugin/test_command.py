"""`warmup-insights vllm`: passes everything through, and says which run it was."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import ANY

import msgspec
import pytest
from click.testing import CliRunner

from tests.cli.decisions import store_run
from tests.vllm_plugin.running import environment, executions
from warmup_insights.analysis.summary.fold import summarize
from warmup_insights.cli import vllm as launch
from warmup_insights.cli import vllm as vllm_command
from warmup_insights.errors import InputError
from warmup_insights.model.events import (
    Failure,
    PhaseMarked,
    RunFinished,
    RunStarted,
    ServerReady,
    ServingFailure,
    ShutdownRequested,
)
from warmup_insights.model.run import RunRecord, next_run_id
from warmup_insights.storage.store import EventStore
from warmup_insights.vllm_plugin import settings
from warmup_insights.vllm_plugin.check import Finding
from warmup_insights.vllm_plugin.settings import Settings, read_settings

pytestmark = pytest.mark.long

COMMAND = [sys.executable, "-m", "warmup_insights", "vllm"]


def call(folder, *arguments, version="v0_26", **more):
    return subprocess.run(
        [*COMMAND, "--db", str(folder / "runs.db"), *arguments],
        env=environment(version, **more),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def stored(folder):
    with EventStore(folder / "runs.db", read_only=True) as store:
        (run,) = store.runs()
        return run, list(store.events(run.run_id)), store.summary(run.run_id)


def test_serve_is_recorded_and_the_run_is_named(tmp_path):
    done = call(tmp_path, "--label", "first", "serve", "org/model", "--api-key", "abc")
    assert done.returncode == 0, done.stderr
    assert "tokens [[100], [1]]" in done.stdout
    run, events, summary = stored(tmp_path)
    assert f"Recorded as run {run.run_id}" in done.stderr.splitlines()[-1]
    assert (run.label, run.status, run.model) == ("first", "finished", "org/model")
    assert run.source_name == "vllm serve org/model --api-key '***'"
    kinds = [type(event).__name__ for event in events]
    assert kinds[0] == "RunStarted"
    assert kinds[-1] == "RunFinished"
    assert kinds.count("RunStarted") == kinds.count("RunFinished") == 1
    assert len(executions(events)) == 31
    assert summary.status == "finished"
    assert summary.config["command"] == run.source_name


@pytest.mark.parametrize(("text", "is_synthetic"), [("1", True), ("0", False)])
def test_the_run_is_as_synthetic_as_its_processes(
    tmp_path, monkeypatch, text, is_synthetic
):
    monkeypatch.setenv(settings.SYNTHETIC, text)
    recorder, events = vllm_command._recorder(str(tmp_path / "runs.db"), "r", None, "x")
    recorder.close()
    assert events[0].synthetic is is_synthetic
    assert read_settings(
        {settings.DATABASE: "x", settings.SYNTHETIC: text}
    ) == Settings(database="x", run_id=ANY, is_first=True, is_synthetic=is_synthetic)


def test_a_skipped_warmup_is_a_skipped_run(tmp_path):
    done = call(
        tmp_path,
        "serve",
        "org/model",
        VLLM_SKIP_WARMUP="true",
        VLLM_ENABLE_V1_MULTIPROCESSING="1",
    )
    assert done.returncode == 0, done.stderr
    assert stored(tmp_path)[0].status == "skipped"


def test_output_and_exit_status_pass_through(tmp_path):
    done = call(tmp_path, "fail")
    assert done.returncode == 7
    assert done.stdout == "to stdout\n"
    assert done.stderr.startswith("to stderr\n")
    run, _, summary = stored(tmp_path)
    assert (run.status, summary.status) == ("failed", "failed")
    assert summary.failure.message == (
        "The program vllm ended with exit status 7; its output states why"
    )


@pytest.mark.parametrize("known", [None, ServingFailure(failure="error", message="x")])
def test_a_server_that_fails_by_itself_ends_serving(known, tmp_path):
    start = [RunStarted(engine="vllm", time=0.0), ServerReady(time=1.0)]
    if known is not None:
        start.append(msgspec.structs.replace(known, time=2.0))
    store_run(tmp_path / "runs.db", "r", start)
    ending = launch.Ending(1, at=3.0)
    last = vllm_command.last_events(str(tmp_path / "runs.db"), "r", ending)
    run = RunRecord(run_id="r", source_kind="recorder")
    summary = summarize(run, [*start, *last]).summary
    assert (summary.status, summary.failure) == ("finished", None)
    message = "The program vllm ended with exit status 1; its output states why"
    assert summary.serving.end.message == (message if known is None else "x")


@pytest.mark.parametrize(
    ("own", "theirs", "kept"),
    [
        ("unknown", ["finished", "finished"], ["c0", "c1"]),
        ("failed", ["finished", "failed"], ["c0", "c1"]),
        ("failed", ["finished"], ["r"]),
        ("stopped", ["finished"], ["r"]),
        ("unknown", [], ["r"]),
    ],
)
def test_a_program_whose_children_have_the_engines_is_their_runs(
    tmp_path, own, theirs, kept
):
    """`vllm bench startup`; what they do not state is kept in a run without an engine."""
    database = tmp_path / "runs.db"
    processes = {next_run_id("r", f"host|{n}|1"): f"host|{n}|1" for n in range(2)}
    starts = {"r": own, **dict(zip(processes, theirs, strict=False))}
    names = dict(zip(("c0", "c1"), processes, strict=True))
    kept = [names.get(each, each) for each in kept]
    with EventStore(database) as store:
        for number, (run_id, status) in enumerate(starts.items()):
            end = RunFinished(status=status, time=99.0)
            with store.begin() as transaction:
                transaction.ensure_run(
                    RunRecord(run_id=run_id, source_name="vllm bench startup",
                              status=status, started_at=10.0 + number,
                              process=processes.get(run_id))
                )  # fmt: skip
                failed = [Failure(failure="error", message="of a child")] * (
                    status == "failed"
                )
                transaction.append(run_id, [RunStarted(engine="vllm"), *failed, end])
    assert vllm_command.recorded_runs(str(database), "r") == kept
    with EventStore(database) as store:
        assert {run.run_id for run in store.runs()} == {
            *(starts if kept == ["r"] else kept)
        }


@pytest.mark.parametrize("status", ["unknown", "failed"])
def test_a_run_of_another_program_with_the_same_command_replaces_none(tmp_path, status):
    """One database takes the runs of several machines."""
    database = tmp_path / "runs.db"
    with EventStore(database) as store:
        for run_id in ("r", "c"):
            with store.begin() as transaction:
                transaction.ensure_run(
                    RunRecord(run_id=run_id, source_name="vllm serve", status=status,
                              started_at=10.0, process=f"{run_id}|1|1")
                )  # fmt: skip
                transaction.append(run_id, [RunStarted(engine="vllm")])
    assert vllm_command.recorded_runs(str(database), "r") == ["r"]


def test_a_program_with_an_engine_of_its_own_keeps_its_run(tmp_path):
    database = tmp_path / "runs.db"
    with EventStore(database) as store:
        for run_id in ("r", next_run_id("r", None)):
            with store.begin() as transaction:
                transaction.ensure_run(
                    RunRecord(run_id=run_id, source_name="vllm serve", status="unknown",
                              started_at=10.0)
                )  # fmt: skip
                transaction.append(
                    run_id, [PhaseMarked(name="configure", edge="start")]
                )
    assert vllm_command.recorded_runs(str(database), "r") == ["r"]


def test_any_vllm_command_gets_its_own_arguments(tmp_path):
    done = call(tmp_path, "bench", "serve", "--port", "1", "--db", "x", "--help")
    assert done.stdout == "arguments: serve --port 1 --db x --help\n"


def test_freeze_gc_is_an_option_of_ours(tmp_path):
    call(tmp_path, "--freeze-gc", "serve", "org/model")
    topics = [getattr(event, "topic", None) for event in stored(tmp_path)[1]]
    assert "gc_freeze" in topics
    assert "gc_unfreeze" in topics


def test_a_filter_of_plugins_lets_ours_in(tmp_path):
    done = call(tmp_path, "serve", "org/model", VLLM_PLUGINS="other")
    assert done.returncode == 0
    assert any(type(event).__name__ == "WarmupStep" for event in stored(tmp_path)[1])


def stop_when_it_sleeps(folder, number, *arguments, is_direct=False):
    """Start a command that says `sleeping`, send it a signal, or the program that it
    started: exit code and stderr."""
    process = subprocess.Popen(
        [*COMMAND, "--db", str(folder / "runs.db"), *arguments],
        env=environment("v0_26"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "sleeping\n"
    if is_direct:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        os.kill(int(children.read_text().split()[0]), number)
    else:
        process.send_signal(number)
    _, stderr = process.communicate(timeout=600)
    return process.returncode, stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signals_are_passed_on(number, tmp_path):
    exit_code, stderr = stop_when_it_sleeps(tmp_path, number, "sleep")
    assert (
        exit_code == 128 + signal.SIGTERM
        if number == signal.SIGTERM
        else (exit_code in (1, 130))
    )
    assert "Recorded as run" in stderr
    assert stored(tmp_path)[0].status == "stopped"


def test_a_server_that_was_stopped_before_it_was_ready_did_not_finish(tmp_path):
    stop_when_it_sleeps(tmp_path, signal.SIGINT, "serve", "org/model", "--hang")
    run, _, summary = stored(tmp_path)
    assert (run.status, summary.status) == ("stopped", "stopped")
    assert (summary.failure, summary.stop) == (None, "a signal that was passed on")


def test_a_start_that_was_stopped_lasted_until_the_signal(tmp_path):
    before = time.time()
    stop_when_it_sleeps(tmp_path, signal.SIGTERM, "serve", "org/model", "--hang")
    _, events, summary = stored(tmp_path)
    [asked] = [event for event in events if isinstance(event, ShutdownRequested)]
    assert before < asked.time <= events[-1].time
    assert summary.time.wall_s == pytest.approx(asked.time - events[0].time, abs=1e-5)


def test_whether_a_server_got_ready_is_left_to_what_can_be_read(tmp_path, monkeypatch):
    """Where the database cannot be written, the events of the start wait elsewhere."""
    (tmp_path / "runs.db").write_text("no database", encoding="utf-8")
    ending = launch.Ending(0, at=99.0, stops=(50.0, 90.0))
    shutdown, end = vllm_command.last_events(str(tmp_path / "runs.db"), "r", ending)
    assert (shutdown.time, end.time) == (90.0, 99.0)
    start = [RunStarted(engine="vllm", time=0.0), ServerReady(time=80.0)]
    for found, status in (start[:1], "stopped"), (start, "finished"):
        run = RunRecord(run_id="r", source_kind="recorder")
        assert summarize(run, [*found, shutdown, end]).summary.status == status


@pytest.mark.parametrize(("failed_at", "status"), [(49.0, "failed"), (51.0, "stopped")])
def test_what_fails_behind_the_signal_is_the_stop(tmp_path, failed_at, status):
    start = [
        RunStarted(engine="vllm", time=0.0),
        Failure(failure="error", message="WorkerProc failed", time=failed_at),
    ]
    store_run(tmp_path / "runs.db", "r", start)
    ending = launch.Ending(0, at=60.0, stops=(50.0,))
    last = vllm_command.last_events(str(tmp_path / "runs.db"), "r", ending)
    assert last[-1].status == status
    run = RunRecord(run_id="r", source_kind="recorder")
    summary = summarize(run, [*start, *last]).summary
    assert summary.status == status
    assert (summary.failure is None) == (status == "stopped")


def test_a_program_that_was_killed_failed_of_it(tmp_path):
    code, _ = stop_when_it_sleeps(
        tmp_path, signal.SIGKILL, "serve", "org/model", "--hang", is_direct=True
    )
    run, _, summary = stored(tmp_path)
    assert (code, run.status, summary.status) == (128 + 9, "failed", "failed")
    assert summary.failure.kind == "killed"
    assert summary.failure.message == "The program vllm was ended by SIGKILL"


def test_an_interrupt_of_the_terminal_arrives_once(tmp_path):
    """The terminal sends it to both; the command must not get a second one from us."""
    program = tmp_path / "counting.py"
    program.write_text(
        "import signal, sys, time\n"
        "seen = []\n"
        "signal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
        "print('ready', flush=True)\n"
        "end = time.monotonic() + 3\n"
        "while time.monotonic() < end: time.sleep(0.05)\n"
        "print('interrupts', len(seen), flush=True)\n",
        encoding="utf-8",
    )
    caller = (
        "import os, sys; from warmup_insights.cli.vllm import run_command; "
        f"print(run_command([sys.executable, {str(program)!r}], os.environ), flush=True)"
    )
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(sys.executable, [sys.executable, "-c", caller], environment("v0_26"))
    output = read_until(terminal, b"ready")
    os.write(terminal, b"\x03")
    output += read_until(terminal, b"killed_by")
    os.waitpid(pid, 0)
    assert b"interrupts 1" in output
    assert b"exit_code=0, " in output
    assert b"stops=()" not in output


def read_until(terminal, word):
    output = b""
    deadline = time.monotonic() + 600
    while word not in output and time.monotonic() < deadline:
        output += os.read(terminal, 4096)
    time.sleep(0.2)
    return output


def test_an_unusable_database_does_not_stop_the_engine(tmp_path):
    (tmp_path / "runs.db").write_text("no database", encoding="utf-8")
    done = call(tmp_path, "serve", "org/model")
    assert done.returncode == 0
    assert "tokens [[100], [1]]" in done.stdout
    assert done.stderr.count("is not a SQLite database") == 1
    assert done.stderr.count("wait in a file") == 1
    assert "Traceback" not in done.stderr


def test_nothing_to_run_is_a_usage_error(tmp_path):
    done = call(tmp_path)
    assert done.returncode == 2
    assert "Name a vLLM command" in done.stderr


def test_an_environment_without_vllm_gets_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(launch.facts, "is_installed", lambda name: False)
    with pytest.raises(InputError, match="No vLLM is installed in the environment of"):
        launch.vllm_command(str(tmp_path / "python"))


def test_a_check_without_vllm_gets_a_sentence(monkeypatch):
    """Programs without it have uvicorn, whose hook attaches."""
    there = Finding("vllm", "ready", "uvicorn.server.Server.startup", "all", "attaches")
    monkeypatch.setattr(vllm_command, "check", lambda hooks: [there])
    done = CliRunner().invoke(vllm_command.vllm, ["--check"])
    assert str(done.exception).startswith("No vLLM is installed in this environment")


def test_check_lists_every_hook_and_starts_nothing(tmp_path):
    done = call(tmp_path, "--check", "--json")
    answer = json.loads(done.stdout)
    assert (answer["engine"], answer["version"]) == ("vllm-gaudi", "0.26.0")
    gaudi = {
        h["target"]: h["status"] for h in answer["hooks"] if h["engine"] == "vllm-gaudi"
    }
    assert set(gaudi.values()) == {"attaches", "other version"}
    runner = "vllm_gaudi.v1.worker.hpu_model_runner.HPUModelRunner"
    assert gaudi[f"{runner}._prepare_dummy_scenario"] == "attaches"
    assert gaudi[f"{runner}.warmup_scenario"] == "other version"
    assert gaudi[f"{runner}.execute_model"] == "attaches"
    assert not (tmp_path / "runs.db").exists()


def test_check_for_people_names_what_is_missing(tmp_path):
    done = call(tmp_path, "--check")
    assert done.returncode == 0
    missing = re.findall(r"^missing +.*$", done.stdout, re.M)
    assert any("gpu_worker.Worker" in line for line in missing)
    assert not any("vllm_gaudi" in line for line in missing)


@pytest.mark.parametrize("version", ["v0_10", "v0_13", "v0_26"])
def test_check_agrees_with_what_attaches(version, tmp_path):
    """The sources say the same as the imported classes."""
    program = (
        "import importlib, json\n"
        "from warmup_insights.vllm_plugin.attach import start\n"
        "from warmup_insights.vllm_plugin import attach as module\n"
        "import os; start(os.environ)\n"
        "import vllm_gaudi.v1.worker.hpu_worker\n"
        "found = module._running.attachments\n"
        "print(json.dumps([a.hook.target for a in found]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment(version, WARMUP_INSIGHTS_DB=str(tmp_path / "runs.db")),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    attached = {t for t in json.loads(done.stdout) if t.startswith("vllm_gaudi")}
    answer = json.loads(call(tmp_path, "--check", "--json", version=version).stdout)
    listed = {
        hook["target"]
        for hook in answer["hooks"]
        if hook["status"] == "attaches" and hook["target"].startswith("vllm_gaudi")
    }
    assert attached == listed
    assert len(attached) > 20


def test_the_environment_for_recording():
    made = launch.recording_environment(
        {"VLLM_PLUGINS": "a,b", "KEPT": "1"},
        database="runs.db",
        run_id="0123",
        source="vllm serve m",
        label="x",
        freezes_gc=True,
    )
    assert made["WARMUP_INSIGHTS_DB"] == os.path.abspath("runs.db")
    assert made["VLLM_PLUGINS"] == "a,b,warmup_insights"
    assert made["WARMUP_INSIGHTS_RUN"] == "0123"
    assert made["WARMUP_INSIGHTS_FREEZE_GC"] == "1"
    assert made["KEPT"] == "1"
    url = launch.recording_environment(
        {}, database="postgresql://u@h/d", run_id="1", source="s"
    )
    assert url["WARMUP_INSIGHTS_DB"] == "postgresql://u@h/d"
    assert "VLLM_PLUGINS" not in url
