"""Rules are data: each has samples, each sample does what it says, none collides."""

from __future__ import annotations

import pytest

from parsers import DIALECTS, all_rules
from parsers.base import LineRule
from parsers.dispatch import Dispatcher
from parsers.envelope import Record, peel

RULES = all_rules()
SAMPLES = [
    pytest.param(rule, sample, id=f"{rule.name}-{number}")
    for rule in RULES
    for number, sample in enumerate(rule.samples)
]


def records_of(line: str) -> list[Record]:
    return peel(line)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_has_a_sample(rule: LineRule):
    assert rule.samples, f"rule {rule.name} has no sample"


def test_rule_names_are_unique_among_different_rules():
    seen: dict[str, LineRule] = {}
    for dialect in DIALECTS:
        for rule in dialect.rules:
            assert seen.setdefault(rule.name, rule) is rule, rule.name


@pytest.mark.parametrize(("rule", "sample"), SAMPLES)
def test_sample_is_found_by_its_rule_and_gives_its_event(rule, sample):
    dispatcher = Dispatcher(RULES)
    found = [
        hit
        for record in records_of(sample.line)
        if (hit := dispatcher.find(record.message, record.level, record.file))
        is not None
    ]
    assert [hit[0].name for hit in found] == [rule.name]
    made = rule.make(found[0][1])
    if sample.expected is None:
        assert made == []
        return
    actual = {name: getattr(made[0], name) for name in sample.expected}
    assert actual == dict(sample.expected)


@pytest.mark.parametrize(("rule", "sample"), SAMPLES)
def test_no_other_rule_understands_a_sample(rule, sample):
    """Two rules for one line would make the answer depend on their order."""
    for record in records_of(sample.line):
        others = [
            other.name
            for other in RULES
            if other is not rule
            and any(hint in record.message for hint in other.hints)
            and other.admits(record.level, record.file)
            and other.match(record.message) is not None
        ]
        assert others == [] or rule.match(record.message) is None


def test_hints_are_in_every_sample():
    """A line without the literal is never given to the pattern."""
    for rule in RULES:
        for sample in rule.samples:
            messages = [record.message for record in records_of(sample.line)]
            assert any(h in m for h in rule.hints for m in messages), rule.name
