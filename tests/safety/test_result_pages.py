"""The pages of measured results show what was measured, also where it is not good."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.helpers import ROOT

sys.path.insert(0, str(ROOT / "docs"))
try:
    import make_performance
    import make_reliability
finally:
    sys.path.remove(str(ROOT / "docs"))

AUDIT = ROOT / ".ci" / "audit"


def test_what_pytest_says_is_counted():
    count = make_reliability.tests_of
    assert count("x\n2 failed, 3 passed, 1 skipped, 1 error in 1.00s\n") == {
        "passed": 3, "failed": 3, "skipped": 1,
    }  # fmt: skip
    assert count("251 passed in 1.2s") == {"passed": 251, "failed": 0, "skipped": 0}
    assert count("no tests ran in 0.01s") == {}
    assert count("") == {}


def test_failures_are_on_the_page():
    counts = {"passed": 3, "failed": 2, "skipped": 1}
    found = {
        "command": "-m pytest x",
        "is_quick": False,
        "machine": "m",
        "counts": counts,
    }
    text = make_reliability.page({"sql": found})
    assert "| 3 tests | 2 failed, 1 skipped | `python -m pytest x` |" in text
    assert "quick" not in text
    hunt = {
        "seconds": 60.0,
        "executions": 5,
        "coverage": 7,
        "peak_mb": 9,
        "faults": ["a"],
    }
    found = {**found, "is_quick": True, "counts": {"line": hunt}}
    text = make_reliability.page({"fuzz": found})
    assert "lines: 1 findings" in text
    assert "*quick* 1 minutes: 5 lines" in text


def test_a_check_that_gives_no_counts_is_no_result():
    check = make_reliability.Check("x", ("-c", "print('nothing')"))
    with pytest.raises(SystemExit, match="gave no counts"):
        make_reliability.run(check, is_quick=False)


def test_a_missed_target_is_on_the_page():
    row = make_performance.Row("a", "9 ms", "under 5 ms", 1.234, "b", is_met=False)
    assert row.cells("m", is_quick=False) == [
        "a", "under 5 ms", "9 ms", "1.23", "b", "**no**", "m",
    ]  # fmt: skip
    assert "**no**" not in row.cells("m", is_quick=True)
    answers = {"open": 51.0, "run summary": 1.0}
    results = {"writes": {"ours_per_s": 1.0, "raw_is_faster_by": 2.6},
               "answers": answers, "changes": {"remove it": 1001.0}}  # fmt: skip
    rows = list(make_performance.store_rows(results))
    assert [row.is_met for row in rows] == [False, False, True, False]


def test_json_is_found_between_other_lines():
    text = 'Python 3\n{"a": 1}\n{"b": {"c": 2}}\nend\n'
    assert list(make_performance.json_values(text)) == [{"a": 1}, {"b": {"c": 2}}]


def test_a_machine_has_no_name():
    import socket

    assert socket.gethostname() not in make_performance.machine()


@pytest.mark.parametrize(
    ("answer", "code", "said"),
    [
        ({"dependencies": [{"name": "a", "version": "1", "vulns": []}]}, 0, "1 of 1"),
        (
            {"dependencies": [{"name": "a", "version": "1", "vulns": [
                {"id": "CVE-1", "fix_versions": ["2"]}]}, {"name": "b", "skip_reason": "x"}]},
            1, "a 1: CVE-1, mended in 2",
        ),
        ({"dependencies": [{"name": "b", "skip_reason": "x"}]}, 0, "Not audited"),
        (None, 0, "Not audited"),
    ],
)  # fmt: skip
def test_the_audit_tells_weak_from_unknown(answer, code, said, tmp_path):
    path = tmp_path / "answer.json"
    path.write_text("" if answer is None else json.dumps(answer))
    done = subprocess.run(
        [str(AUDIT), str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert said in done.stdout
