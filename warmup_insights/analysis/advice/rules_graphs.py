"""Advice on the sizes that CUDA graphs are captured at."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import fmean, median

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import (
    Finding,
    Rule,
    Value,
    Way,
    count_of,
    severity_of,
)
from warmup_insights.analysis.advice.setting_lives import knows, read_version
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import RunSummary
from warmup_insights.units import format_bytes, format_duration

LIMITS = (8, 32, 128)
"""Sizes up to which capturing is counted, where nothing bounds the batch."""
SHORT_REQUEST = 512
"""Tokens of a request that is taken as short."""
LEAST_DROPPED = 0.1
"""Share of the sizes that have to go before a change is worth it."""


def capture_sizes(facts: RunFacts) -> Iterator[Finding]:
    """CUDA graphs are captured at more sizes than batches can have."""
    start, graphs = facts.start, facts.summary.graphs
    seconds = start.worth("graph_capture") if start is not None else None
    if start is None or seconds is None or graphs is None:
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
        "capture_sizes",
        severity_of(start.share(seconds)),
        f"{title}.",
        numbers,
        "cudagraph_capture_sizes",
        _limited_words(facts.summary),
        _each_words(seconds, len(sizes), graphs.captured),
        tuple(_table(sizes, seconds)),
        gain_s=(0.0, seconds * _share_above(sizes)) if sizes else None,
        price="a larger batch runs without a graph",
        ways=tuple(_decodes_only(facts.summary)),
        phase="graph_capture",
        part_s=seconds,
    )
    bounded = _bounded(facts.summary, finding, sizes)
    is_known = bool(sizes) and _most_tokens(facts.summary) is not None
    if bounded is not None or not is_known or start.dominant == "graph_capture":
        yield bounded or finding


def _each_words(seconds: float, num_sizes: int, captured: int | None) -> str:
    """What one size costs, or one graph where the sizes are not known."""
    if num_sizes:
        return f"each size costs {format_duration(seconds / num_sizes)}"
    if captured:
        each = format_duration(seconds / captured)
        return f"each of the {captured} graphs costs {each} in the mean"
    return "no figure: the sizes are not known"


def _share_above(sizes: Sequence[int]) -> float:
    """Of the sizes, those above the smallest limit that is shown."""
    above = sum(size > LIMITS[0] for size in sizes)
    return above / len(sizes)


def _bounded(
    summary: RunSummary, finding: Finding, sizes: Sequence[int]
) -> Finding | None:
    """The finding with the sizes that batches can have; None where all may be used."""
    bound = _most_tokens(summary)
    kept = [size for size in sizes if size <= _next_size(sizes, bound)]
    dropped = len(sizes) - len(kept)
    if bound is None or dropped <= LEAST_DROPPED * len(sizes):
        return None
    limit = max(kept)
    effect = f"{dropped} of {len(sizes)} sizes less"
    if summary.graphs is not None and summary.graphs.memory_bytes:
        memory = summary.graphs.memory_bytes * dropped / len(sizes)
        effect += f", and up to {format_bytes(memory)}"
    setting, change, changes = _limit_of(summary, kept, limit)
    return replace(
        finding,
        title=f"{finding.title.removesuffix('.')}, for {_most_requests(summary)}.",
        numbers={**finding.numbers, "largest_useful": limit, "num_dropped": dropped},
        setting=setting,
        suggestion=change,
        effect=effect,
        details=(),
        changes=changes,
        gain_s=_dropped_s(summary, sizes, len(kept)),
        price=f"a batch of more than {limit} tokens runs without a graph",
        ways=(*_fewer_requests(summary, sizes, limit), *finding.ways),
    )


def _fewer_requests(
    summary: RunSummary, sizes: Sequence[int], limit: int
) -> Iterator[Way]:
    """Fewer requests at once, where the largest size follows from twice their number."""
    largest, seqs = 2 * limit, summary.setting("max_num_seqs")
    if seqs and (limit >= seqs or max(sizes) > 2 * seqs):
        return  # models have lists of their own (`models/config.py`, gpt-oss up to 1024)
    if knows(summary, "max_cudagraph_capture_size") and largest < max(sizes):
        yield Way(
            f"--max-num-seqs {limit}",
            f"at most {count_of(limit, 'request')} at once; sizes up to {largest} remain",
            {"max_num_seqs": limit},
        )


def _decodes_only(summary: RunSummary) -> Iterator[Way]:
    """Graphs of decodes alone, where those of prompts and mixed batches took longer."""
    taken = {"PIECEWISE": 0.0, "FULL": 0.0}
    for bar in summary.graphs.bars if summary.graphs is not None else ():
        kind = bar.mode.rpartition(" ")[2]
        if kind in taken:
            taken[kind] += bar.duration_s or 0.0
    if not knows(summary, "cudagraph_mode=FULL_DECODE_ONLY") or not taken["FULL"]:
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
    return sorted({int(part) for part in match[1].split(",")}) if match else []


def _most_tokens(summary: RunSummary) -> int | None:
    """Tokens of the largest decode batch that the limits and the KV cache allow.

    Requests are rarely of full length: the cache counts for twice as many as it holds at
    full length, and for as many short ones as it has room for.
    """
    seqs = summary.setting("max_num_seqs")
    fits = BY_NAME["max_concurrency"].trusted(summary)
    tokens = BY_NAME["kv_cache_tokens"].trusted(summary)
    bounds = []
    if fits and tokens:
        bounds.append(math.ceil(max(2 * fits, tokens / SHORT_REQUEST)))
    bounds += [int(seqs)] if seqs else []
    if not bounds:
        return None
    speculated = re.search(
        r"num_spec(?:ulative)?_tokens['\"]?[=:] ?(\d{1,3})",
        str(summary.config.get("speculative_config") or ""),
    )
    return min(bounds) * (1 + (int(speculated[1]) if speculated else 0))


def _next_size(sizes: Sequence[int], bound: int | None) -> int:
    """The smallest size that a batch of `bound` tokens is padded to."""
    larger = [size for size in sizes if bound is not None and size >= bound]
    return min(larger) if larger else max(sizes, default=0)


def _most_requests(summary: RunSummary) -> str:
    """What bounds the batch, in words."""
    seqs, length = (
        summary.setting(
            "max_num_seqs",
        ),
        summary.setting("max_model_len"),
    )
    fits = BY_NAME["max_concurrency"].trusted(summary)
    tokens = BY_NAME["kv_cache_tokens"].trusted(summary)
    if fits and tokens and (not seqs or max(2 * fits, tokens / SHORT_REQUEST) < seqs):
        of = f" of {int(length):,}" if length else ""
        return f"a KV cache of {int(tokens):,} tokens ({fits:.3g} requests{of})"
    return f"max_num_seqs={int(seqs or 0)}"


def _dropped_s(
    summary: RunSummary, sizes: Sequence[int], num_kept: int
) -> tuple[float, float] | None:
    """Seconds of the largest sizes, which are captured first, on the clocks of the bars.

    The least counts the median of a graph instead: the first capture of a kind also
    prepares what the next one would have to.
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
        steps = [(taken[b] - taken[a]) / (b - a) for a, b in pairwise(marks)]
        most += own
        # Whole seconds say nothing of a graph that takes less than one.
        each = median(steps) if median(steps) >= 1.0 else fmean(steps)
        least += min(own, before * each)
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
    if knows(summary, name):
        return name, f"--max-cudagraph-capture-size {limit}", {name: limit}
    name = "cudagraph_capture_sizes"
    listed = ", ".join(str(size) for size in kept)
    if knows(summary, name):
        change = f"--compilation-config '{{\"{name}\": [{listed}]}}'"
        return name, change, {name: f"[{listed}]"}
    return "max_num_seqs", f"--max-num-seqs {limit}", {"max_num_seqs": limit}


_FIRST, V1_FIRST = (0, 2), (0, 6, 4)
"""The first vLLM with graphs (builds without a tag are named 0.1.dev and a number), and the
first with a V1 engine and with sizes of graphs that can be set."""


def _limited_words(summary: RunSummary) -> str:
    """Which sizes to capture; what follows from max_num_seqs differs between versions."""
    if knows(summary, "max_cudagraph_capture_size"):
        return "--max-cudagraph-capture-size with the largest batch that comes"
    listed = "cudagraph_capture_sizes of --compilation-config up to the largest batch that comes"
    if knows(summary, "cudagraph_capture_sizes"):
        return listed
    version = read_version(summary.engine.version)
    if version is not None and _FIRST <= version < V1_FIRST:
        return "--max-num-seqs of the largest batch that comes"
    return f"{listed}; engines before V1 follow --max-num-seqs"


def _table(sizes: Sequence[int], seconds: float) -> Iterator[str]:
    """What the capture would take with fewer sizes."""
    for limit in LIMITS:
        kept = sum(size <= limit for size in sizes)
        if 0 < kept < len(sizes):
            less = seconds * (len(sizes) - kept) / len(sizes)
            yield (
                f"up to {limit}: {kept} of {len(sizes)} sizes, about "
                f"{format_duration(less)} less"
            )


RULES = (
    Rule(
        "capture_sizes",
        "capturing CUDA graphs took 10 s and 5 % of the start, or most of it",
        "a log that holds the whole start: capture times; sizes, KV cache concurrency "
        "and max_num_seqs for the change",
        capture_sizes,
        formula="time on the bar until the sizes above min(max_num_seqs, max(2 x concurrency, "
        "KV tokens / 512)) x (1 + draft tokens) were captured; at least their number x "
        "the median of a graph",
        margin="twice the full-length requests, and all short ones of 512 tokens; a larger "
        "batch runs without a graph; graphs of decodes alone are a second choice, where those "
        "of prompts and mixed batches took longer",
        source="vLLM config/compilation.py cudagraph_capture_sizes, from 0.11.2 up to twice "
        "max_num_seqs and at most 512; gpu_model_runner.py captures the largest first",
        example="51 sizes for a KV cache of 1.81 requests: 2,173 of 2,304 s",
    ),
)
