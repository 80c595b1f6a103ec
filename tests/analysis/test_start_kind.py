"""Which kind of start a run is, from lines of the releases that print them."""

from __future__ import annotations

import pytest

from tests.helpers import REAL_LOGS, events, folded, read
from warmup_insights.model.events import ConfigRecorded, RunStarted, ServerReady

HEAD = (
    "(APIServer pid=1) INFO 10-16 10:00:00 [api_utils.py:339] vLLM API server version "
    "0.31.0\n"
    "(EngineCore pid=7) INFO 10-16 10:00:05 [core.py:112] Initializing a V1 LLM engine "
    "(v0.31.0) with config: model='o/m', enforce_eager=False\n"
)
END = (
    "(EngineCore pid=7) INFO 10-16 10:02:00 [core.py:337] init engine (profile, create kv "
    "cache, warmup model) took 90.00 s (compilation: 30.00 s)\n"
    "(APIServer pid=1) INFO:     Application startup complete.\n"
)
DIRECTORY = "/c/torch_compile_cache/53d01909eb/rank_0_0/backbone"
DYNAMO = "[backends.py:1155] Dynamo bytecode transform time: 7.06 s"
USING = (
    f"[backends.py:1094] Using cache directory: {DIRECTORY} for vLLM's torch.compile"
)
MADE = "[backends.py:393] Compiling a graph for compile range (1, 8192) takes 8.37 s"
LOADED = (
    "[backends.py:290] Directly load the compiled graph(s) for compile range (1, 8192) "
    "from the cache, took 0.826 s"
)
AOT = "[decorators.py:326] Directly load AOT compilation from path /c/aot/x/rank_0_0/model"
AOT_SAVED = "[decorators.py:708] saved AOT compiled function to /c/aot/x/rank_0_0/model"
AOT_REFUSED = (
    "[decorators.py:300] Cannot load aot compilation from path "
    "/c/aot/x/rank_0_0/model, error: source code has changed"
)
AOT_FAILED = (
    "[decorators.py:333] [backbone] Compiling model again due to a load failure from "
    "/c/aot/x/rank_0_0/model, reason: 'function' object has no attribute 'load'"
)
TUNED = "[kernel_warmup.py:209] Using FlashInfer autotune cache file: /c/a.json"
TUNING_OFF = (
    "[kernel_warmup.py:255] Skipping FlashInfer autotune because it is disabled."
)
MAPPED = "[ipc_loader.py:208] Mapped 291 tensors from the weight cache daemon (zero_copy mode)"
UNUSABLE = (
    "[ipc_loader.py:139] Weight cache unusable (WeightCacheKey mismatch on fields: "
    "['checkpoint']); falling back to disk loading"
)
PLAN = (
    "[startup_plan.py:153] Applying persisted startup plan (fingerprint ab12): "
    "kv_cache_memory_bytes=8417154969 (7.84 GiB), recorded free-memory baseline 78.57 GiB, "
    "current 78.57 GiB. Memory profiling will be skipped."
)
REFUSED = (
    "[startup_plan.py:123] Startup plan not applied: current free memory (70.50 GiB) is "
    "below the recorded baseline (78.50 GiB); falling back to full memory profiling."
)
PLAN_SAVED = "[startup_plan.py:180] Saved startup plan to /c/startup_plan/x.json"


def flashinfer(text: str) -> str:
    return (
        "(EngineCore pid=7) 2026-10-16 10:01:00,155 - INFO - autotuner.py:674 - "
        f"flashinfer.jit: [Autotuner]: {text}\n"
    )


def line(text: str) -> str:
    return f"(EngineCore pid=7) INFO 10-16 10:01:00 {text}\n"


TUNE_START = flashinfer("Autotuning process starts ...")
TUNE_END = flashinfer("Autotuning process ends")
TUNE_LOADED = flashinfer("Loaded 84 configs from /c/a.json")
ALL_NEW = flashinfer("Saved 84 configs to /c/a.json (84 new, 0 from previous config)")
SOME_NEW = flashinfer("Saved 90 configs to /c/a.json (6 new, 84 from previous config)")


def start_of(*lines: str):
    text = "".join(each if each.endswith("\n") else line(each) for each in lines)
    return folded(events(HEAD + text + END)).summary.start


@pytest.mark.parametrize(
    ("lines", "kind", "caches"),
    [
        ([], None, {}),
        ([USING, DYNAMO], None, {}),
        ([USING, DYNAMO, MADE], "cold", {"torch_compile": "missed"}),
        ([USING, DYNAMO, LOADED], "warm", {"torch_compile": "hit"}),
        ([USING, DYNAMO, LOADED, MADE], "partly warm", {"torch_compile": "partial"}),
        (
            [USING, DYNAMO, MADE, AOT_SAVED],
            "cold",
            {"torch_compile": "missed", "aot": "missed"},
        ),
        ([AOT], "warm", {"aot": "hit"}),
        ([AOT_SAVED], "cold", {"aot": "missed"}),
        ([AOT_FAILED], "cold", {"aot": "missed"}),
        ([AOT_FAILED, AOT_SAVED], "cold", {"aot": "missed"}),
        (
            [AOT_REFUSED, USING, DYNAMO, LOADED],
            "partly warm",
            {"torch_compile": "hit", "aot": "missed"},
        ),
        (
            [
                "[backends.py:1090] vLLM's torch.compile cache is disabled.",
                DYNAMO,
                MADE,
            ],
            "cold",
            {"torch_compile": "off"},
        ),
        (
            [TUNED, TUNE_START, TUNE_END, ALL_NEW, TUNE_LOADED],
            "cold",
            {"flashinfer_autotune": "missed"},
        ),
        (
            [TUNED, TUNE_LOADED, TUNE_START, TUNE_END, TUNE_LOADED],
            "warm",
            {"flashinfer_autotune": "hit"},
        ),
        (
            [TUNED, TUNE_LOADED, TUNE_START, TUNE_END, SOME_NEW, TUNE_LOADED],
            "partly warm",
            {"flashinfer_autotune": "partial"},
        ),
        ([TUNING_OFF, AOT], "warm", {"aot": "hit", "flashinfer_autotune": "off"}),
    ],
)
def test_a_kind_follows_from_what_each_cache_gave(lines, kind, caches):
    start = start_of(*lines)
    assert (start.kind, start.caches) == (kind, caches)


def test_preloaded_weights_and_a_plan_make_another_kind():
    start = start_of(MAPPED, PLAN, AOT)
    assert (start.weights, start.plan) == ("mapped", "applied")
    assert start.words == "warm, weights mapped, plan applied"
    start = start_of(UNUSABLE, REFUSED, PLAN_SAVED, AOT)
    assert (start.weights, start.plan, start.words) == ("fell back", "refused", "warm")
    assert start.weights_reason == "WeightCacheKey mismatch on fields: ['checkpoint']"


def test_what_comes_after_ready_is_no_part_of_the_start():
    found = events(HEAD + END + line(MAPPED) + line(AOT))
    start = folded(found).summary.start
    assert (start.kind, start.caches, start.weights) == (None, {}, None)


EAGER = HEAD.replace("enforce_eager=False", "enforce_eager=True")


@pytest.mark.parametrize(
    ("more", "kind", "caches"),
    [
        ((), "eager", {}),
        (("[backends.py:1090] vLLM's torch.compile cache is disabled.",), "eager", {}),
        ((TUNING_OFF,), "eager", {"flashinfer_autotune": "off"}),
        ((TUNE_START, ALL_NEW, TUNE_END), "cold", {"flashinfer_autotune": "missed"}),
        ((TUNE_START, TUNE_LOADED, TUNE_END), "warm", {"flashinfer_autotune": "hit"}),
    ],
)
def test_an_eager_start_compiles_nothing_that_a_cache_could_keep(more, kind, caches):
    """The tuner of kernels runs and keeps its results without compilation too."""
    text = "".join(each if each.endswith("\n") else line(each) for each in more)
    start = folded(events(EAGER + text + END)).summary.start
    assert (start.kind, start.caches) == (kind, caches)


def test_on_gaudi_an_eager_start_compiles_recipes():
    found = [
        RunStarted(engine="vllm-gaudi", device_kind="hpu", time=1.0),
        ConfigRecorded(settings={"enforce_eager": True}),
        ServerReady(time=2.0),
    ]
    assert folded(found).summary.start.kind is None


@pytest.mark.parametrize(
    ("name", "kind", "caches"),
    [
        # The backbone came from both caches, the draft head was compiled, and the tuner
        # read back what it had just saved.
        (
            "c11_cuda_v0.25.1_laguna_nvfp4_specdecode.log",
            "partly warm",
            {
                "torch_compile": "partial",
                "aot": "partial",
                "flashinfer_autotune": "missed",
            },
        ),
        (
            "c07_cuda_v0.19.1_phi3.log",
            "warm",
            {"torch_compile": "hit", "aot": "hit"},
        ),
        ("c01_cuda_v0.8.3_tinyllama.log", "warm", {"torch_compile": "hit"}),
        ("c05_cuda_v0.11.0_l4.log", "cold", {"torch_compile": "missed"}),
    ],
)
def test_real_starts(name, kind, caches):
    path = REAL_LOGS / "fresh" / name
    if not path.exists():
        pytest.skip("real logs are not there")
    runs, _ = read(path.read_bytes(), name)
    start = folded(runs[0]).summary.start
    assert (start.kind, start.caches) == (kind, caches)


def test_a_transformed_bytecode_shows_no_miss():
    """It is transformed where the graphs come from a cache, too."""
    head = "(EngineCore pid=7) INFO 10-16 10:00:30 "
    caches = []
    for lines in ((DYNAMO,), (DYNAMO, MADE), (DYNAMO, LOADED)):
        text = HEAD + "".join(f"{head}{line}\n" for line in lines) + END
        compiled = folded(events(text)).summary.compile
        caches.append(compiled and compiled.cache)
    assert caches == [None, "miss", "hit"]
