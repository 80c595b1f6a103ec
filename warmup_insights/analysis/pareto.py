"""Which of many configurations no other one beats in everything."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from warmup_insights.analysis.compare import START_GROUPS
from warmup_insights.analysis.plan.planning import Plan
from warmup_insights.model.figures import BY_NAME, format_figure
from warmup_insights.model.summary import RunSummary

TRADED = (
    ("captured_percent",), ("kv_cache_tokens", "num_kv_blocks"),
    ("warmup_s", "ready_s", "engine_init_s"),
)  # fmt: skip
"""What a memory configuration trades: graphs, KV cache and time, each as the first of
these figures that the compared runs state. Blocks differ in size, so tokens come first."""
TOLERANCE = 0.05
"""Share of a figure by which another one has to differ to count as better."""


def objectives_of(rows: Sequence[Mapping[str, float | None]]) -> tuple[str, ...]:
    """The two or three figures by which rows are compared; none where no row has two.

    Those that make the most values comparable: rows that state all of them, times how
    many of them differ between these rows. Then the most figures, then the first of
    `TRADED`.
    """
    known = [{name for name, value in row.items() if value is not None} for row in rows]
    best: tuple[str, ...] = ()
    most = (0, 0)
    for chosen in itertools.product(*((*group, None) for group in TRADED)):
        names = tuple(one for one in chosen if one is not None)
        held = [
            row for row, has in zip(rows, known, strict=True) if has.issuperset(names)
        ]
        varied = sum(len({row[name] for row in held}) > 1 for name in names)
        value = (len(held) * varied, len(held) * len(names))
        if len(names) > 1 and value > most:
            best, most = names, value
    return best


def non_dominated(
    rows: Sequence[Mapping[str, float | None]],
    objectives: Sequence[str],
    tolerance: Mapping[str, float] | float = 0.0,
) -> list[bool | None]:
    """For each row, whether it is better than every other marked row in some objective.

    Only a difference of more than `tolerance` counts, 0 to 1, for all objectives or by
    name. A row in which one of the objectives is unknown is None: it neither beats nor
    is beaten. Equal rows stay together. The rows that are as good as most others are
    marked first, so there always is a marked one. O(n^2) in the number of rows.
    """
    margins = [
        tolerance if isinstance(tolerance, float) else tolerance.get(name, 0.0)
        for name in objectives
    ]
    points = [_point(row, objectives) for row in rows]
    whole = {point for point in points if point is not None}
    marked: list[tuple[float, ...]] = []
    for point in sorted(whole, key=lambda point: (-_rank(point, whole), point)):
        if all(_is_better(point, other, margins) for other in marked):
            marked.append(point)
    return [None if point is None else point in marked for point in points]


def _point(
    row: Mapping[str, float | None], objectives: Sequence[str]
) -> tuple[float, ...] | None:
    """The objectives as numbers of which a higher one is better; None if one is unknown."""
    values = []
    for name in objectives:
        value = row.get(name)
        if value is None:
            return None
        values.append(value if is_higher_better(name) else -value)
    return tuple(values)


def is_higher_better(name: str) -> bool:
    """Which way a figure that is traded is better."""
    return BY_NAME[name].better == "higher"


def _rank(point: tuple[float, ...], points: Iterable[tuple[float, ...]]) -> int:
    """In how many objectives how many points are not better than this one."""
    return sum(a >= b for other in points for a, b in zip(point, other, strict=True))


def _is_better(
    one: tuple[float, ...], other: tuple[float, ...], margins: Sequence[float]
) -> bool:
    """Whether a point is better than another by more than the margin in one objective."""
    return any(
        a - b > margin * max(abs(a), abs(b))
        for a, b, margin in zip(one, other, margins, strict=True)
    )


@dataclass(frozen=True)
class ConfigurationRow:
    """One run among many: its settings, its figures, and whether it is beaten.

    `compared_by` are the figures by which it is compared; empty where it is not.
    """

    run_id: str
    label: str | None
    status: str
    settings: dict[str, Any]
    figures: dict[str, float | None]
    is_non_dominated: bool | None
    compared_by: tuple[str, ...] = ()
    is_synthetic: bool = False
    """True when the figures come from a simulation or a made-up log."""


MEMORY_SETTINGS = (
    "gpu_memory_utilization", "VLLM_GRAPH_RESERVED_MEM", "VLLM_GRAPH_PROMPT_RATIO",
    "VLLM_BUCKETING_STRATEGY", "max_num_seqs", "max_model_len", "max_num_batched_tokens",
    "block_size", "kv_cache_dtype", "tensor_parallel_size", "enforce_eager",
    "max_cudagraph_capture_size", "cudagraph_capture_sizes",
)  # fmt: skip
COLUMNS = (
    *itertools.chain(*TRADED), "max_concurrency", "graph_memory_bytes", "misses",
)  # fmt: skip


def configuration_rows(
    summaries: Sequence[RunSummary], tolerance: float = TOLERANCE
) -> list[ConfigurationRow]:
    """Runs as rows, in the order given, the non-dominated ones marked.

    They are compared by what they state (`objectives_of`). Runs that
    failed, and those whose evidence contradicts itself, are never marked; times are
    compared between starts of the kind that most have, without a warm-up only where none
    has one. A figure that
    differs by more than `tolerance` between runs of one configuration has that
    difference as its tolerance.
    """
    rows = [
        ConfigurationRow(
            summary.run_id,
            summary.label,
            summary.status,
            {
                key: summary.config[key]
                for key in MEMORY_SETTINGS
                if key in summary.config
            },
            {name: BY_NAME[name].read(summary) for name in COLUMNS},
            None,
            is_synthetic=summary.synthetic,
        )
        for summary in summaries
    ]
    warming = [s for s in summaries if s.status != "skipped"] or summaries
    kinds = Counter(s.start.words for s in warming if s.start.words is not None)
    usual = kinds.most_common(1)[0][0] if kinds else None
    compared = [
        {name: _compared(summary, name, usual) for name in COLUMNS}
        for summary in summaries
    ]
    margins = {
        name: max(tolerance, _noise(summaries, [row.get(name) for row in compared]))
        for name in COLUMNS
    }
    return _marked(rows, compared, margins)


def _compared(summary: RunSummary, name: str, usual: str | None) -> float | None:
    """A figure that may be compared: none of a start that failed or was stopped, and no
    time of one of another kind than most others (a cold one beside warm ones)."""
    figure = BY_NAME[name]
    is_other = summary.start.words not in (None, usual)
    is_broken = summary.status in ("failed", "stopped")
    if is_broken or (is_other and figure.group in START_GROUPS):
        return None
    return figure.trusted(summary)


def _marked(
    rows: Sequence[ConfigurationRow],
    known: Sequence[Mapping[str, float | None]],
    tolerance: Mapping[str, float] | float,
) -> list[ConfigurationRow]:
    """Rows marked by their known figures."""
    wanted = objectives_of(known)
    marks = non_dominated(known, wanted, tolerance) if wanted else [None] * len(rows)
    return [
        replace(row, is_non_dominated=mark, compared_by=() if mark is None else wanted)
        for row, mark in zip(rows, marks, strict=True)
    ]


def _noise(summaries: Sequence[RunSummary], values: Sequence[float | None]) -> float:
    """The largest share by which a figure differs between runs of one configuration."""
    groups: dict[tuple[Any, ...], list[float]] = {}
    for summary, value in zip(summaries, values, strict=True):
        if value is not None and summary.config:
            known = sorted((name, str(value)) for name, value in summary.config.items())
            groups.setdefault((summary.model, *known), []).append(value)
    shares = [
        (max(group) - min(group)) / max(abs(value) for value in group)
        for group in groups.values()
        if any(group)
    ]
    return max(shares, default=0.0)


def planned_rows(
    plans: Sequence[Plan], tolerance: float = TOLERANCE
) -> list[ConfigurationRow]:
    """Plans as rows, in the order given; those that do not fit are never marked."""
    figures: list[dict[str, float | None]] = [
        {
            "captured_percent": plan.captured_percent,
            "num_kv_blocks": plan.num_kv_blocks,
            "kv_cache_tokens": plan.kv_cache_tokens,
            "max_concurrency": plan.max_concurrency,
            "warmup_s": plan.time.warmup_s,
            "graph_memory_bytes": plan.graph_used_bytes,
        }
        for plan in plans
    ]
    known = [
        row if plan.outcome == "fits" else {}
        for plan, row in zip(plans, figures, strict=True)
    ]
    rows = [
        ConfigurationRow("", "planned", plan.outcome, dict(plan.settings), row, None)
        for plan, row in zip(plans, figures, strict=True)
    ]
    return _marked(rows, known, tolerance)


def marked_together(rows: Sequence[ConfigurationRow]) -> list[ConfigurationRow]:
    """Runs and plans marked against each other; those without a mark get none."""
    known = [row.figures if row.is_non_dominated is not None else {} for row in rows]
    return _marked(rows, known, TOLERANCE)


GOALS: dict[str, str] = {
    "balanced": "balanced",
    "requests": "most requests",
    "captured": "most captured",
    "fastest": "fastest ready",
}
"""What a configuration may be chosen for, and the words for it."""
_GRAPHS, _CAPACITY, _TIME = TRADED
_REQUESTS = ("max_concurrency", *_CAPACITY)
_SOONEST = ("ready_s", *_TIME)
_MAIN = {"requests": _REQUESTS, "captured": _GRAPHS, "fastest": _SOONEST}
"""Goal to the figures that decide it: the first one that all rows state."""
_SHOWN = (_REQUESTS, _GRAPHS, _SOONEST)
"""What a sentence about configurations states: of each group the first that is known."""


@dataclass(frozen=True)
class Pick:
    """The configuration for a goal: why it is, and what the next two would change."""

    row: ConfigurationRow
    goal: str
    why: str
    others: tuple[tuple[ConfigurationRow, str], ...] = ()


def pick(
    rows: Sequence[ConfigurationRow], goal: str, tolerance: float = TOLERANCE
) -> Pick | None:
    """The marked row that serves a goal best; None where no row is marked.

    Rows that are within `tolerance` of the best in what the goal counts are ordered
    by their weakest figure, and so are all for the goal `balanced`.
    """
    marked = [row for row in rows if row.is_non_dominated]
    if not marked:
        return None
    main = _first_stated(_MAIN.get(goal, ()), marked)
    if goal != "balanced" and main is None:
        return None
    weakest = {
        id(row): min(_share_of_best(row, marked, each) for each in row.compared_by)
        for row in marked
    }

    def order(row: ConfigurationRow) -> tuple[float, float]:
        share = 1.0 if main is None else _share_of_best(row, marked, main)
        return (min(share, 1.0 - tolerance), weakest[id(row)])

    first, *rest = sorted(marked, key=order, reverse=True)
    why = _why(first, main, weakest[id(first)], len(marked))
    # A configuration that ran several times with one outcome is one alternative, and
    # that of the first is none.
    found: dict[tuple[str, str], ConfigurationRow] = {}
    for row in [first, *rest]:
        text = trade_text(row, first, tolerance)
        found.setdefault((_configuration(row), text), row)
    others = [(row, text) for (_, text), row in found.items()]
    return Pick(first, goal, why, tuple(others[1:3]))


def _configuration(row: ConfigurationRow) -> str:
    """What is equal for runs of one configuration; a run without settings is its own."""
    known = {k: str(v) for k, v in row.settings.items() if v is not None}
    return str(sorted(known.items())) if known else row.run_id


def _share_of_best(
    row: ConfigurationRow, rows: Sequence[ConfigurationRow], name: str
) -> float:
    """A figure as a share of the best one among rows, 0 to 1; 1 for the best."""
    values = [value for each in rows if (value := each.figures.get(name)) is not None]
    own = row.figures.get(name)
    if own is None or not values:
        return 0.0
    is_higher = is_higher_better(name)
    best = max(values) if is_higher else min(values)
    high, low = (best, own) if is_higher else (own, best)
    return low / high if high > 0 and low >= 0 else float(low >= high)


def _why(row: ConfigurationRow, main: str | None, weakest: float, count: int) -> str:
    """What the row gives, and in what it is the best."""
    if count == 1:
        best = "no other is better in any figure by more than the tolerance"
    elif main is None:
        best = f"no figure is more than {100 * (1 - weakest):.0f} % off the best one"
    else:
        best = f"best or within the tolerance in {BY_NAME[main].title}"
    return f"{figures_text(row)}; {best}"


def _stated(*rows: ConfigurationRow) -> list[str]:
    """The figures that a sentence about these rows states."""
    found = (_first_stated(group, rows) for group in _SHOWN)
    return [one for one in found if one is not None]


def _first_stated(group: Sequence[str], rows: Sequence[ConfigurationRow]) -> str | None:
    """The first of these figures that all rows state."""
    stated = (o for o in group if all(r.figures.get(o) is not None for r in rows))
    return next(stated, None)


def figures_text(row: ConfigurationRow) -> str:
    """The figures of a configuration that are known, as text."""
    return ", ".join(
        f"{BY_NAME[name].title} {format_figure(row.figures[name], BY_NAME[name].unit)}"
        for name in _stated(row)
    )


def settings_text(row: ConfigurationRow, names: Sequence[str]) -> str:
    """Settings of a configuration by the engine's own names."""
    known = {name: row.settings.get(name) for name in names}
    return ", ".join(
        f"{name}={f'{value:g}' if isinstance(value, float) else value}"
        for name, value in known.items()
        if value is not None
    )


def differing(rows: Sequence[ConfigurationRow]) -> tuple[str, ...]:
    """The memory settings in which rows differ; the first three where they do not."""
    names = [
        name
        for name in MEMORY_SETTINGS
        if len({str(row.settings.get(name)) for row in rows}) > 1
    ]
    return tuple(names) or MEMORY_SETTINGS[:3]


def trade_text(row: ConfigurationRow, pick: ConfigurationRow, tolerance: float) -> str:
    """What a configuration gives up against the pick, and what it gains for that."""
    worse: list[str] = []
    better: list[str] = []
    for name in _stated(row, pick):
        own, other = row.figures[name] or 0.0, pick.figures[name] or 0.0
        if abs(own - other) <= tolerance * max(abs(own), abs(other)):
            continue
        unit, title = BY_NAME[name].unit, BY_NAME[name].title
        text = f"{title} {format_figure(own, unit)} instead of {format_figure(other, unit)}"
        (better if (own > other) == is_higher_better(name) else worse).append(text)
    parts = (
        [f"gives up: {', '.join(worse)}"]
        if worse
        else ["no figure is worse by more than the tolerance"]
    )
    return "; ".join(parts + ([f"gains: {', '.join(better)}"] if better else []))
