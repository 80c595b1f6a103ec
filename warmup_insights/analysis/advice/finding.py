"""One piece of advice, and the rules that may give some."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.facts import RunFacts, Start

Severity = Literal["high", "medium", "low"]

HIGH_SHARE, MEDIUM_SHARE = 0.25, 0.10
"""From which share of the start-up or of the KV cache a finding is high or medium.

Where a finding states what it saves, the most of that counts, not the part that it treats.
"""


def severity_of(share: float) -> Severity:
    """The weight of a finding that concerns this share (0 to 1) of a start or a cache."""
    if share >= HIGH_SHARE:
        return "high"
    return "medium" if share >= MEDIUM_SHARE else "low"


def severity_in(
    start: Start | None, seconds: float | None, otherwise: Severity
) -> Severity:
    """The weight of a finding about these seconds of a start, where both are known."""
    if start is None or seconds is None:
        return otherwise
    return severity_of(start.share(seconds))


@dataclass(frozen=True)
class Finding:
    """One advice: what was found, what to change, and the expected effect.

    `numbers` holds the figures that it rests on, by name, in bytes and seconds; of a failure
    that states none, the name of the rule. `details` are further lines: buckets, or YAML.
    `changes` is the suggestion as setting to value, by the engine's own names: no two
    findings of a run give one setting two values. `gain_s` is the least and the most that
    the next start saves, in seconds; `price` is what the change costs; `ways` are
    alternatives.
    """

    rule: str = field(default="", kw_only=True)
    """The name of the rule that found it; `advise` puts it there."""
    severity: Severity
    title: str
    numbers: Mapping[str, Value]
    setting: str
    suggestion: str
    effect: str
    details: tuple[str, ...] = ()
    suggests_details: bool = False
    """Whether the suggestion is about the lines in `details`: they are shown wherever it is."""
    changes: Mapping[str, Value] = field(default_factory=dict)
    gain_s: tuple[float, float] | None = None
    price: str = ""
    ways: tuple[Way, ...] = ()
    phase: str = ""
    """The phase of the start-up that it treats; empty for anything else."""
    part_s: float | None = None
    """Seconds of the start-up that it is about: the larger, the further up it is shown."""


Decide = Callable[[RunFacts], Iterable[Finding]]


@dataclass(frozen=True)
class Rule:
    """A rule: when it applies, which figures it needs, and how it decides.

    `formula` is how the numbers of the effect are computed, `margin` what keeps the
    change safe, `source` the engine's document or file behind it, `example` a log for
    which it applies and what it finds there.
    """

    name: str
    applies_when: str
    needs: str
    decide: Decide
    formula: str = ""
    margin: str = ""
    source: str = ""
    example: str = ""


def rule(applies_when: str, needs: str, **texts: str) -> Callable[[Decide], Rule]:
    """The rule that a function decides, with the name of the function.

    `texts` are the other fields of a `Rule`.
    """
    return lambda decide: Rule(decide.__name__, applies_when, needs, decide, **texts)


OfStart = Callable[[RunFacts, Start], Iterable[Finding]]


def start_rule(
    applies_when: str, needs: str, **texts: str
) -> Callable[[OfStart], Rule]:
    """A rule about parts of the start-up, for runs that hold all of it; `needs` is what
    else has to be known."""

    def made(decide: OfStart) -> Rule:
        def of_facts(facts: RunFacts) -> Iterable[Finding]:
            return () if facts.start is None else decide(facts, facts.start)

        needed = f"a log that holds the whole start: {needs}"
        return Rule(decide.__name__, applies_when, needed, of_facts, **texts)

    return made


MAX_LISTED = 20


def first_lines(lines: Sequence[str]) -> tuple[str, ...]:
    """The first twenty lines, and how many more there are."""
    more = len(lines) - MAX_LISTED
    return (*lines[:MAX_LISTED], *([f"and {more} more"] if more > 0 else []))
