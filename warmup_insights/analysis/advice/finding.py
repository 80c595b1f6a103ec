"""One piece of advice, and a rule that may give some."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal

from warmup_insights.analysis.advice.facts import RunFacts

Severity = Literal["high", "medium", "low"]


@dataclass(frozen=True)
class Finding:
    """One advice: what was found, what to change, and the expected effect.

    `numbers` holds the figures that it rests on, by name, in bytes and seconds; it is
    never empty. `details` are further lines: buckets, or YAML.
    """

    rule: str
    severity: Severity
    title: str
    numbers: dict[str, float | int | str]
    setting: str
    suggestion: str
    effect: str
    details: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        assert self.numbers, f"{self.rule} gives advice without a number"


@dataclass(frozen=True)
class Rule:
    """A rule: its name, when it applies, which figures it needs, and how it decides."""

    name: str
    applies_when: str
    needs: str
    decide: Callable[[RunFacts], Iterable[Finding]]


def count_of(number: int, noun: str) -> str:
    """A count with its noun: `1 shape`, `2 shapes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
