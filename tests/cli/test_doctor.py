"""`doctor`: every check of the machine, and that a wrong reading is found."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.cli.decisions import invoke
from tests.devices.habana_stand_in import StandIn, install
from warmup_insights.devices import checks
from warmup_insights.devices.base import DeviceOutOfMemory, _requested_bytes
from warmup_insights.devices.checks import NOT_APPLICABLE, OK, WRONG
from warmup_insights.devices.hpu import HpuDevice
from warmup_insights.devices.simulated import PROFILES, SimulatedDevice
from warmup_insights.errors import InputError
from warmup_insights.units import MIB


def cuda_is_present():
    return checks.present_device() == "cuda"


def results(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    return {check["name"]: check["result"] for check in found["checks"]}


def run(tmp_path, device):
    path = tmp_path / "found.json"
    done = invoke("doctor", "--device", device, "-o", path, "--db", tmp_path / "x.db")
    return done, path


@pytest.mark.long
def test_the_cpu_passes_every_check_that_means_something_there(tmp_path):
    done, path = run(tmp_path, "cpu")
    assert done.exit_code == 0, done.stdout
    assert results(path) == {
        "versions": OK, "hooks": NOT_APPLICABLE, "device": OK, "mode": NOT_APPLICABLE,
        "memory reading": OK, "graph": OK, "clock": OK, "out of memory": OK,
        "recorder": OK, "database folder": OK,
    }  # fmt: skip
    assert not list(tmp_path.glob("*.events.jsonl"))


@pytest.mark.gpu
@pytest.mark.skipif(not cuda_is_present(), reason="no CUDA device here")
def test_a_cuda_device_passes_every_check():
    found = {check.name: check for check in checks.checks_of("cuda")}
    assert [check for check in found.values() if check.result == WRONG] == []
    assert found["graph"].values["memory_bytes"] >= 0


def test_a_simulated_device_states_that_nothing_is_measured(tmp_path):
    done, path = run(tmp_path, "simulated:gaudi2")
    assert done.exit_code == 0
    assert results(path)["graph"] == NOT_APPLICABLE
    assert "simulated: nothing is measured" in done.stdout


@pytest.mark.long
def test_a_device_that_is_not_there_is_one_wrong_check(tmp_path):
    done, path = run(tmp_path, "hpu")
    assert done.exit_code == 1
    assert results(path)["device"] == WRONG
    assert results(path)["recorder"] == OK


def test_secrets_are_masked_in_the_file(tmp_path, monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "very-hidden-word")
    _, path = run(tmp_path, "simulated:gaudi2")
    text = path.read_text(encoding="utf-8")
    assert "VLLM_API_KEY" in text
    assert "very-hidden-word" not in text


def test_a_file_that_is_there_is_kept(tmp_path):
    run(tmp_path, "simulated:gaudi2")
    done, _ = run(tmp_path, "simulated:gaudi2")
    assert done.exit_code != 0
    assert isinstance(done.exception, InputError)
    assert "exists; use --force" in str(done.exception)


def test_a_folder_that_is_not_there_is_named_before_anything_is_tried(tmp_path):
    done = invoke("doctor", "-o", tmp_path / "no" / "x.json", "--db", tmp_path / "x.db")
    assert "cannot be written: No such file or directory" in str(done.exception)
    assert "Checks on" not in done.output


def test_a_reading_that_does_not_follow_is_wrong():
    class Stuck(SimulatedDevice):
        def allocate(self, num_bytes):
            pass

    found = checks.check_memory("memory", Stuck(PROFILES["gaudi2"]))
    assert found.result == WRONG
    assert found.values["grown_bytes"] == 0


def test_a_clock_that_goes_back_is_wrong():
    class Back(checks_cpu()):
        def now(self):
            self.reading = getattr(self, "reading", 0.0) - 1e-6
            return self.reading

    assert checks.check_clock("clock", Back(64 << 20)).result == WRONG


def checks_cpu():
    from warmup_insights.devices.cpu import CpuDevice

    return CpuDevice


@pytest.mark.parametrize("is_lazy", [True, False])
def test_the_mode_of_the_bridge_is_named(monkeypatch, is_lazy):
    install(monkeypatch, StandIn(is_lazy=is_lazy))
    found = checks.check_mode("mode", HpuDevice())
    assert (found.result, found.figure) == (OK, "lazy" if is_lazy else "compile")


def printed():
    """By a process that gets as far as the check of out of memory."""
    going_on = {"name": "out of memory", "result": checks.GOING_ON}
    named = {"name": "device", "result": OK, "figure": "GAUDI2"}
    lines = [f"{checks.PREFIX}{json.dumps(each)}" for each in (named, going_on)]
    return "\n".join(["a library prints, too", *lines])


def test_a_check_that_the_device_ends_the_process_in_has_its_last_line(monkeypatch):
    """What was found before stays; stdout has lines of libraries as well."""
    text = "PT_DEVMEM Allocation failed for size::268435456 (256)MB\n"
    done = subprocess.CompletedProcess([], -6, stdout=printed(), stderr=text)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    device, memory = checks.checks_of("hpu")
    assert (device.result, device.figure) == (OK, "GAUDI2")
    assert memory.result == WRONG
    assert "ended with -6" in memory.figure
    assert "268435456" in memory.figure


def test_a_device_that_hangs_is_given_up(monkeypatch):
    def hang(command, **_):
        raise subprocess.TimeoutExpired(command, 300, output=printed().encode())

    monkeypatch.setattr(subprocess, "run", hang)
    device, memory = checks.checks_of("hpu")
    assert (device.result, memory.result) == (OK, WRONG)
    assert "did not end within 300 s" in memory.figure


def test_a_process_that_ends_before_the_first_check_is_a_wrong_device(monkeypatch):
    done = subprocess.CompletedProcess([], 1, stdout="", stderr="no module torch\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    (device,) = checks.checks_of("hpu")
    assert (device.name, device.result) == ("device", WRONG)
    assert device.figure == "the process ended with 1: no module torch"


@pytest.mark.parametrize("is_known", [True, False])
def test_memory_of_a_gaudi_ends_in_pieces(monkeypatch, is_known):
    """One tensor of twice the memory of a device could fail for its size alone."""

    class Full(checks_cpu()):
        kind = "hpu"

    device = Full(256 * MIB)
    left = 200 * MIB
    sizes = []

    def allocate(_, num_bytes):
        sizes.append(num_bytes)
        if sum(sizes) > left and num_bytes != MIB:
            error = DeviceOutOfMemory(needed_bytes=num_bytes, free_bytes=0)
            raise error if is_known else RuntimeError("Graph compile failed")
        return [1]

    monkeypatch.setattr(checks, "_allocate", allocate)
    found = checks.check_out_of_memory("out of memory", device)
    assert sizes == [4 * MIB] * 51 + [MIB]
    assert found.values["requested_bytes"] == 204 * MIB
    assert found.result == (OK if is_known else WRONG)
    assert found.values["error"] == ("" if is_known else "Graph compile failed")


def test_an_error_in_a_check_is_its_result():
    found = checks.tried("graph", lambda: 1 / 0)
    assert (found.name, found.result) == ("graph", WRONG)
    assert found.figure == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has", 20 << 30),
        ("can't allocate memory: you tried to allocate 4096 bytes. Error 12", 4096),
        ("PT_DEVMEM Allocation failed for size::268435456 (256)MB", 268435456),
        ("something else", None),
    ],
)
def test_the_size_of_the_request_is_read_from_the_error(text, asked):
    assert _requested_bytes(text) == asked
