"""The tabs of the run page; each module has TITLE, has_content and show."""

from __future__ import annotations

from dashboard.run_tabs import overview

TABS = (overview,)
