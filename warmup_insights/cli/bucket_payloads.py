"""The results of `buckets` as plain objects for JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from warmup_insights.bucketing import (
    GeneratedBuckets,
    GeneratedBuckets2D,
    Lookup,
    Padding,
    PaddingReport,
    TwoDimSettings,
    WalkStep,
)


def generated_payload(
    generated: GeneratedBuckets, lookups: list[Lookup], padding: PaddingReport | None
) -> dict[str, Any]:
    """The result of `generate`; `ranges` are pairs of parameters and values."""
    return {
        "strategy": generated.strategy,
        "prompt_buckets": [list(bucket) for bucket in generated.prompt],
        "decode_buckets": [list(bucket) for bucket in generated.decode],
        "ranges": [
            [list(bounds.parameters), list(bounds.values)]
            for bounds in generated.ranges
        ],
        "dropped": [
            {
                "phase": drop.phase,
                "bucket": list(drop.bucket),
                "condition": drop.condition,
                "replaced_by": list(drop.replaced_by) if drop.replaced_by else None,
            }
            for drop in generated.dropped
        ],
        "fallback_max_ctx": generated.fallback_max_ctx,
        "lookups": [list(lookup.bucket) for lookup in lookups],
        "padding": None if padding is None else padding_payload(padding),
        "notes": list(generated.notes),
    }


def generated_2d_payload(
    settings: TwoDimSettings, generated: GeneratedBuckets2D
) -> dict[str, Any]:
    """The result of `generate --scheme 2d`."""
    return {
        "strategy": "two-dimensional",
        "prompt_buckets": [list(bucket) for bucket in generated.prompt],
        "decode_buckets": [list(bucket) for bucket in generated.decode],
        "ranges": {
            "prompt": [list(bounds) for bounds in settings.parameters("prompt")],
            "decode": [list(bounds) for bounds in settings.parameters("decode")],
        },
        "dropped": [
            {
                "phase": drop.phase,
                "bucket": list(drop.bucket),
                "condition": drop.condition,
            }
            for drop in generated.dropped
        ],
        "notes": list(generated.notes),
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
        "phase": lookup.phase,
        "shape": list(lookup.shape),
        "bucket": list(lookup.bucket),
        "outcome": lookup.outcome,
        "is_covered": lookup.is_covered,
        "padding": padding._asdict(),
        "walk": [step._asdict() for step in walk],
    }
