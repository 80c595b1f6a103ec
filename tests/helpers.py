"""Builders that several tests share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from warmup_insights.model.events import Event
from warmup_insights.testing import events, folded, of, read

__all__ = [
    "REAL_LOGS", "ROOT", "events", "folded", "of", "public", "read", "some_of",
    "summarize_file", "summary_of",
]  # fmt: skip

ROOT = Path(__file__).resolve().parents[1]
REAL_LOGS = ROOT.parent / "shared" / "logs"
"""Real logs that do not ship with the project; tests of them skip where they are not."""


def some_of(ways: Iterable[str], log: str, count: int = 1) -> list[str]:
    """So many of the ways in which a log can be tried, by its name: all pairs of logs and ways
    would take most of the time of the tests."""
    return sorted(ways, key=lambda way: crc32(f"{way} {log}".encode()))[:count]


def public(value: Any) -> Any:
    """What `--json` prints of a summary or of rows: plain dicts and lists."""
    return msgspec.json.decode(msgspec.json.encode(value))


def summary_of(found: list[Event], **run: Any) -> dict[str, Any]:
    """The public summary of some events."""
    return public(folded(found, **run).summary)


def summarize_file(path: Path, ordinal: int = 0, **options: Any) -> dict[str, Any]:
    """The run summary of a log file."""
    runs, _ = read(path.read_bytes(), path.name, **options)
    return summary_of(runs[ordinal])
