"""`utils/event_dispatcher/csrc/bindings.cpp`."""

from __future__ import annotations

from ._runtime import EventDispatcher, EventId

__all__ = ["EventDispatcher", "EventId"]
