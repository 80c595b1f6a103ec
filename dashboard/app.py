"""The app: its pages, and what all of them share."""

from __future__ import annotations

import streamlit as st

from dashboard import widgets

LOGO = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 28 28" width="28" height="28">'
    '<rect x="2" y="2" width="7" height="7" rx="1.5" fill="#0072B2"/>'
    '<rect x="10.5" y="2" width="7" height="7" rx="1.5" fill="#0072B2"/>'
    '<rect x="19" y="2" width="7" height="7" rx="1.5" fill="#56B4E9"/>'
    '<rect x="2" y="10.5" width="7" height="7" rx="1.5" fill="#0072B2"/>'
    '<rect x="10.5" y="10.5" width="7" height="7" rx="1.5" fill="#56B4E9"/>'
    '<rect x="19" y="10.5" width="7" height="7" rx="1.5" fill="#B9C2CD"/>'
    '<rect x="2" y="19" width="7" height="7" rx="1.5" fill="#56B4E9"/>'
    '<rect x="10.5" y="19" width="7" height="7" rx="1.5" fill="#E69F00"/>'
    '<rect x="19" y="19" width="7" height="7" rx="1.5" fill="#B9C2CD"/></svg>'
)

# Where the keyboard is: Streamlit shows it for some controls only. Names of files above the
# columns of a table wrap: a phone would cut the last one off.
STYLE = """<style>
a:focus-visible, button:focus-visible, input:focus-visible, textarea:focus-visible,
[role="tab"]:focus-visible, [role="radio"]:focus-visible, canvas:focus-visible {
  outline: 2px solid currentColor !important; outline-offset: 2px;
}
[data-testid="stTable"] th, [data-testid="stTable"] th * {
  overflow-wrap: anywhere !important;
}
</style>"""
# Text on the primary colour of the dark theme: Streamlit writes it in white.
DARK = """<style>
[data-testid="stMultiSelect"] span[title], [data-testid="stBaseButton-primary"] {
  color: #0B131B;
}
</style>"""


def main() -> None:
    """Route to the page that the address names."""
    st.set_page_config(page_title="warmup-insights", page_icon=LOGO, layout="wide")
    st.logo(LOGO, size="large")
    widgets.count_run()
    st.html(STYLE + (DARK if widgets.is_dark() else ""))
    pages = [
        st.Page(widgets.RUNS, title="Runs", icon=":material/list:", default=True),
        st.Page(widgets.RUN, title="Run", icon=":material/speed:", url_path="run"),
        st.Page(widgets.COMPARE, title="Compare", icon=":material/compare_arrows:"),
        st.Page(
            widgets.MEMORY, title="Memory configurations", icon=":material/memory:"
        ),
        st.Page(widgets.BUCKETS, title="Buckets lab", icon=":material/grid_on:"),
        st.Page(widgets.LIVE, title="Live", icon=":material/monitor_heart:"),
    ]
    st.navigation(pages, position="top").run()


main()
