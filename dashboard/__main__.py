"""Start the server: `python -m dashboard`, what the `dashboard` command runs."""

from __future__ import annotations

import sys
import threading
from importlib import import_module

HEAVY = ("pandas", "plotly.graph_objects", "warmup_insights.storage.store")
"""Imported while the server starts, so that the first visitor does not wait for them."""


def _preload() -> None:
    for name in HEAVY:
        import_module(name)


def known(arguments: list[str]) -> list[str]:
    """The options that this version of Streamlit has; the look may lose a detail."""
    from streamlit.config import get_config_options

    names = set(get_config_options())
    return [a for a in arguments if a.removeprefix("--").split("=", 1)[0] in names]


def main() -> None:
    """Run the app with the options of the command line."""
    from streamlit.web.cli import main as streamlit_main

    from dashboard.server import APP

    sys.argv = ["streamlit", "run", str(APP), *known(sys.argv[1:])]
    threading.Thread(target=_preload, name="preload", daemon=True).start()
    streamlit_main()


if __name__ == "__main__":
    main()
