"""Two or more runs side by side: figures, settings, buckets, and what may be judged."""

from __future__ import annotations

from warmup_insights.analysis.compare.buckets import BucketChange, CostChange
from warmup_insights.analysis.compare.causes import GapRow
from warmup_insights.analysis.compare.comparability import START_GROUPS, Comparability
from warmup_insights.analysis.compare.comparison import (
    Change,
    Comparison,
    FigureRow,
    MissRow,
    RunHead,
    SettingRow,
    change,
    compare,
)

__all__ = [
    "START_GROUPS", "BucketChange", "Change", "Comparability", "Comparison", "CostChange", "FigureRow", "GapRow",
    "MissRow", "RunHead", "SettingRow", "change", "compare",
]  # fmt: skip
