"""The same start-up, recorded and read from its log, gives equal summaries and plans."""

from __future__ import annotations

import itertools
import math
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import public
from tests.vllm_plugin.running import VERSIONS, run_standin
from warmup_insights.analysis.fit.cost import Limits
from warmup_insights.analysis.fit.report import fit_for_settings, run_costs
from warmup_insights.analysis.fit.traffic import (
    parse_trace,
    traffic_of_run,
)
from warmup_insights.analysis.plan.planning import (
    Planner,
    PlanSettings,
)
from warmup_insights.analysis.plan.regenerate import bucketing_inputs
from warmup_insights.analysis.summary import Folded, summarize
from warmup_insights.bucketing.settings import settings_from_mapping
from warmup_insights.bucketing.versions import version_of_run
from warmup_insights.drainer import open_store
from warmup_insights.errors import InputError
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.events import Event, GraphCaptured, WarmupStep
from warmup_insights.model.figures import bytes_step
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import PHASES
from warmup_insights.storage.store import EventStore

ROUNDED_BYTES = 1e-3
"""A size in a line has four digits."""
WHOLE_S = 1.0
"""A line has whole seconds."""
BESIDE_S = 60.0
"""A line is printed beside the step that it is about, on a busy machine some time before."""

DIFFERENT = {
    "run_id", "label", "source", "synthetic", "notes", "guessed",
    "time.started_at", "time.ready_at", "time.wall_s", "time.phases", "time.unlogged_s",
    "time.is_excerpt",
    "sampler.steps", "defrag.steps", "sampler.configurations",
    "config.device_config", "progress", "lines", "serving", "memory.readings", "memory.parts",
    "time.ranks", "time.gaps", "time.residual_s", "memory.block_bytes_range",
}  # fmt: skip
"""What is about the source, or what a recorder sees finer than a line tells it."""

CASES = {
    "plain": {},
    "skipped": {"VLLM_SKIP_WARMUP": "true"},
    "contiguous": {"VLLM_CONTIGUOUS_PA": "true"},
    "linear": {"VLLM_BUCKETING_STRATEGY": "lin"},
    "padding aware": {"VLLM_BUCKETING_STRATEGY": "pad"},
    "two ranks": {"STANDIN_TP": "2", "VLLM_ENABLE_V1_MULTIPROCESSING": "1"},
}
STARTS = [
    (version, case)
    for version in VERSIONS
    for case in CASES
    # The rest is the same code as in v0_26, or not in this version.
    if version == "v0_26" or case in ("plain", "skipped", "contiguous")
]
WARMED = [(version, case) for version, case in STARTS if case != "skipped"]


@dataclass(frozen=True)
class BothWays:
    """One start-up, folded from its log and from its recording."""

    parsed: Folded
    recorded: Folded
    run: RunRecord
    events: list[Event]
    """Of the recording."""


OF_TIMES = {"is_spike", "neighbours_s", "spikes", "spikes_s"}
"""What follows from times, which a log states with fewer digits."""


@cache
def start(version: str, case: str) -> BothWays:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ran = run_standin(version, folder, **CASES[case])
        with open_store(ran.database) as store:
            (run,) = store.runs()
            events = list(store.events(run.run_id))
        log = folder / "engine.log"
        log.write_text(ran.stdout, encoding="utf-8")
        with EventStore(folder / "log.db") as store:
            ingest_path(store, str(log))
            (read,) = store.runs()
            parsed = summarize(read, store.events(read.run_id))
    return BothWays(parsed, summarize(run, events), run, events)


def differences(parsed, recorded, path="", step=None):
    """Where the log knows a value and the recorder has another."""
    if path in DIFFERENT or path.rpartition(".")[2] in OF_TIMES or parsed is None:
        return []
    if isinstance(parsed, dict) and isinstance(recorded, dict):
        return [
            difference
            for key in parsed
            for difference in differences(
                parsed[key], recorded.get(key), f"{path}.{key}".lstrip("."), step
            )
        ]
    if isinstance(parsed, list) and isinstance(recorded, list):
        if len(parsed) != len(recorded):
            return [f"{path}: {parsed} != {recorded}"]
        return [
            difference
            for one, other in zip(parsed, recorded, strict=True)
            for difference in differences(one, other, f"{path}[]", step)
        ]
    same = equal(parsed, recorded, path, step)
    return [] if same else [f"{path}: {parsed} != {recorded}"]


def equal(parsed, recorded, path, step):
    """Equal within the rounding of the log; `step` is that of a free size in a line."""
    if path.endswith("_bytes") and recorded is not None:
        if step is not None:
            return abs(parsed - recorded) <= step
        return math.isclose(parsed, recorded, rel_tol=ROUNDED_BYTES)
    if path.endswith(".time") and recorded is not None:
        return abs(parsed - recorded) <= BESIDE_S
    if path.endswith("_s") and recorded is not None:
        return abs(parsed - recorded) <= WHOLE_S
    return parsed == recorded


@pytest.mark.parametrize(("version", "case"), STARTS)
def test_summaries_are_equal_where_the_log_knows(version, case):
    both = start(version, case)
    parsed, recorded = both.parsed.summary, both.recorded.summary
    facts = public(parsed)
    if (
        version == "v0_10"
    ):  # it has no method for the ranges, which a recorder could watch
        assert facts.pop("bucket_ranges")
        assert not recorded.bucket_ranges
    assert differences(facts, public(recorded)) == []
    assert parsed.phase("prompt").generated > 0
    assert parsed.memory.kv_cache_bytes > 0
    assert recorded.contradictions == []


def row_values(folded: Folded) -> list[dict]:
    """The rows, each with its execution, be it stated as a run or as a capture.

    Which buckets were captured is unknown where the log has no line for single graphs.
    """
    rows = []
    for row in folded.rows:
        values = public(row)
        run, capture = values.pop("run"), values.pop("capture")
        values["execution"] = capture if run is None else run
        if folded.summary.phase(row.phase).captured is None:
            values.update(captured=None, skipped=None, state=None)
        rows.append(values)
    return rows


@pytest.mark.parametrize(("version", "case"), STARTS)
def test_bucket_rows_are_equal_where_the_log_knows(version, case):
    both = start(version, case)
    step = bytes_step("vllm-gaudi", both.recorded.summary.memory.free_bytes)
    parsed, recorded = row_values(both.parsed), row_values(both.recorded)
    assert differences(parsed, recorded, step=step) == []
    assert any(row["warmed"] for row in parsed) == (case != "skipped")


def own_plan(folded: Folded):
    return Planner(folded.summary, folded.rows).plan(PlanSettings())


@pytest.mark.parametrize(("version", "case"), WARMED)
def test_the_plan_of_the_own_settings_is_what_was_observed(version, case):
    both = start(version, case)
    observed = both.recorded.summary
    for folded in (both.parsed, both.recorded):
        plan = own_plan(folded)
        assert plan.outcome == "fits"
        assert plan.num_kv_blocks == observed.memory.num_kv_blocks
        assert plan.num_kv_blocks_range == (plan.num_kv_blocks,) * 2
        for phase in PHASES:
            planned, seen = plan.phases[phase], observed.phase(phase)
            assert planned.generated == seen.generated
            assert planned.captured == seen.captured
            assert planned.captured_buckets == tuple(seen.captured_buckets)
            assert planned.graph_used_bytes == pytest.approx(
                seen.graph_used_bytes, rel=ROUNDED_BYTES
            )
        assert plan.time.warmup_s == pytest.approx(observed.time.warmup_s, abs=WHOLE_S)


@pytest.mark.parametrize(("version", "case"), WARMED)
def test_a_plan_from_the_recording_is_at_least_as_good_as_from_the_log(version, case):
    both = start(version, case)
    parsed, recorded = own_plan(both.parsed), own_plan(both.recorded)
    assert differences(*map(sizes, (parsed, recorded))) == []
    assert recorded.self_check is True
    assert parsed.self_check in (True, None)
    assert set(recorded.sources) == {"measured"}
    for plan in (parsed, recorded):
        assert "more blocks than any that ran" not in " ".join(plan.notes)
    widths = [
        high - low
        for low, high in (
            folded.summary.memory.block_bytes_range
            for folded in (both.recorded, both.parsed)
        )
    ]
    assert widths == sorted(widths)


def sizes(plan) -> dict:
    return {name: size for name, size in plan.as_dict().items() if "_bytes" in name}


@pytest.mark.parametrize("version", VERSIONS)
def test_without_a_warm_up_neither_way_can_be_planned_from(version):
    both = start(version, "skipped")
    for folded in (both.parsed, both.recorded):
        with pytest.raises(InputError, match="what its prompt graphs took"):
            Planner(folded.summary, folded.rows)


TRACE = [
    '{"phase": "prompt", "shape": [1, 96, 0], "count": 9}',
    '{"phase": "prompt", "shape": [1, 130, 1], "count": 5}',
    '{"phase": "prompt", "shape": [1, 700, 2], "count": 2}',
    '{"phase": "prompt", "shape": [1, 1000, 0], "count": 3}',
    '{"phase": "decode", "shape": [1, 1, 3], "count": 40}',
    '{"phase": "decode", "shape": [2, 1, 9], "count": 30}',
    '{"phase": "decode", "shape": [4, 1, 15], "count": 20}',
]


def fit(folded: Folded, both: BothWays, **bounds):
    """The limits of the engine are those of the recording: the log states none, and on
    0.10 no line that vllm-gaudi alone prints."""
    known = both.recorded.summary
    settings = settings_from_mapping(
        *bucketing_inputs(known),
        engine_version=version_of_run(known.engine.name, known.engine.version),
    )
    seconds, graph_bytes = run_costs(folded.summary, folded.rows)
    limits = Limits(**bounds, seconds=seconds, bytes=graph_bytes)
    return fit_for_settings(parse_trace(TRACE, "trace"), settings, limits)


@pytest.mark.parametrize(
    "bounds", [{"max_buckets": 3}, {"max_buckets": 5}, {"max_graph_bytes": 1 << 30}]
)
@pytest.mark.parametrize(("version", "case"), WARMED)
def test_the_fit_proposes_the_same_buckets(version, case, bounds):
    both = start(version, case)
    parsed, recorded = (
        fit(folded, both, **bounds) for folded in (both.parsed, both.recorded)
    )
    assert parsed.fit.buckets == recorded.fit.buckets
    assert parsed.fit.waste_ratio == recorded.fit.waste_ratio


@pytest.mark.parametrize(("version", "case"), WARMED)
def test_costs_of_the_fit_add_up_to_what_graphs_took(version, case):
    """A log states what all graphs of a phase took; single ones follow their tokens."""
    both = start(version, case)
    for folded in (both.parsed, both.recorded):
        _, graph_bytes = run_costs(folded.summary, folded.rows)
        for phase in PHASES:
            observed = both.recorded.summary.phase(phase)
            costs = [graph_bytes(phase, shape) for shape in observed.captured_buckets]
            assert sum(costs) == pytest.approx(
                observed.graph_used_bytes, rel=ROUNDED_BYTES
            )


@pytest.mark.parametrize(("version", "case"), STARTS)
def test_missed_shapes_of_the_log_are_among_the_traffic_of_the_recording(version, case):
    """A log has missed shapes alone, which are no traffic."""
    both = start(version, case)
    recorded = traffic_of_run(both.recorded.summary, "run")
    counts = {
        (phase, *shape): count
        for phase in PHASES
        for shape, count in zip(
            recorded.of(phase).shapes.tolist(),
            recorded.of(phase).counts.tolist(),
            strict=True,
        )
    }
    missed = {
        (m.phase, *whole_shape(m.shape)): m.count for m in both.parsed.summary.misses
    }
    assert missed
    assert missed.items() <= counts.items()
    with pytest.raises(InputError, match="not its traffic"):
        traffic_of_run(both.parsed.summary, "run")


def whole_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with the query length of a decode, which older engines leave out."""
    return shape if len(shape) == 3 else (shape[0], 1, shape[1])


def in_the_other_order(events: list[Event]) -> list[Event]:
    """Each capture before the end of its step; the plugin has it after that."""
    found = list(events)
    for index, (first, second) in enumerate(itertools.pairwise(events)):
        if is_one_execution(first, second):
            found[index], found[index + 1] = second, first
    return found


def is_one_execution(step: Event, capture: Event) -> bool:
    return (
        isinstance(step, WarmupStep)
        and isinstance(capture, GraphCaptured)
        and (step.rank, step.phase, step.bucket, step.time)
        == (capture.rank, capture.phase, capture.bucket, capture.time)
    )


@pytest.mark.parametrize(("version", "case"), WARMED)
def test_the_order_of_step_and_capture_changes_nothing(version, case):
    both = start(version, case)
    swapped = in_the_other_order(both.events)
    moved = sum(
        one is not other for one, other in zip(swapped, both.events, strict=True)
    )
    captures = sum(isinstance(event, GraphCaptured) for event in both.events)
    assert moved == 2 * captures > 0
    other = summarize(both.run, swapped)
    assert differences(public(both.recorded.summary), public(other.summary)) == []
    assert other == both.recorded
    assert own_plan(other) == own_plan(both.recorded)
    # As long as the run's own warm-up took, which depends on the machine.
    limit_s = both.recorded.summary.time.warmup_s
    for bounds in ({"max_graph_bytes": 40 << 20}, {"max_warmup_s": limit_s}):
        assert fit(other, both, **bounds) == fit(both.recorded, both, **bounds)


def test_the_comparison_sees_a_difference():
    parsed = {"a": {"b_bytes": 1000, "c_s": 3.0, "d": [1, 2], "e": None}}
    assert differences(parsed, parsed) == []
    other = {"a": {"b_bytes": 1100, "c_s": 5.0, "d": [1], "e": 5}}
    assert len(differences(parsed, other)) == 3
    assert differences(parsed, {"a": None}) == [f"a: {parsed['a']} != None"]
