"""Buckets as tables, as a bucket file, and for JSON, where named tuples are arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from operator import attrgetter
from types import MappingProxyType
from typing import Any

from warmup_insights.analysis.fit.report import FitReport, StrategyResult, file_lists
from warmup_insights.bucketing.base import (
    DIMENSIONS,
    Bucket,
    DroppedBucket,
    GeneratedBuckets,
)
from warmup_insights.bucketing.file import format_bucket_file
from warmup_insights.bucketing.generate import STRATEGIES
from warmup_insights.bucketing.lint import Problem
from warmup_insights.bucketing.lookup import Lookup, WalkStep
from warmup_insights.bucketing.padding import (
    LengthDistribution,
    Padding,
    PaddingReport,
    PaddingSummary,
    Trial,
)
from warmup_insights.bucketing.two_dim import GeneratedBuckets2D, TwoDimSettings
from warmup_insights.export.tables import TextTable, make_table, plain
from warmup_insights.units import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
)

MOST_VALUES = 24
"""Values of a dimension that are shown; of more the middle is left out."""
_OUTCOMES = {
    "found": "warmed up",
    "capped": "warmed up, but for fewer blocks than needed: the largest prepared",
    "fallback": "not warmed up: made at run time, and added",
    "unpadded": "bucketing is off: runs without padding",
}


def generated_tables(generated: GeneratedBuckets, *, show_all: bool) -> list[TextTable]:
    """Ranges, buckets of both phases, and what is not warmed up and why."""
    decode = _buckets_table("decode", generated.decode)
    if most := generated.fallback_max_ctx:
        note = f"No decode bucket has more than {most} blocks, nor any that a miss adds"
        decode = replace(decode, note=note)
    tables = [_buckets_table("prompt", generated.prompt), decode]
    if generated.ranges:
        tables.insert(0, _ranges_table(generated))
    if generated.dropped:
        tables.append(dropped_table(generated.dropped, show_all=show_all))
    return tables


def _ranges_table(generated: GeneratedBuckets) -> TextTable:
    strategy = STRATEGIES[generated.strategy]
    parameters = ", ".join(strategy.parameter_names)
    return make_table(
        f"Ranges, {strategy.title} strategy ({parameters})",
        ("phase", "dimension", "parameters", "values"),
        [
            (r.phase, r.dimension, ", ".join(map(str, r.parameters)), shorten(r.values))
            for r in generated.ranges
        ],
    )


def _buckets_table(phase: str, buckets: Sequence[Bucket]) -> TextTable:
    """One row per batch size and query length."""
    groups = groupby(buckets, key=lambda bucket: bucket[:2])
    return make_table(
        f"{len(buckets)} {phase} buckets",
        DIMENSIONS,
        [
            (*map(str, key), shorten([bucket.num_blocks for bucket in group]))
            for key, group in groups
        ],
        right=(0, 1),
    )


def dropped_table(dropped: Sequence[DroppedBucket], *, show_all: bool) -> TextTable:
    """One row per reason, or one per bucket."""
    rows: list[tuple[str, str, str]] = []
    if show_all:
        rows = [(drop.phase, drop.condition, _drop_text(drop)) for drop in dropped]
    else:
        ordered = sorted(dropped, key=attrgetter("phase", "condition", "bucket"))
        groups = groupby(ordered, key=attrgetter("phase", "condition"))
        for (phase, condition), group in groups:
            texts = [_drop_text(drop) for drop in group]
            more = ", ..." if len(texts) > 3 else ""
            rows.append(
                (phase, condition, f"{len(texts)}: {', '.join(texts[:3])}{more}")
            )
    title = f"{len(dropped)} candidates dropped or replaced"
    return make_table(title, ("phase", "condition not met", "buckets"), rows)


def _drop_text(drop: DroppedBucket) -> str:
    new = "" if drop.replaced_by is None else f" -> {tuple(drop.replaced_by)}"
    return f"{tuple(drop.bucket)}{new}"


def padding_table(report: PaddingReport, lengths: LengthDistribution) -> TextTable:
    """Expected and worst padding for the lengths of a distribution."""
    rows = [
        (phase, "-", "no length fits", "", "", "")
        if summary is None
        else (
            phase, summary.unit, format_percent(100 * summary.ratio), f"{summary.mean:.1f} a shape",
            _worst_text(summary), format_percent(100 * summary.uncovered),
        )
        for phase, summary in zip(("prompt", "decode", "decode"), report, strict=True)
    ]  # fmt: skip
    return make_table(
        f"Padding for lengths {lengths.name}",
        ("phase", "in", "padded share", "mean", "worst", "not covered"),
        rows,
    )


def generated_2d_table(generated: GeneratedBuckets2D) -> TextTable:
    """Both lists of the older scheme, one row per batch size."""
    return make_table(
        f"{len(generated.prompt)} prompt and {len(generated.decode)} decode buckets "
        f"(two dimensions), {len(generated.dropped)} dropped",
        ("phase", "batch_size", "seq_len"),
        [
            (phase, str(batch_size), shorten([bucket.seq_len for bucket in group]))
            for phase, buckets in (
                ("prompt", generated.prompt), ("decode", generated.decode),
            )
            for batch_size, group in groupby(buckets, key=lambda b: b.batch_size)
        ],
        right=[1],
    )  # fmt: skip


def lookup_table(lookup: Lookup, padding: Padding) -> TextTable:
    """The bucket of one shape, how it came about, and what of it is padding."""
    note = f"{_OUTCOMES[lookup.outcome]}; the bucket is smaller than the shape"
    if lookup.is_covered:
        note = (
            f"{_OUTCOMES[lookup.outcome]}; padded: {padding.tokens:,} tokens "
            f"({format_percent(100 * padding.ratio)} of the bucket) and "
            f"{padding.context_tokens:,} tokens of context"
        )
    return make_table(
        f"{lookup.phase} bucket {tuple(lookup.bucket)}",
        ("", "batch_size", "query_len", "num_blocks"),
        [
            ("shape", *map(str, lookup.shape)),
            ("bucket", *map(str, lookup.bucket)),
            ("padding", *("-" if n < 0 else str(n) for n in padding[:3])),
        ],
        right=(1, 2, 3),
        note=note,
    )


def walk_table(steps: Sequence[WalkStep]) -> TextTable:
    """The buckets of a decode batch while it grows."""
    rows = [
        (
            f"{step.first_token} to {step.last_token}", str(step.num_blocks),
            str(tuple(step.bucket)),
            "" if step.outcome == "found" else _OUTCOMES[step.outcome],
        )
        for step in steps
    ]  # fmt: skip
    header = ("tokens made", "blocks at the end", "bucket", "")
    return make_table("Decode buckets while the sequences grow", header, rows)


def problems_table(problems: Iterable[Problem]) -> TextTable:
    """What is wrong in a bucket file."""
    rows = [(str(p.line) if p.line else "-", p.level, p.message) for p in problems]
    return make_table("Problems", ("line", "level", "problem"), rows, right=[0])


def compare_table(
    trials: Sequence[Trial],
    lengths: LengthDistribution,
    costs: Mapping[str, float] = MappingProxyType({}),
) -> TextTable:
    """Strategies side by side: counts, drops and padded shares; below, why there are none.

    `costs` are seconds per bucket of each phase in some run, for an estimate of the warm-up.
    """
    header = (
        "strategy", "prompt", "decode", "dropped", "prompt padding", "decode padding",
        "worst prompt", "not covered", "warm-up, estimated",
    )  # fmt: skip
    rows = [(trial.title, *_trial_cells(trial, costs)) for trial in trials]
    shown = len(header) if {"prompt", "decode"} <= set(costs) else len(header) - 1
    problems = [f"{trial.title}: {trial.problem}" for trial in trials if trial.problem]
    return make_table(
        f"Strategies, padding for lengths {lengths.name}", header[:shown],
        [row[:shown] for row in rows], right=[0, 1, 2, 3, *range(7, shown)],
        note="\n".join(problems),
    )  # fmt: skip


def _trial_cells(trial: Trial, costs: Mapping[str, float]) -> tuple[str, ...]:
    made, padding = trial.generated, trial.padding
    if made is None or padding is None:
        return ("-", "-", "-", "not possible", "", "", "", "")
    prompt = padding.prompt
    seconds = len(made.prompt) * costs.get("prompt", 0.0)
    seconds += len(made.decode) * costs.get("decode", 0.0)
    return (
        str(len(made.prompt)), str(len(made.decode)), str(len(made.dropped)),
        _share_text(prompt),
        ", ".join(dict.fromkeys([_share_text(padding.decode_sequences),
                                 _share_text(padding.decode_blocks)])),
        _worst_text(prompt),
        "-" if prompt is None else format_percent(100 * prompt.uncovered),
        format_duration(seconds),
    )  # fmt: skip


def shorten(values: Sequence[int]) -> str:
    """Numbers with blanks between them; the middle is left out of a long list."""
    texts = list(map(str, values))
    if len(texts) > MOST_VALUES:
        texts[MOST_VALUES - 4 : -3] = [f"...({len(texts) - MOST_VALUES + 1} more)..."]
    return " ".join(texts)


def _share_text(summary: PaddingSummary | None) -> str:
    return (
        "-"
        if summary is None
        else f"{format_percent(100 * summary.ratio)} of {summary.unit}"
    )


def _worst_text(summary: PaddingSummary | None) -> str:
    if summary is None:
        return "-"
    shape, bucket = tuple(summary.worst_shape), tuple(summary.worst_bucket)
    return f"{format_percent(100 * summary.worst_ratio)}: {shape} in {bucket}"


def generated_payload(
    generated: GeneratedBuckets, lookups: list[Lookup], padding: PaddingReport | None
) -> dict[str, Any]:
    """The result of `generate`; `ranges` are pairs of parameters and values."""
    return {
        "strategy": generated.strategy,
        "prompt_buckets": generated.prompt,
        "decode_buckets": generated.decode,
        "ranges": [(bounds.parameters, bounds.values) for bounds in generated.ranges],
        "dropped": [drop._asdict() for drop in generated.dropped],
        "fallback_max_ctx": generated.fallback_max_ctx,
        "lookups": [lookup.bucket for lookup in lookups],
        "padding": padding_payload(padding),
        "notes": generated.notes,
    }


def generated_2d_payload(
    settings: TwoDimSettings, generated: GeneratedBuckets2D
) -> dict[str, Any]:
    """The result of `generate --scheme 2d`."""
    return {
        "strategy": "two-dimensional",
        "prompt_buckets": generated.prompt,
        "decode_buckets": generated.decode,
        "ranges": {
            "prompt": settings.parameters("prompt"),
            "decode": settings.parameters("decode"),
        },
        "dropped": [drop._asdict() for drop in generated.dropped],
        "notes": generated.notes,
    }


def padding_payload(padding: PaddingReport | None) -> dict[str, Any] | None:
    """A padding report; a phase that no length reaches is null."""
    return padding and {
        name: None if summary is None else asdict(summary)
        for name, summary in padding._asdict().items()
    }


def lookup_payload(
    lookup: Lookup, padding: Padding, walk: list[WalkStep]
) -> dict[str, Any]:
    """The result of `lookup`."""
    return {
        **lookup._asdict(),
        "is_covered": lookup.is_covered,
        "padding": padding._asdict(),
        "walk": [step._asdict() for step in walk],
    }


def compare_payload(
    trials: Sequence[Trial], lengths: LengthDistribution
) -> dict[str, Any]:
    """The result of `compare`: title, buckets, padding and problem of each strategy."""
    strategies = [
        {
            "strategy": trial.title,
            "prompt_buckets": None if made is None else len(made.prompt),
            "decode_buckets": None if made is None else len(made.decode),
            "dropped": None if made is None else len(made.dropped),
            "padding": padding_payload(trial.padding),
            "error": trial.problem,
        }
        for trial in trials
        for made in [trial.generated]
    ]
    return {
        "lengths": lengths.name,
        "is_assumed": lengths.is_assumed,
        "strategies": strategies,
    }


def fit_table(report: FitReport) -> TextTable:
    """The fit first, then each strategy."""
    fit = report.fit
    rows = [_strategy(result) for result in (report.result, *report.strategies)]
    if fit.is_exact:
        note = "No set of buckets within the limit wastes less."
    else:
        note = (
            f"The best possible set would execute at most {fit.gap_percent:.2g} % less "
            "than this fit."
        )
    note += (
        " Padding is the share of executed tokens that no request needed; a padded block "
        f"counts as {report.block_weight}."
    )
    header = (
        "buckets from", "number", "used", "padding", "steps without", "warm-up", "graphs",
        "within limit",
    )  # fmt: skip
    title = "Buckets for this traffic"
    return make_table(title, header, rows, right=range(1, 7), note=note)


def _strategy(result: StrategyResult) -> tuple[str, ...]:
    if result.usage is None:
        return (result.name, "none", "", "", "", "", "", result.error or "")
    return (
        result.name,
        format_count(result.num_buckets),
        format_count(result.num_used),
        _ratio(result.waste_ratio),
        format_count(result.uncovered),
        format_duration(result.usage.warmup_s),
        format_bytes(result.usage.graph_bytes),
        "yes" if result.keeps_limits else "no",
    )


def _ratio(ratio: float | None) -> str:
    return format_percent(None if ratio is None else 100 * ratio)


def bucket_tables(report: FitReport) -> list[TextTable]:
    """The buckets of each phase, 200 at most."""
    tables = []
    for phase, buckets in report.fit.buckets.items():
        title = f"{len(buckets)} {phase} buckets"
        rows = [(str(tuple(bucket)),) for bucket in buckets[:200]]
        more = len(buckets) - len(rows)
        note = f"and {more} more" if more > 0 else ""
        header = ("batch_size, query_len, num_blocks",)
        tables.append(make_table(title, header, rows, note=note))
    return tables


def bucket_file_text(report: FitReport, limit: str) -> str:
    """The file with comments that state what it was made for."""
    fit = report.fit
    comments = [
        f"Buckets for the traffic of {plain(report.traffic)}: "
        f"{report.num_prompt_steps} prompt and {report.num_decode_steps} decode steps.",
        f"Limit: {limit}. Padding: {_ratio(fit.waste_ratio)} of what is executed.",
    ]
    comments += [
        f"The {result.name} strategy has {result.num_buckets} buckets and "
        f"{_ratio(result.waste_ratio)} padding on the same traffic."
        for result in report.strategies
        if result.waste_ratio is not None
    ]
    comments += [plain(note) for note in report.notes]
    for phase in ("prompt", "decode"):
        if not fit.buckets.get(phase):
            comments.append(
                f"No {phase} step occurred; one bucket stands in, as the engine needs one."
            )
    comments.append("Use it with VLLM_BUCKETING_FROM_FILE=<this file>.")
    head = "".join(f"# {line}\n" for line in comments)
    return head + format_bucket_file(*file_lists(fit).values())
