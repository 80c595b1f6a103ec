"""Captures while serving: which graph is recorded before a step, if any.

The proposal of vLLM pull request 23184: `delayed` starts with the largest graph and
then records one at each step, the one at hand first, else the largest missing; `lazy`
records only what is needed. Capturing is switched off for good when nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from warmup_insights.model.events import Bucket
from warmup_insights.rules.capture import num_tokens, num_units

PhaseBucket = tuple[str, Bucket]


def largest_first(candidates: Iterable[PhaseBucket]) -> list[PhaseBucket]:
    """Candidates by falling number of tokens, prompts before decodes."""
    return sorted(
        candidates,
        key=lambda item: (item[0] != "prompt", -num_tokens(item[1]), item[1]),
    )


@dataclass
class _CaptureCost:
    """What the graphs of a phase took so far."""

    used_bytes: int = 0
    units: int = 0

    def estimate(self, units: int) -> int:
        return round(self.used_bytes / self.units * units) if self.units else 0


@dataclass
class RuntimeCapture:
    """The graphs that are still missing, and the memory that is left for them."""

    strategy: str
    candidates: Iterable[PhaseBucket]
    budget_bytes: float
    is_enabled: bool = True
    missing: list[PhaseBucket] = field(init=False)
    _taken: dict[str, _CaptureCost] = field(init=False)

    def __post_init__(self) -> None:
        self.missing = largest_first(self.candidates)
        self._taken = {"prompt": _CaptureCost(), "decode": _CaptureCost()}
        self._switch_off_when_done()

    @property
    def first(self) -> PhaseBucket | None:
        """What `delayed` captures before the server is ready."""
        is_first = self.strategy == "delayed" and self.is_enabled
        return self.missing[0] if is_first else None

    def choose(self, phase: str, bucket: Bucket) -> PhaseBucket | None:
        """What to capture before a step in this bucket; None for nothing."""
        if not self.is_enabled:
            return None
        if (phase, bucket) in self.missing:
            return phase, bucket
        return self.missing[0] if self.strategy == "delayed" else None

    def estimate_bytes(self, item: PhaseBucket) -> int:
        """What a capture will take, from those of its phase; 0 before the first."""
        return self._taken[item[0]].estimate(num_units(*item))

    def fits(self, item: PhaseBucket) -> bool:
        """Whether the estimate is below what is left."""
        return self.estimate_bytes(item) < self.budget_bytes

    def missing_bytes(self) -> int:
        """What all missing graphs will take by the estimates."""
        return sum(self.estimate_bytes(item) for item in self.missing)

    def captured(self, item: PhaseBucket, used_bytes: int) -> None:
        """Count a capture and what it took."""
        taken = self._taken[item[0]]
        taken.used_bytes += used_bytes
        taken.units += num_units(*item)
        self.budget_bytes -= used_bytes
        self.give_up(item)

    def give_up(self, item: PhaseBucket) -> None:
        """Take a candidate off the list, captured or not."""
        self.missing.remove(item)
        self._switch_off_when_done()

    def _switch_off_when_done(self) -> None:
        if not self.missing or self.budget_bytes <= 0:
            self.is_enabled = False
