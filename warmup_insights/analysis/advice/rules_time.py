"""Advice on time: compile caches, garbage collection, lazy capture, no warm-up."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from statistics import fmean

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, count_of
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import PHASES
from warmup_insights.units import format_duration

RECIPES = "PT_HPU_RECIPE_CACHE_CONFIG"
_NETWORK = re.compile(
    r"(?:^|[/_.-])(nfs|efs|smb|cifs|lustre|gpfs|cephfs|glusterfs|fsx)(?:[/_.0-9-]|$)",
    re.I,
)
_LEAST_S = 10.0


def recipe_cache(facts: RunFacts) -> Iterator[Finding]:
    """The recipe cache of an HPU is off, deleted at each start, or on a network."""
    stated = facts.summary.config.get(RECIPES)
    seconds = facts.figure("warmup_s")
    if not isinstance(stated, str) or seconds is None or seconds < _LEAST_S:
        return
    path, delete, size = (*(part.strip() for part in stated.split(",")), "", "", "")[:3]
    numbers: dict[str, float | int | str] = {"warmup_s": seconds, "value": stated}
    effect = (
        f"a second start reuses what it compiled in these {format_duration(seconds)}; "
        "vllm-gaudi's documentation reports 66 s to 23 s (BF16) and 504 s to 34 s (FP8)"
    )
    limit = size if size.isdigit() else "8192"
    if not path:
        title = (
            f"Recipes are not kept on disk; warm-up took {format_duration(seconds)}."
        )
        change = f"{RECIPES}=/var/cache/recipes,false,{limit}"
    elif delete.lower() in ("true", "1"):
        title = f"The recipe cache in {path} is deleted at each start."
        change = f"{RECIPES}={path},false,{limit}"
    elif _NETWORK.search(path):
        title = f"The recipe cache is on a network file system ({path})."
        change = f"{RECIPES}=/var/cache/recipes,false,{limit}"
        effect = (
            f"recipes load from a local disk; warm-up took {format_duration(seconds)}, "
            "and the cache is not made for network file systems"
        )
    else:
        return
    yield Finding("recipe_cache", "medium", title, numbers, RECIPES, change, effect)


def compile_cache(facts: RunFacts) -> Iterator[Finding]:
    """torch.compile worked long and took nothing from its cache."""
    spent, compiled = facts.figure("compile_s"), facts.summary.compile
    if compiled is None or spent is None or facts.summary.engine.name != "vllm":
        return
    is_cold = compiled.parts and not any(part.from_cache for part in compiled.parts)
    if spent < _LEAST_S or not is_cold:
        return
    is_off = str(
        facts.summary.config.get("VLLM_DISABLE_COMPILE_CACHE", "0")
    ).lower() in (
        "1",
        "true",
    )
    name = "VLLM_DISABLE_COMPILE_CACHE" if is_off else "VLLM_CACHE_ROOT"
    change = (
        "unset VLLM_DISABLE_COMPILE_CACHE"
        if is_off
        else "VLLM_CACHE_ROOT on a volume that outlives the container"
    )
    yield Finding(
        "compile_cache",
        "medium",
        f"torch.compile took {format_duration(spent)}, and nothing came from its cache.",
        {"compile_s": spent, "num_compilations": len(compiled.parts)},
        name,
        change,
        f"most of {format_duration(spent)} less on the next start with the same "
        "versions and settings",
    )


def garbage_collection(facts: RunFacts) -> Iterator[Finding]:
    """A large share of the bucket steps is Python's garbage collector."""
    gc = facts.summary.gc
    if gc is None or gc.frozen or not gc.seconds or not gc.steps_s or not gc.share:
        return
    if gc.share < 0.2 or gc.seconds < 1.0:
        return
    yield Finding(
        "garbage_collection",
        "high" if gc.share > 0.5 else "medium",
        f"Garbage collection took {format_duration(gc.seconds)} of "
        f"{format_duration(gc.steps_s)} of bucket warm-up ({100 * gc.share:.0f} %).",
        {"gc_s": gc.seconds, "steps_s": gc.steps_s},
        "WARMUP_INSIGHTS_FREEZE_GC",
        "`warmup-insights vllm --freeze-gc serve ...`, or gc.freeze() before warm-up",
        f"at most {format_duration(gc.seconds)} less",
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
    for summary in (facts.summary, *facts.history):
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
    each = seconds / captured
    yield Finding(
        "captures_unused",
        "medium",
        f"{used} of {captured} graphs captured at start were used; capturing took "
        f"{format_duration(seconds)}.",
        {"num_used": used, "num_captured": captured, "capture_s": seconds},
        "capture_strategy",
        "--capture-strategy lazy or delayed in the reference engine; on vLLM fewer "
        "buckets",
        f"ready {format_duration(each * (captured - used))} earlier; each shape that "
        f"comes later costs {format_duration(each)} once",
    )


def warmup_skipped(facts: RunFacts) -> Iterator[Finding]:
    """Warm-up was skipped, and shapes met no bucket while serving."""
    misses = facts.summary.misses
    if facts.summary.status != "skipped" or not misses:
        return
    count = sum(miss.count for miss in misses)
    yield Finding(
        "warmup_skipped",
        "high",
        f"Warm-up was skipped, and {count_of(len(misses), 'shape')} compiled while "
        f"serving ({count_of(count, 'warning')}).",
        {"num_shapes": len(misses), "num_warnings": count},
        "VLLM_SKIP_WARMUP",
        "VLLM_SKIP_WARMUP=false, or a small bucket file with the shapes that come",
        f"{count_of(len(misses), 'compilation')} less that a request waits for",
    )


RULES = (
    Rule(
        "recipe_cache",
        "the HPU recipe cache is off, deleted at each start, or on a network file system",
        f"{RECIPES} as the bridge prints it, time of warm-up",
        recipe_cache,
    ),
    Rule(
        "compile_cache",
        "torch.compile took 10 s or more and loaded nothing from its cache",
        "compile times of vLLM",
        compile_cache,
    ),
    Rule(
        "garbage_collection",
        "a fifth of the bucket steps or more is garbage collection",
        "collector time per bucket (recorded runs)",
        garbage_collection,
    ),
    Rule(
        "lazy_capture",
        "three graphs or more were captured while serving",
        "captures while serving; captures at start of this run or one like it",
        lazy_capture,
    ),
    Rule(
        "captures_unused",
        "half of the graphs captured at start, or fewer, were used while serving",
        "buckets used while serving, captured buckets, time of capture",
        captures_unused,
    ),
    Rule(
        "warmup_skipped",
        "warm-up was skipped and shapes were missed",
        "status, misses",
        warmup_skipped,
    ),
)
