"""A CUDA device: torch.cuda.CUDAGraph in one memory pool, memory from the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warmup_insights.devices.base import DeviceOutOfMemory, Graph, MeasuredDevice
from warmup_insights.errors import DeviceError


class CudaDevice(MeasuredDevice):
    """The current CUDA device."""

    kind = "cuda"
    torch_name: str | None = "cuda"

    def __init__(self) -> None:
        super().__init__()
        if not torch.cuda.is_available():
            raise DeviceError(
                "No CUDA device is available to torch; check the driver with "
                "`nvidia-smi`, or use --device cpu"
            )
        self.name = torch.cuda.get_device_name()
        self._pool = torch.cuda.graph_pool_handle()

    def _used_and_total(self) -> tuple[int, int]:
        """What the driver reports for the whole device, all processes together."""
        free, total = torch.cuda.mem_get_info()
        return total - free, total

    def _is_out_of_memory(self, error: Exception) -> bool:
        return isinstance(error, torch.cuda.OutOfMemoryError)

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()

    def require(self, num_bytes: int) -> None:
        """Raise DeviceOutOfMemory if driver and allocator have not that much left."""
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        free = self.memory().free_bytes + unused
        if num_bytes > free:
            raise DeviceOutOfMemory(needed_bytes=num_bytes, free_bytes=free)

    def capture(self, work: Callable[[], Any]) -> Graph:
        """Run `work` once on a side stream, as capturing requires, then record it."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.inference_mode():
            work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(graph, pool=self._pool):
            work()
        graph.replay()  # recording runs nothing: the outputs are filled here
        return Graph(graph.replay)

    def settings(self) -> dict[str, Any]:
        """Library versions and the capability of the device."""
        return {
            "torch_version": str(torch.__version__),
            "cuda_version": torch.version.cuda,
            "compute_capability": ".".join(
                map(str, torch.cuda.get_device_capability())
            ),
        }

    def close(self) -> None:
        """Give cached memory back to the driver."""
        torch.cuda.empty_cache()
