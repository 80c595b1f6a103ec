"""Python's garbage collector: how long it ran, and keeping it from old objects.

vllm-gaudi's `HabanaMemoryProfiler` (`extension/profiler.py`) collects when it is
entered and when it is left, which is twice for every bucket, and each time the
garbage collector visits every object of the process.
"""

from __future__ import annotations

import gc
import time
from typing import Any


class CollectorClock:
    """Adds up the time spent in the garbage collector while it is switched on."""

    def __init__(self) -> None:
        self.total_s = 0.0
        """Seconds since the first time it was switched on."""
        self._users = 0
        self._started: float | None = None

    def switch_on(self) -> None:
        """Begin to measure; calls are counted."""
        self._users += 1
        if self._users == 1:
            gc.callbacks.append(self._measure)

    def switch_off(self) -> None:
        """Take the callback off when no user of it is left."""
        self._users = max(0, self._users - 1)
        if self._users == 0 and self._measure in gc.callbacks:
            gc.callbacks.remove(self._measure)

    def _measure(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._started = time.perf_counter()
        elif self._started is not None:
            self.total_s += time.perf_counter() - self._started
            self._started = None


class Freeze:
    """Keeps objects that exist now out of later collections, until it is lifted."""

    def __init__(self) -> None:
        self._had_frozen = gc.get_freeze_count() > 0
        self.num_objects = 0

    def begin(self) -> None:
        """Collect what is garbage now, so that none is kept; then freeze the rest."""
        gc.collect()
        gc.freeze()
        self.num_objects = gc.get_freeze_count()

    def lift(self) -> bool:
        """Unfreeze; False when the program had frozen objects of its own before.

        The garbage collector has only one set of frozen objects: lifting ours would lift
        theirs, so then everything stays frozen.
        """
        if self._had_frozen:
            return False
        gc.unfreeze()
        return True
