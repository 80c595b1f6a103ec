"""Advice on buckets: impossible, never compiled, missed, and expensive ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from warmup_insights.analysis.advice import Finding, Rule, count_of
from warmup_insights.analysis.advice_facts import RunFacts
from warmup_insights.analysis.figures import PHASES
from warmup_insights.model.events import Bucket
from warmup_insights.units import format_bytes, format_duration

BUCKET_FILE = "VLLM_BUCKETING_FROM_FILE"
MAX_LISTED = 20
_NAMES = {
    ("prompt", 3): ("BS", "QUERY", "CTX"),
    ("decode", 3): ("BS", "QUERY", "BLOCK"),
    ("prompt", 2): ("BS", "SEQ"),
    ("decode", 2): ("BS", "BLOCK"),
}
_WORDS = {
    "BS": "batch size", "QUERY": "query length", "CTX": "context blocks",
    "BLOCK": "blocks", "SEQ": "sequence length",
}  # fmt: skip


def blocks_beyond_cache(facts: RunFacts) -> Iterator[Finding]:
    """Decode buckets ask for more KV blocks than the cache has."""
    blocks = facts.memory("num_kv_blocks")
    listed = [tuple(bucket) for bucket in facts.phase("decode").get("buckets") or ()]
    if not blocks or not listed or len(listed[0]) != 3:
        return
    beyond = [bucket for bucket in listed if bucket[2] > blocks]
    if not beyond:
        return
    largest = max(bucket[2] for bucket in beyond)
    seconds = _seconds(facts.bucket_rows, "decode", set(beyond))
    saved = f"; {format_duration(seconds)} of warm-up" if seconds is not None else ""
    yield Finding(
        "blocks_beyond_cache",
        "high",
        f"{len(beyond)} of {len(listed)} decode buckets ask for up to {largest:,} "
        f"blocks, and the cache has {int(blocks):,}.",
        {"num_buckets": len(beyond), "largest": largest, "num_kv_blocks": int(blocks)},
        "VLLM_DECODE_BLOCK_BUCKET_MAX",
        f"VLLM_DECODE_BLOCK_BUCKET_MAX={int(blocks)}",
        f"{len(beyond)} buckets fewer that no batch can fill{saved}",
        _listed(sorted(beyond)),
    )


def executed_differently(facts: RunFacts) -> Iterator[Finding]:
    """The shape that ran for a bucket is another one: the bucket was not compiled."""
    wrong = [
        row
        for row in facts.bucket_rows
        if row.get("executed") and list(row["executed"]) != list(row["bucket"])
    ]
    ran = sum(1 for row in facts.bucket_rows if row.get("executed"))
    if not wrong:
        return
    known = [row["duration_s"] for row in wrong if row.get("duration_s") is not None]
    spent = f"; {format_duration(sum(known))} were spent on them" if known else ""
    yield Finding(
        "executed_differently",
        "high",
        f"{len(wrong)} of {ran} buckets ran in another shape than declared, so they "
        f"were not compiled{spent}.",
        {"num_buckets": len(wrong), "num_executed": ran},
        BUCKET_FILE,
        f"{BUCKET_FILE}: leave these buckets out, or lower the range that makes them",
        f"{len(wrong)} steps of warm-up less; a request in such a bucket compiles when "
        "it comes, with or without them",
        tuple(
            f"{row['phase']} {tuple(row['bucket'])} ran as {tuple(row['executed'])}"
            for row in wrong[:MAX_LISTED]
        ),
    )


def missed_shapes(facts: RunFacts) -> Iterator[Finding]:
    """Shapes at run time that no bucket covered, by the dimension that was too small."""
    if facts.summary.get("status") == "skipped":
        return  # nothing was warmed up, so ranges and lists are not to blame
    for phase in PHASES:
        misses = [m for m in facts.summary.get("misses") or () if m["phase"] == phase]
        listed = [tuple(bucket) for bucket in facts.phase(phase).get("buckets") or ()]
        if misses and listed:
            yield from _missed(facts, phase, misses, listed)


def _missed(
    facts: RunFacts,
    phase: str,
    misses: Sequence[Mapping[str, Any]],
    listed: Sequence[Bucket],
) -> Iterator[Finding]:
    width = len(listed[0])
    names = _NAMES.get((phase, width))
    shapes = [tuple(miss["shape"]) for miss in misses]
    if names is None or any(len(shape) != width for shape in shapes):
        return
    largest = [max(bucket[i] for bucket in listed) for i in range(width)]
    by_dimension: Counter[int | None] = Counter()
    needed = [0] * width
    not_warmed = [shape for shape in shapes if _covers_any(listed, shape)]
    for shape in (shape for shape in shapes if shape not in not_warmed):
        above: list[int | None] = [i for i in range(width) if shape[i] > largest[i]]
        by_dimension.update(above or [None])
        for i in range(width):
            needed[i] = max(needed[i], shape[i])
    count = sum(miss.get("count", 1) for miss in misses)
    parts = [
        f"{times} above the largest {_WORDS[names[i]]} {largest[i]:,} (up to {needed[i]:,})"
        if i is not None
        else f"{times} within every range, but without a bucket of that combination"
        for i, times in by_dimension.most_common()
    ]
    if not_warmed:
        parts.append(f"{len(not_warmed)} have a bucket that was not warmed up")
    settings = [
        f"VLLM_{phase.upper()}_{names[i]}_BUCKET_MAX={needed[i]}"
        for i in by_dimension
        if i is not None
    ]
    is_ranged = bool(settings) and _ranges_count(facts)
    yield Finding(
        "missed_shapes",
        "high",
        f"{count_of(len(shapes), f'{phase} shape')} met no bucket while serving, "
        f"{count_of(count, 'warning')} in all: {'; '.join(parts)}.",
        {"num_shapes": len(shapes), "num_warnings": count},
        settings[0].partition("=")[0] if is_ranged else BUCKET_FILE,
        " ".join(settings)
        if is_ranged
        else f"{BUCKET_FILE} with the lines below added",
        f"{count_of(len(shapes), 'compilation')} less while serving"
        + _compile_cost(facts, phase),
        _lines(misses),
    )


def _covers_any(listed: Sequence[Bucket], shape: Bucket) -> bool:
    """Whether one of the buckets is not smaller in any dimension."""
    return any(
        all(size >= need for size, need in zip(bucket, shape, strict=True))
        for bucket in listed
    )


def _ranges_count(facts: RunFacts) -> bool:
    """Whether range variables have an effect: not with the exponential strategy."""
    strategy = str(facts.config.get("VLLM_BUCKETING_STRATEGY", "")).lower()
    return strategy in ("lin", "pad")


def _compile_cost(facts: RunFacts, phase: str) -> str:
    known = [
        row["duration_s"]
        for row in facts.bucket_rows
        if row["phase"] == phase and row.get("duration_s")
    ]
    if not known:
        return ""
    return f", each about {format_duration(median(known))} as in warm-up"


def _lines(misses: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Lines for a bucket file, from the buckets that the engine made instead."""
    buckets = dict.fromkeys(
        tuple(miss["fallback"] or miss["shape"])
        for miss in misses
        if len(miss["fallback"] or miss["shape"]) == 3
    )
    return tuple(str(bucket) for bucket in list(buckets)[:MAX_LISTED])


def costly_buckets(facts: RunFacts) -> Iterator[Finding]:
    """The ten buckets that took longest, and what dropping each would save."""
    timed = [row for row in facts.bucket_rows if row.get("duration_s")]
    if len(timed) <= 10:
        return
    total = sum(row["duration_s"] for row in timed)
    top = sorted(timed, key=lambda row: -row["duration_s"])[:10]
    spent = sum(row["duration_s"] for row in top)
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
            f"{row['phase']} {tuple(row['bucket'])}: {format_duration(row['duration_s'])}"
            + (
                f", {format_bytes(row['memory_bytes'])}"
                if row.get("memory_bytes") is not None
                else ""
            )
            for row in top
        ),
    )


def unused_buckets(facts: RunFacts) -> Iterator[Finding]:
    """Most buckets were never needed while serving."""
    used = sum(len(buckets) for buckets in facts.used.values())
    warmed = sum(facts.phase(phase).get("warmed") or 0 for phase in PHASES)
    if not used or not warmed or used > 0.5 * warmed:
        return
    rows = [
        row
        for row in facts.bucket_rows
        if row.get("duration_s")
        and tuple(row["bucket"]) not in facts.used.get(row["phase"], set())
    ]
    if not rows:
        return
    seconds = sum(row["duration_s"] for row in rows)
    size = sum(row["memory_bytes"] for row in rows if row.get("memory_bytes"))
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


def _seconds(
    rows: Sequence[Mapping[str, Any]], phase: str, buckets: set[Bucket]
) -> float | None:
    known = [
        row["duration_s"]
        for row in rows
        if row["phase"] == phase
        and tuple(row["bucket"]) in buckets
        and row.get("duration_s") is not None
    ]
    return sum(known) if known else None


def _listed(buckets: Sequence[Bucket]) -> tuple[str, ...]:
    lines = [str(bucket) for bucket in buckets[:MAX_LISTED]]
    if len(buckets) > MAX_LISTED:
        lines.append(f"and {len(buckets) - MAX_LISTED} more")
    return tuple(lines)


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
