"""The same start-up, recorded and read from its log, gives equal summaries."""

from __future__ import annotations

import math

import pytest

from tests.vllm_plugin.running import VERSIONS, run_standin
from warmup_insights.analysis.summary import summarize
from warmup_insights.ingest import ingest_path
from warmup_insights.storage.store import EventStore

ROUNDED_BYTES = 1e-3
"""A size in a line has four digits."""
WHOLE_S = 1.0
"""A line has whole seconds."""

DIFFERENT = {
    "run_id", "label", "source", "synthetic", "notes",
    "time.started_at", "time.ready_at", "time.wall_s", "time.phases", "time.unlogged_s",
    "sampler.steps", "defrag.steps",
    "config.device_config",
}  # fmt: skip
"""What is about the source, or what a recorder sees finer than a line tells it."""


def summaries(ran, folder):
    with EventStore(ran.database, read_only=True) as store:
        (run,) = store.runs()
        recorded = summarize(run, store.events(run.run_id)).as_dict()
    log = folder / "engine.log"
    log.write_text(ran.stdout, encoding="utf-8")
    with EventStore(folder / "log.db") as store:
        ingest_path(store, str(log))
        (run,) = store.runs()
        parsed = summarize(run, store.events(run.run_id)).as_dict()
    return parsed, recorded


def differences(parsed, recorded, path=""):
    """Where the log knows a value and the recorder has another."""
    if path in DIFFERENT or parsed is None:
        return []
    if isinstance(parsed, dict) and isinstance(recorded, dict):
        return [
            difference
            for key in parsed
            for difference in differences(
                parsed[key], recorded.get(key), f"{path}.{key}".lstrip(".")
            )
        ]
    if isinstance(parsed, list) and isinstance(recorded, list):
        if len(parsed) != len(recorded):
            return [f"{path}: {parsed} != {recorded}"]
        return [
            difference
            for one, other in zip(parsed, recorded, strict=True)
            for difference in differences(one, other, f"{path}[]")
        ]
    return [] if equal(parsed, recorded, path) else [f"{path}: {parsed} != {recorded}"]


def equal(parsed, recorded, path):
    if path.endswith("_bytes") and recorded is not None:
        return math.isclose(parsed, recorded, rel_tol=ROUNDED_BYTES)
    if path.endswith("_s") and recorded is not None:
        return abs(parsed - recorded) <= WHOLE_S
    return parsed == recorded


CASES = {
    "plain": {},
    "skipped": {"VLLM_SKIP_WARMUP": "true"},
    "contiguous": {"VLLM_CONTIGUOUS_PA": "true"},
    "linear": {"VLLM_BUCKETING_STRATEGY": "lin"},
    "padding aware": {"VLLM_BUCKETING_STRATEGY": "pad"},
    "two ranks": {"STANDIN_TP": "2", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("version", VERSIONS)
def test_summaries_are_equal_where_the_log_knows(version, case, tmp_path):
    if version != "v0_26" and case in ("padding aware", "linear", "two ranks"):
        pytest.skip("the same code as in v0_26, or not in this version")
    ran = run_standin(version, tmp_path, **CASES[case])
    parsed, recorded = summaries(ran, tmp_path)
    assert differences(parsed, recorded) == []
    assert parsed["buckets"]["prompt"]["generated"] > 0
    assert parsed["memory"]["kv_cache_bytes"] > 0


def test_the_comparison_sees_a_difference():
    parsed = {"a": {"b_bytes": 1000, "c_s": 3.0, "d": [1, 2], "e": None}}
    assert differences(parsed, parsed) == []
    other = {"a": {"b_bytes": 1100, "c_s": 5.0, "d": [1], "e": 5}}
    assert len(differences(parsed, other)) == 3
    assert differences(parsed, {"a": None}) == [f"a: {parsed['a']} != None"]
