"""A device that only words name which another kind prints as well is a guess."""

from __future__ import annotations

import pytest

from tests.helpers import events, folded, read, summary_of

HEAD = "INFO 07-16 20:02:46 [gpu_model_runner.py:5780] "
CAPTURED = f"{HEAD}Graph capturing finished in 5 secs, took 0.62 GiB\n"
OWN = "INFO 07-16 20:02:40 [cuda.py:318] Using Flash Attention backend on V1 engine.\n"
FOUND = "INFO 07-16 20:02:40 [__init__.py:216] Automatically detected platform rocm.\n"


def device_of(log):
    runs, _ = read(log)
    (found,) = runs.values()
    summary = folded(list(found)).summary
    return summary.device.kind, "device.kind" in summary.guessed


@pytest.mark.parametrize(
    ("log", "kind", "is_guess"),
    [
        (f"{HEAD}Profiling CUDA graph memory: PIECEWISE=11\n{CAPTURED}", "cuda", True),
        (f"{OWN}{CAPTURED}", "cuda", False),
        (f"{FOUND}{CAPTURED}", "rocm", False),
    ],
)
def test_words_that_rocm_shares_are_a_guess(log, kind, is_guess):
    assert device_of(log) == (kind, is_guess)


@pytest.mark.parametrize(
    ("line", "device"),
    [
        ("worker_v1.py:235] Available memory: 11857880064, total memory: 65452113920", "ascend"),
        ("utils.py:334] Calculated maximum supported batch sizes for ACL graph: 25", "ascend"),
        ("worker.py:729] ACL graph pool memory: 0.25 GiB (actual), 0.5 GiB (estimated), "
         "difference: 0.25 GiB (50.0%).", "ascend"),
        ("topk_topp_sampler.py:300] xpu kernel topk_topp_sampler does not support "
         "per-request generators. Falling back to PyTorch-native implementation.", "xpu"),
        ("logger.py:75] Environment variable VLLM_CPU_KVCACHE_SPACE (GiB) for CPU backend "
         "is not set, using 4 by default.", "cpu"),
        ("gpt_oss_triton_kernels_moe.py:56] Using legacy triton_kernels on ROCm", "rocm"),
        ("core.py:66] Waiting for init message from front-end.\n[aiter] import "
         "[module_moe_asm] under /opt/aiter/jit/module_moe_asm.so", "rocm"),
    ],
)  # fmt: skip
def test_a_line_that_one_platform_prints_shows_the_device(line, device):
    head = "(EngineCore pid=2) INFO 07-07 12:54:21 ["
    text = f"{head}core.py:65] Initializing a V1 LLM engine (v0.9.0) with config: model='a/b'\n"
    assert folded(events(text + head + line + "\n")).summary.device.kind == device


def test_an_error_of_the_bridge_shows_a_gaudi():
    head = "(EngineCore pid=2) ERROR 07-07 12:54:21 [core.py:9] "
    text = f"{head}EngineCore failed to start.\n{head}RuntimeError: synStatus=8 [x]\n"
    assert folded(events(text)).summary.device.kind == "hpu"


@pytest.mark.parametrize(
    "error",
    [
        "The Inner error is reported as above. The process exits for this inner error, and "
        "the current working operator name is aclnnAdd.",
        "aclrtSynchronizeStream(stream) failed.",
        "Current device only support aclnn operator, and current operator cat do not "
        "support internal format",
        "x.cpp:89 NPU function error: call aclnnInplaceCopy failed, error code is 507015",
    ],
)
def test_an_error_of_torch_npu_shows_an_ascend(error):
    head = "(Worker_TP2 pid=2) ERROR 07-07 12:54:21 [multiproc_executor.py:9] "
    bar = "Capturing CUDA graphs (mixed prefill-decode, FULL):   0%|  | 0/18 [00:00<?, ?it/s]\n"
    text = f"{bar}{head}WorkerProc hit an exception.\n{head}RuntimeError: {error}\n"
    assert device_of(text) == ("ascend", False)


@pytest.mark.parametrize(("config", "device"), [("", None), ("cuda", "rocm")])
def test_a_platform_that_is_not_cuda_is_no_guess_of_it(config, device):
    head = "(EngineCore pid=2) INFO 07-29 06:07:12 ["
    line = (
        f"{head}cutedsl_warmup.py:100] Skipping CuTeDSL warmup on non-CUDA platform.\n"
    )
    engine = (
        f"{head}core.py:65] Initializing a V1 LLM engine (v0.27.0) with config: "
        + (f"model='a/b', device_config={config}\n")
    )
    text = (engine if config else "") + CAPTURED.replace(
        "07-16 20:02:46", "07-29 06:07:12"
    )
    assert device_of(text) == ("cuda", True)
    assert device_of(text + line) == (device, False)


def test_an_error_of_the_neuron_runtime_shows_a_neuron():
    """Its engine is configured for a CPU, and one process drives all devices."""
    head = "(EngineCore_DP0 pid=2) ERROR 06-25 14:34:27 [core.py:1008] "
    text = (
        f"{head.replace('core.py:1008', 'dump_input.py:72')}Dumping input data for V1 LLM "
        "engine (v0.16.0) with config: model='a/b', tensor_parallel_size=2, "
        f"device_config=cpu\n{head}EngineCore encountered a fatal error.\n"
        f"{head}RuntimeError: Failed to execute the model status=1006 message=Execution "
        "Out-Of-Bounds Memory Access\n"
    )
    assert device_of(text) == ("neuron", False)


@pytest.mark.parametrize(
    ("error", "device", "is_guess"),
    [
        ("nrt_tensor_allocate status=4 message=\"Allocation Failure\"", "neuron", False),
        ("Free memory on device cuda:0 (52.81/95.01 GiB) on startup is less than desired "
         "GPU memory utilization (0.9, 85.51 GiB).", "cuda", True),
    ],
)  # fmt: skip
def test_an_error_that_names_a_device_shows_it_and_vllm(error, device, is_guess):
    """ROCm calls its devices `cuda` as well."""
    head = "(EngineCore_DP0 pid=2) ERROR 06-25 14:34:27 [core.py:1008] "
    text = f"{head}EngineCore failed to start.\n{head}ValueError: {error}\n"
    assert device_of(text) == (device, is_guess)
    assert folded(events(text)).summary.engine.name == "vllm"


def test_an_engine_core_that_failed_is_of_vllm():
    head = "ERROR 04-30 10:20:36 [core.py:396] "
    text = f"{head}EngineCore failed to start.\n{head}ValueError: no such file\n"
    summary = folded(events(text)).summary
    assert (summary.engine.name, summary.ranks) == ("vllm", None)


def test_an_error_of_aiter_shows_amd():
    head = "(EngineCore_DP0 pid=2) ERROR 06-25 14:34:27 [core.py:1008] "
    text = (
        f"{head}EngineCore encountered a fatal error.\n"
        f"{head}RuntimeError: [AITER] some kernel failed\n"
    )
    assert device_of(text) == ("rocm", False)


def test_facts_of_a_tpu_before_the_start_show_the_device():
    """tpu-inference `__init__.py`: it is imported before vLLM prints anything."""
    text = (
        "INFO 10-28 17:06:30 [__init__.py:22] TPU info: node_name=a | tpu_type=v6e-8 | "
        "worker_id=0 | num_chips=8 | num_cores_per_chip=2\n"
        "(APIServer pid=7) INFO 10-28 17:06:32 [api_server.py:1870] vLLM API server "
        "version 0.11.0\n"
        "(APIServer pid=7) INFO 10-28 17:06:32 [utils.py:253] non-default args: {'model': "
        "'a/b', 'tensor_parallel_size': 8}\n"
    )
    summary = folded(events(text)).summary
    assert summary.device.kind == "tpu"
    assert summary.ranks != 8


@pytest.mark.parametrize(
    ("error", "device"),
    [
        ("AssertionError: mla_gluon requires gfx950 (CDNA4), got gfx942", "rocm"),
        ("RuntimeError: amdsmi_init failed with 43", "rocm"),
        ("MLX error: Failed to load the default metallib.", "metal"),
    ],
)
def test_an_error_names_the_device_of_the_library_that_raised_it(error, device):
    text = f"{error}\nRuntimeError: Engine core initialization failed. See root cause above.\n"
    assert summary_of(events(text))["device"]["kind"] == device


@pytest.mark.parametrize(
    ("file", "device", "engine"),
    [
        ("vllm_ascend/worker/worker.py", "ascend", "vllm"),
        ("vllm_gaudi/v1/worker/hpu_worker.py", "hpu", "vllm-gaudi"),
        ("tpu_inference/worker/tpu_worker.py", "tpu", "tpu-inference"),
        ("vllm/v1/worker/cpu_model_runner.py", "cpu", "vllm"),
        ("vllm/v1/worker/gpu_model_runner.py", None, "vllm"),
        ("vllm/platforms/cuda.py", None, "vllm"),
    ],
)
def test_a_function_that_runs_on_one_device_shows_it(file, device, engine):
    """In the traceback of an error, which may be all there is of a log."""
    head = "ERROR 03-04 07:43:12 [multiproc_executor.py:783] "
    error = "NotImplementedError: Shard id with multiple indices is not supported"
    lines = [
        "WorkerProc failed to start.",
        f'  File "/x/dist-packages/{file}", line 4, in load_model',
        error,
    ]
    summary = folded(events("".join(f"{head}{line}\n" for line in lines))).summary
    assert (summary.device.kind, summary.engine.name) == (device, engine)
    assert summary.ranks is None
