"""What each bucket of a run costs, from everything that is known of the run.

A cost is a linear function of a bucket's shape, fitted to what was measured. An observation is
a sum over one or several buckets, because logs are cut. The error of the fit is the one on each
observation when it is left out of the fit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from packaging.version import InvalidVersion, Version

from warmup_insights.analysis.summary.compilation import SPIKE_FACTOR
from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import bytes_step, first_known
from warmup_insights.model.summary import BucketRow, RunSummary, StepCost
from warmup_insights.rules.capture import (
    DECODE_STRATEGY,
    GRAPH_LIMIT_SINCE,
    GRAPH_STRATEGIES,
    PROMPT_STRATEGY,
    is_beyond_graphs,
    order_candidates,
)

Features = Callable[[Bucket], tuple[float, ...]]

MAX_RELATIVE_STEP = 0.5
"""A sum whose rounding is a larger share of it than this is not used."""
_AS_GOOD = 1.1
_FIT_STEP = 0.1
"""A fitted cost counts as one rounded to this share of it, where sums are shared out."""


@dataclass(frozen=True)
class Observation:
    """What some buckets cost together; `step` is the rounding of that figure.

    What is not typical (`StepCost.is_spike`) is measured, but is no sign of others.
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

    @property
    def even_share(self) -> float | None:
        """The cost of one of equal buckets, where sums alone are known and none was left
        to hold the fit against; else None."""
        if self._measured or not self._shared or self.error is not None:
            return None
        return sum(self._shared.values()) / len(self._shared)

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


LOG_TIME_STEP_S = 1.0
_LIMIT_SINCE = Version(GRAPH_LIMIT_SINCE)


def _of_prompt(bucket: Bucket) -> tuple[float, ...]:
    """A constant, tokens, context, and the products that attention computes."""
    batch_size, query_len, blocks = (*bucket, 0, 0)[:3]
    tokens = batch_size * query_len
    found = (1, tokens, batch_size * blocks, tokens * query_len, tokens * blocks)
    return tuple(map(float, found))


def _of_decode(bucket: Bucket) -> tuple[float, ...]:
    """A constant, sequences, and context."""
    # A two-dimensional decode bucket is (batch_size, seq_len) or (batch_size, blocks).
    length = bucket[2] if len(bucket) > 2 else math.prod(bucket)
    return 1.0, float(bucket[0]), float(length)


def _first(count: int, features: Features) -> Features:
    return lambda bucket: features(bucket)[:count]


_constant = _first(1, _of_decode)
FEATURES: dict[str, tuple[Features, ...]] = {
    "prompt": tuple(_first(count, _of_prompt) for count in (2, 3, 5)),
    "decode": tuple(_first(count, _of_decode) for count in (2, 3)),
}
"""Ways in which costs may grow, the simplest first; each begins with a constant."""


@dataclass(frozen=True)
class Evidence:
    """A run as plans read it: its summary and its rows, those of each phase apart."""

    summary: RunSummary
    rows: Sequence[BucketRow]
    max_num_batched_tokens: int | None = None
    """Where it is planned to be another than in the run."""

    def of(self, phase: str) -> list[BucketRow]:
        """The rows of one phase."""
        return [row for row in self.rows if row.phase == phase]

    def captures(self) -> list[tuple[BucketRow, StepCost]]:
        """The captures with their rows, in the order in which they happened."""
        known = [(row, row.capture) for row in self.rows if row.capture is not None]
        return sorted(known, key=lambda item: item[1].position)

    def shapes(self) -> dict[tuple[str, Bucket], Bucket]:
        """Phase and bucket to the shape that ran for it."""
        return {(row.phase, row.bucket): row.ran_as for row in self.rows}

    def gets_graph(self, phase: str, shape: Bucket) -> bool:
        """Whether the engine makes a graph of a shape at all; a run that did shows it."""
        summary, planned = self.summary, self.max_num_batched_tokens
        captured = summary.phase(phase).captured_buckets or ()
        if planned is None and shape in captured:
            return True
        limit = first_known(
            summary.setting(
                "max_cudagraph_capture_size",
                "compilation_config.max_cudagraph_capture_size",
            ),
            planned,
            summary.setting("max_num_batched_tokens"),
        )
        size = summary.memory_or_none.block_size
        if summary.engine.name != "vllm-gaudi" or limit is None or size is None:
            return True
        if str(summary.config.get("bridge_mode", "lazy")) != "lazy":
            return True  # `torch.compile` has no limit
        try:
            is_older = Version(summary.engine.version or "0") < _LIMIT_SINCE
        except InvalidVersion:
            is_older = False
        return is_older or not is_beyond_graphs(
            phase, shape, block_size=size, limit=int(limit)
        )

    def graph_shapes(self, phase: str) -> list[Bucket]:
        """The shapes of the run's own buckets that get a graph, each once."""
        shapes = self.shapes()
        listed = self.summary.phase(phase).buckets
        ran = dict.fromkeys(shapes.get((phase, bucket), bucket) for bucket in listed)
        return [shape for shape in ran if self.gets_graph(phase, shape)]


@dataclass(frozen=True)
class PhaseCosts:
    """Costs of one phase: bytes of a graph, seconds of a capture and of another run.

    A cost that nothing is known of is None. `captures_in_runs` is true where each bucket
    has one step, which captures if its shape is new (vllm-gaudi), and false where all
    buckets run first and graphs are captured after that (vllm-fork, reference).
    """

    graph_bytes: LinearCost | None
    capture_s: LinearCost | None
    run_s: LinearCost | None
    captures_in_runs: bool


def phase_costs(evidence: Evidence, phase: str) -> PhaseCosts:
    """The costs of the buckets of one phase."""
    features = FEATURES[phase]
    timed = (_constant, *features)
    rows, is_log = evidence.of(phase), evidence.summary.is_log
    step_s = LOG_TIME_STEP_S if is_log else 0.0
    own = [r for r, _ in evidence.captures() if r.phase == phase]
    captures = _seconds_of(((r, r.capture) for r in own), step_s)
    if is_log:
        # Where it is cut, of stretches of them.
        captures += _between(evidence, phase, lambda cost: cost.time, 1.0, step_s)
    return PhaseCosts(
        _cost(graph_memory(evidence, phase), features),
        _cost(captures, timed, keeps_sum=True),
        _cost(
            _seconds_of(((r, r.run) for r in rows), step_s),
            timed,
            keeps_sum=True,
        ),
        captures_in_runs=any(row.capture is not None for row in rows)
        and not any(row.capture is not None and row.run is not None for row in rows),
    )


def _cost(
    observations: Sequence[Observation],
    features: Sequence[Features],
    *,
    keeps_sum: bool = False,
) -> LinearCost | None:
    cost = LinearCost(observations, features, keeps_sum=keeps_sum)
    return None if cost.is_empty else cost


def graph_memory(evidence: Evidence, phase: str) -> list[Observation]:
    """What captures of the phase took: alone, between two lines of a log, and in all."""
    summary = evidence.summary
    part, engine = summary.phase(phase), summary.engine.name
    step = _memory_step(summary)
    taken = _taken(evidence, phase)
    found = [
        Observation(frozenset({shape}), float(size), step)
        for shape, size in taken.items()
    ]
    if summary.is_log:
        found += _between(
            evidence, phase, lambda cost: cost.free_before_bytes, -1.0, step
        )
    total = part.graph_used_bytes
    if not total or total < 0:
        return found
    rounding = bytes_step(engine, total) / 2 if summary.is_log else 0.0
    everything = _summed_shapes(evidence, phase)
    if everything and (summary.is_log or not found):
        found.append(Observation(everything, float(total), rounding))
        own = {shape: size for shape, size in taken.items() if shape in everything}
        found += _took_nothing(found, own, step)
    return found


def _taken(evidence: Evidence, phase: str) -> dict[Bucket, int]:
    """Shapes whose memory is known to the last step to what their graphs took."""
    rows = evidence.of(phase)
    # vllm-gaudi: the step of a bucket makes the graph, which a log does not state apart.
    is_gaudi = evidence.summary.engine.name == "vllm-gaudi"
    in_runs = is_gaudi and all(row.capture is None for row in rows)
    taken: dict[Bucket, int] = {}
    unknown = set()
    for row in rows:
        cost = row.run if in_runs else row.capture
        if cost is not None and cost.memory_bytes is not None:
            taken[row.ran_as] = taken.get(row.ran_as, 0) + cost.memory_bytes
        elif in_runs:
            unknown.add(row.ran_as)
    return {shape: size for shape, size in taken.items() if shape not in unknown}


def _took_nothing(
    found: Sequence[Observation], taken: Mapping[Bucket, int], step: float
) -> list[Observation]:
    """Shapes that took nothing but rounding, where the others took all of the sum.

    With `torch.compile` one shape's step can compile for those behind it.
    """
    alone, sums = _reduce(list(found))
    if sums:
        return []
    return [
        Observation(frozenset({shape}), 0.0)
        for shape, size in taken.items()
        if shape not in alone and abs(size) <= step
    ]


def _summed_shapes(evidence: Evidence, phase: str) -> frozenset[Bucket]:
    """The shapes whose graphs the stated sum is of; empty where they are not known."""
    part = evidence.summary.phase(phase)
    if part.captured_buckets is not None:
        return frozenset(part.captured_buckets)
    captures = [row.ran_as for row in evidence.of(phase) if row.capture is not None]
    if captures:
        is_whole = len(captures) == part.captured_reported
        return frozenset(captures) if is_whole else frozenset()
    # vllm-gaudi: every shape that runs has a graph, and only the sum is stated.
    return frozenset(evidence.graph_shapes(phase))


def _seconds_of(
    steps: Iterable[tuple[BucketRow, StepCost | None]], step_s: float
) -> list[Observation]:
    """Durations of single runs or captures; those of a progress bar are finer than lines."""
    found = []
    for row, cost in steps:
        if cost is None or cost.duration_s is None:
            continue
        step = step_s if row.resolution_s is None else row.resolution_s
        alone = frozenset({row.bucket})
        found.append(Observation(alone, cost.duration_s, step, _is_typical(cost, step)))
    return found


def _is_typical(cost: StepCost, step_s: float) -> bool:
    """Whether a step took neither a multiple nor a fraction of its neighbours' time.

    It takes a fraction where nothing had to be compiled, as of the shape of the profiling run.
    """
    took, usual = cost.duration_s, cost.neighbours_s
    is_dip = (
        took is not None
        and usual is not None
        and SPIKE_FACTOR * (took + step_s) < usual
    )
    return not cost.is_spike and not is_dip


def _between(
    evidence: Evidence,
    phase: str,
    read: Callable[[StepCost], float | None],
    sign: float,
    rounding: float,
) -> list[Observation]:
    """Sums over the candidates that ran from one printed line to the next.

    Lines are printed before their bucket runs, so a stretch begins with the bucket of
    its first line. Which buckets lie between follows from the capture order, if the
    printed numbers agree with it.
    """
    place = _places(evidence, phase)
    if place is None:
        return []
    captures = evidence.captures()
    printed = {cost.index for row, cost in captures if row.phase == phase}
    found = []
    for (row, first), (following, second) in itertools.pairwise(captures):
        start, end = read(first), read(second)
        if row.phase != phase or start is None or end is None or first.index is None:
            continue
        last = first.index
        if following.phase == phase and second.index is not None:
            last = second.index - 1
        indices = [
            index
            for index in range(first.index, last + 1)
            if index == first.index or index not in printed
        ]
        buckets = frozenset(place[i] for i in indices if i in place)
        total = sign * (end - start)
        if buckets and total >= 0:
            found.append(Observation(buckets, total, 2 * rounding))
    return found


def _places(evidence: Evidence, phase: str) -> dict[int, Bucket] | None:
    """Number in the capture order to captured bucket; None if the log orders otherwise."""
    part = evidence.summary.phase(phase)
    captured = part.captured_buckets
    if not part.buckets or captured is None:
        return None
    own = [
        (row.bucket, cost.index)
        for row, cost in evidence.captures()
        if row.phase == phase and cost.index is not None
    ]
    for strategy in GRAPH_STRATEGIES:
        ordered = order_candidates(part.buckets, strategy)
        numbered = dict(enumerate(ordered, start=1))
        if all(numbered.get(index) == bucket for bucket, index in own):
            known = set(captured)
            return {i: bucket for i, bucket in numbered.items() if bucket in known}
    return None


def capture_strategies(summary: RunSummary) -> tuple[str, str]:
    """The order of prompt and decode graphs: as set, else as by default."""
    prompt = str(summary.config.get("VLLM_GRAPH_PROMPT_STRATEGY") or PROMPT_STRATEGY)
    decode = str(summary.config.get("VLLM_GRAPH_DECODE_STRATEGY") or DECODE_STRATEGY)
    return prompt, decode


def _memory_step(summary: RunSummary) -> float:
    """The rounding of what was free before a step, in the log of an HPU engine."""
    total = summary.memory_or_none.total_bytes or summary.memory_or_none.free_bytes
    if not summary.is_log or not total:
        return 0.0
    return bytes_step(summary.engine.name, total)
