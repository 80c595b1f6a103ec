"""Buckets before a start: which an engine generates, drops, and chooses for a shape.

Everything here is a pure function of a configuration object: nothing reads the
environment. `settings_from_mapping` turns the names and values that an engine is started
with into `BucketingSettings`, `generate` turns those into buckets, and a `BucketTable`
answers lookups as the engine does. The rules are those of vllm-gaudi, by its version;
each docstring names the file and function that a rule comes from, and `versions` what
differs.
"""

from __future__ import annotations

from warmup_insights.bucketing.base import (
    Bucket,
    DroppedBucket,
    GeneratedBuckets,
    Phase,
    StrategyName,
)
from warmup_insights.bucketing.environment import (
    settings_from_mapping,
)
from warmup_insights.bucketing.exponential import (
    exponential_range,
)
from warmup_insights.bucketing.file import (
    BucketFile,
    format_bucket_file,
    parse_bucket_lines,
)
from warmup_insights.bucketing.generate import (
    STRATEGIES,
    generate,
)
from warmup_insights.bucketing.index import (
    BucketIndex,
)
from warmup_insights.bucketing.lengths import (
    LengthDistribution,
    assume_lengths,
    parse_lengths,
)
from warmup_insights.bucketing.linear import (
    linear_range,
)
from warmup_insights.bucketing.lint import (
    Problem,
    lint_bucket_lines,
)
from warmup_insights.bucketing.lookup import (
    BucketTable,
    Lookup,
)
from warmup_insights.bucketing.padding import (
    Padding,
    PaddingReport,
    PaddingSummary,
    padding_of,
    report_padding,
)
from warmup_insights.bucketing.padding_aware import (
    padding_aware_range,
)
from warmup_insights.bucketing.settings import (
    BucketingSettings,
)
from warmup_insights.bucketing.trial import (
    Trial,
    try_settings,
)
from warmup_insights.bucketing.two_dim import (
    Bucket2D,
    GeneratedBuckets2D,
    TwoDimSettings,
    find_two_dim,
    generate_two_dim,
    two_dim_settings,
    warmup_order,
)
from warmup_insights.bucketing.versions import (
    MAIN,
    NEWEST_RELEASE,
    RELEASES,
    rules_name,
    version_of_run,
)
from warmup_insights.bucketing.walk import (
    WalkStep,
    walk_decode,
)

__all__ = [
    "MAIN",
    "NEWEST_RELEASE",
    "RELEASES",
    "STRATEGIES",
    "Bucket",
    "Bucket2D",
    "BucketFile",
    "BucketIndex",
    "BucketTable",
    "BucketingSettings",
    "DroppedBucket",
    "GeneratedBuckets",
    "GeneratedBuckets2D",
    "LengthDistribution",
    "Lookup",
    "Padding",
    "PaddingReport",
    "PaddingSummary",
    "Phase",
    "Problem",
    "StrategyName",
    "Trial",
    "TwoDimSettings",
    "WalkStep",
    "assume_lengths",
    "exponential_range",
    "find_two_dim",
    "format_bucket_file",
    "generate",
    "generate_two_dim",
    "linear_range",
    "lint_bucket_lines",
    "padding_aware_range",
    "padding_of",
    "parse_bucket_lines",
    "parse_lengths",
    "report_padding",
    "rules_name",
    "settings_from_mapping",
    "try_settings",
    "two_dim_settings",
    "version_of_run",
    "walk_decode",
    "warmup_order",
]
