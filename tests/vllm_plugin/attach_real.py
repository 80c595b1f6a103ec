"""Runs inside an environment with a real vLLM: attaches every upstream hook.

Prints JSON: which entry points there are, what attached, what the second `register()`
changed, and what could not be imported.
"""

from __future__ import annotations

import importlib
import json
import os
from importlib.metadata import entry_points

from packaging.version import Version


def main():
    names = [entry.name for entry in entry_points(group="vllm.general_plugins")]
    import vllm.plugins

    vllm.plugins.load_general_plugins()
    from warmup_insights.vllm_plugin import attach as starting
    from warmup_insights.vllm_plugin import register
    from warmup_insights.vllm_plugin.table import UPSTREAM

    version = Version(vllm.__version__)
    running = starting._running
    was_loaded = running is not None
    errors = {}
    for module in dict.fromkeys(hook.module for hook in UPSTREAM):
        try:
            importlib.import_module(module)
        except Exception as error:
            errors[module] = f"{type(error).__name__}: {error}"
    instrumentation = running
    first = [attachment.hook.target for attachment in instrumentation.attachments]
    before = [a._owner.__dict__.get(a.hook.name) for a in instrumentation.attachments]
    register()
    register()
    after = [a._owner.__dict__.get(a.hook.name) for a in instrumentation.attachments]
    print(
        json.dumps(
            {
                "entry_points": names,
                "was_loaded": was_loaded,
                "is_same": starting._running is running,
                "attached": first,
                "expected": [
                    hook.target for hook in UPSTREAM if hook.is_expected_in(version)
                ],
                "unchanged": before == after and len(before) == len(first),
                "errors": errors,
                "lost": running.session.lost,
                "version": vllm.__version__,
                "database_made": os.path.exists(os.environ["WARMUP_INSIGHTS_DB"]),
            }
        )
    )


if __name__ == "__main__":
    main()
