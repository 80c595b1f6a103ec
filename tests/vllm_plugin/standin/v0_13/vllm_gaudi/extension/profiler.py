"""Stand-in for `vllm_gaudi/extension/profiler.py`."""

from __future__ import annotations

from standin.gaudi import MemoryProfiler, format_bytes

__all__ = ["HabanaMemoryProfiler", "format_bytes"]


class HabanaMemoryProfiler(MemoryProfiler):
    """The shared one."""
