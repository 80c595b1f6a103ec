"""A CUDA device: torch.cuda.CUDAGraph in one memory pool, memory from the driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from warmup_insights.devices.base import DeviceOutOfMemory, Graph, MeasuredDevice
from warmup_insights.errors import DeviceError


class CudaDevice(MeasuredDevice):
    """The current CUDA device, its work on one stream that graphs can be recorded on.

    torch's allocator keeps freed memory per stream, and cuBLAS a workspace per stream
    (32 MiB on Hopper): with a stream per graph, every graph would be charged for both.
    """

    kind = "cuda"
    torch_name = "cuda"

    def __init__(self) -> None:
        super().__init__()
        if not torch.cuda.is_available():
            raise DeviceError(
                "No CUDA device is available to torch; check the driver with "
                "`nvidia-smi`, or use --device cpu"
            )
        self.name = torch.cuda.get_device_name()
        self._pool = torch.cuda.graph_pool_handle()
        self._stream_before = torch.cuda.current_stream()
        torch.cuda.set_stream(torch.cuda.Stream())  # type: ignore[no-untyped-call]

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
        """Run `work` once, so that its kernels are loaded, then record it.

        Not by `torch.cuda.graph`, which empties the allocator's cache first: what
        profiling set aside for intermediates would be given back, and the graph's own
        memory would read as less than nothing. vLLM takes the same call out for its
        captures (`vllm/compilation/cuda_graph.py`).
        """
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode():
            work()
            self.synchronize()
            graph.capture_begin(pool=self._pool)
            try:
                work()
            finally:
                graph.capture_end()
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
        """Give cached memory back to the driver, and the stream before to torch."""
        torch.cuda.set_stream(self._stream_before)
        torch.cuda.empty_cache()
