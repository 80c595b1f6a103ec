"""An engine core, or workers, killed in the middle of a bucket."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time

import pytest

from tests.vllm_plugin.running import start_standin
from warmup_insights.vllm_plugin import engine_core

pytestmark = pytest.mark.long

PATIENCE_S = 60


@pytest.fixture(params=["graph 5", "collector 5"])
def killed(request, tmp_path):
    """What an engine left whose core was killed in a bucket behind its fifth graph.

    Either while that ran, or in the collection of garbage that comes before.
    """
    process, ran = start_standin(
        "v0_26",
        tmp_path,
        VLLM_ENABLE_V1_MULTIPROCESSING="1",
        STANDIN_HANG=request.param,
    )
    with process:
        for line in process.stdout:
            if line.startswith("HANGS"):
                break
        wait_until(lambda: ran.database.exists() and ran.runs() and unfinished(ran))
        os.kill(int(line.split()[1]), signal.SIGKILL)
        process.communicate()
    ran.exit_code = process.returncode
    wait_until(lambda: ran.runs()[0].status == "failed")
    return ran


def wait_until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def unfinished(ran):
    return [step for step in ran.steps() if not step.is_finished]


def test_the_bucket_in_progress_is_stored_and_every_one_before_it(killed):
    assert killed.exit_code == 1
    steps = killed.steps("prompt")
    (generated,) = (
        e for e in killed.events("buckets_generated") if e.phase == "prompt"
    )
    assert [step.bucket for step in steps] == generated.buckets[::-1][: len(steps)]
    assert [step.is_finished for step in steps] == [True] * (len(steps) - 1) + [False]
    assert killed.counts()["graph_captured"] == 5


def test_the_failure_is_that_it_was_killed(killed):
    (failure,) = killed.events("failure")
    assert failure.failure == "killed"
    assert "Engine core initialization failed" in failure.message


def test_workers_that_are_killed_leave_their_buckets_and_end_the_run(tmp_path):
    """Two ranks, each with the bucket that it was in."""
    process, ran = start_standin(
        "v0_26",
        tmp_path,
        VLLM_ENABLE_V1_MULTIPROCESSING="1",
        STANDIN_TP="2",
        STANDIN_HANG="graph 5",
    )
    with process:
        victims = []
        for line in process.stdout:
            if line.startswith("HANGS"):
                victims.append(int(line.split()[1]))
            if len(victims) == 2:
                break
        wait_until(lambda: ran.database.exists() and ran.runs() and both_hang(ran))
        for victim in victims:
            os.kill(victim, signal.SIGKILL)
        process.communicate()
    assert process.returncode == 1
    wait_until(lambda: ran.runs()[0].status == "failed")
    for rank in (0, 1):
        steps = ran.steps("prompt", rank=rank)
        assert [step.is_finished for step in steps] == [True] * (len(steps) - 1) + [
            False
        ]
        assert ran.counts(rank=rank)["graph_captured"] == 5


def both_hang(ran):
    return {step.rank for step in unfinished(ran)} == {0, 1}


def process_that(target):
    process = multiprocessing.get_context("spawn").Process(target=target)
    process.start()
    return process


@pytest.mark.parametrize(
    ("codes", "is_killed"),
    [((9,), True), ((9, 15), True), ((9, None), True), ((1, 9), False), ((11,), False),
     ((), False)],
)  # fmt: skip
def test_a_kill_is_told_from_other_ends(codes, is_killed):
    """What vLLM kills when one process has failed was not killed by somebody else."""
    kinds = {9: kill_hard, 15: kill_softly, 11: crash, 1: fail, None: live}
    processes = [process_that(kinds[code]) for code in codes]
    for process, code in zip(processes, codes, strict=True):
        if code is not None:
            process.join(PATIENCE_S)
    assert engine_core.was_killed(processes) is is_killed
    for process in processes:
        process.kill()
        process.join(PATIENCE_S)


def kill_hard():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_softly():
    os.kill(os.getpid(), signal.SIGTERM)


def crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def fail():
    os._exit(1)


def live():
    time.sleep(PATIENCE_S)
