"""From the events of a run to the lines of an engine's log, and lines that dialects share.

A dialect is a table: which line an event becomes, and from which file and line of the
engine it comes. The envelope (level, timestamp, source) is put around it here.
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
    BenchmarkResult,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
    ConfigRecorded,
    EngineInitialized,
    Failure,
    GraphCaptured,
    GraphSkipped,
    KVCacheAllocated,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
from warmup_insights.runner.metrics import result_block
from warmup_insights.units import GIB, MIB, engine_bytes


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
            return engine_bytes(value)
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


SERVING = (
    Line(ServerReady, "INFO:     Application startup complete."),
    Line(BenchmarkResult, lambda event, _: result_block(event.values)),
)
"""Lines of uvicorn and of `vllm bench serve`, which have no envelope."""


def upstream(
    *, config: str, load: str, size: str, concurrency: str, ready: str
) -> tuple[Line, ...]:
    """Settings, loading, KV cache and the end, by the places that print them."""
    return (
        Line(
            ConfigRecorded,
            lambda event, seen: (
                f"non-default args: { ({'model': seen.model, **event.settings})!r}"
            ),
            config,
        ),
        Line(
            PhaseMarked,
            lambda _, seen: f"Starting to load model {seen.model}...",
            load,
            when=lambda event: (event.name, event.edge) == ("load_model", "start"),
        ),
        Line(KVCacheAllocated, "GPU KV cache size: {num_tokens:,} tokens", size),
        Line(
            KVCacheAllocated,
            "Maximum concurrency for {tokens_per_request:,} tokens per request: "
            "{max_concurrency:.2f}x",
            concurrency,
        ),
        Line(
            EngineInitialized,
            "init engine (profile, create kv cache, warmup model) took "
            "{duration_s:.2f} seconds",
            ready,
        ),
    )


def hpu(bucket_file: str) -> tuple[Line, ...]:
    """Buckets, the end of the warm-up and failures."""
    return (
        Line(BucketRangesConfigured, _ranges, f"{bucket_file}:36"),
        Line(BucketsGenerated, _generated, f"{bucket_file}:85"),
        Line(
            WarmupFinished,
            "Skipping warmup...",
            "hpu_model_runner.py:1131",
            when=lambda event: event.skipped,
        ),
        Line(
            WarmupFinished,
            "Warmup finished in {duration_s:.0f} secs, allocated {allocated_bytes:bytes} "
            "of device memory",
            "hpu_model_runner.py:1206",
            when=lambda event: not event.skipped,
        ),
        Line(Failure, failure(_hpu_out_of_memory), "hpu_worker.py:210", "ERROR"),
    )


def _ranges(event: BucketRangesConfigured, _: Seen) -> str:
    """`Prompt bucket config (min, step, max_warmup) bs:[1, 32, 4], seq:[...]`."""
    names = ["max_warmup" if name == "max" else name for name in event.parameters]
    values = ", ".join(f"{name}:{list(v)}" for name, v in event.ranges.items())
    return f"{event.phase.capitalize()} bucket config ({', '.join(names)}) {values}"


def _generated(event: BucketsGenerated, _: Seen) -> str:
    """`Generated 24 prompt buckets: [(1, 128), ...]`, with a legend for three sizes."""
    names = event.dimensions
    legend = "" if len(names) == 2 else f" [{', '.join(names)}]"
    buckets = tuples(event.buckets)
    return f"Generated {event.count} {event.phase} buckets{legend}: {buckets}"


def failure(out_of_memory: Callable[[Any, Seen], str]) -> Callable[[Any, Seen], str]:
    """The last line of the traceback; devices differ where memory ran out."""

    def text(event: Failure, seen: Seen) -> str:
        if event.failure == "out_of_memory":
            return out_of_memory(event, seen)
        if event.failure == "no_kv_cache":
            return (
                "ValueError: No available memory for the cache blocks. Try increasing "
                "`gpu_memory_utilization` when initializing the engine."
            )
        return f"RuntimeError: {' '.join(event.message.split())}"

    return text


def _hpu_out_of_memory(event: Failure, _: Seen) -> str:
    needed = event.needed_bytes or 0
    return (
        "RuntimeError: [Rank:0] FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed "
        f"for size::{needed} ({needed // MIB})MB"
    )


def stage(name: str, words: str, source: str) -> Line:
    """What a stage took, as `HabanaMemoryProfiler.get_summary_string` writes it."""
    return Line(
        MemoryMeasured,
        lambda event, _: f"{words} {_took(event)}",
        source,
        when=lambda event: event.stage == name,
    )


def _took(event: MemoryMeasured) -> str:
    """The part about the host is left out where nothing is known of it."""
    text = (
        f"{engine_bytes(event.delta_bytes)} of device memory "
        f"({engine_bytes(event.used_bytes)}/{engine_bytes(event.total_bytes)} used)"
    )
    if event.host_delta_bytes is None:
        return text
    return (
        f"{text} and {engine_bytes(event.host_delta_bytes)} of host memory "
        f"({engine_bytes(event.host_used_bytes)}/"
        f"{engine_bytes(event.host_total_bytes)} used)"
    )


def step_line(event: WarmupStep, word: str, names: tuple[str, ...]) -> str:
    """`[Warmup][Prompt][1/24] batch_size:1 seq_len:128 free_mem:55.43 GiB`."""
    sizes = event.bucket or (0,) * len(names)
    shape = " ".join(f"{n}:{size}" for n, size in zip(names, sizes, strict=False))
    return (
        f"[Warmup][{word}][{event.index}/{event.total}] {shape} "
        f"free_mem:{engine_bytes(event.free_before_bytes)}"
    )


BUDGET = (
    "Free device memory: {free_bytes:bytes}, {usable_bytes:bytes} usable "
    "(gpu_memory_utilization={gpu_memory_utilization:float}), "
    "{graph_reserved_bytes:bytes} reserved for HPUGraphs "
    "(VLLM_GRAPH_RESERVED_MEM={graph_reserved_fraction:float}), "
)
"""How every HPU engine begins to divide the memory."""
