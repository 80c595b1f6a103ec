"""What is known about a run, folded from its events: typed, immutable, JSON as it is.

`RunSummary` is public and versioned: `show RUN --json`, the dashboard, exports, plan,
advice and checks all read it. Sizes are bytes, durations seconds, times ISO 8601 in UTC;
what is unknown is None. `BucketRow` holds what became of one bucket; both are stored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from warmup_insights.model.events import Bucket
from warmup_insights.model.run import run_name
from warmup_insights.units import parse_isoformat

SCHEMA = 1
"""Version of the public keys; keys are added, never renamed or removed."""
FOLD = 34
"""Version of the fold: a stored summary of another one is made anew from the events."""
PHASES = ("prompt", "decode")
"""The phases of a warm-up whose buckets are counted against each other."""
OF_OTHER_RANK = " (other rank)"
"""Ends the name of a phase in which only ranks were that do not lead."""

Setting = Any
"""A JSON value that a user set or an engine printed."""


def is_true(config: Mapping[str, Setting], name: str) -> bool:
    """Whether a setting is true, as an engine prints it or as a variable is given."""
    return str(config.get(name, "")).lower() in ("1", "true")


_OPEN, _CLOSE = "([{<", ")]}>"
_TELLING = re.compile(r"[\\'\"(\[{<)\]}>,]")


def top_level_parts(text: str, *, is_closed: bool) -> Iterator[str]:
    """The parts of a printed configuration: the text between commas that stand outside
    brackets and quotes; linear. The last one was cut where it does not end, or a bracket has
    to close all of them."""
    depth, start, quote, escaped = 0, 0, "", -1
    for match in _TELLING.finditer(text):
        char, index = match[0], match.start()
        if quote:
            if char == "\\" and index != escaped:
                escaped = index + 1
            elif char == quote and index != escaped:
                quote = ""
        elif char in "'\"" and not text[max(0, index - 1) : index].isalnum():
            quote = char
        elif char in _OPEN + _CLOSE:
            depth += 1 if char in _OPEN else -1
            if depth < 0:
                yield text[start:index]
                return
        elif char == "," and depth == 0:
            yield text[start:index]
            start = index + 1
    if not (quote or depth or is_closed):
        yield text[start:]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """Base of the sections: immutable, every key written, null where unknown."""


class PodFacts(Part):
    """The Kubernetes pod of the run; times are seconds since the epoch."""

    namespace: str | None = None
    """Namespace of the pod."""
    pod: str | None = None
    """Its name."""
    container: str | None = None
    """Name of the container."""
    node: str | None = None
    """On which node it runs."""
    restart: int | None = None
    """Which start of the container the log is of, from 0."""
    num_restarts: int | None = None
    """How often the container was started again so far."""
    reasons: list[str] = []
    """Why it ended before, and warnings about the pod."""
    created_at: float | None = None
    """When the pod was created; of its first start alone."""
    scheduled_at: float | None = None
    """When it was given a node."""
    pull_s: float | None = None
    """What pulling images took."""
    container_started_at: float | None = None
    """When the container started."""
    ready_at: float | None = None
    """When the pod became ready for traffic."""
    is_restored: bool = False
    """Whether the container restores a snapshot of an engine."""


class SourceName(Part):
    """Where the events come from."""

    kind: str
    """`log` or `recorder`."""
    name: str | None = None
    """Of the log, without its folder; else of the program that was recorded."""


class EngineName(Part):
    """Which engine ran."""

    name: str | None = None
    """`vllm`, `vllm-gaudi`, `vllm-fork` or `reference`."""
    version: str | None = None
    """As the engine prints it."""


class DeviceName(Part):
    """On what it ran."""

    kind: str | None = None
    """`hpu`, `cuda`, `rocm`, `xpu`, `tpu`, `cpu` or `simulated`; for others the name of
    vLLM's platform plugin, such as `neuron`."""
    name: str | None = None
    """As its driver reports it."""
    total_bytes: int | None = None
    """Memory of one device."""


class FailureFigures(Part):
    """What the text of an error states in figures."""

    total_bytes: int | None = None
    """Memory of the device."""
    process_bytes: int | None = None
    """What the process that failed had taken of it."""
    allocated_bytes: int | None = None
    """What tensors of that process took."""
    unallocated_bytes: int | None = None
    """What its allocator held and no tensor used."""
    reserved_bytes: int | None = None
    """What its allocator held in all (torch before 2.0, torch_npu)."""
    wanted_utilization: float | None = None
    """The share of the device that could not be had; 0 to 1."""
    max_model_len: int | None = None
    """The length of a request that did not fit, in tokens."""
    estimated_model_len: int | None = None
    """The length that fits, in tokens, as the engine estimates it."""


class FailureFacts(Part, frozen=True):
    """What ended the start-up."""

    kind: str
    """`out_of_memory`, `no_kv_cache`, `killed` or `error`."""
    phase: str | None = None
    """Of the bucket that was running."""
    bucket: Bucket | None = None
    """The bucket that was running."""
    free_bytes: int | None = None
    """Free when it failed: on the device, before the step that failed, or for the KV
    cache where that has no room."""
    needed_bytes: int | None = None
    """What could not be had: an allocation, a share of the device or a KV cache."""
    message: str = ""
    """The error as the engine printed it."""
    line: int | None = None
    """In the log, from 1."""
    artifact: str | None = None
    """The file of a compiled artefact, or of its loader, that the traceback leads
    through."""
    module: str | None = None
    """The innermost file of the engine or of a package in the traceback."""
    stated: FailureFigures = FailureFigures()
    """What the text of the error states besides."""

    @property
    def is_cache_too_small(self) -> bool:
        """Whether there is a KV cache, but none for a request of full length."""
        is_known = self.needed_bytes is not None and bool(self.free_bytes)
        is_short = is_known or bool(self.stated.estimated_model_len)
        return self.kind == "no_kv_cache" and is_short


SHORTEST_S = 0.1
"""Time between the first line and the last of a start-up that is worth stating."""


class TimePhase(Part):
    """A stretch of the start-up; seconds from its start."""

    name: str
    """`load_model`, `profile_run`, `prompt_warmup`, `prompt_graphs`, ..."""
    start_s: float
    """Seconds from the start of the run."""
    duration_s: float
    """Seconds that count for it: no other phase has them."""


class Gap(Part):
    """Time between two log lines that no phase explains."""

    start_s: float
    """Seconds from the start of the run."""
    duration_s: float
    """From the one line to the other."""
    unlogged_s: float
    """The part of it that no phase covers."""
    line: int | None
    """The earlier line, from 1."""
    next_line: int
    """The later line."""
    before: str
    """Beginning of the text of the earlier line."""
    after: str
    """Beginning of the text of the later line."""


class RankPhases(Part):
    """The phases of one rank, seconds from the start of the run."""

    rank: int | None
    """None for processes that state none."""
    phases: list[TimePhase]
    """Seconds from the start of the run; they may overlap those of other ranks."""


class Times(Part):
    """The start-up on the clock; `phases` and `unlogged_s` add up to `wall_s`."""

    started_at: str | None = None
    """Time of the first event."""
    ready_at: str | None = None
    """When the server was ready for requests."""
    timezone: str | None = None
    """In which timestamps were read; null where unknown, and taken as UTC."""
    wall_s: float | None = None
    """From the first event to ready, or to the last event of the start-up."""
    is_at_least: bool = False
    """The start failed at a line without a time: `wall_s` ends with the last time before
    it, and the failure came no earlier."""
    warmup_s: float | None = None
    """As the engine states it."""
    engine_init_s: float | None = None
    """`init engine (profile, create kv cache, warmup model)`, as the engine states it."""
    is_excerpt: bool = False
    """The log begins within the start-up: its first lines are not there, or what states its
    duration began before them, and `started_at` is where (the start was no later). Or its
    lines are of more than one start: their times go back, or the end of a stage is stated
    twice and its beginning never. `wall_s` and `unlogged_s` are those of the lines where
    the start did not end in them, and unknown where it did."""
    phases: list[TimePhase] = []
    """In order; no moment is in two of them."""
    unlogged_s: float | None = None
    """Time that no phase explains."""
    residual_s: float | None = None
    """What `phases` and `unlogged_s` miss `wall_s` by; 0 when they add up."""
    gaps: list[Gap] = []
    """The lines between which unlogged time lies."""
    ranks: list[RankPhases] = []
    """The phases of each rank, where more than one states any."""

    @property
    def started(self) -> float | None:
        """`started_at` in seconds since the epoch."""
        return parse_isoformat(self.started_at)

    @property
    def ready_s(self) -> float | None:
        """From the first event to the first request that could be answered.

        None for an excerpt that begins in the middle.
        """
        if self.is_excerpt:
            return None
        start, ready = parse_isoformat(self.started_at), parse_isoformat(self.ready_at)
        return None if start is None or ready is None else ready - start

    def seconds_by_phase(self) -> dict[str, float]:
        """Phase to seconds, stretches of one name together, in order of appearance."""
        total: dict[str, float] = {}
        for phase in self.phases:
            total[phase.name] = total.get(phase.name, 0.0) + phase.duration_s
        return total

    def seconds_of(self, *names: str) -> float:
        """Seconds of these phases together; 0 where there is none of them."""
        seconds = self.seconds_by_phase()
        return sum(seconds.get(name, 0.0) for name in names)


class MemoryPart(Part):
    """One stretch of the memory budget. The parts of a run add up to its device."""

    name: str
    """`at_start`, `weights`, `profiling`, `non_torch`, `margin`, `graphs`, `unused`,
    `kv_cache` or `other`."""
    label: str
    """The name for people."""
    bytes: int
    """Size of the part."""


class MemoryReading(Part):
    """Memory at one moment of the start-up, or what a stage took."""

    stage: str
    """`weights`, `profile_run`, `kv_cache`, `init_cache_engine`, `wrap_graphs`, ..."""
    time: float | None = None
    """Seconds since the epoch."""
    used_bytes: int | None = None
    """In use on the device."""
    free_bytes: int | None = None
    """Free on the device."""
    delta_bytes: int | None = None
    """What the stage took on the device; negative when it released."""
    host_delta_bytes: int | None = None
    """What the stage took of host memory."""
    line: int | None = None
    """In the log, from 1."""


class GraphBudgetFacts(Part):
    """Memory set aside for graphs when the captures began, and its division."""

    total_bytes: int | None = None
    """What graphs may take."""
    free_bytes: int | None = None
    """Free on the device before the captures."""
    prompt_bytes: int | None = None
    """The share of prompts."""
    decode_bytes: int | None = None
    """The share of decodes."""
    prompt_ratio: float | None = None
    """`prompt_bytes` of `total_bytes`, as set; 0 to 1."""


class MemoryFacts(Part):
    """The memory of one rank, from the whole device to the blocks of the KV cache."""

    total_bytes: int | None = None
    """Memory of the device."""
    weights_bytes: int | None = None
    """Weights, those of a draft model included."""
    host_weights_bytes: int | None = None
    """Weights that stay in the memory of the host, none of `weights_bytes`."""
    profile_bytes: int | None = None
    """Peak of the profiling run: activations."""
    non_torch_bytes: int | None = None
    """Taken outside of the framework's allocator during profiling."""
    consumed_bytes: int | None = None
    """Weights and that together, where only the sum is stated (vLLM 0.27)."""
    free_bytes: int | None = None
    """HPU: after the profiling run. CUDA: when the worker started."""
    at_start_bytes: int | None = None
    """In use by others and the driver when the worker started; null on HPU."""
    usable_bytes: int | None = None
    """What the engine allows itself: a share of what is free (HPU) or of all (CUDA)."""
    gpu_memory_utilization: float | None = None
    """That share; 0 to 1."""
    graph_reserved_bytes: int | None = None
    """HPU: set aside for graphs before the KV cache is made."""
    graph_reserved_fraction: float | None = None
    """That, as a share of `usable_bytes`; 0 to 1."""
    kv_cache_bytes: int | None = None
    """The budget as the engine states it; negative when nothing is left."""
    suggested_kv_cache_bytes: int | None = None
    """The size that the engine names to fit into `usable_bytes`, graphs taken off."""
    kv_cache_allocated_bytes: int | None = None
    """What allocating took, padding block included."""
    num_kv_blocks: int | None = None
    """Blocks of the KV cache."""
    block_size: int | None = None
    """Tokens of a block."""
    block_bytes: int | None = None
    """Bytes of a block, all layers; None unless the evidence allows one value."""
    block_bytes_range: tuple[float, float] | None = None
    """The bytes of a block that the rounding of the evidence allows."""
    num_padding_blocks: int | None = None
    """Blocks that are allocated and not counted in `num_kv_blocks`."""
    kv_cache_tokens: int | None = None
    """Tokens of all blocks."""
    max_concurrency: float | None = None
    """Requests of the full length that fit at once."""
    warmup_allocated_bytes: int | None = None
    """What the whole warm-up took, as the engine states it."""
    free_after_kv_cache_bytes: int | None = None
    """Free on the device when the KV cache was allocated."""
    graph_budget: GraphBudgetFacts | None = None
    """Null where the engine sets none."""
    parts: list[MemoryPart] = []
    """Empty where too little is known."""
    readings: list[MemoryReading] = []
    """In the order of the run, at most 1,000."""


class PhaseBuckets(Part):
    """The buckets of one phase. Counts are those of the rank with the fewest."""

    generated: int | None = None
    """Buckets that the configuration gives."""
    omitted: int | None = None
    """Candidates that the engine left out."""
    warmed: int | None = None
    """Buckets that ran during the warm-up."""
    captured: int | None = None
    """What the evidence supports."""
    captured_reported: int | None = None
    """As the log states it."""
    capture_percent: float | None = None
    """`captured` of `generated`, 0 to 100; else as the log states it."""
    graph_budget_bytes: int | None = None
    """What graphs of the phase may take."""
    graph_used_bytes: int | None = None
    """What graphs of the phase took."""
    buckets: list[Bucket] = []
    """The generated ones, where they are listed."""
    captured_buckets: list[Bucket] | None = None
    """Null where the log does not list them."""
    missed: int = 0
    """Distinct shapes that no bucket covered."""
    strategy: str | None = None
    """How buckets were generated, as the engine names it."""
    dimensions: list[str] = []
    """Names of the dimensions as the engine gives them."""
    steps_s: float | None = None
    """All steps and captures that have a time; None where most have none."""
    gc_s: float | None = None
    """Of that, host time in the garbage collector."""
    compiled: int | None = None
    """Recipes or graphs compiled during the steps."""
    compile_s: float | None = None
    """What compiling them took."""
    reused: int | None = None
    """Buckets that ran and compiled nothing: what they need was compiled before, or came
    from a cache. Null where nothing counts compilations."""
    spikes: int | None = None
    """Buckets whose step took a multiple of its neighbours' time (`is_spike`)."""
    spikes_s: float | None = None
    """What the steps of these took beyond the median of their neighbours."""


class BucketRange(Part):
    """The values that one dimension of the buckets of a phase is made of."""

    phase: str
    """`prompt`, `decode`, ..."""
    dimension: str
    """As the engine names it: `bs`, `query`, `seq`, `block`, `blocks`, ..."""
    values: dict[str, int]
    """`min`, `step`, `max`, then `limit` or paddings, as far as the engine names them."""


class OtherPhase(Part):
    """A rarer kind of warm-up: multimodal, unified, pooler, ..."""

    generated: int | None = None
    """Buckets that the configuration gives; null where the list of the engine has other
    dimensions than what ran, such as patches of images for their sizes."""
    warmed: int | None = None
    """Buckets that ran during the warm-up."""


class SamplerStepFacts(Part):
    """One sampling configuration at one batch size."""

    batch_size: int
    """Sequences of the step."""
    temperature: float
    """0 is greedy."""
    top_p: float
    """0 to 1."""
    top_k: int
    """Tokens; 0 or less for all."""
    batch_changed: bool
    """Whether the batch was marked as changed."""
    duration_s: float | None = None
    """Seconds."""


class SamplerConfigFacts(Part):
    """One of the sampling configurations."""

    temperature: float
    """0 is greedy."""
    top_p: float
    """0 to 1."""
    top_k: int
    """Tokens; 0 or less for all."""
    batch_changed: bool
    """Whether the batch was marked as changed."""


class SamplerFacts(Part):
    """The sampler warm-up."""

    status: str
    """`completed`, `started` or `skipped`."""
    batch_sizes: list[int] | None = None
    """As the engine lists them."""
    configs: int | None = None
    """Number of distinct configurations."""
    duration_s: float | None = None
    """Seconds of the whole sampler warm-up."""
    steps: list[SamplerStepFacts] = []
    """At most 10,000."""
    configurations: list[SamplerConfigFacts] = []
    """The distinct ones."""


class DefragStepFacts(Part):
    """One padded swap size."""

    threshold: int
    """Blocks that one swap is padded to."""
    duration_s: float | None = None
    """Seconds."""


class DefragRunFacts(Part):
    """One defragmentation while serving."""

    swapped: int | None = None
    """Blocks that were swapped."""
    padded: int | None = None
    """The size that the swap was padded to."""
    max_id_before: int | None = None
    """Highest block id in use before it."""
    max_id_after: int | None = None
    """Highest block id in use after it."""
    duration_s: float | None = None
    """Seconds."""
    time: float | None = None
    """Seconds since the epoch."""


class DefragFacts(Part):
    """The defragmenter: its warm-up, and what it did while serving."""

    status: str | None = None
    """`completed`, `started` or `skipped`."""
    thresholds: list[int] | None = None
    """Padded swap sizes, in blocks."""
    duration_s: float | None = None
    """Seconds of the whole defragmenter warm-up."""
    reason: str | None = None
    """Why it was skipped."""
    steps: list[DefragStepFacts] = []
    """At most 10,000."""
    runs: list[DefragRunFacts] = []
    """At most 10,000."""


class LazyCaptureFacts(Part):
    """A CUDA graph captured while serving."""

    num_tokens: int
    """The size that the graph is for."""
    duration_s: float | None = None
    """Seconds of the capture."""
    memory_bytes: int | None = None
    """What the graph took."""
    time: float | None = None
    """Seconds since the epoch."""


class CaptureFacts(Part):
    """One CUDA graph captured at start."""

    bucket: Bucket
    """One number, the tokens, on CUDA."""
    mode: str | None = None
    """Kind of graph, as the engine names it."""
    duration_s: float | None = None
    """Seconds of the capture."""
    memory_bytes: int | None = None
    """What the graph took."""
    line: int | None = None
    """In the log, from 1."""


class CaptureBar(Part):
    """The last state of a progress bar over captures."""

    mode: str
    """Kind of graph, as the bar names it."""
    captured: int
    """Graphs so far."""
    total: int
    """Graphs in all."""
    duration_s: float | None = None
    """Seconds on the clock of the bar."""
    states: list[tuple[int, float]] = []
    """Graphs so far and seconds on that clock, largest graphs first; at most 1,000."""


class GraphFacts(Part):
    """CUDA graphs, at start and while serving."""

    captured: int | None = None
    """Graphs that were captured at start."""
    duration_s: float | None = None
    """Seconds of all captures at start."""
    memory_bytes: int | None = None
    """What they took."""
    estimated_bytes: int | None = None
    """What the engine expected them to take."""
    is_reserved: bool | None = None
    """Whether the estimate was taken off the KV cache; None when not stated."""
    utilization_without: float | None = None
    """The utilisation that would give the same KV cache without the estimate: four
    digits, 0 to 1."""
    lazy: list[LazyCaptureFacts] = []
    """At most 10,000."""
    captures: list[CaptureFacts] = []
    """Those that have an event of their own."""
    bars: list[CaptureBar] = []
    """One for each mode."""


class Miss(Part):
    """A shape at run time that no bucket covered."""

    phase: str
    """`prompt` or `decode`."""
    shape: Bucket
    """What the step needed."""
    fallback: Bucket | None = None
    """The bucket that was made for it."""
    count: int = 1
    """How often; the lowest of any rank."""


class NoteFacts(Part):
    """Something worth knowing that has no field of its own."""

    topic: str
    """`gc_freeze`, `recompile`, `capped`, ..."""
    text: str
    """As the engine printed it, or one sentence of a recorder."""
    count: int = 1
    """How often."""


class GcFacts(Part):
    """Python's garbage collector during the bucket steps."""

    seconds: float | None = None
    """In the garbage collector during these steps."""
    share: float | None = None
    """Of the steps whose share is known; 0 to 1."""
    steps_s: float | None = None
    """The time of these steps."""
    warmup_s: float | None = None
    """In the garbage collector during the whole warm-up, between steps as well."""
    frozen: bool = False
    """Whether the objects alive before warm-up were taken out of its reach."""
    freeze_s: float | None = None
    """What that took, once."""


class CompilePart(Part):
    """One compilation, or one load from a cache."""

    what: str
    """`dynamo`, `graph`, `total`, `recipe`, ..."""
    duration_s: float | None = None
    """Seconds."""
    from_cache: bool | None = False
    """Whether it was loaded, not compiled."""
    detail: str | None = None
    """Such as the range of sizes that it is for."""
    part: str | None = None
    """Which model of several, such as `backbone` or `eagle_head`."""


_CACHE_HASH = re.compile(r"/torch_compile_cache/([0-9a-f]{6,64})(?=/|$)")
_AOT_HASH = re.compile(r"/torch_aot_compile/([0-9a-f]{6,64})/")


class CompileFacts(Part):
    """Compilations of the start-up."""

    seconds: float | None = None
    """As the engine sums them up, else the sum of the parts; None where that is more than
    the time they were compiled in."""
    cache: str | None = None
    """`hit` when all graphs came from a cache, `miss` when none did, `partial` between.
    Dynamo traces the model again in a start that loads its graphs."""
    parts: list[CompilePart] = []
    """In order; totals of the engine are among them."""
    directory: str | None = None
    """Where the engine looks for compiled graphs of earlier starts."""
    key: dict[str, str] = {}
    """What the name of that directory is made of: `env`, `config`, `compiler` and `code`
    to their hashes, where they are stated."""
    factors: dict[str, str] = {}
    """What those hashes are made of, as `env.VLLM_...` to a value, from
    `cache_key_factors.json`."""
    saved_to: str | None = None
    """Where it saved a whole compiled function (AOT) for later ones."""

    @property
    def names_cache(self) -> bool:
        """Whether a line names where compiled code of earlier starts is kept."""
        return self.directory is not None or self.saved_to is not None

    @property
    def hash(self) -> str | None:
        """The part of the directory's name that is the key of the cache."""
        found = _CACHE_HASH.search(self.directory or "")
        return found[1] if found else None

    @property
    def aot_hash(self) -> str | None:
        """The key of the compiled function (AOT) that was saved or loaded."""
        known = [self.saved_to, *(p.detail for p in self.parts if p.what == "aot")]
        found = _AOT_HASH.search(" ".join(filter(None, known)))
        return found[1] if found else None


class RecipePart(Part):
    """One recipe of the Gaudi graph compiler."""

    recipe: str
    """Its name in the process."""
    duration_s: float | None = None
    """What the compiler took."""
    phase: str | None = None
    """Of the bucket in whose step it was compiled."""
    bucket: Bucket | None = None
    """That bucket; null outside of a step."""


class RecipeFacts(Part):
    """Recipes that the Gaudi bridge compiled before requests were served, of the rank
    with the lowest number."""

    count: int = 0
    """All of them."""
    seconds: float | None = None
    """What the compiler took for them together; some may be compiled side by side."""
    outside: int = 0
    """Of them, compiled outside of the steps of buckets: loading, profiling, sampler."""
    outside_s: float | None = None
    """What those took."""
    slowest: list[RecipePart] = []
    """At most 20, the slowest first."""


class CheckpointFacts(Part):
    """The files of the weights, all ranks together, as vLLM states them."""

    size_bytes: int
    """Size of all checkpoints that are read."""
    available_bytes: int | None = None
    """Host memory that was available before they were read."""
    filesystem: str | None = None
    """Type of the file system, as the engine names it: `EXT4`, `NFS`, ..."""


class UsageFacts(Part):
    """The highest figures of the statistics that a serving engine printed."""

    num_lines: int
    """Lines of statistics; the engine prints one every ten seconds while it is busy."""
    usage_percent: float
    """Of the KV cache, 0 to 100."""
    running: int
    """Requests at once."""
    waiting: int
    """Requests for which there was no room, or no place in the batch."""


class AutotuneFacts(Part):
    """Kernel configurations that FlashInfer's autotuner saved."""

    new: int
    """Found at this start."""
    previous: int
    """Known from an earlier one."""
    path: str
    """The file that keeps them."""


STARTS = ("cold", "warm", "partly warm", "eager", "restored", "woken", "skipped")
"""Kinds of starts."""


class StartFacts(Part):
    """What a start could build on, from evidence; null or absent where there is none."""

    kind: str | None = None
    """`cold` when nothing came from a cache of an earlier start, `warm` when all that is
    known did, `partly warm` between; `eager` where the model is neither compiled nor loaded
    from a cache; `restored` from a snapshot; `woken` where a log
    begins with an engine that wakes up; `skipped` without a warm-up."""
    caches: dict[str, str] = {}
    """Cache to `hit`, `missed`, `partial` or `off`: `torch_compile`, `aot` (whole compiled
    functions of vLLM), `flashinfer_autotune`, `hpu_recipes`, `neuron_modules`."""
    aot_reason: str | None = None
    """Why a compiled function that an earlier start had saved was not loaded."""
    weights: str | None = None
    """`mapped` from the memory of a weight cache daemon, or `fell back` to the disk."""
    weights_reason: str | None = None
    """Why it fell back, as the engine states it."""
    plan: str | None = None
    """Start-up plan of an earlier start: `applied`, `refused` or `saved` for later ones."""

    @property
    def words(self) -> str | None:
        """The kind and what was not loaded or measured: equal for starts of one kind."""
        if self.kind is None:
            return None
        parts = [self.kind]
        parts += ["weights mapped"] if self.weights == "mapped" else []
        parts += ["plan applied"] if self.plan == "applied" else []
        return ", ".join(parts)


class UsedShape(Part):
    """Steps while serving that needed one shape and ran in one bucket."""

    phase: str
    """`prompt` or `decode`."""
    shape: Bucket
    """What the steps needed."""
    bucket: Bucket
    """The bucket that the engine looked up."""
    executed: Bucket | None = None
    """The shape that ran, where it was another than the bucket."""
    count: int = 1
    """Steps of the leading rank; of several data parallel engines, of that of each."""
    duration_s: float | None = None
    """Seconds of these steps."""
    first_s: float | None = None
    """Seconds of the first of them."""


class SleepFacts(Part):
    """The engine fell asleep, woke up or discarded memory while serving."""

    action: str
    """`sleep`, `wake_up` or `discard`."""
    tags: list[str] = []
    """`weights`, `kv_cache`, ...; empty for all."""
    time: float | None = None
    """Seconds since the epoch."""
    duration_s: float | None = None
    """Seconds that it took."""
    freed_bytes: int | None = None
    """Freed on the device."""
    used_bytes: int | None = None
    """Still in use on the device after it."""
    host_bytes: int | None = None
    """Kept in host memory, to be moved back."""


class RuntimeCompileFacts(Part):
    """A kernel that was compiled while serving, in one configuration."""

    what: str
    """Which runtime did what, such as `Triton kernel JIT compilation`."""
    kernel: str
    """Name of the kernel."""
    detail: str | None = None
    """The configuration that had not been compiled before."""
    time: float | None = None
    """Of the first, in seconds since the epoch."""
    after_ready_s: float | None = None
    """From ready to the first."""
    count: int = 1
    """How often, in all processes."""
    duration_s: float | None = None
    """The longest time it took, in any process; null where none is stated."""


class GraphUse(Part):
    """Steps while serving of one size, with or without a CUDA graph."""

    num_tokens: int
    """Of the requests."""
    padded_tokens: int
    """That ran."""
    mode: str
    """`FULL`, `PIECEWISE` or `NONE`."""
    count: int = 1
    """How many steps."""


class ServingEnd(Part):
    """How serving ended."""

    kind: str
    """`shutdown`, or the kind of a failure."""
    message: str = ""
    """As the engine printed it."""
    line: int | None = None
    """In the log, from 1."""
    free_bytes: int | None = None
    """Free on the device when it failed."""
    needed_bytes: int | None = None
    """Size of the allocation that failed."""
    module: str | None = None
    """The innermost file of the engine or of a package in the traceback."""
    stated: FailureFigures = FailureFigures()
    """What the text of the error states besides."""


class Serving(Part):
    """What happened after the server was ready; it never changes the start-up."""

    ready_at: str | None = None
    """When the server was ready for requests."""
    ended_at: str | None = None
    """When serving ended."""
    duration_s: float | None = None
    """From ready to that end, or to the last step where the steps are known."""
    first_response_s: float | None = None
    """From ready until the response to a request for inference began; how long the engine
    waited for that request is part of it."""
    first_tokens_s: float | None = None
    """From ready to the first statistics line with generated tokens: the first came up to
    an interval of these lines, 10 s as a rule, before."""
    first_request_s: float | None = None
    """What the first request took whose arrival and end are both in the log."""
    end: ServingEnd | None = None
    """Null while nothing states an end."""
    sleeps: list[SleepFacts] = []
    """At most 10,000."""
    jit: list[RuntimeCompileFacts] = []
    """Kernels compiled while serving: each kept a request waiting."""
    uses: list[UsedShape] = []
    """Distinct shapes, with how often each came."""
    graph_uses: list[GraphUse] = []
    """Of `--cudagraph-metrics`, the commonest first."""
    num_uncounted: int = 0
    """Steps whose shape is not among `uses`: there were too many distinct ones."""


class Progress(Part):
    """How far the start-up is, or how far it came."""

    stage: str = "starting"
    """What was going on at the last event: `prompt_warmup`, `load_model`, `ready`."""
    phase: str | None = None
    """Of the last step."""
    mode: str | None = None
    """Of the last step: `eager` or `graph`."""
    bucket: Bucket | None = None
    """Of the last step."""
    is_in_step: bool = False
    """Whether a step has begun and no event of its end came."""
    index: int | None = None
    """Number of the last step in its phase, or of the last graph or file of a bar, from 1."""
    total: int | None = None
    """Steps of that phase."""
    step_s: float | None = None
    """Mean seconds of the steps so far, as they or their bar state it."""
    free_bytes: int | None = None
    """What was free before the last step."""
    used_bytes: int | None = None
    """In use on the device, as last stated; null once more was taken without a reading."""
    last_at: float | None = None
    """Time of the last event, seconds since the epoch."""
    finished_at: float | None = None
    """When warm-up ended, in seconds since the epoch."""
    longest_silence_s: float = 0.0
    """The longest time without an event so far."""


class Contradiction(Part):
    """Evidence that breaks a law of every run."""

    law: str
    """What always holds."""
    figures: list[str]
    """Names of the figures concerned; nothing is built on them."""
    evidence: list[str]
    """Both sides, with the lines of the log where there are any."""


class RunSummary(Part, frozen=True, kw_only=True):
    """One run. A section whose subject no event mentions is None."""

    schema: int = SCHEMA
    """Version of these keys."""
    run_id: str
    """12 hexadecimal digits."""
    label: str | None = None
    """Given by the user."""
    source: SourceName
    """Where the events come from."""
    engine: EngineName = EngineName()
    """Which engine ran."""
    device: DeviceName = DeviceName()
    """On what it ran."""
    synthetic: bool = False
    """True when the figures come from a simulation or a synthetic log."""
    model: str | None = None
    """As the engine names it."""
    ranks: int | None = 1
    """As stated, else as many as have events, else the one of a known engine; null without
    these, and when a log shows one of several and nothing states how many."""
    config: dict[str, Setting] = {}
    """Settings and environment of the engine, flat."""
    arguments: list[str] | None = None
    """Names of the arguments that were set, where the engine lists them all; null elsewhere."""
    status: str = "unknown"
    """`finished`, `running`, `failed`, `stopped`, `skipped` or `unknown`."""
    failure: FailureFacts | None = None
    """Null unless the start-up failed."""
    stop: str | None = None
    """What was printed of the order to stop; null unless it came before the engine was
    ready."""
    start: StartFacts = StartFacts()
    """What the start could build on: caches, preloaded weights, a start-up plan."""
    time: Times = Times()
    """Where the time of the start-up went."""
    memory: MemoryFacts | None = None
    """Null where no event states any."""
    buckets: dict[str, PhaseBuckets] | None = None
    """`prompt` and `decode`, as far as there are any."""
    bucket_ranges: list[BucketRange] = []
    """What the engine states that it makes buckets from."""
    multimodal: OtherPhase | None = None
    """Warm-up of multimodal inputs of all kinds. Rows of the first kind that ran have the phase
    `multimodal`, those of others one with its name, such as `multimodal_video`."""
    other_phases: dict[str, OtherPhase] = {}
    """Further kinds of warm-up, by the engine's word for them."""
    sampler: SamplerFacts | None = None
    """Null where no event mentions it."""
    defrag: DefragFacts | None = None
    """Null where no event mentions it."""
    graphs: GraphFacts | None = None
    """CUDA graphs; null where no event mentions any."""
    misses: list[Miss] = []
    """Distinct shapes that no bucket covered."""
    benchmarks: list[dict[str, Any]] = []
    """Results of `vllm bench`, with its keys."""
    notes: list[NoteFacts] = []
    """At most 100 distinct ones."""
    gc: GcFacts | None = None
    """Null where nothing is known of the garbage collector."""
    compile: CompileFacts | None = None
    """Null where no event mentions a compilation."""
    recipes: RecipeFacts | None = None
    """Null where no single recipe was recorded."""
    checkpoint: CheckpointFacts | None = None
    """Null where the engine states nothing of it."""
    autotune: AutotuneFacts | None = None
    """Null where no tuned kernels were saved."""
    usage: UsageFacts | None = None
    """How busy the engine was while it served; null where it printed no statistics."""
    pod: PodFacts | None = None
    """The pod that it ran in; null where neither path nor description names one."""
    profile_shape: Bucket | None = None
    """Shape of the profile run, where it is none of the buckets (HPU)."""
    defaults: list[str] = []
    """Settings of `config` that the engine printed as its own: they were not set."""
    serving: Serving | None = None
    """Null where nothing came after the start-up."""
    progress: Progress = Progress()
    """Where the start-up is, or ended."""
    contradictions: list[Contradiction] = []
    """Laws of every run that its evidence breaks."""
    guessed: list[str] = []
    """What rests on a guess: the year of timestamps without one, the kind of device where
    only words name it that another kind shares, or the number of ranks where a part of a log
    may lack some."""
    lines: dict[str, int] = {}
    """Figures of `memory` and `time` to the line of the log that states them."""
    fold: int = 0
    """Version of the fold that made it."""

    @property
    def is_log(self) -> bool:
        """Whether figures are as rounded as a log prints them."""
        return self.source.kind == "log"

    def has_default(self, name: str, other: RunSummary) -> bool:
        """Whether a setting that the other run was given has its default here."""
        argument = name.partition(".")[0]
        return (
            self.arguments is not None
            and argument not in self.arguments
            and argument in (other.arguments or ())
            and self.config.get(name) is None
        )

    def setting(self, *names: str) -> float | None:
        """The first of these settings that is a number, also one written as text."""
        for name in names:
            value = self.config.get(name)
            if isinstance(value, bool) or value is None:
                continue
            with suppress(TypeError, ValueError, OverflowError):
                if math.isfinite(number := float(value)):
                    return number
        return None

    @property
    def fixed_blocks(self) -> int | None:
        """How many KV blocks a setting gives, whatever memory there is; None without it."""
        number = self.setting("num_gpu_blocks_override")
        return None if number is None else int(number)

    @property
    def title(self) -> str:
        """What the run is called."""
        return run_name(
            run_id=self.run_id, label=self.label, model=self.model,
            source_name=self.source.name, source_kind=self.source.kind,
        )  # fmt: skip

    def phase(self, name: str) -> PhaseBuckets:
        """The section of a phase; all unknown when there is none."""
        return (self.buckets or {}).get(name) or _NO_PHASE

    @property
    def memory_or_none(self) -> MemoryFacts:
        """The memory section; all unknown when there is none."""
        return self.memory or _NO_MEMORY

    @property
    def serving_or_none(self) -> Serving:
        """What came after the start; all unknown when nothing did."""
        return self.serving or _NO_SERVING


_NO_PHASE = PhaseBuckets()
_NO_MEMORY = MemoryFacts()
_NO_SERVING = Serving()


class StepCost(Part):
    """One execution of a bucket: a run, or the capture of its graph."""

    position: int
    """Place among all steps of the rank, from 0."""
    index: int | None = None
    """Number in the phase, from 1, as the engine counts."""
    time: float | None = None
    """When it began, in seconds since the epoch."""
    duration_s: float | None = None
    """Seconds."""
    memory_bytes: int | None = None
    """What it took on the device."""
    free_before_bytes: int | None = None
    """Free on the device before it."""
    free_after_bytes: int | None = None
    """Free on the device after it."""
    estimate_bytes: int | None = None
    """What the engine expected a capture to take."""
    is_spike: bool | None = None
    """Whether it took at least 2.5 times as long as its neighbours, beyond what the
    resolution explains: most likely a compilation that those reused. Null with fewer
    than four of them."""
    neighbours_s: float | None = None
    """The median of up to four timed steps on each side, in the order of the warm-up."""


class BucketRow(Part):
    """What became of one bucket, as the rank with the lowest number has it."""

    phase: str
    """`prompt`, `decode`, or the engine's word for another."""
    bucket: Bucket
    """The declared shape."""
    generated: bool = False
    """Whether the list of the engine has it."""
    warmed: bool = False
    """Whether it ran during the warm-up."""
    captured: bool | None = None
    """Whether its graph was captured; null where no evidence holds for the bucket."""
    skipped: bool | None = None
    """Whether it was a candidate for a graph that got none; null where not known."""
    missed: int = 0
    """How often the shape came while serving without a bucket."""
    duration_s: float | None = None
    """Run and capture together, each counted once; a capture while serving is no cost of
    the warm-up and counts in `capture` alone."""
    resolution_s: float | None = None
    """`duration_s` is at most so far off, where it follows from a progress bar."""
    memory_bytes: int | None = None
    """What they took, with the same exception."""
    executed: Bucket | None = None
    """The shape that ran; None when not observed."""
    state: str = "generated"
    """The most telling word: `missed`, `executed_differently`, `captured`, `skipped`,
    `warmed` or `generated`."""
    gc_s: float | None = None
    """Of `duration_s`, in the garbage collector."""
    compiled: int | None = None
    """Recipes or graphs compiled in its steps."""
    compile_s: float | None = None
    """Seconds that compiling them took."""
    run: StepCost | None = None
    """The run without a capture."""
    capture: StepCost | None = None
    """The capture of its graph."""

    @property
    def is_spike(self) -> bool | None:
        """Whether its run or its capture took a multiple of its neighbours' time."""
        costs = [cost for cost in (self.run, self.capture) if cost is not None]
        known = [cost.is_spike for cost in costs if cost.is_spike is not None]
        return any(known) if known else None

    @property
    def spike_s(self) -> float | None:
        """Seconds of `duration_s` beyond its neighbours' time; None for no spike."""
        beyond = [
            cost.duration_s - cost.neighbours_s
            for cost in (self.run, self.capture)
            if cost is not None and cost.is_spike
            if cost.duration_s is not None and cost.neighbours_s is not None
        ]
        return sum(beyond) if beyond else None

    @property
    def ran_as(self) -> Bucket:
        """The shape that ran, as far as it is known."""
        return self.bucket if self.executed is None else self.executed
