"""What probes of one process remember between calls of the engine."""

from __future__ import annotations

import time
import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from warmup_insights.model.events import Bucket


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
    """Reading of the collector's clock when the step began."""
    num_compiled: int | None = None
    """Reading of the compiler's count when the step began."""
    used_before: int | None = None


@dataclass(slots=True)
class Pass:
    """One pass over the buckets of a phase."""

    phase: str
    mode: str | None
    total: int
    places: dict[Bucket, int]
    """Bucket to its place in the order of execution, from 1."""
    is_validation: bool = False
    num_steps: int = 0
    seen: set[Bucket] = field(default_factory=set)


@dataclass(slots=True)
class Measurement:
    """The engine's memory profiler is open."""

    stage: str | None
    opened_step: bool = False


@dataclass(slots=True)
class Warmup:
    """The warm-up of a model, from its first to its last line."""

    readings: list[tuple[float, int]] = field(default_factory=list)
    """Clock and used device bytes, where the engine read them for its own message."""
    phases_done: set[str] = field(default_factory=set)


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

    is_estimate: bool = False
    count: int = 0
    step_time: float | None = None
    step_started: float = 0.0
    free_before: int | None = None
    expected: list[Expected] = field(default_factory=list)
    """Of model runner V2, in order of capture; the first is in progress."""


@dataclass(slots=True)
class Serving:
    """What is counted while requests are served."""

    has_begun: bool = False
    used: Counter[tuple[str, Bucket, Bucket]] = field(default_factory=Counter)
    wanted: dict[str, tuple[Bucket, Bucket]] = field(default_factory=dict)
    """Phase to the shape that was asked for last, and the bucket it got."""
    executed: tuple[str, Bucket] | None = None
    flushed: float = field(default_factory=time.perf_counter)
    checked: float = field(default_factory=time.perf_counter)
    num_compiled: int | None = None
    compile_s: float = 0.0


@dataclass(slots=True)
class State:
    """Everything, of every engine."""

    stages: list[list[str]] = field(default_factory=list)
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
    sampling: Sampling | None = None
    defragmenting: Defragmenting | None = None
    capturing: Capturing | None = None
    configuration: dict[str, Any] | None = None
    """What was recorded of the engine's configuration last."""
    concurrency: float | None = None
    """What was recorded last; the engine computes it more than once."""
    loaded_from_cache: bool = False
    """Whether the compiled graph that was asked for last was in the cache."""
    serving: Serving = field(default_factory=Serving)
    multimodal_last: float | None = None
    total_bytes: int | None = None
    """Memory of the device."""
    device_name: str | None = None
    """Which Gaudi it is, as vllm-gaudi found out."""
    profile_free: int | None = None
    """Free bytes after the profiling run."""
    strategy: str | None = None

    def remember_warmed(self, runner: object) -> bool:
        """Whether a model runner was warmed up before; from now on it was."""
        if any(known() is runner for known in self.warmed):
            return True
        self.warmed.append(weakref.ref(runner))
        return False
