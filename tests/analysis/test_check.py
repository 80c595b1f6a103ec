"""Limits: how they are written, against what they are held, what does not pass."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tests.analysis.builders import (
    changed,
    contradicting,
    start_up,
    started,
    summary_of,
)
from warmup_insights.analysis.check import check_run, parse_limit
from warmup_insights.errors import InputError, SettingError
from warmup_insights.export.findings import check_markdown, junit_text
from warmup_insights.model.events import (
    BenchmarkResult,
    BucketMiss,
    CaptureSummary,
    Failure,
    PhaseMarked,
    ServerReady,
    ShutdownRequested,
)
from warmup_insights.units import GIB


def run(seconds=60.0, run_id="aaa", *extra, **more):
    return summary_of(start_up(*extra, seconds=seconds, **more), run_id)


def outcomes(result):
    return [item.outcome for item in result.results]


@pytest.mark.parametrize(
    ("name", "text", "value", "is_relative", "is_percent"),
    [
        ("warmup", "600 s", 600.0, False, False),
        ("warmup", "2 min", 120.0, False, False),
        ("warmup", "600", 600.0, False, False),
        ("warmup", "+10%", 10.0, True, True),
        ("warmup", "-30s", -30.0, True, False),
        ("warmup", "+30 s", 30.0, True, False),
        ("graph-memory", "12GiB", 12 * GIB, False, False),
        ("graph-memory", "+5%", 5.0, True, True),
        ("captured", "100", 100.0, False, False),
        ("captured", "100%", 100.0, False, False),
        ("misses", "0", 0.0, False, False),
        ("phase:load_model", "3s", 3.0, False, False),
        ("bench_mean_ttft_ms", "12.5", 12.5, False, False),
    ],
)
def test_limits_are_read(name, text, value, is_relative, is_percent):
    limit = parse_limit(name, "max", text)
    assert (limit.value, limit.is_relative, limit.is_percent) == (
        value, is_relative, is_percent,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("warmup", "10 parsec"), ("warmup", "soon"), ("warmup", ""), ("misses", "3s"),
        ("graph-memory", "12 s"), ("captured", "1GiB"), ("warmup", "nan"),
        ("warmup", "1e5"), ("misses", "--3"),
    ],
)  # fmt: skip
def test_what_is_no_limit_is_refused_with_an_example(name, text):
    with pytest.raises(InputError, match="write it like"):
        parse_limit(name, "max", text)


def test_a_percentage_of_the_baseline_needs_a_sign():
    with pytest.raises(InputError, match=r"without a sign; write it as \+10%"):
        parse_limit("warmup", "max", "10%")


@pytest.mark.parametrize("name", ["warmth", "phase:", "bench", "bench_", "bench2_"])
def test_unknown_figures_are_named(name):
    with pytest.raises(SettingError, match=f"There is no figure '{name}'"):
        parse_limit(name, "max", "1")


def test_a_share_beyond_all_of_it_is_no_limit():
    with pytest.raises(
        SettingError, match=r"--min-captured 500 is more than all; a share"
    ):
        parse_limit("captured", "min", "500")
    assert parse_limit("captured", "min", "100 %").value == 100


def test_a_figure_without_an_option_of_its_own_is_named_as_it_was_given():
    with pytest.raises(SettingError, match=r"^--max wall_s '' is not a limit"):
        parse_limit("wall_s", "max", "")


def test_absolute_limits():
    limits = [parse_limit("warmup", "max", "60s"), parse_limit("warmup", "max", "59s")]
    assert outcomes(check_run(run(60.0), limits)) == ["passed", "broken"]
    limits = [
        parse_limit("kv-blocks", "min", "4160"),
        parse_limit("kv-blocks", "min", "4161"),
    ]
    assert outcomes(check_run(run(), limits)) == ["passed", "broken"]


def test_relative_limits():
    limits = [
        parse_limit("warmup", "max", text) for text in ("+10%", "+9%", "+6s", "+5s")
    ]
    result = check_run(run(66.0), limits, run(60.0, "bbb"))
    assert outcomes(result) == ["passed", "broken", "passed", "broken"]
    assert [item.bound for item in result.results] == pytest.approx([66, 65.4, 66, 65])


def test_a_lower_limit_may_be_relative_too():
    lost = [parse_limit("kv-blocks", "min", text) for text in ("-5%", "+1%")]
    assert outcomes(check_run(run(), lost, run(60.0, "bbb"))) == ["passed", "broken"]


def test_rounded_logs_get_half_a_step():
    """65.6 s allowed and 66 s printed: the truth may be 65.5, which is below it."""
    limits = [parse_limit("warmup", "max", text) for text in ("+5.6s", "+5.4s")]
    base, recorded = run(60.0, "bbb"), run(66.0)
    log = changed(recorded, source={"kind": "log"})
    assert outcomes(check_run(log, limits, base)) == ["passed", "broken"]
    assert outcomes(check_run(recorded, limits, base)) == ["broken", "broken"]


def test_unknown_does_not_pass():
    """Neither in the run nor in the baseline: a gate that cannot look does not open."""
    limits = [parse_limit("sampler", "max", "5s")]
    assert outcomes(check_run(run(), limits)) == ["unknown"]
    assert not check_run(run(), limits).passed
    limits = [parse_limit("warmup", "max", "+10%")]
    result = check_run(run(), limits, summary_of([started()], "bbb"))
    assert outcomes(result) == ["unknown"]
    assert result.results[0].reason == "the baseline does not state this figure"


@pytest.mark.parametrize(
    ("end", "state", "words"),
    [
        (Failure(failure="killed", message="OOM"), "failed", "failed: OOM"),
        (ShutdownRequested(message="TERM", in_start=True), "stopped", "ready: TERM"),
    ],
)
def test_a_start_that_failed_or_was_stopped_breaks_every_gate(end, state, words):
    events = [event for event in start_up(end) if not isinstance(event, ServerReady)]
    result = check_run(summary_of(events), [parse_limit("warmup", "max", "100s")])
    assert outcomes(result) == ["broken", "passed"]
    broken = result.results[0]
    assert words in broken.reason
    assert broken.text == state


def test_a_server_that_ended_badly_had_a_good_start():
    """The failure came after ready: the start-up passes, and the end is named."""
    served = [
        *start_up(),
        Failure(failure="out_of_memory", message="no room", time=2e6),
    ]
    result = check_run(summary_of(served), [parse_limit("warmup", "max", "100s")])
    assert result.passed
    assert result.serving_end == "out of memory: no room"
    assert "Serving ended later, which is not checked" in check_markdown(result)


def test_contradictory_figures_do_not_pass():
    """Neither those of the run nor, where the limit is relative, of the baseline."""
    good, broken = run(), contradicting(run(60.0, "bbb"), "warmup_s", "phase:x")
    fixed, relative = (parse_limit("warmup", "max", text) for text in ("90s", "+9%"))
    (item,) = check_run(broken, [fixed]).results
    assert (item.outcome, item.value) == ("unknown", 60.0)
    assert item.reason == "the evidence for this figure contradicts itself"
    (item,) = check_run(good, [relative], broken).results
    assert item.outcome == "unknown"
    assert item.reason.endswith("contradicts itself in the baseline")
    assert outcomes(check_run(good, [fixed], broken)) == ["passed"]


def test_phases_misses_and_benchmarks_can_be_limited():
    marks = [
        PhaseMarked(name="load_model", edge="end", duration_s=5.0, time=1_000_005.0),
        BenchmarkResult(values={"mean_ttft_ms": 12.0}),
        BucketMiss(phase="decode", shape=(9, 1, 9)),
    ]
    limits = [
        parse_limit("phase:load_model", "max", "4s"),
        parse_limit("bench_mean_ttft_ms", "max", "15"),
        parse_limit("misses", "max", "0"),
        parse_limit("phase:nothing", "max", "4s"),
    ]
    result = check_run(run(60.0, "aaa", *marks), limits)
    assert outcomes(result) == ["broken", "passed", "broken", "unknown"]


def test_no_limit_and_no_baseline_are_said():
    with pytest.raises(InputError, match="No limit is given"):
        check_run(run(), [])
    with pytest.raises(InputError, match="--baseline"):
        check_run(run(), [parse_limit("warmup", "max", "+10%")])


@pytest.mark.parametrize(
    "other", [{"device_kind": "cuda"}, {"device_name": "H200"}, {"synthetic": True}]
)
def test_a_baseline_of_another_device_is_refused(other):
    here = run(60.0, "aaa", device_name="Gaudi 3")
    base = run(60.0, "bbb", **{"device_name": "Gaudi 3", **other})
    with pytest.raises(InputError, match="choose a baseline from the same device"):
        check_run(here, [parse_limit("warmup", "max", "+10%")], base)


def test_junit_has_a_case_per_limit():
    used = CaptureSummary(phase="prompt", captured_reported=3, used_bytes=GIB)
    summary = run(60.0, "aaa", used)
    limits = [
        parse_limit("warmup", "max", "60s"),
        parse_limit("warmup", "max", "1s"),
        parse_limit("sampler", "max", "1s"),
    ]
    suite = ET.fromstring(junit_text(check_run(summary, limits)))[0]
    assert suite.attrib["tests"] == "3"
    assert (suite.attrib["failures"], suite.attrib["errors"]) == ("1", "1")
    kinds = [[child.tag for child in case] for case in suite]
    assert kinds == [[], ["failure"], ["error"]]
    message = suite[1][0].attrib["message"]
    assert message == "warm-up is 1 min 00 s, limit max 1s: above the limit"


def test_reports_hold_no_active_text():
    """Control characters and Markdown from a log stay text."""
    bad = Failure(failure="error", message="\x1b[31m|<b>\x00 `x` & \u202e")
    result = check_run(run(60.0, "aaa", bad), [parse_limit("warmup", "max", "1s")])
    ET.fromstring(junit_text(result))
    text = check_markdown(result)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\|\\<b\\>" in text
    assert "2 of 2 limits do not hold." in text


@pytest.mark.parametrize(
    ("start", "outcome", "reason"),
    [
        ("warm", "passed", ""),
        ("cold", "broken", "above the limit"),
        ("partly warm", "unknown", "no limit is given for a partly warm start"),
        (None, "unknown", "the run does not show which kind of start it was"),
    ],
)
def test_a_limit_may_be_for_one_kind_of_start(start, outcome, reason):
    summary = changed(run(60.0), start={"kind": start})
    limits = [parse_limit("warmup", "max", text) for text in ("cold: 50s", "warm:70 s")]
    (result,) = check_run(summary, limits).results
    assert (result.outcome, result.reason) == (outcome, reason)


def test_a_limit_has_one_kind_of_start():
    with pytest.raises(InputError, match="'cold:warm:1' has two kinds of start"):
        parse_limit("warmup", "max", "cold:warm:1")


def test_a_limit_for_an_unknown_kind_of_start_is_one_sentence():
    with pytest.raises(InputError, match="'hot' is no kind of start; use one of cold"):
        parse_limit("warmup", "max", "hot:50s")


def test_a_cold_start_is_not_held_against_a_warm_baseline():
    cold = changed(run(60.0), start={"kind": "cold"})
    warm = changed(run(6.0, "bbb"), start={"kind": "warm"})
    limits = [
        parse_limit("warmup", "max", "+10%"),
        parse_limit("kv-blocks", "min", "-5%"),
    ]
    first, second = check_run(cold, limits, warm).results
    assert (first.outcome, second.outcome) == ("unknown", "passed")
    assert "different kinds" in first.reason
