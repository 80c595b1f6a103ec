"""Advice on time, buckets and settings, on whole starts and on real logs.

`advice_times.json` holds, for every log with such advice, what it must be: for each run
the largest part of its start, and each rule with seconds concerned, seconds saved and
changed settings. A run that is not in it gets none. `MUST_NOT` are findings that were
once given for these logs and are wrong.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.analysis.advice_cases import (
    DECODE_STEPS,
    MISSED,
    NO_PREFIXES,
    OFF,
    PROMPT_STEPS,
    SIZES,
    SKIPPED,
    T0,
    TIME_CASES,
    captured,
    checkpoint,
    compiled,
    gaudi_steps,
    phased,
    profiled,
    ranked,
)
from tests.analysis.builders import (
    changed,
    config,
    facts_of,
    generated,
    started,
    step,
    summary_of,
)
from tests.helpers import REAL_LOGS, ROOT, folded, read
from warmup_insights.analysis.advice import (
    FAILURE_RULES,
    TUNING_RULES,
    Finding,
    RunFacts,
    advise,
    rules_bucket_time,
)
from warmup_insights.analysis.advice.facts import start_of
from warmup_insights.analysis.advice.rules_buckets import regenerated
from warmup_insights.analysis.plan.regenerate import reproducing_settings
from warmup_insights.analysis.sentences import cache_text
from warmup_insights.model.events import (
    BucketMiss,
    BucketRangesConfigured,
    BucketUsed,
    CaptureProgress,
    CompileFinished,
    ConfigRecorded,
    EngineInitialized,
    Failure,
    GraphsCaptured,
    Note,
    PhaseMarked,
    ServerReady,
    ServingFailure,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.rules.setting_lives import LIVES, has_setting

OWN = {rule.name for rule in TUNING_RULES} - {"memory_plan", "saved_not_loaded"}
FAILURES = {rule.name for rule in FAILURE_RULES}
TABLE = Path(__file__).parent / "advice_times.json"
EXPECTED: dict[str, list[dict[str, Any]]] = json.loads(
    TABLE.read_text(encoding="utf-8")
)
MUST_NOT = [
    ("g12_gaudi_q3_v0.14.1.log", "overridden_ranges"),
    ("g13_gaudi_log_v14.log", "overridden_ranges"),
    ("g14_gaudi_warmup.log", "overridden_ranges"),
    ("g14_gaudi_warmup.log", "warmup_skipped"),
    ("r01_rocm_v0.17.0_qwen25.log", "compile_cache"),
    ("c13_cuda_v0.25.1_kv_too_small.log", "compile_cache"),
    ("cuda_v1_2026-07-16_runtime_oom_after_good_startup.log", "startup_probe"),
    ("c04_cuda_v0.10.2_two_starts.log", "startup_probe"),
    ("c07_cuda_v0.19.1_phi3.log", "startup_probe"),
    ("simdev_gaudi_0.26.0_linear.log", "overridden_ranges"),
    ("simdev_gaudi_0.26.0_linear.log", "dead_setting"),
]
LOGS = sorted(
    path
    for folder in (ROOT / "sample_logs", REAL_LOGS)
    for path in folder.rglob("*")
    if path.suffix in (".log", ".ipynb")
)


def runs_of(path: Path) -> list[RunFacts]:
    runs, _ = read(path.read_bytes(), path.name)
    made = [folded(runs[ordinal]) for ordinal in sorted(runs)]
    return [RunFacts(each.summary, each.rows) for each in made]


def _tenths(seconds: float) -> float:
    """Rounded alike where the last bit of a sum is another one (Python 3.12 and later)."""
    return round(round(seconds, 6), 1)


def told(facts: RunFacts) -> dict[str, Any]:
    """What a run's advice on time, buckets and settings comes to, for the table."""
    rules = {}
    for finding in advise(facts):
        if finding.rule in OWN:
            values = {
                "part_s": finding.part_s and _tenths(finding.part_s),
                "gain_s": finding.gain_s and [_tenths(s) for s in finding.gain_s],
                "changes": dict(finding.changes),
            }
            rules[finding.rule] = {name: v for name, v in values.items() if v}
    largest = facts.start.dominant if facts.start is not None else None
    return {"largest": largest, "rules": rules} if rules else {}


def found(events: Any, rule: str, **more: Any) -> Finding:
    (finding,) = [f for f in advise(facts_of(events, **more)) if f.rule == rule]
    return finding


def conflicts(findings: list[Finding]) -> list[str]:
    """Settings that two findings give different values."""
    given: dict[str, Any] = {}
    return [
        name
        for finding in findings
        for name, value in finding.changes.items()
        if given.setdefault(name, value) != value
    ]


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_a_log_gets_this_advice_and_no_other(path: Path):
    expected = EXPECTED.get(path.name, [])
    answers = [told(facts) for facts in runs_of(path)]
    assert answers == expected or (not expected and not any(answers))


WEIGHTS = ("high", "medium", "low")


def is_in_order(facts: RunFacts, findings: list[Finding]) -> bool:
    """Whether what weighs more comes first and, of equal weight, what treats the largest
    part of the start, but for findings that change nothing."""
    largest = facts.start.dominant if facts.start is not None else None
    tuned = [f for f in findings if f.rule not in FAILURES]
    weights = [WEIGHTS.index(f.severity) for f in tuned]
    treats = [
        (weight, f.phase != largest or f.rule == "largest_part")
        for weight, f in zip(weights, tuned, strict=True)
        if not f.suggestion.startswith("nothing")
    ]
    return weights == sorted(weights) and treats == sorted(treats)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.name)
def test_of_equal_weight_the_largest_part_of_a_whole_start_comes_first(path: Path):
    for facts in runs_of(path):
        findings = advise(facts)
        assert conflicts(findings) == []
        assert is_in_order(facts, findings)
        start = start_of(facts.summary)
        if start is None or start.of:
            continue
        most = start.seconds[start.dominant]
        treating = [f for f in findings if f.phase == start.dominant]
        assert all((f.part_s or 0.0) >= most - 0.001 for f in treating)


@pytest.mark.parametrize(("name", "rule"), MUST_NOT)
def test_a_wrong_finding_stays_away(name: str, rule: str):
    paths = [path for path in LOGS if path.name == name]
    if not paths:
        pytest.skip("the real logs are not here")
    for facts in runs_of(paths[0]):
        assert rule not in [finding.rule for finding in advise(facts)]


@pytest.mark.parametrize("rule", TIME_CASES)
def test_the_largest_part_is_treated_once(rule: str):
    for side in TIME_CASES[rule]:
        for events in side:
            facts = facts_of(events)
            findings = advise(facts)
            assert conflicts(findings) == []
            assert is_in_order(facts, findings)
            if facts.start is not None:
                treating = [f for f in findings if f.phase == facts.start.dominant]
                assert "largest_part" not in [f.rule for f in treating[1:]]


def test_a_gain_is_never_more_than_the_part():
    for applies, _ in TIME_CASES.values():
        for events in applies:
            for finding in advise(facts_of(events)):
                if finding.gain_s is not None and finding.part_s is not None:
                    least, most = finding.gain_s
                    assert 0 <= least <= most <= finding.part_s + 0.001, finding.rule


# --- buckets by dimension ------------------------------------------------------------

BATCHES = [1, 2, 4, *range(8, 65, 4)]
BLOCKS = [256, 384, 512, 640, 768, 896, 1024, 1152, 1189]
LENGTHS = range(1280, 20481, 1280)


def big_start() -> list[Any]:
    """A start on Gaudi 3: 162 decode buckets in 241 s and 48 prompt buckets in 160 s.

    Three of them are the first of their kind and took 6 to 11 s instead of 1 to 2.
    """
    decode = {(bs, 1, blocks): 1.36 for bs in BATCHES for blocks in BLOCKS}
    decode |= {bucket: 1.62 for bucket in decode if bucket[2] == 1152}
    decode |= {(60, 1, 1189): 7.3, (1, 1, 1189): 6.4}
    prompt = {(1, q, c): 2.85 for q in LENGTHS for c in (48, 96)}
    prompt |= {(1, q, 0): 3.8 for q in LENGTHS}
    prompt |= {(1, 20480, 96): 11.1}
    events = gaudi_steps(
        decode, prompt, lead_s=89.0, **NO_PREFIXES | {
            "max_model_len": 32768, "max_num_batched_tokens": 32768, "max_num_seqs": 64,
            "VLLM_PROMPT_QUERY_BUCKET_MIN": "1280",
            "VLLM_PROMPT_QUERY_BUCKET_STEP": "1280",
            "VLLM_PROMPT_QUERY_BUCKET_MAX": "20480",
        },
    )  # fmt: skip
    shape = Note(topic="profile_run", text="ran", values={"shape": (1, 32768, 0)})
    ran = PhaseMarked(name="profile_run", edge="end", duration_s=39.0, time=T0 + 39)
    return [*events[:2], shape, ran, *events[2:]]


def test_what_predicts_a_saving_stands_before_a_smaller_part_without_one():
    decode = {(1, 1, blocks): 3.0 for blocks in range(128, 1408, 128)}
    prompt = {(1, q, c): 3.0 for q in range(256, 2304, 256) for c in (0, 12)}
    events = gaudi_steps(decode, prompt, lead_s=22.0, ranges=False, **NO_PREFIXES)
    found = {f.rule: f for f in advise(facts_of(events)) if f.rule.endswith("_buckets")}
    assert list(found) == ["prompt_buckets", "decode_buckets"]
    assert found["prompt_buckets"].gain_s is not None
    assert found["decode_buckets"].gain_s is None
    assert {f.severity for f in found.values()} == {"medium"}


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        ({"bucketing_strategy": "linear_bucketing"}, "VLLM_DECODE_BLOCK_BUCKET_STEP"),
        ({}, "a smaller --max-model-len"),
    ],
)
def test_fewer_values_are_those_of_a_setting(settings, change):
    decode = {(1, 1, blocks): 3.0 for blocks in (128, 300, 900)}
    events = gaudi_steps(decode, {(1, 128, 0): 1.0}, ranges=False, **settings)
    facts = facts_of([e for e in events if not isinstance(e, WarmupStep)])
    text = rules_bucket_time._fewer_values(facts, "decode")
    assert text.startswith("fewer values of blocks, which has most: ")
    assert change in text


def test_buckets_by_dimension_come_to_half_of_the_start():
    """490 s to about 260 s: steps of 16, a near twin, contexts without a use."""
    findings = advise(facts_of(big_start()))
    decode, prompt, profile = findings[:3]
    assert [f.rule for f in findings[:3]] == [
        "decode_buckets", "prompt_buckets", "profile_shape",
    ]  # fmt: skip
    assert decode.changes == {
        "VLLM_DECODE_BS_BUCKET_STEP": 16,
        "VLLM_DECODE_BLOCK_BUCKET_MAX": 1024,
    }
    # 90 buckets at 1.36 s and 8 of 1,152 blocks; the spike of 5.9 s moves on.
    assert decode.gain_s == pytest.approx((135.4, 138.0), abs=0.1)
    assert "90 buckets" in decode.effect
    assert "8 buckets and 13 s less" in decode.effect
    assert decode.ways[0].changes == {"VLLM_DECODE_BS_BUCKET_STEP": 8}
    assert prompt.gain_s == pytest.approx((91.2, 91.7), abs=0.1)
    assert "16 prompt buckets of context 0" in prompt.suggestion
    assert profile.changes == {"max_num_batched_tokens": 20480}
    assert profile.gain_s == pytest.approx((0, 23.8), abs=0.1)
    left = [490 - sum(f.gain_s[side] for f in findings[:3]) for side in (0, 1)]
    assert left[0] == pytest.approx(260, abs=5)
    assert left[1] > 220
    assert conflicts(findings) == []


@pytest.mark.parametrize(
    ("version", "offers"), [("0.1.dev1", True), ("0.1.dev1", False), ("0.20.0", False)]
)
def test_prefetching_is_proposed_where_the_engine_offers_it(version, offers):
    """A build of unknown number prints the option that forces it."""
    line = (
        "Auto-prefetch is disabled because the filesystem (EXT4) is not a recognized network "
        "FS. If you want to force prefetching, start vLLM with "
        "--safetensors-load-strategy=prefetch."
    )
    notes = (Note(topic="checkpoint", text=line),) if offers else ()
    events = phased(
        ("load_weights", 100.0), ("configure", 10.0), version=version,
        extra=(checkpoint(22, 85), config(load_format="safetensors"), *notes),
    )  # fmt: skip
    finding = found(events, "weights_read")
    is_prefetched = finding.changes == {"safetensors_load_strategy": "prefetch"}
    assert is_prefetched == (offers or version == "0.20.0")


def test_files_that_the_loader_prefetches_or_that_are_in_memory_need_no_prefetch():
    def findings(filesystem):
        events = phased(
            ("load_weights", 100.0), ("configure", 10.0), version="0.25.1",
            extra=(checkpoint(22, 85, filesystem), config(load_format="safetensors")),
        )  # fmt: skip
        return [f for f in advise(facts_of(events)) if f.rule == "weights_read"]

    assert [f.changes for f in findings("NFS")] == [{}]
    assert findings("TMPFS") == []


def test_files_that_were_prefetched_need_neither_prefetch_nor_another_disk():
    """vLLM 0.23: prefetch was set, and all files were in memory after 1.3 of 135 s."""

    def finding(seconds):
        line = f"Prefetching checkpoint files into page cache finished in {seconds}s"
        events = phased(
            ("load_weights", 135.0), ("configure", 10.0), version="0.25.1",
            extra=(checkpoint(20, 85), config(safetensors_load_strategy="prefetch"),
                   Note(topic="checkpoint", text=line)),
        )  # fmt: skip
        return found(events, "weights_read")

    quick = finding("1.33")
    assert "prefetch" not in quick.suggestion
    assert quick.gain_s is None
    assert quick.effect.startswith("no figure: all files were in memory after 1.33 s")
    assert not any("NVMe" in way.suggestion for way in quick.ways)
    slow = finding("131.00")
    assert "prefetch" not in slow.suggestion
    assert "NVMe" in slow.suggestion


def test_host_memory_that_was_available_is_not_called_all_of_it():
    finding = found(phased(("load_weights", 60.0), extra=(checkpoint(14, 10),)),
                    "weights_read")  # fmt: skip
    assert "do not fit the 10 GiB of host memory that were available" in finding.price


def test_a_rank_that_reads_with_its_own_share_already_is_not_told_to():
    events = [*ranked({0: 30.0, 1: 90.0})]
    assert "fastsafetensors" in found(events, "slowest_rank").suggestion
    events.insert(1, config(load_format="fastsafetensors"))
    assert "fastsafetensors" not in found(events, "slowest_rank").suggestion


def test_sizes_without_bars_and_count_have_a_gain_too():
    events = [
        e for e in captured(SIZES, 67.0, 1.0) if not isinstance(e, CaptureProgress)
    ]
    events = [
        GraphsCaptured(duration_s=67.0, time=e.time)
        if isinstance(e, GraphsCaptured)
        else e
        for e in events
    ]
    finding = found(events, "capture_sizes")
    each = 67.0 / len(SIZES)
    dropped = finding.numbers["num_dropped"]
    assert finding.gain_s == pytest.approx((0.5 * each * dropped, each * dropped))


@pytest.mark.parametrize("phase", ["profile_run", "kernel_warmup"])
@pytest.mark.parametrize(
    ("device", "setting", "kept"),
    [
        ("cuda", "TRITON_CACHE_DIR", "FlashInfer and DeepGEMM where they are in use"),
        ("rocm", "AITER_JIT_DIR", "AITER and Triton"),
        ("xpu", "TRITON_CACHE_DIR", "Triton compiles: TRITON_CACHE_DIR"),
    ],
)
def test_caches_of_kernels_are_those_of_the_device(phase, device, setting, kept):
    events = phased((phase, 102.0), ("load_model", 90.0), device_kind=device)
    rule = "profile_run" if phase == "profile_run" else "kernels_built"
    (finding,) = [each for each in advise(facts_of(events)) if each.rule == rule]
    assert finding.setting == setting
    assert kept in finding.suggestion
    assert ("flashinfer" in finding.suggestion.lower()) == (device == "cuda")


@pytest.mark.parametrize(
    ("version", "settings", "named"),
    [
        ("0.26.0", {"quantization": "fp8"}, ["VLLM_DEEP_GEMM_WARMUP=skip", "--no-enable-flashinfer-autotune"]),
        ("0.26.0", {}, ["--no-enable-flashinfer-autotune"]),
        ("0.12.0", {"quantization": "fp8"}, ["VLLM_DEEP_GEMM_WARMUP=skip"]),
        ("0.26.0", {"quantization": "fp8", "VLLM_DEEP_GEMM_WARMUP": "skip"}, ["--no-enable-flashinfer-autotune"]),
        ("0.10.0", {"quantization": "fp8"}, []),
    ],
)  # fmt: skip
def test_a_warm_up_of_kernels_is_left_out_as_the_version_can(version, settings, named):
    events = phased(
        ("kernel_warmup", 102.0), ("load_model", 90.0), version=version,
        device_kind="cuda", extra=(config(**settings),),
    )  # fmt: skip
    (finding,) = [f for f in advise(facts_of(events)) if f.rule == "kernels_built"]
    assert [way.suggestion.split(",")[0] for way in finding.ways] == named


@pytest.mark.parametrize(
    ("model", "phase", "settings", "is_named"),
    [
        ("a/b", "configure", {}, True),
        ("/models/b", "configure", {}, False),
        ("a/b", "import", {}, False),
        ("a/b", "configure", {"HF_HUB_OFFLINE": "1"}, False),
    ],
)
def test_a_long_configuration_may_be_of_the_hub(model, phase, settings, is_named):
    events = phased(
        (phase, 480.0), ("load_model", 20.0), model=model, extra=(config(**settings),)
    )
    (finding,) = [f for f in advise(facts_of(events)) if f.rule == "slow_imports"]
    shown = [way.suggestion for way in finding.ways]
    assert any("HF_HUB_OFFLINE=1" in text for text in shown) is is_named


@pytest.mark.parametrize(
    ("version", "strategy", "size", "is_named"),
    [
        ("0.12.0", "lazy", 14, True),
        ("0.12.0", "eager", 14, False),
        ("0.10.0", "lazy", 14, False),
        ("0.12.0", "lazy", 100, False),
    ],
)
@pytest.mark.parametrize("has_experts", [False, True])
def test_files_on_a_network_are_read_whole(
    version, strategy, size, is_named, has_experts
):
    events = phased(
        ("load_weights", 60.0), version=version,
        extra=(checkpoint(size, 10, "GPFS"), config(load_format="auto", safetensors_load_strategy=strategy,
                                             enable_expert_parallel=has_experts)),
    )  # fmt: skip
    (finding,) = [f for f in advise(facts_of(events)) if f.rule == "weights_read"]
    shown = [finding.suggestion, *(way.suggestion for way in finding.ways)]
    eager = [text for text in shown if "--safetensors-load-strategy eager" in text]
    assert bool(eager) is (is_named and not has_experts)


def test_without_chunked_prefill_the_profile_run_keeps_its_shape():
    events = profiled((1, 32768, 0))
    whole = config(enable_chunked_prefill=False, max_model_len=32768)
    finding = found([events[0], whole, *events[1:]], "profile_shape")
    assert finding.changes == {}
    assert "without chunked prefill" in finding.suggestion


def test_the_sampler_takes_longer_for_the_batch_sizes_left_out():
    """Of 18 batch sizes 10 go, with 372 of 547 rows; the sampler took 10 s."""
    *events, done, ready = gaudi_steps(DECODE_STEPS, PROMPT_STEPS)
    end = done.time + 10.0
    sampled = PhaseMarked(name="sampler_warmup", edge="end", duration_s=10.0, time=end)
    _, without = found([*events, done, ready], "decode_buckets").gain_s
    _, most = found(
        [*events, sampled, WarmupFinished(duration_s=done.duration_s, time=end)],
        "decode_buckets",
    ).gain_s
    assert most - without == pytest.approx(10.0 * 372 / 547)


def test_calls_after_compilation_ahead_belong_to_the_dominant_part():
    """tpu-inference compiles some shapes ahead and others in a pass of calls."""
    events = phased(
        ("load_model", 50.0), ("compile", 60.0), ("model_warmup", 130.0),
        engine="tpu-inference", device_kind="tpu",
        extra=(CompileFinished(what="graph", duration_s=60.0),),
    )  # fmt: skip
    finding = advise(facts_of(events))[0]
    assert (
        "warm-up calls took 3 min 10 s of 4 min 00 s (79 %), 1 min 00 s of it"
        in finding.title
    )
    assert finding.part_s == 190.0
    assert finding.gain_s == (0.0, 60.0)


def test_a_cache_that_the_engine_printed_as_off_is_switched_on():
    finding = found(compiled(52.0, OFF), "compile_cache")
    assert finding.suggestion == "unset VLLM_DISABLE_COMPILE_CACHE"
    assert finding.title.endswith("; its cache is switched off.")


@pytest.mark.parametrize(("directory", "is_off"), [(None, True), ("/c", False)])
def test_a_cache_is_off_where_an_engine_beside_states_it(directory, is_off):
    """Ray shows one of equal lines of several engines."""
    made = facts_of(compiled(52.0, path=directory))
    other = facts_of(compiled(52.0, OFF, path=None)).summary
    facts = RunFacts(made.summary, made.rows, beside=(other,))
    (finding,) = [f for f in advise(facts) if f.rule == "compile_cache"]
    assert ("an engine beside it is switched off" in finding.title) == is_off
    assert (finding.setting == "VLLM_DISABLE_COMPILE_CACHE") == is_off
    words = cache_text(facts.summary)
    assert words == (
        "no graph from a torch.compile cache"
        if is_off
        else "torch.compile cache missed"
    )


def test_what_a_cpu_compiles_and_saves_as_a_whole_is_kept():
    made = PhaseMarked(
        name="compile", edge="end", duration_s=37.0, time=T0 + 37.0, path="/c/model"
    )
    cpu = started("vllm", device_kind="cpu", version="0.28.1")
    events = [cpu, made, ServerReady(time=T0 + 60.0)]
    finding = found(events, "compile_cache")
    assert (
        finding.title
        == "Compilation took 37 s of 1 min 00 s (62 %); nothing came from its cache."
    )
    assert finding.suggestion.startswith("VLLM_CACHE_ROOT")


def test_starts_that_failed_alike_are_named_where_the_next_one_is_cut():
    summaries = [
        summary_of([started("vllm"), Failure(failure="error", message=text)])
        for text in ("KeyError: 'a'", "KeyError: 'a'", "KeyError: 'b'")
    ]
    cut = [started("vllm"), PhaseMarked(name="configure", edge="start")]
    of_log = {"source_kind": "log"}
    finding = found(cut, "others_failed", history=summaries[:2], **of_log)
    assert finding.title.startswith(
        "2 of 2 other starts of this model failed: KeyError: 'a'"
    )
    for history in (
        summaries,
        summaries[:1],
        [*summaries[:2], summary_of(phased(("load_model", 20.0), version="0.26.0"))],
    ):
        rules = [f.rule for f in advise(facts_of(cut, history=history, **of_log))]
        assert "others_failed" not in rules


def test_first_compilations_are_not_counted_as_saved():
    plain = found(gaudi_steps({(bs, 1, b): 1.0 for bs in BATCHES for b in BLOCKS}, PROMPT_STEPS),
                  "decode_buckets")  # fmt: skip
    spiked = {(bs, 1, b): 1.0 for bs in BATCHES for b in BLOCKS} | {(12, 1, 256): 50.0}
    finding = found(gaudi_steps(spiked, PROMPT_STEPS), "decode_buckets")
    # The median is not the time of all by their number, so it is named apart.
    assert ", typically " in finding.title
    least, most = finding.gain_s
    assert least == pytest.approx(plain.gain_s[0])
    assert most == pytest.approx(least)


@pytest.mark.parametrize(
    "settings",
    [
        {"enable_prefix_caching": True},
        {"prefix_caching": "True"},
        {"max_num_batched_tokens": 1024},
    ],
)
def test_contexts_stay_where_they_have_a_use(settings):
    steps = {(1, 1, 256): 0.5}
    without = found(gaudi_steps(steps, PROMPT_STEPS, **NO_PREFIXES), "prompt_buckets")
    assert without.gain_s == (8.0, 8.0)
    values = {**NO_PREFIXES, **settings}
    kept = found(gaudi_steps(steps, PROMPT_STEPS, **values), "prompt_buckets")
    assert kept.gain_s is None
    assert kept.changes == {}
    assert found(MISSED, "prompt_buckets").gain_s is None


def test_a_context_range_is_named_where_it_leaves_no_context():
    """At 32k tokens v0.14.1 adds the longest context whatever the range ends with."""
    steps = {(1, 1, 256): 0.5}
    short = found(gaudi_steps(steps, PROMPT_STEPS, **NO_PREFIXES), "prompt_buckets")
    assert short.changes == {"VLLM_PROMPT_CTX_BUCKET_MAX": 0}
    long = {"max_model_len": 32768, "max_num_batched_tokens": 32768}
    events = gaudi_steps(steps, PROMPT_STEPS, **NO_PREFIXES | long)
    assert found(events, "prompt_buckets").changes == {}


def test_the_other_strategy_is_an_alternative_where_the_rules_give_the_buckets():
    """60 of 2,048 tokens by 128 and by contexts, against 35 exponential ones."""
    limits = {
        "max_num_seqs": 4, "max_model_len": 1024, "max_num_batched_tokens": 1024,
        "use_contiguous_pa": "False", "prefix_caching": "True",
    }  # fmt: skip
    empty = gaudi_steps({(1, 1, 1): 1.0}, {(1, 128, 0): 1.0}, num_blocks=64, ranges=False,
                        bucketing_strategy="linear_bucketing", **limits)  # fmt: skip
    made = regenerated(summary_of(empty), "lin")
    steps = [dict.fromkeys(made[phase], 1.5) for phase in ("decode", "prompt")]
    events = gaudi_steps(*steps, num_blocks=64, ranges=False,
                         bucketing_strategy="linear_bucketing", **limits)  # fmt: skip
    assert reproducing_settings(summary_of(events)) is not None
    fewer = regenerated(summary_of(events), "exp")
    way, _ = found(events, "prompt_buckets").ways
    assert way.changes == {"VLLM_EXPONENTIAL_BUCKETING": "true"}
    assert (
        f"{len(fewer['prompt'])} prompt and {len(fewer['decode'])} decode" in way.price
    )
    odd = gaudi_steps(steps[0], {**steps[1], (1, 130, 0): 1.5}, num_blocks=64,
                      ranges=False, bucketing_strategy="linear_bucketing", **limits)  # fmt: skip
    assert reproducing_settings(summary_of(odd)) is None
    (kept,) = found(odd, "prompt_buckets").ways
    assert kept.suggestion.startswith("PT_HPU_RECIPE_CACHE_CONFIG")


def test_a_profile_run_is_not_made_smaller_than_the_prompts_that_come():
    assert found(profiled((1, 32768, 0)), "profile_shape").changes == {
        "max_num_batched_tokens": 20480
    }
    events = [*profiled((1, 32768, 0)), BucketMiss(phase="prompt", shape=(1, 31978, 0))]
    assert found(events, "profile_shape").changes == {}


# --- the start ----------------------------------------------------------------------


def test_prefetching_needs_the_host_memory_and_the_version():
    def finding(ram_gib, version):
        events = phased(("load_weights", 60.0), extra=(checkpoint(14, ram_gib),),
                        version=version)  # fmt: skip
        return found(events, "weights_read")

    assert finding(100, "0.25.1").changes == {"safetensors_load_strategy": "prefetch"}
    assert finding(15, "0.25.1").changes == {}
    assert "not prefetch" in finding(15, "0.25.1").price
    assert finding(100, "0.14.1").changes == {}


def test_a_pass_that_its_bar_and_its_line_time_apart_is_one():
    """The loading that the one states began in between."""
    parts = (("load_weights", 0.5), ("load_model", 0.2), ("load_weights", 60.0))
    finding = found(phased(*parts, extra=(checkpoint(14, 10),)), "weights_read")
    assert "passes" not in finding.title
    two = (("load_weights", 20.0), ("load_model", 0.2), ("load_weights", 60.0))
    finding = found(phased(*two, extra=(checkpoint(14, 10),)), "weights_read")
    assert "in 2 passes" in finding.title


def test_reading_is_judged_by_the_best_start_of_the_same_model():
    slow = phased(("load_weights", 60.0), extra=(checkpoint(14, 10),))
    quick = summary_of(phased(("load_weights", 20.0)), "bbb")
    other = summary_of(phased(("load_weights", 2.0), model="another"), "ccc")
    facts = facts_of(slow, [quick, other])
    (finding,) = [f for f in advise(facts) if f.rule == "weights_read"]
    assert finding.gain_s == (0.0, 40.0)


def test_a_download_that_another_start_did_not_need_is_kept():
    events = phased(("download", 110.0), ("load_weights", 30.0))
    assert found(events, "weights_download").suggestion.startswith("HF_HOME")
    again = summary_of(phased(("load_weights", 30.0)), "bbb")
    finding = found(events, "weights_download", history=[again])
    assert finding.suggestion.startswith("nothing")
    assert finding.gain_s == (110.0, 110.0)


def test_graphs_follow_what_the_cache_holds():
    """1.81 requests at once, doubled: sizes 1, 2 and 4 stay."""
    finding = found(captured(SIZES, 200.0, 1.81), "capture_sizes")
    assert finding.changes == {"max_cudagraph_capture_size": 4}
    each = 200 / len(SIZES)
    assert finding.gain_s[1] == pytest.approx(200 - 3 * each, abs=1)
    drafts = "SpeculativeConfig(method='mtp', num_spec_tokens=3)"
    events = captured(SIZES, 200.0, 1.81, speculative_config=drafts)
    finding = found(events, "capture_sizes")
    assert finding.changes == {"max_cudagraph_capture_size": 16}
    # Each of 4 requests has 4 tokens in a step, and the largest size is twice as many.
    assert finding.ways[0].changes == {"max_num_seqs": 4}
    assert "sizes up to 32 remain" in finding.ways[0].price
    events[0] = changed(events[0], version="0.12.0")
    assert not any(
        "requests at once" in way.price for way in found(events, "capture_sizes").ways
    )
    # 64 requests of 16,384 tokens are many more short ones: only what no batch has goes.
    assert found(captured(SIZES, 200.0, 64.0), "capture_sizes").changes == {
        "max_cudagraph_capture_size": 128
    }
    old = captured(SIZES, 200.0, 1.81)
    old[0] = changed(old[0], version="0.10.2")
    assert found(old, "capture_sizes").changes == {
        "cudagraph_capture_sizes": "[1, 2, 4]"
    }


def test_one_graph_that_took_most_of_the_time_is_no_mean():
    """The bar states it: kernels that it needed first were compiled."""
    states = [(n, float(int(0.28 * n)) + (25.0 if n >= 14 else 0.0)) for n in range(36)]
    events = captured([1, 2, 4, *range(8, 257, 8)], 34.0, None)
    place = next(i for i, e in enumerate(events) if isinstance(e, CaptureProgress))
    events[place] = changed(events[place], states=states)
    finding = found(events, "capture_sizes")
    assert finding.effect == "1 of 35 graphs took 25 s, each of the others about 0.3 s"
    assert finding.details[0] == "up to 8: 4 of 35 sizes, about 8 s to 33 s less"
    assert finding.gain_s == (0.0, 33.0)


@pytest.mark.parametrize(
    ("saved", "gain"), [(None, (15.6, 31.2)), ("/cache/aot", (39.52, 45.76))]
)
def test_a_compile_cache_leaves_dynamo_or_an_eighth(saved, gain):
    finding = found(compiled(52.0, saved=saved), "compile_cache")
    assert finding.gain_s == pytest.approx(gain)


def test_a_compile_cache_that_is_kept_is_no_change():
    finding = found(compiled(52.0, path="/home/u/.cache/vllm"), "compile_cache")
    assert finding.suggestion.startswith("nothing")


@pytest.mark.parametrize(
    ("version", "follows"),
    [
        ("0.5.5", True),
        ("0.6.4.post1", True),
        ("0.1.dev3896+ga491", False),
        ("0.7.3", False),
    ],
)
def test_graphs_of_an_engine_before_v1_follow_the_number_of_requests(version, follows):
    made = captured(SIZES, 200.0, None)
    events = [e for e in made if not getattr(e, "settings", None)]
    events[0] = changed(events[0], version=version)
    suggestion = found(events, "capture_sizes").suggestion
    assert suggestion.startswith("--max-num-seqs") is follows
    assert ("compilation-config" in suggestion) is not follows


def test_a_log_without_its_beginning_has_no_parts():
    events = phased(("graph_capture", 60.0), ("kernel_warmup", 20.0))
    assert start_of(summary_of(events)) is not None
    assert start_of(summary_of(events, source_kind="log")) is None
    whole = phased(("configure", 5.0), ("graph_capture", 60.0))
    assert start_of(summary_of(whole, source_kind="log")) is not None
    nameless = phased(("configure", 5.0), ("graph_capture", 60.0), version=None)
    assert start_of(summary_of(nameless, source_kind="log")) is None
    cut = phased(("configure", 5.0), ("graph_capture", 60.0), ("lines_cut_out", 9.0))
    assert start_of(summary_of(cut)) is None


def test_the_end_of_a_log_states_what_graph_capture_took():
    events = [
        started("vllm", device_kind="cuda"),
        GraphsCaptured(duration_s=11412.0, time=T0 + 1),
        EngineInitialized(duration_s=11629.9, time=T0 + 84),
    ]
    (finding,) = advise(facts_of(events, source_kind="log"))
    assert finding.rule == "capture_sizes"
    assert "of engine initialisation (98 %)" in finding.title
    events[1] = GraphsCaptured(duration_s=30.0, time=T0 + 1)
    assert advise(facts_of(events, source_kind="log")) == []


# --- history and settings -------------------------------------------------------------


def test_runs_are_alike_in_model_device_version_and_kind_of_start():
    this = summary_of(compiled(52.0))
    same = summary_of(compiled(40.0), "bbb")
    others = [
        summary_of(compiled(52.0, from_cache=True), "ccc"),
        changed(same, engine={"version": "0.26.0"}),
        changed(same, device={"name": "L4"}),
        changed(same, model="another"),
        changed(same, config={"quantization": "fp8"}),
        changed(same, start={"kind": "skipped"}),
        changed(same, start={"kind": "cold", "plan": "applied"}),
    ]
    assert RunFacts(this, history=[same, *others]).alike == [same]
    redacted = changed(this, model="<redacted>")
    assert RunFacts(redacted, history=[redacted]).alike == []


@pytest.mark.parametrize(
    ("recipes", "kind"),
    [(",false,1024", "cold"), ("/r,true,1024", "cold"), ("/r,false,1024", None)],
)
def test_a_recipe_cache_on_disk_may_have_made_a_start_warm(recipes, kind):
    events = gaudi_steps(
        {(1, 1, 256): 1.0},
        PROMPT_STEPS,
        lead_s=140.0,
        PT_HPU_RECIPE_CACHE_CONFIG=recipes,
    )
    facts = facts_of(events)
    assert facts.summary.start.words == kind
    rules = [f.rule for f in advise(facts)]
    assert ("startup_probe" in rules) == (kind == "cold")


def skipping():
    """A start without warm-up, whose buckets are listed."""
    buckets = generated("prompt", [(1, 128, 0), (1, 256, 0)])
    return [SKIPPED[0], buckets, *SKIPPED[1:]]


def test_only_cold_whole_starts_give_a_probe():
    def probes(events, **more):
        return [
            f for f in advise(facts_of(events, **more)) if f.rule == "startup_probe"
        ]

    assert probes(compiled(152.0))
    assert not probes(compiled(152.0, from_cache=True))
    assert not probes(SKIPPED)
    assert not probes(phased(("graph_capture", 31.0)), source_kind="log")
    assert not probes(phased(("load_weights", 24.0)))
    (finding,) = probes(phased(("load_weights", 124.0)))
    assert finding.suggestion == "periodSeconds: 10, failureThreshold: 60"


@pytest.mark.parametrize(
    ("engine", "version", "setting", "expected"),
    [
        ("vllm-gaudi", "0.11.2", "VLLM_BUCKETING_FROM_FILE", True),
        ("vllm-gaudi", "0.10.1", "VLLM_BUCKETING_FROM_FILE", False),
        ("vllm-fork", "0.9.0", "VLLM_BUCKETING_FROM_FILE", False),
        ("vllm-gaudi", "0.19.1", "VLLM_BUCKETING_STRATEGY", False),
        ("vllm-gaudi", "0.20.0rc0", "VLLM_BUCKETING_STRATEGY", True),
        ("vllm-gaudi", "0.10.0", "VLLM_PROMPT_QUERY_BUCKET_MAX", False),
        ("vllm-gaudi", "0.14.1", "VLLM_PROMPT_QUERY_BUCKET_MAX", True),
        ("vllm-gaudi", "0.14.1", "VLLM_PROMPT_SEQ_BUCKET_MAX", False),
        ("vllm-gaudi", "0.14.1", "VLLM_EXPONENTIAL_BUCKETING", True),
        ("vllm", "0.11.0", "max_cudagraph_capture_size", False),
        ("vllm", "0.11.1", "max_cudagraph_capture_size", True),
        ("vllm", "0.11.0", "cudagraph_specialize_lora", False),
        ("vllm", "0.11.1", "cudagraph_specialize_lora", True),
        ("vllm", "0.10.0", "cudagraph_mode=FULL_DECODE_ONLY", False),
        ("vllm", "0.10.1", "cudagraph_mode=FULL_DECODE_ONLY", True),
        ("vllm", "0.10.1", "skip_mm_profiling", True),
        ("vllm", "0.8.1", "load_format=fastsafetensors", False),
        ("vllm", "0.8.2", "load_format=fastsafetensors", True),
        ("vllm", "0.25.1", "VLLM_ENABLE_STARTUP_PLAN", False),
        ("vllm", "0.27.1", "VLLM_ENABLE_STARTUP_PLAN", True),
        ("vllm", None, "VLLM_ENABLE_STARTUP_PLAN", False),
        ("vllm", "0.27.1", "UNHEARD_OF", False),
    ],
)
def test_a_setting_is_named_where_its_version_reads_it(
    engine, version, setting, expected
):
    summary = summary_of(phased(("load_model", 1.0), engine=engine, version=version))
    assert has_setting(summary, setting) is expected


def test_every_life_has_a_first_or_a_last_version():
    for life in LIVES:
        assert life.first or life.last
        assert bool(life.last) == bool(life.state) == bool(life.because)


def test_the_price_of_skipping_is_the_first_request_less_the_second():
    """62 s and 41 s: 21 s were compilation, the rest is the request itself."""
    shape, bucket = (1, 100, 0), (1, 128, 0)
    missed = BucketMiss(phase="prompt", shape=shape, fallback=bucket)
    uses = [
        BucketUsed(phase="prompt", shape=shape, bucket=bucket, duration_s=seconds)
        for seconds in (62.0, 41.0)
    ]
    finding = found([*skipping(), missed, *uses], "warmup_skipped")
    assert finding.numbers["compile_s"] == pytest.approx(21.0)
    assert "21 s" in finding.effect
    finding = found([*skipping(), missed, uses[0]], "warmup_skipped")
    assert "compile_s" not in finding.numbers


def test_old_settings_are_one_finding():
    asked = {f"VLLM_PROMPT_SEQ_BUCKET_{part}": "128" for part in ("MIN", "STEP", "MAX")}
    events = phased(("load_model", 30.0), engine="vllm-gaudi", version="0.14.1",
                    extra=(config(**asked),))  # fmt: skip
    finding = found(events, "dead_setting")
    assert finding.numbers["num_settings"] == 3
    assert finding.severity == "low"


def test_ranges_that_did_not_hold_what_came_are_named_by_version():
    def finding(version, name):
        events = [
            *phased(
                ("load_model", 30.0), engine="vllm-gaudi", version=version,
                device_kind="hpu", extra=(
                    config(**{name: "6400"}, bucketing_strategy="linear"),
                    WarmupFinished(skipped=True),
                ),
            ),
            BucketMiss(phase="prompt", shape=(1, 31978, 0), fallback=(1, 32768, 0)),
        ]  # fmt: skip
        assert "warmup_skipped" not in [f.rule for f in advise(facts_of(events))]
        return found(events, "missed_shapes")

    name = "VLLM_PROMPT_QUERY_BUCKET_MAX"
    assert finding("0.14.1", name).changes == {name: 32768}
    name = "VLLM_PROMPT_SEQ_BUCKET_MAX"
    assert finding("0.10.1", name).changes == {name: 32768}


@pytest.mark.parametrize(
    ("tokens", "setting"),
    [
        (None, "max_model_len"),
        (8192, "max_model_len"),
        (32768, "max_num_batched_tokens"),
    ],
)
def test_the_fork_profiles_a_batch_of_its_longest_prompts(tokens, setting):
    of_fork = ConfigRecorded(
        engine="vllm-fork",
        settings={"max_model_len": 8192, "max_num_batched_tokens": tokens},
    )
    events = profiled(None)
    finding = found([events[0], of_fork, *events[1:]], "profile_shape")
    assert "as many prompts of the longest bucket" in finding.title
    assert finding.setting == setting


def test_an_engine_that_failed_while_it_served_has_no_whole_start_without_readiness():
    """The log states no end of the start: its last line is no measure of it."""
    events = [
        started("vllm", device_kind="cuda", version="0.7.2", time=1_000_000.0),
        PhaseMarked(name="start_engine", edge="start", time=1_000_005.0),
        PhaseMarked(name="start_engine", edge="end", time=1_000_059.0),
        ServingFailure(failure="error", message="no", time=1_000_060.0),
    ]
    assert facts_of(events).start is None


@pytest.mark.parametrize(
    ("settings", "version", "is_offered"),
    [
        ({"enable_lora": True}, "0.19.1", True),
        ({"enable_lora": True}, "0.10.2", False),
        ({"enable_lora": False}, "0.19.1", False),
        ({"enable_lora": True, "cudagraph_specialize_lora": False}, "0.19.1", False),
    ],
)
def test_batches_without_adapters_need_no_graphs_of_their_own(
    settings, version, is_offered
):
    events = captured(SIZES, 200.0, 1.81, **settings)
    events[0] = changed(events[0], version=version)
    ways = [way.suggestion for way in found(events, "capture_sizes").ways]
    assert any("cudagraph_specialize_lora" in way for way in ways) is is_offered


def fork_steps(
    lengths: list[int], dimensions: tuple[str, ...] = ("bs", "seq")
) -> list[Any]:
    """A start of vllm-fork 0.4.2 whose decode buckets took 2 s each."""
    buckets = [(bs, length) for bs in (1, 2) for length in lengths]
    ranges = BucketRangesConfigured(
        phase="decode", ranges={name: [1, 1, 1] for name in dimensions},
        parameters=["min", "step", "max"],
    )  # fmt: skip
    loaded = PhaseMarked(name="load_model", edge="end", duration_s=9.0, time=T0)
    made = [
        started("vllm-fork", version="0.4.2"), loaded, ranges, generated("decode", buckets),
    ]  # fmt: skip
    for number, bucket in enumerate(buckets):
        made.append(step("decode", bucket, duration_s=2.0, time=T0 + 2.0 * number))
    end = T0 + 2.0 * len(buckets)
    return [*made, WarmupFinished(duration_s=end - T0, time=end), ServerReady(time=end)]


@pytest.mark.parametrize("recipes", [None, "/data/r,false,8192"])
def test_recipes_may_be_kept_where_no_line_states_that_they_are(recipes):
    stated = [config(PT_HPU_RECIPE_CACHE_CONFIG=recipes)] if recipes else []
    first, *steps = fork_steps([*range(128, 2049, 128)])
    text = str(found([first, *stated, *steps], "decode_buckets").ways)
    assert ("PT_HPU_RECIPE_CACHE_CONFIG=/var" in text) is (recipes is None)


def test_lengths_a_step_apart_are_made_by_a_step_twice_as_wide():
    finding = found(fork_steps([*range(128, 2049, 128)]), "decode_buckets")
    assert finding.changes == {"VLLM_DECODE_SEQ_BUCKET_STEP": 256}
    assert (
        "9 sequence lengths instead of 16: 14 buckets and 28 s less" in finding.effect
    )
    assert finding.gain_s == pytest.approx((28.0, 28.0))


@pytest.mark.parametrize(
    ("lengths", "dimensions"),
    [([*range(128, 1921, 128)], ("bs", "seq")), ([128, 256, 512, 1024], ("bs", "seq")),
     ([*range(128, 2049, 128)], ("bs", "block"))],
)  # fmt: skip
def test_other_lengths_have_no_wider_step(lengths, dimensions):
    """Where the longest would be lost, where they double, and of blocks."""
    finding = found(fork_steps(lengths, dimensions), "decode_buckets")
    assert finding.changes == {}


@pytest.mark.parametrize(
    ("model", "is_offered"), [("a/b", True), ("a/b-INT4", False), ("a/b-W4A16", False)]
)
def test_weights_of_four_bits_are_not_quantised_once_more(model, is_offered):
    events = phased(("load_weights", 60.0), extra=(config(model=model),))
    ways = found(events, "weights_read").ways
    assert (
        "a quantised build of the model" in [w.suggestion for w in ways]
    ) == is_offered


def test_reading_as_fast_as_one_reader_can_states_so():
    events = phased(("load_weights", 40.0), extra=(checkpoint(60.0, 10.0, "GPFS"),))
    assert "and this start had no less" in found(events, "weights_read").effect


@pytest.mark.parametrize(
    ("engine", "is_known"), [("vllm", False), ("tpu-inference", True)]
)
def test_what_a_rank_reads_of_experts_has_no_rate(engine, is_known):
    extra = (checkpoint(60.0, 10.0, "GPFS"), config(enable_expert_parallel=True))
    events = phased(("load_weights", 100.0), engine=engine, extra=extra)
    finding = found(events, "weights_read")
    assert ("MB/s" in finding.title, finding.gain_s is not None) == (is_known, is_known)


def test_a_quicker_first_pass_of_another_start_bounds_the_gain():
    """Its settings may be others, so that less may be saved."""
    own = [config(model="a/b")]
    slow = phased(("profile_run", 60.0), ("load_model", 30.0), extra=(*own,))
    quick = phased(("profile_run", 5.0), ("load_model", 30.0), extra=(*own,))
    finding = found(slow, "profile_run", history=[summary_of(quick, "bbb")])
    assert finding.gain_s == (0.0, 55.0)


@pytest.mark.parametrize(
    ("root", "text"),
    [("/srv/.cache/vllm", "VLLM_CACHE_ROOT on a volume"),
     ("/tmp/vllm-cache", "VLLM_CACHE_ROOT on a volume"),
     ("/scratch/cache-1046", "/scratch/cache-1046 kept, and the same")],
)  # fmt: skip
def test_a_root_that_is_set_is_to_be_the_same_in_every_start(root, text):
    path = f"{root}/torch_compile_cache/3504b55d14/rank_0_0/backbone"
    finding = found(compiled(52.0, path=path), "compile_cache")
    assert finding.suggestion.startswith(text)


def test_files_that_several_threads_prefetched_want_another_disk():
    filled = Note(
        topic="checkpoint",
        text="Prefetching checkpoint files into page cache finished in 34.01s",
    )
    extra = (checkpoint(15.26, 100.0, "NFS"), filled)
    finding = found(phased(("load_weights", 36.0), extra=extra), "weights_read")
    assert finding.suggestion == "a copy of the files on a local NVMe disk"
    assert "at 2 GB/s, which NVMe gives one reader" in finding.effect
