"""Every rule, in the order in which findings of equal weight are shown."""

from __future__ import annotations

from warmup_insights.analysis import (
    advice_buckets,
    advice_failure,
    advice_memory,
    advice_settings,
    advice_time,
)
from warmup_insights.analysis.advice import Rule

RULES: tuple[Rule, ...] = (
    *advice_failure.RULES[:2],
    *advice_memory.RULES,
    *advice_buckets.RULES,
    *advice_time.RULES,
    *advice_settings.RULES,
    *advice_failure.RULES[2:],
)
