"""A log on its way to the store: its events in batches, then all there is to know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from parsers.files import Batch, LogReader
from warmup_insights.analysis.summary import RunSummary, Summarizer
from warmup_insights.model.run import RunRecord


class Log(Protocol):
    """What the writer wants from a log.

    `head_digest` and `start_of` are known with the first batch, the rest after the last.
    """

    @property
    def head_digest(self) -> str:
        """Hash of its first line."""

    @property
    def digest(self) -> str:
        """Hash of all its text."""

    @property
    def size(self) -> int:
        """Bytes of its text, uncompressed."""

    @property
    def report(self) -> dict[str, Any]:
        """The report of its parsing, plain JSON values."""

    @property
    def kept_lines(self) -> list[tuple[int, str | None, str]]:
        """Lines to keep: `(line, rule or None, text)`."""

    def batches(self) -> Iterator[Batch]:
        """Ordinals of runs with their events, in the order of the log; once."""

    def start_of(self, ordinal: int) -> tuple[int, str]:
        """First line and key of a run."""

    def summary(self, ordinal: int, run: RunRecord) -> RunSummary:
        """The summary of a run."""


class ReadLog:
    """A log that this process reads and summarises."""

    def __init__(self, reader: LogReader, name: str) -> None:
        self.name = name
        self._reader = reader
        self._summaries: dict[int, Summarizer] = {}

    @property
    def head_digest(self) -> str:
        """Hash of its first line."""
        return self._reader.head_digest

    @property
    def digest(self) -> str:
        """Hash of all its text."""
        return self._reader.digest

    @property
    def size(self) -> int:
        """Bytes of its text, uncompressed."""
        return self._reader.size

    @property
    def report(self) -> dict[str, Any]:
        """The report of its parsing, plain JSON values."""
        return self._reader.report.as_dict()

    @property
    def kept_lines(self) -> list[tuple[int, str | None, str]]:
        """Lines to keep: `(line, rule or None, text)`."""
        return self._reader.report.kept_lines

    def batches(self) -> Iterator[Batch]:
        """Ordinals of runs with their events, in the order of the log; once."""
        summaries = self._summaries
        for batch in self._reader:
            for ordinal, events in batch:
                if ordinal not in summaries:
                    summaries[ordinal] = Summarizer()
                summaries[ordinal].add_all(events)
            yield batch

    def ordinals(self) -> list[int]:
        """The runs that have events, in the order of the log."""
        return list(self._summaries)

    def start_of(self, ordinal: int) -> tuple[int, str]:
        """First line and key of a run."""
        run = self._reader.runs[ordinal]
        return run.first_line, run.key

    def summary(self, ordinal: int, run: RunRecord) -> RunSummary:
        """The summary of a run."""
        return self._summaries[ordinal].result(run)
