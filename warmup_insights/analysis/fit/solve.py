"""The bucket set that wastes least for given traffic within given limits.

Sets come from shortest paths, and from the engine's own strategies; small traffic that
this leaves unproven goes to a mixed integer program.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from warmup_insights.analysis.fit.cost import (
    DEFAULT_BLOCK_WEIGHT,
    Limits,
    Pairs,
    Usage,
    as_bucket,
    measure_waste,
    needed_cost,
    tighten,
    used_buckets,
)
from warmup_insights.analysis.fit.paths import (
    Problem,
    by_paths,
    lower_bound,
    problem_of,
)
from warmup_insights.analysis.fit.traffic import Traffic
from warmup_insights.bucketing.base import Bucket
from warmup_insights.errors import InputError

Buckets = Mapping[str, Sequence[Bucket]]

MAX_PROGRAM_CELLS = 1_000
"""Shapes times buckets of the grid, for a phase in a mixed integer program."""
_NODES = 2_000


@dataclass(frozen=True)
class Fit:
    """The buckets found, by phase, and how good they are.

    Costs are in tokens (see `cost`). `bound` is a cost that no allowed set is below;
    `is_exact` is whether the set reaches it. `method` is where the set came from.
    """

    buckets: dict[str, tuple[Bucket, ...]]
    needed: int
    executed: int
    bound: int
    is_exact: bool
    method: str
    usage: Usage

    @property
    def wasted(self) -> int:
        """Executed without need."""
        return self.executed - self.needed

    @property
    def waste_ratio(self) -> float | None:
        """Share of all executed work that is padding."""
        return self.wasted / self.executed if self.executed else None

    @property
    def gap_percent(self) -> float:
        """By how much the executed work lies above the optimum, at most."""
        return 100.0 * (self.executed - self.bound) / self.bound if self.bound else 0.0


def fit_buckets(
    traffic: Traffic,
    limits: Limits,
    *,
    block_weight: int = DEFAULT_BLOCK_WEIGHT,
    max_tokens: int | None = None,
    others: Iterable[tuple[str, Buckets]] = (),
) -> Fit:
    """The buckets that cover all traffic within the limits and waste least.

    `max_tokens` is max_num_batched_tokens. `others` are named sets, such as those of the
    engine's strategies: the result is never worse than one of them that covers the
    traffic and, reduced to what is used, keeps the limits.

    Raises:
        InputError: no set of buckets that covers the traffic keeps the limits.
    """
    problem = problem_of(traffic, limits, block_weight, max_tokens)
    found: list[tuple[str, Buckets]]
    found = [("shortest paths", buckets) for buckets in by_paths(problem)]
    found += [(f"{name}, reduced to what is used", own) for name, own in others]
    best = _best(problem, found)
    bound = max(lower_bound(problem._replace(limits=one)) for one in limits.each())
    if best is None or best.executed > bound:
        solved, proven = _by_program(problem)
        bound = max(bound, proven)
        better = _best(problem, [("mixed integer program", own) for own in solved])
        if better is not None and (best is None or better.executed < best.executed):
            best = better
    if best is None:
        raise InputError(
            f"No buckets for {' and '.join(problem.phases)} steps cover all shapes "
            f"within {limits}; raise the limit"
        )
    bound = min(bound, best.executed)
    return Fit(
        {phase: tuple(sorted(best.buckets[phase])) for phase in problem.phases},
        needed_cost(traffic, block_weight),
        best.executed,
        bound,
        bound == best.executed,
        best.name,
        limits.usage(_pairs(best.buckets)),
    )


class _Candidate(NamedTuple):
    name: str
    buckets: dict[str, list[Bucket]]
    executed: int


def _best(problem: Problem, found: Iterable[tuple[str, Buckets]]) -> _Candidate | None:
    """The set of least executed work that covers everything and keeps the limits.

    Of each phase the used buckets count, as they are or tightened, whichever wastes
    less: a tighter bucket comes earlier in the engine's order and can take shapes from
    a better one.
    """
    best: _Candidate | None = None
    for name, buckets in found:
        chosen: dict[str, list[Bucket]] = {}
        executed = 0.0
        for phase, part in problem.parts.items():
            own = buckets.get(phase, ())
            options = [used_buckets(part, own), tighten(part, own, phase)]
            wastes = [
                measure_waste(part, o, phase, problem.block_weight) for o in options
            ]
            keys = [(waste.uncovered_shapes, waste.executed) for waste in wastes]
            chosen[phase] = options[keys.index(min(keys))]
            uncovered, cost = min(keys)
            executed += math.inf if uncovered else cost
        is_better = executed < (math.inf if best is None else best.executed)
        if is_better and problem.limits.load(_pairs(chosen)) <= 1:
            best = _Candidate(name, chosen, int(executed))
    return best


def _pairs(buckets: Buckets) -> Pairs:
    return [(phase, bucket) for phase, own in buckets.items() for bucket in own]


def _by_program(problem: Problem) -> tuple[list[dict[str, list[Bucket]]], int]:
    """The best set of the grid of sizes that occur, and a bound; nothing if it is large.

    Sizes between those that occur can put buckets in another order for the engine, to
    some use where all three dimensions of prompts vary. There the bound is that of
    shapes that take the cheapest bucket, whatever the order.
    """
    offers: Pairs = []
    for phase, part in problem.parts.items():
        values = [np.unique(part.shapes[:, column]).tolist() for column in range(3)]
        if math.prod(map(len, values)) * len(part) > MAX_PROGRAM_CELLS:
            return [], 0
        own = (as_bucket(shape, phase) for shape in itertools.product(*values))
        offers += [(phase, b) for b in own if problem.is_admissible(phase, b)]
    chosen, bound = _solve(problem, offers, is_ordered=True)
    if any(np.ptp(p.shapes, axis=0).all() for p in problem.parts.values()):
        bound = _solve(problem, offers, is_ordered=False)[1]
    found = {p: [b for q, b in chosen if p == q] for p in problem.phases}
    return [found] if chosen else [], problem.needed + bound


def _solve(problem: Problem, offers: Pairs, *, is_ordered: bool) -> tuple[Pairs, int]:
    """The offers that waste least, and the least waste as far as it is proven.

    One variable per offer is whether it is chosen, one per shape and covering offer
    whether the shape runs there: in a chosen one, and if ordered in the first of them.
    """
    from scipy.optimize import LinearConstraint, milp
    from scipy.sparse import csr_array

    entries: list[tuple[int, int, float]] = []
    lower: list[float] = []
    upper: list[float] = []

    def constrain(low: float, columns: Iterable[int], values: Any, high: float) -> None:
        entries.extend((len(lower), c, v) for c, v in zip(columns, values, strict=True))
        lower.append(low)
        upper.append(high)

    waste = [0.0] * len(offers)
    table = np.array([bucket for _, bucket in offers])
    names = np.array([phase for phase, _ in offers])
    for phase, part in problem.parts.items():
        costs = problem.cost(phase, table)
        needed = problem.cost(phase, part.shapes)
        for shape, count, least in zip(part.shapes, part.counts, needed, strict=True):
            covers = np.flatnonzero((names == phase) & (table >= shape).all(axis=1))
            runs = range(len(waste), len(waste) + len(covers))
            waste += (count * (costs[covers] - least)).tolist()
            constrain(1, runs, [1] * len(runs), 1)
            for place, (run, offer) in enumerate(zip(runs, covers, strict=True)):
                constrain(-1, (run, int(offer)), (1, -1), 0)
                if is_ordered:
                    later = runs[place + 1 :]
                    constrain(0, (*later, int(offer)), [1] * (len(later) + 1), 1)
    for bound, amounts in problem.limits.amounts(offers):
        constrain(0, range(len(offers)), amounts, bound)
    scale = max(1.0, max(waste) / 1e4)
    rows, columns, values = zip(*entries, strict=True)
    matrix = csr_array((values, (rows, columns)), shape=(len(lower), len(waste)))
    result = milp(
        np.array(waste) / scale,
        integrality=np.arange(len(waste)) < len(offers),
        bounds=(0, 1),
        constraints=LinearConstraint(matrix, lower, upper),
        options={"node_limit": _NODES, "mip_rel_gap": 0.0},
    )
    proven = getattr(result, "mip_dual_bound", None)
    # The solver works to about six digits after the point.
    least = 0 if proven is None else max(0, math.ceil((proven - 1e-5) * scale))
    if result.x is None:
        return [], least
    return [pair for i, pair in enumerate(offers) if result.x[i] > 0.5], least
