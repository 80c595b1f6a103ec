"""Upstream vLLM: its server is ready, answers its first requests, and goes down.

Later requests are not looked for; use of graphs is printed beside them.

Source: vLLM `entrypoints/` (`launcher.py`, `logger.py`), `v1/engine/core.py`,
`v1/engine/core_client.py`, `compilation/cuda_graph.py`, V0 `engine/async_llm_engine.py`;
uvicorn, whose `protocols/http/h11_impl.py` prints its access line when a response begins, so
that of a stream comes before its first token; the handlers of signals of Ray, absl and torch;
Slurm `slurmstepd/req.c`.
"""

from __future__ import annotations

import re

from parsers.base import NO_LEVEL, SECONDS, LineRule, Made, Sample, line_rule, note_rule
from parsers.engine.signals import RequestLine, ResponseLine, RoutesListed, ShutdownLine
from warmup_insights.model.events import (
    SERVER_START,
    EngineInitialized,
    GraphUsed,
    PhaseMarked,
    ServerReady,
)


def _serving(match: re.Match[str]) -> list[Made]:
    return [PhaseMarked(name=SERVER_START, edge="start"), ServerReady()]


END_RULES: tuple[LineRule, ...] = (
    line_rule(
        "engine_initialized",
        rf"init engine \(profile, create kv cache, warmup model\) took {SECONDS}(?: s(?:econds)?|$)"
        r"(?: \(compilation: (?P<compile_s>[\d.]{1,16}) s(?: . language_model: .{1,80})?\))?",
        EngineInitialized,
        Sample(
            "INFO 07-16 20:04:12 [core.py:340] init engine (profile, create kv cache, "
            "warmup model) took 92.87 s (compilation: 52.05 s)",
            {"duration_s": 92.87, "compile_s": 52.05},
        ),
        Sample(
            "INFO 06-04 01:18:37 [llm_engine.py:429] init engine (profile, create kv "
            "cache, warmup model) took 2.73 seconds",
            {"duration_s": 2.73, "compile_s": None},
        ),
    ),
    line_rule(
        "server_ready_elsewhere",
        r"(?:(?:OpenAI|gRPC) server is ready to accept requests|"
        # Printed when all its engines are ready (`launchers/dp_supervisor.py`).
        r"Started DPSupervisor on |"
        r"Server is ready to accept requests|vLLM gRPC server started on )",
        ServerReady,
        "INFO 09-16 20:04:15 [grpc_server.py:131] vLLM gRPC server started on "
        "0.0.0.0:50051",
        "INFO 09-16 20:04:15 [lib.rs:336] OpenAI server is ready to accept requests "
        "bind_address=0.0.0.0:8000 scheme=http model=a/b",
    ),
    line_rule(
        "server_starting",
        r"Starting vLLM (?:(?:multi-model )?API )?server(?: \d{1,3})? on ",
        _serving,
        Sample(
            "(APIServer pid=1) INFO 07-16 20:04:15 [api_server.py:677] Starting vLLM "
            "server on http://0.0.0.0:8000",
            {"name": "server_start", "edge": "start"},
        ),
    ),
    line_rule(
        "server_ready",
        r"(?:INFO:     )?Application startup complete\.",
        ServerReady,
        "(APIServer pid=309263) INFO:     Application startup complete.",
    ),
    line_rule(
        "server_routes",
        r"Available routes are:",
        RoutesListed,
        "INFO 04-14 08:39:49 launcher.py:21] Available routes are:",
        files=("launcher.py",),
    ),
    line_rule(
        "server_process",
        r"(?:INFO:     )?(?:Started server process|Waiting for application startup|"
        r"Route: /)",
        None,
        "(APIServer pid=3) INFO:     Started server process [309263]",
    ),
    note_rule(
        "keep_alive",
        r"No available shared memory broadcast block found in \d{1,6} seconds?",
        "keep_alive",
        "(EngineCore pid=1) INFO 07-16 20:03:40 [shm_broadcast.py:705] No available "
        "shared memory broadcast block found in 60 seconds. This typically happens "
        "when some processes are hanging",
    ),
)

_PATHS = (
    r"(?:chat/completions|completions|embeddings|responses|messages|score|rerank|classify|"
    r"pooling|audio/\w{1,20}|generate|invocations)"
)
_ID = r"(?P<request>[\w.-]{1,200})"

REQUEST_RULES: tuple[LineRule, ...] = (
    line_rule(
        "request_answered",
        r'[^"]{0,100}"POST /(?:[\w.-]{1,40}/){0,4}'
        + _PATHS
        + r'(?:\?[^" ]{0,500})? HTTP/[\d.]{1,3}" 2\d\d\b',
        ResponseLine,
        '(APIServer pid=1) INFO:     10.0.0.1:48804 - "POST /v1/chat/completions '
        'HTTP/1.1" 200 OK',
        'INFO:     127.0.0.1:35008 - "POST /generate HTTP/1.1" 200 OK',
        startup_only=True,
    ),
    line_rule(
        "request_arrived",
        rf"(?:Received request {_ID}: |Added request (?P<request2>[\w.-]{{1,200}})\.$)",
        lambda found: RequestLine(found["request"] or found["request2"]),
        Sample(
            "(APIServer pid=90458) INFO 02-13 11:33:33 [logger.py:49] Received request "
            "chatcmpl-a269fdcb7c6ce890: params: SamplingParams(n=1), lora_request: None.",
            {"request": "chatcmpl-a269fdcb7c6ce890", "is_end": False},
        ),
        Sample(
            "INFO 07-04 11:32:50 [engine.py:317] Added request chatcmpl-0ff8.",
            {"request": "chatcmpl-0ff8", "is_end": False},
        ),
        startup_only=True,
        files=("logger.py", "async_llm_engine.py", "engine.py", "async_llm.py"),
    ),
    line_rule(
        "request_finished",
        rf"(?:Finished request {_ID}\.$|Generated response (?P<request2>[\w.-]{{1,200}})"
        r"(?! \(streaming delta\))(?: \(streaming complete\))?: output)",
        lambda found: RequestLine(found["request"] or found["request2"], True),
        Sample(
            "INFO 02-24 19:47:26 [async_llm_engine.py:179] Finished request cmpl-7-0.",
            {"request": "cmpl-7-0", "is_end": True},
        ),
        Sample(
            "(APIServer pid=1) INFO 07-16 19:47:28 [logger.py:80] Generated response "
            "chatcmpl-9 (streaming complete): output: 'Hi', finish_reason: stop",
            {"request": "chatcmpl-9", "is_end": True},
        ),
        startup_only=True,
        files=("logger.py", "async_llm_engine.py", "async_llm.py"),
    ),
    line_rule(
        "graph_use",
        r"\| (?P<num_tokens>\d{1,9}) {1,20}\| (?P<padded_tokens>\d{1,9}) {1,20}\| \d{1,9} "
        r"{1,20}\| (?P<mode>FULL|PIECEWISE|NONE) {1,20}\| (?P<count>\d{1,12}) {1,20}\|",
        GraphUsed,
        Sample(
            "(APIServer pid=66) INFO 09-02 08:46:23 [compilation/cuda_graph.py:123] | "
            "127             | 128           | 1            | PIECEWISE    | 116   |",
            {
                "num_tokens": 127,
                "padded_tokens": 128,
                "mode": "PIECEWISE",
                "count": 116,
            },
        ),
        files=("cuda_graph.py",),
        hint=("| FULL", "| PIECEWISE", "| NONE"),
    ),
    line_rule(
        "graph_use_heading",
        r"\*\*CUDAGraph (?:Config Settings|Stats):\*\*|- Capture sizes: \[",
        None,
        "(APIServer pid=66) INFO 09-02 08:46:23 [compilation/cuda_graph.py:108] "
        "**CUDAGraph Config Settings:**",
        "(APIServer pid=66) INFO 09-02 08:46:23 [compilation/cuda_graph.py:108] - "
        "Capture sizes: [1, 2, 4]",
        files=("cuda_graph.py",),
    ),
)


def _shutdown(match: re.Match[str]) -> Made:
    return ShutdownLine(match[0].strip(), is_weak=match["weak"] is not None)


SHUTDOWN_RULES: tuple[LineRule, ...] = (
    line_rule(
        "shutdown",
        r"\[shutdown\] (?:API server: shutdown triggered|"
        r"EngineCore: trigger received signal).{0,200}|"
        r"Received (?:SIG\w{1,8}|signal \d{1,2}).{0,200}|"
        # `core.py _handle_shutdown` of 0.18 to 0.22, for any end of its client.
        r"(?P<weak>(?:INFO:     )?Shutting down(?: FastAPI HTTP server\.)?\s*$|"
        r"Shutdown initiated \(timeout=\d{1,6}\)\s*$)",
        _shutdown,
        Sample(
            "(EngineCore pid=23) INFO 08-01 21:34:51 [core.py:1214] [shutdown] "
            "EngineCore: trigger received signal=SIGTERM",
            {"is_weak": False},
        ),
        Sample(
            "(APIServer pid=9) INFO 09-30 18:51:40 [launcher.py:101] Shutting down "
            "FastAPI HTTP server.",
            {"is_weak": True},
        ),
        Sample(
            "(EngineCore pid=97) INFO 05-12 11:36:00 [core.py:1201] Shutdown "
            "initiated (timeout=0)",
            {"is_weak": True},
        ),
        levels=("INFO", "WARNING"),
        hint=(
            "[shutdown] ",
            "Shutting down",
            "Received signal",
            "shutdown signal",
            "Shutdown initiated (timeout=",
        ),
    ),
    line_rule(
        "interrupted",
        r"KeyboardInterrupt(?:: .{0,100})?\s*$|Cancellation requested; stopping .{0,60}|"
        r"SystemExit: 15\s*$",
        lambda match: ShutdownLine(match[0].strip(), is_weak=True),
        Sample("(APIServer pid=7) KeyboardInterrupt", {"is_weak": True}),
        levels=(NO_LEVEL, "ERROR"),
    ),
    line_rule(
        "signal_received",
        r"\*\*\* SIG(?:TERM|INT) received (?:by PID \d{1,9}|at time=\d{1,12}).{0,200}",
        lambda match: ShutdownLine(match[0].strip()),
        Sample(
            "*** SIGTERM received by PID 4711 (TID 4711) on cpu 3, si_code=0, from "
            "PID 815; stack trace: ***",
            {"is_weak": False},
        ),
        levels=(NO_LEVEL,),
        hint=("*** SIGTERM received", "*** SIGINT received"),
    ),
    line_rule(
        "job_cancelled",
        r"(?:slurmstepd|srun)[^\s:]{0,80}: (?:error: )?\*{3} (?:JOB|STEP) .{1,120} CANCELLED AT .{1,160}",
        # A job whose engine failed can hang until its time is over.
        lambda match: ShutdownLine(match[0].strip(), is_weak=True),
        Sample(
            "slurmstepd: error: *** JOB 815 ON node7 CANCELLED AT 2026-07-16T15:50:04 "
            "DUE TO TIME LIMIT ***",
            {"is_weak": True},
        ),
    ),
    line_rule(
        "shutdown_step",
        r"\[shutdown\] (?!API server: shutdown triggered|"
        r"EngineCore: trigger received signal|.{0,60}?unexpectedly)",
        None,
        "(APIServer pid=2) INFO 08-01 21:34:51 [core_client.py:655] [shutdown] "
        "MPClient: start timeout=0s",
    ),
)
