"""Shapes that no bucket covered: the nearest bucket, why not it, and what would help.

The variables are those of vllm-gaudi (`bucketing/common.py`, `read_bucket_settings`);
the V0 engines have the same names, with SEQ for the length of a prompt and BLOCK for
decode.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from warmup_insights.analysis.plan.regenerate import bucketing_settings
from warmup_insights.bucketing.base import PHASES
from warmup_insights.bucketing.base import Bucket as Triple
from warmup_insights.bucketing.file import BucketFile
from warmup_insights.bucketing.generate import offered
from warmup_insights.bucketing.ranges import RANGE_NAMES, variable_name
from warmup_insights.errors import InputError
from warmup_insights.model.events import Bucket
from warmup_insights.model.summary import Miss, RunSummary
from warmup_insights.rules.setting_lives import has_setting

Cause = Literal["skipped", "no_list", "not_warmed", "too_large", "no_combination"]

WORDS = {
    "BS": "batch size", "QUERY": "query length", "CTX": "context blocks",
    "BLOCK": "blocks", "SEQ": "sequence length",
}  # fmt: skip
"""Names of dimensions in range variables, for people."""
_REASONS: dict[Cause, str] = {
    "skipped": "warm-up was skipped",
    "no_list": "the run lists no buckets",
    "not_warmed": "a bucket covers it that was not warmed up",
    "no_combination": "each dimension is covered, but by no bucket together",
}


@dataclass(frozen=True)
class Diagnosis:
    """What one missed shape needs.

    `limits` are the upper ends of its dimensions: of the largest bucket that the run lists,
    or of the range as set where it lists none; None where neither is known. `too_large` are
    those in which no bucket is large enough; it is empty when each is, only not in one
    bucket. `nearest` is None when the run lists no buckets. `ranges` are the variables of the
    upper ends.
    """

    phase: str
    shape: Bucket
    fallback: Bucket | None
    count: int
    nearest: Bucket | None
    too_large: tuple[int, ...]
    limits: tuple[int | None, ...]
    cause: Cause
    ranges: tuple[str, ...]

    def reason(self, names: Sequence[str]) -> str:
        """Why no bucket took the shape; `names` are those of its dimensions."""
        if self.cause == "skipped":
            beyond = (
                f"{names[d]} {self.shape[d]} is above its range" for d in self._beyond
            )
            return "; ".join([_REASONS["skipped"], *beyond])
        if self.cause != "too_large":
            return _REASONS[self.cause]
        return "; ".join(
            f"{names[d]} {self.shape[d]} is above every bucket" for d in self.too_large
        )

    @property
    def _beyond(self) -> list[int]:
        """The dimensions that are above their limits."""
        return [
            place
            for place, limit in enumerate(self.limits if self.is_known else ())
            if limit is not None and self.shape[place] > limit
        ]

    @property
    def wanted(self) -> Bucket:
        """The bucket that would have done: what the engine made instead, or the shape."""
        return self.fallback or self.shape

    @property
    def needs(self) -> dict[str, int]:
        """Range variables that are too small, with the value that the shape needs."""
        beyond = self._beyond
        sizes = enumerate(zip(self.ranges, self.wanted, strict=False))
        return {name: wanted for place, (name, wanted) in sizes if place in beyond}

    @property
    def is_known(self) -> bool:
        """Whether any of its limits is known, and the bucket made instead has its dimensions."""
        is_same = len(self.wanted) == len(self.shape)
        return is_same and any(limit is not None for limit in self.limits)


def diagnose(summary: RunSummary) -> list[Diagnosis]:
    """One diagnosis per missed shape, the most frequent first."""
    found = [_diagnosis(summary, miss) for miss in summary.misses]
    return sorted(found, key=lambda item: (-item.count, item.phase, item.shape))


def file_lines(summary: RunSummary, found: Iterable[Diagnosis]) -> tuple[str, ...]:
    """Lines of a bucket file for missed shapes, as the version of the run takes them; as the
    engine made them where a limit of it is unknown. Shapes of older engines, which read no
    such file, have two numbers and get none."""
    wanted: dict[str, list[Triple]] = {phase: [] for phase in PHASES}
    for item in found:
        if len(item.wanted) == len(Triple._fields) and item.phase in wanted:
            wanted[item.phase].append(Triple(*item.wanted))
    try:
        settings = bucketing_settings(summary)
    except (InputError, ValueError):
        return tuple(
            dict.fromkeys(str(tuple(b)) for own in wanted.values() for b in own)
        )
    prompt, decode = (tuple(sorted(set(own))) for own in wanted.values())
    file = BucketFile("", prompt, decode)
    drafts = [offered(replace(settings, bucket_file=file), phase) for phase in PHASES]
    made = [each.buckets() for each in drafts if each.has_buckets]
    return tuple(str(tuple(bucket)) for own in made for bucket in own)


def highest_settings(found: Iterable[Diagnosis]) -> tuple[str, ...]:
    """One setting per range that is too small, with the highest value of any shape."""
    return tuple(f"{name}={value}" for name, value in highest_needs(found).items())


def highest_needs(found: Iterable[Diagnosis]) -> dict[str, int]:
    """For each variable the highest value that any shape needs."""
    highest: dict[str, int] = {}
    for item in found:
        for name, value in item.needs.items():
            highest[name] = max(highest.get(name, 0), value)
    return highest


def dimensions_of(summary: RunSummary, phase: str, size: int) -> tuple[str, ...]:
    """What a bucket's dimensions are called in the range variables of this run's engine.

    Up to 1.17 the V0 engines gave decode buckets a sequence length instead of blocks.
    """
    names = RANGE_NAMES.get((phase, size), ())
    has_lengths = size == 2 and "seq" in summary.phase(phase).dimensions
    return ("BS", "SEQ") if has_lengths else names


def range_variables(summary: RunSummary, phase: str, size: int) -> tuple[str, ...]:
    """The variables of the upper ends of a bucket's dimensions, as this version names them.

    The newest names where the version is unknown; empty where no variable bounds them.
    """
    names = []
    for dimension in dimensions_of(summary, phase, size):
        name = variable_name(phase, dimension, "max")
        is_known = not summary.engine.version or has_setting(summary, name)
        if dimension == "QUERY" and not is_known:
            name = variable_name(phase, "SEQ", "max")
        names.append(name)
    return tuple(names)


def whole_number(value: Any) -> int | None:
    """A setting as a whole number; None when it is none."""
    try:
        return int(str(value))
    except ValueError:
        return None


def _diagnosis(summary: RunSummary, miss: Miss) -> Diagnosis:
    shape = miss.shape
    listed = [b for b in summary.phase(miss.phase).buckets if len(b) == len(shape)]
    ranges = range_variables(summary, miss.phase, len(miss.fallback or shape))
    limits = tuple(max(values) for values in zip(*listed, strict=True)) or tuple(
        whole_number(summary.config.get(name)) for name in ranges
    )
    too_large = tuple(d for d in range(len(shape)) if listed and limits[d] < shape[d])
    cause: Cause = "no_combination"
    if summary.status == "skipped":
        # Nothing was warmed up, so ranges and lists are not to blame.
        cause, too_large = "skipped", ()
    elif not listed:
        cause = "no_list"
    elif too_large:
        cause = "too_large"
    elif any(_distance(bucket, shape)[0] == 0 for bucket in listed):
        cause = "not_warmed"
    return Diagnosis(
        phase=miss.phase,
        shape=shape,
        fallback=miss.fallback,
        count=miss.count,
        nearest=min(listed, key=lambda bucket: _distance(bucket, shape), default=None),
        too_large=too_large,
        limits=limits,
        cause=cause,
        ranges=ranges,
    )


def _distance(bucket: Bucket, shape: Bucket) -> tuple[int, int]:
    """Dimensions that do not fit, then how far off the sizes are in all."""
    short = sum(have < need for have, need in zip(bucket, shape, strict=True))
    off = sum(abs(have - need) for have, need in zip(bucket, shape, strict=True))
    return short, off
