"""Exports for other people's trackers: the text of an issue, a section of a report."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.decisions import invoke
from tests.helpers import ROOT, folded, read
from warmup_insights.export.issue import issue_markdown
from warmup_insights.export.llm_d import llm_d_report
from warmup_insights.export.runs import RunWithLines
from warmup_insights.model.events import PodSeen

SAMPLES = sorted((ROOT / "sample_logs").glob("*/*.log"))
LOG = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_bars.log"
POD_KEYS = {"name", "model", "role", "node", "creation_timestamp", "ready_timestamp",
            "startup_seconds"}  # fmt: skip
STATISTICS_KEYS = {"units", "mean", "stddev", "min", "p25", "p50", "p75", "p90", "p95",
                   "p99", "max"}  # fmt: skip


def summaries_of(data: bytes):
    runs, _ = read(data, "a.log")
    return [folded(events).summary for events in runs.values()]


def observability(summaries):
    return json.loads(llm_d_report(summaries))["results"]["observability"]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_phases_never_exceed_their_total_and_nothing_unmeasured_is_there(sample):
    found = observability(summaries_of(sample.read_bytes()))
    for pod in found["pod_startup_times"]["pods"]:
        assert pod.keys() <= POD_KEYS
        assert "startup_seconds" not in pod
    assert "aggregate" not in found["pod_startup_times"]
    for run in found["engine_startup"]["runs"]:
        assert None not in run.values()
        parts = [*run.get("phases", {}).values(), run.get("unlogged_seconds", 0.0)]
        if "phases" in run:
            assert sum(parts) <= run["total_seconds"] + 1e-6
        if "total_seconds" not in run:
            assert "phases" not in run


def pod(name: str, created: float | None, ready: float | None):
    runs, _ = read(LOG.read_bytes(), "a.log")
    seen = PodSeen(
        namespace="n", pod=name, node="x", created_at=created, ready_at=ready
    )
    return folded([*runs[0], seen]).summary


def test_times_of_pods_are_from_creation_to_ready():
    found = observability(
        [pod("a", 100.0, 172.0), pod("b", 100.0, 185.0), pod("c", 1.0, None)]
    )
    times = found["pod_startup_times"]
    assert [each.get("startup_seconds") for each in times["pods"]] == [72.0, 85.0, None]
    assert times["pods"][0]["creation_timestamp"] == "1970-01-01T00:01:40Z"
    assert times["aggregate"].keys() == STATISTICS_KEYS
    assert times["aggregate"]["mean"] == 78.5
    assert times["aggregate"]["p50"] == 78.5
    one = observability([pod("a", 100.0, 172.0)])["pod_startup_times"]["aggregate"]
    assert (one["min"], one["p25"], one["p99"], one["max"]) == (72.0, 72.0, 72.0, 72.0)
    assert one["stddev"] == 0.0


def test_an_issue_about_one_run_has_the_headings_of_the_template(tmp_path):
    done = invoke("export", str(LOG), "--format", "issue")
    assert done.exit_code == 0, done.output
    text = done.output
    assert text.startswith("### Your current environment\n")
    assert "### Describe the bug" in text
    assert "**Expected:**" in text
    assert text.count("<details>") == text.count("</details>") >= 3
    assert "Lines of the log of" in text
    assert "?" not in "".join(re.findall(r"^\| .*$", text, re.M))


def test_an_issue_about_two_runs_has_before_and_after():
    other = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_developer_mode.log"
    text = invoke("export", str(other), str(LOG), "--format", "issue").output
    assert "### Report of performance regression" in text
    assert "**Before:**" in text
    assert "| figure | before | after | change |" in text
    refused = invoke("export", *[str(LOG)] * 3, "--format", "issue")
    assert refused.exit_code == 2
    assert "as before and after" in refused.output


def test_text_of_a_log_cannot_leave_its_fence():
    (run,) = (folded(events) for events in read(LOG.read_bytes(), "a.log")[0].values())
    line = next(iter(run.summary.lines.values()))
    text = issue_markdown(
        [RunWithLines(run, {line: "``` </details> <img src=x> ````"})]
    )
    fence = re.search(r"^(`+)text\n``` </details> <img src=x> ````\n\1$", text, re.M)
    assert fence is not None
    assert len(fence[1]) > 4


@pytest.mark.parametrize("form", ["issue", "llm-d", "markdown", "json"])
def test_names_are_replaced_where_asked(form, tmp_path):
    log = tmp_path / "a.log"
    arguments = "non-default args: {'model': '/home/jdoe/model', 'host': 'gpu7.corp'}"
    log.write_text(
        f"INFO 07-16 19:46:01 [utils.py:233] {arguments}\n"
        "INFO 07-16 19:46:02 [gpu_worker.py:298] Available KV cache memory: 62.1 GiB\n"
    )
    plain = invoke("export", str(log), "--format", form).output
    done = invoke("export", str(log), "--format", form, "--redact")
    assert done.exit_code == 0, done.output
    assert "jdoe" in plain
    assert "jdoe" not in done.output
    assert "gpu7" not in done.output
    refused = invoke("export", str(log), "--format", "trace", "--redact")
    assert refused.exit_code == 2
