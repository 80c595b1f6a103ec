"""What a line says that is not yet an event: the tracker makes events of it."""

from __future__ import annotations

from dataclasses import dataclass

from warmup_insights.events import Bucket


@dataclass(slots=True)
class Origin:
    """Where a signal came from."""

    time: float | None
    rank: int | None
    line: int


class Signal:
    """Base of everything that rules make and only the tracker understands."""

    __slots__ = ()


@dataclass(frozen=True)
class StepLine(Signal):
    """A bucket is about to run; the line is printed before it does."""

    phase: str
    mode: str | None
    index: int
    total: int | None
    bucket: Bucket | None
    free_bytes: int | None


@dataclass(frozen=True)
class BarUpdate(Signal):
    """A progress bar was drawn: `done` of `total` after `elapsed_s`."""

    name: str
    done: int
    total: int
    elapsed_s: float


@dataclass(frozen=True)
class LazyCaptureStarted(Signal):
    """First line of the two-line record of a delayed capture."""

    num_tokens: int


@dataclass(frozen=True)
class LazyCaptureFinished(Signal):
    """Second line of the two-line record of a delayed capture."""

    duration_s: float
    memory_bytes: int


@dataclass(frozen=True)
class ExecutedShape(Signal):
    """The shape of a forward pass, printed with `VLLM_DEBUG=fwd`."""

    phase: str
    shape: Bucket


@dataclass(frozen=True)
class Elided(Signal):
    """A person cut lines out here."""


@dataclass(frozen=True)
class ConfigSection(Signal):
    """A heading of a configuration dump."""

    name: str


@dataclass(frozen=True)
class ConfigLine(Signal):
    """A `key: value` line of a configuration dump."""

    key: str
    value: str
    needs_section: bool = False
    """True for plain text that means something only below a heading."""


@dataclass(frozen=True)
class ValidationMarked(Signal):
    """A validation pass, which repeats warm-up steps, began or ended."""

    running: bool


@dataclass(frozen=True)
class BenchLine(Signal):
    """A row of a benchmark block; the tracker collects them until the foot."""

    key: str
    value: float


@dataclass(frozen=True)
class BenchEdge(Signal):
    """Head (`name` set) or foot (`name` None) of a benchmark block."""

    name: str | None


@dataclass(frozen=True)
class OmittedBucket(Signal):
    """One line of the list of omitted buckets, with the condition."""

    condition: str
    bucket: Bucket


@dataclass(frozen=True)
class RankNamed(Signal):
    """The process that prints this line says which rank it is."""

    rank: int
    world_size: int | None = None


@dataclass(frozen=True)
class FailureLine(Signal):
    """A line that tells of a failure; `kind` None when its text must decide."""

    message: str
    kind: str | None = None
