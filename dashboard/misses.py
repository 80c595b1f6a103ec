"""Shapes that no bucket covered: the nearest bucket, why not it, and what would help.

The variables are those of vllm-gaudi (`bucketing/common.py`, `read_bucket_settings`);
the V0 engines have the same names, with SEQ for the length of a prompt and BLOCK for
decode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Bucket = tuple[int, ...]

_VARIABLES: dict[tuple[str, int], tuple[str, ...]] = {
    ("prompt", 3): ("PROMPT_BS", "PROMPT_QUERY", "PROMPT_CTX"),
    ("decode", 3): ("DECODE_BS", "DECODE_QUERY", "DECODE_BLOCK"),
    ("prompt", 2): ("PROMPT_BS", "PROMPT_SEQ"),
    ("decode", 2): ("DECODE_BS", "DECODE_BLOCK"),
}


@dataclass(frozen=True)
class Diagnosis:
    """What one missed shape needs.

    `too_large` are the dimensions in which no bucket is large enough; it is empty when
    each is, only not in one bucket. `nearest` is None when the run lists no buckets.
    """

    phase: str
    shape: Bucket
    fallback: Bucket | None
    count: int
    nearest: Bucket | None
    too_large: tuple[int, ...]
    settings: tuple[str, ...]

    def reason(self, names: Sequence[str]) -> str:
        """Why no bucket took the shape."""
        if self.nearest is None:
            return "the run lists no buckets"
        if not self.too_large:
            return "each dimension is covered, but by no bucket together"
        return "; ".join(
            f"{names[d]} {self.shape[d]} is above every bucket" for d in self.too_large
        )

    @property
    def file_line(self) -> str:
        """A line for a bucket file, with three numbers; empty for older engines."""
        wanted = self.fallback or self.shape
        return str(tuple(wanted)) if len(wanted) == 3 else ""


def diagnose(summary: Mapping[str, Any]) -> list[Diagnosis]:
    """One diagnosis per missed shape, the most frequent first."""
    found = [
        _diagnosis(miss, _listed(summary, miss["phase"], len(miss["shape"])))
        for miss in summary["misses"]
    ]
    return sorted(found, key=lambda item: (-item.count, item.phase, item.shape))


def _listed(summary: Mapping[str, Any], phase: str, size: int) -> list[Bucket]:
    section = (summary["buckets"] or {}).get(phase) or {"buckets": []}
    return [tuple(b) for b in section["buckets"] if len(b) == size]


def _diagnosis(miss: Mapping[str, Any], listed: list[Bucket]) -> Diagnosis:
    shape: Bucket = tuple(miss["shape"])
    fallback = tuple(miss["fallback"]) if miss["fallback"] else None
    too_large = tuple(
        d for d in range(len(shape)) if listed and max(b[d] for b in listed) < shape[d]
    )
    return Diagnosis(
        phase=miss["phase"],
        shape=shape,
        fallback=fallback,
        count=miss["count"],
        nearest=min(listed, key=lambda b: _distance(b, shape), default=None),
        too_large=too_large,
        settings=_settings(miss["phase"], fallback or shape, too_large),
    )


def _distance(bucket: Bucket, shape: Bucket) -> tuple[int, int]:
    """Dimensions that do not fit, then how far off the sizes are in all."""
    short = sum(have < need for have, need in zip(bucket, shape, strict=True))
    off = sum(abs(have - need) for have, need in zip(bucket, shape, strict=True))
    return short, off


def _settings(phase: str, wanted: Bucket, too_large: Sequence[int]) -> tuple[str, ...]:
    names = _VARIABLES.get((phase, len(wanted)))
    if names is None:
        return ()
    return tuple(f"VLLM_{names[d]}_BUCKET_MAX={wanted[d]}" for d in too_large)
