"""Rules are data: each has samples, each sample does what it says, none collides."""

from __future__ import annotations

import dataclasses
from itertools import islice

import pytest

from parsers import DIALECTS, all_rules
from parsers.base import LineRule, Sample, literals_of
from parsers.engine.dispatch import Dispatcher
from parsers.engine.envelope import Record, clean, peel
from tests.helpers import REAL_LOGS, ROOT
from warmup_insights.model.events import PhaseMarked, ServerReady
from warmup_insights.model.phases import phase_words
from warmup_insights.model.spans import STAGE_OF_SPAN
from warmup_insights.testing import check_rule, matches

RULES = all_rules()
SAMPLES = [
    pytest.param(rule, sample, id=f"{rule.name}-{number}")
    for rule in RULES
    for number, sample in enumerate(rule.samples)
]


def records_of(line: str) -> list[Record]:
    return peel(line)


def test_rule_names_are_unique_among_different_rules():
    seen: dict[str, LineRule] = {}
    for dialect in DIALECTS:
        for rule in dialect.rules:
            assert seen.setdefault(rule.name, rule) is rule, rule.name


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_samples_are_found_by_their_rule_and_give_their_event(rule: LineRule):
    check_rule(rule)


def test_a_wrong_sample_is_seen():
    """The check fails for each thing that can be wrong."""
    rule = next(
        r
        for r in RULES
        if isinstance(r.makes, type) and not r.fixed and r.samples[0].expected
    )
    line = rule.samples[0].line
    wrong = [
        (),
        (Sample("another line"),),
        (Sample(line, {"time": -1.0}),),
    ]
    for samples in wrong:
        changed = dataclasses.replace(rule, samples=samples)
        with pytest.raises(AssertionError, match=rule.name):
            check_rule(changed, [changed])


def test_a_sample_holds_what_the_rule_itself_fixes():
    """It is stated once, and what is made has it."""
    rule = LineRule(
        "wheels", "all wheels turn", PhaseMarked,
        fixed={"name": "turning", "edge": "start"},
        samples=(Sample("INFO 07-16 20:03:46 [a.py:1] all wheels turn"),),
    )  # fmt: skip
    check_rule(rule, [rule])
    ended = PhaseMarked(name="turning", edge="end")
    for made in (None, ServerReady(), ended):
        wrong = dataclasses.replace(rule, makes=lambda match, made=made: made)
        with pytest.raises(AssertionError, match="wheels"):
            check_rule(wrong, [wrong])


def test_a_module_that_a_rule_leaves_out_is_left_out_behind_another_one():
    """The rule of the last line that began alike is tried first."""
    rule = LineRule("wheels", "all wheels turn", not_files=("b.py",))
    dispatcher = Dispatcher([rule])
    found = [dispatcher.find("all wheels turn", "INFO", f"{n}.py:1") for n in "aba"]
    assert [one is not None for one in found] == [True, False, True]


@pytest.mark.parametrize(
    ("pattern", "texts"),
    [
        ("all wheels turn", {"all wheels turn"}),
        (r"\[fwd\] (?P<phase>\w{1,20}) of wheels\.", {" of wheels."}),
        ("wheels? turned?", {" turne"}),
        ("a wheel turns|wheels turn", {"a wheel turns", "wheels turn"}),
        (r"all (?:big|tiny) [a-z]{1,9}|wheels", {"all ", "wheels"}),
        (r"a(?: wheel turns){0,3}(?: and stops)?(?:, or not)*b", {"a"}),
        (r"(?:(?:big|tiny) wheels){1,3}", {" wheels"}),
        ("(?!all wheels)(?=wheels t)wheels", {"wheels t"}),
        (r"[]wheels]\d|x", set()),
        ("(?i:all) wheels turn", set()),
        ("(?:wheels|) turn|", set()),
    ],
)
def test_a_line_must_hold_the_longest_text_that_a_pattern_requires(pattern, texts):
    assert literals_of(pattern) == texts


def test_a_rule_whose_pattern_requires_no_long_text_states_a_hint():
    rule = LineRule("wheels", r"\d{1,3} wheels?|cogs")
    with pytest.raises(ValueError, match="wheels has a pattern that requires no text"):
        Dispatcher([rule])
    stated = dataclasses.replace(rule, hint=("wheel", "cogs"))
    assert Dispatcher([stated]).find("3 wheels") is not None


def test_a_rule_is_tried_where_its_text_begins_inside_that_of_another_one():
    rules = [
        LineRule("all", r"all wheels(?= stop)"),
        LineRule("turn", "(?:all )?wheels turn"),
    ]
    hit = Dispatcher(rules).find("all wheels turn")
    assert hit is not None
    assert hit[0].name == "turn"


def test_every_phase_of_a_rule_has_words():
    """Without an entry commands and pages show the name with spaces."""
    made = (one for rule in RULES for sample in rule.samples
            for _, found in matches(sample.line, [rule]) for one in found)  # fmt: skip
    names = {one.name for one in made if isinstance(one, PhaseMarked)}
    nameless = [
        name
        for name in sorted(names | {*STAGE_OF_SPAN.values()})
        if phase_words(name) == name.replace("_", " ")
    ]
    assert nameless == [], "add them to `_WORDS` in warmup_insights/model/phases.py"


def rules_of(record):
    """The names of all rules that read a record."""
    return [
        rule.name
        for rule in RULES
        if any(hint in record.message for hint in rule.hints)
        and rule.admits(record.level, record.file)
        and rule.match(record.message) is not None
    ]


@pytest.mark.parametrize(("rule", "sample"), SAMPLES)
def test_no_other_rule_understands_a_sample(rule, sample):
    """Two rules for one line would make the answer depend on their order."""
    for record in records_of(sample.line):
        names = rules_of(record)
        assert rule.name not in names or names == [rule.name]


LOGS = sorted({*(ROOT / "sample_logs").rglob("*.log"), *REAL_LOGS.rglob("*.log")})


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_no_two_rules_read_a_line_of_a_log(path):
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in islice(lines, 20_000):
            for record in peel(clean(line.rstrip("\n"))):
                assert len(rules_of(record)) <= 1, record.message[:200]


def test_hints_are_in_every_sample():
    """A line without the literal is never given to the pattern."""
    for rule in RULES:
        for sample in rule.samples:
            messages = [record.message for record in records_of(sample.line)]
            assert any(h in m for h in rule.hints for m in messages), rule.name
