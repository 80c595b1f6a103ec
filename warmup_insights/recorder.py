"""The hot path: calls become events, events go to a spool in batches.

`Recorder.record` reads a clock and appends to a queue; a background thread appends
batches to the spool. It never raises, never blocks, and never fails the program that is
recorded: what cannot be written is counted, with one warning.
"""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from warmup_insights.model.events import (
    Event,
    Failure,
    Note,
    RunFinished,
    ServerReady,
    WarmupFinished,
)
from warmup_insights.storage.spool import Spool

FLUSH_INTERVAL_S = 0.2
"""How long an event waits at most before it is written."""
BATCH = 2_000
"""Events per write, at most."""
WAKE_EVENTS = 20_000
"""So many waiting events wake the thread early; fewer would disturb a short burst."""
MAX_WAITING = 200_000
"""So many events may wait; what comes on top is dropped and counted."""
HEARTBEAT_S = 2.0
"""How often a recorder without events gives a sign of life."""
EXIT_S = 0.8
"""How long the end of the interpreter waits for the last events."""
CLOCK_STEP_S = 1.0
"""A clock that goes back by more than this is worth a note."""
LAST_EVENTS = 3
"""So many urgent events are kept for the end where there is no room for them."""

logger = logging.getLogger(__name__)

_URGENT = frozenset({Failure, WarmupFinished, ServerReady, RunFinished})
"""What is written at once; everything else within `FLUSH_INTERVAL_S`."""


class Recorder:
    """Appends recorded events to a spool, in order, in batches, on a background thread.

    The thread starts with the first event. The child of a fork has an empty queue and,
    with its first event, a thread and a spool of its own; what waited at the fork is
    the parent's.
    """

    def __init__(
        self,
        spool: Spool,
        clock: Callable[[], float] = time.time,
        *,
        max_waiting: int = MAX_WAITING,
        flush_interval_s: float = FLUSH_INTERVAL_S,
    ) -> None:
        self._spool = spool
        self._clock = clock
        self._max_waiting = max_waiting
        self._flush_interval_s = flush_interval_s
        self._is_closed = False
        self._renew()
        _recorders.add(self)

    def _renew(self) -> None:
        """Start from nothing: a new recorder, or the child of a fork."""
        self._queue: deque[Any] = deque()
        self._limit = 0  # the first event takes the slow path, which starts the thread
        self._lock = threading.RLock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._dropped = 0
        self._num_noted = 0
        self._num_flushed = 0
        self._last_events: list[Event] = []
        self._warned: set[str] = set()
        self._last_time = 0.0

    def record(self, event: Event) -> None:
        """Take an event; its time is now unless it has one. Never raises, never blocks."""
        try:
            queue = self._queue
            waiting = len(queue)
            if waiting >= self._limit:
                self._record_slowly(event)
                return
            queue.append((self._clock(), event))
            if waiting == WAKE_EVENTS or type(event) in _URGENT:
                self._wake.set()
        except Exception:  # the recorder guard: the recorded program must not fail
            self._drop()

    def _record_slowly(self, event: Event) -> None:
        """The first event, one too many, or one after the end."""
        if self._is_closed or len(self._queue) >= self._max_waiting:
            self._drop()
            return
        self._start()
        self._queue.append((self._clock(), event))
        self._wake.set()

    def _drop(self, count: int = 1) -> None:
        with self._lock:
            self._dropped += count

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                thread = threading.Thread(
                    target=self._run, name="warmup-insights-recorder", daemon=True
                )
                thread.start()
                self._thread = thread
                _close_at_end_of_worker(self)
            self._limit = self._max_waiting

    @property
    def dropped(self) -> int:
        """Events that were lost: the queue was full, or there was no room for them."""
        return self._dropped

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until everything recorded before was written; True when it found room."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return self._dropped == 0
        mark = threading.Event()
        self._queue.append(mark)
        self._wake.set()
        is_in_time = mark.wait(timeout)
        before, self._num_flushed = self._num_flushed, self._dropped
        return is_in_time and self._dropped == before

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits and stop; events recorded later are dropped and counted.

        Returns after `timeout` seconds at the latest; what is not written by then is
        counted in `dropped`.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._limit = -1
        if self._thread is None:
            self._finish()
        else:
            self._is_stopping = True
            self._wake.set()
            self._thread.join(timeout)
            if self._thread.is_alive():
                left = sum(isinstance(item, tuple) for item in tuple(self._queue))
                self._drop(left)
                self._warn(
                    "end", "The program ended before %d events were written", left
                )

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        """The background thread."""
        touch_at = time.monotonic() + HEARTBEAT_S
        while True:
            self._wake.wait(self._flush_interval_s)
            self._wake.clear()
            is_stopping = self._is_stopping
            if self._queue or time.monotonic() >= touch_at:
                touch_at = time.monotonic() + HEARTBEAT_S
                self._write_queue()
            if is_stopping and not self._queue:
                self._finish()
                return

    def _write_queue(self) -> None:
        """Empty the queue into the spool; without an event, a sign of life."""
        is_more = True
        while is_more:
            batch: list[Event] = []
            mark = None
            while self._queue and len(batch) < BATCH and mark is None:
                item = self._queue.popleft()
                if isinstance(item, threading.Event):
                    mark = item
                else:
                    self._add_stamped(batch, *item)
            if batch or mark is None:
                self._write(batch)
            if mark is not None:
                mark.set()
            is_more = bool(self._queue)

    def _add_stamped(self, batch: list[Event], now: float, event: Event) -> None:
        if now < self._last_time - CLOCK_STEP_S:
            batch.append(_clock_note(now, self._last_time - now))
        self._last_time = now
        if not isinstance(event, Event):
            self._drop()
        elif event.time is None:
            batch.append(msgspec.structs.replace(event, time=now))
        else:
            batch.append(event)

    def _write(self, batch: list[Event]) -> None:
        missing = self._dropped - self._num_noted
        if missing:
            note = _drop_note(self._last_time, missing)
            self._warn("lost", "%d events are missing in the run", missing)
        try:
            self._spool.append([note, *batch] if missing else batch)
        except Exception as error:  # the recorder guard: a spool may fail in any way
            self._warn("spool", "Events are lost: %s", error)
            self._drop(len(batch))
            urgent = [event for event in batch if type(event) in _URGENT]
            self._last_events = [*self._last_events, *urgent][-LAST_EVENTS:]
        else:
            self._num_noted += missing

    def _finish(self) -> None:
        """End the spool: how much is missing, and the last urgent events of that."""
        last = self._last_events
        missing = self._dropped - self._num_noted - len(last)
        note = [_drop_note(self._last_time, missing)] if missing > 0 else []
        try:
            self._spool.close([*note, *last])
        except Exception as error:  # the recorder guard
            self._warn("spool", "Events are lost: %s", error)
        else:
            self._drop(-len(last))
        if self._dropped:
            self._warn("all", "%d events are missing in the run in all", self._dropped)

    def _warn(self, topic: str, text: str, *values: object) -> None:
        """Warn once of a topic."""
        if topic not in self._warned:
            self._warned.add(topic)
            logger.warning(text, *values)


def _clock_note(now: float, step: float) -> Note:
    """Times are those of the clock; the order of events is that of recording."""
    text = f"The clock went back by {step:.3f} s"
    return Note(time=now, topic="clock_backwards", text=text, values={"step_s": step})


def _drop_note(now: float | None, missing: int) -> Note:
    """A run has a count of the events that are missing in it."""
    text = f"{missing} events before this one could not be stored"
    return Note(time=now, topic="events_dropped", text=text, count=missing)


_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()


def _close_at_exit() -> None:
    deadline = time.monotonic() + EXIT_S
    for recorder in list(_recorders):
        recorder.close(max(0.0, deadline - time.monotonic()))


def _close_at_end_of_worker(recorder: Recorder) -> None:
    """A forked worker of multiprocessing ends without atexit, but runs its finalizers."""
    process = sys.modules.get("multiprocessing.process")
    if process is not None and process.parent_process() is not None:
        from multiprocessing.util import Finalize

        Finalize(recorder, recorder.close, (EXIT_S,), exitpriority=100)


def _after_fork_in_child() -> None:
    for recorder in list(_recorders):
        if not recorder._is_closed:
            recorder._renew()
            recorder._spool.renew()


atexit.register(_close_at_exit)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=_after_fork_in_child)
