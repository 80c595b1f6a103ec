"""Advice and the results of a check as text: for the terminal, as Markdown, as JUnit XML."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

from warmup_insights.analysis.check import FAILED, CheckResult, LimitResult
from warmup_insights.export.tables import (
    TextTable,
    escape_markdown,
    make_table,
    markdown_table,
    plain,
)
from warmup_insights.model.figures import format_figure
from warmup_insights.units import format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from warmup_insights.analysis.advice import Finding, Rule


def number_text(name: str, value: float | int | str) -> str:
    """A number behind an advice, in the unit that its name ends with."""
    if isinstance(value, str):
        return plain(value)
    if name.endswith("_bytes") or name.startswith("bytes_per_"):
        return format_bytes(value)
    if name.endswith("_s"):
        return format_duration(value)
    return format_count(value) if isinstance(value, int) else f"{value:.4g}"


def finding_lines(finding: Finding, run: str) -> list[str]:
    """A finding as lines: what, why, what to do, what that brings, details."""
    numbers = ", ".join(
        f"{name}={number_text(name, value)}" for name, value in finding.numbers.items()
    )
    lines = [f"{finding.severity.upper()}  {plain(finding.title)}"]
    lines += [
        f"  {name.lower():<6}  {plain(text)}"
        for name, text in finding_pairs(finding, run)
    ]
    lines.append(f"  based on  {numbers}  [{finding.rule}]")
    return lines + [f"    {_detail(line)}" for line in finding.details]


def finding_pairs(finding: Finding, run: str) -> list[tuple[str, str]]:
    """What a finding proposes, a name and its text, with `run` in the commands of it."""
    pairs = [
        ("Advice", finding.suggestion), ("Effect", finding.effect),
        ("Gain", _gain_text(finding)), ("Price", finding.price),
        *(
            ("Not" if way.kind == "no help" else "Or",
             f"{way.suggestion}: {way.price}")
            for way in finding.ways
        ),
    ]  # fmt: skip
    named = f" {shlex.quote(run)}`"
    return [(name, text.replace(" RUN`", named)) for name, text in pairs if text]


def _gain_text(finding: Finding) -> str:
    """The range that the next start saves; empty where it is not known."""
    if finding.gain_s is None:
        return ""
    least, most = (format_duration(seconds) for seconds in finding.gain_s)
    return f"{most} less" if least == most else f"{least} to {most} less"


def _detail(line: str) -> str:
    """A detail with its indentation, which YAML needs."""
    text = line.lstrip(" ")
    return " " * (len(line) - len(text)) + plain(text)


def findings_markdown(run_id: str, findings: Sequence[Finding]) -> str:
    """Findings in Markdown."""
    parts = [f"## Advice for run {escape_markdown(run_id)}\n"]
    if not findings:
        parts.append("No findings.\n")
    for finding in findings:
        parts.append(f"- **{escape_markdown(finding.title)}** ({finding.severity})")
        parts += [
            f"  - {name}: {escape_markdown(text)}"
            for name, text in finding_pairs(finding, run_id)
        ]
        if finding.details:
            block = "\n".join(f"    {_detail(line)}" for line in finding.details)
            parts.append(f"\n    ```\n{block}\n    ```\n")
    return "\n".join(parts) + "\n"


def rule_markdown(rule: Rule) -> str:
    """A rule as a section of Markdown: what of its fields is filled."""
    fields = (
        ("Applies when", rule.applies_when), ("Needs", rule.needs),
        ("Formula", rule.formula), ("Margin", rule.margin), ("Source", rule.source),
        ("Example", rule.example),
    )  # fmt: skip
    lines = [f"- {name}: {text}" for name, text in fields if text]
    return "\n".join([f"### {rule.name}", "", *lines]) + "\n"


def rules_table(rules: Iterable[tuple[str, str, str]]) -> TextTable:
    """The list of rules: name, when it applies, which figures it needs."""
    header = ("rule", "applies when", "needs")
    return make_table("Rules", header, rules)


def check_table(result: CheckResult) -> TextTable:
    """One row per limit, what does not hold first."""
    order = {"broken": 0, "unknown": 1, "passed": 2}
    rows = [
        (
            item.title,
            _value_text(item),
            item.limit,
            "" if item.name == FAILED else format_figure(item.bound, item.unit),
            "" if item.baseline is None else format_figure(item.baseline, item.unit),
            item.outcome,
            item.reason,
        )
        for item in sorted(result.results, key=lambda item: order[item.outcome])
    ]
    header = ("figure", "run", "limit", "bound", "baseline", "result", "why")
    return make_table("Limits", header, rows, right=(1, 3, 4))


def _value_text(item: LimitResult) -> str:
    return item.text or format_figure(item.value, item.unit)


def check_markdown(result: CheckResult) -> str:
    """The table in Markdown under a line with the result."""
    against = f" against baseline `{result.baseline_id}`" if result.baseline_id else ""
    head = (
        f"## Warm-up check of run `{result.run_id}`{against}\n\n{result.verdict}.\n\n"
    )
    end = f"\n{escape_markdown(end_sentence(result))}\n" if result.serving_end else ""
    return head + markdown_table(check_table(result)) + end


def github_annotations(result: CheckResult) -> list[str]:
    """Workflow commands of GitHub Actions, one error for each limit that does not hold."""
    return [
        f"::error title=Warm-up check::{_command_text(item.title)} {item.outcome}: "
        f"{_command_text(_value_text(item))}, "
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
    value = _value_text(item)
    bound = format_figure(item.bound, item.unit)
    text = f"{item.title} is {value}, limit {item.limit}"
    if item.baseline is not None:
        text += f" of {format_figure(item.baseline, item.unit)} = {bound}"
    return f"{text}: {item.reason}" if item.reason else text


def _clean(text: str) -> str:
    """Text without characters that XML cannot hold."""
    return _INVALID.sub("\N{REPLACEMENT CHARACTER}", text)
