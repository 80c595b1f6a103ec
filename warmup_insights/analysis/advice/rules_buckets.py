"""Advice on buckets: impossible, never compiled, missed, and expensive ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from warmup_insights.analysis.advice.facts import RunFacts
from warmup_insights.analysis.advice.finding import Finding, Rule, count_of
from warmup_insights.analysis.misses import (
    DIMENSIONS,
    WORDS,
    Diagnosis,
    diagnose,
    highest_settings,
)
from warmup_insights.model.summary import PHASES
from warmup_insights.units import format_bytes, format_duration

BUCKET_FILE = "VLLM_BUCKETING_FROM_FILE"
MAX_LISTED = 20


def blocks_beyond_cache(facts: RunFacts) -> Iterator[Finding]:
    """Decode buckets need more KV blocks than the cache has."""
    blocks = facts.figure("num_kv_blocks")
    listed = facts.summary.phase("decode").buckets
    if not blocks or not listed or len(listed[0]) != 3:
        return
    beyond = sorted(bucket for bucket in listed if bucket[2] > blocks)
    if not beyond:
        return
    largest = max(bucket[2] for bucket in beyond)
    rows = [row for row in facts.rows if row.phase == "decode" and row.bucket in beyond]
    seconds = facts.seconds(rows)
    saved = f"; {format_duration(seconds)} of warm-up" if seconds is not None else ""
    lines = [str(bucket) for bucket in beyond[:MAX_LISTED]]
    if len(beyond) > MAX_LISTED:
        lines.append(f"and {len(beyond) - MAX_LISTED} more")
    yield Finding(
        "blocks_beyond_cache",
        "high",
        f"{len(beyond)} of {len(listed)} decode buckets ask for up to {largest:,} "
        f"blocks, and the cache has {int(blocks):,}.",
        {"num_buckets": len(beyond), "largest": largest, "num_kv_blocks": int(blocks)},
        "VLLM_DECODE_BLOCK_BUCKET_MAX",
        f"VLLM_DECODE_BLOCK_BUCKET_MAX={int(blocks)}",
        f"{len(beyond)} buckets fewer that no batch can fill{saved}",
        tuple(lines),
    )


def executed_differently(facts: RunFacts) -> Iterator[Finding]:
    """The shape that ran for a bucket is another one: the bucket was not compiled."""
    ran = [row for row in facts.rows if row.executed is not None]
    wrong = [row for row in ran if row.ran_as != row.bucket]
    if not wrong:
        return
    seconds = facts.seconds(wrong)
    spent = (
        "" if seconds is None else f"; {format_duration(seconds)} were spent on them"
    )
    yield Finding(
        "executed_differently",
        "high",
        f"{len(wrong)} of {len(ran)} buckets ran in another shape than declared, so "
        f"they were not compiled{spent}.",
        {"num_buckets": len(wrong), "num_executed": len(ran)},
        BUCKET_FILE,
        f"{BUCKET_FILE}: leave these buckets out, or lower the range that makes them",
        f"{len(wrong)} steps of warm-up less; a request in such a bucket compiles when "
        "it comes, with or without them",
        tuple(
            f"{row.phase} {row.bucket} ran as {row.ran_as}"
            for row in wrong[:MAX_LISTED]
        ),
    )


def missed_shapes(facts: RunFacts) -> Iterator[Finding]:
    """Shapes at run time that no bucket covered, by the dimension that was too small."""
    found = [
        item
        for item in diagnose(facts.summary)
        if item.cause in ("too_large", "no_combination", "not_warmed")
    ]
    for phase in PHASES:
        own = [item for item in found if item.phase == phase]
        if own and (phase, len(own[0].shape)) in DIMENSIONS:
            yield _missed(facts, phase, own)


def _missed(facts: RunFacts, phase: str, found: Sequence[Diagnosis]) -> Finding:
    count = sum(item.count for item in found)
    settings = highest_settings(found)
    is_ranged = bool(settings) and _ranges_count(facts)
    lines = dict.fromkeys(item.file_line for item in found if item.file_line)
    return Finding(
        "missed_shapes",
        "high",
        f"{count_of(len(found), f'{phase} shape')} met no bucket while serving, "
        f"{count_of(count, 'warning')} in all: {'; '.join(_causes(facts, found))}.",
        {"num_shapes": len(found), "num_warnings": count},
        settings[0].partition("=")[0] if is_ranged else BUCKET_FILE,
        " ".join(settings)
        if is_ranged
        else f"{BUCKET_FILE} with the lines below added",
        f"{count_of(len(found), 'compilation')} less while serving"
        + _compile_cost(facts, phase),
        tuple(lines)[:MAX_LISTED],
    )


def _causes(facts: RunFacts, found: Sequence[Diagnosis]) -> Iterator[str]:
    """How many shapes each cause has, the most frequent dimension first."""
    by_dimension = Counter(d for item in found for d in item.too_large)
    phase, size = found[0].phase, len(found[0].shape)
    for d, times in by_dimension.most_common():
        largest = max(
            b[d] for b in facts.summary.phase(phase).buckets if len(b) == size
        )
        needed = max(item.shape[d] for item in found)
        word = WORDS[DIMENSIONS[phase, size][d]]
        yield f"{times} above the largest {word} {largest:,} (up to {needed:,})"
    by_cause = Counter(item.cause for item in found)
    if times := by_cause["no_combination"]:
        yield f"{times} within every range, but without a bucket of that combination"
    if times := by_cause["not_warmed"]:
        yield f"{times} have a bucket that was not warmed up"


def _ranges_count(facts: RunFacts) -> bool:
    """Whether range variables have an effect: not with the exponential strategy."""
    strategy = str(facts.summary.config.get("VLLM_BUCKETING_STRATEGY", "")).lower()
    return strategy in ("lin", "pad")


def _compile_cost(facts: RunFacts, phase: str) -> str:
    known = [
        row.duration_s for row in facts.rows if row.phase == phase and row.duration_s
    ]
    if not known:
        return ""
    return f", each about {format_duration(median(known))} as in warm-up"


def costly_buckets(facts: RunFacts) -> Iterator[Finding]:
    """The ten buckets that took longest, and what dropping each would save."""
    timed = [row for row in facts.rows if row.duration_s]
    if len(timed) <= 10:
        return
    top = sorted(timed, key=lambda row: -(row.duration_s or 0.0))[:10]
    spent, total = facts.seconds(top), facts.seconds(timed)
    if spent is None or total is None:
        return
    yield Finding(
        "costly_buckets",
        "low",
        f"Ten of {len(timed)} buckets took {format_duration(spent)} of "
        f"{format_duration(total)}.",
        {"top_s": spent, "total_s": total, "num_buckets": len(timed)},
        BUCKET_FILE,
        f"{BUCKET_FILE} without those that your traffic does not need",
        f"up to {format_duration(spent)} of warm-up less",
        tuple(
            f"{row.phase} {row.bucket}: {format_duration(row.duration_s)}"
            + (
                ""
                if row.memory_bytes is None
                else f", {format_bytes(row.memory_bytes)}"
            )
            for row in top
        ),
    )


def unused_buckets(facts: RunFacts) -> Iterator[Finding]:
    """Most buckets were never needed while serving."""
    used = len(facts.used)
    warmed = sum(facts.count(f"{phase}_warmed") for phase in PHASES)
    if not used or not warmed or used > 0.5 * warmed:
        return
    rows = [
        row
        for row in facts.rows
        if row.duration_s and (row.phase, row.bucket) not in facts.used
    ]
    seconds = facts.seconds(rows)
    if seconds is None:
        return
    size = sum(row.memory_bytes or 0 for row in rows)
    yield Finding(
        "unused_buckets",
        "medium",
        f"The traffic seen used {used} of {warmed} buckets.",
        {"num_used": used, "num_warmed": warmed, "unused_s": seconds},
        BUCKET_FILE,
        "`warmup-insights buckets fit RUN` finds a bucket file for this traffic",
        f"up to {format_duration(seconds)} of warm-up and {format_bytes(size)} less, if "
        "the traffic stays like this",
    )


RULES = (
    Rule(
        "blocks_beyond_cache",
        "decode buckets ask for more KV blocks than exist",
        "decode buckets of three dimensions, number of KV blocks",
        blocks_beyond_cache,
    ),
    Rule(
        "executed_differently",
        "a bucket ran in another shape than declared",
        "executed shapes (recorded runs)",
        executed_differently,
    ),
    Rule(
        "missed_shapes",
        "shapes met no bucket while serving",
        "misses, bucket lists",
        missed_shapes,
    ),
    Rule(
        "unused_buckets",
        "the traffic used half of the buckets or fewer",
        "buckets used while serving, time of each bucket",
        unused_buckets,
    ),
    Rule(
        "costly_buckets",
        "more than ten buckets have a known time",
        "time of each bucket",
        costly_buckets,
    ),
)
