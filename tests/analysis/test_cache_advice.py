"""Advice on compiled artefacts of earlier starts, from lines as vLLM prints them."""

from __future__ import annotations

import pytest

from tests.analysis.builders import changed
from tests.helpers import folded, read
from warmup_insights.analysis.advice import RunFacts, advise

HEAD = """\
(APIServer pid=1) INFO 10-16 10:00:00 [api_utils.py:339] vLLM API server version 0.31.0
(EngineCore pid=7) INFO 10-16 10:00:05 [core.py:112] Initializing a V1 LLM engine (v0.31.0) with config: model='o/m', dtype=torch.bfloat16
(EngineCore pid=7) INFO 10-16 10:00:20 [gpu_model_runner.py:5000] Starting to load model o/m...
"""
AOT = """\
(EngineCore pid=7) INFO 10-16 10:01:00 [decorators.py:326] Directly load AOT compilation from path /data/cache/vllm/torch_compile_cache/torch_aot_compile/9beb30bf69a4e921/rank_0_0/model
"""
GRAPH = """\
(EngineCore pid=7) INFO 10-16 10:01:00 [backends.py:1094] Using cache directory: /data/cache/vllm/torch_compile_cache/ea2d23402a/rank_0_0/backbone for vLLM's torch.compile
(EngineCore pid=7) INFO 10-16 10:01:02 [backends.py:290] Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 0.826 s
"""
COMPILED = GRAPH.replace(
    "Directly load the compiled graph(s) for", "Compiling a graph for"
).replace("from the cache, took 0.826 s", "takes 20.5 s")
ERROR = "(EngineCore pid=7) ERROR 10-16 10:01:05 [core.py:1104] "
FRAMES = {
    "loader": (
        '  File "/venv/lib/python3.12/site-packages/vllm/compilation/caching.py", line 217, '
        "in optimized_call"
    ),
    "inductor": (
        '  File "/data/cache/vllm/torch_compile_cache/ea2d23402a/rank_0_0/inductor_cache/'
        'bx/cbxnsx.py", line 370, in call'
    ),
}


def failing(
    loaded: str, frame: str, message: str = "Expected tensors only, but got int"
):
    lines = [
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        '  File "/venv/lib/python3.12/site-packages/vllm/v1/engine/core.py", line 1095, in '
        "run_engine_core",
        frame,
        f"AssertionError: {message}",
    ]
    text = HEAD + loaded + "".join(f"{ERROR}{line}\n" for line in lines if line)
    runs, _ = read(text)
    return folded(runs[0]).summary


def poisoned(summary, history=()):
    found = advise(RunFacts(summary, (), history))
    return [finding for finding in found if finding.rule == "poisoned_cache"]


@pytest.mark.parametrize(
    ("loaded", "frame", "folders"),
    [
        (
            AOT,
            FRAMES["loader"],
            (
                "/data/cache/vllm/torch_compile_cache/torch_aot_compile/9beb30bf69a4e921",
            ),
        ),
        (
            GRAPH,
            FRAMES["inductor"],
            ("/data/cache/vllm/torch_compile_cache/ea2d23402a",),
        ),
    ],
)
def test_an_error_in_a_loaded_artefact_names_the_directory_to_remove(
    loaded, frame, folders
):
    summary = failing(loaded, frame)
    (finding,) = poisoned(summary)
    assert finding.severity == "medium"
    assert "Expected tensors only" in finding.title
    assert finding.suggestion == f"remove {folders[0]}"
    assert finding.details == folders


def test_the_same_failure_at_the_next_restart_is_more_severe():
    first = failing(GRAPH, FRAMES["inductor"])
    again = changed(first, run_id="bbb")
    (finding,) = poisoned(again, [first])
    assert finding.severity == "high"
    assert finding.numbers["num_starts"] == 2
    assert "as another start that loaded it" in finding.title


@pytest.mark.parametrize(
    ("loaded", "frame", "message"),
    [
        (COMPILED, FRAMES["inductor"], "x"),
        (GRAPH, "", "x"),
        (GRAPH, FRAMES["inductor"], "CUDA out of memory. Tried to allocate 2.00 GiB"),
    ],
    ids=["nothing was loaded", "not in an artefact", "memory ran out"],
)
def test_another_failure_is_not_the_caches(loaded, frame, message):
    assert not poisoned(failing(loaded, frame, message))


def start(hash_: str, run_id: str, env: str | None = None, config: str = "bfloat16"):
    key = (
        f"(EngineCore pid=7) DEBUG 10-16 10:01:00 [compilation/backends.py:1080] "
        f"torch.compile cache factors: env={env} cfg=c1 comp=p1 code=o1 dir=/d\n"
    )
    text = (
        HEAD.replace("bfloat16", config)
        + GRAPH.replace("ea2d23402a", hash_).splitlines(True)[0]
        + (key if env else "")
        + "(EngineCore pid=7) INFO 10-16 10:02:00 [backends.py:393] Compiling a graph for "
        "compile range (1, 8192) takes 50.5 s\n"
        "(EngineCore pid=7) INFO 10-16 10:02:00 [monitor.py:53] torch.compile took 58.05 s "
        "in total\n"
        "(EngineCore pid=7) INFO 10-16 10:02:30 [core.py:337] init engine (profile, create "
        "kv cache, warmup model) took 90.00 s (compilation: 58.05 s)\n"
        "(APIServer pid=1) INFO:     Application startup complete.\n"
    )
    runs, _ = read(text)
    return changed(folded(runs[0]).summary, run_id=run_id)


def missed(summary, history):
    found = advise(RunFacts(summary, (), history))
    (finding,) = [finding for finding in found if finding.rule == "compile_cache"]
    return finding


def test_another_key_with_equal_settings_is_the_reason_of_a_miss():
    old, new = start("3fbdd5227b", "aaa", "e1"), start("978868eca3", "bbb", "e2")
    finding = missed(new, [old])
    assert "environment variables differ" in finding.details[0]
    assert finding.setting == "VLLM_LOGGING_LEVEL"


def test_another_key_with_other_settings_is_expected():
    old = start("3fbdd5227b", "aaa", config="float16")
    assert not missed(start("978868eca3", "bbb"), [old]).details


def test_the_variable_of_a_pod_is_what_to_fix():
    old, new = start("3fbdd5227b", "aaa", "e1"), start("978868eca3", "bbb", "e2")
    name = "env.VLLM_NIXL_SIDE_CHANNEL_PORT"
    old = changed(old, compile={"factors": {name: "5600"}})
    new = changed(new, compile={"factors": {name: "5601"}})
    finding = missed(new, [old])
    assert finding.setting == "VLLM_NIXL_SIDE_CHANNEL_PORT"
    assert "VLLM_NIXL_SIDE_CHANNEL_PORT (5600, 5601)" in finding.details[0]


def with_length(summary, length: int):
    return changed(summary, config={**summary.config, "max_model_len": length})


def test_settings_that_changed_with_the_key_are_named():
    old = with_length(start("3fbdd5227b", "aaa"), 4096)
    new = with_length(start("978868eca3", "bbb"), 8192)
    finding = missed(new, [old])
    assert "max_model_len 4096, now 8192" in finding.details[0]
    assert finding.suggestion.startswith("/data/cache/vllm kept, and the same")


def test_a_directory_that_is_kept_needs_no_volume_when_settings_changed():
    loaded = changed(start("3fbdd5227b", "aaa"), compile={"cache": "hit"})
    new = with_length(start("978868eca3", "bbb"), 8192)
    finding = missed(new, [with_length(loaded, 4096)])
    assert finding.suggestion.startswith("nothing: what was compiled is in /data/cache")
    assert finding.severity == "low"


PRECOMPILED = "(EngineCore pid=7) INFO 08-08 21:00:{:02d} [{}] {}\n"


def test_shapes_that_several_threads_compile_take_the_time_that_passes():
    """tpu-inference, `NUM_PRECOMPILE_WORKERS`: each line states a time of its own."""
    manager = "compilation_manager.py:175"
    done = "Compilation of backbone --> {{'num_tokens': {}}} finished in 39.50 [secs]."
    lines = [
        (1, "core.py:94", "Initializing a V1 LLM engine (v0.27.1) with config: model='a/b'"),
        (2, manager, "Precompile all the subgraphs with possible input shapes."),
        *((42, manager, done.format(size)) for size in (16, 32, 64, 128)),
        (43, "core.py:340", "init engine (profile, create kv cache, warmup model) took "
                            "43.00 s (compilation: 41.00 s)"),
    ]  # fmt: skip
    server = "(APIServer pid=3) INFO 08-08 21:00:{:02d} [a.py:1] {}\n"
    text = "INFO 08-08 21:00:00 [__init__.py:1] Automatically detected platform tpu.\n"
    text += server.format(1, "vLLM API server version 0.27.1")
    text += "".join(PRECOMPILED.format(*line) for line in lines)
    text += server.format(44, "Starting vLLM server on http://0.0.0.0:8000")
    text += "(APIServer pid=3) INFO:     Application startup complete.\n"
    made = folded(read(text)[0][0])
    (finding,) = (
        found
        for found in advise(RunFacts(made.summary, made.rows, ()))
        if found.rule == "xla_cache"
    )
    assert finding.numbers["compile_s"] == 41.0
    assert "4 shapes are listed, several at a time, 39.5 s the longest" in finding.title


@pytest.mark.parametrize(
    ("reason", "first"),
    [("Source code has changed since the last compilation. Recompiling the model.", "nothing: "),
     ("Compile cache file corrupted.", "nothing: "),
     ("Kernel index 1 not found in id_to_kernel", "another release")],
)  # fmt: skip
def test_what_was_not_loaded_for_a_change_alone_is_loaded_next_time(reason, first):
    refused = AOT.replace("Directly load AOT compilation from path", "Compiling model "
                          "again due to a load failure from").rstrip()  # fmt: skip
    runs, _ = read(f"{HEAD}{refused}, reason: {reason}\n{COMPILED}")
    summary = folded(runs[0]).summary
    again = changed(summary, run_id="bbb")
    for history, start in ([], first), ([again], "another release"):
        found = advise(RunFacts(summary, (), history))
        (finding,) = [each for each in found if each.rule == "saved_not_loaded"]
        assert finding.suggestion.startswith(start)
