"""Plans, sweeps and the configuration picked of them as tables of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from warmup_insights.analysis.pareto import (
    GOALS,
    TOLERANCE,
    ConfigurationRow,
    Pick,
    differing,
    pick,
    settings_text,
)
from warmup_insights.analysis.plan.cache import CachePlan
from warmup_insights.analysis.plan.planning import Plan, Recommendation
from warmup_insights.analysis.sweep import Experiment, Point
from warmup_insights.export.tables import TextTable, make_list, make_table
from warmup_insights.model.figures import BY_NAME, format_figure
from warmup_insights.units import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
    round_to,
)

_SETTINGS = (
    ("gpu_memory_utilization", "utilisation"),
    ("VLLM_GRAPH_RESERVED_MEM", "reserve"),
    ("VLLM_GRAPH_PROMPT_RATIO", "prompt ratio"),
)
_HEADER = (
    *(title for _, title in _SETTINGS),
    "KV blocks", "KV tokens", "requests at full length", "prompt graphs", "decode graphs",
    "graph memory", "warm-up", "outcome",
)  # fmt: skip
_OUTCOMES = {
    "fits": "fits",
    "no_kv_cache": "no room for a sequence in the KV cache",
    "out_of_memory": "out of memory in warm-up",
}
MAX_NAMED = 12
WORTH_STATING = 0.005
"""Of a cache: by less it may be off without a word."""


def plans_table(plans: Sequence[Plan]) -> TextTable:
    """One row per plan."""
    rows = [_row(plan) for plan in plans]
    return make_table("Plans", _HEADER, rows, right=range(len(_HEADER) - 1))


def _row(plan: Plan) -> list[str]:
    return [
        *(f"{plan.settings[name]:g}" for name, _ in _SETTINGS),
        format_count(plan.num_kv_blocks),
        format_count(plan.kv_cache_tokens),
        _figure_text("max_concurrency", plan.max_concurrency),
        graphs_text(plan, "prompt"),
        graphs_text(plan, "decode"),
        format_bytes(plan.graph_used_bytes),
        format_duration(plan.time.warmup_s),
        outcome_text(plan),
    ]


def cache_tables(plans: Sequence[CachePlan]) -> list[TextTable]:
    """Plans of the KV cache, the run's own among them, and how far they may be off."""
    return [cache_table(plans), *_ranges_table(plans)]


def cache_table(plans: Sequence[CachePlan]) -> TextTable:
    """One row per plan of the KV cache, with the settings that differ."""
    names = {
        name: title for name, title in _CACHE_SETTINGS.items()
        if len({plan.settings.get(name) for plan in plans}) > 1
    }  # fmt: skip
    columns = [
        name
        for name in _CACHE_FIGURES
        if any(getattr(plan, name) is not None for plan in plans)
    ]
    phases = list(
        dict.fromkeys(phase for plan in plans for phase in plan.buckets or ())
    )
    rows = [
        (
            "as in the run" if plan.is_own else "planned",
            *(_setting_text(plan.settings.get(name)) for name in names),
            *(_cache_text(plan, name) for name in columns),
            *(format_count((plan.buckets or {}).get(phase)) for phase in phases),
            "?" if plan.outcome is None else _CACHE_OUTCOMES[plan.outcome],
        )
        for plan in plans
    ]
    counts = [f"{phase} buckets" for phase in phases]
    header = ("", *names.values(), *map(_heading, columns), *counts, "outcome")
    right = range(1, len(header) - 1)
    return make_table("KV cache under other settings", header, rows, right=right)


def _ranges_table(plans: Sequence[CachePlan]) -> Iterator[TextTable]:
    """By how much the planned caches may be off, where that is more than a rounding."""
    own = next(plan.settings for plan in plans if plan.is_own)
    rows = []
    for plan in plans:
        size, off = plan.kv_cache_bytes, plan.kv_cache_bytes_off
        if not size or off < WORTH_STATING * size:
            continue
        low, high = plan.num_kv_blocks_range or (0, 0)
        other = (n for n, value in plan.settings.items() if value != own.get(n))
        rows.append(
            (
                ", ".join(f"{name} {plan.settings[name]}" for name in other),
                f"{format_bytes(size, off / 100)} ± {format_bytes(off, off / 100)}",
                _with_range(plan.num_kv_blocks, (high - low) / 2),
                _with_range(plan.kv_cache_tokens, plan.kv_cache_tokens_off),
            )
        )
    if rows:
        header = ("", "KV cache", "KV blocks", "KV tokens")
        yield make_table("How far they may be off", header, rows, right=(1, 2, 3))


def _with_range(count: int | None, off: float) -> str:
    if count is None:
        return "?"
    near, more = (round(round_to(value, off / 100)) for value in (count, off))
    return f"{format_count(near)} ± {format_count(more)}"


def _heading(name: str) -> str:
    """The title of a figure, or what fits above its column."""
    return _SHORT.get(name, BY_NAME[name].title)


_SHORT = {
    "captured_percent": "captured", "kv_cache_tokens": "KV tokens",
    "graphs_captured": "graphs", "graph_memory_bytes": "graph memory",
}  # fmt: skip


def _cache_text(plan: CachePlan, name: str) -> str:
    value, step = getattr(plan, name), 0.0
    if name in ("kv_cache_tokens", "num_kv_blocks") and value and plan.kv_cache_tokens:
        step = plan.kv_cache_tokens_step * value / plan.kv_cache_tokens
    return format_figure(value, BY_NAME[name].unit, step)


def _setting_text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value or "?")


_CACHE_SETTINGS = {
    "gpu_memory_utilization": "utilisation", "VLLM_GRAPH_RESERVED_MEM": "reserve",
    "max_model_len": "longest request", "kv_cache_dtype": "KV cache type",
    "block_size": "block size", "max_num_batched_tokens": "batched tokens",
    "max_num_seqs": "requests a step",
}  # fmt: skip
_CACHE_FIGURES = (
    "kv_cache_bytes", "num_kv_blocks", "kv_cache_tokens", "max_concurrency",
    "graphs_captured", "graph_memory_bytes", "warmup_s",
)  # fmt: skip
_CACHE_OUTCOMES = {
    "fits": "fits", "no_kv_cache": "no room for a request of full length",
    "out_of_memory": "more than was free at the start",
    "ran_out": "ran out of memory",
}  # fmt: skip


def outcome_text(plan: Plan) -> str:
    """Whether it fits, within the rounding of the figures that it is made of."""
    return "may fit: too close to tell" if plan.is_close else _OUTCOMES[plan.outcome]


def blocks_text(plan: Plan) -> str:
    """Blocks, with the range that the rounding of a log leaves open."""
    low, high = plan.num_kv_blocks_range
    text = format_count(plan.num_kv_blocks)
    return text if low == high else f"{text} ({low:,} to {high:,})"


def graphs_text(plan: Plan, phase: str) -> str:
    """How many of how many."""
    part = plan.phases.get(phase)
    return "none" if part is None else f"{part.captured} of {part.generated}"


def plan_tables(plan: Plan) -> list[TextTable]:
    """Everything about one plan."""
    return [
        _memory(plan),
        _phases(plan),
        _time(plan),
        _confidence(plan),
        *_skipped(plan),
    ]


def _memory(plan: Plan) -> TextTable:
    rows = [
        (name, str(value)) for name, value in plan.settings.items() if value is not None
    ]
    rows += [
        ("free after profiling", format_bytes(plan.free_bytes)),
        ("usable", format_bytes(plan.usable_bytes)),
        ("margin, never used", format_bytes(plan.margin_bytes)),
        ("reserved for graphs", format_bytes(plan.graph_reserved_bytes)),
        ("KV cache", format_bytes(plan.kv_cache_bytes)),
        ("KV blocks", blocks_text(plan)),
        ("KV tokens", format_count(plan.kv_cache_tokens)),
        (
            "requests at full length",
            _figure_text("max_concurrency", plan.max_concurrency),
        ),
        ("free before the first graph", format_bytes(plan.free_before_graphs_bytes)),
        ("free after the last graph", format_bytes(plan.free_after_graphs_bytes)),
        ("outcome", outcome_text(plan)),
    ]
    return make_table("Plan", ("figure", "value"), rows, right=(1,))


def _phases(plan: Plan) -> TextTable:
    rows = [
        (
            phase,
            str(part.generated),
            str(part.captured),
            format_percent(part.capture_percent),
            format_bytes(part.graph_budget_bytes) if plan.rule == "capped" else "none",
            format_bytes(part.graph_used_bytes),
        )
        for phase, part in plan.phases.items()
    ]
    header = ("phase", "buckets", "graphs", "share", "budget", "graph memory")
    rule = {
        "capped": "Rule: graphs are captured within a budget, prompts first, then "
        "decodes, then with what is left.",
        "uncapped": "Rule: the reserve only shrinks the KV cache; every bucket gets a "
        "graph.",
    }[plan.rule]
    return make_table("Graphs", header, rows, right=range(1, 6), note=rule)


def _time(plan: Plan) -> TextTable:
    time = plan.time
    warmup = format_duration(time.warmup_s)
    if time.warmup_range_s is not None:
        low, high = map(format_duration, time.warmup_range_s)
        warmup += f" ({low} to {high})"
    rows = [
        ("warm-up", warmup),
        ("buckets, without graphs", format_duration(time.eager_s)),
        ("graph captures", format_duration(time.capture_s)),
        ("all else, as in the run", format_duration(time.rest_s)),
    ]
    note = f"Times are {time.source}"
    if time.error_percent is not None:
        note += f"; error of the fit {time.error_percent:.2g} %"
    return make_table("Time", ("part", "time"), rows, right=(1,), note=note)


def _error_text(percent: float) -> str:
    return f"{percent:.2g} %" if percent >= 0.01 else "below 0.01 %"


def _confidence(plan: Plan) -> TextTable:
    rows = []
    for phase, part in plan.phases.items():
        sources = Counter(g.source for g in plan.order if g.phase == phase)
        names = ", ".join(
            f"{count} {source}" for source, count in sources.most_common()
        )
        rows.append((f"{phase} graph memory", names or "no graph"))
        error = part.cost_error_percent
        text = "too few measurements to tell"
        if error is not None:
            worst = part.worst_cost_error_percent or 0.0
            text = f"median {_error_text(error)}, largest {_error_text(worst)}"
        rows.append((f"{phase} fit, error on figures it was not shown", text))
        guessed = [
            str(graph.bucket)
            for graph in plan.order
            if graph.phase == phase and graph.source in ("interpolated", "extrapolated")
        ]
        if guessed:
            more = len(guessed) - MAX_NAMED
            named = ", ".join(guessed[:MAX_NAMED])
            rows.append(
                (
                    f"{phase} graphs at a fitted cost",
                    named + (f" +{more}" if more > 0 else ""),
                )
            )
    checked = {
        True: "the same replay gives the graphs that the run captured",
        False: "the same replay does NOT give the graphs that the run captured",
        None: "the run does not list its graphs",
    }[plan.self_check]
    rows.append(("check on the run itself", checked))
    return make_table("How sure this is", ("what", "how it is known"), rows)


def _skipped(plan: Plan) -> list[TextTable]:
    rows = [
        (phase, str(len(part.skipped_buckets)), _named(part.skipped_buckets))
        for phase, part in plan.phases.items()
        if part.skipped_buckets
    ]
    if not rows:
        return []
    return [make_table("Buckets without a graph", ("phase", "count", "buckets"), rows)]


def _named(buckets: Sequence[tuple[int, ...]]) -> str:
    text = ", ".join(str(bucket) for bucket in buckets[:MAX_NAMED])
    more = len(buckets) - MAX_NAMED
    return f"{text} and {more} more" if more > 0 else text


def order_table(plan: Plan) -> TextTable:
    """Every graph in the order of its capture."""
    rows = [
        (
            str(n),
            graph.phase,
            str(graph.bucket),
            format_bytes(graph.memory_bytes),
            graph.source,
        )
        for n, graph in enumerate(plan.order, start=1)
    ]
    header = ("no.", "phase", "bucket", "memory", "cost is")
    return make_table("Order of capture", header, rows, right=(0, 3))


def recommendation_table(result: Recommendation) -> TextTable:
    """The run as it is, beside what would be better."""
    named = {
        "as it is": result.now,
        "other reserve": result.reserve,
        "other reserve and utilisation": result.both,
    }
    plans = {name: plan for name, plan in named.items() if plan is not None}
    columns = [
        (*_row(plan), format_bytes(plan.free_after_graphs_bytes))
        for plan in plans.values()
    ]
    titles = (*_HEADER, "left free")
    rows = [
        (title, *(column[index] for column in columns))
        for index, title in enumerate(titles)
    ]
    note = f"Margin required: {format_bytes(result.margin_bytes)}. "
    if result.reason:
        note += f"{result.reason}."
    elif result.now.rule == "uncapped":
        note += "Each reserve holds what the warm-up took, and a fifth more."
    else:
        note += "Each is the smallest reserve that captures everything wanted."
    header = ("figure", *plans)
    right = range(1, len(header))
    return make_table("Recommendation", header, rows, right=right, note=note)


_FIGURES = (
    "captured_percent", "kv_cache_tokens", "num_kv_blocks", "max_concurrency",
    "graph_memory_bytes", "warmup_s", "ready_s", "engine_init_s",
)  # fmt: skip

_STOOD_FOR = {"num_kv_blocks": "kv_cache_tokens", "engine_init_s": "ready_s"}
"""Figures that are left out where every run states the other one."""
SweepRow = tuple[Point, ConfigurationRow | None, str]


def sweep_table(experiment: Experiment, rows: Sequence[SweepRow]) -> TextTable:
    """One row per point; `*` marks those that no other beats in everything.

    Figures that no point states are left out, and those that another column stands for.
    """
    known = [row for _, row, _ in rows if row is not None]

    def states(name: str, count: Callable[[Iterable[bool]], bool]) -> bool:
        return count(row.figures[name] is not None for row in known)

    figures = [
        name
        for name in _FIGURES
        if states(name, any)
        and not (name in _STOOD_FOR and states(_STOOD_FOR[name], all))
    ]
    simulated = [row for row in known if row.is_synthetic]
    are_all = len(simulated) == len(known) > 0
    names = list(dict.fromkeys(n for point, _, _ in rows for n, _ in point.settings))
    cells = [
        [
            "*" if row is not None and row.is_non_dominated else "",
            *(dict(point.settings).get(name, "") for name in names),
            *(_figure_text(n, row.figures[n] if row else None) for n in figures),
            f"{status}, simulated" if row in simulated and not are_all else status,
            row.run_id if row is not None else "",
        ]
        for point, row, status in rows
    ]
    header = ["", *names, *map(_heading, figures), "status", "run"]
    right = range(1, len(header) - 2)
    note = mark_note(known)
    title = experiment.name + (" (simulated)" if are_all else "")
    return make_table(title, header, cells, right=right, note=note)


def mark_note(rows: Sequence[ConfigurationRow]) -> str:
    """What the mark of a configuration means, with the figures that decide it."""
    names = next((row.compared_by for row in rows if row.compared_by), ())
    if not names:
        return "Too few figures are stated to compare these"
    titles = [BY_NAME[name].title for name in names]
    listed = f"{', '.join(titles[:-1])} or {titles[-1]}"
    return (
        f"* better than every other marked one in {listed}, by more than the tolerance"
    )


def _figure_text(name: str, value: float | None) -> str:
    return format_figure(value, BY_NAME[name].unit)


def pick_table(
    rows: Sequence[ConfigurationRow], goal: str, tolerance: float = TOLERANCE
) -> TextTable:
    """The configuration for a goal, why it is, and what the next two would change."""
    found, names = pick(rows, goal, tolerance), differing(rows)
    title = f"Pick for {GOALS[goal]}"
    if found is None:
        reason = "No configuration states all figures that it would be chosen by"
        return make_list(title, [reason])
    chosen = [(found.row, found.why), *found.others]
    lines = [(row.run_id, settings_text(row, names), text) for row, text in chosen]
    note = (
        f"Differences of up to {100 * tolerance:g} % do not count, nor those between runs "
        "of one configuration."
    )
    header = ("run", "configuration", "what it gives")
    if not any(row.run_id for row, _ in chosen):
        return make_table(title, header[1:], [line[1:] for line in lines], note=note)
    return make_table(title, header, lines, note=note)


def pick_json(found: Pick | None, names: Sequence[str]) -> dict[str, Any] | None:
    """A pick as plain values."""
    if found is None:
        return None
    return {
        "goal": found.goal,
        "run_id": found.row.run_id or None,
        "settings": {name: found.row.settings.get(name) for name in names},
        "why": found.why,
        "others": [
            {"run_id": row.run_id or None,
             "settings": {name: row.settings.get(name) for name in names},
             "trade": text}
            for row, text in found.others
        ],
    }  # fmt: skip
