"""Logs of a run in the wording of the engines, one module for each dialect."""

from __future__ import annotations

from typing import TextIO

from warmup_insights.errors import SettingError
from warmup_insights.runner.log_format.vllm import VLLM
from warmup_insights.runner.log_format.vllm_fork import VLLM_FORK
from warmup_insights.runner.log_format.vllm_gaudi import VLLM_GAUDI
from warmup_insights.runner.log_format.writer import LogWriter

LOG_FORMATS = {"vllm-fork": VLLM_FORK, "vllm-gaudi": VLLM_GAUDI, "vllm": VLLM}

__all__ = ["LOG_FORMATS", "LogWriter", "open_log"]


def open_log(name: str, stream: TextIO) -> LogWriter:
    """A writer of that dialect. Raises SettingError."""
    if name not in LOG_FORMATS:
        known = ", ".join(LOG_FORMATS)
        raise SettingError(f"Unknown log format {name!r}; use one of {known}")
    return LogWriter(LOG_FORMATS[name], stream)
