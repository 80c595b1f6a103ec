"""What a log does not hold is named with the switch that logs it; a recording lacks nothing."""

from __future__ import annotations

import pytest

from tests.helpers import ROOT, folded, read
from warmup_insights.analysis.oddities import lacks, oddities
from warmup_insights.model.events import (
    BucketsGenerated,
    CaptureSummary,
    ConfigRecorded,
    EngineInitialized,
    RunStarted,
    WarmupFinished,
)

SAMPLES = ROOT / "sample_logs"


def lacking(path):
    runs, _ = read((SAMPLES / path).read_bytes(), path)
    return " | ".join(lacks(folded(runs[max(runs)]).summary))


@pytest.mark.parametrize(
    ("path", "words", "absent"),
    [
        ("vllm-gaudi/made_tp2_defrag.log", ["VLLM_DEVELOPER_MODE=true", "bucket"], []),
        ("vllm-gaudi/made_v0_26_developer_mode.log", [], ["DEVELOPER_MODE"]),
        ("vllm-gaudi/made_v0_26_bars.log", [], ["DEVELOPER_MODE"]),
        ("vllm/made_v1_2026_tp2.log", [], ["VLLM_LOGGING_LEVEL"]),
        ("vllm/made_v1_negative_kv_cache.log", [], ["log"]),
    ],
)
def test_what_a_log_lacks(path, words, absent):
    text = lacking(path)
    assert all(word in text for word in words), text
    assert not any(word in text for word in absent), text


def test_a_log_without_the_division_of_memory_names_the_level():
    log = (SAMPLES / "vllm" / "made_v1_2026_tp2.log").read_text()
    kept = [
        line for line in log.splitlines(keepends=True)
        if "peak activation" not in line and "profiling" not in line.lower()
    ]  # fmt: skip
    runs, _ = read("".join(kept))
    summary = folded(runs[max(runs)]).summary
    if summary.memory_or_none.profile_bytes is None:
        assert "VLLM_LOGGING_LEVEL=DEBUG" in " ".join(lacks(summary))
    else:
        pytest.fail("the sample states it elsewhere")


def test_no_level_logs_the_division_of_memory_on_a_cpu():
    log = (
        "(EngineCore pid=7) INFO 11-23 10:00:05 [core.py:133] Initializing a V1 LLM engine "
        "(v0.32.0) with config: model='a/b', device_config=cpu\n"
        "(Worker pid=8) INFO 11-23 10:00:15 [cpu_worker.py:260] Explicitly set (1.0/20.84) "
        "GiB for KV cache on node 0.\n"
        "(EngineCore pid=7) INFO 11-23 10:00:16 [core.py:402] init engine (profile, create "
        "kv cache, warmup model) took 0.52 s\n"
    )
    runs, _ = read(log)
    assert lacks(folded(runs[0]).summary) == []


def gaudi_summary(*found, **settings):
    """Of a start that names one prompt bucket, and no bucket that ran."""
    events = [
        RunStarted(engine="vllm-gaudi", version="0.26.0", time=1.0),
        ConfigRecorded(settings=settings, time=1.0),
        BucketsGenerated(phase="prompt", count=1, buckets=[(1, 128, 0)], time=2.0),
        *found,
        EngineInitialized(duration_s=2.0, time=9.0),
    ]
    return folded(events).summary


@pytest.mark.parametrize(
    ("settings", "took", "words"),
    [
        ({"enforce_eager": True}, 5.0, "with enforce_eager"),
        ({"enforce_eager": False}, 0.0, "took no time"),
    ],
    ids=["eager, beside multimodal inputs", "a model for pooling"],
)
def test_where_gaudi_ran_no_bucket_no_setting_logs_one(settings, took, words):
    summary = gaudi_summary(WarmupFinished(duration_s=took, time=8.0), **settings)
    assert lacks(summary) == []
    texts = [text for text in oddities(summary) if words in text]
    assert [text.startswith("No bucket was warmed up") for text in texts] == [True]


def test_the_switch_that_is_on_is_not_offered():
    warmed = [
        WarmupFinished(duration_s=5.0, time=8.0),
        CaptureSummary(phase="prompt", captured_reported=1, time=8.0),
    ]
    for value, is_offered in (("True", False), ("1", False), ("False", True)):
        texts = lacks(gaudi_summary(*warmed, VLLM_DEVELOPER_MODE=value))
        assert texts[0].startswith("The time of each prompt bucket: ")
        assert ("DEVELOPER_MODE" in texts[0]) == is_offered


def test_a_recording_lacks_nothing():
    runs, _ = read((SAMPLES / "vllm-gaudi" / "made_tp2_defrag.log").read_bytes())
    assert lacks(folded(runs[0], source_kind="recorder").summary) == []
