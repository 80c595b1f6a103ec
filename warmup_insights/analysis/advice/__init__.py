"""What to change in a run, and what that would bring: rules over its facts.

A rule gives nothing unless it can with numbers that the run measured; a figure that is
unknown, or whose evidence contradicts itself, keeps every rule that needs it from
applying.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from warmup_insights.analysis.advice import (
    rules_bucket_time,
    rules_buckets,
    rules_compile,
    rules_failure,
    rules_graphs,
    rules_memory,
    rules_out_of_memory,
    rules_settings,
    rules_start,
    rules_weights,
)
from warmup_insights.analysis.advice.change import Way
from warmup_insights.analysis.advice.facts import RunFacts, Start
from warmup_insights.analysis.advice.finding import Finding, Rule, severity_of
from warmup_insights.analysis.advice.remedies import is_taken
from warmup_insights.model.summary import SCHEMA

__all__ = ["RULES", "Finding", "Rule", "RunFacts", "advise", "findings_json"]

FAILURE_RULES: tuple[Rule, ...] = (
    *rules_out_of_memory.RULES,
    *rules_compile.FAILURE_RULES,
    *rules_failure.RULES,
)
"""The only rules for a start that failed: none tunes what does not run."""
TUNING_RULES: tuple[Rule, ...] = (
    *rules_weights.RULES,
    *rules_start.RULES,
    *rules_compile.RULES,
    *rules_graphs.RULES,
    *rules_bucket_time.RULES,
    *rules_memory.RULES,
    *rules_buckets.RULES,
    *rules_settings.RULES,
)
RULES: tuple[Rule, ...] = (*FAILURE_RULES, *TUNING_RULES)
"""Every rule, in the order in which findings of equal weight are shown."""
_FAILURES = frozenset(rule.name for rule in FAILURE_RULES)
_ORDER = {"high": 0, "medium": 1, "low": 2}


def advise(facts: RunFacts, rules: Iterable[Rule] = RULES) -> list[Finding]:
    """All findings about a run, the most important first."""
    if facts.summary.status == "failed":
        rules = [rule for rule in rules if rule not in TUNING_RULES]
    found = [
        replace(made, rule=rule.name, numbers=made.numbers or {"rule": rule.name})
        for rule in rules
        for made in rule.decide(facts)
        if not is_taken(
            Way(made.suggestion, changes=made.changes), facts.summary.config
        )
    ]
    found = [_with_open_ways(finding, facts) for finding in found]
    largest = facts.start.dominant if facts.start is not None else None
    treated = {finding.phase for finding in found if finding.rule != "largest_part"}
    if largest in treated:
        found = [finding for finding in found if finding.rule != "largest_part"]
    found = [_weighed(finding, facts.start) for finding in found]
    found = [_behind_changes(finding, found) for finding in found]
    return sorted(found, key=lambda finding: _place(finding, largest))


def _with_open_ways(finding: Finding, facts: RunFacts) -> Finding:
    """The finding without the ways that the run has taken already."""
    ways = [way for way in finding.ways if not is_taken(way, facts.summary.config)]
    return replace(finding, ways=tuple(ways))


def _weighed(finding: Finding, start: Start | None) -> Finding:
    """The finding with the weight of what it can save, where that is less than its part."""
    if start is None or finding.gain_s is None:
        return finding
    most = severity_of(start.share(finding.gain_s[1]))
    if _ORDER[most] <= _ORDER[finding.severity]:
        return finding
    return replace(finding, severity=most)


def _behind_changes(finding: Finding, found: Iterable[Finding]) -> Finding:
    """The finding, where it predicts no saving, with no more weight than one that predicts a
    good one and treats more of the start."""
    if finding.changes or finding.gain_s is not None or finding.part_s is None:
        return finding
    weights = [
        _ORDER[other.severity]
        for other in found
        if other.gain_s is not None and (other.part_s or 0.0) > finding.part_s
    ]
    is_behind = finding.severity == "high" and _ORDER["medium"] in weights
    return replace(finding, severity="medium") if is_behind else finding


def _place(
    finding: Finding, largest: str | None
) -> tuple[bool, int, bool, bool, float]:
    """A failure first, then by weight; of equal weight what changes nothing comes last, what
    treats the largest part of the start first, the others by the size of their part."""
    is_failure = finding.rule in _FAILURES
    is_treated = largest is not None and finding.rule != "largest_part"
    is_largest = is_treated and finding.phase == largest
    is_idle = finding.suggestion.startswith("nothing")
    weight = _ORDER[finding.severity]
    return not is_failure, weight, is_idle, not is_largest, -(finding.part_s or 0.0)


def findings_json(run_id: str, findings: Iterable[Finding]) -> dict[str, Any]:
    """What `advise --json` prints."""
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "findings": [asdict(finding) for finding in findings],
    }
