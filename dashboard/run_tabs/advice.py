"""What to change, with the numbers behind it: the findings of `advise`."""

from __future__ import annotations

from typing import Literal

import streamlit as st

from dashboard import data, widgets
from dashboard.run_tabs.view import View
from dashboard.text import markdown, sentence, visible
from warmup_insights.analysis.advice import Finding
from warmup_insights.export.findings import findings_markdown, gain_text, number_text
from warmup_insights.model.summary import RunSummary

TITLE = "Advice"
_COLOURS: dict[str, Literal["red", "orange", "gray"]] = {
    "high": "red",
    "medium": "orange",
    "low": "gray",
}


FIRST = 3
NO_CHANGE = (
    "No change can be computed: the figures that one would rest on are not stated by "
    "this start."
)


def has_content(summary: RunSummary) -> bool:
    """Always: that there is nothing to advise is a result, too."""
    return True


def show(view: View) -> None:
    """One card per finding, the most important first."""
    findings = data.findings(data.store(), view.run)
    if not findings:
        if view.summary.status == "failed":
            st.markdown(NO_CHANGE)
            return
        widgets.empty(
            "Nothing to advise",
            "No rule applies to this run. A rule needs its figures: it does not apply "
            "when one is unknown or contradictory. These are the rules:",
            "warmup-insights advise --rules",
        )
        return
    for finding in findings:
        card(finding, view)
    st.download_button(
        "Markdown", findings_markdown(view.run.run_id, findings), "advice.md",
        "text/markdown", on_click="ignore", type="tertiary", icon=":material/download:",
        key=view.key("advice"), help="What `warmup-insights advise --markdown` prints",
    )  # fmt: skip


def first(view: View) -> None:
    """The most important findings beside each other: what to change, and what for."""
    findings = data.findings(data.store(), view.run)[:FIRST]
    if not findings:
        return
    for place, finding in zip(st.columns(len(findings)), findings, strict=True):
        with place.container(border=True, gap="xsmall", height="stretch"):
            st.badge(finding.severity, color=_COLOURS[finding.severity])
            st.markdown(f"**{sentence(finding.suggestion, 200)}**")
            gain = f"{gain_text(finding)}. " if finding.gain_s else ""
            st.markdown(gain + markdown(finding.effect, 200))
            st.caption(markdown(finding.title, 200))


def card(finding: Finding, view: View) -> None:
    """A finding: what to change, its effect, gain and price, other ways, its figures."""
    with st.container(border=True, gap="xsmall"):
        head = st.container(horizontal=True, vertical_alignment="center", gap="small")
        head.markdown(f"**{markdown(finding.title, 300)}**", width="content")
        head.badge(finding.severity, color=_COLOURS[finding.severity])
        if view.simulated is not None:
            head.badge(view.simulated, color="gray")
        st.markdown(f"**Change** {sentence(finding.suggestion, 1000)}")
        st.markdown(f"**Effect** {markdown(finding.effect, 1000)}")
        if finding.gain_s:
            st.markdown(f"**Gain** {gain_text(finding)}")
        if finding.price:
            st.markdown(f"**Price** {markdown(finding.price, 1000)}")
        for way in finding.ways:
            st.markdown(f"**Or** {markdown(f'{way.suggestion}: {way.price}', 1000)}")
        numbers = ", ".join(
            f"{name} {number_text(name, value)}"
            for name, value in finding.numbers.items()
        )
        st.caption(f"Rests on {markdown(numbers, 1000)}.")
        if finding.details:
            lines = [visible(line, 300) for line in finding.details]
            st.code("\n".join(lines), language=None)
