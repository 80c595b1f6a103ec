from __future__ import annotations

import os
import subprocess
import sys

import pytest

from warmup_insights.model.run import is_gone, own_process


def test_this_process_is_there():
    assert not is_gone(own_process())


def test_a_process_that_ended_is_gone_even_before_anybody_waits():
    program = "from warmup_insights.model.run import own_process; print(own_process())"
    with subprocess.Popen(
        [sys.executable, "-c", program + "; input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=os.getcwd(),
    ) as child:
        process = child.stdout.readline().strip()
        assert not is_gone(process)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_gone(process)  # a zombie
        child.wait()
        assert is_gone(process)


def test_an_id_that_another_process_has_now_is_gone():
    host, pid, start = own_process().split("|")
    assert is_gone(f"{host}|{pid}|{int(start) - 1}")


@pytest.mark.parametrize("process", [None, "", "nonsense", "a|b|c", "other host|1|1"])
def test_what_cannot_be_known_is_not_gone(process):
    assert not is_gone(process)


def test_an_unknown_start_is_not_gone():
    host, pid, _ = own_process().split("|")
    assert not is_gone(f"{host}|{pid}|")
