"""Upstream vLLM: an engine goes down, on request or because of a signal.

Source: vLLM `entrypoints/launcher.py`, `v1/engine/core.py`, `v1/engine/core_client.py`;
uvicorn; the handlers of signals of Ray, absl and torch; Slurm `slurmstepd/req.c`.
"""

from __future__ import annotations

import re

from parsers.base import NO_LEVEL, LineRule, Made, Sample
from parsers.engine.signals import ShutdownLine


def _shutdown(match: re.Match[str]) -> Made:
    return ShutdownLine(match[0].strip(), is_weak=match["weak"] is not None)


SHUTDOWN_RULES: tuple[LineRule, ...] = (
    LineRule(
        "shutdown",
        (
            "[shutdown] ",
            "Shutting down",
            "Received signal",
            "shutdown signal",
            "Shutdown initiated (timeout=",
        ),
        r"\[shutdown\] (?:API server: shutdown triggered|"
        r"EngineCore: trigger received signal).{0,200}|"
        r"Received (?:SIG\w{1,8}|signal \d{1,2}).{0,200}|"
        # `core.py _handle_shutdown` of 0.18 to 0.22, for any end of its client.
        r"(?P<weak>(?:INFO:     )?Shutting down(?: FastAPI HTTP server\.)?\s*$|"
        r"Shutdown initiated \(timeout=\d{1,6}\)\s*$)",
        build=_shutdown,
        levels=("INFO", "WARNING"),
        samples=(
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
        ),
    ),
    LineRule(
        "interrupted",
        ("KeyboardInterrupt", "Cancellation requested; stopping", "SystemExit: 15"),
        r"KeyboardInterrupt(?:: .{0,100})?\s*$|Cancellation requested; stopping .{0,60}|"
        r"SystemExit: 15\s*$",
        build=lambda match: ShutdownLine(match[0].strip(), is_weak=True),
        levels=(NO_LEVEL, "ERROR"),
        samples=(Sample("(APIServer pid=7) KeyboardInterrupt", {"is_weak": True}),),
    ),
    LineRule(
        "signal_received",
        ("*** SIGTERM received", "*** SIGINT received"),
        r"\*\*\* SIG(?:TERM|INT) received (?:by PID \d{1,9}|at time=\d{1,12}).{0,200}",
        build=lambda match: ShutdownLine(match[0].strip()),
        levels=(NO_LEVEL,),
        samples=(
            Sample(
                "*** SIGTERM received by PID 4711 (TID 4711) on cpu 3, si_code=0, from "
                "PID 815; stack trace: ***",
                {"is_weak": False},
            ),
        ),
    ),
    LineRule(
        "job_cancelled",
        "CANCELLED AT ",
        r"(?:slurmstepd|srun)[^\s:]{0,80}: (?:error: )?\*{3} (?:JOB|STEP) .{1,120} CANCELLED AT .{1,160}",
        # A job whose engine failed can hang until its time is over.
        build=lambda match: ShutdownLine(match[0].strip(), is_weak=True),
        samples=(
            Sample(
                "slurmstepd: error: *** JOB 815 ON node7 CANCELLED AT "
                "2026-07-16T15:50:04 DUE TO TIME LIMIT ***",
                {"is_weak": True},
            ),
        ),
    ),
    LineRule(
        "shutdown_step",
        "[shutdown] ",
        r"\[shutdown\] (?!API server: shutdown triggered|"
        r"EngineCore: trigger received signal|.{0,60}?unexpectedly)",
        samples=(
            Sample(
                "(APIServer pid=2) INFO 08-01 21:34:51 [core_client.py:655] [shutdown] "
                "MPClient: start timeout=0s"
            ),
        ),
    ),
)
