"""From the events of a run to the lines of an engine's log.

A dialect is a table: which line an event becomes, and from which file and line of the
engine it comes. The envelope (level, time stamp, source) is put around it here.
"""

from __future__ import annotations

import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TextIO

from warmup_insights.model.events import (
    AnyEvent,
    BucketsGenerated,
    BucketsOmitted,
    GraphCaptured,
    GraphSkipped,
    MemoryBudgetSet,
    RunStarted,
)
from warmup_insights.units import GIB, MIB, format_bytes


@dataclass
class Seen:
    """What lines need of earlier events; the figures of graphs are for each phase."""

    model: str = ""
    total_bytes: int = 0
    capture_s: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    num_skipped: Counter[str] = field(default_factory=Counter)
    omitted: list[BucketsOmitted] = field(default_factory=list)
    """Since the last list of generated buckets."""

    def add(self, event: AnyEvent) -> None:
        """Keep the facts of an event."""
        if isinstance(event, RunStarted):
            self.model = event.model or ""
        elif isinstance(event, MemoryBudgetSet):
            self.total_bytes = event.total_bytes or 0
        elif isinstance(event, GraphCaptured):
            self.capture_s[event.phase] += event.duration_s or 0.0
        elif isinstance(event, GraphSkipped):
            self.num_skipped[event.phase] += 1
        elif isinstance(event, BucketsOmitted):
            self.omitted.append(event)


Text = str | Callable[[Any, Seen], str]


@dataclass(frozen=True)
class Line:
    """One record that an event becomes, unless `when` is false of it.

    `text` names fields of the event in braces, with the formats of `_Fields`, or is a
    function. `source` is `file.py:line`, empty for a record without an envelope. A text
    of several lines becomes several lines with the same envelope.
    """

    event: type[Any]
    text: Text
    source: str = ""
    level: str = "INFO"
    when: Callable[[Any], bool] | None = None


@dataclass(frozen=True)
class LogDialect:
    """The lines of an engine, in the order in which one event's are written."""

    lines: Sequence[Line]
    has_brackets: bool = True
    """Whether the source stands in brackets, or only before a closing one."""


class LogWriter:
    """Writes each event's lines to a stream as they come."""

    def __init__(self, dialect: LogDialect, stream: TextIO) -> None:
        self._stream = stream
        self._opening = "[" if dialect.has_brackets else ""
        self._seen = Seen()
        self._lines: dict[type[Any], list[Line]] = defaultdict(list)
        for line in dialect.lines:
            self._lines[line.event].append(line)

    def take(self, event: AnyEvent) -> None:
        """Write the lines of an event; a run's first line names the writer of the log."""
        self._seen.add(event)
        written = [_origin(event)] if isinstance(event, RunStarted) else []
        for line in self._lines.get(type(event), ()):
            if line.when is None or line.when(event):
                written += self._record(line, event)
        if isinstance(event, BucketsGenerated):
            self._seen.omitted.clear()
        if written:
            self._stream.write("\n".join(written) + "\n")
            self._stream.flush()

    def _record(self, line: Line, event: AnyEvent) -> list[str]:
        if isinstance(line.text, str):
            text = fill(line.text, event)
        else:
            text = line.text(event, self._seen)
        prefix = ""
        if line.source:
            prefix = f"{line.level} {stamp(event.time)} {self._opening}{line.source}] "
        return [prefix + part for part in text.split("\n")] if text else []


class _Fields(string.Formatter):
    """Fields of an event by name; an unknown number is 0.

    Beside Python's formats: `bytes` (1.5 GiB), `GiB.2f` and `MiB.2f` (of bytes), `float`
    (as Python prints it), `tuples` (a list of tuples), `Title` (first letter large).
    """

    def get_field(self, name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        return getattr(args[0], name), name

    def format_field(self, value: Any, spec: str) -> str:
        if spec == "bytes":
            return format_bytes(value)
        if spec == "Title":
            return str(value).capitalize()
        if spec == "tuples":
            return tuples(value)
        if spec == "float":
            return repr(float(value or 0))
        for unit, size in (("GiB", GIB), ("MiB", MIB)):
            if spec.startswith(unit):
                return format((value or 0) / size, spec.removeprefix(unit))
        return format(value or 0, spec) if spec else str(value)


_FIELDS = _Fields()


def fill(text: str, event: AnyEvent) -> str:
    """The text with the fields of an event in their places."""
    return _FIELDS.format(text, event)


def stamp(time: float | None) -> str:
    """`MM-DD HH:MM:SS` in UTC, the format of vLLM's logger; no year, whole seconds."""
    moment = datetime.fromtimestamp(time or 0.0, timezone.utc)
    return moment.strftime("%m-%d %H:%M:%S")


def tuples(buckets: Iterable[tuple[int, ...]] | None) -> str:
    """A list of tuples as Python prints it."""
    return repr([tuple(bucket) for bucket in buckets or ()])


def _origin(event: RunStarted) -> str:
    kind = "simulated" if event.synthetic else "measured"
    return (
        f"# written by the reference engine of warmup-insights {event.version}, "
        f"{kind} on {event.device_name}"
    )
