"""vLLM on AWS Neuron: the device, its blocks, and what NxD Inference prints without times."""

from __future__ import annotations

import pytest

from tests.helpers import events, of, summary_of
from warmup_insights.model.events import GapSeen

BUILT = """\
INFO 09-11 14:09:00 [__init__.py:243] Automatically detected platform neuron.
INFO 09-11 14:09:08 [llm_engine.py:230] Initializing a V0 LLM engine (v0.9.0) with config: \
model='a/b', max_seq_len=1024, tensor_parallel_size=2, device_config=neuron
WARNING 09-11 14:09:14 [neuronx_distributed.py:250] Failed to load the model from /c. \
Recompiling...
INFO:Neuron:Generating HLOs for the following models: ['context_encoding_model']
INFO:Neuron:Generated all HLOs in 2.5 seconds
INFO:Neuron:Done compilation for the priority HLO in 60.5 seconds
INFO:Neuron:Finished Compilation for all HLOs in 90.25 seconds
INFO:Neuron:Finished building model in 160.0 seconds
INFO:Neuron:Sharding weights on load...
INFO:Neuron:Done Sharding weights in 20.5
INFO:Neuron:Finished weights loading in 31.5 seconds
INFO:Neuron:Warming up the model.
INFO:Neuron:Warmup completed in 0.41 seconds.
INFO 09-11 14:12:43 [executor_base.py:112] # neuron blocks: 4, # CPU blocks: 0
INFO 09-11 14:12:43 [executor_base.py:117] Maximum concurrency for 1024 tokens per \
request: 4.00x
"""


def test_compilation_and_weights_of_neuron_have_the_times_that_it_states():
    summary = summary_of(events(BUILT))
    assert summary["device"]["kind"] == "neuron"
    assert summary["memory"]["num_kv_blocks"] == 4
    phases = {part["name"]: part["duration_s"] for part in summary["time"]["phases"]}
    assert phases["load_weights"] == 31.5
    assert phases["model_warmup"] == 0.41
    assert 160.0 <= phases["compile"] <= 209 - 31.5 - 0.41
    assert summary["compile"]["seconds"] == 2.5 + 60.5 + 90.25
    assert summary["compile"]["cache"] is None
    assert "torch_compile" not in summary["start"]["caches"]


def test_one_process_drives_all_cores():
    assert summary_of(events(BUILT))["ranks"] == 1


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("INFO 09-11 14:12:54 [cli_args.py:308] non-default args: {'model': 'a/b', "
         "'device': 'neuron'}", "neuron"),
        ("WARNING 09-29 10:06:47 utils.py:564] Pin memory is not supported on XPU.", "xpu"),
        ("WARNING 09-29 10:06:47 utils.py:564] Pin memory is not supported on Neuron.",
         "neuron"),
        ("INFO 09-11 14:13:21 [neuronx_distributed.py:244] Successfully loaded "
         "precompiled model artifacts from /c", "neuron"),
    ],
)  # fmt: skip
def test_a_line_that_one_device_alone_prints_names_it(line, device):
    stamp = " ".join(line.split()[1:3])
    text = f"{line}\nINFO {stamp} gpu_executor.py:108] # GPU blocks: 1095\n"
    assert summary_of(events(text))["device"]["kind"] == device


def test_the_loggers_of_neuron_have_times_of_their_own():
    core = "(EngineCore_DP0 pid=7) "
    text = (
        "(APIServer pid=1) INFO 06-27 01:26:25 [utils.py:223] vLLM API server version "
        "0.16.0\n" + core + "INFO 06-27 01:26:25 [core.py:97] Initializing a V1 LLM engine (v0.16.0) "
        "with config: model='a/b'\n"
        + core + "INFO 06-27 01:26:25 [parallel_state.py:1445] rank 0 in world size 1 is "
        "assigned as DP rank 0, PP rank 0, PCP rank 0, TP rank 0, EP rank N/A\n"
        + core + "[2026-06-27 01:27:44.242: I neuronx_distributed/parallel_layers/"
        "parallel_state.py:638] > initializing tensor model parallel with size 2\n" + core + "2026-06-27 01:29:07.000841:  7  [INFO]: Compilation Successfully "
        "Completed for model.MODULE_f5+ada.hlo_module.pb\n"
        + core + '  File "/x/vllm_neuron/worker/neuron_worker.py", line 1, in load_model\n'
        + core + "KeyError: 'layers.5.weight'\n"
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )  # fmt: skip
    found = events(text)
    gaps = [(gap.line, gap.next_line, gap.duration_s) for gap in of(GapSeen, found)]
    assert [gap[:2] for gap in gaps] == [(3, 4), (4, 5)]
    time = summary_of(found)["time"]
    assert time["wall_s"] == pytest.approx(162.0, abs=0.9)
    assert "init_worker" not in {part["name"] for part in time["phases"]}


@pytest.mark.parametrize(
    ("states", "kind", "cache", "took"),
    [
        ("mm", "cold", "miss", 172.0 + 60.0),  # since the line above the first
        ("cc", "warm", "hit", 60.0),
        ("cm", "partly warm", "partial", 60.0),
    ],
)
def test_each_module_that_was_compiled_or_found_is_a_part_of_the_compilation(
    states, kind, cache, took
):
    lines = {
        "m": "Compilation Successfully Completed for model.MODULE_f5+ada.hlo_module.pb",
        "c": "Using a cached neff at /var/tmp/neuron-compile-cache/MODULE_f5+ada/model.neff",
    }
    text = BUILT.splitlines()[0] + "\n" + BUILT.splitlines()[1] + "\n"
    for minute, state in enumerate(states, 12):
        text += f"2026-09-11 14:{minute}:00.000841:  7  [INFO]: {lines[state]}\n"
    summary = summary_of(events(text, year=2026))
    phases = {part["name"]: part["duration_s"] for part in summary["time"]["phases"]}
    assert phases["compile"] == pytest.approx(took)
    assert summary["start"]["kind"] == kind
    assert summary["compile"]["cache"] == cache
    assert summary["progress"]["stage"] == "compile"


def test_blocks_that_the_setting_overrides_are_those_of_the_cache():
    text = BUILT.splitlines()[1] + (
        "\nINFO 09-11 14:12:13 [kv_cache_utils.py:819] Overriding num_gpu_blocks=3 with "
        "num_gpu_blocks_override=129\n"
    )
    assert summary_of(events(text))["memory"]["num_kv_blocks"] == 129


COMPILED = """\
INFO 06-27 02:06:25 [core.py:97] Initializing a V1 LLM engine (v0.16.0) with config: model='a/b'
[2026-06-27 02:08:17.111: I neuronx_distributed/parallel_layers/parallel_state.py:671] > groups
...............
Compiler status PASS
2026-06-27 02:13:38.000036:  243  [INFO]: Compilation Successfully Completed for \
model.MODULE_6cc2+ada.hlo_module.pb
........
Compiler status PASS
[2026-06-27 02:16:08.000: I neuronx_distributed/parallel_layers/parallel_state.py:638] > again
INFO 06-27 02:17:08 [kv_cache_utils.py:1307] GPU KV cache size: 132,096 tokens
"""


def test_a_module_is_compiled_from_the_line_before_the_dots_of_its_compiler():
    summary = summary_of(events(COMPILED, year=2026))
    phases = summary["time"]["phases"]
    assert [part["what"] for part in summary["compile"]["parts"]] == ["module"] * 2
    took = {part["name"]: part["duration_s"] for part in phases}["compile"]
    assert took == pytest.approx(5 * 60 + 20.9 + 2 * 60 + 30, abs=0.1)


FOUND = """\
INFO 06-27 01:38:04 [core.py:97] Initializing a V1 LLM engine (v0.16.0) with config: model='a/b'
2026-06-27 01:40:34.000266:  259  [INFO]: Using a cached neff at /var/tmp/c/MODULE_f5/model.neff
.......
Compiler status PASS
[2026-06-27 01:42:48.807: I neuronx_distributed/parallel_layers/parallel_state.py:638] > again
INFO 06-27 01:42:50 [kv_cache_utils.py:1307] GPU KV cache size: 132,096 tokens
"""


def test_a_module_without_a_name_was_compiled_where_its_compiler_ended():
    summary = summary_of(events(FOUND, year=2026))
    assert summary["compile"]["cache"] == "partial"
    assert summary["start"]["kind"] == "partly warm"
