"""Advice on real logs: what must be found in each, with its figures, and what must not.

`advice_failures.json` is the table: every log that failed, every log whose memory is
divided badly or only seems to be, and findings whose words were once wrong. Logs that are
not here are skipped.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import REAL_LOGS, ROOT, folded, read
from warmup_insights.analysis.advice import FAILURE_RULES, RunFacts, advise
from warmup_insights.analysis.advice.change import Way
from warmup_insights.analysis.plan.cache import CachePlan, CachePlanner
from warmup_insights.analysis.plan.planning import Plan, PlanSettings
from warmup_insights.errors import InputError
from warmup_insights.export.findings import finding_lines
from warmup_insights.runs import at_the_same_time

TABLE: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("advice_failures.json").read_text(encoding="utf-8")
)
SAMPLES = ROOT / "sample_logs"
FILES = sorted(
    path
    for folder in (SAMPLES, REAL_LOGS)
    for path in folder.rglob("*.log")
    if path.is_file()
)
FAILURES = {rule.name for rule in FAILURE_RULES}
PLANNED = {
    "gpu_memory_utilization": "gpu_memory_utilization",
    "VLLM_GRAPH_RESERVED_MEM": "graph_reserved_mem",
    "VLLM_GRAPH_PROMPT_RATIO": "graph_prompt_ratio",
    "max_model_len": "max_model_len",
    "max_num_seqs": "max_num_seqs",
    "kv_cache_dtype": "kv_cache_dtype",
}


def path_of(name: str) -> Path:
    return ROOT / name if name.startswith("sample_logs/") else REAL_LOGS / name


@functools.cache
def runs_of(path: Path) -> list[RunFacts]:
    runs, _ = read(path.read_bytes(), path.name, year=None)
    made = [folded(runs[ordinal]) for ordinal in sorted(runs)]
    summaries = [each.summary for each in made]
    return [
        RunFacts(
            each.summary,
            each.rows,
            beside=at_the_same_time(
                each.summary, [s for s in summaries if s is not each.summary]
            ),
        )
        for each in made
    ]


each_log = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)


@pytest.mark.parametrize(
    "row",
    TABLE,
    ids=lambda row: f"{Path(row['log']).stem}-{row.get('run', 0)}-{row.get('rule')}",
)
def test_the_table_of_logs_holds(row):
    path = path_of(row["log"])
    if not path.exists():
        pytest.skip("the log is not here")
    findings = advise(runs_of(path)[row.get("run", 0)])
    rules = [finding.rule for finding in findings]
    assert set(rules).isdisjoint(row.get("not", ()))
    if "rule" not in row:
        return
    (finding,) = [each for each in findings if each.rule == row["rule"]]
    text = "\n".join(finding_lines(finding, "RUN"))
    assert finding.severity == row["severity"]
    assert [part for part in row.get("has", ()) if part not in text] == []
    assert [part for part in row.get("lacks", ()) if part in text] == []
    assert finding.changes == row.get("changes", finding.changes)


@each_log
def test_a_failure_has_exactly_one_cause(path):
    """A start that failed has nothing but its cause; one that served has it besides."""
    for facts in runs_of(path):
        rules = [finding.rule for finding in advise(facts)]
        causes = [rule for rule in rules if rule in FAILURES]
        assert len(causes) <= 1
        if facts.summary.status == "failed":
            assert len(rules) == 1
        if facts.failed is not None:
            assert len(causes) == 1


@each_log
def test_no_two_findings_give_one_setting_two_values(path):
    for facts in runs_of(path):
        given: dict[str, Any] = {}
        for finding in advise(facts):
            for name, value in finding.changes.items():
                assert given.setdefault(name, value) == value


_SET = re.compile(
    r"--([a-z][a-z\d-]{2,60})[ =]([\w.:]{1,60})|\b([A-Z]\w{3,60})=([\w.:]{1,60})"
)


@each_log
def test_nothing_is_proposed_that_the_run_has(path):
    """By the values of a finding, and by those that its words name."""
    for facts in runs_of(path):
        config = facts.summary.config
        for finding in advise(facts):
            own = Way(finding.suggestion, changes=finding.changes)
            for way in (own, *(way for way in finding.ways if way.kind == "remedy")):
                named = {
                    (name or option.replace("-", "_")): text or value
                    for option, value, name, text in _SET.findall(way.suggestion)
                }
                for name, value in (way.changes or named).items():
                    assert str(config.get(name)) != str(value) or len(way.changes) > 1


def planned(facts: RunFacts, changes: Mapping[str, Any]) -> Plan | CachePlan | None:
    """What `plan` answers for changed settings; None where the run cannot be planned."""
    own = {PLANNED[name]: value for name, value in changes.items() if name in PLANNED}
    if not own:
        return None
    if facts.planner is not None and "kv_cache_dtype" not in own:
        return facts.planner.plan(PlanSettings(**own))
    try:
        return CachePlanner(facts.summary).plan(PlanSettings(**own))
    except InputError:
        return None


@each_log
def test_what_advice_changes_together_passes_the_planner(path):
    for facts in runs_of(path):
        findings = advise(facts)
        together = {n: v for each in findings for n, v in each.changes.items()}
        ways = [way.changes for each in findings for way in each.ways]
        for changes in (together, *ways):
            plan = planned(facts, changes)
            if plan is not None:
                assert plan.outcome in ("fits", None)
            if isinstance(plan, Plan):
                assert plan.free_after_graphs_bytes >= 0.05 * plan.free_bytes


def name_of(path: Path) -> str:
    base = ROOT if path.is_relative_to(SAMPLES) else REAL_LOGS
    return path.relative_to(base).as_posix()


def test_every_log_that_failed_is_in_the_table():
    listed = {(row["log"], row.get("run", 0)) for row in TABLE if "rule" in row}
    failing = {
        (name_of(path), ordinal)
        for path in FILES
        for ordinal, facts in enumerate(runs_of(path))
        if facts.failed is not None
    }
    assert failing - listed == set()
