"""Sentences about a summary, each with the number behind it; one home for each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from warmup_insights.analysis.remaining import Remaining
from warmup_insights.model.failure_text import is_likely_memory
from warmup_insights.model.figures import BY_NAME, contradictory, text_of
from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import (
    OF_OTHER_RANK,
    SHORTEST_S,
    Contradiction,
    FailureFacts,
    MemoryFacts,
    Progress,
    RunSummary,
    Serving,
    ServingEnd,
    top_level_parts,
)
from warmup_insights.units import (
    format_bytes,
    format_count,
    format_duration,
    format_time,
)

_OF_BUCKETS = ("prompt_warmup", "decode_warmup", "prompt_graphs", "decode_graphs")
_ANNOUNCED = re.compile(
    r"(?:RuntimeError: )?Engine (?:core initialization failed|process failed to start)|"
    r"EngineCore (?:failed to start|hit an exception:?\s{0,9}$)|"
    r"(?:Exception: )?WorkerProc (?:failed to start|hit an exception|initialization failed)|"
    r"Application startup failed|"
    r'File "[^"]{1,300}", line \d{1,7}, in \w{1,80}$'
)
"""What only states that something failed."""
_HINT = re.compile(r"[;\s]{0,20}(?:Set|You can set) TORCH(?:DYNAMO_VERBOSE|_LOGS)=")
_ENDS = {
    "out_of_memory": "out of memory", "no_kv_cache": "no room for the KV cache",
    "killed": "the process was killed",
}  # fmt: skip
_TOO_SMALL = "the KV cache is too small for a request of full length"
_NOT_STATED = "time to ready is not stated"
ORDERED = "stopped"
"""The word for serving that ended by an order; others are of a failure."""
_SERVING_ENDS = {"shutdown": ORDERED, "error": "failed"}
MAX_CAUSE = 200
MAX_VALUE, MAX_ENTRY = 60, 20
"""Characters of the value of a setting, and of an entry of a longer one that is a list."""


def start_sentences(summary: RunSummary) -> list[str]:
    """What became of a start and where most of its time went; then what is left for
    graphs and KV cache, where it is stated.

    Figures are those of the summary; what is unknown or contradictory is named so.
    """
    first = not_a_start(summary)
    parts = [first] if first else [
        _outcome(summary), _broken_serving(summary), largest_phase_text(summary)
    ]  # fmt: skip
    sentences = ["; ".join(part for part in parts if part) + "."]
    left = list(_left(summary))[:2]
    if left and summary.status not in ("failed", "running"):
        sentences.append("; ".join(left) + ".")
    return [f"{text[0].upper()}{text[1:]}" for text in sentences]


def not_a_start(summary: RunSummary) -> str | None:
    """What lines without a start-up hold, which may be some of a file; None where lines of
    an engine are among them."""
    times = summary.time
    known = (times.wall_s, times.warmup_s, summary.memory, summary.buckets,
             summary.bucket_ranges or None,
             summary.graphs, summary.sampler, summary.defrag, summary.compile,
             None if summary.benchmarks else summary.engine.name,
             times.phases or None, summary.progress.index,
             summary.progress.stage == "start_engine" or None)  # fmt: skip
    if any(part is not None for part in known) or summary.status != "unknown":
        return None
    found = [
        count_text(len(summary.benchmarks), "benchmark result"),
        count_text(len(summary.misses), "bucket miss", "bucket misses"),
        count_text(len(summary.config), "setting"),
        count_text(len(summary.notes), "note"),
    ]
    holds = ", ".join(text for text in found if text)
    if not holds:
        return "no start-up was read in these lines"
    return f"no start-up in these lines; {holds}"


def count_of(number: float, one: str, many: str | None = None) -> str:
    """A count with its noun: `1 shape`, `2 shapes`."""
    shown = f"{number:,.0f}" if number >= 1000 else f"{number:.4g}"
    return f"{shown} {one if number == 1 else many or one + 's'}"


def count_text(number: float, one: str, many: str | None = None) -> str:
    """A count with its noun; empty for none."""
    return count_of(number, one, many) if number else ""


_WARMING = ("compile", "graph_capture", "multimodal_graphs")
"""Phases besides those with `warmup` in their names that prepare the model to serve."""


def _outcome(summary: RunSummary) -> str:
    """How far the start came, and after what time."""
    wall = BY_NAME["wall_s"].trusted(summary)
    after = ""
    if wall and wall >= SHORTEST_S:
        least = "at least " if summary.time.is_at_least else ""
        after = f" after {least}{format_duration(wall)}"
        if summary.time.is_excerpt:
            after = f" {least}{format_duration(wall)} after the first line"
    if "wall_s" in contradictory(summary):
        after = " after a time for which the evidence is contradictory"
    stage = progress_text(summary.progress)
    if summary.failure is not None:
        return f"failed{after}: {cause_text(summary.failure)}"
    if summary.status == "running":
        # For how long a summary does not hold: nothing may have come since.
        last = "line" if summary.is_log else "event"
        return f"running: {stage}{after and f'; the last {last} came{after}'}"
    if summary.stop is not None:
        why = shortened(summary.stop)
        return f"stopped{after}, before it was ready: {why}; the last stage is {stage}"
    return _reached(summary, after)


def _reached(summary: RunSummary, after: str) -> str:
    """How far a start came that neither failed nor goes on."""
    without = " without a warm-up" if summary.status == "skipped" else ""
    stated = _stated_text(summary)
    if summary.time.ready_at is not None or summary.progress.stage == "ready":
        if not after or summary.time.ready_at is None:
            return f"the server got ready{without}{stated and f'; {stated}'}"
        return f"ready{after}{without or _kind(summary)}"
    if without:
        return f"the warm-up was skipped; {_NOT_STATED}"
    if stated and (not after or BY_NAME["warmup_s"].trusted(summary)):
        return f"{stated}; {_NOT_STATED}"
    if summary.status == "finished":
        warmed = any(
            "warmup" in name or name in _WARMING
            for name in summary.time.seconds_by_phase()
        )
        over = "the warm-up ended" if warmed else "the engine was initialised"
        return f"{over}{after}{_kind(summary)}; {_NOT_STATED}"
    if summary.serving is not None and summary.serving.end is not None:
        return f"stopped{after}, before the log has a line that the server was ready"
    stage = progress_text(summary.progress)
    if summary.status == "failed":
        return (
            f"failed{after}, without an error that was seen; the last stage is {stage}"
        )
    ends = "" if summary.progress.stage == "starting" else f"; it ends with {stage}"
    if not summary.is_log:
        return f"the recording ends before the server was ready{ends and f', with {stage}'}"
    return f"the log has no line that the server was ready{ends}"


def _stated_text(summary: RunSummary) -> str:
    """The time that the engine states for its warm-up, else for its initialisation."""
    warmup, init = summary.time.warmup_s, summary.time.engine_init_s
    if warmup:
        return f"the engine states {format_duration(warmup)} for its warm-up"
    if init:
        return f"the engine states {format_duration(init)} for its initialisation"
    return ""


def _kind(summary: RunSummary) -> str:
    words = summary.start.words
    return f", {article(words)} {words} start" if words is not None else ""


def article(word: str) -> str:
    """The indefinite article of a word."""
    return "an" if word[0] in "aeiou" else "a"


def cause_text(failure: FailureFacts) -> str:
    """What ended a start, and the bucket in which, where one was running."""
    where = "" if failure.kind == "no_kv_cache" else _where(failure)
    return f"{_cause_of(failure)}{where}"


def _cause_of(failure: FailureFacts) -> str:
    is_small = failure.is_cache_too_small
    return _TOO_SMALL if is_small else _cause(failure.kind, failure.message)


def _cause(kind: str, message: str) -> str:
    cause = _ENDS.get(kind)
    if cause and is_likely_memory(message):
        cause = f"most likely {cause}"
    if cause is None:
        cause = shortened(without_hint(message).strip()) or "an error"
        if _ANNOUNCED.match(cause):
            cause = f"the log does not hold the cause ({cause.rstrip(':')})"
    return cause


def made_up_word(device_kind: object, is_synthetic: object) -> str | None:
    """How figures came about that no real device gave; None for real ones."""
    if device_kind == "simulated":
        return "simulated"
    return "synthetic" if is_synthetic else None


def serving_words(summary: RunSummary) -> str | None:
    """How serving ended in a word or two, for a column or a badge beside the status of the
    start; None where nothing states an end, or no line that the server was ready."""
    end = summary.serving_or_none.end
    if end is None or (end.kind == "shutdown" and summary.progress.stage != "ready"):
        return None
    kind = "error" if is_likely_memory(end.message) else end.kind
    return _SERVING_ENDS.get(kind) or kind.replace("_", " ")


def serving_cause(summary: RunSummary) -> str | None:
    """What broke serving; None where nothing did."""
    end = summary.serving_or_none.end
    if end is None or end.kind == "shutdown":
        return None
    return _cause(end.kind, end.message)


def _broken_serving(summary: RunSummary) -> str:
    cause, lasted = serving_cause(summary), summary.serving_or_none.duration_s
    after = f" after {format_duration(lasted)}" if lasted else ""
    return f"serving ended{after}: {cause}" if cause is not None else ""


def without_hint(message: str) -> str:
    """An error without the hint of torch on how to get more of its trace."""
    return _HINT.split(message, maxsplit=1)[0]


def shortened(message: str, most: int = MAX_CAUSE) -> str:
    """A message that fits into a sentence, without a full stop of its own."""
    if len(message) <= most:
        return message.rstrip(".")
    return f"{message[:most].rpartition(' ')[0] or message[:most]} ..."


def value_text(value: object) -> str:
    """The value of a setting in a sentence: of a long list the first entries, the last and
    how many there are, of another long text the beginning."""
    text = " ".join(str(value).split())
    if len(text) <= MAX_VALUE:
        return text
    if not (text.startswith("[") and text.endswith("]")):
        return shortened(text, MAX_VALUE)
    entries = [part.strip() for part in top_level_parts(text[1:], is_closed=True)]
    if len(entries) < 4:
        return shortened(text, MAX_VALUE)
    first, second, *_, last = (shortened(entry, MAX_ENTRY) for entry in entries)
    return f"[{first}, {second}, ... {last}] ({len(entries)} values)"


def _where(failure: FailureFacts) -> str:
    if failure.bucket is not None:
        return f" in {failure.phase or 'a'} bucket {failure.bucket}"
    return "" if failure.phase is None else f" in {phase_words(failure.phase)}"


def largest_phase(summary: RunSummary) -> tuple[str, float] | None:
    """The phase with the most seconds, those of buckets and those of all ranks together,
    as `BUCKETS` or the name of the phase; None where no phase is known."""
    total: dict[str, float] = {}
    for name, seconds in summary.time.seconds_by_phase().items():
        base = name.removesuffix(OF_OTHER_RANK)
        base = BUCKETS if base in _OF_BUCKETS else base
        total[base] = total.get(base, 0.0) + seconds
    for name in ("lines_cut_out", *(n for n, seconds in total.items() if not seconds)):
        total.pop(name, None)
    return max(total.items(), key=lambda item: item[1], default=None)


def largest_phase_text(summary: RunSummary) -> str:
    """The largest phase with its seconds and its share, and the time that no line of the
    log covers where that is more; empty where nothing is known."""
    found, wall = largest_phase(summary), BY_NAME["wall_s"].trusted(summary)
    if summary.time.wall_s is None and summary.time.engine_init_s:
        took = BY_NAME["graph_capture_s"].trusted(summary) or 0.0
        is_most = 2 * took > summary.time.engine_init_s
        return f"{format_duration(took)} went into capturing graphs" if is_most else ""
    if not wall or wall < SHORTEST_S:
        return ""
    lost = BY_NAME["unlogged_s"].trusted(summary) or 0.0
    cut = summary.time.seconds_of("lines_cut_out")
    rest = f"{format_duration(lost)} are unlogged time" if lost > 0.1 * wall else ""
    if cut > 0.1 * wall:
        rest = f"{format_duration(cut)} lie where lines were cut out of the log"
    if found is None or found[1] > wall:
        what = (
            "lines of the start-up cover"
            if summary.time.is_excerpt
            else "start-up covers"
        )
        return f"the {what} {format_duration(wall)}{rest and ', '}{rest}"
    name, seconds = found
    words = largest_phase_words(summary, name)
    of, whole = format_duration(seconds), format_duration(wall)
    outcome = _outcome(summary)
    if not any(f"{word} {whole}" in outcome for word in ("after", "at least")) and (
        f"{whole} after" not in outcome
    ):
        of += (
            f" of the {whole} in the log" if summary.time.is_excerpt else f" of {whole}"
        )
    if not summary.is_log or wall >= 10:  # timestamps of logs are whole seconds
        share = 100 * seconds / wall
        of += f" ({share:.0f} %)" if share >= 1 else " (under 1 %)"
    is_more = max(lost, cut) > seconds
    return f"{of} went into {words}{', ' + rest if rest and is_more else ''}"


def extent_text(summary: RunSummary) -> str:
    """How long the start took, or what the lines without its beginning cover."""
    if summary.time.wall_s is None:
        return "as far as the lines of this log go"
    extent = "in the lines of this log" if summary.time.is_excerpt else "in all"
    if summary.time.is_at_least:
        extent = "up to the last time before the failure"
    return f"{text_of(summary, 'wall_s')} {extent}"


def largest_phase_words(summary: RunSummary, name: str) -> str:
    """What was done in a phase that `largest_phase` names."""
    return _bucket_words(summary) if name == BUCKETS else phase_words(name)


def _bucket_words(summary: RunSummary) -> str:
    parts = (summary.buckets or {}).values()
    names = summary.time.seconds_by_phase()
    has_steps = any(name in names for name in _OF_BUCKETS[:2])
    if not has_steps:
        return "capturing graphs of buckets"
    graphs = any(name in names for name in _OF_BUCKETS[2:])
    warmed = [part.warmed for part in parts]
    count = None if None in warmed else sum(n or 0 for n in warmed)
    words = f"warming {count_text(count or 0, 'bucket') or 'buckets'}"
    return f"{words} and capturing graphs" if graphs else words


def _left(summary: RunSummary) -> Iterator[str]:
    """Graphs against their reserve, buckets with a graph, capacity of the KV cache."""
    known = {name: BY_NAME[name].trusted(summary) for name in (
        "graph_memory_bytes", "graph_reserved_bytes", "graphs_captured",
        "kv_cache_tokens", "num_kv_blocks", "max_concurrency",
    )}  # fmt: skip
    used, reserved = known["graph_memory_bytes"], known["graph_reserved_bytes"]
    graphs = count_text(known["graphs_captured"] or 0, "graph")
    if reserved is not None and used is not None and used > reserved:
        sizes = format_bytes(used), format_bytes(reserved)
        yield f"graphs took {sizes[0]}, more than the {sizes[1]} reserved for them"
    elif reserved is not None and used is not None:
        sizes = format_bytes(used), format_bytes(reserved)
        yield f"{sizes[0]} of {sizes[1]} reserved for graphs were used"
    elif used is not None and used > 0:
        yield f"{graphs or 'graphs'} took {format_bytes(used)}"
    elif graphs:
        yield f"graphs captured: {known['graphs_captured']:,.0f}"
    shares = [
        f"{format_count(part.captured)} of {format_count(part.generated)} {phase}"
        for phase, part in (summary.buckets or {}).items()
        if part.captured is not None and part.generated
        if f"{phase}_captured" not in contradictory(summary)
    ]
    if shares:
        yield f"{' and '.join(shares)} buckets have a graph"
    size = ""
    if known["kv_cache_tokens"]:
        size = f"{known['kv_cache_tokens']:,.0f} tokens"
    elif known["num_kv_blocks"]:
        size = f"{known['num_kv_blocks']:,.0f} blocks"
    if size:
        size += " per engine" * _has_several_engines(summary)
        full = count_text(known["max_concurrency"] or 0, "request")
        yield f"the KV cache holds {size}{f', {full} of full length' if full else ''}"


def _has_several_engines(summary: RunSummary) -> bool:
    """Whether a server has several data parallel engines: each prints its own KV cache, and
    where each is configured as the only one, more ranks than one engine has show it.

    On TPU one engine may hold all data parallel shards (tpu-inference
    `layers/common/sharding.py`).
    """
    config, ranks = summary.config, summary.ranks or 1
    engines = config.get("data_parallel_size")
    has_number = isinstance(engines, int) and engines > 1
    if summary.device.kind == "tpu":
        return has_number and ranks > 1
    if has_number:
        return config.get("data_parallel_rank") is None
    tensor = config.get("tensor_parallel_size")
    names = ("pipeline_parallel_size", "prefill_context_parallel_size")
    others = [config.get(name, 1) for name in names]
    sizes = [size for size in (tensor, *others) if isinstance(size, int)]
    return len(sizes) == 3 and ranks > math.prod(sizes)


def failure_sentence(failure: FailureFacts) -> str:
    """What ended the start-up, where, and what was free then."""
    free = ""
    if failure.free_bytes is not None:
        free = f", {format_bytes(failure.free_bytes)} free"
    cause = failure.kind.replace("_", " ") + _where(failure)
    if failure.kind in _ENDS:
        cause = cause_text(failure)
    message = failure.message.removeprefix(f"{cause}: ")
    return f"{cause}{free}: {message}"


def serving_sentences(summary: RunSummary) -> list[str]:
    """What happened after the server was ready; empty where nothing is stated."""
    serving, graphs = summary.serving, summary.graphs
    found = [
        (len(summary.misses), "shape that was not warmed up",
         "shapes that were not warmed up"),
        (len(graphs.lazy) if graphs else 0, "graph captured", "graphs captured"),
        (len(serving.jit) if serving else 0, "kernel compiled", "kernels compiled"),
        (len(serving.sleeps) if serving else 0, "sleep or wake-up",
         "sleeps and wake-ups"),
        (len(summary.defrag.runs) if summary.defrag else 0, "defragmentation", None),
    ]  # fmt: skip
    counts = ", ".join(count_text(*each) for each in found if each[0])
    sentences = [f"While serving: {counts}."] if counts else []
    sentences += first_request_sentences(serving)
    if serving is not None and serving.end is not None:
        sentences.append(f"{serving_end_sentence(summary, serving.end)}.")
    return sentences


def first_request_sentences(serving: Serving | None) -> list[str]:
    """The first requests after ready; empty where nothing is stated."""
    known = serving or Serving()
    found = (
        (known.first_response_s, "the first response began after {}"),
        (
            known.first_tokens_s,
            "statistics count tokens after {}, whenever their request came",
        ),
        (known.first_request_s, "the first request took {}"),
    )
    texts = [text.format(format_duration(s)) for s, text in found if s is not None]
    return [f"After ready: {'; '.join(texts)}."] if texts else []


def serving_end_sentence(summary: RunSummary, end: ServingEnd) -> str:
    """How serving ended, and what was free then; of a stop in a log that has no line of a
    ready server, no more than that it came."""
    free = "" if end.free_bytes is None else f", {format_bytes(end.free_bytes)} free"
    words = serving_words(summary)
    what = "Stopped" if words is None else f"Serving ended: {words}"
    message = (end.message or "").strip().rstrip(".")
    return f"{what}{free}" + (f", “{message}”" if message else "")


def devices_of_a_rank(summary: RunSummary) -> int:
    """How many devices each process drives: on TPU and Neuron all those of its host, over which
    tensors are divided (tpu-inference `worker/tpu_worker.py`); elsewhere one."""
    if summary.device.kind not in ("tpu", "neuron"):
        return 1
    ranks = summary.ranks or 1
    devices = summary.setting("tensor_parallel_size") or 1
    if (stated := summary.setting("total_devices")) is not None:
        # Of one pipeline stage of one engine (`layers/common/sharding.py`).
        devices = stated
        for size in ("pipeline_parallel_size", "data_parallel_size"):
            ranks //= max(1, int(summary.setting(size) or 1))
    return max(1, int(devices // max(1, ranks)))


def ranks_text(summary: RunSummary) -> str:
    """How many ranks there are, and their devices where one has several."""
    text = f"{summary.ranks or '?'} rank" + ("s" if summary.ranks != 1 else "")
    devices = devices_of_a_rank(summary)
    if devices > 1:
        text += f" with {devices} devices" + (" each" if summary.ranks != 1 else "")
    return text + (" (guessed)" if "ranks" in summary.guessed else "")


def began_text(summary: RunSummary) -> str:
    """When a start began, with what is not certain of it."""
    began = summary.time.started
    if began is None:
        return "started ?"
    known = "UTC" if summary.time.timezone else "time zone unknown, read as UTC"
    doubts = [known]
    if "time.started_at" in summary.guessed:
        doubts.append("year guessed")
    if summary.time.is_excerpt:
        doubts.append("the start began before")
    return f"started {format_time(began)} ({'; '.join(doubts)})"


def spike_words(summary: RunSummary) -> str:
    """What a bucket that took a multiple of its neighbours' time most likely did."""
    # The reference engine compiles nothing, unless the bridge of a Gaudi does.
    compiles = summary.engine.name != "reference" or summary.device.kind == "hpu"
    return ": most likely compilations, which those reused" if compiles else ""


def contradiction_sentence(broken: Contradiction) -> str:
    """A law that the evidence breaks, and both sides of it."""
    law = f"{broken.law[0].upper()}{broken.law[1:]}"
    return f"{law}, but the evidence differs: {'; '.join(broken.evidence)}."


BUCKETS = "buckets"
"""The stretches in which buckets run or get graphs, as one."""
_CACHES = {
    "torch_compile": "torch.compile cache", "aot": "whole compiled functions (AOT)",
    "flashinfer_autotune": "FlashInfer autotune cache", "hpu_recipes": "recipe cache",
    "neuron_modules": "Neuron compile cache",
}  # fmt: skip


def progress_text(here: Progress) -> str:
    """What is going on, and the step of how many where that is known."""
    words = phase_words(here.stage)
    if here.total is None or here.index is None:
        return words
    what = "step"
    if here.phase is not None:
        what = "bucket"
    elif here.stage == "graph_capture":
        what = "graph"
    elif here.stage == "load_weights":
        what = "file"
    return f"{words}, {what} {format_count(here.index)} of {format_count(here.total)}"


def time_left_text(left: Remaining) -> str:
    """What is left of a start-up or of its stage."""
    until = "until ready" if left.basis == "earlier run" else "of this stage"
    return f"{format_duration(left.seconds)} left {until}"


def division_settings(memory: MemoryFacts) -> list[str]:
    """The settings by which the memory was divided, as far as they are stated."""
    stated = {
        "gpu_memory_utilization": memory.gpu_memory_utilization,
        "VLLM_GRAPH_RESERVED_MEM": memory.graph_reserved_fraction,
    }
    return [f"{name} {share:g}" for name, share in stated.items() if share is not None]


def cache_text(summary: RunSummary) -> str | None:
    """What each cache of earlier starts gave; None where nothing is known of any."""
    start = summary.start
    found = [_cache_words(summary, name, state) for name, state in start.caches.items()]
    if start.aot_reason is not None:
        found.append(f"saved by an earlier start and not loaded: {start.aot_reason}")
    if start.weights is not None:
        reason = f" ({start.weights_reason})" if start.weights_reason else ""
        found.append(f"preloaded weights {start.weights}{reason}")
    if start.plan is not None:
        found.append(f"start-up plan {start.plan}")
    return ", ".join(found) or None


def _cache_words(summary: RunSummary, name: str, state: str) -> str:
    """What a cache gave. That graphs were compiled is no miss where no line names the cache: the
    line that it is off may be that of an engine beside this one."""
    is_named = summary.compile is None or summary.compile.names_cache
    if name == "torch_compile" and state == "missed" and not is_named:
        return "no graph from a torch.compile cache"
    return f"{_CACHES[name]} {state}"


def pod_text(summary: RunSummary) -> str | None:
    """The pod of a run, its restarts and what is known of why; None without one."""
    pod = summary.pod
    if pod is None:
        return None
    names = [pod.namespace, pod.pod, pod.container]
    text = f"pod {'/'.join(name for name in names if name)}"
    text += f" on {pod.node}" if pod.node else ""
    text += f", restart {pod.restart}" if pod.restart else ""
    if pod.num_restarts:
        text += f", {pod.num_restarts:,} restart{'s' * (pod.num_restarts > 1)} so far"
    return text + (f" ({'; '.join(pod.reasons[:3])})" if pod.reasons else "")
