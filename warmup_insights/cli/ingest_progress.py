"""How far the reading of logs is, on stderr: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from types import TracebackType

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from warmup_insights.ingest.outcome import Outcome, Watcher
from warmup_insights.units import format_bytes, format_count

MIN_BYTES = 4 << 20
"""Less is read before a bar could be looked at."""
LINE_EVERY_S = 10.0


def sizes_of(files: Sequence[str]) -> list[int]:
    """Bytes of each file; 0 for what is none."""
    return [os.path.getsize(path) if os.path.isfile(path) else 0 for path in files]


def watch(sizes: Sequence[int], console: Console | None = None) -> IngestWatcher:
    """The watcher for files of these sizes, to be used as a context manager."""
    console = console or Console(stderr=True)
    if console.is_terminal and sum(sizes) >= MIN_BYTES:
        return BarWatcher(len(sizes), sum(sizes), console)
    return LineWatcher(len(sizes), sum(sizes))


class IngestWatcher(Watcher):
    """Counts files and bytes."""

    def __init__(self, num_files: int, total_bytes: int) -> None:
        self.num_files = num_files
        self.total_bytes = total_bytes
        self.num_done = 0
        self.num_unchanged = 0
        self.read_bytes = 0

    def __enter__(self) -> IngestWatcher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing to end."""

    def read(self, count: int) -> None:
        """So many bytes more were read."""
        self.read_bytes += count

    def done(self, outcome: Outcome) -> None:
        """One file more is done."""
        self.num_done += 1
        self.num_unchanged += outcome.state == "unchanged"

    def again(self, path: str, problem: str) -> None:
        """Say that a file is tried again."""
        click.echo(f"trying {path} again: {problem}", err=True)


class BarWatcher(IngestWatcher):
    """A bar over all bytes, with the number of files that are done."""

    def __init__(self, num_files: int, total_bytes: int, console: Console) -> None:
        super().__init__(num_files, total_bytes)
        self._bar = Progress(
            TextColumn("{task.fields[files]}"), BarColumn(), DownloadColumn(),
            TransferSpeedColumn(), TimeRemainingColumn(),
            console=console, transient=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total_bytes, files=self._files())

    def _files(self) -> str:
        return f"{self.num_done:,} of {self.num_files:,} files"

    def __enter__(self) -> BarWatcher:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take the bar away."""
        self._bar.stop()

    def read(self, count: int) -> None:
        """Move the bar."""
        super().read(count)
        self._bar.advance(self._task, count)

    def done(self, outcome: Outcome) -> None:
        """Count the file."""
        super().done(outcome)
        self._bar.update(self._task, files=self._files())


class LineWatcher(IngestWatcher):
    """A line now and then, when it takes long."""

    def __init__(
        self, num_files: int, total_bytes: int, every_s: float = LINE_EVERY_S
    ) -> None:
        super().__init__(num_files, total_bytes)
        self._every_s = every_s
        self._next_at = time.monotonic() + every_s

    def read(self, count: int) -> None:
        """Count, and perhaps say it."""
        super().read(count)
        self._say()

    def done(self, outcome: Outcome) -> None:
        """Count, and perhaps say it."""
        super().done(outcome)
        self._say()

    def _say(self) -> None:
        if time.monotonic() < self._next_at:
            return
        self._next_at = time.monotonic() + self._every_s
        click.echo(
            f"read {format_bytes(self.read_bytes)} of {format_bytes(self.total_bytes)}, "
            f"{format_count(self.num_done)} of {format_count(self.num_files)} files done",
            err=True,
        )
