"""Logs of a run in the wording of the engines: one table of lines for each.

A line is a record that an event becomes, and the file and line of the engine that print it;
the envelope (level, timestamp, source) is put around it here.

Sources: vllm-gaudi `hpu_model_runner.py`, `hpu_worker.py`, `extension/bucketing/`,
`extension/defragmentation.py`; vllm-fork `habana_model_runner.py`, `habana_worker.py`,
`habana_executor.py`; vLLM `v1/worker/gpu_model_runner.py`, `v1/worker/gpu_worker.py`,
`v1/core/kv_cache_utils.py`, `v1/engine/core.py`.
"""

from __future__ import annotations

import string
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, TextIO

from warmup_insights.bucketing.base import DIMENSIONS
from warmup_insights.model.events import (
    AnyEvent,
    BenchmarkResult,
    BucketMiss,
    BucketRangesConfigured,
    BucketsGenerated,
    BucketsOmitted,
    CaptureSummary,
    ConfigRecorded,
    DefragRan,
    DefragWarmup,
    EngineInitialized,
    Failure,
    GraphBudgetSet,
    GraphCaptured,
    GraphsCaptured,
    GraphSkipped,
    KVCacheAllocated,
    LazyCapture,
    MemoryBudgetSet,
    MemoryMeasured,
    PhaseMarked,
    RunStarted,
    SamplerConfig,
    SamplerWarmup,
    ServerReady,
    WarmupFinished,
    WarmupStep,
)
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
    how, kind = "measured", f"{event.device_kind}: "
    if event.synthetic:
        how, kind = "simulated", ""
    return (
        f"# written by the reference engine of warmup-insights {event.version}, "
        f"{how} on {kind}{event.device_name}"
    )


_HEAD = "{:=^50}"
_ROW = "{:<40} {:<10}"


def result_block(values: dict[str, Any]) -> str:
    """The block that `vllm bench serve` prints at its end."""
    lines = [_HEAD.format(" Serving Benchmark Result ")]
    for title, key in _COUNTS:
        lines.append(_ROW.format(title, _shown(values[key])))
    for title, name, key in _SECTIONS:
        lines.append(f"{title:-^50}")
        lines.extend(
            _ROW.format(f"{word} {name} (ms):", f"{values[f'{prefix}_{key}_ms']:.2f}")
            for word, prefix in (("Mean", "mean"), ("Median", "median"), ("P99", "p99"))
        )
    return "\n".join([*lines, "=" * 50])


_COUNTS = (
    ("Successful requests:", "completed"),
    ("Failed requests:", "failed"),
    ("Benchmark duration (s):", "duration"),
    ("Total input tokens:", "total_input_tokens"),
    ("Total generated tokens:", "total_output_tokens"),
    ("Request throughput (req/s):", "request_throughput"),
    ("Output token throughput (tok/s):", "output_throughput"),
    ("Peak concurrent requests:", "max_concurrent_requests"),
    ("Total token throughput (tok/s):", "total_token_throughput"),
)
_SECTIONS = (
    ("Time to First Token", "TTFT", "ttft"),
    ("Time per Output Token (excl. 1st token)", "TPOT", "tpot"),
    ("Inter-token Latency", "ITL", "itl"),
)


def _shown(value: float) -> str:
    return f"{value:.2f}" if isinstance(value, float) else str(value)


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


def step_line(event: WarmupStep, names: tuple[str, ...]) -> str:
    """`[Warmup][Graph/Prompt][1/24] batch_size:1 seq_len:128 free_mem:55.43 GiB`."""
    word = ("Graph/" if event.mode == "graph" else "") + event.phase.capitalize()
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


def _omitted(event: BucketsGenerated, seen: Seen) -> str:
    """One record with the omitted buckets of the phase; none where there are none."""
    rows = [
        f"('condition: {omitted.reason}', '-> bs, query, ctx: ', "
        f"{', '.join(map(str, bucket))})"
        for omitted in seen.omitted
        for bucket in omitted.buckets
    ]
    if not seen.omitted:
        return ""
    return "\n".join([f"Omitted {len(rows)} {event.phase} buckets:", *rows])


def _budget(event: MemoryBudgetSet, _: Seen) -> str:
    rest = (event.usable_bytes or 0) - (event.graph_reserved_bytes or 0)
    dummy = rest - (event.kv_cache_bytes or 0)
    return (
        f"{fill(BUDGET, event)}{engine_bytes(dummy)} reserved for KV cache dummy block "
        f"{engine_bytes(event.kv_cache_bytes)} reserved for usable KV cache"
    )


def _usable_blocks(event: KVCacheAllocated, _: Seen) -> str:
    blocks, size = event.num_blocks or 0, event.block_size or 0
    return (
        f"Usable num_blocks: {blocks}, actual allocated num_blocks: {blocks + 1} "
        f"(_PAD_BLOCK_ID={blocks}, _PAD_SLOT_ID={blocks * size})"
    )


def _gaudi_miss(event: BucketMiss, _: Seen) -> str:
    shape, added = tuple(event.shape), tuple(event.fallback or event.shape)
    return (
        f"{event.phase.capitalize()} bucket for {shape} was not prepared. "
        f"Adding new bucket: {added}"
    )


VLLM_GAUDI = LogDialect(
    lines=(
        Line(BucketsGenerated, _omitted, "common.py:150", "DEBUG"),
        *hpu("common.py"),
        *upstream(
            config="utils.py:233",
            load="hpu_model_runner.py:2700",
            size="kv_cache_utils.py:829",
            concurrency="kv_cache_utils.py:833",
            ready="core.py:193",
        ),
        *SERVING,
        Line(
            MemoryMeasured,
            "Loading model weights took {delta_bytes:GiB.4f} GB",
            "hpu_model_runner.py:2740",
            when=lambda event: event.stage == "weights",
        ),
        stage("profile_run", "Model profiling run took", "hpu_worker.py:225"),
        stage("kv_cache", "Initializing cache engine took", "hpu_worker.py:290"),
        Line(MemoryBudgetSet, _budget, "hpu_worker.py:250"),
        Line(KVCacheAllocated, _usable_blocks, "hpu_worker.py:285"),
        Line(
            SamplerWarmup,
            "Warming up sampler with batch sizes: {batch_sizes} and following configs:",
            "hpu_model_runner.py:3347",
            when=lambda event: event.status == "started",
        ),
        Line(
            SamplerWarmup,
            "Sampler warmup completed successfully",
            "hpu_model_runner.py:3411",
            when=lambda event: event.status == "completed",
        ),
        Line(
            SamplerConfig,
            "temp={temperature}, top_p={top_p}, top_k={top_k}, "
            "batch_changed={batch_changed}",
            "hpu_model_runner.py:3349",
        ),
        Line(
            SamplerConfig,
            "Starting sampler warmup...",
            "hpu_model_runner.py:3350",
            # After the last of the twelve.
            when=lambda event: not event.batch_changed and event.top_p == 0.85,
        ),
        Line(
            DefragWarmup,
            "Warming up defragmenter with thresholds: {thresholds}",
            "hpu_model_runner.py:3428",
            when=lambda event: event.status == "started",
        ),
        Line(
            DefragWarmup,
            "Skipping defragmenter warmup, {reason}",
            "hpu_model_runner.py:3436",
            "WARNING",
            when=lambda event: event.status == "skipped",
        ),
        Line(
            DefragWarmup,
            "Defragmenter warmup completed successfully",
            "hpu_model_runner.py:3452",
            when=lambda event: event.status == "completed",
        ),
        Line(
            DefragRan,
            "[defrag] defragmentation done max_id_used={max_id_before}->{max_id_after} "
            "num_used={num_used} swapped={swapped}/{padded}",
            "debug.py:18",
            "WARNING",
        ),
        Line(
            WarmupStep,
            lambda event, _: step_line(event, DIMENSIONS),
            "hpu_model_runner.py:3170",
        ),
        Line(
            CaptureSummary,
            "Graph/{phase:Title} captured:{captured_reported} "
            "used_mem:{used_bytes:bytes}",
            "hpu_model_runner.py:3205",
        ),
        Line(BucketMiss, _gaudi_miss, "common.py:205", "WARNING"),
    ),
)
"""vllm-gaudi, as its lines were between 2025-09-19 and 2025-11-14.

In that time the steps of the warm-up were records of the logger; later they are drawn
by a progress bar, unless VLLM_DEVELOPER_MODE prints them without an envelope.
"""


def _fork_step(event: WarmupStep, _: Seen) -> str:
    is_three = len(event.bucket or ()) == 3
    return step_line(event, DIMENSIONS if is_three else ("batch_size", "seq_len"))


def _fork_miss(event: BucketMiss, _: Seen) -> str:
    """The engine names the shape that it pads to."""
    shape = (event.phase, *(event.fallback or event.shape))
    return f"Configuration: {shape!r} was not warmed-up!"


def _exceeds_budget(event: BucketsOmitted) -> bool:
    """Conditions of later engines have no such line: their buckets are listed."""
    return bool(event.reason and event.reason.startswith("due to"))


VLLM_FORK = LogDialect(
    has_brackets=False,
    lines=(
        *hpu("hpu_model_runner.py"),
        *SERVING,
        stage(
            "weights", "Loading model weights took in total", "hpu_model_runner.py:442"
        ),
        stage("profile_run", "Model profiling run took", "hpu_worker.py:134"),
        stage("kv_cache", "Initializing cache engine took", "hpu_worker.py:190"),
        Line(
            MemoryBudgetSet,
            BUDGET + "{kv_cache_bytes:bytes} reserved for KV cache",
            "hpu_worker.py:158",
        ),
        Line(
            KVCacheAllocated,
            "# HPU blocks: {num_blocks}, # CPU blocks: {num_host_blocks}",
            "hpu_executor.py:85",
        ),
        Line(
            BucketsOmitted,
            "Omitted {count} {phase} buckets {reason}",
            "hpu_model_runner.py:590",
            when=_exceeds_budget,
        ),
        Line(
            BucketsOmitted,
            "Omitted {phase} buckets: {buckets:tuples}",
            "hpu_model_runner.py:593",
            "DEBUG",
            when=lambda event: not _exceeds_budget(event),
        ),
        Line(WarmupStep, _fork_step, "hpu_model_runner.py:1066"),
        Line(
            GraphBudgetSet,
            "Using {total_bytes:bytes}/{free_bytes:bytes} of free device memory for "
            "HPUGraphs, {prompt_bytes:bytes} for prompt and {decode_bytes:bytes} for "
            "decode (VLLM_GRAPH_PROMPT_RATIO={prompt_ratio:float})",
            "hpu_model_runner.py:1159",
        ),
        Line(
            CaptureSummary,
            "Graph/{phase:Title} captured:{captured_reported} ({percent_reported:.1f}%) "
            "used_mem:{used_bytes:bytes} buckets:{buckets:tuples}",
            "hpu_model_runner.py:1128",
        ),
        Line(BucketMiss, _fork_miss, "hpu_model_runner.py:1013", "WARNING"),
    ),
)
"""HabanaAI vllm-fork 1.17, two dimensions: the log of the warm-up documentation."""


_MODES = {
    "prompt": "mixed prefill-decode, PIECEWISE",
    "decode": "decode, FULL",
}


def _bar(event: CaptureSummary, seen: Seen) -> str:
    """The last state of the progress bar; it ends below its total after skipped graphs."""
    done, seconds = event.captured_reported, seen.capture_s[event.phase]
    total = done + seen.num_skipped[event.phase]
    percent = 100 * done // total if total else 100
    rate = f"{done / seconds:5.2f}" if seconds else "?"
    minutes, rest = divmod(int(seconds), 60)
    bar = "█" * (percent // 10)
    return (
        f"Capturing CUDA graphs ({_MODES[event.phase]}): {percent:3d}%|{bar:<10}| "
        f"{done}/{total} [{minutes:02d}:{rest:02d}<00:00, {rate}it/s]"
    )


def _out_of_memory(event: Failure, seen: Seen) -> str:
    return (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
        f"{(event.needed_bytes or 0) / MIB:.2f} MiB. GPU 0 has a total capacity "
        f"of {seen.total_bytes / GIB:.2f} GiB of which "
        f"{(event.free_bytes or 0) / MIB:.2f} MiB is free."
    )


VLLM = LogDialect(
    lines=(
        *upstream(
            config="utils.py:326",
            load="gpu_model_runner.py:1953",
            size="kv_cache_utils.py:849",
            concurrency="kv_cache_utils.py:853",
            ready="core.py:214",
        ),
        *SERVING,
        Line(
            MemoryMeasured,
            "Model loading took {delta_bytes:GiB.4f} GiB and {duration_s:.6f} seconds",
            "gpu_model_runner.py:2007",
            when=lambda event: event.stage == "weights",
        ),
        Line(
            MemoryBudgetSet,
            "Available KV cache memory: {kv_cache_bytes:GiB.2f} GiB",
            "gpu_worker.py:276",
        ),
        Line(CaptureSummary, _bar),
        Line(
            GraphsCaptured,
            "Graph capturing finished in {duration_s:.0f} secs, "
            "took {memory_bytes:GiB.2f} GiB",
            "gpu_model_runner.py:2718",
        ),
        Line(
            LazyCapture,
            "Graph capturing for {num_tokens} input tokens\n"
            + " " * 24
            + "finished in {duration_s:.3f} secs, took {memory_bytes:MiB.2f} MiB",
            "gpu_model_runner.py:2721",
        ),
        Line(Failure, failure(_out_of_memory), "core.py:700", "ERROR"),
    ),
)
"""Upstream vLLM, V1, as of the delayed capture proposal (2025-08).

The lines of captures while serving are those of pull request 23184, which was never
merged: no released vLLM prints them.
"""


LOG_FORMATS = {"vllm-fork": VLLM_FORK, "vllm-gaudi": VLLM_GAUDI, "vllm": VLLM}
