"""The time between two lines of an engine has the name of what ran between them."""

from __future__ import annotations

import json
import re

import pytest

from parsers.formats.documents import notebook_text
from tests.helpers import REAL_LOGS, events, folded, read, summary_of
from warmup_insights.model.events import WarmupStep
from warmup_insights.model.figures import BY_NAME, captured_percent
from warmup_insights.units import GIB

CORE = "(EngineCore pid=7) {} 07-16 10:{:02d}:{:02d} [{}] {}\n"
HEAD = (
    "(APIServer pid=1) INFO 07-16 10:00:00 [api_utils.py:345] vLLM API server version 0.26.0\n"
    "(EngineCore pid=7) INFO 07-16 10:00:05 [core.py:116] Initializing a V1 LLM engine "
    "(v0.26.0) with config: model='a/b', device_config=cuda\n"
)
READY = (
    "(APIServer pid=1) INFO 07-16 10:01:40 [api_server.py:7] Starting vLLM server on "
    "http://0.0.0.0:8000\n"
    "(APIServer pid=1) INFO:     Application startup complete.\n"
)
INITIALIZED = "init engine (profile, create kv cache, warmup model) took {:.2f} s"


def line(second: int, file: str, message: str, level: str = "INFO") -> str:
    return CORE.format(level, *divmod(second, 60), file, message)


def phases(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for phase in summary_of(events(text))["time"]["phases"]:
        found[phase["name"]] = found.get(phase["name"], 0.0) + phase["duration_s"]
    return found


def test_the_profiling_run_goes_on_behind_its_first_run_of_the_model():
    text = HEAD + line(
        20, "m.py:1", "Model loading took 5.00 GiB memory and 10.0 seconds"
    )
    text += line(30, "monitor.py:81", "Initial profiling/warmup run took 4.00 s")
    text += line(
        37, "gpu_model_runner.py:1",
        "Profiling CUDA graph memory: PIECEWISE=7 (largest=32), FULL=5 (largest=16)",
    )  # fmt: skip
    text += line(40, "gpu_worker.py:563", "Available KV cache memory: 13.84 GiB")
    assert phases(text)["profile_run"] == 11.0


def test_time_before_a_failure_that_lies_over_cut_lines_is_no_unlogged_time():
    text = HEAD + line(
        25, "m.py:1", "Model loading took 5.00 GiB memory and 10.0 seconds"
    )
    text += "...\n" + line(29, "core.py:1349", "EngineCore failed to start.", "ERROR")
    text += line(29, "core.py:1349", "ValueError: no such kernel", "ERROR")
    assert phases(text)["lines_cut_out"] >= 4.0


def test_a_program_configures_its_engine_behind_its_imports():
    """With no line of arguments, as vLLM 0.7 to 0.9 in a program."""
    log = "INFO 05-11 07:51:{} [{}] {}\n".format
    text = log(38, "__init__.py:239", "Automatically detected platform cpu.")
    text += log(41, "config.py:2951", "Casting torch.float16 to torch.bfloat16.")
    text += log(49, "config.py:713", "This model supports multiple tasks: {'embed', "
                "'generate'}. Defaulting to 'generate'.")  # fmt: skip
    text += log(50, "llm_engine.py:243", "Initializing a V0 LLM engine (v0.9.0) with "
                "config: model='a/b'")  # fmt: skip
    found = phases(text)
    assert (found["import"], found["configure"]) == (3.0, 9.0)


TILELANG = (
    "(EngineCore pid=7) 2026-07-16 10:00:{:02d}  [TileLang:tilelang.jit.kernel:INFO] "
    "(kernel.py:1): TileLang {} to compile kernel `a`\n"
)


def test_kernels_are_built_inside_of_a_stage_that_goes_on():
    text = HEAD + line(
        20, "m.py:1", "Model loading took 5.00 GiB memory and 10.0 seconds"
    )
    for second, edge in ((22, "begins"), (28, "completes"), (30, "begins")):
        text += TILELANG.format(second, edge)
    text += TILELANG.format(35, "completes")
    text += line(37, "gpu_worker.py:563", "Available KV cache memory: 13.84 GiB")
    found = phases(text)
    assert (found["kernel_build"], found["profile_run"]) == (11.0, 6.0)
    # A worker on a node without a server goes on to answer requests.
    text += line(40, "jit_monitor.py:79", "Kernel JIT monitor activated; monitored")
    text += TILELANG.format(50, "begins") + TILELANG.format(59, "completes")
    assert phases(text)["kernel_build"] == 11.0


def test_a_cpus_warmup_goes_on_behind_its_first_run_of_the_model():
    text = HEAD + line(
        20, "cpu_model_runner.py:1", "Warming up model for the compilation..."
    )
    text += line(50, "monitor.py:81", "Initial profiling/warmup run took 1.00 s")
    text += line(53, "cpu_model_runner.py:2", "Warming up done.")
    found = phases(text)
    assert (found["model_warmup"], found["profile_run"]) == (32.0, 1.0)


def test_a_cpus_warmup_begins_with_compiling_where_the_function_is_saved():
    text = HEAD + line(
        20, "cpu_model_runner.py:1", "Warming up model for the compilation..."
    )
    saved = "saved AOT compiled function to /c/torch_aot_compile/2e5f/rank_0_0/model"
    text += line(46, "decorators.py:710", saved)
    text += line(50, "monitor.py:81", "Initial profiling/warmup run took 3.00 s")
    text += line(52, "cpu_model_runner.py:2", "Warming up done.")
    found = phases(text)
    assert (found["compile"], found["model_warmup"]) == (26.0, 3.0)


def test_the_last_line_of_a_workers_warmup_ends_it():
    text = HEAD + line(40, "gpu_worker.py:563", "Available KV cache memory: 13.84 GiB")
    text += line(60, "jit_monitor.py:79", "Kernel JIT monitor activated; mode=warn")
    text += line(61, "core.py:348", INITIALIZED.format(50))
    assert phases(text)["model_warmup"] == 20.0


def test_a_server_starts_when_the_last_of_its_engines_is_there():
    text = HEAD + line(61, "core.py:348", INITIALIZED.format(50))
    text += line(70, "core.py:348", INITIALIZED.format(58))
    assert phases(text + READY)["server_start"] == 30.0


def test_an_engine_without_a_server_starts_none():
    text = HEAD + line(61, "core.py:348", INITIALIZED.format(50))
    text += line(70, "vllm.py:1", "Asynchronous scheduling is enabled.")
    assert "server_start" not in phases(text)


def test_a_capture_that_fails_took_what_its_bar_states():
    bar = (
        "Capturing CUDA graphs (decode, FULL):  50%|#  | 5/10 [00:22<00:20,  4.00s/it]"
    )
    text = HEAD + line(40, "gpu_worker.py:563", "Available KV cache memory: 0.85 GiB")
    text += f"(EngineCore pid=7) {bar}\n"
    for said in ("EngineCore failed to start.", "RuntimeError: CUDA error: no"):
        text += line(65, "core.py:1108", said, "ERROR")
    assert phases(text)["graph_capture"] == 22.0


def test_kernels_that_aiter_builds_are_counted_once():
    text = HEAD + "(EngineCore pid=7) [aiter] finish build [module_a], cost 40.0s\n"
    text += (
        "(EngineCore pid=7) [2026-07-16 10:00:50] INFO core.py:863: finish build "
        "[module_a], cost 40.0s\n"
    )
    assert phases(text)["kernel_build"] == 40.0
    (note,) = [
        n for n in summary_of(events(text))["notes"] if n["topic"] == "kernel_build"
    ]
    assert (note["text"], note["count"]) == ("aiter built module_a in 40 s", 1)


def test_a_build_without_a_stamp_lies_before_the_next_one():
    text = HEAD + "(EngineCore pid=7) [aiter] finish build [module_a], cost 14.0s\n"
    text += "(EngineCore pid=7) [aiter] finish build [module_b], cost 5.0s\n"
    text += line(30, "gpu_worker.py:563", "Available KV cache memory: 0.85 GiB")
    assert phases(text)["kernel_build"] == 19.0


def test_neighbours_of_one_name_are_one_where_stamps_have_no_fraction():
    text = HEAD + line(7, "m.py:1", "Starting to load model a/b...")
    text += line(9, "m.py:1", "Model loading took 5.00 GiB memory and 2.0 seconds")
    for second in range(10, 20):
        text += line(second, "backends.py:1", "Dynamo bytecode transform time: 0.25 s")
    assert phases(text)["compile"] == 9.25
    finer = text.replace("(EngineCore", "2026-07-16T10:00:05.500Z (EngineCore", 1)
    assert phases(finer)["compile"] == 2.5


def test_blocks_are_counted_when_the_profiling_run_is_over():
    text = (
        line(1, "model_runner.py:1056", "Starting to load model a/b...")
        + line(3, "model_runner.py:1067", "Loading model weights took 15.3916 GB")
        + line(33, "gpu_executor.py:57", "# GPU blocks: 2987, # CPU blocks: 4096")
    )
    assert phases(text) == {"load_model": 2.0, "profile_run": 30.0}


def test_a_model_is_loaded_when_the_engine_begins_to_initialise_itself():
    text = HEAD + line(20, "default_loader.py:1", "Loading weights took 10.0 seconds")
    text += line(90, "core.py:348", INITIALIZED.format(15))
    assert phases(text)["load_model"] == 55.0


def test_what_follows_the_workers_without_a_line_of_loading_has_no_name():
    text = HEAD + line(
        10, "parallel_state.py:1",
        "rank 0 in world size 1 is assigned as DP rank 0, PP rank 0, TP rank 0, EP rank 0",
    )  # fmt: skip
    cached = line(90, "kv_cache_utils.py:1", "GPU KV cache size: 131,072 tokens")
    assert "init_worker" not in phases(text + cached)
    loading = line(13, "gpu_model_runner.py:1", "Starting to load model a/b...")
    assert phases(text + loading + cached)["init_worker"] == 3.0


def test_buckets_that_fail_under_their_bar_began_where_the_stage_before_ended():
    runner = "hpu_model_runner.py:5242"
    text = (
        HEAD
        + line(20, runner, "Starting sampler warmup...")
        + line(22, runner, "Sampler warmup completed successfully")
        + "Prompt warmup processing:  25%|██▌       | 1/4 [00:09<00:27,  9.00s/item, 0/4]\n"
        + line(34, "core.py:1180", "EngineCore failed to start.", "ERROR")
        + line(34, "core.py:1180", "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM "
               "Allocation failed for size::268435456 (256)MB", "ERROR")
    )  # fmt: skip
    found = phases(text)
    assert found["prompt_warmup"] == 12.0
    assert found["sampler_warmup"] == 2.0


def test_a_bar_before_the_first_timestamp_is_in_no_gap():
    bar = "[aiter] finish build [module_a], cost 4.0s\n"
    text = (
        bar + HEAD + line(30, "gpu_worker.py:563", "Available KV cache memory: 1.0 GiB")
    )
    assert "kernel_build" not in phases(text)


UNNAMED = {
    # Between the last graph that was compiled and the total no line is printed.
    "c24_cuda_nim_debug_report_3_starts.log": 0.8,
    # No line is printed between the loading of weights and the KV cache.
    "hpu_plugin_2025-06-04_v0_llama_startup.log": 0.8,
    "hpu_plugin_2025-06-05_v0_qwen3moe_startup.log": 0.85,
    # Starts of a few seconds, of which stamps of whole seconds are a large share.
    "c20_cuda_logomesh.log": 0.94, "i03_omni_stage_prefix_sleep_2026-02.log": 0.0,
}  # fmt: skip
"""Logs whose lines leave more than a twentieth of a finished start without a name."""


@pytest.mark.skipif(not REAL_LOGS.exists(), reason="the real logs are not here")
def test_nearly_all_the_time_of_real_starts_has_a_name():
    total = unlogged = 0.0
    for path in sorted([*REAL_LOGS.glob("*.log"), *REAL_LOGS.glob("fresh/*.*")]):
        runs, _ = read(path.read_bytes(), path.name, year=None)
        for found in runs.values():
            summary = summary_of(found)
            time = summary["time"]
            if summary["status"] != "finished" or not time["wall_s"]:
                continue
            total, unlogged = total + time["wall_s"], unlogged + time["unlogged_s"]
            share = 1.0 - time["unlogged_s"] / time["wall_s"]
            assert share >= UNNAMED.get(path.name, 0.95), (path.name, time["gaps"])
    assert 1.0 - unlogged / total >= 0.98


@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_profiling_run_begins_with_the_encoder(is_compiled):
    text = HEAD + line(20, "m.py:1", "Model loading took 5.00 GiB and 10.0 seconds")
    text += line(
        21, "gpu_model_runner.py:3685",
        "Encoder cache will be initialized with a budget of 14400 tokens, and profiled "
        "with 1 image items of the maximum feature size.",
    )  # fmt: skip
    # What fails then, fails in the profiling run: where the encoder is done is not printed.
    assert summary_of(events(text))["progress"]["stage"] == "profile_run"
    if is_compiled:
        text += line(
            43, "backends.py:609", "Using cache directory: /c for vLLM's torch.compile"
        )
        text += line(43, "backends.py:623", "Dynamo bytecode transform time: 7.00 s")
        text += line(47, "monitor.py:34", "torch.compile takes 11.00 s in total")
    text += line(49, "gpu_worker.py:337", "Available KV cache memory: 4.03 GiB")
    found = phases(text)
    shown = [found.get(name) for name in ("encoder_profile", "profile_run", "compile")]
    # Without a compilation no line states where the encoder was done.
    assert shown == ([15.0, 2.0, 11.0] if is_compiled else [None, 28.0, None])


def test_a_process_that_looks_for_triton_before_it_has_its_name_imports_the_engine():
    looked = (
        "INFO 07-16 09:59:{} [importing.py:95] Triton not installed or not compatible; "
        "certain GPU-related functions will not be available.\n"
    )
    arguments = (
        "(APIServer pid=1) INFO 07-16 10:00:00 [utils.py:2] non-default args: {}\n"
    )
    head = HEAD.replace("(EngineCore", arguments + "(EngineCore", 1)
    assert phases(looked.format("40") + head)["import"] == 20.0
    core = "(EngineCore pid=7) " + looked.format("59").replace("09:59:59", "10:00:06")
    assert "import" not in phases(HEAD + core + READY)


def test_the_workers_of_an_executor_were_imported_when_their_queues_are_made():
    queue = (
        "vLLM message queue communication handle: Handle(local_reader_ranks=[0], "
        "buffer_handle=({}, 10, 'psm_3c'), local_subscribe_addr='ipc:///tmp/a')"
    )
    text = HEAD + line(9, "shm_broadcast.py:289", queue.format("1, 16777216"))
    platform = (
        "INFO 07-16 10:00:10 [__init__.py:235] Automatically detected platform cuda.\n"
    )
    worker = "(VllmWorker rank=0 pid=9) INFO 07-16 10:00:{} {}\n"
    text += platform + worker.format(
        30, "[shm_broadcast.py:289] " + queue.format("1, 10485760")
    )
    text += worker.format(
        44, "[parallel_state.py:1102] rank 0 in world size 2 is assigned as DP rank 0"
    )
    text += worker.format(
        45, "[gpu_model_runner.py:1843] Starting to load model a/b..."
    )
    text += line(85, "core.py:348", INITIALIZED.format(5))
    found = phases(text + READY)
    assert (found["import"], found["distributed_init"]) == (20.0, 14.0)


def test_the_workers_of_ray_were_imported_when_they_get_their_environment():
    text = HEAD + (
        "(pid=9) INFO 07-16 10:00:10 [__init__.py:239] Automatically detected platform cuda.\n"
    )
    text += line(
        30, "ray_distributed_executor.py:354",
        "Copying the following environment variables to workers: ['VLLM_USE_V1']",
    )  # fmt: skip
    late = (
        "(pid=9, ip=10.1.2.3) INFO 07-16 10:00:11 [__init__.py:239] Automatically detected "
        "platform cuda.\n"
    )
    loaded = (
        f"(RayWorkerWrapper pid=9) INFO 07-16 10:00:{33} [parallel_state.py:1004] rank 1 in "
        "world size 2 is assigned as DP rank 0, PP rank 0, TP rank 1\n"
        "(RayWorkerWrapper pid=9) INFO 07-16 10:01:20 [gpu_model_runner.py:1] Model loading "
        "took 5.00 GiB and 45.0 seconds\n"
    )
    text += late + loaded + line(85, "core.py:348", INITIALIZED.format(5))
    found = phases(text + READY)
    assert found["import"] == 20.0
    assert found["load_model (other rank)"] == 45.0


def test_ranks_wait_for_the_one_that_downloads():
    """It holds the lock of the folder (`model_loader/weight_utils.py`,
    `download_weights_from_hf`)."""
    worker = "(VllmWorker rank={} pid={}) INFO 07-16 10:{:02d}:{:02d} [{}] {}\n"
    text = HEAD
    for rank in (0, 1):
        text += worker.format(
            rank,
            10 + rank,
            0,
            10,
            "gpu_model_runner.py:1",
            "Starting to load model a/b...",
        )
    text += worker.format(
        1, 11, 0, 50, "weight_utils.py:308",
        "Time spent downloading weights for a/b: 39.500000 seconds",
    )  # fmt: skip
    for rank in (0, 1):
        text += worker.format(
            rank, 10 + rank, 0, 55, "gpu_model_runner.py:2",
            "Model loading took 5.00 GiB and 45.000000 seconds",
        )  # fmt: skip
    text += line(85, "core.py:348", INITIALIZED.format(5))
    found = phases(text + READY)
    assert (found["download"], found["load_model"]) == (39.5, 5.5)


def test_an_engine_that_prints_no_beginning_of_loading_does_not_start_all_the_while():
    """vLLM 0.2 to 0.5.0 (`engine/llm_engine.py`, `worker/model_runner.py`)."""
    head = (
        "INFO 06-25 14:21:47 llm_engine.py:70] Initializing an LLM engine with config: "
        "model='a/b', tensor_parallel_size=1\n"
    )
    weights = "INFO 06-25 14:22:53 model_runner.py:160] Loading model weights took 14.2655 GB\n"
    blocks = "INFO 06-25 14:22:54 llm_engine.py:316] # GPU blocks: 27913, # CPU blocks: 4681\n"
    captured = (
        "INFO 06-25 14:23:03 model_runner.py:965] Graph capturing finished in 7 secs.\n"
    )
    for text in (head + weights + blocks + captured, head + blocks + captured):
        found = phases(text)
        assert (found["graph_capture"], "start_engine" in found) == (7.0, False)


def test_a_start_that_ends_while_weights_are_read_lasts_as_long_as_their_bar():
    """A process that the kernel ends prints nothing: its last lines are of the bar."""
    text = (
        "(EngineCore pid=7) INFO 05-13 19:02:21 [core.py:109] Initializing a V1 LLM engine "
        "(v0.20.0) with config: model='a/b'\n"
        "(EngineCore pid=7) INFO 05-13 19:02:29 [gpu_model_runner.py:9] Starting to load "
        "model a/b...\n"
        "(EngineCore pid=7) Loading safetensors checkpoint shards:   0% Completed | 0/64 "
        "[00:00<?, ?it/s]\n"
        "{between}"
        "(EngineCore pid=7) Loading safetensors checkpoint shards:  75% Completed | 48/64 "
        "[05:02<02:23,  8.94s/it]\n"
    )
    other = (
        "(EngineCore pid=7) INFO 05-13 19:04:00 [x.py:9] Something of another thread\n"
    )
    for between in ("", other):
        time = folded(events(text.format(between=between))).summary.time
        assert time.wall_s == 310.0
        parts = {"start_engine": 8.0, "load_weights": 302.0}
        assert {p.name: p.duration_s for p in time.phases} == parts
    cancelled = (
        "slurmstepd: error: *** STEP 9.8 ON n29 CANCELLED AT 2026-05-13T19:08:21 ***\n"
    )
    time = folded(events(text.format(between=other) + cancelled)).summary.time
    assert (time.wall_s, time.is_at_least) == (360.0, False)
    assert {p.name: p.duration_s for p in time.phases}["load_weights"] == 302.0


def test_a_server_whose_first_lines_are_not_there_has_no_time_to_ready():
    """The last lines of a container begin anywhere in the start."""
    platform = (
        "INFO 05-13 19:02:00 [__init__.py:2] Automatically detected platform cuda.\n"
    )
    rest = [
        "(APIServer pid=5) INFO 05-13 19:02:10 [model.py:9] Using max model len 4096\n",
        "(EngineCore pid=7) INFO 05-13 19:02:21 [core.py:9] Initializing a V1 LLM engine "
        "(v0.20.0) with config: model='a/b'\n",
        "(EngineCore pid=7) INFO 05-13 19:02:29 [gpu_model_runner.py:9] Starting to load "
        "model a/b...\n",
        "(EngineCore pid=7) INFO 05-13 19:02:40 [gpu_model_runner.py:9] Model loading took "
        "3.0 GiB and 10.5 seconds\n",
        "(APIServer pid=5) INFO 05-13 19:02:50 [api_server.py:9] Starting vLLM server on "
        "http://0.0.0.0:8000\n",
    ]
    assert folded(events(platform + "".join(rest))).summary.time.wall_s == 50.0
    for lost in range(4):
        time = folded(events("".join(rest[lost:]))).summary.time
        assert time.wall_s is None
        assert time.ready_at is not None


def test_another_program_below_a_ready_server_began_no_part_of_its_start():
    """A report shows a benchmark of an earlier day below the log of a server."""
    platform = (
        "INFO 05-13 {}:00 [__init__.py:2] Automatically detected platform cuda.\n"
    )
    server = "(APIServer pid=5) INFO 05-13 19:{} [api_server.py:9] {}\n"
    text = (
        platform.format("19:02")
        + server.format("02:10", "vLLM API server version 0.20.0")
        + server.format("03:00", "Starting vLLM server on http://0.0.0.0:8000")
    )
    alone = folded(events(text)).summary.time
    assert alone.wall_s == 60.0
    assert folded(events(text + platform.format("18:47"))).summary.time == alone


def test_a_line_of_another_day_bounds_no_start():
    text = line(
        0, "core.py:1", "Initializing a V1 LLM engine (v0.26.0) with config: model='a'"
    )
    text += line(5, "core.py:2", "EngineCore failed to start.", "ERROR").replace(
        "07-16", "07-14"
    )
    assert summary_of(events(text))["time"]["wall_s"] is None


def test_a_start_that_goes_on_lasts_until_its_last_note():
    text = line(
        0, "core.py:1", "Initializing a V1 LLM engine (v0.26.0) with config: model='a'"
    )
    text += line(4, "model_runner_v1.py:2", "Loading model weights took 18.75 GB")
    text += line(
        12, "cudagraph_dispatcher.py:3",
        "cudagraph dispatching keys are not initialized. No cudagraph will be used.", "WARNING",
    )  # fmt: skip
    assert summary_of(events(text))["time"]["wall_s"] == 12.0


def test_how_long_ranks_connect_is_unknown_where_no_line_of_loading_follows():
    text = HEAD + line(
        8, "parallel_state.py:1568",
        "world_size=1 rank=0 local_rank=0 distributed_init_method=tcp://x backend=nccl",
    )  # fmt: skip
    text += line(60, "backends.py:1148", "Dynamo bytecode transform time: 5.00 s")
    text += line(70, "core.py:348", INITIALIZED.format(20))
    assert "distributed_init" not in phases(text)


def test_mixed_batches_are_no_part_of_the_last_prompt_bucket():
    def step(second, phase, shape):
        size, length, blocks = shape
        return (
            f"INFO 01-26 14:30:{second:02d} [hpu_model_runner.py:3943] [Warmup][Graph/"
            f"{phase} batch_size:{size} query_len:{length} num_blocks:{blocks} "
            "free_mem:7.476 GiB\n"
        )

    text = step(0, "prompt][1/1]", (1, 128, 0))
    for first in (5, 12):
        text += step(first, f"mix/prompt][{first // 5}/2]", (1, 128 * first, 0))
        text += step(first, "mix/decode][1/2]", (16, 1, 512))
        text += step(first + 4, "mix/decode][2/2]", (8, 1, 256))
    text += step(20, "decode][1/1]", (16, 1, 512))
    assert phases(text) == {"prompt_graphs": 5.0, "mixed_graphs": 15.0}
    rows = {
        row.bucket: row.duration_s
        for row in folded(events(text)).rows
        if row.phase == "mixed"
    }
    assert rows == {
        (1, 640, 0, 16, 1, 512): 4.0, (1, 640, 0, 8, 1, 256): 3.0,
        (1, 1536, 0, 16, 1, 512): 4.0, (1, 1536, 0, 8, 1, 256): 4.0,
    }  # fmt: skip


@pytest.mark.parametrize(
    "begins",
    [
        "core.py:96] Initializing a V1 LLM engine (v0.15.0) with config: model='a/b', "
        "device_config=hpu",
        "hpu_model_runner.py:4112] Starting to load model a/b...",
    ],
)
def test_of_lines_that_were_selected_the_first_stage_lasts_no_longer_than_they_show(
    begins,
):
    text = f"INFO 02-09 19:44:02 [{begins}\n" + "".join(
        f"INFO 02-09 19:{minute}:11 [hpu_model_runner.py:4311] [Warmup][Prompt][{index}/2] "
        "batch_size:1 query_len:128 num_blocks:0 free_mem:44.66 GiB\n"
        for index, minute in ((1, 50), (2, 51))
    )
    assert phases(text) == {"prompt_warmup": 60.0}


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ("version|KV cache", {}),
        ("version|config|KV cache", {}),
        ("config|captur", {"graph_capture": 9.0}),
        (
            "config|load|KV cache",
            {"start_engine": 15.0, "load_model": 30.0, "profile_run": 40.0},
        ),
        ("load|captur", {"load_model": 30.0, "graph_capture": 9.0}),
    ],
)
def test_a_stage_does_not_last_over_one_whose_lines_were_left_out(kept, expected):
    """`grep` takes out what lies between two stages; their order shows it."""
    whole = (
        "INFO 02-09 10:00:00 [api_server.py:100] vLLM API server version 0.11.0\n"
        "INFO 02-09 10:00:05 [core.py:96] Initializing a V1 LLM engine (v0.11.0) with config: "
        "model='a/b', device_config=cuda\n"
        "INFO 02-09 10:00:20 [gpu_model_runner.py:2800] Starting to load model a/b...\n"
        "INFO 02-09 10:00:50 [gpu_model_runner.py:2850] Model loading took 14.9 GiB and "
        "30.0 seconds\n"
        "INFO 02-09 10:01:30 [gpu_worker.py:298] Available KV cache memory: 20.5 GiB\n"
        "INFO 02-09 10:01:30 [kv_cache_utils.py:1087] GPU KV cache size: 90,000 tokens\n"
        "INFO 02-09 10:01:40 [gpu_model_runner.py:3600] Graph capturing finished in 9 secs, "
        "took 0.54 GiB\n"
    )
    lines = whole.splitlines(keepends=True)
    text = "".join(line for line in lines if re.search(kept, line))
    assert phases(text) == expected


def test_nor_does_the_engines_start_last_until_its_memory_is_divided():
    head = "INFO 02-09 19:4{}:02 [{}] "
    text = (
        head.format(4, "core.py:96")
        + "Initializing a V1 LLM engine (v0.15.0) with config: model='a/b', device_config=hpu\n"
        + head.format(5, "hpu_worker.py:332")
        + "Free device memory: 82.7 GiB, 62.03 GiB usable (gpu_memory_utilization=0.75), "
        "24.81 GiB reserved for HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.4), 37.22 GiB reserved "
        "for KV cache\n"
    )
    assert phases(text) == {}


@pytest.mark.parametrize(("last", "warmed"), [(351, None), (352, 352)])
def test_steps_before_the_first_line_of_a_log_are_not_taken_for_buckets_that_did_not_run(
    last, warmed
):
    text = "".join(
        f"INFO 01-26 14:30:{index - 340:02d} [hpu_model_runner.py:3943] [Warmup][Graph/prompt]"
        f"[{index}/352] batch_size:1 query_len:128 num_blocks:{352 - index} free_mem:7.4 GiB\n"
        for index in range(350, last + 1)
    )
    text += (
        "INFO 01-26 14:30:20 [hpu_model_runner.py:3943] [Warmup][Graph/decode][1/2] "
        "batch_size:1 query_len:1 num_blocks:128 free_mem:7.4 GiB\n"
    )
    summary = folded(events(text)).summary
    assert summary.phase("prompt").warmed == warmed


def test_a_log_that_begins_in_a_process_of_the_engine_has_lost_its_head():
    """As `kubectl logs --tail` prints it: when the start began is unknown."""
    text = line(
        4, "gpu_model_runner.py:9", "Model loading took 2.5 GiB and 4.5 seconds"
    )
    text += line(12, "gpu_worker.py:9", "Available KV cache memory: 6.25 GiB")
    text += line(16, "core.py:348", INITIALIZED.format(12))
    time = summary_of(events(text))["time"]
    assert (time["wall_s"], time["is_excerpt"]) == (None, True)
    head = (
        "INFO 07-16 10:00:01 [__init__.py:246] Automatically detected platform cuda.\n"
    )
    assert summary_of(events(head + text))["time"]["is_excerpt"] is False


def test_a_server_that_stated_no_settings_has_no_time_to_ready():
    """Its workers import vLLM as well: the first line of the log is of one of them."""
    imported = (
        "INFO 07-16 10:00:01 [__init__.py:246] Automatically detected platform cuda.\n"
    )
    text = (
        "(VllmWorker rank=0 pid=9) INFO 07-16 10:00:12 [gpu_worker.py:9] Available KV "
        "cache memory: 6.25 GiB\n"
    )
    ready = "INFO 07-16 10:00:20 [api_server.py:602] Starting vLLM server on http://a:8000\n"
    args = "INFO 07-16 10:00:02 [utils.py:233] non-default args: {'model': 'a/b'}\n"
    for settings, wall_s in (("", None), (args, 19.0)):
        found = events(imported + settings + text + ready)
        assert summary_of(found)["time"]["wall_s"] == wall_s


CAPTURED_LINE = "Graph capturing finished in 3 secs, took 0.11 GiB"
MEASURED_GRAPHS = (
    "Capturing CUDA graphs (PIECEWISE): 100%|#####| 9/9 [00:02<00:00,  4.50it/s]\n"
    "Capturing CUDA graphs (FULL): 100%|#####| 2/2 [00:01<00:00,  2.00it/s]\n"
)
GRAPHS = MEASURED_GRAPHS.replace("2/2 [00:01", "7/7 [00:04")


def worker(rank: int, second: int, file: str, message: str) -> str:
    return f"(Worker_TP{rank} pid={20 + rank}) INFO 07-16 10:00:{second:02d} [{file}] {message}\n"


def captured(text: str) -> tuple[dict[str, float], dict]:
    summary = summary_of(events(text))
    found: dict[str, float] = {}
    for phase in summary["time"]["phases"]:
        found[phase["name"]] = found.get(phase["name"], 0.0) + phase["duration_s"]
    return found, summary


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("has_size", [True, False])
def test_what_the_profile_captures_are_not_the_graphs(ranks, has_size):
    """Model runner V2 captures with the same line once before the KV cache is divided
    (`v1/worker/gpu/cudagraph_utils.py`, `profile_cudagraph_memory`)."""
    took = "Graph capturing finished in {} secs, took {} GiB"
    text = HEAD + MEASURED_GRAPHS
    for rank in range(ranks):
        text += worker(rank, 30, "model_runner.py:960", took.format(3, "0.11"))
    text += worker(0, 31, "gpu_worker.py:625", "Available KV cache memory: 6.13 GiB")
    if has_size or ranks > 1:
        text += line(32, "kv_cache_utils.py:2235", "GPU KV cache size: 16,640 tokens")
    text += GRAPHS
    for rank in range(ranks):
        text += worker(rank, 50, "model_runner.py:960", took.format(6, "0.61"))
    text += line(52, "core.py:306", INITIALIZED.format(40)) + READY
    found, summary = captured(text)
    assert (found["graph_capture"], found["graph_memory_profile"]) == (6.0, 3.0)
    graphs = summary["graphs"]
    assert (graphs["captured"], graphs["duration_s"]) == (16, 6.0)
    assert graphs["memory_bytes"] == round(0.61 * 2**30)
    assert [(bar["mode"], bar["captured"]) for bar in graphs["bars"]] == [
        ("PIECEWISE", 9), ("FULL", 7),
    ]  # fmt: skip


def test_a_start_that_measured_its_graphs_has_captured_none():
    text = HEAD + MEASURED_GRAPHS
    text += worker(0, 30, "model_runner.py:960", CAPTURED_LINE)
    text += worker(0, 31, "gpu_worker.py:625", "Available KV cache memory: 6.13 GiB")
    _, summary = captured(text)
    assert (summary["graphs"], summary["status"]) == (None, "unknown")


@pytest.mark.parametrize("end", ["", line(52, "core.py:306", INITIALIZED.format(40))])
def test_a_capture_without_any_line_of_a_kv_cache_is_one_of_graphs(end):
    """As where lines were selected from a log."""
    text = HEAD + worker(0, 30, "model_runner.py:960", CAPTURED_LINE) + end
    _, summary = captured(text)
    assert summary["graphs"]["memory_bytes"] == round(0.11 * 2**30)
    assert summary["status"] == "finished"


def test_lines_without_the_beginning_are_not_the_whole_start():
    text = line(4, "hpu_model_runner.py:10", "Loading model weights took 14.9 GB")
    text += line(
        24,
        "hpu_worker.py:10",
        "Model profiling run took 504 MiB of device "
        "memory (15.46 GiB/94.62 GiB used) and 180.9 MiB of host memory "
        "(475.4 GiB/1007 GiB used)",
    )
    time = summary_of(events(text.replace("(EngineCore pid=7) ", "")))["time"]
    assert (time["wall_s"], time["is_excerpt"]) == (20.0, True)


def test_the_balance_behind_the_warm_up_divides_no_memory():
    """In a log that begins with the capture (vLLM `gpu_worker.py compile_or_warm_up_model`)."""
    text = worker(0, 30, "model_runner.py:960", CAPTURED_LINE)
    text += worker(
        0, 31, "gpu_worker.py:789",
        "Free memory on device (78.84/79.25 GiB) on startup. Desired GPU memory utilization is "
        "(0.9, 71.33 GiB). Actual usage is 57.26 GiB for consumed memory (weights + non-torch), "
        "0.23 GiB for peak activation, and 0.11 GiB for CUDAGraph memory. Replace "
        "gpu_memory_utilization config with `--kv-cache-memory=14594762752` (13.59 GiB) to fit "
        "into requested memory, or `--kv-cache-memory=22659491840` (21.1 GiB) to fully utilize "
        "gpu memory. Current kv cache memory in use is 13.84 GiB.",
    )  # fmt: skip
    text += line(52, "core.py:306", INITIALIZED.format(40))
    found, summary = captured(text)
    assert found["graph_capture"] == 3.0
    assert "graph_memory_profile" not in found
    assert summary["graphs"]["duration_s"] == 3.0


def test_how_many_graphs_a_bar_without_its_end_captured_is_unknown():
    """Its other states are not in the log: the capture was over."""
    text = HEAD + MEASURED_GRAPHS.splitlines()[0] + "\n"
    text += "Capturing CUDA graphs (FULL):  57%|#####| 4/7 [00:01<00:01,  2.00it/s]\n"
    _, summary = captured(text)
    assert summary["graphs"]["captured"] == 13
    text += worker(0, 30, "gpu_model_runner.py:960", CAPTURED_LINE)
    text += line(52, "core.py:306", INITIALIZED.format(40))
    _, summary = captured(text)
    assert summary["graphs"]["captured"] is None
    assert summary["graphs"]["duration_s"] == 3.0
    assert captured_percent(folded(events(text)).summary) is None


def test_what_fails_behind_dynamo_fails_in_the_compilation():
    """Also where the line above, that it began, is not in the log."""
    text = line(20, "backends.py:703", "Dynamo bytecode transform time: 3.66 s")
    text += line(27, "core.py:866", "EngineCore failed to start.", "ERROR")
    text += line(
        27, "core.py:866", "torch.OutOfMemoryError: CUDA out of memory.", "ERROR"
    )
    summary = summary_of(events(text))
    assert summary["failure"]["phase"] == "compile"


def test_what_fails_behind_the_compilation_does_not_fail_in_it():
    text = line(20, "backends.py:703", "Dynamo bytecode transform time: 3.66 s")
    text += line(
        25, "backends.py:1", "Compiling a graph for compile range (1, 8) takes 5.00 s"
    )
    text += line(50, "core.py:866", "RuntimeError: no space in the arena", "ERROR")
    failure = summary_of(events(HEAD + text))["failure"]
    assert failure["phase"] != "compile"


@pytest.mark.parametrize("function", ["_compile_fx_inner", "wrapper"])
def test_what_was_compiled_runs_in_functions_of_its_own(function):
    frame = f'  File "/x/torch/_inductor/compile_fx.py", line 974, in {function}'
    text = line(27, "core.py:866", frame, "ERROR")
    text += line(27, "core.py:866", "RuntimeError: no space in the arena", "ERROR")
    phase = summary_of(events(HEAD + text))["failure"]["phase"]
    assert (phase == "compile") is (function != "wrapper")


def test_a_graph_behind_lines_that_are_missing_has_no_time():
    """vllm-fork 1.22 captures all; before, one without memory was passed over."""
    line = (
        "INFO 07-07 19:15:{:02d} [hpu_model_runner.py:1] [Warmup][Graph/{}][{}/9] "
        "batch_size:{} {} free_mem:9 GiB\n"
    )

    def times(word: str, shape: str) -> list[float | None]:
        lines = [line.format(at, word, at, 9 - at, shape) for at in (1, 2, 6, 7)]
        found = events("".join(lines))
        return [event.duration_s for event in found if isinstance(event, WarmupStep)]

    assert times("prompt", "query_len:128 num_blocks:0") == [1.0, None, 1.0, None]
    assert times("Prompt", "seq_len:128") == [1.0, 4.0, 1.0, None]


def test_a_rank_whose_loading_is_not_in_the_log_has_no_profiling_run_from_its_start_on():
    text = HEAD
    for rank in (1, 0):
        text += line(
            20, "parallel_state.py:1",
            f"rank {rank} in world size 2 is assigned as DP rank 0, PP rank 0, TP rank {rank}",
        ).replace("(EngineCore pid=7)", f"(Worker_TP{rank} pid={rank + 8})")  # fmt: skip
    for rank in (1, 0):
        text += line(
            90, "gpu_worker.py:2", "Available KV cache memory: 10.04 GiB"
        ).replace("(EngineCore pid=7)", f"(Worker_TP{rank} pid={rank + 8})")
    found = phases(text)
    assert not {
        name for name in found if name.startswith(("profile_run", "init_worker"))
    }


PROFILING = (
    "Profiling CUDA graph memory: PIECEWISE=42 (largest=384), FULL=26 (largest=192)"
)


def test_the_run_before_graphs_are_estimated_is_the_profiling_run():
    """Without a line of its own, where nothing is compiled; a rank above 0 may print none
    between the first of its connection and that."""
    text = HEAD + worker(
        0,
        2,
        "parallel_state.py:1607",
        "world_size=2 rank=0 local_rank=0 "
        "distributed_init_method=tcp://127.0.0.1:45059 backend=nccl",
    )
    text += worker(
        1,
        2,
        "parallel_state.py:1607",
        "world_size=2 rank=1 local_rank=1 "
        "distributed_init_method=tcp://127.0.0.1:45059 backend=nccl",
    )
    text += worker(
        0,
        3,
        "parallel_state.py:1942",
        "rank 0 in world size 2 is assigned as DP "
        "rank 0, PP rank 0, PCP rank 0, TP rank 0, EP rank 0, EPLB rank N/A",
    )
    text += worker(0, 4, "gpu_model_runner.py:5209", "Starting to load model a/b...")
    text += worker(
        0,
        10,
        "gpu_model_runner.py:5306",
        "Model loading took 75.64 GiB memory and 6.219445 seconds",
    )
    text += worker(1, 40, "gpu_model_runner.py:6534", PROFILING)
    text += worker(0, 40, "gpu_model_runner.py:6534", PROFILING)
    found, _ = captured(text)
    assert found["profile_run"] == 30.0
    assert not any(name.startswith("distributed_init (") for name in found)


def test_a_total_that_ray_prints_late_is_no_compilation_of_that_time():
    """Before vLLM 0.18 it is a sum, printed when the last graph has run."""
    text = HEAD + worker(
        1,
        6,
        "parallel_state.py:957",
        "rank 1 in world size 4 is assigned as DP rank 0, PP rank 0, TP rank 1",
    )
    text += worker(
        3,
        6,
        "parallel_state.py:957",
        "rank 3 in world size 4 is assigned as DP rank 0, PP rank 0, TP rank 3",
    )
    text += worker(1, 7, "gpu_model_runner.py:1", "Starting to load model a/b...")
    text += worker(
        1, 10, "gpu_model_runner.py:1", "Model loading took 5.0 GiB and 3.0 seconds"
    )
    text += worker(3, 59, "monitor.py:33", "torch.compile takes 10.35 s in total")
    text += "(EngineCore pid=7) INFO 07-16 10:01:00 [core.py:1] " + INITIALIZED.format(
        55
    )
    found, summary = captured(text + "\n" + READY)
    assert not any(name.startswith("compile") for name in found)
    assert summary["compile"]["seconds"] == 10.35
    # Nor did another rank set up its device until the server was ready.
    assert found["init_worker (other rank)"] <= 1.0


def test_what_has_no_room_for_the_cache_was_profiled():
    text = HEAD + worker(
        0, 4, "gpu_model_runner.py:5209", "Starting to load model a/b..."
    )
    text += worker(
        0, 10, "gpu_model_runner.py:5306", "Model loading took 7.5 GiB and 6.2 seconds"
    )
    error = "ValueError: No available memory for the cache blocks. Try increasing it."
    text += f"(EngineCore pid=7) ERROR 07-16 10:00:40 [core.py:396] {error}\n"
    found, _ = captured(text)
    assert found["profile_run"] == 30.0


IMPORTED = (
    "INFO 03-09 01:21:09 [__init__.py:239] Automatically detected platform cpu.\n"
)
CONFIGURED = (
    "WARNING 03-09 01:21:{} [config.py:2951] Casting torch.float16 to torch.bfloat16.\n"
    "INFO 03-09 01:21:42 [config.py:713] This model supports multiple tasks: {{'embed', "
    "'generate'}}. Defaulting to 'generate'.\n"
    "INFO 03-09 01:21:42 [llm_engine.py:243] Initializing a V0 LLM engine (v0.8.5) with "
    "config: model='a/b', device_config=cpu\n"
)


def test_the_first_line_of_the_configuration_ends_the_imports():
    found = phases(IMPORTED + CONFIGURED.format(12))
    assert (found["import"], found["configure"]) == (3.0, 30.0)


def test_time_between_two_cells_of_a_notebook_is_none_of_a_start():
    cells = [
        {"outputs": [{"output_type": "stream", "text": [text]}]}
        for text in (IMPORTED, CONFIGURED.format(36))
    ]
    text = notebook_text(json.dumps({"cells": cells}).encode())
    assert text is not None
    assert phases(text) == {"configure": 6.0}


@pytest.mark.parametrize("prompt", [">>> ", "In [2]: "])
def test_the_time_in_which_a_person_types_is_none_of_a_start(prompt):
    typed = f"{prompt}llm = LLM(model='a/b')\n"
    summary = summary_of(events(IMPORTED + typed + CONFIGURED.format(36)))
    assert phases(IMPORTED + typed + CONFIGURED.format(36)) == {"configure": 6.0}
    assert summary["time"]["wall_s"] == 6.0


V0_LOADING = "INFO 08-15 01:29:{} model_runner.py:720] Starting to load model a/b...\n"
V0_ENGINE = (
    "INFO 08-15 01:28:20 llm_engine.py:174] Initializing an LLM engine (v0.5.4) with config: "
    "model='a/b', tensor_parallel_size={}, device_config=cuda\n"
)


@pytest.mark.parametrize(("size", "name"), [(1, "init_worker"), (2, "start_engine")])
def test_the_engine_of_v0_sets_up_its_only_worker_behind_its_first_line(size, name):
    """It has imported all that it needs; workers of several ranks are started first."""
    found = phases(V0_ENGINE.format(size) + V0_LOADING.format(40))
    assert (found[name], sum(found.values())) == (80.0, 80.0)


@pytest.mark.parametrize("states", [False, True])
def test_what_lies_between_looking_for_weights_and_for_their_index_is_their_download(
    states,
):
    text = HEAD + line(10, "m.py:1", "Starting to load model a/b...")
    text += line(11, "w.py:1", "Using model weights format ['*.safetensors']")
    if states:
        took = "Time spent downloading weights for a/b: 30.500000 seconds"
        text += line(45, "w.py:2", took)
    text += line(50, "w.py:3", "No model.safetensors.index.json found in remote.")
    text += line(52, "m.py:2", "Model loading took 5.00 GiB and 41.000000 seconds")
    assert phases(text)["download"] == (30.5 if states else 39.0)


NCCL = "INFO 07-16 10:00:{} [pynccl.py:69] vLLM is using nccl==2.25.1\n"
MADE_BY_RAY = (
    "INFO 07-16 10:00:08 [ray_distributed_executor.py:354] Copying the following "
    "environment variables to workers: ['VLLM_USE_V1']\n"
)
FAILED = "INFO 07-16 10:00:50 [ray.py:1] x\nERROR 07-16 10:00:50 [core.py:1] RuntimeError: a\n"


def test_ranks_are_connected_from_the_line_in_which_they_name_nccl():
    """Versions that print no other line there."""
    text = HEAD + "(EngineCore pid=7) " + NCCL.format("08")
    assigned = "rank 0 in world size 2 is assigned as DP rank 0, PP rank 0, TP rank 0"
    text += line(28, "parallel_state.py:1", assigned)
    text += "(EngineCore pid=7) " + NCCL.format(30)
    text += line(33, "m.py:1", "Starting to load model a/b...")
    found = phases(text)
    assert (found["distributed_init"], found["init_worker"]) == (20.0, 5.0)


def test_ranks_are_connected_where_ray_prints_the_line_of_another_alone():
    text = HEAD.replace("(EngineCore pid=7) ", "") + MADE_BY_RAY
    for worker in (5, 6):
        text += f"(RayWorkerWrapper pid={worker}) " + NCCL.format(20)
    text += "(RayWorkerWrapper pid=6) " + FAILED.split("\n")[1] + "\n"
    found = phases(text)
    assert found["init_worker"] == 12.0
    assert found["distributed_init (other rank)"] == 30.0


def test_host_memory_for_the_cache_is_a_stage_of_its_own_with_the_size_of_its_setting():
    text = HEAD + line(30, "kv_cache_utils.py:1", "GPU KV cache size: 1,216,256 tokens")
    text += line(31, "cpu_gpu.py:379", "Allocating 160 CPU tensors...")
    text += line(77, "custom_all_reduce.py:215", "Registering 0 cuda graph addresses")
    text += line(79, "m.py:1", "Graph capturing finished in 2 secs, took 0.95 GiB")
    assert phases(text)["kv_offload"] == 46.0
    transfer = (
        "KVTransferConfig(kv_connector_extra_config={'cpu_bytes_to_use': 549755813888})"
    )
    arguments = f"INFO 07-16 10:00:00 [utils.py:233] non-default args: {{'kv_transfer_config': {transfer}}}\n"
    stated = BY_NAME["kv_offload_bytes"]
    assert stated.read(folded(read(arguments + text)[0][0]).summary) == 512 * GIB
    sized = "INFO 07-16 10:00:00 [utils.py:233] non-default args: {'kv_offloading_size': 8.0}\n"
    assert stated.read(folded(read(sized + text)[0][0]).summary) == 8 * GIB


def test_a_capture_of_whole_seconds_takes_none_of_an_exact_time_before_it():
    tuner = "(EngineCore pid=7) 2026-07-16 10:00:{} - INFO - autotuner.py:6 - flashinfer.jit: "
    text = HEAD + line(30, "kv_cache_utils.py:1", "GPU KV cache size: 1,216 tokens")
    text += tuner.format("31,584") + "[Autotuner]: Autotuning process starts ...\n"
    text += tuner.format("47,252") + "[Autotuner]: Autotuning process ends\n"
    text += line(51, "m.py:1", "Graph capturing finished in 5 secs, took 0.95 GiB")
    text += line(52, "core.py:1", INITIALIZED.format(30.0))
    found = summary_of(events(text, year=2026))["time"]["phases"]
    took = {part["name"]: part["duration_s"] for part in found}
    assert took["kernel_warmup"] == pytest.approx(47.252 - 31.584, abs=1e-3)
    assert took["graph_capture"] == pytest.approx(52 - 47.252, abs=1e-3)


DATED = (
    "[2026-07-16 {}] waiting for the server\n",
    "2026-07-16 {} waiting for the server\n",
    "2026-07-16T{}Z + vllm serve a/b\n",
)


@pytest.mark.parametrize("own", DATED)
def test_what_a_script_prints_around_an_engine_is_no_time_of_its_start(own):
    before = "".join(own.format(f"09:{minute}:00") for minute in (56, 58, 59))
    behind = "".join(own.format(f"10:0{minute}:00") for minute in (1, 2, 5))
    load = line(20, "m.py:1", "Model loading took 5.00 GiB memory and 10.0 seconds")
    later = line(30, "m.py:1", "Something else")
    start = before + "+ vllm serve a/b\n" + HEAD + load + later
    for text, wall_s in ((start + behind, 30.0), (start + behind + READY, 100.0)):
        time = summary_of(events(text))["time"]
        assert time["started_at"].startswith("2026-07-16T10:00:00")
        assert time["wall_s"] == wall_s


def test_what_a_log_shipper_dates_is_of_the_engine_without_a_head_too():
    lines = [*HEAD.splitlines(), "a kernel is built"]
    text = "".join(
        f"2026-07-16T10:00:{n * 5:02}Z {each}\n" for n, each in enumerate(lines)
    )
    assert summary_of(events(text))["time"]["wall_s"] == 10.0


WITH_RUN = """\
INFO 03-09 12:54:47 [gpu_model_runner.py:4344] Model loading took 13.04 GiB memory and 5.44 seconds
INFO 03-09 12:54:57 [backends.py:973] Dynamo bytecode transform time: 5.72 s
INFO 03-09 12:55:17 [backends.py:386] Compiling a graph for compile range (1, 4096) takes 20.06 s
INFO 03-09 13:05:21 [monitor.py:35] torch.compile and initial profiling run took 629.93 s in total
INFO 03-09 13:05:28 [gpu_worker.py:424] Available KV cache memory: 2.43 GiB
"""


def test_the_run_behind_a_compilation_is_none_of_it_where_one_total_states_both():
    summary = summary_of(events(WITH_RUN, year=2026))
    phases = {part["name"]: part["duration_s"] for part in summary["time"]["phases"]}
    assert phases["compile"] == pytest.approx(25.93, abs=0.1)
    assert phases["profile_run"] == pytest.approx(611.0, abs=0.1)
