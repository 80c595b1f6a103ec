"""The best values for shapes that differ in one dimension, exactly.

Shapes on a line are covered by values: each runs at the smallest value that is not below
it. Choosing k values of n is a shortest path whose edge costs satisfy Monge's condition,
so its length is convex in k. A price per value turns it into one pass with a convex
hull; the price at which k values come out gives the optimum for k. Two optimal paths at
one price, with fewer and with more values, splice into one with any number between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from warmup_insights.bucketing.base import Bucket


@dataclass(frozen=True)
class Line:
    """Shapes along one dimension.

    `buckets[i]` is what value i runs as, `costs[i]` what that costs (never falling), and
    `counts[i]` how many steps need value i but not less. `prices[i]` is what having the
    bucket costs of the limited resource; all are 1 when buckets are counted.
    """

    buckets: tuple[Bucket, ...]
    costs: tuple[int, ...]
    counts: tuple[int, ...]
    prices: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.buckets)


@dataclass(frozen=True)
class Path:
    """Chosen positions of a line, the last one always among them; and their cost."""

    cost: float
    positions: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.positions)


def shortest_path(line: Line, price: float, *, prefers_many: bool = False) -> Path:
    """The values of least cost plus price; among equals few, or many.

    `price` is multiplied by each value's own price. O(n).
    """
    scale = len(line) + 1  # a tie counts less than any difference in cost
    tie = -1 if prefers_many else 1
    fees = [price * own * scale + tie for own in line.prices]
    before = _predecessors(line, fees, scale)
    positions, j = [], len(line)
    while j > 0:
        positions.append(j - 1)
        j = before[j]
    positions.reverse()
    return Path(path_cost(line, positions), tuple(positions))


def _predecessors(line: Line, fees: Sequence[float], scale: int) -> list[int]:
    """For each number of covered values, how many the best path covered before its last.

    Each earlier state is a line over the cost of the next value. Costs never fall, so the
    lower hull of these lines is asked from left to right, and its left part is dropped.
    """
    before = [0] * (len(line) + 1)
    slopes: list[int] = [0]
    values: list[float] = [0]
    states = [0]
    at, covered = 0, 0
    for j, (count, cost, fee) in enumerate(
        zip(line.counts, line.costs, fees, strict=True), start=1
    ):
        covered += count * scale
        while at + 1 < len(states) and (
            values[at + 1] - values[at] <= (slopes[at] - slopes[at + 1]) * cost
        ):
            at += 1
        before[j] = states[at]
        value = values[at] + (slopes[at] + covered) * cost + fee
        while len(states) - at >= 2 and _is_hidden(slopes, values, -covered, value):
            del slopes[-1], values[-1], states[-1]
        if slopes[-1] == -covered:
            if value >= values[-1]:
                continue
            del slopes[-1], values[-1], states[-1]
            at = min(at, len(states))
        slopes.append(-covered)
        values.append(value)
        states.append(j)
    return before


def _is_hidden(
    slopes: Sequence[int], values: Sequence[float], slope: int, value: float
) -> bool:
    """Whether the last line is nowhere below both its neighbour and the new line."""
    first, second = slopes[-2], slopes[-1]
    return (value - values[-2]) * (first - second) <= (values[-1] - values[-2]) * (
        first - slope
    )


def path_cost(line: Line, positions: Sequence[int]) -> int:
    """What the steps cost with these values."""
    total, start = 0, 0
    for position in positions:
        total += sum(line.counts[start : position + 1]) * line.costs[position]
        start = position + 1
    return total


def splice(few: Path, many: Path, line: Line, count: int) -> Path:
    """A path with that many values from two that are optimal at one price.

    Where an edge of the short path holds the edge of the long one that lies `count`
    minus its length further on, the long one's beginning meets the short one's end.
    """
    if count <= len(few):
        return few
    if count >= len(many):
        return many
    shift = count - len(few)
    short, long = (-1, *few.positions), (-1, *many.positions)
    for i in range(len(few)):
        if short[i] <= long[i + shift] and long[i + shift + 1] <= short[i + 1]:
            positions = (*long[1 : i + shift + 1], *short[i + 1 :])
            return Path(path_cost(line, positions), positions)
    raise AssertionError("two optimal paths at one price always meet")


def solve_lines(lines: Sequence[Line], count: int) -> list[Path]:
    """The values of least total cost, at most `count` over all lines. Exact.

    Needs at least one value per line; more are only used where they save something.
    """
    assert count >= len(lines), "every line needs its largest value"
    free = [shortest_path(line, 0) for line in lines]
    if sum(len(path) for path in free) <= count:
        return free
    low, high = (
        0,
        1 + max(line.costs[-1] * sum(line.counts) for line in lines),
    )  # at `high` one value per line is best
    while high - low > 1:
        middle = (low + high) // 2
        number = sum(len(shortest_path(line, middle)) for line in lines)
        low, high = (middle, high) if number > count else (low, middle)
    few = [shortest_path(line, high) for line in lines]
    many = [shortest_path(line, high, prefers_many=True) for line in lines]
    chosen, left = [], count - sum(len(path) for path in few)
    for line, short, long in zip(lines, few, many, strict=True):
        more = min(left, len(long) - len(short))
        chosen.append(splice(short, long, line, len(short) + more))
        left -= more
    return chosen
