"""Everything that advice may be based on: one run, the runs like it, the parts of its start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from msgspec.structs import asdict

from warmup_insights.analysis.advice.known_texts import Statement
from warmup_insights.analysis.advice.remedies import statement_of
from warmup_insights.analysis.plan.planning import Planner
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import BY_NAME, contradictory
from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import (
    OF_OTHER_RANK,
    BucketRow,
    FailureFacts,
    RunSummary,
    StepCost,
)
from warmup_insights.units import GIB, format_duration

LEAST_S, LEAST_SHARE = 10.0, 0.05
"""What is shorter is no finding; a smaller share is one only as the largest part."""
MOST_UNLOGGED = 0.5
"""Share of a start in no line from which nothing is stated of its parts."""
SHARE_STEP = 0.0001
"""Utilisations are printed with four digits."""
GAUDI = ("vllm-gaudi", "vllm-fork")
"""Engines for HPU devices."""
_FIRST = frozenset({
    "import", "configure", "start_engine", "start_workers", "distributed_init",
    "init_worker", "load_model", "load_weights", "download",
})  # fmt: skip
"""Phases that a log can begin with that holds the whole start."""


@dataclass(frozen=True)
class Start:
    """A whole start-up: seconds of each phase, and from the first line to ready."""

    seconds: dict[str, float]
    wall_s: float
    dominant: str
    """The phase that took longest."""
    of: str = ""
    """What the seconds are of, where the run holds no whole start-up."""

    def share(self, seconds: float) -> float:
        """These seconds as a share of the start, 0 to 1."""
        return seconds / self.wall_s

    def worth(self, phase: str) -> float | None:
        """Seconds of a phase; None where it is too short to be a finding."""
        seconds = self.seconds.get(phase, 0.0)
        is_most = phase == self.dominant and seconds >= LEAST_S
        return seconds if is_most or self.is_long(seconds) else None

    def is_long(self, seconds: float) -> bool:
        """Whether these seconds are enough for a finding that is not of the largest part."""
        return seconds >= LEAST_S and self.share(seconds) >= LEAST_SHARE

    def of_all(self, seconds: float) -> str:
        """These seconds, of how many, as a share."""
        whole = format_duration(self.wall_s)
        share = 100 * self.share(seconds)
        return f"{format_duration(seconds)} of {whole}{self.of} ({share:.0f} %)"


def is_whole(summary: RunSummary) -> bool:
    """Whether the run holds a start-up from its first line until it was ready.

    A log that begins in the middle of a start has no line with the engine's version, or
    begins with a phase that others come before.
    """
    times = summary.time
    if summary.status not in ("finished", "skipped"):
        return False
    is_ready = times.ready_at is not None or times.engine_init_s is not None
    has_failed = summary.serving is not None and summary.serving.end is not None
    if (summary.status == "skipped" or has_failed) and not is_ready:
        return False
    if any(phase.name == "lines_cut_out" for phase in times.phases):
        return False
    if not summary.is_log:
        return True
    has_first = bool(times.phases) and times.phases[0].name in _FIRST
    return has_first and summary.engine.version is not None


def start_of(summary: RunSummary) -> Start | None:
    """The parts of a start-up that the run holds as a whole.

    Of one that it does not hold, graph capture where that is most of the engine's
    initialisation. None as well where half of it or more is in no line, and where its evidence
    contradicts itself.
    """
    times = summary.time
    seconds = times.seconds_by_phase()
    if not is_whole(summary) or not times.wall_s or not seconds:
        return _initialisation(summary)
    if (times.unlogged_s or 0.0) > MOST_UNLOGGED * times.wall_s:
        return None
    broken = contradictory(summary)
    if broken & {"wall_s", "ready_s", *(f"phase:{name}" for name in seconds)}:
        return None
    dominant = max(seconds, key=lambda name: seconds[name])
    return Start(seconds, times.wall_s, dominant)


def unjudged(summary: RunSummary) -> str | None:
    """That no advice is about times, and why; None where it may be, or the start failed."""
    if summary.status == "failed" or start_of(summary) is not None:
        return None
    return (
        "The times were not judged: the run does not hold a whole start, or half of it is "
        "in no line"
    )


def _initialisation(summary: RunSummary) -> Start | None:
    """Graph capture as a part of `init engine ... took`, where both are stated.

    A log that holds only the end of a start-up still states these two.
    """
    whole = BY_NAME["engine_init_s"].trusted(summary)
    seconds = BY_NAME["graph_capture_s"].trusted(summary)
    if not whole or not seconds or not 0.5 * whole < seconds <= whole:
        return None
    own = {"graph_capture": seconds}
    return Start(own, whole, "graph_capture", " of engine initialisation")


def words_of(phase: str) -> str:
    """The phase in a sentence."""
    own = phase.removesuffix(OF_OTHER_RANK)
    return phase_words(own) + (" on a slower rank" if own != phase else "")


def weights_bytes(summary: RunSummary) -> float | None:
    """Size of the files of the weights, or else of the weights on all devices."""
    if summary.checkpoint is not None:
        return summary.checkpoint.size_bytes
    each = BY_NAME["weights_bytes"].trusted(summary)
    if summary.device.kind == "tpu":
        return None  # one process has many devices, and each holds a part
    return each * summary.ranks if each and summary.ranks else None


class Failed(FailureFacts, frozen=True, kw_only=True):
    """A failure of the start-up, or of serving after it."""

    is_serving: bool = False

    @property
    def where(self) -> str:
        """The line of the log in words; empty for a recorder."""
        return "" if self.line is None else f" (line {self.line})"


@dataclass(frozen=True)
class RunFacts:
    """One run: its summary and its bucket rows.

    `history` are summaries of other runs of the same model on the same device, `beside`
    those of the same log whose engines ran at the same time.
    """

    summary: RunSummary
    rows: Sequence[BucketRow] = ()
    history: Sequence[RunSummary] = ()
    beside: Sequence[RunSummary] = ()

    @cached_property
    def same_model(self) -> list[RunSummary]:
        """Of the history, the runs of the same model, quantisation, version and device."""
        own = _identity(self.summary)
        return [] if own is None else [o for o in self.history if _identity(o) == own]

    def others_s(self, *phases: str) -> list[float]:
        """Seconds of these phases in the other runs of the same model that state them."""
        seconds = (other.time.seconds_of(*phases) for other in self.same_model)
        return [own for own in seconds if own]

    @cached_property
    def alike(self) -> list[RunSummary]:
        """Those of them whose start could build on the same, or on what is as unknown."""
        kind = self.summary.start.words
        return [other for other in self.same_model if other.start.words == kind]

    @cached_property
    def planner(self) -> Planner | None:
        """A planner for this run; None when the run lacks what planning needs."""
        try:
            return Planner(self.summary, self.rows)
        except InputError:
            return None

    @cached_property
    def start(self) -> Start | None:
        """The parts of the start-up; None unless the run holds all of it."""
        return start_of(self.summary)

    @cached_property
    def statement(self) -> Statement | None:
        """What the text of the failure explains of itself; None where it is nothing."""
        found = self.failed
        if found is None:
            return None
        stage = "" if found.is_serving else self.stage
        module = found.module or ""
        return statement_of(found.message, stage, self.summary.config, module)

    @cached_property
    def failed(self) -> Failed | None:
        """What failed; None for an ordered end, and while nothing failed."""
        if self.summary.failure is not None:
            return Failed(**asdict(self.summary.failure))
        end = self.summary.serving.end if self.summary.serving else None
        if end is None or end.kind == "shutdown":
            return None
        return Failed(**asdict(end), is_serving=True)

    @property
    def stage(self) -> str:
        """The stage in which it failed, or the last one that the run shows."""
        phase = self.failed.phase if self.failed is not None else None
        return phase or self.summary.progress.stage

    @property
    def utilization(self) -> float | None:
        """`gpu_memory_utilization` as the engine printed or was given it; the version's default
        where its arguments, which vLLM prints, do not name it."""
        known = self.summary.memory_or_none.gpu_memory_utilization
        return known or self.summary.setting("gpu_memory_utilization")

    @cached_property
    def device_bytes(self) -> float | None:
        """The memory of the device: as a failure states it, else as two figures of the log
        give it.

        vLLM prints its estimate for CUDA graphs in GiB, and the utilisation with and
        without it; the size is their quotient, at its lowest for the rounding of both, so
        that a utilisation made from it is enough. None where that leaves more than a tenth
        open.
        """
        stated = self.failed.stated.total_bytes if self.failed is not None else None
        known = stated or self.figure("total_bytes")
        if known:
            return known
        graphs, share = self.summary.graphs, self.utilization
        if graphs is None or share is None or graphs.utilization_without is None:
            return None
        part = share - graphs.utilization_without
        if not graphs.estimated_bytes or part <= 0:
            return None
        slack = SHARE_STEP / 2 / part + 0.005 * GIB / graphs.estimated_bytes
        return graphs.estimated_bytes / part * (1 - slack) if slack <= 0.1 else None

    @property
    def served_s(self) -> float | None:
        """From ready to the end that has a time; the last event may be long before it."""
        serving = self.summary.serving
        if serving is None or serving.ended_at is None:
            return None
        return serving.duration_s

    def figure(self, name: str) -> float | None:
        """A figure of the table; None where its evidence contradicts itself."""
        return BY_NAME[name].trusted(self.summary)

    def count(self, name: str) -> int:
        """A figure that counts, 0 when it is unknown: for sums over phases."""
        return int(self.figure(name) or 0)

    def seconds(self, rows: Iterable[BucketRow]) -> float | None:
        """The time of the buckets whose time is known; None when none is to be trusted."""
        known = [row.duration_s for row in rows if row.duration_s is not None]
        if not known or "steps_s" in contradictory(self.summary):
            return None
        return sum(known)

    @cached_property
    def steps(self) -> list[StepCost]:
        """Runs and captures of buckets, in the order of the run."""
        costs = [cost for row in self.rows for cost in (row.run, row.capture) if cost]
        return sorted(costs, key=lambda cost: cost.position)

    @property
    def captures(self) -> list[StepCost]:
        """Captures of buckets, in no order."""
        return [row.capture for row in self.rows if row.capture is not None]

    @cached_property
    def used(self) -> set[tuple[str, Bucket]]:
        """Phase and bucket of all that ran while serving."""
        serving = self.summary.serving
        return {(use.phase, use.bucket) for use in (serving.uses if serving else ())}

    def blocks_in(self, num_bytes: float) -> int | None:
        """How many KV blocks so many bytes would be."""
        size = self.figure("block_bytes")
        return int(num_bytes / size) if size else None


def _identity(summary: RunSummary) -> tuple[object, ...] | None:
    """What runs of the same model share; None where the name of the model is unknown."""
    model = summary.config.get("model", summary.model)
    if not isinstance(model, str) or "redacted" in model.lower():
        return None
    engine, device = summary.engine, summary.device
    return (
        model, summary.config.get("quantization"), summary.config.get("dtype"),
        engine.name, engine.version, device.kind, device.name, summary.ranks,
    )  # fmt: skip
