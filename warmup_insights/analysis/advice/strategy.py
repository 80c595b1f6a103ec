"""Which bucketing strategy a run had, as its log or recorder shows it."""

from __future__ import annotations

from typing import Any

from warmup_insights.analysis.advice.setting_lives import knows
from warmup_insights.bucketing.environment import read_boolean
from warmup_insights.model.summary import PHASES, RunSummary


def strategy_of(summary: RunSummary) -> str | None:
    """`exp`, `lin` or `pad`; None where nothing shows it.

    What the engine printed counts before what was asked for.
    """
    printed = [summary.phase(phase).strategy or "" for phase in PHASES]
    for text in (*printed, str(summary.config.get("bucketing_strategy") or "")):
        for name in ("exp", "lin", "pad"):
            if text.lower().startswith(name):
                return name
    old = summary.config.get("VLLM_EXPONENTIAL_BUCKETING")
    if old is not None:
        return "exp" if read_boolean(str(old)) else "lin"
    if knows(summary, "VLLM_BUCKETING_STRATEGY"):
        asked = str(summary.config.get("VLLM_BUCKETING_STRATEGY", "")).lower()
        return asked if asked in ("exp", "lin", "pad") else None
    return None


def reads_ranges(summary: RunSummary) -> bool:
    """Whether range variables take effect: shown by the strategy, or printed as read.

    Only the linear strategies print each range with its default.
    """
    return bool(summary.defaults) or strategy_of(summary) in ("lin", "pad")


def integer(value: Any) -> int | None:
    """A setting as a whole number; None when it is none."""
    try:
        return int(str(value))
    except ValueError:
        return None
