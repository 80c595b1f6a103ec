"""Figures of a summary: how they are read, and what a log's rounding allows."""

from __future__ import annotations

import pytest
from msgspec import structs

from tests.analysis.builders import (
    DECODES,
    PROMPTS,
    budget,
    cache,
    contradicting,
    start_up,
    started,
    summary_of,
)
from warmup_insights.model.events import (
    BucketMiss,
    CaptureSummary,
    GraphCaptured,
    MemoryBudgetSet,
    MemoryMeasured,
)
from warmup_insights.model.figures import (
    BY_NAME,
    FIGURES,
    MADE_OF,
    contradictory,
    format_figure,
    graph_memory_bytes,
    num_misses,
    phase_figure,
    resolution,
)
from warmup_insights.units import GIB, MIB


def test_an_empty_run_knows_no_figure_but_counts():
    summary = summary_of([started()])
    known = {f.name for f in FIGURES if f.read(summary) is not None}
    assert known == {"wall_s", "unlogged_s"}


def test_names_are_unique():
    assert len(BY_NAME) == len(FIGURES)


def test_unknown_is_a_question_mark_in_every_unit():
    assert {format_figure(None, figure.unit) for figure in FIGURES} == {"?"}


def test_graph_memory_needs_both_phases():
    """A phase that does not say what its graphs took makes the sum unknown."""
    one = GraphCaptured(phase="prompt", bucket=(1, 128, 0), memory_bytes=5)
    assert graph_memory_bytes(summary_of(start_up(one))) is None
    other = CaptureSummary(phase="decode", captured_reported=3, used_bytes=7)
    assert graph_memory_bytes(summary_of(start_up(one, other))) == 12


def test_a_margin_is_unknown_while_a_part_of_the_memory_is_not_accounted_for():
    """Without the line that divides the memory, the rest may be margin, graphs or both."""
    divided = MemoryBudgetSet(
        total_bytes=96 * GIB, free_bytes=60 * GIB, usable_bytes=54 * GIB,
        graph_reserved_bytes=20 * GIB, kv_cache_bytes=34 * GIB,
    )  # fmt: skip
    weights = MemoryMeasured(stage="weights", delta_bytes=36 * GIB)
    whole = summary_of([started(), weights, divided])
    assert BY_NAME["margin_bytes"].read(whole) == 6 * GIB
    assert BY_NAME["other_bytes"].read(whole) == 0
    cut = structs.replace(
        divided, free_bytes=None, usable_bytes=None, graph_reserved_bytes=None
    )
    summary = summary_of([started(), weights, cut])
    assert BY_NAME["margin_bytes"].read(summary) is None
    assert BY_NAME["other_bytes"].read(summary) == 26 * GIB


def test_no_misses_in_a_log_that_ends_early_is_unknown():
    assert num_misses(summary_of([started(), budget()])) is None
    assert num_misses(summary_of(start_up())) == 0
    miss = BucketMiss(phase="decode", shape=(3, 1, 99))
    whole = summary_of([*start_up(), miss])
    assert [num_misses(whole, phase) for phase in (None, "prompt", "decode")] == [
        1,
        0,
        1,
    ]


@pytest.mark.parametrize(
    ("value", "unit", "step"),
    [
        (14.03 * GIB, "bytes", 0.01 * GIB),
        (4.755 * GIB, "bytes", 0.001 * GIB),
        (161.9 * MIB, "bytes", 0.1 * MIB),
        (49.0, "s", 1.0),
        (62.5, "percent", 0.0),
    ],
)
def test_logs_of_hpu_engines_have_four_digits(value, unit, step):
    summary = summary_of([started()], source_kind="log")
    assert resolution(summary, value, unit) == pytest.approx(step)


def test_logs_of_vllm_have_two_decimals():
    summary = summary_of([started("vllm")], source_kind="log")
    assert resolution(summary, 5 * GIB, "bytes") == pytest.approx(0.01 * GIB)


def test_rests_have_no_more_digits_than_their_parts():
    """Parts of two decimals; 0.54 GiB are 276 blocks, give or take five."""
    sizes = {
        "total": 94.62, "free": 22.61, "usable": 22.08, "graph_reserved": 15.11,
        "kv_cache": 6.97,
    }  # fmt: skip
    parts = {f"{name}_bytes": round(size * GIB) for name, size in sizes.items()}
    used = [
        CaptureSummary(phase=phase, captured_reported=1, used_bytes=size)
        for phase, size in (("prompt", round(14.55 * GIB)), ("decode", 20 * MIB))
    ]
    events = [started(), MemoryBudgetSet(**parts), cache(num_blocks=3560), *used]
    log = summary_of(events, source_kind="log")
    texts = [
        BY_NAME[name].text(log)
        for name in ("margin_bytes", "graph_unused_bytes", "graph_unused_blocks")
    ]
    assert texts == ["0.53 GiB", "0.54 GiB", "280"]


def test_a_block_is_as_exact_as_its_range_not_as_the_sizes_of_the_engine():
    """4 MiB of tpu-inference, which prints hundredths of a GiB."""
    summary = summary_of(
        [started("tpu-inference", device_kind="tpu"),
         MemoryBudgetSet(kv_cache_bytes=int(7.35 * GIB)), cache(num_blocks=1881)]
    )  # fmt: skip
    low, high = summary.memory.block_bytes_range
    assert BY_NAME["block_bytes"].step(summary) == high - low
    assert BY_NAME["block_bytes"].text(summary) == "4 MiB"


def test_recorded_sizes_are_exact():
    summary = summary_of([started(), budget(), cache()])
    assert resolution(summary, 5 * GIB, "bytes") == 0.0


def test_what_is_made_of_a_contradictory_figure_is_not_trusted():
    """The share of captured buckets follows from counts; a wrong count spoils it."""
    whole = summary_of(start_up(*graphs()))
    broken = contradicting(whole, "prompt_captured", "phase:load_model")
    share = BY_NAME["captured_percent"]
    assert (share.read(broken), share.trusted(broken)) == (share.read(whole), None)
    assert share.trusted(whole) == 100.0
    assert BY_NAME["num_kv_blocks"].trusted(broken) == 4160
    assert phase_figure("load_model").key in contradictory(broken)


def graphs():
    return [
        GraphCaptured(phase=phase, bucket=bucket)
        for phase, buckets in (("prompt", PROMPTS), ("decode", DECODES))
        for bucket in buckets
    ]


def test_every_part_of_a_figure_is_a_figure():
    names = {*BY_NAME}
    for name, parts in MADE_OF.items():
        assert {name, *parts} <= names
