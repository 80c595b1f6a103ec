"""From summaries and rows to frames; no I/O, no Streamlit."""

from __future__ import annotations
