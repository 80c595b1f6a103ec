"""Advice: what to change. A failure: its cause, the memory then, the evidence."""

from __future__ import annotations

from typing import Literal

import pandas as pd
import streamlit as st

from dashboard import comparing, data, widgets
from dashboard.charts.base import Picture
from dashboard.charts.memory import budget_waterfall, failed_with, failure_frame
from dashboard.shown import evidence_text
from dashboard.text import WHOLE, markdown, sentence, short_name, visible
from dashboard.widgets import View
from warmup_insights.analysis.advice import Finding
from warmup_insights.analysis.advice.facts import unjudged
from warmup_insights.analysis.compare import compare
from warmup_insights.export.findings import finding_pairs, findings_markdown
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.phases import phase_words
from warmup_insights.model.summary import FailureFacts, RunSummary
from warmup_insights.runs import earlier_run
from warmup_insights.units import format_bytes

_COLOURS: dict[str, Literal["red", "orange", "gray"]] = {
    "high": "red",
    "medium": "orange",
    "low": "gray",
}

FIRST = 3
MOST_LINES = 6
"""Of a finding among others; more of them scroll."""
NO_CHANGE = (
    "No change can be computed: the figures that one would rest on are not stated by "
    "this start."
)


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
            f"when one is unknown or contradictory. {_unjudged(view)}These are the rules:",
            "warmup-insights advise --rules",
        )
        return
    for finding in findings:
        card(finding, view)
    if note := _unjudged(view):
        st.caption(note)
    widgets.download(
        "Markdown", findings_markdown(view.run.run_id, findings), "advice.md",
        "text/markdown", key=view.key("advice"),
        help="What `warmup-insights advise --markdown` prints",
    )  # fmt: skip


def _unjudged(view: View) -> str:
    note = unjudged(view.summary)
    return "" if note is None else f"{note}. "


def first(view: View) -> None:
    """The most important findings beside each other: what was found, what to change."""
    findings = data.findings(data.store(), view.run)[:FIRST]
    if not findings:
        return
    for place, finding in zip(st.columns(len(findings)), findings, strict=True):
        with place:
            card(finding, view, brief=True)


def card(finding: Finding, view: View, *, brief: bool = False) -> None:
    """A finding: what to change, its effect, gain and price, and the lines that it names;
    unless brief other ways, the figures it is based on, and every line."""
    height: Literal["stretch", "content"] = "stretch" if brief else "content"
    with st.container(border=True, gap="xsmall", height=height):
        # Beside each other all badges stand below: inline, only some would.
        head = st.container(
            horizontal=not brief, vertical_alignment="center", gap="small"
        )
        head.markdown(f"**{markdown(finding.title)}**", width="content")
        head.badge(
            finding.severity, color=_COLOURS[finding.severity],
            help="How much can be saved of the start or of the memory, as far as that is "
            "known; high for what failed. What treats the largest part comes first",
        )  # fmt: skip
        if view.simulated is not None and not brief:
            head.badge(view.simulated, color="gray")
        for name, text in finding_pairs(finding, view.run.run_id):
            if not brief or name not in ("Not", "Or"):
                st.markdown(f"**{name}** {sentence(text)}")
        if not brief:
            st.caption(f"Based on {markdown(evidence_text(finding))}.")
        if finding.details and (not brief or finding.suggests_details):
            lines = [visible(line) for line in finding.details]
            is_long = brief and len(lines) > MOST_LINES
            st.code(
                "\n".join(lines), language=None, wrap_lines=True,
                height=150 if is_long else "content",
            )  # fmt: skip


LINES_BEFORE, LINES_AFTER = 8, 4
_FRAME = r'\bFile "[^"]{1,300}", line \d{1,7}'
_BESIDE = (
    "wall_s", "weights_bytes", "profile_bytes", "free_bytes", "usable_bytes",
    "graph_reserved_bytes", "graph_memory_bytes", "kv_cache_bytes", "num_kv_blocks",
)  # fmt: skip


def has_failure(summary: RunSummary) -> bool:
    """Whether the start or the serving after it failed."""
    return failed_with(summary) is not None


def show_failure(view: View) -> None:
    """Where it failed, memory then, what to change, its lines, the last good run."""
    _place(view.summary)
    left, right = st.columns(2)
    with left:
        _change(view)
        _evidence(view)
    with right:
        _memory(view)
        _last_good(view)


def _place(summary: RunSummary) -> None:
    """Stage and bucket, and how far the start had come."""
    cause, progress = failed_with(summary), summary.progress
    if not isinstance(cause, FailureFacts):
        st.markdown("The start-up succeeded; this ended the serving after it.")
        return
    stage = "kv_cache" if cause.kind == "no_kv_cache" else progress.stage
    facts = [("Stage", phase_words(cause.phase or stage))]
    if cause.bucket is not None:
        facts.append(("Bucket", str(cause.bucket)))
    if progress.total:
        facts.append(("Step", f"{progress.index} of {progress.total}"))
    texts = [f"{name} **{markdown(text.replace('_', ' '))}**" for name, text in facts]
    st.markdown("  \u00b7  ".join(texts))


def _change(view: View) -> None:
    findings = data.findings(data.store(), view.run)
    if findings:
        card(findings[0], view)
        return
    with widgets.card("What to change"):
        st.markdown(NO_CHANGE)


def _memory(view: View) -> None:
    steps = failure_frame(view.summary)
    if steps.empty:
        widgets.empty(
            "Memory at the failure",
            "Neither the error nor the start-up states any size.",
        )
        return
    cause, hint = failed_with(view.summary), "As far as it is stated."
    free, requested = (cause.free_bytes, cause.needed_bytes) if cause else (None, None)
    if free is not None and requested is not None:
        short = f": {format_bytes(requested - free)} short" if requested > free else ""
        hint = (
            f"{format_bytes(requested)} requested, {format_bytes(free)} free{short}. "
        )
        hint += "A request begins where free memory begins."
    picture = Picture("Memory at the failure", hint, steps, budget_waterfall)
    view.chart(picture, "failure")


def _evidence(view: View) -> None:
    """The line of the error as it is, and the kept lines around it."""
    cause = failed_with(view.summary)
    found = data.source(view.run)
    line = cause.line if cause is not None else None
    with widgets.card("Evidence", None if line is None else f"Line {line} of the log."):
        if cause is not None and cause.message:
            st.code(visible(cause.message, WHOLE), language=None, wrap_lines=True)
        if found is None or line is None:
            return
        lines = found[1]
        if cause is not None and cause.message:
            # A stored line is cut; the message above has all of it.
            starts = [cause.message.startswith(t.strip()) for t in lines["text"]]
            lines = lines[(lines["line"] != line) | ~pd.Series(starts, lines.index)]
        # The frames of the traceback would leave no place for what led to it.
        lines = lines[~lines["text"].str.contains(_FRAME)]
        before = lines[lines["line"] < line].tail(LINES_BEFORE)
        after = lines[lines["line"] >= line].head(LINES_AFTER)
        near = pd.concat([before, after])
        if len(near):
            st.caption("The lines around it that state something or look relevant:")
            st.code(
                "\n".join(
                    f"{row['line']:>6}  {visible(row['text'])}"
                    for row in near.to_dict("records")
                ),
                language=None,
                wrap_lines=True,
            )


def _last_good(view: View) -> None:
    """The last good run of the same model beside this one."""
    other = earlier_run(data.store(), view.run)
    if other is None:
        widgets.empty(
            "The last good start of this model",
            "No finished run of the same model on the same kind of device is stored.",
            "warmup-insights ingest good-start.log",
        )
        return
    good = data.summary(other)
    rows = [
        (
            BY_NAME[name].title,
            BY_NAME[name].text(view.summary),
            BY_NAME[name].text(good),
        )
        for name in _BESIDE
        if None not in (BY_NAME[name].read(view.summary), BY_NAME[name].read(good))
    ]
    columns = ["figure", "this run", "last good one"]
    result = compare([view.summary, good])
    settings = comparing.settings_table(result)
    settings.columns = pd.Index(columns)
    table = pd.concat([settings, pd.DataFrame(rows, columns=columns)])
    view.table(
        table, key="last-good", title="The last good start of this model",
        hint=f"{markdown(short_name(other.name))}: settings that differ, then figures "
        "that both state.",
    )  # fmt: skip
    st.page_link(
        widgets.COMPARE, label="Compare in full", icon=":material/compare_arrows:",
        query_params={"run": [other.run_id, view.run.run_id]},
    )  # fmt: skip
