"""Every rule applies where it must, only there, and never without a number."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.analysis.advice_cases import TIME_CASES
from tests.analysis.builders import (
    DECODES,
    PROMPTS,
    budget,
    cache,
    changed,
    config,
    contradicting,
    facts_of,
    finished,
    generated,
    simulate,
    start_up,
    started,
    step,
    summary_of,
)
from warmup_insights.analysis.advice import RULES, Finding, RunFacts, advise
from warmup_insights.analysis.advice.setting_lives import LIVES, read_version
from warmup_insights.model.events import (
    BucketMiss,
    BucketUsed,
    CaptureSummary,
    ConfigRecorded,
    Failure,
    GraphCaptured,
    GraphMemoryEstimated,
    GraphsCaptured,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    Note,
    RunStarted,
    ServerReady,
    WarmupFinished,
)
from warmup_insights.model.figures import contradictory
from warmup_insights.units import GIB, MIB

MANY = [(1, 128 * n, 0) for n in range(1, 13)]


def used(num_bytes, phase="prompt"):
    return CaptureSummary(phase=phase, captured_reported=3, used_bytes=int(num_bytes))


def graphs_took(prompt_gib, decode_gib=0.1, missing=False):
    prompt = used(prompt_gib * GIB)
    if missing:
        prompt = CaptureSummary(
            phase="prompt", captured_reported=1, used_bytes=int(prompt_gib * GIB),
            buckets=PROMPTS[:1],
        )  # fmt: skip
    decode = CaptureSummary(
        phase="decode", captured_reported=3, used_bytes=int(decode_gib * GIB),
        buckets=DECODES if missing else None,
    )  # fmt: skip
    return start_up(prompt, decode)


def idle(free_gib, utilization):
    usable = free_gib * utilization
    memory = budget(
        free_bytes=int(free_gib * GIB), usable_bytes=int(usable * GIB),
        graph_reserved_bytes=int(0.1 * usable * GIB),
        kv_cache_bytes=int(0.9 * usable * GIB), gpu_memory_utilization=utilization,
    )  # fmt: skip
    return [
        started(), memory, cache(1000, allocated_bytes=int(0.9 * usable * GIB)),
        *finished(allocated_bytes=GIB),
    ]  # fmt: skip


def cuda(*extra, **memory):
    values = {"total_bytes": 80 * GIB, "kv_cache_bytes": 40 * GIB, **memory}
    return [
        started("vllm", device_kind="cuda"),
        MemoryBudgetSet(gpu_memory_utilization=0.9, **values),
        KVCacheAllocated(num_tokens=400_000),
        *extra,
        *finished(),
    ]


def estimated(expected_gib, actual_gib):
    return cuda(
        GraphMemoryEstimated(
            estimated_bytes=int(expected_gib * GIB), actual_bytes=int(actual_gib * GIB)
        )
    )


def timed(count, seconds=2.0, **more):
    buckets = [(1, 128 * n, 0) for n in range(1, count + 1)]
    return [
        started(), generated("prompt", buckets),
        *(step("prompt", b, duration_s=seconds, index=i + 1, total=count, **more)
          for i, b in enumerate(buckets)),
        *finished(),
    ]  # fmt: skip


def serving(*shapes, warmed=MANY, captured=()):
    return [
        started("reference"), generated("prompt", list(warmed)),
        *(step("prompt", b, duration_s=2.0) for b in warmed),
        *(GraphCaptured(phase="prompt", bucket=b, memory_bytes=MIB) for b in captured),
        *([GraphsCaptured(count=len(captured), duration_s=30.0)] if captured else []),
        *finished(),
        *(BucketUsed(phase="prompt", shape=shape, bucket=shape) for shape in shapes),
    ]  # fmt: skip


def miss(*shape, fallback=None):
    return BucketMiss(phase="prompt", shape=shape, fallback=fallback, count=2)


def out_of_memory(**more):
    free = [10, 9, 8, 7]
    steps = [
        step("prompt", bucket, free_before_bytes=gib * GIB, index=n)
        for n, (bucket, gib) in enumerate(zip(MANY, free, strict=False), start=1)
    ]
    failure = Failure(
        failure="out_of_memory", message="no", phase="prompt", bucket=MANY[4], **more
    )
    return [started(), budget(), cache(), generated("prompt", MANY), *steps, failure]


def recipes(value, seconds=60.0):
    return start_up(config(PT_HPU_RECIPE_CACHE_CONFIG=value), seconds=seconds)


def lazy(count, startup=67):
    captures = [LazyCapture(num_tokens=n, duration_s=0.5) for n in range(count)]
    done = GraphsCaptured(count=startup, duration_s=4.0) if startup else None
    return [started("vllm"), *([done] if done else []), *finished(), *captures]


def skipped(*misses):
    return [
        started(),
        WarmupFinished(skipped=True),
        ServerReady(time=2_000_000.0),
        *misses,
    ]


def set_to(engine, version, name, value="1"):
    return [started(engine, version=version), config(**{name: value})]


def killed(seconds=50.0, is_ready=False):
    end = 1_000_000.0 + seconds
    ready = [ServerReady(time=end - 1)] if is_ready else []
    return [
        started(), generated("prompt", PROMPTS), step("prompt", PROMPTS[0]), *ready,
        Failure(failure="killed", message="signal 9", time=end),
    ]  # fmt: skip


CONTIGUOUS = config(use_contiguous_pa="True")

CASES = {
    "reserve_too_large": (
        [graphs_took(0.5)],
        [graphs_took(5), start_up(), graphs_took(0, 0), graphs_took(0.5, missing=True)],
    ),
    "reserve_too_small": (
        [graphs_took(9), simulate()[1]],
        [graphs_took(5), start_up(), simulate(gpu_memory_utilization=0.95,
                                               graph_reserved_mem=0.7)[1]],
    ),
    "memory_idle": (
        [idle(80, 0.5)],
        [idle(80, 0.95), idle(10, 0.5), start_up()],
    ),
    "graph_estimate_off": (
        [estimated(5, 1), estimated(1, 5)],
        [estimated(1.2, 1.1), estimated(0.1, 0.3), cuda()],
    ),
    "no_room_for_cache": (
        [cuda(kv_cache_bytes=-GIB), cuda(kv_cache_bytes=-30 * GIB)],
        [cuda(), [started(), MemoryBudgetSet(kv_cache_bytes=-GIB)]],
    ),
    "blocks_beyond_cache": (
        [[started(), CONTIGUOUS, cache(10), generated("decode", DECODES)]],
        [
            [started(), CONTIGUOUS, cache(16), generated("decode", DECODES)],
            [started(), CONTIGUOUS, generated("decode", DECODES)],
            [started(), CONTIGUOUS, cache(10), generated("decode", [(1, 128), (1, 256)])],
            [started(), cache(10), generated("decode", DECODES)],
        ],
    ),
    "executed_differently": (
        [[started(), step("prompt", (1, 1024, 7), executed=(1, 1024, 0))]],
        [[started(), step("prompt", (1, 1024, 7), executed=(1, 1024, 7))], start_up()],
    ),
    "missed_shapes": (
        [[*start_up(), miss(1, 999, 0)], [*start_up(), miss(2, 256, 0)]],
        [start_up(), [started(), miss(1, 999, 0)], [generated("prompt", PROMPTS), *skipped(miss(1, 9, 0))]],
    ),
    "unused_buckets": (
        [serving(MANY[0], MANY[1])],
        [serving(*MANY[:7]), serving(), timed(12)],
    ),
    "recipe_cache": (
        [recipes(",false,1024"), recipes("/data/r,True,1024"), recipes("/mnt/nfs/r,false,1")],
        [recipes("/data/r,false,1024"), recipes(",false,1024", seconds=2), start_up()],
    ),
    "garbage_collection": (
        [timed(12, gc_s=0.9)],
        [timed(12, gc_s=0.1), timed(12), timed(12, seconds=0.01, gc_s=0.009),
         [*timed(12, gc_s=0.9), Note(topic="gc_freeze", text="frozen")]],
    ),
    "lazy_capture": (
        [lazy(3)],
        [lazy(2), lazy(5, startup=None), lazy(0)],
    ),
    "captures_unused": (
        [serving(MANY[0], captured=MANY)],
        [serving(*MANY[:7], captured=MANY), serving(MANY[0]), serving(captured=MANY)],
    ),
    "warmup_skipped": (
        [skipped(miss(1, 9, 0))],
        [skipped(), [*start_up(), miss(1, 9, 0)]],
    ),
    "dead_setting": (
        [
            set_to("vllm-gaudi", "0.26.0", "VLLM_GRAPH_PROMPT_RATIO", "0.3"),
            set_to("vllm-gaudi", "0.11.2", "VLLM_PROMPT_SEQ_BUCKET_MAX"),
            set_to("vllm-gaudi", "0.20.1rc0", "VLLM_EXPONENTIAL_BUCKETING"),
            set_to("vllm-fork", "0.9.0.1+Gaudi-1.22.0", "VLLM_GRAPH_DECODE_STRATEGY"),
        ],
        [
            set_to("vllm-fork", "0.8.5.post1+Gaudi-1.21.3", "VLLM_GRAPH_PROMPT_RATIO"),
            set_to("vllm-gaudi", "0.10.1", "VLLM_PROMPT_SEQ_BUCKET_MAX"),
            set_to("vllm-gaudi", None, "VLLM_GRAPH_PROMPT_RATIO"),
            set_to("vllm", "0.26.0", "VLLM_GRAPH_PROMPT_RATIO"),
            set_to("vllm-gaudi", "0.26.0", "VLLM_GRAPH_RESERVED_MEM", "0.1"),
        ],
    ),
    "overridden_ranges": (
        [
            set_to("vllm-gaudi", "0.26.0", "VLLM_DECODE_BS_BUCKET_MAX", "64"),
            # Names of strategies are read since 0.20; sequences of a prefill are set
            # with it since 0.11.
            [*set_to("vllm-gaudi", "0.19.0", "VLLM_DECODE_BS_BUCKET_MAX", "64"),
             config(VLLM_BUCKETING_STRATEGY="lin")],
            set_to("vllm-gaudi", "0.10.1", "VLLM_PROMPT_BS_BUCKET_MAX", "4"),
        ],
        [
            set_to("vllm-gaudi", "0.11.2", "VLLM_PROMPT_BS_BUCKET_MAX", "4"),
            [*set_to("vllm-gaudi", "0.19.0", "VLLM_DECODE_BS_BUCKET_MAX", "64"),
             config(VLLM_EXPONENTIAL_BUCKETING="false")],
            [*set_to("vllm-gaudi", "0.26.0", "VLLM_DECODE_BS_BUCKET_MAX", "64"),
             config(VLLM_BUCKETING_STRATEGY="lin")],
            [*set_to("vllm-gaudi", "0.14.1", "VLLM_DECODE_BS_BUCKET_MAX", "64"),
             config(bucketing_strategy="linear_bucketing")],
            [*set_to("vllm-gaudi", "0.14.1", "VLLM_DECODE_BS_BUCKET_MAX", "64"),
             ConfigRecorded(environment={"VLLM_PROMPT_BS_BUCKET_MIN": "1"},
                            defaults=["VLLM_PROMPT_BS_BUCKET_MIN"])],
            set_to("vllm-gaudi", None, "VLLM_DECODE_BS_BUCKET_MAX", "64"),
            set_to("vllm-gaudi", "0.26.0", "VLLM_DECODE_BS_BUCKET_MAX", "many"),
            set_to("vllm-fork", None, "VLLM_DECODE_BS_BUCKET_MAX", "64"),
            start_up(),
        ],
    ),
    "out_of_memory": (
        [out_of_memory(), out_of_memory(free_bytes=GIB, needed_bytes=3 * GIB)],
        [
            start_up(),
            [started(), Failure(failure="out_of_memory", message="no")],
            [started(), Failure(failure="error", message="no", free_bytes=1)],
        ],
    ),
    "killed_in_warmup": (
        [killed()],
        [killed(is_ready=True), start_up(), out_of_memory()],
    ),
    "startup_probe": (
        [start_up()],
        [[started()], killed()],
    ),
    **TIME_CASES,
}  # fmt: skip


def found(events, name):
    return [finding for finding in advise(facts_of(events)) if finding.rule == name]


def rules_of(facts):
    return {finding.rule for finding in advise(facts)}


def cases(index):
    return [
        pytest.param(name, events, id=f"{name}-{number}")
        for name, sides in CASES.items()
        for number, events in enumerate(sides[index])
    ]


@pytest.mark.parametrize(("name", "events"), cases(0))
def test_the_rule_applies(name, events):
    finding = found(events, name)[0]
    assert finding.numbers
    assert finding.setting
    assert finding.suggestion
    assert finding.effect


@pytest.mark.parametrize(("name", "events"), cases(1))
def test_the_rule_does_not_apply(name, events):
    assert found(events, name) == []


def test_every_rule_has_both_cases():
    assert [rule.name for rule in RULES] == list(dict.fromkeys(r.name for r in RULES))
    assert set(CASES) == {rule.name for rule in RULES}
    assert all(all(sides) for sides in CASES.values())


def test_nothing_is_advised_on_nothing():
    assert advise(facts_of([])) == []
    assert advise(facts_of([RunStarted()])) == []


def test_advice_without_a_number_cannot_be_made():
    with pytest.raises(AssertionError, match="without a number"):
        Finding("x", "low", "t", {}, "s", "c", "e")


def test_the_most_important_comes_first():
    rules = [
        SimpleNamespace(
            decide=lambda _, s=severity: [Finding(s, s, "t", {"n": 1}, "s", "c", "e")]
        )
        for severity in ("low", "high", "medium")
    ]
    order = [finding.severity for finding in advise(facts_of([]), rules)]
    assert order == ["high", "medium", "low"]


def test_a_smaller_reserve_has_its_gain_in_blocks():
    """0.6 of 72 GiB usable are taken; 0.01 of it is 0.72 GiB, of 16 MiB blocks."""
    (finding,) = found(graphs_took(0.5), "reserve_too_large")
    assert finding.suggestion == "VLLM_GRAPH_RESERVED_MEM=0.01"
    block = 65 * GIB / 4160
    assert f"{int((7 - 0.72) * GIB / block):,} KV blocks more" in finding.effect


def test_missing_graphs_get_the_planned_reserve():
    (finding,) = found(simulate()[1], "reserve_too_small")
    assert finding.numbers["missing_graphs"] == 9
    assert (
        "gpu_memory_utilization=0.98 VLLM_GRAPH_RESERVED_MEM=0.59" in finding.suggestion
    )


def test_what_is_idle_is_counted():
    (finding,) = found(idle(80, 0.5), "memory_idle")
    assert finding.numbers["idle_bytes"] == 80 * GIB - 36 * GIB - GIB
    assert "--gpu-memory-utilization 0.97" in finding.suggestion


def test_misses_name_the_dimension_that_was_too_small():
    events = [*start_up(), miss(1, 999, 0), miss(1, 700, 0), miss(2, 256, 0)]
    (finding,) = found(events, "missed_shapes")
    assert finding.numbers == {"num_shapes": 3, "num_warnings": 6}
    assert "2 above the largest query length 256 (up to 999)" in finding.title
    assert "1 within every range" in finding.title
    assert finding.setting == "VLLM_BUCKETING_FROM_FILE"
    linear = [*start_up(config(VLLM_BUCKETING_STRATEGY="lin")), miss(1, 999, 0)]
    (finding,) = found(linear, "missed_shapes")
    assert finding.suggestion == "VLLM_PROMPT_QUERY_BUCKET_MAX=999"


def test_misses_give_lines_for_a_bucket_file():
    events = [*start_up(), miss(1, 999, 0, fallback=(1, 1024, 0))]
    (finding,) = found(events, "missed_shapes")
    assert finding.details == ("(1, 1024, 0)",)


def test_a_missed_shape_that_has_a_bucket_was_not_warmed():
    (finding,) = found([*start_up(), miss(1, 100, 0)], "missed_shapes")
    assert "1 have a bucket that was not warmed up" in finding.title


def test_the_post_mortem_projects_what_was_missing():
    """10, 9, 8, 7 GiB were free: 1 GiB a bucket, and 8 of 12 were never reached."""
    (finding,) = found(out_of_memory(free_bytes=6 * GIB), "out_of_memory")
    assert finding.numbers["bytes_per_bucket"] == GIB
    assert finding.numbers["never_reached"] == 8
    assert finding.numbers["shortfall_bytes"] == 3 * GIB
    assert finding.details[0] == "prompt (1, 640, 0)"
    assert finding.suggestion == "VLLM_GRAPH_RESERVED_MEM=0.15"


def test_the_probe_looks_at_the_runs_before():
    history = [summary_of(start_up(seconds=279.0), "bbb")]
    facts = facts_of(start_up(seconds=79.0), history)
    (finding,) = [f for f in advise(facts) if f.rule == "startup_probe"]
    assert finding.numbers["num_runs"] == 2
    assert finding.numbers["longest_s"] == 300
    assert finding.suggestion == "periodSeconds: 10, failureThreshold: 180"
    assert "startupProbe:" in finding.details


@pytest.mark.parametrize(
    ("name", "events", "figures"),
    [
        ("reserve_too_large", graphs_took(0.5), ("graph_reserved_bytes",)),
        ("reserve_too_large", graphs_took(0.5), ("decode_captured",)),
        ("blocks_beyond_cache", CASES["blocks_beyond_cache"][0][0], ("num_kv_blocks",)),
        ("memory_idle", idle(80, 0.5), ("total_bytes",)),
        ("recipe_cache", recipes(",false,1024"), ("warmup_s",)),
        ("startup_probe", start_up(), ("ready_s",)),
    ],
)
def test_nothing_is_built_on_contradictory_figures(name, events, figures):
    facts = facts_of(events)
    assert name in rules_of(facts)
    broken = contradicting(facts.summary, *figures)
    assert name not in rules_of(RunFacts(broken, facts.rows))


def test_a_block_size_that_the_cache_does_not_allow_gives_no_number_of_blocks():
    """64 KiB by the padding block's line, 16 MiB by what 4160 blocks took."""
    events = graphs_took(0.5)
    assert "reserve_too_large" in rules_of(facts_of(events))
    events[1:3] = [budget(padding_bytes=64 * 1024), cache(allocated_bytes=65 * GIB)]
    facts = facts_of(events, source_kind="log")
    assert "block_bytes" in contradictory(facts.summary)
    assert "reserve_too_large" not in rules_of(facts)


def test_a_process_killed_in_a_bucket_has_warmed_those_before_it():
    """The bucket that was running when the process ended is not one of the warmed."""
    events = killed()
    events[-1:-1] = [step("prompt", PROMPTS[1], is_finished=False)]
    (finding,) = found(events, "killed_in_warmup")
    assert "after 1 of 3 buckets" in finding.title


def test_lazy_capture_has_a_break_even():
    """67 graphs in 4 s at start, 0.5 s each later: 8 shapes cost as much."""
    (finding,) = found(lazy(3), "lazy_capture")
    assert finding.numbers["break_even_shapes"] == 8
    assert finding.suggestion == "keep capturing lazily"
    (finding,) = found(lazy(9), "lazy_capture")
    assert finding.suggestion == "capture at start"


def test_a_ratio_that_the_engine_printed_is_not_called_dead():
    events = simulate()[1]
    facts = facts_of([*events, config(VLLM_GRAPH_PROMPT_RATIO="0.3")])
    engine = {"name": "vllm-gaudi", "version": "0.26.0"}
    printed = RunFacts(changed(facts.summary, engine=engine))
    assert "dead_setting" not in rules_of(printed)
    unread = changed(printed.summary, memory={"graph_budget": None})
    assert "dead_setting" in rules_of(RunFacts(unread))


@pytest.mark.parametrize(
    ("version", "setting"),
    [("0.19.0", "VLLM_EXPONENTIAL_BUCKETING"), ("0.26.0", "VLLM_BUCKETING_STRATEGY")],
)
def test_ranges_get_the_variable_that_this_version_reads(version, setting):
    events = set_to("vllm-gaudi", version, "VLLM_DECODE_BS_BUCKET_MAX", "64")
    (finding,) = found(events, "overridden_ranges")
    assert finding.setting == setting
    assert finding.suggestion.startswith(f"{setting}=")
    assert finding.numbers["strategy"] == "exp"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0.26.0", (0, 26, 0)), ("v0.9.0.1+Gaudi-1.22.0", (0, 9, 0, 1)), ("main", None),
     (None, None), ("0.9.1.dev172+gd459fae0a.d20250604", (0, 9, 1))],
)  # fmt: skip
def test_versions_are_read(text, numbers):
    assert read_version(text) == numbers


def test_dead_settings_say_what_they_became():
    """A renamed or deprecated setting names its successor; an ignored one may have none."""
    assert all(
        life.instead for life in LIVES if life.state in ("renamed", "deprecated")
    )
    events = set_to("vllm-gaudi", "0.26.0", "VLLM_PROMPT_SEQ_BUCKET_STEP", "64")
    (finding,) = found(events, "dead_setting")
    assert "VLLM_PROMPT_QUERY_BUCKET_STEP" in finding.suggestion


def test_a_post_mortem_without_a_budget_lowers_the_utilisation():
    events = [
        started("vllm"), MemoryBudgetSet(total_bytes=80 * GIB, gpu_memory_utilization=0.9),
        Failure(failure="out_of_memory", message="no", free_bytes=GIB, needed_bytes=3 * GIB),
    ]  # fmt: skip
    (finding,) = found(events, "out_of_memory")
    assert finding.suggestion == "--gpu-memory-utilization 0.87"
    (finding,) = found([started(), *events[2:]], "out_of_memory")
    assert finding.setting == "VLLM_BUCKETING_FROM_FILE"


def test_a_post_mortem_without_a_shortfall_says_so():
    events = [started(), Failure(failure="out_of_memory", message="no", free_bytes=GIB)]
    (finding,) = found(events, "out_of_memory")
    assert "not known" in finding.effect
    assert finding.numbers == {"free_bytes": GIB}


def test_graphs_that_fit_nowhere_ask_for_fewer_buckets():
    (finding,) = found(simulate(total_bytes=40 * GIB)[1], "reserve_too_small")
    assert finding.setting == "VLLM_BUCKETING_FROM_FILE"
    assert finding.numbers["needed_bytes"] > 40 * GIB


def test_a_cache_that_no_utilisation_makes_room_for():
    (finding,) = found(cuda(kv_cache_bytes=-30 * GIB), "no_room_for_cache")
    assert finding.setting == "tensor_parallel_size"
    (finding,) = found(cuda(kv_cache_bytes=-GIB), "no_room_for_cache")
    assert finding.suggestion == "--gpu-memory-utilization above 0.92"
