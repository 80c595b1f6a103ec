"""The reference engine: a whole instrumented warm-up, small enough to read."""

from __future__ import annotations

from warmup_insights.runner.session import Outcome, Session
from warmup_insights.runner.settings import RunSettings

__all__ = ["Outcome", "RunSettings", "Session"]
