"""No regular expression that reads untrusted text can backtrack catastrophically."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dashboard.text
import parsers
import warmup_insights.model.failure_text
import warmup_insights.secrets
import warmup_insights.units
import warmup_insights.vllm_plugin.facts
from parsers import all_rules
from tests.safety.patterns import (
    Nested,
    Retries,
    compiled_in,
    has_unbounded_scan,
    modules_of,
    retries_of,
)

ROOT = Path(__file__).resolve().parents[2]
RULES = all_rules()
MODULES = [
    *modules_of(parsers), dashboard.text, warmup_insights.model.failure_text,
    warmup_insights.secrets, warmup_insights.units, warmup_insights.vllm_plugin.facts,
]  # fmt: skip
COMPILED = dict(pair for module in MODULES for pair in compiled_in(module))
RETRIES = 1000
MORE_RETRIES = {
    # Both begin with a literal, and their parts end each other in practice.
    "parsers.engine.envelope._OWN_HEAD": 2000,
    "warmup_insights.secrets._NAMED": 20_000,
}
ONLY_MATCHED = {
    # Tried at the start of a text only.
    "parsers.engine.dispatch._TRACEBACK",
    "parsers.engine.wrapping._BEGINS",
    # Each of its endless spaces follows a literal that is no space.
    "parsers.engine.envelope._REPEATED",
    # Takes 200 characters of a key.
    "warmup_insights.secrets._WORD",
}
# Reads what the user of the command line names as the database, one URL.
OF_THE_USER = r"(://[^/@:]*):[^/]*@"
CALLS = {
    "compile",
    "match",
    "search",
    "fullmatch",
    "sub",
    "findall",
    "finditer",
    "split",
}


def written_patterns() -> list[tuple[str, str]]:
    """Patterns that stand as text in a call, also inside functions."""
    found = []
    for folder in ("parsers", "warmup_insights", "dashboard"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                match node:
                    case ast.Call(
                        func=ast.Attribute(value=ast.Name(id="re"), attr=name),
                        args=[ast.Constant(value=str(text)), *_],
                    ) if name in CALLS:
                        where = f"{path.relative_to(ROOT)}:{node.lineno}"
                        found.append((where, text))
    return found


WRITTEN = written_patterns()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_retries_a_bounded_number_of_times(rule):
    found = retries_of(rule.pattern)
    assert found.degree == 0
    assert found.count <= RETRIES


@pytest.mark.parametrize("name", COMPILED)
def test_other_patterns_retry_a_bounded_number_of_times(name):
    pattern = COMPILED[name]
    found = retries_of(pattern.pattern, pattern.flags)
    assert found.degree == 0
    assert found.count <= MORE_RETRIES.get(name, RETRIES)


@pytest.mark.parametrize(
    ("where", "text"), WRITTEN, ids=[where for where, _ in WRITTEN]
)
def test_patterns_inside_functions_do_so_too(where, text):
    found = retries_of(text)
    assert found.degree == int(text == OF_THE_USER)
    assert found.count <= RETRIES


def test_what_is_searched_for_scans_no_place_twice():
    searched = {rule.name: rule.regex for rule in RULES if rule.anywhere} | COMPILED
    scanning = {
        name
        for name, pattern in searched.items()
        if has_unbounded_scan(pattern.pattern, pattern.flags)
    }
    assert scanning == ONLY_MATCHED


def test_many_patterns_are_seen():
    """An empty table would pass everything else."""
    assert len(RULES) > 100
    assert len(COMPILED) > 30
    assert len(WRITTEN) > 50
    assert set(COMPILED) >= {*MORE_RETRIES, *ONLY_MATCHED}


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+b", "(a|a)*b", "(?:a*b?)*c", r"(\w+\s?)+$", "(?:a{1,9}){1,9}b", "(?:.|a)+b",
     r"^(([a-z])+.)+[A-Z]([a-z])+$"],
)  # fmt: skip
def test_nested_repetitions_are_refused(pattern):
    with pytest.raises(Nested):
        retries_of(pattern)


@pytest.mark.parametrize(
    ("pattern", "degree"),
    [("a*a*b", 1), (r"\d+\d+x", 1), (".*,.*,.*,z", 3), (r"\s*\s*\s*$", 2), ("x*b", 0),
     (r"a*(?=b)a*c", 0), (r"\w+[.]\w+x?\w+!", 1)],
)  # fmt: skip
def test_neighbours_that_overlap_are_counted(pattern, degree):
    assert retries_of(pattern).degree == degree


@pytest.mark.parametrize(
    ("pattern", "count"),
    [("ab{0,9}c", 1), ("ab{0,9}b", 10), (".{0,9}.{0,4}x", 50), ("a(?:b|c)d", 1),
     ("(?:ab|[a-c]c)d", 2), ("[^,]{1,80}, x", 1), ("a?a?a?b", 4), ("(?i:A{0,3})", 1)],
)  # fmt: skip
def test_bounded_repetitions_are_counted(pattern, count):
    assert retries_of(pattern) == Retries(count)


def test_a_scan_before_the_end_is_seen():
    assert has_unbounded_scan(r"\w*=")
    assert has_unbounded_scan(r"\s+$")
    assert not has_unbounded_scan(r"=\w*")
    assert not has_unbounded_scan(r"\s{0,9}$")
