"""The store of runs and events: SQLite by default, PostgreSQL through the same URL.

`EventStore` loads SQLAlchemy when it is first used, so that command-line help stays quick.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from warmup_insights.storage.store import EventStore

__all__ = ["EventStore"]


def __getattr__(name: str) -> Any:
    if name != "EventStore":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from warmup_insights.storage.store import EventStore

    return EventStore
