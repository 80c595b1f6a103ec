"""The four things a person wants to see at once."""

from __future__ import annotations

from typing import Any

import pandas as pd
import streamlit as st

from dashboard import data, frames, widgets
from dashboard.budget import Step, budget_steps
from dashboard.charts_buckets import bucket_map, bucket_text, choose_axes
from dashboard.charts_memory import budget_waterfall
from dashboard.charts_steps import capture_bars, stage_bars
from dashboard.charts_time import phase_bars
from warmup_insights.storage import RunRecord

TITLE = "Overview"


def has_content(summary: dict[str, Any]) -> bool:
    """Every run has one."""
    return True


def show(run: RunRecord, summary: dict[str, Any]) -> None:
    """Coverage, graph memory, captures, sampler and defragmenter, time."""
    left, right = st.columns(2)
    with left:
        _coverage(run, summary)
    with right:
        _memory(summary)
    left, right = st.columns(2)
    with left:
        _captures(summary)
    with right:
        _stages(summary)
    _time(summary)


def _coverage(run: RunRecord, summary: dict[str, Any]) -> None:
    buckets, names = data.buckets(run), data.dimensions(run)
    for phase in buckets["phase"].unique():
        rows = buckets[buckets["phase"] == phase]
        size = len(rows["bucket"].iloc[0])
        rows = rows[[len(bucket) == size for bucket in rows["bucket"]]]
        axes = choose_axes(
            list(rows["bucket"]), frames.names_for(size, names.get(phase))
        )
        widgets.chart(
            bucket_map(rows, axes, dark=widgets.is_dark()),
            rows.assign(bucket=[bucket_text(bucket) for bucket in rows["bucket"]]),
            key=f"coverage-{phase}",
            title=f"{str(phase).capitalize()} buckets",
            hint="Each cell is a bucket; pale cells were declared and nothing more.",
            simulated=widgets.provenance(summary),
        )


def _memory(summary: dict[str, Any]) -> None:
    steps = budget_steps(summary)
    if not steps:
        return
    widgets.chart(
        budget_waterfall(steps, dark=widgets.is_dark()),
        steps_frame(steps),
        key="budget",
        title="Memory budget",
        hint="From the whole device down to what is left for the KV cache.",
        simulated=widgets.provenance(summary),
    )


def steps_frame(steps: list[Step]) -> pd.DataFrame:
    """The waterfall as a table."""
    return pd.DataFrame(
        [(step.name, step.kind, step.size_bytes) for step in steps],
        columns=["step", "kind", "bytes"],
    )


def _captures(summary: dict[str, Any]) -> None:
    captures = frames.capture_frame(summary)
    if captures.empty:
        return
    widgets.chart(
        capture_bars(captures, dark=widgets.is_dark()),
        captures,
        key="captures",
        title="Captured",
        hint="Shares of the generated buckets.",
        simulated=widgets.provenance(summary),
    )


def _stages(summary: dict[str, Any]) -> None:
    if not summary["sampler"] and not summary["defrag"]:
        return
    widgets.chart(
        stage_bars(summary, dark=widgets.is_dark()),
        pd.DataFrame(
            [
                (name, (summary[name] or {}).get("status"), (summary[name] or {}).get("duration_s"))
                for name in ("sampler", "defrag")
            ],
            columns=["stage", "status", "duration_s"],
        ),
        key="stages",
        title="Sampler and defragmenter warm-up",
        hint="How long each took.",
        simulated=widgets.provenance(summary),
    )  # fmt: skip


def _time(summary: dict[str, Any]) -> None:
    phases = frames.phases_frame(summary)
    if phases.empty:
        return
    totals = frames.phase_totals(phases)
    widgets.chart(
        phase_bars(totals, dark=widgets.is_dark()),
        totals,
        key="phases",
        title="Where the time went",
        hint="Hatched time is between two log lines that no phase explains.",
        simulated=widgets.provenance(summary),
    )
