"""A device that only counts: memory, graphs, compile times. Nothing here is real.

What tests want of it comes in environment variables:
`STANDIN_OOM_AT` (number of the graph at which memory ends), `STANDIN_HANG` (`graph 5` or
`collector 5`: what takes a minute behind that many graphs), `STANDIN_STEP_S` (seconds
of a forward pass), `STANDIN_FAIL` (name of a place that raises ValueError),
`STANDIN_PREFILLS` (how many requests without context may share a prefill batch),
`STANDIN_NO_DISPATCHER` (the bridge publishes nothing),
`STANDIN_CACHED` (recipes come from a cache on disk), `STANDIN_BYPASS` (the engine asks
for no graph), `STANDIN_COMPILE` (`torch.compile`: nobody asks, new shapes compile).
"""

from __future__ import annotations

import os
import time
from datetime import datetime

GIB = 2**30
TOTAL = 96 * GIB
GRAPH_BYTES = 8 * 2**20
WEIGHTS_BYTES = 3 * GIB
BLOCK_BYTES = 32 * 2**20


class Device:
    """Memory in use, and graphs compiled so far."""

    def __init__(self):
        self.used = GIB // 2
        self.graphs = 0
        self.compile_us = 0
        self.waits = 0

    def take(self, num_bytes):
        self.used += num_bytes

    def compile(self):
        """A new graph; raises like the bridge does when memory ends."""
        if self.graphs + 1 == int(os.environ.get("STANDIN_OOM_AT", "0")):
            raise RuntimeError(
                "[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for "
                "size::268435456 (256)MB"
            )
        hang("graph")
        if not os.environ.get("STANDIN_CACHED"):
            self.graphs += 1
            self.compile_us += 1500
            publish(
                "GRAPH_COMPILATION",
                duration=1500,
                recipe=f".graph_dumps/r_{self.graphs}",
            )
        self.take(GRAPH_BYTES)


DEVICE = Device()


def publish(name, **params):
    """An event of the bridge, where it has a dispatcher."""
    if not os.environ.get("STANDIN_NO_DISPATCHER"):
        from habana_frameworks.torch.utils.event_dispatcher import (
            EventDispatcher,
            EventId,
        )

        pairs = [(key, str(value)) for key, value in params.items()]
        topic = getattr(EventId, name)
        EventDispatcher.instance().publish(topic, pairs, datetime.now())


def hang(place):
    """Take a minute at a place and the number of graphs made before."""
    if os.environ.get("STANDIN_HANG") == f"{place} {DEVICE.graphs}":
        print(f"HANGS {os.getpid()}", flush=True)
        time.sleep(60)


def work():
    """Time passes, as in a forward pass."""
    time.sleep(float(os.environ.get("STANDIN_STEP_S", "0.001")))


def maybe_fail(place):
    """Raise where the test asked for it."""
    if os.environ.get("STANDIN_FAIL") == place:
        raise ValueError(f"failed in {place}")


class Shaped:
    """Something with a shape, like a tensor; reading its value is an error."""

    def __init__(self, *shape):
        self.shape = shape

    def size(self, dimension):
        return self.shape[dimension]

    def numel(self):
        total = 1
        for length in self.shape:
            total *= length
        return total

    def _value(self):
        raise AssertionError("a tensor was read by value")

    __repr__ = __str__ = __format__ = __int__ = __float__ = __bool__ = _value
    item = tolist = cpu = _value


class Bag:
    """An object with the attributes it is given."""

    def __init__(self, **attributes):
        vars(self).update(attributes)
