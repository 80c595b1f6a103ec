"""The engine is never broken, and its failures are recorded."""

from __future__ import annotations

import json
import re

import pytest

from tests.vllm_plugin.running import VERSIONS, executions, run_standin
from warmup_insights.analysis.summary import summarize
from warmup_insights.ingest.single import ingest_path
from warmup_insights.storage.store import EventStore

pytestmark = pytest.mark.long

PLUGIN = "warmup_insights.vllm_plugin"


@pytest.mark.parametrize("version", VERSIONS)
def test_an_error_of_the_engine_passes_unchanged_and_is_recorded(version, tmp_path):
    ran = run_standin(version, tmp_path, STANDIN_FAIL="bucket")
    plain = run_standin(version, tmp_path, records=False, STANDIN_FAIL="bucket")
    assert ran.exit_code == plain.exit_code == 1
    assert ran.stderr.splitlines()[-1] == "ValueError: failed in bucket"
    (failure,) = ran.events("failure")
    assert (failure.failure, failure.phase) == ("error", "prompt")
    assert failure.message == "ValueError: failed in bucket"
    steps = ran.steps()
    assert [step.is_finished for step in steps] == [False]
    assert failure.bucket == steps[0].bucket
    assert ran.runs()[0].status == "failed"


def test_frames_of_the_engine_are_all_in_the_traceback(tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_FAIL="bucket")
    plain = run_standin("v0_26", tmp_path, records=False, STANDIN_FAIL="bucket")

    def frames(text):
        found = re.findall(r'File "([^"]+)", line (\d+), in (\w+)', text)
        return [frame for frame in found if "vllm_plugin/hooks.py" not in frame[0]]

    assert frames(ran.stderr) == frames(plain.stderr) != []
    assert "During handling" not in ran.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_out_of_memory_in_the_middle(version, tmp_path):
    ran = run_standin(version, tmp_path, STANDIN_OOM_AT="4")
    assert ran.exit_code == 1
    (failure,) = ran.events("failure")
    assert failure.failure == "out_of_memory"
    assert "PT_DEVMEM Allocation failed" in failure.message
    assert failure.free_bytes > 0
    steps = ran.steps()
    assert [step.is_finished for step in steps] == [True] * (len(steps) - 1) + [False]
    assert (failure.phase, failure.bucket) == (steps[-1].phase, steps[-1].bucket)
    assert ran.counts()["graph_captured"] == 3
    assert ran.counts()["server_ready"] == 0
    assert ran.counts()["warmup_finished"] == 0
    assert ran.runs()[0].status == "failed"


def test_out_of_memory_in_a_worker_process(tmp_path):
    ran = run_standin(
        "v0_26",
        tmp_path,
        STANDIN_OOM_AT="4",
        STANDIN_TP="2",
        VLLM_ENABLE_V1_MULTIPROCESSING="1",
    )
    assert ran.exit_code == 1
    kinds = [(e.rank, e.failure) for e in ran.events("failure")]
    assert {(0, "out_of_memory"), (1, "out_of_memory")} <= set(kinds)
    assert ran.runs()[0].status == "failed"


@pytest.mark.parametrize(
    ("place", "phase"),
    [
        ("load_model", "load_model"),
        ("profile_run", "profile_run"),
        ("sampler", "sampler_warmup"),
        ("defragmenter", "defrag_warmup"),
        ("serving", "serving"),
    ],
)
def test_failures_name_the_phase(place, phase, tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_FAIL=place, VLLM_CONTIGUOUS_PA="true")
    (failure,) = ran.events("failure")
    assert (failure.phase, failure.message) == (phase, f"ValueError: failed in {place}")


@pytest.mark.parametrize(
    ("broken", "target", "kind"),
    [
        ("hpu.warmup:scenario_bucket", "_prepare_dummy_scenario", None),
        ("hpu.buckets:buckets_of", "generate_prompt_buckets", "buckets_generated"),
        ("hpu.warmup:checked_shape", "_check_config", None),
        (
            "hpu.memory:_reserved_fraction",
            "determine_available_memory",
            "memory_budget_set",
        ),
    ],
)
def test_an_error_of_ours_takes_off_the_hook_and_nothing_else(
    broken, target, kind, tmp_path
):
    ran = run_standin("v0_26", tmp_path, STANDIN_BREAK=f"{PLUGIN}.{broken}")
    plain = run_standin("v0_26", tmp_path, records=False)
    assert ran.exit_code == 0
    assert ran.tokens == plain.tokens
    assert ran.stderr.count(f"{target} is not recorded any more: LookupError") == 1
    assert "Traceback" not in ran.stderr
    notes = [e for e in ran.events("note") if e.topic == "hook_missing"]
    assert any(note.text.endswith(target) for note in notes)
    counts = ran.counts()
    assert kind is None or counts[kind] == 0
    assert counts["sampler_step"] == 36
    assert counts["warmup_finished"] == counts["server_ready"] == 1


def test_an_error_at_the_start_leaves_the_engine_alone(tmp_path):
    ran = run_standin("v0_26", tmp_path, STANDIN_BREAK=f"{PLUGIN}.attach:read_settings")
    assert ran.exit_code == 0
    assert ran.stderr.count("warmup-insights records nothing: broken on purpose") >= 1
    assert not ran.database.exists()


def test_a_database_that_cannot_be_written_becomes_a_file(tmp_path):
    broken = tmp_path / "runs.db"
    broken.write_text("this is no database", encoding="utf-8")
    ran = run_standin("v0_26", tmp_path, drained=True)
    assert ran.exit_code == 0
    assert broken.read_text(encoding="utf-8") == "this is no database"
    (kept,) = tmp_path.glob("*.events.jsonl")
    with EventStore(tmp_path / "later.db") as store:
        ingest_path(store, str(kept))
        (run,) = store.runs()
        summary = summarize(run, store.events(run.run_id)).summary
        assert (summary.status, summary.model) == ("finished", "standin/tiny")
        assert len(executions(store.events(run.run_id))) == 31


@pytest.mark.parametrize("place", ["no drainer", "no interpreter"])
def test_without_a_drainer_events_wait_in_a_file(place, tmp_path):
    broken = {
        "no drainer": {f"{PLUGIN}.session:_START": "raise SystemExit"},
        "no interpreter": {"sys:executable": ""},
    }
    ran = run_standin(
        "v0_26", tmp_path, drained=True, STANDIN_SET=json.dumps(broken[place])
    )
    assert ran.exit_code == 0
    is_known = place == "no interpreter"
    assert ran.stderr.count("Recorded events wait in their files") == is_known
    (kept,) = tmp_path.glob("*.events.jsonl")
    with EventStore(tmp_path / "later.db") as store:
        ingest_path(store, str(kept))
        (run,) = store.runs()
        assert len(executions(store.events(run.run_id))) >= 30


def test_waiting_for_the_device_only_when_asked(tmp_path):
    plain = run_standin("v0_26", tmp_path, records=False)
    free = run_standin("v0_26", tmp_path)
    asked = run_standin("v0_26", tmp_path, WARMUP_INSIGHTS_SYNC="1")
    assert plain.said("WAITS") == free.said("WAITS") == "0"
    assert int(asked.said("WAITS")) >= 31 + 36


def test_freezing_the_collector_changes_its_time_and_no_memory(tmp_path):
    for name in ("plain", "frozen"):
        (tmp_path / name).mkdir()
    plain = run_standin("v0_26", tmp_path / "plain")
    frozen = run_standin("v0_26", tmp_path / "frozen", WARMUP_INSIGHTS_FREEZE_GC="1")
    begin, end = (e for e in frozen.events("note") if e.topic.startswith("gc_"))
    assert (begin.topic, end.topic) == ("gc_freeze", "gc_unfreeze")
    assert begin.values["objects"] > 10_000
    assert begin.values["duration_s"] > 0
    assert end.values == {"lifted": True}
    assert frozen.said("FROZEN") == "0"
    steps, before = frozen.steps(), plain.steps()
    assert [s.memory_bytes for s in steps] == [s.memory_bytes for s in before]
    assert [s.free_after_bytes for s in steps] == [s.free_after_bytes for s in before]
    assert sum(s.gc_s for s in steps) < sum(s.gc_s for s in before) / 2


def test_secrets_are_masked_wherever_they_come_from(tmp_path):
    secret = "sk-0123456789abcdefghij"
    ran = run_standin(
        "v0_26", tmp_path, VLLM_API_KEY=secret, VLLM_OTHER=f"http://me:{secret}@host/x"
    )
    configs = ran.events("config_recorded")
    text = json.dumps([[e.settings, e.environment] for e in configs])
    assert secret not in text
    assert "sk-very-secret-thing" not in text
    environment = next(e.environment for e in configs if e.environment)
    assert environment["VLLM_API_KEY"] == "***"
    assert environment["VLLM_OTHER"] == "http://***@host/x"
    runtime = next(e.settings for e in configs if "bridge_mode" in e.settings)
    assert runtime["VLLM_API_KEY"] == "***"
    assert secret.encode() not in ran.database.read_bytes()


def test_nothing_happens_without_the_variable(tmp_path):
    ran = run_standin("v0_26", tmp_path, records=False, WARMUP_INSIGHTS_RUN="x")
    assert ran.exit_code == 0
    assert list(tmp_path.iterdir()) == []
