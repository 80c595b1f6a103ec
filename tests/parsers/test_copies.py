"""Records that two handlers print, and equal ones that one handler prints."""

from __future__ import annotations

from typing import Any

import pytest

from tests.helpers import events, of, read, summary_of
from warmup_insights.model.events import PhaseMarked, RuntimeCompile

START = (
    ("init.py", "Automatically detected platform cuda."),
    ("core.py", "Initializing a V1 LLM engine (v0.11.0) with config: model='a/b', "
                "tensor_parallel_size=1, device_config=cuda"),
    ("gpu_model_runner.py", "Starting to load model a/b..."),
    ("default_loader.py", "Loading weights took 3.5 seconds"),
    ("gpu_model_runner.py", "Model loading took 2.5 GiB and 4.5 seconds"),
    ("backends.py", "Dynamo bytecode transform time: 2.25 s"),
    ("backends.py", "Compiling a graph for dynamic shape takes 7.75 s"),
    ("monitor.py", "torch.compile takes 10.00 s in total"),
    ("gpu_worker.py", "Available KV cache memory: 6.25 GiB"),
    ("kv_cache_utils.py", "GPU KV cache size: 48,128 tokens"),
    ("gpu_model_runner.py", "Graph capturing finished in 4 secs, took 0.50 GiB"),
    ("core.py", "init engine (profile, create kv cache, warmup model) took 20.5 seconds"),
    ("api_server.py", "Starting vLLM API server 0 on http://localhost:8000"),
    ("launcher.py", "Available routes are:"),
    ("loggers.py", "Engine 000: Avg prompt throughput: 5.0 tokens/s, Avg generation "
                   "throughput: 6.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, GPU KV "
                   "cache usage: 2.0%, Prefix cache hit rate: 0.0%"),
    ("loggers.py", "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation "
                   "throughput: 2.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV "
                   "cache usage: 3.0%, Prefix cache hit rate: 0.0%"),
    ("loggers.py", "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation "
                   "throughput: 2.0 tokens/s, Running: 2 reqs, Waiting: 0 reqs, GPU KV "
                   "cache usage: 3.0%, Prefix cache hit rate: 0.0%"),
)  # fmt: skip
VLLM = "{process}INFO 07-16 10:02:{second:02d} [{file}:7] {message}\n"
FORMATS = {
    "the same": VLLM,
    "dated": "{process}2026-07-16 10:02:{second:02d},250 - vllm.{module} - INFO - "
             "{message}\n",
    "without a time": "{process}INFO:vllm.{module}:{message}\n",
}  # fmt: skip


def printed(*formats: str, process: str) -> str:
    return "".join(
        each.format(
            process=process, second=2 * index, file=file, message=message,
            module=file.removesuffix(".py"),
        )
        for index, (file, message) in enumerate(START)
        for each in formats
    )  # fmt: skip


def summary(text: str) -> Any:
    found = summary_of(events(text))
    parts = ("status", "memory", "config", "notes", "compile", "time")
    return without_lines({key: found[key] for key in parts})


def without_lines(value: Any) -> Any:
    if isinstance(value, list):
        return [without_lines(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: without_lines(item) for key, item in value.items() if "line" not in key
    }


@pytest.mark.parametrize("other", FORMATS.values(), ids=FORMATS)
@pytest.mark.parametrize("process", ["", "(EngineCore pid=7) "], ids=["bare", "named"])
def test_records_that_two_handlers_print_count_once(other, process):
    once = printed(VLLM, process=process)
    twice = printed(VLLM, other, process=process)
    assert summary(twice) == summary(once)


def test_equal_records_of_one_handler_count_each():
    line = (
        "(Worker_TP0 pid=7) INFO 07-16 10:02:{} [custom_all_reduce.py:213] Registering 14 "
        "cuda graph addresses\n"
    )
    head = "(Worker_TP0 pid=7) INFO 07-16 10:02:00 [gpu_worker.py:1] Another line\n"
    assert len(of(PhaseMarked, events(head + line.format(10) + line.format(10)))) == 2


KAGGLE = (
    "{}s {} (EngineCore pid=163) INFO 06-04 05:34:22 [core.py:112] Initializing a V1 LLM "
    "engine (v0.22.0) with config: model='a/b', tensor_parallel_size=1, device_config=cuda",
    "{}s {} (EngineCore pid=163) INFO 06-04 05:34:22 [gpu_worker.py:289] Using V2 Model Runner",
    "{}s {} (EngineCore pid=163) INFO 06-04 05:34:22 [model_runner.py:274] Loading model "
    "from scratch...",
)  # fmt: skip
COMPILED = (
    "{}s {} (EngineCore pid=163) WARNING 06-04 05:36:{:02d} [jit_monitor.py:103] Triton "
    "kernel JIT compilation during inference: _topk_kernel. This causes a latency spike; "
    "consider extending warmup to cover this shape/config.\n"
)


def test_records_that_a_notebook_service_writes_twice_count_once():
    started = "".join(
        line.format(seconds, number) + "\n"
        for seconds in (331.5, 331.7)
        for number, line in enumerate(KAGGLE, 304)
    )
    once = "".join(
        COMPILED.format(seconds, seconds, stamp)
        for stamp in (5, 9)
        for seconds in (430.1 + stamp, 430.3 + stamp)
    )
    assert len(of(RuntimeCompile, events(started + once))) == 2


def test_equal_records_of_a_process_that_prints_once_count_each():
    started = "".join(f"{line.format(331.5, 304)}\n" for line in KAGGLE)
    each = "".join(COMPILED.format(435.1, 435, 5) for _ in range(3))
    assert len(of(RuntimeCompile, events(started + each))) == 3


WORKER = (
    "parallel_state.py:1200] world_size=2 rank=0 local_rank=0 "
    "distributed_init_method=tcp://127.0.0.1:51234 backend=nccl",
    "pynccl.py:111] vLLM is using nccl==2.27.5",
    "parallel_state.py:1408] rank 0 in world size 2 is assigned as DP rank 0, PP rank 0, "
    "PCP rank 0, TP rank 0, EP rank 0",
)
"""Lines of a worker before it has its name, in one second."""


def test_lines_of_a_start_that_stands_twice_are_no_copies():
    first = "(EngineCore_DP0 pid=51) INFO 07-16 10:02:{:02d} [core.py:97] {}\n"
    start = (
        first.format(1, "Initializing a V1 LLM engine (v0.16.0) with config: model='a/b', "
                        "tensor_parallel_size=2, device_config=cuda")
        + "".join(f"(Worker pid=60) INFO 07-16 10:02:09 [{line}\n" for line in WORKER)
        + "(Worker_TP0 pid=60) INFO 07-16 10:02:20 [gpu_model_runner.py:4000] Model "
          "loading took 2.5 GiB memory and 4.5 seconds\n"
        + first.format(40, "init engine (profile, create kv cache, warmup model) took "
                           "30.5 seconds")
        + "(APIServer pid=50) INFO 07-16 10:02:44 [launcher.py:29] Available routes are:\n"
          "(APIServer pid=50) INFO:     Application startup complete.\n"
    )  # fmt: skip
    first_run, second_run = (
        summary_of(run)["time"] for run in read(start * 2)[0].values()
    )
    assert second_run["phases"] == first_run["phases"]


def test_the_end_of_a_log_that_is_printed_while_it_grows_is_one_start():
    """A program that waits for its server prints the last lines of its log, again and again."""
    line = "({} pid={}) INFO 06-14 03:0{}:{:02d} [{}] {}\n"
    lines = (
        line.format("EngineCore", 261, 4, 23, "core.py:139", "DP group leader: node_rank=0"),
        line.format("Worker_TP0", 274, 4, 41, "model_runner.py:274", "Loading model from scratch..."),
        "Loading safetensors checkpoint shards:  20% Completed | 1/5 [00:21<01:27, 21.88s/it]\n",
        line.format("Worker_TP0", 274, 5, 17, "model_runner.py:295",
                    "Model loading took 7.71 GiB and 36.049481 seconds"),
        line.format("EngineCore", 261, 5, 42, "kv_cache_utils.py:1733",
                    "GPU KV cache size: 61,424 tokens"),
        line.format("EngineCore", 261, 5, 54, "core.py:309",
                    "init engine (profile, create kv cache, warmup model) took 37.41 s"),
        "(APIServer pid=241) INFO:     Application startup complete.\n",
    )  # fmt: skip
    head = "installing vLLM ...\nINFO 06-14 03:03:14 [__init__.py:44] No plugins\n"
    tails = ("".join(lines[begin:end]) for begin, end in ((0, 3), (1, 5), (0, 7)))
    (run,) = read(head + "---- log tail ----\n".join(tails))[0].values()
    (once,) = read(head + "".join(lines))[0].values()
    assert summary_of(run)["time"]["phases"] == summary_of(once)["time"]["phases"]
    assert summary_of(run)["status"] == "finished"
