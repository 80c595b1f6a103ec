"""What `habana_frameworks` looks like to the HPU device, on the CPU.

It shows that the calls fit together, nothing else: no figure of it says anything about
a Gaudi. Graphs replay the recorded function; `fail_at` makes an allocation fail.
"""

from __future__ import annotations

import contextlib
import sys
import types

import torch

TOTAL = 1000
NAMES = (
    "habana_frameworks",
    "habana_frameworks.torch",
    "habana_frameworks.torch.core",
    "habana_frameworks.torch.hpu",
    "habana_frameworks.torch.hpu.metrics",
    "habana_frameworks.torch.utils",
    "habana_frameworks.torch.utils.internal",
)


class StandIn:
    """Counts the calls, and answers them."""

    def __init__(self, *, is_lazy: bool, is_available: bool = True) -> None:
        self.used = 100
        self.calls: list[str] = []
        self.is_lazy = is_lazy
        self.is_available = is_available
        self.compiled = 0

    def modules(self) -> dict[str, types.ModuleType]:
        """The modules by name."""
        found = {name: types.ModuleType(name) for name in NAMES}
        for name, module in found.items():
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(found[parent], child, module)
        hpu = found["habana_frameworks.torch.hpu"]
        hpu.is_available = lambda: self.is_available
        hpu.get_device_name = lambda: "GAUDI-STAND-IN"
        hpu.mem_get_info = lambda: (TOTAL - self.used, TOTAL)
        hpu.synchronize = lambda: self.calls.append("synchronize")
        hpu.Stream = object
        hpu.stream = lambda stream: contextlib.nullcontext()
        hpu.HPUGraph = lambda: _Graph(self)
        metrics = found["habana_frameworks.torch.hpu.metrics"]
        metrics.metric_global = lambda name: _Metric(self)
        core = found["habana_frameworks.torch.core"]
        core.mark_step = lambda: self.calls.append("mark_step")
        internal = found["habana_frameworks.torch.utils.internal"]
        internal.is_lazy = lambda: self.is_lazy
        return found


class _Graph:
    """Records through the project's own recorder, which works on the CPU."""

    def __init__(self, stand_in: StandIn) -> None:
        from warmup_insights.devices.recorded import _Recorder

        self._recorder = _Recorder(lambda _: None)
        self._stand_in = stand_in

    def capture_begin(self) -> None:
        self._stand_in.calls.append("capture_begin")
        self._recorder.__enter__()

    def capture_end(self) -> None:
        self._recorder.__exit__(None, None, None)
        self._stand_in.calls.append("capture_end")
        self._stand_in.compiled += 1
        self._stand_in.used += 10

    def replay(self) -> None:
        with torch.inference_mode():
            for call in self._recorder.calls:
                call()


class _Metric:
    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in

    def stats(self):
        return [("TotalNumber", self._stand_in.compiled), ("TotalTime", 0)]


def install(monkeypatch, stand_in: StandIn) -> None:
    """Make the modules importable for one test."""
    for name, module in stand_in.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
