"""Buckets before a start: which an engine generates, drops, and chooses for a shape.

Everything here is a pure function of a configuration object: nothing reads the
environment. `settings_from_mapping` turns the names and values that an engine is started
with into `BucketingSettings`, `generate` turns those into buckets, and a `BucketTable`
answers lookups as the engine does. The rules are those of vllm-gaudi, by its version;
each docstring names the file and function that a rule comes from, and `versions` what
differs.
"""

from __future__ import annotations

from warmup_insights.bucketing.generate import generate
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.settings import settings_from_mapping

__all__ = ["BucketTable", "generate", "settings_from_mapping"]
