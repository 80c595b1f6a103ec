"""Advice after a start that failed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, count_of
from warmup_insights.analysis.probe import startup_probe
from warmup_insights.model.summary import PHASES, StepCost
from warmup_insights.units import format_bytes, format_duration

MAX_LISTED = 20


def out_of_memory(facts: RunFacts) -> Iterator[Finding]:
    """The start ran out of memory: where, how much was free, and what was missing."""
    failure = facts.summary.failure
    if failure is None or failure.kind != "out_of_memory":
        return
    free, needed = failure.free_bytes, failure.needed_bytes
    trend = memory_per_step(facts.steps)
    missing = never_reached(facts)
    if free is None and needed is None and trend is None:
        return
    numbers: dict[str, float | int | str] = {}
    parts = ["The start ran out of memory"]
    if failure.bucket is not None:
        parts[0] += f" in {failure.phase} {failure.bucket}"
        numbers["bucket"] = str(failure.bucket)
    for name, value, text in (
        ("free_bytes", free, "{} were free"),
        ("needed_bytes", needed, "{} were needed"),
        ("bytes_per_bucket", trend, "{} went with each bucket before it"),
    ):
        if value is not None:
            numbers[name] = value
            parts.append(text.format(format_bytes(value)))
    if missing:
        numbers["never_reached"] = len(missing)
        parts.append(f"{count_of(len(missing), 'bucket')} never reached")
    shortfall = _shortfall(free, needed, trend, len(missing))
    if shortfall is not None:
        numbers["shortfall_bytes"] = shortfall
    setting, change, effect = _more_room(facts, shortfall)
    yield Finding(
        "out_of_memory",
        "high",
        ", ".join(parts) + ".",
        numbers,
        setting,
        change,
        effect,
        tuple(missing[:MAX_LISTED])
        + (
            (f"and {len(missing) - MAX_LISTED} more",)
            if len(missing) > MAX_LISTED
            else ()
        ),
    )


def memory_per_step(steps: Sequence[StepCost]) -> float | None:
    """How much free memory went with each step lately, in bytes; None if it did not.

    The mean over the last ten steps that state what was free, which is not less than what
    one of them alone can show in a rounded log.
    """
    free = [s.free_before_bytes for s in steps if s.free_before_bytes is not None][-11:]
    if len(free) < 3:
        return None
    lost = (free[0] - free[-1]) / (len(free) - 1)
    return lost if lost > 0 else None


def never_reached(facts: RunFacts) -> list[str]:
    """Generated buckets that never ran; empty when the lists or the steps are unknown."""
    ran = {(row.phase, row.bucket) for row in facts.rows if row.run or row.capture}
    if not ran:
        return []
    return [
        f"{phase} {bucket}"
        for phase in PHASES
        for bucket in facts.summary.phase(phase).buckets
        if (phase, bucket) not in ran
    ]


def _shortfall(
    free: float | None, needed: float | None, trend: float | None, num_missing: int
) -> float | None:
    """What was missing to go on: for this bucket, and for the rest at the same pace."""
    known = [
        needed - free if needed is not None and free is not None else None,
        trend * (num_missing + 1) - (free or 0) if trend is not None else None,
    ]
    positive = [value for value in known if value is not None and value > 0]
    return max(positive) if positive else None


def _more_room(facts: RunFacts, shortfall: float | None) -> tuple[str, str, str]:
    """The setting that makes room, and by how much."""
    memory, usable = facts.summary.memory_or_none, facts.figure("usable_bytes")
    utilization, reserve = memory.gpu_memory_utilization, memory.graph_reserved_fraction
    if shortfall is None:
        return (
            "gpu_memory_utilization",
            "a lower --gpu-memory-utilization, or fewer buckets",
            "the shortfall is not known, so neither is how much lower",
        )
    blocks = facts.blocks_in(shortfall)
    cost = f"; {blocks:,} KV blocks fewer" if blocks else ""
    if usable and reserve is not None:
        share = math.ceil(100 * (reserve + 1.05 * shortfall / usable)) / 100
        if share < 1:
            name = "VLLM_GRAPH_RESERVED_MEM"
            return name, f"{name}={share:g}", f"{format_bytes(shortfall)} of room{cost}"
    total = facts.figure("free_bytes") or facts.figure("total_bytes")
    if total and utilization:
        lower = math.floor(100 * (utilization - 1.05 * shortfall / total)) / 100
        if lower > 0:
            return (
                "gpu_memory_utilization",
                f"--gpu-memory-utilization {lower:g}",
                f"{format_bytes(shortfall)} of room{cost}",
            )
    return (
        "VLLM_BUCKETING_FROM_FILE",
        "fewer or smaller buckets",
        f"{format_bytes(shortfall)} must be saved",
    )


def killed_in_warmup(facts: RunFacts) -> Iterator[Finding]:
    """The process was killed before it was ready."""
    failure, seconds = facts.summary.failure, facts.figure("wall_s")
    if failure is None or failure.kind != "killed" or seconds is None:
        return
    done = sum(row.warmed for row in facts.rows)
    total = sum(facts.count(f"{phase}_generated") for phase in PHASES)
    progress = f" after {done} of {total} buckets" if total else ""
    probe = startup_probe(facts.history)
    longest = f"; {probe.longest_s:.0f} s is the longest start seen" if probe else ""
    yield Finding(
        "killed_in_warmup",
        "high",
        f"The process was killed {format_duration(seconds)} after its first line"
        f"{progress}, before it was ready.",
        {"wall_s": seconds, "num_warmed": done},
        "startupProbe.failureThreshold",
        "a startupProbe that allows a whole start"
        + (f": {probe.allowed_s} s" if probe else ""),
        f"it is not restarted in the middle{longest}",
        tuple(probe.yaml().splitlines()) if probe else (),
    )


RULES = (
    Rule(
        "out_of_memory",
        "the start ran out of memory",
        "the failure, and free memory, memory needed, or free memory per bucket",
        out_of_memory,
    ),
    Rule(
        "killed_in_warmup",
        "the process was killed before it was ready",
        "the failure, time of the lines",
        killed_in_warmup,
    ),
)
