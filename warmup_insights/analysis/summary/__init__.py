"""From events to a run summary: one fold, its sections, and the laws it must obey."""

from __future__ import annotations

from warmup_insights.analysis.summary.fold import Folded, RunFold, summarize

__all__ = ["Folded", "RunFold", "summarize"]
