"""The form that names a growing log on this server, and the logs that are followed."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from dashboard import following
from dashboard.text import markdown


def show() -> bool:
    """The form; True when a log was added just now.

    Only for servers whose owner lets visitors name files (`--allow-paths`).
    """
    is_added = False
    with st.form("follow", border=False):
        row = st.container(horizontal=True, vertical_alignment="bottom")
        path = row.text_input(
            "Growing log on this server", placeholder="/var/log/vllm/server.log",
            max_chars=4096,
        ).strip()  # fmt: skip
        if row.form_submit_button("Follow", icon=":material/visibility:") and path:
            if Path(path).is_file():
                following.add(path)
                is_added = True
            else:
                st.error(markdown(f"There is no file {path} on this server.", 300))
    for path in following.paths():
        row = st.container(horizontal=True, vertical_alignment="center")
        row.caption(f"Following {markdown(path, 120)}", width="content")
        if row.button("Stop", key=f"stop-{path}"):
            following.remove(path)
            st.rerun()
    return is_added
