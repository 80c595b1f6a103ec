"""The CPU as a device: a budget of host memory, real torch, recorded graphs."""

from __future__ import annotations

import gc
import platform
from collections.abc import Callable
from typing import Any

import torch

from warmup_insights.devices import host
from warmup_insights.devices.base import (
    DeviceOutOfMemory,
    Graph,
    MeasuredDevice,
    WorkspaceDevice,
)
from warmup_insights.devices.recorded import PeakCounter, record_graph
from warmup_insights.errors import DeviceError
from warmup_insights.units import GIB, format_bytes

DEFAULT_BUDGET_BYTES = 2 * GIB
MAX_THREADS = 4096
DEFAULT_THREADS = 1
"""Waking a second thread costs more than it saves in the small shapes of a CPU run."""


class CpuDevice(WorkspaceDevice, MeasuredDevice):
    """Host memory up to a budget, counted from what the process used at the start.

    Used memory is what malloc handed out since then (resident size where the C
    library has no such figure), plus the workspace: the CPU allocator gives intermediates
    back after each forward, a device keeps them, so the peak is set aside once.
    """

    kind = "cpu"
    torch_name = "cpu"

    def __init__(
        self,
        budget_bytes: int,
        *,
        num_threads: int = DEFAULT_THREADS,
    ) -> None:
        super().__init__()
        _check_budget(budget_bytes)
        if not 1 <= num_threads <= MAX_THREADS:
            raise DeviceError(
                f"{num_threads} threads cannot be used; use 1 to {MAX_THREADS}"
            )
        self.name = _processor_name()
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(num_threads)
        self._budget_bytes = budget_bytes
        _warm_torch_up()
        gc.collect()  # garbage that is freed later would count as memory given back
        host.return_free_pages()
        self._baseline_bytes = _process_bytes()

    def _used_and_total(self) -> tuple[int, int]:
        used = max(0, _process_bytes() - self._baseline_bytes) + self._workspace_bytes
        return used, self._budget_bytes

    def _is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, MemoryError) or "can't allocate" in str(error)

    def profile(self, work: Callable[[], Any]) -> None:
        """Run `work`, measure the peak of its tensors and set that much aside."""
        with torch.inference_mode(), PeakCounter() as counter:
            work()
        self.grow_workspace(counter.peak_bytes)

    def capture(self, work: Callable[[], Any]) -> Graph:
        """Record the operator calls of `work`; stop when the budget is used up."""
        free = self.memory().free_bytes

        def check(num_bytes: int) -> None:
            if num_bytes > free:
                raise DeviceOutOfMemory(needed_bytes=num_bytes, free_bytes=free)

        return record_graph(work, check=check)

    def settings(self) -> dict[str, Any]:
        """Threads and library versions."""
        return {
            "device_budget_bytes": self._budget_bytes,
            "torch_version": str(torch.__version__),
            "num_threads": torch.get_num_threads(),
            "memory_counter": "malloc" if host.allocated_bytes() is not None else "rss",
        }

    def close(self) -> None:
        """Give free pages back to the system, and the threads to torch."""
        torch.set_num_threads(self._threads_before)
        gc.collect()
        host.return_free_pages()


def _process_bytes() -> int:
    allocated = host.allocated_bytes()
    if allocated is None:
        allocated = host.resident_bytes()
    if allocated is None:
        raise DeviceError(
            "This system states neither allocated nor resident memory; use a simulated "
            "device"
        )
    return allocated


def _check_budget(budget_bytes: int) -> None:
    _, total = host.host_memory()
    if budget_bytes <= 0 or (total is not None and budget_bytes > total):
        raise DeviceError(
            f"A CPU device of {format_bytes(budget_bytes)} is not possible: this "
            f"machine has {format_bytes(total)}; choose another --memory"
        )


def _warm_torch_up() -> None:
    # The first recording imports and allocates for good; it must not count as use.
    buffer = torch.ones(4, 4)
    record_graph(lambda: buffer.matmul(buffer).relu(), check=lambda _: None)


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
