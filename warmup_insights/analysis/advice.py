"""What to change in a run, and what that would bring: rules over its facts.

A rule says nothing unless it can say it with numbers that the run measured; a figure
that is unknown keeps every rule that needs it silent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from warmup_insights.analysis.advice_facts import RunFacts

Severity = Literal["high", "medium", "low"]
SCHEMA = 1
_ORDER = {"high": 0, "medium": 1, "low": 2}


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
    """A rule: its name, when it speaks, what it needs to know, and how it decides."""

    name: str
    speaks_when: str
    needs: str
    decide: Callable[[RunFacts], Iterable[Finding]]


def advise(facts: RunFacts, rules: Iterable[Rule] | None = None) -> list[Finding]:
    """All findings about a run, the most important first."""
    if rules is None:
        from warmup_insights.analysis.advice_rules import RULES

        rules = RULES
    found = [finding for rule in rules for finding in rule.decide(facts)]
    return sorted(found, key=lambda finding: _ORDER[finding.severity])


def count_of(number: int, noun: str) -> str:
    """A count with its noun: `1 shape`, `2 shapes`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def findings_json(run_id: str, findings: Iterable[Finding]) -> dict[str, Any]:
    """What `advise --json` prints."""
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "findings": [asdict(finding) for finding in findings],
    }
