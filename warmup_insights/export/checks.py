"""Check results as text: for the terminal, as Markdown and as JUnit XML."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from warmup_insights.analysis.check import CheckResult, LimitResult
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


_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_text(result: CheckResult) -> str:
    """The XML of a check. A broken limit is a failure, an unknown one an error."""
    outcomes = [item.outcome for item in result.results]
    suite = ET.Element(
        "testsuite",
        name="warmup-insights check",
        tests=str(len(outcomes)),
        failures=str(outcomes.count("broken")),
        errors=str(outcomes.count("unknown")),
        skipped="0",
    )
    for item in result.results:
        case = ET.SubElement(
            suite, "testcase", classname=_clean(f"run {result.run_id}"),
            name=_clean(f"{item.name} {item.limit}"),
        )  # fmt: skip
        if item.outcome != "passed":
            kind = "failure" if item.outcome == "broken" else "error"
            problem = ET.SubElement(
                case, kind, message=_clean(limit_sentence(item)), type=item.outcome
            )
            problem.text = _clean(limit_sentence(item))
    root = ET.Element("testsuites")
    root.append(suite)
    ET.indent(root)
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def limit_sentence(item: LimitResult) -> str:
    """A result in words."""
    value = format_figure(item.value, item.unit)
    bound = format_figure(item.bound, item.unit)
    text = f"{item.title} is {value}, limit {item.limit}"
    if item.baseline is not None:
        text += f" of {format_figure(item.baseline, item.unit)} = {bound}"
    return f"{text}: {item.reason}" if item.reason else text


def _clean(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return _INVALID.sub("\N{REPLACEMENT CHARACTER}", text)
