"""Everything that can happen in a warm-up: frozen, keyword-only, tagged classes.

A run is a sequence of these events. The recorder and the parsers make the same ones;
nothing behind them depends on which of the two it was. Sizes are integer bytes, durations
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

SERVER_START = "server_start"
"""The stage from the engine's last line of its own start-up until the server is ready."""


def _kind(class_name: str) -> str:
    return re.sub(
        r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", class_name
    ).lower()


class Event(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    gc=False,  # events hold no cycles; the garbage collector would visit each of a million
    tag_field="kind",
    tag=_kind,
):
    """What every event has; the store adds the run and the sequence number."""

    time: float | None = None
    """When it happened; None when the log line had no timestamp."""
    rank: int | None = None
    """The rank that it concerns; None when the line does not state one."""
    line: int | None = None
    """Line number in the log, from 1; None from a recorder."""


class RunStarted(Event):
    """An engine began to start; first event of every run."""

    engine: str | None = None
    """`vllm`, `vllm-gaudi`, `vllm-fork` or `reference`."""
    version: str | None = None
    model: str | None = None
    device_kind: str | None = None
    """`hpu`, `cuda`, `rocm`, `xpu`, `tpu`, `cpu` or `simulated`."""
    device_name: str | None = None
    timezone: str | None = None
    """Zone in which timestamps were read; None when unknown and taken as UTC."""
    year_from: str | None = None
    """What the year of timestamps without one follows from: `log` (a full date in it),
    `build` (the date in the engine's version: the log is not older), `release` (the first
    such day since the engine's version was released: a guess) or `file` (when the file
    was last written: a guess). None when timestamps have a year or it was given."""
    is_inside: bool = False
    """True when the log begins within the start, with a line of a process that another
    one starts."""
    synthetic: bool = False
    """True when the figures come from a simulation or made-up log."""


class ConfigRecorded(Event):
    """Settings or facts about the run became known; later values win."""

    settings: dict[str, Any] = {}
    """Flat mapping of engine arguments, features and the like."""
    environment: dict[str, str] = {}
    defaults: list[str] = []
    """Of these, what the line gives as the engine's own value: it was not set."""
    arguments: list[str] | None = None
    """Names of all arguments that were set; None where a line does not list them all."""
    fills: bool = False
    """True for what stands beside the engine's own lines: it fills in what they lack."""
    engine: str | None = None
    version: str | None = None
    model: str | None = None
    device_kind: str | None = None
    device_name: str | None = None
    device_guessed: bool = False
    """True when the kind of device follows from words about CUDA graphs alone, which vLLM
    prints on ROCm as well."""
    num_ranks: int | None = None
    """Ranks of the run: the world size where it is stated, else as many processes of
    workers as printed anything, some of which may have no other event; None when
    there is evidence of one only, 0 when there are several and the log does not state how many."""
    ranks_guessed: bool = False
    """True when a part of a log shows who printed lines alone, and may lack others."""


class PhaseMarked(Event):
    """A named stretch of the start-up began or ended."""

    name: str
    edge: str
    """`start` or `end`."""
    duration_s: float | None = None
    """What it took, as the engine states it; only with `end`."""
    path: str | None = None
    """Where it looks for results of earlier starts (`start`), or saved its own (`end`)."""
    done: int | None = None
    """Items of its progress bar so far, where the log ends before the bar is full."""
    total: int | None = None
    """Items of that bar; such a mark is neither a beginning nor an end."""


class GapSeen(Event):
    """Two consecutive log lines lie apart in time; `line` is the earlier one."""

    duration_s: float
    next_line: int
    before: str = ""
    """Start of the text of the earlier line."""
    after: str = ""
    """Start of the text of the later line."""


class MemoryMeasured(Event):
    """Memory was read, or what a stage took was stated."""

    stage: str
    """`weights`, `profile_run`, `kv_cache`, `init_cache_engine`, `wrap_graphs`, `cpu_offload`,
    ..."""
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
    """Memory was divided between weights, activations, graphs, KV cache and margin.

    On HPU (`hpu_worker.py determine_available_memory`) what is divided is the free
    memory after the profile run: usable = free x utilisation, and usable = graphs
    reserved + KV cache.

    On CUDA (`gpu_worker.py determine_available_memory`) it is all memory of the device:
    usable = total x utilisation, and usable = weights + non-torch + activation + KV
    cache (consumed + activation + KV cache since 0.27), within the rounding of the
    line. What graphs take is not in that sum. Where the engine sets its estimate of
    them aside (`GraphMemoryEstimated.is_reserved`), usable = the same sum + the
    estimate up to 0.26; since 0.27 `activation_bytes` contains the estimate.
    total - usable is the margin that the engine leaves alone.
    """

    total_bytes: int | None = None
    """Memory of the device."""
    free_bytes: int | None = None
    """HPU: free after the profile run. CUDA: free when the worker started."""
    usable_bytes: int | None = None
    """What the engine allows itself (CUDA: `Desired GPU memory utilization`)."""
    graph_reserved_bytes: int | None = None
    """HPU: set aside for graphs before any is captured."""
    kv_cache_bytes: int | None = None
    """The budget as the engine states it; negative when nothing is left."""
    gpu_memory_utilization: float | None = None
    graph_reserved_fraction: float | None = None
    weights_bytes: int | None = None
    """Weights of all models on the device, as the engine divides memory."""
    activation_bytes: int | None = None
    """Peak of activations over what stays, as measured by the profile run."""
    torch_peak_bytes: int | None = None
    """The peak in PyTorch's allocator, weights included, where only that is stated (V0 up to
    0.6.5)."""
    non_torch_bytes: int | None = None
    """Taken outside of the framework's allocator during profiling (NCCL, buffers)."""
    consumed_bytes: int | None = None
    """Weights and non-torch memory together, where only the sum is stated (0.27)."""
    graph_bytes: int | None = None
    """CUDA: what graphs took when they were captured."""
    suggested_kv_cache_bytes: int | None = None
    """The `--kv-cache-memory` that the engine recommends to fit into `usable_bytes`,
    graphs as captured and 150 MiB of reserve taken off."""
    suggested_full_kv_cache_bytes: int | None = None
    """The same to fit into `free_bytes`: all memory that was free at the start."""
    padding_bytes: int | None = None
    """The block set aside for padding, which is none of the cache's: the size of a block."""


class KVCacheAllocated(Event):
    """The KV cache exists, in whole blocks."""

    num_blocks: int | None = None
    """Usable blocks, without the padding block."""
    num_padding_blocks: int | None = None
    """Blocks allocated on top of the usable ones; None when not known."""
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
    """One bucket was executed, or began to be; `time` is when it began.

    One execution may have up to three events, all with the same rank, phase, bucket
    and time: the step that began (`is_finished` False, without any cost), the step that
    ended, and a `GraphCaptured`. Together they are one execution and one cost. Their
    order is not fixed: the plugin for vllm-gaudi records them as named, the reference
    engine the capture first and no beginning. From logs `time` may be None; none of
    them gives an execution both as a step and as a capture.
    """

    phase: str
    mode: str | None = None
    """`eager` or `graph`; None when the engine does not state it, and where it begins."""
    bucket: Bucket | None = None
    """The shape that was declared."""
    index: int | None = None
    """From 1."""
    total: int | None = None
    duration_s: float | None = None
    free_before_bytes: int | None = None
    free_after_bytes: int | None = None
    memory_bytes: int | None = None
    """What the step took; None when unknown."""
    resolution_s: float | None = None
    """`duration_s` (or `group_duration_s`) is at most this far off, where it was
    inferred from a progress bar; None where it was measured or stated."""
    group_size: int | None = None
    """Of the last step of a group whose single times are unknown: how many steps."""
    group_duration_s: float | None = None
    """What those steps took together."""
    executed: Bucket | None = None
    """The shape that really ran; None when not observed.

    A bucket that runs in several passes has the shape of the first.
    """
    is_finished: bool = True
    """False for a step that began, and for one that an error ended.

    A finished one of the same execution replaces it; without one, the run or the log
    ended inside this step.
    """
    gc_s: float | None = None
    """Host time spent in garbage collection during the step."""
    compiled: int | None = None
    """Recipes or graphs compiled during the step; None where nothing counts them."""
    compile_s: float | None = None
    """What compiling them took; None where nothing measures it."""
    modality: str | None = None
    """The kind of input of a multimodal item, as the engine names it: `image`, `video`."""


class GraphBudgetSet(Event):
    """Memory was set aside for graphs and divided between the phases."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    prompt_bytes: int | None = None
    decode_bytes: int | None = None
    prompt_ratio: float | None = None


class GraphCaptured(Event):
    """One graph was made: recorded, or compiled where the engine records none.

    `time` is when its capture began. It stands for one graph: two declared buckets that
    run as one shape have one of these, with the bucket that ran first. Time and memory
    are those of the execution that made it; where a `WarmupStep` is the same
    execution (same rank, phase, bucket and time), they are that step's, not more.
    """

    phase: str
    bucket: Bucket
    """The shape that was declared.

    CUDA graphs have one dimension, the number of tokens.
    """
    executed: Bucket | None = None
    """The shape that ran, which the graph is of; None when not observed."""
    mode: str | None = None
    """`FULL` or `PIECEWISE` for CUDA graphs."""
    index: int | None = None
    """Of vllm-gaudi and the reference engine the place of the bucket in its pass;
    of CUDA graphs the number of the graph. From 1."""
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
    states: list[tuple[int, float]] = []
    """Graphs so far and seconds on the bar's clock, for each state that was drawn."""


class GraphsCaptured(Event):
    """All captures of the start-up are done."""

    count: int | None = None
    """How many there are; None when not every one of them was observed."""
    duration_s: float | None = None
    memory_bytes: int | None = None


class GraphMemoryEstimated(Event):
    """What the engine expects graphs to take, and what the pool took."""

    estimated_bytes: int | None = None
    actual_bytes: int | None = None
    is_reserved: bool | None = None
    """Whether the estimate was taken off the KV cache
    (`VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS`); None when the line does not state it."""
    utilization_without: float | None = None
    """The utilisation that would give the same KV cache without the estimate, as the
    engine prints it: four digits, 0 to 1."""
    modes: list[str] | None = None
    """Kinds of the graphs that are captured later, such as `PIECEWISE` and `FULL`."""


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
    from_cache: bool | None = False
    """None where the line is the same for both, and for a graph that equals an earlier one
    of the same start."""
    detail: str | None = None
    part: str | None = None
    """Which model of several was compiled: `backbone`, `eagle_head` or the class of an
    encoder (vLLM since 0.32); None when the line does not state it."""


class RequestServed(Event):
    """What a server did first after it was ready, each kind once."""

    what: str
    """`response` (that to a request for inference began), `tokens` (the first statistics
    line with generated tokens: they came up to an interval, 10 s as a rule, before) or
    `request` (the first one whose arrival and end are both in the log is done)."""
    duration_s: float | None = None
    """Of the `request`, from its arrival to its end."""


class RecipeCompiled(Event):
    """The Gaudi bridge compiled one recipe before requests were served.

    Source: event `GRAPH_COMPILATION` of the bridge's dispatcher (1.19,
    `backend/synapse_helpers/graph.cpp`); eager operators have none. `time` is its end.
    """

    recipe: str
    """Its name; the bridge numbers them in a process."""
    duration_s: float | None = None
    """What the graph compiler took. Recipes may be compiled side by side."""
    phase: str | None = None
    bucket: Bucket | None = None
    """The bucket in whose step it was; None outside of one."""


class RuntimeCompile(Event):
    """A kernel or recipe was compiled while serving: a request waited for it.

    Source: vLLM `utils/jit_monitor.py`, since 0.26; the dispatcher of the Gaudi bridge.
    Later uses of the same kernel and configuration give no event.
    """

    what: str
    """The runtime and what it did, such as `Triton kernel JIT compilation`."""
    kernel: str
    detail: str | None = None
    """The configuration that had not been compiled before."""
    duration_s: float | None = None
    """What it took, where that is known."""


class SleepModeChanged(Event):
    """The engine fell asleep, woke up or discarded memory, in whole or in part.

    One sleep gives several events: the executor states how long it took, each worker
    what it freed, its allocator what it moved to host memory.
    """

    action: str
    """`sleep`, `wake_up` or `discard`."""
    tags: list[str] = []
    """`weights`, `kv_cache`, ...; empty for all."""
    duration_s: float | None = None
    freed_bytes: int | None = None
    used_bytes: int | None = None
    """Still in use on the device."""
    host_bytes: int | None = None
    """Kept in host memory, to be moved back."""


class LazyCapture(Event):
    """A CUDA graph was captured while serving."""

    num_tokens: int
    duration_s: float | None = None
    memory_bytes: int | None = None
    """Difference of free memory; may be negative."""


class GraphUsed(Event):
    """Steps while serving that ran with or without a CUDA graph.

    Source: vLLM `compilation/cuda_graph.py CUDAGraphLogging` with `--cudagraph-metrics`,
    since 0.13: a row for each kind of step since the last table.
    """

    num_tokens: int
    padded_tokens: int
    """The size that ran: that of the graph, where there was one."""
    mode: str
    """`FULL`, `PIECEWISE` or `NONE`."""
    count: int = 1


class BucketMiss(Event):
    """A shape at run time that no bucket covers."""

    phase: str
    shape: Bucket
    fallback: Bucket | None = None
    """The bucket made for it; None when none is named."""
    count: int = 1
    """How many this stands for (log shippers fold equal lines)."""


class BucketUsed(Event):
    """A pass while serving ran in a bucket."""

    phase: str
    shape: Bucket
    """What the pass needed: its requests, not the batch they are padded to."""
    bucket: Bucket
    """The bucket that the engine looked up for it."""
    executed: Bucket | None = None
    """The shape that ran, where it was another than the bucket."""
    duration_s: float | None = None
    count: int = 1


class WarmupFinished(Event):
    """Warm-up is over, as the engine states; `skipped` when it never ran."""

    duration_s: float | None = None
    allocated_bytes: int | None = None
    skipped: bool = False
    gc_s: float | None = None
    """Host time spent in garbage collection during the warm-up."""


class EngineInitialized(Event):
    """`init engine (profile, create kv cache, warmup model)` is over."""

    duration_s: float | None = None
    compile_s: float | None = None


class ServerReady(Event):
    """Requests are accepted from now on, unless a `Failure` in `server_start` follows."""


class FailureFigures(Event, kw_only=True):
    """What the text of a failure states in figures; None for what it does not."""

    free_bytes: int | None = None
    """Free when it failed: on the device, or for the KV cache (`no_kv_cache`)."""
    needed_bytes: int | None = None
    """What could not be had."""
    total_bytes: int | None = None
    """Memory of the device."""
    process_bytes: int | None = None
    """What the process that failed had taken of it."""
    allocated_bytes: int | None = None
    """What tensors of that process took."""
    reserved_bytes: int | None = None
    """What its allocator held in all (torch before 2.0, torch_npu)."""
    unallocated_bytes: int | None = None
    """What its allocator held and no tensor used."""
    wanted_utilization: float | None = None
    """The `gpu_memory_utilization` that could not be had; 0 to 1."""
    max_model_len: int | None = None
    """The length of a request that did not fit, in tokens."""
    estimated_model_len: int | None = None
    """The length that fits, in tokens, as the engine estimates it."""
    artifact: str | None = None
    """The file of a compiled artefact, or of its loader, that the traceback of an error
    leads through."""
    module: str | None = None
    """The innermost file of the engine or of a package in the traceback of an error, below
    the folder of the packages; torch's own count where they compile."""


class Failure(FailureFigures):
    """The start-up failed: the engine never became ready.

    From a log there is at most one, with the innermost cause: of a traceback that is
    printed by several processes or wrapped in other errors, the error raised first. It
    follows all other events of the run; `time` and `line` are those of its own line.
    """

    failure: str
    """`out_of_memory`, `no_kv_cache`, `killed` or `error`."""
    message: str
    phase: str | None = None
    """`prompt`, `decode` or another phase whose bar had begun, else the stage
    (`PhaseMarked.name`) that had begun; None when neither had."""
    bucket: Bucket | None = None


class ShutdownRequested(Event):
    """The engine got the order to stop, by a signal or through its API.

    Errors after it are consequences and give no event.
    """

    message: str
    in_start: bool = False
    """Whether the start is there up to this, and was not over, as far as the process that
    recorded it shows: a server that is ready by then was stopped."""


class ServingFailure(FailureFigures):
    """The engine failed after it had been ready; the start-up itself succeeded."""

    failure: str
    """`out_of_memory`, `no_kv_cache`, `killed` or `error`."""
    message: str


class RunFinished(Event):
    """The recorded process ended in order; last event of a recorded run."""

    status: str
    """`finished`, `failed`, `skipped` or `stopped`; `unknown` where other events state it."""


class PodSeen(Event):
    """The Kubernetes pod that the run belongs to, from the path of its log and from the
    pod's description. Times are seconds since the epoch; they are those of this start."""

    namespace: str | None = None
    pod: str | None = None
    container: str | None = None
    node: str | None = None
    restart: int | None = None
    """Which start of the container the log is of, from 0."""
    num_restarts: int | None = None
    """How often the container was started again so far."""
    reasons: list[str] = []
    """Why it ended before, and warnings about the pod."""
    created_at: float | None = None
    scheduled_at: float | None = None
    pull_s: float | None = None
    """What pulling images took."""
    container_started_at: float | None = None
    ready_at: float | None = None
    """When the pod became ready for traffic."""
    is_restored: bool = False
    """Whether the container restores a snapshot of an engine."""


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
    """Figures of the topic. `gc_freeze`: `objects` that are kept from the garbage collector and
    the `duration_s` of freezing them, which lies before the warm-up's own time;
    `gc_unfreeze`: whether they were `lifted`; `checkpoint`: `size_bytes`,
    `available_bytes` of host memory and `filesystem`; `autotune`: `new` and `previous`
    configurations saved, and the `path`; `usage`: `num_lines` of statistics with the
    highest `usage_percent`, `running` and `waiting`; `profile_run`: the `shape` of a profile run
    before there were buckets; `multimodal`: `runs_encoder` where a profiling run begins with
    that."""


AnyEvent = Union[  # noqa: UP007 - msgspec reads the union at run time on Python 3.10
    RunStarted, ConfigRecorded, PhaseMarked, GapSeen, MemoryMeasured, MemoryBudgetSet,
    KVCacheAllocated, BucketRangesConfigured, BucketsGenerated, BucketsOmitted,
    WarmupStep, GraphBudgetSet, GraphCaptured, GraphSkipped, CaptureProgress,
    GraphsCaptured, GraphMemoryEstimated, CaptureSummary, SamplerWarmup, SamplerConfig,
    SamplerStep, DefragWarmup, DefragStep, DefragRan, CompileFinished, RecipeCompiled,
    RequestServed, RuntimeCompile, SleepModeChanged, LazyCapture, GraphUsed,
    BucketMiss, BucketUsed, WarmupFinished, EngineInitialized, ServerReady, Failure,
    ShutdownRequested, ServingFailure, RunFinished, PodSeen, BenchmarkResult, Note,
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
