"""What is pending for one rank of a run: steps, bars, lists that wait for their end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parsers.averages import Average
from parsers.signals import (
    BarUpdate,
    LazyCaptureStarted,
    OmittedBucket,
    Origin,
    PrecompileStarted,
    StepLine,
)
from warmup_insights.model.events import Bucket, BucketMiss, DefragRan, Note

PASSING = frozenset((BucketMiss, DefragRan, Note))
"""Events of a server at work: they mean nothing to what comes after them."""


@dataclass(slots=True)
class PendingStep:
    """A step whose line was read; it ends where the next thing begins."""

    signal: StepLine
    origin: Origin
    bar_s: float | None = None
    bar_error_s: float | None = None
    executed: Bucket | None = None


@dataclass(slots=True)
class BarClock:
    """What a warm-up bar has told so far."""

    total: int
    done: int = 0
    """Steps that were told."""
    elapsed_s: float = 0.0
    has_lines: bool = False
    """Whether the steps have lines of their own."""
    average: Average | None = None
    """None when the bar was not seen from its beginning."""


@dataclass(slots=True)
class RankState:
    """What is pending for one rank."""

    step: PendingStep | None = None
    stage: str | None = None
    """Name of the stage that has begun and not ended."""
    is_warming_kernels: bool = False
    precompile: PrecompileStarted | None = None
    full_bar: str | None = None
    """Name of the bar that was drawn last, if it was full."""
    clocks: dict[str, BarClock] = field(default_factory=dict)
    generated: dict[str, list[Bucket]] = field(default_factory=dict)
    lazy_tokens: LazyCaptureStarted | None = None
    lazy_origin: Origin | None = None
    captures: dict[str, tuple[BarUpdate, Origin]] = field(default_factory=dict)
    capture_states: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    """Of each of these bars: graphs so far and seconds, in the order drawn."""
    cache_bytes: list[int] = field(default_factory=list)
    cache_booked: bool = False
    section: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    omitted: list[OmittedBucket] = field(default_factory=list)
    omitted_phase: str = "prompt"
    is_validating: bool = False

    @property
    def is_idle(self) -> bool:
        """Whether no step, configuration or list is waiting for its end."""
        return not (self.step or self.settings or self.omitted)
