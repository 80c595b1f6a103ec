"""Exports for other people's tools, read back by their own readers."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.analysis.builders import contradicting, start_up, summary_of
from tests.cli.decisions import invoke, simulated_run
from tests.helpers import REAL_LOGS, ROOT, folded
from warmup_insights.export.prometheus import metric_name, prometheus_text
from warmup_insights.export.trace import trace_json
from warmup_insights.ingest.find import find_files
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import BucketMiss
from warmup_insights.model.figures import BY_NAME, FIGURES, all_figures, contradictory
from warmup_insights.runs import current
from warmup_insights.storage import EventStore

PHASES = {"M", "X", "i", "C"}


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folders = [
        str(folder) for folder in (ROOT / "sample_logs", REAL_LOGS) if folder.is_dir()
    ]
    path = tmp_path_factory.mktemp("tools") / "runs.db"
    simulated_run(path, "a" * 12, "base")
    with EventStore(path) as store:
        for log in find_files(folders):
            ingest_path(store, log)
        yield store


def test_traces_hold_every_stage_step_and_miss(store):
    """The format of "Trace Event Format"; stages add up as in the summary."""
    for run in store.runs(limit=None):
        fold, events = current(store, run), list(store.events(run.run_id))
        content = json.loads(trace_json(fold, events))
        slices = content["traceEvents"]
        assert {one["ph"] for one in slices} <= PHASES
        for one in slices:
            assert isinstance(one["name"], str)
            assert isinstance(one["pid"], int)
            assert one["ph"] == "M" or isinstance(one["ts"], int)
            assert one.get("dur", 0) >= 0
        stages = [s for s in slices if s.get("cat") == "stage" and s["pid"] == 0]
        assert [s["dur"] / 1e6 for s in stages] == pytest.approx(
            [phase.duration_s for phase in fold.summary.time.phases], abs=2.1e-6
        )
        misses = [e for e in events if isinstance(e, BucketMiss) and e.time is not None]
        assert sum(s.get("cat") == "miss" for s in slices) == len(misses)
        assert content["otherData"]["contradictory"] == sorted(
            contradictory(fold.summary)
        )


def test_no_slices_overlap_on_a_track(store):
    """Perfetto drops one that begins before another one on its track ends."""
    for run in store.runs(limit=None):
        slices = json.loads(trace_json(current(store, run), []))["traceEvents"]
        ends = {}
        for one in sorted((s for s in slices if s["ph"] == "X"), key=lambda s: s["ts"]):
            track = one["pid"], one["tid"]
            assert one["ts"] >= ends.get(track, 0), (run.source_name, one)
            ends[track] = one["ts"] + one["dur"]


def test_a_recorded_step_stands_where_it_ran(store):
    fold = current(store, store.run("a" * 12))
    slices = json.loads(trace_json(fold, []))["traceEvents"]
    steps = {s["name"]: s for s in slices if s.get("cat") in ("run", "capture")}
    timed = [row for row in fold.rows if row.capture and row.capture.time is not None]
    assert timed
    for row in timed:
        found = steps[f"{row.phase} {row.bucket}"]
        begun = row.capture.time - fold.summary.time.started
        assert found["ts"] == pytest.approx(begun * 1e6, abs=1)
        assert "placed" not in found["args"]


def test_steps_of_a_bar_follow_each_other_and_are_marked():
    log = ROOT / "sample_logs" / "vllm-gaudi" / "made_v0_26_bars.log"
    found = json.loads(invoke("export", log, "--format", "trace").stdout)
    steps = [s for s in found["traceEvents"] if s.get("cat") == "run"]
    assert len(steps) == 10
    assert all(step["args"]["placed"].startswith("in order") for step in steps)
    for phase in ("prompt", "decode"):
        of_phase = [s for s in steps if s["name"].startswith(phase)]
        ends = [s["ts"] + s["dur"] for s in of_phase]
        assert [s["ts"] for s in of_phase[1:]] == pytest.approx(ends[:-1], abs=2)


def test_metrics_are_read_by_the_reader_of_prometheus(store):
    for run in store.runs(limit=None):
        summary = current(store, run).summary
        text = prometheus_text([summary])
        samples = {
            family.name: family.samples
            for family in text_string_to_metric_families(text)
        }
        for figure in all_figures([summary]):
            value = (
                BY_NAME[figure.name].trusted(summary)
                if figure.name in BY_NAME
                else None
            )
            if value is None:
                continue
            scale = 100.0 if figure.unit == "percent" else 1.0
            (sample,) = samples[metric_name(figure)]
            assert sample.value * scale == pytest.approx(value)
            assert sample.labels["run"] == summary.run_id
            is_made_up = sample.labels["synthetic"] == "true"
            assert is_made_up == summary.synthetic


def test_metric_names_are_distinct_and_have_their_unit():
    names = [metric_name(figure) for figure in FIGURES]
    assert len(set(names)) == len(names)
    assert metric_name(BY_NAME["wall_s"]) == "vllm_startup_wall_seconds"
    assert metric_name(BY_NAME["kv_cache_bytes"]) == "vllm_startup_kv_cache_bytes"


def test_contradictory_figures_are_no_metrics():
    summary = contradicting(summary_of(start_up()), "warmup_s")
    text = prometheus_text([summary])
    assert contradictory(summary)
    for name in contradictory(summary) & set(BY_NAME):
        assert f"{metric_name(BY_NAME[name])}{{" not in text


def test_labels_are_escaped():
    fold = folded([])
    text = prometheus_text(
        [fold.summary.__class__(run_id='a"\\\n', source=fold.summary.source)]
    )
    (family,) = text_string_to_metric_families(text)
    assert family.samples[0].labels["run"] == 'a"\\\n'
