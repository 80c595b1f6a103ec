"""Advice on captured graphs: lazy capture, unused ones, and what was set aside for them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import fmean

from warmup_insights.analysis.advice.cause import failed
from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import (
    Finding,
    Rule,
    severity_of,
)
from warmup_insights.analysis.advice.setting_lives import knows
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import PHASES
from warmup_insights.units import MIB, format_bytes, format_duration


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
        "lazy_capture",
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
    if not is_reference and knows(facts.summary, "VLLM_BUCKETING_FROM_FILE"):
        return  # a bucket file leaves them out with their buckets: `unused_buckets`
    phases = facts.summary.time.seconds_by_phase()
    # What passes between two captures and around them is in the phases only.
    names = (*(f"{phase}_graphs" for phase in PHASES), "graph_capture")
    spent = max(seconds, sum(phases.get(name, 0.0) for name in names))
    each = seconds / captured
    saved = each * (captured - used)
    start = facts.start
    yield Finding(
        "captures_unused",
        severity_of(start.share(saved)) if start is not None else "medium",
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


def graph_estimate_off(facts: RunFacts) -> Iterator[Finding]:
    """CUDA graphs took noticeably more or less than was set aside for them."""
    graphs, total = facts.summary.graphs, facts.figure("total_bytes")
    estimated = facts.figure("graph_estimated_bytes")
    actual = facts.figure("graph_memory_bytes")
    usable, cache = facts.figure("usable_bytes"), facts.figure("kv_cache_bytes")
    if estimated is None or actual is None or not total or graphs is None:
        return
    if graphs.is_reserved is False or failed(facts.summary) is not None:
        return  # nothing is set aside: the estimate changes nothing
    if facts.summary.memory_or_none.suggested_kv_cache_bytes is not None:
        return  # the engine's own size counts graphs as they were captured
    wrong = estimated - actual
    margin = total - usable if usable else None
    of_what = cache if wrong > 0 else margin
    if abs(wrong) < max(256 * MIB, 0.2 * max(actual, estimated)) or not of_what:
        return
    where = "of the KV cache" if wrong > 0 else "of the margin"
    sign = "raise" if wrong > 0 else "lower"
    yield Finding(
        "graph_estimate_off",
        severity_of(abs(wrong) / of_what),
        f"Graphs were estimated at {format_bytes(estimated)} and took "
        f"{format_bytes(actual)}: {format_bytes(abs(wrong))}, {abs(wrong) / of_what:.0%} "
        f"{where}.",
        {"estimated_bytes": estimated, "memory_bytes": actual, "total_bytes": total},
        "gpu_memory_utilization",
        f"{sign} --gpu-memory-utilization by {abs(wrong) / total:.4f}",
        f"{format_bytes(abs(wrong))} "
        + ("more for the KV cache" if wrong > 0 else "back to the margin"),
        price="" if wrong > 0 else f"{format_bytes(-wrong)} of KV cache",
    )


RULES = (
    Rule(
        "lazy_capture",
        "three graphs or more were captured while serving",
        "captures while serving; captures at start of this run or one like it",
        lazy_capture,
        formula="time at start / time of one lazy capture = number of shapes from which lazy "
        "loses",
        margin="at least three captures while serving; the shapes of later traffic are not known",
        source="vLLM use_cudagraph_delayed_capture; `warmup-insights run --capture-strategy lazy`",
        example="made up: 60 graphs in 30 s at start, 1 s each while serving: below 30 "
        "shapes lazy is quicker",
    ),
    Rule(
        "captures_unused",
        "half of the graphs captured at start, or fewer, were used while serving",
        "buckets used while serving, captured buckets, time of capture",
        captures_unused,
        formula="time of one capture x graphs not used, to that of all captures (lazily: reference engine)",
        margin="only shapes of the traffic seen; silent where a bucket file can leave them out",
        source="vLLM gpu_model_runner.py capture_model; graphs of the run and its uses while serving",
        example="reference engine: 13 of 59 graphs were used, 2.93 s of capture",
    ),
    Rule(
        "graph_estimate_off",
        "CUDA graphs took a fifth (and 256 MiB) more or less than was set aside for them",
        "estimated and actual graph memory, total memory, KV cache or margin",
        graph_estimate_off,
        formula="|estimated - actual| / device",
        margin="silent where the estimate is not taken off the KV cache, or where the "
        "engine names the size of the cache itself",
        source="vLLM `v1/worker/gpu_worker.py`, VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS",
        example="0.36 GiB estimated, 0.73 GiB taken: 5 % of a margin of 7.92 GiB",
    ),
)
