"""How far the reading of logs is, on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from warmup_insights.ingest.outcome import Outcome, Watcher, file_size
from warmup_insights.units import format_bytes, format_count

if TYPE_CHECKING:
    from rich.console import Console

MIN_BYTES = 4 << 20
"""Less is read before a bar could be looked at."""
LINE_EVERY_S = 10.0


def sizes_of(files: Sequence[str]) -> list[int]:
    """Bytes of each file; 0 for what is none."""
    return [file_size(path) for path in files]


def watch(sizes: Sequence[int], console: Console | None = None) -> IngestWatcher:
    """The watcher for files of these sizes, to be used as a context manager."""
    if sum(sizes) >= MIN_BYTES:
        from rich.console import Console

        console = console or Console(stderr=True)
        if console.is_terminal:
            return BarWatcher(len(sizes), sum(sizes), console)
    return IngestWatcher(len(sizes), sum(sizes))


class IngestWatcher(Watcher, ExitStack):
    """Counts files and bytes; prints a line now and then, when it takes long."""

    def __init__(
        self, num_files: int, total_bytes: int, every_s: float = LINE_EVERY_S
    ) -> None:
        super().__init__()
        self.num_files = num_files
        self.total_bytes = total_bytes
        self.num_done = 0
        self.num_unchanged = 0
        self.read_bytes = 0
        self._every_s = every_s
        self._next_at = time.monotonic() + every_s

    def read(self, count: int) -> None:
        """Count bytes that were read."""
        self.read_bytes += count
        self._show()

    def done(self, outcome: Outcome) -> None:
        """Count a file that is done."""
        self.num_done += 1
        self.num_unchanged += outcome.state == "unchanged"
        self._show()

    def again(self, path: str, problem: str) -> None:
        """Print that a file is tried again."""
        click.echo(f"Trying {path} again: {problem}", err=True)

    def _show(self) -> None:
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + self._every_s
        click.echo(
            f"Read {format_bytes(self.read_bytes)} of {format_bytes(self.total_bytes)}, "
            f"{format_count(self.num_done)} of {format_count(self.num_files)} files done",
            err=True,
        )


class BarWatcher(IngestWatcher):
    """A bar over all bytes, with the number of files that are done."""

    def __init__(self, num_files: int, total_bytes: int, console: Console) -> None:
        from rich import progress

        super().__init__(num_files, total_bytes)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"), progress.BarColumn(),
            progress.DownloadColumn(), progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(), console=console, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total_bytes)
        self._show()
        self.enter_context(self._bar)

    def _show(self) -> None:
        self._bar.update(
            self._task,
            completed=self.read_bytes,
            description=f"{self.num_done:,} of {self.num_files:,} files",
        )
