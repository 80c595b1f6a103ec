"""Advice on time around buckets: garbage collector, sampler, a warm-up that was skipped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import (
    Finding,
    Rule,
    Value,
    count_of,
    severity_of,
)
from warmup_insights.analysis.advice.rules_buckets import BUCKET_FILE, beyond_ranges
from warmup_insights.analysis.advice.strategy import reads_ranges
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import Miss, RunSummary
from warmup_insights.rules.setting_lives import knows
from warmup_insights.units import format_duration

GC_GAIN = (0.9, 1.05)
"""Of the seconds in the collector: it slows down what runs between, too."""


def garbage_collection(facts: RunFacts) -> Iterator[Finding]:
    """A large share of the bucket steps is Python's garbage collector."""
    gc = facts.summary.gc
    if gc is None or gc.frozen or not gc.seconds or not gc.steps_s or not gc.share:
        return
    if gc.share < 0.2 or gc.seconds < 1.0:
        return
    least, most = GC_GAIN[0] * gc.seconds, min(GC_GAIN[1] * gc.seconds, gc.steps_s)
    yield Finding(
        "garbage_collection",
        severity_of(facts.start.share(gc.seconds)) if facts.start else "medium",
        f"Garbage collection took {format_duration(gc.seconds)} of "
        f"{format_duration(gc.steps_s)} of bucket warm-up ({100 * gc.share:.0f} %).",
        {"gc_s": gc.seconds, "steps_s": gc.steps_s},
        "WARMUP_INSIGHTS_FREEZE_GC",
        "`warmup-insights vllm --freeze-gc serve ...`, or gc.freeze() before warm-up",
        "the steps without the collector",
        gain_s=(least, most),
        price="some seconds for freezing; objects that are alive then are never collected",
        part_s=most,
    )


def sampler_warmup(facts: RunFacts) -> Iterator[Finding]:
    """The sampler was warmed up for each decode batch size, and that took long (Gaudi)."""
    start, sampler = facts.start, facts.summary.sampler
    seconds = start.worth("sampler_warmup") if start is not None else None
    if start is None or seconds is None or facts.summary.engine.name != "vllm-gaudi":
        return
    sizes = {
        row.bucket[0] for row in facts.rows if row.phase == "decode" and row.bucket
    }
    listed = sampler.batch_sizes if sampler is not None else None
    count = len(listed or sizes)
    numbers: dict[str, Value] = {"sampler_s": seconds, "start_s": start.wall_s}
    title = f"Sampler warm-up took {start.of_all(seconds)}"
    if count:
        numbers["num_sizes"] = count
        title += f": {count_of(count, 'batch size')}, {format_duration(seconds / count)} each"
    change = "fewer decode batch sizes: the sampler is warmed up for each of them"
    if reads_ranges(facts.summary):
        change += " (a wider VLLM_DECODE_BS_BUCKET_STEP)"
    elif knows(facts.summary, BUCKET_FILE):
        change += f" ({BUCKET_FILE} with fewer)"
    yield Finding(
        "sampler_warmup",
        severity_of(start.share(seconds)),
        f"{title}.",
        numbers,
        "VLLM_DECODE_BS_BUCKET_STEP",
        change,
        f"{format_duration(seconds / count)} for each batch size less"
        if count
        else "no figure: the batch sizes are not known",
        price="more padded rows in a decode step; nothing leaves out this warm-up alone",
        phase="sampler_warmup",
        part_s=seconds,
    )


def warmup_skipped(facts: RunFacts) -> Iterator[Finding]:
    """Warm-up was skipped, and shapes came that it would have prepared."""
    summary = facts.summary
    if summary.status != "skipped" or not summary.misses:
        return
    beyond = [beyond_ranges(summary, miss) for miss in summary.misses]
    covered = [
        miss for miss, found in zip(summary.misses, beyond, strict=True) if not found
    ]
    if not covered:
        return
    is_known = all(found is not None for found in beyond)
    count = sum(miss.count for miss in covered)
    spent, warmup = _compiling_s(summary, covered), _usual_warmup_s(facts)
    numbers: dict[str, Value] = {"num_shapes": len(covered), "num_warnings": count}
    numbers |= {"compile_s": spent} if spent is not None else {}
    numbers |= {"warmup_s": warmup} if warmup is not None else {}
    has_file = knows(summary, BUCKET_FILE)
    yield Finding(
        "warmup_skipped",
        "medium" if is_known else "low",
        f"Warm-up was skipped, and {count_of(len(covered), 'shape')} "
        f"{'within its ranges ' if is_known else ''}compiled while serving "
        f"({count_of(count, 'warning')}).",
        numbers,
        "VLLM_SKIP_WARMUP",
        "VLLM_SKIP_WARMUP=false"
        + (f", or {BUCKET_FILE} with the shapes that come" if has_file else ""),
        f"{count_of(len(covered), 'compilation')} less that a request waits for; "
        + (
            "what each takes is the first request of a shape less the next, which a "
            "recorded run has"
            if spent is None
            else f"{format_duration(spent)} for those whose shape came again, the first "
            "request less the others"
        )
        + (
            ""
            if is_known
            else "; the run prints no ranges, so these may be outside them"
        ),
        changes={"VLLM_SKIP_WARMUP": "false"},
        price="the time of a warm-up, which no run of this model here has shown"
        if warmup is None
        else f"{format_duration(warmup)} of warm-up at each start",
    )


def _usual_warmup_s(facts: RunFacts) -> float | None:
    """The median warm-up of other runs of the same model, version and device."""
    seen = [
        seconds
        for other in facts.same_model
        if (seconds := BY_NAME["warmup_s"].trusted(other))
    ]
    return median(seen) if seen else None


def _compiling_s(summary: RunSummary, misses: Iterable[Miss]) -> float | None:
    """What the first request of each shape took longer than the next ones of it."""
    shapes = {(miss.phase, miss.shape) for miss in misses}
    found = [
        use.first_s - (use.duration_s - use.first_s) / (use.count - 1)
        for use in (summary.serving.uses if summary.serving is not None else ())
        if (use.phase, use.shape) in shapes
        and use.count > 1
        and use.first_s is not None
        and use.duration_s is not None
    ]
    return sum(max(0.0, seconds) for seconds in found) if found else None


RULES = (
    Rule(
        "garbage_collection",
        "a fifth of the bucket steps or more is garbage collection",
        "collector time per bucket (recorded runs)",
        garbage_collection,
        formula="0.9 to 1.05 of the seconds in the collector, and at most the steps",
        margin="frozen after the weights are loaded, not before",
        source="Python gc.freeze",
        example="made up: 3 of 10 s of bucket steps in the collector",
    ),
    Rule(
        "warmup_skipped",
        "warm-up was skipped and shapes within its ranges were missed",
        "status, misses, bucket lists or ranges",
        warmup_skipped,
        formula="seconds of the first request of a shape - mean of its next ones",
        margin="shapes beyond the ranges are another rule's: a warm-up would not have "
        "prepared them",
        source="vllm-gaudi environment variables: VLLM_SKIP_WARMUP",
        example="vllm-gaudi 0.26 with VLLM_SKIP_WARMUP: three shapes within the ranges compiled",
    ),
    Rule(
        "sampler_warmup",
        "sampler warm-up took 10 s and 5 % of the start, or most of it (Gaudi)",
        "a log that holds the whole start: phase sampler_warmup, its batch sizes",
        sampler_warmup,
        formula="seconds / batch sizes, for each that is left out",
        margin="the batch sizes 0 and 1 stay",
        source="vllm-gaudi v1/worker/hpu_model_runner.py warmup_sampler, documentation of "
        "sampler warm-up",
        example="made up: 30 of 100 s for 20 decode batch sizes",
    ),
)
