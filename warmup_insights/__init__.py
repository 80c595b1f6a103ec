"""Make the warm-up of vLLM on Intel Gaudi and CUDA visible."""

from __future__ import annotations

from warmup_insights.errors import WarmupInsightsError
from warmup_insights.version import __version__

__all__ = ["WarmupInsightsError", "__version__"]
