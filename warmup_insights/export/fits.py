"""A fitted bucket set as text: tables, and the file for VLLM_BUCKETING_FROM_FILE."""

from __future__ import annotations

from warmup_insights.analysis.fit.cost import Usage
from warmup_insights.analysis.fit.report import (
    FitReport,
    StrategyResult,
    bucket_lines,
)
from warmup_insights.export.tables import TextTable, make_table, plain
from warmup_insights.units import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
)

_HEADER = (
    "buckets from", "number", "used", "padding", "steps without", "warm-up", "graphs",
    "within limit",
)  # fmt: skip


def fit_table(report: FitReport) -> TextTable:
    """The fit first, then each strategy."""
    fit = report.fit
    number = str(fit.usage.num_buckets)
    ratio = _ratio(fit.waste_ratio)
    rows: list[tuple[str, ...]] = [
        ("this fit", number, number, ratio, "0", *_usage(fit.usage), "yes")
    ]
    rows += [_strategy(result) for result in report.strategies]
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
    return make_table(
        "Buckets for this traffic", _HEADER, rows, right=range(1, 7), note=note
    )


def _strategy(result: StrategyResult) -> tuple[str, ...]:
    if result.usage is None:
        return (result.name, "none", "", "", "", "", "", result.error or "")
    return (
        result.name,
        format_count(result.num_buckets),
        format_count(result.num_used),
        _ratio(result.waste_ratio),
        format_count(result.uncovered),
        *_usage(result.usage),
        "yes" if result.keeps_limits else "no",
    )


def _usage(usage: Usage) -> tuple[str, str]:
    return format_duration(usage.warmup_s), format_bytes(usage.graph_bytes)


def _ratio(ratio: float | None) -> str:
    return format_percent(None if ratio is None else 100 * ratio)


def bucket_tables(report: FitReport) -> list[TextTable]:
    """The buckets of each phase, ten to a line."""
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
    return head + bucket_lines(fit)
