"""Upstream vLLM: ready.

Source: vLLM `entrypoints/`, `v1/engine/core.py`.
"""

from __future__ import annotations

import re

from parsers.base import LineRule, Made, Sample, note_rule
from parsers.engine.signals import RoutesListed
from parsers.rules.vllm_loading import SECONDS
from warmup_insights.model.events import (
    SERVER_START,
    EngineInitialized,
    PhaseMarked,
    ServerReady,
)


def _serving(match: re.Match[str]) -> list[Made]:
    return [PhaseMarked(name=SERVER_START, edge="start"), ServerReady()]


END_RULES: tuple[LineRule, ...] = (
    LineRule(
        "engine_initialized",
        "init engine (profile",
        rf"init engine \(profile, create kv cache, warmup model\) took {SECONDS}(?: s(?:econds)?|$)"
        r"(?: \(compilation: (?P<compile_s>[\d.]{1,16}) s(?: . language_model: .{1,80})?\))?",
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
        "server_ready_elsewhere",
        ("ready to accept requests", "gRPC server started", "Started DPSupervisor on"),
        r"(?:(?:OpenAI|gRPC) server is ready to accept requests|"
        # Printed when all its engines are ready (`launchers/dp_supervisor.py`).
        r"Started DPSupervisor on |"
        r"Server is ready to accept requests|vLLM gRPC server started on )",
        ServerReady,
        samples=(
            Sample(
                "INFO 09-16 20:04:15 [grpc_server.py:131] vLLM gRPC server started on "
                "0.0.0.0:50051",
                {},
            ),
            Sample(
                "INFO 09-16 20:04:15 [lib.rs:336] OpenAI server is ready to accept "
                "requests bind_address=0.0.0.0:8000 scheme=http model=a/b",
                {},
            ),
        ),
    ),
    LineRule(
        "server_starting",
        ("API server", "vLLM server"),
        r"Starting vLLM (?:(?:multi-model )?API )?server(?: \d{1,3})? on ",
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
        "server_routes",
        "Available routes are",
        r"Available routes are:",
        RoutesListed,
        files=("launcher.py",),
        samples=(
            Sample("INFO 04-14 08:39:49 launcher.py:21] Available routes are:", {}),
        ),
    ),
    LineRule(
        "server_process",
        (
            "Started server process",
            "Waiting for application startup",
            "Route: /",
        ),
        r"(?:INFO:     )?(?:Started server process|Waiting for application startup|"
        r"Route: /)",
        samples=(
            Sample("(APIServer pid=3) INFO:     Started server process [309263]"),
        ),
    ),
    note_rule(
        "keep_alive",
        "shared memory broadcast block",
        r"No available shared memory broadcast block found in \d{1,6} seconds?",
        "keep_alive",
        "(EngineCore pid=1) INFO 07-16 20:03:40 [shm_broadcast.py:705] No "
        "available shared memory broadcast block found in 60 seconds. This "
        "typically happens when some processes are hanging",
    ),
)
