"""What failed runs and runs with badly divided memory are told, figure by figure."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.analysis.builders import (
    budget,
    cache,
    changed,
    config,
    facts_of,
    generated,
    simulate,
    start_up,
    started,
    step,
    summary_of,
)
from tests.analysis.room_cases import (
    CONNECTING,
    NO_LINE,
    PROMPTS,
    SHORT,
    WAITED,
    buckets_then,
    cuda,
    ended,
    graphs_took,
    idle,
    killed,
    served,
    sized,
    weights,
)
from tests.helpers import events
from warmup_insights.analysis.advice import FAILURE_RULES, RULES, RunFacts, advise
from warmup_insights.analysis.advice.ways import more_devices
from warmup_insights.analysis.sentences import cause_text
from warmup_insights.export.findings import finding_lines, findings_markdown
from warmup_insights.model.events import (
    ConfigRecorded,
    Failure,
    GraphMemoryEstimated,
    GraphsCaptured,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    Note,
    PhaseMarked,
    ServerReady,
    ServingFailure,
    SleepModeChanged,
    WarmupFinished,
)
from warmup_insights.model.failure_text import figures_of
from warmup_insights.model.figures import contradictory
from warmup_insights.model.summary import FailureFacts
from warmup_insights.testing import folded
from warmup_insights.units import GIB, MIB

CAUSES = {rule.name for rule in FAILURE_RULES}
FIELDS = ("needed_bytes", "free_bytes", "total_bytes", "process_bytes",
          "allocated_bytes", "unallocated_bytes")  # fmt: skip
DIVIDED = ("total_bytes", "free_bytes", "usable_bytes", "kv_cache_bytes",
           "weights_bytes", "graph_reserved_bytes")  # fmt: skip
LOADING = PhaseMarked(name="load_model", edge="start", time=1_000_002.0)


def only(events, name, **more):
    found = [f for f in advise(facts_of(events, **more)) if f.rule == name]
    assert len(found) == 1
    return found[0]


def ways_of(finding):
    """The suggestion and the other ways, each with its price."""
    first = (finding.suggestion, finding.price)
    return [first, *((way.suggestion, way.price) for way in finding.ways)]


def test_a_shorter_length_is_within_the_estimate_of_the_engine():
    finding = only(ended("no_kv_cache", **SHORT), "kv_cache_too_small")
    assert finding.changes == {"max_model_len": 119392}
    assert "(at most 121840)" in finding.suggestion
    assert finding.numbers["line"] == 7


def test_a_length_in_tokens_alone_still_names_the_utilisation():
    short = {"max_model_len": 4096, "estimated_model_len": 3664}
    finding = only(ended("no_kv_cache", "no", **short), "kv_cache_too_small")
    assert finding.changes == {"max_model_len": 3584}
    assert any("--gpu-memory-utilization" in way for way, _ in ways_of(finding))


def test_a_length_that_serves_another_purpose_comes_last():
    """1,792 of 131,072 tokens in 596 MiB: 72 times as much is no share of a device."""
    known = [
        config(max_model_len=131_072, gpu_memory_utilization=0.9), weights(80),
        budget(total_bytes=96 * GIB, kv_cache_bytes=596 * MIB, free_bytes=736 * MIB,
               graph_reserved_bytes=None, usable_bytes=662 * MIB),
    ]  # fmt: skip
    failure = {"max_model_len": 131_072, "estimated_model_len": 1792}
    finding = only(ended("no_kv_cache", "no", *known, **failure), "kv_cache_too_small")
    assert not finding.suggestion.startswith("--max-model-len")
    assert tuple(
        way.split(" (")[0] for way, _ in ways_of(finding) if "model-len" in way
    ) == ("--max-model-len 1744",)
    (share,) = [way for way in finding.ways if "utilization" in way.suggestion]
    assert share.suggestion == "a higher --gpu-memory-utilization alone"
    assert share.kind == "no help"


def test_a_model_s_warm_up_without_room_takes_it_from_the_cache():
    start = ended("out_of_memory", "no", weights(10), phase="model_warmup")
    assert only(start, "out_of_memory").suggestion == "a lower --gpu-memory-utilization"


def test_a_graph_without_room_needs_more_than_its_own():
    """120 MiB that no tensor used are not what the graphs that follow need."""
    start = [
        started("vllm", device_kind="cuda"), config(tensor_parallel_size=2), weights(10),
        KVCacheAllocated(num_tokens=8192),
    ]  # fmt: skip
    failure = Failure(
        failure="out_of_memory", message="no", phase="graph_capture", line=9,
        needed_bytes=2 * MIB, free_bytes=MIB, total_bytes=48 * GIB,
        unallocated_bytes=120 * MIB,
    )  # fmt: skip
    finding = only([*start, failure], "out_of_memory")
    assert not finding.suggestion.startswith("PYTORCH_CUDA_ALLOC_CONF")
    assert any(way.startswith("PYTORCH_CUDA_ALLOC_CONF") for way, _ in ways_of(finding))
    assert finding.effect.endswith("for this graph; those that follow need more")


def test_others_that_hold_most_of_a_device_are_ended_first():
    """5.92 of 79.19 GiB were free: a utilisation of 0.06 would hold no model."""
    finding = only(
        ended("out_of_memory", free_bytes=int(5.92 * GIB), needed_bytes=int(71.27 * GIB),
              total_bytes=int(79.19 * GIB), wanted_utilization=0.9),
        "memory_taken",
    )  # fmt: skip
    assert finding.suggestion.startswith("end what else holds memory")
    assert "73.27 GiB were in use" in finding.title
    assert finding.changes == {}
    assert all("utilization" not in way for way, _ in ways_of(finding))


def test_an_intel_device_without_any_free_memory_may_only_not_state_it():
    failure = ended(
        "out_of_memory", free_bytes=0, needed_bytes=int(27.27 * GIB),
        total_bytes=int(30.3 * GIB), wanted_utilization=0.9,
    )  # fmt: skip
    finding = only([started("vllm", device_kind="xpu"), failure[-1]], "memory_taken")
    assert finding.suggestion.startswith("a driver (intel-compute-runtime)")
    assert "in use" not in finding.title


def test_a_sampler_that_ran_out_of_memory_gets_fewer_requests():
    message = (
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 dummy "
        "requests. Please try lowering `max_num_seqs` or `gpu_memory_utilization`"
    )
    finding = only(ended("out_of_memory", message), "out_of_memory")
    assert finding.changes == {"max_num_seqs": 128}
    assert finding.price == "at most 128 requests at once"


def test_a_program_that_takes_more_than_the_device_misses_the_difference():
    """XLA states 96.2 G of 94.75 G, and nothing of what was free."""
    sizes = {"needed_bytes": int(96.2 * GIB), "total_bytes": int(94.75 * GIB)}
    finding = only(ended("out_of_memory", "no", **sizes), "out_of_memory")
    assert finding.numbers["shortfall_bytes"] == pytest.approx(1.45 * GIB, abs=10)


def test_ranks_that_printed_lines_are_counted_as_devices():
    lines = [
        MemoryMeasured(stage="weights", delta_bytes=GIB, rank=rank) for rank in (0, 1)
    ]
    finding = only(ended("out_of_memory", "no", *lines), "out_of_memory")
    assert any("--tensor-parallel-size 4" in way for way, _ in ways_of(finding))


@pytest.mark.parametrize(("percent", "num_lines", "applies"),
                         [(4.0, 40, False), (97.0, 40, True), (4.0, 3, True)])  # fmt: skip
def test_a_cache_that_was_never_full_gets_no_more(percent, num_lines, applies):
    values = {
        "usage_percent": percent,
        "num_lines": num_lines,
        "running": 3,
        "waiting": 0,
    }
    events = [*sized(50, 1.2, 64), Note(topic="usage", text="lines", values=values)]
    first = [
        each
        for each in advise(facts_of(sized(50, 1.2, 64)))
        if each.rule == "memory_plan"
    ]
    found = [each for each in advise(facts_of(events)) if each.rule == "memory_plan"]
    assert bool(found) == (applies and bool(first))


def test_a_cache_of_8_bits_is_enough_where_half_fits():
    half = [config(dtype="torch.bfloat16", kv_cache_dtype="auto")]
    finding = only(ended("no_kv_cache", "no", *half, **SHORT), "kv_cache_too_small")
    (way,) = [way for way in finding.ways if "kv_cache_dtype" in way.changes]
    assert way.changes == {"kv_cache_dtype": "fp8"}
    already = [config(dtype="torch.bfloat16", kv_cache_dtype="fp8")]
    finding = only(ended("no_kv_cache", "no", *already, **SHORT), "kv_cache_too_small")
    assert not any("kv_cache_dtype" in way.changes for way in finding.ways)


@pytest.mark.parametrize(
    ("free_gib", "share", "text"),
    [(78.0, 0.5, "--gpu-memory-utilization 0.62"), (78.0, 0.9, "does not help"),
     (45.0, 0.5, "does not help: 0.55 is the most")],
)  # fmt: skip
def test_a_utilisation_is_offered_only_as_far_as_memory_was_free(free_gib, share, text):
    memory = MemoryBudgetSet(total_bytes=80 * GIB, free_bytes=int(free_gib * GIB),
                             gpu_memory_utilization=share)  # fmt: skip
    finding = only(ended("no_kv_cache", "no", memory, **SHORT), "kv_cache_too_small")
    assert any(text in f"{way}: {price}" for way, price in ways_of(finding))


def test_the_device_follows_from_the_estimate_and_two_utilisations():
    """2.55 GiB are 0.021 of the device: 121.4 GiB, at least 120.9."""
    known = [
        config(gpu_memory_utilization=0.89),
        MemoryBudgetSet(gpu_memory_utilization=0.89),
        GraphMemoryEstimated(
            estimated_bytes=int(2.55 * GIB), utilization_without=0.869
        ),
    ]
    finding = only(ended("no_kv_cache", "no", *known, **SHORT), "kv_cache_too_small")
    assert any("0.97 alone" in way for way, _ in ways_of(finding))


def test_an_estimate_too_coarse_for_a_device_gives_no_utilisation():
    known = [
        MemoryBudgetSet(gpu_memory_utilization=0.94),
        GraphMemoryEstimated(
            estimated_bytes=int(0.06 * GIB), utilization_without=0.9393
        ),
    ]
    finding = only(ended("no_kv_cache", "no", *known, **SHORT), "kv_cache_too_small")
    assert any("the log does not hold" in price for _, price in ways_of(finding))


def test_weights_that_were_still_loading_are_counted_by_the_name_of_the_model():
    """14B of 16 bits are 26.08 GiB: no utilisation helps on 15.47, two devices do."""
    start = [started("vllm", device_kind="cuda", model="a/Some-14B-Instruct"),
             config(tensor_parallel_size=1), LOADING]  # fmt: skip
    failure = Failure(
        failure="out_of_memory", message="no", needed_bytes=2 * GIB,
        free_bytes=115 * MIB, total_bytes=int(15.47 * GIB), line=9,
    )  # fmt: skip
    finding = only([*start, failure], "weights_too_large")
    assert "roughly 26 GiB by the model's name" in finding.title
    ways = ways_of(finding)
    assert any("--tensor-parallel-size 4" in way for way, _ in ways)
    assert finding.suggestion == "weights of fewer bits"
    assert ways[-1][1].startswith("does not help")


def test_weights_of_4_bits_that_may_not_fit_either_come_after_more_devices():
    """Embeddings and the last layer keep 16 bits: a third to two fifths remain."""
    start = [
        started("vllm", device_kind="cuda"),
        config(tensor_parallel_size=1),
        LOADING,
    ]
    known = weights(15)
    failure = Failure(failure="out_of_memory", message="no", total_bytes=6 * GIB)
    finding = only([*start, known, failure], "weights_too_large")
    assert finding.suggestion.startswith("--tensor-parallel-size 4")
    way, price = next(each for each in ways_of(finding) if "4 bits" in each[0])
    assert way.endswith("about 5.0 to 6.0 GiB of 15 GiB remain")
    assert price.startswith("more than 85 % of the device may remain")


def test_a_refused_tensor_is_most_likely_memory():
    refused = '"aten::empty_strided" API call failed'
    events = [*start_up(), ServingFailure(failure="out_of_memory", message=refused)]
    assert only(events, "out_of_memory_serving").title.startswith(
        "Memory most likely ran out"
    )
    finding = only(ended("out_of_memory", refused), "out_of_memory")
    assert finding.title.startswith("The start most likely ran out of memory")


def test_a_program_that_does_not_fit_while_weights_are_loaded_is_none_of_them():
    """tpu-inference quantises weights that are on the device in one compiled program."""
    message = (
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total "
        "memory required for HLO temporaries (18.5G) exceeds available HBM (15.75G)."
    )
    events = [
        started("tpu-inference", device_kind="tpu"), config(max_num_batched_tokens=4096),
        Failure(failure="out_of_memory", message=message, phase="load_model", line=31),
    ]  # fmt: skip
    finding = only(events, "out_of_memory")
    assert not any("batched" in way.suggestion for way in finding.ways)


def test_a_device_that_others_hold_is_not_full_of_weights():
    """3 of 15.47 GiB are this process's, and 12.35 GiB are neither its own nor free."""
    failure = Failure(
        failure="out_of_memory", message="no", needed_bytes=GIB, free_bytes=115 * MIB,
        total_bytes=int(15.47 * GIB), process_bytes=3 * GIB,
    )  # fmt: skip
    finding = only([started("vllm"), LOADING, failure], "out_of_memory")
    assert "end what else holds 12.36 GiB" in finding.suggestion
    assert finding.effect == "909 MiB of room at least, as much as was missing"


@pytest.mark.parametrize(
    "model", ["a/8x7B", "a/Some-model", "a/Qwen3-A3B", "a/17B-16E", "a/MoE-1B-7B"]
)
def test_a_name_that_states_no_size_gives_none(model):
    start = [started("vllm", device_kind="cuda", model=model), LOADING]
    failure = Failure(failure="out_of_memory", message="no", total_bytes=16 * GIB)
    finding = only([*start, failure], "weights_too_large")
    assert "name" not in finding.title
    assert "weights_by_name_bytes" not in finding.numbers


def test_more_devices_until_the_weights_fit():
    """60 GiB of weights need eight devices of 16: 7.5 of 13.6 GiB, four would have 15."""
    events = ended("out_of_memory", "no", weights(60), total_bytes=16 * GIB)
    finding = only(events, "weights_too_large")
    assert finding.changes == {"tensor_parallel_size": 8}


@pytest.mark.parametrize(
    ("kind", "settings", "ranks", "size", "price"),
    [
        ("cuda", {"tensor_parallel_size": 4, "data_parallel_size": 2}, 8, 8,
         "8 devices for each of 2 engines"),
        ("cuda", {"tensor_parallel_size": 2, "pipeline_parallel_size": 2}, 4, 4, "8 devices;"),
        ("cuda", {"data_parallel_size": 2}, 4, 4, "4 devices for each of 2 engines"),
        ("tpu", {"tensor_parallel_size": 4, "data_parallel_size": 2}, 1, 8, "8 devices;"),
        ("tpu", {}, 1, None, "more devices"),
    ],
)  # fmt: skip
def test_more_devices_share_the_weights_of_one_engine(
    kind, settings, ranks, size, price
):
    events = [
        started("vllm", device_kind=kind), config(**settings),
        ConfigRecorded(num_ranks=ranks),
        *ended("no_kv_cache", "no", MemoryBudgetSet(kv_cache_bytes=-GIB))[1:],
    ]  # fmt: skip
    finding = only(events, "no_room_for_cache")
    ways = [way for way in finding.ways if "tensor-parallel" in way.suggestion]
    assert [way.changes.get("tensor_parallel_size") for way in ways] == [size]
    assert ways[0].price.startswith(price)


def test_an_allocation_that_failed_beside_free_memory_is_no_lack_of_room():
    """256 MiB in a bucket with 95.41 GiB free: neither utilisation nor buckets help."""
    events = [
        started(), budget(gpu_memory_utilization=0.02), cache(),
        generated("prompt", PROMPTS),
        step("prompt", PROMPTS[0], free_before_bytes=int(95.41 * GIB), is_finished=False),
        Failure(failure="out_of_memory", message="no", needed_bytes=256 * MIB),
    ]  # fmt: skip
    finding = only(events, "allocation_refused")
    assert "256 MiB could not be had while 95.41 GiB" in finding.title
    assert finding.changes == {}
    assert finding.ways[0].price.startswith("does not help")


def test_what_was_free_before_a_bucket_its_own_run_may_have_taken():
    """3 GiB in a bucket that began with 15 GiB free: the log has no figure of the failure."""
    events = [
        started(), budget(gpu_memory_utilization=0.9), cache(),
        generated("prompt", PROMPTS),
        step("prompt", PROMPTS[0], free_before_bytes=15 * GIB, is_finished=False),
        Failure(failure="out_of_memory", message="no", needed_bytes=3 * GIB),
    ]  # fmt: skip
    finding = only(events, "out_of_memory")
    assert "15 GiB were free before that bucket ran" in finding.title


def test_a_cache_below_zero_names_the_utilisation_that_gives_a_block():
    finding = only(cuda(kv_cache_bytes=-GIB)[:2], "no_room_for_cache")
    assert any(
        way.changes == {"gpu_memory_utilization": 0.92} for way in finding.ways
    ) or finding.changes == {"gpu_memory_utilization": 0.92}


def test_more_missing_than_the_weights_points_to_other_programs():
    memory = [weights(8.5), MemoryBudgetSet(kv_cache_bytes=-26 * GIB)]
    finding = only(ended("no_kv_cache", "no", *memory), "no_room_for_cache")
    assert "one after another" in finding.suggestion
    assert "17.5 GiB were taken besides the weights" in finding.price


def test_an_engine_that_failed_with_nothing_for_the_cache_had_no_room():
    memory = MemoryBudgetSet(kv_cache_bytes=-3 * GIB)
    finding = only(
        ended("error", "EngineCore failed to start.", memory), "no_room_for_cache"
    )
    assert finding.title == "-3 GiB were left for the KV cache (line 7)."


def test_memory_that_ran_out_while_serving_gets_one_and_a_half_times_the_need():
    finding = only(
        served("out_of_memory", needed_bytes=4 * GIB), "out_of_memory_serving"
    )
    assert finding.changes == {"gpu_memory_utilization": 0.82}


def test_a_margin_that_was_not_enough_is_doubled_where_the_need_is_unknown():
    """2 GiB of 80 were left; 3 % of the device are more."""
    finding = only(served("out_of_memory"), "out_of_memory_serving")
    assert finding.changes == {"gpu_memory_utilization": 0.87}
    assert finding.numbers["margin_bytes"] == 2 * GIB


def test_a_fixed_number_of_blocks_is_what_must_shrink():
    fixed = [config(num_gpu_blocks_override=1000), KVCacheAllocated(num_blocks=2560)]
    finding = only(served("out_of_memory", *fixed), "out_of_memory_serving")
    assert set(finding.changes) <= {"num_gpu_blocks_override"}
    assert "--num-gpu-blocks-override" in finding.suggestion


def test_on_hpu_the_utilisation_is_of_what_was_free():
    """1.5 x 4 GiB of 80 free are 0.075: 0.9 becomes 0.82, which costs 6.4 GiB."""
    failure = ServingFailure(
        failure="out_of_memory", message="no", needed_bytes=4 * GIB
    )
    finding = only([*start_up(), failure], "out_of_memory_serving")
    assert finding.changes == {"gpu_memory_utilization": 0.82}
    assert "6.4 GiB" in finding.price


@pytest.mark.parametrize("sleeps", [True, False])
def test_memory_that_is_mapped_by_the_engine_may_fail_with_room(sleeps):
    config = ConfigRecorded(settings={"enable_sleep_mode": sleeps})
    events = ended(
        "out_of_memory", "no", config, needed_bytes=64 * MIB, free_bytes=50 * GIB
    )
    finding = only(events, "allocation_refused")
    assert finding.suggestion.startswith("no --enable-sleep-mode") == sleeps


def test_the_part_that_failed_while_serving_can_be_left_out():
    failure = ServingFailure(
        failure="error", message="RuntimeError: odd", module="vllm/lora/ops/shrink.py"
    )
    finding = only([*start_up(), failure], "failure_unexplained")
    assert finding.suggestion.startswith("no --enable-lora")
    assert finding.effect.startswith("the engine keeps serving")
    assert "ends in vllm/lora/ops/shrink.py" in finding.ways[0].suggestion


def test_a_wake_up_that_fails_names_what_others_may_hold():
    slept = SleepModeChanged(
        action="sleep", freed_bytes=int(53.5 * GIB), used_bytes=int(20.3 * GIB),
        time=1_000_100.0,
    )  # fmt: skip
    finding = only(served("out_of_memory", slept), "wake_up_failed")
    assert "53.5 GiB" in finding.title
    assert "more than 6.2 GiB" in finding.suggestion


@pytest.mark.parametrize(
    ("message", "rule", "text"),
    [
        ("RuntimeError: Could not find nvcc", "missing_tool", "VLLM_USE_FLASHINFER_SAMPLER"),
        ("ModuleNotFoundError: No module named 'x'", "missing_tool", "install"),
        ("KeyError: 0", "program_error", "released together"),
        ("AssertionError: Finished profiling", "deliberate_stop", "VLLM_PROFILE_PROMPT"),
        ("RuntimeError: Step profiling finished!", "deliberate_stop", "VLLM_PROFILE_STEPS"),
        ("Uncaught exception", "failure_unexplained", "does not hold the cause"),
    ],
)  # fmt: skip
def test_an_error_that_is_no_lack_of_memory_gets_its_own_words(message, rule, text):
    events = ended("error", message)
    finding = only(events, rule)
    assert any(text in f"{way}: {price}" for way, price in ways_of(finding))
    assert "(line 7)" in finding.title
    assert [each.rule for each in advise(facts_of(events))] == [rule]


@pytest.mark.parametrize(
    ("message", "is_cause"),
    [
        ("EngineCore hit an exception:", False),
        ("RuntimeError: Engine process failed to start. See stack trace above.", False),
        ("EngineCore hit an exception: KeyError: 0", True),
    ],
)
def test_a_line_that_only_announces_a_failure_is_no_cause(message, is_cause):
    text = cause_text(FailureFacts(kind="error", message=message))
    assert text.startswith("the log does not hold the cause") is not is_cause


def test_what_an_executor_quotes_of_a_worker_is_the_error_itself():
    message = "RuntimeError: Worker failed with error '{}', please check the stack trace above"
    finding = only(
        ended("error", message.format("ragged batch")), "failure_unexplained"
    )
    assert "only announces" not in finding.price
    finding = only(ended("error", message.format("")), "failure_unexplained")
    assert "only announces" in finding.price


def test_the_post_mortem_projects_what_was_missing():
    """10, 9, 8, 7 GiB were free: 1 GiB a bucket, and 8 of 12 were never reached."""
    finding = only(buckets_then(free_bytes=6 * GIB), "out_of_memory")
    assert finding.numbers["bytes_per_bucket"] == GIB
    assert finding.numbers["never_reached"] == 8
    assert finding.numbers["shortfall_bytes"] == 3 * GIB
    assert finding.details[0] == "prompt (1, 640, 0)"
    assert finding.changes == {"VLLM_GRAPH_RESERVED_MEM": 0.15}
    # 0.05 of 72 GiB in blocks of 16 MiB, not only what was missing
    assert "230 KV blocks fewer" in finding.price


def test_before_the_cache_exists_the_utilisation_does_not_help():
    profiling = PhaseMarked(name="profile_run", edge="start", time=1_000_003.0)
    events = ended("out_of_memory", "no", config(max_num_batched_tokens=8192), profiling,
                   needed_bytes=3 * GIB, free_bytes=GIB)  # fmt: skip
    finding = only(events, "out_of_memory")
    assert finding.changes == {"max_num_batched_tokens": 4096}
    assert finding.ways[-1].price.startswith("does not help")


def test_weights_without_a_size_of_the_cache_are_before_it():
    """vLLM prints the size of the KV cache before it allocates it."""
    figures = {"needed_bytes": 14 * GIB, "free_bytes": 4 * GIB, "total_bytes": 24 * GIB}
    limit = config(max_num_batched_tokens=65536, gpu_memory_utilization=0.9)
    events = ended("out_of_memory", "no", limit, weights(10), **figures)
    finding = only(events, "out_of_memory")
    assert finding.changes == {"max_num_batched_tokens": 32768}
    assert finding.effect.startswith("10 GiB were missing")
    assert finding.ways[-1].price.startswith("does not help")


@pytest.mark.parametrize(
    ("stage", "rule"),
    [("sampler_warmup", "out_of_memory"), ("profile_run", "weights_too_large")],
)
def test_weights_beside_which_the_cache_was_allocated_did_fit(stage, rule):
    figures = {
        "needed_bytes": 298 * MIB,
        "free_bytes": 65 * MIB,
        "total_bytes": 39 * GIB,
    }
    begun = PhaseMarked(name=stage, edge="start", time=1_000_002.0)
    own = (weights(34), *([cache(567)] if stage.startswith("sampler") else []), begun)
    failed = ended("out_of_memory", "no", *own, **figures)
    assert [each.rule for each in advise(facts_of(failed))] == [rule]


def test_tensors_that_fill_the_device_before_any_line_of_loading_are_weights():
    figures = {"needed_bytes": 2 * GIB, "free_bytes": MIB, "total_bytes": 24 * GIB}
    stage = PhaseMarked(name="start_engine", edge="start", time=1_000_002.0)
    full = ended("out_of_memory", "no", stage, allocated_bytes=23 * GIB, **figures)
    assert "does not help" in only(full, "weights_too_large").ways[-1].price
    half = ended("out_of_memory", "no", stage, allocated_bytes=12 * GIB, **figures)
    assert only(half, "out_of_memory").ways[-1].price.startswith("does not help")


def test_a_fixed_number_of_blocks_is_the_size_of_the_cache():
    fixed = config(num_gpu_blocks_override=30000, gpu_memory_utilization=0.9)
    figures = {"needed_bytes": 7 * GIB, "free_bytes": 3 * GIB, "total_bytes": 80 * GIB}
    finding = only(ended("out_of_memory", "no", fixed, **figures), "out_of_memory")
    assert finding.suggestion.startswith("a smaller --num-gpu-blocks-override")


def test_memory_that_ran_out_while_ranks_connect_is_held_by_others():
    finding = only(
        ended("out_of_memory", "Cuda failure 2 'out of memory'"), "out_of_memory"
    )
    assert finding.suggestion.startswith("end what else holds memory")
    assert finding.ways == ()


def test_a_size_without_the_share_gives_how_much_less():
    memory = MemoryBudgetSet(kv_cache_bytes=20 * GIB)
    figures = {"needed_bytes": 3 * GIB, "free_bytes": GIB, "total_bytes": 61 * GIB}
    finding = only(ended("out_of_memory", "no", memory, **figures), "out_of_memory")
    assert finding.suggestion == "--gpu-memory-utilization lower by 0.04"
    assert "2.44 GiB of KV cache" in finding.price


def test_pooled_states_that_did_not_fit_are_halved():
    text = (
        "RuntimeError: HPU out of memory occurred when warming up pooler (task='embed') with "
        "256 dummy requests."
    )
    finding = only(ended("out_of_memory", text), "out_of_memory")
    assert finding.changes == {"max_num_seqs": 128}


def test_a_stage_that_is_not_known_to_come_before_the_cache_is_not_called_so():
    events = [started("vllm", device_kind="tpu"),
              PhaseMarked(name="compile", edge="start", time=1_000_003.0),
              Failure(failure="out_of_memory", message="no", needed_bytes=int(2.64 * GIB),
                      free_bytes=int(1.3 * GIB))]  # fmt: skip
    finding = only(events, "out_of_memory")
    assert not any("not allocated yet" in price for _, price in ways_of(finding))
    assert finding.numbers["shortfall_bytes"] == pytest.approx(1.34 * GIB, rel=0.001)


def test_what_others_hold_is_named_where_only_the_allocator_is_stated():
    """torch_npu: 60 GiB, 20 of the allocator, 3 for the runtime at most, 1 free."""
    text = (
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.00 GiB total "
        "capacity; 19.50 GiB already allocated; 19.50 GiB current active; 1.00 GiB free; 20.00 "
        "GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try"
    )
    figures = {k: int(v) for k, v in figures_of(text).items()}
    events = ended("out_of_memory", text, config(gpu_memory_utilization=0.9), weights(15),
                   **figures)  # fmt: skip
    finding = only(events, "out_of_memory")
    assert finding.suggestion.startswith("end what else holds at least 36 GiB")


def test_ways_that_cannot_give_what_is_missing_are_no_remedies():
    """14.28 GiB are missing, of 15.67 GiB of weights and 1.5 GiB of activations."""
    memory = MemoryBudgetSet(
        kv_cache_bytes=int(-14.28 * GIB), activation_bytes=3 * GIB // 2
    )
    events = ended(
        "no_kv_cache", "no", weights(15.67), memory,
        config(max_num_batched_tokens=8192, tensor_parallel_size=1),
    )  # fmt: skip
    finding = only(events, "no_room_for_cache")
    short = "not enough by itself: 14.28 GiB are missing"
    ways = {way.suggestion: way for way in finding.ways}
    no_help = [way for way in ways.values() if way.kind == "no help"]
    assert [way.price.startswith(short) for way in no_help] == [True, True]
    assert [way.changes for way in no_help] == [{}, {}]
    more = ways["--tensor-parallel-size 2"].price
    assert "7.835 GiB less of the weights, and 14.28 GiB are missing; act" in more
    events[2] = MemoryBudgetSet(kv_cache_bytes=-GIB // 2, activation_bytes=3 * GIB // 2)
    finding = only(events, "no_room_for_cache")
    assert not any(way.kind == "no help" for way in finding.ways)


def on_cpu(*extra, **memory):
    own = MemoryBudgetSet(total_bytes=12 * GIB, **memory)
    return [started("vllm", device_kind="cpu"), *extra, own]


def test_a_cache_that_was_set_to_nothing_gets_another_size():
    """`Explicitly set (0.0/11.65) GiB`: a share, shorter steps and bits change no such size."""
    failure = ended("no_kv_cache", "No available memory for the cache blocks.")[1:]
    finding = only([*on_cpu(kv_cache_bytes=0), *failure], "no_room_for_cache")
    assert finding.title.startswith("The KV cache was set to 0 B")
    (first, _), (second, _) = ways_of(finding)
    assert first.startswith("VLLM_CPU_KVCACHE_SPACE (or --kv-cache-memory-bytes)")
    assert second.startswith("neither VLLM_CPU_KVCACHE_SPACE nor")
    measured = on_cpu(kv_cache_bytes=0, usable_bytes=4 * GIB)
    finding = only([*measured, *failure], "no_room_for_cache")
    assert finding.title.startswith("0 B were left")
    assert any("--gpu-memory-utilization" in way for way, _ in ways_of(finding))


@pytest.mark.parametrize(
    ("name", "before", "left"),
    [("kv_cache_memory_bytes", 9 * GIB, 9), ("num_gpu_blocks_override", 1000, 40)],
)
def test_a_cache_whose_size_is_set_gets_more_by_that_setting(name, before, left):
    """18 GiB are needed, and a share changes nothing of a size that is set."""
    memory = MemoryBudgetSet(kv_cache_bytes=left * GIB, gpu_memory_utilization=0.5)
    events = ended("no_kv_cache", "no", config(**{name: before}), memory, **SHORT)
    finding = only(events, "kv_cache_too_small")
    (more,) = [way.changes[name] for way in finding.ways if name in way.changes]
    assert 2 * before < more < 2.02 * before
    assert not any("gpu_memory_utilization" in way.changes for way in finding.ways)
    option = f"no --{name.replace('_', '-')}: "
    assert any(way.suggestion.startswith(option) for way in finding.ways)


def test_blocks_that_were_compared_with_what_was_left_are_no_size_of_the_cache():
    """Earlier versions count an override only after the check."""
    memory = MemoryBudgetSet(kv_cache_bytes=9 * GIB, gpu_memory_utilization=0.5)
    blocks = config(num_gpu_blocks_override=10_000)
    finding = only(
        ended("no_kv_cache", "no", blocks, memory, **SHORT), "kv_cache_too_small"
    )
    assert not any("num_gpu_blocks_override" in way.changes for way in finding.ways)
    assert any("--gpu-memory-utilization" in way.suggestion for way in finding.ways)


def test_a_cache_whose_size_is_set_is_lowered_by_that_setting():
    sized = config(kv_cache_memory_bytes=20 * GIB, gpu_memory_utilization=0.9)
    finding = only(
        served("out_of_memory", sized, needed_bytes=4 * GIB), "out_of_memory_serving"
    )
    assert finding.changes == {"kv_cache_memory_bytes": 14 * GIB}


@pytest.mark.parametrize(
    ("stage", "is_offered"), [("graph_capture", True), ("profile_run", False)]
)
def test_a_cache_that_was_not_allocated_yet_gets_no_other_size(stage, is_offered):
    mark = PhaseMarked(name=stage, edge="start", time=1_000_003.0)
    sizes = {"free_bytes": GIB, "needed_bytes": int(1.5 * GIB)}
    size = config(kv_cache_memory_bytes=20 * GIB)
    finding = only(ended("out_of_memory", "no", size, mark, **sizes), "out_of_memory")
    ways = [way for way, _ in ways_of(finding)]
    assert any("smaller --kv-cache-memory-bytes" in way for way in ways) == is_offered
    assert not any(way.startswith("--gpu-memory-utilization") for way in ways)


def test_a_process_that_the_driver_does_not_see_is_not_said_to_hold_nothing():
    """79.11 GiB of a container: 1.25 are free and 70.05 are of the allocator."""
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.47 GiB. GPU 0 has a "
        "total capacity of 79.11 GiB of which 1.25 GiB is free. Including non-PyTorch memory, "
        "this process has {} memory in use. Of the allocated memory 70.03 GiB is allocated by "
        "PyTorch, with 340.00 MiB allocated in private pools (e.g., CUDA Graphs), and 22.16 MiB "
        "is reserved by PyTorch but unallocated."
    )
    for unseen in ("0 bytes", "512.00 MiB"):
        figures = {k: int(v) for k, v in figures_of(text.format(unseen)).items()}
        assert "process_bytes" not in figures
        finding = only(ended("out_of_memory", text, **figures), "out_of_memory")
        assert not any("end what else" in way for way, _ in ways_of(finding))
        (most,) = [price for way, price in ways_of(finding) if "what else" in way]
        assert most.startswith("at most 7.808 GiB can be others'")
    figures = {k: int(v) for k, v in figures_of(text.format("71.00 GiB")).items()}
    assert figures["process_bytes"] == 71 * GIB
    finding = only(ended("out_of_memory", text, **figures), "out_of_memory")
    assert "end what else holds 6.86 GiB" in finding.suggestion


def test_more_than_the_device_has_is_taken_by_no_other_program():
    """One allocation, on a device whose memory is that of the host."""
    text = "Cuda failure 2 'out of memory'"
    sizes = {"free_bytes": 60 * GIB, "total_bytes": 62 * GIB}
    more = ended("out_of_memory", text, needed_bytes=96 * GIB, **sizes)
    ways = ways_of(only(more, "out_of_memory"))
    wrong = ("what else holds", "utilization")
    assert not any(name in way for way, _ in ways for name in wrong)
    less = ended("out_of_memory", text, needed_bytes=61 * GIB, **sizes)
    assert "what else holds" in only(less, "out_of_memory").suggestion


def test_what_others_hold_of_the_device_is_named_first():
    """15.47 GiB: 10 are this process's, 0.5 are free, so others hold 4.97."""
    events = ended("out_of_memory", "no", needed_bytes=GIB, free_bytes=GIB // 2,
                   total_bytes=int(15.47 * GIB), process_bytes=10 * GIB)  # fmt: skip
    assert "4.97 GiB" in only(events, "out_of_memory").suggestion


def test_with_a_cache_the_utilisation_makes_room():
    memory = MemoryBudgetSet(total_bytes=80 * GIB, gpu_memory_utilization=0.9,
                             kv_cache_bytes=20 * GIB)  # fmt: skip
    events = ended("out_of_memory", "no", memory, free_bytes=GIB, needed_bytes=3 * GIB)
    finding = only(events, "out_of_memory")
    assert finding.changes == {"gpu_memory_utilization": 0.87}


def test_memory_that_no_tensor_uses_is_fragmented():
    finding = only(
        ended("out_of_memory", "no", needed_bytes=GIB, free_bytes=GIB // 2,
              unallocated_bytes=2 * GIB),
        "out_of_memory",
    )  # fmt: skip
    assert finding.changes == {
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"
    }  # fmt: skip


def test_ranks_share_no_mapped_memory_of_graphs():
    """vLLM `csrc/custom_all_reduce.cuh`: cudaIpcGetMemHandle answers "invalid argument"."""
    figures = {
        "needed_bytes": GIB,
        "free_bytes": GIB // 2,
        "unallocated_bytes": 2 * GIB,
    }
    two = [config(tensor_parallel_size=2), ConfigRecorded(num_ranks=2)]
    finding = only(ended("out_of_memory", "no", *two, **figures), "out_of_memory")
    assert finding.changes["disable_custom_all_reduce"] is True
    eager = [*two, config(enforce_eager=True)]
    finding = only(ended("out_of_memory", "no", *eager, **figures), "out_of_memory")
    assert "disable_custom_all_reduce" not in finding.changes


@pytest.mark.parametrize(
    ("requests", "first", "price"),
    [(60.0, "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1", "3 GiB of KV cache"),
     (1.1, "fewer graphs", "batches of those sizes run without a graph")],
)  # fmt: skip
def test_graphs_get_of_the_cache_what_a_request_of_full_length_leaves(
    requests, first, price
):
    known = [
        MemoryBudgetSet(kv_cache_bytes=10 * GIB, gpu_memory_utilization=0.9),
        KVCacheAllocated(num_tokens=5000, max_concurrency=requests),
        GraphMemoryEstimated(estimated_bytes=3 * GIB, is_reserved=False),
        PhaseMarked(name="graph_capture", edge="start", time=1_000_009.0),
    ]
    events = ended("out_of_memory", "no", *known, phase="graph_capture")
    finding = only(events, "out_of_memory")
    assert finding.suggestion.startswith(first)
    assert price in finding.price
    helps = not any("does not help alone" in price for _, price in ways_of(finding))
    assert helps is (requests > 2)


def test_a_smaller_cache_that_holds_no_request_of_full_length_needs_a_shorter_one():
    known = [
        MemoryBudgetSet(
            total_bytes=80 * GIB, kv_cache_bytes=10 * GIB, gpu_memory_utilization=0.9
        ),
        KVCacheAllocated(num_tokens=5000, max_concurrency=1.0),
    ]
    figures = {"needed_bytes": 2 * GIB, "free_bytes": GIB}
    finding = only(ended("out_of_memory", "no", *known, **figures), "out_of_memory")
    assert "--max-model-len has to fall with it" in finding.price


def test_workers_that_build_kernels_wait_for_no_network():
    building = [*NO_LINE[:-2], PhaseMarked(name="kernel_build", edge="start", time=1_000_300.0),
                NO_LINE[-1], WAITED]  # fmt: skip
    finding = only(building, "ended_while_waiting")
    assert finding.title.endswith("the log ends in building kernels.")
    assert "NCCL" not in str(ways_of(finding))
    assert "on a volume" in finding.suggestion


def test_sleep_mode_does_not_start_with_expandable_segments():
    sleeping = config(enable_sleep_mode=True)
    events = ended("out_of_memory", "no", sleeping, needed_bytes=GIB, free_bytes=GIB // 2,
                   unallocated_bytes=2 * GIB)  # fmt: skip
    finding = only(events, "out_of_memory")
    assert "expandable_segments" not in str([s for s, _ in ways_of(finding)])


def test_without_chunked_prefill_a_step_stays_as_long_as_a_prompt():
    profiling = PhaseMarked(name="profile_run", edge="start", time=1_000_003.0)
    whole = config(
        max_num_batched_tokens=8192, max_model_len=8192, enable_chunked_prefill=False
    )
    events = ended("out_of_memory", "no", whole, profiling, needed_bytes=3 * GIB)
    finding = only(events, "out_of_memory")
    assert finding.changes == {}
    assert "chunked prefill" in finding.suggestion


def test_a_cache_that_is_too_small_takes_from_the_reserve_of_graphs():
    """72 GiB are usable, half of them for graphs: 4 GiB more for the cache are 0.056."""
    text = "larger than the available KV cache memory"
    short = {"needed_bytes": 40 * GIB, "free_bytes": 36 * GIB, "max_model_len": 131072}

    def ways(reserve):
        memory = budget(
            graph_reserved_fraction=reserve, graph_reserved_bytes=int(reserve * 72 * GIB),
            kv_cache_bytes=int((1 - reserve) * 72 * GIB),
        )  # fmt: skip
        failure = Failure(failure="no_kv_cache", message=text, line=7, **short)
        finding = only([started(), memory, failure], "kv_cache_too_small")
        return [way.changes for way in finding.ways]

    assert {"VLLM_GRAPH_RESERVED_MEM": 0.44} in ways(0.5)
    assert "VLLM_GRAPH_RESERVED_MEM" not in str(ways(0.1))


def test_a_large_batch_is_halved():
    failure = Failure(failure="out_of_memory", message="no", phase="decode",
                      bucket=(64, 1, 512))  # fmt: skip
    finding = only([started(), failure], "out_of_memory")
    assert finding.changes == {"max_num_seqs": 32}
    failure = Failure(failure="out_of_memory", message="no", phase="prompt",
                      bucket=(4, 1024, 0))  # fmt: skip
    finding = only([started(), failure], "out_of_memory")
    assert finding.changes == {"VLLM_PROMPT_BS_BUCKET_MAX": 2}


@pytest.mark.parametrize(
    ("phase", "bucket", "settings", "change"),
    [
        ("prompt", (1, 2048, 0), {}, "--max-num-batched-tokens of less than 2048"),
        ("prompt", (1, 2048, 0), {"enable_chunked_prefill": False}, "a smaller --max-model-len"),
        ("decode", (1, 1, 512), {}, "a smaller --max-model-len"),
    ],
)  # fmt: skip
def test_a_large_bucket_of_one_request_is_made_by_the_limits(
    phase, bucket, settings, change
):
    """Without its bucket a request of that shape runs all the same."""
    failure = Failure(failure="out_of_memory", message="no", phase=phase, bucket=bucket)
    config = ConfigRecorded(settings={"max_model_len": 4096, **settings})
    finding = only([started(), config, failure], "out_of_memory")
    assert any(way.startswith(change) for way, _ in ways_of(finding))


def test_a_process_killed_in_a_bucket_has_warmed_those_before_it():
    """The bucket that was running when the process ended is not one of the warmed."""
    events = killed()
    events[-1:-1] = [step("prompt", PROMPTS[1], is_finished=False)]
    assert "after 1 of 3 buckets" in only(events, "killed").title


def test_a_killed_start_gets_the_probe_that_others_needed():
    finding = only(killed(), "killed", history=[summary_of(start_up(seconds=279.0))])
    assert any("a startupProbe that allows" in way for way, _ in ways_of(finding))
    assert "startupProbe:" in finding.details


def test_one_plan_has_both_settings():
    """0.94 and 0.01: 74.4 GiB for the cache, of 16 MiB blocks, and 5 % stay free."""
    finding = only(graphs_took(0.5), "memory_plan")
    assert finding.changes == {
        "gpu_memory_utilization": 0.94, "VLLM_GRAPH_RESERVED_MEM": 0.01
    }  # fmt: skip
    assert finding.numbers["left_bytes"] >= 0.05 * 96 * GIB
    assert "--min-kv-blocks 4763" in finding.details[0]


def test_graphs_and_all_that_the_warm_up_took_are_two_things():
    events = [*graphs_took(0.5)[:-1], WarmupFinished(allocated_bytes=2 * GIB)]
    finding = only(events, "memory_plan")
    assert "Graphs took 0.6 GiB, warm-up 2 GiB in all;" in finding.title
    assert finding.numbers["graph_bytes"] == pytest.approx(0.6 * GIB)
    assert finding.numbers["warmup_bytes"] == 2 * GIB


def test_the_utilisation_rises_by_one_step():
    finding = only(idle(80, 0.5), "memory_plan")
    assert finding.changes["gpu_memory_utilization"] == 0.55
    assert "further, by 0.05 at most a step" in finding.details[1]


def test_what_the_profiling_run_took_stays_free():
    memory = budget(activation_bytes=9 * GIB)
    finding = only(
        [*graphs_took(0.5)[:1], memory, *graphs_took(0.5)[2:]], "memory_plan"
    )
    assert finding.numbers["kept_free_bytes"] == 9 * GIB
    assert finding.numbers["left_bytes"] >= 9 * GIB
    assert finding.changes["gpu_memory_utilization"] < 0.94


def test_what_varied_between_runs_stays_free():
    other = changed(summary_of(start_up()), memory={"free_bytes": 86 * GIB})
    finding = only(graphs_took(0.5), "memory_plan", history=[other])
    assert finding.numbers["kept_free_bytes"] == 6 * GIB


def test_graphs_over_their_reserve_get_a_larger_one():
    finding = only(graphs_took(20), "memory_plan")
    assert finding.changes["VLLM_GRAPH_RESERVED_MEM"] == 0.34
    assert "came out of the margin" in finding.title
    assert "fewer" in finding.effect


def test_missing_graphs_get_room_by_the_shares_that_a_plan_recommends():
    finding = only(simulate()[1], "memory_plan")
    assert finding.changes == {
        "gpu_memory_utilization": 0.94, "VLLM_GRAPH_RESERVED_MEM": 0.62
    }  # fmt: skip


def test_missing_graphs_that_no_share_holds_get_room_by_fewer_batch_sizes():
    finding = only(simulate(total_bytes=40 * GIB)[1], "memory_plan")
    assert finding.changes["VLLM_PROMPT_BS_BUCKET_MAX"] == 1


def test_the_plan_for_missing_graphs_holds_on_the_device():
    """The next start gives every bucket a graph, with the blocks that were planned."""
    plan = only(simulate()[1], "memory_plan")
    _, events = simulate(
        gpu_memory_utilization=plan.changes["gpu_memory_utilization"],
        graph_reserved_mem=plan.changes["VLLM_GRAPH_RESERVED_MEM"],
    )
    summary = summary_of(events)
    assert summary.phase("prompt").capture_percent == 100
    assert summary.phase("decode").capture_percent == 100
    assert summary.memory.num_kv_blocks >= plan.numbers["planned_kv_blocks"]


@pytest.mark.parametrize(
    ("version", "arguments", "share"),
    [("0.19.1", {"model_tag": "a/b"}, 0.9), ("0.20.0", {"model_tag": "a/b"}, 0.92),
     ("0.20.0", {"model_tag": "a/b", "gpu_memory_utilization": 0.7}, 0.7),
     ("0.20.0", {}, None), (None, {"model_tag": "a/b"}, None)],
)  # fmt: skip
def test_a_utilisation_that_no_argument_names_is_the_default_of_the_version(
    version, arguments, share
):
    listed = ConfigRecorded(settings=arguments, arguments=list(arguments) or None)
    events = [started("vllm", version=version, device_kind="cuda"), listed]
    assert facts_of(events).utilization == share


def test_graphs_that_fit_nowhere_are_left_out():
    finding = only(simulate(total_bytes=24 * GIB)[1], "memory_plan")
    assert (finding.severity, finding.changes) == ("low", {})
    assert finding.numbers["needed_bytes"] > 24 * GIB


def test_the_size_that_the_engine_counts_is_passed_on():
    finding = only(sized(44, 2.0, 8), "memory_plan")
    assert finding.suggestion == f"--kv-cache-memory={44 * GIB}"
    assert finding.severity == "medium"


def test_a_block_size_that_the_cache_does_not_allow_gives_no_number_of_blocks():
    """64 KiB by the padding block's line, 16 MiB by what 4160 blocks took."""
    events = graphs_took(0.5)
    events[1:3] = [budget(padding_bytes=64 * 1024), cache(allocated_bytes=65 * GIB)]
    facts = facts_of(events, source_kind="log")
    assert "block_bytes" in contradictory(facts.summary)
    assert "memory_plan" not in {finding.rule for finding in advise(facts)}


def test_a_recorded_failure_without_any_figure_still_gets_advice():
    for kind in ("out_of_memory", "no_kv_cache", "error", "killed"):
        events = [started(), Failure(failure=kind, message="no")]
        (finding,) = advise(facts_of(events))
        assert finding.severity == "high"


SIZES = st.none() | st.sampled_from([0, 1, MIB, GIB, 15 * GIB, 16 * GIB, 900 * GIB])
SHARES = st.none() | st.sampled_from([0.0, 0.02, 0.5, 0.9, 0.95, 1.0])


@settings(max_examples=300, deadline=None)
@given(
    kind=st.sampled_from(["out_of_memory", "no_kv_cache", "killed", "error"]),
    sizes=st.fixed_dictionaries(dict.fromkeys(FIELDS, SIZES)),
    lengths=st.fixed_dictionaries(
        dict.fromkeys(("max_model_len", "estimated_model_len"), st.none() | st.integers(0, 4096))
    ),
    memory=st.fixed_dictionaries(
        {**dict.fromkeys(DIVIDED, SIZES), "gpu_memory_utilization": SHARES,
         "graph_reserved_fraction": SHARES}
    ),
    share=SHARES,
    is_served=st.booleans(),
)  # fmt: skip
def test_whatever_a_failure_states_it_has_one_cause(
    kind, sizes, lengths, memory, share, is_served
):
    what = ServingFailure if is_served else Failure
    failure = what(
        failure=kind, message="no", wanted_utilization=share, **sizes, **lengths
    )
    ready = [ServerReady(time=1_000_100.0)] if is_served else []
    events = [started("vllm"), MemoryBudgetSet(**memory), *ready, failure]
    findings = [f for f in advise(facts_of(events)) if f.rule in CAUSES]
    assert len(findings) == 1
    assert findings_markdown("r", findings)
    assert finding_lines(findings[0], "RUN")


def test_every_rule_states_its_source_and_an_example():
    for rule in RULES:
        assert rule.source, rule.name
        assert rule.example, rule.name
        assert rule.formula or rule.margin or rule.name in WITHOUT_FORMULA, rule.name


WITHOUT_FORMULA = ("deliberate_stop", "failure_unexplained")


def test_many_buckets_that_were_never_reached_are_cut():
    many = [(1, 128 * n, 0) for n in range(1, 40)]
    events = buckets_then(free_bytes=6 * GIB)
    events[3] = generated("prompt", many)
    finding = only(events, "out_of_memory")
    assert len(finding.details) == 21
    assert finding.details[-1] == "and 15 more"


@pytest.mark.parametrize("figures", [{}, {"needed_bytes": GIB, "free_bytes": 0}])
def test_graphs_get_room_from_the_cache_and_not_from_shorter_steps(figures):
    """The cache takes what activations leave (vLLM `v1/worker/gpu_worker.py`,
    `determine_available_memory`), so shorter steps leave graphs no more."""
    events = ended(
        "out_of_memory", "no", config(max_num_batched_tokens=8192), weights(10),
        KVCacheAllocated(num_tokens=8192), phase="graph_capture", **figures,
    )  # fmt: skip
    finding = only(events, "out_of_memory")
    told = " ".join([finding.suggestion, *(way.suggestion for way in finding.ways)])
    assert "--gpu-memory-utilization" in finding.suggestion
    assert "fewer graphs" in told
    assert "max-num-batched-tokens" not in told


def test_the_stage_shows_that_logits_did_not_fit_where_the_message_does_not():
    """The error inside is printed first, and names no requests."""
    events = ended(
        "out_of_memory", "torch.OutOfMemoryError: HIP out of memory.",
        config(max_num_seqs=64, max_num_batched_tokens=2048), weights(10),
        KVCacheAllocated(num_tokens=8192), phase="sampler_warmup",
    )  # fmt: skip
    finding = only(events, "out_of_memory")
    assert finding.changes == {"max_num_seqs": 32}
    assert not any("batched-tokens" in way.suggestion for way in finding.ways)


@pytest.mark.parametrize(
    ("settings", "is_offered"),
    [
        ({}, True),
        ({"quantization": "fp8"}, True),
        ({"quantization": "compressed-tensors", "model": "example/M-8B-FP8"}, True),
        ({"quantization": "gptq_marlin", "model": "example/M-8B-GPTQ-Int8"}, True),
        ({"quantization": "awq_marlin"}, False),
        ({"quantization": "modelopt_fp4"}, False),
        ({"quantization": "compressed-tensors", "model": "example/M-8B-INT4"}, False),
    ],
)
def test_weights_of_4_bits_are_not_to_have_fewer(settings, is_offered):
    events = ended("out_of_memory", "no", config(**settings), weights(23),
                   total_bytes=24 * GIB)  # fmt: skip
    finding = only(events, "weights_too_large")
    assert any("weights of" in way for way, _ in ways_of(finding)) is is_offered


def test_what_a_rounded_text_leaves_open_is_not_held_by_others():
    """22.36 GiB less 22.20 and 0.118: 43 MiB, of which 10 MiB are rounding; no process of
    its own has so little of a device."""
    text = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a "
        "total capacity of 22.36 GiB of which 120.88 MiB is free. Including non-PyTorch "
        "memory, this process has 22.20 GiB memory in use."
    )
    figures = {k: int(v) for k, v in figures_of(text).items()}
    share = config(gpu_memory_utilization=0.98)
    events = ended("out_of_memory", text, share, cache(), **figures)
    finding = only(events, "out_of_memory")
    assert not any("what else holds" in way for way, _ in ways_of(finding))


def test_an_engine_whose_budget_is_known_had_loaded_something():
    events = [started("vllm-gaudi", device_kind="hpu"), budget(),
              PhaseMarked(name="import", edge="start", time=1_000_001.0),
              Failure(failure="out_of_memory", message="no", needed_bytes=8 * GIB)]  # fmt: skip
    finding = only(events, "out_of_memory")
    assert not any("had loaded" in way for way, _ in ways_of(finding))


def test_graphs_are_captured_beside_a_cache_that_no_line_shows():
    """A traceback that leads through the capture is enough: the cache comes before it."""
    start = [started("vllm", device_kind="cuda"),
             Failure(failure="out_of_memory", message="no", phase="graph_capture")]  # fmt: skip
    ways = [way for way, _ in ways_of(only(start, "out_of_memory"))]
    assert any("fewer graphs" in way for way in ways)
    assert any("lower --gpu-memory-utilization" in way for way in ways)


@pytest.mark.parametrize(("total", "is_shared"), [(121.69, True), (79.19, False)])
def test_files_in_memory_count_as_used_where_host_and_device_share_it(total, is_shared):
    """121.69 GiB is what a GB10 has."""
    finding = only(
        ended("out_of_memory", free_bytes=int(0.5 * total * GIB),
              needed_bytes=int(0.85 * total * GIB), total_bytes=int(total * GIB),
              wanted_utilization=0.85),
        "memory_taken",
    )  # fmt: skip
    assert is_shared == any("drop_caches" in way for way, _ in ways_of(finding))


def test_an_error_in_a_compiled_artefact_may_be_that_of_the_cache():
    """No line says whether an artefact was loaded: the traceback leads through one."""
    text = "ValueError: too many values to unpack (expected 12)"
    failure = Failure(
        failure="error", message=text, artifact="/c/rank_0_0/x.py", line=3
    )
    finding = only([started("vllm"), failure], "failure_unexplained")
    assert any("VLLM_DISABLE_COMPILE_CACHE=1" in way for way, _ in ways_of(finding))


def test_room_in_pieces_that_are_too_small_is_no_lack_of_room():
    """XLA, error E0101: what is free is more than what was wanted, and not in one piece."""
    text = (
        "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Error allocating device buffer: "
        "Attempting to allocate 1.96G. That was not possible. There are 2.50G free."
    )
    figures = {k: int(v) for k, v in figures_of(text).items()}
    failure = Failure(
        failure="out_of_memory", message=text, phase="load_model", **figures
    )
    finding = only([started("vllm", device_kind="tpu"), failure], "allocation_refused")
    assert "no lack of room" in finding.title


def test_an_error_of_a_program_may_be_one_of_its_release():
    text = "AttributeError: 'EagleProposer' object has no attribute 'positions'"
    ways = [way for way, _ in ways_of(only(ended("error", text), "program_error"))]
    assert any("another release of vLLM" in way for way in ways)


def test_where_no_line_shows_the_stage_a_smaller_cache_may_help():
    """The end of a traceback: what ran before it is in no line."""
    failure = Failure(failure="out_of_memory", message="CUDA error: out of memory")
    start = started("vllm", device_kind="cuda", time=None)
    ways = ways_of(only([start, failure], "out_of_memory"))
    assert any("lower --gpu-memory-utilization" in way for way, _ in ways)


def offered(events):
    """What the one finding of a failed run offers, as one text."""
    (found,) = advise(facts_of(events))
    return " | ".join((found.suggestion, *(way.suggestion for way in found.ways)))


def test_graphs_that_were_captured_show_that_the_cache_was_there():
    graphs = GraphsCaptured(memory_bytes=GIB, duration_s=20.0)
    text = offered(
        ended("out_of_memory", "no", weights(17.9), graphs, free_bytes=GIB,
              needed_bytes=2 * GIB, total_bytes=24 * GIB)
    )  # fmt: skip
    assert "a lower --gpu-memory-utilization" not in text


@pytest.mark.parametrize(
    ("note", "is_offered"),
    [
        ("initialized with a budget of 8192 tokens, and profiled with 2 image items", True),
        ("Skipping memory profiling for multimodal encoder", False),
    ],
)  # fmt: skip
def test_an_encoder_that_was_profiled_takes_fewer_images(note, is_offered):
    text = offered(
        ended("out_of_memory", "no", weights(10), Note(topic="multimodal", text=note),
              phase="profile_run", free_bytes=GIB, needed_bytes=2 * GIB)
    )  # fmt: skip
    assert ("--limit-mm-per-prompt" in text) is is_offered


def test_one_request_at_once_cannot_become_fewer():
    text = offered(
        ended("out_of_memory", "no", weights(10), config(max_num_seqs=1),
              phase="profile_run", free_bytes=GIB, needed_bytes=2 * GIB)
    )  # fmt: skip
    assert "--max-num-seqs" not in text
    assert "--max-num-batched-tokens" in text


@pytest.mark.parametrize(
    ("size", "blocks", "is_offered"),
    [
        ({"num_blocks": 2000}, 4096, True),
        ({"num_blocks": 5000}, 4096, False),
        ({"num_tokens": 256_000}, 65_536, True),
        ({"num_tokens": 256_000}, 8192, False),
    ],
)
def test_decode_buckets_beyond_the_cache_are_bounded(size, blocks, is_offered):
    bucket = (128, 1, blocks)
    text = offered([
        started(), budget(), KVCacheAllocated(**size),
        step("decode", bucket, free_before_bytes=3 * GIB),
        Failure(failure="out_of_memory", message="no", phase="decode", bucket=bucket,
                needed_bytes=16 * GIB),
    ])  # fmt: skip
    assert ("no more blocks than the cache" in text) is is_offered


def test_memory_that_ran_out_while_loading_is_not_all_of_the_weights():
    (found,) = advise(
        facts_of(
            ended("out_of_memory", "no", config(model="m/Big-405B", tensor_parallel_size=8),
                  phase="load_model", needed_bytes=GIB)
        )
    )  # fmt: skip
    assert "ran out while weights were loaded" in found.title
    assert "did not fit" not in found.title


@pytest.mark.parametrize(
    ("kind", "phase", "is_offered"),
    [("hpu", "model_warmup", True), ("hpu", "load_model", False),
     ("cuda", "model_warmup", False)],
)  # fmt: skip
@pytest.mark.parametrize("message", ["NotImplementedError", "KeyError: 0"])
def test_a_warm_up_that_fails_on_hpu_may_be_left_out(kind, phase, is_offered, message):
    failure = Failure(failure="error", message=message, phase=phase, line=7)
    text = offered([started("vllm-fork", device_kind=kind), failure])
    assert ("VLLM_SKIP_WARMUP=true" in text) is is_offered
    assert "another release" in text


def test_a_warm_up_of_mixed_batches_that_fails_may_be_left_out():
    failure = Failure(
        failure="error", message="ValueError: not enough values", phase="mixed",
        bucket=(1, 8192, 960, 16, 1, 8599), line=7,
    )  # fmt: skip
    text = offered([started("vllm-fork", device_kind="hpu"), failure])
    assert "VLLM_SKIP_WARMUP=true" in text


@pytest.mark.parametrize(
    ("message", "is_known"),
    [("Memory cgroup out of memory: Killed process 4123 (VLLM::Worker_TP)", True),
     ("slurmstepd: error: Detected 1 oom_kill event", True), ("Killed", False)],
)  # fmt: skip
def test_what_the_kernel_states_of_a_process_that_it_ended_is_its_cause(
    message, is_known
):
    finding = only(
        [*killed()[:-1], Failure(failure="killed", message=message)], "killed"
    )
    assert ("for lack of host memory" in finding.title) is is_known
    assert ("does not hold the cause" in finding.price) is not is_known


@pytest.mark.parametrize("phase", ["model_warmup", "kernel_warmup"])
def test_a_warm_up_that_ran_out_of_memory_was_behind_the_cache(phase):
    """Both follow the KV cache (vLLM `v1/worker/gpu_worker.py compile_or_warm_up_model`)."""
    start = [started("vllm", device_kind="cuda"), weights(10)]
    failure = Failure(failure="out_of_memory", message="no", phase=phase, line=9,
                      needed_bytes=GIB, total_bytes=80 * GIB)  # fmt: skip
    finding = only([*start, failure], "out_of_memory")
    assert not any("was not allocated yet" in price for _, price in ways_of(finding))


def test_a_crash_names_the_frame_that_it_states():
    failure = Failure(
        failure="error", message="Fatal Python error: Segmentation fault", line=7,
        module="flashinfer/jit/core.py",
    )  # fmt: skip
    text = offered([started("vllm", device_kind="cuda"), failure])
    assert "which flashinfer/jit/core.py calls" in text


@pytest.mark.parametrize(
    ("free", "text"), [(None, "at most 2 GiB"), (GIB, "1 GiB were")]
)
def test_what_was_missing_is_exact_only_where_it_is_known_what_was_free(free, text):
    events = ended("out_of_memory", "no", phase="profile_run", needed_bytes=2 * GIB,
                   free_bytes=free)  # fmt: skip
    assert text in only(events, "out_of_memory").effect


@pytest.mark.parametrize("name", ["tensor_parallel_size", "pipeline_parallel_size"])
@pytest.mark.parametrize("value", [0, -2, 0.5])
def test_a_size_that_divides_nothing_counts_as_one(name, value):
    facts = facts_of([started("vllm"), config(**{name: value})])
    (way,) = more_devices(facts)
    assert way.changes == {"tensor_parallel_size": 2}


def test_a_list_of_buckets_of_other_sizes_is_no_error():
    events = [started(), config(use_contiguous_pa=True), cache(100),
              generated("decode", [(1, 1, 128), (1, 64)])]  # fmt: skip
    assert only(events, "blocks_beyond_cache").numbers["num_buckets"] == 1


def test_memory_that_ran_out_after_graph_capture_may_be_had_from_the_cache():
    captured = GraphsCaptured(count=3, duration_s=4.0, time=1_000_030.0)
    before = [weights(10), KVCacheAllocated(num_tokens=8192), captured]
    start = ended("out_of_memory", "no", *before, phase="graph_capture")
    finding = only(start, "out_of_memory")
    assert "in or after graph capture" in finding.title
    ways = [way for way, price in ways_of(finding) if not price.startswith("does not")]
    assert any("a lower --gpu-memory-utilization" in way for way in ways)
    assert not any("fewer graphs" in way for way in ways)


@pytest.mark.parametrize("cached", [True, False])
def test_on_a_tpu_no_share_of_one_device_is_made_of_the_weights_of_all(cached):
    before = [started("tpu-inference", device_kind="tpu"), weights(100)]
    before += [KVCacheAllocated(num_tokens=8192)] if cached else []
    failure = Failure(failure="out_of_memory", message="no", total_bytes=32 * GIB)
    rules = {finding.rule for finding in advise(facts_of([*before, failure]))}
    assert rules == {"out_of_memory"}


def test_a_tpu_that_is_full_while_it_loads_is_not_denied_a_lower_share():
    start = [started("tpu-inference", device_kind="tpu"),
             Failure(failure="out_of_memory", message="no", phase="load_model")]  # fmt: skip
    text = " ".join(finding_lines(only(start, "weights_too_large"), "RUN"))
    assert "--gpu-memory-utilization" not in text


def test_ranks_that_connect_are_not_given_what_the_run_has():
    shown = " ".join(finding_lines(only(CONNECTING, "ended_while_connecting"), "RUN"))
    assert "NCCL_P2P_DISABLE=1 and --disable-custom-all-reduce" in shown
    assert "NCCL_DEBUG=INFO" in shown
    has = ConfigRecorded(environment={"NCCL_P2P_DISABLE": "1"})
    log = Note(topic="nccl_log", text="Bootstrap: Using lo")
    start = [*CONNECTING[:3], has, log, *CONNECTING[3:]]
    shown = " ".join(finding_lines(only(start, "ended_while_connecting"), "RUN"))
    assert "NCCL_P2P_DISABLE" not in shown
    assert "--disable-custom-all-reduce for one start" in shown
    assert "NCCL_DEBUG=INFO" not in shown


def test_ranks_that_connect_have_what_nccl_states_of_a_call_that_failed():
    text = "NCCL WARN Error: failed to extend /dev/shm/nccl-a to 330 bytes, error: No space left"
    start = [*CONNECTING[:3], Note(topic="nccl", text=text), *CONNECTING[3:]]
    finding = only(start, "ended_while_connecting")
    assert text in finding.title
    assert "without an error" not in finding.title
    assert "/dev/shm" in finding.suggestion
    assert finding.severity == "medium"


def test_no_number_of_devices_is_made_of_one_rank_of_an_unknown_number():
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 666.00 MiB."
    line = "(Worker_TP3 pid=9) ERROR 11-25 08:05:06 [multiproc_executor.py:815] {}\n"
    log = line.format("WorkerProc failed to start.") + line.format(text)
    (way,) = more_devices(RunFacts(folded(events(log)).summary))
    assert way.suggestion == "a larger --tensor-parallel-size"


@pytest.mark.parametrize(
    ("sizes", "is_first"), [(("9.90", "-3.86"), True), (("-3.86", "-3.86"), False)]
)
def test_a_rank_without_room_beside_one_with_some_is_not_alone_on_its_device(
    sizes, is_first
):
    text = "".join(
        f"(Worker_TP{rank} pid={rank}) INFO 12-10 03:24:48 [gpu_worker.py:298] Available KV "
        f"cache memory: {size} GiB\n"
        for rank, size in enumerate(sizes)
    )
    text += (
        "(EngineCore_DP0 pid=9) ERROR 12-10 03:24:48 [core.py:708] ValueError: No available "
        "memory for the cache blocks. Try increasing `gpu_memory_utilization` when "
        "initializing the engine.\n"
    )
    (finding,) = advise(facts_of(events(text)))
    assert ("another rank had room" in finding.suggestion) is is_first
    assert "does not hold by how much" not in str(finding)
