"""What probes of one process keep between calls of the engine."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from warmup_insights.model.events import Bucket
from warmup_insights.vllm_plugin.device import Compiled


@dataclass(slots=True)
class Step:
    """A bucket that is being executed."""

    began: float = field(default_factory=time.time)
    started: float = field(default_factory=time.perf_counter)
    phase: str | None = None
    bucket: Bucket | None = None
    executed: Bucket | None = None
    is_first_seen: bool | None = None
    """Whether the executed shape had not been executed before."""
    uses_graph: bool | None = None
    collector_s: float = 0.0
    """Reading of the garbage collector's clock when the step began."""
    compiled: Compiled | None = None
    """Reading of the compiler's figures when the step began."""


@dataclass(slots=True)
class Pass:
    """One pass over the buckets of a phase."""

    phase: str
    mode: str | None
    total: int
    places: dict[Bucket, int]
    """Bucket to its place in the order of execution, from 1."""
    marks: AbstractSet[Any] = frozenset()
    """What the engine marks a bucket in, right before it runs (`graphed_buckets`)."""
    marked_before: AbstractSet[Any] = frozenset()
    """The same when the pass began."""
    waiting: Iterator[Bucket] = field(default_factory=lambda: iter(()))
    """Buckets that have not begun, in the order of execution."""
    is_validation: bool = False
    num_steps: int = 0
    seen: set[Bucket] = field(default_factory=set)

    def take_marked(self) -> Bucket | None:
        """The bucket that was marked since the last call; None when none was.

        One that is marked already, or too long, is left out by the engine.
        """
        is_prompt = self.phase == "prompt"
        if len(self.marks) <= len(self.marked_before) + self.num_steps:
            return None
        for bucket in self.waiting:
            mark = (*bucket, is_prompt)
            if mark in self.marks and mark not in self.marked_before:
                return bucket
        return None


@dataclass(slots=True)
class Measurement:
    """The engine's memory profiler is open."""

    stage: str | None
    opened_step: bool = False


@dataclass(slots=True)
class Warmup:
    """The warm-up of a model, from its first to its last line."""

    collector_s: float = 0.0
    """Reading of the garbage collector's clock when it began."""
    readings: list[tuple[float, int]] = field(default_factory=list)
    """Clock and used device bytes, where the engine read them for its own message."""
    passes: set[tuple[str, str | None]] = field(default_factory=set)
    """Phase and mode of those that are done."""


@dataclass(slots=True)
class Sampling:
    """The sampler is being warmed up."""

    last: float = field(default_factory=time.perf_counter)
    batch_sizes: list[int] = field(default_factory=list)
    configs: set[tuple[float, float, int, bool]] = field(default_factory=set)


@dataclass(slots=True)
class Defragmenting:
    """The defragmenter is being warmed up, or is moving blocks."""

    last: float = field(default_factory=time.perf_counter)
    is_warmup: bool = False
    num_swaps: int = 0
    swapped: int | None = None
    padded: int | None = None
    highest: int | None = None


@dataclass(slots=True)
class Expected:
    """A graph that model runner V2 is going to capture."""

    mode: str
    num_tokens: int
    is_uniform: bool
    calls_left: int
    """How often its inputs will still be prepared."""


@dataclass(slots=True)
class Capturing:
    """CUDA graphs are being captured."""

    count: int = 0
    """Captures that were observed."""
    is_certain: bool = True
    """False when there were others, or may have been."""
    step_time: float | None = None
    step_started: float = 0.0
    free_before: int | None = None
    expected: list[Expected] = field(default_factory=list)
    """Of model runner V2, in order of capture; the first is in progress."""


class Lookup(NamedTuple):
    """A shape for which a bucket was looked up."""

    shape: Bucket
    bucket: Bucket


@dataclass(slots=True)
class Serving:
    """What is counted while requests are served."""

    has_begun: bool = False
    is_in_step: bool = False
    used: Counter[tuple[str, Bucket, Bucket, Bucket | None]] = field(
        default_factory=Counter
    )
    """Phase, shape, bucket, and the executed shape where it was another."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while `used` is changed."""
    is_flush_due: bool = False
    """A thread waits to record the counts."""
    lookups: dict[str, list[Lookup]] = field(
        default_factory=lambda: {"prompt": [], "decode": []}
    )
    """Phase to the lookups of this step that belong to no formed batch."""
    formed: deque[Lookup] = field(default_factory=deque)
    """Prefill batches of this step that were formed and did not run yet, in order."""
    executed: tuple[str, Bucket] | None = None
    flushed: float = field(default_factory=time.perf_counter)
    checked: float = field(default_factory=time.perf_counter)
    compiled: Compiled | None = None
    """The compiler's figures, as they were recorded last."""

    def begin_step(self) -> None:
        """A step begins: what an earlier one left over belongs to no pass."""
        self.is_in_step = True
        self.formed.clear()
        for lookups in self.lookups.values():
            lookups.clear()


@dataclass(slots=True)
class State:
    """Everything, of every engine."""

    stages: list[list[str | None]] = field(default_factory=list)
    """Names for the measurements that the calls in progress will make, in order."""
    measurements: list[Measurement] = field(default_factory=list)
    warmed: list[weakref.ref[object]] = field(default_factory=list)
    """Model runners whose warm-up was recorded."""
    warmup: Warmup | None = None
    is_muted: bool = False
    """What is going on was recorded before: only failures are worth an event."""
    is_skipped: bool = False
    """The engine skipped the warm-up."""
    current: Pass | None = None
    step: Step | None = None
    captured: set[tuple[str, Bucket]] = field(default_factory=set)
    """Phase and executed shape of the graphs that this warm-up has made."""
    sampling: Sampling | None = None
    defragmenting: Defragmenting | None = None
    capturing: Capturing | None = None
    is_estimating: bool = False
    """The engine captures a few graphs to estimate the memory of all."""
    configured_at: float | None = None
    """When a child process was configured; whether it gets an engine shows later."""
    is_engine_marked: bool = False
    """The start of the engine was recorded in this process."""
    is_of_server: bool = False
    """The engine of this program is up and that of a server, whose end is not recorded."""
    configuration: dict[str, Any] | None = None
    """What was recorded of the engine's configuration last."""
    concurrency: float | None = None
    """What was recorded last; the engine computes it more than once."""
    is_compiling_run: bool = False
    """The profiling run in progress is that of the CPU runner's warm-up."""
    aot_path: str | None = None
    """Where a compiled function of an earlier start was looked for."""
    loaded_from_cache: bool = False
    """Whether the compiled graph that was looked up last was in the cache."""
    serving: Serving = field(default_factory=Serving)
    multimodal: Step | None = None
    """The shape of images that is being warmed up."""
    total_bytes: int | None = None
    """Memory of the device."""
    device_name: str | None = None
    """Which Gaudi it is, as vllm-gaudi found out."""
    profile_free: int | None = None
    """Free bytes after the profiling run."""
    strategy: str | None = None
    noted: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Topic of a metric of the Gaudi bridge to its figures, as they were noted last."""

    @contextmanager
    def naming(self, *stages: str | None) -> Iterator[None]:
        """Meanwhile the measurements of a call get these names, in this order."""
        self.stages.append([*stages])
        try:
            yield
        finally:
            self.stages.pop()

    def keep_warmed(self, runner: object) -> bool:
        """Whether a model runner was warmed up before; from now on it was."""
        if any(known() is runner for known in self.warmed):
            return True
        self.warmed.append(weakref.ref(runner))
        return False


class CollectorClock:
    """Adds up the time spent in the garbage collector while it is switched on."""

    def __init__(self) -> None:
        self.total_s = 0.0
        """Seconds since the first time it was switched on."""
        self._users = 0
        self._started: float | None = None

    def switch_on(self) -> None:
        """Begin to measure; calls are counted."""
        self._users += 1
        if self._users == 1:
            gc.callbacks.append(self._measure)

    def switch_off(self) -> None:
        """Take the callback off when no user of it is left."""
        self._users = max(0, self._users - 1)
        if self._users == 0 and self._measure in gc.callbacks:
            gc.callbacks.remove(self._measure)

    def _measure(self, phase: str, info: dict[str, Any]) -> None:
        if phase == "start":
            self._started = time.perf_counter()
        elif self._started is not None:
            self.total_s += time.perf_counter() - self._started
            self._started = None
