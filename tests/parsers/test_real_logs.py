"""Real logs, where they are at hand: nothing is lost and time is explained."""

from __future__ import annotations

import pytest

from tests.helpers import REAL_LOGS, read, summarize_file, summary_of

FILES = sorted((*REAL_LOGS.glob("*.log"), *REAL_LOGS.glob("*.json")))

pytestmark = pytest.mark.skipif(not FILES, reason="the real logs are not here")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_real_log_gives_events(path):
    runs, report = read(path.read_bytes(), path.name)
    assert report.events > 0
    assert report.failed == 0
    for found in runs.values():
        time = summary_of(found)["time"]
        assert time["residual_s"] in (0.0, None)


def relevant(report):
    """Lines that hold something about start-up, known or not."""
    known = sum(report.matched.values()) + sum(report.ignored.values())
    return known + report.unknown + report.failed


def test_unknown_relevant_lines_are_at_most_one_percent():
    reports = [read(path.read_bytes(), path.name)[1] for path in FILES]
    unknown = sum(report.unknown for report in reports)
    assert unknown <= 0.01 * sum(map(relevant, reports))


@pytest.mark.parametrize(
    "name",
    [
        "cuda_v1_2026-07-16_tp4_ep_stdout",
        "cuda_v1_2026-07-25_tp4_mrv2_dspark_stdout",
        "cuda_v1_2026-07-25_tp4_dcp4_mrv2_specdecode_stdout",
    ],
)
def test_named_phases_explain_nine_tenths_of_a_long_start(name):
    time = summarize_file(REAL_LOGS / f"{name}.log")["time"]
    assert time["ready_at"] is not None
    assert time["unlogged_s"] <= 0.1 * time["wall_s"]
    for gap in time["gaps"]:
        assert gap["before"] or gap["after"]
        assert gap["next_line"] > gap["line"]


@pytest.mark.parametrize(
    ("name", "prompt", "decode"),
    [
        ("lazy_devmode", (35, 35), (13, 13)),
        ("contiguous_pa_defrag", (35, 35), (24, 24)),
        ("linear", (8, 8), (8, 8)),
        ("tp2", (3, 3), (3, 3)),
    ],
)
def test_logs_of_the_real_plugin_on_a_simulated_device(name, prompt, decode):
    summary = summarize_file(REAL_LOGS / f"simdev_gaudi_0.26.0_{name}.log")
    for phase, (generated, warmed) in (("prompt", prompt), ("decode", decode)):
        part = summary["buckets"][phase]
        assert (part["generated"], part["warmed"]) == (generated, warmed)
    rows = summary["time"]["phases"]
    warm = sum(r["duration_s"] for r in rows if r["name"].endswith("_warmup"))
    assert warm == pytest.approx(summary["time"]["warmup_s"], abs=2.0)


def test_every_bucket_of_a_developer_mode_log_has_a_time():
    from warmup_insights.model.events import WarmupStep

    path = REAL_LOGS / "simdev_gaudi_0.26.0_lazy_devmode.log"
    runs, _ = read(path.read_bytes(), path.name)
    steps = [e for e in runs[0] if isinstance(e, WarmupStep)]
    assert len(steps) == 48
    assert all(step.duration_s is not None for step in steps)
    assert sum(step.duration_s for step in steps) == pytest.approx(43.0, abs=3.0)


def test_executed_shape_is_recorded_where_the_log_tells_it():
    path = REAL_LOGS / "simdev_gaudi_0.26.0_contiguous_pa_defrag.log"
    runs, _ = read(path.read_bytes(), path.name)
    first = next(e for e in runs[0] if type(e).__name__ == "WarmupStep")
    assert first.bucket == (1, 1024, 7)
    assert first.executed == (1, 1024, 0)
