"""Upstream vLLM: ready, or failed.

Source: vLLM `entrypoints/`, `v1/engine/core.py`, `v1/executor/`.
"""

from __future__ import annotations

import re

from parsers._vllm_startup import SECONDS
from parsers.base import NO_LEVEL, LineRule, Made, Sample
from parsers.signals import FailureLine
from warmup_insights.model.events import (
    EngineInitialized,
    Note,
    PhaseMarked,
    ServerReady,
)


def _serving(match: re.Match[str]) -> list[Made]:
    return [PhaseMarked(name="server_start", edge="start"), ServerReady()]


def _failure(kind: str | None) -> object:
    def build(match: re.Match[str]) -> Made:
        return FailureLine(message=match[0].strip(), kind=kind)

    return build


_MEMORY = (
    r"OutOfMemoryError|[Oo]ut of memory|No available memory for the cache blocks|"
    r"synStatus|FATAL ERROR ::|is less than desired GPU memory utilization|"
    r"larger than the available KV cache memory|"
    r"larger than the maximum number of tokens that can be stored"
)

END_RULES: tuple[LineRule, ...] = (
    LineRule(
        "engine_initialized",
        "init engine (profile",
        rf"init engine \(profile, create kv cache, warmup model\) took {SECONDS} s(?:econds)?"
        r"(?: \(compilation: (?P<compile_s>[\d.]{1,16}) s\))?",
        EngineInitialized,
        samples=(
            Sample(
                "INFO 07-16 20:04:12 [core.py:340] init engine (profile, create kv "
                "cache, warmup model) took 92.87 s (compilation: 52.05 s)",
                {"duration_s": 92.87, "compile_s": 52.05},
            ),
            Sample(
                "INFO 06-04 01:18:37 [llm_engine.py:429] init engine (profile, create kv "
                "cache, warmup model) took 2.73 seconds",
                {"duration_s": 2.73, "compile_s": None},
            ),
        ),
    ),
    LineRule(
        "server_starting",
        ("API server", "vLLM server"),
        r"Starting vLLM (?:API )?server(?: \d{1,3})? on http",
        build=_serving,
        samples=(
            Sample(
                "(APIServer pid=1) INFO 07-16 20:04:15 [api_server.py:677] Starting vLLM "
                "server on http://0.0.0.0:8000",
                {"name": "server_start", "edge": "start"},
            ),
        ),
    ),
    LineRule(
        "server_ready",
        "Application startup complete",
        r"(?:INFO:     )?Application startup complete\.",
        ServerReady,
        samples=(
            Sample(
                "(APIServer pid=309263) INFO:     Application startup complete.", {}
            ),
        ),
    ),
    LineRule(
        "server_process",
        (
            "Started server process",
            "Waiting for application startup",
            "Available routes",
            "Route: /",
        ),
        r"(?:INFO:     )?(?:Started server process|Waiting for application startup|"
        r"Available routes are:|Route: /)",
        samples=(
            Sample("(APIServer pid=3) INFO:     Started server process [309263]"),
        ),
    ),
    LineRule(
        "keep_alive",
        "shared memory broadcast block",
        r"(?P<text>No available shared memory broadcast block found in \d{1,6} seconds?)",
        Note,
        fixed={"topic": "keep_alive"},
        samples=(
            Sample(
                "(EngineCore pid=1) INFO 07-16 20:03:40 [shm_broadcast.py:705] No "
                "available shared memory broadcast block found in 60 seconds. This "
                "typically happens when some processes are hanging",
                {"topic": "keep_alive"},
            ),
        ),
    ),
    LineRule(
        "failure_memory",
        (
            "out of memory",
            "OutOfMemory",
            "No available memory for the cache blocks",
            "synStatus",
            "FATAL ERROR",
            "less than desired GPU memory utilization",
            "larger than the available KV cache memory",
            "larger than the maximum number of tokens that can be stored",
        ),
        rf".{{0,300}}?(?:{_MEMORY}).{{0,600}}",
        build=_failure(None),  # type: ignore[arg-type]
        levels=("ERROR", "CRITICAL"),
        samples=(
            Sample(
                "(Worker_TP1 pid=2) ERROR 07-16 19:47:26 [multiproc_executor.py:1007] "
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
                {
                    "message": "torch.OutOfMemoryError: CUDA out of memory. Tried to "
                    "allocate 2.00 GiB."
                },
            ),
        ),
    ),
    LineRule(
        "failure_memory_bare",
        ("OutOfMemory", "Error: "),
        rf"[\w.]{{1,80}}Error: (?=.{{0,300}}?(?:{_MEMORY})).{{1,600}}|"
        r"(?:[\w.]{1,60}\.)?OutOfMemoryError: .{0,600}",
        build=_failure(None),  # type: ignore[arg-type]
        levels=(NO_LEVEL,),
        samples=(
            Sample(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
                {
                    "message": "torch.OutOfMemoryError: CUDA out of memory. Tried to "
                    "allocate 2.00 GiB."
                },
            ),
        ),
    ),
    LineRule(
        "failure_engine",
        (
            "EngineCore failed to start",
            "Engine core initialization failed",
            "EngineCore encountered a fatal error",
            "Uncaught exception",
            "died unexpectedly",
            "Engine process failed to start",
        ),
        r".{0,120}?(?:EngineCore failed to start|Engine core initialization failed|"
        r"EngineCore encountered a fatal error|Uncaught exception|died unexpectedly|"
        r"Engine process failed to start).{0,300}",
        build=_failure("error"),  # type: ignore[arg-type]
        samples=(
            Sample(
                "(EngineCore pid=1) ERROR 07-16 19:47:26 [core.py:866] EngineCore failed "
                "to start.",
                {"kind": "error"},
            ),
        ),
    ),
    LineRule(
        "failure_exception",
        ("Error: ", "Exception: "),
        rf"(?:[\w.]{{1,80}}(?:Error|Exception)): (?!.{{0,300}}?(?:{_MEMORY}))"
        r"(?<!OutOfMemoryError: ).{1,1000}",
        build=_failure("error"),  # type: ignore[arg-type]
        levels=("ERROR", "CRITICAL"),
        samples=(
            Sample(
                "(Worker_TP1 pid=2) ERROR 07-16 19:47:26 [multiproc_executor.py:1007] "
                "RuntimeError: API call failed at x, line 933",
                {"kind": "error"},
            ),
        ),
    ),
    LineRule(
        "killed",
        ("Killed", "SIGKILL", "OOMKilled"),
        r"(?:.{0,80}?(?:SIGKILL|OOMKilled)|Killed\s{0,80}$).{0,200}",
        build=_failure("killed"),  # type: ignore[arg-type]
        samples=(Sample("Killed", {"kind": "killed"}),),
    ),
)
