"""Engine and device follow from the strongest evidence; foreign lines give none."""

from __future__ import annotations

import pytest

from tests.helpers import events, of, read, summary_of
from warmup_insights.model.events import ConfigRecorded, Note, PhaseMarked, ServerReady

CONFIG = (
    "INFO 07-16 10:00:01 [core.py:116] Initializing a V1 LLM engine (v{}) with config: "
    "model='a/b', device_config={}\n"
)


def identity(text: str) -> tuple[str | None, str | None]:
    summary = summary_of(events(text))
    return summary["engine"]["name"], summary["device"]["kind"]


@pytest.mark.parametrize("device", ["cuda", "xpu", "cpu"])
def test_the_engines_own_configuration_names_the_device(device):
    assert identity(CONFIG.format("0.26.0", device)) == ("vllm", device)


def test_on_tpu_the_runner_names_the_engine():
    """The worker and the platform of vLLM's own engine and of tpu-inference have one name."""
    line = "INFO 11-20 23:44:21 [{}:87] The model dtype is not properly set\n"
    config = CONFIG.format("0.10.1", "tpu")
    assert identity(config + line.format("tpu_worker.py")) == (None, "tpu")
    assert identity(config + line.format("tpu_model_runner.py")) == ("vllm", "tpu")
    assert identity(config + line.format("tpu_runner.py")) == ("tpu-inference", "tpu")


def test_the_npu_of_a_configuration_is_an_ascend():
    assert identity(CONFIG.format("0.9.1", "npu")) == ("vllm", "ascend")
    text = "INFO 07-16 10:00:00 [__init__.py:239] Platform plugin npu is activated\n"
    assert identity(text + CONFIG.format("0.9.1", "npu")) == ("vllm", "ascend")


def test_a_module_of_rocm_is_stronger_than_device_config_cuda():
    text = CONFIG.format("0.17.0", "cuda") + (
        "INFO 07-16 10:00:02 [rocm.py:463] Using Triton Attention backend.\n"
        "INFO 07-16 10:00:09 [gpu_model_runner.py:1] Graph capturing finished in 2 secs, "
        "took 0.11 GiB\n"
    )
    assert identity(text) == ("vllm", "rocm")


def test_a_line_of_a_traceback_is_no_setting():
    text = CONFIG.format("0.25.1", "cuda") + (
        "ERROR 07-16 10:00:02 [core.py:866]     compilation_times: list = call()\n"
        "    compilation_times: list = call()\n"
    )
    assert identity(text) == ("vllm", "cuda")
    settings = [e.settings for e in of(ConfigRecorded, events(text))]
    assert not any("compilation_times" in each for each in settings)


def test_a_contradiction_is_noted():
    text = (
        "INFO 07-16 10:00:00 [__init__.py:239] Automatically detected platform cuda.\n"
    )
    text += CONFIG.format("0.25.1", "cuda")
    text += "INFO 07-16 10:00:02 [hpu_worker.py:7] something\n"
    assert identity(text) == ("vllm", "cuda")
    (note,) = [n for n in of(Note, events(text)) if n.topic == "contradiction"]
    assert "hpu" in note.text


def test_the_plugin_is_vllm_gaudi_and_the_platform_in_the_tree_vllm_fork():
    plugin = "INFO 07-16 10:00:00 [__init__.py:9] Platform plugin hpu is activated\n"
    built_in = (
        "INFO 07-16 10:00:00 [__init__.py:9] Automatically detected platform hpu.\n"
    )
    config = CONFIG.format("0.14.0", "hpu")
    assert identity(plugin + config) == ("vllm-gaudi", "hpu")
    assert identity(built_in + config) == ("vllm-fork", "hpu")


def test_a_banner_alone_tells_the_engine_and_not_the_device():
    text = "(APIServer pid=1) INFO 08-01 18:02:54 [api_utils.py:339] vLLM API server version 0.25.1\n"
    assert identity(text) == ("vllm", None)


def test_a_platform_plugin_is_stronger_than_device_config_cpu():
    text = "INFO 07-16 10:00:00 [__init__.py:212] Platform plugin neuron is activated\n"
    assert identity(text + CONFIG.format("0.16.0", "cpu")) == ("vllm", "neuron")


def test_what_the_platform_of_the_cpu_checks_names_the_device():
    text = (
        "(APIServer pid=1) INFO 11-23 15:10:29 [model.py:733] Resolved architecture: A\n"
        "(APIServer pid=1) WARNING 11-23 15:10:30 [cpu.py:224] Triton is not installed. "
        "triton-cpu is expected on x86 CPUs.\n"
    )
    assert summary_of(events(text))["device"]["kind"] == "cpu"


def test_a_module_that_lacks_its_libraries_shows_no_device():
    text = CONFIG.format("0.11.1", "None") + (
        "WARNING 07-16 10:00:02 [tpu_jax.py:228] Pin memory is not supported on TPU.\n"
        "WARNING 07-16 10:00:03 [rocm.py:34] Failed to import from amdsmi with "
        "ModuleNotFoundError(\"No module named 'amdsmi'\")\n"
    )
    assert identity(text) == ("tpu-inference", "tpu")


def test_one_process_that_drives_several_devices_is_one_rank():
    text = CONFIG.format("0.16.0", "cpu, tensor_parallel_size=2") + (
        "INFO 07-16 10:00:02 [parallel_state.py:1445] rank 0 in world size 1 is assigned "
        "as DP rank 0, PP rank 0, PCP rank 0, TP rank 0, EP rank N/A\n"
    )
    assert summary_of(events(text))["ranks"] == 1


CAPTURING = (
    "Capturing CUDA graphs (decode, FULL): 100%|##| 35/35 [00:18<00:00,  1.89it/s]\n"
)
NO_EXTENSION = (
    "Loading safetensors checkpoint shards: 100% Completed | 1/1 [00:02<00:00,  2.24s/it]\n"
    "WARNING 08-17 17:26:49 [rocm.py:43] Failed to import from vllm._C with "
    "ModuleNotFoundError(\"No module named 'vllm._C'\")\n"
    "WARNING 08-17 17:26:53 [model.py:2016] Casting torch.bfloat16 to torch.float16.\n"
)
GELU = (
    "WARNING 08-17 17:26:56 [activation.py:643] [ROCm] PyTorch's native GELU with tanh "
    "approximation is unstable. Falling back to GELU(approximate='none').\n"
)


@pytest.mark.parametrize(
    ("text", "device"),
    [(NO_EXTENSION + CAPTURING, None), (NO_EXTENSION + GELU + CAPTURING, "rocm")],
)
def test_words_about_cuda_graphs_are_no_proof_where_rocm_was_looked_for(text, device):
    assert summary_of(events(text))["device"]["kind"] == device


@pytest.mark.parametrize(
    "text",
    [
        "ERROR 04-16 23:50:04 ray_utils.py:50] RuntimeError: HIP error: invalid device ordinal\n",
        "INFO 04-16 23:49:56 pynccl.py:58] Loading nccl from library librccl.so.1\n",
        "INFO 04-16 23:50:04 selector.py:38] Using ROCmFlashAttention backend.\n",
    ],
)
def test_what_only_rocm_prints_is_stronger_than_device_config_cuda(text):
    assert identity(CONFIG.format("0.4.0", "cuda") + text) == ("vllm", "rocm")


@pytest.mark.parametrize(
    ("device", "is_guess"), [("cuda", True), ("cpu", True), ("xpu", False)]
)
def test_a_configuration_that_other_platforms_share_is_a_guess(device, is_guess):
    found = events(CONFIG.format("0.26.0", device))
    assert [e.device_guessed for e in of(ConfigRecorded, found)][-1] is is_guess


STATED = (
    "(EngineCore pid=7) ERROR 07-16 10:09:02 [dump_input.py:72] Dumping input data for V1 "
    "LLM engine (v0.26.0) with config: model='a/b', max_seq_len=512, device_config=cpu, \n",
    "(Server pid=7) INFO:2026-07-16 10:09:02,589:Initializing a V1 LLM engine with config: "
    "model='a/b', max_seq_len=512, device_config=cpu, \n",
)
TAIL = (
    "(EngineCore pid=7) INFO 07-16 10:00:02 [kv_cache_utils.py:1307] GPU KV cache size: "
    "4,096 tokens\n"
)


@pytest.mark.parametrize("stated", STATED)
def test_a_configuration_that_is_stated_later_names_the_model(stated):
    found = events(TAIL + stated)
    summary = summary_of(found)
    assert (summary["model"], summary["config"]["max_model_len"]) == ("a/b", 512)
    assert summary["engine"]["name"] == "vllm"
    assert of(PhaseMarked, found) == []
    is_verl = "Initializing" in stated
    assert (summary["status"] == "finished", bool(of(ServerReady, found))) == (
        is_verl,
    ) * 2


@pytest.mark.parametrize("stated", STATED)
def test_a_configuration_that_is_stated_later_opens_no_start(stated):
    again = stated.replace(" 10:09:02", " 23:09:02").replace("=cpu", "=cuda")
    runs, _ = read(CONFIG.format("0.26.0", "cuda") + TAIL + again)
    assert len(runs) == 1
    assert summary_of(runs[0])["device"]["kind"] == "cuda"


def test_a_scheduler_of_a_plugin_names_its_device():
    text = CONFIG.format("0.16.0", "cpu") + (
        "(EngineCore pid=7) WARNING 07-16 10:00:02 [scheduler.py:166] Using custom "
        "scheduler class vllm_neuron.core.scheduler.Some.\n"
    )
    assert identity(text) == ("vllm", "neuron")


@pytest.mark.parametrize("wanted", ["cpu", "xpu"])
def test_the_device_of_the_configuration_is_stronger_than_that_of_the_arguments(wanted):
    """vLLM 0.10 `arg_utils.py create_engine_config` takes the device of the platform."""
    text = f"INFO 04-13 03:21:10 [utils.py:326] non-default args: {{'device': '{wanted}'}}\n"
    assert identity(text)[1] == wanted
    engine = (
        "INFO 04-13 03:21:19 [core.py:71] Initializing a V1 LLM engine (v0.10.0) with "
        "config: model='a/b', device_config=cuda, seed=0\n"
    )
    assert identity(text + engine)[1] == "cuda"
