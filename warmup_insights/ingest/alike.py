"""Which stored sources begin like a file, remembered for a moment.

A folder may hold thousands of logs with the same first line. To ask the database about
all of them again for each of them would take longer than reading them.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from warmup_insights.model.run import SourceRecord
from warmup_insights.storage import EventStore

FRESH_S = 2.0
"""What others store is seen this late at the latest; the same bytes always at once."""
MAX_HEADS = 256


@dataclass
class _Found:
    sources: dict[str, SourceRecord]
    until: float


class Alike:
    """Sources by the digest of their first line, for several threads.

    What is stored here must be said with `add`.
    """

    def __init__(self, store: EventStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._found: dict[str, _Found] = {}

    def sources(self, head: str) -> list[SourceRecord]:
        """The stored sources that begin so, the longest first."""
        with self._lock:
            found = self._found.get(head)
            if found is None or found.until < time.monotonic():
                found = self._ask(head)
            return sorted(found.sources.values(), key=lambda s: -s.size_bytes)

    def _ask(self, head: str) -> _Found:
        sources = {s.source_id: s for s in self._store.sources_with_head(head)}
        if len(self._found) >= MAX_HEADS:
            self._found.clear()
        self._found[head] = _Found(sources, time.monotonic() + FRESH_S)
        return self._found[head]

    def add(
        self, head: str, source: SourceRecord, replaced: SourceRecord | None
    ) -> None:
        """Say that a source was stored, in the place of another one or not."""
        with self._lock:
            found = self._found.get(head)
            if found is not None:
                if replaced is not None:
                    found.sources.pop(replaced.source_id, None)
                found.sources[source.source_id] = source

    def forget(self) -> None:
        """Ask anew from now on: something was stored that was not said."""
        with self._lock:
            self._found.clear()
