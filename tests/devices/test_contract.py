"""One contract for every device; CUDA joins where there is one."""

from __future__ import annotations

import time

import pytest
import torch

from tests.devices.habana_stand_in import StandIn, install
from warmup_insights.devices import DEVICE_CHOICES, open_device
from warmup_insights.devices.base import DeviceOutOfMemory
from warmup_insights.devices.cpu import CpuDevice
from warmup_insights.devices.hpu import HpuDevice
from warmup_insights.devices.simulated import PROFILES, SimulatedDevice
from warmup_insights.errors import DeviceError, SettingError
from warmup_insights.units import GIB, MIB


class TorchWork:
    """Work whose result shows whether it ran on what the input holds now."""

    def __init__(self, device) -> None:
        # The stand-in for Gaudi has no tensors of its own: it computes on the CPU.
        name = "cpu" if device.kind == "hpu" else device.torch_name
        self.input = torch.ones(8, 8, device=name)
        self.output = torch.zeros(8, 8, device=name)

    def __call__(self) -> None:
        self.output.copy_(self.input @ self.input + 1)

    def set_input(self, value: float) -> None:
        self.input.fill_(value)

    def result(self) -> float:
        return float(self.output[0, 0])

    @staticmethod
    def expected(value: float) -> float:
        return 8 * value * value + 1


class SimulatedWork:
    """Work that costs time; its result is the number of times it was charged."""

    def __init__(self, device) -> None:
        self.device = device
        self.runs = 0

    def __call__(self) -> None:
        self.runs += 1
        self.device.wait(0.5)

    def set_input(self, value: float) -> None:
        self.runs = round(value)

    def result(self) -> float:
        return self.runs

    @staticmethod
    def expected(value: float) -> float:
        return value + 1


@pytest.fixture(
    params=[
        "cpu",
        "simulated:gaudi2",
        "simulated:gaudi3",
        "hpu-lazy",
        pytest.param("cuda", marks=pytest.mark.gpu),
    ]
)
def device(request, monkeypatch):
    if request.param == "hpu-lazy":
        install(monkeypatch, StandIn(is_lazy=True))
        return HpuDevice()
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("no CUDA device here")
    return open_device(request.param)


@pytest.fixture
def work(device):
    return (SimulatedWork if device.is_synthetic else TorchWork)(device)


def test_memory_adds_up(device):
    reading = device.memory()
    assert reading.total_bytes > 0
    assert reading.free_bytes == reading.total_bytes - reading.used_bytes
    assert 0 <= reading.used_bytes <= reading.total_bytes


def test_the_clock_is_the_epoch_and_never_goes_back(device):
    before = device.now()
    assert before == pytest.approx(time.time(), abs=3600)
    device.wait(0.01)
    assert device.now() - before >= 0.009


def test_more_than_the_device_has_is_refused_with_both_figures(device):
    reading = device.memory()
    device.require(0)
    with pytest.raises(DeviceOutOfMemory) as caught:
        device.require(reading.total_bytes * 2 + 1)
    assert caught.value.needed_bytes == reading.total_bytes * 2 + 1
    assert caught.value.free_bytes is not None
    assert "needed" in str(caught.value)


def test_capturing_runs_the_work_and_a_replay_follows_its_input(device, work):
    work.set_input(1.0)
    graph = device.capture(work)
    device.synchronize()
    assert work.result() == work.expected(1.0)
    work.set_input(3.0)
    graph.replay()
    device.synchronize()
    assert work.result() == work.expected(3.0)


def test_graphs_are_charged_for_their_own_memory(device, work):
    """What earlier work left in the allocator stays there, and a stream's workspace counts
    once: both would make the memory of a graph wrong."""
    if device.kind == "cuda":
        torch.ones(64 * MIB, device="cuda")  # freed, and kept by the allocator
    work()
    before = device.memory().used_bytes
    graphs = [device.capture(work)]
    first = device.memory().used_bytes
    graphs += [device.capture(work) for _ in range(3)]
    later = device.memory().used_bytes
    assert 0 <= first - before < 40 * MIB
    assert 0 <= later - first < 3 * 4 * MIB
    assert len(graphs) == 4


def test_profiling_runs_the_work(device, work):
    work.set_input(2.0)
    device.profile(work)
    assert work.result() == work.expected(2.0)


def test_work_inside_the_guard_is_left_alone(device):
    with device.guard():
        device.synchronize()
    with pytest.raises(ValueError, match="mine"), device.guard():
        raise ValueError("mine")


def test_facts_are_plain_values(device):
    import json

    json.dumps(device.settings())
    assert device.name
    assert device.kind in ("cpu", "cuda", "hpu", "simulated")
    assert device.is_synthetic == (device.kind == "simulated")
    device.close()


def test_unknown_devices_are_named():
    with pytest.raises(SettingError, match=r"'tpu'.*cpu, cuda"):
        open_device("tpu")
    assert "cpu" in DEVICE_CHOICES


def test_a_budget_is_for_the_cpu_only():
    with pytest.raises(SettingError, match="cpu device only"):
        open_device("simulated:gaudi2", memory_bytes=GIB)


@pytest.mark.parametrize("size", [0, -1, 2**60])
def test_an_impossible_budget_is_refused(size):
    with pytest.raises(DeviceError, match="--memory"):
        CpuDevice(size)


def test_cuda_without_a_device_says_what_to_try(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(DeviceError, match="nvidia-smi"):
        open_device("cuda")


def test_a_missing_package_is_named(monkeypatch):
    """Without torch the CPU device cannot be opened, and says which extra has it."""
    import sys

    monkeypatch.setitem(sys.modules, "warmup_insights.devices.cpu", None)
    with pytest.raises(DeviceError, match=r"warmup-insights\[runner\]"):
        open_device("cpu")


def test_hpu_without_habana_is_named():
    with pytest.raises(DeviceError, match="habana_frameworks"):
        open_device("hpu")


class TestCpu:
    def test_used_memory_follows_what_is_allocated(self):
        device = CpuDevice(512 * MIB)
        before = device.memory().used_bytes
        kept = torch.ones(64 * MIB // 4)
        after = device.memory().used_bytes
        assert after - before == pytest.approx(64 * MIB, abs=MIB)
        del kept
        assert device.memory().used_bytes == pytest.approx(before, abs=MIB)

    def test_a_graph_keeps_the_memory_of_its_intermediates(self):
        """Storages counted by the recorder, and what malloc says, agree."""
        device = CpuDevice(512 * MIB)
        x = torch.ones(1024, 1024)
        out = torch.zeros(1024, 1024)

        def work():
            out.copy_(((x + 1) * 2).relu())

        before = device.memory().used_bytes
        graph = device.capture(work)
        assert graph.storage_bytes == 3 * 4 * MIB
        assert device.memory().used_bytes - before == pytest.approx(12 * MIB, abs=MIB)
        del graph
        assert device.memory().used_bytes - before == pytest.approx(0, abs=MIB)

    def test_recording_stops_when_the_budget_is_used_up(self):
        device = CpuDevice(64 * MIB)
        x = torch.ones(1024, 1024)
        with pytest.raises(DeviceOutOfMemory) as caught:
            device.capture(lambda: [x + i for i in range(40)])
        assert caught.value.needed_bytes > caught.value.free_bytes

    def test_the_peak_of_a_profiled_forward_is_set_aside(self):
        device = CpuDevice(512 * MIB)
        before = device.memory().used_bytes

        def work():
            first = torch.ones(16 * MIB // 4)
            second = first * 2  # peak: two of 16 MiB
            del first
            return second.sum()

        device.profile(work)
        assert device.memory().used_bytes - before == pytest.approx(32 * MIB, abs=MIB)
        device.grow_workspace(MIB)
        assert device.memory().used_bytes - before == pytest.approx(32 * MIB, abs=MIB)

    def test_values_read_back_cannot_be_recorded(self):
        device = CpuDevice(64 * MIB)
        x = torch.ones(4)
        with pytest.raises(NotImplementedError, match="recordable"):
            device.capture(lambda: x.sum().item())

    def test_the_allocators_own_error_is_translated(self):
        device = CpuDevice(64 * MIB)
        with pytest.raises(DeviceOutOfMemory), device.guard():
            torch.empty(2**60)

    def test_threads_are_set_and_given_back(self):
        before = torch.get_num_threads()
        device = CpuDevice(64 * MIB, num_threads=2)
        assert torch.get_num_threads() == 2
        device.close()
        assert torch.get_num_threads() == before


class TestSimulated:
    def test_time_passes_only_when_it_is_charged(self):
        device = SimulatedDevice(PROFILES["gaudi2"], started_at=100.0)
        assert device.now() == 100.0
        device.wait(3600.0)
        assert device.now() == 3700.0

    def test_allocations_and_the_workspace_count(self):
        device = SimulatedDevice(PROFILES["gaudi2"])
        device.allocate(GIB)
        device.grow_workspace(2 * GIB)
        device.grow_workspace(GIB)
        assert device.memory().used_bytes == 3 * GIB


class TestHpu:
    def test_lazy_mode_records_a_graph_and_counts_it(self, monkeypatch):
        stand_in = StandIn(is_lazy=True)
        install(monkeypatch, stand_in)
        device = HpuDevice()
        x, out = torch.ones(4), torch.zeros(4)
        assert device.num_compiled() == 0
        before = device.memory().used_bytes
        device.capture(lambda: out.copy_(x + 1))
        assert device.num_compiled() == 1
        assert device.memory().used_bytes == before + 10
        assert stand_in.calls.index("capture_begin") < stand_in.calls.index(
            "capture_end"
        )
        assert "mark_step" in stand_in.calls
        assert device.settings()["bridge_mode"] == "lazy"

    def test_work_that_raises_ends_its_recording(self, monkeypatch):
        """Otherwise all that follows would be recorded; the next one is whole."""
        stand_in = StandIn(is_lazy=True)
        install(monkeypatch, stand_in)
        device = HpuDevice()
        x, out = torch.ones(4), torch.zeros(4)

        def fail():
            out.copy_(x + 1)
            raise ValueError("mine")

        with pytest.raises(ValueError, match="mine") as caught:
            device.capture(fail)
        assert stand_in.calls.index("capture_end") < stand_in.calls.index("reset")
        assert stand_in.capturing is None
        graph = device.capture(lambda: out.copy_(x * 3))
        del caught  # and with it the frames of the failure
        x.fill_(5.0)
        graph.replay()
        assert out[0] == 15.0

    def test_a_failed_recording_does_not_end_the_next_one(self, monkeypatch):
        """A graph that the collector destroys late would."""
        stand_in = StandIn(is_lazy=True)
        install(monkeypatch, stand_in)
        device = HpuDevice()
        x, out = torch.ones(4), torch.zeros(4)
        errors = []

        def fail():
            raise ValueError("mine")

        try:
            device.capture(fail)
        except ValueError as error:
            errors.append(error)  # its traceback holds the frames of `capture`

        def work():
            errors.clear()
            out.copy_(x + 1)

        graph = device.capture(work)
        x.fill_(5.0)
        graph.replay()
        assert out[0] == 6.0

    def test_recording_runs_the_work_once(self, monkeypatch):
        install(monkeypatch, StandIn(is_lazy=True))
        device = HpuDevice()
        out = torch.zeros(4)
        device.capture(lambda: out.add_(1))
        assert out[0] == 1.0

    def test_compile_mode_compiles_for_the_backend(self, monkeypatch):
        install(monkeypatch, StandIn(is_lazy=False))
        asked = {}

        def compile_(work, **options):
            asked.update(options)
            return work

        monkeypatch.setattr(torch, "compile", compile_)
        device = HpuDevice()
        x, out = torch.ones(4), torch.zeros(4)
        graph = device.capture(lambda: out.copy_(x + 1))
        x.fill_(5.0)
        graph.replay()
        assert out[0] == 6.0
        assert asked == {"backend": "hpu_backend", "dynamic": False}
        assert device.settings()["bridge_mode"] == "compile"

    def test_a_failed_allocation_is_translated_with_what_is_free(self, monkeypatch):
        install(monkeypatch, StandIn(is_lazy=True))
        device = HpuDevice()
        with pytest.raises(DeviceOutOfMemory) as caught, device.guard():
            raise RuntimeError("MODULE:PT_DEVMEM Allocation failed for size::268435456")
        assert (caught.value.free_bytes, caught.value.needed_bytes) == (900, 268435456)
        with pytest.raises(DeviceOutOfMemory) as caught, device.guard():
            raise RuntimeError(
                "MODULE:PT_SYNHELPER workspace Allocation of size ::4096 failed!"
            )
        assert caught.value.needed_bytes == 4096
        with pytest.raises(RuntimeError, match="not set"), device.guard():
            raise RuntimeError(
                "MODULE:PT_DEVMEM source_pointer_ not set. Deallocation ..."
            )
        with pytest.raises(RuntimeError, match="other"), device.guard():
            raise RuntimeError("other")

    def test_no_hpu_says_what_to_try(self, monkeypatch):
        install(monkeypatch, StandIn(is_lazy=True, is_available=False))
        with pytest.raises(DeviceError, match="hl-smi"):
            HpuDevice()
