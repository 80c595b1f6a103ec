"""What a device does for the runner: read its memory, keep time, record graphs."""

from __future__ import annotations

import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from warmup_insights.devices import host
from warmup_insights.errors import DeviceError
from warmup_insights.units import format_bytes, parse_bytes

_REQUESTED = re.compile(
    r"[Tt]ried to allocate (?:([0-9.]{1,12} [KMGT]iB)|(\d{1,19}) bytes)"
    r"|Allocation (?:failed for size::|of size ::)(\d{1,19})"
)
"""How torch's caching allocator, its CPU allocator and the Gaudi bridge write what they
were requested (`device_memory.cpp`, `device.cpp`)."""


@dataclass(frozen=True)
class MemoryState:
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


def _requested_bytes(text: str) -> int | None:
    found = _REQUESTED.search(text)
    if found is None:
        return None
    return parse_bytes(found[1]) if found[1] else int(found[2] or found[3])


class DeviceOutOfMemory(DeviceError):
    """The device has less memory than was requested."""

    def __init__(self, *, needed_bytes: int | None, free_bytes: int | None) -> None:
        self.needed_bytes = needed_bytes
        self.free_bytes = free_bytes
        super().__init__(
            f"out of device memory: {format_bytes(needed_bytes)} needed, "
            f"{format_bytes(free_bytes)} free"
        )


@dataclass
class Graph:
    """Recorded work with fixed inputs and outputs; dropping it gives its memory back.

    `replay` does the work again, on what the input buffers hold now. `storage_bytes` is
    the memory the graph is known to keep, None where only the device's free memory is known.
    """

    replay: Callable[[], Any]
    storage_bytes: int | None = None


class Device(ABC):
    """An accelerator, or what stands for one.

    `kind` is `cpu`, `cuda`, `hpu` or `simulated`. `is_synthetic` is True where nothing
    runs, and figures come from a model; else `torch_name` is what torch calls the device.
    """

    kind: str
    name: str
    is_synthetic = False
    torch_name: str

    @abstractmethod
    def memory(self) -> MemoryState:
        """Memory now, after all submitted work."""

    @abstractmethod
    def now(self) -> float:
        """Seconds since the epoch in UTC; never goes back."""

    @abstractmethod
    def wait(self, seconds: float) -> None:
        """Let time pass."""

    @abstractmethod
    def capture(self, work: Callable[[], Any]) -> Graph:
        """Record `work` and run it once."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """Facts about the device worth keeping with a run."""

    def synchronize(self) -> None:  # noqa: B027 - nothing to wait for
        """Return when all submitted work is done."""

    def require(self, num_bytes: int) -> None:
        """Do nothing if that much is free, else raise DeviceOutOfMemory."""
        free = self.memory().free_bytes
        if num_bytes > free:
            raise DeviceOutOfMemory(needed_bytes=num_bytes, free_bytes=free)

    def profile(self, work: Callable[[], Any]) -> None:
        """Run `work`; from now on the peak of its intermediates counts as used.

        A caching allocator does that by itself. Where there is none, the peak is
        measured and set aside.
        """
        work()
        self.synchronize()

    def grow_workspace(self, num_bytes: int) -> None:  # noqa: B027 - nothing to do
        """Set that much aside for intermediates, unless as much already is.

        Devices with a caching allocator ignore it. Raises DeviceOutOfMemory.
        """

    def guard(self) -> AbstractContextManager[None]:
        """Turn the platform's out-of-memory error into DeviceOutOfMemory."""
        return nullcontext()

    def num_compiled(self) -> int | None:
        """How many graphs the device compiled so far; None where nothing counts."""
        return None

    def close(self) -> None:  # noqa: B027 - nothing to give back
        """Give back what the device holds."""


class WorkspaceDevice(Device):
    """A device that sets intermediates aside itself: no allocator keeps their peak."""

    _workspace_bytes = 0

    def grow_workspace(self, num_bytes: int) -> None:
        """Set that much aside for intermediates, if less is."""
        missing = num_bytes - self._workspace_bytes
        if missing > 0:
            self.require(missing)
            self._workspace_bytes = num_bytes


class MeasuredDevice(Device):
    """What devices have in common whose memory and time are measured."""

    def __init__(self) -> None:
        self._epoch = time.time() - time.perf_counter()

    @abstractmethod
    def _used_and_total(self) -> tuple[int, int]:
        """Bytes of the device, without waiting for it."""

    @abstractmethod
    def _is_out_of_memory(self, error: Exception) -> bool:
        """Whether the platform raises this where its memory is used up."""

    def memory(self) -> MemoryState:
        """Memory of the device and of the host, after the submitted work."""
        self.synchronize()
        used, total = self._used_and_total()
        host_used, host_total = host.host_memory()
        return MemoryState(
            total_bytes=total,
            used_bytes=used,
            host_used_bytes=host_used,
            host_total_bytes=host_total,
            resident_bytes=host.resident_bytes(),
        )

    def now(self) -> float:
        """Seconds since the epoch in UTC, by a monotonic clock."""
        return self._epoch + time.perf_counter()

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(max(0.0, seconds))

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Turn the platform's out-of-memory error into DeviceOutOfMemory."""
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not self._is_out_of_memory(error):
                raise
            used, total = self._used_and_total()
            raise DeviceOutOfMemory(
                needed_bytes=_requested_bytes(str(error)),
                free_bytes=max(0, total - used),
            ) from error
