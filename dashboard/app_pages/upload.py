"""Upload: logs in, runs out, and what became of every line."""

from __future__ import annotations

from typing import Any, BinaryIO, cast

import streamlit as st

from dashboard import data, follow_form, widgets
from dashboard.text import markdown
from warmup_insights.errors import WarmupInsightsError
from warmup_insights.ingest.outcome import Options, Outcome
from warmup_insights.ingest.single import ingest_file

STATES = {
    "new": "stored",
    "unchanged": "already stored, nothing was added",
    "continued": "has grown since, continued",
    "failed": "could not be read",
}

MAX_FILES = 100
"""Uploads at once; all of them lie in the memory of the server."""


def render() -> None:
    """Show the page."""
    st.title("Upload", anchor=False)
    st.caption(
        "Start-up logs of vLLM on Gaudi or CUDA, as text, .gz, .zst, notebook or JSON. "
        "The same log twice adds nothing."
    )
    files = st.file_uploader(
        "Log files", accept_multiple_files=True, label_visibility="collapsed"
    )
    with st.expander("How to read them"):
        options = _options()
    if data.settings().allow_paths:
        with st.expander("Watch a growing log"):
            st.caption("It is read again and again, and shown on the page Live.")
            if follow_form.show():
                st.switch_page(widgets.LIVE)
    if not files:
        widgets.empty(
            "No file chosen yet",
            "Drag logs onto the field above. The command line does the same:",
            "warmup-insights ingest server.log",
        )
        return
    if len(files) > MAX_FILES:
        st.error(
            f"At most {MAX_FILES} logs can be read at once, these are {len(files)}. "
            "`warmup-insights ingest FOLDER` reads any number."
        )
        return
    outcomes = [_ingested(file, options) for file in files]
    for outcome in outcomes:
        _show(outcome)


def _options() -> Options:
    left, middle, right = st.columns(3)
    year = left.text_input(
        "Year", help="For stamps without one; else the newest possible"
    )
    zone = middle.text_input(
        "Time zone of the stamps", placeholder="unknown, taken as UTC"
    )
    label = right.text_input("Label for the new runs")
    is_synthetic = st.checkbox("These logs are made up or simulated")
    return Options(
        year=int(year) if year.strip().isdigit() else None,
        timezone=zone.strip() or None,
        label=label.strip() or None,
        synthetic=is_synthetic,
    )


def _ingested(file: Any, options: Options) -> Outcome:
    file.seek(0)
    size = max(file.size, 1)
    bar = st.progress(0.0, text=f"Reading {markdown(file.name, 80)}")
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        bar.progress(
            min(1.0, done / size / 2), text=f"Reading {markdown(file.name, 80)}"
        )

    try:
        return ingest_file(
            data.store(), cast(BinaryIO, file), file.name, options, progress=progress
        )
    except WarmupInsightsError as error:
        return Outcome(file.name, state="failed", error=str(error))
    finally:
        bar.empty()


def _show(outcome: Outcome) -> None:
    report = outcome.report
    with st.container(border=True, gap="small"):
        head = st.container(horizontal=True, vertical_alignment="center")
        head.markdown(f"**{markdown(outcome.path, 80)}**", width="content")
        head.badge(
            STATES[outcome.state], color="red" if outcome.error is not None else "green"
        )
        if outcome.error is not None:
            st.error(markdown(outcome.error, 600))
            return
        _counts(report)
        for problem in report.get("problems", []):
            st.warning(markdown(problem, 600))
        _links(outcome)
        _unknown(report)


def _counts(report: dict[str, Any]) -> None:
    widgets.headline(
        [
            widgets.Headline("Lines", f"{report.get('lines', 0):,}"),
            widgets.Headline("Events", f"{report.get('events', 0):,}"),
            widgets.Headline(
                "Unknown but relevant", f"{report.get('unknown', 0):,}",
                "Lines that look like start-up and match no rule",
            ),
            widgets.Headline("Not convertible", f"{report.get('failed', 0):,}"),
            widgets.Headline("Dialects", ", ".join(report.get("dialects", [])) or "none"),
        ]
    )  # fmt: skip


def _links(outcome: Outcome) -> None:
    if not outcome.run_ids:
        st.info("No start-up was found in this file.")
        return
    row = st.container(horizontal=True)
    for run_id in outcome.run_ids:
        row.page_link(
            widgets.RUN, label=f"Open run {run_id}", icon=":material/speed:",
            query_params={"run": run_id},
        )  # fmt: skip


def _unknown(report: dict[str, Any]) -> None:
    lines = [*report.get("unknown_lines", [])]
    lines += [(line, text) for line, _, text in report.get("failed_lines", [])]
    if lines:
        with st.expander(f"Lines that were not understood (first {len(lines)})"):
            st.dataframe(
                {
                    "line": [line for line, *_ in lines],
                    "text": [row[1] for row in lines],
                },
                hide_index=True,
            )


with widgets.guarded():
    render()
