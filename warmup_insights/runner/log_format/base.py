"""From the events of a run to the lines of an engine's log.

A dialect is a class with one method for each event that its engine has a line for. It
returns messages; the envelope (level, stamp, file and line) is put around them here.
File and line are those of the engine version that the module names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, ClassVar

from warmup_insights.model.events import AnyEvent, MemoryMeasured
from warmup_insights.units import format_bytes


@dataclass(frozen=True)
class Line:
    """One record of a log; `source` is `file.py:line`, empty for a bare line.

    A message of several lines becomes several lines with the same envelope.
    """

    message: str
    source: str = ""
    level: str = "INFO"


class LogDialect:
    """Renders events; subclasses set `handlers` and whether the source is bracketed."""

    name: ClassVar[str]
    has_brackets: ClassVar[bool] = True

    def __init__(self) -> None:
        self.handlers: dict[type[Any], Callable[[Any], Iterable[Line]]] = {}

    def render(self, event: AnyEvent) -> list[str]:
        """The lines of an event, with their envelope and without line ends."""
        handler = self.handlers.get(type(event))
        if handler is None:
            return []
        return [
            text for line in handler(event) for text in self._wrap(line, event.time)
        ]

    def _wrap(self, line: Line, time: float | None) -> list[str]:
        if not line.source:
            return line.message.split("\n")
        source = f"[{line.source}]" if self.has_brackets else f"{line.source}]"
        prefix = f"{line.level} {stamp(time)} {source} "
        return [prefix + part for part in line.message.split("\n")]


def stamp(time: float | None) -> str:
    """`MM-DD HH:MM:SS` in UTC, the format of vLLM's logger; no year, whole seconds."""
    moment = datetime.fromtimestamp(time or 0.0, timezone.utc)
    return moment.strftime("%m-%d %H:%M:%S")


def took(event: MemoryMeasured) -> str:
    """What a stage took, as `HabanaMemoryProfiler.get_summary_string` writes it.

    The part about the host is left out where nothing is known of it.
    """
    text = (
        f"{format_bytes(event.delta_bytes)} of device memory "
        f"({format_bytes(event.used_bytes)}/{format_bytes(event.total_bytes)} used)"
    )
    if event.host_delta_bytes is None:
        return text
    return (
        f"{text} and {format_bytes(event.host_delta_bytes)} of host memory "
        f"({format_bytes(event.host_used_bytes)}/"
        f"{format_bytes(event.host_total_bytes)} used)"
    )


def number(value: float) -> str:
    """A share as Python prints it: `0.5`, `1.0`."""
    return repr(float(value))


def tuples(buckets: Iterable[tuple[int, ...]] | None) -> str:
    """A list of tuples as Python prints it."""
    return repr([tuple(bucket) for bucket in buckets or ()])
