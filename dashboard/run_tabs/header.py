"""The head of the run page: what ran, and its headline figures."""

from __future__ import annotations

import time
from typing import Any

import streamlit as st

from dashboard import run_actions, widgets
from dashboard.budget import graphs_used_bytes
from dashboard.frames import name_of
from dashboard.text import markdown, visible
from dashboard.widgets import Figures
from warmup_insights.model.run import RunRecord
from warmup_insights.units import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    format_time,
    parse_isoformat,
)


def show(run: RunRecord, summary: dict[str, Any]) -> None:
    """Name, badges, what is known about the run, headline figures."""
    with st.container(
        horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"
    ):
        with st.container(
            horizontal=True, vertical_alignment="center", gap="small", width="content"
        ):
            st.title(markdown(name_of(run), 80), anchor=False, width="content")
            widgets.status_badge(run.status_at(time.time()))
            for text in _badges(summary):
                st.badge(markdown(text, 60), color="gray")
        with st.container(
            horizontal=True, vertical_alignment="center", gap="small", width="content"
        ):
            if st.button("Label and notes", icon=":material/edit:", type="tertiary"):
                run_actions.edit(run)
            st.page_link(
                widgets.COMPARE, label="Compare", icon=":material/compare_arrows:",
                query_params={"run": run.run_id},
            )  # fmt: skip
    st.caption(markdown(_facts(run, summary), 300))
    if run.notes:
        st.text(visible(run.notes, 2000))
    failure = summary["failure"]
    if failure is not None:
        st.error(markdown(failure_sentence(failure), 600), icon=":material/error:")
    widgets.headline(headline_figures(summary))


def _facts(run: RunRecord, summary: dict[str, Any]) -> str:
    """Id, model, start and source in a line."""
    started = parse_isoformat(summary["time"]["started_at"])
    zone = "UTC" if summary["time"]["timezone"] else "time zone unknown"
    known = [
        f"run {run.run_id}",
        summary["model"] or "",
        f"started {format_time(started)} ({zone})" if started is not None else "",
        f"from {run.source_kind} {run.source_name or ''}".strip(),
    ]
    return "  \u00b7  ".join(text for text in known if text)


def _badges(summary: dict[str, Any]) -> list[str]:
    engine, device = summary["engine"], summary["device"]
    known = [
        " ".join(part for part in (engine["name"], engine["version"]) if part),
        device["name"] or device["kind"] or "",
        f"{summary['ranks']} ranks" if summary["ranks"] > 1 else "",
        widgets.provenance(summary) or "",
    ]
    return [text for text in known if text]


def failure_sentence(failure: dict[str, Any]) -> str:
    """What went wrong, where, and what was free then."""
    where = ""
    if failure["bucket"] is not None:
        where = f" in {failure['phase'] or 'a'} bucket {tuple(failure['bucket'])}"
    elif failure["phase"] is not None:
        where = f" in {failure['phase']}"
    free = ""
    if failure["free_bytes"] is not None:
        free = f", {format_bytes(failure['free_bytes'])} free"
    kind = failure["kind"].replace("_", " ")
    return f"{kind}{where}{free}: {failure['message']}"


def headline_figures(summary: dict[str, Any]) -> list[Figures]:
    """What a person wants first; unknown figures are left out."""
    time, memory = summary["time"], summary["memory"] or {}
    figures = [
        Figures("Start-up", format_duration(time["wall_s"]),
                "From the first line to ready, or to the last line of the start-up"),
        Figures("Warm-up", format_duration(time["warmup_s"]), "As the engine states it"),
    ]  # fmt: skip
    for phase, section in (summary["buckets"] or {}).items():
        figures.append(_captured(phase, section))
    if memory.get("num_kv_blocks") is not None:
        figures.append(
            Figures("KV cache", f"{format_count(memory['num_kv_blocks'])} blocks",
                    note=format_bytes(memory["kv_cache_bytes"]))
        )  # fmt: skip
    elif memory.get("kv_cache_bytes") is not None:
        figures.append(Figures("KV cache", format_bytes(memory["kv_cache_bytes"])))
    used = graphs_used_bytes(summary)
    if used is not None:
        reserved = memory.get("graph_reserved_bytes")
        note = f"of {format_bytes(reserved)} reserved" if reserved else None
        figures.append(Figures("Graph memory", format_bytes(used), note=note))
    return [figure for figure in figures if figure.value != "?"]


def _captured(phase: str, section: dict[str, Any]) -> Figures:
    if section["capture_percent"] is None:
        generated = section["generated"]
        warmed = section["warmed"]
        value = "?" if warmed is None else f"{warmed} of {format_count(generated)}"
        return Figures(f"{phase.capitalize()} warmed", value)
    return Figures(
        f"{phase.capitalize()} captured",
        format_percent(section["capture_percent"]),
        "Buckets with evidence of a capture, of all that were generated",
        f"{section['captured']} of {format_count(section['generated'])}",
    )
