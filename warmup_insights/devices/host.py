"""Memory of this machine and of this process, from the C library and the kernel."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd",
            "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    ]  # fmt: skip


def _load(name: str) -> Callable[..., object] | None:
    try:
        return getattr(ctypes.CDLL(None), name, None)
    except (OSError, TypeError):  # no C library to load by this name
        return None


_MALLINFO2 = _load("mallinfo2")
if _MALLINFO2 is not None:
    _MALLINFO2.restype = _Mallinfo2  # type: ignore[attr-defined]
_MALLOC_TRIM = _load("malloc_trim")


def allocated_bytes() -> int | None:
    """Bytes that malloc handed out in this process; None without glibc 2.33.

    `uordblks` are the blocks in the arenas and `hblkhd` those mapped on their own.
    """
    if _MALLINFO2 is None:
        return None
    reading = _MALLINFO2()
    assert isinstance(reading, _Mallinfo2)
    return int(reading.uordblks) + int(reading.hblkhd)


def return_free_pages() -> None:
    """Make the C library give unused pages back, so that resident size means use."""
    if _MALLOC_TRIM is not None:
        _MALLOC_TRIM(ctypes.c_size_t(0))


def resident_bytes() -> int | None:
    """Physical memory of this process; None where the kernel does not state it."""
    try:
        fields = Path("/proc/self/statm").read_text("ascii").split()
    except OSError:
        return None
    return int(fields[1]) * _PAGE


def host_memory() -> tuple[int | None, int | None]:
    """Used and total bytes of the machine; None where the kernel does not state it."""
    try:
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return None, None
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    if total is None or available is None:
        return None, total
    return total - available, total
