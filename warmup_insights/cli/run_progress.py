"""How far a run is, on stderr: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

from contextlib import ExitStack

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from warmup_insights.model.events import (
    AnyEvent,
    BucketsGenerated,
    DefragStep,
    DefragWarmup,
    GraphCaptured,
    Note,
    PhaseMarked,
    SamplerStep,
    SamplerWarmup,
    WarmupStep,
)
from warmup_insights.units import format_duration

_SHOWN_TOPICS = ("bucketing", "graph_memory", "graph_capture_off")
"""Topics of the notes that are shown at once."""


class RunProgress(ExitStack):
    """Shows the events of a run while it goes on; use it as a context manager."""

    def __init__(self, console: Console, *, is_quiet: bool = False) -> None:
        super().__init__()
        self._console = console
        self._is_quiet = is_quiet
        self._is_live = console.is_terminal and not is_quiet
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        if self._is_live:
            self.enter_context(self._bars)
        self._tasks: dict[str, TaskID] = {}
        self._totals: dict[str, int] = {}
        self._phase = ""

    def take(self, event: AnyEvent) -> None:
        """Show an event."""
        if isinstance(event, PhaseMarked):
            self._mark(event)
        elif isinstance(event, (WarmupStep, GraphCaptured)) and event.index:
            self._move(event.index, event.total)
        elif isinstance(event, (SamplerStep, DefragStep)):
            self._move(None, self._totals.get(self._phase))
        elif isinstance(event, Note) and event.topic in _SHOWN_TOPICS:
            self._print(event.text)
        else:
            self._count(event)

    def _count(self, event: AnyEvent) -> None:
        if isinstance(event, SamplerWarmup) and event.batch_sizes:
            self._totals["sampler_warmup"] = 12 * len(event.batch_sizes)
        elif isinstance(event, DefragWarmup) and event.thresholds:
            self._totals["defrag_warmup"] = len(event.thresholds) + 1
        elif isinstance(event, BucketsGenerated):
            for name in ("warmup", "graphs"):
                self._totals[f"{event.phase}_{name}"] = event.count

    def _mark(self, event: PhaseMarked) -> None:
        title = event.name.replace("_", " ")
        if event.edge == "start":
            self._phase = event.name
            if self._is_live:
                self._show(event.name, title)
            return
        if self._is_live:
            self._bars.update(self._tasks[event.name], visible=False)
        self._print(f"{title:<18} {format_duration(event.duration_s)}")

    def _show(self, name: str, title: str) -> None:
        """Show the bar of a phase, again if it has a second pass."""
        if name not in self._tasks:
            total = self._totals.get(name)
            self._tasks[name] = self._bars.add_task(title, total=total)
        self._bars.update(self._tasks[name], visible=True)

    def _move(self, done: int | None, total: int | None) -> None:
        task = self._tasks.get(self._phase)
        if task is None:
            return
        if done is None:
            self._bars.update(task, advance=1, total=total)
        else:
            self._bars.update(task, completed=done, total=total)

    def _print(self, text: str) -> None:
        if not self._is_quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
