"""Plans, recommendations and sweeps as tables of text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from warmup_insights.analysis.pareto import ConfigurationRow
from warmup_insights.analysis.plan_recommend import Recommendation
from warmup_insights.analysis.planning import Plan
from warmup_insights.analysis.sweep import Experiment, Point
from warmup_insights.export.tables import TextTable, make_table
from warmup_insights.model.figures import BY_NAME, format_figure
from warmup_insights.units import (
    format_bytes,
    format_count,
    format_duration,
    format_percent,
)

_SETTINGS = (
    ("gpu_memory_utilization", "utilisation"),
    ("VLLM_GRAPH_RESERVED_MEM", "reserve"),
    ("VLLM_GRAPH_PROMPT_RATIO", "prompt ratio"),
)
_HEADER = (
    *(title for _, title in _SETTINGS),
    "KV blocks", "KV tokens", "full requests", "prompt graphs", "decode graphs",
    "graph memory", "warm-up", "outcome",
)  # fmt: skip
_OUTCOMES = {
    "fits": "fits",
    "no_kv_cache": "no room for a sequence in the KV cache",
    "out_of_memory": "out of memory in warm-up",
}
MAX_NAMED = 12


def plans_table(plans: Sequence[Plan]) -> TextTable:
    """One row per plan."""
    rows = [_row(plan) for plan in plans]
    return make_table("Plans", _HEADER, rows, right=range(len(_HEADER) - 1))


def _row(plan: Plan) -> list[str]:
    tokens, concurrency = plan.kv_cache_tokens, plan.max_concurrency
    return [
        *(f"{plan.settings[name]:g}" for name, _ in _SETTINGS),
        format_count(plan.num_kv_blocks),
        format_count(tokens),
        "?" if concurrency is None else f"{concurrency:.4g}",
        graphs_text(plan, "prompt"),
        graphs_text(plan, "decode"),
        format_bytes(plan.graph_used_bytes),
        format_duration(plan.time.warmup_s),
        _OUTCOMES[plan.outcome],
    ]


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
            "?" if plan.max_concurrency is None else f"{plan.max_concurrency:.4g}",
        ),
        ("free before the first graph", format_bytes(plan.free_before_graphs_bytes)),
        ("free after the last graph", format_bytes(plan.free_after_graphs_bytes)),
        ("outcome", _OUTCOMES[plan.outcome]),
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
    rows = [
        ("warm-up", format_duration(time.warmup_s)),
        ("buckets, without graphs", format_duration(time.eager_s)),
        ("graph captures", format_duration(time.capture_s)),
        ("all else, as in the run", format_duration(time.rest_s)),
    ]
    note = f"Times are {time.source}"
    if time.error_percent is not None:
        note += f"; error of the fit {time.error_percent:.2g} %"
    return make_table("Time", ("part", "time"), rows, right=(1,), note=note)


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
            text = f"median {error:.2g} %, largest {worst:.2g} %"
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
        note += f"No reserve captures everything wanted: {result.reason}."
    else:
        note += "Each is the smallest reserve that captures everything wanted."
    header = ("figure", *plans)
    right = range(1, len(header))
    return make_table("Recommendation", header, rows, right=right, note=note)


_FIGURES = (
    ("captured_percent", "captured"),
    ("num_kv_blocks", "KV blocks"),
    ("max_concurrency", "full requests"),
    ("graph_memory_bytes", "graph memory"),
    ("warmup_s", "warm-up"),
)

_HEADS = {
    "gpu_memory_utilization": "utilisation",
    "VLLM_GRAPH_RESERVED_MEM": "reserve",
    "VLLM_GRAPH_PROMPT_RATIO": "prompt ratio",
    "VLLM_BUCKETING_STRATEGY": "strategy",
}

SweepRow = tuple[Point, ConfigurationRow | None, str]


def sweep_table(experiment: Experiment, rows: Sequence[SweepRow]) -> TextTable:
    """One row per point; `*` marks those that no other beats in everything."""
    names = list(dict.fromkeys(n for point, _, _ in rows for n, _ in point.settings))
    cells = [
        [
            "*" if row is not None and row.is_non_dominated else "",
            *(dict(point.settings).get(name, "") for name in names),
            *(_figure(row, name) for name, _ in _FIGURES),
            f"{status}, simulated" if row is not None and row.is_synthetic else status,
            row.run_id if row is not None else "",
        ]
        for point, row, status in rows
    ]
    heads = [_HEADS.get(name, name) for name in names]
    header = ["", *heads, *(title for _, title in _FIGURES), "status", "run"]
    right = range(1, len(header) - 2)
    note = (
        "* no other point captures as large a share with as many KV blocks in as short "
        "a warm-up."
    )
    return make_table(experiment.name, header, cells, right=right, note=note)


def _figure(row: ConfigurationRow | None, name: str) -> str:
    value = None if row is None else row.figures[name]
    return format_figure(value, BY_NAME[name].unit)
