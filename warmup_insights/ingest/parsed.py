"""A log that another process has read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from parsers.files import Batch
from warmup_insights.analysis.summary import RunSummary
from warmup_insights.ingest.held import Held, Slip
from warmup_insights.ingest.messages import Parsed, unpack_batch
from warmup_insights.model.run import RunRecord


class ToldLog:
    """What is known of a log once all was said."""

    _parsed: Parsed | None = None

    @property
    def _all(self) -> Parsed:
        assert self._parsed is not None, "known after the last batch"
        return self._parsed

    @property
    def digest(self) -> str:
        """Hash of all its text."""
        return self._all.digest

    @property
    def size(self) -> int:
        """Bytes of its text, uncompressed."""
        return self._all.size

    @property
    def report(self) -> dict[str, Any]:
        """The report of its parsing, plain JSON values."""
        return self._all.report

    @property
    def kept_lines(self) -> list[tuple[int, str | None, str]]:
        """Lines to keep: `(line, rule or None, text)`."""
        return self._all.kept_lines

    def summary(self, ordinal: int, run: RunRecord) -> RunSummary:
        """The summary of a run, with the id and the label that it has by now."""
        return self._all.summary(ordinal, run)


class ParsedLog(ToldLog):
    """A log that was read before it is stored; its events wait in frames."""

    def __init__(
        self, parsed: Parsed, frames: list[tuple[bytes, Slip]], held: Held
    ) -> None:
        self.head_digest = parsed.head_digest
        self._parsed = parsed
        self._frames = frames
        self._held = held

    def batches(self) -> Iterator[Batch]:
        """Ordinals of runs with their events, in the order of the log."""
        for kind, slip in self._frames:
            yield unpack_batch(kind, self._held.get(slip))

    def start_of(self, ordinal: int) -> tuple[int, str]:
        """First line and key of a run."""
        return self._all.starts[ordinal]
