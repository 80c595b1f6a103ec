"""Start-ups in a file: several are several, one that is repeated is one."""

from __future__ import annotations

import re

import pytest

from tests.helpers import (
    ROOT,
    events,
    folded,
    of,
    public,
    read,
    summarize_file,
    summary_of,
)
from warmup_insights.model.events import (
    BucketMiss,
    KVCacheAllocated,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    ShutdownRequested,
    WarmupStep,
)
from warmup_insights.units import GIB

SAMPLES = ROOT / "sample_logs"
INIT = (
    "INFO 03-02 {}:00:05 [core.py:116] Initializing a V1 LLM engine (v0.26.0) with config: "
    "model='m', max_seq_len=1024, device_config=cuda\n"
)


def test_two_start_ups_in_one_file_are_two_runs():
    runs, _ = read((SAMPLES / "vllm" / "made_two_starts_new_year.log").read_bytes())
    assert len(runs) == 2
    assert all(len(of(RunStarted, found)) == 1 for found in runs.values())


def test_engine_of_another_rank_is_not_another_run():
    text = "".join(
        f"(EngineCore_DP{n} pid={n + 9}) " + INIT.format("09") for n in range(2)
    )
    runs, _ = read(text)
    assert len(runs) == 1


def test_restarted_process_is_another_run():
    line = "(EngineCore_0 pid={}) INFO 08-19 06:59:47 [x.py:1] Graph capturing finished in 4 secs, took 0.54 GiB\n"
    runs, _ = read(line.format(306836) + line.format(309588))
    assert len(runs) == 2


def test_log_of_another_day_is_another_run():
    text = (SAMPLES / "vllm-fork" / "warmup_doc_steps.log").read_text()
    text += (SAMPLES / "vllm-fork" / "warmup_doc_capture.log").read_text()
    runs, _ = read(text)
    assert len(runs) == 2
    assert summary_of(runs[1])["buckets"]["prompt"]["capture_percent"] == 62.5


def test_warm_up_that_the_engine_goes_through_twice_is_one():
    summary = summarize_file(SAMPLES / "vllm-gaudi" / "made_skip_warmup.log")
    assert summary["status"] == "skipped"
    assert summary["buckets"]["prompt"]["generated"] == 6
    assert len(summary["buckets"]["prompt"]["buckets"]) == 6


def test_repeated_steps_count_once():
    line = "INFO 07-07 19:15:3{} [x.py:1] [Warmup][Graph/prompt][{}/2] batch_size:{} query_len:128 num_blocks:0 free_mem:9 GiB\n"
    once = [line.format(i, i + 1, 2 - i) for i in range(2)]
    end = "INFO 07-07 19:15:39 [x.py:1] Warmup finished in 4 secs, allocated 0 B of device memory\n"
    summary = summary_of(events("".join([*once, *once, end])))
    assert summary["buckets"]["prompt"]["warmed"] == 2


def test_draft_model_is_part_of_the_run():
    line = "INFO 03-02 09:00:1{} [x.py:1] Model loading took {} GiB and 1.0 seconds\n"
    summary = summary_of(
        events(INIT.format("09") + line.format(0, "2.0") + line.format(2, "0.5"))
    )
    assert summary["memory"]["weights_bytes"] == int(2.5 * 1024**3)


def test_progress_bar_is_the_clock_of_the_buckets():
    """By default vllm-gaudi prints no line per bucket, only a bar with a clock."""
    text = (SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log").read_bytes()
    steps = of(WarmupStep, events(text))
    prompt = [s for s in steps if s.phase == "prompt"]
    assert [s.bucket for s in prompt] == [
        (2, 512, 0), (2, 256, 0), (2, 128, 0), (1, 512, 0), (1, 256, 0), (1, 128, 0),
    ]  # fmt: skip
    assert [s.duration_s for s in prompt] == pytest.approx([9, 6, 4, 7, 5, 3], abs=0.05)
    assert all(s.time is None for s in prompt)


def test_bars_and_lines_together_are_one_step_per_bucket():
    path = SAMPLES / "vllm-gaudi" / "made_v0_26_developer_mode.log"
    steps = of(WarmupStep, events(path.read_bytes()))
    prompt = [s for s in steps if s.phase == "prompt"]
    assert [s.index for s in prompt] == [1, 2, 3, 4, 5, 6]
    assert [s.duration_s for s in prompt] == pytest.approx([9, 6, 4, 7, 5, 3], abs=0.05)
    assert prompt[0].memory_bytes == 256 * 1024**2


def test_second_warning_about_one_step_is_the_same_miss():
    """The fallback bucket is reported as not warmed right after it was made."""
    found = events((SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log").read_bytes())
    assert len(of(BucketMiss, found)) == 3
    misses = summary_of(found)["misses"]
    assert [miss["shape"] for miss in misses] == [[1, 700, 0], [2, 1, 64]]
    assert misses[0]["fallback"] == [1, 1024, 0]


def test_failure_names_the_bucket_that_was_running():
    summary = summarize_file(SAMPLES / "vllm-gaudi" / "made_v0_10_out_of_memory.log")
    failure = summary["failure"]
    assert summary["status"] == "failed"
    assert failure["kind"] == "out_of_memory"
    assert (failure["phase"], failure["bucket"]) == ("prompt", [1, 256, 0])
    assert failure["free_bytes"] == round(1.02 * 1024**3)


def test_captured_is_null_where_the_log_only_counts_its_list():
    summary = summarize_file(SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log")
    prompt = summary["buckets"]["prompt"]
    assert prompt["captured"] is None
    assert prompt["capture_percent"] is None
    assert prompt["captured_reported"] == 6


def test_device_of_vllm_gaudi_is_hpu_whatever_it_prints():
    summary = summarize_file(SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log")
    assert summary["config"]["device_config"] == "cpu"
    assert summary["device"] == {
        "kind": "hpu", "name": "gaudi3", "total_bytes": round(126.5 * 1024**3),
    }  # fmt: skip


def test_ranks_are_counted_and_never_summed():
    summary = summarize_file(SAMPLES / "vllm-gaudi" / "made_tp2_defrag.log")
    assert summary["ranks"] == 2
    assert summary["buckets"]["prompt"]["generated"] == 6
    assert len(summary["defrag"]["runs"]) == 2


def test_secrets_in_settings_are_masked():
    summary = summarize_file(SAMPLES / "vllm-gaudi" / "made_v0_26_bars.log")
    assert summary["config"]["api_key"] == "***"


LOADED = (
    "(EngineCore_DP0 pid={}) INFO 07-16 10:00:{:02d} [gpu_model_runner.py:1] Model "
    "loading took {} GiB and 1.5 seconds"
)


@pytest.mark.parametrize(
    "prefix",
    [
        "vllm-{}  | ",
        "[pod/vllm-{}/server] ",
        "Jul 16 10:00:00 host vllm[{}]: ",
        "ms-pd-prefill-6458459f69-9j89{} vllm (APIServer pid=1) ",
    ],
)
def test_interleaved_servers_are_told_apart_by_the_collector(prefix):
    text = "\n".join(
        prefix.format(server) + LOADED.format(7, second, size)
        for server, second, size in (
            (1, 1, 2.5),
            (2, 1, 20.0),
            (1, 2, 0.5),
            (2, 3, 1.0),
        )
    )
    runs, _ = read(text)
    weights = [
        sum(event.delta_bytes for event in of(MemoryMeasured, found))
        for found in runs.values()
    ]
    assert weights == [3 * GIB, 21 * GIB]


def test_levels_in_front_of_a_bar_are_no_containers():
    text = f"INFO     | {LOADED.format(7, 1, 2.5)}\nWARNING  | {LOADED.format(7, 2, 2.5)}\n"
    runs, _ = read(text)
    assert len(runs) == 1


ENGINE = (
    "({} pid={}) INFO 07-16 10:00:{:02d} [core.py:1] Initializing a V1 LLM engine (v{}) "
    "with config: model='a/b'\n"
)


def test_engines_of_two_versions_are_two_starts():
    text = ENGINE.format("EngineCore_DP0", 198, 1, "0.10.2")
    text += ENGINE.format("EngineCore_0", 194, 2, "0.10.1.1")
    assert len(read(text)[0]) == 2


def test_engines_of_one_data_parallel_server_are_one_start():
    text = ENGINE.format("EngineCore_DP0", 198, 1, "0.10.2")
    text += ENGINE.format("EngineCore_DP1", 199, 1, "0.10.2")
    assert len(read(text)[0]) == 1


def test_an_engine_that_begins_before_the_last_line_is_another():
    text = LOADED.format(198, 59, 2.5) + "\n"
    text = ENGINE.format("EngineCore_DP0", 198, 1, "0.10.2") + text
    text += ENGINE.format("EngineCore_DP1", 199, 2, "0.10.2")
    assert len(read(text)[0]) == 2


def test_what_starts_after_a_failure_is_another_start():
    text = ENGINE.format("EngineCore_DP0", 198, 1, "0.10.2")
    text += (
        "(EngineCore_DP0 pid=198) ERROR 07-16 10:00:05 [core.py:718] EngineCore failed to "
        "start.\n"
        "INFO 07-16 10:00:06 [__init__.py:216] Automatically detected platform cuda.\n"
    )
    text += ENGINE.format("EngineCore_DP0", 220, 9, "0.10.2")
    assert len(read(text)[0]) == 2


FAILED_START = (
    "(APIServer pid=1) INFO 07-16 10:00:01 [api_utils.py:345] vLLM API server version "
    "0.26.0\n"
    + ENGINE.format("EngineCore", 198, 1, "0.26.0")
    + "(EngineCore pid=198) ERROR 07-16 10:00:05 [core.py:718] EngineCore failed to start.\n"
)


def test_what_imports_long_after_a_failure_is_of_the_next_start():
    platform = (
        "INFO 07-16 10:0{} [__init__.py:216] Automatically detected platform cuda.\n"
    )
    settings = "INFO 07-16 10:02:44 [utils.py:233] non-default args: {'model': 'a/b'}\n"
    runs, _ = read(FAILED_START + platform.format("2:40") + settings)
    first, second = (folded(found).summary for found in runs.values())
    assert first.time.wall_s == 4.0
    assert second.time.started_at == first.time.started_at.replace("00:01", "02:40")


def test_a_program_that_printed_later_times_before_is_no_other_start():
    """A report shows `vllm --version` first, and the log of the server below it."""
    platform = (
        "INFO 07-16 10:{} [__init__.py:239] Automatically detected platform cuda.\n"
    )
    settings = (
        "(APIServer pid=9) INFO 07-16 10:00:30 [utils.py:233] non-default args: {}\n"
    )
    core = ENGINE.format("EngineCore", 198, 40, "0.26.0")
    text = platform.format("01:28") + platform.format("00:26") + settings + core
    assert len(read(text)[0]) == 1


def test_an_error_of_another_program_is_no_start():
    assert read("RuntimeError: something else\n")[0] == {}


def test_lines_that_are_there_twice_are_of_one_start():
    text = (
        "INFO 06-04 05:33:46 [utils.py:278] non-default args: {{'model': 'a/b'}}\n"
        "(EngineCore pid=163) INFO 06-04 05:34:22 [core.py:112] Initializing a V1 LLM "
        "engine (v0.22.0) with config: model='a/b', device_config=cuda\n{again}"
        "(EngineCore pid=163) INFO 06-04 05:35:33 [gpu_worker.py:466] Available KV cache "
        "memory: 3.92 GiB\n"
    )
    core = text.splitlines(keepends=True)[1]
    assert len(read(text.format(again=core))[0]) == 1
    later = core.replace("05:34:22", "05:34:52")
    assert len(read(text.format(again=later))[0]) == 2


def test_first_lines_that_are_pasted_twice_are_of_one_start():
    """Without names of processes, as before vLLM 0.9."""
    head = (
        "INFO 11-05 03:21:18 api_server.py:526] vLLM API server version 0.6.1\n"
        "INFO 11-05 03:21:18 api_server.py:527] args: Namespace(port={}, model='a/b')\n"
        "INFO 11-05 03:21:18 config.py:899] Defaulting to use mp for distributed inference\n"
    )
    engine = (
        "INFO 11-05 03:21:22 llm_engine.py:226] Initializing an LLM engine (v0.6.1) with "
        "config: model='a/b'\n"
    )
    prompt = "user@host:~$ sudo docker logs c123\n"
    text = head.format(8000) + prompt + head.format(8000) + engine
    assert len(read(text)[0]) == 1
    assert len(read(text.replace("=8000", "=8001", 1))[0]) == 2


def test_bars_without_the_prefix_of_a_container_are_of_its_start():
    text = (
        "vllm-1  | (EngineCore pid=278) INFO 09-25 13:38:28 [core.py:77] Initializing a V1 "
        "LLM engine (v0.11.0) with config: model='a/b', device_config=cuda, "
        "compilation_config={'cudagraph_mode': <CUDAGraphMode.FULL_DECODE_ONLY: (2, 0)>}\n"
        "Loading safetensors checkpoint shards: 100% Completed | 4/4 [00:29<00:00,  2.4s/it]\n"
        "vllm-1  | (EngineCore pid=278) INFO 09-25 13:39:06 [default_loader.py:267] Loading "
        "weights took 29.38 seconds\n"
        "Capturing CUDA graphs (decode, FULL): 100%|####| 67/67 [00:13<00:00,  5.05it/s]\n"
        "vllm-1  | (EngineCore pid=278) INFO 09-25 13:40:49 [gpu_model_runner.py:3388] Graph "
        "capturing finished in 22 secs, took 1.02 GiB\n"
    )
    (found,) = read(text)[0].values()
    assert summary_of(found)["graphs"]["captured"] == 67


def test_an_end_of_days_before_is_of_another_start():
    text = (
        "(EngineCore pid=75) INFO 05-27 11:41:02 [kv_cache_utils.py:1708] GPU KV cache size: "
        "514,560 tokens\n"
        "(EngineCore pid=75) INFO 05-27 11:41:20 [core.py:299] init engine (profile, create kv "
        "cache, warmup model) took 28.17 s (compilation: 9.07 s)\n"
        "ERROR {} [core_client.py:704] Engine core proc EngineCore died unexpectedly, shutting "
        "down client.\n"
    )
    (stale,), (died,) = (
        read(text.format(when))[0].values()
        for when in ("05-12 11:36:01", "05-27 08:36:01")
    )
    assert summary_of(stale)["status"] == "finished"
    assert summary_of(stale)["serving"] is None
    assert summary_of(died)["serving"]["end"]["kind"] == "error"


FOREIGN = "a line of a trainer\n"


def test_a_trainer_that_imported_long_before_starts_its_engine_later():
    head = "INFO 11-14 23:{}:02 [{}] {}\n"
    text = head.format(53, "__init__.py:22", "Automatically detected platform cuda.")
    text += FOREIGN * 200 + " ...\n" + FOREIGN * 200
    text += head.format(55, "utils.py:253", "non-default args: {'model': 'a/b'}")
    text += head.format(
        56,
        "core.py:93",
        "Initializing a V1 LLM engine (v0.11.1) with config: model='a/b'",
    )
    summary = folded(events(text)).summary
    assert summary.time.seconds_by_phase() == {"configure": 60.0}
    assert not [note for note in summary.notes if note.topic == "elided"]


CONFIGURING = """\
(APIServer pid=9) INFO 07-16 10:00:00 [utils.py:278] non-default args: {'model': 'a/b'}
(APIServer pid=9) INFO 07-16 10:00:20 [model.py:1752] Using max model len 256
(APIServer pid=9) INFO 07-16 10:00:21 [vllm.py:977] Asynchronous scheduling is enabled.
"""
UNNAMED = CONFIGURING.replace("(APIServer pid=9) ", "")
EARLY_CONFIGURING = (
    "INFO 07-16 10:00:00 [api_server.py:1044] args: Namespace(model='a/b', port=8000)\n"
    "INFO 07-16 10:00:20 [config.py:717] This model supports multiple tasks: {'generate', "
    "'embed'}. Defaulting to 'generate'.\n"
    "INFO 07-16 10:00:21 [config.py:2003] Chunked prefill is enabled with "
    "max_num_batched_tokens=2048.\n"
)
INHERITED = "WARNING 07-16 10:00:40 [env_override.py:17] NCCL_CUMEM_ENABLE is set to 0, skipping override.\n"
CORE = "INFO 07-16 10:00:45 [core.py:112] Initializing a V1 LLM engine (v0.22.0) with config: model='a/b'\n"


@pytest.mark.parametrize(
    ("lines", "seconds"),
    [
        (f"{CONFIGURING}(EngineCore pid=22) {CORE}", {"configure": 21.0, "start_engine": 24.0}),
        # At DEBUG one waits for the other, which waits for a word of the first.
        (
            f"{CONFIGURING}(APIServer pid=9) DEBUG 07-16 10:00:31 [utils.py:1401] Waiting for 1 "
            "local, 0 remote core engine proc(s) to connect.\n(EngineCore pid=22) DEBUG 07-16 "
            "10:00:44 [core.py:1371] Waiting for init message from front-end.\n(APIServer pid=9) "
            "DEBUG 07-16 10:00:44 [utils.py:1525] HELLO from local core engine process 0.\n"
            f"(EngineCore pid=22) {CORE}",
            {"configure": 21.0, "start_engine": 24.0},
        ),
        # The coordinator of several is waited for, and then they start.
        (
            f"{CONFIGURING}(APIServer pid=9) INFO 07-16 10:00:35 [utils.py:1245] Started DP "
            "Coordinator process (PID: 17)\n(APIServer pid=9) INFO 07-16 10:00:36 [utils.py:261] "
            f"Started 2 API server processes\n(EngineCore_DP0 pid=22) {CORE}",
            {"configure": 21.0, "start_engine": 24.0},
        ),
        # In the same process nothing shows where the one ended and the other began.
        (f"{CONFIGURING}(APIServer pid=9) {CORE}", {"configure": 45.0}),
        # The spawned process has no name while it imports vLLM.
        (
            f"{CONFIGURING}INFO 07-16 10:00:40 [importing.py:68] Triton not installed or not "
            f"compatible; certain GPU-related functions will not be available.\n"
            f"(EngineCore pid=22) {CORE}",
            {"configure": 21.0, "start_engine": 19.0, "import": 5.0},
        ),
        (f"{CONFIGURING.splitlines()[0]}\n(EngineCore pid=22) {CORE}", {"configure": 45.0}),
        # Nor have others a name before vLLM 0.10.
        (
            f"{CONFIGURING.replace('(APIServer pid=9) ', '')}INFO 07-16 10:00:42 "
            f"[__init__.py:239] Automatically detected platform cuda.\n{CORE}",
            {"configure": 21.0, "start_engine": 21.0, "import": 3.0},
        ),
        # Before 0.9.2 the length of the model is not printed, and what a process inherits is.
        (
            f"{EARLY_CONFIGURING}{INHERITED}INFO 07-16 10:00:42 "
            f"[__init__.py:239] Automatically detected platform cuda.\n{CORE}",
            {"configure": 21.0, "start_engine": 21.0, "import": 3.0},
        ),
        # Where their names were taken off, the engine of a server has a process, too.
        (
            f"INFO 07-16 10:00:00 [api_server.py:1] vLLM API server version 0.22.0\n{UNNAMED}{CORE}",
            {"configure": 21.0, "start_engine": 24.0},
        ),
        (f"{UNNAMED}{CORE}", {"configure": 45.0}),
        # A server that stops its engine had started it, though no line of that is there.
        (
            f"{CONFIGURING}(APIServer pid=9) INFO 07-16 10:00:50 [utils.py:612] [shutdown] Process "
            "manager: send sigterm to process EngineCore\n(APIServer pid=9) RuntimeError: Engine "
            "core initialization failed. See root cause above. Failed core proc(s): {}\n",
            {"configure": 21.0},
        ),
    ],
)  # fmt: skip
def test_the_process_of_an_engine_starts_when_its_settings_are_complete(lines, seconds):
    assert folded(events(lines)).summary.time.seconds_by_phase() == seconds


def test_what_imports_soon_after_a_failure_does_not_prolong_it():
    plugins = (
        "INFO 07-16 10:00:12 [__init__.py:43] Available plugins for group "
        "vllm.platform_plugins:\n"
        "INFO 07-16 10:00:12 [__init__.py:212] Platform plugin neuron is activated\n"
    )
    settings = (
        "(APIServer pid=9) INFO 07-16 10:00:15 [utils.py:233] non-default args: {}\n"
    )
    runs, _ = read(FAILED_START + plugins + settings)
    first, second = (folded(found).summary for found in runs.values())
    assert first.time.wall_s == 4.0
    assert second.time.started_at == first.time.started_at.replace("00:01", "00:12")


def test_a_program_that_imports_below_one_that_is_ready_begins_with_its_import():
    line = "INFO 07-16 10:0{} [x.py:1] {}\n"
    started = "Initializing a V1 LLM engine (v0.26.0) with config: model='a/b'"
    took = "init engine (profile, create kv cache, warmup model) took 2.00 seconds"
    imported = "Automatically detected platform cuda."
    first = line.format("0:01", started) + line.format("0:09", took)
    client = line.format("3:00", imported)
    second = line.format("8:50", imported) + line.format("9:01", started)
    runs, _ = read(first + client + second)
    begun = [folded(found).summary.time.started_at for found in runs.values()]
    assert [text[14:19] for text in begun] == ["00:01", "08:50"]


def test_another_web_server_that_goes_down_does_not_stop_the_engine():
    text = (
        "INFO 09-04 12:08:24 [api_server.py:1287] vLLM API server version 0.9.1\n"
        "INFO:     Started server process [4720]\n"
        "INFO:     Application startup complete.\n"
        "INFO 09-04 12:08:29 [core.py:70] Initializing a V1 LLM engine (v0.9.1) with "
        "config: model='a/b'\n"
        "INFO 09-04 12:12:15 [launcher.py:29] Available routes are:\n"
        "INFO:     Started server process [4712]\n"
        "INFO:     Application startup complete.\n"
    )
    down = "INFO:     Shutting down\n"
    own = "INFO 09-04 12:20:15 [launcher.py:79] Shutting down FastAPI HTTP server.\n"
    assert of(ShutdownRequested, events(text + down)) == []
    assert len(of(ShutdownRequested, events(text + down + own))) == 1
    later = text.replace("INFO:     Application startup complete.\n", "", 1)
    assert len(of(ShutdownRequested, events(later + down))) == 1
    other = later + "INFO:     Application startup complete.\n"
    assert of(ShutdownRequested, events(other + down)) == []


def test_the_end_of_a_start_that_failed_is_not_all_of_it():
    """`docker logs --tail` begins with the last error of a container before the next."""
    error = "(EngineCore pid=198) ERROR 07-16 10:00:05 [core.py:1006] RuntimeError: no device\n"
    imported = (
        "INFO 07-16 10:00:15 [__init__.py:43] Available plugins for group "
        "vllm.platform_plugins:\n"
    )
    settings = (
        "(APIServer pid=9) INFO 07-16 10:00:20 [utils.py:233] non-default args: {}\n"
    )
    runs, _ = read(error + imported + settings)
    first, second = (folded(found).summary for found in runs.values())
    assert (first.status, first.time.wall_s) == ("failed", None)
    assert second.time.started_at.startswith("2026-07-16T10:00:15")


def test_the_import_of_a_later_start_is_a_phase_of_it():
    start = (
        "INFO 03-02 {0}:00:00 [__init__.py:207] Automatically detected platform cuda.\n"
        "INFO 03-02 {0}:00:13 [llm_engine.py:234] Initializing a V0 LLM engine (v0.7.3) "
        "with config: model='m', max_seq_len=1024, device_config=cuda\n"
        "INFO 03-02 {0}:00:20 [llm_engine.py:436] init engine (profile, create kv cache, "
        "warmup model) took 5.00 seconds\n"
        "INFO 03-02 {0}:00:21 [api_server.py:1] Application startup complete.\n"
    )
    runs, _ = read(start.format("09") + start.format("10"))
    found = [
        next(
            p["duration_s"]
            for p in summary_of(run)["time"]["phases"]
            if p["name"] == "import"
        )
        for run in runs.values()
    ]
    assert found == [13.0, 13.0]


def test_dots_of_another_program_begin_no_start():
    text = "collecting results\n...\nPermissionError: [Errno 13] Permission denied: 'gcc'\n"
    assert read(text)[0] == {}


EXCERPT = (
    "  (Worker_TP0 pid={0}) INFO 03-02 {1}:00:06 [gpu_model_runner.py:5187] Model loading took "
    "8.5 GiB memory and 6.5 seconds\n"
    "  (EngineCore pid={2}) INFO 03-02 {1}:04:00 [kv_cache_utils.py:1744] GPU KV cache size: "
    "100,000 tokens\n"
    "  (Worker_TP0 pid={0}) INFO 03-02 {1}:04:12 [gpu_model_runner.py:6585] Graph capturing "
    "finished in 11 secs, took 1.5 GiB\n"
)


@pytest.mark.parametrize("pids", [(109, 75), (77, 43)], ids=["same", "others"])
def test_lines_of_several_starts_without_their_beginning_are_several(pids):
    text = EXCERPT.format(109, "01", 75) + EXCERPT.format(pids[0], "02", pids[1])
    runs, _ = read(text)
    weights = [
        [e.delta_bytes for e in of(MemoryMeasured, run)] for run in runs.values()
    ]
    assert weights == [[round(8.5 * GIB)]] * 2
    assert all(summary_of(run)["memory"]["kv_cache_tokens"] for run in runs.values())


@pytest.mark.parametrize(
    ("measured", "opening"),
    [
        ("Loading model weights took 7.5100 GB", "vLLM API server version 0.19.1"),
        (
            "GPU KV cache size: 1,024 tokens",
            "Initializing a V1 LLM engine (v0.19.1) with config: model='a/b'",
        ),
    ],
)
def test_what_opens_a_start_below_what_another_measured_opens_the_next(
    measured, opening
):
    """The first one has no head."""
    line = "INFO 07-16 10:0{}:00 [model_runner.py:1115] {}\n"
    text = line.format(0, measured) + line.format(1, opening)
    first, second = (folded(found).summary for found in read(text)[0].values())
    assert first.memory is not None
    assert (second.memory, second.engine.version) == (None, "0.19.1")


def test_a_client_that_imports_vllm_long_after_another_is_none_of_its_start():
    line = (
        "INFO 03-02 {}:00 [__init__.py:44] Available plugins for group vllm.platform_plugins:\n"
        "INFO 03-02 {}:02 [__init__.py:237] Platform plugin xy is activated\n"
    )
    runs, _ = read(line.format("01:10", "01:10") + line.format("01:40", "01:40"))
    walls = [summary_of(run)["time"]["wall_s"] for run in runs.values()]
    assert walls == [2.0, 2.0]


@pytest.mark.parametrize(
    ("cache", "later"),
    [("", "11-20 09:05:00"), (
        "INFO 06-19 07:39:40 [gpu_executor.py:100] # GPU blocks: 2597, # CPU blocks: 512\n",
        "06-19 07:44:00",
    )],
)  # fmt: skip
def test_an_offline_start_is_over_when_another_imports_vllm(cache: str, later: str):
    """Nothing is printed at its end: the file grows with the next start of a script."""
    engine = (
        "INFO {} [llm_engine.py:161] Initializing an LLM engine (v0.8.5) with config: "
        "model='a/b', device_config=cuda\n"
        "INFO {} [model_runner.py:1146] Model loading took 8.5 GiB and 6.2 seconds\n"
    )
    text = engine.format("06-19 07:39:21", "06-19 07:39:33") + cache
    text += f"INFO {later} [__init__.py:216] Automatically detected platform cuda.\n"
    text += engine.splitlines(keepends=True)[0].format(later)
    first, second = (folded(found).summary for found in read(text)[0].values())
    assert first.time.wall_s <= 20.0
    assert second.time.started_at.endswith(f"{later[6:]}Z")


def test_a_program_that_imports_vllm_after_weights_were_loaded_is_another():
    line = (
        "INFO 03-02 01:{}:05 [importing.py:68] Triton not installed or not compatible; certain "
        "GPU-related functions will not be available.\n"
        "INFO 03-02 01:{}:30 [default_loader.py:293] Loading weights took 8.5 seconds\n"
    )
    runs, _ = read(line.format("10", "10") + line.format("11", "11"))
    assert len(runs) == 2


def test_a_child_of_a_named_process_that_imports_vllm_is_no_other_program():
    text = (
        "(Worker pid=31) INFO 12-11 22:28:00 [default_loader.py:267] Loading weights took 2.5 "
        "seconds\n"
        "INFO 12-11 22:28:04 [__init__.py:216] Automatically detected platform cuda.\n"
        "(Worker pid=31) INFO 12-11 22:28:07 [gpu_worker.py:298] Available KV cache memory: "
        "-19.5 GiB\n"
    )
    assert len(read(text)[0]) == 1


@pytest.mark.parametrize("platform", [True, False])
def test_a_program_that_failed_in_its_start_is_over_when_another_imports_vllm(platform):
    """Scripts in a loop: nothing but an error that no one catches ends the first."""
    imported = "INFO 04-30 19:{} [importing.py:68] Triton not installed or not compatible; certain GPU-related functions will not be available.\n"
    if platform:
        imported = (
            "INFO 04-30 19:{} [__init__.py:216] Automatically detected platform cuda.\n"
        )
    began = (
        "INFO 04-30 19:{0} [utils.py:233] non-default args: {{'model': 'org/{1}'}}\n"
        "INFO 04-30 19:{0} [model.py:1692] Using max model len 8192\n"
    )
    error = (
        "Traceback (most recent call last):\n"
        '  File "/env/bin/bench", line 6, in <module>\n'
        '  File "/src/vllm/v1/engine/llm_engine.py", line 170, in from_engine_args\n'
        "    return cls(\n"
        "ValueError: the budget is too small\n"
    )
    first = imported.format("31:45") + began.format("31:50", "a") + error
    second = imported.format("32:14") + began.format("32:20", "b")
    runs, _ = read(first + second)
    summaries = [summary_of(found) for _, found in sorted(runs.items())]
    assert [s["status"] for s in summaries] == ["failed", "unknown"]
    assert summaries[0]["failure"]["message"] == "ValueError: the budget is too small"
    assert summaries[0]["time"]["wall_s"] == 5
    assert of(PhaseMarked, runs[1])[0].name == "import"


def test_each_start_of_a_server_that_is_restarted_keeps_its_cause():
    """A container is started again and again: all print what ends them, and no engine."""
    start = (
        "INFO 04-30 19:3{0}:45 [__init__.py:216] Automatically detected platform cuda.\n"
        "(APIServer pid=1) INFO 04-30 19:3{0}:50 [api_server.py:1839] vLLM API server "
        "version 0.11.0\n"
        "(APIServer pid=1) INFO 04-30 19:3{0}:51 [utils.py:233] non-default args: {{}}\n"
        "(APIServer pid=1) Traceback (most recent call last):\n"
        '(APIServer pid=1)   File "/x/vllm/entrypoints/openai/api_server.py", line 1, in '
        "setup_server\n"
        "(APIServer pid=1) OSError: [Errno 98] Address already in use\n"
    )
    runs, _ = read("".join(start.format(n) for n in range(3)))
    summaries = [summary_of(found) for _, found in sorted(runs.items())]
    assert [s["status"] for s in summaries] == ["failed"] * 3
    assert [s["time"]["wall_s"] for s in summaries] == [6, 6, 6]


@pytest.mark.parametrize("named", [True, False])
def test_a_start_that_was_killed_does_not_last_until_the_next_one(named):
    """The kernel ends a process without a line; the container is started again."""
    server, core = ("(APIServer pid=1) ", "(EngineCore pid=77) ") if named else ("", "")
    imported = (
        "INFO 04-30 19:{0}{1} [__init__.py:216] Automatically detected platform cuda.\n"
    )
    start = (
        f"{imported.format('{0}', '0:45')}"
        f"{server}INFO 04-30 19:{{0}}0:50 [utils.py:233] non-default args: {{{{'model': 'a/b'}}}}\n"
        f"{server}INFO 04-30 19:{{0}}0:55 [model.py:1692] Using max model len 8192\n"
        f"{imported.format('{0}', '1:00')}"
        f"{core}INFO 04-30 19:{{0}}1:05 [core.py:77] Initializing a V1 LLM engine (v0.11.0) "
        "with config: model='a/b', device_config=cuda\n"
        f"{core}INFO 04-30 19:{{0}}1:08 [gpu_model_runner.py:1] Starting to load model a/b...\n"
    )
    noise = (
        "WARNING 04-30 19:{0}0:46 [interface.py:222] Failed to import from vllm._C: x\n"
    )
    first = start.format(0)
    second = start.format(1).replace("\n", "\n" + noise.format(1), 1)
    runs, _ = read(first + second)
    walls = [summary_of(found)["time"]["wall_s"] for _, found in sorted(runs.items())]
    assert walls == [23, 23]


def test_a_worker_that_starts_while_the_engine_is_stopped_begins_no_other_start():
    text = (
        "(APIServer pid=1) INFO 11-23 21:59:07 [utils.py:233] non-default args: {}\n"
        "(EngineCore_DP0 pid=2) INFO 11-23 21:59:52 [core.py:133] Initializing a V1 LLM "
        "engine (v0.32.0) with config: model='a/b', device_config=cpu\n"
        "(EngineCore_DP0 pid=2) INFO 11-23 22:00:31 [core.py:1454] [shutdown] EngineCore: "
        "trigger received signal=SIGTERM\n"
        "(VllmWorker-0 pid=3) WARNING 11-23 22:00:33 [vllm.py:725] Model Runner V2 requires "
        "Triton; using the V1 model runner instead.\n"
        "(Worker pid=3) INFO 11-23 22:00:33 [cpu_model_runner.py:68] Starting to load model "
        "a/b...\n"
        "(EngineCore_DP1 pid=4) WARNING 11-23 22:01:05 [vllm.py:725] Model Runner V2 requires "
        "Triton; using the V1 model runner instead.\n"
    )
    runs, _ = read(text)
    assert len(runs) == 1


def test_the_program_that_starts_several_servers_has_configured_before_they_print():
    text = (
        "(MainProcess pid=1) INFO 11-23 21:59:07 [utils.py:233] non-default args: {}\n"
        "(MainProcess pid=1) INFO 11-23 21:59:08 [model.py:2152] Using max model len 256\n"
        "(MainProcess pid=1) INFO 11-23 21:59:19 [utils.py:261] Started 2 API server "
        "processes\n"
        "(ApiServer_1 pid=3) INFO 11-23 21:59:50 [model.py:733] Resolved architecture: A\n"
        "(ApiServer_1 pid=3) INFO 11-23 21:59:50 [model.py:2152] Using max model len 256\n"
        "(EngineCore_DP0 pid=2) INFO 11-23 21:59:52 [core.py:133] Initializing a V1 LLM "
        "engine (v0.32.0) with config: model='a/b', device_config=cpu\n"
    )
    phases = summary_of(events(text))["time"]["phases"]
    assert [(p["name"], p["duration_s"]) for p in phases[:2]] == [
        ("configure", 12.0),
        ("start_engine", 33.0),
    ]


def test_the_last_lines_of_a_stopped_engine_begin_no_later_start():
    start = (
        "INFO 04-30 1{0}:10:00 [importing.py:68] Triton not installed or not compatible; "
        "certain GPU-related functions will not be available.\n"
        "(EngineCore pid={0}) INFO 04-30 1{0}:10:09 [core.py:105] Initializing a V1 LLM "
        "engine (v0.18.0) with config: model='a/b', device_config=cuda\n"
        "(EngineCore pid={0}) INFO 04-30 1{0}:10:30 [core.py:282] init engine (profile, "
        "create kv cache, warmup model) took 12.61 seconds\n"
        "(EngineCore pid={0}) INFO 04-30 1{0}:59:{1} [core.py:1238] Shutdown initiated "
        "(timeout=0)\n"
        "(EngineCore pid={0}) INFO 04-30 1{0}:59:{1} [dp_scheduler.py:264] Rank 0: "
        "Shutting down now\n"
    )
    second = start.format(7, 40).replace("17:10:00", "17:01:57")
    runs, _ = read(start.format(6, 29) + second)
    begun = [summary_of(found)["time"] for _, found in sorted(runs.items())]
    assert [time["started_at"][11:19] for time in begun] == ["16:10:00", "17:01:57"]


WEIGHTS = (
    "INFO 03-{} [gpu_model_runner.py:1892] Model loading took {} GiB and 4.2 seconds\n"
)
CACHE = "INFO 03-{} [kv_cache_utils.py:1097] GPU KV cache size: {} tokens\n"
FENCE = "```\n"


def quoted(*blocks: str) -> str:
    """A page of Markdown with these blocks of code."""
    parts = (f"And then:\n\n```text\n{block}{FENCE}\n" for block in blocks)
    return "# Starts\n\n" + "".join(parts)


def test_how_busy_an_engine_was_begins_no_run_behind_a_block_of_code():
    """Pages about speed quote such lines, one in a block."""
    line = (
        "INFO 03-02 {:02d}:00:00 [loggers.py:123] Engine 000: Avg prompt throughput: 12.0 "
        "tokens/s, Avg generation throughput: 3.0 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
        "GPU KV cache usage: 1.0%, Prefix cache hit rate: 0.0%\n"
    )
    busy = [line.format(hour) for hour in range(9)]
    runs, _ = read(quoted(CACHE.format("02 08:59:59", "50,000"), *busy))
    assert len(runs) == 1
    runs, _ = read(quoted(*busy, CACHE.format("02 10:00:00", "50,000")))
    assert len(runs) == 2


@pytest.mark.parametrize(
    "second",
    [CACHE.format("05 12:00:20", "50,000"), CACHE.format("02 10:40:20", "50,000"),
     CACHE.format("02 09:59:00", "50,000"), "INFO 03-02 10:00:01 [x.py:1] text\n"
     + CACHE.format("02 11:00:00", "50,000")],
)  # fmt: skip
def test_logs_quoted_in_one_page_are_runs_of_their_own(second: str):
    first = WEIGHTS.format("02 10:00:06", "1.12") + CACHE.format(
        "02 10:00:20", "100,000"
    )
    runs, _ = read(quoted(first, second))
    found = [of(KVCacheAllocated, run)[0].num_tokens for run in runs.values()]
    assert found == [100_000, 50_000]


def test_log_quoted_in_pieces_is_one_run_that_is_not_whole():
    runs, _ = read(
        quoted(
            WEIGHTS.format("02 10:00:06", "1.12"),
            CACHE.format("02 10:00:20", "100,000"),
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        )
    )
    (found,) = runs.values()
    assert summary_of(found)["status"] == "failed"
    assert [note.topic for note in folded(found).summary.notes].count("elided") == 1


def test_the_servers_of_a_trainer_are_starts_of_their_own():
    """verl has an actor of Ray for each, with an engine that has the same name as the others;
    its other actors import vLLM, and start no engine."""
    at = "INFO 04-21 06:{} [{}] "
    prefix = "(vLLMHttpServer pid={}) "
    imported = "Automatically detected platform cuda."
    lines = [
        at.format("56:40", "__init__.py:216") + imported,
        "(WorkerDict pid=5) " + at.format("57:00", "__init__.py:216") + imported,
        *(
            prefix.format(n) + f"(EngineCore_DP0 pid={n + 100}) " + at.format("58:12", "core.py:93")
            + "Initializing a V1 LLM engine (v0.12.0) with config: model='a/b'"
            for n in (10, 11)
        ),
        *(
            prefix.format(n) + f"(Worker pid={n + 200}) " + at.format("58:34", "monitor.py:34")
            + f"torch.compile takes {n}.5 s in total"
            for n in (10, 11)
        ),
        "(WorkerDict pid=5) " + at.format("59:59", "cumem.py:239") + "CuMemAllocator: sleep freed "
        "1.00 GiB memory in total, of which 0.00 GiB is backed up in CPU",
    ]  # fmt: skip
    runs, _ = read("\n".join(lines) + "\n")
    found = [summary_of(events)["compile"] for events in runs.values()]
    assert [each and each["seconds"] for each in found] == [10.5, 11.5]


def test_of_a_server_whose_first_line_is_that_it_is_ready_the_start_is_not_known():
    """verl's first server states the configuration of its engine when that was made."""
    (found,) = read(
        "(vLLMHttpServer pid=10) INFO:2026-03-26 21:59:06,589:Initializing a V1 LLM engine "
        "with config: model='a/b', device_config=cuda\n"
    )[0].values()
    times = summary_of(found)["time"]
    assert times["ready_at"] is not None
    assert (times.get("ready_s"), times["is_excerpt"]) == (None, True)


IMPORTED = (
    "INFO 04-21 06:00:00 [__init__.py:239] Automatically detected platform cuda.\n"
)
LISTING = "Collecting environment information...\n"
NOT_IMPORTED = (
    "WARNING 04-21 06:00:00 _custom_ops.py:17] Failed to import from vllm._C with "
    "ImportError('libcuda.so.1: cannot open shared object file')\n"
)


@pytest.mark.parametrize("imported", [IMPORTED, NOT_IMPORTED, IMPORTED + NOT_IMPORTED])
@pytest.mark.parametrize("layout", ["{0}{1}", "{1}x\n{0}"])
def test_a_program_that_lists_what_the_machine_has_starts_no_engine(layout, imported):
    listing = layout.format(imported, LISTING)
    assert read(listing)[0] == {}
    start = CACHE.format("02 10:00:10", "50,000")
    for text in (listing + start, start + listing):
        runs, _ = read(text)
        (found,) = runs.values()
        assert summary_of(found)["memory"]["kv_cache_tokens"] == 50_000


@pytest.mark.parametrize("minute", [1, 40])
def test_what_only_imports_vllm_for_long_starts_no_engine(minute):
    line = "INFO 04-21 06:{:02d}:00 [{}] {}\n"
    text = line.format(0, "__init__.py:216", "Automatically detected platform cuda.")
    for second in range(1, minute + 1):
        text += line.format(
            second,
            "__init__.py:45",
            "Available plugins for group vllm.general_plugins:",
        )
    runs, _ = read(text)
    wall_s = summary_of(runs[0])["time"]["wall_s"]
    assert wall_s == (60.0 if minute == 1 else None)
    # Nor is it an import where its processes wait for each other.
    waits = (
        "No available shared memory broadcast block found in 60 seconds. This happens"
    )
    runs, _ = read(text + line.format(minute + 1, "shm_broadcast.py:466", waits))
    assert summary_of(runs[0])["time"]["wall_s"] is None


@pytest.mark.parametrize("has_frames", [False, True])
def test_an_error_that_a_page_only_names_ended_no_start_that_captured_its_graphs(
    has_frames,
):
    """Another block, or the prose below: it is of the start where a traceback leads to it."""
    frame = (
        '  File "/x/site-packages/vllm/v1/engine/core.py", line 5, in run_engine_core\n'
    )
    runs, _ = read(
        quoted(
            WEIGHTS.format("02 10:00:06", "1.12"),
            CACHE.format("02 10:00:20", "100,000")
            + "INFO 03-02 10:00:40 [gpu_model_runner.py:2567] Graph capturing finished in 18 secs, "
            "took 0.50 GiB\n",
            "vllm serve a/b\n"
            + ("Traceback (most recent call last):\n" + frame if has_frames else "")
            + "ValueError: Bfloat16 is only supported on GPUs with compute capability 8.0\n",
        )
    )
    (found,) = runs.values()
    assert (summary_of(found)["status"] == "failed") is has_frames


def test_the_stages_of_a_server_of_several_engines_are_starts_of_their_own():
    """vllm-omni marks what vLLM's logger prints in a stage, and no other line of its process."""
    at = "INFO 01-04 14:26:{} [{}] "
    lines = [
        "(APIServer pid=15) " + at.format("01", "utils.py:233") + "non-default args: {}",
        *(
            f"(EngineCore_DP0 pid={17 + n}) [Stage-{n}] " + at.format(25 + n, "core.py:96")
            + f"Initializing a V1 LLM engine (v0.14.0) with config: model='a/{n}'"
            for n in range(2)
        ),
        "(EngineCore_DP0 pid=17) [Stage-0] " + at.format("43", "gpu_model_runner.py:3549")
        + "Model loading took 8.5 GiB memory and 12.7 seconds",
        "(EngineCore_DP0 pid=18) [Stage-1] " + at.format("44", "gpu_model_runner.py:3549")
        + "Model loading took 2.0 GiB memory and 13.7 seconds",
        "(EngineCore_DP0 pid=17) 2026-01-04 14:26:45,037 - INFO - autotuner.py:256 - "
        "flashinfer.jit: [Autotuner]: Autotuning process starts ...",
        "(APIServer pid=15) INFO:     Application startup complete.",
    ]  # fmt: skip
    runs, _ = read("\n".join(lines) + "\n")
    weights = [
        [m.delta_bytes for m in of(MemoryMeasured, found)] for found in runs.values()
    ]
    assert weights == [[], [round(8.5 * GIB)], [2 * GIB]]
    marks = [[m.name for m in of(PhaseMarked, found)] for found in runs.values()]
    assert ["kernel_warmup" in names for names in marks] == [False, True, False]
    assert [summary_of(found)["model"] for found in runs.values()] == [
        None,
        "a/0",
        "a/1",
    ]


def test_fence_in_a_prompt_cuts_no_log():
    runs, _ = read(
        WEIGHTS.format("02 10:00:06", "1.12")
        + "INFO 03-02 10:00:06 [x.py:1] ```python\n"
        + CACHE.format("02 13:00:20", "100,000")
    )
    assert len(runs) == 1


def test_a_server_that_answers_requests_was_ready_where_no_line_states_when():
    """Lines that were selected, or uvicorn's level above INFO: serving is no start."""
    text = (
        "(APIServer pid=1) INFO 06-03 05:43:48 [utils.py:278] non-default args: {'model': 'a/b'}\n"
        "(EngineCore pid=7) INFO 06-03 05:43:58 [core.py:112] Initializing a V1 LLM engine "
        "(v0.22.0) with config: model='a/b', device_config=cuda\n"
        "(EngineCore pid=7) INFO 06-03 05:45:02 [kv_cache_utils.py:1700] GPU KV cache size: "
        "90,000 tokens\n"
        "(APIServer pid=1) INFO 06-03 07:10:08 [loggers.py:259] Engine 000: Avg prompt "
        "throughput: 12.0 tokens/s, Avg generation throughput: 3.0 tokens/s, Running: 1 reqs, "
        "Waiting: 0 reqs, GPU KV cache usage: 0.3%, Prefix cache hit rate: 0.0%\n"
        "(EngineCore pid=7) ERROR 06-03 07:10:09 [dump_input.py:72] Dumping input data\n"
        "(EngineCore pid=7) ERROR 06-03 07:10:09 [core.py:900] EngineCore encountered a fatal "
        "error.\n"
        "(EngineCore pid=7) ERROR 06-03 07:10:09 [core.py:900] RuntimeError: boom\n"
    )
    summary = folded(events(text)).summary
    assert (summary.status, summary.failure) == ("finished", None)
    assert summary.time.wall_s is None
    assert summary.serving.end.kind == "error"


def test_a_bar_without_a_process_is_of_none_of_two_starts_that_go_on_together():
    """Two servers of one shell, whose output is one file."""
    line = "({0} pid={1}) INFO 07-16 10:00:{2} [{3}] {4}\n"
    engine = "Initializing a V1 LLM engine (v0.19.1) with config: model='a/{}', device_config=cuda"
    first = line.format("APIServer", 10, "00", "utils.py:233", "non-default args: {}")
    first += line.format("EngineCore", 11, "10", "core.py:105", engine.format(1))
    second = line.format("APIServer", 20, "12", "utils.py:233", "non-default args: {}")
    second += line.format("EngineCore", 21, "14", "core.py:105", engine.format(2))
    bar = "Capturing CUDA graphs (mixed, PIECEWISE): 100%|####| 35/35 [00:03<00:00,  9.9it/s]\n"
    loaded = "Model loading took 7.12 GiB memory and 3.406471 seconds"
    beside = line.format("EngineCore", 11, "20", "gpu_model_runner.py:4820", loaded)

    def captured(text):
        runs = read(text)[0].values()
        graphs = [folded(found).summary.graphs for found in runs]
        return [own.captured if own else None for own in graphs]

    assert captured(first + second + beside + bar) == [None, None]
    assert captured(first + second + bar) == [None, 35]
    ready = line.format(
        "APIServer", 10, "25", "launcher.py:38", "Route: /docs, Methods: GET"
    )
    ready += "(APIServer pid=10) INFO:     Application startup complete.\n"
    assert captured(first + second + beside + ready + bar) == [None, 35]


def test_a_worker_is_of_the_one_of_two_starts_that_has_workers():
    line = "({0} pid={1}) INFO 07-16 10:00:{2} [{3}] {4}\n"
    engine = (
        "Initializing a V1 LLM engine (v0.19.1) with config: model='a/{}', "
        "tensor_parallel_size={}, device_config=cuda"
    )
    text = line.format("APIServer", 10, "00", "utils.py:233", "non-default args: {}")
    text += line.format("EngineCore", 11, "10", "core.py:105", engine.format(1, 2))
    text += line.format("APIServer", 20, "12", "utils.py:233", "non-default args: {}")
    text += line.format("EngineCore", 21, "14", "core.py:105", engine.format(2, 1))
    text += line.format("EngineCore", 11, "16", "core.py:200", "anything")
    for number in (0, 1):
        text += line.format(
            f"Worker_TP{number}", 30 + number, "20", "gpu_model_runner.py:4820",
            "Model loading took 7.12 GiB memory and 3.406471 seconds",
        )  # fmt: skip
    first, second = (folded(found).summary for found in read(text)[0].values())
    assert first.memory.weights_bytes == round(7.12 * GIB)
    assert first.ranks == 2
    assert second.memory is None or second.memory.weights_bytes is None


def switched(*lines: str) -> str:
    """A server of vllm-gaudi whose engine gets another model while it serves."""
    core = "(EngineCore pid=72) INFO 08-21 10:{:02d}:{:02d} [{}] {}\n"
    own = ("hpu_model_runner.py:4814", "Loading model weights took {}.0000 GB")
    text = core.format(0, 1, "core.py:116", "Initializing a V1 LLM engine (v0.27.0) with "
                       "config: model='a/first', device_config=hpu")  # fmt: skip
    text += core.format(0, 9, own[0], own[1].format(15))
    text += core.format(0, 10, "common.py:253", "Generated 2 prompt buckets [bs, query, "
                        "num_blocks]: [(1, 128, 0), (1, 256, 0)]")  # fmt: skip
    text += "(APIServer pid=7) INFO:     Application startup complete.\n"
    text += core.format(5, 0, "core_patch.py:255", "[gaudi_reconfigure] start: "
                        "target_model=a/second")  # fmt: skip
    text += core.format(5, 20, own[0], own[1].format(33))
    text += core.format(5, 21, "common.py:253", "Generated 1 prompt buckets [bs, query, "
                        "num_blocks]: [(1, 512, 0)]")  # fmt: skip
    return text + "".join(
        core.format(5, 40, "core_patch.py:372", line) for line in lines
    )


def test_the_banner_of_another_server_is_no_line_of_the_one_that_configures():
    line = "({} pid={}) INFO 07-16 10:00:{:02d} [{}] {}\n"
    args = "non-default args: {{'model': 'a/{}'}}"
    engine = "Initializing a V1 LLM engine (v0.25.1) with config: model='a/{}', device_config=cuda"
    text = (
        line.format("APIServer", 1, 0, "utils.py:299", args.format("one"))
        + line.format("APIServer", 1, 2, "model.py:1", "Using max model len 4,096")
        + line.format("APIServer", 11, 7, "utils.py:299", "   a part of a drawing")
        + line.format("APIServer", 11, 8, "utils.py:299", args.format("two"))
        + line.format("APIServer", 11, 9, "model.py:1", "Using max model len 4,096")
        + line.format("EngineCore", 2, 14, "core.py:114", engine.format("one"))
        + line.format("EngineCore", 12, 20, "core.py:114", engine.format("two"))
    )
    found = [folded(events).summary.time for events in read(text)[0].values()]
    assert [each.seconds_by_phase() for each in found] == [
        {"configure": 2.0, "start_engine": 12.0},
        {"configure": 1.0, "start_engine": 11.0},
    ]


def test_a_new_worker_is_of_no_server_that_is_ready():
    """That was killed, and no line shows it."""
    line = "({} pid={}) INFO 07-16 10:0{}:{:02d} [{}] {}\n"
    config = (
        "Initializing a V1 LLM engine (v0.25.1) with config: model='{}', "
        "tensor_parallel_size={}, device_config=cuda"
    )
    cache = "Available KV cache memory: {} GiB"
    text = (
        line.format("EngineCore", 2, 0, 5, "core.py:114", config.format("a/one", 2))
        + line.format("Worker_TP0", 3, 0, 20, "gpu_worker.py:1", cache.format("7.5"))
        + line.format(
            "APIServer", 1, 0, 30, "api_server.py:1", "Starting vLLM server on x"
        )
        + "(APIServer pid=1) INFO:     Application startup complete.\n"
        + line.format("EngineCore", 12, 3, 5, "core.py:114", config.format("a/two", 1))
        + line.format("Worker", 13, 3, 20, "gpu_worker.py:1", cache.format("2.5"))
    )
    runs, _ = read(text)
    found = [folded(events).summary for events in runs.values()]
    assert [run.memory.kv_cache_bytes / 2**30 for run in found] == [7.5, 2.5]


def test_pieces_of_a_line_behind_the_pod_of_stern_are_of_its_start():
    """A piece is drawn over the one before, which begins with the pod."""
    line = "{} vllm ({} pid={}) INFO 07-16 10:00:{:02d} [{}] {}"
    config = "Initializing a V1 LLM engine (v0.25.1) with config: model='{}', device_config=cuda"
    first, second = "one-7bd459f69-9j89m", "two-6458459f69-qxv6j"
    took = (
        "(EngineCore pid=8) INFO 07-16 10:00:30 [gpu_model_runner.py:1] Graph capturing "
        "finished in 5 secs, took 0.25 GiB"
    )
    lines = (
        line.format(first, "EngineCore", 8, 5, "core.py:114", config.format("a/one")),
        line.format(second, "EngineCore", 8, 6, "core.py:114", config.format("a/two")),
        f"{first} vllm (EngineCore pid=8) \rCapturing CUDA graphs:  50%|#| 1/2 [00:01<00:01,  "
        f"1.00it/s]\rCapturing CUDA graphs: 100%|#| 2/2 [00:02<00:00,  1.00it/s]{took}",
    )
    runs, _ = read("\n".join(lines) + "\n")
    found = [folded(events).summary for events in runs.values()]
    assert [run.model for run in found] == ["a/one", "a/two"]
    assert [run.graphs and run.graphs.captured for run in found] == [2, None]


@pytest.mark.parametrize(
    ("line", "status", "init_s"),
    [
        ("[gaudi_reconfigure] completed in 40.25s", "finished", 40.25),
        ("[gaudi_reconfigure] failed: RuntimeError: no room", "failed", None),
    ],
    ids=["done", "failed"],
)
def test_another_model_of_a_gaudi_engine_is_a_run_of_its_own(line, status, init_s):
    """`core_patch.py`: it loads, divides the memory, makes buckets and warms up anew."""
    first, second = (
        folded(found).summary for found in read(switched(line))[0].values()
    )
    assert (first.model, first.status) == ("a/first", "finished")
    assert first.buckets["prompt"].generated == 2
    assert first.memory.weights_bytes == 15 * 2**30
    assert (second.model, second.status) == ("a/second", status)
    assert second.buckets["prompt"].generated == 1
    assert second.memory.weights_bytes == 33 * 2**30
    assert (second.time.wall_s, second.time.engine_init_s) == (40.0, init_s)


@pytest.mark.parametrize(
    "steps",
    [
        "[shutdown] EngineCore: start mode=abort timeout=0s",
        "[shutdown] Executor: waiting for worker exit count=1",
        "Shutdown initiated (timeout=0)",
    ],
)
def test_the_end_of_a_first_engine_behind_that_of_a_later_one_begins_no_start(steps):
    """A program may use its first engine when it has made and dropped another one."""
    start = (
        "(MainProcess pid=1) INFO 11-25 20:0{0}:10 [utils.py:233] non-default args: "
        "{{'model': 'a/b'}}\n"
        "(EngineCore pid={0}1) INFO 11-25 20:0{0}:20 [core.py:133] Initializing a V1 LLM "
        "engine (v0.32.0) with config: model='a/b', device_config=cpu\n"
        "(EngineCore pid={0}1) INFO 11-25 20:0{0}:30 [core.py:402] init engine (profile, "
        "create kv cache, warmup model) took 0.73 s\n"
    )
    end = f"(EngineCore pid={{}}1) INFO 11-25 20:09:0{{}} [core.py:1635] {steps}\n"
    runs, _ = read(
        start.format(2) + start.format(3) + end.format(3, 1) + end.format(2, 5)
    )
    assert len(runs) == 2


ACTORS = """\
INFO 03-04 09:00:00 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid=7) INFO 03-04 09:00:04 [api_server.py:1839] vLLM API server version 0.11.0
(APIServer pid=7) INFO 03-04 09:00:04 [utils.py:233] non-default args: {{'model': 'a/b', \
'data_parallel_size': 2, 'data_parallel_backend': 'ray'}}
{ahead}INFO 03-04 09:01:10 [core.py:77] {engine}
{ahead}INFO 03-04 09:01:11 [parallel_state.py:1208] rank 1 in world size 2 is assigned as DP \
rank 1, PP rank 0, TP rank 0, EP rank 1
{ahead}INFO 03-04 09:01:12 [gpu_model_runner.py:2602] Starting to load model a/b...
{own}INFO 03-04 09:00:12 [core.py:77] {engine}
{own}INFO 03-04 09:00:13 [parallel_state.py:1208] rank 0 in world size 2 is assigned as DP \
rank 0, PP rank 0, TP rank 0, EP rank 0
{own}INFO 03-04 09:00:14 [gpu_model_runner.py:2602] Starting to load model a/b...
{ahead}INFO 03-04 09:01:17 [weight_utils.py:413] Time spent downloading weights for a/b: \
4.5 seconds
{own}INFO 03-04 09:00:21 [weight_utils.py:413] Time spent downloading weights for a/b: 6.5 \
seconds
{own}INFO 03-04 09:00:23 [gpu_model_runner.py:2653] Model loading took 1.5 GiB and 8.5 seconds
{ahead}INFO 03-04 09:01:21 [gpu_model_runner.py:2653] Model loading took 1.5 GiB and 8.0 seconds
{ahead}INFO 03-04 09:01:40 [core.py:210] init engine (profile, create kv cache, warmup model) \
took 19.5 seconds
(APIServer pid=7) INFO 03-04 09:00:44 [api_server.py:1912] Starting vLLM API server 0 on \
http://localhost:8000
"""


def test_engine_cores_of_ray_on_hosts_with_other_clocks_are_one_start():
    text = ACTORS.format(
        ahead="(APIServer pid=7) (DPEngineCoreActor pid=9, ip=10.1.1.2) ",
        own="(APIServer pid=7) (DPEngineCoreActor pid=8) ",
        engine="Initializing a V1 LLM engine (v0.11.0) with config: model='a/b', "
        "tensor_parallel_size=1, data_parallel_size=2, device_config=cuda",
    )
    summary = summary_of(events(text))
    assert summary["ranks"] == 2
    assert summary["time"]["wall_s"] == 44.0
    phases = {part["name"]: part["duration_s"] for part in summary["time"]["phases"]}
    assert phases["download"] == 6.5


BOTH_STREAMS = """\
(EngineCore_DP0 pid=207) ERROR 06-24 15:21:12 [core.py:1006] ValueError: no such module
Starting the server
INFO 06-24 15:21:25 [__init__.py:216] Automatically detected platform cuda.
(APIServer pid=41) INFO 06-24 15:21:31 [api_server.py:1839] vLLM API server version 0.16.0
(APIServer pid=41) INFO 06-24 15:21:31 [utils.py:223] non-default args: {'model': 'a/b'}
(EngineCore_DP0 pid=214) INFO 06-24 15:21:53 [core.py:97] Initializing a V1 LLM engine (v0.16.0) \
with config: model='a/b', tensor_parallel_size=1, device_config=cuda
(EngineCore_DP0 pid=214) INFO 06-24 15:21:59 [gpu_model_runner.py:7] Starting to load model a/b...
=== STDERR ===
(EngineCore_DP0 pid=207) Traceback (most recent call last):
(EngineCore_DP0 pid=207)   File "/vllm/v1/engine/core.py", line 7, in run
(EngineCore_DP0 pid=207) ValueError: no such module
(APIServer pid=41) Traceback (most recent call last):
(APIServer pid=41)   File "/vllm/v1/engine/utils.py", line 7, in wait_for_engine_startup
(APIServer pid=41) RuntimeError: Engine core initialization failed. See root cause above. \
Failed core proc(s): {}
Traceback (most recent call last):
  File "/usr/bin/entrypoint.py", line 7, in <module>
subprocess.CalledProcessError: Command '['bash', '/run.sh']' returned non-zero exit status 1.
(EngineCore_DP0 pid=214) /moe.py:100: DeprecationWarning: use another one.
"""


def test_errors_below_a_restart_are_of_the_start_whose_engine_raised_them():
    runs, _ = read(BOTH_STREAMS)
    first, second = (folded(run).summary for run in runs.values())
    assert first.failure.message == "ValueError: no such module"
    assert (second.status, second.failure) == ("unknown", None)


@pytest.mark.parametrize("head", ["", "(APIServer pid=41) "])
def test_an_error_below_lines_of_the_current_start_is_its_own(head: str):
    """Far above them is a late line of the start before."""
    before, late, _ = BOTH_STREAMS.partition(
        "(EngineCore_DP0 pid=207) ValueError: no such module\n"
    )
    loaded = (
        "(EngineCore_DP0 pid=214) INFO 06-24 15:22:59 [gpu_model_runner.py:7] Model loading "
        "took 8.5 GiB and 4.5 seconds\n"
    )
    error = f"{head}Traceback (most recent call last):\n{head}RuntimeError: another reason\n"
    runs, _ = read(before + late + loaded + error)
    failures = [folded(run).summary.failure for run in runs.values()]
    assert [failure and failure.message for failure in failures] == [
        "ValueError: no such module", "RuntimeError: another reason",
    ]  # fmt: skip


@pytest.mark.parametrize("is_failed", [False, True])
def test_workers_of_a_restarted_container_are_of_the_next_start(is_failed: bool):
    """All processes of the next start have the numbers of those before."""
    one = (
        "INFO 05-12 {0}:00:01 llm_engine.py:240] Initializing an LLM engine (v0.6.6.post1) "
        "with config: model='m', max_seq_len=2048, tensor_parallel_size=2, device_config=hpu\n"
        "(VllmWorkerProcess pid=301) INFO 05-12 {0}:00:02 multiproc_worker_utils.py:222] "
        "Worker ready; awaiting tasks\n"
        "(VllmWorkerProcess pid=301) INFO 05-12 {0}:00:09 hpu_worker.py:177] Free device "
        "memory: 70 GiB, {1} GiB usable (gpu_memory_utilization=0.9), 6 GiB reserved for "
        "HPUGraphs (VLLM_GRAPH_RESERVED_MEM=0.1), {2} GiB reserved for KV cache\n"
    )
    failed = (
        "ERROR 05-12 09:01:00 engine.py:387] Graph compile failed. synStatus=synStatus 26\n"
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.\n"
    )
    text = one.format("09", 63, 57) + failed * is_failed + one.format("10", 60, 54)
    runs, _ = read(text)
    assert len(runs) == 2
    divided = [
        found["memory"]["kv_cache_bytes"] for found in map(summary_of, runs.values())
    ]
    assert divided == [57 * GIB, 54 * GIB]


def test_a_worker_of_an_earlier_start_that_failed_has_no_later_process():
    """A server and its workers get the numbers of those of the start that failed."""
    start = (
        "(APIServer pid=100) INFO 05-12 {0}:00:00 [api_server.py:1200] vLLM API server "
        "version 0.26.0\n"
        "(EngineCore pid=200) INFO 05-12 {0}:00:05 [core.py:116] Initializing a V1 LLM "
        "engine (v0.26.0) with config: model='m', max_seq_len=1024, tensor_parallel_size=2\n"
        "(Worker_TP0 pid=300) INFO 05-12 {0}:00:09 [hpu_worker.py:402] Model profiling run "
        "took {1} GiB of device memory (30 GiB/94.62 GiB used) and 1 GiB of host memory "
        "(90 GiB/1007 GiB used)\n"
    )
    failed = (
        "(EngineCore pid=200) ERROR 05-12 09:00:10 [core.py:935] EngineCore failed to "
        "start.\n(EngineCore pid=200) ERROR 05-12 09:00:10 [core.py:935] RuntimeError: x\n"
    )
    runs, _ = read(start.format("09", 1) + failed + start.format("10", 2))
    profiles = [
        found["memory"]["profile_bytes"] for found in map(summary_of, runs.values())
    ]
    assert profiles == [GIB, 2 * GIB]


def test_engines_of_two_servers_with_one_model_are_told_apart_by_their_settings():
    """Both write to one terminal; the second has two engines."""
    line = "({} pid={}) INFO 07-16 10:00:{:02d} [{}] {}\n"
    engine = (
        "Initializing a V1 LLM engine (v0.26.0) with config: model='a/b', max_seq_len={}, "
        "tensor_parallel_size={}, device_config=hpu"
    )
    weights = "Loading model weights took {}.5000 GB"
    world = (
        "world_size={} rank={} local_rank={} distributed_init_method=tcp://127.0.0.1:{}"
    )
    first = {"model": "a/b", "max_model_len": 4096, "tensor_parallel_size": 2}
    second = {"model": "a/b", "max_model_len": 8192, "data_parallel_size": 2}
    text = (
        line.format("APIServer", 10, 0, "utils.py:1", f"non-default args: {first}")
        + line.format("APIServer", 20, 2, "utils.py:1", f"non-default args: {second}")
        + line.format("EngineCore", 11, 5, "core.py:116", engine.format(4096, 2))
        + line.format("EngineCore_DP1", 22, 6, "core.py:116", engine.format(8192, 1))
        + line.format(
            "EngineCore_DP1", 22, 7, "parallel_state.py:1", world.format(1, 0, 0, 3)
        )
        + line.format("EngineCore_DP0", 21, 8, "core.py:116", engine.format(8192, 1))
        + line.format("Worker", 31, 9, "parallel_state.py:1", world.format(2, 1, 1, 4))
        + line.format("Worker", 30, 9, "parallel_state.py:1", world.format(2, 0, 0, 4))
        + line.format("Worker_TP0", 30, 20, "hpu_model_runner.py:1", weights.format(7))
        + line.format(
            "EngineCore_DP1", 22, 21, "hpu_model_runner.py:1", weights.format(3)
        )
        + line.format(
            "EngineCore_DP0", 21, 22, "hpu_model_runner.py:1", weights.format(3)
        )
    )
    runs = [folded(found).summary for found in read(text)[0].values()]
    found = [(run.ranks, run.memory.weights_bytes) for run in runs]
    assert found == [(2, round(7.5 * GIB)), (2, round(3.5 * GIB))]


def test_a_length_that_the_engine_finds_is_that_of_its_server():
    """The server before, of the same model, has printed nothing of its engine."""
    line = "({} pid={}) INFO 07-16 10:0{}:0{} [{}] {}\n"
    length = "non-default args: {'model': 'a/b', 'max_model_len': -1}"
    engine = (
        "Initializing a V1 LLM engine (v0.26.0) with config: model='a/b', "
        "max_seq_len=40960, device_config=cuda"
    )
    runs, _ = read(
        line.format(
            "APIServer", 10, 0, 0, "a.py:1", "non-default args: {'model': 'a/b'}"
        )
        + line.format("APIServer", 20, 3, 0, "a.py:1", length)
        + line.format("EngineCore", 21, 3, 5, "core.py:1", engine)
    )
    assert [folded(run).summary.time.wall_s for run in runs.values()] == [0, 5]


def test_a_bar_is_of_none_of_two_starts_that_draw_into_one_line():
    line = "({} pid={}) INFO 07-16 10:00:{:02d} [{}] {}\n"
    engine = "Initializing a V1 LLM engine (v0.26.0) with config: model='a/{}', device_config=hpu"
    listed = "Generated {} prompt buckets [bs, query, num_blocks]: {}"
    buckets = [(1, 128 * n, 0) for n in range(1, 5)]
    bar = "Prompt warmup processing:  50%|#####     | {}/{} [00:0{}<00:02,  1.00s/item, {}/{}]"
    text = (
        line.format("EngineCore", 11, 0, "core.py:116", engine.format(1))
        + line.format("EngineCore", 11, 2, "common.py:1", listed.format(2, buckets[:2]))
        + line.format("EngineCore", 21, 3, "core.py:116", engine.format(2))
        + line.format("EngineCore", 21, 4, "common.py:1", listed.format(4, buckets))
        + line.format("EngineCore", 11, 5, "common.py:1", "Bucketing is ON.")
        + "(EngineCore pid=11) "
        + "".join("\r" + bar.format(n, 4, n, n, 4) for n in range(1, 5))
        + "\n"
    )
    for found in read(text)[0].values():
        phase = folded(found).summary.phase("prompt")
        assert phase.warmed is None or phase.warmed <= phase.generated


def test_an_engine_that_loads_while_another_has_its_cache_is_of_the_same_start():
    line = (
        "(EngineCore_DP{0} pid=20{0}) INFO 05-12 07:3{1}:0{0} [hpu_worker.py:1] {2}\n"
    )
    begun, weights = "Bucketing is ON.", "Loading model weights took 3{}.9391 GB"
    cache = "Usable num_blocks: 4100, actual allocated num_blocks: 524928"
    text = (
        line.format(0, 2, begun) + line.format(1, 2, begun)
        + line.format(0, 3, weights.format(1)) + line.format(0, 4, cache)
        + line.format(1, 5, weights.format(2)) + line.format(1, 6, cache)
    )  # fmt: skip
    runs, _ = read(text)
    assert len(runs) == 1


def at(hour: int, text: str) -> str:
    return re.sub(r"(?<= )10:(?=\d\d:\d\d )", f"{hour:02}:", text)


BANNER = (
    "(APIServer pid=1) INFO 07-16 10:00:01 [utils.py:299] \n"
    "(APIServer pid=1) INFO 07-16 10:00:01 [utils.py:299]        █     █\n"
    "(APIServer pid=1) INFO 07-16 10:00:01 [utils.py:345] vLLM API server version 0.26.0\n"
)
LOADING = (
    "(EngineCore pid=7) INFO 07-16 10:00:10 [core.py:116] Initializing a V1 LLM engine "
    "(v0.26.0) with config: model='a/b', tensor_parallel_size=2\n"
    "(Worker pid=8) INFO 07-16 10:00:15 [parallel_state.py:1615] world_size=2 rank=0 "
    "local_rank=0 distributed_init_method=tcp://127.0.0.1:1 backend=nccl\n"
    "(Worker_TP0 pid=8) INFO 07-16 10:00:20 [gpu_model_runner.py:5335] Model loading took "
    "8.5 GiB memory and 4.5 seconds\n"
)
FAILED = "(EngineCore pid=7) ERROR 07-16 10:00:25 [core.py:866] ValueError: a reason\n"
WITHOUT_SERVER = (
    "INFO 07-16 10:00:01 [__init__.py:239] Automatically detected platform cuda.\n"
    "INFO 07-16 10:00:05 [config.py:600] This model supports multiple tasks: {'generate', "
    "'score'}. Defaulting to 'generate'.\n"
    "INFO 07-16 10:00:06 [llm_engine.py:243] Initializing a V0 LLM engine (v0.8.4) with "
    "config: model='a/b', device_config=cuda, seed=0\n"
    "INFO 07-16 10:00:20 [model_runner.py:1146] Model loading took 8.5 GiB and 4.5 seconds\n"
)
WITHOUT_NUMBERS = re.sub(r"\((?:APIServer|EngineCore) pid=\d\) ", "", BANNER + LOADING)


@pytest.mark.parametrize(
    "start",
    [BANNER, BANNER + LOADING, BANNER + LOADING + FAILED, WITHOUT_SERVER],
    ids=["configuring", "loading", "failed", "program"],
)
def test_a_start_in_a_container_states_the_same_before_and_behind_another(start):
    """Its processes have the numbers of those of the one before it."""
    (alone,) = read(start)[0].values()
    wanted = public(folded(alone).summary)
    runs, _ = read(start + at(11, start))
    found = [public(folded(events).summary) for events in runs.values()]
    assert len(found) == 2
    for summary in found:
        for part in ("status", "failure", "engine", "device", "ranks", "config"):
            same = {**wanted, "failure": None}, {**summary, "failure": None}
            assert same[0][part] == same[1][part]
        times = [(t["wall_s"], t["phases"]) for t in (wanted["time"], summary["time"])]
        assert times[0] == times[1]
        weights = [(s["memory"] or {}).get("weights_bytes") for s in (wanted, summary)]
        assert weights[0] == weights[1]


def test_a_ready_start_has_no_lines_of_the_next_one():
    """Here the server has no number, and the workers have the same ones."""
    ready = (
        "INFO 07-16 10:00:40 [core.py:171] init engine (profile, create kv cache, warmup "
        "model) took 20.00 seconds\nINFO:     Application startup complete.\n"
    )
    runs, _ = read(WITHOUT_NUMBERS + ready + at(11, WITHOUT_NUMBERS + ready))
    memory = [folded(events).summary.memory for events in runs.values()]
    assert [m and m.weights_bytes for m in memory] == [round(8.5 * 2**30)] * 2


def test_workers_that_wait_long_for_each_other_are_of_their_own_start():
    """Two servers write to one terminal, and the workers of both print nothing for a while
    before the ranks are connected and while they load."""
    line = "({} pid={}) INFO 07-16 10:{:02d}:{:02d} [{}] {}\n"
    engine = (
        "Initializing a V1 LLM engine (v0.26.0) with config: model='a/{}', "
        "max_seq_len=4096, tensor_parallel_size=2, device_config=cuda"
    )
    world = (
        "world_size=2 rank={0} local_rank={0} distributed_init_method=tcp://127.0.0.1:3"
    )
    rank = "rank {0} in world size 2 is assigned as DP rank 0, PP rank 0, TP rank {0}, EP rank 0"
    folder = "Using cache directory: /c/torch_compile_cache/a/rank_{}_0/backbone for vLLM's torch.compile"
    cache = "Available KV cache memory: {}.5 GiB"
    begun = [
        line.format("EngineCore", n, 0, 0, "core.py:1", engine.format(n))
        + "".join(line.format("Worker", n + r, 0, 1, "x.py:1", world.format(r - 1)) for r in (1, 2))
        for n in (10, 20)
    ]  # fmt: skip
    later = [
        line.format("Worker_TP0", n + 1, *at, "x.py:1", text)
        for at, text in (((0, 50), rank.format(0)), ((2, 0), folder.format(0)))
        for n in (10, 20)
    ]
    taken = [
        line.format("Worker_TP0", n + 1, 2, 1, "x.py:1", cache.format(n))
        for n in (10, 20)
    ]
    text = "".join(begun + later + taken)
    runs = [folded(found).summary for found in read(text)[0].values()]
    assert [(run.ranks, run.memory.kv_cache_bytes) for run in runs] == [
        (2, 10.5 * GIB), (2, 20.5 * GIB),
    ]  # fmt: skip


def test_a_start_that_was_killed_does_not_last_until_a_worker_of_the_next_one_prints():
    text = "(Worker pid=8) INFO 07-16 10:00:13 [a.py:1] A text without a rule\n"
    start = WITHOUT_NUMBERS.replace("(Worker pid=8)", f"{text}(Worker pid=8)", 1)
    runs, _ = read(start + at(11, start))
    assert [folded(events).summary.time.wall_s for events in runs.values()] == [19, 19]


@pytest.mark.parametrize("process", ["(Worker_TP0 pid=8) ", ""])
@pytest.mark.parametrize(
    "lines",
    [
        "00 [monitor.py:34] torch.compile takes 28.5 s in total\n"
        "05 [gpu_worker.py:415] Available KV cache memory: 8.5 GiB\n",
        "00 [abc.py:9] A text without a rule\n"
        "04 [gpu_model_runner.py:6483] Profiling CUDA graph memory: PIECEWISE=51 (largest=512)\n"
        "05 [gpu_model_runner.py:6588] Estimated CUDA graph memory: 0.5 GiB total\n",
        "00 [gpu_model_runner.py:5335] Starting to load model a/b...\n"
        "05 [gpu_model_runner.py:5335] Model loading took 8.5 GiB and 4.5 seconds\n",
    ],
)
def test_parts_of_two_starts_on_two_days_are_not_one_start(process: str, lines: str):
    """No line that opens a start is there, and the numbers of processes are the same."""
    first = re.sub(
        r"^(?=\d\d \[)", f"{process}INFO 07-16 10:00:", lines, flags=re.MULTILINE
    )
    second = first.replace("07-16", "07-17")
    wanted = folded(events(first)).summary
    runs = [folded(found).summary for found in read(first + second)[0].values()]
    assert len(runs) == 2
    for run in runs:
        assert run.time.seconds_by_phase() == wanted.time.seconds_by_phase()
        assert (run.time.wall_s or 0) <= 5
        assert run.ranks == wanted.ranks
        for name in ("weights_bytes", "kv_cache_bytes"):
            figures = [getattr(s.memory_or_none, name, None) for s in (run, wanted)]
            assert figures[0] == figures[1]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INFO 07-16 10:00:00 [a.py:9] A text without a rule\n",
        "WARNING 07-16 10:00:00 [interface.py:3] Failed to import from vllm._C: ImportError('x')\n",
    ],
)
@pytest.mark.parametrize("end", ["", "INFO:     Application startup complete.\n"])
def test_what_a_server_states_again_after_hours_is_of_the_next_start(
    text: str, end: str
):
    """Its lines have no names and no numbers, and those that open a start come later."""
    start = (
        text + "INFO 07-16 10:00:03 [model.py:1788] Using max model len 1024\n"
        "INFO 07-16 10:00:04 [core.py:116] Initializing a V1 LLM engine (v0.26.0) with config: "
        "model='a/b', max_seq_len=1024, device_config=hpu\n"
        "INFO 07-16 10:00:31 [hpu_model_runner.py:4759] Loading model weights took 14.5 GB\n"
        + end
    )
    second = start.replace("1024", "2048").replace("14.5", "7.5")
    runs = [folded(found).summary for found in read(start + at(13, second))[0].values()]
    assert [run.config["max_model_len"] for run in runs] == [1024, 2048]
    assert [run.memory.weights_bytes for run in runs] == [14.5 * GIB, 7.5 * GIB]
    assert all((run.time.wall_s or 0) <= 31 for run in runs)


def test_a_part_of_a_log_that_states_a_setting_twice_is_one_start():
    line = "INFO 07-16 {}:00 [model.py:1788] Using max model len 1024\n"
    weights = "INFO 07-16 10:00:31 [hpu_model_runner.py:4759] Loading model weights took 14.5 GB\n"
    runs, _ = read(line.format("10:00") + weights + line.format("10:20"))
    assert len(runs) == 1


UNFINISHED = """\
(APIServer pid=50) INFO 07-16 10:02:00 [__init__.py:216] Automatically detected platform cuda.
(EngineCore_DP0 pid=51) INFO 07-16 10:02:20 [core.py:77] Initializing a V1 LLM engine \
(v0.11.0) with config: model='a/b', tensor_parallel_size=1, device_config=cuda
(EngineCore_DP0 pid=51) INFO 07-16 10:02:42 [gpu_model_runner.py:2602] Starting to load model a/b...
(EngineCore_DP0 pid=51) INFO 07-16 10:02:47 [gpu_model_runner.py:2653] Model loading took \
2.5000 GiB and 4.500000 seconds
(EngineCore_DP0 pid=51) INFO 07-16 10:03:09 [backends.py:559] Dynamo bytecode transform time: 6.25 s
(EngineCore_DP0 pid=51) INFO 07-16 10:03:30 [monitor.py:34] torch.compile takes 21.75 s in total
"""


@pytest.mark.parametrize("front", ["", "vllm-1  | "])
def test_a_log_that_stands_twice_holds_the_same_start_twice(front):
    log = "".join(front + line for line in UNFINISHED.splitlines(keepends=True))
    (once,) = (summary_of(run) for run in read(log)[0].values())
    again = [summary_of(run) for run in read(log * 2)[0].values()]
    for run in (once, *again):
        del run["time"]["gaps"]  # they name lines
    for part in ("time", "compile", "config", "status"):
        assert [run[part] for run in again] == [once[part]] * 2


FATAL = (
    "CRITICAL 04-17 03:2{}:10 [core_client.py:269] Got fatal signal from worker processes, "
    "shutting down. See stack trace above for root cause issue.\n"
)


@pytest.mark.parametrize(
    ("between", "number"),
    [
        (
            "(EngineCore_0 pid=9) INFO 04-17 03:28:01 [core.py:58] Initializing a V1 LLM "
            "engine (v0.8.4) with config: model='a/b'\n",
            2,
        ),
        ("```\n\n0.8.4 quits\n```shell\n", 2),
        ("", 1),
    ],
)
def test_an_engine_that_begins_after_a_failure_is_of_another_start(between, number):
    """As a block of a page does that was printed long after one with the end of a start."""
    text = "```shell\n" + FATAL.format(6) + between + FATAL.format(8) + "```\n"
    assert len(read(text.encode())[0]) == number


def test_another_engine_that_prints_lines_of_vllm_is_no_start():
    """SGLang has vLLM's loader, its compilation in pieces and its web server."""
    head = "[2026-06-07 18:56:{}] "
    other = (
        f"{head.format(10)}server_args=ServerArgs(model_path='a/b', tokenizer_path='a/b')\n"
        f"{head.format(12)}Using model weights format ['*.safetensors']\n"
        f"{head.format(35)}Compiling a graph for dynamic shape takes 0.38 s\n"
        "INFO:     Application startup complete.\n"
    )
    assert read(other.encode(), "a.log")[0] == {}
    own = "INFO 06-07 18:57:00 [api_server.py:1] vLLM API server version 0.20.0\n"
    (run,) = read((other + own).encode(), "a.log")[0].values()
    assert folded(list(run)).summary.compile is None


def test_any_other_web_server_is_no_start():
    text = (
        "INFO:     Started server process [599566]\n"
        "INFO:     Waiting for application startup.\n"
        "INFO:     Application startup complete.\n"
        'INFO:     172.18.0.5:43220 - "POST /proxy/chat/completions HTTP/1.1" 200 OK\n'
        "INFO:     Shutting down\n"
    )
    assert read(text.encode(), "a.log")[0] == {}


CLIENT = """\
INFO 08-07 02:53:53 [config.py:385] Inferred from consolidated*.safetensors files torch.bfloat16 \
dtype.
INFO 08-07 02:53:53 [utils.py:90] Sampling input_len from [399, 7599] and output_len from [4, 5]
Failed requests during benchmark run detected (capping to 10):
Error 0: Traceback (most recent call last):
  File "/x/vllm/benchmarks/lib/endpoint_request_func.py", line 3, in async_request_openai_chat
    async with session.post(url=api_url, json=payload, headers=headers) as response:
  File "/x/aiohttp/streams.py", line 705, in read
    await self._waiter
aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected
============ Serving Benchmark Result ============
Successful requests:                     249
Failed requests:                         1
==================================================
INFO 08-07 03:11:19 [config.py:385] Inferred from consolidated*.safetensors files torch.bfloat16 \
dtype.
"""


def test_the_exit_of_a_process_and_a_library_in_c_are_no_time_of_its_configuration():
    text = (
        "INFO 06-17 13:11:15 [utils.py:233] non-default args: {'model': 'a/b'}\n"
        "INFO 06-17 13:11:16 [model.py:1678] Using max model len 512\n"
        "[W617 13:11:48.992792438 socket.cpp:207] [c10d] The hostname of the client socket\n"
        "(EngineCore pid=54883) INFO 06-17 13:12:13 [autotuner.py:262] [Autotuner]: "
        "Autotuning process starts ...\n"
        "(EngineCore pid=54883) INFO 06-17 13:12:16 [autotuner.py:268] [Autotuner]: "
        "Autotuning process ends\n"
        "[rank0]:[W617 13:13:37.252559243 ProcessGroupNCCL.cpp:1553] Warning: WARNING: "
        "destroy_process_group() was not called before program exit, which can leak\n"
    )
    time = folded(events(text)).summary.time
    assert time.wall_s == 61.0
    assert time.seconds_by_phase()["configure"] == 1.0


def test_a_client_of_a_benchmark_is_no_part_of_a_start_that_is_quoted_above():
    text = (
        "(EngineCore pid=7) INFO 08-07 02:50:00 [core.py:114] Initializing a V1 LLM engine "
        "(v0.21.0) with config: model='a/b'\n"
        "(EngineCore pid=7) INFO 08-07 02:50:05 [model_runner_v1.py:3757] Starting to load "
        "model a/b...\n"
        "INFO 08-07 02:53:51 [__init__.py:246] Platform plugin ascend is activated\n"
        "Namespace(seed=0, num_prompts=200, dataset_name='random', backend='vllm')\n"
    )
    summary = folded(events(text + CLIENT)).summary
    assert summary.time.wall_s == 5.0


def test_a_client_of_a_benchmark_starts_no_engine_and_fails_no_start():
    """It reads the model's configuration for its tokenizer, and requests fail in it."""
    summary = folded(events(CLIENT)).summary
    assert (summary.status, summary.failure, summary.time.wall_s) == (
        "unknown",
        None,
        None,
    )
    assert (summary.time.phases, len(summary.benchmarks)) == ([], 1)
