"""States of a start-up while its log is being written."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from itertools import pairwise

import pytest

import warmup_insights as wi
from tests.helpers import REAL_LOGS, ROOT
from tests.ingest.builders import SAMPLES
from warmup_insights.analysis.remaining import remaining
from warmup_insights.ingest.live import LiveStart, LiveState
from warmup_insights.ingest.log import read_log
from warmup_insights.ingest.outcome import Options

pytestmark = pytest.mark.long

LOG = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
STEP = "INFO 08-01 22:27:{:02} model_runner.py:1066] [Warmup][Prompt][{}/24] batch_size:2 seq_len:1024 free_mem:55.43 GiB"
CORE = "(EngineCore pid=7) {} 10-16 10:00:{:02} "
FAILED = [
    "(APIServer pid=1) INFO 10-16 10:00:00 [api_utils.py:339] vLLM API server version 0.31.0",
    CORE.format("INFO", 5)
    + "[core.py:112] Initializing a V1 LLM engine (v0.31.0) with "
    "config: model='o/m', dtype=torch.bfloat16",
    CORE.format("ERROR", 9) + "[core.py:1104] EngineCore failed to start.",
    CORE.format("ERROR", 9) + "[core.py:1104] Traceback (most recent call last):",
    CORE.format("ERROR", 9)
    + "[core.py:1104] ValueError: the head size is not supported",
]


def test_each_change_is_a_state():
    states = list(wi.follow(LOG.read_text().splitlines(True)))
    assert all(one != other for one, other in pairwise(states))
    steps = [s for s in states if s.stage == "prompt_warmup" and s.index is not None]
    assert steps[0].total == 24
    assert [s.index for s in steps] == sorted({s.index for s in steps})
    assert states[-1].elapsed_s == 59.0


def test_the_rest_of_a_stage_is_taken_at_its_own_pace():
    start = LiveStart()
    start.feed(STEP.format(0, 1))
    (state,) = start.feed(STEP.format(2, 2))
    assert state.left_s is None  # one step is no pace
    (state,) = start.feed(STEP.format(3, 3))
    assert state.left_s == 1.5 * 22
    after = start.after_silence(31.0)
    assert (after.index, after.silence_s) == (2, 31.0)


def test_states_and_the_summary_have_one_rest_of_a_stage():
    lines = [STEP.format(2 * n, n) for n in range(1, 6)]
    log = "\n".join(lines) + "\n"
    parts = list(read_log(io.BytesIO(log.encode()), "a.log", Options(year=2024)))
    live = list(wi.follow(log.splitlines(True)))[-1]
    left = remaining(parts[-1].runs[0], None)
    assert (live.left_s, left.seconds) == (2.0 * 19, 2.0 * 19)


def test_a_failure_is_given_when_it_is_printed_and_becomes_exact():
    states = list(wi.follow(FAILED))
    failed = [state for state in states if state.status == "failed"]
    assert failed[0].failure == "EngineCore failed to start."
    assert "the head size is not supported" in failed[-1].failure
    assert states[0].status == "starting"
    assert failed[-1].model == "o/m"


BEGUN = [
    *FAILED[:2],
    "(APIServer pid=1) INFO 10-16 10:00:20 [api_server.py:677] Starting vLLM server on "
    "http://0.0.0.0:8000",
]


def test_a_server_is_ready_when_a_line_or_silence_proves_it():
    states = list(
        wi.follow([*BEGUN, "(APIServer pid=1) INFO:     Application startup complete."])
    )
    assert [s.status for s in states if s.stage == "server_start"] == ["starting"]
    assert (states[-1].status, states[-1].stage) == ("ready", "ready")
    quiet = LiveStart()
    for line in BEGUN:
        states = quiet.feed(line)
    assert states[-1].status == "starting"
    assert quiet.after_silence(10.0).status == "ready"


def test_a_restart_is_another_run():
    found = [state.run for state in wi.follow([*FAILED, *FAILED])]
    assert sorted(set(found)) == [0, 1]


def last_states(text):
    return {state.run: state for state in wi.follow(text.splitlines(True))}


@pytest.mark.parametrize(
    "logs",
    [
        pytest.param([p for p in SAMPLES if p.suffix == ".log"], id="samples"),
        pytest.param(
            sorted(REAL_LOGS.rglob("*.log")), id="real", marks=pytest.mark.long
        ),
    ],
)
def test_model_and_failure_are_those_of_the_summary(logs):
    for log in logs:
        data = log.read_bytes()
        if len(data) > 1 << 20 or b"\0" in data:
            continue
        *_, end = read_log(io.BytesIO(data), log.name, Options(year=2026))
        states = last_states(data.decode("utf-8", "replace"))
        assert set(states) >= set(end.runs), log.name
        for ordinal, folded in end.runs.items():
            summary, state = folded.summary, states[ordinal]
            failed, ended = summary.failure, summary.serving and summary.serving.end
            if failed is None and ended is not None and ended.kind != "shutdown":
                failed = ended
            message = None if failed is None else failed.message
            assert (state.model, state.failure) == (summary.model, message), log.name


def test_starts_that_print_in_turn_keep_what_each_has():
    first = [f"one  | {line}" for line in FAILED]
    other = [f"two  | {line.replace('o/m', 'o/n')}" for line in FAILED[:2]]
    turns = [
        line for pair in zip(first, [*other, *other], strict=False) for line in pair
    ]
    states = last_states("\n".join([*turns[:4], *first[2:]]))
    assert [states[run].model for run in sorted(states)] == ["o/m", "o/n"]
    assert [states[run].status for run in sorted(states)] == ["failed", "starting"]


def test_lines_that_are_no_start_give_no_state():
    assert list(wi.follow(["hello", "world"])) == []


def test_the_command_prints_a_line_for_each_change_and_stores_the_log(tmp_path):
    command = [
        sys.executable, "-m", "warmup_insights", "ingest", "-", "--follow",
        "--json-lines", "--db", str(tmp_path / "runs.db"),
    ]  # fmt: skip
    done = subprocess.run(
        command, input=LOG.read_bytes(), capture_output=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert set(rows[0]) == set(LiveState.__struct_fields__)
    assert rows[-1]["stage"]
    with wi.open(str(tmp_path / "runs.db")) as database:
        (run,) = database.runs()
        assert run.summary.source.name == "stdin"


def run(*args, text=b"", cwd):
    return subprocess.run(
        [sys.executable, "-m", "warmup_insights", "ingest", *args, "--json-lines"],
        input=text, capture_output=True, cwd=cwd, check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_json_lines_are_of_a_log_that_is_followed(tmp_path):
    done = run(str(LOG), cwd=tmp_path)
    assert done.returncode == 2
    assert b"--json-lines needs --follow" in done.stderr


READY = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_bars.log"


@pytest.mark.parametrize("by", ["file", "pipe"])
def test_a_program_can_wait_for_ready_and_see_the_stages(tmp_path, by):
    args = ("--follow", "--until-ready", "--db", str(tmp_path / "runs.db"))
    path = str(READY) if by == "file" else "-"
    text = b"" if by == "file" else READY.read_bytes()
    done = run(path, *args, text=text, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[-1]["status"] == "ready"
    assert {"prompt_warmup", "decode_warmup"} <= {row["stage"] for row in rows}
    with wi.open(str(tmp_path / "runs.db")) as database:
        (stored,) = database.runs()
        assert stored.summary.status == "finished"


def test_a_failure_ends_the_wait_with_its_cause(tmp_path):
    log = tmp_path / "a.log"
    log.write_text("\n".join(FAILED) + "\n")
    args = ("--follow", "--until-ready", "--db", str(tmp_path / "runs.db"))
    done = run(str(log), *args, cwd=tmp_path)
    assert done.returncode == 1
    last = json.loads(done.stdout.splitlines()[-1])
    assert (last["status"], last["model"]) == ("failed", "o/m")
    assert "the head size is not supported" in last["failure"]


def test_a_pipe_that_ends_early_is_neither(tmp_path):
    text = b"".join(READY.read_bytes().splitlines(True)[:12])
    args = ("-", "--follow", "--until-ready", "--db", str(tmp_path / "runs.db"))
    done = run(*args, text=text, cwd=tmp_path)
    assert done.returncode == 1
    assert b"stdin: neither ready nor failed; its input has ended" in done.stderr


def test_a_file_that_never_comes_is_named(tmp_path):
    args = ("--follow", "--until-ready", "--timeout", "1s")
    done = run("absent.log", *args, "--db", str(tmp_path / "runs.db"), cwd=tmp_path)
    assert done.returncode == 1
    assert b"there is no such file yet, check the path" in done.stderr


def test_a_compressed_log_cannot_be_followed(tmp_path):
    log = tmp_path / "a.log.gz"
    log.write_bytes(gzip.compress(READY.read_bytes()))
    done = run(str(log), "--follow", "--db", str(tmp_path / "runs.db"), cwd=tmp_path)
    assert done.returncode == 1
    assert b"cannot be followed; read it without --follow" in done.stderr


def test_pieces_of_lines_give_what_whole_lines_give():
    text = READY.read_bytes()
    whole, pieces = LiveStart(), LiveStart()
    expected = [*whole.feed_bytes(text), *whole.close()]
    found = [
        s for n in range(0, len(text), 97) for s in pieces.feed_bytes(text[n : n + 97])
    ]
    assert [*found, *pieces.close()] == expected
