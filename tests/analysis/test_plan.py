"""Plans: memory, the engine's rule replayed, what is known and what is guessed."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from tests.analysis.builders import (
    DECODES,
    PROMPTS,
    budget,
    cache,
    changed,
    config,
    finished,
    generated,
    planner_of,
    seed_planner,
    simulate,
    start_up,
    started,
    step,
    summarized,
    summary_of,
)
from tests.analysis.builders import seed_run as log_run
from tests.helpers import ROOT
from tests.helpers import events as events_of
from warmup_insights.analysis.plan.memory import divide_memory, padding_blocks
from warmup_insights.analysis.plan.planning import (
    HEADROOM,
    MAX_UTILIZATION,
    Planner,
    PlanSettings,
    captures,
    decodes_get_rest,
    memory_pair,
    planned_buckets,
    prompt_ratio,
    recommend,
    safe_margin,
    smallest_reserve,
    utilization_for,
)
from warmup_insights.analysis.plan.regenerate import bucketing_inputs, rules_version
from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.settings import settings_from_mapping
from warmup_insights.bucketing.versions import version_of_run
from warmup_insights.errors import InputError, SettingError
from warmup_insights.export.plans import outcome_text
from warmup_insights.model.events import (
    CaptureSummary,
    GraphBudgetSet,
    GraphCaptured,
    MemoryBudgetSet,
    MemoryMeasured,
    WarmupStep,
)
from warmup_insights.units import GIB, MIB, format_bytes


@pytest.fixture(scope="module")
def seed_run():
    """The seed's start-up on the simulated device."""
    outcome, events = simulate()
    assert outcome.status == "finished"
    return planner_of(events)


@pytest.mark.parametrize(
    ("engine", "version", "share"),
    [("vllm-fork", "0.4.2", 0.5), ("vllm-fork", "0.6.4", 0.3), ("vllm-fork", None, 0.3),
     ("reference", "0.1", 0.3)],
)  # fmt: skip
def test_the_share_of_prompts_that_is_not_set_is_that_of_the_version(
    engine, version, share
):
    assert prompt_ratio(summary_of([started(engine, version=version)])) == share


@pytest.mark.parametrize(
    ("version", "tokens", "gets_rest"),
    [("0.6.6", None, True), ("0.7.2", None, False), ("0.8.5", 128_000, True)],
)  # fmt: skip
def test_decodes_have_a_second_pass_but_in_v0_of_a_later_fork(
    version, tokens, gets_rest
):
    """Only V1 states the tokens of its cache; `warmup_model` of the fork since 0.7."""
    engine = started("vllm-fork", version=version)
    events = [engine, budget(), cache(1000, num_tokens=tokens)]
    assert decodes_get_rest(summary_of(events)) is gets_rest
    assert decodes_get_rest(summary_of([started(), budget(), cache(1000)]))


def test_the_run_itself_is_planned_as_it_was(seed_run):
    plan = seed_run.plan(PlanSettings())
    assert plan.self_check is True
    assert (plan.rule, plan.outcome) == ("capped", "fits")
    assert plan.num_kv_blocks == 1519
    assert format_bytes(plan.graph_budget_bytes) == "15.85 GiB"
    prompt = plan.phases["prompt"]
    assert (prompt.generated, prompt.captured, prompt.capture_percent) == (24, 15, 62.5)
    assert format_bytes(prompt.graph_used_bytes) == "14.03 GiB"
    assert [graph.source for graph in plan.order] == ["measured"] * 63


def test_graphs_come_in_the_order_of_the_rule(seed_run):
    """At ratio 0.5, 11 prompts before the decodes and 4 after them, as the log says."""
    plan = seed_run.plan(PlanSettings(graph_prompt_ratio=0.5))
    phases = [graph.phase for graph in plan.order]
    assert phases == ["prompt"] * 11 + ["decode"] * 48 + ["prompt"] * 4
    assert [graph.bucket for graph in plan.order[-4:]] == [
        (4, 256), (2, 512), (1, 1024), (2, 640),
    ]  # fmt: skip


def test_other_shares_follow_the_arithmetic_of_the_engine(seed_run):
    plan = seed_run.plan(
        PlanSettings(gpu_memory_utilization=0.8, graph_reserved_mem=0.25)
    )
    free = plan.free_bytes
    assert plan.usable_bytes == int(free * 0.8)
    assert plan.graph_reserved_bytes == int(plan.usable_bytes * 0.25)
    assert plan.kv_cache_bytes == plan.usable_bytes - plan.graph_reserved_bytes
    assert plan.num_kv_blocks == plan.kv_cache_bytes // (16 * MIB)
    assert plan.kv_cache_tokens == 128 * plan.num_kv_blocks
    assert plan.max_concurrency == plan.kv_cache_tokens / 2048
    assert plan.free_after_graphs_bytes == plan.free_before_graphs_bytes - sum(
        graph.memory_bytes for graph in plan.order
    )


def test_no_room_for_a_sequence_is_predicted(seed_run):
    plan = seed_run.plan(PlanSettings(graph_reserved_mem=0.995))
    assert plan.outcome == "no_kv_cache"
    outcome, events = simulate(graph_reserved_mem=0.995)
    assert outcome.status == "failed"
    assert not any(isinstance(event, WarmupStep) for event in events)


def test_what_a_start_does_not_reach_is_not_predicted(seed_run):
    plan = seed_run.plan(PlanSettings(graph_reserved_mem=1.0))
    assert (plan.outcome, plan.kv_cache_bytes, plan.order) == ("no_kv_cache", 0, ())
    assert [part.captured for part in plan.phases.values()] == [0, 0]
    assert plan.free_before_graphs_bytes is plan.free_after_graphs_bytes is None
    assert plan.time.warmup_s is None


SMALL = {
    "model": "small", "dtype": "bfloat16", "block_size": 128, "max_model_len": 4096,
    "max_num_seqs": 4, "max_num_batched_tokens": 2048,
    "environment": {"VLLM_CONTIGUOUS_PA": "true"},
}  # fmt: skip
LARGE = {
    "model": "llama-3-8b", "dtype": "bfloat16", "block_size": 64, "max_model_len": 2048,
    "max_num_seqs": 32, "max_num_batched_tokens": 4096,
    "environment": {"VLLM_BUCKETING_STRATEGY": "lin", "VLLM_CONTIGUOUS_PA": "true"},
}  # fmt: skip
NARROW = {
    "model": "llama-3-8b", "dtype": "bfloat16", "block_size": 64, "max_model_len": 2048,
    "max_num_seqs": 16, "max_num_batched_tokens": 2048, "bucket_dimensions": 2,
}  # fmt: skip


def plan_and_run(settings, total, before, after):
    """A plan for some memory settings from a run with others, and the run of these."""
    outcome, events = simulate({**settings, **before}, total)
    assert outcome.status == "finished"
    plan = planner_of(events).plan(PlanSettings(**after))
    return plan, *simulate({**settings, **after}, total)


def test_buckets_that_outgrow_memory_are_predicted():
    """A decode bucket as wide as the cache gathers more than is left beside it."""
    before = {"gpu_memory_utilization": 0.315, "graph_reserved_mem": 0.546}
    after = {"gpu_memory_utilization": 0.959, "graph_reserved_mem": 0.021}
    plan, outcome, _ = plan_and_run(SMALL, 40 * GIB, before, after)
    assert "out of device memory" in outcome.error
    assert plan.outcome == "out_of_memory"
    assert plan.free_before_graphs_bytes < 0


def test_a_first_graph_that_does_not_fit_is_predicted():
    """The engine expects nothing of the first graph of a phase, so it may not fit."""
    before = {
        "gpu_memory_utilization": 0.519, "graph_reserved_mem": 0.579,
        "graph_prompt_strategy": "max_bs",
    }  # fmt: skip
    after = {
        "gpu_memory_utilization": 0.96, "graph_reserved_mem": 0.03,
        "graph_prompt_strategy": "max_bs", "graph_prompt_ratio": 0.5,
    }  # fmt: skip
    plan, outcome, _ = plan_and_run(NARROW, 24 * GIB, before, after)
    assert "out of device memory" in outcome.error
    assert plan.outcome == "out_of_memory"


def test_what_buckets_gather_is_known_without_having_run():
    """No bucket of the small cache outgrew the profiling run; those of the large one do."""
    before = {"gpu_memory_utilization": 0.835, "graph_reserved_mem": 0.787}
    after = {
        "gpu_memory_utilization": 0.938, "graph_reserved_mem": 0.324,
        "graph_prompt_strategy": "max_bs",
    }  # fmt: skip
    plan, outcome, truth = plan_and_run(LARGE, None, before, after)
    assert outcome.status == "finished"
    for event in truth:
        if isinstance(event, CaptureSummary):
            assert list(plan.phases[event.phase].captured_buckets) == event.buckets
        elif isinstance(event, GraphBudgetSet):
            assert plan.graph_budget_bytes == pytest.approx(event.total_bytes, abs=2)


def test_the_time_of_the_run_itself_comes_out_whole(seed_run):
    """Eager runs, captures, and the rest that is neither."""
    plan, run_s = seed_run.plan(PlanSettings()), seed_run.summary.time.warmup_s
    assert plan.time.warmup_s == pytest.approx(run_s, rel=1e-9)
    assert 0 < plan.time.rest_s < 0.01 * run_s
    parts = plan.time.eager_s + plan.time.capture_s + plan.time.rest_s
    assert parts == pytest.approx(plan.time.warmup_s)


def test_a_bucket_that_was_compiled_before_does_not_lower_the_others():
    """The profiling run compiles the largest prompt; its step takes a 30th of the others."""
    settings = {
        "model": "small", "dtype": "bfloat16", "block_size": 128, "max_model_len": 2048,
        "max_num_seqs": 16, "max_num_batched_tokens": 2048,
        "environment": {"VLLM_BUCKETING_STRATEGY": "lin"},
    }  # fmt: skip
    limits = {"max_num_seqs": 8, "max_model_len": 4096}
    _, run = simulate({**settings, "graph_reserved_mem": 0.2})
    plan = planner_of(run).plan(PlanSettings(**limits))
    _, truth = simulate({**settings, "graph_reserved_mem": 0.2, **limits})
    low, high = plan.time.warmup_range_s
    assert low < summary_of(truth).time.warmup_s < high


@pytest.mark.parametrize(
    "limits",
    [
        *({"max_model_len": length} for length in (512, 1536, 3072, 8192)),
        {"max_num_batched_tokens": 8000},
        {"max_num_batched_tokens": 1024},
        {"max_num_batched_tokens": 6144, "max_model_len": 3072},
    ],
)
def test_other_limits_have_another_profiling_run_and_other_buckets(limits):
    """3 x 1,536 tokens of the token budget of 4,096 are 512 less than 2 x 2,048."""
    settings = {
        "model": "small", "dtype": "bfloat16", "block_size": 128, "max_model_len": 2048,
        "max_num_seqs": 4, "max_num_batched_tokens": 4000, "graph_reserved_mem": 0.2,
    }  # fmt: skip
    _, run = simulate(settings)
    plan = planner_of(run).plan(PlanSettings(**limits))
    _, truth = simulate({**settings, **limits})
    memory, buckets = summary_of(truth).memory, summary_of(truth).buckets
    assert {name: part.generated for name, part in plan.phases.items()} == {
        name: part.generated for name, part in buckets.items()
    }
    assert plan.num_kv_blocks == memory.num_kv_blocks
    assert plan.num_kv_blocks_range == (plan.num_kv_blocks,) * 2
    free = memory.graph_budget.free_bytes
    assert plan.free_before_graphs_bytes == pytest.approx(free, abs=1)


def test_a_plan_that_rounding_turns_over_is_too_close_to_tell(planner):
    """A request as long as the KV cache: it does not fit into the fewest blocks."""
    other, folded = PlanSettings(gpu_memory_utilization=0.8), log_run()
    blocks = planner.plan(other).num_kv_blocks
    plans = []
    for length in (128, 128 * blocks):
        long = changed(folded.summary, memory={"block_size": 128})
        long = changed(long, config={"max_model_len": length})
        plans.append(Planner(long, folded.rows).plan(other))
    assert [plan.outcome for plan in plans] == ["fits", "fits"]
    assert [plan.is_close for plan in plans] == [False, True]
    assert outcome_text(plans[1]) == "may fit: too close to tell"


def test_a_warm_up_may_take_longer_by_what_collections_took_in_their_slowest_stretch():
    """And less by the quickest: of 72 buckets, 8 in a stretch, the first ones are slow."""
    _, events = simulate()
    planned = {}
    for slow_s in (0.1, 0.7):
        seconds = itertools.chain([slow_s] * 8, [0.1] * 64, itertools.repeat(None))
        timed = [
            msgspec.structs.replace(event, gc_s=next(seconds))
            if isinstance(event, WarmupStep)
            else event
            for event in events
        ]
        planned[slow_s] = planner_of(timed).plan(PlanSettings()).time
    same, slow = planned.values()
    assert same.warmup_s == slow.warmup_s
    usual_s = (8 * 0.7 + 64 * 0.1) / 72
    low, high = slow.warmup_range_s
    assert high == pytest.approx(slow.warmup_s + 72 * (0.7 - usual_s))
    assert low == min(same.warmup_range_s[0], slow.warmup_s - 72 * (usual_s - 0.1))


def test_a_share_that_is_none_is_refused(seed_run):
    with pytest.raises(SettingError, match="not a share"):
        seed_run.plan(PlanSettings(graph_reserved_mem=1.5))


@pytest.fixture(scope="module")
def planner():
    return seed_planner()


class TestSeedLog:
    """The log of the warm-up documentation alone, of which most lines are cut out."""

    def test_it_gives_its_own_sets_again(self, planner):
        assert planner.plan(PlanSettings()).self_check is True

    @pytest.mark.parametrize(
        ("settings", "blocks", "prompts"),
        [
            ({"graph_prompt_ratio": 0.5}, 1519, 15),
            ({"graph_reserved_mem": 0.2}, 2026, 10),
            ({"graph_reserved_mem": 0.6}, 1013, 18),
        ],
    )
    def test_other_settings_give_what_a_run_would(
        self, planner, settings, blocks, prompts
    ):
        """The simulated device, fitted to this log, captures the same sets."""
        plan = planner.plan(PlanSettings(**settings))
        assert plan.num_kv_blocks == blocks
        assert plan.phases["prompt"].captured == prompts
        assert plan.phases["decode"].captured == 48
        low, high = plan.num_kv_blocks_range
        assert low <= blocks <= high <= low + 4
        _, events = simulate(**settings)
        truth = {e.phase: e for e in events if isinstance(e, CaptureSummary)}
        for phase, part in plan.phases.items():
            assert list(part.captured_buckets) == truth[phase].buckets

    def test_costs_of_cut_lines_come_from_sums(self, planner):
        """Ten prompt graphs took 6.66 GiB together; the last one is what is left over."""
        plan = planner.plan(PlanSettings(graph_reserved_mem=0.6))
        graphs = {
            graph.bucket: graph for graph in plan.order if graph.phase == "prompt"
        }
        first_ten = list(graphs.values())[:10]
        assert {graph.source for graph in first_ten} == {"shared"}
        assert sum(g.memory_bytes for g in first_ten) == pytest.approx(
            6.66 * GIB, rel=1e-3
        )
        assert graphs[1, 896].memory_bytes == pytest.approx(1.26 * GIB, rel=1e-3)
        assert graphs[2, 640].memory_bytes == pytest.approx(1.79 * GIB, rel=1e-2)
        named = [graph.bucket for graph in plan.order if graph.source == "extrapolated"]
        assert named == [(4, 384), (2, 768), (2, 896)]
        assert plan.phases["prompt"].cost_error_percent < 2

    def test_decodes_add_up_to_the_summary_line(self, planner):
        plan = planner.plan(PlanSettings())
        assert format_bytes(plan.phases["decode"].graph_used_bytes) == "161.9 MiB"

    def test_the_warm_up_takes_as_long(self, planner):
        """Of 49 s 7 s went into 15 prompt graphs and 14 s into 48 decode graphs."""
        time = planner.plan(PlanSettings()).time
        assert time.warmup_s == pytest.approx(49.0)
        assert (time.eager_s, time.capture_s) == (28.0, 21.0)

    def test_more_graphs_take_longer(self, planner):
        plan = planner.plan(PlanSettings(graph_reserved_mem=0.6))
        assert plan.phases["prompt"].captured == 18
        assert plan.time.warmup_s == pytest.approx(49.0 + 3 * 7 / 15)

    @pytest.mark.parametrize(
        ("untimed", "capture_s"),
        [(("prompt_graphs", "decode_graphs"), None), (("prompt_graphs",), 14.0)],
    )
    def test_captures_without_a_time_are_as_in_the_run_or_unknown(
        self, planner, untimed, capture_s
    ):
        """A phase that takes less than a second may have no time in whole seconds."""
        times = planner.summary.time
        phases = [p for p in times.phases if p.name not in untimed]
        time = msgspec.structs.replace(times, phases=phases)
        summary = msgspec.structs.replace(planner.summary, time=time)
        without = Planner(summary, log_run().rows)
        same, more = (
            without.plan(PlanSettings(graph_reserved_mem=share)).time
            for share in (None, 0.6)
        )
        assert (same.warmup_s, same.capture_s) == (49.0, capture_s)
        assert (more.warmup_s, more.capture_s) == (None, None)


def test_decode_buckets_follow_the_cache():
    """In three dimensions fewer blocks mean other decode buckets, generated anew."""
    settings = {
        "model": "llama-3-8b", "dtype": "bfloat16", "block_size": 128,
        "max_model_len": 2048, "max_num_seqs": 8, "max_num_batched_tokens": 2048,
        "environment": {"VLLM_CONTIGUOUS_PA": "true"},
    }  # fmt: skip
    _, events = simulate(settings)
    planner = planner_of(events)
    change = {"gpu_memory_utilization": 0.11, "graph_reserved_mem": 0.85}
    plan = planner.plan(PlanSettings(**change))
    _, truth = simulate(settings, **change)
    listed = {e.phase: e.buckets for e in truth if hasattr(e, "strategy")}
    for phase, part in plan.phases.items():
        assert sorted(part.captured_buckets + part.skipped_buckets) == listed[phase]
    assert (
        planner.plan(PlanSettings()).phases["decode"].generated
        > plan.phases["decode"].generated
    )


def test_a_bucketing_variable_can_be_planned_with():
    _, events = simulate(
        {
            "model": "llama-3-8b", "dtype": "bfloat16", "block_size": 128,
            "max_model_len": 2048, "max_num_seqs": 8, "max_num_batched_tokens": 2048,
        }
    )  # fmt: skip
    planner = planner_of(events)
    plan = planner.plan(PlanSettings(environment={"VLLM_BUCKETING_STRATEGY": "lin"}))
    assert plan.settings["VLLM_BUCKETING_STRATEGY"] == "lin"
    assert plan.phases["prompt"].generated == 256
    with pytest.raises(SettingError, match="VLLM_BUCKETING_STRATEGY"):
        planner.plan(PlanSettings(environment={"VLLM_BUCKETING_STRATEGY": "best"}))
    off = planner.plan(PlanSettings(environment={"VLLM_ENABLE_BUCKETING": "false"}))
    assert (off.phases, off.time.warmup_s) == ({}, None)


@pytest.mark.parametrize("version", ["0.19.0", "0.26.0", "main"])
def test_buckets_are_generated_by_the_rules_of_the_runs_own_version(version):
    limits = {
        "max_num_seqs": 8, "block_size": 128, "max_num_batched_tokens": 1024,
        "max_model_len": 1024,
    }  # fmt: skip

    def lists(num_blocks, version=version):
        inputs = {**limits, "num_kv_blocks": num_blocks}
        made = generate(settings_from_mapping(inputs, {}, engine_version=version))
        return {"prompt": [*made.prompt], "decode": [*made.decode]}

    own = lists(10)
    summary = summary_of(
        [
            started(version=version), config(**limits), cache(10),
            generated("prompt", own["prompt"]), generated("decode", own["decode"]),
        ]
    )  # fmt: skip
    planned = planned_buckets(summary, 7, PlanSettings(), {})
    assert planned.lists == lists(7)
    assert f"vllm-gaudi {version_of_run('vllm-gaudi', version)}" in planned.notes[0]
    other = planned_buckets(summary, 7, PlanSettings(engine_version="0.14.1"), {})
    assert other.lists == lists(7, "0.14.1")
    assert "vllm-gaudi v0.14.1" in other.notes[0]


@pytest.mark.parametrize(
    ("recorded", "expected"), [(None, "v0.19.0"), ("0.26.0", "v0.26.0")]
)
def test_the_version_of_vllm_gaudi_counts_where_it_was_recorded(recorded, expected):
    events = [started(version="0.19.0"), config(vllm_gaudi_version=recorded)]
    assert rules_version(summary_of(events)) == expected


@pytest.mark.parametrize(
    "value", ["inf", 1e400, "nan", 10**400], ids=lambda v: str(v)[:4]
)
def test_a_limit_that_is_no_finite_number_is_unknown(value):
    summary = summary_of([started(), config(max_num_seqs=value)])
    assert bucketing_inputs(summary) == ({}, {})


def test_buckets_of_two_dimensions_cannot_be_generated_anew(seed_run):
    with pytest.raises(InputError, match="two dimensions"):
        seed_run.plan(PlanSettings(environment={"VLLM_BUCKETING_STRATEGY": "lin"}))


def test_decode_buckets_that_count_blocks_may_be_others_with_another_cache():
    """vllm-fork since 1.18: `generate_decode_buckets(max_blocks)`, (batch, blocks)."""
    lists = [generated("prompt", [(1, 128)]), generated("decode", [(1, 128), (1, 256)])]
    fork = summary_of([started("vllm-fork", version="0.6.6"), cache(256), *lists])
    assert planned_buckets(fork, 256, PlanSettings(), {}).notes == ()
    (note,) = planned_buckets(fork, 200, PlanSettings(), {}).notes
    assert "with another KV cache they may differ" in note


def test_blocks_of_a_hybrid_model_lie_in_the_stated_range():
    """Four groups of 8 layers with blocks of 16 MiB beside a recurrent state of half as
    much: two thirds of 18 GiB less 64 MiB are 765 blocks, of 54.15 GiB less that 2307."""
    run = [
        started(), config(max_model_len=4096),
        budget(
            free_bytes=60 * GIB, usable_bytes=30 * GIB, graph_reserved_bytes=12 * GIB,
            kv_cache_bytes=18 * GIB - 64 * MIB, padding_bytes=64 * MIB,
            gpu_memory_utilization=0.5, graph_reserved_fraction=0.4,
        ),
        cache(765, num_tokens=765 // 4 * 128, max_concurrency=765 / (32 + 3)),
    ]  # fmt: skip
    hybrid = summary_of(run, source_kind="log")
    plan = divide_memory(hybrid, utilization=0.95, reserve=0.05)
    low, high = plan.num_blocks_range
    assert low <= 2307 <= high
    one = cache(1147, num_tokens=1147 * 128, max_concurrency=1147 / 32)
    plain = summary_of([*run[:-1], one], source_kind="log")
    assert padding_blocks(plain) == (1.0, 1.0)


def uncapped_run(reserved_gib=7, prompt_bytes=600 * MIB):
    """vllm-gaudi: no budget for graphs, only what they took in all."""
    return [
        started(), config(max_model_len=2048), budget(graph_reserved_bytes=reserved_gib * GIB),
        cache(), generated("prompt", PROMPTS), generated("decode", DECODES),
        CaptureSummary(phase="prompt", captured_reported=3, used_bytes=prompt_bytes),
        CaptureSummary(phase="decode", captured_reported=3, used_bytes=60 * MIB),
        *finished(allocated_bytes=prompt_bytes + 60 * MIB),
    ]  # fmt: skip


def test_without_a_budget_the_reserve_only_shrinks_the_cache():
    planner = planner_of(uncapped_run())
    small = planner.plan(PlanSettings(graph_reserved_mem=0.02))
    large = planner.plan(PlanSettings(graph_reserved_mem=0.3))
    assert small.rule == large.rule == "uncapped"
    assert small.captured_percent == large.captured_percent == 100.0
    assert small.num_kv_blocks > large.num_kv_blocks
    assert small.graph_used_bytes == pytest.approx(660 * MIB, abs=2)


def test_the_sum_of_the_graphs_counts_where_single_ones_are_within_the_rounding():
    """Free memory has steps of 10 MiB in the log; each graph takes 4 MiB."""
    free = [9.90, 9.89, 9.89]
    steps = [
        step("decode", bucket, mode="graph", index=index, memory_bytes=taken,
             free_before_bytes=round(free[index - 1] * GIB))
        for index, bucket, taken in zip(
            (1, 2, 3), DECODES, (round(0.01 * GIB), 0, None), strict=True
        )
    ]  # fmt: skip
    plan = planner_of([*uncapped_run(), *steps], source_kind="log").plan(PlanSettings())
    assert plan.phases["decode"].graph_used_bytes == pytest.approx(60 * MIB, abs=2)


def test_the_sum_is_that_of_the_graphs_that_the_log_shows():
    """Two of three buckets are captured, and what the last one took follows."""
    steps = [
        step("decode", bucket, mode="graph", index=index, memory_bytes=taken)
        for index, bucket, taken in ((1, DECODES[0], 24 * MIB), (2, DECODES[1], None))
    ]
    stated = CaptureSummary(phase="decode", captured_reported=2, used_bytes=60 * MIB)
    events = [*uncapped_run(), *steps, stated]
    plan = planner_of(events, source_kind="log").plan(PlanSettings())
    taken = {
        graph.bucket: graph.memory_bytes
        for graph in plan.order
        if graph.phase == "decode" and graph.source == "measured"
    }
    assert taken == {DECODES[0]: 24 * MIB, DECODES[1]: 36 * MIB}


def test_a_log_of_the_reference_engine_without_a_budget_line_is_capped_all_the_same():
    """The format of vllm-gaudi has no line for a budget; 7 of 30 prompts were captured. What
    the last one before those that were left out took is not known."""
    log = ROOT / "sample_logs" / "reference" / "cpu_run_gaudi.log"
    made = summarized(events_of(log.read_bytes()), source_kind="log")
    plan = Planner(made.summary, made.rows).plan(PlanSettings())
    for phase, part in plan.phases.items():
        observed = made.summary.phase(phase)
        assert part.captured == observed.captured_reported
        assert part.graph_used_bytes == pytest.approx(
            observed.graph_used_bytes, rel=0.002
        )
    assert (plan.rule, plan.outcome) == ("capped", "fits")


def made_graphs():
    """vllm-gaudi, recorded: each step captures; the second prompt is a long one."""
    prompts, decodes = [(1, 128, 0), (1, 128, 8)], [(1, 1, 8)]
    steps = [
        event
        for phase, buckets in (("prompt", prompts), ("decode", decodes))
        for bucket in buckets
        for event in (
            step(phase, bucket, mode="graph", memory_bytes=MIB, duration_s=1.0),
            GraphCaptured(phase=phase, bucket=bucket, memory_bytes=MIB, duration_s=1.0),
        )
    ]
    return [
        started(), config(max_model_len=2048, max_num_batched_tokens=1024), budget(),
        cache(), generated("prompt", prompts), generated("decode", decodes), *steps,
        *finished(allocated_bytes=3 * MIB),
    ]  # fmt: skip


def test_a_shape_that_was_captured_gets_a_graph_whatever_the_rule_says():
    """128 tokens and 8 blocks of 128 are more than the limit of 1024."""
    plan = planner_of(made_graphs()).plan(PlanSettings())
    assert plan.phases["prompt"].captured == 2
    assert plan.self_check is True


def test_buckets_that_ran_and_were_captured_at_once_are_not_beyond_what_ran():
    plan = planner_of(made_graphs()).plan(PlanSettings())
    assert "more blocks than any that ran" not in " ".join(plan.notes)


def test_running_out_of_memory_without_a_budget_is_predicted():
    """Graphs of 20 GiB do not fit into the 8 GiB that utilisation 0.9 leaves."""
    planner = planner_of(uncapped_run(prompt_bytes=20 * GIB))
    plan = planner.plan(PlanSettings(graph_reserved_mem=0.0))
    assert plan.outcome == "out_of_memory"
    assert plan.phases["decode"].captured == 0
    assert plan.time.warmup_s is None
    assert planner.plan(PlanSettings(graph_reserved_mem=0.3)).outcome == "fits"


def test_the_lowest_rank_speaks():
    events = uncapped_run()
    other = [
        MemoryBudgetSet(rank=1, free_bytes=GIB, usable_bytes=GIB, kv_cache_bytes=GIB),
        CaptureSummary(phase="prompt", captured_reported=3, used_bytes=1, rank=1),
    ]
    plan = planner_of([*events, *other]).plan(PlanSettings())
    assert plan.free_bytes == 80 * GIB
    assert plan.phases["prompt"].graph_used_bytes == 600 * MIB


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        ([started()], "how its memory was divided"),
        ([started(), budget(), cache()], "does not list its buckets"),
        (start_up(), "what its prompt graphs took"),
    ],
)
def test_runs_that_tell_too_little_are_refused(events, sentence):
    with pytest.raises(InputError, match=sentence):
        planner_of(events)


@pytest.mark.parametrize("size", [0, -GIB])
def test_nothing_is_planned_from_a_cache_of_no_memory(size):
    found = [
        msgspec.structs.replace(event, kv_cache_bytes=size)
        if isinstance(event, MemoryBudgetSet)
        else event
        for event in simulate()[1]
    ]
    with pytest.raises(InputError, match="no memory was left for its KV cache"):
        planner_of(found)


def test_a_cuda_log_cannot_be_planned_from():
    events = [started("vllm", device_kind="cuda"), generated("prompt", PROMPTS)]
    with pytest.raises(InputError, match="started on HPU"):
        planner_of(events)


class TestRecommend:
    def test_the_smallest_reserve_captures_everything(self):
        _, events = simulate(graph_reserved_mem=0.3, gpu_memory_utilization=0.9)
        planner = planner_of(events)
        plan = smallest_reserve(planner, PlanSettings(), None, 0)
        reserve = plan.settings["VLLM_GRAPH_RESERVED_MEM"]
        assert captures(plan, None)
        less = planner.plan(PlanSettings(graph_reserved_mem=reserve - 0.01))
        assert not captures(less, None)
        _, truth = simulate(graph_reserved_mem=reserve, gpu_memory_utilization=0.9)
        captured = [e for e in truth if isinstance(e, CaptureSummary)]
        assert [e.percent_reported for e in captured] == [100.0, 100.0]

    def test_fewer_wanted_graphs_need_less(self):
        _, events = simulate()
        planner = planner_of(events)
        wanted = {"prompt": {(1, 128), (1, 256)}, "decode": {(1, 128)}}
        plan = smallest_reserve(planner, PlanSettings(), wanted, 0)
        assert plan.settings["VLLM_GRAPH_RESERVED_MEM"] < 0.1

    def test_the_margin_is_left(self):
        _, events = simulate()
        planner = planner_of(events)
        result = recommend(planner, margin_bytes=4 * GIB)
        assert result.both.margin_bytes >= 4 * GIB
        assert result.both.free_after_graphs_bytes >= 4 * GIB
        looser = utilization_for(result.now, 4 * GIB) + 0.005
        assert result.now.free_bytes * (1 - looser) < 4 * GIB

    def test_what_cannot_be_captured_at_all_is_said(self):
        _, events = simulate(total_bytes=40 * GIB)
        result = recommend(planner_of(events))
        assert result.both is None
        assert "the graphs take about" in result.reason

    def test_an_impossible_margin_is_refused(self):
        _, events = simulate()
        planner = planner_of(events)
        for margin in (-1, 200 * GIB):
            with pytest.raises(SettingError, match="not possible"):
                recommend(planner, margin_bytes=margin)

    def test_it_is_the_pair_that_advice_goes_to(self):
        """One margin, one headroom, one highest utilisation for both commands."""
        events = uncapped_run()
        planner = planner_of(events)
        result = recommend(planner)
        assert result.margin_bytes == safe_margin(planner.summary)
        assert result.margin_bytes >= 0.05 * planner.summary.memory.total_bytes
        pair = memory_pair(
            planner.summary, graph_bytes=660 * MIB, headroom=HEADROOM,
            margin_bytes=result.margin_bytes, highest=MAX_UTILIZATION,
        )  # fmt: skip
        planned = result.both.settings
        assert planned["gpu_memory_utilization"] == pair.utilization <= MAX_UTILIZATION
        assert planned["VLLM_GRAPH_RESERVED_MEM"] == pair.reserve
        assert result.both.num_kv_blocks == pair.num_kv_blocks

    def test_no_utilisation_above_the_highest_is_recommended(self):
        _, events = simulate(graph_reserved_mem=0.3, gpu_memory_utilization=0.9)
        result = recommend(planner_of(events), margin_bytes=1)
        assert result.both.settings["gpu_memory_utilization"] <= MAX_UTILIZATION

    def test_nothing_is_recommended_where_the_blocks_are_set(self):
        planner = planner_of(uncapped_run())
        planner.summary = changed(
            planner.summary, config={"num_gpu_blocks_override": 64}
        )
        result = recommend(planner)
        assert (result.reserve, result.both) == (None, None)
        assert "num_gpu_blocks_override" in result.reason


LIMITS_1K = {
    "max_num_seqs": 5,
    "max_num_batched_tokens": 1024,
    "max_model_len": 1000,
}


def log_with_sums(version="0.26.0", **settings):
    """A log that states its buckets and what all graphs of a phase took together."""
    inputs = {**LIMITS_1K, "block_size": 128, "num_kv_blocks": 1104}
    made = generate(settings_from_mapping(inputs, {}, engine_version="0.26.0"))
    events = [
        started(version=version), budget(), cache(1104),
        config(**LIMITS_1K, **settings),
        generated("prompt", [tuple(bucket) for bucket in made.prompt]),
        generated("decode", [tuple(bucket) for bucket in made.decode]),
        CaptureSummary(phase="prompt", captured_reported=30, used_bytes=168 * MIB),
        CaptureSummary(phase="decode", captured_reported=19, used_bytes=152 * MIB),
        *finished(allocated_bytes=320 * MIB),
    ]  # fmt: skip
    return planner_of(events, source_kind="log")


@pytest.mark.parametrize(("version", "num_graphs"), [("0.26.0", 21), ("0.19.0", 30)])
def test_buckets_of_a_log_run_as_the_rules_have_it(version, num_graphs):
    """A log names buckets alone: those that run as another have no graph of their own.

    Before v0.21.0 it is not known, and every bucket counts as its own.
    """
    plan = log_with_sums(version).plan(PlanSettings())
    assert plan.phases["prompt"].generated == 30
    assert plan.phases["prompt"].captured == num_graphs
    assert round(plan.phases["prompt"].graph_used_bytes / MIB) == 168


def test_a_plan_with_merged_prefill_has_graphs_at_most():
    """What its prompt buckets run as is not known, so there may be fewer."""
    planner = log_with_sums()
    merged = PlanSettings(environment={"VLLM_MERGED_PREFILL": "1"})
    assert any("fewer prompt graphs" in note for note in planner.plan(merged).notes)
    assert not any("fewer" in note for note in planner.plan(PlanSettings()).notes)


def test_graphs_beyond_a_single_sum_have_the_memory_of_equal_ones_as_well():
    """One sum does not show whether a graph of a larger shape takes more."""
    planner = log_with_sums()
    plan = planner.plan(PlanSettings(max_num_seqs=13))
    (note,) = [note for note in plan.notes if "as much as another" in note]
    decode = plan.phases["decode"]
    assert format_bytes(decode.captured * 8 * MIB) in note
    assert format_bytes(decode.graph_used_bytes) in note
    own = planner.plan(PlanSettings())
    assert not any("as much as another" in note for note in own.notes)


def log_with_steps(took=lambda number: 64 * MIB, decode_bytes=1216 * MIB):
    """A log in developer mode: free memory before each bucket, and its bar's times."""
    planner = log_with_sums()
    summary = planner.summary
    events = [
        started(version="0.26.0"), budget(), cache(1104), config(**LIMITS_1K),
    ]  # fmt: skip
    for phase in ("prompt", "decode"):
        buckets = summary.phase(phase).buckets
        events.append(generated(phase, buckets))
        events += [
            step(
                phase,
                bucket,
                memory_bytes=took(number),
                duration_s=0.5,
                resolution_s=0.01,
                index=number,
            )
            for number, bucket in enumerate(reversed(buckets), 1)
            if phase == "decode" or bucket[2] == 0
        ]
    events += [
        CaptureSummary(phase="prompt", captured_reported=30, used_bytes=448 * MIB),
        CaptureSummary(phase="decode", captured_reported=19, used_bytes=decode_bytes),
        *finished(allocated_bytes=1664 * MIB),
    ]
    return planner_of(events, source_kind="log")


def test_a_graph_takes_what_its_step_took_where_a_log_states_that():
    """vllm-gaudi makes the graph of a bucket in its step; a sum need not be divided."""
    plan = log_with_steps().plan(PlanSettings(max_num_seqs=13))
    decode = plan.phases["decode"]
    assert decode.captured > 19
    assert round(decode.graph_used_bytes / MIB) == decode.captured * 64
    assert not any("as much as another" in note for note in plan.notes)


def test_the_times_of_a_progress_bar_are_those_of_single_buckets():
    plan = log_with_steps().plan(PlanSettings(max_num_seqs=13))
    assert plan.time.source == "per bucket"
    assert plan.time.warmup_range_s is None  # what the collector took is not known


def test_torch_compile_makes_a_graph_of_a_prompt_of_any_length():
    """`_use_graphs` of vllm-gaudi has a limit, and is asked in lazy mode alone."""
    limit = {"max_cudagraph_capture_size": 512}
    lazy, compiled = (
        log_with_sums(bridge_mode=mode, **limit).plan(PlanSettings()).phases["prompt"]
        for mode in ("lazy", "eager")
    )
    assert compiled.captured > lazy.captured


def test_steps_that_took_nothing_have_graphs_of_nothing_where_others_took_the_sum():
    """`torch.compile` makes in one step what those behind it use."""
    took = {1: 500 * MIB, 9: 100 * MIB}
    planner = log_with_steps(lambda number: took.get(number, 0), 600 * MIB)
    decode = planner.plan(PlanSettings()).phases["decode"]
    assert decode.graph_used_bytes == 600 * MIB


@pytest.mark.parametrize("bucket", [(1600,), (864, 480, 1)], ids=["patches", "images"])
def test_multimodal_buckets_need_no_memory_as_prompts_do(bucket):
    """Of patches, or of width, height and count: none of it is a number of tokens."""
    known = [
        config(max_num_batched_tokens=2048, max_model_len=2048),
        MemoryMeasured(stage="profile_run", delta_bytes=GIB, time=1_000_009.0),
        CaptureSummary(phase="prompt", captured_reported=1, used_bytes=64 * MIB),
        CaptureSummary(phase="decode", captured_reported=1, used_bytes=64 * MIB),
    ]
    settings = PlanSettings(graph_reserved_mem=0.05)
    plain = planner_of(start_up(*known), source_kind="log").plan(settings)
    image = step("multimodal", bucket, index=1, total=1)
    found = planner_of(start_up(*known, image), source_kind="log").plan(settings)
    assert found.free_before_graphs_bytes == plain.free_before_graphs_bytes is not None
