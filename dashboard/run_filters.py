"""The filters of the runs page, and the runs they leave."""

from __future__ import annotations

from typing import Any

import streamlit as st

from dashboard import data
from dashboard.text import visible

STATUSES = ("finished", "running", "failed", "skipped", "unknown")


def choose() -> dict[str, Any]:
    """The filters and the view a visitor chose; search and view are in the address."""
    with st.container(
        horizontal=True, vertical_alignment="bottom", horizontal_alignment="distribute"
    ):
        with st.container(
            horizontal=True, vertical_alignment="bottom", gap="small", width="content"
        ):
            text = st.text_input(
                "Search", placeholder="Search name, model, notes", key="q", width=260,
                icon=":material/search:", label_visibility="collapsed",
                bind="query-params",
            )  # fmt: skip
            chosen = {
                "text": text.strip(),
                "status": _choice("Any status", list(STATUSES), "status"),
                "engine": _choice(
                    "Any engine", data.store().distinct("engine"), "engine"
                ),
                "model": _choice("Any model", data.store().distinct("model"), "model"),
                "device_kind": _choice(
                    "Any device", data.store().distinct("device_kind"), "device"
                ),
            }
        view = st.segmented_control(
            "View", ["Table", "Trend"], default="Table", required=True, key="view",
            label_visibility="collapsed", bind="query-params",
        )  # fmt: skip
    return {**chosen, "view": view}


def _choice(words: str, options: list[str], key: str) -> str | None:
    chosen: str | None = st.selectbox(
        words, options, index=None, placeholder=words, key=f"filter-{key}",
        label_visibility="collapsed", width=150, format_func=visible,
    )  # fmt: skip
    return chosen
