"""Why two runs differ: keys of the compile caches, parts of the KV caches."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from tests.analysis.builders import changed
from tests.helpers import REAL_LOGS, folded, read
from warmup_insights.analysis.causes import key_change, kv_sentence
from warmup_insights.analysis.compare import compare

HEAD = (
    "(APIServer pid=1) INFO {day} 10:00:00 [api_utils.py:339] vLLM API server version "
    "{version}\n"
    "(EngineCore pid=7) INFO {day} 10:00:05 [core.py:112] Initializing a V1 LLM engine "
    "(v{version}) with config: model='o/m', dtype=torch.bfloat16\n"
)
USING = (
    "(EngineCore pid=7) INFO 10-16 10:01:00 [backends.py:1094] Using cache directory: "
    "/c/torch_compile_cache/{hash}/rank_0_0/backbone for vLLM's torch.compile\n"
)
KEY = (
    "(EngineCore pid=7) DEBUG 10-16 10:01:00 [backends.py:1110] torch.compile cache "
    "factors: env={env} cfg=c1 comp=p1 code=o1 "
    "dir=/c/torch_compile_cache/{hash}/rank_0_0/backbone\n"
)


def summary_of(text: str, run_id: str = "aaa", name: str = "a.log"):
    runs, _ = read(text, name)
    return changed(folded(runs[0]).summary, run_id=run_id)


def start(hash_: str, env: str | None = None, run_id: str = "aaa"):
    text = HEAD.format(day="10-16", version="0.31.0") + USING.format(hash=hash_)
    if env is not None:
        text += KEY.format(hash=hash_, env=env)
    return summary_of(text, run_id)


def factors_file(run_id: str = "aaa", **env: object):
    found = {
        "env": {"VLLM_USE_V1": True, **env}, "config_hash": "c1", "compiler_hash": "p1",
        "code_hash": "o1",
    }  # fmt: skip
    text = json.dumps(found, indent=2, sort_keys=True)
    return summary_of(text, run_id, "cache_key_factors.json")


def test_the_hash_of_the_cache_is_in_its_directory():
    summary = start("53d01909eb", "e1")
    assert summary.compile is not None
    assert summary.compile.hash == "53d01909eb"
    assert summary.compile.key == {
        "env": "e1", "config": "c1", "compiler": "p1", "code": "o1",
    }  # fmt: skip


def test_another_hash_names_the_part_that_differs():
    text = key_change(start("53d01909eb", "e1"), start("e9f4295ef1", "e2")).sentence
    assert text == (
        "The compile caches have different keys (53d01909eb, e9f4295ef1): environment "
        "variables differ, by their hashes; which of them is in cache_key_factors.json "
        "of both directories."
    )
    assert key_change(start("53d01909eb", "e1"), start("53d01909eb", "e1")) is None


def test_another_hash_without_its_factors_says_where_they_are():
    text = key_change(start("53d01909eb"), start("e9f4295ef1")).sentence
    assert "VLLM_LOGGING_LEVEL=DEBUG" in text


def test_two_files_of_factors_differ_in_one_variable():
    old = factors_file(VLLM_NIXL_SIDE_CHANNEL_HOST="10.0.0.1", VLLM_FOO="x")
    new = factors_file("bbb", VLLM_NIXL_SIDE_CHANNEL_HOST="10.0.0.2", VLLM_FOO="x")
    change = key_change(old, new)
    (factor,) = change.factors
    assert (factor.variable, factor.values) == (
        "VLLM_NIXL_SIDE_CHANNEL_HOST",
        ("10.0.0.1", "10.0.0.2"),
    )
    assert factor.is_of_a_pod
    (reason,) = compare([old, new]).reasons
    assert reason == (
        "The compile caches have different keys: VLLM_NIXL_SIDE_CHANNEL_HOST (10.0.0.1, "
        "10.0.0.2)."
    )


def test_secrets_among_the_factors_are_masked():
    summary = factors_file(VLLM_API_KEY="hunter2")
    assert summary.compile is not None
    assert summary.compile.factors["env.VLLM_API_KEY"] == "***"


@pytest.mark.parametrize(
    "text", ['{"config_hash": "a"', '{"config_hash": ' + "[" * 9999]
)
def test_a_damaged_file_of_factors_is_no_run(text):
    runs, report = read(text, "cache_key_factors.json")
    assert not runs
    assert report.problems


# --- KV cache -------------------------------------------------------------------------

BEFORE = (
    HEAD.format(day="10-16", version="0.20.0")
    + """\
(EngineCore pid=7) INFO 10-16 10:02:00 [gpu_worker.py:440] Available KV cache memory: 50.00 GiB
(EngineCore pid=7) INFO 10-16 10:02:01 [kv_cache_utils.py:1316] GPU KV cache size: 400,000 tokens
(EngineCore pid=7) INFO 10-16 10:02:30 [gpu_worker.py:590] Free memory on device (79.00/80.00 GiB) on startup. Desired GPU memory utilization is (0.9, 72.00 GiB). Actual usage is 15.00 GiB for weight, 5.00 GiB for peak activation, 2.00 GiB for non-torch memory, and 3.00 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1` to fit into requested memory, or `--kv-cache-memory=2` to fully utilize gpu memory. Current kv cache memory in use is 50.00 GiB.
"""
)
AFTER = (
    BEFORE.replace("0.20.0", "0.21.0")
    .replace("50.00 GiB", "46.00 GiB")
    .replace("400,000", "368,000")
    .replace("5.00 GiB for peak", "6.00 GiB for peak")
)
NOTICE = (
    "(EngineCore pid=7) INFO 10-16 10:01:59 [gpu_worker.py:475] CUDA graph memory "
    "profiling is enabled (default since v0.21.0). The current "
    "--gpu-memory-utilization=0.9000 is equivalent to --gpu-memory-utilization=0.8625 "
    "without CUDA graph memory profiling. To maintain the same effective KV cache size as "
    "before, increase --gpu-memory-utilization to 0.9375. To disable, set "
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=0.\n"
)
ESTIMATE = (
    "(EngineCore pid=7) INFO 10-16 10:01:58 [gpu_model_runner.py:6200] Estimated CUDA "
    "graph memory: 3.00 GiB total\n"
)


def test_a_smaller_kv_cache_is_explained_by_its_parts():
    text = kv_sentence(summary_of(BEFORE), summary_of(ESTIMATE_IN_AFTER, "bbb"))
    assert text == (
        "The KV cache has 4 GiB less (46 GiB instead of 50 GiB; 368,000 instead of "
        "400,000 tokens): graphs "
        "3 GiB more; activations 1 GiB more; the utilisation now holds the estimate "
        "for graphs as well (vLLM since 0.21); --gpu-memory-utilization 0.9375 makes up "
        "for the graphs; --kv-cache-memory=53687091200 gives the old size, if it fits."
    )


first, second = AFTER.split("\n", 2)[:2]
ESTIMATE_IN_AFTER = AFTER.replace(f"{second}\n", f"{second}\n{ESTIMATE}{NOTICE}", 1)


def test_a_smaller_kv_cache_that_holds_more_needs_nothing_restored():
    old, new = summary_of(BEFORE), summary_of(ESTIMATE_IN_AFTER, "bbb")
    more = replace(new, memory=replace(new.memory, kv_cache_tokens=1_600_000))
    text = kv_sentence(old, more)
    assert "1,600,000 instead of 400,000 tokens" in text
    assert "gives the old size" not in text


def test_tokens_of_requests_of_other_lengths_are_not_compared():
    old, new = summary_of(BEFORE), summary_of(ESTIMATE_IN_AFTER, "bbb")
    longer = replace(new, config={**new.config, "max_model_len": 262_144})
    older = replace(old, config={**old.config, "max_model_len": 32_768})
    assert "tokens" not in kv_sentence(older, longer)


def test_a_larger_kv_cache_needs_nothing_restored():
    text = kv_sentence(summary_of(ESTIMATE_IN_AFTER), summary_of(BEFORE, "bbb"))
    assert text.startswith("The KV cache has 4 GiB more (50 GiB instead of 46 GiB; ")
    assert "graphs 3 GiB less; activations 1 GiB less." in text


def test_without_parts_nothing_is_guessed():
    old, new = (
        "\n".join(line for line in text.splitlines() if "Free memory" not in line)
        + "\n"
        for text in (BEFORE, AFTER)
    )
    text = kv_sentence(summary_of(old), summary_of(new, "bbb"))
    assert "the runs do not state what took it; --kv-cache-memory=53687091200" in text


def test_without_parts_another_utilization_is_the_reason():
    old, new = (
        summary_of("\n".join(x for x in text.split("\n") if "Free memory" not in x))
        for text in (BEFORE, AFTER)
    )
    old, new = (
        replace(run, memory=replace(run.memory, gpu_memory_utilization=share))
        for run, share in ((old, 0.9), (new, 0.8))
    )
    text = kv_sentence(old, new)
    assert "tokens): gpu_memory_utilization is 0.8 instead of 0.9; --kv-cache" in text


def test_model_runners_are_part_of_the_reason():
    runner = "(EngineCore pid=7) INFO 10-16 10:01:50 [gpu_worker.py:378] Using V2 Model Runner\n"
    other = (
        "(EngineCore pid=7) WARNING 10-16 10:01:50 [vllm.py:577] Model Runner V2 requires "
        "Triton; using the V1 model runner instead.\n"
    )
    before = BEFORE.split("\n", 2)[1]
    old = summary_of(BEFORE.replace(f"{before}\n", f"{before}\n{other}", 1))
    new = summary_of(AFTER.replace(f"{second}\n", f"{second}\n{runner}", 1), "bbb")
    assert "the model runner is V2 instead of V1" in kv_sentence(old, new)


DUMP = """\
(EngineCore pid=7) DEBUG 10-16 10:01:01 [compilation/backends.py:1091] Compile env factors (raw):
(EngineCore pid=7) DEBUG 10-16 10:01:01 [compilation/backends.py:1091] {'VLLM_HOST': 'a',
(EngineCore pid=7) DEBUG 10-16 10:01:01 [compilation/backends.py:1091]  'VLLM_NIXL_SIDE_CHANNEL_PORT': PORT,
(EngineCore pid=7) DEBUG 10-16 10:01:01 [compilation/backends.py:1091]  'VLLM_XLA_USE_SPMD': False}
(EngineCore pid=7) DEBUG 10-16 10:01:01 [compilation/backends.py:1091] Vllm config hash: 84b7dc96bd
"""


def test_the_variables_in_two_debug_logs_are_compared():
    head = HEAD.format(day="10-16", version="0.31.0")
    old, new = (
        summary_of(
            head
            + USING.format(hash=hash_)
            + KEY.format(hash=hash_, env=env)
            + DUMP.replace("PORT", port, 2).replace(f"CHANNEL_{port}", "CHANNEL_PORT"),
            run_id,
        )
        for hash_, env, port, run_id in (
            ("3fbdd5227b", "e1", "5600", "aaa"),
            ("978868eca3", "e2", "5601", "bbb"),
        )
    )
    assert old.compile.factors == {
        "env.VLLM_HOST": "a",
        "env.VLLM_NIXL_SIDE_CHANNEL_PORT": "5600",
        "env.VLLM_XLA_USE_SPMD": "False",
    }
    assert key_change(old, new).sentence == (
        "The compile caches have different keys (3fbdd5227b, 978868eca3): "
        "VLLM_NIXL_SIDE_CHANNEL_PORT (5600, 5601)."
    )
    assert not [note for note in old.notes if "VLLM_HOST" in note.text]


# --- gaps -----------------------------------------------------------------------------


def gap_of(seconds: int, pid: int, run_id: str = "aaa"):
    """The engine begins so long after its server, for no reason that is printed."""
    head = HEAD.replace("10:00:05", f"10:00:{seconds:02}").replace(
        "pid=1", f"pid={pid}"
    )
    ready = f"(APIServer pid={pid}) INFO:     Application startup complete.\n"
    return summary_of(head.format(day="10-16", version="0.31.0") + ready, run_id)


def test_the_gap_between_the_same_two_lines_that_grew_is_named():
    old, new = gap_of(9, 7), gap_of(50, 8, "bbb")
    result = compare([old, new])
    (row,) = [row for row in result.gaps if "API server version" in row.before]
    assert row.values == (9.0, 50.0)
    (reason,) = result.reasons
    assert reason.startswith(
        "Between the lines 'vLLM API server version 0.31.0' and 'Initializing a V1 LLM "
        "engine"
    )
    assert compare([old, changed(old, run_id="bbb")]).reasons == ()


def test_another_model_needs_no_reason():
    old, new = start("53d01909eb", "e1"), start("e9f4295ef1", "e2", "bbb")
    assert compare([old, new]).reasons
    assert not compare([old, changed(new, model="o/another")]).reasons


def test_a_real_pair_is_explained_by_its_parts():
    folder = REAL_LOGS
    names = ("tp4_mrv2_dspark", "tp4_dcp4_mrv2_specdecode")
    paths = [folder / f"cuda_v1_2026-07-25_{name}_stdout.log" for name in names]
    if not all(path.exists() for path in paths):
        pytest.skip("real logs are not there")
    old, new = (
        changed(
            folded(read(path.read_bytes(), path.name)[0][0]).summary, run_id=path.name
        )
        for path in paths
    )
    assert (old.start.kind, new.start.kind) == ("cold", "cold")
    assert compare([old, new]).reasons == (
        "The KV cache has 7.1 GiB less (18.54 GiB instead of 25.64 GiB; "
        "1,600,255 instead of 400,064 tokens): "
        "weights 6.97 GiB more; activations 0.12 GiB more.",
    )


def aot_start(hexadecimal: str, kind: str = "log", **config: str):
    """A start that saved a compiled function: its path is all that is known of the key."""
    text = HEAD.format(day="10-16", version="0.31.0") + (
        "(EngineCore pid=7) INFO 10-16 10:01:00 [decorators.py:743] saved AOT compiled "
        "function to /c/torch_compile_cache/torch_aot_compile/"
        f"{hexadecimal * 32}/rank_0_0/model\n"
    )
    found = summary_of(text)
    source = changed(found.source, kind=kind)
    return changed(found, source=source, config={**found.config, **config})


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ({"max_model_len": "128"}, {"max_model_len": "64"}, "max_model_len (128, 64)"),
        ({}, {"VLLM_CPU_INT4_W4A8": "0"}, "nothing that the runs state differs"),
        (
            {},
            {"kv_transfer_config": "x"},
            "of what one run alone states it may be kv_transfer_config (absent, x).",
        ),
        (
            {"kind": "recorder"},
            {
                "kind": "recorder",
                "VLLM_CPU_INT4_W4A8": "0",
                "VLLM_LOGGING_LEVEL": "DEBUG",
            },
            "of what differs it may be VLLM_CPU_INT4_W4A8 (absent, 0).",
        ),
    ],
)
def test_the_key_of_a_compiled_function_names_what_differs(old, new, named):
    first, second = aot_start("0a", **old), aot_start("0b", **new)
    assert named in key_change(first, second).sentence
    assert key_change(first, aot_start("0a", **new)) is None


def test_memory_outside_of_the_utilisation_has_the_names_of_its_parts():
    """A start that states what was in use before it has two such parts, another one."""
    both = "memory outside of the utilisation (in use at the start, margin) 4 GiB more"
    lower = BEFORE.replace("(0.9, 72.00 GiB)", "(0.85, 68.00 GiB)").replace(
        "50.00", "46.00"
    )
    assert both in kv_sentence(summary_of(BEFORE), summary_of(lower, "bbb"))
    only = [
        changed(
            run, memory={"parts": [p for p in run.memory.parts if p.name != "at_start"]}
        )
        for run in (summary_of(BEFORE), summary_of(lower, "bbb"))
    ]
    only = [
        changed(
            run,
            memory={"parts": [p for p in run.memory.parts if "out of" not in p.label]},
        )
        for run in only
    ]
    assert "tokens): margin 4 GiB more" in kv_sentence(*only)
