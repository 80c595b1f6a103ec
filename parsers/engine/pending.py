"""What is pending for one rank of a run: steps, bars, lists that wait for their end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from parsers.engine.signals import (
    BarUpdate,
    LazyCaptureStarted,
    OmittedBucket,
    Origin,
    PaddingsBegun,
    PrecompileStarted,
    StepLine,
)
from warmup_insights.model.events import Bucket

_NEW, _OLD = 0.3, 0.7
SLACK_S = 1.0
"""The elapsed time is drawn in whole seconds; the sum may not leave it by more."""


@dataclass(slots=True)
class Average:
    """The averages of one bar since its first update: a smoothed rate, turned back.

    tqdm (`std.py`, `EMA` and `update`) keeps two moving averages with smoothing 0.3, of
    the items and of the seconds of each update that it draws, and draws their ratio. With
    a = 0.3, b = 0.7 and S(x) = a x + b S(x before), the drawn seconds per item are
    E = S(dt) / S(dn), so dt = (E S(dn) - b E_before S(dn)_before) / a. An update that tqdm
    left out is part of the next one that it draws.
    """

    _items: float = 0.0
    _item_s: float = 0.0
    _error_s: float = 0.0
    _sum_s: float = 0.0

    def add(
        self, items: int, item_s: float, error_s: float, elapsed_s: float
    ) -> tuple[float, float] | None:
        """Seconds of the items of an update, and how far they can be off.

        None when they contradict the elapsed time.
        """
        before, before_error = self._items * self._item_s, self._items * self._error_s
        self._items = _NEW * items + _OLD * self._items
        self._item_s, self._error_s = item_s, error_s
        took = (self._items * item_s - _OLD * before) / _NEW
        error = (self._items * error_s + _OLD * before_error) / _NEW
        self._sum_s += took
        is_likely = elapsed_s - SLACK_S <= self._sum_s <= elapsed_s + 1 + SLACK_S
        if took < -error or not is_likely:
            self._sum_s = elapsed_s + 0.5
            return None
        return max(took, 0.0), error


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
    """What was read of a warm-up bar so far."""

    total: int
    done: int = 0
    """Steps that were reported."""
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
    open_bar: tuple[BarUpdate, Origin] | None = None
    """The bar over a stage that was drawn last, if it was not full."""
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
    cache_factors: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    omitted: list[OmittedBucket] = field(default_factory=list)
    is_validating: bool = False
    paddings: PaddingsBegun | None = None
    padding_sizes: list[int] = field(default_factory=list)
    num_shapes: int = 0
    """Shapes of the graph that is being compiled that were named so far."""
    frame: str | None = None
    """What the innermost function of a traceback did, as far as it shows."""
    num_devices: int | None = None
    """Devices of the process, where it sums up over several."""
