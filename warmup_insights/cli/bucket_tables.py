"""The results of `buckets` as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warmup_insights.bucketing import (
    STRATEGIES,
    Bucket,
    DroppedBucket,
    GeneratedBuckets,
    GeneratedBuckets2D,
    LengthDistribution,
    Lookup,
    Padding,
    PaddingReport,
    PaddingSummary,
    Problem,
    TwoDimSettings,
    WalkStep,
)

_NO_TERMINAL_WIDTH = 120
_OUTCOMES = {
    "found": "warmed up",
    "capped": "warmed up, but for fewer blocks than asked: the largest prepared",
    "fallback": "not warmed up: made at run time, and added",
    "unpadded": "bucketing is off: runs without padding",
}


def console() -> Console:
    """Standard output; wide enough for a table where it is no terminal."""
    out = Console(highlight=False)
    return (
        out if out.is_terminal else Console(highlight=False, width=_NO_TERMINAL_WIDTH)
    )


def ranges_table(generated: GeneratedBuckets) -> Table:
    """The parameters and the values of each dimension."""
    strategy = STRATEGIES[generated.strategy]
    table = _table(
        f"Ranges, {strategy.title} strategy ({', '.join(strategy.parameter_names)})"
    )
    for name in ("phase", "dimension", "parameters", "values"):
        table.add_column(name, overflow="fold")
    for bounds in generated.ranges:
        parameters = ", ".join(map(str, bounds.parameters))
        table.add_row(
            bounds.phase, bounds.dimension, parameters, shorten(bounds.values, 24)
        )
    return table


def buckets_table(phase: str, buckets: Sequence[Bucket]) -> Table:
    """The buckets of one phase, one row per batch size and query length."""
    table = _table(f"{len(buckets)} {phase} buckets")
    table.add_column("batch_size", justify="right")
    table.add_column("query_len", justify="right")
    table.add_column("num_blocks", overflow="fold")
    for (batch_size, query_len), group in groupby(
        buckets, key=lambda bucket: bucket[:2]
    ):
        blocks = [bucket.num_blocks for bucket in group]
        table.add_row(str(batch_size), str(query_len), shorten(blocks, 24))
    return table


def dropped_table(dropped: Sequence[DroppedBucket], *, show_all: bool) -> Table:
    """What is not warmed up and why: one row per reason, or one per bucket."""
    table = _table(f"{len(dropped)} candidates dropped or replaced")
    for name in ("phase", "condition not met", "buckets"):
        table.add_column(name, overflow="fold")
    if show_all:
        for drop in dropped:
            table.add_row(drop.phase, drop.condition, _drop_text(drop))
        return table
    ordered = sorted(
        dropped, key=lambda drop: (drop.phase, drop.condition, drop.bucket)
    )
    for (phase, condition), group in groupby(
        ordered, key=lambda drop: (drop.phase, drop.condition)
    ):
        drops = list(group)
        examples = ", ".join(_drop_text(drop) for drop in drops[:3])
        more = ", ..." if len(drops) > 3 else ""
        table.add_row(phase, condition, f"{len(drops)}: {examples}{more}")
    return table


def padding_table(report: PaddingReport, lengths: LengthDistribution) -> Table:
    """Expected and worst padding for the lengths of a distribution."""
    table = _table(f"Padding for lengths {escape(lengths.name)}")
    for name in ("phase", "in", "padded share", "mean", "worst", "not covered"):
        table.add_column(name, overflow="fold")
    for phase, summary in zip(("prompt", "decode", "decode"), report, strict=True):
        if summary is None:
            table.add_row(phase, "-", "no length fits", "", "", "")
        else:
            table.add_row(phase, *_summary_cells(summary))
    return table


def generated_2d_table(
    settings: TwoDimSettings, generated: GeneratedBuckets2D
) -> Table:
    """Both lists of the older scheme, one row per batch size."""
    table = _table(
        f"{len(generated.prompt)} prompt and {len(generated.decode)} decode buckets "
        f"(two dimensions), {len(generated.dropped)} dropped"
    )
    table.add_column("phase")
    table.add_column("batch_size", justify="right")
    table.add_column("seq_len", overflow="fold")
    for phase, buckets in (("prompt", generated.prompt), ("decode", generated.decode)):
        for batch_size, group in groupby(buckets, key=lambda bucket: bucket.batch_size):
            table.add_row(
                phase, str(batch_size), shorten([item.seq_len for item in group], 24)
            )
    return table


def lookup_table(lookup: Lookup, padding: Padding) -> Table:
    """The bucket of one shape, and what of it is padding."""
    table = _table(f"{lookup.phase} bucket {tuple(lookup.bucket)}")
    table.add_column()
    for name in ("batch_size", "query_len", "num_blocks"):
        table.add_column(name, justify="right")
    table.add_row("shape", *map(str, lookup.shape))
    table.add_row("bucket", *map(str, lookup.bucket))
    table.add_row("padding", *map(str, padding[:3]))
    return table


def lookup_text(lookup: Lookup, padding: Padding) -> str:
    """How the bucket came about, and what of it is padding in tokens."""
    text = (
        f"{_OUTCOMES[lookup.outcome]}; padded: {padding.tokens} tokens "
        f"({percent(padding.ratio)} of the bucket) and "
        f"{padding.context_tokens} tokens of context"
    )
    return (
        text if lookup.is_covered else f"{text}; the bucket is smaller than the shape"
    )


def walk_table(steps: Sequence[WalkStep]) -> Table:
    """The buckets of a decode batch while it grows."""
    table = _table("Decode buckets while the sequences grow")
    for name in ("tokens made", "blocks at the end", "bucket", ""):
        table.add_column(name, overflow="fold")
    for step in steps:
        table.add_row(
            f"{step.first_token} to {step.last_token}",
            str(step.num_blocks),
            str(tuple(step.bucket)),
            "" if step.outcome == "found" else _OUTCOMES[step.outcome],
        )
    return table


def problems_table(problems: Iterable[Problem]) -> Table:
    """What is wrong in a bucket file."""
    table = _table("Problems")
    table.add_column("line", justify="right")
    table.add_column("level")
    table.add_column("problem", overflow="fold")
    for problem in problems:
        line = str(problem.line) if problem.line else "-"
        table.add_row(line, problem.level, escape(problem.message))
    return table


def compare_table(
    rows: Sequence[tuple[str, GeneratedBuckets | None, PaddingReport | None, str]],
    lengths: LengthDistribution,
) -> Table:
    """Strategies side by side: counts, drops and padded shares."""
    table = _table(f"Strategies, padding for lengths {escape(lengths.name)}")
    for name in ("strategy", "prompt", "decode", "dropped"):
        table.add_column(name, justify="right")
    for name in ("prompt padding", "decode padding", "worst prompt"):
        table.add_column(name, overflow="fold")
    for strategy, generated, report, _ in rows:
        if generated is None or report is None:
            table.add_row(strategy, "-", "-", "-", "not possible", "", "")
            continue
        table.add_row(
            strategy,
            str(len(generated.prompt)),
            str(len(generated.decode)),
            str(len(generated.dropped)),
            _share_text(report.prompt),
            f"{_share_text(report.decode_sequences)}, {_share_text(report.decode_blocks)}",
            _worst_text(report.prompt),
        )
    return table


def shorten(values: Sequence[int], most: int) -> str:
    """Numbers with blanks between them; the middle is left out of a long list."""
    if len(values) <= most:
        return " ".join(map(str, values))
    head, tail = values[: most - 4], values[-3:]
    left_out = len(values) - len(head) - len(tail)
    return (
        f"{' '.join(map(str, head))} ...({left_out} more)... {' '.join(map(str, tail))}"
    )


def percent(share: float) -> str:
    """A share as a percentage with one digit."""
    return f"{share * 100:.1f}%"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", title_style="bold")


def _drop_text(drop: DroppedBucket) -> str:
    if drop.replaced_by is None:
        return str(tuple(drop.bucket))
    return f"{tuple(drop.bucket)} -> {tuple(drop.replaced_by)}"


def _summary_cells(summary: PaddingSummary) -> tuple[str, ...]:
    return (
        summary.unit,
        percent(summary.ratio),
        f"{summary.mean:.1f} a shape",
        _worst_text(summary),
        percent(summary.uncovered),
    )


def _share_text(summary: PaddingSummary | None) -> str:
    if summary is None:
        return "-"
    return f"{percent(summary.ratio)} of {summary.unit}"


def _worst_text(summary: PaddingSummary | None) -> str:
    if summary is None:
        return "-"
    return (
        f"{percent(summary.worst_ratio)}: {tuple(summary.worst_shape)} in "
        f"{tuple(summary.worst_bucket)}"
    )
