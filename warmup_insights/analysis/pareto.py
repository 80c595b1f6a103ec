"""Which of many configurations no other one beats in everything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from warmup_insights.model.figures import BY_NAME
from warmup_insights.model.summary import RunSummary

Direction = Literal["lower", "higher"]
Objective = tuple[str, Direction]

DEFAULT_OBJECTIVES: tuple[Objective, ...] = (
    ("captured_percent", "higher"),
    ("num_kv_blocks", "higher"),
    ("warmup_s", "lower"),
)
"""The three things that a memory configuration trades against each other."""


def non_dominated(
    rows: Sequence[Mapping[str, float | None]],
    objectives: Sequence[Objective] = DEFAULT_OBJECTIVES,
) -> list[bool | None]:
    """For each row, whether no other is as good in every objective and better in one.

    A row in which one of the objectives is unknown is None: it neither beats nor is
    beaten. Equal rows stay together. O(n^2) in the number of rows.
    """
    signs = [1.0 if direction == "higher" else -1.0 for _, direction in objectives]
    points: list[tuple[float, ...] | None] = []
    for row in rows:
        values = [row.get(name) for name, _ in objectives]
        known = [v for v in values if v is not None]
        complete = len(known) == len(values)
        points.append(
            tuple(s * v for s, v in zip(signs, known, strict=True))
            if complete
            else None
        )
    whole = {point for point in points if point is not None}
    best = {
        point for point in whole if not any(_beats(other, point) for other in whole)
    }
    return [None if point is None else point in best for point in points]


def _beats(first: tuple[float, ...], second: tuple[float, ...]) -> bool:
    return first != second and all(a >= b for a, b in zip(first, second, strict=True))


@dataclass(frozen=True)
class ConfigurationRow:
    """One run among many: its settings, its figures, and whether it is beaten."""

    run_id: str
    label: str | None
    status: str
    settings: dict[str, Any]
    figures: dict[str, float | None]
    is_non_dominated: bool | None
    is_synthetic: bool = False
    """True when the figures come from a simulation or a made-up log."""


MEMORY_SETTINGS = (
    "gpu_memory_utilization", "VLLM_GRAPH_RESERVED_MEM", "VLLM_GRAPH_PROMPT_RATIO",
    "VLLM_BUCKETING_STRATEGY", "max_num_seqs", "max_model_len", "max_num_batched_tokens",
    "block_size",
)  # fmt: skip
COLUMNS = (
    "captured_percent", "num_kv_blocks", "kv_cache_tokens", "max_concurrency",
    "warmup_s", "ready_s", "graph_memory_bytes", "misses",
)  # fmt: skip


def configuration_rows(
    summaries: Sequence[RunSummary],
    objectives: Sequence[Objective] = DEFAULT_OBJECTIVES,
    settings: Sequence[str] = MEMORY_SETTINGS,
) -> list[ConfigurationRow]:
    """Runs as rows, in the order given, the non-dominated ones marked.

    Runs that failed, and those whose evidence contradicts itself, are never marked.
    """
    names = dict.fromkeys([*COLUMNS, *(name for name, _ in objectives)])
    figures = [
        {name: BY_NAME[name].read(summary) for name in names} for summary in summaries
    ]
    compared = [
        {name: BY_NAME[name].trusted(summary) for name, _ in objectives}
        if summary.status != "failed"
        else {}
        for summary in summaries
    ]
    marks = non_dominated(compared, objectives)
    return [
        ConfigurationRow(
            summary.run_id,
            summary.label,
            summary.status,
            {name: summary.config[name] for name in settings if name in summary.config},
            row,
            mark,
            is_synthetic=summary.synthetic,
        )
        for summary, row, mark in zip(summaries, figures, marks, strict=True)
    ]
