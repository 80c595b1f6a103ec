"""Upload: logs in, runs out, and what became of every line."""

from __future__ import annotations

import streamlit as st

from dashboard import data, follow_form, uploads, widgets


def render() -> None:
    """Show the page."""
    st.title("Upload", anchor=False)
    st.caption("The same log twice adds nothing.")
    files = uploads.field()
    with st.expander("How to read them"):
        options = uploads.options()
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
    for outcome in uploads.ingested(files, options):
        uploads.show_report(outcome)


with widgets.guarded():
    render()
