"""Which process records a run, and whether it is still there."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def own_process() -> str:
    """This process as `host|process id|start`; unique until the machine restarts.

    The host includes the namespace of process ids, because containers on one machine
    may share its name; the start is in clock ticks, because ids are used again.
    """
    pid = os.getpid()
    return f"{host()}|{pid}|{_start_of(pid) or ''}"


def is_gone(process: str | None) -> bool:
    """True when that process certainly does not run any more.

    False when it may: it runs, it belongs to another machine, or it is unknown.
    """
    parts = (process or "").split("|")
    if len(parts) != 3 or parts[0] != host() or not parts[1].isdigit() or not parts[2]:
        return False
    return _start_of(int(parts[1])) != parts[2]


def host() -> str:
    """This machine, or the container on it."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{socket.gethostname()} {namespace}".replace("|", " ")


def _start_of(pid: int) -> str | None:
    """When a process started, in clock ticks since boot; None when it is gone.

    A dead process that was not waited for yet counts as gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    state, *rest = fields.rpartition(")")[2].split()
    return None if state in "ZX" else rest[18]
