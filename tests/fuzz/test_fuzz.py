"""Kept findings hold; and what looks for new ones does find."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.engine.lines import LineParser
from tests.fuzz import findings, properties, seeds
from tests.fuzz.__main__ import main
from tests.fuzz.hunting import ROOT, hunt_guided, hunt_unguided
from tests.fuzz.mutations import CHANGES, changed
from tests.fuzz.properties import TARGETS, check_file, check_line

KEPT = findings.kept()


@pytest.fixture(autouse=True, scope="module")
def patience():
    """The limit of a line is for `python -m tests.fuzz`; a busy machine gets more here."""
    usual, properties.LINE_LIMIT_S = properties.LINE_LIMIT_S, 0.2
    yield
    properties.LINE_LIMIT_S = usual


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.name)
def test_a_finding_does_not_come_back(path):
    assert findings.broken(findings.target_of(path), path.read_bytes()) is None


def test_findings_are_kept():
    assert len(KEPT) > 0
    assert {findings.target_of(path) for path in KEPT} <= set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_seeds_hold(target):
    found = seeds.of(target)
    assert len(found) > 30
    assert [fault for data in found if (fault := findings.broken(target, data))] == []


@settings(max_examples=100)
@given(st.sampled_from(seeds.files()), st.integers(0, 2**31))
def test_broken_logs_hold(data, seed):
    check_file(changed(data, 32_768, seed))


@settings(max_examples=200)
@given(st.sampled_from(seeds.lines()), st.integers(0, 2**31))
def test_broken_lines_hold(data, seed):
    check_line(changed(data, 8192, seed))


def test_every_change_changes_something():
    data = b"\n".join(seeds.lines()[:20])
    results = {changed(data, 1 << 20, seed) for seed in range(50)}
    assert len(results) > 40
    assert len(CHANGES) > 5
    assert changed(data, 100, 1) == changed(data, 100, 1)
    assert len(changed(data, 100, 1)) <= 100


def test_a_fault_is_found_and_kept(monkeypatch, tmp_path):
    """A parser that cannot bear a certain word."""
    feed = LineParser.feed

    def fragile(parser: LineParser, line: str, number: int) -> None:
        if "99999999999" in line:
            raise RuntimeError("too large a number")
        feed(parser, line, number)

    monkeypatch.setattr(LineParser, "feed", fragile)
    hunt = hunt_unguided("line", 60, tmp_path)
    assert len(hunt.faults) == 1
    assert "RuntimeError" in hunt.faults[0]
    (path,) = findings.kept(tmp_path)
    assert "RuntimeError" in findings.broken("line", path.read_bytes())


def test_a_slow_line_is_a_fault(monkeypatch):
    feed = LineParser.feed

    def slow(parser: LineParser, line: str, number: int) -> None:
        sum(range(100_000))
        feed(parser, line, number)

    monkeypatch.setattr(properties, "LINE_LIMIT_S", 0.0005)
    monkeypatch.setattr(LineParser, "feed", slow)
    assert "a slow line" in findings.broken("line", b"any")


def test_events_out_of_nothing_are_a_fault(monkeypatch):
    monkeypatch.setattr("parsers.engine.steps._LIST_LIMIT", 10**6)
    line = b"Prompt warmup processing:  99%|###| 90000/90001 [05:10<05:58, 6.77s/item]"
    assert "events out of nothing" in findings.broken("file", line)


@pytest.mark.long
def test_time_is_spent_and_counted(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["--seconds", "2", "--json"]) == 0
    shown = capsys.readouterr()
    assert '"faults": []' in shown.out
    assert "Hypothesis looks instead" in shown.err


@pytest.mark.long
def test_atheris_finds_and_reaches_code(tmp_path):
    pytest.importorskip("atheris", reason="no wheel for this Python")
    hunt = hunt_guided("line", 3, tmp_path / "corpus", tmp_path)
    assert hunt.faults == []
    assert hunt.executions > 100
    assert hunt.coverage > 500
    program = (
        "import sys, tests.fuzz.properties as p\n"
        "def fragile(data):\n"
        "    if b'GiB' in data and len(data) % 7 == 3: raise RuntimeError('fragile')\n"
        "p.TARGETS['line'] = fragile\n"
        f"sys.argv = ['x', 'line', {str(tmp_path)!r}, '-runs=20000', "
        f"{str(tmp_path / 'corpus' / 'line')!r}]\n"
        "from tests.fuzz.guided import main\n"
        "main()\n"
    )
    subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, check=False
    )
    assert len(findings.kept(tmp_path)) == 1
