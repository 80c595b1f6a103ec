"""Logs that the runner wrote, read back by the parsers."""

from __future__ import annotations

import io
from datetime import datetime, timezone

from parsers.files import LogReader


def read_log(text: str, *, started_at: float | None = None):
    """The events of a log and the report of reading it.

    `started_at` gives the year, which no stamp has.
    """
    year = datetime.fromtimestamp(started_at or 0, timezone.utc).year
    reader = LogReader(io.BytesIO(text.encode()), "test.log", year=year)
    events = [event for batch in reader for _, events in batch for event in events]
    return events, reader.report


def parse_text(text: str, *, started_at: float | None = None):
    """The events of a log."""
    return read_log(text, started_at=started_at)[0]
