"""Everything that advice may be based on: one run, and the runs like it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from warmup_insights.analysis.advice.start import Start, start_of
from warmup_insights.analysis.plan.planning import Planner
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import BY_NAME, contradictory
from warmup_insights.model.summary import BucketRow, RunSummary, StepCost


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
