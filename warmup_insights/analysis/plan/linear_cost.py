"""A cost as a linear function of a bucket's shape, fitted to what was measured.

An observation is a sum over one or several buckets, because logs are cut. The error of
the fit is the one on each observation when it is left out of the fit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from warmup_insights.model.events import Bucket

Features = Callable[[Bucket], tuple[float, ...]]

MAX_RELATIVE_STEP = 0.5
"""A sum whose rounding is a larger share of it than this is not used."""
_AS_GOOD = 1.1
_FIT_STEP = 0.1
"""A fitted cost counts as one rounded to this share of it, where sums are shared out."""


@dataclass(frozen=True)
class Observation:
    """What some buckets cost together; `step` is the rounding of that figure.

    What is not typical (`StepCost.is_spike`) is measured, but says nothing of others.
    """

    buckets: frozenset[Bucket]
    total: float
    step: float = 0.0
    is_typical: bool = True

    @property
    def is_useful(self) -> bool:
        """Whether the figure is more than its rounding."""
        return 0 <= self.step <= MAX_RELATIVE_STEP * self.total


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
    observation that was left out of it; None where there were too few observations.
    A fit of relative errors lies below the mean where a few figures are far above the
    others, as durations are; with `keeps_sum` it is scaled to the sum of what is known.
    """

    def __init__(
        self,
        observations: Iterable[Observation],
        feature_sets: Sequence[Features],
        *,
        keeps_sum: bool = False,
    ) -> None:
        alone, sums = _reduce(list(observations))
        self._measured = {bucket: item.total for bucket, item in alone.items()}
        known = [*(item for item in alone.values() if item.is_typical), *sums]
        self._fit = _best_fit(known, feature_sets)
        if keeps_sum:
            self._fit = _scaled(self._fit, known)
        self._num_known = sum(len(item.buckets) for item in known)
        self._variance = _variance(self._fit, known)
        self.error, self.worst_error = self._fit.error, self._fit.worst_error
        self._shared = _shares(sums, self.fitted) if sums else {}
        seen = [self._fit.features(bucket) for item in known for bucket in item.buckets]
        self._range = (np.min(seen, axis=0), np.max(seen, axis=0)) if seen else None

    @property
    def is_empty(self) -> bool:
        """Whether no figure was given that can be used."""
        return not self._measured and not self._shared

    def estimate(self, bucket: Bucket) -> Estimate:
        """The cost of a bucket; never negative."""
        if bucket in self._measured:
            return Estimate(self._measured[bucket], "measured")
        if bucket in self._shared:
            return Estimate(self._shared[bucket], "shared")
        features = np.array(self._fit.features(bucket))
        is_inside = self._range is not None and bool(
            ((self._range[0] <= features) & (features <= self._range[1])).all()
        )
        source = "interpolated" if is_inside else "extrapolated"
        return Estimate(self.fitted(bucket), source)

    def variance(self, buckets: Collection[Bucket]) -> float:
        """Of the sum of these buckets: each scatters about the fit, and the fit errs.

        The first part is there for measured buckets, too, as another run repeats them.
        """
        count = sum(bucket not in self._measured for bucket in buckets)
        error = count * count / self._num_known if self._num_known else 0.0
        return self._variance * (len(buckets) + error)

    def doubt(self, buckets: Iterable[Bucket]) -> float:
        """By how much the sum over those that are not measured may be off, as the fit is."""
        known = self._measured.keys() | self._shared.keys()
        return (self.error or 0.0) * sum(
            self.fitted(bucket) for bucket in buckets if bucket not in known
        )

    def fitted(self, bucket: Bucket) -> float:
        """The cost by the fit alone, whether the bucket was measured or not."""
        return max(0.0, float(np.dot(self._fit.features(bucket), self._fit.weights)))


def _reduce(
    sums: list[Observation],
) -> tuple[dict[Bucket, Observation], list[Observation]]:
    """The buckets known alone, and the useful rest of the sums without them."""
    alone: dict[Bucket, Observation] = {}
    is_new = True
    while is_new:
        is_new, rest = False, []
        for item in sums:
            known = [alone[bucket] for bucket in item.buckets if bucket in alone]
            item = Observation(
                item.buckets - alone.keys(),
                item.total - sum(other.total for other in known),
                item.step + sum(other.step for other in known),
                item.is_typical,
            )
            if len(item.buckets) == 1 and item.is_useful:
                alone[next(iter(item.buckets))] = item
                is_new = True
            elif item.buckets:
                rest.append(item)
        sums = rest
    return alone, [item for item in sums if item.is_useful]


def _shares(
    sums: Sequence[Observation], fitted: Callable[[Bucket], float]
) -> dict[Bucket, float]:
    """Parts of measured sums: least squares of the sums and the fit, none negative.

    Each counts by its rounding, so fine sums come out whole, and a finer one wins over a
    coarser one.
    """
    from scipy.optimize import lsq_linear

    buckets = sorted(frozenset().union(*(item.buckets for item in sums)))
    guess = np.array([fitted(bucket) for bucket in buckets])
    rows = np.array([[b in item.buckets for b in buckets] for item in sums]) * guess
    totals = np.array([item.total for item in sums])
    weight = 1.0 / np.maximum([item.step for item in sums], 1e-6 * totals)
    prior = np.eye(len(buckets)) / _FIT_STEP
    found = lsq_linear(
        np.concatenate([rows * weight[:, None], prior]),
        np.concatenate([totals * weight, prior.sum(axis=1)]),
        bounds=(0, np.inf),
    )
    return dict(zip(buckets, (guess * found.x).tolist(), strict=True))


class _Fit(NamedTuple):
    features: Features
    weights: Any
    error: float | None = None
    worst_error: float | None = None


def _scaled(fit: _Fit, known: Sequence[Observation]) -> _Fit:
    """The same fit, with the sum over what is known as it was measured."""
    total = sum(item.total for item in known)
    found = float((_rows(known, fit.features) @ fit.weights).sum()) if known else 0.0
    if found <= 0 or total <= 0:
        return fit
    return fit._replace(weights=fit.weights * (total / found))


def _variance(fit: _Fit, known: Sequence[Observation]) -> float:
    """Mean square by which one bucket is off the fit."""
    if not known:
        return 0.0
    away = _rows(known, fit.features) @ fit.weights - [item.total for item in known]
    return float(np.sum(away * away) / sum(len(item.buckets) for item in known))


def _best_fit(known: Sequence[Observation], feature_sets: Sequence[Features]) -> _Fit:
    """The simplest of the feature sets that predicts what was left out as well."""
    fits = [fit for features in feature_sets if (fit := _fit(known, features))]
    errors = [fit.error for fit in fits if fit.error is not None]
    for fit in fits:
        if fit.error is not None and fit.error <= _AS_GOOD * min(errors) + 1e-6:
            return fit
    # Too little for a line: cost in proportion to the last feature, or nothing.
    features = feature_sets[0]
    weights = np.zeros(len(features((1, 1, 1))))
    units = _rows(known, features)[:, -1].sum() if known else 0.0
    weights[-1] = sum(item.total for item in known) / units if units else 0.0
    return _Fit(features, weights)


def _rows(known: Sequence[Observation], features: Features) -> Any:
    sums = (np.sum([features(b) for b in item.buckets], axis=0) for item in known)
    return np.array(list(sums), dtype=float)


def _fit(known: Sequence[Observation], features: Features) -> _Fit | None:
    """Weighted least squares without falling slopes; None where there is too little."""
    from scipy.optimize import lsq_linear

    totals = np.array([item.total for item in known])
    rows = _rows(known, features)
    if not totals.any() or len(rows) <= rows.shape[1]:
        return None
    # Relative errors count, so that small graphs are fitted as well as large ones; a
    # coarse figure counts less.
    scale = np.maximum(totals, 1e-12)
    weight = 1.0 / (scale + 10.0 * np.array([item.step for item in known]))
    columns = np.maximum(np.abs(rows * weight[:, None]).max(axis=0), 1e-300)
    design = rows * weight[:, None] / columns
    if np.linalg.matrix_rank(design) < design.shape[1]:
        return None
    lowest = np.r_[-np.inf, np.zeros(len(columns) - 1)]
    found = lsq_linear(design, totals * weight, bounds=(lowest, np.inf))
    free = design[:, found.active_mask == 0]
    leverage = np.clip(np.einsum("ij,ji->i", free, np.linalg.pinv(free)), 0, 1 - 1e-9)
    relative = np.abs(found.fun / (1.0 - leverage) / (weight * scale))
    median, worst = float(np.median(relative)), float(relative.max())
    return _Fit(features, found.x / columns, median, worst)
