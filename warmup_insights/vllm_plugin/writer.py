"""The process that writes events into the store, so that the engine's does not.

The libraries of the store are some 50,000 objects. vllm-gaudi makes Python's garbage
collector visit every object of the process twice per bucket, about 700,000 without
them, so loading them there would slow the warm-up down that is to be measured. It also
keeps the store's threads and locks out of a process that forks.

Input: a line with the database and the run, then one event per line. The end of the
input, or of the engine, is the end. It leaves the family of the engine's processes,
because vLLM kills all of them when one fails.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from warmup_insights.model.events import Event, decode

HEARTBEAT_S = 2.0
"""How often the store is told that the engine lives, while it says nothing."""
CHUNK = 1 << 20


def main() -> None:
    """Leave the engine's family, then write what it says until it ends."""
    if os.fork():
        os._exit(0)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    lines = read_lines(sys.stdin.fileno())
    head = next(lines, None)
    if not head:
        return
    from warmup_insights.model.run import RunRecord
    from warmup_insights.storage.sink import StoreSink

    told = msgspec.json.decode(head[0])
    run = msgspec.convert(told["run"], RunRecord)
    sink = StoreSink(told["database"], run)
    write(head[1:], sink)
    for batch in lines:
        if batch:
            write(batch, sink)
        else:
            sink.heartbeat()
    sink.hurry()
    sink.close()


def write(batch: list[bytes], sink: Callable[[list[Event]], Any]) -> None:
    """Hand a batch of encoded events to a sink; what is cut off is left out."""
    events: list[Event] = []
    for line in batch:
        try:
            events.append(decode(line))
        except msgspec.DecodeError:
            continue
    if events:
        sink(events)


def read_lines(descriptor: int) -> Iterator[list[bytes]]:
    """Complete lines as they arrive; an empty list when none came for a while."""
    rest = b""
    while True:
        ready, _, _ = select.select([descriptor], [], [], HEARTBEAT_S)
        if not ready:
            yield []
            continue
        chunk = os.read(descriptor, CHUNK)
        if not chunk:
            return
        *lines, rest = (rest + chunk).split(b"\n")
        if lines:
            yield lines
