"""The bucket set that wastes least for given traffic within given limits.

Sets come from shortest paths, and from the engine's own strategies; small traffic that
this leaves unproven goes to a mixed integer program. A cost that no set is below shows how
good a set is.

For shortest paths each phase is cut along its outer dimension (batch size in decode, query
length in prompts) into stretches, each covered by values of the inner one (blocks). The
engine searches the outer dimension first, so no shape leaves its stretch. At a price per
bucket the best cuts and values are shortest paths; the price is bisected until the limits
hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from warmup_insights.analysis.fit.cost import (
    Limits,
    Pairs,
    Usage,
    as_bucket,
    execution_cost,
    measure_waste,
    tighten,
    used_buckets,
)
from warmup_insights.analysis.fit.traffic import ShapeCounts, Traffic, count_shapes
from warmup_insights.bucketing.base import Bucket
from warmup_insights.errors import InputError
from warmup_insights.model.summary import PHASES

MAX_GRID = 2_500
"""Candidates of both dimensions multiplied, when cuts are searched."""
MAX_LINE_WORK = 4_000_000
"""Stretches times the square of their candidate values, when values are searched."""
MAX_BOUND_VALUES = 1_500
_CUT_STEPS, _VALUE_STEPS = 12, 50


_NEVER = 1e15
Admits = Callable[[str, Bucket], bool]
"""Whether an engine takes a bucket of a phase from a file."""
Buckets = Mapping[str, Sequence[Bucket]]
Warms = Callable[[str, Iterable[Bucket]], Sequence[Bucket]]
"""What an engine warms up for the buckets of a phase in a file."""


def adds_none(phase: str, buckets: Iterable[Bucket]) -> Sequence[Bucket]:
    """An engine that warms up what the file has."""
    return tuple(buckets)


class Problem(NamedTuple):
    """Traffic by phase, with the limits; query lengths of prompts are at least 2."""

    parts: dict[str, ShapeCounts]
    limits: Limits
    block_weight: int
    admits: Admits
    warms: Warms

    @property
    def needed(self) -> int:
        """Cost of all shapes without padding."""
        return sum(
            int((self.cost(phase, part.shapes) * part.counts).sum())
            for phase, part in self.parts.items()
        )

    def cost(self, phase: str, shapes: Any) -> Any:
        """Cost of each shape or bucket in tokens."""
        return execution_cost(shapes, phase, self.block_weight)

    def prices(self, phase: str, buckets: Any) -> Any:
        """What each bucket, a row of three sizes, takes of the limits' budget."""
        pairs = [(phase, Bucket(*bucket)) for bucket in buckets.tolist()]
        amounts = self.amounts(pairs)
        scale = self.limits.budget / len(amounts)
        return sum(np.array(own) * scale / bound for bound, own in amounts)

    def amounts(self, pairs: Pairs) -> list[tuple[float, list[float]]]:
        """Each bound, and what each bucket takes of it with those that are added for it:
        at most, as several may add the same."""
        warmed = [[(p, own) for own in self.warms(p, [bucket])] for p, bucket in pairs]
        return [
            (bound, [sum(cost(*pair) for pair in own) for own in warmed])
            for bound, cost in self.limits.bounds()
        ]

    def warmed(self, buckets: Buckets) -> Pairs:
        """What the engine warms up of these buckets in a file."""
        return [(p, own) for p in buckets for own in self.warms(p, buckets[p])]

    def by_phase(self, pairs: Pairs) -> dict[str, list[Bucket]]:
        """The buckets of each phase."""
        return {p: [b for q, b in pairs if p == q] for p in self.parts}

    @property
    def highest_price(self) -> float:
        """A price at which no bucket pays that is not needed to cover everything."""
        cost, least = 1, math.inf
        for phase, part in self.parts.items():
            ends = np.array([part.shapes.min(axis=0), part.shapes.max(axis=0)])
            cost += int(self.cost(phase, ends)[1]) * part.total
            least = min(least, float(self.prices(phase, ends)[0]))
        return cost / least if least > 0 else float(cost)

    def is_admissible(self, phase: str, bucket: Sequence[int]) -> bool:
        """Whether the engine takes it from a file."""
        return self.admits(phase, Bucket(*map(int, bucket)))

    def path_costs(self, phase: str, buckets: Any) -> Any:
        """Cost of each bucket, above all others for what the engine does not take."""
        taken = [self.is_admissible(phase, bucket) for bucket in buckets.tolist()]
        return np.where(taken, self.cost(phase, buckets), _NEVER)


def _padded(rows: Sequence[Any]) -> Any:
    """Rows of different length as one array; what is filled in is never read."""
    found = np.zeros((len(rows), max(map(len, rows))))
    for own, row in zip(found, rows, strict=True):
        own[: len(row)] = row
    return found


def _thinned(values: Any, counts: Any, number: int) -> Any:
    """About `number` of the distinct values: even in number and in steps; the largest."""
    distinct, inverse = np.unique(values, return_inverse=True)
    if len(distinct) <= number:
        return distinct
    weights = np.cumsum(np.bincount(inverse, weights=counts + 1.0))
    heavy = np.searchsorted(weights, np.linspace(0, weights[-1], number // 2))
    even = np.linspace(0, len(distinct) - 1, number - number // 2).astype(np.int64)
    chosen = np.concatenate([heavy, even])
    return distinct[np.unique(np.minimum(chosen, len(distinct) - 1))]


def _paths(weights: Any, costs: Any, fees: Any) -> tuple[Any, Any]:
    """For each row the least cost of covering the first k values, and the cover before.

    `weights` (rows, n + 1) counts the steps up to each value; value k costs `costs` per
    step that runs at it and `fees` once (both n wide). O(rows n^2).
    """
    rows = np.arange(len(weights))
    best = np.zeros(weights.shape)
    before = np.zeros(weights.shape, dtype=np.int64)
    for k in range(1, weights.shape[1]):
        options = best[:, :k] - weights[:, :k] * costs[:, k - 1, None]
        before[:, k] = i = options.argmin(axis=1)
        best[:, k] = options[rows, i] + weights[:, k] * costs[:, k - 1] + fees[:, k - 1]
    return best, before


def _trace(before: Any, last: int) -> list[int]:
    """Positions of the chosen values of one row."""
    found = []
    while last > 0:
        found.append(last - 1)
        last = int(before[last])
    return found[::-1]


class _Plane(NamedTuple):
    """Shapes of one phase and, in prompts, of one range of batch sizes."""

    phase: str
    part: ShapeCounts

    @property
    def outer(self) -> int:
        """The column that the engine searches first."""
        return 1 if self.phase == "prompt" else 0

    @property
    def inner(self) -> int:
        """The column of the values in a stretch: blocks, unless these never vary."""
        return 2 if np.ptp(self.part.shapes[:, 2]) else self.outer

    @property
    def is_line(self) -> bool:
        """Whether the outer dimension or the blocks have a single value."""
        return not np.ptp(self.part.shapes, axis=0)[[self.outer, 2]].all()

    def cuts(self, pairs: Pairs) -> tuple[int, ...]:
        """Where its stretches end, by the buckets of a grid that lie in the plane."""
        largest = self.part.shapes.max(axis=0)
        cuts = {int(largest[self.outer])}
        if not self.is_line:
            own = [b for phase, b in pairs if phase == self.phase]
            is_mine = self.phase == "decode"
            cuts |= {b[self.outer] for b in own if is_mine or b[0] == largest[0]}
        return tuple(sorted(cuts))

    def buckets(self, part: ShapeCounts, column: int, values: Any) -> Any:
        """Buckets as large as a part of the plane, but for the values of one column."""
        largest = part.shapes.max(axis=0)
        if self.phase == "prompt":
            largest[0] = self.part.shapes[:, 0].max()
        found = np.tile(largest, (len(values), 1))
        found[:, column] = values
        return found

    def stretches(self, cuts: Sequence[int]) -> Iterator[ShapeCounts]:
        """The parts that end at these outer values."""
        place = np.searchsorted(cuts, self.part.shapes[:, self.outer])
        for number in np.unique(place):
            yield self.part.where(place == number)


def _plane_sets(problem: Problem) -> Iterator[list[_Plane]]:
    """Planes of both phases; batch sizes of prompts alone, by powers of two, together."""
    parts = dict(problem.parts)
    decode = [_Plane("decode", parts["decode"])] if "decode" in parts else []
    if "prompt" not in parts:
        yield decode
        return
    prompt = parts["prompt"]
    sizes = prompt.shapes[:, 0]
    powers = np.ceil(np.log2(sizes))
    # Each puts groups of the one before together: the same number, the same groups.
    ways = {len(np.unique(w)): w for w in (sizes, powers, np.zeros_like(sizes))}
    for group in ways.values():
        groups = [prompt.where(group == value) for value in np.unique(group)]
        if all(problem.is_admissible("prompt", p.shapes.max(axis=0)) for p in groups):
            yield [*(_Plane("prompt", part) for part in groups), *decode]


class _Cuts:
    """The search for good cuts of one plane, over a grid of candidates."""

    def __init__(self, problem: Problem, plane: _Plane) -> None:
        self.phase = plane.phase
        shapes, counts = plane.part.shapes, plane.part.counts
        outer, inner = shapes[:, plane.outer], shapes[:, 2]
        half = math.isqrt(MAX_GRID)
        width = max(half, MAX_GRID // len(np.unique(outer)))
        self.inner = _thinned(inner, counts, width)
        self.outer = _thinned(outer, counts, max(half, MAX_GRID // len(self.inner)))
        size = (len(self.outer), len(self.inner))
        steps, present = np.zeros((2, size[0] + 1, size[1] + 1))
        at = (
            np.searchsorted(self.outer, outer) + 1,
            np.searchsorted(self.inner, inner) + 1,
        )
        np.add.at(steps, at, counts)
        np.add.at(present, at, 1)
        self._steps, self._present = (g.cumsum(0).cumsum(1) for g in (steps, present))
        rows = [plane.buckets(plane.part, 2, self.inner) for _ in self.outer]
        for row, value in zip(rows, self.outer, strict=True):
            row[:, plane.outer] = value
        self._buckets = np.array(rows)
        flat = self._buckets.reshape(-1, 3)
        self._costs = problem.path_costs(self.phase, flat).reshape(size)
        self._prices = problem.prices(self.phase, flat).reshape(size)

    def at(self, price: float) -> Pairs:
        """The best buckets of the grid at a price."""
        number = len(self.outer)
        best, before = np.zeros(number + 1), np.zeros(number + 1, dtype=np.int64)
        chosen: list[list[int]] = [[]]
        for j in range(1, number + 1):
            rows = np.arange(j)
            costs, paths = _paths(
                self._steps[j] - self._steps[:j],
                np.broadcast_to(self._costs[j - 1], (j, len(self.inner))),
                np.broadcast_to(price * self._prices[j - 1], (j, len(self.inner))),
            )
            # A stretch is covered from the first value on that holds all its shapes.
            held = self._present[j] - self._present[:j]
            last = (held < held[:, -1:]).sum(axis=1)
            total = best[:j] + costs[rows, last]
            before[j] = i = int(total.argmin())
            best[j] = total[i]
            chosen.append(_trace(paths[i], last[i]))
        return [
            (self.phase, Bucket(*map(int, self._buckets[position, k])))
            for position in _trace(before, number)
            for k in chosen[position + 1]
        ]


class _Values:
    """The search for the best values of stretches that share the limits."""

    def __init__(self, problem: Problem, planes: Sequence[_Plane], cuts: Any) -> None:
        stretches = [
            (plane, part)
            for plane, own in zip(planes, cuts, strict=True)
            for part in plane.stretches(own)
        ]
        most = max(2, math.isqrt(MAX_LINE_WORK // len(stretches)))
        self._lines: list[tuple[str, Any]] = []
        steps = []
        for plane, part in stretches:
            own = part.shapes[:, plane.inner]
            values = _thinned(own, part.counts, most)
            place = np.searchsorted(values, own)
            steps.append(np.bincount(place, weights=part.counts, minlength=len(values)))
            self._lines.append((plane.phase, plane.buckets(part, plane.inner, values)))
        self._steps = _padded([np.r_[0, own.cumsum()] for own in steps])
        self._costs = _padded([problem.path_costs(*line) for line in self._lines])
        self._prices = _padded([problem.prices(*line) for line in self._lines])
        # Less than a token in all: makes ties unequal, so that every number of buckets
        # is the best one at some price.
        order = np.arange(self._prices.size).reshape(self._prices.shape)
        self._ties = (order * 0.6180339887 % 1.0 + 0.01) / (2 * self._prices.size)

    def at(self, price: float) -> Pairs:
        """The best buckets at a price."""
        _, before = _paths(self._steps, self._costs, price * self._prices + self._ties)
        return [
            (phase, Bucket(*map(int, buckets[i])))
            for (phase, buckets), row in zip(self._lines, before, strict=True)
            for i in _trace(row, len(buckets))
        ]


def by_paths(problem: Problem) -> Iterator[dict[str, list[Bucket]]]:
    """Sets from shortest paths, for the most promising cuts of each set of planes."""
    tries = 40_000 // sum(map(len, problem.parts.values()))
    for planes in _plane_sets(problem):
        cuts = {tuple(plane.cuts([]) for plane in planes): None}
        if not all(plane.is_line for plane in planes):
            grids = [
                _Values(problem, [p], [p.cuts([])]) if p.is_line else _Cuts(problem, p)
                for p in planes
            ]
            tried = _search(problem, grids, _CUT_STEPS)
            tried.sort(key=lambda found: abs(found[0] - 1))
            cuts = dict.fromkeys(
                tuple(p.cuts(pairs) for p in planes) for _, pairs in tried
            )
        for own in list(cuts)[: max(2, min(8, tries))]:
            tried = _search(problem, [_Values(problem, planes, own)], _VALUE_STEPS)
            allowed = [pairs for load, pairs in tried if load <= 1]
            for pairs in allowed[-1:]:
                yield problem.by_phase(pairs)


def _search(
    problem: Problem, parts: Sequence[_Cuts | _Values], steps: int
) -> list[tuple[float, Pairs]]:
    """What prices give, with the load on the limits, nearing a load of 1 from both sides.

    Of those within the limits each is better than those before it.
    """
    found = []
    price, low, high = 0.0, 1e-6, problem.highest_price
    for _ in range(steps):
        pairs = [pair for part in parts for pair in part.at(price)]
        load = problem.limits.load(problem.warmed(problem.by_phase(pairs)))
        found.append((load, pairs))
        if load == 1 or (price == 0 and load <= 1):
            break
        if price:
            low, high = (price, high) if load > 1 else (low, price)
        # Useful prices span many orders of magnitude: halve their logarithm.
        price = math.sqrt(low * high)
    return found


def lower_bound(problem: Problem) -> int:
    """A cost that no set of buckets within the limits is below.

    Buckets of a phase never cost less than their values in one dimension would, were
    padding in that dimension all. With a price on the limits, the shortest path along
    the dimension that gives most, less what the whole limits cost, is below every
    allowed set (Lagrange's dual); the best price is found by bisection.
    """
    lines = [line for phase in problem.parts for line in _lines(problem, phase)]
    steps, costs, prices = (_padded([line[i] for line in lines]) for i in (1, 2, 3))
    rows = np.arange(len(lines))
    sizes = np.array([len(line[2]) for line in lines])
    least = np.array([line[4] for line in lines])
    phases = np.array([line[0] for line in lines])

    def dual(price: int) -> tuple[float, float]:
        """Padding by this price, and how much of the limits its paths take."""
        best, before = _paths(steps, costs, price * prices)
        padding = best[rows, sizes] - least
        # Rounding errors may not lift it.
        value = -price * problem.limits.budget * (1 + 1e-12) - 1e-12 * problem.needed
        spent = 0.0
        for phase in problem.parts:
            row = max(rows[phases == phase], key=lambda row: float(padding[row]))
            value += float(padding[row])
            spent += float(prices[row, _trace(before[row], sizes[row])].sum())
        return value, spent

    low, high, best = 0, math.ceil(problem.highest_price), 0.0
    while high - low > 1:
        middle = (low + high) // 2
        value, spent = dual(middle)
        best = max(best, value)
        # All costs are whole numbers, so a whole price is best if buckets are counted.
        low, high = (middle, high) if spent > problem.limits.budget else (low, middle)
    return problem.needed + math.ceil(best)


def _lines(problem: Problem, phase: str) -> Iterator[tuple[str, Any, Any, Any, int]]:
    """For each dimension that varies: phase, steps, values, prices, cost unpadded."""
    part, weight = problem.parts[phase], problem.block_weight
    batch, query, blocks = part.shapes.T
    if phase == "prompt":
        factors = (query + weight * blocks, batch, weight * batch)
    else:
        factors = (query, batch, weight * query)  # the query length is 1
    varying = [c for c in range(3) if np.ptp(part.shapes[:, c]) > 0]
    for column in varying or [0]:
        values, inverse = np.unique(part.shapes[:, column], return_inverse=True)
        steps = np.bincount(inverse, weights=factors[column] * part.counts)
        cost = int((values * steps).sum())
        if len(values) > MAX_BOUND_VALUES:
            # Values of a bin count as its smallest: that only lowers the bound.
            bins = np.arange(MAX_BOUND_VALUES) * len(values) // MAX_BOUND_VALUES
            steps, values = np.add.reduceat(steps, bins), values[bins]
        buckets = np.tile(part.shapes.min(axis=0), (len(values), 1))
        buckets[:, column] = values
        prices = problem.prices(phase, buckets)
        yield phase, np.r_[0, steps.cumsum()], values, prices, cost


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
    block_weight: int,
    admits: Admits,
    warms: Warms,
    others: Iterable[tuple[str, Buckets]],
) -> Fit:
    """The buckets that cover all traffic within the limits and waste least.

    `admits` is whether the engine takes a bucket from a file, `warms` what it warms up for
    those of a file: that covers the traffic, and limits count it. `others` are named sets,
    such as those of the engine's strategies: the result is never worse than one of them in
    a file that covers the traffic and, reduced to what is used, keeps the limits.

    Raises:
        InputError: no set of buckets that covers the traffic keeps the limits.
    """
    parts = {phase: traffic.of(phase) for phase in PHASES if len(traffic.of(phase))}
    problem = Problem(parts, limits, block_weight, admits, warms)
    needed = problem.needed
    if "prompt" in parts:
        shapes = np.maximum(parts["prompt"].shapes, (0, 2, 0))
        parts["prompt"] = count_shapes(shapes, parts["prompt"].counts)
    found: list[tuple[str, Buckets]]
    found = [("shortest paths", buckets) for buckets in by_paths(problem)]
    found += [(f"{name}, reduced to what is used", own) for name, own in others]
    best = _best(problem, found)
    # What is warmed up is a set within the limits, too, whatever of it is in the file.
    plain = problem._replace(warms=adds_none)
    bound = max(lower_bound(plain._replace(limits=one)) for one in limits.each())
    if best is None or best.executed > bound:
        solved, proven = _by_program(problem)
        bound = max(bound, proven)
        better = _best(problem, [("mixed integer program", own) for own in solved])
        if better is not None and (best is None or better.executed < best.executed):
            best = better
    if best is None:
        raise InputError(
            f"No buckets for {' and '.join(problem.parts)} steps cover all shapes "
            f"within {limits}; raise the limit"
        )
    executed = int(best.executed)
    bound = min(bound, executed)
    return Fit(
        {phase: tuple(sorted(best.buckets[phase])) for phase in problem.parts},
        needed,
        executed,
        bound,
        bound == executed,
        best.name,
        limits.usage(problem.warmed(best.buckets)),
    )


class _Candidate(NamedTuple):
    name: str
    buckets: dict[str, list[Bucket]]
    executed: float


def _best(problem: Problem, found: Iterable[tuple[str, Buckets]]) -> _Candidate | None:
    """The set of least executed work that covers everything and keeps the limits.

    Of each phase the used buckets count, as they are or tightened, whichever wastes
    less: a tighter bucket comes earlier in the engine's order and can take shapes from
    a better one. Where that exceeds the limits the set counts as it is: what is added
    for its buckets may be fewer, as several may add the same.
    """
    best: _Candidate | None = None
    for name, buckets in found:
        for ways in (_REDUCED, _WHOLE):
            made = _made(problem, name, buckets, ways)
            if problem.limits.load(problem.warmed(made.buckets)) <= 1:
                if made.executed < (math.inf if best is None else best.executed):
                    best = made
                break
    return best


Way = Callable[[ShapeCounts, Sequence[Bucket], str], list[Bucket]]
_REDUCED: tuple[Way, ...] = (lambda part, own, _: used_buckets(part, own), tighten)
_WHOLE: tuple[Way, ...] = (lambda _, own, __: sorted(own),)


def _made(
    problem: Problem, name: str, buckets: Buckets, ways: tuple[Way, ...]
) -> _Candidate:
    """What the best of the ways makes of the buckets of each phase; of infinite work where
    they do not cover everything, or the engine does not take one."""
    chosen: dict[str, list[Bucket]] = {}
    executed = 0.0
    for phase, part in problem.parts.items():
        made = (way(part, buckets.get(phase, ()), phase) for way in ways)
        options = [
            own for own in made if all(problem.is_admissible(phase, b) for b in own)
        ]
        wastes = [
            measure_waste(part, problem.warms(phase, own), phase, problem.block_weight)
            for own in options
        ]
        keys = [(waste.uncovered_shapes, waste.executed) for waste in wastes]
        uncovered, cost = min(keys, default=(1, 0))
        chosen[phase] = options[keys.index(min(keys))] if keys else []
        executed += math.inf if uncovered else cost
    return _Candidate(name, chosen, executed)


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
    chosen, _ = _solve(problem, offers, is_ordered=True)
    varies = any(np.ptp(p.shapes, axis=0).all() for p in problem.parts.values())
    plain = problem._replace(warms=adds_none)
    bound = _solve(plain, offers, is_ordered=not varies)[1]
    return [problem.by_phase(chosen)] if chosen else [], problem.needed + bound


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
    for bound, amounts in problem.amounts(offers):
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
