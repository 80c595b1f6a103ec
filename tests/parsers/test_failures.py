"""The innermost cause of a failure is told once; what follows readiness is serving."""

from __future__ import annotations

import pytest

from parsers.engine.joining import MAX_DETAILS
from tests.helpers import events, of, read, summary_of
from warmup_insights.analysis.sentences import (
    cause_text,
    serving_sentences,
    start_sentences,
)
from warmup_insights.model.events import (
    Failure,
    Note,
    RunStarted,
    ServerReady,
    ServingFailure,
    ShutdownRequested,
)
from warmup_insights.model.failure_text import figures_of, kind_of_message
from warmup_insights.testing import folded
from warmup_insights.units import GIB, MIB

CORE = "(EngineCore pid=7) ERROR 07-16 10:00:{:02d} [core.py:866] {}"
API = "(APIServer pid=1) "
START = (
    "(APIServer pid=1) INFO 07-16 10:00:00 [api_utils.py:345] vLLM API server version 0.26.0\n"
    "(EngineCore pid=7) INFO 07-16 10:00:01 [core.py:116] Initializing a V1 LLM engine "
    "(v0.26.0) with config: model='a/b', device_config=cuda\n"
)
FAILED = "\n".join(
    (
        CORE.format(5, "EngineCore failed to start."),
        CORE.format(5, "Traceback (most recent call last):"),
        CORE.format(5, '  File "/x/core.py", line 1, in run'),
        CORE.format(5, "RuntimeError: Could not find nvcc"),
        "(EngineCore pid=7) Traceback (most recent call last):",
        "(EngineCore pid=7) RuntimeError: Could not find nvcc",
        API + "RuntimeError: Engine core initialization failed. See root cause above.",
    )
)
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
STOP = (
    "(EngineCore pid=7) INFO 07-16 11:00:00 [core.py:1214] [shutdown] EngineCore: "
    "trigger received signal=SIGTERM\n"
)
DEAD = (
    CORE.format(6, "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered")
    + "\n"
)


def test_the_error_raised_first_is_the_cause():
    (failure,) = of(Failure, events(START + FAILED))
    assert failure.message == "RuntimeError: Could not find nvcc"
    assert (failure.line, failure.failure) == (6, "error")


def test_what_a_worker_raised_first_comes_before_what_others_print_later():
    worker = (
        "(Worker_TP{0} pid={0}) ERROR 07-16 10:00:05 [multiproc_executor.py:1007] {1}"
    )
    text = "\n".join(
        (
            worker.format(3, "WorkerProc hit an exception."),
            worker.format(3, "RuntimeError: CUDA error: a"),
            CORE.format(5, "EngineCore failed to start."),
            CORE.format(5, "RuntimeError: Worker failed with error 'CUDA error: a'"),
            worker.format(1, "WorkerProc hit an exception."),
            worker.format(1, "RuntimeError: CUDA error: b"),
        )
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message == "RuntimeError: CUDA error: a"


def test_a_heading_alone_is_still_a_failure():
    (failure,) = of(
        Failure, events(START + CORE.format(5, "EngineCore failed to start."))
    )
    assert failure.message == "EngineCore failed to start."


def test_memory_is_the_cause_of_what_wraps_it():
    text = (
        CORE.format(
            5, "Exception: WorkerProc initialization failed due to an exception"
        )
        + "\n"
        + CORE.format(
            5, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
        )
        + "2.00 GiB. GPU 0 has a total capacity of 15.47 GiB of which 115.31 MiB is free."
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.failure == "out_of_memory"
    assert failure.needed_bytes == 2 * GIB
    assert failure.free_bytes == round(115.31 * MIB)


def test_an_error_before_readiness_did_not_fail_the_start():
    found = events(START + FAILED + "\n" + READY)
    assert of(Failure, found) == []
    assert any(note.topic == "error" for note in of(Note, found))


def test_the_server_of_a_program_that_does_without_an_engine_is_not_ready():
    core = "\n".join(line for line in FAILED.splitlines() if not line.startswith(API))
    text = START.replace(API, "") + core + "\nINFO:     Application startup complete.\n"
    found = events(text + "INFO:     Shutting down\n")
    assert of(ServerReady, found) == []
    (failure,) = of(Failure, found)
    assert failure.message == "RuntimeError: Could not find nvcc"


def test_what_a_client_of_another_server_was_answered_is_no_cause():
    client = "openai.PermissionDeniedError: Your request was blocked.\n"
    dead = CORE.format(6, "Engine core proc EngineCore died unexpectedly") + "\n"
    (failure,) = of(ServingFailure, events(START + READY + client + dead))
    assert failure.message == "Engine core proc EngineCore died unexpectedly"


def test_a_requested_shutdown_is_no_failure():
    found = events(START + READY + STOP + DEAD)
    assert (of(Failure, found), of(ServingFailure, found)) == ([], [])
    assert len(of(ShutdownRequested, found)) == 1


@pytest.mark.parametrize(
    "words",
    [
        "WARNING 07-16 11:00:05 [multiproc_executor.py:603] [shutdown] Executor: workers "
        "still running after SIGTERM; sending SIGKILL count=4",
        "DEBUG 03-16 11:00:05 [multiproc_executor.py:430] Worker Termination: resorting to "
        "SIGKILL to take down workers",
    ],
    ids=["0.23", "0.18"],
)
def test_killing_workers_at_a_shutdown_is_no_failure(words):
    found = events(START + READY + f"(EngineCore pid=7) {words}\n")
    assert (of(Failure, found), of(ServingFailure, found)) == ([], [])


@pytest.mark.parametrize(
    "words",
    [
        "# a shell of kubectl exec gets SIGKILL when it ends",
        "<li>Press Ctrl-C, never SIGKILL: files are written at the end.</li>",
        "a limit of 15 minutes may have SIGKILLed a capture that was only slow",
        "If the pod is OOMKilled, raise its limit of memory.",
    ],
)
def test_text_about_kills_states_none(words):
    assert read(words + "\n")[0] == {}
    assert of(Failure, events(START + words + "\n")) == []


@pytest.mark.parametrize(
    "words",
    [
        "[ERROR] Worker (pid:31) was sent SIGKILL! Perhaps out of memory?",
        "traceback : Signal 9 (SIGKILL) received by PID 6774",
        "Job 1, 'vllm serve a/b' terminated by signal SIGKILL (Forced quit)",
        "      Reason:       OOMKilled",
    ],
)
def test_a_kill_that_a_supervisor_states_ends_the_start(words):
    (failure,) = of(Failure, events(START + words + "\n"))
    assert failure.failure == "killed"


@pytest.mark.parametrize(
    "words",
    [
        "Jul 16 10:01:00 node1 kernel: Out of memory: Killed process 7 (python3) total-vm:9kB",
        "[91.2] Memory cgroup out of memory: Killed process 7 (VLLM::EngineCor) total-vm:9kB",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=python3,pid=7,uid=0",
        "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=8.batch.",
        "slurmstepd: error: Detected 2 oom_kill events in StepId=8.0. Some of the step tasks "
        "have been OOM Killed.",
        "srun: error: node1: task 0: Out Of Memory",
        "command terminated with exit code 137",
        '  "reason": "OOMKilled",',
    ],
)
def test_a_kill_for_want_of_host_memory_ends_the_start(words):
    (failure,) = of(Failure, events(f"{START}{words}\n"))
    assert failure.failure == "killed"


@pytest.mark.parametrize(
    "words",
    [
        "[91.2] Out of memory: Killed process 9 (postgres) total-vm:9kB",
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),task=postgres,pid=9,uid=0",
    ],
)
def test_a_kill_of_another_program_fails_no_start(words):
    assert not of(Failure, events(f"{START}{words}\n"))


@pytest.mark.parametrize(
    "words",
    [
        "Out of memory", "Out Of Memory", "hipErrorOutOfMemory",
        "CUDA_ERROR_OUT_OF_MEMORY", "UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        "std::bad_alloc", "Cannot allocate memory", "RESOURCE_EXHAUSTED: no room",
    ],
)  # fmt: skip
def test_a_logged_want_of_memory_is_the_cause_however_it_is_spelt(words):
    text = CORE.format(5, f"the allocator states: {words}")
    (failure,) = of(Failure, events(f"{START}{text}\n{FAILED}"))
    assert (failure.failure, failure.line) == ("out_of_memory", 3)


def test_an_engine_that_dies_while_serving_did_start():
    found = events(START + READY + DEAD)
    assert of(Failure, found) == []
    (failure,) = of(ServingFailure, found)
    assert "EngineDeadError" in failure.message


def test_the_error_of_a_request_is_no_failure():
    text = (
        "(APIServer pid=1) ERROR 07-16 11:00:05 [serving.py:6] ValueError: too long\n"
    )
    found = events(START + READY + text)
    assert of(ServingFailure, found) == []


def test_lines_of_other_programs_before_a_good_start_are_nobodys_failure():
    found = events("RuntimeError: something else\n" + START + READY)
    assert (of(Failure, found), of(Note, found)) == ([], [])


@pytest.mark.parametrize(
    ("message", "kind", "figures"),
    [
        (
            "HIP out of memory. Tried to allocate 80.00 MiB. GPU 0 has a total capacity "
            "of 15.92 GiB of which 0 bytes is free. Of the allocated memory 15.63 GiB is "
            "allocated by PyTorch, and 19.68 MiB is reserved by PyTorch but unallocated.",
            "out_of_memory",
            {"needed_bytes": 80 * MIB, "free_bytes": 0,
             "total_bytes": round(15.92 * GIB), "allocated_bytes": round(15.63 * GIB),
             "unallocated_bytes": round(19.68 * MIB)},
        ),
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
            "15.47 GiB of which 115.31 MiB is free. Including non-PyTorch memory, this "
            "process has 15.35 GiB memory in use. Of the allocated memory 15.06 GiB is "
            "allocated by PyTorch, with 20.00 MiB allocated in private pools (e.g., CUDA "
            "Graphs), and 9.00 MiB is reserved by PyTorch but unallocated.",
            "out_of_memory",
            {"needed_bytes": 2 * GIB, "free_bytes": round(115.31 * MIB),
             "total_bytes": round(15.47 * GIB), "process_bytes": round(15.35 * GIB),
             "allocated_bytes": round(15.06 * GIB), "unallocated_bytes": 9 * MIB},
        ),
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 79.10 GiB total "
            "capacity; 76.00 GiB already allocated; 1.50 GiB free; 77.00 GiB reserved)",
            "out_of_memory",
            {"needed_bytes": 2 * GIB, "free_bytes": round(1.5 * GIB),
             "total_bytes": round(79.1 * GIB), "allocated_bytes": 76 * GIB},
        ),
        (
            "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::268435456 "
            "(256)MB",
            "out_of_memory", {"needed_bytes": 256 * MIB},
        ),
        (
            "RESOURCE_EXHAUSTED: Error allocating device buffer: Attempting to allocate "
            "2.64G. That was not possible. There are 1.50G free.; (0x0x0_HBM0)",
            "out_of_memory",
            {"needed_bytes": round(2.64 * GIB), "free_bytes": round(1.5 * GIB)},
        ),
        (
            "RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in "
            "memory space hbm. Used 18.25G of 15.75G hbm. Exceeded hbm capacity by 2.50G.",
            "out_of_memory",
            {"needed_bytes": round(18.25 * GIB), "total_bytes": round(15.75 * GIB)},
        ),
        (
            "RESOURCE_EXHAUSTED: Ran out of memory on HBM, the total memory required for HLO "
            "temporaries (18.5G) exceeds available HBM (15.75G).",
            "out_of_memory",
            {"needed_bytes": round(18.5 * GIB), "total_bytes": round(15.75 * GIB)},
        ),
        (
            'RuntimeError: torch_call_dispatcher( "aten::new_empty", "", stack.data(), '
            "TORCH_ABI_VERSION) API call failed at a.h, line 933",
            "out_of_memory", {},
        ),
        (
            "ValueError: Free memory on device cuda:0 (13.58/15.99 GiB) on startup is "
            "less than desired GPU memory utilization (0.85, 13.59 GiB). Decrease",
            "out_of_memory",
            {"needed_bytes": round(13.59 * GIB), "free_bytes": round(13.58 * GIB),
             "total_bytes": round(15.99 * GIB), "wanted_utilization": 0.85},
        ),
        (
            "ValueError: Cannot fit both KV pools under gpu_memory_utilization=0.90: the "
            "mamba pool needs 5120 blocks (20 per request x 256 requests) across 45 layers",
            "no_kv_cache",
            {},
        ),
        (
            "ValueError: To serve at least one request with the model's max seq len "
            "(262144), (18.35 GiB KV cache is needed, which is larger than the available "
            "KV cache memory (8.72 GiB). Based on the available memory, the estimated "
            "maximum model length is 121840. Try increasing",
            "no_kv_cache",
            {"needed_bytes": round(18.35 * GIB), "free_bytes": round(8.72 * GIB),
             "max_model_len": 262144, "estimated_model_len": 121840},
        ),
        (
            "ValueError: To serve at least one request with the model's max seq len "
            "(131072), 10.98 GiB KV cache is needed, which is larger than the available KV "
            "cache memory (10.41 GiB). Based on the available memory, the estimated maximum "
            "model length is 124256.",
            "no_kv_cache",
            {"needed_bytes": round(10.98 * GIB), "free_bytes": round(10.41 * GIB),
             "max_model_len": 131072, "estimated_model_len": 124256},
        ),
        (
            "ValueError: To serve at least one request with the models's max seq len "
            "(32768), (4.00 GB KV cache is needed, which is larger than the available KV "
            "cache memory (3.50 GB). Try increasing `gpu_memory_utilization`",
            "no_kv_cache",
            {"needed_bytes": 4 * GIB, "free_bytes": round(3.5 * GIB),
             "max_model_len": 32768},
        ),
        (
            "ValueError: The model's max seq len (32768) is larger than the maximum number "
            "of tokens that can be stored in KV cache (15360). Try increasing",
            "no_kv_cache", {"max_model_len": 32768, "estimated_model_len": 15360},
        ),
        (
            "ValueError: Cannot auto-fit max_model_len: not enough GPU memory available",
            "no_kv_cache", {},
        ),
        (
            "ValueError: Available memory on node 0 (10.0/64.0 GiB) on kv cache "
            "allocation is less than requested memory for kv (-0.5/4.7 GiB).",
            "no_kv_cache",
            {"free_bytes": 10 * GIB, "total_bytes": 64 * GIB},
        ),
        (
            "ValueError: Available memory on node 0 (10.0/64.0 GiB) on kv cache "
            "allocation is less than requested memory for kv (20.0 GiB).",
            "out_of_memory",
            {"needed_bytes": 20 * GIB, "free_bytes": 10 * GIB, "total_bytes": 64 * GIB},
        ),
        (
            "ValueError: Available memory on node 1 (20.5/62.0 GiB) on startup is less "
            "than desired CPU memory utilization (0.92, 57.04 GiB). On the CPU backend",
            "out_of_memory",
            {"needed_bytes": round(57.04 * GIB), "free_bytes": round(20.5 * GIB),
             "total_bytes": 62 * GIB, "wanted_utilization": 0.92},
        ),
        (
            "ValueError: Free memory on device cuda:1 (30.0/80.0 GiB) on startup is less "
            "than the engine's budget after excluding external process's weights (0.9, "
            "41.5 GiB). Decrease",
            "out_of_memory",
            {"needed_bytes": round(41.5 * GIB), "free_bytes": 30 * GIB,
             "total_bytes": 80 * GIB},
        ),
        (
            "ValueError: The worker already uses 30.00 GiB (model weights and runtime), "
            "more than the 25.00 GiB of CPU memory reserved for it on node 0",
            "no_kv_cache", {},
        ),
        ("RuntimeError: PT_DEVMEM Allocation failed for size", "out_of_memory", {}),
        ("RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_SYNHELPER workspace Allocation of "
         "size ::52561502464 failed!", "out_of_memory", {"needed_bytes": 52561502464}),
        (
            "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_SYNHELPER workspace Allocation "
            "of size ::1073741824 failed!",
            "out_of_memory", {"needed_bytes": GIB},
        ),
        (
            "RuntimeError: level_zero backend failed with error: 39 "
            "(UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
            "out_of_memory", {},
        ),
        (
            "RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to "
            "allocate 1024 bytes. Error code 12 (Cannot allocate memory)",
            "out_of_memory", {},
        ),
        ("ValueError: Too large swap space. 64.00 GiB out of the 62.00", "error", {}),
        ("RuntimeError: synStatus=26 [Generic failure] Device acquire failed", "error", {}),
        ("KeyError: 'x'", "error", {}),
    ],
)  # fmt: skip
def test_figures_are_read_in_every_wording(message, kind, figures):
    assert kind_of_message(message) == kind
    assert figures_of(message) == figures


def test_a_shell_that_reports_a_kill_ends_serving():
    text = "./serve.sh: line 19: 4711 Killed                  vllm serve a/b\n"
    (failure,) = of(ServingFailure, events(START + READY + text))
    assert failure.failure == "killed"


def test_what_a_forked_child_raises_may_be_the_cause():
    text = START + (
        "(EngineCore pid=9) subprocess.CalledProcessError: Command '' died with "
        "<Signals.SIGHUP: 1>.\n"
        "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root "
        "cause above.\n"
        "subprocess.CalledProcessError: Command '['bash', '/x.sh']' returned non-zero "
        "exit status 1.\n"
    )
    (failure,) = of(Failure, events(text))
    assert (failure.line, "SIGHUP" in failure.message) == (3, True)


def test_torchscript_names_the_cause_behind_its_own_error():
    text = START + "\n".join(
        (
            CORE.format(5, "EngineCore failed to start."),
            CORE.format(
                5,
                "RuntimeError: The following operation failed in the TorchScript "
                "interpreter.",
            ),
            CORE.format(5, "RuntimeError: Failed to execute the model status=1006"),
        )
    )
    (failure,) = of(Failure, events(text))
    assert failure.message == "RuntimeError: Failed to execute the model status=1006"


FRAME = (
    '[rank0]:   File "/x/dist-packages/vllm/worker/worker.py", line 1, in load_model\n'
)
MEMORY = (
    "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
)


def test_a_traceback_through_a_worker_is_a_start_that_failed():
    (failure,) = of(
        Failure,
        events("[rank0]: Traceback (most recent call last):\n" + FRAME + MEMORY),
    )
    assert (failure.failure, failure.phase, failure.line) == (
        "out_of_memory",
        "load_model",
        3,
    )


def test_a_traceback_of_another_program_is_no_start():
    other = FRAME.replace("vllm/worker", "trainer")
    assert read(other + MEMORY)[0] == {}
    assert read(FRAME + "some line\n" * 300 + MEMORY)[0] == {}


@pytest.mark.parametrize(
    ("file", "name"),
    [("cli_args.py", "validate_parsed_serve_args"), ("__init__.py", "<module>")],
)
def test_a_start_that_fails_before_its_first_line_is_all_traceback(file, name):
    text = (
        "Traceback (most recent call last):\n"
        '  File "/usr/bin/vllm", line 8, in <module>\n'
        "    sys.exit(main())\n"
        f'  File "/usr/lib/python3.12/site-packages/vllm/{{file}}", line 1, in {name}\n'
        "ImportError: libcudart.so.12: cannot open shared object file\n"
    )
    (failure,) = of(Failure, events(text.format(file=file)))
    assert failure.message.startswith("ImportError: libcudart.so.12")
    assert failure.phase is None
    assert read(text.format(file=f"x/{file}").replace("/vllm/", "/mine/"))[0] == {}


def test_a_server_that_fails_in_its_set_up_stops_its_engine_first():
    frame = FRAME.replace("[rank0]: ", "").replace("load_model", "init_app_state")
    text = START + STOP + frame + "ValueError: No adapter found for /x\n"
    (failure,) = of(Failure, events(text))
    assert failure.message == "ValueError: No adapter found for /x"
    assert failure.phase == "server_start"
    assert of(Failure, events(START + READY + STOP + frame + "ValueError: x\n")) == []
    announced = (
        "RuntimeError: Engine core initialization failed. See root cause above.\n"
    )
    assert of(Failure, events(START + STOP + frame + announced)) == []


PLUGIN_FAILED = (
    "ERROR 04-09 04:44:12 [__init__.py:64] Failed to load plugin some_plugin\n"
    "ERROR 04-09 04:44:12 [__init__.py:64] Traceback (most recent call last):\n"
    "ERROR 04-09 04:44:12 [__init__.py:64] AttributeError: no such function\n"
)


def test_a_start_goes_on_without_a_plugin_that_fails():
    found = events(
        PLUGIN_FAILED
        + "(EngineCore pid=7) INFO 04-09 04:44:21 [core.py:105] Initializing a V1 LLM engine "
        "(v0.16.0) with config: model='a/b', dtype=torch.bfloat16\n"
        "*** SIGTERM received by PID 7 (TID 7) on cpu 3, from PID 9; stack trace: ***\n"
    )
    assert of(Failure, found) == []
    assert folded(found).summary.status == "stopped"


def test_a_plugin_that_fails_is_the_cause_where_the_start_goes_no_further():
    found = events(
        "(APIServer pid=7) INFO 04-09 04:44:11 [api_utils.py:339] version 0.16.0\n"
        + PLUGIN_FAILED
        + "(APIServer pid=7) RuntimeError: Failed to infer device type\n"
    )
    (failure,) = of(Failure, found)
    assert failure.message == "AttributeError: no such function"


def test_a_module_that_a_stage_imports_leaves_the_failure_in_it():
    module = FRAME.replace("load_model", "<module>").replace("/x/", "/x-packages/")
    (failure,) = of(Failure, events(START + FRAME + module + MEMORY))
    assert failure.phase == "load_model"


def test_vllms_own_words_for_a_start_that_failed_are_enough():
    text = (
        "ValueError: The model's max seq len is larger\n"
        "RuntimeError: Engine process failed to start. See stack trace for the root cause.\n"
    )
    (failure,) = of(Failure, events(text))
    assert failure.message == "ValueError: The model's max seq len is larger"


def test_a_worker_of_torchserve_is_peeled():
    head = "2024-10-07T22:54:{}0,100 [INFO ] W-9000-model_1.0-stdout MODEL_LOG - {}\n"
    text = head.format(
        1,
        "INFO 10-07 22:54:10 llm_engine.py:226] Initializing an LLM engine (v0.6.2) with "
        "config: model='a/b', device_config=cuda",
    )
    text += head.format(2, MEMORY.removeprefix("[rank0]: ").strip())
    (failure,) = of(Failure, events(text))
    assert failure.message.startswith("torch.OutOfMemoryError")


CORE_KILLED = (
    "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause above. "
    "Failed core proc(s): {}\n"
    "(Worker pid=9) ERROR 07-16 10:00:07 [multiproc_executor.py:953] WorkerProc failed to "
    "start.\n"
    "(Worker pid=9) ERROR 07-16 10:00:07 [multiproc_executor.py:953] BrokenPipeError: "
    "[Errno 32] Broken pipe\n"
)


@pytest.mark.parametrize(
    ("codes", "kind"),
    [("{}", "error"), ("{'EngineCore': -9}", "killed"), ("{'EngineCore': 1}", "error")],
)
def test_what_follows_the_end_of_another_process_is_no_cause(codes, kind):
    (failure,) = of(Failure, events(START + CORE_KILLED.replace("{}", codes)))
    assert failure.message.endswith(f"Failed core proc(s): {codes}")
    assert failure.failure == kind
    # The worker of a core that was killed goes on until it needs the core.
    bare = CORE_KILLED.replace("(APIServer pid=1) ", "").replace("{}", codes)
    first, rest = bare.split("\n", 1)
    worker = (
        "(Worker pid=9) INFO 07-16 10:00:06 [x.py:68] Starting to load model a/b...\n"
    )
    (failure,) = of(Failure, events(f"{START}{first}\n{worker}{rest}"))
    assert failure.message.endswith(f"Failed core proc(s): {codes}")
    assert failure.failure == kind


def test_a_core_that_ends_while_serving_is_told_by_what_noticed_it():
    text = (
        "(APIServer pid=1) WARNING 07-16 10:05:00 [core_client.py:817] [shutdown] MPClient: "
        "engine core exited unexpectedly; starting cleanup\n"
        "(APIServer pid=1) ERROR 07-16 10:05:00 [async_llm.py:906] AsyncLLM output_handler "
        "failed.\n"
        "(APIServer pid=1) ERROR 07-16 10:05:00 [async_llm.py:906] EngineDeadError: "
        "EngineCore encountered an issue. See stack trace (above) for the root cause.\n"
        "INFO:     Shutting down\n"
    )
    found = events(START + READY + text)
    (failure,) = of(ServingFailure, found)
    assert "engine core exited unexpectedly" in failure.message
    assert of(ShutdownRequested, found) == []


@pytest.mark.parametrize(
    "last",
    [
        "vllm: error: unrecognized arguments: --no-such-flag 3",
        "vllm serve: error: argument --dtype: invalid choice: 'float13'",
        "RuntimeError: Failed to infer device type, please set a variable",
        "importlib.metadata.PackageNotFoundError: No package metadata was found for vllm",
    ],
)
def test_a_start_that_ended_before_its_first_line_is_a_failed_start(last):
    (failure,) = of(Failure, events(f"usage: vllm [-h] [-v]\n{last}\n"))
    assert failure.message == last


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("/usr/bin/python3: No module named vllm\n", "No module named vllm"),
        ("Starting\n/bin/sh: 1: vllm: not found\n", "vllm: not found"),
        (
            "nohup: failed to run command 'vllm': No such file or directory\n",
            "failed to run command 'vllm': No such file or directory",
        ),
        (
            'OCI runtime create failed: exec: "vllm": executable file not found in $PATH: '
            "unknown\n",
            'exec: "vllm": executable file not found in $PATH',
        ),
        (
            'Traceback (most recent call last):\n  File "/app/serve.py", line 3, in '
            "<module>\n    from vllm import LLM\n"
            "ModuleNotFoundError: No module named 'vllm'\n",
            "ModuleNotFoundError: No module named 'vllm'",
        ),
    ],
)
def test_a_program_that_ends_without_vllm_is_a_failed_start(text, message):
    (failure,) = of(Failure, events(text))
    assert failure.message == message
    later = "A backend is not there, which is no trouble\n" * 9
    assert read((text + later).encode(), "a.log")[0] == {}


def test_a_long_refusal_of_a_setting_is_the_cause():
    names = ", ".join(f"'Model{number}ForCausalLM'" for number in range(200))
    text = (
        API + "pydantic_core._pydantic_core.ValidationError: 1 validation error for "
        "ModelConfig\n"
        + API
        + f"  Value error, Model architectures ['X'] are not supported for now. {names} "
        "[type=value_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]\n"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message.startswith("ValueError: Model architectures ['X'] are not")


def test_memory_of_an_ascend_device_is_read_as_it_is_printed():
    figures = figures_of(
        "RuntimeError: NPU out of memory. Tried to allocate 2.00 GiB (NPU 0; 60.00 GiB total "
        "capacity; 57.50 GiB already allocated; 57.25 GiB current active; 1.50 GiB free; 58.00 "
        "GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try"
    )
    assert figures["needed_bytes"] == 2 * GIB
    assert figures["free_bytes"] == 1.5 * GIB
    assert figures["total_bytes"] == 60 * GIB
    assert figures["allocated_bytes"] == 57.5 * GIB


def test_a_wrapper_of_ray_is_not_the_cause():
    text = (
        "(EngineCore pid=7) ray.exceptions.RayTaskError(RuntimeError): ray::RayWorkerWrapper."
        "execute_method() (pid=195136, ip=10.1.1.1)\n"
        "(EngineCore pid=7) RuntimeError: the real one\n"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message == "RuntimeError: the real one"


@pytest.mark.parametrize(
    "message",
    [
        "requests.exceptions.ReadTimeout: (ReadTimeoutError(\"host='hub'\"), '(1)')",
        "httpx.ConnectTimeout: timed out",
        "triton.runtime.errors.OutOfResources: out of resource: shared memory",
        "subprocess.TimeoutExpired: Command 'nvcc' timed out after 600 seconds",
        "NotImplementedError",
    ],
)
def test_errors_whose_names_end_in_another_word_fail_a_start(message):
    (failure,) = of(Failure, events(START + "(EngineCore pid=7) " + message))
    assert failure.message == message


def test_a_stop_without_a_time_is_over_with_the_lines_after_it():
    text = (
        "*** SIGTERM received at time=1748300290 on cpu 8 ***\n"
        "ERROR 07-16 10:05:01 [engine.py:448] SystemExit: 15\n"
    )
    found = events(START + text)
    (stop,) = of(ShutdownRequested, found)
    assert stop.message.startswith("*** SIGTERM")
    (first,) = [e.time for e in found if e.line == 1][:1]
    assert stop.time - first == 301.0


def test_the_reasons_below_an_error_are_part_of_it():
    """As vLLM's formatter prints an error of several lines, and as Python does."""
    head = "ValueError: Failed to find a kernel that can implement the ScaledMM linear layer. Reasons: "
    reasons = [
        "AKernel requires capability 89, current is 75",
        " BLinearKernel cannot implement due to: x",
    ]
    logged = "(EngineCore pid=7) ERROR 08-14 08:00:55 [core.py:1330] {}\n"
    bare = "(EngineCore pid=7) {}\n"
    for form in (logged, bare):
        text = logged.format("EngineCore failed to start.") + "".join(
            form.format(each)
            for each in [head, *reasons, "Traceback (most recent call last):"]
        )
        (failure,) = of(Failure, events(text))
        assert failure.message == f"{head}{reasons[0]};{reasons[1]}"


@pytest.mark.parametrize(
    ("lines", "kind", "last"),
    [
        # torch `c10d/NCCLUtils.hpp`, below the line that is raised.
        (
            ("torch.distributed.DistBackendError: NCCL error in: a.cpp:3690, unhandled cuda "
             "error, NCCL version 2.27.5", "ncclUnhandledCudaError: Call to CUDA failed.",
             "Last error:", "Cuda failure 2 'out of memory'"),
            "out_of_memory", "Cuda failure 2 'out of memory'",
        ),
        # pydantic, below the class that is refused.
        (
            ("pydantic_core._pydantic_core.ValidationError: 1 validation error for AConfig",
             "size", "  Input should be greater than 0 [type=greater_than, input_value=0]",
             "    For further information visit a.b"),
            "error", "size; Input should be greater than 0 [type=greater_than, input_value=0]",
        ),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", [CORE.format(5, "{}"), API + "{}"])
def test_the_lines_below_an_error_hold_its_reason(lines, kind, last, form):
    text = CORE.format(5, "EngineCore failed to start.") + "\n"
    text += "\n".join(form.format(line) for line in lines)
    (failure,) = of(Failure, events(START + text))
    assert failure.failure == kind
    assert failure.message.endswith(last)


IN_VLLM = '  File "/x/vllm/{}", line 1, in {}'
V0 = "ERROR 02-21 08:05:44 engine.py:135] "


@pytest.mark.parametrize(
    "text",
    [
        # The loop of an engine runs when it is made (`v1/engine/core.py run_engine_core`).
        CORE.format(
            5, "EngineCore hit an exception: Traceback (most recent call last):"
        )
        + "\n"
        + CORE.format(5, IN_VLLM.format("v1/engine/core.py", "run_busy_loop"))
        + "\n"
        + CORE.format(5, "IndexError: index 1 is out of bounds"),
        CORE.format(5, "EngineCore encountered a fatal error.")
        + "\n"
        + CORE.format(5, "IndexError: index 1 is out of bounds"),
        V0
        + "IndexError: tuple index out of range\n"
        + V0
        + IN_VLLM.format("engine/multiprocessing/engine.py", "run_engine_loop")
        + "\n"
        + V0
        + "IndexError: Error in model execution: tuple index out of range",
        "ERROR 02-21 08:05:44 async_llm_engine.py:68] Engine background task failed\n"
        "ERROR 02-21 08:05:44 async_llm_engine.py:68] ValueError: max() arg is empty",
        "(VllmWorkerProcess pid=7) ERROR 02-21 08:05:44 multiproc_worker_utils.py:240] "
        "Exception in worker VllmWorkerProcess while processing method "
        "start_worker_execution_loop.\n"
        "(VllmWorkerProcess pid=7) ERROR 02-21 08:05:44 multiproc_worker_utils.py:240] "
        "RuntimeError: NCCL error: unhandled cuda error",
        CORE.format(5, IN_VLLM.format("v1/engine/core.py", "_handle_client_request"))
        + "\n"
        + CORE.format(5, "RuntimeError: no such adapter"),
        "ERROR 05-01 08:45:12 async_llm_engine.py:43] RuntimeError: no such adapter",
    ],
)
def test_an_engine_that_fails_at_work_did_start(text):
    found = events(text)
    assert of(Failure, found) == []
    assert len(of(ServingFailure, found)) == 1
    summary = folded(found).summary
    assert (summary.status, summary.failure) == ("finished", None)
    assert summary.time.wall_s is None


def test_the_loop_of_an_engine_in_a_traceback_alone_is_of_no_start():
    text = (
        'Traceback (most recent call last):\n  File "/x/vllm/v1/engine/core.py", '
        "line 1, in run_busy_loop\nIndexError: index 1 is out of bounds\n"
    )
    assert read(text)[0] == {}


def test_an_engine_that_kills_itself_after_an_error_was_not_killed():
    """V1 sends itself SIGKILL (0.8.5 `v1/engine/core_client.py`, `sigusr1_handler`)."""
    text = "\n".join(
        (
            CORE.format(5, "EngineCore hit an exception: Traceback (most recent call last):"),
            CORE.format(5, IN_VLLM.format("v1/worker/gpu_worker.py", "load_model")),
            CORE.format(5, "ValueError: too many values to unpack (expected 12)"),
            "CRITICAL 07-16 10:00:05 [core_client.py:361] Got fatal signal from worker "
            "processes, shutting down. See stack trace above for root cause issue.",
            "Killed",
        )
    )  # fmt: skip
    (failure,) = of(Failure, events(START + text))
    assert failure.failure == "error"
    assert failure.message == "ValueError: too many values to unpack (expected 12)"


def test_a_worker_that_is_killed_takes_the_engine_with_it():
    text = CORE.format(5, "Worker proc VllmWorker-1 died unexpectedly") + "\nKilled"
    (failure,) = of(Failure, events(START + text))
    assert failure.failure == "killed"


def test_an_error_of_a_request_is_no_failed_start():
    text = (
        "ERROR 05-01 01:52:15 [hermes_tool_parser.py:110] json.decoder.JSONDecodeError: x\n"
        "ERROR 05-01 01:52:15 [serving_chat.py:664] RuntimeError: no prompt updates\n"
        "ValueError: the program that made the request\n"
    )
    assert of(Failure, events(text)) == []


def test_a_dead_engine_shows_in_the_errors_of_its_requests():
    text = (
        "(APIServer pid=1) ERROR 07-16 11:00:05 [serving_chat.py:911] "
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.\n"
    )
    assert len(of(ServingFailure, events(START + READY + text))) == 1


def test_a_signal_in_the_source_of_a_program_kills_nothing():
    text = "      os.killpg(process.pid, signal.SIGKILL)\n"
    assert of(Failure, events(START + text)) == []


def test_what_a_worker_failed_with_comes_before_what_its_end_raises():
    text = "\n".join(
        (
            CORE.format(5, "EngineCore failed to start."),
            CORE.format(
                5, "RuntimeError: Worker failed with error 'Expected result >= 0'"
            ),
            "(VllmWorker rank=7 pid=3) RuntimeError: CUDA error: an illegal memory access",
        )
    )
    (failure,) = of(Failure, events(START + text))
    assert (
        failure.message
        == "RuntimeError: Worker failed with error 'Expected result >= 0'"
    )


def test_a_program_that_asks_its_engine_has_made_it():
    text = START.splitlines(keepends=True)[1] + (
        '[rank0]:   File "/x/vllm/entrypoints/llm.py", line 6, in _run_engine\n'
        "[rank0]: RuntimeError: BatchDecode failed\n"
    )
    (failure,) = of(ServingFailure, events(text))
    assert failure.message == "RuntimeError: BatchDecode failed"


@pytest.mark.parametrize(
    "lines",
    [
        # FlashInfer `jit/cpp_ext.py`: the output of ninja is part of the error.
        (
            "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit "
            "status 1.",
            "RuntimeError: Ninja build failed. Ninja output:",
            "FAILED: [code=1] x.so",
            "/usr/bin/ld: cannot find -la: No such file or directory",
            "collect2: error: ld returned 1 exit status",
        ),
        # Triton: what the compiler prints is not.
        (
            "/usr/bin/ld: cannot find -la: No such file or directory",
            "subprocess.CalledProcessError: Command '['/usr/bin/gcc', 'x.c']' returned "
            "non-zero exit status 1.",
        ),
        # Triton `backends/nvidia/compiler.py`: what ptxas prints is below.
        (
            "triton.runtime.errors.PTXASError: PTXAS error: Internal Triton PTX codegen error",
            "`ptxas` stderr:",
            "ptxas fatal   : Value 'sm_121a' is not defined for option 'gpu-name'",
        ),
        # The shell of a build without its compiler.
        (
            "RuntimeError: Ninja build failed. Ninja output:",
            "/bin/sh: 1: /usr/local/cuda/bin/nvcc: not found",
            "ninja: build stopped: subcommand failed.",
        ),
    ],
)
def test_a_failed_build_is_explained_by_its_first_error(lines):
    text = CORE.format(5, "EngineCore failed to start.") + "\n"
    text += "\n".join("(EngineCore pid=7) " + line for line in lines)
    (failure,) = of(Failure, events(START + text))
    firsts = (
        "/usr/bin/ld: cannot find -la",
        "ptxas fatal",
        "/bin/sh: 1: /usr/local/cuda",
    )
    assert failure.message.startswith(firsts)


def test_what_a_compiler_raised_stands_with_the_backend_that_raised_it():
    """torch `_dynamo/output_graph.py` ends its line in `raised:`."""
    lines = (
        CORE.format(5, "EngineCore failed to start."),
        CORE.format(5, "torch._dynamo.exc.BackendCompilerFailed: backend='x' raised:"),
        CORE.format(5, "AssertionError: failed to get the hash of the compiled graph"),
    )
    (failure,) = of(Failure, events(START + "\n".join(lines)))
    assert failure.message.endswith("failed to get the hash of the compiled graph")


@pytest.mark.parametrize(
    ("head", "below", "kind"),
    [
        ("PT_BRIDGE Exception in Launch thread...",
         "Check $HABANA_LOGS/ for detailsGraph compile failed. synStatus=26 [Generic failure].", "error"),
        ("PT_EAGER HabanaLaunchOpPT Run returned exception....",
         "Graph compile failed. synStatus=synStatus 26 [Generic failure].", "error"),
        ("PT_BRIDGE Exception in Lowering thread...",
         "Check $HABANA_LOGS/ for detailssynStatus=26 [Generic failure] Device acquire failed.", "error"),
        ("PT_BRIDGE Exception in Lowering thread...",
         "[Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::268435456 (256)MB",
         "out_of_memory"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("prefix", ["[rank0]: ", "ERROR 07-16 10:00:05 [core.py:866] "])
def test_an_error_of_the_gaudi_bridge_has_what_its_second_line_states(
    prefix, head, below, kind
):
    lines = (
        f"{prefix}RuntimeError: [Rank:0] FATAL ERROR :: MODULE:{head}",
        f"{prefix}{below}",
        f"{prefix}[Rank:0] Habana exception raised from compile at graph.cpp:599",
    )
    start = START.replace("device_config=cuda", "device_config=hpu")
    (failure,) = of(Failure, events(start + "\n".join(lines)))
    assert failure.failure == kind
    assert failure.message.endswith(below.split("details")[-1][-30:])


def test_what_an_assertion_refused_is_read_below_the_heading_of_pydantic():
    """pydantic prints the text of an AssertionError behind `Assertion failed, `."""
    lines = (
        API + "Traceback (most recent call last):",
        API + '  File "/x/vllm/engine/arg_utils.py", line 9, in create_engine_config',
        API
        + "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig",
        API
        + "  Assertion failed, block_size (2096) must be <= max_num_batched_tokens (2048). "
        "[type=assertion_error, input_value=ArgsKwargs((), {}), input_type=ArgsKwargs]",
    )
    (failure,) = of(Failure, events("\n".join(lines) + "\n"))
    assert failure.message == (
        "AssertionError: block_size (2096) must be <= max_num_batched_tokens (2048)."
    )


def test_memory_that_weights_were_made_in_is_of_loading():
    """vLLM `model_executor/layers/`: a layer makes its weights while the model is built."""
    frame = (
        '  File "/x/vllm/model_executor/layers/linear.py", line 202, in create_weights'
    )
    lines = (
        CORE.format(5, "EngineCore failed to start."),
        CORE.format(5, frame),
        CORE.format(5, "torch.OutOfMemoryError: CUDA out of memory."),
    )
    (failure,) = of(Failure, events(START + "\n".join(lines)))
    assert failure.phase == "load_model"


def test_the_stage_that_a_wrapper_states_is_that_of_the_cause():
    lines = (
        CORE.format(5, "EngineCore failed to start."),
        CORE.format(5, "torch.OutOfMemoryError: CUDA out of memory."),
        CORE.format(
            5,
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 256 "
            "dummy requests.",
        ),
    )
    (failure,) = of(Failure, events(START + "\n".join(lines)))
    assert failure.phase == "sampler_warmup"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("Illegal instruction (core dumped)", "error"),
        (
            "[pod:77] FATAL: UCX library was compiled with avx but CPU does not support it.",
            "error",
        ),
        ("./serve.sh: line 3: 77 Illegal instruction     (core dumped) vllm", "error"),
        (
            "ERROR 07-16 10:00:09 multiproc_worker_utils.py:120] Worker VllmWorkerProcess "
            "pid 5021 died, exit code: -9",
            "killed",
        ),
    ],
)
def test_a_process_that_a_signal_ended(line, kind):
    (failure,) = of(Failure, events(START + line + "\n"))
    assert failure.failure == kind


@pytest.mark.parametrize(
    "line", ["x.h:3:9: fatal error: y.h: No such file", "ld: error"]
)
def test_what_a_compiler_prints_alone_is_no_failure(line):
    assert of(Failure, events(START + line + "\n")) == []


def test_an_error_of_the_device_comes_before_the_crash_that_follows():
    text = "\n".join(
        (
            "(EngineCore pid=7) terminate called after throwing an instance of 'c10::Error'",
            "(EngineCore pid=7)   what():  CUDA error: an illegal memory access was encountered",
            "(EngineCore pid=7) Fatal Python error: Segmentation fault",
        )
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message == "CUDA error: an illegal memory access was encountered"


def test_a_process_that_aborts_follows_from_what_it_raised():
    text = "Fatal Python error: Aborted\n" + CORE.format(
        5, "RuntimeError: CUDA error: an illegal memory access was encountered"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message.startswith("RuntimeError: CUDA error")


def test_the_stage_of_a_kernel_that_does_not_compile_is_in_the_traceback_around_it():
    text = "\n".join(
        (
            CORE.format(5, "ValueError: arange's range must be a power of 2"),
            CORE.format(
                5, IN_VLLM.format("v1/worker/gpu_model_runner.py", "capture_model")
            ),
            CORE.format(5, "triton.compiler.errors.CompilationError: at 106:17:"),
        )
    )
    (failure,) = of(Failure, events(START + text))
    assert (failure.phase, failure.message[:10]) == ("graph_capture", "ValueError")


def test_what_the_compiler_raises_fails_in_the_compilation():
    """Also where lines of errors alone are there: a profiling run compiles the model."""
    frame = '  File "/x/torch/_inductor/compile_fx.py", line 974, in _compile_fx_inner'
    text = "\n".join(
        (
            CORE.format(5, "EngineCore failed to start."),
            CORE.format(5, IN_VLLM.format("v1/worker/gpu_worker.py", "profile_run")),
            CORE.format(5, frame),
            CORE.format(
                5,
                "torch._inductor.exc.InductorError: RuntimeError: CUDA out of memory.",
            ),
        )
    )
    (failure,) = of(Failure, events(text))
    assert (failure.failure, failure.phase) == ("out_of_memory", "compile")


def test_a_bucket_after_the_sampler_fails_in_its_own_phase():
    """`warmup_model` of vllm-gaudi v0.26.0: the sampler's part ends before the buckets."""
    head = "INFO 07-16 10:00:0{} [hpu_model_runner.py:3350] {}\n"
    log = (
        head.format(1, "Starting sampler warmup...")
        + head.format(2, "Sampler warmup completed successfully")
        + head.format(3, "[Warmup][Decode][1/2] batch_size:4 query_len:1 num_blocks:9 "
                         "free_mem:371 KiB")
        + "RuntimeError: FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::9\n"
    )  # fmt: skip
    failure = folded(events(log)).summary.failure
    assert (failure.phase, failure.bucket) == ("decode", (4, 1, 9))


def test_a_connection_that_an_engine_states_as_its_fatal_error_is_the_cause():
    text = "\n".join(
        (
            CORE.format(5, "EngineCore encountered a fatal error."),
            CORE.format(5, "Traceback (most recent call last):"),
            CORE.format(
                5, "ConnectionResetError: [Errno 104] Connection reset by peer"
            ),
            API + DEAD,
        )
    )
    (failure,) = of(ServingFailure, events(START + READY + text))
    assert failure.message.startswith("ConnectionResetError")


WARMING = (
    '  File "/x/vllm/v1/worker/gpu_worker.py", line 9, in compile_or_warm_up_model'
)


@pytest.mark.parametrize("head", ["", START])
def test_a_traceback_without_its_end_is_a_failure_of_unknown_cause(head):
    text = head + CORE.format(5, WARMING) + "\n" + CORE.format(5, "    self.x()") + "\n"
    (failure,) = of(Failure, events(text))
    assert (failure.phase, failure.line) == ("model_warmup", head.count("\n") + 1)
    words = cause_text(folded(events(text)).summary.failure)
    assert words.startswith("the log does not hold the cause")
    # The engine goes on, or the error itself follows.
    later = "(EngineCore pid=7) INFO 07-16 10:00:09 [core.py:273] init engine (profile, create kv "
    assert not of(
        Failure, events(text + later + "cache, warmup model) took 4.60 seconds\n")
    )
    (failure,) = of(Failure, events(text + CORE.format(5, "KeyError: 0") + "\n"))
    assert failure.message == "KeyError: 0"


def test_the_traceback_of_a_server_is_of_a_start_where_it_leads_through_one():
    """What it prints into another file than its log lines: no other line is there."""
    frames = '(APIServer pid=3)   File "/x/vllm/v1/engine/{}", line 9, in {}\n'
    text = (
        "(APIServer pid=3) Traceback (most recent call last):\n"
        + frames.format("core_client.py", "make_async_mp_client")
        + frames.format("utils.py", "launch_core_engines")
        + "(APIServer pid=3) RuntimeError: NUMA binding was requested; pass --numa-bind-nodes.\n"
    )
    (failure,) = of(Failure, events(text))
    assert failure.message.startswith("RuntimeError: NUMA binding")
    assert not read(text.replace("/x/vllm/", "/x/other/"))[0]


CANCELLED = (
    "slurmstepd: error: *** JOB 815 ON node7 CANCELLED AT 2026-07-16T11:00:00{} ***\n"
)


@pytest.mark.parametrize("why", ["", " DUE TO TIME LIMIT", " DUE TO PREEMPTION"])
def test_a_job_that_slurm_cancelled_was_stopped(why):
    line = CANCELLED.format(why)
    found = events(START + READY + line)
    (stop,) = of(ShutdownRequested, found)
    assert stop.message == line.strip()
    assert folded(found).summary.status == "finished"
    before = events(START + line)
    assert of(Failure, before) == []
    assert folded(before).summary.status == "stopped"


def test_what_failed_before_slurm_cancelled_the_job_is_the_cause():
    found = events(START + FAILED + "\n" + CANCELLED.format(" DUE TO TIME LIMIT"))
    assert of(ShutdownRequested, found) == []
    assert len(of(Failure, found)) == 1


ACTOR = (
    "(EngineActor pid=70) INFO 07-16 10:00:01 [core.py:116] Initializing a V1 LLM engine "
    "(v0.26.0) with config: model='a/b', device_config=cuda\n"
)
TRACE = (
    "({0}) Traceback (most recent call last):\n"
    '({0})   File "/x/y.py", line 3, in step\n'
    "({0}) TypeError: not what was expected\n"
)


def test_an_error_of_another_ray_actor_is_none_of_the_engine():
    found = events(ACTOR + TRACE.format("RewardWorker pid=90"))
    assert of(Failure, found) == []
    (failure,) = of(Failure, events(ACTOR + TRACE.format("EngineActor pid=71")))
    assert failure.message == "TypeError: not what was expected"
    assert len(of(Failure, events(ACTOR + TRACE.format("Worker_TP0 pid=90")))) == 1


def test_a_launcher_that_reports_its_child_is_no_cause():
    text = (
        START + CORE.format(5, "EngineCore failed to start.") + "\n"
        + API + "RuntimeError: Engine core initialization failed. See root cause above.\n"
        "subprocess.CalledProcessError: Command '['bash', '/run.sh']' returned non-zero "
        "exit status 1.\n"
    )  # fmt: skip
    (failure,) = of(Failure, events(text))
    assert "CalledProcessError" not in failure.message


def test_an_error_of_the_program_above_ray_actors_is_none_of_the_engine():
    driver = (
        "Traceback (most recent call last):\n"
        '  File "/x/train.py", line 3, in main\n'
        "ray.exceptions.RayTaskError(ValueError): ray::main() (pid=9)\n"
        "ValueError: not what was expected\n"
    )
    assert of(Failure, events(ACTOR + driver)) == []
    assert len(of(Failure, events(ACTOR.partition(") ")[2] + driver))) == 1
    of_engine = driver.replace(
        "ValueError: not", "RuntimeError: Engine core initialization failed. not"
    )
    assert len(of(Failure, events(ACTOR + of_engine))) == 1


def test_the_warm_up_of_the_second_model_runner_is_a_stage():
    text = "\n".join(
        (
            CORE.format(5, "EngineCore failed to start."),
            CORE.format(5, "Traceback (most recent call last):"),
            CORE.format(
                5, '  File "/x/vllm/v1/worker/gpu/warmup.py", line 1, in warmup_kernels'
            ),
            CORE.format(5, "RuntimeError: Could not find nvcc"),
        )
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.phase == "model_warmup"


def composed(*lines: str) -> str:
    """Lines of a start in one of two containers, then those of docker compose."""
    head = "".join(f"vllm-1  | {line}\n" for line in START.splitlines())
    return head + "".join(f"{line}\n" for line in ("redis-1 | ready", *lines))


@pytest.mark.parametrize(("line", "failure"), [
    ("vllm-1 exited with code 137", "killed"),
    ("vllm-1 exited with code 139", "error"),
    ("vllm-1 exited with code 1 (restarting)", "error"),
])  # fmt: skip
def test_a_container_that_ended_in_a_start_failed(line, failure):
    (found,) = of(Failure, events(composed(line)))
    assert (found.failure, found.message) == (
        failure,
        line.removesuffix(" (restarting)"),
    )


def test_what_was_printed_before_a_container_ended_is_the_cause():
    error = "vllm-1  | ValueError: no such thing"
    (found,) = of(Failure, events(composed(error, "vllm-1 exited with code 137")))
    assert found.message == "ValueError: no such thing"


@pytest.mark.parametrize("lines", [
    ("redis-1 exited with code 137",),
    ("vllm-2 exited with code 137",),
    ("vllm-1 exited with code 0",),
    ("vllm-1 exited with code 143",),
    ("Gracefully stopping... (press Ctrl+C again to force)", "vllm-1 exited with code 137"),
    ("redis-1 exited with code 1", "Aborting on container exit...",
     "vllm-1 exited with code 137"),
])  # fmt: skip
def test_a_container_that_was_stopped_or_is_another_one_failed_no_start(lines):
    assert of(Failure, events(composed(*lines))) == []


def test_the_end_of_a_container_is_no_failure_without_the_names_of_containers():
    assert of(Failure, events(f"{START}redis-1 exited with code 137\n")) == []


NOT_IMPORTED = (
    'Traceback (most recent call last):\n  File "{}", line 33, in {}\n    import absent\n'
    "{}\n"
)


@pytest.mark.parametrize("error", [
    "ModuleNotFoundError: No module named 'absent'",
    "ImportError: cannot import name 'b' from 'absent' (/x/absent.py)",
])  # fmt: skip
@pytest.mark.parametrize(("path", "function"), [
    ("/app/vllm/entrypoints/openai/api_server.py", "<module>"),
    ("vllm/entrypoints/cli/main.py", "<module>"),
    ("/x/site-packages/vllm/entrypoints/cli/main.py", "main"),
])  # fmt: skip
def test_a_program_of_vllm_that_lacks_a_module_alone_is_a_failed_start(
    path, function, error
):
    found = events(NOT_IMPORTED.format(path, function, error))
    (failure,) = of(Failure, found)
    assert failure.message == error
    assert len(of(RunStarted, found)) == 1


@pytest.mark.parametrize(("path", "function", "error"), [
    ("/x/site-packages/vllm/entrypoints/openai/api_server.py", "create_chat_completion",
     "ModuleNotFoundError: No module named 'absent'"),
    ("/x/site-packages/vllm/entrypoints/cli/main.py", "main", "ValueError: too late"),
    ("/app/entrypoints/openai/api_server.py", "<module>",
     "ModuleNotFoundError: No module named 'absent'"),
])  # fmt: skip
def test_other_errors_of_a_program_alone_are_no_start(path, function, error):
    runs, _ = read(NOT_IMPORTED.format(path, function, error).encode())
    assert runs == {}


def test_a_module_that_another_command_lacks_is_no_start():
    frame = '  File "/x/site-packages/vllm/entrypoints/cli/{}.py", line 9, in {}\n'
    error = "ImportError: no such library\n"
    above = "Traceback (most recent call last):\n" + frame.format("main", "main")
    assert (
        read((above + frame.format("benchmark/serve", "cmd") + error).encode())[0] == {}
    )
    assert len(read((above + frame.format("serve", "cmd") + error).encode())[0]) == 1


def test_a_driver_that_aborts_is_the_cause_of_a_worker_that_died():
    text = (
        "Abort was called at 84 line in file:\n../../neo/shared/source/stream.h\n"
        "Fatal Python error: Aborted\n\n" + CORE.format(5, "Worker proc VllmWorker-1 died")
        + " unexpectedly, shutting down executor.\n"
    )  # fmt: skip
    stated = "Abort was called at 84 line in file: ../../neo/shared/source/stream.h"
    (failure,) = of(ServingFailure, events(START + READY + text))
    assert failure.message == stated
    (failure,) = of(Failure, events(START + text))
    assert failure.message == stated
    cut = text.replace("../../neo/shared/source/stream.h\n", "")
    (failure,) = of(Failure, events(START + cut))
    assert failure.message == "Abort was called at 84 line in file"


@pytest.mark.parametrize("text", [
    "Memory access fault by GPU node-3 (Agent handle: 0x14e0) on address 0x7f00. Reason: "
    "Page not present or supervisor privilege.",
    "HW Exception by GPU node-1 (Agent handle: 0x14e0) reason :GPU Hang",
    "(Worker_TP3 pid=9) :0:rocdevice.cpp :3048: 6530112364 us: Callback: Queue 0x7f00 Aborting "
    "with error : HSA_STATUS_ERROR_MEMORY_APERTURE_VIOLATION: beyond. code: 0x29",
])  # fmt: skip
def test_what_the_runtime_of_rocm_ends_a_process_with_is_the_cause(text):
    gone = CORE.format(5, "Engine core initialization failed. See root cause above. ")
    gone = f"(APIServer pid=1) RuntimeError: {gone.rpartition('] ')[2]}"
    (failure,) = of(Failure, events(START + text + "\n" + gone))
    assert failure.message in text
    assert not failure.message.startswith("(")


def test_an_error_without_a_time_has_that_of_the_line_that_states_what_failed():
    aborted = "Abort was called at 84 line in file:\n../../neo/shared/source/stream.h\n"
    died = CORE.format(45, "Worker proc VllmWorker-1 died unexpectedly, shutting down.")
    found = events(START + READY + aborted + died + "\n")
    (failure,) = of(ServingFailure, found)
    (start,) = of(RunStarted, found)
    assert failure.time == start.time + 45


def test_what_the_inspection_of_a_model_raised_in_its_process_is_the_cause():
    line = "ERROR 07-16 10:00:02 [registry.py:361] "
    text = "".join(
        f"{line}{message}\n"
        for message in (
            "Error in inspecting model architecture 'LlamaForCausalLM'",
            "Traceback (most recent call last):",
            "subprocess.CalledProcessError: Command '['/env/bin/python', '-m', 'vllm."
            "model_executor.models.registry']' returned non-zero exit status 1.",
            "The above exception was the direct cause of the following exception:",
            "RuntimeError: Error raised in subprocess:",
            "Traceback (most recent call last):",
            "ImportError: libmissing.so.1: cannot open shared object file",
        )
    )
    refused = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        "  Value error, Model architectures ['LlamaForCausalLM'] failed to be inspected. "
        "Please check the logs for more details. [type=value_error]\n"
    )
    start = "INFO 07-16 10:00:00 [api_server.py:1289] vLLM API server version 0.9.1\n"
    for log in (start + text, start + text + refused):
        (failure,) = of(Failure, events(log))
        assert failure.message.startswith("ImportError: libmissing.so.1")


@pytest.mark.parametrize(
    "frame",
    [
        'runner/tpu_runner.py", line 9, in initialize_kv_cache',
        'worker/tpu_worker.py", line 9, in determine_available_memory',
    ],
)
def test_a_function_of_tpu_inference_shows_the_stage_that_failed(frame):
    """Its workers divide the memory without a profiling run."""
    text = "\n".join(
        (
            CORE.format(4, "EngineCore failed to start."),
            CORE.format(4, f'  File "/x/tpu-inference/tpu_inference/{frame}'),
            CORE.format(4, "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: E0100: x"),
        )
    )
    (failure,) = of(Failure, events(START + text + "\n"))
    assert failure.phase == "kv_cache"


def test_an_engine_that_its_client_stops_did_not_die():
    text = (
        START
        + "(EngineCore pid=7) INFO 07-16 10:00:40 [core.py:282] init engine (profile, "
        "create kv cache, warmup model) took 12.61 seconds\n"
        "(EngineCore pid=7) INFO 07-16 11:36:00 [core.py:1201] Shutdown initiated "
        "(timeout=0)\n"
        "(EngineCore pid=7) INFO 07-16 11:36:00 [core.py:1224] Shutdown complete\n"
        "ERROR 07-16 11:36:01 [core_client.py:704] Engine core proc EngineCore died "
        "unexpectedly, shutting down client.\n"
    )
    found = events(text)
    assert not of(Failure, found)
    assert not of(ServingFailure, found)
    assert [stop.message for stop in of(ShutdownRequested, found)] == [
        "Shutdown initiated (timeout=0)"
    ]


BEGUN = (
    API + "INFO 07-16 10:01:12 [api_server.py:677] Starting vLLM server on "
    "https://0.0.0.0:8000\n"
    + API + "INFO 07-16 10:01:12 [launcher.py:36] Available routes are:\n"
)  # fmt: skip
NO_CERTIFICATE = "".join(
    API + line + "\n"
    for line in (
        "Traceback (most recent call last):",
        '  File "/x/site-packages/vllm/entrypoints/launcher.py", line 59, in serve_http',
        "    config.load()",
        '  File "/x/site-packages/uvicorn/config.py", line 120, in create_ssl_context',
        "    ctx.load_cert_chain(certfile, keyfile, get_password)",
        "FileNotFoundError: [Errno 2] No such file or directory",
    )
)
NOT_BOUND = (
    "ERROR:    [Errno 98] error while attempting to bind on address ('0.0.0.0', 8000): "
    "address already in use\n"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BEGUN + NO_CERTIFICATE, "FileNotFoundError: [Errno 2] No such file"),
        (BEGUN + STOP + NO_CERTIFICATE, "FileNotFoundError: [Errno 2] No such file"),
        (
            BEGUN + "ERROR:    Application startup failed. Exiting.\n",
            "ERROR:    Application",
        ),
        (READY + NOT_BOUND, "[Errno 98] error while attempting to bind on"),
    ],
    ids=["certificate", "engine-stopped-first", "lifespan", "bound-by-uvicorn"],
)
def test_a_server_that_fails_behind_the_line_that_it_starts_is_a_failed_start(
    text, message
):
    summary = folded(events(START + text)).summary
    assert summary.status == "failed"
    assert summary.failure.message.startswith(message)
    assert summary.time.ready_at is None
    assert (summary.serving, summary.progress.stage) == (None, "server_start")


@pytest.mark.parametrize(
    "text",
    [
        BEGUN,
        BEGUN + "RuntimeError: Response content shorter than Content-Length\n",
        BEGUN + READY + NO_CERTIFICATE,
        READY + "INFO:     127.0.0.1:1 - x\n" * 9 + NOT_BOUND,
    ],
    ids=["quiet", "quiet-and-a-request", "another-program", "long-after"],
)
def test_the_line_that_a_server_starts_is_enough_where_nothing_else_is_printed(text):
    found = events(START + text)
    assert of(Failure, found) == of(ServingFailure, found) == []
    assert folded(found).summary.status == "finished"


def test_a_report_of_pytest_is_nobodys_failure():
    lines = (
        "E   ValueError: boom",
        "E   RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed "
        "for size::268435456 (256)MB",
        "E   subprocess.SubprocessError: the server was killed by SIGKILL",
    )
    found = events(START + "\n".join(lines))
    assert of(Failure, found) == []


GRAPHS = (
    "(EngineCore pid=7) INFO 07-16 10:09:00 [gpu_model_runner.py:3480] Graph capturing "
    "finished in 18 secs, took 0.59 GiB\n"
)
STATISTICS = (
    API + "INFO 07-16 10:30:00 [loggers.py:127] Engine 000: Avg prompt throughput: 12.0 "
    "tokens/s, Avg generation throughput: 55.1 tokens/s, Running: 1 reqs, Waiting: 0 reqs, "
    "GPU KV cache usage: 0.1%\n"
)  # fmt: skip


@pytest.mark.parametrize("lines", ["", GRAPHS], ids=["early", "warmed-up"])
def test_a_start_that_was_stopped_before_it_was_ready_never_served(lines):
    summary = folded(events(START + lines + STOP)).summary
    assert (summary.status, summary.serving) == ("stopped", None)
    assert summary.stop.startswith("[shutdown] EngineCore: trigger received signal")
    first = start_sentences(summary)[0]
    assert "before it was ready: [shutdown] EngineCore" in first
    assert serving_sentences(summary) == []


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (START + STATISTICS + STOP, "finished"),
        (START + "...\n" + STOP, "unknown"),
        (START.partition("\n")[2] + GRAPHS + STOP, "finished"),
        (START + READY + STOP, "finished"),
    ],
    ids=["at-work", "cut", "a-program-of-its-own", "ready"],
)
def test_a_stop_of_what_may_have_served_is_no_stop_of_a_start(text, status):
    summary = folded(events(text)).summary
    assert (summary.status, summary.stop) == (status, None)
    assert summary.serving.end.kind == "shutdown"
    (sentence,) = serving_sentences(summary)
    is_ready = READY in text or STATISTICS in text
    assert sentence.startswith("Serving ended: stopped" if is_ready else "Stopped, ")


def test_an_engine_that_compiled_kernels_for_requests_had_started():
    """Its monitor is activated after the warm-up (vLLM `utils/jit_monitor.py`)."""
    jit = (
        "(EngineCore pid=7) WARNING 07-16 10:00:05 [jit_monitor.py:103] Triton kernel JIT "
        "compilation during inference: _fwd_kernel. This causes a latency spike\n"
    )
    trace = "Traceback (most recent call last):\nAttributeError: no such attribute\n"
    summary = folded(events(START + jit + trace)).summary
    assert (summary.status, summary.failure) == ("finished", None)
    assert summary.time.wall_s is None
    assert folded(events(START + trace)).summary.status == "failed"


def test_a_connector_that_is_not_made_is_no_error_of_connecting_ranks():
    """Up to vLLM 0.11 it is made in the function that connects them (`gpu_worker.py`)."""
    path = 'File "/x/vllm/{}", line 9, in {}'
    frames = [
        ("v1/worker/gpu_worker.py", "init_device"),
        ("v1/worker/gpu_worker.py", "init_worker_distributed_environment"),
        (
            "distributed/kv_transfer/kv_transfer_state.py",
            "ensure_kv_transfer_initialized",
        ),
        ("distributed/kv_transfer/kv_connector/factory.py", "create_connector"),
    ]
    lines = [
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        *(f"  {path.format(file, name)}" for file, name in frames),
        "RuntimeError: NIXL is not available",
    ]
    text = START + "".join(CORE.format(5, line) + "\n" for line in lines)
    (failure,) = of(Failure, events(text))
    assert failure.phase == "kv_connector"
    (sentence, *_) = start_sentences(folded(events(text)).summary)
    assert "in making the KV connector" in sentence


@pytest.mark.parametrize(
    ("before", "phase"),
    [
        ("INFO 02-04 23:56:10 [hpu_model_runner.py:5023] Multimodal bucket : [256, 512]\n",
         "model_warmup"),
        ("INFO 02-04 23:56:10 [hpu_model_runner.py:2679] [Warmup][Graph/decode][1/2] "
         "batch_size:4 query_len:1 num_blocks:128 free_mem:21.06 GiB\n", "decode"),
    ],
)  # fmt: skip
def test_the_warm_up_of_gaudi_is_the_stage_where_no_line_shows_a_part_of_it(
    before, phase
):
    text = f"{before}Traceback (most recent call last):\n" + (
        '  File "/x/vllm_gaudi/v1/worker/hpu_model_runner.py", line 5052, in warmup_model\n'
        '    raise AssertionError("no")\n'
        "AssertionError: no\n"
    )
    (found,) = of(Failure, events(text))
    assert found.phase == phase


IGNORED = """\
Exception ignored in: <function HPUModelRunner.__del__ at 0x7f11eff56440>
Traceback (most recent call last):
  File "/x/hpu_model_runner.py", line 3130, in __del__
ImportError: sys.meta_path is None, Python is likely shutting down
"""


@pytest.mark.parametrize("is_before", [False, True])
def test_an_error_that_python_ignores_is_no_cause(is_before):
    raised = "Traceback (most recent call last):\nValueError: no room for the weights\n"
    start = "INFO 06-04 09:00:00 [core.py:9] Initializing a V1 LLM engine (v0.9.1) with config: x\n"
    assert of(Failure, read(start + IGNORED)[0][0]) == []
    text = start + (IGNORED + raised if is_before else raised + IGNORED)
    (failure,) = of(Failure, read(text)[0][0])
    assert failure.message == "ValueError: no room for the weights"


CHAINS = [
    (
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "During handling of the above exception, another exception occurred:",
        "OSError: the config file at '/m/config.json' is not a valid JSON file.",
        "OSError: the config file at '/m/config.json' is not a valid JSON file.",
    ),
    (
        "KeyError: 'new_model'",
        "During handling of the above exception, another exception occurred:",
        "ValueError: model type `new_model` is not recognized",
        "ValueError: model type `new_model` is not recognized",
    ),
    (
        "KeyError: 'layers.0.weight_scale'",
        "During handling of the above exception, another exception occurred:",
        "RuntimeError: Engine core initialization failed. See root cause above.",
        "KeyError: 'layers.0.weight_scale'",
    ),
    (
        "ImportError: libcudart.so.12: cannot open shared object file",
        "The above exception was the direct cause of the following exception:",
        "RuntimeError: Failed to import the model",
        "ImportError: libcudart.so.12: cannot open shared object file",
    ),
]


@pytest.mark.parametrize(("first", "between", "second", "cause"), CHAINS)
@pytest.mark.parametrize(
    "head", ["", "(EngineCore pid=7) ERROR 06-04 09:00:00 [core.py:9] "]
)
def test_a_key_that_was_looked_for_is_named_by_the_error_that_follows(
    head, first, between, second, cause
):
    start = "INFO 06-04 09:00:00 [core.py:9] Initializing a V1 LLM engine (v0.9.1) with config: x\n"
    lines = ["Traceback (most recent call last):", first, "", between, "",
             "Traceback (most recent call last):", second]  # fmt: skip
    found = read(start + "".join(f"{head}{line}\n" for line in lines))[0][0]
    (failure,) = of(Failure, found)
    assert failure.message == cause


MADE = (
    "(EngineCore pid=7) INFO 07-16 10:00:02 [kv_cache_utils.py:1337] GPU KV cache size: "
    "1,600 tokens\n"
    "(EngineCore pid=7) INFO 07-16 10:00:04 [core.py:298] init engine (profile, create kv "
    "cache, warmup model) took 2.50 s\n"
)
RAN_OUT = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
EXECUTES = IN_VLLM.format("v1/worker/gpu_worker.py", "execute_model") + "\n"
WARMS = IN_VLLM.format("v1/worker/gpu/warmup.py", "warmup_kernels") + "\n"
LOAD = (
    "(APIServer pid=1) INFO 07-16 10:00:09 [loggers.py:310] Engine 000: Avg prompt "
    "throughput: 3.0 tokens/s, Avg generation throughput: 4.0 tokens/s, Running: 1 reqs, "
    "Waiting: 0 reqs, GPU KV cache usage: 5.7%, Prefix cache hit rate: 0.0%\n"
)


@pytest.mark.parametrize(
    ("text", "served"),
    [
        # The model runs for requests alone once what warms it up is over.
        (MADE + EXECUTES + RAN_OUT, True),
        (MADE + WARMS + EXECUTES + RAN_OUT, False),
        (EXECUTES + RAN_OUT, False),
        (MADE + RAN_OUT, False),
        # Statistics are printed of a server that is ready.
        (MADE + LOAD + RAN_OUT, True),
    ],
)
def test_the_innermost_functions_of_a_traceback_show_an_engine_at_work(text, served):
    found = events(START + text + "\n")
    assert (len(of(ServingFailure, found)), len(of(Failure, found))) == (
        (1, 0) if served else (0, 1)
    )


def test_a_traceback_through_the_model_alone_is_of_no_start():
    assert read((EXECUTES + RAN_OUT + "\n").encode())[0] == {}


def test_a_traceback_with_a_rank_is_that_of_the_engine_that_prints_none():
    """torch puts a rank before what a process raised, and vLLM only where it has workers."""
    found = folded(
        events(
            "INFO 07-16 10:00:00 [core.py:71] Initializing a V1 LLM engine (v0.26.0) with "
            "config: model='m'\n"
            "\rDecode warmup processing:   0%|  | 0/2 [00:00<?, ?item/s]\n"
            "[Warmup][Decode][1/2] batch_size:12 query_len:1 num_blocks:72 free_mem:9 GiB\n"
            "[rank0]: Traceback (most recent call last):\n"
            '[rank0]:   File "/x/vllm_gaudi/v1/worker/hpu_model_runner.py", line 6, in '
            "warmup_model\n"
            "[rank0]:     self.warmup_graphs(\n"
            '[rank0]:   File "/x/vllm/ngram_proposer.py", line 1, in propose\n'
            '[rank0]:     raise IndexError("index 4 is out of bounds")\n'
            "[rank0]: IndexError: index 4 is out of bounds\n"
        )
    )
    failure = found.summary.failure
    assert (failure.phase, failure.bucket) == ("decode", (12, 1, 72))
    assert failure.message == "IndexError: index 4 is out of bounds"


def test_a_worker_of_v0_names_its_method_above_the_traceback():
    """0.9 `executor/multiproc_worker_utils.py _run_worker_process`."""
    line = (
        "(VllmWorkerProcess pid=7) ERROR 08-04 16:54:59 multiproc_worker_utils.py:238] "
    )
    text = (
        f"{line}Exception in worker VllmWorkerProcess while processing method "
        f"determine_num_available_blocks.\n{line}torch.OutOfMemoryError: CUDA out of memory. "
        "Tried to allocate 20.00 GiB.\n"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.phase == "profile_run"


def test_what_triton_prints_below_a_kernel_is_the_rest_of_its_error():
    """Triton `compiler/errors.py CompilationError`: place, source, and what was raised."""
    text = "\n".join(
        CORE.format(5, line)
        for line in (
            "triton.compiler.errors.CompilationError: at 1:0:",
            "def some_kernel(",
            "^",
            "ValueError(\"type fp8e9 not supported in this architecture. Only ('a', 'b')\")",
        )
    )
    (failure,) = of(Failure, events(START + text + "\n"))
    assert failure.message == (
        "triton.compiler.errors.CompilationError: at 1:0: ValueError: type fp8e9 not supported "
        "in this architecture. Only ('a', 'b')"
    )


def test_an_error_without_a_name_of_its_own_is_one():
    (failure,) = of(Failure, events(START + "Exception: data did not match\n"))
    assert failure.message == "Exception: data did not match"


def test_a_collective_that_timed_out_ends_the_start():
    text = (
        "[rank1]:[E428 12:40:21.113 ProcessGroupNCCL.cpp:629] [Rank 1] Watchdog caught "
        "collective operation timeout: WorkNCCL(SeqNum=1) ran for 600029 milliseconds.\n"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message.startswith("Watchdog caught collective")


@pytest.mark.parametrize(
    "path",
    [
        "/x/vllm/_C.abi3.so",
        "/x/habana_frameworks/torch/lib/libhabana_pytorch_plugin.so",
    ],
)
def test_a_compiled_part_of_vllm_that_does_not_load_is_of_a_start(path):
    text = (
        'Traceback (most recent call last):\n  File "/x/a.py", line 1, in <module>\n'
        f"ImportError: {path}: undefined symbol: _ZN3c104SomeEv\n"
    )
    (failure,) = of(Failure, events(text))
    assert "undefined symbol" in failure.message


@pytest.mark.parametrize("between", ["", "           ^^^^^^^^^^^\n"])
def test_an_assertion_without_a_text_has_its_line_of_source(between):
    text = (
        f"{CORE.format(5, '    assert some_tensors is not None')}\n"
        + (CORE.format(5, between) if between else "")
        + f"{CORE.format(5, 'AssertionError')}\n"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message == "AssertionError: assert some_tensors is not None"


def test_an_assertion_that_is_far_above_is_of_another_error():
    lines = ["    assert x"] + ['  File "/x/core.py", line 1, in run'] * 4
    text = "\n".join(CORE.format(5, line) for line in [*lines, "AssertionError"])
    (failure,) = of(Failure, events(START + text + "\n"))
    assert failure.message == "AssertionError"


def test_the_innermost_file_of_a_package_is_kept():
    lines = [
        '  File "/x/site-packages/vllm/v1/worker/gpu_worker.py", line 1, in load_model',
        '  File "/x/site-packages/vllm/lora/layers.py", line 2, in apply',
        '  File "/x/site-packages/flashinfer/jit/core.py", line 3, in load',
        '  File "/x/site-packages/torch/nn/modules/module.py", line 4, in _call_impl',
        "RuntimeError: it is 3, not 4",
    ]
    text = "\n".join(CORE.format(5, line) for line in lines)
    (failure,) = of(Failure, events(START + text + "\n"))
    assert failure.module == "flashinfer/jit/core.py"
    assert failure.phase == "load_model"


def test_the_innermost_file_of_a_package_is_kept_while_serving():
    lines = [
        "EngineCore encountered a fatal error.",
        '  File "/x/site-packages/flashinfer/jit/core.py", line 3, in load',
        "RuntimeError: it is 3, not 4",
    ]
    served = "(APIServer pid=1) INFO:     127.0.0.1:51 - GET /health 200 OK\n" * 20_000
    text = START + "INFO:     Application startup complete.\n" + served
    text += "\n".join(CORE.format(5, line) for line in lines)
    (failure,) = of(ServingFailure, events(text + "\n"))
    assert failure.module == "flashinfer/jit/core.py"


@pytest.mark.parametrize("between", ["", "\n"])
@pytest.mark.parametrize("prefix", [CORE.format(5, ""), API])
def test_what_to_do_on_a_line_below_an_error_is_part_of_it(prefix, between):
    blank = prefix + between if between else ""
    text = (
        f"{prefix}ValueError: The form is not known.\n{blank}"
        f"{prefix}Please pass `--some-form=b`.\n{prefix}and this is not of it\n"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message == (
        "ValueError: The form is not known. Please pass `--some-form=b`."
    )


@pytest.mark.parametrize(
    "later",
    [
        "(EngineCore pid=2) WARNING 07-16 10:20:00 [config.py:1] Please set A to 2.\n",
        "(EngineCore pid=2) INFO 07-16 10:00:09 [loader.py:1] Use 4 threads for reading\n",
        "(EngineCore pid=2) Please restart it.\n",
    ],
)
def test_only_what_an_error_orders_itself_belongs_to_it(later):
    text = "(EngineCore pid=2) ERROR 07-16 10:00:00 [core.py:1] ValueError: it is too small\n"
    (failure,) = of(Failure, events(text + later))
    assert failure.message == "ValueError: it is too small"
    order = (
        "(EngineCore pid=2) ERROR 07-16 10:00:00 [core.py:1] Please raise it to 4.\n"
    )
    (failure,) = of(Failure, events(text + order))
    assert failure.message == "ValueError: it is too small; Please raise it to 4."


def test_the_list_below_an_order_is_part_of_it():
    below = "Please verify:\n1. Provide an ID.\n2. Name a folder.\n - with a file\nand so on\n"
    text = API + ("ValueError: no such model.\n" + below).replace("\n", f"\n{API}")
    (failure,) = of(Failure, events(START + text + "\n"))
    assert failure.message == (
        "ValueError: no such model. Please verify: 1. Provide an ID. 2. Name a folder. "
        "- with a file"
    )


def test_many_orders_below_an_error_are_not_all_joined():
    head = "(EngineCore pid=2) ERROR 07-16 10:00:00 [core.py:1] "
    text = f"{head}ValueError: bad\n" + f"{head}Please do x\n" * 5000
    (failure,) = of(Failure, events(text))
    assert failure.message.count("Please") == MAX_DETAILS


@pytest.mark.parametrize(
    "cut", ["[", "53:19 [", "30 10:53:19 [", "RROR 06-30 10:53:19 ["]
)
def test_a_copy_that_begins_within_a_line_has_the_cause_there(cut):
    head = "ERROR 06-30 10:53:19 [core.py:515] "
    text = (
        f"{head}EngineCore failed to start.\n{head}Traceback (most recent call last):\n"
    )
    error = f"{cut}multiproc_executor.py:492] ValueError: no such kernel\n"
    (failure,) = of(Failure, events(error + text))
    assert (failure.message, failure.line) == ("ValueError: no such kernel", 1)
    # Long before, it is another one.
    (failure,) = of(Failure, events(error + "text\n" * 300 + text))
    assert failure.message == "EngineCore failed to start."


def test_what_a_client_of_v0_prints_behind_its_engine_is_no_cause():
    head = "INFO 12-02 23:35:11 llm_engine.py:249] Initializing an LLM engine (v0.6.4) with "
    text = (
        f"{head}config: model='a/b', device_config=cuda\n"
        "Task exception was never retrieved\nTraceback (most recent call last):\n"
        "zmq.error.ZMQError: Operation not supported\n"
        "^CRuntimeError: Engine process failed to start. See stack trace for the root cause.\n"
    )
    (failure,) = of(Failure, events(text))
    assert failure.message.startswith("RuntimeError: Engine process failed to start")


def test_what_a_worker_raised_ends_a_start_though_its_traceback_is_cut():
    head = "(Worker_TP0 pid=9) ERROR 07-16 10:00:05 [multiproc_executor.py:596] "
    cache = (
        "(EngineCore pid=7) INFO 07-16 10:00:03 [kv_cache_utils.py:849] GPU KV cache size: "
        "305,808 tokens\n"
    )
    text = f"{cache}{head}WorkerProc hit an exception.\n{head}Traceback (most re\n"
    (failure,) = of(Failure, events(START + text))
    assert failure.message == "WorkerProc hit an exception."
    served = events(START + cache + READY + text)
    assert not of(Failure | ServingFailure, served)
    assert not of(Failure, events(START + text + READY))


def test_a_traceback_that_is_over_has_no_part_in_a_later_error():
    head = "(EngineCore pid=2) {} 07-16 10:00:0{} [{}] "
    frame = '  File "/x/site-packages/flashinfer/jit/core.py", line 98, in load\n'
    text = head.format("INFO", 0, "core.py:1")
    text += "Initializing a V1 LLM engine (v0.26.0) with config: model='a/b', seed=0\n"
    text += head.format("WARNING", 1, "x.py:1") + frame
    error = head.format("ERROR", 9, "core.py:1") + "RuntimeError: out of entries\n"
    (failure,) = of(Failure, events(text + error))
    assert failure.module == "flashinfer/jit/core.py"
    loaded = head.format("INFO", 5, "gpu_model_runner.py:1")
    loaded += "Model loading took 2.5 GiB and 1.5 seconds\n"
    (failure,) = of(Failure, events(text + loaded + error))
    assert failure.module is None
    other = head.format("DEBUG", 5, "y.py:1") + "nothing\n"
    (failure,) = of(Failure, events(text + other * 20 + error))
    assert failure.module is None


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 0 has "
    "a total capacity of 23.50 GiB of which 40.00 MiB is free."
)
RECORDS = (
    '  File "/x/site-packages/vllm/compilation/cuda_graph.py", line 320, in __call__',
    "    output = self.runnable(*args, **kwargs)",
    '  File "/x/site-packages/torch/nn/functional.py", line 71, in linear',
)
RUNS = (RECORDS[0], "    return self.runnable(*args, **kwargs)", RECORDS[2])
LEAVES = ('  File "/x/site-packages/torch/cuda/graphs.py", line 97, in capture_end',)
PROFILES = (
    '  File "/x/site-packages/vllm/v1/worker/gpu_worker.py", line 9, in profile_run',
)


@pytest.mark.parametrize(
    ("frames", "phase"),
    [
        (RECORDS, "graph_capture"),
        (LEAVES, "graph_capture"),
        (RUNS, None),
        (PROFILES + RECORDS, "profile_run"),
        (PROFILES + RUNS, "profile_run"),
    ],
)
def test_memory_that_ran_out_while_a_graph_was_recorded(frames, phase):
    lines = ("EngineCore failed to start.", *frames, OOM)
    text = "".join(CORE.format(5, f"{line}\n") for line in lines)
    (failure,) = of(Failure, events(text))
    assert (failure.failure, failure.phase) == ("out_of_memory", phase)


PROGRAM = "(MainProcess pid=3) ERROR 07-16 11:00:00 [utils.py:599] {}\n"


def of_servers(cause):
    """What the program of several API servers prints when a process of theirs ends."""
    lines = (
        f"Exception occurred while running API servers: {cause}",
        "Traceback (most recent call last):",
        '  File "/x/vllm/v1/utils.py", line 9, in wait_for_completion_or_failure',
        f"RuntimeError: {cause}",
    )
    return "".join(map(PROGRAM.format, lines))


OF_SERVERS = of_servers("Engine core process EngineCore_DP1 died unexpectedly.")


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(
    "cause",
    [
        "Engine core process EngineCore_DP1 died unexpectedly.",
        "Process ApiServer_1 (PID: 4711) died with exit code None",
    ],
)
def test_what_ends_serving_is_printed_before_other_processes_are_stopped(
    cause, is_first
):
    """The program of several API servers stops them, and the engines that are left."""
    parts = [of_servers(cause), STOP] if is_first else [STOP, of_servers(cause)]
    end = folded(events(START + READY + "".join(parts))).summary.serving.end
    assert end.kind == ("error" if is_first else "shutdown")
    assert is_first == (cause in end.message)


def test_the_process_that_ended_first_is_what_failed():
    """Its core cancels what it waits for, and the process of an API server ends with it."""
    gone = (
        "(EngineCore pid=7) ERROR 07-16 10:30:00 [multiproc_executor.py:314] Worker proc "
        "VllmWorker-0 died unexpectedly (exit code: None), shutting down executor.\n"
        "(EngineCore pid=7) ERROR 07-16 10:30:00 [core.py:1368] EngineCore encountered a "
        "fatal error.\n"
        "(EngineCore pid=7) ERROR 07-16 10:30:00 [core.py:1368] RuntimeError: cancelled\n"
    )
    server = of_servers("Process ApiServer_0 (PID: 4711) died with exit code None")
    end = folded(events(START + READY + gone + server)).summary.serving.end
    assert end.kind == "error"
    assert end.message.startswith("Worker proc VllmWorker-0 died unexpectedly")


REFUSED = (
    "(Worker pid=9) ERROR 07-16 10:30:00 [multiproc_executor.py:1063] WorkerProc hit an "
    "exception.\n"
    "(Worker pid=9) ERROR 07-16 10:30:00 [multiproc_executor.py:1063] FileNotFoundError: "
    "[Errno 2] No such file or directory: '/a/adapter_config.json'\n"
    "(EngineCore pid=7) ERROR 07-16 10:30:00 [core.py:1750] Invocation of add_lora method "
    "failed\n"
    "(EngineCore pid=7) ERROR 07-16 10:30:00 [core.py:1750] Traceback (most recent call "
    "last):\n"
    "(EngineCore pid=7) ERROR 07-16 10:30:00 [core.py:1750] RuntimeError: Worker failed "
    "with error 'no adapter', please check the stack trace above for the root cause\n"
)
"""What `POST /v1/load_lora_adapter` prints for an adapter that is not there."""


@pytest.mark.parametrize(
    ("behind", "kind"),
    [("", None), (STOP, "shutdown"), (OF_SERVERS, "error"), (FAILED, "error")],
    ids=["goes on", "is stopped", "loses its core", "fails"],
)
def test_a_call_that_failed_is_an_answer_and_no_end_of_serving(behind, kind):
    serving = folded(events(START + READY + REFUSED + behind)).summary.serving
    end = serving and serving.end
    assert (end and end.kind) == kind
    assert end is None or "adapter" not in end.message


def test_a_call_that_failed_in_the_start_may_end_it():
    """The server loads the adapters that it is given."""
    end = "(APIServer pid=1) ValueError: Loading lora a failed\n"
    summary = folded(events(START + REFUSED + end)).summary
    assert summary.failure.message.startswith("FileNotFoundError")


def test_the_run_that_compiles_on_a_cpu_is_the_warm_up_of_the_model():
    """`CPUWorker.determine_available_memory` calls it."""
    worker = "(Worker pid=9) ERROR 07-16 10:00:05 [multiproc_executor.py:1063] {}\n"
    lines = (
        "WorkerProc hit an exception.",
        "Traceback (most recent call last):",
        '  File "/x/vllm/v1/worker/cpu_worker.py", line 9, in determine_available_memory',
        '  File "/x/vllm/v1/worker/cpu_model_runner.py", line 9, in warming_up_model',
        "OSError: [Errno 30] Read-only file system: '/cache/a'",
    )
    end = "(APIServer pid=1) RuntimeError: Engine core initialization failed.\n"
    text = START + "".join(map(worker.format, lines)) + end
    assert folded(events(text)).summary.failure.phase == "model_warmup"


REFUSAL = (
    "pydantic_core._pydantic_core.ValidationError: 1 validation error for QuantArgs",
    "  Value error, group_size must be 128 [type=value_error, input_value={'a': 1}, "
    "input_type=dict]",
)


@pytest.mark.parametrize(
    ("frame", "phase"),
    [("load_model", "load_model"), ("create_engine_config", "configure")],
)
def test_what_pydantic_refuses_is_a_setting_unless_another_stage_reads_it(frame, phase):
    lines = (
        "EngineCore failed to start.",
        "Traceback (most recent call last):",
        f'  File "/x/vllm/v1/worker/gpu_model_runner.py", line 9, in {frame}',
        *REFUSAL,
    )
    text = START + "".join(f"{CORE.format(5, line)}\n" for line in lines)
    failure = folded(events(text)).summary.failure
    assert failure.message == "ValueError: group_size must be 128"
    assert failure.phase == phase


def test_what_pydantic_refuses_in_another_program_is_no_start():
    lines = (
        "Traceback (most recent call last):",
        '  File "/app/main.py", line 12, in <module>',
        *REFUSAL,
    )
    runs, _ = read("".join(f"{line}\n" for line in lines))
    assert runs == {}


@pytest.mark.parametrize(
    ("number", "kind"), [("SIGINT", "shutdown"), ("SIGTERM", "error")]
)
def test_a_worker_may_end_by_ctrl_c_before_its_engine_prints_it(number, kind):
    """Of SIGTERM it is unknown whether a person sent it, or what stops the rest."""
    gone = (
        "(EngineCore pid=7) ERROR 07-16 10:30:00 [multiproc_executor.py:9] Worker proc "
        "VllmWorker-0 died unexpectedly, shutting down executor.\n"
        "(EngineCore pid=7) INFO 07-16 10:30:00 [core.py:1214] [shutdown] EngineCore: "
        f"trigger received signal={number}\n"
    )
    assert folded(events(START + READY + gone)).summary.serving.end.kind == kind


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("ValueError: Head dimension 80 is not supported by MLA.", "error"),
        ("RuntimeError: cancelled", "shutdown"),
    ],
)
def test_an_engine_that_failed_is_stopped_and_was_not_by_request(cause, kind):
    """A process at whose queue another one ended has an error as well."""
    failed = "".join(
        f"(EngineCore pid=7) ERROR 07-16 10:30:00 [core.py:1512] {text}\n"
        for text in ("EngineCore encountered a fatal error.", cause)
    )
    stopped = (
        "(APIServer pid=1) INFO 07-16 10:30:00 [launcher.py:254] [shutdown] API server: "
        "shutdown triggered\n"
    )
    end = folded(events(START + READY + failed + stopped)).summary.serving.end
    assert end.kind == kind


def test_the_bucket_of_a_failure_is_that_of_the_worker_that_failed():
    """Others are a step ahead, or still before their first one."""
    step = (
        "INFO 05-12 09:00:0{} hpu_model_runner.py:1428] [Warmup][Prompt][{}/3] "
        "batch_size:1 seq_len:{} free_mem:9 GiB\n"
    )
    worker = "(VllmWorkerProcess pid=302) "
    cache = worker + (
        "INFO 05-12 09:00:00 hpu_worker.py:208] Initializing cache engine took 5 GiB of "
        "device memory (21 GiB/94.62 GiB used) and 2 GiB of host memory (9 GiB/99 GiB used)\n"
    )
    error = worker + (
        "ERROR 05-12 09:00:04 multiproc_worker_utils.py:231] RuntimeError: Graph compile "
        "failed. synStatus=synStatus 26 [Generic failure].\n"
    )
    end = "RuntimeError: Engine process failed to start. See stack trace for the root cause.\n"
    ahead = step.format(1, 1, 384) + step.format(3, 2, 256)
    failure = folded(events(ahead + worker + step.format(1, 1, 384) + error + end))
    assert failure.summary.failure.bucket == (1, 384)
    failure = folded(events(cache + ahead + error + end)).summary.failure
    assert (failure.bucket, failure.phase) == (None, None)


def test_the_bucket_of_a_failure_without_a_rank_is_that_of_all():
    step = (
        "(Worker_TP{} pid={}) INFO 05-12 09:00:0{} [hpu_model_runner.py:1] "
        "[Warmup][Prompt][{}/3] batch_size:1 query_len:{} num_blocks:0 free_mem:9 GiB\n"
    )
    both = "".join(step.format(n, 300 + n, 1, 1, 384) for n in range(2))
    end = (
        "(EngineCore pid=200) ERROR 05-12 09:00:05 [core.py:935] EngineCore failed to start.\n"
        "(EngineCore pid=200) ERROR 05-12 09:00:05 [core.py:935] RuntimeError: cancelled\n"
    )
    assert folded(events(both + end)).summary.failure.bucket == (1, 384, 0)
    apart = both + step.format(0, 300, 3, 2, 256)
    assert folded(events(apart + end)).summary.failure.bucket is None


def test_a_bar_of_another_rank_is_not_what_failed():
    """It is drawn into the line in which the error of a rank that lags behind begins."""
    line = "(Worker_TP{0} pid=30{0}) {1} 05-12 04:53:0{2} [hpu_model_runner.py:1] {3}\n"
    text = (
        line.format(0, "INFO", 1, "Warming up sampler with batch sizes: [1, 2] and following configs:")
        + line.format(1, "INFO", 1, "Warming up sampler with batch sizes: [1, 2] and following configs:")
        + line.format(0, "INFO", 2, "Starting sampler warmup...")
        + line.format(1, "INFO", 2, "Starting sampler warmup...")
        + line.format(1, "INFO", 8, "Sampler warmup completed successfully")
        + "(Worker_TP1 pid=301) \rPrompt warmup processing:   0%|     | 0/112 [00:00<?, ?item/s]"
        + line.format(0, "ERROR", 8, "WorkerProc hit an exception.")
        + line.format(0, "ERROR", 8, "RuntimeError: Graph compile failed. synStatus=synStatus 26")
        + "(EngineCore pid=200) ERROR 05-12 04:53:09 [core.py:935] EngineCore failed to start.\n"
    )  # fmt: skip
    assert folded(events(text)).summary.failure.phase == "sampler_warmup"


def test_what_fails_under_the_bar_of_decodes_is_no_prompt():
    """States of the bar before it were lost, as where others draw into the same line."""
    bar = "(EngineCore pid=7) \r{} warmup processing:   0%|     | {}/9 [00:00<?, ?item/s]\n"
    error = (
        "(EngineCore pid=7) ERROR 05-12 04:53:09 [core.py:935] EngineCore failed to start.\n"
        "(EngineCore pid=7) ERROR 05-12 04:53:09 [core.py:935] RuntimeError: Graph compile "
        "failed. synStatus=synStatus 26 [Generic failure].\n"
    )
    text = bar.format("Prompt", 0) + bar.format("Prompt", 7) + bar.format("Decode", 0)
    assert folded(events(text + error)).summary.failure.phase == "decode"


NCCL = "RuntimeError: NCCL error: unhandled {} error (run with NCCL_DEBUG=INFO for details)"


@pytest.mark.parametrize(
    ("warning", "error", "kind"),
    [
        (
            "NCCL WARN Error: failed to extend /dev/shm/nccl-a to 33030532 bytes, error: No "
            "space left on device (28)",
            NCCL.format("system"),
            "error",
        ),
        (
            "NCCL WARN Cuda failure 2 'out of memory'",
            NCCL.format("cuda"),
            "out_of_memory",
        ),
    ],
)
def test_a_warning_of_nccl_is_the_cause_of_its_error(
    warning: str, error: str, kind: str
) -> None:
    hint = (
        "node1:7:7 [0] graph/topo.cc:1 NCCL WARN NUMA auto balancing is not disabled\n"
    )
    text = f"{hint}node1:7:9 [0] misc/a.cc:87 {warning}\n" + CORE.format(5, error)
    (failure,) = of(Failure, events(START + text + "\n"))
    assert failure.message == f"{warning} ({error})"
    assert failure.failure == kind


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (
            "[1.5] [node1:270 :0] ib_md.c:1100 UCX  ERROR mlx5_7: no such device",
            "nixl._bindings.nixlBackendError: NIXL_ERR_BACKEND",
        ),
        (
            "This kernel only supports sm120.",
            "torch.AcceleratorError: CUDA error: unspecified launch failure",
        ),
    ],
)
def test_a_line_above_an_error_that_explains_it_is_its_cause(line, error):
    text = f"{line}\n{line}\n" + CORE.format(5, error) + "\n"
    (failure,) = of(Failure, events(START + text))
    reason = line[line.find("UCX") :] if "UCX" in line else line.rstrip(".")
    assert failure.message == f"{reason} ({error})"
    (other,) = of(
        Failure, events(START + line + "\n" + CORE.format(5, "ValueError: x"))
    )
    assert other.message == "ValueError: x"


@pytest.mark.parametrize(("above", "is_named"), [(0, True), (40, False)])
def test_what_a_compiler_stated_right_above_an_announced_error_is_its_cause(
    above, is_named
):
    line = (
        "/tmp/tmpj/cuda_utils.c:9:10: fatal error: Python.h: No such file or directory"
    )
    failed = CORE.format(5, "EngineCore failed to start.")
    (failure,) = of(Failure, events(f"{START}{line}\n{chr(10) * above}{failed}\n"))
    assert failure.message.startswith(line) == is_named


def test_requests_below_the_traceback_of_a_start_are_of_another_server():
    text = (
        "INFO 09-10 01:11:39 api_server.py:339] vLLM API server version 0.5.4\n"
        "INFO 09-10 01:11:39 llm_engine.py:174] Initializing an LLM engine (v0.5.4) with "
        "config: model='a/b'\n"
        "INFO 09-10 01:13:40 model_runner.py:720] Starting to load model a/b...\n"
        "Traceback (most recent call last):\n"
        '  File "/x/vllm/worker/model_runner.py", line 722, in load_model\n'
        "    self.model = get_model(model_config=self.model_config)\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB.\n"
        "INFO 09-10 01:11:35 logger.py:36] Received request chat-1: prompt: 'x'\n"
        "INFO 09-10 01:11:35 async_llm_engine.py:174] Added request chat-1.\n"
    )
    found = events(text)
    assert len(of(Failure, found)) == 1
    assert not of(ServerReady, found)


def test_a_warning_of_nccl_without_an_error_is_noted():
    warning = "NCCL WARN socketStartConnect: Connect to 10.0.0.6<4> failed : refused"
    line = f"node1:7:9 [0] misc/socket.cc:484 {warning}\n"
    notes = [n for n in of(Note, events(START + line)) if n.topic == "nccl"]
    assert [note.text for note in notes] == [warning]


def test_what_nccl_states_of_its_service_for_onlookers_fails_no_rank():
    line = "node1:7:9 [0] ras/client_support.cc:160 NCCL WARN Call to bind failed: in use\n"
    assert [n for n in of(Note, events(START + line)) if n.topic == "nccl"] == []
    error = CORE.format(5, NCCL.format("cuda"))
    (failure,) = of(Failure, events(START + line + error))
    assert failure.message == NCCL.format("cuda")


def test_the_orchestrator_of_stages_states_a_start_that_failed():
    text = "(APIServer pid=6) TimeoutError: Orchestrator did not become ready within 600s\n"
    assert folded(events(text)).summary.status == "failed"


def test_a_warning_of_nccl_does_not_explain_another_error():
    text = "node1:7:9 [0] misc/a.cc:87 NCCL WARN Cuda failure 801 'not supported'\n"
    text += CORE.format(5, "ValueError: no such model")
    (failure,) = of(Failure, events(START + text + "\n"))
    assert failure.message == "ValueError: no such model"


@pytest.mark.parametrize(
    "line",
    ["Bus error (core dumped)", "Segmentation fault (core dumped)"],
)
def test_a_crash_comes_before_what_others_print_of_it(line):
    wrapper = API + "RuntimeError: Engine core initialization failed. See root cause."
    (failure,) = of(Failure, events(f"{START}{line}\n{wrapper}\n"))
    assert failure.message == line


DUMP = (
    "Fatal Python error: Segmentation fault\n\n"
    "Thread 0x00007f3a1 (most recent call first):\n"
    '  File "/usr/lib/python3.12/threading.py", line 355 in wait\n'
    '  File "/x/site-packages/tqdm/_monitor.py", line 60 in run\n\n'
    "{0} (most recent call first):\n"
    '  File "/usr/lib/python3.12/ctypes/__init__.py", line 9 in call\n'
    '  File "/x/site-packages/torch/_ops.py", line 1158 in __call__\n'
    '  File "/x/site-packages/{1}", line 84 in {2}\n'
    '  File "/x/site-packages/vllm/v1/worker/gpu_model_runner.py", line 4 in {3}\n'
    '  File "/x/site-packages/vllm/v1/engine/core.py", line 700 in {4}\n\n'
    "Extension modules: torch._C (total: 90)\n"
)


@pytest.mark.parametrize("thread", ["Current thread 0x00007f3b", "Stack"])
@pytest.mark.parametrize("prefix", ["", "(EngineCore pid=7) "])
@pytest.mark.parametrize(
    ("file", "function", "caller", "phase"),
    [
        ("torch/cuda/graphs.py", "capture_end", "capture_model", "graph_capture"),
        ("vllm/distributed/pynccl.py", "init", "init_device", "init_worker"),
        ("flashinfer/jit/core.py", "load", "load_model", "load_model"),
    ],
)
def test_the_innermost_frame_of_a_crash_shows_where_it_was(
    thread, prefix, file, function, caller, phase
):
    dump = DUMP.format(thread, file, function, caller, "run_engine_core")
    text = "".join(prefix + line for line in dump.splitlines(keepends=True))
    for begun in (START, ""):
        (failure,) = of(Failure, events(begun + text))
        assert (failure.module, failure.phase) == (file, phase)
    signal = prefix + "*** SIGSEGV received at time=1777531622 on cpu 12 ***\n"
    (failure,) = of(Failure, events(START + signal + text))
    assert (failure.message[:11], failure.module) == ("*** SIGSEGV", file)


def test_the_frames_of_a_thread_that_no_signal_ended_show_nothing():
    dump = DUMP.format("Thread 0x00007f3b", "flashinfer/x.py", "a", "load_model", "b")
    (failure,) = of(Failure, events(START + dump))
    assert (failure.module, failure.phase) == (None, None)
    hung = dump.replace("Fatal Python error: Segmentation fault", "Timeout (0:05:00)!")
    assert not of(Failure, events(START + hung.replace("Thread", "Current thread")))


def test_an_engine_that_crashes_at_work_did_start():
    dump = DUMP.format(
        "Current thread 0x7f", "flashinfer/x.py", "a", "execute_model", "run_busy_loop"
    )
    for begun in (START, START + READY, START + READY + "line\n" * 20_000):
        made = events(begun + dump)
        assert not of(Failure, made)
        (failure,) = of(ServingFailure, made)
        assert failure.module == "flashinfer/x.py"


def test_the_core_of_a_stage_that_failed_is_a_heading():
    text = CORE.format(5, "StageEngineCoreProc failed to start.") + "\n"
    (failure,) = of(Failure, events(START + text))
    assert failure.message == "StageEngineCoreProc failed to start."


@pytest.mark.parametrize(
    "message",
    [
        "Invalid repository ID or local directory specified: 'a/b'.",
        "No available memory for the cache blocks. Try increasing it.",
        "Free memory on device cuda:0 (3/15 GiB) on startup is less than desired GPU "
        "memory utilization (0.9, 13.9 GiB).",
        "User-specified max_model_len (9) is greater than the derived max_model_len (8)",
    ],
)
@pytest.mark.parametrize("process", ["", "(APIServer pid=7) "])
def test_what_vllm_alone_raises_in_a_start_is_a_failed_start(process, message):
    found = events(f"{process}ValueError: {message}\n")
    assert summary_of(found)["status"] == "failed"


def test_a_source_line_that_calls_a_stage_shows_it_as_its_function_does():
    text = (
        'File "vllm/v1/worker/gpu_worker.py", line 71, in ...\n'
        "  cuda_graph_memory_bytes = self.model_runner.capture_model()\n"
        "torch.AcceleratorError: CUDA error: operation failed during capture\n"
    )
    (failure,) = of(Failure, events(text))
    assert failure.phase == "graph_capture"
    assert not read(text.replace("model_runner.capture_model", "run").encode())[0]


def test_a_gaudi_that_cannot_be_acquired_ends_a_start():
    """`kubectl logs` of a pod that restarts has no more than this."""
    text = (
        '  File "/x/habana_frameworks/torch/hpu/__init__.py", line 71, in init\n'
        "    _hpu_C.init()\n"
        "RuntimeError: synStatus=8 [Device not found] Device acquire failed.\n"
    )
    summary = folded(events(text)).summary
    assert (summary.status, summary.device.kind) == ("failed", "hpu")


CUT_START = (
    '{0}  File "/x/vllm/v1/engine/utils.py", line 1010, in wait_for_engine_startup\n'
    "{0}    raise RuntimeError(\n"
    "{0}RuntimeError: Engine core initialization failed. See root cause above.\n"
)
NEXT_START = (
    "{0}INFO 03-09 12:56:57 [__init__.py:235] Automatically detected platform cuda.\n"
    "{0}INFO 03-09 12:56:59 [api_server.py:1] vLLM API server version 0.16.0\n"
)


@pytest.mark.parametrize(
    "fronts",
    [
        ("vllm-1  | (APIServer pid=1) ", "vllm-1  | "),
        ("2026-03-09T12:56:40.1Z ", "2026-03-09T12:56:57.3Z "),
    ],
)
def test_the_end_of_a_start_above_another_one_is_a_start_of_its_own(fronts):
    runs, _ = read(CUT_START.format(fronts[0]) + NEXT_START.format(fronts[1]))
    first, second = (folded(run).summary for run in runs.values())
    assert (first.status, second.status) == ("failed", "unknown")
    assert second.time.started_at.startswith("2026-03-09T12:56:57")


def test_an_error_that_a_page_quotes_above_the_log_is_none_of_another_start():
    text = (
        f"It ends with\n\n{CUT_START.format('')}\nThe log:\n\n{NEXT_START.format('')}"
    )
    runs, _ = read(text)
    assert len(runs) == 1


@pytest.mark.parametrize("imports", ["", NEXT_START.splitlines(keepends=True)[0]])
@pytest.mark.parametrize(
    "head",
    [
        "(Worker_TP1 pid=12) ERROR 03-09 12:50:00 [multiproc_executor.py:787] ",
        "ERROR 03-09 12:50:00 [multiproc_executor.py:787] ",
        "ERROR 03-09 12:50:00 [core.py:866] ",
        "ERROR 03-09 12:50:00 engine.py:366] ",
        "(VllmWorkerProcess pid=3) ERROR 03-09 12:50:00 [multiproc_worker_utils.py:238] ",
    ],
)
def test_the_last_line_of_an_error_above_a_start_is_of_the_one_before(head, imports):
    begun = NEXT_START.splitlines(keepends=True)[1].format("(APIServer pid=1) ")
    runs, _ = read(f"{head}RuntimeError: it is 3, not 4\n{imports.format('')}{begun}")
    first, second = (folded(run).summary for run in runs.values())
    assert (first.status, second.status) == ("failed", "unknown")
    assert first.failure.message == "RuntimeError: it is 3, not 4"
    seconds = 57 if imports else 59
    assert second.time.started_at.startswith(f"2026-03-09T12:56:{seconds}")


def test_an_engine_that_fails_beside_another_one_ends_no_start():
    config = (
        "(EngineCore_DP{0} pid=7{0}) INFO 03-09 12:56:59 [core.py:116] Initializing a V1 "
        "LLM engine (v0.26.0) with config: model='a/b', device_config=cuda\n"
    )
    error = "(EngineCore_DP0 pid=70) ERROR 03-09 12:56:58 [core.py:866] RuntimeError: it is 3\n"
    runs, _ = read(error + config.format(1))
    assert len(runs) == 1


def test_the_innermost_file_of_a_package_is_kept_of_an_error_without_a_start():
    lines = [
        "Traceback (most recent call last):",
        '  File "/x/site-packages/vllm/v1/worker/gpu_worker.py", line 1, in load_model',
        *['  File "/x/site-packages/vllm/lora/layers.py", line 2, in apply'] * 80,
        '  File "/x/site-packages/flashinfer/jit/core.py", line 3, in load',
        "RuntimeError: it is 3, not 4",
    ]
    text = "\n".join(CORE.format(5, line) for line in lines)
    (failure,) = of(Failure, events(text + "\n"))
    assert failure.message == "RuntimeError: it is 3, not 4"
    assert (failure.module, failure.phase) == ("flashinfer/jit/core.py", "load_model")


def test_an_engine_of_v0_that_took_a_request_had_started():
    """vLLM 0.9 `engine/multiprocessing/client.py run_heartbeat_loop`."""
    text = (
        "INFO 07-04 11:32:50 [engine.py:317] Added request chatcmpl-0ff8.\n"
        "ERROR 07-04 11:33:12 [client.py:307] RuntimeError('Engine process (pid 36) died.')\n"
        "INFO:     Shutting down\n"
    )
    summary = folded(events(text)).summary
    assert summary.failure is None
    assert summary.serving.end.kind == "error"
    assert summary.serving.end.message == "RuntimeError: Engine process (pid 36) died."
    later = "ERROR 07-04 12:41:08 [engine.py:366] ValueError: of the next start\n"
    assert folded(events(text + later)).summary.serving == summary.serving


def test_what_a_program_raises_that_waits_for_its_answers_ends_it():
    """`entrypoints/llm.py generate`, of V0 in the process of the program."""
    text = (
        "INFO 05-11 07:51:49 [llm_engine.py:243] Initializing a V0 LLM engine (v0.9.0) with "
        "config: model='a/b', device_config=cpu\n"
        "INFO 05-11 07:51:51 [llm_engine.py:449] init engine (profile, create kv cache, "
        "warmup model) took 0.07 seconds\n"
        "[rank0]: Traceback (most recent call last):\n"
        '[rank0]:   File "/x/vllm/entrypoints/llm.py", line 1423, in _run_engine\n'
        "[rank0]:     step_outputs = self.llm_engine.step()\n"
        '[rank0]:   File "/x/vllm/_custom_ops.py", line 1323, in reshape_and_cache\n'
        "[rank0]: NotImplementedError: Could not run 'reshape_and_cache'\n"
    )
    summary = folded(events(text)).summary
    assert (summary.status, summary.failure) == ("finished", None)
    assert summary.serving.end.message.startswith("NotImplementedError: ")


def test_a_traceback_without_its_end_is_quoted_by_a_line_that_the_log_has():
    frame = 'File "/x/vllm/v1/engine/core.py", line 324, in _initialize_kv_caches'
    text = START + CORE.format(5, f"  {frame}") + "\n"
    (failure,) = of(Failure, events(text))
    assert failure.message == frame
    warned = "(EngineCore pid=7) Failed to get device capability: SM 12.x requires CUDA >= 12.9.\n"
    (failure,) = of(
        Failure, events(START + warned + CORE.format(5, f"  {frame}") + "\n")
    )
    assert failure.message.startswith(
        "Failed to get device capability: SM 12.x requires"
    )
    (failure,) = of(
        Failure, events(START + warned + CORE.format(5, "ValueError: vllm") + "\n")
    )
    assert failure.message == "ValueError: vllm"


@pytest.mark.parametrize(
    "error",
    [
        "MLX error: Failed to load the default metallib.",
        "libc++abi: terminating due to uncaught exception of type std::runtime_error: x",
    ],
)
def test_what_a_native_library_prints_above_the_announcement_is_the_cause(error):
    announced = (
        "(APIServer pid=5) RuntimeError: Engine core initialization failed. See root cause "
        "above. Failed core proc(s): {'EngineCore': 255}\n"
    )
    for head in ("", START):
        (failure,) = of(Failure, events(f"{head}{error}\n{announced}"))
        assert failure.message == error


def test_errors_of_an_ascend_runner_alone_are_a_start_that_failed():
    text = (
        "RuntimeError: Worker failed with error 'NPUModelRunner init failed, error is "
        "NPUModelRunner failed, error is capture_begin: NPU function error'\n"
        "(EngineCore pid=18) [ERROR] 2026-04-17-09:16:39 (PID:18, Device:0, RankID:-1) "
        "ERR00100 PTA call acl api failed\n"
    )
    (failure,) = of(Failure, events(text))
    assert "NPUModelRunner init failed" in failure.message


def test_an_answer_that_ray_cannot_read_is_the_cause_of_the_time_out_behind_it():
    head = "(EngineCore pid=7) "
    text = (
        "2026-07-16 10:00:04,953\tERROR serialization.py:462 -- Can't deserialize object: "
        "ObjectRef(001e), metadata: b'x'\n"
        f"{head}ERROR 07-16 10:00:15 [core.py:343] EngineCore hit an exception: Traceback\n"
        f"{head}ERROR 07-16 10:00:15 [core.py:343] ray.exceptions.RayChannelTimeoutError: "
        "System error: Timed out waiting for object available to read.\n"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message.startswith("Can't deserialize object: ObjectRef(001e)")


def test_a_library_of_gaudi_that_does_not_start_is_a_failure():
    text = (
        "hcl_device_control_factory.cpp:84(initDevice): The condition [ "
        "g_ibv.init(deviceConfig) == hcclSuccess ] failed. ibv initialization failed\n"
    )
    (failure,) = of(Failure, events(START + text))
    assert failure.message.endswith("ibv initialization failed")


def test_ucx_states_what_failed_of_a_start_without_an_end():
    text = (
        "[1771466605.147536] [node1:195  :1]   ib_device.c:1385 UCX  ERROR   "
        "ibv_create_ah(dlid=1) on mlx5_12 failed: No such device\n"
    )
    notes = [note for note in of(Note, events(START + text)) if note.topic == "ucx"]
    assert "on mlx5_12 failed: No such device" in notes[0].text


def test_a_stage_of_omni_that_failed_alone_is_a_start_that_failed():
    text = (
        "(DiffusionWorker pid=93) ERROR 09-16 10:41:32 [stage_runtime.py:257] [StageRuntime] "
        "Stage initialization failed; shutting down 0 initialized client(s)\n"
        "RuntimeError: Orchestrator initialization failed: CUDA out of memory. Tried to "
        "allocate 18.00 MiB.\n"
    )
    (failure,) = of(Failure, events(text))
    assert failure.failure == "out_of_memory"
