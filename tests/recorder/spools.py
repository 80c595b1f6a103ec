"""Spools in memory, for the tests of the recorder."""

from __future__ import annotations

import threading

from warmup_insights.errors import StoreError


class ListSpool:
    """Keeps what it gets, and what is called."""

    def __init__(self):
        self.batches = []
        self.calls = []

    def append(self, events):
        if events:
            self.batches.append(list(events))
        else:
            self.calls.append("alive")

    @property
    def events(self):
        return [event for batch in self.batches for event in batch]

    def close(self, last=()):
        self.batches.append(list(last))
        self.calls.append("close")

    def renew(self):
        self.calls.append("renew")


class GatedSpool(ListSpool):
    """Waits in every batch until the gate is open."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Event()

    def append(self, events):
        self.entered.set()
        self.gate.wait(30)
        super().append(events)


class FailingSpool(ListSpool):
    """Fails as often as told."""

    def __init__(self, failures):
        super().__init__()
        self.failures = failures

    def append(self, events):
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the spool is broken")
        super().append(events)


class SmallSpool(ListSpool):
    """Has room for so many events."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def append(self, events):
        if len(events) > self.room:
            raise StoreError("No room")
        self.room -= len(events)
        super().append(events)
