"""The hot path: calls become events, events go to a sink in batches.

`Recorder.record` reads a clock and appends to a queue; a background thread hands
batches to the sink. It never raises, never blocks, and never fails the program that is
recorded: what cannot be stored is counted, and said once.
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
from types import TracebackType
from typing import Any, Protocol

import msgspec

from warmup_insights.model.events import (
    Event,
    Failure,
    Note,
    RunFinished,
    ServerReady,
    WarmupFinished,
)

FLUSH_INTERVAL_S = 0.2
"""How long an event waits at most before it is handed to the sink."""
BATCH = 2_000
"""Events per call of the sink, at most."""
WAKE_EVENTS = 20_000
"""So many waiting events wake the thread early; fewer would disturb a short burst."""
MAX_WAITING = 200_000
"""So many events may wait; what comes on top is dropped and counted."""
HEARTBEAT_S = 2.0
"""How often a sink without events is told that the program lives."""
EXIT_S = 0.8
"""How long the end of the interpreter waits for the last events."""
HURRY_S = 0.5
"""The last part of the time that `close` has, in which the sink must not wait."""
HURRIED_EVENTS_PER_S = 150_000
"""What a hurried sink takes at least; with more waiting the hurry begins earlier."""
CLOCK_STEP_S = 1.0
"""A clock that goes back by more than this is worth a note."""

logger = logging.getLogger(__name__)

Sink = Callable[[list[Event]], None]
"""Takes a batch, on the background thread; raises when it could not store it.

A sink may have methods too: `heartbeat()`, called while there are no events; `hurry()`,
called from another thread when it must not wait any more; and `close()`.
"""

_URGENT = frozenset({Failure, WarmupFinished, ServerReady, RunFinished})
"""What is handed over at once; everything else within `FLUSH_INTERVAL_S`."""


class RecorderLike(Protocol):
    """What instrumented code needs of a recorder."""

    @property
    def dropped(self) -> int:
        """Events that were lost."""

    def record(self, event: Event) -> None:
        """Take an event; its time is now unless it has one."""

    def flush(self, timeout: float = 5.0) -> bool:
        """True when everything recorded before is stored."""

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits and stop."""


class _Mark:
    """A place in the queue that `flush` waits for."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.is_stored = False


class Recorder:
    """Hands recorded events to a sink, in order, in batches, on a background thread.

    The thread starts with the first event. The child of a fork has an empty queue and,
    with its first event, a thread of its own; what waited at the fork is the parent's.
    """

    def __init__(
        self,
        sink: Sink,
        clock: Callable[[], float] = time.time,
        *,
        max_waiting: int = MAX_WAITING,
        flush_interval_s: float = FLUSH_INTERVAL_S,
    ) -> None:
        self._sink = sink
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
        self._sinking = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None
        self._is_stopping = False
        self._dropped = 0
        self._dropped_noted = 0
        self._dropped_at_mark = 0
        self._lost_in_sink = 0
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

    def _drop(self) -> None:
        with self._lock:
            self._dropped += 1

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
        """Events that were lost: the queue was full, or the sink could not store them."""
        return self._dropped + self._lost_in_sink

    def flush(self, timeout: float = 5.0) -> bool:
        """Wait until everything recorded before is handed over; True when it is stored."""
        thread = self._thread
        if thread is None or not thread.is_alive():
            return self.dropped == 0
        mark = _Mark()
        self._queue.append(mark)
        self._wake.set()
        return mark.reached.wait(timeout) and mark.is_stored

    def close(self, timeout: float = 5.0) -> None:
        """Store what waits and stop; events recorded later are dropped and counted.

        Closes the sink too, if it can be closed. Returns after `timeout` seconds at
        the latest; what is not stored by then is counted in `dropped`.
        """
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            self._limit = -1
        if self._thread is None:
            self._call("close")
        else:
            self._stop(self._thread, timeout)
        self._warn_of_drops()

    def _stop(self, thread: threading.Thread, timeout: float) -> None:
        self._is_stopping = True
        self._wake.set()
        deadline = time.monotonic() + timeout
        hurry_s = max(HURRY_S, len(self._queue) / HURRIED_EVENTS_PER_S)
        thread.join(max(0.0, timeout - hurry_s))
        if thread.is_alive():
            self._call("hurry")
            thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            left = sum(1 for item in tuple(self._queue) if not isinstance(item, _Mark))
            with self._lock:
                self._dropped += left
            self._warn("end", "The program ended before %d events were stored", left)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self) -> None:
        """The background thread."""
        heartbeat_at = time.monotonic() + HEARTBEAT_S
        while True:
            self._wake.wait(self._flush_interval_s)
            self._wake.clear()
            is_stopping = self._is_stopping
            if self._hand_over():
                heartbeat_at = time.monotonic() + HEARTBEAT_S
            elif time.monotonic() >= heartbeat_at:
                heartbeat_at = time.monotonic() + HEARTBEAT_S
                self._call("heartbeat")
            if is_stopping and not self._queue:
                self._call("close")
                return

    def _hand_over(self) -> bool:
        """Empty the queue into the sink; True when there was an event."""
        had_events = False
        while self._queue:
            batch, mark = self._take_batch()
            if batch:
                had_events = True
                self._give(batch)
            if mark is not None:
                mark.is_stored = self.dropped == self._dropped_at_mark
                self._dropped_at_mark = self.dropped
                mark.reached.set()
        return had_events

    def _take_batch(self) -> tuple[list[Event], _Mark | None]:
        batch: list[Event] = []
        queue = self._queue
        while queue and len(batch) < BATCH:
            item = queue.popleft()
            if isinstance(item, _Mark):
                return batch, item
            self._add_stamped(batch, *item)
        return batch, None

    def _add_stamped(self, batch: list[Event], now: float, event: Event) -> None:
        if now < self._last_time - CLOCK_STEP_S:
            batch.append(_clock_note(now, self._last_time - now))
        self._last_time = now
        if not isinstance(event, Event):
            self._lose(1, f"not an event: {type(event).__name__}")
        elif event.time is None:
            batch.append(msgspec.structs.replace(event, time=now))
        else:
            batch.append(event)

    def _give(self, batch: list[Event]) -> None:
        missing = self.dropped - self._dropped_noted
        if missing:
            batch.append(_drop_note(batch[-1].time, missing))
            self._warn_of_drops()
        try:
            with self._sinking:
                self._sink(batch)
        except Exception as error:  # the recorder guard: a sink may fail in any way
            self._lose(len(batch) - bool(missing), str(error))
        else:
            self._dropped_noted += missing

    def _lose(self, count: int, reason: str) -> None:
        self._lost_in_sink += count
        self._warn("sink", "Events could not be stored: %s", reason)

    def _call(self, name: str) -> None:
        """Call a method of the sink, if it has it."""
        method = getattr(self._sink, name, None)
        if method is None:
            return
        try:
            method()
        except Exception as error:  # the recorder guard
            self._warn(name, "The recorder could not finish its work: %s", error)

    def _warn_of_drops(self) -> None:
        if self._dropped:
            self._warn("full", "Events come too fast: %d were dropped", self._dropped)

    def _warn(self, topic: str, text: str, *values: object) -> None:
        """Say something once."""
        if topic not in self._warned:
            self._warned.add(topic)
            logger.warning(text, *values)


def _clock_note(now: float, step: float) -> Note:
    """Times are kept as the clock says them; the order of events is that of recording."""
    text = f"The clock went back by {step:.3f} s"
    return Note(time=now, topic="clock_backwards", text=text, values={"step_s": step})


def _drop_note(now: float | None, missing: int) -> Note:
    """The run itself says how many of its events are missing."""
    text = f"{missing} events before this one could not be stored"
    return Note(time=now, topic="events_dropped", text=text, count=missing)


class NullRecorder:
    """A recorder that does nothing: recording is off."""

    dropped = 0

    def record(self, event: Event) -> None:
        """Nothing."""

    def flush(self, timeout: float = 5.0) -> bool:
        """Nothing waits."""
        return True

    def close(self, timeout: float = 5.0) -> None:
        """Nothing."""


NULL_RECORDER = NullRecorder()

_recorders: weakref.WeakSet[Recorder] = weakref.WeakSet()
_held: list[threading.Lock] = []


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


def _before_fork() -> None:
    """Let a batch that is being stored be finished, so that the child finds no locks."""
    locks = [recorder._sinking for recorder in list(_recorders)]
    _held.extend(lock for lock in locks if lock.acquire(timeout=1.0))


def _after_fork_in_parent() -> None:
    while _held:
        _held.pop().release()


def _after_fork_in_child() -> None:
    _held.clear()
    for recorder in list(_recorders):
        if not recorder._is_closed:
            recorder._renew()


atexit.register(_close_at_exit)
os.register_at_fork(
    before=_before_fork,
    after_in_parent=_after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
