"""What a device can do for the runner: tell its memory, keep time, record graphs."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from warmup_insights.errors import DeviceError
from warmup_insights.units import format_bytes


@dataclass(frozen=True)
class MemoryReading:
    """Memory at one moment, in bytes; a figure the platform does not give is None.

    `resident_bytes` is what this process holds of the host memory.
    """

    total_bytes: int
    used_bytes: int
    host_used_bytes: int | None = None
    host_total_bytes: int | None = None
    resident_bytes: int | None = None

    @property
    def free_bytes(self) -> int:
        """What is left of the device; never negative."""
        return max(0, self.total_bytes - self.used_bytes)


class DeviceOutOfMemory(DeviceError):
    """The device has less memory than was asked for."""

    def __init__(self, *, needed_bytes: int | None, free_bytes: int | None) -> None:
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        super().__init__(
            f"out of device memory: {format_bytes(needed_bytes)} needed, "
            f"{format_bytes(free_bytes)} free"
        )


class Graph(Protocol):
    """Recorded work with fixed inputs and outputs.

    `storage_bytes` is the memory the graph is known to keep, None where only the
    device's free memory tells.
    """

    storage_bytes: int | None

    def replay(self) -> None:
        """Do the recorded work again, on what the input buffers hold now."""

    def release(self) -> None:
        """Give the memory back; the graph cannot be replayed any more."""


class Device(Protocol):
    """An accelerator, or what stands for one.

    `kind` is `cpu`, `cuda`, `hpu` or `simulated`. `is_synthetic` is True where
    figures come from a model and not from a measurement. `torch_name` is what torch
    calls the device, None where no torch runs.
    """

    kind: str
    name: str
    is_synthetic: bool
    torch_name: str | None

    def memory(self) -> MemoryReading:
        """Memory now, after everything that was asked for is done."""

    def now(self) -> float:
        """Seconds since the epoch in UTC; never goes back."""

    def wait(self, seconds: float) -> None:
        """Let time pass."""

    def synchronize(self) -> None:
        """Return when everything that was asked for is done."""

    def require(self, num_bytes: int) -> None:
        """Do nothing if that much is free, else raise DeviceOutOfMemory."""

    def profile(self, work: Callable[[], Any]) -> None:
        """Run `work`; from now on the peak of its intermediates counts as used.

        A caching allocator does that by itself. Where there is none, the peak is
        measured and set aside.
        """

    def grow_workspace(self, num_bytes: int) -> None:
        """Set that much aside for intermediates, unless as much already is.

        Devices with a caching allocator ignore it. Raises DeviceOutOfMemory.
        """

    def guard(self) -> AbstractContextManager[None]:
        """Turn the platform's out-of-memory error into DeviceOutOfMemory."""

    def capture(self, work: Callable[[], Any]) -> Graph:
        """Record `work` and run it once."""

    def num_compiled(self) -> int | None:
        """How many graphs the device compiled so far; None where nothing counts."""

    def settings(self) -> dict[str, Any]:
        """Facts about the device worth keeping with a run."""

    def close(self) -> None:
        """Give back what the device holds."""


class EpochClock:
    """Seconds since the epoch that follow a monotonic clock."""

    def __init__(self) -> None:
        self._offset = time.time() - time.perf_counter()

    def now(self) -> float:
        """Seconds since the epoch in UTC."""
        return self._offset + time.perf_counter()
