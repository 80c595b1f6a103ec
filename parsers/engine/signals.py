"""What a line states that is not yet an event: the tracker makes events of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from warmup_insights.model.events import Bucket, Event
from warmup_insights.model.failure_text import kind_of_message


class Origin(msgspec.Struct, gc=False):
    """Where a signal came from."""

    time: float | None
    rank: int | None
    line: int


_E = TypeVar("_E", bound=Event)
_replace = msgspec.structs.replace


def stamped(event: _E, origin: Origin) -> _E:
    """The event with its origin filled in."""
    return _replace(event, time=origin.time, rank=origin.rank, line=origin.line)


class Signal(msgspec.Struct, frozen=True, gc=False):
    """Base of everything that rules make and only the tracker understands."""


class StepLine(Signal, frozen=True, gc=False):
    """A bucket is about to run, or just did."""

    phase: str
    mode: str | None
    index: int
    total: int | None
    bucket: Bucket | None
    free_bytes: int | None
    is_over: bool = False
    """Whether the line is printed after it ran, and not before."""
    modality: str | None = None
    """`image`, `video`, ... of a multimodal item."""
    may_skip: bool = True
    """Whether graphs before the next line may be left out: they have a budget of memory."""


class MixedPrompt(Signal, frozen=True, gc=False):
    """The prompt of the mixed batches that follow, one for each decode bucket."""

    bucket: Bucket


class BarUpdate(Signal, frozen=True, gc=False):
    """A progress bar was drawn: `done` of `total` after `elapsed_s`, in whole seconds."""

    name: str
    done: int
    total: int
    elapsed_s: float
    item_s: float | None = None
    """Smoothed seconds per item, as drawn."""
    item_error_s: float = 0.0
    """How far the drawn figure can be from the exact one."""
    place: int | None = None
    """Of the item that runs or ran last, from 0, where the bar names it."""


class LazyCaptureStarted(Signal, frozen=True, gc=False):
    """First line of the two-line record of a delayed capture."""

    num_tokens: int


class LazyCaptureFinished(Signal, frozen=True, gc=False):
    """Second line of the two-line record of a delayed capture."""

    duration_s: float
    memory_bytes: int


class ExecutedShape(Signal, frozen=True, gc=False):
    """The shape of a forward pass, printed with `VLLM_DEBUG=fwd`."""

    phase: str
    shape: Bucket


class CodeFence(Signal, frozen=True, gc=False):
    """An edge of a block of code in a page of Markdown: behind it may be another log."""


class EnvironmentListed(Signal, frozen=True, gc=False):
    """The heading of what a machine has, which a program lists that imports the engine."""


class OtherEngine(Signal, frozen=True, gc=False):
    """Another engine states its arguments: it draws bars as this one does."""


class Elided(Signal, frozen=True, gc=False):
    """A person cut lines out here."""

    text: str = "lines were cut out of this log"


class ConfigSection(Signal, frozen=True, gc=False):
    """A heading of a configuration dump."""

    name: str


class ConfigLine(Signal, frozen=True, gc=False):
    """A `key: value` line of a configuration dump."""

    key: str
    value: str
    needs_section: bool = False
    """True for plain text that means something only below a heading."""


class WeightsSought(Signal, frozen=True, gc=False):
    """A rank looks for its weights, on this host or where they are downloaded from, or has
    them."""

    are_there: bool


class ValidationMarked(Signal, frozen=True, gc=False):
    """A validation pass, which repeats warm-up steps, began or ended."""

    running: bool


class BenchLine(Signal, frozen=True, gc=False):
    """A row of a benchmark block; the tracker collects them until the foot."""

    key: str
    value: float


class BenchEdge(Signal, frozen=True, gc=False):
    """Head (`name` set) or foot (`name` None) of a benchmark block."""

    name: str | None


class OmittedBucket(Signal, frozen=True, gc=False):
    """One line of the list of omitted buckets, with the condition."""

    condition: str
    bucket: Bucket


class RankNamed(Signal, frozen=True, gc=False):
    """The rank of the process that prints this line."""

    rank: int
    world_size: int | None = None
    local_rank: int | None = None
    """The number of its device on this host, those of all engines counted."""
    address: str | None = None
    """Where the ranks of its engine meet."""


class ModelNamed(Signal, frozen=True, gc=False):
    """A model is loaded; it is the run's unless the configuration names another."""

    model: str


class PrecompileStarted(Signal, frozen=True, gc=False):
    """A graph is about to be compiled for a shape; the line of its end may name none."""

    graph: str
    shape: str


class PaddingsBegun(Signal, frozen=True, gc=False):
    """The heading of a list of paddings, which follow one in a line."""

    phase: str
    dimension: str


class PaddingListed(Signal, frozen=True, gc=False):
    """One line of such a list."""

    size: int


class ShapeBegun(Signal, frozen=True, gc=False):
    """The graph of the model for so many tokens is about to be compiled."""

    num_tokens: int


class PrecompileFinished(Signal, frozen=True, gc=False):
    """The graph whose compilation began last is compiled."""

    duration_s: float


class RoutesListed(Signal, frozen=True, gc=False):
    """The server lists its routes, at once before it takes requests."""


class DevicesSeen(Signal, frozen=True, gc=False):
    """Devices that the process drives, before the engine uses them: what it sums up is of
    all of them."""

    used_bytes: tuple[int, ...]
    """Of each, by other parts of the same program, such as a trainer."""


class HbmLoaded(Signal, frozen=True, gc=False):
    """Memory of the devices of a process when the model is loaded, in bytes."""

    used_bytes: tuple[int, ...]
    """Of each."""
    total_bytes: int
    """Of one."""


class HbmSums(Signal, frozen=True, gc=False):
    """Memory of all devices of the process, in bytes."""

    total_bytes: int
    used_bytes: int
    available_bytes: int
    usable_bytes: int | None = None


class CacheFactor(Signal, frozen=True, gc=False):
    """A variable that the key of the compile cache is made of; None ends their list."""

    name: str | None
    value: str = ""


class ArtifactFrame(Signal, frozen=True, gc=False):
    """A frame of a traceback in the code of a compiled artefact or of its loader."""

    path: str


class PackageFrame(Signal, frozen=True, gc=False):
    """A frame of a traceback in the engine or in a package, by its file below the folder of
    the packages."""

    path: str


class StatisticsLine(Signal, frozen=True, gc=False):
    """How busy an engine was at one moment, as it prints every ten seconds or so."""

    usage_percent: float
    """Of the KV cache, in use."""
    running: int = 0
    waiting: int = 0
    """Requests."""
    tokens_per_s: float = 0.0
    """Generated since the last such line."""


class ResponseLine(Signal, frozen=True, gc=False):
    """The response to a request for inference began, with a status of success."""


class RequestLine(Signal, frozen=True, gc=False):
    """A request arrived, or the last of its output is there."""

    request: str
    is_end: bool = False


class FailureLine(Signal, frozen=True, gc=False):
    """A line about a failure; `kind` None when its text must decide."""

    message: str
    kind: str | None = None
    is_heading: bool = False
    """True for a line that states that something failed, and not what."""
    is_bare: bool = False
    """True when no logger printed it: it may come from another program."""
    is_detail: bool = False
    """True for a line that explains another one: the second of an error whose first ends
    with a colon, or what a compiler printed."""
    is_elsewhere: bool = False
    """True for a process that printed nothing of the engine, beside others that did."""


class ShutdownLine(Signal, frozen=True, gc=False):
    """The engine was stopped on request."""

    message: str
    is_weak: bool = False
    """True for a line that is also printed when an engine that failed goes down."""


def is_cause(made: object) -> bool:
    """Whether this states that memory ran out: a cause, not what followed from it."""
    return isinstance(made, FailureLine) and kind_of_message(made.message) != "error"


AT_WORK = "at_work"
"""What an engine does that was made: it waits for requests, or answers them."""
IN_REQUEST = "request"
"""The same, where one request failed."""
EXECUTING = "executing"
"""The model runs: for requests, or in a start for a profiling run or a warm-up."""


class ErrorFollowed(Signal, frozen=True, gc=False):
    """Python prints the error that was raised while the one above was handled."""


class CallFailed(Signal, frozen=True, gc=False):
    """A client gets the errors above and the one below as the answer to its call."""


class ErrorIgnored(Signal, frozen=True, gc=False):
    """Python goes on behind the error of the traceback that follows."""


class FrameSeen(Signal, frozen=True, gc=False):
    """A function in a traceback that shows what the engine did: a stage, AT_WORK,
    IN_REQUEST or EXECUTING; or another line of it that does."""

    phase: str
    is_weak: bool = False
    """A stage that a function above names counts instead, as one that captures a graph to
    estimate what graphs take; by itself it is no sign of a start."""
    logged: str | None = None
    """The text of the line, where the engine logged the traceback as an error."""

    @property
    def is_of_start(self) -> bool:
        """Whether the function runs in a start only."""
        return not self.is_weak and self.phase not in (AT_WORK, IN_REQUEST, EXECUTING)


class CrashDumped(Signal, frozen=True, gc=False):
    """The heading of the frames of one thread of a process that a signal ended, the innermost
    first."""

    is_current: bool
    """Whether it is the thread that was ended."""


class CrashFrame(Signal, frozen=True, gc=False):
    """One of these frames: the file of a package, and what the function shows of what the
    engine did, as in a traceback."""

    path: str | None
    phase: str | None


class AssertionSeen(Signal, frozen=True, gc=False):
    """The line of source in a traceback that an AssertionError without a text names."""

    text: str


def is_at_work(made: object) -> bool:
    """Whether this shows an engine that was made, whether or not its start is there."""
    return isinstance(made, FrameSeen) and made.phase in (AT_WORK, IN_REQUEST)


_FOREIGN = (
    CodeFence
    | EnvironmentListed
    | OtherEngine
    | Elided
    | CallFailed
    | ErrorFollowed
    | ErrorIgnored
    | ShutdownLine
    | FrameSeen
    | PackageFrame
    | CrashDumped
    | CrashFrame
    | AssertionSeen
    | RequestLine
    | ResponseLine
)


def is_foreign(made: Sequence[object]) -> bool:
    """Whether what a line made is no sign of a start: other programs fail, answer requests
    and print dots as well, and what goes down began elsewhere."""
    for item in made:
        is_bare = isinstance(item, FailureLine) and item.is_bare
        if not is_bare and not isinstance(item, _FOREIGN):
            return False
    return bool(made)
