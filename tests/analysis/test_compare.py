"""Runs side by side: differences, directions, rounding, and what is not judged."""

from __future__ import annotations

import pytest

from tests.analysis.builders import (
    DECODES,
    PROMPTS,
    budget,
    cache,
    changed,
    config,
    contradicting,
    finished,
    generated,
    start_up,
    started,
    step,
    summarized,
    summary_of,
)
from warmup_insights.analysis.compare import compare, compare_settings
from warmup_insights.errors import InputError
from warmup_insights.model.events import (
    BenchmarkResult,
    BucketMiss,
    CaptureSummary,
    ConfigRecorded,
    GraphCaptured,
    KVCacheAllocated,
    RunStarted,
)
from warmup_insights.model.summary import MemoryFacts, TimePhase
from warmup_insights.units import GIB


def figure(result, name):
    return next(row for row in result.figures if row.name == name)


def verdicts(result, name):
    return [change.verdict for change in figure(result, name).changes]


def test_only_settings_that_differ_are_named():
    first = [started(), config(max_num_seqs=64, block_size=128, seed="0")]
    second = [started(), config(max_num_seqs=32, block_size=128, seed=0.0)]
    result = compare([summary_of(first), summary_of(second, "bbb")])
    assert [(row.name, row.values) for row in result.settings] == [
        ("max_num_seqs", (64, 32))
    ]
    assert result.partly_stated == ()


def test_a_configuration_printed_as_a_whole_is_compared_entry_by_entry():
    """In the spelling of any version; an entry without an end was cut, and is unknown."""
    python = (
        "{'mode': <CompilationMode.VLLM_COMPILE: 3>, 'backend': 'inductor', 'sizes': [1, 2], "
        "'pass_config': {'fuse': True, 'a': \"x,}\"}, 'path': '/a/b, c', 'last': [1, 2, 4"
    )
    json = (
        '{"mode":3,"backend":"eager","sizes":[1,2],'
        '"pass_config":{"fuse":true},"path":null}'
    )
    first = [started(), config(compilation_config=python, pooler_config="none")]
    second = [started(), config(compilation_config=json, pooler_config="none")]
    differing, partly = compare_settings([summary_of(first), summary_of(second, "b")])
    assert [(row.name, row.values) for row in differing] == [
        ("compilation_config.backend", ("inductor", "eager")),
        ("compilation_config.pass_config", (
            "{'fuse': True, 'a': \"x,}\"}", '{"fuse":true}')),
        ("compilation_config.path", ("/a/b, c", "null")),
    ]  # fmt: skip
    assert partly == ()


def test_an_argument_that_one_run_alone_was_given_has_its_default_in_the_other():
    """Where both engines list all arguments that were set."""

    def given(**settings):
        return ConfigRecorded(settings=settings, arguments=list(settings))

    first = [started(), given(model="a/b", enable_sleep_mode=True), config(seed=0)]
    second = [started(), given(model="a/b"), config(enable_sleep_mode=None)]
    differing, partly = compare_settings([summary_of(first), summary_of(second, "b")])
    assert [(row.name, row.values) for row in differing] == [
        ("enable_sleep_mode", (True, "default"))
    ]
    assert [row.name for row in partly] == ["seed"]


def test_an_entry_that_all_runs_state_besides_is_shown_once():
    first = [started(), config(kernel_config="{'mode': 1, 'a': 2}", mode=1)]
    second = [started(), config(kernel_config="{'mode': 2, 'a': 3}", mode=2)]
    differing, _ = compare_settings([summary_of(first), summary_of(second, "b")])
    assert [row.name for row in differing] == ["kernel_config.a", "mode"]


@pytest.mark.parametrize(
    "text", ["{% if a %}{{ b }}, c", "{}", "{", "KernelConfig(", "x", "{,}", "{1, 2}"]
)
def test_what_is_no_configuration_stays_one_setting(text):
    first = [started(), config(chat_template=text)]
    second = [started(), config(chat_template=text + "!")]
    differing, _ = compare_settings([summary_of(first), summary_of(second, "b")])
    assert [row.name for row in differing] == ["chat_template"]


def test_the_name_of_the_model_is_one_setting():
    """Engines print it as the tokenizer's and as the served one too, by default."""
    first, second, third = (
        summary_of(
            [RunStarted(engine="vllm", model=model),
             ConfigRecorded(settings={"tokenizer": model, "served_model_name": served})],
            run_id=model,
        )
        for model, served in (("o/a", "o/a"), ("o/b", None), ("o/c", "assistant"))
    )  # fmt: skip
    differing, partly = compare_settings([first, second])
    assert [row.name for row in differing] == ["model"]
    assert partly == ()
    differing, _ = compare_settings([first, third])
    names = [row.name for row in differing]
    assert sorted(names) == ["model", "served_model_name"]


def test_the_model_may_be_named_by_one_argument_or_the_other():
    def given(**settings):
        return ConfigRecorded(settings=settings, arguments=list(settings))

    first = [
        RunStarted(engine="vllm", model="o/a"),
        given(model="o/a", model_tag="o/a"),
    ]
    second = [RunStarted(engine="vllm", model="o/a"), given(model="o/a")]
    differing, _ = compare_settings([summary_of(first), summary_of(second, "b")])
    assert differing == ()


def test_a_number_that_is_printed_under_two_names_is_shown_once():
    printed = "SpeculativeConfig(method='mtp', num_spec_tokens={})"
    runs = [
        summary_of(
            [started(), config(speculative_config=printed.format(count),
             **{"speculative_config.num_speculative_tokens": count})],
            str(count),
        )
        for count in (1, 3)
    ]  # fmt: skip
    differing, _ = compare_settings(runs)
    assert [row.name for row in differing] == [
        "speculative_config.num_speculative_tokens"
    ]


def test_a_setting_that_one_run_does_not_state_is_no_difference():
    first, second = [started(), config(a="x")], [started()]
    result = compare([summary_of(first), summary_of(second, "bbb")])
    assert result.settings == ()
    assert [row.name for row in result.partly_stated] == ["a"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("true", True),
        ("1", True),
        ("off", False),
        ("0.90", 0.9),
        ("a ", "a"),
        ("LoadFormat.AUTO", "auto"),
        ("torch.bfloat16", "bfloat16"),
        ("", "None"),
        ('{"a":false,"b":[null]}', "{'a': False, 'b': [None]}"),
    ],
)
def test_values_that_mean_the_same_do_not_differ(one, other):
    pair = [[started(), config(x=one)], [started(), config(x=other)]]
    result = compare([summary_of(pair[0]), summary_of(pair[1], "bbb")])
    assert result.settings == ()


@pytest.mark.parametrize(
    ("one", "other"), [("true", "yes please"), (1, 2), ("1", "01a")]
)
def test_values_that_mean_something_else_differ(one, other):
    pair = [[started(), config(x=one)], [started(), config(x=other)]]
    result = compare([summary_of(pair[0]), summary_of(pair[1], "bbb")])
    assert [row.name for row in result.settings] == ["x"]


def test_changes_have_a_size_and_a_direction():
    first = summary_of(start_up(seconds=100.0))
    second = summary_of(
        [*start_up(seconds=80.0)[:2], cache(5000), *finished(80.0)], "bbb"
    )
    result = compare([first, second])
    (change,) = figure(result, "warmup_s").changes
    assert (change.absolute, change.percent, change.verdict) == (-20.0, -20.0, "better")
    assert verdicts(result, "num_kv_blocks") == ["better"]


def test_unknown_is_not_zero():
    """A figure that one run lacks has no change, however large the other is."""
    first = summary_of([started(), budget(), cache()])
    second = summary_of([started()], "bbb")
    result = compare([first, second])
    row = figure(result, "num_kv_blocks")
    assert row.values == (4160, None)
    assert (row.changes[0].absolute, row.changes[0].verdict) == (None, "unknown")


def test_differences_within_the_rounding_of_a_log_are_none():
    """14.03 and 14.04 GiB are neighbours, and so are 49 and 50 s."""
    sizes = [14.03 * GIB, 14.04 * GIB]
    runs = [
        summary_of(
            [
                *start_up(seconds=49.0 + i)[:-2],
                CaptureSummary(
                    phase="prompt", captured_reported=3, used_bytes=int(size)
                ),
                *finished(49.0 + i),
            ],
            f"run{i}",
            source_kind="log",
        )
        for i, size in enumerate(sizes)
    ]
    result = compare(runs)
    assert verdicts(result, "prompt_graph_used_bytes") == ["same"]
    assert verdicts(result, "warmup_s") == ["same"]
    exact = compare([changed(run, source={"kind": "recorder"}) for run in runs])
    assert verdicts(exact, "prompt_graph_used_bytes") == ["worse"]
    assert verdicts(exact, "warmup_s") == ["noise"]


@pytest.mark.parametrize(
    ("seconds", "wanted"),
    [(100.0, "same"), (93.0, "noise"), (108.0, "noise"), (85.0, "better"), (120.0, "worse")],
)  # fmt: skip
def test_a_time_within_a_tenth_is_not_judged_between_starts_that_were_measured(
    seconds, wanted
):
    pair = [
        summary_of(start_up(seconds=value), name)
        for value, name in ((100.0, "aaa"), (seconds, "bbb"))
    ]
    result = compare(pair)
    assert verdicts(result, "warmup_s") == [wanted]
    simulated = [changed(run, device={"kind": "simulated"}) for run in pair]
    exact = {"same": "same"}.get(wanted, "better" if seconds < 100 else "worse")
    assert verdicts(compare(simulated), "warmup_s") == [exact]


@pytest.mark.parametrize(
    ("seconds", "wanted"), [(4.0, "noise"), (12.0, "worse"), (0.5, "noise")]
)
def test_a_part_that_moved_by_little_of_the_start_is_not_judged(seconds, wanted):
    pair = [summary_of(start_up(seconds=s), f"run{s}") for s in (2.0, seconds)]
    whole = [changed(run, time={"wall_s": 240.0}) for run in pair]
    assert verdicts(compare(whole), "warmup_s") == [wanted]


def memory(run_id, source_kind="log", **sizes):
    summary = summary_of([started(engine="vllm")], run_id, source_kind=source_kind)
    whole = {name: round(size * GIB) for name, size in sizes.items()}
    return changed(summary, memory=MemoryFacts(**whole))


@pytest.mark.parametrize(
    ("before", "after"), [(62.10, 62.11), (62.11, 62.10), (7.02, 7.03)]
)
def test_sizes_one_step_apart_are_the_same(before, after):
    """Two roundings to hundredths of a GiB, and to whole bytes, lie between them."""
    pair = [memory("a", kv_cache_bytes=before), memory("b", kv_cache_bytes=after)]
    assert verdicts(compare(pair), "kv_cache_bytes") == ["same"]


def test_each_rounded_part_adds_to_the_doubt_about_a_sum():
    """Total less free: two sizes of each run are rounded."""
    pair = [
        memory("a", total_bytes=95.0, free_bytes=92.97, at_start_bytes=2.03),
        memory("b", total_bytes=95.0, free_bytes=92.99, at_start_bytes=2.01),
        memory("c", total_bytes=95.0, free_bytes=93.01, at_start_bytes=1.99),
    ]
    assert verdicts(compare(pair), "at_start_bytes") == ["same", "better"]


def test_a_size_that_differs_by_less_than_is_shown_is_the_same():
    """What is in use on a device differs by some MiB from start to start."""
    pair = [memory("a", "recorder", kv_cache_bytes=62.10),
            memory("b", "recorder", kv_cache_bytes=62.12)]  # fmt: skip
    assert verdicts(compare(pair), "kv_cache_bytes") == ["same"]


@pytest.mark.parametrize(
    ("before", "after", "percent"),
    [(100.0, 150.0, 50.0), (100.0, 1100.0, 1000.0), (100.0, 1200.0, None),
     (2.0, 3.0, None), (-1.0, 40.0, None), (100.0, 0.0, -100.0)],
)  # fmt: skip
def test_a_percentage_of_a_tiny_base_is_not_stated(before, after, percent):
    """Times of a log have whole seconds: 2 s is no base, and neither is less than none."""
    pair = [
        changed(summary_of([started()], run_id, source_kind="log"),
                time={"unlogged_s": seconds})
        for run_id, seconds in (("a", before), ("b", after))
    ]  # fmt: skip
    (change,) = figure(compare(pair), "unlogged_s").changes
    assert (change.absolute, change.percent) == (after - before, percent)


def test_what_cannot_be_judged_and_is_the_same_is_not_worth_showing():
    first = summary_of(start_up(device_name="Gaudi 2"))
    second = summary_of(start_up(device_name="Gaudi 3"), "bbb")
    row = figure(compare([first, second]), "kv_cache_bytes")
    assert row.changes[0].verdict == "not_comparable"
    assert not row.is_telling


DAY = "2026-03-01T10:00"


@pytest.mark.parametrize(("ready", "is_shown"), [("59", False), ("50", True)])
def test_the_time_to_ready_is_named_once(ready, is_shown):
    """A log that ends with the start is as long as the time to ready."""
    pair = [
        changed(
            summary_of([started()], run_id),
            time={
                "started_at": f"{DAY}:00+00:00",
                "ready_at": f"{DAY}:{r}+00:00",
                "wall_s": w,
            },
        )
        for run_id, r, w in (("a", "30", 30.0), ("b", ready, 59.0))
    ]
    result = compare(pair)
    assert figure(result, "ready_s").is_telling
    assert figure(result, "wall_s").is_telling == is_shown


@pytest.mark.parametrize("name", ["profile_bytes", "weights_bytes"])
def test_what_no_start_is_without_is_not_better_for_being_unmeasured(name):
    sizes = (1, 0, 2)
    runs = [memory(str(n), "recorder", **{name: size}) for n, size in enumerate(sizes)]
    assert verdicts(compare(runs), name) == ["unknown", "worse"]
    assert verdicts(compare(runs[::-1]), name) == ["unknown", "better"]


def test_contradictory_figures_are_not_judged():
    first, second = (summary_of(start_up(seconds=s), str(s)) for s in (10.0, 99.0))
    result = compare([first, contradicting(second, "warmup_s", "phase:warmup")])
    assert figure(result, "warmup_s").values == (10.0, 99.0)
    assert verdicts(result, "warmup_s") == ["not_comparable"]
    assert verdicts(result, "wall_s") == ["worse"]
    assert "the evidence for it contradicts itself: warm-up, warmup" in result.notes[0]


def test_other_devices_of_a_kind_compare_counts_but_not_times_and_sizes():
    first = summary_of(start_up(seconds=10.0, device_name="Gaudi 2"))
    second = summary_of(start_up(seconds=99.0, device_name="Gaudi 3"), "bbb")
    result = compare([first, second])
    assert verdicts(result, "warmup_s") == ["not_comparable"]
    assert verdicts(result, "kv_cache_bytes") == ["not_comparable"]
    assert verdicts(result, "misses") == ["same"]
    assert any("Gaudi 2, Gaudi 3" in note for note in result.notes)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"device_kind": "cuda"}, "the kinds of device differ (hpu, cuda)"),
        ({"model": "owner/other"}, "the models differ (m, other)"),
    ],
)
def test_another_model_or_kind_of_device_is_shown_and_not_judged(other, reason):
    first = summary_of(start_up(seconds=10.0))
    result = compare([first, summary_of(start_up(seconds=99.0, **other), "bbb")])
    judged = {change.verdict for row in result.figures for change in row.changes}
    assert judged <= {"not_comparable", "unknown"}
    assert figure(result, "warmup_s").values == (10.0, 99.0)
    assert any(reason in note for note in result.notes)


def test_the_folder_of_a_model_is_no_other_model():
    first = summary_of(start_up(seconds=10.0))
    second = summary_of(start_up(seconds=99.0, model="/data/hub/M"), "bbb")
    assert verdicts(compare([first, second]), "warmup_s") == ["worse"]


def test_a_simulated_run_is_not_held_against_a_real_one():
    first = summary_of(start_up())
    second = summary_of(start_up(synthetic=True), "bbb")
    result = compare([first, second])
    assert verdicts(result, "warmup_s") == ["not_comparable"]
    assert "simulated" in result.notes[0]
    assert [run.made_up for run in result.runs] == [None, "synthetic"]


def test_other_numbers_of_ranks_do_not_compare_shares_of_a_model():
    ranks = [step("prompt", PROMPTS[0], rank=rank) for rank in range(2)]
    one, two = ([*start_up()[:-2], *ranks[:n], *finished()] for n in (1, 2))
    result = compare([summary_of(one), summary_of(two, "bbb")])
    assert verdicts(result, "kv_cache_bytes") == ["not_comparable"]
    assert verdicts(result, "warmup_s") == ["same"]


def test_requests_of_another_length_are_not_better_for_being_shorter():
    runs = [
        summary_of(
            [
                *start_up()[:-2],
                config(max_model_len=length),
                KVCacheAllocated(
                    num_blocks=1000, max_concurrency=fits, time=1_000_003.0
                ),
            ],
            name,
        )
        for length, fits, name in ((4096, 31.25, "aaa"), (2048, 62.5, "bbb"))
    ]
    result = compare(runs)
    assert verdicts(result, "max_concurrency") == ["not_comparable"]
    assert any("4,096 and 2,048 tokens" in note for note in result.notes)


@pytest.mark.parametrize(
    ("version", "blocks", "verdict"),
    [("0.25.1", None, "not_comparable"), ("0.25.1", 62_596, "worse"), ("0.19.0", None, "worse")],
)  # fmt: skip
def test_tokens_of_requests_of_another_length_are_no_measure_of_a_cache(
    version, blocks, verdict
):
    """vLLM since 0.20.1, layers with a window: 35.06 GiB were 1,001,532 tokens of requests
    of 262,144, and 35.2 GiB 950,420 of 65,536."""
    runs = [
        summary_of(
            [
                RunStarted(engine="vllm", version=version, device_kind="cuda"),
                config(max_model_len=length, block_size=16),
                KVCacheAllocated(
                    num_blocks=blocks, num_tokens=tokens, max_concurrency=fits,
                    time=1_000_003.0,
                ),
            ],
            name,
        )
        for length, tokens, fits, name in (
            (262_144, 1_001_532, 3.82, "aaa"), (65_536, 950_420, 15.28, "bbb"),
        )
    ]  # fmt: skip
    result = compare(runs)
    assert verdicts(result, "kv_cache_tokens") == [verdict]
    assert ("How many tokens and" in str(result.notes)) == (verdict != "worse")


def test_what_engines_log_as_captured_differs_between_engines():
    line = CaptureSummary(phase="prompt", captured_reported=3)
    more = CaptureSummary(phase="prompt", captured_reported=2)
    first = summary_of(start_up(line))
    second = summary_of(start_up(more, engine="vllm-fork"), "bbb")
    assert verdicts(compare([first, second]), "prompt_captured_reported") == [
        "not_comparable"
    ]


def test_bucket_sets_are_compared_with_their_costs():
    old = summarized(
        [
            *start_up()[:-2],
            *(step("prompt", bucket, duration_s=1.0) for bucket in PROMPTS),
            *finished(),
        ]
    )
    changed = [(1, 128, 0), (1, 256, 0), (4, 128, 0)]
    new = summarized(
        [
            started(), budget(), cache(), generated("prompt", changed),
            generated("decode", DECODES),
            step("prompt", changed[0], duration_s=3.0),
            step("prompt", changed[1], duration_s=1.05),
            step("prompt", changed[2], duration_s=2.0),
            *finished(),
        ],
        "bbb",
    )  # fmt: skip
    result = compare([old.summary, new.summary], [old.rows, new.rows])
    prompt = next(change for change in result.buckets if change.phase == "prompt")
    assert (prompt.added, prompt.removed) == (((4, 128, 0),), ((2, 128, 0),))
    assert (prompt.num_common, prompt.added_cost_s, prompt.removed_cost_s) == (
        2,
        2.0,
        1.0,
    )
    assert [cost.bucket for cost in prompt.slower] == [(1, 128, 0)]
    assert prompt.faster == ()


def test_a_bucket_that_got_a_graph_is_not_called_slower():
    steps = [step("prompt", bucket, duration_s=1.0) for bucket in PROMPTS]
    graphs = [
        GraphCaptured(phase="prompt", bucket=bucket, duration_s=5.0, memory_bytes=9)
        for bucket in PROMPTS
    ]
    old = summarized([*start_up(*steps, graphs[0])])
    new = summarized([*start_up(*steps, *graphs[:2])], "bbb")
    result = compare([old.summary, new.summary], [old.rows, new.rows])
    prompt = next(change for change in result.buckets if change.phase == "prompt")
    assert (prompt.captured, prompt.uncaptured) == (((1, 256, 0),), ())
    assert prompt.slower == ()


def test_lists_of_other_dimensions_are_not_compared():
    flat = [started(), generated("prompt", [(1, 128), (2, 128)])]
    result = compare([summary_of(flat), summary_of(start_up(), "bbb")])
    prompt = next(change for change in result.buckets if change.phase == "prompt")
    assert prompt.added is None
    assert prompt.reason == "one has 2 dimensions and the other 3"


def test_misses_of_all_runs_are_put_together():
    miss = BucketMiss(phase="decode", shape=(3, 1, 99), count=4)
    first = summary_of([*start_up(), miss])
    second = summary_of(start_up(), "bbb")
    third = summary_of([started()], "ccc")
    result = compare([first, second, third])
    (row,) = result.misses
    assert (row.shape, row.counts) == ((3, 1, 99), (4, 0, None))


def test_benchmarks_are_figures_with_a_direction():
    def run(run_id, throughput, latency):
        values = {
            "request_throughput": throughput,
            "mean_ttft_ms": latency,
            "x": "text",
        }
        return summary_of([*start_up(), BenchmarkResult(values=values)], run_id)

    result = compare([run("aaa", 10.0, 5.0), run("bbb", 12.0, 7.0)])
    assert verdicts(result, "bench_request_throughput") == ["better"]
    assert verdicts(result, "bench_mean_ttft_ms") == ["worse"]
    assert not any("x" in row.name.split("_") for row in result.figures)


def test_phases_add_their_stretches():
    """Prompt graphs come in two stretches in the V0 engines: one figure."""
    phases = [
        TimePhase(name="prompt_graphs", start_s=0, duration_s=2.0),
        TimePhase(name="decode_graphs", start_s=2, duration_s=3.0),
        TimePhase(name="prompt_graphs", start_s=5, duration_s=1.0),
    ]
    summary = changed(summary_of([started()]), time={"phases": phases})
    result = compare([summary, summary_of([started()], "bbb")])
    assert [(row.name, row.values) for row in result.phases] == [
        ("prompt_graphs", (3.0, None)), ("decode_graphs", (3.0, None)),
    ]  # fmt: skip


def test_the_memory_budget_of_each_run_is_there():
    result = compare([summary_of(start_up()), summary_of([started()], "bbb")])
    assert [part.name for part in result.memory[0]] == [
        "other",
        "margin",
        "graphs",
        "kv_cache",
    ]
    assert result.memory[1] == ()


def test_one_run_cannot_be_compared():
    with pytest.raises(InputError, match="One run cannot be compared"):
        compare([summary_of(start_up())])


def test_a_run_against_itself_is_refused():
    with pytest.raises(InputError, match="named twice"):
        compare([summary_of(start_up()), summary_of(start_up())])


def test_cache_without_blocks_is_unknown():
    first = summary_of([started(), KVCacheAllocated(num_tokens=4096)])
    second = summary_of([started(), cache()], "bbb")
    assert verdicts(compare([first, second]), "num_kv_blocks") == ["unknown"]


def test_times_of_a_cold_and_a_warm_start_are_shown_and_not_judged():
    cold = changed(summary_of(start_up(seconds=99.0)), start={"kind": "cold"})
    warm = changed(summary_of(start_up(seconds=9.0), "bbb"), start={"kind": "warm"})
    result = compare([cold, warm])
    assert verdicts(result, "warmup_s") == ["not_comparable"]
    assert verdicts(result, "kv_cache_bytes") == ["same"]
    assert "the starts are of different kinds (cold; warm)" in result.notes[0]
    assert ("kind of start", ("cold", "warm")) in [
        (row.name, row.values) for row in result.settings
    ]
    unknown = changed(warm, run_id="ddd", start={"kind": None})
    result = compare([changed(warm, start={"kind": "skipped"}), unknown])
    assert verdicts(result, "warmup_s") == ["not_comparable"]
    assert "one start is skipped, the kind of the other is unknown" in result.notes[0]
    neither = [unknown, changed(unknown, run_id="eee")]
    assert verdicts(compare(neither), "warmup_s") == ["same"]
    again = changed(warm, run_id="ccc")
    assert verdicts(compare([warm, again]), "warmup_s") == ["same"]


def test_what_is_not_judged_of_some_runs_names_them():
    first, same = summary_of(start_up()), summary_of(start_up(), "bbb")
    others = [
        summary_of(start_up(model="o/other"), run_id) for run_id in ("ccc", "ddd")
    ]
    note = "No figure is judged better or worse: the models differ (m, other)."
    assert compare([first, others[0]]).notes == (note,)
    assert compare([first, *others]).notes == (note,)
    assert compare([first, same, *others]).notes == (f"C, D: {note}",)


@pytest.mark.parametrize("how", ["failed", "stopped"])
def test_a_start_that_did_not_end_was_not_quicker(how):
    whole, broken = (
        summary_of(start_up(seconds=seconds), run_id)
        for seconds, run_id in ((9.0, "a"), (3.0, "b"))
    )
    result = compare([whole, changed(broken, status=how)])
    assert figure(result, "wall_s").changes[0].absolute < 0
    assert "better" not in verdicts(result, "wall_s")
    assert f"Times are not judged: one start {how} before ready." in result.notes


def test_lines_without_the_beginning_are_not_held_against_a_whole_start():
    whole, part = (
        summary_of(start_up(seconds=seconds), run_id)
        for seconds, run_id in ((9.0, "a"), (3.0, "b"))
    )
    part = changed(part, time={"is_excerpt": True})
    result = compare([whole, part])
    assert verdicts(result, "wall_s") == ["not_comparable"]
    assert "not_comparable" not in verdicts(result, "warmup_s")
    note = "Start-up and unlogged time are not judged: a log lacks the beginning of its start."
    assert note in result.notes
