"""Everything that can happen in a warm-up: frozen, keyword-only, tagged classes.

A run is a sequence of these events. The recorder and the parsers make the same ones;
nothing behind them knows which of the two it was. Sizes are integer bytes, durations
float seconds, times seconds since the epoch in UTC; unknown is None, never 0.

A bucket is a tuple of the numbers the engine gave: `(batch_size, query_len,
num_blocks)`, or `(batch_size, seq_len)` where the engine had two dimensions
(`(batch_size, num_blocks)` for decode since vllm-fork 1.18), or four numbers for
unified attention. `phase` is `prompt` or `decode`, or the engine's own word for the
rarer kinds (`multimodal`, `pooler`, `unified`, `prefix_prefill`, `spec_decode`).
"""

from __future__ import annotations

import re
from typing import Any, Union, get_args

import msgspec

Bucket = tuple[int, ...]


def _kind(class_name: str) -> str:
    return re.sub(
        r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name
    ).lower()


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,  # events hold no cycles; the collector would visit each of a million
    tag_field="kind",
    tag=_kind,
):
    """What every event has; the store adds the run and the sequence number."""

    time: float | None = None
    """When it happened; None when the log line had no time stamp."""
    rank: int | None = None
    """Which rank said so; None when the line does not tell."""
    line: int | None = None
    """Line number in the log, from 1; None from a recorder."""


class RunStarted(Event):
    """An engine began to start; first event of every run."""

    engine: str | None = None
    """`vllm`, `vllm-gaudi`, `vllm-fork` or `reference`."""
    version: str | None = None
    model: str | None = None
    device_kind: str | None = None
    """`hpu`, `cuda`, `cpu` or `simulated`."""
    device_name: str | None = None
    timezone: str | None = None
    """Zone in which time stamps were read; None when unknown and taken as UTC."""
    synthetic: bool = False
    """True when the figures come from a simulation or made-up log."""


class ConfigRecorded(Event):
    """Settings or facts about the run became known; later values win."""

    settings: dict[str, Any] = {}
    """Flat mapping of engine arguments, features and the like."""
    environment: dict[str, str] = {}
    engine: str | None = None
    version: str | None = None
    model: str | None = None
    device_kind: str | None = None
    device_name: str | None = None


class PhaseMarked(Event):
    """A named stretch of the start-up began or ended."""

    name: str
    edge: str
    """`start` or `end`."""
    duration_s: float | None = None
    """What the engine says it took; only with `end`."""


class GapSeen(Event):
    """Two consecutive log lines lie apart in time; `line` is the earlier one."""

    duration_s: float
    next_line: int
    before: str = ""
    """Start of the text of the earlier line."""
    after: str = ""
    """Start of the text of the later line."""


class MemoryMeasured(Event):
    """Memory was read, or a stage said what it took."""

    stage: str
    """`weights`, `profile_run`, `kv_cache`, `init_cache_engine`, `wrap_graphs`, ..."""
    delta_bytes: int | None = None
    """What the stage took on the device; negative when it released."""
    used_bytes: int | None = None
    free_bytes: int | None = None
    total_bytes: int | None = None
    host_delta_bytes: int | None = None
    host_used_bytes: int | None = None
    host_total_bytes: int | None = None
    duration_s: float | None = None


class MemoryBudgetSet(Event):
    """Free memory was divided between graphs, KV cache and margin."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    usable_bytes: int | None = None
    graph_reserved_bytes: int | None = None
    kv_cache_bytes: int | None = None
    """The budget as the engine states it; negative when nothing is left."""
    gpu_memory_utilization: float | None = None
    graph_reserved_fraction: float | None = None
    weights_bytes: int | None = None
    activation_bytes: int | None = None
    non_torch_bytes: int | None = None


class KVCacheAllocated(Event):
    """The KV cache exists, in whole blocks."""

    num_blocks: int | None = None
    """Usable blocks, without the padding block."""
    block_size: int | None = None
    """Tokens per block."""
    num_tokens: int | None = None
    max_concurrency: float | None = None
    """Requests of `tokens_per_request` tokens that fit at the same time."""
    tokens_per_request: int | None = None
    num_host_blocks: int | None = None
    allocated_bytes: int | None = None


class BucketRangesConfigured(Event):
    """The ranges from which buckets of a phase are made."""

    phase: str
    ranges: dict[str, list[int]]
    """Dimension (`bs`, `query`, `seq`, `block`, `blocks`, ...) to its parameters."""
    parameters: list[str] = []
    """Names of the parameters: `min`, `step`, `max`, then `limit` or paddings."""


class BucketsGenerated(Event):
    """The list of buckets of a phase; a later list of the same phase replaces it."""

    phase: str
    count: int
    """How many there are; the truth even when the list was cut."""
    buckets: list[Bucket] = []
    strategy: str | None = None
    dimensions: list[str] = []
    """Names of the dimensions as the engine gives them."""


class BucketsOmitted(Event):
    """Buckets that were made and then dropped."""

    phase: str
    count: int | None = None
    reason: str | None = None
    buckets: list[Bucket] = []


class WarmupStep(Event):
    """One bucket was executed; `time` is when it began."""

    phase: str
    mode: str | None = None
    """`eager` or `graph`; None when the engine does not say."""
    bucket: Bucket | None = None
    index: int | None = None
    """From 1."""
    total: int | None = None
    duration_s: float | None = None
    free_before_bytes: int | None = None
    free_after_bytes: int | None = None
    memory_bytes: int | None = None
    """What the step took; None when unknown."""
    executed: Bucket | None = None
    """The shape that really ran; None when not observed."""
    is_finished: bool = True
    """False when the log or the run ended inside this step."""
    gc_s: float | None = None
    """Host time spent in garbage collection during the step."""
    compiled: int | None = None
    """Recipes or graphs compiled during the step."""


class GraphBudgetSet(Event):
    """Memory was set aside for graphs and divided between the phases."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    prompt_bytes: int | None = None
    decode_bytes: int | None = None
    prompt_ratio: float | None = None


class GraphCaptured(Event):
    """One device graph was recorded; `time` is when the capture began."""

    phase: str
    bucket: Bucket
    """CUDA graphs have one dimension, the number of tokens."""
    mode: str | None = None
    """`FULL` or `PIECEWISE` for CUDA graphs."""
    index: int | None = None
    total: int | None = None
    duration_s: float | None = None
    memory_bytes: int | None = None
    estimate_bytes: int | None = None
    """What the capture was expected to take."""


class GraphSkipped(Event):
    """A candidate was not recorded, and why."""

    phase: str
    bucket: Bucket
    reason: str
    estimate_bytes: int | None = None
    available_bytes: int | None = None


class CaptureProgress(Event):
    """The last state of a progress bar over CUDA graph captures."""

    mode: str
    """Text in the brackets of the bar, or `graphs` when it has none."""
    captured: int
    total: int
    duration_s: float | None = None


class GraphsCaptured(Event):
    """All captures of the start-up are done."""

    count: int | None = None
    duration_s: float | None = None
    memory_bytes: int | None = None


class GraphMemoryEstimated(Event):
    """What the engine expects graphs to take, and what the pool took."""

    estimated_bytes: int | None = None
    actual_bytes: int | None = None


class CaptureSummary(Event):
    """What the log reports as captured for one phase."""

    phase: str
    captured_reported: int
    percent_reported: float | None = None
    used_bytes: int | None = None
    buckets: list[Bucket] | None = None
    """The captured buckets; None when the line lists none."""


class SamplerWarmup(Event):
    """The sampler warm-up started, completed or was skipped."""

    status: str
    """`started`, `completed` or `skipped`."""
    batch_sizes: list[int] | None = None
    duration_s: float | None = None


class SamplerConfig(Event):
    """One of the sampling configurations that are warmed up."""

    temperature: float
    top_p: float
    top_k: int
    batch_changed: bool


class SamplerStep(Event):
    """One sampling configuration was run at one batch size."""

    batch_size: int
    temperature: float
    top_p: float
    top_k: int
    batch_changed: bool
    duration_s: float | None = None


class DefragWarmup(Event):
    """The defragmenter warm-up started, completed or was skipped."""

    status: str
    """`started`, `completed` or `skipped`."""
    thresholds: list[int] | None = None
    duration_s: float | None = None
    reason: str | None = None


class DefragStep(Event):
    """One padded swap size was warmed up."""

    threshold: int
    duration_s: float | None = None


class DefragRan(Event):
    """The defragmenter moved blocks while serving."""

    swapped: int | None = None
    padded: int | None = None
    max_id_before: int | None = None
    max_id_after: int | None = None
    num_used: int | None = None
    duration_s: float | None = None


class CompileFinished(Event):
    """A compilation ended, or its result was loaded from a cache."""

    what: str
    """`dynamo`, `graph`, `total`, `recipe`, ..."""
    duration_s: float | None = None
    from_cache: bool = False
    detail: str | None = None


class LazyCapture(Event):
    """A CUDA graph was captured while serving."""

    num_tokens: int
    duration_s: float | None = None
    memory_bytes: int | None = None
    """Difference of free memory; may be negative."""


class BucketMiss(Event):
    """A shape at run time that no bucket covers."""

    phase: str
    shape: Bucket
    fallback: Bucket | None = None
    """The bucket made for it; None when none is named."""
    count: int = 1
    """How many this stands for (collectors fold equal lines)."""


class BucketUsed(Event):
    """A step while serving ran in a bucket."""

    phase: str
    shape: Bucket
    """What the step needed."""
    bucket: Bucket
    """What it was padded to."""
    duration_s: float | None = None
    count: int = 1


class WarmupFinished(Event):
    """The engine says that warm-up is over; `skipped` when it never ran."""

    duration_s: float | None = None
    allocated_bytes: int | None = None
    skipped: bool = False


class EngineInitialized(Event):
    """`init engine (profile, create kv cache, warmup model)` is over."""

    duration_s: float | None = None
    compile_s: float | None = None


class ServerReady(Event):
    """Requests are accepted from now on."""


class Failure(Event):
    """The start-up failed, or the engine died."""

    failure: str
    """`out_of_memory`, `no_kv_cache`, `killed` or `error`."""
    message: str
    phase: str | None = None
    bucket: Bucket | None = None
    free_bytes: int | None = None
    needed_bytes: int | None = None


class RunFinished(Event):
    """The recorded process ended in order; last event of a recorded run."""

    status: str
    """`finished`, `failed` or `skipped`."""


class BenchmarkResult(Event):
    """Figures of a benchmark, with the keys of `vllm bench serve --save-result`."""

    values: dict[str, Any]


class Note(Event):
    """Something about the run worth telling that has no class of its own."""

    topic: str
    """`keep_alive`, `hook_missing`, `gc_freeze`, `recompile`, `capped`, ..."""
    text: str
    count: int = 1
    values: dict[str, Any] = {}


AnyEvent = Union[  # noqa: UP007 - msgspec reads the union at run time on Python 3.10
    RunStarted, ConfigRecorded, PhaseMarked, GapSeen, MemoryMeasured, MemoryBudgetSet,
    KVCacheAllocated, BucketRangesConfigured, BucketsGenerated, BucketsOmitted,
    WarmupStep, GraphBudgetSet, GraphCaptured, GraphSkipped, CaptureProgress,
    GraphsCaptured, GraphMemoryEstimated, CaptureSummary, SamplerWarmup, SamplerConfig,
    SamplerStep, DefragWarmup, DefragStep, DefragRan, CompileFinished, LazyCapture,
    BucketMiss, BucketUsed, WarmupFinished, EngineInitialized, ServerReady, Failure,
    RunFinished, BenchmarkResult, Note,
]  # fmt: skip

EVENT_CLASSES: dict[str, type[Event]] = {
    str(cls.__struct_config__.tag): cls for cls in get_args(AnyEvent)
}
"""Kind, as stored, to its class."""

_ENCODER = msgspec.json.Encoder()
encode = _ENCODER.encode
"""An event as JSON bytes, defaults left out."""
encode_lines = _ENCODER.encode_lines
"""Events as lines of JSON bytes."""

_DECODER: msgspec.json.Decoder[AnyEvent] = msgspec.json.Decoder(AnyEvent)


def decode(text: str | bytes) -> AnyEvent:
    """The event in a JSON text. Raises msgspec.DecodeError or ValidationError."""
    return _DECODER.decode(text)


def kind_of(event: Event) -> str:
    """The tag of an event's class, as in the `kind` column."""
    return str(event.__struct_config__.tag)
