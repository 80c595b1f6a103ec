"""The plugin that records what vLLM and vllm-gaudi do while they warm up.

vLLM calls `register` in every process, before the classes to instrument are imported
(`vllm/plugins/__init__.py`, group `vllm.general_plugins`). Nothing here is imported
unless `WARMUP_INSIGHTS_DB` is set.
"""

from __future__ import annotations

import logging
import os

__all__ = ["register"]

DATABASE_VARIABLE = "WARMUP_INSIGHTS_DB"
"""The plugin does nothing unless this names a database."""

logger = logging.getLogger(__name__)


def register() -> None:
    """Instrument this process; may be called again, and never raises."""
    if not os.environ.get(DATABASE_VARIABLE):
        return
    try:
        from warmup_insights.vllm_plugin.attach import start

        start(os.environ)
    except Exception as error:  # the engine must start without us
        logger.warning("warmup-insights records nothing: %s", error)
