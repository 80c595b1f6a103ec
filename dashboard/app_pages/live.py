"""Live: runs that are being recorded or followed, refreshed by themselves."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pandas as pd
import streamlit as st

from dashboard import data, shown, widgets
from dashboard.charts.base import Picture
from dashboard.charts.memory import memory_line, memory_points
from dashboard.logs import follow_form, read_followed
from dashboard.server import read_settings
from dashboard.shown import Headline, figure
from dashboard.text import markdown
from warmup_insights.analysis.remaining import remaining
from warmup_insights.analysis.sentences import progress_text, start_sentences
from warmup_insights.analysis.summary import Folded
from warmup_insights.model.figures import text_of
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import Progress, RunSummary
from warmup_insights.runs import earlier_run
from warmup_insights.units import format_bytes, format_duration

Point = tuple[float, int]
"""Seconds since the start and bytes in use."""
EVERY_S = 2.0
SHORTEST_ALARM_S = 10.0
"""A shorter time without an event is never worth an alarm."""
ALARM_TIMES = 2.0
"""Buckets that grow take longer one after the other: only so many times the longest time
without an event is worth an alarm."""


def render() -> None:
    """Show the page."""
    st.title("Live", anchor=False)
    if read_settings().allow_paths:
        follow_form()
    _refreshed()


@st.fragment(run_every=EVERY_S)
def _refreshed() -> None:
    with widgets.guarded():
        for path, error in read_followed(data.store()):
            if error is not None:
                st.error(markdown(f"{path}: {error}"))
        runs = data.going_on()
        _just_finished(runs)
        if not runs:
            widgets.empty(
                "Nothing is going on",
                "Runs appear here while they are recorded or while a growing log is "
                "followed:",
                "warmup-insights ingest --follow server.log\nwarmup-insights run\n"
                "warmup-insights vllm serve MODEL",
            )
            return
        for run in runs:
            _show(run)
        st.caption(f"Refreshed every {EVERY_S:g} s.")


def _just_finished(runs: list[RunRecord]) -> None:
    """Runs that this visitor saw going on and that are no more."""
    seen: dict[str, None] = st.session_state.setdefault("live-seen", {})
    going_on = {run.run_id for run in runs}
    for run_id in [run_id for run_id in seen if run_id not in going_on][-3:]:
        with st.container(horizontal=True, vertical_alignment="center", border=True):
            status = data.status_of(run_id)
            if status is None:
                continue
            run = data.store().run(run_id)
            summary = data.summary(run)
            sentence = start_sentences(summary)[0]
            st.markdown(markdown(f"{run.name}: {sentence}"), width="content")
            widgets.status_badges(status, summary)
            widgets.open_run(run_id)
    seen.update(dict.fromkeys(going_on))


def _show(run: RunRecord) -> None:
    now = time.time()
    status = run.status_at(now)
    folded = data.folded(run)
    with st.container(border=True):
        head = st.container(horizontal=True, vertical_alignment="center")
        with head:
            st.subheader(markdown(run.name), anchor=False, width="content")
            widgets.status_badges(status, folded.summary)
            made_up = shown.provenance(run)
            if made_up is not None:
                st.badge(made_up, color="gray")
            widgets.open_run(run.run_id)
        _bar(folded.summary.progress)
        points = memory_points(folded)
        _numbers(run, folded, now if status == "running" else None, points)
        with st.container():  # keeps its place, so that an alarm moves no chart
            _alarm(run, folded.summary.progress, now)
        _memory(run, folded, points)


def _bar(here: Progress) -> None:
    words, share = progress_text(here), 0.0
    if here.index is not None and here.total:
        share = min(1.0, here.index / here.total)
    if here.finished_at is not None:
        share = 1.0
    st.progress(share, text=markdown(words[0].upper() + words[1:]))


def _so_far(run: RunRecord, summary: RunSummary, now: float | None) -> list[Headline]:
    """Time since the start: of a recorder that is in it to now, else to the last event."""
    started = summary.time.started
    is_in_start = run.source_kind == "recorder" and summary.time.ready_at is None
    if now is None or started is None or not is_in_start or started > now:
        return figure(summary, "wall_s", title="So far")
    return [Headline("So far", format_duration(now - started))]


def _numbers(
    run: RunRecord, folded: Folded, now: float | None, points: Sequence[Point]
) -> None:
    summary = folded.summary
    earlier = earlier_run(data.store(), run)
    left = remaining(folded, None if earlier is None else data.folded(earlier))
    basis = None
    if left is not None:
        basis = (
            f"like run {earlier.run_id[:6]}"
            if left.basis == "earlier run" and earlier is not None
            else "of this stage, at this pace"
        )
    phases = [
        phase for phase in summary.buckets or {} if summary.phase(phase).generated
    ]
    counts = [f"{text_of(summary, f'{p}_generated')} {p}" for p in phases]
    used, total = summary.progress.used_bytes, text_of(summary, "total_bytes")
    notes = [] if total == "?" else [f"of {total}"]
    if used is None and points:  # a stage since then took or gave back memory
        used, notes = points[-1][1], ["when last read", *notes]
    widgets.headline(
        [
            *_so_far(run, summary, now),
            Headline(
                "Time left", "?" if left is None else format_duration(left.seconds),
                "From the last finished run of the same model on the same device, else "
                "from the last steps of this one",
                basis,
            ),
            Headline(
                "Memory in use", format_bytes(used),
                note=", ".join(notes) or None,
            ),
            Headline("Buckets", ", ".join(counts) or "?"),
        ]
    )  # fmt: skip


def _alarm(run: RunRecord, here: Progress, now: float) -> None:
    if run.is_interrupted(now):
        st.error(
            "The recorder stopped writing: its process is gone or stopped. What it wrote "
            "until then is kept.",
            icon=":material/error:",
        )
        return
    last = here.last_at if run.source_kind == "recorder" else run.updated_at
    if run.status != "running" or last is None:
        return
    quiet_s = now - last
    if quiet_s > max(SHORTEST_ALARM_S, ALARM_TIMES * here.longest_silence_s):
        st.warning(
            f"No event for {format_duration(quiet_s)}; the longest time without one so "
            f"far was {format_duration(here.longest_silence_s)}. It may hang, or compile "
            "something large.",
            icon=":material/notification_important:",
        )


def _memory(run: RunRecord, folded: Folded, points: Sequence[Point]) -> None:
    if len(points) < 2:
        return
    total = folded.summary.memory_or_none.total_bytes
    until_s = max(points[-1][0], folded.summary.time.wall_s or 0.0)
    picture = Picture(
        "Device memory",
        "In use since the start, as far as the run states it.",
        pd.DataFrame(points, columns=["since_start_s", "used_bytes"]),
        lambda _: memory_line(points, total, until_s),
    )
    made_up = shown.provenance(run)
    widgets.chart(picture, key=f"memory-{run.run_id}", simulated=made_up)


with widgets.guarded():
    render()
