"""Stand-in for the dispatcher of the bridge (`backend/helpers/event_dispatcher.cpp`): one
in a process; whoever subscribed is called at once, in order.

An exception in a callback is raised in who published, as in the bridge, where that is
a thread of the compiler.
"""

from __future__ import annotations

import enum
import os

if os.environ.get("STANDIN_NO_DISPATCHER"):
    raise ImportError("this bridge has no dispatcher")


class EventId(enum.Enum):
    GRAPH_COMPILATION = 0
    MARK_STEP = 1
    PROCESS_EXIT = 2
    DEVICE_ACQUIRED = 3
    CUSTOM_EVENT = 4
    MEMORY_DEFRAGMENTATION = 5
    CPU_FALLBACK = 6
    CACHE_HIT = 7
    CACHE_MISS = 8


class EventDispatcher:
    _instance = None

    def __init__(self):
        self._subscribers = {}
        self._next = 0

    @staticmethod
    def instance():
        if EventDispatcher._instance is None:
            EventDispatcher._instance = EventDispatcher()
        return EventDispatcher._instance

    def subscribe(self, topic, callback, /):
        self._next += 1
        self._subscribers.setdefault(topic, {})[self._next] = callback
        return topic, self._next

    def unsubscribe(self, handle, /):
        topic, number = handle
        self._subscribers.get(topic, {}).pop(number, None)

    def publish(self, topic, params, timestamp, /):
        for callback in list(self._subscribers.get(topic, {}).values()):
            callback(timestamp, params)
