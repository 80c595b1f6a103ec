"""Sinks for the tests of the recorder."""

from __future__ import annotations

import threading


class ListSink:
    """Keeps what it gets, and what is called."""

    def __init__(self):
        self.batches = []
        self.calls = []

    def __call__(self, batch):
        self.batches.append(list(batch))

    @property
    def events(self):
        return [event for batch in self.batches for event in batch]

    def heartbeat(self):
        self.calls.append("heartbeat")

    def hurry(self):
        self.calls.append("hurry")

    def close(self):
        self.calls.append("close")


class GatedSink(ListSink):
    """Waits in every batch until the gate is open."""

    def __init__(self):
        super().__init__()
        self.gate = threading.Event()
        self.entered = threading.Event()

    def __call__(self, batch):
        self.entered.set()
        self.gate.wait(30)
        super().__call__(batch)


class FailingSink(ListSink):
    """Fails as often as told."""

    def __init__(self, failures):
        super().__init__()
        self.failures = failures

    def __call__(self, batch):
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the sink is broken")
        super().__call__(batch)
