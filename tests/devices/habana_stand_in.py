"""What `habana_frameworks` looks like to the HPU device, on the CPU.

It shows that the calls fit together, nothing else: no figure of it says anything about
a Gaudi. Graphs replay the recorded function. Signatures are those of the bridge 1.19;
`tests.devices.bridge_lab` compares them with its own Python.
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
        self._is_lazy = is_lazy
        self._is_available = is_available
        self.capturing = None
        """The graph that is being recorded."""
        self.compiled = 0

    def modules(self) -> dict[str, types.ModuleType]:
        """The modules by name."""
        found = {name: types.ModuleType(name) for name in NAMES}
        for name, module in found.items():
            parent, _, child = name.rpartition(".")
            if parent:
                setattr(found[parent], child, module)
        hpu = found["habana_frameworks.torch.hpu"]
        for name in ("is_available", "get_device_name", "mem_get_info", "synchronize"):
            setattr(hpu, name, getattr(self, name))
        hpu.default_stream, hpu.stream = _default_stream, _stream
        hpu.HPUGraph = self.graph_class()
        metrics = found["habana_frameworks.torch.hpu.metrics"]
        metrics.metric_global = self.metric_global
        core = found["habana_frameworks.torch.core"]
        core.mark_step = self.mark_step
        internal = found["habana_frameworks.torch.utils.internal"]
        internal.is_lazy = lambda: self._is_lazy
        return found

    def is_available(self):
        return self._is_available

    def get_device_name(self, device=None):
        return "GAUDI-STAND-IN"

    def mem_get_info(self, device=None):
        return TOTAL - self.used, TOTAL

    def synchronize(self):
        self.calls.append("synchronize")

    def mark_step(self, device_str="", sync=False):
        self.calls.append("mark_step")

    def metric_global(self, name):
        return _Metric(self)

    def graph_class(self):
        """`HPUGraph()` takes nothing: it belongs to the device of the process."""
        stand_in = self

        class HPUGraph(_Graph):
            def __init__(self):
                super().__init__(stand_in)

        return HPUGraph


def _default_stream(device=None):
    return "default"


def _stream(stream):
    return contextlib.nullcontext()


class _Graph:
    """Records through the project's own recorder, which works on the CPU.

    To destroy a graph ends whatever is being recorded (`HPUGraph::destroy`).
    """

    def __init__(self, stand_in: StandIn) -> None:
        from warmup_insights.devices.recorded import _Recorder

        self._recorder = _Recorder(lambda _: None)
        self._stand_in = stand_in
        self._calls = []

    def capture_begin(self, dry_run=False) -> None:
        self._stand_in.calls.append("capture_begin")
        self._stand_in.capturing = self
        self._recorder.__enter__()

    def capture_end(self) -> None:
        self._recorder.__exit__(None, None, None)
        self._stand_in.calls.append("capture_end")
        if self._stand_in.capturing is self:
            self._calls = self._recorder.calls
        self._stand_in.capturing = None
        self._stand_in.compiled += 1
        self._stand_in.used += 10

    def replay(self, asynchronous=False) -> None:
        with torch.inference_mode():
            for call in self._calls:
                call()

    def reset(self) -> None:
        self._stand_in.calls.append("reset")
        self._calls = []
        self._stand_in.capturing = None

    def __del__(self) -> None:
        self.reset()


class _Metric:
    def __init__(self, stand_in: StandIn) -> None:
        self._stand_in = stand_in

    def stats(self):
        return [("TotalNumber", self._stand_in.compiled), ("TotalTime", 0)]


def install(monkeypatch, stand_in: StandIn) -> None:
    """Make the modules importable for one test."""
    for name, module in stand_in.modules().items():
        monkeypatch.setitem(sys.modules, name, module)
