"""What made a start-up fail, or an engine that served, out of all that was printed.

One failure is printed many times: by the worker with a traceback, again without a
logger when the process ends, wrapped in another error by the engine and once more by
the API server (vLLM `v1/engine/core.py run_engine_core`, `v1/executor/
multiproc_executor.py`, `v1/engine/utils.py`). The cause is the error raised first.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from msgspec.structs import replace

from parsers.engine.dispatch import Matched
from parsers.engine.signals import (
    AT_WORK,
    EXECUTING,
    CrashFrame,
    FailureLine,
    FrameSeen,
    Origin,
    PackageFrame,
    ShutdownLine,
    stamped,
)
from parsers.engine.steps import STEP_BARS
from warmup_insights.model.events import (
    SERVER_START,
    Event,
    Failure,
    Note,
    ServingFailure,
    ShutdownRequested,
)
from warmup_insights.model.failure_text import CRASH, figures_of, kind_of_message
from warmup_insights.secrets import mask_text

_WRAPPER = re.compile(
    r"Engine core initialization failed|WorkerProc initialization failed|"
    r"EngineDeadError|EngineCore encountered an issue|Engine process (?:failed to start|\(pid \d{1,9}\) died)|"
    r"See stack trace|[Cc]heck the stack trace above|Engine loop (?:has died|is not)|"
    r"Background loop has errored|cancelled|\d{1,4} validation errors? for |"
    r"Worker failed with error |Error raised in subprocess:|failed in the TorchScript interpreter|RayTaskError\("
)
_OF_ENGINE = re.compile(
    r"EngineCore|Engine core|EngineDead|WorkerProc|Engine process|vllm"
)
_IN_START = re.compile(r"failed to start|startup failed|initialization failed")
"""Printed only while the engine core or the server is being made: `init engine` comes
before the scheduler and the connectors are (vLLM `v1/engine/core.py run_engine_core`)."""
_START_FAILED = re.compile(
    r"(?:Engine core|WorkerProc) initialization failed|Engine process failed to start|"
    r"Orchestrator did not become ready|Failed to infer device type|No package metadata was found for vllm|"
    r"(?:vllm(?: [\w-]{1,20})?|api_server\.py): error: |"
    r"/(?:vllm/_|vllm_gaudi/|habana_frameworks/)[^\s:]{0,200}: undefined symbol|"
    r"synStatus=\d{1,3} \[Device not found\] Device acquire failed|"
    # vllm-ascend `worker/model_runner_v1.py _torch_cuda_wrapper`, around what makes a runner
    # and captures its graphs.
    r"NPUModelRunner init failed, error is |\] Stage initialization failed; shutting down"
)
_CHECKED = re.compile(
    r"Invalid repository ID or local directory specified|No available memory for the cache b|"
    r"larger than the (?:maximum number of tokens that can be stored in KV cache|"
    r"available KV cache memory)|on startup is less than desired GPU memory utilization|"
    r"greater than the derived max_model_len|must be divisible by tensor parallel size"
)
"""What vLLM alone raises, and only while it reads settings, looks at the device or divides its
memory (`transformers_utils/config.py`, `config/model.py`, `v1/worker/utils.py`,
`v1/core/kv_cache_utils.py`)."""
_NOT_INSTALLED = re.compile(
    r"No module named '?vllm(?![\w.])|^vllm: (?:command )?not found|command not found: vllm|"
    r"command .vllm.: No such file|\"vllm\": executable file not found"
)
"""What ends a program without vLLM, where it is the end of the log: one that can do without
goes on."""
_NEAR_THE_END = 3
_CLI = "vllm/entrypoints/cli/"
_PROGRAMS = (f"{_CLI}main.py", f"{_CLI}serve.py")
"""Those of `vllm serve`; the other commands have files of their own there."""
_NOT_IMPORTED = re.compile(r"(?:ModuleNotFoundError|ImportError): ")
"""What these end with before they make a server: what a request imports is raised in a task
of its own."""
_OTHER_END = re.compile(
    r"BrokenPipeError: \[Errno 32\]|ConnectionResetError: \[Errno 104\]|EOFError\b|"
    r"Fatal Python error: Aborted|zmq\.error\.ZMQError: Operation not supported|"
    r"RuntimeError: cancelled$"
)
"""What a process prints when the one that it writes to or reads from has ended, or when
an error of C++ that is not caught ends it, or behind the close of its own sockets (vLLM 0.6
`engine/multiprocessing/client.py run_output_handler_loop`) or of a queue (vLLM
`distributed/device_communicators/shm_broadcast.py acquire_read`)."""
_STATED_PHASES = {
    "while processing method init_device": "init_worker",
    "while processing method load_model": "load_model",
    "while processing method determine_num_available_blocks": "profile_run",
    "while processing method initialize_cache": "kv_cache",
    "when warming up sampler": "sampler_warmup", "when warming up pooler": "pooler_warmup",
}  # fmt: skip
"""What the message itself states of its place (vLLM `v1/worker/gpu_model_runner.py`)."""
_STATED_AT_WORK = re.compile(
    r"Engine background task failed|encountered a fatal error|output_handler failed|"
    r"start_worker_execution_loop"
)
"""Printed of an engine that was made (vLLM `engine/async_llm_engine.py`, `v1/engine/core.py
run_engine_core`, `v1/engine/async_llm.py`, `worker/worker_base.py`)."""
_QUOTED = re.compile(r"RuntimeError: Worker failed with error '(?=\w)")
"""What a worker raised, in the words of its executor (`v1/executor/multiproc_executor.py`)."""
_OF_A_WORKER = "WorkerProc hit an exception"
"""Logged above what a worker raised; the engine may go on (`v1/executor/
multiproc_executor.py worker_busy_loop`)."""
_OF_DEVICE = re.compile(r"\b(?:CUDA|Cuda|HIP|NCCL|CUBLAS)")
_NCCL_WARNING = "NCCL WARN "
_UCX_ERROR = "UCX  ERROR "
_EXPLAINED_BY = {
    _NCCL_WARNING: re.compile(r"NCCL error|\bnccl[A-Z]\w{2,40}Error|DistBackendError"),
    _UCX_ERROR: re.compile(r"NIXL_ERR_|nixl\w{0,20}Error"),
    "Failed to get device capability: ": re.compile(
        r"FlashInfer requires GPUs with sm75|No supported CUDA architectures found"
    ),
    "Can't deserialize object": re.compile(r"RayChannelTimeoutError"),
    "This kernel only supports sm": re.compile(
        r"unspecified launch failure|illegal instruction|IllegalInstruction|LaunchFailure"
    ),
    "": re.compile(
        r"[Nn]inja|Error (?:building|compiling) |nvcc|PTXAS|(?:gcc|g\+\+|clang\S{0,9}|cc)'|C\+\+ compile"
    ),
}
"""How a line begins that explains an error without being one, and the errors that it explains:
of a call of NCCL, of NIXL over UCX, of FlashInfer without a device (`compilation_context.py`),
of Ray's channel that cannot read an answer (`_private/serialization.py`),
of a kernel that ends itself on another device (vLLM
`csrc/cutlass_extensions/common.hpp`), and of a build, whose compiler prints anything."""
_LAUNCHER = re.compile(
    r"subprocess\.CalledProcessError: Command .{1,900} returned non-zero exit status"
)
"""What a program raises whose child failed."""
_OF_A_CHILD = "RuntimeError: Error raised in subprocess:"
"""Above what the child printed (`model_executor/models/registry.py _run_in_subprocess`)."""
_GONE = re.compile(r"(?:died|exited) unexpectedly|died with exit code")
"""A process that printed no error of its own ended: what others print follows from it."""
_NOT_BOUND = "error while attempting to bind on address"
"""What uvicorn prints right below `Application startup complete.` and ends with, where it
makes the socket itself (`server.py startup`; vLLM made none before 0.6.4)."""
MAX_CAUSES = 64
LONG_OVER_S = 600.0
"""The processes of an engine that failed have ended by then."""
_NEAR_LINES = 30
"""Of an error that is announced alone: what a compiler or NCCL stated so closely above it is
its cause."""
_BIND_LINES = 5
"""Further below readiness it is another program that does not get its port."""
MAX_FRAMES = 200
"""Lines of one traceback between two that are of use."""
MAX_ANNOUNCED = 2000
"""Lines below an announced error that may be of its tracebacks: each rank prints one."""


def names_engine(message: str) -> bool:
    """Whether vLLM states that its engine failed."""
    return _OF_ENGINE.search(message) is not None


class Traceback:
    """The end of a traceback in a log without a start-up: it may be all there is of one.

    It is of a start of vLLM if it leads through a function of a worker or an executor
    that runs only then, or if it ends in vLLM's own words for a start that failed.
    """

    def __init__(self) -> None:
        self._lines: list[Matched] = []
        self._last = 0
        self._has_frame = self._is_proven = self._is_of_program = False
        self._is_missing = False
        """Its error is that vLLM is not there."""

    def take(self, matched: Matched) -> None:
        """Keep a line; the first traceback that is proven to be of a start stays."""
        if self._lines and matched.line - self._last > MAX_FRAMES:
            if self._is_proven:
                return
            self._lines, self._has_frame, self._is_of_program = [], False, False
        for item in matched.made:
            if isinstance(item, FrameSeen):
                self._has_frame = self._has_frame or item.is_of_start
                self._is_proven |= self._has_frame and matched.record.is_error
            elif isinstance(item, FailureLine):
                self._is_missing = _NOT_INSTALLED.search(item.message) is not None
                words = (_START_FAILED, _CHECKED)
                failed = any(each.search(item.message) for each in words)
                failed |= self._is_of_program and bool(
                    _NOT_IMPORTED.match(item.message)
                )
                self._is_of_program = False
                self._is_proven = self._is_proven or failed or self._has_frame
            elif not isinstance(item, PackageFrame):
                return
            elif item.path.startswith(_CLI):
                self._is_of_program = item.path in _PROGRAMS
        if self._lines and _is_frame_of_package(matched, self._lines[-1]):
            self._lines.pop()  # the innermost counts
        if len(self._lines) < MAX_CAUSES:
            self._lines.append(matched)
            self._last = matched.line

    def logged_above(self, line: int) -> list[Matched]:
        """Take those of its lines that a logger printed, right above a line."""
        lines, self._lines = self._lines, []
        is_near = line - self._last <= MAX_FRAMES
        return [each for each in lines if is_near and each.record.file is not None]

    def proven(self, end: int | None = None) -> list[Matched]:
        """Take its lines; none unless it is of a start. `end` is the last line of the log,
        once that is known."""
        lines, self._lines = self._lines, []
        is_end = end is not None and end - self._last <= _NEAR_THE_END
        return lines if self._is_proven or (self._is_missing and is_end) else []


def _is_frame_of_package(*lines: Matched) -> bool:
    """Whether these state a file of a package each and nothing else."""
    made = [item for line in lines for item in line.made]
    return all(isinstance(item, PackageFrame) for item in made)


_INSIDE = frozenset(
    {
        ("profile_run", "compile"),
        *product(
            ("model_warmup",),
            (
                *STEP_BARS.values(),
                "mixed",
                "multimodal",
                "sampler_warmup",
                "defrag_warmup",
            ),
        ),
    }
)
"""What a traceback shows, and the part of it that lines had named: the profiling run
compiles, and a warm-up goes through buckets, the sampler and the defragmenter."""


def stage_of(frame: str | None, named: str | None) -> str | None:
    """The stage that a frame shows, or the part of it that lines had named."""
    return named if frame is None or (frame, named) in _INSIDE else frame


_LOOKED_FOR = re.compile(
    r"(?:KeyError|IndexError|StopIteration|json\.decoder\.JSONDecodeError)\b"
)
"""Errors that name a place in a table or a text alone: the one that follows has what it was
for."""


@dataclass(frozen=True)
class _Cause:
    """A line that may hold the cause of a failure."""

    kind: str
    message: str
    origin: Origin
    phase: str | None
    is_wrapper: bool
    is_consequence: bool
    is_bare: bool
    is_of_start: bool
    behind_heading: bool
    module: str | None = None
    """The innermost file of the engine or a package in its traceback."""

    @property
    def is_of_server(self) -> bool:
        """Whether it was raised while the web server was made."""
        return self.is_of_start and self.phase == SERVER_START


class Failures:
    """The failure of one run, before it was ready and after."""

    def __init__(self) -> None:
        self._causes: list[_Cause] = []
        self._heading: _Cause | None = None
        self._announced: _Cause | None = None
        """That a worker raised what comes."""
        self._announced_line: int | None = None
        """Number of the last line above a traceback that the engine announces."""
        self.is_ready = False
        """Whether the engine became ready."""
        self.was_at_work = False
        """Whether what failed shows that it had been."""
        self.starting_line: int | None = None
        """Number of vLLM's line that its server starts, which alone proves no ready one."""
        self._serving_line: int | None = None
        """Number of the first line that proves that a server is ready, more than its engine."""
        self._is_fatal = False
        """Whether the loop of an engine ended with an error (vLLM `v1/engine/core.py
        run_engine_core`)."""
        self._is_stopped = False
        self.has_ended = False
        """Whether the engine failed for good or was stopped on request."""
        self._stop: ShutdownRequested | None = None
        """A stop whose line has no time: one that comes after it may have one."""
        self.artifact: str | None = None
        """The first compiled artefact, or its loader, that a traceback leads through."""
        self._reasons: dict[str, tuple[FailureLine, Origin]] = {}
        """Of each of `_EXPLAINED_BY` the first line, and where it was printed."""
        self._answered: Origin | None = None
        """Where it was printed that a client got an error as the answer to its call."""
        self._looked_for: _Cause | None = None
        """The error of a key that was looked for, where another one follows from it."""

    @property
    def has_causes(self) -> bool:
        """Whether an error was printed that may be the cause."""
        return bool(self._causes)

    @property
    def is_known(self) -> bool:
        """Whether the engine became ready or a line states why it did not."""
        return self.is_ready or self.has_ended or self.has_causes

    @property
    def is_of_start(self) -> bool:
        """Whether the engine states that it failed while it was made."""
        return self._heading is not None and bool(
            _IN_START.search(self._heading.message)
        )

    @property
    def is_over(self) -> bool:
        """Whether the start-up is: it ended, or an error that no one caught led through a
        function that runs only in one, or is vLLM's own for a start that failed."""
        return self.has_ended or any(
            cause.is_bare and (cause.is_of_start or _START_FAILED.search(cause.message))
            for cause in self._causes
        )

    def take(
        self,
        made: FailureLine,
        origin: Origin,
        phase: str | None,
        *,
        is_of_start: bool = False,
        module: str | None = None,
    ) -> None:
        """Keep a line; which of them is the cause shows at the end."""
        if self._is_answer(made, origin) or self._is_long_over(origin):
            return
        is_wrapper = _WRAPPER.search(made.message) is not None
        # A server that fails in its own set-up stops its engine, and prints why after that.
        may_follow = self._serving_line is None and is_of_start and not is_wrapper
        if (self._is_stopped and not may_follow) or len(self._causes) >= MAX_CAUSES:
            return
        if self._explains_last(made, origin):
            last = self._causes.pop()
            message = f"{last.message} {made.message}"
            kind = last.kind if made.is_detail else kind_of_message(message)
            self._causes.append(dataclasses.replace(last, message=message, kind=kind))
            return
        if made.is_detail and made.kind is None:
            begin = next(b for b in _EXPLAINED_BY if made.message.startswith(b))
            self._reasons.setdefault(begin, (made, origin))
            return
        if made.message.startswith(_OF_A_CHILD):
            self._causes = [_of_child(cause) for cause in self._causes]
        cause = _Cause(
            kind=made.kind or kind_of_message(made.message), message=made.message,
            origin=origin, phase=phase,
            is_wrapper=is_wrapper,
            is_consequence=self._follows(made),
            is_bare=made.is_bare,
            is_of_start=is_of_start,
            behind_heading=(self._announced or self._heading) is not None,
            module=module,
        )  # fmt: skip
        if made.is_heading or made.message.startswith(_OF_A_WORKER):
            self._announced_line = origin.line
        if made.message.startswith(_OF_A_WORKER):
            self._announced = self._announced or cause
            return
        if made.is_heading:
            self.was_at_work = self.was_at_work or (
                _STATED_AT_WORK.search(made.message) is not None
            )
            self._heading, self.has_ended = self._heading or cause, True
            self._is_fatal = (
                self._is_fatal or "encountered a fatal error" in made.message
            )
        else:
            if self._causes and self._names_lookup(cause):
                self._causes.pop()
            self._causes.append(cause)

    def crashed_in(self, made: CrashFrame, origin: Origin, dumped: int) -> None:
        """Take a frame in which a signal ended the process, the innermost first, of those
        below the heading in a line."""
        for place, cause in enumerate(self._causes):
            is_own = cause.origin.rank == origin.rank and CRASH.search(cause.message)
            above = cause.origin.line
            if not is_own or not origin.line - MAX_FRAMES <= above < dumped:
                continue
            module = cause.module or made.path
            phase, is_of_start = cause.phase, cause.is_of_start
            if made.phase == AT_WORK:
                self.was_at_work = True
                phase = phase if is_of_start else AT_WORK
            elif made.phase and made.phase != EXECUTING and not is_of_start:
                is_of_start = True
                phase = stage_of(made.phase, phase)
            self._causes[place] = dataclasses.replace(
                cause, module=module, phase=phase, is_of_start=is_of_start
            )

    def announce_traceback(self, line: int | None) -> None:
        """What follows this line is where a process was that a signal ended."""
        if self.has_causes and line is not None:
            self._announced_line = line

    def is_traceback_near(self, line: int) -> bool:
        """Whether a line may be of a traceback that the engine announced."""
        above = self._announced_line
        return above is not None and line - above <= MAX_ANNOUNCED

    def answered(self, origin: Origin) -> None:
        """What a ready server's client called failed, and the engine goes on."""
        if self._serving_line is not None and not self._is_stopped:
            self._causes, self._heading, self._announced = [], None, None
            self.has_ended, self._answered = False, origin

    def _is_answer(self, made: FailureLine, origin: Origin) -> bool:
        """Whether it is of the traceback below an answered call."""
        call = self._answered
        if call is None or made.is_heading or origin.time != call.time:
            return False
        return origin.rank == call.rank and origin.line - call.line <= MAX_FRAMES

    def _is_long_over(self, origin: Origin) -> bool:
        """Whether a server's engine was gone long before: what follows is of another one."""
        last = self._causes[-1].origin.time if self._causes else None
        if not self.is_ready or last is None or origin.time is None:
            return False
        return origin.time - last > LONG_OVER_S and self._is_certain()

    def follow_last(self, origin: Origin) -> None:
        """What comes was raised because of the error of this rank that was printed last."""
        last = self._causes[-1] if self._causes else None
        if last is not None and last.origin.rank == origin.rank:
            self._looked_for = last if _LOOKED_FOR.match(last.message) else None

    def _names_lookup(self, cause: _Cause) -> bool:
        """Whether an error follows the one of a key that was looked for, and has more text."""
        looked, self._looked_for = self._looked_for, None
        if looked is None or looked is not self._causes[-1] or cause.is_wrapper:
            return False
        return looked.origin.rank == cause.origin.rank and not cause.is_consequence

    def _explains_last(self, made: FailureLine, origin: Origin) -> bool:
        """Whether it is the second line of the error before it, whose first ends in a colon."""
        last = self._causes[-1] if self._causes else None
        if last is None or not last.message.endswith(":"):
            return False
        if made.is_detail:
            return made.kind is not None
        is_same = last.origin.rank == origin.rank and not made.is_heading
        return is_same and last.message.endswith(" raised:")

    def _follows(self, made: FailureLine) -> bool:
        """Whether it follows from what failed before: the other end of a connection, or
        an engine of V1 that stated what failed and killed its own processes (0.8.5
        `v1/engine/core_client.py`, `sigusr1_handler`), or the end of a process after that of
        another, or a crash after an error of the device."""
        if made.kind == "killed":
            heading = self._heading
            return heading is not None and not self._is_gone
        if _GONE.search(made.message) and self._heading is not None:
            return made.message.partition(": ")[2] not in self._heading.message
        if _LAUNCHER.match(made.message):
            return any(cause.is_wrapper for cause in self._causes)
        if self._causes and CRASH.search(made.message):
            return _OF_DEVICE.search(self._causes[-1].message) is not None
        return _OTHER_END.match(made.message) is not None

    def stop(
        self, made: ShutdownLine, origin: Origin, *, in_start: bool
    ) -> list[Event]:
        """The engine goes down; whether on request, unless it had failed."""
        if self._stop is not None and origin.time is not None:
            stopped, self._stop = replace(self._stop, time=origin.time), None
            return [stopped]
        if self._is_stopped or (made.is_weak and self._is_certain()):
            return []
        self._is_stopped = self.has_ended = True
        has_failed = self._is_gone or (self._is_fatal and self._has_own_cause)
        if has_failed and "SIGINT" not in made.message:
            # What is left of the engine is stopped because of it: by SIGTERM (vLLM
            # `v1/utils.py shutdown`). Ctrl-C reaches all processes, in any order.
            return []
        in_start = in_start and not (self.is_ready or self.was_at_work)
        order = ShutdownRequested(message=made.message[:500], in_start=in_start)
        stopped = stamped(order, origin)
        if origin.time is None:
            self._stop = stopped
            return []
        return [stopped]

    def ready(self, line: int | None = None) -> list[Event]:
        """The engine became ready: whatever was printed before did not stop it; `line` is
        that of a server."""
        if line != self.starting_line:
            self._serving_line = self._serving_line or line
        if self.is_ready:
            return []
        self.is_ready = True
        cause, certain = self._best(), self._is_certain()
        self._causes, self._heading = [], None
        self.artifact = self._announced = None
        self._reasons = {}
        self.has_ended = self._is_stopped
        if cause is None or not certain:
            return []
        text = f"{cause.message[:300]} (and the start-up went on)"
        return [stamped(Note(topic="error", text=mask_text(text)), cause.origin)]

    def went_on(self) -> None:
        """The start-up went on: what other programs printed did not stop it. A worker goes
        on for a while behind the end of its core, which vLLM states."""
        if self._causes and self._heading is None:
            self._causes = [
                cause for cause in self._causes
                if not cause.is_bare or _START_FAILED.search(cause.message)
            ]  # fmt: skip

    def close(self) -> list[Event]:
        """The failure of the start-up or of the serving engine, if there is one."""
        stopped: list[Event] = [] if self._stop is None else [self._stop]
        cause = self._best()
        is_certain = self._is_certain() or self._failed_to_start()
        if cause is None or (self._is_vague(cause) and not is_certain):
            return [*stopped, *self._unanswered()]
        origin = self._dated(cause)
        message, kind = cause.message, cause.kind
        reason = self._reason_of(cause)
        if reason is not None:
            message = f"{reason.message} ({message})"
            kind = kind_of_message(message) if kind == "error" else kind
        fields: dict[str, Any] = {
            "failure": kind,
            "message": mask_text(message)[:2000],
            **figures_of(cause.message),
        }
        if cause.module is not None and kind == "error":
            fields["module"] = cause.module
        if self.artifact is not None and kind == "error":
            fields["artifact"] = self.artifact
        if (self.is_ready or self.was_at_work) and not self._failed_to_start():
            return [*stopped, stamped(ServingFailure(**fields), origin)]
        phase = next(self._stages_of(cause), None)
        if self.is_ready and self.starting_line is not None:
            phase = SERVER_START
        return [*stopped, stamped(Failure(phase=phase, **fields), origin)]

    def _reason_of(self, cause: _Cause) -> FailureLine | None:
        """The line that explains an error, or stands right above one that is announced alone."""
        for begin, errors in _EXPLAINED_BY.items():
            if begin not in self._reasons:
                continue
            reason, origin = self._reasons[begin]
            is_near = 0 < cause.origin.line - origin.line <= _NEAR_LINES
            is_alone = cause.is_wrapper or cause in (self._heading, self._announced)
            if errors.search(cause.message) or (is_near and is_alone):
                return reason
        return None

    def _unanswered(self) -> Iterator[Event]:
        """What NCCL or UCX stated of a call that failed, in a start without an error or an
        end."""
        if self.is_ready or self.has_ended:
            return
        for begin, topic in ((_NCCL_WARNING, "nccl"), (_UCX_ERROR, "ucx")):
            if begin in self._reasons:
                made, origin = self._reasons[begin]
                text = mask_text(made.message)[:500]
                yield stamped(Note(topic=topic, text=text), origin)

    def _dated(self, cause: _Cause) -> Origin:
        """Where a cause was printed; one without a time has that of the line below it in
        which the engine states that it failed."""
        heading, origin = self._heading, cause.origin
        if origin.time is not None or heading is None:
            return origin
        is_below = heading.origin.line > origin.line
        return Origin(
            heading.origin.time if is_below else None, origin.rank, origin.line
        )

    def _stages_of(self, cause: _Cause) -> Iterator[str]:
        """What the message names, the traceback of the cause, then those of what wraps it:
        the innermost error is printed first, and can lead through a compiler alone. Last
        what the heading names: a worker of V0 logs its method above the traceback. What
        another rank was doing is not what failed."""
        later = (c for c in self._causes if c.origin.line > cause.origin.line)
        heading = (self._heading,) if self._heading is not None else ()
        for c in (cause, *later, *heading):
            yield from (p for text, p in _STATED_PHASES.items() if text in c.message)
            is_own = c.is_of_start or c.origin.rank == cause.origin.rank
            if c.phase and c.phase != AT_WORK and is_own:
                yield c.phase

    def _is_vague(self, cause: _Cause) -> bool:
        """Whether it may be of one request, or of another program that made it: what leaves
        the loop of an engine without a logger ended its process, and a signal in it did."""
        is_end = cause.is_bare or CRASH.search(cause.message) is not None
        if is_end and cause.phase == AT_WORK:
            return False
        return self.is_ready or (self.was_at_work and cause.is_bare)

    @property
    def _is_gone(self) -> bool:
        """Whether the end of a process is what failed."""
        heading = self._heading
        return heading is not None and _GONE.search(heading.message) is not None

    @property
    def _has_own_cause(self) -> bool:
        """Whether a logger printed an error that follows from no other one."""
        return any(
            cause.behind_heading
            and not (cause.is_wrapper or cause.is_consequence or cause.is_bare)
            for cause in self._causes
        )

    def _is_certain(self) -> bool:
        """Whether more than the error of one request was printed."""
        return self._heading is not None or any(
            cause.is_wrapper or cause.kind != "error" for cause in self._causes
        )

    def _failed_to_start(self) -> bool:
        """Whether the engine or its server failed while it was made, after its warm-up."""
        lines = [*self._causes, *([self._heading] if self._heading is not None else [])]
        ready = self._serving_line
        if ready is None:
            return any(c.is_of_server or _IN_START.search(c.message) for c in lines)
        return any(
            _NOT_BOUND in c.message and 0 < c.origin.line - ready <= _BIND_LINES
            for c in lines
        )

    def _best(self) -> _Cause | None:
        """The innermost cause: memory first, then the first behind the heading."""
        heading = self._heading
        ends = [cause for cause in self._causes if not cause.is_consequence]
        own = _before_quoted([c for c in ends if not c.is_wrapper], ends)
        for wanted in (
            [cause for cause in own if cause.is_of_server and self.is_ready],
            [cause for cause in own if cause.kind != "error"],
            [cause for cause in own if cause.behind_heading],
            [cause for cause in own if not cause.is_bare],
            own,
            [heading] if heading is not None and self._is_gone else [],
            self._stated_before(ends),
            ends,
            self._causes,
        ):
            if wanted:
                return wanted[0]
        if self.is_ready or self.was_at_work:
            return heading  # a worker that raised something may go on
        return heading or self._announced

    def _stated_before(self, ends: list[_Cause]) -> list[_Cause]:
        """The end of a connection that a process logged as its fatal error before the
        first of what wraps it: nothing else was printed that it could follow from."""
        return [
            cause
            for cause in self._causes
            if cause.is_consequence and cause.behind_heading and not cause.is_bare
            and ends and cause.origin.line < ends[0].origin.line
        ]  # fmt: skip


def _of_child(cause: _Cause) -> _Cause:
    """The same; what a program raised whose child failed follows from what that printed."""
    if not _LAUNCHER.match(cause.message):
        return cause
    return dataclasses.replace(cause, is_consequence=True)


def _before_quoted(own: list[_Cause], ends: list[_Cause]) -> list[_Cause]:
    """What an executor quotes of a worker, where all else was printed later and without
    a logger: that is raised while processes end."""
    quoted = next((cause for cause in ends if _QUOTED.match(cause.message)), None)
    if quoted is None or not all(
        cause.is_bare and cause.origin.line > quoted.origin.line for cause in own
    ):
        return own
    return [quoted]
