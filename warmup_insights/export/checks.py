"""Check results as a table of text, for the terminal and for Markdown."""

from __future__ import annotations

from warmup_insights.analysis.check import CheckResult
from warmup_insights.export.tables import (
    TextTable,
    escape_markdown,
    make_table,
    markdown_table,
)
from warmup_insights.model.figures import format_figure


def check_table(result: CheckResult) -> TextTable:
    """One row per limit, what does not hold first."""
    order = {"broken": 0, "unknown": 1, "passed": 2}
    rows = [
        (
            item.title,
            format_figure(item.value, item.unit),
            item.limit,
            format_figure(item.bound, item.unit),
            "" if item.baseline is None else format_figure(item.baseline, item.unit),
            item.outcome,
            item.reason,
        )
        for item in sorted(result.results, key=lambda item: order[item.outcome])
    ]
    header = ("figure", "run", "limit", "bound", "baseline", "result", "why")
    return make_table("Limits", header, rows, right=(1, 3, 4))


def check_markdown(result: CheckResult) -> str:
    """The table in Markdown under a line with the result."""
    broken = sum(1 for item in result.results if item.outcome != "passed")
    verdict = (
        f"All {len(result.results)} limits hold."
        if result.passed
        else f"{broken} of {len(result.results)} limits do not hold."
    )
    against = f" against baseline `{result.baseline_id}`" if result.baseline_id else ""
    head = f"## Warm-up check of run `{result.run_id}`{against}\n\n{verdict}\n\n"
    end = f"\n{escape_markdown(end_sentence(result))}\n" if result.serving_end else ""
    return head + markdown_table(check_table(result)) + end


def github_annotations(result: CheckResult) -> list[str]:
    """Workflow commands of GitHub Actions, one error for each limit that does not hold."""
    return [
        f"::error title=Warm-up check::{_command_text(item.title)} {item.outcome}: "
        f"{_command_text(format_figure(item.value, item.unit))}, "
        f"{_command_text(item.limit)}"
        for item in result.results
        if item.outcome != "passed"
    ]


def _command_text(text: str) -> str:
    """Text that cannot end a workflow command (docs.github.com, "Workflow commands")."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def end_sentence(result: CheckResult) -> str:
    """How serving ended, which no limit is about."""
    return f"Serving ended later, which is not checked: {result.serving_end}"
