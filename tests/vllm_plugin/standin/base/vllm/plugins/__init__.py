"""Stand-in for the plugin loader: group `vllm.general_plugins`, once per process.

Like with vllm-gaudi, which wraps it, every plugin may be called more than once.
"""

from __future__ import annotations

import os

plugins_loaded = False


def load_general_plugins():
    global plugins_loaded
    if plugins_loaded:
        return
    plugins_loaded = True
    from importlib.metadata import entry_points

    allowed = os.environ.get("VLLM_PLUGINS")
    for plugin in entry_points(group="vllm.general_plugins"):
        if allowed is None or plugin.name in allowed.split(","):
            function = plugin.load()
            function()
            function()
