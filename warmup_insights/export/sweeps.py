"""The result of a sweep as a table of text."""

from __future__ import annotations

from collections.abc import Sequence

from warmup_insights.analysis.pareto import ConfigurationRow
from warmup_insights.analysis.sweep import Experiment, Point
from warmup_insights.export.tables import TextTable, make_table
from warmup_insights.model.figures import BY_NAME, format_figure

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
