"""Advice as text: for the terminal and for Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from warmup_insights.analysis.advice import Finding, Rule
from warmup_insights.export.tables import (
    TextTable,
    escape_markdown,
    make_table,
    plain,
)
from warmup_insights.units import format_bytes, format_count, format_duration


def number_text(name: str, value: float | int | str) -> str:
    """A number behind an advice, in the unit that its name ends with."""
    if isinstance(value, str):
        return plain(value)
    if name.endswith("_bytes") or name.startswith("bytes_per_"):
        return format_bytes(value)
    if name.endswith("_s"):
        return format_duration(value)
    return format_count(value) if isinstance(value, int) else f"{value:.4g}"


def finding_lines(finding: Finding) -> list[str]:
    """A finding as lines: what, why, what to do, what that brings, details."""
    numbers = ", ".join(
        f"{name}={number_text(name, value)}" for name, value in finding.numbers.items()
    )
    lines = [
        f"{finding.severity.upper()}  {plain(finding.title)}",
        f"  change  {plain(finding.suggestion)}",
        f"  effect  {plain(finding.effect)}",
    ]
    lines += [f"  gain    {gain_text(finding)}"] if finding.gain_s else []
    lines += [f"  price   {plain(finding.price)}"] if finding.price else []
    lines += [
        f"  or      {plain(way.suggestion)}: {plain(way.price)}" for way in finding.ways
    ]
    lines.append(f"  based on  {numbers}  [{finding.rule}]")
    return lines + [f"    {_detail(line)}" for line in finding.details]


def gain_text(finding: Finding) -> str:
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
        parts += [
            f"- **{escape_markdown(finding.title)}** ({finding.severity})",
            f"  - Change: {escape_markdown(finding.suggestion)}",
            f"  - Effect: {escape_markdown(finding.effect)}",
        ]
        parts += [f"  - Gain: {gain_text(finding)}"] if finding.gain_s else []
        parts += (
            [f"  - Price: {escape_markdown(finding.price)}"] if finding.price else []
        )
        parts += [
            f"  - Or: {escape_markdown(f'{way.suggestion}: {way.price}')}"
            for way in finding.ways
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
