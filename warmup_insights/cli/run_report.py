"""The table that a run ends with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from warmup_insights.model.events import (
    AnyEvent,
    BenchmarkResult,
    CaptureSummary,
    GraphBudgetSet,
    KVCacheAllocated,
    MemoryBudgetSet,
    RunStarted,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.units import format_bytes, format_count, format_duration


@dataclass
class _Phase:
    warmed: int = 0
    warmed_s: float = 0.0
    graphs: int = 0
    graphs_s: float = 0.0
    graph_bytes: int = 0


@dataclass
class RunReport:
    """What a run came to, collected from its events."""

    started: RunStarted | None = None
    ready: ServerReady | None = None
    budget: MemoryBudgetSet | None = None
    cache: KVCacheAllocated | None = None
    graph_budget: GraphBudgetSet | None = None
    finished: WarmupFinished | None = None
    benchmark: dict[str, Any] | None = None
    summaries: dict[str, CaptureSummary] = field(default_factory=dict)
    _phases: dict[str, _Phase] = field(default_factory=lambda: defaultdict(_Phase))

    def take(self, event: AnyEvent) -> None:
        """Take note of an event."""
        if isinstance(event, WarmupStep):
            self._take_step(event)
        elif isinstance(event, CaptureSummary):
            self.summaries[event.phase] = event
        elif isinstance(event, BenchmarkResult):
            self.benchmark = event.values
        else:
            self._keep(event)

    def _keep(self, event: AnyEvent) -> None:
        places = {
            RunStarted: "started",
            ServerReady: "ready",
            MemoryBudgetSet: "budget",
            KVCacheAllocated: "cache",
            GraphBudgetSet: "graph_budget",
            WarmupFinished: "finished",
        }
        place = places.get(type(event))
        if place is not None:
            setattr(self, place, event)

    def _take_step(self, event: WarmupStep) -> None:
        phase = self._phases[event.phase]
        if event.mode == "graph":
            phase.graphs += 1
            phase.graphs_s += event.duration_s or 0.0
            phase.graph_bytes += event.memory_bytes or 0
        elif event.is_finished:
            phase.warmed += 1
            phase.warmed_s += event.duration_s or 0.0

    @property
    def is_synthetic(self) -> bool:
        """Whether the figures come from a simulation."""
        return self.started is not None and self.started.synthetic

    def title(self) -> str:
        """What ran where; says so when it was simulated."""
        if self.started is None:
            return "run"
        prefix = "SIMULATED - " if self.is_synthetic else ""
        return f"{prefix}{self.started.model} on {self.started.device_name}"

    def table(self) -> Table:
        """Two columns: a name and a figure."""
        table = Table(title=self.title(), show_header=False, title_justify="left")
        table.add_column()
        table.add_column(overflow="fold")
        for name, value in self.rows():
            table.add_row(name, value)
        return table

    def rows(self) -> Iterable[tuple[str, str]]:
        """The rows of the table; what did not happen has none."""
        if self.started and self.ready and self.started.time and self.ready.time:
            yield "ready after", format_duration(self.ready.time - self.started.time)
        if self.finished is not None:
            yield "warm-up", _warmup_text(self.finished)
        if self.budget is not None:
            yield "free after profiling", format_bytes(self.budget.free_bytes)
        if self.cache is not None:
            yield (
                "KV cache",
                f"{format_count(self.cache.num_blocks)} blocks of "
                f"{self.cache.block_size} tokens, {format_bytes(self.cache.allocated_bytes)}",
            )
        if self.graph_budget is not None:
            yield "graph budget", format_bytes(self.graph_budget.total_bytes)
        for name, phase in self._phases.items():
            yield f"{name} buckets", _buckets_text(phase)
            if phase.graphs:
                yield f"{name} graphs", self._graphs_text(name, phase)

    def _graphs_text(self, name: str, phase: _Phase) -> str:
        text = f"{phase.graphs} captured in {format_duration(phase.graphs_s)}, "
        text += format_bytes(phase.graph_bytes)
        summary = self.summaries.get(name)
        if summary is not None and summary.percent_reported is not None:
            text += f" ({summary.percent_reported:.1f} % of the buckets)"
        return text


def _warmup_text(finished: WarmupFinished) -> str:
    if finished.skipped:
        return "skipped"
    took = format_bytes(finished.allocated_bytes)
    return f"{format_duration(finished.duration_s)}, {took} of device memory"


def _buckets_text(phase: _Phase) -> str:
    return f"{phase.warmed} in {format_duration(phase.warmed_s)}"
