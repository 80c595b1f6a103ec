"""`advise` on the command line."""

from __future__ import annotations

import json

import pytest

from tests.analysis.builders import start_up, started
from tests.cli.decisions import invoke, simulated_run, store_run
from tests.helpers import ROOT
from warmup_insights.analysis.advice import RULES
from warmup_insights.errors import InputError, StoreError


@pytest.fixture(scope="module")
def db(tmp_path_factory):
    path = tmp_path_factory.mktemp("advise") / "runs.db"
    simulated_run(path, "aaa111", "base")
    store_run(path, "old1", start_up(seconds=279.0), label="old", model="m",
              device_kind="hpu", engine="vllm-gaudi")  # fmt: skip
    store_run(path, "new1", start_up(seconds=79.0), label="new", model="m",
              device_kind="hpu", engine="vllm-gaudi")  # fmt: skip
    store_run(path, "nil", [started(model=None)], label="nothing")
    return path


def test_findings_have_their_numbers(db):
    text = invoke("advise", "base", "--db", db).stdout
    assert "9 of 72 buckets got no graph" in text
    assert "--gpu-memory-utilization 0.94 VLLM_GRAPH_RESERVED_MEM=0.62" in text
    assert "num_kv_blocks=1,519" in text
    assert "[memory_plan]" in text


def test_json_lists_findings(db):
    answer = json.loads(invoke("advise", "base", "--db", db, "--json").stdout)
    assert answer["run_id"] == "aaa111"
    names = {rule.name for rule in RULES}
    assert {finding["rule"] for finding in answer["findings"]} <= names
    assert all(finding["numbers"] for finding in answer["findings"])


def test_earlier_runs_of_the_same_model_count(db):
    text = invoke("advise", "new", "--db", db).stdout
    assert (
        "2 starts of unknown kind became ready after 3 min 20 s (median) and 5 min 00 s (longest)"
        in text
    )
    assert "    startupProbe:\n      httpGet:\n        path: /health" in text


def test_markdown(db):
    text = invoke("advise", "new", "--db", db, "--markdown").stdout
    assert text.startswith("## Advice for run new1")
    assert "  - Effect: " in text
    assert "    ```\n    # starts seen: 2" in text


def test_a_run_without_findings_is_one_sentence_and_why(db):
    text = invoke("advise", "nothing", "--db", db).stdout
    assert text.startswith("No findings\n")
    assert "Note: The times were not judged" in text


def test_findings_about_an_excerpt_go_with_what_was_not_judged():
    """One finding about memory is no answer to what takes the time."""
    text = invoke(
        "advise", ROOT / "sample_logs/vllm-fork/warmup_doc_capture.log"
    ).stdout
    assert not text.startswith("No findings")
    assert "Note: The times were not judged" in text


def test_rules_are_listed():
    text = invoke("advise", "--rules").stdout
    assert all(rule.name in text for rule in RULES)
    rows = json.loads(invoke("advise", "--rules", "--json").stdout)["rules"]
    assert [row["rule"] for row in rows] == [rule.name for rule in RULES]
    assert all(row["applies_when"] == row["speaks_when"] for row in rows)


def test_a_rule_is_explained_as_on_its_page():
    text = invoke("advise", "--explain", "memory_plan").stdout
    page = (ROOT / "docs" / "advise.md").read_text(encoding="utf-8")
    assert text in page
    assert text.startswith("### memory_plan")
    answer = json.loads(invoke("advise", "--explain", "killed", "--json").stdout)
    assert answer["name"] == "killed"
    assert answer["source"]
    assert isinstance(invoke("advise", "--explain", "x").exception, InputError)


def test_wrong_input_is_one_sentence(db):
    both = invoke("advise", "--json", "--markdown", "--db", db)
    assert both.exit_code == 2
    assert isinstance(invoke("advise", "zzz", "--db", db).exception, StoreError)
