"""An Intel Gaudi: HPU graphs in lazy mode, torch.compile otherwise.

`habana_frameworks` is imported here and nowhere else. Which calls exist, and what they
return, follows the public source of the bridge 1.19 (`torch/hpu/memory.py`,
`torch/hpu/graphs.py`, `torch/hpu/csrc/bindings.cpp`, `habana_device/HPUGraph.cpp`) and their use in vllm-gaudi
(`extension/profiler.py`, `v1/worker/hpu_worker.py`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch

from warmup_insights.devices.base import Graph, MeasuredDevice
from warmup_insights.errors import DeviceError

_MAX_COMPILATIONS = 4096
_OUT_OF_MEMORY_SIGNS = ("Allocation failed for size", "workspace Allocation of size")
"""Of tensors (`device_memory.cpp`) and of what a recipe works in (`device.cpp`). Other
fatal errors of the module PT_DEVMEM are faults of the bridge."""


class HpuDevice(MeasuredDevice):
    """The current HPU of this process."""

    kind = "hpu"
    torch_name = "hpu"

    def __init__(self) -> None:
        super().__init__()
        importlib.import_module("habana_frameworks.torch")
        self._hpu = importlib.import_module("habana_frameworks.torch.hpu")
        self._core = importlib.import_module("habana_frameworks.torch.core")
        internal = importlib.import_module("habana_frameworks.torch.utils.internal")
        if not self._hpu.is_available():
            raise DeviceError(
                "No HPU is available to torch; check the driver with `hl-smi`, or use "
                "--device simulated:gaudi2"
            )
        self.is_lazy = bool(internal.is_lazy())
        self.name = str(self._hpu.get_device_name())

    def _used_and_total(self) -> tuple[int, int]:
        """What is in use of the pool of this process, and its limit.

        Another process on the device does not show here.
        """
        free, total = map(int, self._hpu.mem_get_info())
        return total - free, total

    def _is_out_of_memory(self, error: Exception) -> bool:
        return any(sign in str(error) for sign in _OUT_OF_MEMORY_SIGNS)

    def synchronize(self) -> None:
        """Send what was collected lazily, and wait for the device."""
        if self.is_lazy:
            self._core.mark_step()
        self._hpu.synchronize()

    def capture(self, work: Callable[[], Any]) -> Graph:
        """Record `work` in an HPU graph, or compile it where graphs do not exist."""
        captured = self._capture_lazy(work) if self.is_lazy else self._compile(work)
        self.synchronize()
        return captured

    def _capture_lazy(self, work: Callable[[], Any]) -> Graph:
        """Record on the stream that the engine records on (`wrap_in_hpu_graph`).

        The end of a recording runs what was recorded, unless it is a dry run. The graph
        keeps its recipes and every tensor that it reads or writes; what lies between is
        scratch memory that all recipes share. It gives them back when it is dropped,
        which **ends any recording of the process** (`HPUGraph::destroy`): a recording that
        failed is destroyed here, and not by the garbage collector during the next one.
        """
        graph = self._hpu.HPUGraph()
        with self._hpu.stream(self._hpu.default_stream()), torch.inference_mode():
            graph.capture_begin()
            try:
                work()
                graph.capture_end()
            except BaseException:
                with suppress(RuntimeError):  # the first error counts
                    graph.capture_end()
                graph.reset()
                del graph
                raise
        return Graph(graph.replay)

    def _compile(self, work: Callable[[], Any]) -> Graph:
        _allow_recompilations()
        compiled = torch.compile(work, backend="hpu_backend", dynamic=False)

        def replay() -> None:
            with torch.inference_mode():
                compiled()

        replay()  # compiles
        return Graph(replay)

    def num_compiled(self) -> int | None:
        """Graphs that the compiler built in this process, from its own metric."""
        metrics = importlib.import_module("habana_frameworks.torch.hpu.metrics")
        figures = dict(metrics.metric_global("graph_compilation").stats())
        return int(figures["TotalNumber"]) if "TotalNumber" in figures else None

    def settings(self) -> dict[str, Any]:
        """Library versions and the mode of the bridge."""
        return {
            "torch_version": str(torch.__version__),
            "bridge_mode": "lazy" if self.is_lazy else "compile",
        }

    def close(self) -> None:
        """Wait for the device; the process gives its memory back when it ends."""
        self.synchronize()


def _allow_recompilations() -> None:
    # Every bucket is a compilation of the same code: the default limit of a few would
    # silently run the rest uncompiled. vllm-gaudi raises it for the same reason.
    config = torch._dynamo.config
    config.cache_size_limit = max(config.cache_size_limit, _MAX_COMPILATIONS)
    config.accumulated_cache_size_limit = max(
        config.accumulated_cache_size_limit, 8 * _MAX_COMPILATIONS
    )
