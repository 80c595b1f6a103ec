"""The bucket set that wastes least for given traffic within given limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from warmup_insights.analysis.traffic import PHASES, ShapeCounts, Traffic
from warmup_insights.analysis.traffic_bound import lower_bound
from warmup_insights.analysis.traffic_cost import (
    DEFAULT_BLOCK_WEIGHT,
    Waste,
    measure_waste,
    tighten,
    used_buckets,
)
from warmup_insights.analysis.traffic_cuts import PhaseLine, cut_sets, plane_sets
from warmup_insights.analysis.traffic_exhaustive import best_of_all
from warmup_insights.analysis.traffic_limits import Limits, Usage
from warmup_insights.analysis.traffic_line import Path, shortest_path, solve_lines
from warmup_insights.bucketing.base import Bucket
from warmup_insights.errors import InputError

Buckets = Mapping[str, Sequence[Bucket]]
_WORK = 40_000
_PRICE_STEPS = 40


@dataclass(frozen=True)
class Fit:
    """The buckets found, by phase, and how good they are.

    Costs are in tokens (see `traffic_cost`). `bound` is a cost that no allowed set is
    below; `is_exact` says that the set is optimal. `method` tells where it came from.
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
    phases = [phase for phase in PHASES if len(traffic.of(phase))]
    admissible = partial(is_admissible, max_tokens)
    found: list[tuple[str, Buckets]] = []
    exact = None
    if limits.counts_only and limits.max_buckets is not None:
        exact = best_of_all(
            traffic, phases, limits.max_buckets, block_weight, admissible
        )
    if exact is not None:
        found.append(("every set compared", exact))
    else:
        found += _by_paths(traffic, phases, limits, block_weight, admissible)
    is_exact = exact is not None or any(name == _EXACT for name, _ in found)
    for name, buckets in others:
        own = {phase: buckets.get(phase, ()) for phase in phases}
        found.append((f"{name}, reduced to what is used", own))
    best = _best(traffic, phases, limits, block_weight, found)
    if best is None:
        raise InputError(_impossible(phases, limits))
    name, buckets, needed, executed = best
    bound = executed
    if not is_exact:
        bound = min(executed, lower_bound(traffic, phases, limits, block_weight))
    return Fit(
        {phase: tuple(sorted(buckets[phase])) for phase in phases},
        needed,
        executed,
        bound,
        bound == executed,
        name,
        limits.usage((p, b) for p in phases for b in buckets[p]),
    )


_EXACT = "shortest path in one dimension"


def is_admissible(max_tokens: int | None, phase: str, bucket: Bucket) -> bool:
    """Whether the engine takes the bucket from a file: prompts keep the token budget."""
    if phase == "decode" or max_tokens is None:
        return True
    # A chunk of one token has to be written with query length 2.
    return bucket.batch_size * bucket.query_len <= max(2, max_tokens)


def _by_paths(
    traffic: Traffic,
    phases: Sequence[str],
    limits: Limits,
    block_weight: int,
    admissible: partial[bool],
) -> Iterator[tuple[str, Buckets]]:
    """Sets from shortest paths, one per way to cut the traffic into lines."""
    for planes in plane_sets(traffic, phases, block_weight, admissible):
        is_line = limits.counts_only and len(planes) == len(phases)
        is_line = is_line and all(plane.is_line for _, plane in planes)
        size = sum(len(plane.traffic) for _, plane in planes)
        tries = max(2, min(24, _WORK // max(1, size)))
        for lines in cut_sets(planes, limits, admissible, tries):
            paths = _solve(lines, limits)
            if paths is None:
                continue
            buckets: dict[str, list[Bucket]] = {phase: [] for phase in phases}
            for (phase, line), path in zip(lines, paths, strict=True):
                buckets[phase] += [line.buckets[i] for i in path.positions]
            yield _EXACT if is_line else "shortest paths over cuts", buckets


def _solve(lines: Sequence[PhaseLine], limits: Limits) -> list[Path] | None:
    """The values of each line that keep the limits; None if the fewest do not."""
    plain = [line for _, line in lines]
    if limits.counts_only:
        most = limits.max_buckets or 0
        return solve_lines(plain, most) if len(plain) <= most else None
    best: list[Path] | None = None
    low, high = (
        0.0,
        float(max(line.costs[-1] * (1 + sum(line.counts)) for line in plain)),
    )
    for step in range(_PRICE_STEPS):
        price = 0.0 if step == 0 else high if step == 1 else (low + high) / 2
        paths = [shortest_path(line, price) for line in plain]
        if limits.allow(_usage(lines, paths, limits)):
            best, high = paths, price
            if price == 0.0:
                break
        elif step == 1:
            return None
        else:
            low = price
    return best


def _usage(lines: Sequence[PhaseLine], paths: Sequence[Path], limits: Limits) -> Usage:
    return limits.usage(
        (phase, line.buckets[i])
        for (phase, line), path in zip(lines, paths, strict=True)
        for i in path.positions
    )


def _best(
    traffic: Traffic,
    phases: Sequence[str],
    limits: Limits,
    block_weight: int,
    found: Iterable[tuple[str, Buckets]],
) -> tuple[str, dict[str, list[Bucket]], int, int] | None:
    """The set of least executed work that covers everything and keeps the limits."""
    best: tuple[str, dict[str, list[Bucket]], int, int] | None = None
    for name, buckets in found:
        chosen: dict[str, list[Bucket]] = {}
        needed = executed = 0
        for phase in phases:
            chosen[phase], waste = _better(
                traffic.of(phase), buckets[phase], phase, block_weight
            )
            needed, executed = needed + waste.needed, executed + waste.executed
            if waste.uncovered_shapes:
                break
        else:
            pairs = [(phase, bucket) for phase in phases for bucket in chosen[phase]]
            is_better = best is None or executed < best[3]
            if is_better and limits.allow(limits.usage(pairs)):
                best = name, chosen, needed, executed
    return best


def _better(
    traffic: ShapeCounts, buckets: Sequence[Bucket], phase: str, block_weight: int
) -> tuple[list[Bucket], Waste]:
    """The used ones of the buckets as they are or tightened, whichever wastes less.

    A tighter bucket comes earlier in the engine's order and can take shapes from a
    better one.
    """
    options = [
        used_buckets(traffic, buckets),
        tighten(traffic, buckets, phase),
    ]
    wastes = [measure_waste(traffic, own, phase, block_weight) for own in options]
    best = min((0, 1), key=lambda i: (wastes[i].uncovered_shapes, wastes[i].executed))
    return options[best], wastes[best]


def _impossible(phases: Sequence[str], limits: Limits) -> str:
    what = []
    if limits.max_buckets is not None:
        what.append(f"{limits.max_buckets} buckets")
    if limits.max_warmup_s is not None:
        what.append(f"{limits.max_warmup_s:g} s of warm-up")
    if limits.max_graph_bytes is not None:
        what.append(f"{limits.max_graph_bytes / 2**30:.4g} GiB of graphs")
    return (
        f"No buckets for {' and '.join(phases)} steps cover all shapes within "
        f"{' and '.join(what)}; raise the limit"
    )
