"""What happened to every line of a file: nothing is dropped silently."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from warmup_insights.secrets import VALUE_LIMIT, mask_text, mask_texts

SHOWN = 10
"""So many unknown lines are kept and shown."""
KEPT_LINES = 4000
"""So many lines that state something or are unknown are kept with their text."""
TEXT_LIMIT = 400


def shown_text(text: str, limit: int = TEXT_LIMIT) -> str:
    """The beginning of a line, without secrets; none is cut before it is known."""
    return mask_text(text[: limit + VALUE_LIMIT])[:limit]


@dataclass
class ParseReport:
    """Counts of one file."""

    lines: int = 0
    events: int = 0
    matched: Counter[str] = field(default_factory=Counter)
    ignored: Counter[str] = field(default_factory=Counter)
    unknown: int = 0
    unknown_lines: list[tuple[int, str]] = field(default_factory=list)
    failed: int = 0
    """Lines that matched but held a value that could not be converted."""
    failed_lines: list[tuple[int, str, str]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What was wrong with the file itself, one sentence each."""
    dialects: Counter[str] = field(default_factory=Counter)
    is_full: bool = False
    """Whether no more lines are kept."""
    _kept: list[tuple[int, str | None, str]] = field(default_factory=list)

    @property
    def kept_lines(self) -> list[tuple[int, str | None, str]]:
        """Lines for showing: number, rule or None, and the beginning without secrets."""
        texts = mask_texts([text for _, _, text in self._kept])
        return [
            (line, rule, text[:TEXT_LIMIT])
            for (line, rule, _), text in zip(self._kept, texts, strict=True)
        ]

    def keep(self, line: int, rule: str | None, text: str) -> None:
        """Keep a line for showing, within the limit."""
        if not self.is_full:
            self._kept.append((line, rule, text[: TEXT_LIMIT + VALUE_LIMIT]))
            self.is_full = len(self._kept) >= KEPT_LINES

    def add_unknown(self, line: int, text: str) -> None:
        """A line that looks relevant and that no rule matches."""
        self.unknown += 1
        self.keep(line, None, text)
        if len(self.unknown_lines) < SHOWN:
            self.unknown_lines.append((line, shown_text(text)))

    def add_failed(self, line: int, rule: str, text: str) -> None:
        """A line that a rule matched but could not convert."""
        self.failed += 1
        if len(self.failed_lines) < SHOWN:
            self.failed_lines.append((line, rule, shown_text(text)))

    def add_problem(self, sentence: str) -> None:
        """Something wrong with the file, reported once."""
        if sentence not in self.problems:
            self.problems.append(sentence)

    def as_dict(self) -> dict[str, Any]:
        """The report as plain JSON values, without the kept lines."""
        return {
            "lines": self.lines,
            "events": self.events,
            "matched": dict(sorted(self.matched.items())),
            "ignored": dict(sorted(self.ignored.items())),
            "unknown": self.unknown,
            "unknown_lines": [list(item) for item in self.unknown_lines],
            "failed": self.failed,
            "failed_lines": [list(item) for item in self.failed_lines],
            "problems": list(self.problems),
            "dialects": sorted(self.dialects),
        }
