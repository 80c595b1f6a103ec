"""Logs of a run in the wording of the engines, one module for each dialect."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from warmup_insights.errors import SettingError
from warmup_insights.model.events import AnyEvent, RunStarted
from warmup_insights.runner.log_format.base import LogDialect
from warmup_insights.runner.log_format.vllm import VllmLog
from warmup_insights.runner.log_format.vllm_fork import VllmForkLog
from warmup_insights.runner.log_format.vllm_gaudi import VllmGaudiLog

LOG_FORMATS: dict[str, Callable[[], LogDialect]] = {
    "vllm-fork": VllmForkLog,
    "vllm-gaudi": VllmGaudiLog,
    "vllm": VllmLog,
}

__all__ = ["LOG_FORMATS", "LogDialect", "LogWriter", "open_log"]


class LogWriter:
    """Writes each event's lines to a stream as they come."""

    def __init__(self, dialect: LogDialect, stream: TextIO) -> None:
        self._dialect = dialect
        self._stream = stream

    def take(self, event: AnyEvent) -> None:
        """Write the lines of an event; a run's first line says who wrote the log."""
        lines = self._dialect.render(event)
        if isinstance(event, RunStarted):
            lines = [_origin(event), *lines]
        if lines:
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()


def open_log(name: str, stream: TextIO) -> LogWriter:
    """A writer of that dialect. Raises SettingError."""
    if name not in LOG_FORMATS:
        known = ", ".join(LOG_FORMATS)
        raise SettingError(f"unknown log format {name!r}; use one of {known}")
    return LogWriter(LOG_FORMATS[name](), stream)


def _origin(event: RunStarted) -> str:
    kind = "simulated" if event.synthetic else "measured"
    return (
        f"# written by the reference engine of warmup-insights {event.version}, "
        f"{kind} on {event.device_name}"
    )
