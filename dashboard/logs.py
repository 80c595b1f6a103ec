"""Logs of visitors: dropped onto a page and read at once, or growing on this server.

A growing log is read whenever its page refreshes, which takes at most a tenth of the time;
the list of them belongs to the session of its visitor.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

import streamlit as st

from dashboard import data, widgets
from dashboard.text import markdown, sentence
from warmup_insights.analysis.sentences import start_sentences
from warmup_insights.errors import WarmupInsightsError
from warmup_insights.ingest.bundles import is_bundle, unpack
from warmup_insights.ingest.many import ingest_files
from warmup_insights.ingest.outcome import YEARS, Options, Outcome, temporary_folder
from warmup_insights.ingest.single import ingest_file, ingest_path
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore

STATES = {
    "new": "stored",
    "unchanged": "already stored, nothing was added",
    "continued": "has grown since, continued",
    "nothing": "no start-up found, nothing was stored",
    "failed": "could not be read",
}

_COLOURS: dict[str, Literal["red", "orange"]] = {"failed": "red", "nothing": "orange"}
MAX_FILES = 100
"""Uploads at once; all of them lie in the memory of the server."""


def upload_field() -> list[Any]:
    """The field that logs are dropped onto; the logs, or none when there are too many."""
    files = st.file_uploader(
        "Drop start-up logs of vLLM here: text, .gz, .zst, notebook, JSON, CSV, .zip or "
        ".tar; one or several",
        accept_multiple_files=True,
    )
    if len(files) > MAX_FILES:
        st.error(
            f"At most {MAX_FILES} logs can be read at once, these are {len(files)}. "
            "`warmup-insights ingest FOLDER` reads any number."
        )
        return []
    return list(files)


def upload_options() -> Options:
    """How the logs are to be read, as chosen in the form."""
    left, middle, right = st.columns(3)
    year = left.number_input(
        "Year", *YEARS, value=None, format="%d",
        help="For timestamps without one; else the newest possible",
    )  # fmt: skip
    zone = middle.text_input(
        "Time zone of the timestamps", placeholder="unknown, taken as UTC"
    )
    label = right.text_input("Label for the new runs")
    is_synthetic = st.checkbox("These logs are made up or simulated")
    return Options(
        year=year,
        timezone=zone.strip() or None,
        label=label.strip() or None,
        synthetic=is_synthetic,
    )


def ingested(files: Sequence[Any], options: Options) -> list[Outcome]:
    """Read logs, and the logs of archives, into the store."""
    found: list[Outcome] = []
    for file in files:
        if is_bundle(file.name):
            found += _of_bundle(file, options)
        else:
            found.append(_ingested(file, options))
    return found


def _of_bundle(file: Any, options: Options) -> list[Outcome]:
    with temporary_folder() as folder:
        logs = unpack(file, file.name, Path(folder))
        paths = [log.path for log in logs if log.path]
        outcomes = ingest_files(data.store(), paths, options)
    done = dict(zip(paths, outcomes, strict=True))
    return [log.outcome(done) for log in logs]


def _ingested(file: Any, options: Options) -> Outcome:
    """Read one log into the store."""
    file.seek(0)
    size = max(file.size, 1)
    bar = st.progress(0.0, text=f"Reading {markdown(file.name)}")
    done = 0

    def progress(count: int) -> None:
        nonlocal done
        done += count
        bar.progress(min(1.0, done / size / 2), text=f"Reading {markdown(file.name)}")

    try:
        return ingest_file(
            data.store(), cast(BinaryIO, file), file.name, options, progress=progress
        )
    except WarmupInsightsError as error:
        return Outcome(file.name, state="failed", error=str(error))
    finally:
        bar.empty()


def show_outcome(outcome: Outcome) -> None:
    """What became of a log, the answer about its runs, and lines not understood."""
    report = outcome.report
    with st.container(gap="xsmall"):
        with st.container(horizontal=True, vertical_alignment="center"):
            _head(outcome)
            if outcome.run_ids:
                st.caption(
                    f"{report.get('lines', 0):,} lines, {report.get('events', 0):,} events, "
                    f"{', '.join(report.get('dialects', [])) or 'no dialect'}",
                    width="content",
                )
        for problem in [outcome.error, *report.get("problems", [])]:
            if problem is not None:
                st.markdown(sentence(problem))
        for run_id in outcome.run_ids:
            _answer(run_id)
        _unknown(report)


def _answer(run_id: str) -> None:
    run = data.store().run(run_id)
    with st.container(horizontal=True, vertical_alignment="center"):
        widgets.open_run(run_id, f"Open run {run_id}")
        answer = start_sentences(data.summary(run))[0]
        st.markdown(markdown(answer), width="stretch")


def _head(outcome: Outcome) -> None:
    with st.container(horizontal=True, vertical_alignment="center", width="content"):
        st.markdown(f"**{markdown(outcome.path)}**", width="content")
        st.badge(STATES[outcome.state], color=_COLOURS.get(outcome.state, "green"))


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


SHARE = 10.0
"""Pause after a reading: so many times what it took."""


@dataclass
class Followed:
    """One log, as it was when it was last read."""

    size: int = -1
    next_at: float = 0.0
    run_ids: list[str] = field(default_factory=list)


def _followed() -> dict[str, Followed]:
    found: dict[str, Followed] = st.session_state.setdefault("followed", {})
    return found


def read_followed(store: EventStore) -> list[tuple[str, str | None]]:
    """Read what has grown; every log with what went wrong, if anything did."""
    return [(path, _read(store, path, entry)) for path, entry in _followed().items()]


def _read(store: EventStore, path: str, entry: Followed) -> str | None:
    now = time.monotonic()
    if now < entry.next_at:
        return None
    try:
        size = os.path.getsize(path)
        if size == entry.size:
            return None
        outcome = ingest_path(store, path, Options(is_growing=True))
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    except WarmupInsightsError as error:
        return str(error)
    entry.size = size
    entry.run_ids = outcome.run_ids
    entry.next_at = now + SHARE * (time.monotonic() - now)
    return None


def follow_form() -> None:
    """The form that names a growing log on this server, and the logs that are followed.

    Only for servers whose owner lets visitors name files (`--allow-paths`).
    """
    with st.form("follow", border=False):
        row = st.container(horizontal=True, vertical_alignment="bottom")
        path = row.text_input(
            "Growing log on this server", placeholder="/var/log/vllm/server.log",
            max_chars=4096,
        ).strip()  # fmt: skip
        if row.form_submit_button("Follow", icon=":material/visibility:") and path:
            if os.path.isfile(path):
                _followed().setdefault(path, Followed())
            else:
                st.error(markdown(f"There is no file {path} on this server."))
    for path, entry in list(_followed().items()):
        row = st.container(horizontal=True, vertical_alignment="center")
        row.caption(f"Following {markdown(path)}", width="content")
        if row.button("Stop", key=f"stop-{path}"):
            del _followed()[path]
            for run_id in entry.run_ids:  # one that did not finish is unknown again
                refresh(data.store(), run_id)
            st.rerun()
