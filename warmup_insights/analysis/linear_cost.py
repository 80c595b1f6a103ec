"""A cost as a linear function of a bucket's shape, fitted to what was measured.

An observation is a sum over one or several buckets, because logs are cut. The error of
the fit is the one it makes on each observation that it was not shown (leave one out).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from warmup_insights.model.events import Bucket

Features = Callable[[Bucket], tuple[float, ...]]

MAX_RELATIVE_STEP = 0.5
"""A sum whose rounding is a larger share of it than this tells nothing."""
_AS_GOOD = 1.1


@dataclass(frozen=True)
class Observation:
    """What some buckets cost together; `step` is the rounding of that figure."""

    buckets: frozenset[Bucket]
    total: float
    step: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """A cost and how it is known.

    `source` is `measured` (this bucket alone), `shared` (its part of a measured sum),
    `interpolated` (within the measured range) or `extrapolated` (beyond it).
    """

    value: float
    source: str


class LinearCost:
    """Costs of buckets: the measured ones as they are, the others by the fit.

    `error` is the median, `worst_error` the largest relative error of the fit on an
    observation that it was not shown; None where there were too few to tell.
    """

    def __init__(
        self, observations: Iterable[Observation], feature_sets: Sequence[Features]
    ) -> None:
        reduced = _reduce(list(observations))
        self._measured = {
            next(iter(item.buckets)): item.total
            for item in reduced
            if len(item.buckets) == 1
        }
        self._shared = [item for item in reduced if len(item.buckets) > 1]
        fit = _best_fit(reduced, feature_sets)
        self._features, self._weights = fit.features, fit.weights
        self.error, self.worst_error = fit.error, fit.worst_error
        self._range = _ranges(reduced, self._features)
        self._scales = self._find_scales()

    @property
    def is_empty(self) -> bool:
        """Whether no figure was given that tells anything."""
        return not self._measured and not self._shared

    @property
    def num_measured(self) -> int:
        """Buckets with a measured cost of their own."""
        return len(self._measured)

    def estimate(self, bucket: Bucket) -> Estimate:
        """The cost of a bucket; never negative."""
        if bucket in self._measured:
            return Estimate(self._measured[bucket], "measured")
        fitted = self.fitted(bucket)
        if bucket in self._scales:
            return Estimate(fitted * self._scales[bucket], "shared")
        features = self._features(bucket)
        low, high = self._range
        inside = bool(low) and all(
            a <= f <= b for a, f, b in zip(low, features, high, strict=True)
        )
        return Estimate(fitted, "interpolated" if inside else "extrapolated")

    def fitted(self, bucket: Bucket) -> float:
        """The cost by the fit alone, whether the bucket was measured or not."""
        return max(0.0, float(np.dot(self._features(bucket), self._weights)))

    def _find_scales(self) -> dict[Bucket, float]:
        """By what the fit must be multiplied so that measured sums come out."""
        scales: dict[Bucket, float] = {}
        for item in sorted(self._shared, key=lambda item: item.step / item.total):
            fresh = [bucket for bucket in item.buckets if bucket not in scales]
            known = sum(self.fitted(b) * scales[b] for b in item.buckets if b in scales)
            fitted = sum(self.fitted(bucket) for bucket in fresh)
            rest = item.total - known
            if fresh and fitted > 0 and rest >= 0:
                scales.update(dict.fromkeys(fresh, rest / fitted))
        return scales


def _reduce(observations: list[Observation]) -> list[Observation]:
    """Take what is known alone out of the sums, until nothing more follows."""
    alone: dict[Bucket, Observation] = {}
    sums = list(observations)
    while True:
        rest, found = [], False
        for item in sums:
            known = [alone[b] for b in item.buckets if b in alone]
            buckets = item.buckets - alone.keys()
            total = item.total - sum(other.total for other in known)
            step = item.step + sum(other.step for other in known)
            reduced = Observation(buckets, total, step)
            if len(buckets) == 1 and total >= 0 and step <= MAX_RELATIVE_STEP * total:
                alone[next(iter(buckets))] = reduced
                found = True
            elif buckets:
                rest.append(reduced)
        sums = rest
        if not found:
            break
    sums = _without_parts(sums)
    useful = [item for item in sums if item.step <= MAX_RELATIVE_STEP * item.total]
    return [*alone.values(), *useful]


def _without_parts(sums: list[Observation]) -> list[Observation]:
    """Take each sum out of the larger one that contains it."""
    kept: list[Observation] = []
    for item in sorted(sums, key=lambda item: len(item.buckets)):
        buckets, total, step = item.buckets, item.total, item.step
        for part in kept:
            if part.buckets < buckets and part.step <= item.step:
                buckets = buckets - part.buckets
                total, step = total - part.total, step + part.step
        kept.append(Observation(buckets, total, step))
    return kept


@dataclass(frozen=True)
class _Fit:
    features: Features
    weights: Any
    error: float | None
    worst_error: float | None


def _best_fit(
    observations: Sequence[Observation], feature_sets: Sequence[Features]
) -> _Fit:
    """The simplest of the feature sets that predicts what it was not shown as well."""
    fits = [
        fit
        for features in feature_sets
        if (fit := _fit(observations, features)) is not None
    ]
    if not fits:
        features = feature_sets[0]
        return _Fit(features, _proportional(observations, features), None, None)
    best = min(fit.error for fit in fits if fit.error is not None)
    return next(
        fit
        for fit in fits
        if fit.error is not None and fit.error <= _AS_GOOD * best + 1e-6
    )


def _matrix(observations: Sequence[Observation], features: Features) -> Any:
    return np.array(
        [
            np.sum([features(bucket) for bucket in item.buckets], axis=0)
            for item in observations
        ],
        dtype=float,
    )


def _fit(observations: Sequence[Observation], features: Features) -> _Fit | None:
    """Weighted least squares; None where there is too little, or a slope is negative."""
    if not observations:
        return None
    rows = _matrix(observations, features)
    totals = np.array([item.total for item in observations])
    if len(rows) <= rows.shape[1] or not totals.any():
        return None
    # Relative errors count, so that small graphs are fitted as well as large ones; a
    # coarse figure counts less.
    scale = np.maximum(np.abs(totals), 1e-12)
    weight = 1.0 / (
        scale * (1.0 + 10.0 * np.array([o.step for o in observations]) / scale)
    )
    columns = np.maximum(np.abs(rows * weight[:, None]).max(axis=0), 1e-300)
    design = rows * weight[:, None] / columns
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    inverse = np.linalg.pinv(design)
    scaled = inverse @ (totals * weight)
    leverage = np.clip(np.einsum("ij,ji->i", design, inverse), 0.0, 1.0 - 1e-9)
    residual = (totals * weight - design @ scaled) / (1.0 - leverage)
    weights = scaled / columns
    if (weights[1:] < 0).any():
        return None
    relative = np.abs(residual / (weight * scale))
    return _Fit(features, weights, float(np.median(relative)), float(relative.max()))


def _proportional(observations: Sequence[Observation], features: Features) -> Any:
    """Too little for a line: cost in proportion to the last feature, or nothing."""
    width = len(features((1, 1, 1)))
    weights = np.zeros(width)
    if observations:
        rows = _matrix(observations, features)
        units = rows[:, -1].sum()
        weights[-1] = sum(item.total for item in observations) / units if units else 0.0
    return weights


def _ranges(observations: Sequence[Observation], features: Features) -> tuple[Any, Any]:
    """Smallest and largest of each feature among the observed buckets."""
    seen = [features(bucket) for item in observations for bucket in item.buckets]
    if not seen:
        return (), ()
    return tuple(np.min(seen, axis=0)), tuple(np.max(seen, axis=0))
