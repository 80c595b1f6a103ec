"""Upstream vLLM: what made a start fail, or an engine that served.

Source: vLLM `entrypoints/`, `v1/engine/core.py`, `v1/executor/`, `engine/`, `worker/`.
"""

from __future__ import annotations

import re
from typing import Any

from parsers.base import (
    NO_LEVEL,
    Build,
    LineRule,
    Made,
    Sample,
    hpu_rule,
    line_rule,
    note_rule,
)
from parsers.engine.signals import (
    AT_WORK,
    EXECUTING,
    IN_REQUEST,
    AssertionSeen,
    CallFailed,
    CrashDumped,
    CrashFrame,
    ErrorFollowed,
    ErrorIgnored,
    FailureLine,
    FrameSeen,
    PackageFrame,
)
from warmup_insights.model.events import SERVER_START
from warmup_insights.model.failure_text import CARRIERS, kind_of_message, refusal

_TRACEBACK = re.compile(r",? ?Traceback \(most recent call last\):?$")


_FRAMES = {
    "load_model": "load_model", "load_weights": "load_model",
    "create_weights": "load_model",
    "determine_available_memory": "profile_run", "profile_run": "profile_run",
    "determine_num_available_blocks": "profile_run",
    "profile_cudagraph_memory": "graph_memory_profile",
    "initialize_kv_cache": "kv_cache", "initialize_cache": "kv_cache",
    "aot_compile": "compile",
    "capture_model": "graph_capture",
    "kernel_warmup": "kernel_warmup", "flashinfer_autotune": "kernel_warmup",
    "warmup_kernels": "model_warmup", "warmup_model": "model_warmup",
    "warming_up_model": "model_warmup", "compile_or_warm_up_model": "model_warmup",
    "_dummy_sampler_run": "sampler_warmup", "_dummy_pooler_run": "pooler_warmup",
    "init_device": "init_worker",
    "init_worker_distributed_environment": "distributed_init",
    "ensure_kv_transfer_initialized": "kv_connector", "create_connector": "kv_connector",
    "_init_executor": "", "_initialize_kv_caches": "", "from_engine_args": "",
    "from_cli_args": "", "create_engine_config": "configure",
    "launch_core_engines": "",
    "setup_server": "", "create_server_socket": "",
    "validate_parsed_serve_args": "", "configure_logging_from_args": "",
    "execute_model": EXECUTING,
    "build_app": SERVER_START, "init_app_state": SERVER_START,
    **dict.fromkeys(
        ("run_busy_loop", "_handle_client_request", "run_engine_loop", "_run_engine",
         "start_worker_execution_loop"), AT_WORK,
    ),
}  # fmt: skip
"""Functions of vLLM's workers (`v1/worker/`, `worker/`) and server to the stage they are; empty for
those of servers, executors and engines that run only in a start and in several stages; AT_WORK
for the loops of an engine that was made (`v1/engine/core.py`, `engine/
async_llm_engine.py`, `engine/multiprocessing/engine.py`, `worker/worker_base.py`), and of
a program that calls it (`entrypoints/llm.py`); EXECUTING for what profiling runs and warm-ups
call as well (`worker/model_runner.py profile_run`, `v1/worker/gpu/warmup.py`)."""
_OF_REQUESTS = (
    "serving*.py", "batch_serving.py", "*_tool_parser.py", "*reasoning_parser*.py",
    "speech_to_text.py",
)  # fmt: skip
"""Modules that log what one request raised (`entrypoints/`, `tool_parsers/`)."""
_LOOP = "async_llm_engine.py"
"""Module of which all errors are of the loop of an engine (`engine/async_llm_engine.py`)."""
_OF_PLUGINS = "__init__.py"
"""Module that logs what a plugin raised, and goes on without it (`plugins/__init__.py
load_plugins_by_group`)."""
_OF_ENGINES = r"[\w.]{1,80}(?:DeadError|OutOfMemoryError): "
"""What is of the engine, whichever module logs it."""


_ON_TPU = re.compile(r'/(?:tpu_inference/[^"]{1,150}|tpu_\w{1,40})\.py", ')
"""Modules of a TPU, which captures no graphs: `capture_model` compiles there (tpu-inference
`runner/compilation_manager.py`, vLLM `v1/worker/tpu_model_runner.py`)."""
_CARRIED = re.compile(rf"(?!torch/(?:cuda|distributed|xpu)/)(?:{CARRIERS})")
"""Files of packages that only run what others give them: what a signal ended while torch
calls the device or other ranks was ended there."""
_UNPROFILED = "/tpu_inference/worker/"
"""Of workers that divide the memory for the KV cache without a profiling run."""


_FOLDERS = (
    r"(?:-packages/|/modules/(?=transformers_modules/)|"
    r"/vllm(?:-[a-z]{1,20})?/(?=vllm(?:_[a-z]{1,20})?/)|/aiter/(?=aiter/))"
)
"""What packages lie in: a checkout of vLLM, a plugin or AITER has the folder of the package in
it."""
_OF_PACKAGE = re.compile(rf'{_FOLDERS}(\w[\w./]{{1,200}})", line ')


def _stage(match: re.Match[str]) -> str:
    phase = _FRAMES[match["name"]]
    if phase == "graph_capture" and _ON_TPU.search(match[0]):
        phase = "compile"
    elif phase == "profile_run" and _UNPROFILED in match[0]:
        phase = "kv_cache"
    return phase


def _frame(match: re.Match[str]) -> Made | list[Made]:
    """The stage of a frame, and its file."""
    frame, file = FrameSeen(_stage(match)), _OF_PACKAGE.search(match[0])
    return frame if file is None else [frame, PackageFrame(file[1])]


def _crash_frame(match: re.Match[str]) -> Made:
    phase = _stage(match) if match["name"] in _FRAMES and match["engine"] else None
    path = match["path"]
    return CrashFrame(None if path and _CARRIED.match(path) else path, phase)


_BEFORE_DETAILS = re.compile(r"(?<=MODULE:PT_)(\w{1,20} [^.]{1,80})\.{3,4}$")
"""The first line of an error of the Gaudi bridge; the next one has what failed."""
_BELOW_BRIDGE = (
    r"(?:Check \$HABANA_LOGS/ for details(?!\[Rank:)(?! *$)|"
    r"(?=Graph compile failed\.|synStatus ?=|synNodeCreate\w{0,20} failed))"
)
"""How that one begins."""


def _failure(kind: str | None, *, heading: bool = False, bare: bool = False) -> Build:
    def build(match: re.Match[str]) -> Made:
        message = (
            _TRACEBACK.sub("", match[0].strip()).removeprefix("Failed: ").lstrip("! ")
        )
        message = _BEFORE_DETAILS.sub(r"\1:", message)
        return FailureLine(message, kind, is_heading=heading, is_bare=bare)

    return build


def _repr(match: re.Match[str]) -> list[Made]:
    """An error as Python represents it, which a bracket ends."""
    text = match["text"].rstrip()
    if not text.endswith(("')", '")', "',)", '",)')):
        return []
    message = f"{match['name']}: {text.rstrip(',)')[:-1]}"
    return [FailureLine(message, "error", is_detail=True)]


def _before_main(match: re.Match[str]) -> Made:
    text = f"{match[0].strip()} current process has finished its bootstrapping phase"
    return FailureLine(f"RuntimeError: {text}", is_bare=True)


def _failure_at_work(match: re.Match[str]) -> list[Made]:
    return [FrameSeen(AT_WORK), FailureLine(match[0].strip())]


def _not_bound(match: re.Match[str]) -> list[Made]:
    return [FrameSeen(SERVER_START), FailureLine(match["text"], is_bare=True)]


def _of_runpod(match: re.Match[str]) -> Made:
    text = match["text"].partition("; <traceback object")[0].removesuffix("\\n")
    if match["name"] is None:
        return FailureLine(text, "error", is_heading=True)
    return FailureLine(f"{match['name']}: {text}")


def _exited(match: re.Match[str]) -> Made:
    kind = "killed" if match["code"] == "137" else "error"
    return FailureLine(match["text"], kind, is_heading=True, is_bare=True)


def _of_bridge(match: re.Match[str]) -> Made:
    """The second line of an error of the Gaudi bridge; of memory an error of its own."""
    text = match["text"].strip()
    kind = kind_of_message(text)
    return FailureLine(text, kind, is_detail=kind == "error")


def _thrown(match: re.Match[str]) -> Made:
    """What ends a program in C++ (`std::terminate`), or an error as the device states it."""
    return FailureLine(match["text"].strip(), is_bare=True)


def _refused(match: re.Match[str]) -> list[Made]:
    """What pydantic refuses is a setting, which is read before anything else unless the
    traceback leads through another stage."""
    text = refusal(match[0]).rstrip()
    return [FrameSeen("configure", is_weak=True), FailureLine(text, is_bare=True)]


_ERROR = (
    r"(?:[\w.]{1,140}(?:Error|Exception|Exit)|Exception|DeprecationWarning|[\w.]{1,80}NVMLError_\w{1,40}|[\w.]{1,80}\.(?:exc|exceptions|errors)\.\w{1,60}|"
    r"(?:[\w.]{1,80}\.)?(?:ReadTimeout|ConnectTimeout|TimeoutExpired|RemoteDisconnected|"
    r"IncompleteRead|BrokenProcessPool|OutOfResources|Timeout|OfflineModeIsEnabled)|ray\.exceptions\.RayTaskError\(\w{1,60}\)|"
    r"socket\.(?:gaierror|herror|timeout)|struct\.error|zlib\.error)"
)
"""Names of exceptions; some libraries end theirs in another word: requests, httpx, http,
subprocess, concurrent.futures, triton, torch._dynamo, ray, and Python's older modules."""
_NAMES = (
    "Error: ", "Exception: ", "DeprecationWarning: ", "Timeout: ", "Expired: ", "Disconnected: ", "IncompleteRead: ",
    "BrokenProcessPool: ", "OutOfResources: ", "OfflineModeIsEnabled: ", "NVMLError_", ".exceptions.", ".errors.", ".exc.", "RayTaskError(",
    "socket.gaierror: ", "socket.herror: ", "socket.timeout: ", "struct.error: ", "zlib.error: ",
)  # fmt: skip
_WITHOUT_TEXT = ("AssertionError", "NotImplementedError", "MemoryError", "EOFError")
"""Errors that are raised without a text."""
_PROGRAMS = r"(?:python|vllm|VLLM|pt_main_thread|ray::)"
"""How the names begin that the kernel has for processes of vLLM."""
_NO_REPORT = r"(?!E {3})"
"""pytest begins the lines of its report so: of any test, long after the engine that failed."""

_NCCL_FAILED = (
    r"(?:[Ff]ail|[Ee]rror|No space|[Uu]nable|[Cc]annot|Could not|[Tt]imed out|refused|"
    r"Duplicate GPU|[Mm]ismatch|Unsupported|not supported)"
)
"""Words of NCCL's warnings that state a failure; the others are hints about the host."""


_OF_CLIENT = r"(?!openai\.)"
"""A client of a server raises these, for what it was answered: no engine does."""


def _raised(name: str, makes: Build, *samples: Sample, **more: Any) -> LineRule:
    """A line with an error as Python prints one."""
    pattern = rf"{_OF_CLIENT}{_ERROR}: .{{1,1500}}|(?:{'|'.join(_WITHOUT_TEXT)})\s*$"
    hint = (*_NAMES, *_WITHOUT_TEXT)
    return line_rule(name, pattern, makes, *samples, hint=hint, **more)


FAILURE_RULES: tuple[LineRule, ...] = (
    line_rule(
        "error_followed",
        r"During handling of the above exception, another|"
        r"The above exception was the direct cause of",
        ErrorFollowed,
        "During handling of the above exception, another exception occurred:",
    ),
    line_rule(
        "call_failed",
        r"Invocation of \w{1,60} method failed",
        # `v1/engine/core.py`, `_invoke_utility_method`.
        CallFailed,
        "(EngineCore pid=7) ERROR 07-16 19:47:26 [core.py:1750] Invocation of "
        "add_lora method failed",
        levels=("ERROR",),
    ),
    line_rule(
        "error_ignored",
        r"Exception ignored (?:in|on|while)\b",
        ErrorIgnored,
        # `sys.unraisablehook`: in a destructor, at the exit.
        "Exception ignored in: <function HPUModelRunner.__del__ at 0x7f11eff56440>",
    ),
    _raised(
        "failure_raised",
        _failure(None),
        Sample(
            "(Worker_TP1 pid=2) ERROR 07-16 19:47:26 [multiproc_executor.py:1007] "
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
            {
                "message": "torch.OutOfMemoryError: CUDA out of memory. Tried to "
                "allocate 2.00 GiB."
            },
        ),
        levels=("ERROR", "CRITICAL"),
        not_files=(*_OF_REQUESTS, _LOOP, _OF_PLUGINS),
    ),
    line_rule(
        "failure_repr",
        # Triton `compiler/errors.py`: below the source of a kernel stands what was raised.
        r"(?P<name>[A-Z]\w{1,60}Error)\(['\"](?P<text>.{1,1000})",
        _repr,
        Sample(
            "(Worker_TP0 pid=9) ERROR 05-06 06:47:41 [multiproc_executor.py:852] "
            'ValueError("type fp8e9 not supported in this architecture. The supported '
            "fp8 dtypes are ('fp8e4b15', 'fp8e5')\")",
            {
                "message": "ValueError: type fp8e9 not supported in this architecture. The "
                "supported fp8 dtypes are ('fp8e4b15', 'fp8e5')"
            },
        ),
        levels=("ERROR", "CRITICAL", NO_LEVEL),
        not_files=(*_OF_REQUESTS, _LOOP),
        hint=("Error('", 'Error("'),
    ),
    line_rule(
        "failure_raised_in_request",
        rf"{_OF_ENGINES}.{{1,1500}}",
        _failure(None),
        Sample(
            "(APIServer pid=1) ERROR 06-11 01:51:09 [serving_chat.py:911] vllm.v1."
            "engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
            {
                "message": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore "
                "encountered an issue."
            },
        ),
        levels=("ERROR", "CRITICAL"),
        files=_OF_REQUESTS,
    ),
    line_rule(
        "request_failed",
        rf"(?!{_OF_ENGINES})(?:{_ERROR}: |(?:{'|'.join(_WITHOUT_TEXT)})\s*$)",
        FrameSeen,
        "ERROR 05-01 01:52:15 [hermes_tool_parser.py:110] "
        "json.decoder.JSONDecodeError: Unterminated string",
        "ERROR 05-01 01:52:15 [serving_chat.py:664] ValueError: too long",
        fixed={"phase": IN_REQUEST},
        levels=("ERROR", "CRITICAL"),
        files=_OF_REQUESTS,
        hint=(*_NAMES, *_WITHOUT_TEXT),
    ),
    line_rule(
        "failure_not_installed",
        # CPython `Lib/runpy.py`, for `python -m vllm.entrypoints.openai.api_server`.
        r"\S{1,200}: (?:Error while finding module specification for 'vllm[\w.]{0,80}' "
        r"\()?(?P<text>(?:ModuleNotFoundError: )?No module named '?vllm'?)\)?\s*$",
        lambda match: FailureLine(match["text"], is_bare=True),
        Sample(
            "/usr/bin/python3: Error while finding module specification for 'vllm."
            "entrypoints.openai.api_server' (ModuleNotFoundError: No module named 'vllm')",
            {"message": "ModuleNotFoundError: No module named 'vllm'"},
        ),
        Sample(
            "/usr/bin/python3: No module named vllm",
            {"message": "No module named vllm"},
        ),
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        "failure_no_command",
        # bash, dash, zsh, `nohup` and the runtime of containers.
        r".{0,300}?(?P<text>\bvllm: (?:command )?not found|command not found: vllm|"
        r"failed to run command .vllm.: No such file or directory|"
        r"exec: \"vllm\": executable file not found in \$PATH)(?![\w-])",
        lambda match: FailureLine(match["text"], is_bare=True),
        Sample(
            "/app/start.sh: line 3: vllm: command not found",
            {"message": "vllm: command not found"},
        ),
        Sample("zsh: command not found: vllm", {"message": "command not found: vllm"}),
        levels=(NO_LEVEL,),
        startup_only=True,
        hint=(" not found", "failed to run command"),
    ),
    _raised(
        "failure_raised_in_plugin",
        # The cause only where the start goes no further, as without its platform.
        _failure(None, bare=True),
        Sample(
            "ERROR 04-09 04:44:12 [__init__.py:64] ImportError: no such library",
            {"message": "ImportError: no such library", "is_bare": True},
        ),
        levels=("ERROR", "CRITICAL"),
        files=(_OF_PLUGINS,),
    ),
    _raised(
        "failure_raised_in_loop",
        _failure_at_work,
        Sample(
            "ERROR 06-28 13:26:18 async_llm_engine.py:52] AssertionError: Does not "
            "support prefix-enabled attention.",
            {"message": "AssertionError: Does not support prefix-enabled attention."},
        ),
        levels=("ERROR", "CRITICAL"),
        files=(_LOOP,),
    ),
    line_rule(
        "failure_before_main",
        # multiprocessing raises a text that begins on the line below its kind
        # (CPython `multiprocessing/spawn.py _check_not_importing_main`).
        r"\s{0,20}An attempt has been made to start a new process before the\s*$",
        _before_main,
        Sample(
            "        An attempt has been made to start a new process before the",
            {
                "message": "RuntimeError: An attempt has been made to start a new process "
                "before the current process has finished its bootstrapping phase"
            },
        ),
        startup_only=True,
    ),
    _raised(
        "failure_raised_bare",
        _failure(None, bare=True),
        Sample(
            "(EngineCore pid=7) RuntimeError: could not find the compiler",
            {"message": "RuntimeError: could not find the compiler"},
        ),
        Sample(
            "socket.gaierror: [Errno -2] Name or service not known",
            {"message": "socket.gaierror: [Errno -2] Name or service not known"},
        ),
        Sample(
            "(APIServer pid=7) requests.exceptions.ReadTimeout: (ReadTimeoutError("
            "\"HTTPSConnectionPool(host='hub', port=443): Read timed out.\"), '(1)')",
            {
                "message": 'requests.exceptions.ReadTimeout: (ReadTimeoutError("HTTPS'
                "ConnectionPool(host='hub', port=443): Read timed out.\"), '(1)')"
            },
        ),
        # Raised, not only warned of (`compressed_tensors.py`).
        Sample(
            "(EngineCore pid=7) DeprecationWarning: Sparsity support has been removed.",
            {"message": "DeprecationWarning: Sparsity support has been removed."},
        ),
        Sample("(EngineCore pid=7) AssertionError", {"message": "AssertionError"}),
        levels=(NO_LEVEL,),
    ),
    line_rule(
        "failure_arguments",
        # argparse, below the line of its usage (vLLM `utils/argparse_utils.py`).
        r"(?:vllm(?: [\w-]{1,20})?|api_server\.py): error: .{1,1500}",
        _failure(None, bare=True),
        Sample(
            "vllm serve: error: argument --dtype: invalid choice: 'x'",
            {"message": "vllm serve: error: argument --dtype: invalid choice: 'x'"},
        ),
        levels=(NO_LEVEL,),
    ),
    line_rule(
        "failure_validation",
        r"\s{0,8}(?:Value error|Assertion failed), .{1,600}",
        _refused,
        Sample(
            "(APIServer pid=7)   Value error, The setting requires another one "
            "[type=value_error, input_value=ArgsKwargs((), {'a': 1}), "
            "input_type=ArgsKwargs]",
            {"message": "ValueError: The setting requires another one"},
        ),
        levels=(NO_LEVEL, "ERROR"),
    ),
    hpu_rule(
        "failure_of_bridge",
        # Below an error whose first line names a thread of the bridge alone.
        rf"{_BELOW_BRIDGE}"
        r"(?P<text>.{1,600})",
        _of_bridge,
        Sample(
            "[rank6]: Check $HABANA_LOGS/ for detailsGraph compile failed. synStatus="
            "synStatus 26 [Generic failure].",
            {
                "message": "Graph compile failed. synStatus=synStatus 26 [Generic "
                "failure].",
                "is_detail": True,
            },
        ),
        Sample(
            "(EngineCore pid=7) ERROR 12-08 18:21:31 [core.py:844] synStatus=26 [Generic "
            "failure] Device acquire failed.",
            {
                "message": "synStatus=26 [Generic failure] Device acquire failed.",
                "is_detail": True,
            },
        ),
        levels=(NO_LEVEL, "ERROR"),
    ),
    line_rule(
        "failure_memory",
        # With the codes of CUDA, HIP and Level Zero, the C++ library and the system.
        rf"(?!{_ERROR}: |{_BELOW_BRIDGE}).{{0,300}}?(?:[Oo]ut [Oo]f [Mm]emory|OutOfMemory|"
        r"OUT_OF_(?:DEVICE_)?MEMORY|std::bad_alloc|Cannot allocate memory|synStatus|"
        r"FATAL ERROR ::|Allocation failed for size::|RESOURCE_EXHAUSTED).{0,600}",
        _failure(None),
        Sample(
            "ERROR 07-16 19:47:26 [hpu_worker.py:10] FATAL ERROR :: MODULE:PT_DEVMEM "
            "Allocation failed for size::268435456 (256)MB",
            {"kind": None, "is_bare": False},
        ),
        Sample(
            "ERROR 07-16 19:47:26 [worker.py:10] the driver returned "
            "CUDA_ERROR_OUT_OF_MEMORY",
            {"message": "the driver returned CUDA_ERROR_OUT_OF_MEMORY"},
        ),
        levels=("ERROR", "CRITICAL"),
        hint=(
            "ut of memory",
            "ut Of Memory",
            "OutOfMemory",
            "OUT_OF_",
            "std::bad_alloc",
            "Cannot allocate memory",
            "synStatus",
            "FATAL ERROR",
            "Allocation failed for size",
            "RESOURCE_EXHAUSTED",
        ),
    ),
    hpu_rule(
        "failure_memory_bridge",
        rf"{_NO_REPORT}.{{0,200}}?(?:FATAL ERROR :: MODULE:PT_|Allocation failed for size::)"
        r".{1,600}",
        _failure(None),
        Sample(
            "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::268435456 "
            "(256)MB",
            {"kind": None},
        ),
        levels=(NO_LEVEL,),
    ),
    hpu_rule(
        "failure_of_hcl",
        # The library between Gaudis (`hcl_device_control_factory.cpp`), which throws then.
        r"(?:\S{1,80} )?(?P<text>The condition \[ [^\]]{1,200} == hcclSuccess \] failed\..{0,400})",
        _thrown,
        Sample(
            "hcl_device_control_factory.cpp:84(initDevice): The condition [ "
            "g_ibv.init(deviceConfig) == hcclSuccess ] failed. ibv initialization failed",
            {
                "message": "The condition [ g_ibv.init(deviceConfig) == hcclSuccess ] failed. "
                "ibv initialization failed",
                "is_bare": True,
            },
        ),
        levels=(NO_LEVEL, "ERROR"),
    ),
    line_rule(
        "failure_assertion",
        r"\s{0,12}(?P<text>assert \S.{0,300})",
        AssertionSeen,
        Sample(
            "(EngineCore pid=1) ERROR 07-16 19:47:26 [core.py:866]     assert "
            "some_tensors is not None",
            {"text": "assert some_tensors is not None"},
        ),
        levels=(NO_LEVEL, "ERROR"),
    ),
    line_rule(
        "failure_of_runpod",
        # RunPod's worker-vllm `src/engine.py`, and `rp_job.py` of RunPod's library.
        r".{0,120}?(?:(?=Error initializing vLLM engine: )|"
        r"Uncaught exception \| <class '(?P<name>[\w.]{1,80})'>; )"
        r"(?P<text>.{1,1500})",
        _of_runpod,
        Sample(
            "engine.py :116  2025-03-24 18:13:28,839 Error initializing vLLM engine: "
            "SomeModel has no vLLM implementation.",
            {
                "message": "Error initializing vLLM engine: SomeModel has no vLLM "
                "implementation.",
                "is_heading": True,
            },
        ),
        Sample(
            "pod[error]Uncaught exception | <class 'ValueError'>; SomeModel has no vLLM "
            "implementation.; <traceback object at 0x7f5beafb7900>;",
            {"message": "ValueError: SomeModel has no vLLM implementation."},
        ),
        levels=(NO_LEVEL, "ERROR"),
        startup_only=True,
    ),
    line_rule(
        "failure_frame",
        r'\s{0,20}File "[^"]{1,140}/(?:vllm|tpu_inference)[^"]{1,150}", line \d{1,7}, in '
        rf"(?P<name>{'|'.join(_FRAMES)})\s*$",
        _frame,
        Sample(
            "ERROR 07-16 19:47:26 [core.py:866]   File "
            '"/x/vllm/v1/worker/gpu_worker.py", line 215, in load_model',
            {"phase": "load_model"},
        ),
        Sample(
            '  File "/x/tpu_inference/runner/compilation_manager.py", line 233, in '
            "capture_model",
            {"phase": "compile"},
        ),
        Sample(
            '  File "/x/vllm/v1/worker/tpu_model_runner.py", line 71, in capture_model',
            {"phase": "compile"},
        ),
        Sample(
            '  File "/x/vllm/v1/worker/gpu_model_runner.py", line 71, in capture_model',
            {"phase": "graph_capture"},
        ),
        startup_only=True,
        hint=tuple(f", in {name}" for name in _FRAMES),
    ),
    line_rule(
        "failure_frame_client",
        # A benchmark's client, which has no engine (`benchmarks/serve.py`).
        r'\s{0,20}File "[^"]{1,200}/vllm/benchmarks/(?:serve\.py|lib/[^"]{1,80})", '
        r"line \d{1,7}, in \w{1,80}\s*$",
        FrameSeen,
        '  File "/x/vllm/benchmarks/lib/endpoint_request_func.py", line 381, in '
        "async_request_openai_chat_completions",
        fixed={"phase": IN_REQUEST},
        levels=(NO_LEVEL,),
    ),
    line_rule(
        "failure_frame_compiler",
        # All of its functions compile but two, which run what was compiled.
        r'\s{0,20}File "[^"]{1,200}/torch/_inductor/compile_fx\.py", line \d{1,7}, in '
        r"(?!wrapper\b|run\b)\w{1,60}\s*$",
        FrameSeen,
        "ERROR 07-16 19:47:26 [core.py:866]   File "
        '"/x/torch/_inductor/compile_fx.py", line 974, in _compile_fx_inner',
        fixed={"phase": "compile"},
        startup_only=True,
    ),
    line_rule(
        "failure_frame_capture",
        # Of `compilation/cuda_graph.py` what runs inside `torch.cuda.graph`; without a
        # capture it returns what the same call gives.
        r"\s{0,20}(?:output = self\.runnable\(\*args, \*\*kwargs\)|"
        r'File "(?:[^"]{1,200}/)?torch/cuda/graphs\.py", line \d{1,7}, in '
        r"(?:__enter__|__exit__|capture_begin|capture_end))\s*$",
        FrameSeen,
        "(EngineCore_DP0 pid=3) ERROR 07-16 19:47:26 [core.py:866]     output = "
        "self.runnable(*args, **kwargs)",
        '  File "/x/torch/cuda/graphs.py", line 265, in capture_end',
        fixed={"phase": "graph_capture", "is_weak": True},
        startup_only=True,
    ),
    line_rule(
        "failure_frame_called",
        # `v1/worker/gpu_worker.py`, where a page left out the functions.
        r"\s{0,20}(?:\w{1,40} = )?self\.model_runner\.capture_model\(\)\s*$",
        FrameSeen,
        "    cuda_graph_memory_bytes = self.model_runner.capture_model()",
        fixed={"phase": "graph_capture"},
        startup_only=True,
    ),
    line_rule(
        "failure_package",
        # Not what runs others or carries what they gave it. The functions of `failure_frame`,
        # and what `failure_frame_compiler`, `compile_artifact_frame` and `failure_import`
        # read, have rules of their own.
        rf'\s{{0,20}}File "[^"]{{0,200}}{_FOLDERS}(?!'
        rf"{CARRIERS}|vllm/compilation/caching)"
        r'(?P<path>\w[\w./]{1,200})", line \d{1,7}, in '
        rf"(?!(?:{'|'.join(_FRAMES)}|<module>)\s*$)\S",
        PackageFrame,
        Sample(
            '  File "/x/site-packages/vllm/lora/ops/shrink.py", line 215, in _shrink',
            {"path": "vllm/lora/ops/shrink.py"},
        ),
        Sample(
            "ERROR 07-16 19:47:26 [core.py:866]   File "
            '"/vllm-gaudi/vllm_gaudi/v1/worker/hpu_model_runner.py", line 3197, in '
            "_prepare_inputs",
            {"path": "vllm_gaudi/v1/worker/hpu_model_runner.py"},
        ),
        Sample(
            "ERROR 07-16 19:47:26 [core.py:866]   File "
            '"/x/dist-packages/flashinfer/jit/core.py", line 98, in load',
            {"path": "flashinfer/jit/core.py"},
        ),
        # Of an engine that served they are read below what announces its end.
        startup_only=True,
        hint='.py", line ',
    ),
    line_rule(
        "crash_dump",
        # CPython `Modules/faulthandler.c` and `Python/traceback.c`.
        r"(?P<current>Current thread|Stack|Thread)(?: 0x[0-9a-f]{1,20})?"
        r"(?: \[[^\]]{1,60}\])? \(most recent call first\):",
        lambda match: CrashDumped(match["current"] != "Thread"),
        Sample(
            "Current thread 0x00007f3b4c1f7640 (most recent call first):",
            {"is_current": True},
        ),
        Sample(
            "Thread 0x00007f3b4c1f7640 (most recent call first):", {"is_current": False}
        ),
        levels=(NO_LEVEL,),
    ),
    line_rule(
        "crash_frame",
        r'\s{1,8}File "(?:[^"]{1,200}-packages/(?P<path>(?P<engine>vllm|tpu_inference)?'
        r'[\w./]{1,200})|[^"]{1,300})", line \d{1,7} in (?P<name>\S{1,100})\s*$',
        _crash_frame,
        Sample(
            '  File "/x/dist-packages/torch/cuda/graphs.py", line 84 in capture_end',
            {"path": "torch/cuda/graphs.py", "phase": None},
        ),
        Sample(
            '  File "/x/dist-packages/vllm/v1/worker/gpu_worker.py", line 8 in load_model',
            {"path": "vllm/v1/worker/gpu_worker.py", "phase": "load_model"},
        ),
        Sample(
            '  File "/usr/lib/python3.12/threading.py", line 355 in wait',
            {"path": None},
        ),
        levels=(NO_LEVEL,),
        # Of an engine that served they are read below their heading.
        startup_only=True,
        hint='.py", line ',
    ),
    line_rule(
        "failure_frame_server",
        # vLLM gives its server to uvicorn, which reads certificates then (`config.py load`).
        r'\s{0,20}File "[^"]{1,200}/uvicorn/(?:config\.py", line \d{1,7}, in \w{1,60}|'
        r'server\.py", line \d{1,7}, in startup)\s*$',
        FrameSeen,
        '(APIServer pid=1)   File "/x/uvicorn/config.py", line 434, in load',
        fixed={"phase": SERVER_START},
        hint="/uvicorn/",
    ),
    line_rule(
        "failure_import",
        # Of an installed vLLM, or one in its source folder; elsewhere of its programs.
        r'\s{0,20}File "(?:[^"]{1,150}(?:-packages|/vllm)/vllm/[^"]{1,150}|'
        r"(?:[^\"]{1,150}/)?vllm/entrypoints/(?:openai/api_server|cli/main)\.py)\", "
        r"line \d{1,7}, in <module>\s*$",
        FrameSeen,
        '  File "/usr/lib/python3.12/site-packages/vllm/env_override.py", line 5, in '
        "<module>",
        '  File "/app/vllm/entrypoints/openai/api_server.py", line 5, in <module>',
        fixed={"phase": ""},
        startup_only=True,
    ),
    line_rule(
        "failure_method",
        rf"Error executing method '?(?P<name>{'|'.join(_FRAMES)})\b",
        _frame,
        Sample(
            "(RayWorkerWrapper pid=91, ip=10.1.2.3) ERROR 03-11 15:24:48 "
            "[worker_base.py:620] Error executing method 'load_model'. This might "
            "cause deadlock in distributed execution.",
            {"phase": "load_model"},
        ),
        levels=("ERROR",),
        files=("worker_base.py",),
        startup_only=True,
    ),
    line_rule(
        "failure_heading",
        r".{0,120}?(?:Engine background task failed|EngineCore(?:Proc)? failed to start|WorkerProc failed to start|"
        r"(?:EngineCore|WorkerProc) hit an exception|EngineCore(?:Proc)? encountered a fatal error|"
        r"Uncaught exception|died unexpectedly|Engine process failed to start|"
        r"Exception in worker \w{1,40} while|"
        r"Got fatal signal from worker|AsyncLLM output_handler failed|"
        r"\[(?:StageRuntime|AsyncOmniEngine)\] Stage initialization failed; |"
        r"Exception occurred while running API servers).{0,300}",
        _failure("error", heading=True),
        Sample(
            "(EngineCore pid=1) ERROR 07-16 19:47:26 [core.py:866] EngineCore failed "
            "to start.",
            {"kind": "error", "is_heading": True},
        ),
        # vllm-omni `engine/stage_engine_core_proc.py run_stage_core`.
        Sample(
            "ERROR 07-16 19:47:26 [stage_engine_core_proc.py:90] StageEngineCoreProc "
            "encountered a fatal error.",
            {"kind": "error", "is_heading": True},
        ),
        # vllm-omni `engine/stage_runtime.py initialize`, `engine/async_omni_engine.py`.
        Sample(
            "(DiffusionWorker pid=93) ERROR 09-16 10:41:32 [stage_runtime.py:257] "
            "[StageRuntime] Stage initialization failed; shutting down 0 initialized client(s)",
            {"kind": "error", "is_heading": True},
        ),
        levels=("ERROR", "CRITICAL"),
    ),
    line_rule(
        "failure_iteration",
        r"Engine iteration timed out.{0,100}",
        _failure_at_work,
        Sample(
            "ERROR 02-18 10:00:00 async_llm_engine.py:886] Engine iteration timed "
            "out. This should never happen!",
            {"message": "Engine iteration timed out. This should never happen!"},
        ),
        levels=("ERROR",),
    ),
    line_rule(
        "failure_server",
        # uvicorn `lifespan/on.py`, of any web server.
        r"(?:ERROR:    )?Application startup failed.{0,100}",
        _failure("error", heading=True, bare=True),
        Sample(
            "ERROR:    Application startup failed. Exiting.",
            {"kind": "error", "is_heading": True, "is_bare": True},
        ),
    ),
    line_rule(
        "failure_bind",
        # uvicorn `server.py startup`.
        r"(?:ERROR:    )?(?P<text>\[Errno \d{1,3}\] error while attempting to bind on "
        r"address .{1,200})",
        _not_bound,
        Sample(
            "ERROR:    [Errno 98] error while attempting to bind on address "
            "('0.0.0.0', 8000): address already in use",
            {"is_bare": True},
        ),
    ),
    line_rule(
        "failure_core_gone",
        r"\[shutdown\] MPClient: engine core exited unexpectedly.{0,100}",
        _failure("error", heading=True),
        Sample(
            "(APIServer pid=7) WARNING 11-22 14:07:02 [core_client.py:817] [shutdown] "
            "MPClient: engine core exited unexpectedly; starting cleanup",
            {"kind": "error", "is_heading": True},
        ),
        levels=("WARNING",),
    ),
    line_rule(
        "killed",
        # What a supervisor or a shell states: gunicorn, torch elastic, subprocess, fish,
        # kubectl.
        rf"{_NO_REPORT}"
        r"(?:.{0,80}?(?:[Ss]ignal 9 \(|Signals\.|was sent |by signal |by )SIGKILL\b|"
        r"\s{0,40}(?:[Rr]eason: {0,20})?OOMKilled\s{0,80}$|Killed\s{0,80}$|"
        r"\S{1,200}: line \d{1,6}: {1,8}\d{1,9} Killed )"
        r".{0,200}",
        _failure("killed"),
        Sample("Killed", {"kind": "killed"}),
        Sample(
            "./serve.sh: line 19: 124064 Killed                  vllm serve a/b",
            {"kind": "killed"},
        ),
    ),
    line_rule(
        "killed_on_host",
        # Linux `mm/oom_kill.c`, behind what `dmesg` or a journal puts in front; Slurm's
        # `slurmstepd` and `srun`; kubectl.
        rf"\b[Oo]ut of memory: Kill(?:ed)? process \d{{1,9}} \({_PROGRAMS}.{{0,200}}|"
        rf"\boom-kill:constraint=.{{1,400}},task={_PROGRAMS}|"
        r"^(?:slurmstepd: error: Detected \d{1,6} oom[-_]kill event|"
        r"srun: error: [^:]{1,80}: tasks? [\d,-]{1,80}: Out Of Memory|"
        r"command terminated with exit code 137$|"
        r" {0,40}\"reason\": \"OOMKilled\",?$)",
        _failure("killed"),
        Sample(
            "[ 9123.45] Out of memory: Killed process 712 (VLLM::EngineCor) "
            "total-vm:99kB",
            {"kind": "killed"},
        ),
        levels=(NO_LEVEL,),
        anywhere=True,
    ),
    note_rule(
        "ray_has_no_node",
        # Ray `autoscaler`, printed in the program that requested the resources.
        r"\(autoscaler \+[\dhms]{1,20}\) Error: No available node types can fulfill resource "
        r"request .{1,240}",
        "ray_wait",
        "(autoscaler +30s) Error: No available node types can fulfill resource request "
        "{'node:10.0.0.7': 0.001, 'GPU': 1.0}. Add suitable node types to this cluster to "
        "resolve this issue.",
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        "container_exited",
        # docker compose (`pkg/compose/printer.go`), of a container that it did not end itself:
        # 128 and the number of the signal that ended it, or its own.
        r"(?P<text>[\w.@-]{1,120} exited with code (?!(?:0|130|143)\b)(?P<code>\d{1,3}))"
        r"(?: \(restarting\))?\s*$",
        _exited,
        Sample("vllm-1 exited with code 137", {"kind": "killed"}),
        Sample(
            "vllm-1 exited with code 139 (restarting)",
            {"kind": "error", "message": "vllm-1 exited with code 139"},
        ),
        fixed={"is_heading": True, "is_bare": True},
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        "killed_worker",
        r"Worker \S{1,60} pid \d{1,9} died, exit code: -9\b",
        _failure("killed"),
        Sample(
            "ERROR 05-19 09:38:42 [multiproc_worker_utils.py:120] Worker "
            "VllmWorkerProcess pid 6341 died, exit code: -9",
            {"kind": "killed"},
        ),
        levels=("ERROR",),
        files=("multiproc_worker_utils.py",),
    ),
    line_rule(
        "failure_thrown",
        # LLVM ends the process at an error in the code of a kernel, MLX at any (mlx-c
        # `error.cpp`), and the C++ library of macOS at what nothing catches.
        r"(?:\s{0,4}what\(\):\s{1,4}(?=\S)|(?=MLX error: )|"
        r"(?=libc\+\+abi: terminating (?:due to|with) uncaught )|(?=(?:CUDA|Cuda|HIP) (?:[Ee]rror|failure)\b ?[:(])|"
        r"(?=error: \S{1,200}: stack frame size \(\d{1,9}\) exceeds limit))(?P<text>.{1,600})",
        _thrown,
        Sample(
            "  what():  CUDA error: an illegal memory access was encountered",
            {"message": "CUDA error: an illegal memory access was encountered"},
        ),
        Sample(
            "MLX error: Failed to load the default metallib.",
            {"message": "MLX error: Failed to load the default metallib."},
        ),
        Sample(
            "libc++abi: terminating due to uncaught exception of type std::runtime_error: "
            "no room",
            {
                "message": "libc++abi: terminating due to uncaught exception of type "
                "std::runtime_error: no room"
            },
        ),
        Sample(
            "error: some_attention.py:211:0: stack frame size (164000) exceeds limit "
            "(131056) in function 'some_fwd'",
            {
                "message": "error: some_attention.py:211:0: stack frame size (164000) exceeds "
                "limit (131056) in function 'some_fwd'"
            },
        ),
        levels=(NO_LEVEL,),
        hint=(
            "what():",
            "CUDA error",
            "CUDA Error",
            "Cuda error",
            "Cuda failure",
            "HIP error",
            "MLX error: ",
            "libc++abi: terminating ",
            ": stack frame size (",
        ),
    ),
    line_rule(
        "failure_watchdog",
        # torch `csrc/distributed/c10d/ProcessGroupNCCL.cpp`, which ends the process.
        r"(?:.{0,120}\] )?(?P<text>Watchdog caught collective operation timeout: .{1,600})",
        _thrown,
        Sample(
            "[rank1]:[E428 12:40:21.113215690 ProcessGroupNCCL.cpp:629] [Rank 1] "
            "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
            "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for "
            "600029 milliseconds before timing out.",
            {
                "message": "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, "
                "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 "
                "milliseconds before timing out.",
                "is_bare": True,
            },
        ),
        levels=(NO_LEVEL,),
    ),
    line_rule(
        "failure_of_a_build",
        # The linker, the compilers of C and CUDA, the shell that starts them.
        r"(?:\S{1,300}: )?(?:cannot find -l|fatal error: |nvcc fatal|ptxas(?:-blackwell)? fatal).{1,300}|"
        r"ptxas \S{1,100}, line \d{1,6}; fatal   : .{1,300}|"
        r"(?:\S{1,300}: )?error: (?:#error directive: )?\"CUDA compiler and CUDA toolkit headers "
        r"are incompatible.{0,100}|"
        r"/bin/sh: (?:line )?\d{1,5}: (?!vllm:)\S{1,200}: (?:command )?not found\s{0,4}$",
        lambda match: FailureLine(match[0], is_bare=True, is_detail=True),
        Sample(
            "(EngineCore pid=7) /usr/bin/ld: cannot find -lcuda: No such file or "
            "directory",
            {"is_detail": True},
        ),
        Sample(
            "ptxas /tmp/tmpq2.ptx, line 5; fatal   : Unsupported .version 8.7; current "
            "version is '8.4'",
            {"is_detail": True},
        ),
        Sample(
            "(EngineCore pid=7) ERROR 07-27 07:27:53 [core.py:1108] ptxas-blackwell fatal   : "
            "Value 'sm_110a' is not defined for option 'gpu-name'",
            {"is_detail": True},
        ),
        levels=(NO_LEVEL, "ERROR"),
        startup_only=True,
        hint=(
            ": cannot find -l",
            ": fatal error: ",
            "nvcc fatal",
            "ptxas fatal",
            "ptxas-blackwell fatal",
            "; fatal   : ",
            "CUDA compiler and CUDA toolkit headers are incompatible",
            "/bin/sh: ",
        ),
    ),
    line_rule(
        "failure_of_nccl",
        # NCCL `src/debug.cc` with what failed, above the error of torch or vLLM that has its
        # class alone; also its hints and what follows when another rank has ended.
        # `ras/` serves those who look at a job: no rank waits for it.
        r"(?!.{0,200} ras/\w{1,40}\.cc:)"
        r".{0,300}?(?P<text>NCCL WARN (?!.{0,60}(?:closed by localRank|Accept failed Success))"
        rf"(?=.{{0,300}}?{_NCCL_FAILED}).{{1,400}})",
        lambda match: FailureLine(match["text"], is_bare=True, is_detail=True),
        Sample(
            "node1:400:512 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to "
            "10.0.0.6<47311> failed : Connection refused",
            {
                "message": "NCCL WARN socketStartConnect: Connect to 10.0.0.6<47311> failed : "
                "Connection refused",
                "is_detail": True,
            },
        ),
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        "failure_of_ucx",
        # UCX `ucs/debug/log.c`, above the error of nixl that has its class alone.
        r"\[\d{1,12}\.\d{1,9}\] \[.{1,300}?(?P<text>UCX  ERROR .{1,400})",
        lambda match: FailureLine(match["text"], is_bare=True, is_detail=True),
        Sample(
            "[1754890927.298391] [node1:270  :0]    ib_mlx5dv_md.c:1100 UCX  ERROR mlx5_7: "
            "ibv_modify_qp(UMR QP 0x9b5e) failed to modify to RTR: No such device",
            {
                "message": "UCX  ERROR mlx5_7: ibv_modify_qp(UMR QP 0x9b5e) failed to modify to "
                "RTR: No such device",
                "is_detail": True,
            },
        ),
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        "failure_of_ray",
        # Ray `_private/serialization.py`, above the time-out of who waits for the answer.
        r"(?:.{0,100} -- )?(?P<text>Can't deserialize object: .{1,400})",
        lambda match: FailureLine(match["text"], is_bare=True, is_detail=True),
        Sample(
            "2025-03-20 08:20:05,953\tERROR serialization.py:462 -- Can't deserialize object: "
            "ObjectRef(001e), metadata: b'\\x01'",
            {
                "message": "Can't deserialize object: ObjectRef(001e), metadata: b'\\x01'",
                "is_detail": True,
            },
        ),
    ),
    line_rule(
        "failure_of_flashinfer",
        # FlashInfer `compilation_context.py`, which then compiles for no device.
        r"Failed to get device capability: .{1,300}",
        lambda match: FailureLine(match[0], is_bare=True, is_detail=True),
        Sample(
            "(EngineCore pid=7) Failed to get device capability: SM 12.x requires CUDA >= "
            "12.9.",
            {
                "message": "Failed to get device capability: SM 12.x requires CUDA >= 12.9.",
                "is_detail": True,
            },
        ),
        levels=(NO_LEVEL, "WARNING"),
        startup_only=True,
    ),
    line_rule(
        "failure_of_a_kernel",
        # vLLM `csrc/cutlass_extensions/common.hpp`, which then ends the kernel.
        r"This kernel only supports sm_?\d{2,3}\w?(?=\.?\s{0,4}$)",
        lambda match: FailureLine(match[0], is_bare=True, is_detail=True),
        Sample(
            "(EngineCore pid=7) This kernel only supports sm120.",
            {"message": "This kernel only supports sm120", "is_detail": True},
        ),
        levels=(NO_LEVEL,),
        startup_only=True,
    ),
    line_rule(
        "rocm_fatal",
        # ROCm's runtimes end the process: `runtime.cpp VMFaultHandler` and
        # `HwExceptionHandler`, clr `rocdevice.cpp callbackQueue`.
        r"(?:Memory access fault|HW Exception) by GPU node-\d{1,6} \(Agent handle: .{1,200}|"
        r"(?::0:\S{1,80} {0,30}:\d{1,6} ?: {0,3}\d{1,20}d? us: {0,3}"
        r"(?:\[pid:[^\]]{1,40}\] )?(?:Callback: )?)?Queue \S{1,18} "
        r"[Aa]borting with error : HSA_STATUS_ERROR.{0,200}",
        _failure(None),
        Sample(
            "Memory access fault by GPU node-3 (Agent handle: 0x14e0) on address "
            "0x7f00(may not be exact address). Reason: Unknown.",
            {
                "message": "Memory access fault by GPU node-3 (Agent handle: 0x14e0) on "
                "address 0x7f00(may not be exact address). Reason: Unknown."
            },
        ),
        Sample(
            "HW Exception by GPU node-1 (Agent handle: 0x14e0) reason :GPU Hang",
            {
                "message": "HW Exception by GPU node-1 (Agent handle: 0x14e0) reason "
                ":GPU Hang"
            },
        ),
        Sample(
            ":0:rocdevice.cpp            :2614: 6530112364d us:  Callback: Queue "
            "0x7f00 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL "
            "operation resulted in a hardware exception. code: 0x1016",
            {"kind": None},
        ),
        levels=(NO_LEVEL,),
        device="rocm",
    ),
    line_rule(
        "signal_fatal",
        r"\*\*\* SIG(?!TERM|INT)[A-Z]{2,8} received (?:by PID \d{1,9}|at time=\d{1,12})"
        r".{0,200}|Fatal Python error: (?!Error in atexit).{1,200}|"
        # vLLM `csrc/custom_all_reduce.cuh` (CUDACHECK) ends its process then.
        r"Failed: Cuda error [^\s:]{1,200}:\d{1,6} '.{1,200}|"
        # The driver of Intel's GPUs (compute-runtime `debug_helpers.cpp`).
        r"Abort was called at \d{1,7} line in file(?=:)(?:: [^\s;]{1,400})?|"
        # A shell, of a program built for another processor.
        r"(?:\S{1,200}: line \d{1,6}: {1,8}\d{1,9} )?(?:Illegal instruction\b.{0,200}|"
        r"(?:Bus error|Segmentation fault)(?: \(core dumped\)|$))|"
        # The handler of tvm-ffi, which comes with FlashInfer; the loader of libraries.
        r"!{3,9} Segfault encountered|\S{1,40}: symbol lookup error: .{1,300}|"
        # UCX, which comes with nixl (`ucs/arch/x86_64/cpu.c`).
        r"\[\S{1,100}\] FATAL: UCX library was compiled with \w{1,20} but CPU does not .{1,40}",
        _failure(None),
        Sample(
            "*** SIGSEGV received at time=1777531622 on cpu 12 ***",
            {
                "kind": None,
                "message": "*** SIGSEGV received at time=1777531622 on cpu 12 ***",
            },
        ),
        Sample("Fatal Python error: Segmentation fault", {"kind": None}),
        Sample(
            "Abort was called at 84 line in file: ../../neo/shared/stream.h",
            {
                "message": "Abort was called at 84 line in file: ../../neo/shared/stream.h"
            },
        ),
        Sample("Bus error (core dumped)", {"kind": None}),
        Sample(
            "!!!!!!! Segfault encountered !!!!!!!",
            {"message": "Segfault encountered"},
        ),
        Sample(
            "python3: symbol lookup error: /x/vllm/_C.abi3.so: undefined symbol: _ZN3c10",
            {"kind": None},
        ),
        Sample(
            "Failed: Cuda error /workspace/csrc/custom_all_reduce.cuh:364 'invalid "
            "argument'",
            {
                "message": "Cuda error /workspace/csrc/custom_all_reduce.cuh:364 "
                "'invalid argument'"
            },
        ),
        levels=(NO_LEVEL,),
        hint=(
            "*** SIG",
            "Fatal Python error: ",
            "Failed: Cuda error ",
            "Abort was called at ",
            "Illegal instruction",
            "Bus error",
            "Segmentation fault",
            "Segfault encountered",
            ": symbol lookup error: ",
            "UCX library was compiled with",
        ),
    ),
)
