"""Check results as JUnit XML: one test case per limit."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from warmup_insights.analysis.check import CheckResult, LimitResult
from warmup_insights.model.figures import format_figure

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
