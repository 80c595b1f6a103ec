"""What `ingest` tells a person about each file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from warmup_insights.cli.console import stdout_console
from warmup_insights.units import format_count

if TYPE_CHECKING:
    from warmup_insights.ingest import Outcome

MAX_UNKNOWN_SHOWN = 10


def print_outcomes(outcomes: Sequence[Outcome], console: Console | None = None) -> None:
    """A table of the files, then what was not understood."""
    console = console or stdout_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, justify in (
        ("file", "left"), ("state", "left"), ("runs", "left"), ("lines", "right"),
        ("events", "right"), ("unknown", "right"), ("dialects", "left"),
    ):  # fmt: skip
        table.add_column(name, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for outcome in outcomes:
        report = outcome.report
        table.add_row(
            escape(outcome.path), outcome.state, "\n".join(outcome.run_ids) or "-",
            format_count(report.get("lines")), format_count(report.get("events")),
            format_count(report.get("unknown")),
            ", ".join(report.get("dialects", [])) or "-",
        )  # fmt: skip
    console.print(table)
    for outcome in outcomes:
        _print_report(console, outcome)


def _print_report(console: Console, outcome: Outcome) -> None:
    report = outcome.report
    for problem in report.get("problems", []):
        console.print(f"note: {escape(problem)}", soft_wrap=True)
    unknown = report.get("unknown_lines", [])
    if unknown:
        console.print(
            f"{escape(outcome.path)}: {report['unknown']} lines look relevant but are "
            "not known; the first of them:"
        )
    for line, text in unknown[:MAX_UNKNOWN_SHOWN]:
        console.print(f"  {line}: {escape(text[:160])}", soft_wrap=True)
    for line, rule, text in report.get("failed_lines", []):
        console.print(f"  {line}: not readable ({rule}): {escape(text[:160])}")
