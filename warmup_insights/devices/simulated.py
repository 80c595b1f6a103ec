"""Devices that exist only as figures: memory, bandwidth, compute and a clock.

Nothing is measured here. Time is virtual: it passes when work is charged, so hours of
warm-up take milliseconds. What work costs is written down in `runner/costs.py`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from warmup_insights.devices.base import Graph, MemoryState, WorkspaceDevice
from warmup_insights.units import GIB


@dataclass(frozen=True)
class DeviceProfile:
    """Published figures of an accelerator, and the memory its driver reports.

    Sources: Intel Gaudi 2 and Gaudi 3 white papers for memory, bandwidth and BF16
    matrix throughput. For Gaudi 2 the memory is what the start-up log in vllm-gaudi's
    warm-up page reports (94.62 GiB of 96 GiB; the further digit follows from the other
    figures of that log). For Gaudi 3 the same share of its 128 GiB is assumed.
    """

    name: str
    total_bytes: int
    bandwidth_bytes_per_s: float
    flops_per_s: float


PROFILES = {
    "gaudi2": DeviceProfile(
        name="simulated Gaudi 2 (96 GiB)",
        total_bytes=round(94.6235 * GIB),
        bandwidth_bytes_per_s=2.46e12,
        flops_per_s=432e12,
    ),
    "gaudi3": DeviceProfile(
        name="simulated Gaudi 3 (128 GiB)",
        total_bytes=round(94.6235 / 96 * 128 * GIB),
        bandwidth_bytes_per_s=3.7e12,
        flops_per_s=1678e12,
    ),
}


class SimulatedDevice(WorkspaceDevice):
    """A profile with a virtual clock and a byte counter."""

    kind = "simulated"
    is_synthetic = True

    def __init__(
        self, profile: DeviceProfile, *, started_at: float | None = None
    ) -> None:
        self.profile_figures = profile
        self.name = profile.name
        self.used_bytes = 0
        self._now = time.time() if started_at is None else started_at

    def memory(self) -> MemoryState:
        """The counters; nothing is known of a host."""
        used = self.used_bytes + self._workspace_bytes
        return MemoryState(self.profile_figures.total_bytes, used)

    def now(self) -> float:
        """Virtual seconds since the epoch."""
        return self._now

    def wait(self, seconds: float) -> None:
        """Move the clock."""
        self._now += max(0.0, seconds)

    def allocate(self, num_bytes: int) -> None:
        """Take memory. Raises DeviceOutOfMemory."""
        self.require(num_bytes)
        self.used_bytes += num_bytes

    def capture(self, work: Callable[[], Any]) -> Graph:
        """Keep `work`, which is charged again at each replay, and run it once."""
        work()
        return Graph(work, 0)

    def settings(self) -> dict[str, Any]:
        """The figures of the profile."""
        figures = self.profile_figures
        return {
            "simulated_bandwidth_bytes_per_s": figures.bandwidth_bytes_per_s,
            "simulated_flops_per_s": figures.flops_per_s,
        }
