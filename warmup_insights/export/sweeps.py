"""The result of a sweep as a table of text."""

from __future__ import annotations

from collections.abc import Sequence
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
from warmup_insights.analysis.sweep import Experiment, Point
from warmup_insights.export.tables import TextTable, make_table
from warmup_insights.model.figures import BY_NAME, format_figure

_FIGURES = (
    ("captured_percent", "captured"),
    ("num_kv_blocks", "KV blocks"),
    ("max_concurrency", "requests at full length"),
    ("graph_memory_bytes", "graph memory"),
    ("warmup_s", "warm-up"),
)

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
    header = ["", *names, *(title for _, title in _FIGURES), "status", "run"]
    right = range(1, len(header) - 2)
    note = (
        "* better than every other marked point in captured share, KV blocks or warm-up, "
        "by more than the tolerance"
    )
    return make_table(experiment.name, header, cells, right=right, note=note)


def _figure(row: ConfigurationRow | None, name: str) -> str:
    value = None if row is None else row.figures[name]
    return format_figure(value, BY_NAME[name].unit)


def pick_table(
    rows: Sequence[ConfigurationRow], goal: str, tolerance: float = TOLERANCE
) -> TextTable:
    """The configuration for a goal, why it is, and what the next two would change."""
    found, names = pick(rows, goal, tolerance), differing(rows)
    title = f"Pick for {GOALS[goal]}"
    if found is None:
        reason = "No configuration states all figures that it would be chosen by"
        return make_table(title, ("",), [(reason,)])
    lines = [(settings_text(found.row, names), found.why)]
    lines += [(settings_text(row, names), text) for row, text in found.others]
    note = (
        f"Differences of up to {100 * tolerance:g} % do not count, nor those between runs "
        "of one configuration."
    )
    return make_table(title, ("configuration", "what it gives"), lines, note=note)


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
