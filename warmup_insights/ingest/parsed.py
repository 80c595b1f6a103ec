"""A log that another process has read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parsers.files import Batch
from warmup_insights.analysis.summary import RunSummary
from warmup_insights.ingest.held import Held, Slip
from warmup_insights.ingest.messages import Parsed, unpack_batch
from warmup_insights.storage.records import RunRecord


class ParsedLog:
    """What the other process said, in the shape that the writer wants."""

    def __init__(
        self, parsed: Parsed, frames: list[tuple[bytes, Slip]], held: Held
    ) -> None:
        self._parsed = parsed
        self._frames = frames
        self._held = held

    @property
    def head_digest(self) -> str:
        """Hash of its first line."""
        return self._parsed.head_digest

    @property
    def digest(self) -> str:
        """Hash of all its text."""
        return self._parsed.digest

    @property
    def size(self) -> int:
        """Bytes of its text, uncompressed."""
        return self._parsed.size

    @property
    def report(self) -> dict[str, Any]:
        """The report of its parsing, plain JSON values."""
        return self._parsed.report

    @property
    def kept_lines(self) -> list[tuple[int, str | None, str]]:
        """Lines to keep: `(line, rule or None, text)`."""
        return self._parsed.kept_lines

    def batches(self) -> Iterator[Batch]:
        """Events with the ordinals of their runs, in the order of the log."""
        for kind, slip in self._frames:
            yield unpack_batch(kind, self._held.get(slip))

    def start_of(self, ordinal: int) -> tuple[int, str]:
        """First line and key of a run."""
        return self._parsed.starts[ordinal]

    def summary(self, ordinal: int, run: RunRecord) -> RunSummary:
        """The summary of a run, with the id and the label that it has by now."""
        return self._parsed.summary(ordinal, run)
