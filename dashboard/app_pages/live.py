"""Live: runs that are being recorded or followed, refreshed by themselves."""

from __future__ import annotations

import time

import pandas as pd
import streamlit as st

from dashboard import data, follow_form, following, frames, progress, widgets
from dashboard.charts_live import memory_line
from dashboard.progress import Journey
from dashboard.text import markdown
from dashboard.widgets import Figures
from warmup_insights.model.run import RunRecord
from warmup_insights.units import format_bytes, format_count, format_duration

EVERY_S = 2.0


def render() -> None:
    """Show the page."""
    st.title("Live", anchor=False)
    if data.settings().allow_paths:
        follow_form.show()
    _refreshed()


@st.fragment(run_every=EVERY_S)
def _refreshed() -> None:
    with widgets.guarded():
        for path, error in following.step(data.store()):
            if error is not None:
                st.error(markdown(f"{path}: {error}", 600))
        runs = data.going_on()
        _just_finished(runs)
        if not runs:
            _nothing()
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
            st.markdown(f"Run {run_id}", width="content")
            widgets.status_badge(status)
            st.page_link(
                widgets.RUN, label="Open", icon=":material/speed:",
                query_params={"run": run_id},
            )  # fmt: skip
    seen.update(dict.fromkeys(going_on))


def _nothing() -> None:
    widgets.empty(
        "Nothing is going on",
        "Runs appear here while they are recorded or while a growing log is followed:",
        "warmup-insights ingest --follow server.log\nwarmup-insights run\n"
        "warmup-insights vllm serve MODEL",
    )


def _show(run: RunRecord) -> None:
    now = time.time()
    here = data.journey(run)
    earlier = data.earlier_run(run)
    status = run.status_at(now)
    name = frames.name_of(run)
    with st.container(border=True):
        head = st.container(horizontal=True, vertical_alignment="center")
        with head:
            st.markdown(f"#### {markdown(name, 60)}", width="content")
            widgets.status_badge(status)
            made_up = "simulated device" if run.device_kind == "simulated" else None
            if made_up or run.synthetic:
                st.badge(made_up or "synthetic data", color="gray")
            st.page_link(
                widgets.RUN, label="Open", query_params={"run": run.run_id},
                icon=":material/speed:",
            )  # fmt: skip
        _bar(here)
        _numbers(run, here, earlier)
        _alarm(run, here, now, status)
        _memory(run, here)


def _bar(here: Journey) -> None:
    words = here.doing
    if here.index is not None and here.total is not None:
        words += f", bucket {format_count(here.index)} of {format_count(here.total)}"
    st.progress(progress.percent_done(here), text=markdown(words, 120))


def _numbers(run: RunRecord, here: Journey, earlier: RunRecord | None) -> None:
    left = progress.remaining(here, None if earlier is None else data.journey(earlier))
    spent = None
    if here.started_at is not None and here.last_at is not None:
        spent = here.last_at - here.started_at
    basis = None
    if left is not None:
        basis = (
            f"like run {earlier.run_id[:6]}"
            if left.basis == "earlier run" and earlier is not None
            else "of this stage, at this pace"
        )
    used = here.memory[-1][1] if here.memory else None
    widgets.headline(
        [
            Figures("So far", format_duration(spent)),
            Figures(
                "Time left", "?" if left is None else format_duration(left.seconds),
                "From the last finished run of the same model on the same device, else "
                "from the last steps of this one",
                basis,
            ),
            Figures(
                "Memory in use", format_bytes(used),
                note=f"of {format_bytes(here.total_bytes)}" if here.total_bytes else None,
            ),
            Figures(
                "Buckets", format_count(sum(here.buckets.values())) if here.buckets else "?"
            ),
        ]
    )  # fmt: skip


def _alarm(run: RunRecord, here: Journey, now: float, status: str) -> None:
    if status == "interrupted":
        st.error(
            "The recorder has gone silent: its process is gone or stopped. What it wrote "
            "until then is kept.",
            icon=":material/error:",
        )
        return
    heard = here.last_at if run.source_kind == "recorder" else run.updated_at
    if status != "running" or heard is None:
        return
    silent, limit = now - heard, progress.silence_limit(here)
    if silent > limit:
        st.warning(
            f"Nothing was heard for {format_duration(silent)}; the longest step so far "
            f"took {format_duration(here.longest_silence_s)}. It may hang, or compile "
            "something large.",
            icon=":material/notification_important:",
        )


def _memory(run: RunRecord, here: Journey) -> None:
    if len(here.memory) < 2 or here.started_at is None:
        return
    points = [(at - here.started_at, size) for at, size in here.memory]
    widgets.chart(
        memory_line(points, here.total_bytes, dark=widgets.is_dark()),
        pd.DataFrame(points, columns=["since_start_s", "used_bytes"]),
        key=f"memory-{run.run_id}", title="Device memory",
        hint="In use since the start, as far as the run says it.",
        simulated="simulated device" if run.device_kind == "simulated" else None,
    )  # fmt: skip


with widgets.guarded():
    render()
