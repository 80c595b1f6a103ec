"""What the runner works with: a model on a device, real or simulated, and where its events go."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ParamSpec, Protocol

import msgspec

from warmup_insights.devices.base import Device, MemoryState
from warmup_insights.model.events import AnyEvent, Bucket, PhaseMarked
from warmup_insights.rules.memory import CacheLayout
from warmup_insights.runner.batch import Row


@dataclass(frozen=True)
class SamplingParams:
    """How the next token of a request is chosen; top_k 0 means all tokens."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0

    @property
    def is_greedy(self) -> bool:
        """Whether the most likely token is taken."""
        return self.temperature <= 0.0


class Engine(Protocol):
    """A model, its KV cache and its graphs on one device."""

    block_bytes: int

    @property
    def device(self) -> Device:
        """What it runs on."""

    def load_model(self) -> None:
        """Put the weights on the device."""

    def profile_run(self, bucket: Bucket) -> None:
        """Run a prompt without a cache; its intermediates count as used after it."""

    def allocate_kv_cache(self, layout: CacheLayout) -> None:
        """Make the cache, filled with zeros."""

    def run_bucket(self, phase: str, bucket: Bucket) -> None:
        """Run padding of that shape: through its graph if it has one, else directly."""

    def capture_bucket(self, phase: str, bucket: Bucket) -> None:
        """Give the bucket a graph."""

    def step(
        self,
        phase: str,
        bucket: Bucket,
        rows: Sequence[Row],
        sampling: Sequence[SamplingParams],
        *,
        batch_changed: bool,
    ) -> list[int]:
        """Run the rows padded to the bucket; the next token of each row."""

    def warm_sampler(
        self, batch_size: int, params: SamplingParams, *, batch_changed: bool
    ) -> None:
        """Sample once from logits of dummy hidden states."""

    def swap_blocks(
        self, pairs: Sequence[tuple[int, int]], padded: int, *, with_graph: bool
    ) -> None:
        """Exchange the blocks of each pair; the pairs are padded to that number."""

    def graph_bytes(self) -> int | None:
        """What all graphs are known to keep; None where only free memory is known."""


@dataclass(frozen=True)
class Measured:
    """The memory before and after some work, and when it began and ended."""

    before: MemoryState
    after: MemoryState
    began: float
    ended: float

    @property
    def used_bytes(self) -> int:
        """What it took of the device."""
        return self.after.used_bytes - self.before.used_bytes

    @property
    def duration_s(self) -> float:
        """Seconds, until all that it submitted was done."""
        return self.ended - self.began


def measure(device: Device, work: Callable[[], None]) -> Measured:
    """Do some work, and wait for the device."""
    before, began = device.memory(), device.now()
    work()
    device.synchronize()
    return Measured(before, device.memory(), began, device.now())


P = ParamSpec("P")
Sink = Callable[[AnyEvent], None]


class Emitter:
    """Hands events to a sink; events carry the device's time, which may be virtual.

    An event without a time gets that of the moment it is emitted. `stage` and `bucket`
    are where the run is, for a failure.
    """

    def __init__(self, sink: Sink, device: Device) -> None:
        self._sink = sink
        self._device = device
        self.stage = "start"
        self.bucket: Bucket | None = None

    def move(self, stage: str, bucket: Bucket | None = None) -> None:
        """The run is somewhere else from now on."""
        self.stage, self.bucket = stage, bucket

    def now(self) -> float:
        """Seconds since the epoch on the device's clock."""
        return self._device.now()

    def emit(
        self, event_class: Callable[P, AnyEvent], *args: P.args, **fields: P.kwargs
    ) -> None:
        """Hand over an event with these fields."""
        event = event_class(*args, **fields)
        if event.time is None:
            event = msgspec.structs.replace(event, time=self.now())
        self._sink(event)

    @contextmanager
    def phase(self, name: str, bucket: Bucket | None = None) -> Iterator[None]:
        """Move to a stretch; mark its start and, unless the work fails, its end."""
        self.move(name, bucket)
        started = self.now()
        self.emit(PhaseMarked, name=name, edge="start", time=started)
        yield
        ended = self.now()
        self.emit(
            PhaseMarked, name=name, edge="end", duration_s=ended - started, time=ended
        )
