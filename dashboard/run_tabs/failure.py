"""Why a run failed: the cause, the memory at that moment, the change, the evidence."""

from __future__ import annotations

import pandas as pd
import streamlit as st

from dashboard import comparing, data, widgets
from dashboard.charts.memory import budget_waterfall, failed_with, failure_frame
from dashboard.run_tabs import advice
from dashboard.run_tabs.view import View
from dashboard.text import markdown, visible
from warmup_insights.analysis.compare import compare
from warmup_insights.analysis.sentences import phase_words
from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import FailureFacts, RunSummary
from warmup_insights.runs import earlier_run
from warmup_insights.units import format_bytes

TITLE = "Failure"
LINES_BEFORE, LINES_AFTER = 8, 4
_BESIDE = (
    "wall_s", "weights_bytes", "profile_bytes", "free_bytes", "usable_bytes",
    "graph_reserved_bytes", "graph_memory_bytes", "kv_cache_bytes", "num_kv_blocks",
)  # fmt: skip


def has_content(summary: RunSummary) -> bool:
    """Whether the start or the serving after it failed."""
    return failed_with(summary) is not None


def show(view: View) -> None:
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
    facts = [("Stage", phase_words((cause.phase or progress.stage).replace(" ", "_")))]
    if cause.bucket is not None:
        facts.append(("Bucket", str(cause.bucket)))
    if progress.total:
        facts.append(("Step", f"{progress.index} of {progress.total}"))
    texts = [f"{name} **{markdown(text.replace('_', ' '))}**" for name, text in facts]
    st.markdown("  \u00b7  ".join(texts))


def _change(view: View) -> None:
    findings = data.findings(data.store(), view.run)
    if findings:
        advice.card(findings[0], view)
        return
    with widgets.card("What to change"):
        st.markdown(advice.NO_CHANGE)


def _memory(view: View) -> None:
    steps = failure_frame(view.summary)
    if steps.empty:
        widgets.empty(
            "Memory at the failure",
            "Neither the error nor the start-up states any size.",
        )
        return
    widgets.chart(
        budget_waterfall(steps, dark=view.dark), steps,
        key=view.key("failure"), title="Memory at the failure",
        hint=_short(view.summary),
        simulated=view.simulated,
    )  # fmt: skip


def _short(summary: RunSummary) -> str:
    """What was requested against what was free, in a sentence."""
    cause = failed_with(summary)
    free, asked = (cause.free_bytes, cause.needed_bytes) if cause else (None, None)
    if free is None or asked is None:
        return "As far as it is stated."
    sizes = f"{format_bytes(asked)} asked for, {format_bytes(free)} free"
    short = f": {format_bytes(asked - free)} short" if asked > free else ""
    return f"{sizes}{short}. What was asked for begins where free memory begins."


def _evidence(view: View) -> None:
    """The line of the error as it is, and the kept lines around it."""
    cause = failed_with(view.summary)
    found = data.source(view.run)
    line = cause.line if cause is not None else None
    with widgets.card("Evidence", None if line is None else f"Line {line} of the log."):
        if cause is not None and cause.message:
            st.code(visible(cause.message, 2000), language=None, wrap_lines=True)
        if found is None or line is None:
            return
        lines = found[1]
        before = lines[lines["line"] < line].tail(LINES_BEFORE)
        after = lines[lines["line"] >= line].head(LINES_AFTER)
        near = pd.concat([before, after])
        if len(near):
            st.caption("The lines around it that matched a rule or look relevant:")
            st.code(
                "\n".join(
                    f"{row['line']:>6}  {visible(row['text'], 240)}"
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
    widgets.table(
        table, key=view.key("last-good"), title="The last good start of this model",
        hint=f"{markdown(other.name, 60)}: settings that differ, then figures "
        "that both state.", simulated=view.simulated,
    )  # fmt: skip
    st.page_link(
        widgets.COMPARE, label="Compare in full", icon=":material/compare_arrows:",
        query_params={"run": [other.run_id, view.run.run_id]},
    )  # fmt: skip
