"""A run and a source as records of the store, and the process that records a run."""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

INTERRUPTED_AFTER_S = 60.0
"""A recorder that has not written for so long is taken for dead.

It writes every few seconds; a compiler that holds the interpreter lock can keep it
from writing for much longer than that, so the limit is generous.
"""
_STALE_AFTER_S = 5.0
"""Time without a heartbeat after which the process is looked up."""


def new_run_id() -> str:
    """A run id that no other run has: 12 hexadecimal digits."""
    return secrets.token_hex(6)


def next_run_id(run_id: str, process: str | None) -> str:
    """The id of the run that a process begins behind another run, or in a program that has
    one: it shows which program the run is of."""
    return hashlib.sha256(f"{run_id} {process}".encode()).hexdigest()[:12]


def run_name(
    *, run_id: str, label: str | None, model: str | None, source_name: str | None,
    source_kind: str | None,
) -> str:  # fmt: skip
    """What a run is called everywhere: its label, else its log; of a recording the model,
    whose program is the same for all of them; else its id."""
    of_model = (model or "").rstrip("/").rpartition("/")[2]
    names = (source_name, of_model)
    first, second = names if source_kind == "log" else reversed(names)
    return label or first or second or run_id


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One start of one engine. Times are seconds since the epoch, UTC."""

    run_id: str
    source_kind: str = "recorder"
    """`log` or `recorder`."""
    source_id: str | None = None
    """The source whose log this run was read from; None for a recorder."""
    source_name: str | None = None
    """File name of the log, or name of the recorded program."""
    ordinal: int = 0
    """Which start-up in its source, from 0."""
    label: str | None = None
    notes: str | None = None
    engine: str | None = None
    version: str | None = None
    model: str | None = None
    device_kind: str | None = None
    device_name: str | None = None
    status: str = "unknown"
    """`finished`, `running`, `failed`, `skipped` or `unknown`."""
    started_at: float | None = None
    created_at: float | None = None
    """When the run was first stored; filled in by the store."""
    updated_at: float | None = None
    heartbeat_at: float | None = None
    """When its recorder last wrote; None for logs."""
    synthetic: bool = False
    """True when the figures come from a simulation or a made-up log."""
    num_events: int = 0
    """Stored events, and the next sequence number; counted by the store."""
    process: str | None = None
    """The process that records, from `process.own_process()`; None for logs."""

    @property
    def name(self) -> str:
        """What the run is called."""
        return run_name(
            run_id=self.run_id, label=self.label, model=self.model,
            source_name=self.source_name, source_kind=self.source_kind,
        )  # fmt: skip

    def is_interrupted(self, now: float) -> bool:
        """True when a recorder was cut off: `running`, yet without a heartbeat."""
        return self.status == "running" and self.has_no_heartbeat(now)

    def has_no_heartbeat(self, now: float) -> bool:
        """True when a recorder has no heartbeat, at its end or because it was cut off.

        A short time is enough when its process is known to be gone; a clock that was
        set back makes a heartbeat lie in the future, which counts as none.
        """
        if self.heartbeat_at is None:
            return False
        age = abs(now - self.heartbeat_at)
        if age > INTERRUPTED_AFTER_S:
            return True
        return age > _STALE_AFTER_S and is_gone(self.process)

    def status_at(self, now: float) -> str:
        """The status to show at a time: the stored one; `failed`, as in its summary, of a
        start whose recorder was cut off."""
        return "failed" if self.is_interrupted(now) else self.status


@dataclass(frozen=True, kw_only=True)
class SourceRecord:
    """One log that was read: what it was, and the report of its parsing."""

    source_id: str
    name: str
    digest: str
    """Hash of all bytes; no two sources have the same."""
    head_digest: str
    """Hash of the first bytes, by which a file that has grown is recognised."""
    size_bytes: int = 0
    lines: int = 0
    dialects: tuple[str, ...] = ()
    report: Mapping[str, Any] = field(default_factory=dict)
    timezone: str | None = None
    ingested_at: float | None = None
    """When it was read; filled in by the store."""


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
