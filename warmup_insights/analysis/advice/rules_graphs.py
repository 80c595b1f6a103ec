"""Advice on captured graphs: their sizes, lazy capture, unused ones, what was set aside for them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean, median

from warmup_insights.analysis.advice.change import Value, Way
from warmup_insights.analysis.advice.facts import RunFacts, Start
from warmup_insights.analysis.advice.finding import (
    MEDIUM_SHARE,
    Finding,
    rule,
    severity_in,
    severity_of,
    start_rule,
)
from warmup_insights.analysis.advice.ways import cache_setting
from warmup_insights.analysis.plan.regenerate import speculative_tokens
from warmup_insights.analysis.sentences import count_of
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import (
    PHASES,
    CaptureBar,
    GraphFacts,
    RunSummary,
    is_true,
)
from warmup_insights.rules.setting_lives import has_setting, read_version
from warmup_insights.units import MIB, format_bytes, format_duration

LIMITS = (8, 32, 128)
"""Sizes up to which capturing is counted, where nothing bounds the batch."""
SHORT_REQUEST = 512
"""Tokens of a request that is taken as short."""
LEAST_DROPPED = 0.1
"""Share of the sizes that have to go before a change is worth it."""


@start_rule(
    "capturing CUDA graphs took 10 s and 5 % of the start, or most of it",
    "capture times; sizes, KV cache concurrency and max_num_seqs for the change",
    formula="time on the bar until the sizes above min(max_num_seqs, max(2 x concurrency, "
    "KV tokens / 512)) x (1 + draft tokens) were captured; at least their number x "
    "the median of a graph",
    margin="twice the full-length requests, and all short ones of 512 tokens; a larger "
    "batch runs without a graph; graphs of decodes alone are a second choice, where those "
    "of prompts and mixed batches took longer",
    source="vLLM config/compilation.py cudagraph_capture_sizes, from 0.10.0 up to twice "
    "max_num_seqs and at most 512; gpu_model_runner.py captures the largest first",
    example="51 sizes for a KV cache of 1.81 requests: 2,173 of 2,304 s",
)
def capture_sizes(facts: RunFacts, start: Start) -> Iterator[Finding]:
    """CUDA graphs are captured at more sizes than batches can have."""
    graphs = facts.summary.graphs
    seconds = start.worth("graph_capture")
    if seconds is None or graphs is None:
        return
    sizes = capture_list(facts.summary)
    numbers: dict[str, Value] = {"capture_s": seconds, "start_s": start.wall_s}
    title = f"Graph capture took {start.of_all(seconds)}"
    if sizes:
        numbers |= {
            "num_sizes": len(sizes),
            "num_graphs": graphs.captured or len(sizes),
        }
        title += f": {len(sizes)} sizes up to {max(sizes)}"
    finding = Finding(
        severity_of(start.share(seconds)),
        f"{title}.",
        numbers,
        "cudagraph_capture_sizes",
        _limited_words(facts.summary),
        _each_words(graphs, seconds, len(sizes)),
        tuple(_table(facts.summary, sizes)),
        gain_s=_most_dropped(facts.summary, sizes),
        price="a larger batch runs without a graph",
        ways=(*_decodes_only(facts.summary), *_without_own_lora(facts.summary)),
        phase="graph_capture",
        part_s=seconds,
    )
    batch = _largest_batch(facts.summary)
    bounded = batch and _bounded(facts.summary, finding, sizes, batch)
    if bounded or not sizes or batch is None or start.dominant == "graph_capture":
        yield bounded or finding


def _each_words(graphs: GraphFacts, seconds: float, num_sizes: int) -> str:
    """What one size costs, or one graph where the sizes are not known; the slowest apart
    where they took most of the time."""
    steps = sorted(step for bar in graphs.bars for step in _steps(bar))
    if steps:
        each = _usual(steps)
        slow = [step for step in steps if step >= max(2 * each, 2.0)]
        if sum(slow) > 0.5 * sum(steps):
            return (
                f"{len(slow)} of {count_of(len(steps), 'graph')} took "
                f"{format_duration(sum(slow))}, each of the others about "
                f"{format_duration(round(each, 1))}"
            )
    if num_sizes:
        return f"each size costs {format_duration(seconds / num_sizes)} in the mean"
    if graphs.captured:
        each = seconds / graphs.captured
        return (
            f"each of the {graphs.captured} graphs costs {format_duration(each)} in the "
            "mean"
        )
    return "no figure: the sizes are not known"


def _steps(bar: CaptureBar) -> list[float]:
    """Seconds of the graphs of a bar, on its clock; the mean of those between two of its
    states."""
    taken = dict(bar.states)
    steps = []
    for a, b in pairwise(sorted(taken)):
        steps += [(taken[b] - taken[a]) / (b - a)] * (b - a)
    return steps


def _usual(steps: Sequence[float]) -> float:
    """What one of these graphs takes; the first capture of a kind prepares more, and can
    take very long.

    Whole seconds say nothing of a graph that takes less than one: then the mean of all
    that show no more than one.
    """
    each = median(steps)
    return each if each >= 1.0 else fmean(step for step in steps if step < 2.0)


def _most_dropped(
    summary: RunSummary, sizes: Sequence[int]
) -> tuple[float, float] | None:
    """Seconds of all sizes above the smallest limit that is shown, at most."""
    kept = sum(size <= LIMITS[0] for size in sizes)
    dropped = _dropped_s(summary, sizes, kept) if kept < len(sizes) else None
    if dropped is None:
        return (0.0, 0.0) if sizes else None
    return 0.0, dropped[1]


def _bounded(
    summary: RunSummary, finding: Finding, sizes: Sequence[int], batch: _Batch
) -> Finding | None:
    """The finding with the sizes that the largest batch is padded to; None where all may be
    used."""
    kept = sizes[: sum(size < batch.tokens for size in sizes) + 1]
    dropped = len(sizes) - len(kept)
    if dropped <= LEAST_DROPPED * len(sizes):
        return None
    limit = kept[-1]
    effect = f"{dropped} of {len(sizes)} sizes less"
    price = f"a batch of more than {limit} tokens runs without a graph"
    if batch.is_of_cache:
        price += f": prompts, and more requests at once, each of fewer than {SHORT_REQUEST} tokens"
    if summary.graphs is not None and summary.graphs.memory_bytes:
        memory = summary.graphs.memory_bytes * dropped / len(sizes)
        effect += f", and up to {format_bytes(memory)}"
        effect += ", which the KV cache can have" if batch.is_of_cache else ""
    setting, change, changes = _limit_of(summary, kept, limit)
    return replace(
        finding,
        title=f"{finding.title.removesuffix('.')}, for {batch.why}.",
        numbers={**finding.numbers, "largest_useful": limit, "num_dropped": dropped},
        setting=setting,
        suggestion=change,
        effect=effect,
        details=(),
        changes=changes,
        gain_s=_dropped_s(summary, sizes, len(kept)),
        price=price,
        ways=(*_fewer_requests(summary, sizes, limit), *finding.ways),
    )


def _fewer_requests(
    summary: RunSummary, sizes: Sequence[int], limit: int
) -> Iterator[Way]:
    """Fewer requests at once, where the largest size is twice the tokens of their decodes, of
    which there are more than one with speculative decoding, since 0.13 (vLLM `config/vllm.py
    _set_cudagraph_sizes`)."""
    rows, seqs = 1 + (speculative_tokens(summary) or 0), summary.setting("max_num_seqs")
    num = limit // rows
    largest = 2 * num * rows
    if rows > 1 and (read_version(summary.engine.version) or ()) < (0, 13):
        return
    if num == 0 or (seqs and (num >= seqs or max(sizes) > 2 * seqs * rows)):
        return  # models have lists of their own (`models/config.py`, gpt-oss up to 1024)
    if has_setting(summary, "max_cudagraph_capture_size") and largest < max(sizes):
        yield Way.that_sets(
            f"at most {count_of(num, 'request')} at once; sizes up to {largest} remain",
            max_num_seqs=num,
        )


def _without_own_lora(summary: RunSummary) -> Iterator[Way]:
    """One graph for batches with and without adapters (vLLM `config/compilation.py`)."""
    has_adapters = is_true(summary.config, "enable_lora")
    is_off = str(summary.config.get("cudagraph_specialize_lora")).lower() == "false"
    if (
        has_adapters
        and not is_off
        and has_setting(summary, "cudagraph_specialize_lora")
    ):
        yield Way(
            "--compilation-config '{\"cudagraph_specialize_lora\": false}': no graphs of their "
            "own for batches without adapters",
            "such batches run the adapters' kernels too",
            {"cudagraph_specialize_lora": "false"},
        )


def _decodes_only(summary: RunSummary) -> Iterator[Way]:
    """Graphs of decodes alone, where those of prompts and mixed batches took longer."""
    taken = {"PIECEWISE": 0.0, "FULL": 0.0}
    for bar in summary.graphs.bars if summary.graphs is not None else ():
        kind = bar.mode.rpartition(" ")[2]
        if kind in taken:
            taken[kind] += bar.duration_s or 0.0
    if not has_setting(summary, "cudagraph_mode=FULL_DECODE_ONLY") or not taken["FULL"]:
        return
    if taken["PIECEWISE"] > taken["FULL"]:
        yield Way(
            '--compilation-config \'{"cudagraph_mode": "FULL_DECODE_ONLY"}\'',
            "prompts and mixed batches run without a graph; at most "
            f"{format_duration(taken['PIECEWISE'])} less: kernels that their graphs compile "
            "first would be compiled for decodes",
            {"cudagraph_mode": "FULL_DECODE_ONLY"},
        )


def capture_list(summary: RunSummary) -> list[int]:
    """The sizes that the engine prints in its compilation_config, ascending."""
    text = str(summary.config.get("compilation_config") or "")
    match = re.search(r"cudagraph_capture_sizes['\"]?: ?\[([\d, ]{1,4000})\]", text)
    return sorted({*map(int, re.findall(r"\d{1,9}", match[1]))}) if match else []


@dataclass(frozen=True)
class _Batch:
    """Tokens of the largest decode batch, and what bounds it: the KV cache, or max_num_seqs."""

    tokens: int
    why: str
    is_of_cache: bool


def _largest_batch(summary: RunSummary) -> _Batch | None:
    """The largest decode batch that the limits and the KV cache allow; None where neither is
    known.

    Requests are rarely of full length: the cache counts for twice as many as it holds at
    full length, and for as many short ones as it has room for.
    """
    seqs, length = summary.setting("max_num_seqs"), summary.setting("max_model_len")
    fits = BY_NAME["max_concurrency"].trusted(summary)
    tokens = BY_NAME["kv_cache_tokens"].trusted(summary)
    cached = max(2 * fits, tokens / SHORT_REQUEST) if fits and tokens else math.inf
    if not seqs and cached == math.inf:
        return None
    most, why = int(seqs or 0), f"max_num_seqs={int(seqs or 0)}"
    is_of_cache = bool(fits and tokens and (not seqs or cached < seqs))
    if fits and tokens and is_of_cache:
        of = f" of {int(length):,}" if length else ""
        most = math.ceil(cached)
        why = (
            f"a KV cache of {int(tokens):,} tokens ({fits:.2f} requests{of}, or "
            f"{tokens / SHORT_REQUEST:.1f} of {SHORT_REQUEST})"
        )
    rows = 1 + (speculative_tokens(summary) or 0)
    return _Batch(most * rows, why, is_of_cache)


def _dropped_s(
    summary: RunSummary, sizes: Sequence[int], num_kept: int
) -> tuple[float, float] | None:
    """Seconds of the largest sizes, which are captured first, on the clocks of the bars.

    The least counts what a graph usually takes: the first capture of a kind also prepares
    what the next one would have to.
    """
    least = most = 0.0
    for bar in summary.graphs.bars if summary.graphs is not None else ():
        drop = max(0, bar.captured - num_kept)
        taken = dict(bar.states)
        marks = sorted(taken)
        if not drop or len(marks) < 2:
            continue
        before = max((mark for mark in marks if mark <= drop), default=0)
        own = taken.get(before, 0.0)
        most += own
        least += min(own, before * _usual(_steps(bar)))
    if not most and summary.graphs is not None and sizes:
        # One graph for each size, where no line counts them.
        count = summary.graphs.captured or len(sizes)
        each = (summary.graphs.duration_s or 0.0) / count
        most = each * (len(sizes) - num_kept)
        least = 0.5 * most
    return (least, most) if most else None


def _limit_of(
    summary: RunSummary, kept: Sequence[int], limit: int
) -> tuple[str, str, dict[str, Value]]:
    """Setting, change and values that keep the sizes up to a limit."""
    name = "max_cudagraph_capture_size"
    if has_setting(summary, name):
        return name, f"--max-cudagraph-capture-size {limit}", {name: limit}
    name = "cudagraph_capture_sizes"
    listed = ", ".join(str(size) for size in kept)
    if has_setting(summary, name):
        change = f"--compilation-config '{{\"{name}\": [{listed}]}}'"
        return name, change, {name: f"[{listed}]"}
    return "max_num_seqs", f"--max-num-seqs {limit}", {"max_num_seqs": limit}


_FIRST, _SIZES_FIRST = (0, 2), (0, 6, 6)
"""The first vLLM with graphs (builds without a tag are named 0.1.dev and a number), and the
first with sizes of graphs that can be set."""


def _limited_words(summary: RunSummary) -> str:
    """Which sizes to capture; what follows from max_num_seqs differs between versions."""
    if has_setting(summary, "max_cudagraph_capture_size"):
        return "--max-cudagraph-capture-size with the largest batch that comes"
    listed = "cudagraph_capture_sizes of --compilation-config up to the largest batch that comes"
    if has_setting(summary, "cudagraph_capture_sizes"):
        return listed
    version = read_version(summary.engine.version)
    if version is not None and _FIRST <= version < _SIZES_FIRST:
        return "--max-num-seqs of the largest batch that comes"
    return f"{listed} (from vLLM 0.6.6 on)"


def _table(summary: RunSummary, sizes: Sequence[int]) -> Iterator[str]:
    """What the capture would take with fewer sizes."""
    for limit in LIMITS:
        kept = sum(size <= limit for size in sizes)
        less = _dropped_s(summary, sizes, kept) if 0 < kept < len(sizes) else None
        if less is not None:
            low, high = (format_duration(float(round(part))) for part in less)
            span = high if low == high else f"{low} to {high}"
            yield f"up to {limit}: {kept} of {len(sizes)} sizes, about {span} less"


@rule(
    "three graphs or more were captured while serving",
    "captures while serving; captures at start of this run or one like it",
    formula="time at start / time of one lazy capture = number of shapes from which lazy "
    "loses",
    margin="at least three captures while serving; the shapes of later traffic are not known",
    source="vLLM use_cudagraph_delayed_capture; `warmup-insights run --capture-strategy lazy`",
    example="made up: 60 graphs in 30 s at start, 1 s each while serving: below 30 "
    "shapes lazy is quicker",
)
def lazy_capture(facts: RunFacts) -> Iterator[Finding]:
    """Graphs were captured while serving: at how many shapes that stops paying."""
    graphs = facts.summary.graphs
    seen = graphs.lazy if graphs is not None else []
    lazy = [row.duration_s for row in seen if row.duration_s is not None]
    start_s, count = _startup_capture(facts)
    if len(lazy) < 3 or start_s is None or not count:
        return
    each = fmean(lazy)
    shapes = math.floor(start_s / each) if each else 0
    worth = len(lazy) < shapes
    yield Finding(
        "low",
        f"{len(lazy)} graphs were captured while serving, {format_duration(each)} each; "
        f"capturing {count} at start takes {format_duration(start_s)}.",
        {
            "num_lazy": len(lazy), "lazy_s": each, "startup_s": start_s,
            "startup_graphs": count, "break_even_shapes": shapes,
        },
        "use_cudagraph_delayed_capture",
        "keep capturing lazily" if worth else "capture at start",
        f"lazy is quicker in all below {shapes} shapes; each of them delays one request "
        f"by {format_duration(each)}",
    )  # fmt: skip


def _startup_capture(facts: RunFacts) -> tuple[float | None, int | None]:
    """Seconds and number of graphs at start, of this run or of one like it."""
    for summary in (facts.summary, *facts.same_model):
        seconds = BY_NAME["graph_capture_s"].trusted(summary)
        count = BY_NAME["graphs_captured"].trusted(summary)
        if seconds and count and count > 1:
            return seconds, int(count)
    return None, None


@rule(
    "half of the graphs captured at start, or fewer, were used while serving",
    "buckets used while serving, captured buckets, time of capture",
    formula="time of one capture x graphs not used, to that of all captures (lazily: reference engine)",
    margin="only shapes of the traffic seen; no finding where a bucket file can leave them out",
    source="vLLM gpu_model_runner.py capture_model; graphs of the run and its uses while serving",
    example="reference engine: 13 of 59 graphs were used, 2.93 s of capture",
)
def captures_unused(facts: RunFacts) -> Iterator[Finding]:
    """Half of the graphs captured at start, or more, were not used while serving."""
    graphs = {
        (phase, bucket)
        for phase in PHASES
        for bucket in facts.summary.phase(phase).captured_buckets or ()
    }
    captured, used = len(graphs), len(graphs & facts.used)
    seconds = facts.figure("graph_capture_s")
    if not used or not captured or not seconds or used > 0.5 * captured:
        return
    is_reference = facts.summary.engine.name == "reference"
    if not is_reference and has_setting(facts.summary, "VLLM_BUCKETING_FROM_FILE"):
        return  # a bucket file leaves them out with their buckets: `unused_buckets`
    # What passes between two captures and around them is in the phases only.
    names = (*(f"{phase}_graphs" for phase in PHASES), "graph_capture")
    spent = max(seconds, facts.summary.time.seconds_of(*names))
    each = seconds / captured
    saved = each * (captured - used)
    yield Finding(
        severity_in(facts.start, saved, "medium"),
        f"{used} of {captured} graphs captured at start were used; capturing took "
        f"{format_duration(seconds)}.",
        {"num_used": used, "num_captured": captured, "capture_s": seconds},
        "capture_strategy" if is_reference else "bucket ranges",
        "--capture-strategy lazy or delayed"
        if is_reference
        else "fewer buckets: ranges that end where the traffic does",
        f"ready {format_duration(spent)} earlier with lazy capture, "
        f"{format_duration(saved)} without what was not used; each shape that comes later "
        f"costs {format_duration(each)} once"
        if is_reference
        else f"up to {format_duration(saved)} without what was not used",
        gain_s=(saved, spent) if is_reference else (0.0, saved),
        price="requests of other shapes wait for a capture",
        part_s=spent,
    )


@rule(
    "CUDA graphs took a fifth (and 256 MiB) more or less than was set aside for them",
    "estimated and actual graph memory, total memory, KV cache or margin",
    formula="|estimated - actual| / device",
    margin="no finding below 10 % of the KV cache or of the margin, where the estimate is not taken "
    "off the KV cache, or where the engine names the size of the cache itself",
    source="vLLM `v1/worker/gpu_worker.py`, VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
    example="0.36 GiB estimated, 0.73 GiB taken: 5 % of a margin of 7.92 GiB",
)
def graph_estimate_off(facts: RunFacts) -> Iterator[Finding]:
    """CUDA graphs took noticeably more or less than was set aside for them."""
    graphs, total = facts.summary.graphs, facts.figure("total_bytes")
    estimated = facts.figure("graph_estimated_bytes")
    actual = facts.figure("graph_memory_bytes")
    usable, cache = facts.figure("usable_bytes"), facts.figure("kv_cache_bytes")
    if estimated is None or actual is None or not total or graphs is None:
        return
    if graphs.is_reserved is False or facts.failed is not None:
        return  # nothing is set aside: the estimate changes nothing
    if cache_setting(facts) is not None:
        return  # the size of the cache is set: the utilisation changes nothing
    if facts.summary.memory_or_none.suggested_kv_cache_bytes is not None:
        return  # the engine's own size counts graphs as they were captured
    wrong = estimated - actual
    margin = facts.figure("margin_bytes") if usable else None
    of_what = cache if wrong > 0 else margin
    if abs(wrong) < max(256 * MIB, 0.2 * max(actual, estimated)) or not of_what:
        return
    if abs(wrong) < MEDIUM_SHARE * of_what:
        return
    where = "of the KV cache" if wrong > 0 else "of the margin"
    change = f"{'raise' if wrong > 0 else 'lower'} --gpu-memory-utilization by {abs(wrong) / total:.4f}"
    if facts.utilization is not None:
        change = f"--gpu-memory-utilization {facts.utilization + wrong / total:.4f}"
    yield Finding(
        severity_of(abs(wrong) / of_what),
        f"Graphs were estimated at {format_bytes(estimated)} and took "
        f"{format_bytes(actual)}: {format_bytes(abs(wrong))}, {100 * abs(wrong) / of_what:.0f} % "
        f"{where}.",
        {"estimated_bytes": estimated, "memory_bytes": actual, "total_bytes": total},
        "gpu_memory_utilization",
        change,
        f"{format_bytes(abs(wrong))} "
        + ("more for the KV cache" if wrong > 0 else "back to the margin"),
        price="" if wrong > 0 else f"{format_bytes(-wrong)} of KV cache",
    )


RULES = (
    capture_sizes,
    lazy_capture,
    captures_unused,
    graph_estimate_off,
)
