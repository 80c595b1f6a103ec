"""Starting the process that stores what the recorders of a run write."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import msgspec

import warmup_insights
from warmup_insights.model.run import host
from warmup_insights.vllm_plugin.settings import DATABASE, DRAINER

_START = (
    "import os, sys; os.fork() and os._exit(0); os.setsid(); "
    "sys.path.append(sys.argv[1]); from warmup_insights.drainer import main; main()"
)
"""Leaves the engine's family, because vLLM kills all of it when one process fails."""

logger = logging.getLogger(__name__)


def drainer_of(run_id: str) -> str:
    """What the variable DRAINER holds where a process of this machine drains a run."""
    return f"{run_id} on {host()}"


def ensure_drainer(database: str, run_id: str) -> None:
    """Start a process that drains the run, unless this machine has one."""
    if os.environ.get(DRAINER) == drainer_of(run_id):
        return
    os.environ[DRAINER] = drainer_of(run_id)
    environ = {k: v for k, v in os.environ.items() if k != DATABASE}
    root = str(Path(warmup_insights.__file__).parents[1])
    try:
        if not sys.executable:
            raise FileNotFoundError("the path of this Python is unknown")
        with subprocess.Popen(
            [sys.executable, "-c", _START, root],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            env=environ,
        ) as process:  # it leaves a process of its own and ends at once
            process.communicate(msgspec.json.encode((database, run_id)))
    except OSError as error:
        logger.warning("Recorded events wait in their files: %s", error)
