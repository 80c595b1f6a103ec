"""The store of runs and events: SQLite by default, PostgreSQL through the same URL.

The names below load SQLAlchemy when they are first used, so that command-line help and
`default_database` stay quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmup_insights.storage.location import default_database
    from warmup_insights.storage.spool import Spool
    from warmup_insights.storage.store import EventStore, Transaction

_MODULES = {
    "default_database": "location",
    "Spool": "spool",
    "EventStore": "store",
    "Transaction": "store",
}

__all__ = [
    "EventStore",
    "Spool",
    "Transaction",
    "default_database",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
