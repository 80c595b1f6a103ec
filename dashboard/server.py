"""How the server of the dashboard is started: its settings, its options and its look."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from warmup_insights.storage.location import DATABASE_VARIABLE, default_database

ALLOW_PATHS = "WARMUP_INSIGHTS_ALLOW_PATHS"
"""Set to `1` when visitors may name files of the server."""


@dataclass(frozen=True)
class Settings:
    """Where the runs are, and what visitors may do."""

    database: str
    allow_paths: bool = False


def read_settings(env: Mapping[str, str] | None = None) -> Settings:
    """The settings in an environment."""
    env = os.environ if env is None else env
    return Settings(default_database(None, env), env.get(ALLOW_PATHS) == "1")


APP = Path(__file__).with_name("asgi.py")
LOCAL = ("127.0.0.1", "localhost", "::1")
"""Addresses and names of this machine alone."""
_FIXED = {
    "server.enableXsrfProtection": "true",
    "server.enableCORS": "true",
    "server.fileWatcherType": "none",
    "server.showEmailPrompt": "false",
    "browser.gatherUsageStats": "false",
    # With it goes the offer, over every page, to install skills for the coding agent that
    # was found on the machine; the address is printed by the command.
    "logger.hideWelcomeMessage": "true",
    "client.toolbarMode": "minimal",
    "client.showErrorDetails": "none",
    "client.showErrorLinks": "false",
    "runner.magicEnabled": "false",
}
_THEME = {
    "theme.baseFontSize": "15",
    "theme.headingFontSizes": "1.7rem,1.35rem,1.2rem,1.1rem,1.05rem,0.95rem",
    "theme.headingFontWeights": "[650,600,600,600,600,600]",
    "theme.metricValueFontSize": "1.55rem",
    "theme.paddingTop": "1.5rem",
    "theme.paddingBottom": "3rem",
    "theme.baseRadius": "0.5rem",
    "theme.light.primaryColor": "#1A66A8",
    "theme.light.backgroundColor": "#FFFFFF",
    "theme.light.secondaryBackgroundColor": "#F4F7FA",
    "theme.light.textColor": "#0B131B",
    "theme.light.codeTextColor": "#0B131B",
    "theme.light.borderColor": "#DFE5EC",
    "theme.light.grayBackgroundColor": "#EDF1F5",
    "theme.light.grayTextColor": "#44525F",
    "theme.dark.grayBackgroundColor": "#25313D",
    "theme.dark.grayTextColor": "#B4C1CE",
    "theme.dark.primaryColor": "#6DB1F2",
    "theme.dark.backgroundColor": "#10171F",
    "theme.dark.secondaryBackgroundColor": "#1A2430",
    "theme.dark.textColor": "#E4EAF1",
    "theme.dark.codeTextColor": "#E4EAF1",
    "theme.dark.borderColor": "#2B3846",
}


def options(
    *,
    host: str,
    port: int,
    max_upload_mb: int,
    open_browser: bool,
    allow_hosts: Sequence[str] = (),
) -> list[str]:
    """Streamlit's options for a server, as arguments.

    A page elsewhere whose name was pointed at this machine (DNS rebinding) may not talk to
    a server that this machine alone can reach; without names it may be called by any.
    """
    names = [*LOCAL, *allow_hosts] if host in LOCAL else allow_hosts
    chosen = {
        "server.address": host,
        "server.port": str(port),
        "server.headless": "false" if open_browser else "true",
        "server.maxUploadSize": str(max_upload_mb),
        **_FIXED,
        **_THEME,
    }
    return [
        *(f"--{name}={value}" for name, value in chosen.items()),
        *(f"--server.allowedHosts={name}" for name in names),
    ]


def environment(
    env: Mapping[str, str], *, database: str, allow_paths: bool
) -> dict[str, str]:
    """The environment of the server: where the runs are, what visitors may do."""
    changed = {
        **env,
        DATABASE_VARIABLE: database,
        ALLOW_PATHS: "1" if allow_paths else "0",
    }
    # Options of another Streamlit app in the environment do not concern this one.
    return {k: v for k, v in changed.items() if not k.startswith("STREAMLIT_")}


HEAVY = ("pandas", "plotly.graph_objects", "warmup_insights.storage.store")
"""Imported while the server starts, so that the first visitor does not wait for them."""


def known(arguments: list[str]) -> list[str]:
    """The options that this version of Streamlit has; the look may lose a detail."""
    # Not `get_config_options`: what it reads before the server does is warned about.
    from streamlit.web.cli import main_run

    names = {name for option in main_run.params for name in option.opts}
    return [a for a in arguments if a.split("=", 1)[0] in names]


def serve(arguments: list[str], env: Mapping[str, str]) -> None:
    """Be the server, with options for Streamlit and an environment, until it is stopped."""
    os.environ.clear()
    os.environ.update(env)
    from streamlit.web.cli import main

    sys.argv = ["streamlit", "run", str(APP), *known(arguments)]
    threading.Thread(
        target=lambda: list(map(import_module, HEAVY)), name="preload", daemon=True
    ).start()
    main()
