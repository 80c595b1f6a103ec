"""A CUDA device: torch.cuda.CUDAGraph in one memory pool, memory from the driver."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from warmup_insights.devices import host
from warmup_insights.devices.base import DeviceOutOfMemory, EpochClock, MemoryReading
from warmup_insights.errors import DeviceError
from warmup_insights.units import parse_bytes

_ASKED = re.compile(r"Tried to allocate ([0-9.]{1,12} [KMGT]iB)")


class CudaGraph:
    """A captured CUDA graph; its memory is part of the shared pool."""

    storage_bytes: int | None = None

    def __init__(self, graph: torch.cuda.CUDAGraph) -> None:
        self._graph = graph

    def replay(self) -> None:
        """Launch the graph on the current stream."""
        self._graph.replay()

    def release(self) -> None:
        """Give the graph's memory back to the pool."""
        self._graph.reset()


class CudaDevice:
    """The current CUDA device."""

    kind = "cuda"
    is_synthetic = False
    torch_name: str | None = "cuda"

    def __init__(self) -> None:
        if not torch.cuda.is_available():
            raise DeviceError(
                "no CUDA device is available to torch; check the driver with "
                "`nvidia-smi`, or use --device cpu"
            )
        self.name = torch.cuda.get_device_name()
        self._clock = EpochClock()
        self._pool = torch.cuda.graph_pool_handle()

    def memory(self) -> MemoryReading:
        """What the driver reports for the whole device, all processes together."""
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info()
        host_used, host_total = host.host_memory()
        return MemoryReading(
            total_bytes=total,
            used_bytes=total - free,
            host_used_bytes=host_used,
            host_total_bytes=host_total,
            resident_bytes=host.resident_bytes(),
        )

    def now(self) -> float:
        """Seconds since the epoch in UTC."""
        return self._clock.now()

    def wait(self, seconds: float) -> None:
        """Sleep."""
        time.sleep(max(0.0, seconds))

    def synchronize(self) -> None:
        """Wait for the device."""
        torch.cuda.synchronize()

    def require(self, num_bytes: int) -> None:
        """Raise DeviceOutOfMemory if driver and allocator have not that much left."""
        unused = torch.cuda.memory_reserved() - torch.cuda.memory_allocated()
        free = self.memory().free_bytes + unused
        if num_bytes > free:
            raise DeviceOutOfMemory(needed_bytes=num_bytes, free_bytes=free)

    def profile(self, work: Callable[[], Any]) -> None:
        """Run `work`; the caching allocator keeps its peak."""
        work()
        torch.cuda.synchronize()

    def grow_workspace(self, num_bytes: int) -> None:
        """Do nothing: the caching allocator keeps what it needs."""

    def guard(self) -> AbstractContextManager[None]:
        """Turn torch's error into DeviceOutOfMemory, with the size it asked for."""
        return self._guarded()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except torch.cuda.OutOfMemoryError as error:
            asked = _ASKED.search(str(error))
            raise DeviceOutOfMemory(
                needed_bytes=parse_bytes(asked[1]) if asked else None,
                free_bytes=torch.cuda.mem_get_info()[0],
            ) from error

    def capture(self, work: Callable[[], Any]) -> CudaGraph:
        """Run `work` once on a side stream, as capturing asks for, then record it."""
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.inference_mode():
            work()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.inference_mode(), torch.cuda.graph(graph, pool=self._pool):
            work()
        captured = CudaGraph(graph)
        captured.replay()  # recording runs nothing: the outputs are filled here
        return captured

    def num_compiled(self) -> int | None:
        """None: kernels are compiled ahead."""
        return None

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
