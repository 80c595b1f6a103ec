"""Growing logs that this server reads again and again for a visitor.

The list belongs to the visitor's session; reading happens whenever the page refreshes,
and takes at most a tenth of the time.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field

import streamlit as st

from warmup_insights.errors import WarmupInsightsError
from warmup_insights.ingest.outcome import Options
from warmup_insights.ingest.single import ingest_path
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore

KEY = "followed"
SHARE = 10.0
"""Pause after a reading: so many times what it took."""


@dataclass
class Followed:
    """One log, as it was when it was last read."""

    size: int = -1
    next_at: float = 0.0
    run_ids: list[str] = field(default_factory=list)


def _followed() -> dict[str, Followed]:
    found: dict[str, Followed] = st.session_state.setdefault(KEY, {})
    return found


def paths() -> list[str]:
    """The logs that are followed."""
    return list(_followed())


def add(path: str) -> None:
    """Follow a log from now on."""
    _followed().setdefault(path, Followed())


def remove(path: str) -> None:
    """Follow it no more; a run that did not finish is unknown again."""
    from dashboard import data

    entry = _followed().pop(path, None)
    for run_id in entry.run_ids if entry is not None else ():
        refresh(data.store(), run_id)


def step(store: EventStore) -> list[tuple[str, str | None]]:
    """Read what has grown; every log with what went wrong, if anything did."""
    return [(path, _read(store, path, entry)) for path, entry in _followed().items()]


def _read(store: EventStore, path: str, entry: Followed) -> str | None:
    now = time.monotonic()
    if now < entry.next_at:
        return None
    try:
        size = os.path.getsize(path)
        if size == entry.size:
            return None
        outcome = ingest_path(store, path, Options(is_growing=True))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except WarmupInsightsError as error:
        return str(error)
    entry.size = size
    entry.run_ids = outcome.run_ids
    entry.next_at = now + SHARE * (time.monotonic() - now)
    return None
