"""Many runs as points of a trade: captured share, KV blocks, warm-up time; pure.

The figures and the marks are those of `analysis.pareto`, which `sweep` prints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from dashboard.frames import doubtful
from dashboard.text import visible
from warmup_insights.analysis.pareto import configuration_rows
from warmup_insights.analysis.planning import Plan, Planner, PlanSettings
from warmup_insights.errors import InputError
from warmup_insights.model.figures import contradictory
from warmup_insights.model.summary import RunSummary

SHORT = {
    "gpu_memory_utilization": "utilisation",
    "VLLM_GRAPH_RESERVED_MEM": "reserve",
    "VLLM_GRAPH_PROMPT_RATIO": "prompt ratio",
}
UTILIZATIONS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95)
RESERVES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
FIGURES = ("captured_percent", "num_kv_blocks", "warmup_s")
COLUMNS = ["run_id", "name", *FIGURES, "best", "kind", "settings"]


def points_frame(
    summaries: Sequence[RunSummary], names: Mapping[str, str]
) -> pd.DataFrame:
    """One row per run: COLUMNS, its memory settings, and which figures are doubtful.

    `best` is true where no other run is as good in everything and better in one, None
    where a figure is unknown.
    """
    rows = configuration_rows(summaries)
    return pd.DataFrame(
        [
            {
                "run_id": row.run_id,
                "name": visible(names.get(row.run_id) or row.label or row.run_id, 60),
                "captured_percent": row.figures["captured_percent"],
                "num_kv_blocks": row.figures["num_kv_blocks"],
                "warmup_s": row.figures["warmup_s"],
                "best": row.is_non_dominated,
                "kind": "run",
                "settings": settings_text(row.settings),
                "doubtful": doubtful(
                    name for name in FIGURES if name in contradictory(summary)
                ),
                **{SHORT.get(name, name): visible(value, 40)
                   for name, value in row.settings.items()},
            }
            for row, summary in zip(rows, summaries, strict=True)
        ],
    )  # fmt: skip


def settings_text(settings: Mapping[str, Any]) -> str:
    """The memory settings in one line."""
    return ", ".join(
        f"{words} {settings[name]:g}"
        for name, words in SHORT.items()
        if isinstance(settings.get(name), int | float)
    )


def comparable(points: pd.DataFrame) -> pd.DataFrame:
    """The points with all three figures."""
    return points.dropna(subset=list(FIGURES))


def joined(*frames: pd.DataFrame) -> pd.DataFrame:
    """Points below each other; frames without any are left out."""
    kept = [frame for frame in frames if not frame.empty]
    return pd.concat(kept, ignore_index=True) if kept else frames[0]


def planned_points(planner: Planner) -> pd.DataFrame:
    """What the run behind a planner would give with other utilisations and reserves."""
    rows = []
    for utilization in UTILIZATIONS:
        for reserve in RESERVES:
            plan = _plan(planner, utilization, reserve)
            if plan is not None:
                rows.append(_planned_row(plan))
    return pd.DataFrame(rows)


def _plan(planner: Planner, utilization: float, reserve: float) -> Plan | None:
    settings = PlanSettings(
        gpu_memory_utilization=utilization, graph_reserved_mem=reserve
    )
    try:
        return planner.plan(settings)
    except InputError:
        return None


def _planned_row(plan: Plan) -> dict[str, Any]:
    return {
        "run_id": "",
        "name": "planned",
        "captured_percent": plan.captured_percent,
        "num_kv_blocks": plan.num_kv_blocks,
        "warmup_s": plan.time.warmup_s,
        "best": False,
        "kind": "planned" if plan.outcome == "fits" else "planned, does not fit",
        "settings": settings_text(plan.settings),
        **{SHORT[name]: plan.settings[name] for name in SHORT},
    }
