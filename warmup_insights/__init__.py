"""Make the warm-up of vLLM on Intel Gaudi and CUDA visible.

The names below are public and keep their meaning by semantic versioning. Those of the
library are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warmup_insights.errors import WarmupInsightsError
from warmup_insights.version import __version__

if TYPE_CHECKING:
    from warmup_insights.api import (
        Database,
        Run,
        Warmup,
        advise,
        compare,
        follow,
        read_log,
        record,
    )
    from warmup_insights.api import Database as open

__all__ = [
    "Database",
    "Run",
    "Warmup",
    "WarmupInsightsError",
    "__version__",
    "advise",
    "compare",
    "follow",
    "open",
    "read_log",
    "record",
]
_IN_API = {
    name: name for name in __all__ if name not in ("__version__", "WarmupInsightsError")
}
_IN_API["open"] = "Database"


def __getattr__(name: str) -> Any:
    if name not in _IN_API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from warmup_insights import api

    return getattr(api, _IN_API[name])
