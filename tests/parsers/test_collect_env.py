"""Output of collect_env in a log becomes settings; what was not collected does not."""

from __future__ import annotations

import pytest

from parsers.formats.collect_env import looks_like_environment, read_environment
from tests.helpers import folded, read

NEW = """\
==============================
        System Info
==============================
OS                           : Ubuntu 22.04.5 LTS (x86_64)
GCC version                  : Could not collect

==============================
       PyTorch Info
==============================
PyTorch version              : 2.9.0+cu128
Is debug build               : False
CUDA used to build PyTorch   : 12.8
ROCM used to build PyTorch   : N/A

==============================
      Python Environment
==============================
Python version               : 3.12.11 (main, Jun  4 2025, 08:56:18) [GCC 11.4.0] (64-bit runtime)

==============================
       CUDA / GPU Info
==============================
Is CUDA available            : True
CUDA runtime version         : 12.8.93
GPU models and configuration :
GPU 0: NVIDIA H100 80GB HBM3
GPU 1: NVIDIA H100 80GB HBM3

Nvidia driver version        : 570.124.06
cuDNN version                : Could not collect

==============================
          CPU Info
==============================
Architecture:                         x86_64
CPU(s):                               192
Model name:                           Intel(R) Xeon(R) Platinum 8480+

==============================
Versions of relevant libraries
==============================
[pip3] numpy==2.2.6
[pip3] nvidia-nccl-cu12==2.27.3
[conda] Could not collect

==============================
         vLLM Info
==============================
ROCM Version                 : Could not collect
vLLM Version                 : 0.11.1rc2.dev1+gabc (git sha: abc)
vLLM Build Flags:
  CUDA Archs: Not Set; ROCm: Disabled; XPU: Disabled
GPU Topology:
  \tGPU0\tCPU Affinity

==============================
     Environment Variables
==============================
NVIDIA_VISIBLE_DEVICES=all
VLLM_USE_V1=1
VLLM_HOST_API_TOKEN=abcdefghijkl
"""
FORK = """\
Collecting environment information...
PyTorch version: 2.6.0+hpu_1.21.3-57.gitabf798b
Is debug build: False
CUDA used to build PyTorch: None

OS: Ubuntu 22.04.5 LTS (x86_64)
GPU models and configuration: No CUDA
Nvidia driver version: No CUDA
HPU devices: 8x HL-325L
HPU driver version: 1.20.1-366eb9c
[pip3] habana-torch-plugin==1.21.3.57
Neuron SDK Version: N/A
vLLM Version: 0.6.6.post1
"""
LOG = (
    "INFO 07-16 19:46:01 [api_server.py:1] vLLM API server version 0.11.0\n"
    "INFO 07-16 19:46:02 [gpu_worker.py:298] Available KV cache memory: 62.1 GiB\n"
    "INFO:     Application startup complete.\n"
)


def test_every_setting_of_the_new_output():
    found = read_environment(NEW)
    assert found is not None
    assert found.settings == {
        "os": "Ubuntu 22.04.5 LTS (x86_64)", "torch_version": "2.9.0+cu128",
        "torch_cuda_version": "12.8", "python_version": "3.12.11",
        "cuda_runtime_version": "12.8.93", "devices": "2x NVIDIA H100 80GB HBM3",
        "driver_version": "570.124.06", "package.numpy": "2.2.6",
        "package.nvidia-nccl-cu12": "2.27.3",
        "vllm_version": "0.11.1rc2.dev1+gabc (git sha: abc)",
    }  # fmt: skip
    assert found.environment == {
        "NVIDIA_VISIBLE_DEVICES": "all", "VLLM_USE_V1": "1", "VLLM_HOST_API_TOKEN": "***",
    }  # fmt: skip
    assert found.version == "0.11.1rc2.dev1+gabc"


def test_every_setting_of_the_output_of_the_fork():
    found = read_environment(FORK)
    assert found is not None
    assert found.settings == {
        "torch_version": "2.6.0+hpu_1.21.3-57.gitabf798b", "habana_version": "1.21.3",
        "os": "Ubuntu 22.04.5 LTS (x86_64)", "devices": "8x HL-325L",
        "driver_version": "1.20.1-366eb9c", "package.habana-torch-plugin": "1.21.3.57",
        "vllm_version": "0.6.6.post1",
    }  # fmt: skip


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("fence", ["", "```text\n"])
def test_output_above_or_below_a_log_fills_in_what_the_log_lacks(above, fence):
    pasted = f"{fence}{NEW}{fence and '```'}\n"
    text = pasted + LOG if above else LOG + pasted
    runs, report = read(text.encode(), "a.log")
    (run,) = runs.values()
    summary = folded(run).summary
    assert summary.engine.version == "0.11.0"
    assert summary.config["driver_version"] == "570.124.06"
    assert summary.config["VLLM_USE_V1"] == "1"
    assert summary.memory.kv_cache_bytes is not None
    assert "collect-env" in report.dialects


def test_what_the_engine_states_wins():
    arguments = (
        "INFO 07-16 19:46:02 [utils.py:233] non-default args: {'driver_version': 'x'}\n"
    )
    text = FORK + "VLLM_USE_V1=0\n" + arguments + LOG.partition("\n")[2]
    runs, _ = read(text.encode(), "a.log")
    summary = folded(next(iter(runs.values()))).summary
    assert summary.config["driver_version"] == "x"
    assert summary.config["VLLM_USE_V1"] == "0"


def test_only_the_output_alone_is_a_file_of_it():
    prefixed = "".join(
        f"2026-07-16T19:47:00.000000000Z stdout F {line}\n"
        for line in (NEW + LOG).splitlines()
    )
    assert looks_like_environment(NEW.encode())
    assert looks_like_environment(
        ("INFO 06-09 06:46:43 __init__.py:192] x\n" + FORK).encode()
    )
    for text in (
        LOG,
        NEW + LOG,
        6 * LOG + NEW,
        FORK + "(EngineCore pid=7) \n",
        prefixed,
        "",
    ):
        assert not looks_like_environment(text.encode())


def test_a_cut_output_gives_what_is_there():
    assert read_environment("Is debug build: False\n") is None
    found = read_environment(
        "PyTorch version: 2.1\nIs debug build: False\nOS: N/A\nGPU 0: A"
    )
    assert found is not None
    assert found.settings == {"torch_version": "2.1", "devices": "1x A"}
