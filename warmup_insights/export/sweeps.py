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
    ("kv_cache_tokens", "KV tokens"),
    ("num_kv_blocks", "KV blocks"),
    ("max_concurrency", "requests at full length"),
    ("graph_memory_bytes", "graph memory"),
    ("warmup_s", "warm-up"),
    ("ready_s", "time to ready"),
    ("engine_init_s", "engine initialisation"),
)

SweepRow = tuple[Point, ConfigurationRow | None, str]


def sweep_table(experiment: Experiment, rows: Sequence[SweepRow]) -> TextTable:
    """One row per point; `*` marks those that no other beats in everything.

    Figures that no point states are left out.
    """
    figures = [
        (name, title)
        for name, title in _FIGURES
        if any(row is not None and row.figures[name] is not None for _, row, _ in rows)
    ]
    names = list(dict.fromkeys(n for point, _, _ in rows for n, _ in point.settings))
    cells = [
        [
            "*" if row is not None and row.is_non_dominated else "",
            *(dict(point.settings).get(name, "") for name in names),
            *(_figure(row, name) for name, _ in figures),
            f"{status}, simulated" if row is not None and row.is_synthetic else status,
            row.run_id if row is not None else "",
        ]
        for point, row, status in rows
    ]
    header = ["", *names, *(title for _, title in figures), "status", "run"]
    right = range(1, len(header) - 2)
    note = mark_note([row for _, row, _ in rows if row is not None])
    return make_table(experiment.name, header, cells, right=right, note=note)


def mark_note(rows: Sequence[ConfigurationRow]) -> str:
    """What the mark of a configuration means, with the figures that decide it."""
    names = next((row.compared_by for row in rows if row.compared_by), ())
    if not names:
        return "Too few figures are stated to compare these"
    titles = [BY_NAME[name].title for name, _ in names]
    listed = f"{', '.join(titles[:-1])} or {titles[-1]}"
    return (
        f"* better than every other marked one in {listed}, by more than the tolerance"
    )


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
