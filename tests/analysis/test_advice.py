"""Every rule applies where it must, only there, and never without a number."""

from __future__ import annotations

import pytest

from tests.analysis.advice_cases import TIME_CASES, phased
from tests.analysis.builders import (
    DECODES,
    PROMPTS,
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
from tests.analysis.room_cases import ROOM_CASES, graphs_took, idle, killed
from warmup_insights.analysis.advice import RULES, Finding, Rule, RunFacts, advise
from warmup_insights.model.events import (
    BucketMiss,
    BucketUsed,
    CompileFinished,
    ConfigRecorded,
    Failure,
    GraphCaptured,
    GraphsCaptured,
    KVCacheAllocated,
    LazyCapture,
    Note,
    RunStarted,
    ServerReady,
    WarmupFinished,
)
from warmup_insights.rules.setting_lives import LIVES, read_version
from warmup_insights.units import MIB

MANY = [(1, 128 * n, 0) for n in range(1, 13)]


def timed(count, seconds=2.0, **more):
    buckets = [(1, 128 * n, 0) for n in range(1, count + 1)]
    return [
        started(), generated("prompt", buckets),
        *(step("prompt", b, duration_s=seconds, index=i + 1, total=count, **more)
          for i, b in enumerate(buckets)),
        *finished(),
    ]  # fmt: skip


def under_way(count, total, seconds):
    buckets = [(1, 128 * n, 0) for n in range(total, 0, -1)]
    return [
        started(), generated("prompt", buckets),
        *(step("prompt", b, duration_s=seconds, index=i + 1, total=total,
               time=1_000_020.0 + seconds * i)
          for i, b in enumerate(buckets[:count])),
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


CONTIGUOUS = config(use_contiguous_pa="True")

CASES = {
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
        [[*start_up(), miss(1, 999, 0)], [*start_up(), miss(2, 256, 0)],
         [started(), miss(1, 999, 0)]],
        [start_up(), [generated("prompt", PROMPTS), *skipped(miss(1, 9, 0))]],
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
    "warmup_under_way": (
        [under_way(4, 100, 10.0)],
        [under_way(2, 100, 10.0), under_way(4, 100, 1.0), [*under_way(4, 100, 10.0), *finished()],
         [*under_way(4, 100, 10.0), Failure(failure="error", message="RuntimeError: some text")]],
    ),
    "warmup_skipped": (
        [skipped(miss(1, 9, 0)), skipped()],
        [[*start_up(), miss(1, 9, 0)]],
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
            # Names of strategies are read since 0.20, others end the start before;
            # sequences of a prefill are set with it since 0.11.
            [*set_to("vllm-gaudi", "0.19.0", "VLLM_DECODE_BS_BUCKET_MAX", "64"),
             config(VLLM_BUCKETING_STRATEGY="linear_bucketing")],
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
    "startup_probe": (
        [start_up(seconds=150.0)],
        [[started()], killed(), start_up()],
    ),
    **ROOM_CASES,
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


@pytest.mark.parametrize(("name", "events"), cases(0))
def test_nothing_is_proposed_that_the_run_has(name, events):
    """Each rule is held against a run with all that was proposed for it."""
    proposed = [
        way.changes for each in found(events, name) for way in (each, *each.ways)
    ]
    for changes in proposed:
        facts = facts_of([*events[:1], config(**changes), *events[1:]])
        present = {key: str(value) for key, value in facts.summary.config.items()}
        for way in (way for each in advise(facts) for way in (each, *each.ways)):
            own = {key: str(value) for key, value in way.changes.items()}
            assert not own or not own.items() <= present.items()


def test_every_rule_is_explained_in_full():
    lacking = {
        rule.name: field
        for rule in RULES
        for field in ("applies_when", "needs", "formula", "margin", "source", "example")
        if not getattr(rule, field)
    }
    assert lacking == {}


def test_every_rule_has_both_cases():
    assert [rule.name for rule in RULES] == list(dict.fromkeys(r.name for r in RULES))
    of_other_starts = {"others_failed"}
    assert set(CASES) | of_other_starts == {rule.name for rule in RULES}
    assert all(all(sides) for sides in CASES.values())


def test_nothing_is_advised_on_nothing():
    assert advise(facts_of([])) == []
    assert advise(facts_of([RunStarted()])) == []


def test_advice_without_a_number_has_the_name_of_its_rule():
    made = Finding("low", "t", {}, "s", "c", "e")
    (finding,) = advise(facts_of([]), [Rule("x", "", "", lambda _: [made])])
    assert (finding.rule, finding.numbers) == ("x", {"rule": "x"})


def test_of_equal_weight_what_changes_nothing_comes_last():
    rules = [
        Rule("x", "", "", lambda _, t=text: [Finding("low", "t", {}, "s", t, "e")])
        for text in ("nothing: it is kept", "another disk")
    ]
    first, last = advise(facts_of([]), rules)
    assert (first.suggestion, last.suggestion) == (
        "another disk",
        "nothing: it is kept",
    )


def test_the_most_important_comes_first():
    rules = [
        Rule(
            "x",
            "",
            "",
            lambda _, s=severity: [Finding(s, "t", {"n": 1}, "s", "c", "e")],
        )
        for severity in ("low", "high", "medium")
    ]
    order = [finding.severity for finding in advise(facts_of([]), rules)]
    assert order == ["high", "medium", "low"]


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
    assert not finding.suggests_details


def test_misses_give_all_lines_of_a_bucket_file():
    shapes = [(1, 1024 + 128 * n, 0) for n in range(25)]
    events = [*start_up(), *(miss(*s, fallback=s) for s in shapes)]
    (finding,) = found(events, "missed_shapes")
    assert finding.details == tuple(map(str, shapes))
    assert finding.suggests_details


def test_a_missed_shape_that_has_a_bucket_was_not_warmed():
    (finding,) = found([*start_up(), miss(1, 100, 0)], "missed_shapes")
    assert "1 have a bucket that was not warmed up" in finding.title


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
        ("memory_plan", graphs_took(0.5), ("graph_reserved_bytes",)),
        ("memory_plan", graphs_took(0.5), ("decode_captured",)),
        ("blocks_beyond_cache", CASES["blocks_beyond_cache"][0][0], ("num_kv_blocks",)),
        ("memory_plan", idle(80, 0.5), ("total_bytes",)),
        ("recipe_cache", recipes(",false,1024"), ("warmup_s",)),
        ("startup_probe", start_up(seconds=150.0), ("ready_s",)),
    ],
)
def test_nothing_is_built_on_contradictory_figures(name, events, figures):
    facts = facts_of(events)
    assert name in rules_of(facts)
    broken = contradicting(facts.summary, *figures)
    assert name not in rules_of(RunFacts(broken, facts.rows))


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
     (None, None), ("0.9.1.dev172+gd459fae0a.d20250604", (0, 9, 1)),
     ("0.1.dev15917+g0a6396b45", None)],
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


def test_the_cache_of_the_reference_engine_is_as_large_as_its_settings_make_it():
    allocated = KVCacheAllocated(num_blocks=100, allocated_bytes=3 << 30)
    events = phased(("kv_cache", 19.0), extra=(allocated,), engine="reference")
    (found,) = [f for f in advise(facts_of(events)) if f.rule == "largest_part"]
    assert "--memory" in found.suggestion
    assert "3 GiB" in found.effect


def test_kept_graphs_that_take_long_to_read_want_a_nearer_disk():
    parts = (
        CompileFinished(what="dynamo", duration_s=17.4),
        CompileFinished(what="graph", duration_s=172.5, from_cache=True),
    )
    facts = facts_of(phased(("compile", 200.0), ("load_model", 30.0), extra=parts))
    (found,) = [f for f in advise(facts) if f.rule == "largest_part"]
    assert "local disk" in found.suggestion
    assert "2 min 52 s" in found.effect
