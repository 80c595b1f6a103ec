"""How far a run is, on stderr: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType

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

_TOLD = ("bucketing", "graph_memory", "graph_capture_off")
"""Topics of the notes that a person should see at once."""

_TITLES = {
    "load_model": "loading the model",
    "profile_run": "profiling run",
    "kv_cache": "KV cache",
    "bucket_generation": "buckets",
    "sampler_warmup": "sampler",
    "defrag_warmup": "defragmenter",
    "prompt_warmup": "prompt buckets",
    "decode_warmup": "decode buckets",
    "prompt_graphs": "prompt graphs",
    "decode_graphs": "decode graphs",
    "graph_capture": "first graph",
    "serving": "serving",
}


class RunProgress:
    """Follows the events of a run; use it as a context manager."""

    def __init__(self, console: Console, *, is_quiet: bool = False) -> None:
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
        self._tasks: dict[str, TaskID] = {}
        self._totals: dict[str, int] = {}
        self._phase = ""

    def __enter__(self) -> RunProgress:
        if self._is_live:
            self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_live:
            self._bars.stop()

    def take(self, event: AnyEvent) -> None:
        """Take note of an event."""
        if isinstance(event, PhaseMarked):
            self._mark(event)
        elif isinstance(event, (WarmupStep, GraphCaptured)) and event.index:
            self._move(event.index, event.total)
        elif isinstance(event, (SamplerStep, DefragStep)):
            self._move(None, self._totals.get(self._phase))
        elif isinstance(event, Note) and event.topic in _TOLD:
            self._say(event.text)
        else:
            self._learn(event)

    def _learn(self, event: AnyEvent) -> None:
        if isinstance(event, SamplerWarmup) and event.batch_sizes:
            self._totals["sampler_warmup"] = 12 * len(event.batch_sizes)
        elif isinstance(event, DefragWarmup) and event.thresholds:
            self._totals["defrag_warmup"] = len(event.thresholds) + 1
        elif isinstance(event, BucketsGenerated):
            for name in ("warmup", "graphs"):
                self._totals[f"{event.phase}_{name}"] = event.count

    def _mark(self, event: PhaseMarked) -> None:
        title = _TITLES.get(event.name, event.name)
        if event.edge == "start":
            self._phase = event.name
            total = self._totals.get(event.name)
            if self._is_live:
                self._show(event.name, title, total)
            return
        if self._is_live:
            task = self._tasks[event.name]
            self._bars.update(task, visible=False)
        self._say(f"{title:<18} {format_duration(event.duration_s)}")

    def _show(self, name: str, title: str, total: int | None) -> None:
        """Show the bar of a phase, again if it has a second pass."""
        if name in self._tasks:
            self._bars.update(self._tasks[name], visible=True)
        else:
            self._tasks[name] = self._bars.add_task(title, total=total)

    def _move(self, done: int | None, total: int | None) -> None:
        task = self._tasks.get(self._phase)
        if task is None:
            return
        if done is None:
            self._bars.update(task, advance=1, total=total)
        else:
            self._bars.update(task, completed=done, total=total)

    def _say(self, text: str) -> None:
        if not self._is_quiet:
            self._console.print(text, highlight=False, markup=False, soft_wrap=True)
