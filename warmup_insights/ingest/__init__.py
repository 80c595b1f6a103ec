"""From logs to the store: one transaction per file, nothing twice, nothing lost.

The names below are loaded when they are first used: a process that only reads logs does
without the database.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmup_insights.ingest.cluster import ingest_on_ray
    from warmup_insights.ingest.find import find_files, find_remote
    from warmup_insights.ingest.many import choose_jobs, ingest_files
    from warmup_insights.ingest.outcome import Options, Outcome, Progress, Watcher
    from warmup_insights.ingest.single import ingest_file, ingest_path

_MODULES = {
    "choose_jobs": "many",
    "find_files": "find",
    "find_remote": "find",
    "ingest_files": "many",
    "Options": "outcome",
    "Outcome": "outcome",
    "Progress": "outcome",
    "Watcher": "outcome",
    "ingest_file": "single",
    "ingest_on_ray": "cluster",
    "ingest_path": "single",
}

__all__ = [
    "Options",
    "Outcome",
    "Progress",
    "Watcher",
    "choose_jobs",
    "find_files",
    "find_remote",
    "ingest_file",
    "ingest_files",
    "ingest_on_ray",
    "ingest_path",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
