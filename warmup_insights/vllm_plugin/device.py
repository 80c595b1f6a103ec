"""The device as its own libraries report it; nothing is imported, nothing waits.

Only modules that the engine has loaded are used. `mem_get_info` does not wait for the
device: on CUDA, ROCm and XPU it is the driver's figure of the whole device, on Gaudi the
limit of this process's pool and what is in use of it.
"""

from __future__ import annotations

import functools
import importlib
import sys
from dataclasses import dataclass
from typing import Any

_HPU_MODULE = "habana_frameworks.torch.hpu"
_METRICS_MODULE = "habana_frameworks.torch.hpu.metrics"
_ERRORS = (RuntimeError, AttributeError, TypeError, ValueError, AssertionError)


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the graph compiler of the Gaudi bridge has done in this process so far."""

    count: int
    duration_s: float


def _backend() -> Any:
    hpu = sys.modules.get(_HPU_MODULE)
    if hpu is not None:
        return hpu
    torch = sys.modules.get("torch")
    for backend in (getattr(torch, "cuda", None), getattr(torch, "xpu", None)):
        try:
            if backend is not None and backend.is_initialized():
                return backend
        except _ERRORS:
            continue
    return None


def kind() -> str | None:
    """`hpu`, `cuda`, `rocm` or `xpu`; None where none of them is in use.

    torch has AMD's devices under the name of CUDA, in a build with a version of HIP.
    """
    if sys.modules.get(_HPU_MODULE) is not None:
        return "hpu"
    backend, torch = _backend(), sys.modules.get("torch")
    if backend is None:
        return None
    if backend is getattr(torch, "xpu", None):
        return "xpu"
    is_amd = getattr(getattr(torch, "version", None), "hip", None) is not None
    return "rocm" if is_amd else "cuda"


def name() -> str | None:
    """The name of the device, as its driver gives it."""
    try:
        return str(_backend().get_device_name())
    except _ERRORS:
        return None


def free_and_total() -> tuple[int | None, int | None]:
    """Free and total bytes of the device; None where unknown."""
    try:
        free, total = _backend().mem_get_info()
        return int(free), int(total)
    except _ERRORS:
        return None, None


def taken_since(free_before: int | None) -> int | None:
    """Bytes that were free then and are not now; None where unknown."""
    free, _ = free_and_total()
    return None if free is None or free_before is None else free_before - free


def synchronize() -> None:
    """Wait for the device; called only when the user chose that."""
    backend = _backend()
    if backend is not None:
        backend.synchronize()


def compiled() -> Compiled | None:
    """Recipes compiled so far, from the bridge's metric; None where there is none.

    The metric gives microseconds (`extension/profiler.py` of vllm-gaudi puts them into
    a trace as such).
    """
    figures = metric("graph_compilation")
    try:
        return Compiled(int(figures["TotalNumber"]), int(figures["TotalTime"]) / 1e6)
    except (*_ERRORS, KeyError):
        return None


def metric(name: str) -> dict[str, Any]:
    """The figures of a metric of the Gaudi bridge; empty where there is none."""
    metrics = sys.modules.get(_METRICS_MODULE)
    if metrics is None:
        if _HPU_MODULE not in sys.modules:
            return {}
        metrics = _import_metrics()
    try:
        return dict(metrics.metric_global(name).stats())
    except (*_ERRORS, KeyError):
        return {}


def pool_peak() -> int | None:
    """The most bytes of the process's pool that were in use at once; None if unknown."""
    try:
        return int(sys.modules[_HPU_MODULE].memory_stats()["MaxInUse"])
    except (*_ERRORS, KeyError):
        return None


@functools.cache
def _import_metrics() -> Any:
    """The module of the metrics, looked for once; None where it does not exist."""
    try:
        return importlib.import_module(_METRICS_MODULE)
    except ImportError:
        return None
