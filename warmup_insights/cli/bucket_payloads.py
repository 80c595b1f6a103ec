"""The results of `buckets` as plain objects for JSON; named tuples become arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from warmup_insights.bucketing.base import GeneratedBuckets
from warmup_insights.bucketing.lengths import LengthDistribution
from warmup_insights.bucketing.lookup import Lookup, WalkStep
from warmup_insights.bucketing.padding import Padding, PaddingReport, Trial
from warmup_insights.bucketing.two_dim import GeneratedBuckets2D, TwoDimSettings


def generated_payload(
    generated: GeneratedBuckets, lookups: list[Lookup], padding: PaddingReport | None
) -> dict[str, Any]:
    """The result of `generate`; `ranges` are pairs of parameters and values."""
    return {
        "strategy": generated.strategy,
        "prompt_buckets": generated.prompt,
        "decode_buckets": generated.decode,
        "ranges": [(bounds.parameters, bounds.values) for bounds in generated.ranges],
        "dropped": [drop._asdict() for drop in generated.dropped],
        "fallback_max_ctx": generated.fallback_max_ctx,
        "lookups": [lookup.bucket for lookup in lookups],
        "padding": None if padding is None else padding_payload(padding),
        "notes": generated.notes,
    }


def generated_2d_payload(
    settings: TwoDimSettings, generated: GeneratedBuckets2D
) -> dict[str, Any]:
    """The result of `generate --scheme 2d`."""
    return {
        "strategy": "two-dimensional",
        "prompt_buckets": generated.prompt,
        "decode_buckets": generated.decode,
        "ranges": {
            "prompt": settings.parameters("prompt"),
            "decode": settings.parameters("decode"),
        },
        "dropped": [drop._asdict() for drop in generated.dropped],
        "notes": generated.notes,
    }


def padding_payload(padding: PaddingReport) -> dict[str, Any]:
    """A padding report; a phase that no length reaches is null."""
    return {
        name: None if summary is None else asdict(summary)
        for name, summary in padding._asdict().items()
    }


def lookup_payload(
    lookup: Lookup, padding: Padding, walk: list[WalkStep]
) -> dict[str, Any]:
    """The result of `lookup`."""
    return {
        **lookup._asdict(),
        "is_covered": lookup.is_covered,
        "padding": padding._asdict(),
        "walk": [step._asdict() for step in walk],
    }


def compare_payload(
    trials: Sequence[Trial], lengths: LengthDistribution
) -> dict[str, Any]:
    """The result of `compare`: title, buckets, padding and problem of each strategy."""
    strategies = [
        {
            "strategy": trial.title,
            "prompt_buckets": None if made is None else len(made.prompt),
            "decode_buckets": None if made is None else len(made.decode),
            "dropped": None if made is None else len(made.dropped),
            "padding": None
            if trial.padding is None
            else padding_payload(trial.padding),
            "error": trial.problem,
        }
        for trial in trials
        for made in [trial.generated]
    ]
    return {
        "lengths": lengths.name,
        "is_assumed": lengths.is_assumed,
        "strategies": strategies,
    }
