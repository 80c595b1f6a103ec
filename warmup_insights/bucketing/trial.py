"""One strategy, or one bucket file, on one configuration."""

from __future__ import annotations

from dataclasses import dataclass

from warmup_insights.bucketing.base import GeneratedBuckets
from warmup_insights.bucketing.generate import STRATEGIES, generate
from warmup_insights.bucketing.lengths import LengthDistribution
from warmup_insights.bucketing.lookup import BucketTable
from warmup_insights.bucketing.padding import PaddingReport, report_padding
from warmup_insights.bucketing.settings import BucketingSettings
from warmup_insights.errors import InputError


@dataclass(frozen=True)
class Trial:
    """Buckets and their padding, or the `problem` that leaves none.

    `padding` is None as well where no request lengths were given.
    """

    strategy: str
    title: str
    generated: GeneratedBuckets | None = None
    padding: PaddingReport | None = None
    problem: str | None = None


def try_settings(
    settings: BucketingSettings, lengths: LengthDistribution | None = None
) -> Trial:
    """What the settings generate, and the padding that requests of the lengths meet."""
    name = settings.strategy
    title = STRATEGIES[name].title if settings.bucket_file is None else "file"
    try:
        generated = generate(settings)
    except InputError as error:
        return Trial(name, title, problem=str(error))
    padding = None
    if lengths is not None:
        padding = report_padding(settings, BucketTable(settings, generated), lengths)
    return Trial(name, title, generated, padding)
