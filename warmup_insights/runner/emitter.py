"""Where the runner's events go, with the clock of the device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec

from warmup_insights.devices.base import Device
from warmup_insights.model.events import AnyEvent, PhaseMarked

Sink = Callable[[AnyEvent], None]


class Emitter:
    """Hands events to a sink; events carry the device's time, which may be virtual.

    An event without a time gets that of the moment it is emitted.
    """

    def __init__(self, sink: Sink, device: Device) -> None:
        self._sink = sink
        self._device = device

    def now(self) -> float:
        """Seconds since the epoch on the device's clock."""
        return self._device.now()

    def emit(self, event: AnyEvent) -> None:
        """Hand one event over."""
        if event.time is None:
            event = msgspec.structs.replace(event, time=self.now())
        self._sink(event)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Mark the start and, unless the work fails, the end of a stretch."""
        started = self.now()
        self.emit(PhaseMarked(name=name, edge="start", time=started))
        yield
        ended = self.now()
        self.emit(
            PhaseMarked(name=name, edge="end", duration_s=ended - started, time=ended)
        )
