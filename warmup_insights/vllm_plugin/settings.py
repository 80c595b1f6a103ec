"""The environment variables of recording; every variable of the plugin is here."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass

from warmup_insights.model.run import host, new_run_id
from warmup_insights.storage.location import DATABASE_VARIABLE

DATABASE = DATABASE_VARIABLE
RUN = "WARMUP_INSIGHTS_RUN"
LABEL = "WARMUP_INSIGHTS_LABEL"
SOURCE = "WARMUP_INSIGHTS_SOURCE"
SYNC = "WARMUP_INSIGHTS_SYNC"
FREEZE_GC = "WARMUP_INSIGHTS_FREEZE_GC"
SYNTHETIC = "WARMUP_INSIGHTS_SYNTHETIC"
DRAINER = "WARMUP_INSIGHTS_DRAINER"

VARIABLES = {
    DATABASE: "database to record into: a file or a postgresql:// URL; "
    "without it the plugin does nothing",
    RUN: "id of the run; made by the first process and handed on to the others",
    LABEL: "a name for the run",
    SOURCE: "what was started, for the list of runs; otherwise the program's name",
    SYNC: "1: wait for the device before the end of every step is timed",
    FREEZE_GC: "1: keep the garbage collector from old objects during warm-up",
    SYNTHETIC: "1: the device is simulated; the run is marked as such",
    DRAINER: "set by the plugin: which run a process of this machine stores already",
}
"""Name to what it does; the documentation lists the same."""

PREFIX = "WARMUP_INSIGHTS_"
"""With which the name of each of them begins."""

_TRUE = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True)
class Settings:
    """The settings of this process."""

    database: str
    run_id: str
    is_first: bool
    """True in the process that made the run id."""
    label: str | None = None
    source: str | None = None
    syncs: bool = False
    freezes_gc: bool = False
    is_synthetic: bool = False
    started_at: float | None = None
    """When the run began, where it is known."""


def read_settings(environ: MutableMapping[str, str]) -> Settings:
    """The settings; the run id is made and put into `environ` if there is none."""
    known = environ.get(RUN)
    run_id = known or new_run_id()
    environ[RUN] = run_id
    return Settings(
        database=environ[DATABASE],
        run_id=run_id,
        is_first=not known,
        label=environ.get(LABEL) or None,
        source=environ.get(SOURCE) or None,
        syncs=is_true(environ, SYNC),
        freezes_gc=is_true(environ, FREEZE_GC),
        is_synthetic=is_true(environ, SYNTHETIC),
    )


def is_true(environ: Mapping[str, str], name: str) -> bool:
    """Whether a variable of the plugin is switched on."""
    return environ.get(name, "").strip().lower() in _TRUE


def drainer_of(run_id: str) -> str:
    """What the variable DRAINER holds where a process of this machine drains a run."""
    return f"{run_id} on {host()}"
