"""Graph memory in the order of capture, and what was set aside for it; no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from dashboard.budget import block_bytes
from warmup_insights.analysis.figures import graph_memory_bytes
from warmup_insights.model.events import (
    AnyEvent,
    GraphBudgetSet,
    GraphCaptured,
    GraphSkipped,
    WarmupStep,
)

KINDS = ("graph_budget_set", "graph_captured", "graph_skipped", "warmup_step")
COLUMNS = [
    "position", "phase", "bucket", "state", "memory_bytes", "cumulative_bytes",
    "estimate_bytes", "rank",
]  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """Captures of one rank in their order, and the budget of all of them.

    `is_warmup` is true when the log has no captures of their own, so that the steps of
    the warm-up, which capture as they go, are shown instead.
    """

    points: pd.DataFrame
    budget_bytes: int | None
    is_warmup: bool


def capture_curve(events: Iterable[AnyEvent]) -> Curve:
    """The curve of the lowest rank.

    A recorder states what each capture took. A log states what was free before each
    step, from which cut-out lines cannot take away: then cumulative is a difference of
    free memory.
    """
    captures, steps, budget = _sorted_out(events)
    if captures:
        return Curve(_of_captures(captures), budget, is_warmup=False)
    graph_steps = [step for step in steps if step.mode == "graph"]
    chosen = graph_steps or steps
    return Curve(_of_steps(chosen), budget, is_warmup=not graph_steps)


_Found = tuple[list[GraphCaptured | GraphSkipped], list[WarmupStep], int | None]


def _sorted_out(events: Iterable[AnyEvent]) -> _Found:
    captures: list[GraphCaptured | GraphSkipped] = []
    steps: list[WarmupStep] = []
    budget: int | None = None
    rank: int | None = None
    for event in events:
        here = event.rank or 0
        if rank is None or here < rank:
            rank, captures, steps, budget = here, [], [], None
        if here > rank:
            continue
        if isinstance(event, GraphBudgetSet):
            budget = event.total_bytes
        elif isinstance(event, WarmupStep):
            steps.append(event)
        elif isinstance(event, GraphCaptured | GraphSkipped):
            captures.append(event)
    return captures, steps, budget


def _of_captures(captures: list[GraphCaptured | GraphSkipped]) -> pd.DataFrame:
    total = 0
    rows = []
    for position, event in enumerate(captures, 1):
        size = event.memory_bytes if isinstance(event, GraphCaptured) else None
        total += size or 0
        state = "captured" if isinstance(event, GraphCaptured) else "skipped"
        rows.append(
            (position, event.phase, event.bucket, state, size, total,
             event.estimate_bytes, event.rank)
        )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def _of_steps(steps: list[WarmupStep]) -> pd.DataFrame:
    known = [step for step in steps if step.free_before_bytes is not None]
    if not known:
        return pd.DataFrame([], columns=COLUMNS)
    first = known[0].free_before_bytes or 0
    rows = []
    for position, step in enumerate(known, 1):
        free = step.free_after_bytes
        if free is None:
            free = step.free_before_bytes
        rows.append(
            (position, step.phase, step.bucket or (), "captured", step.memory_bytes,
             first - (free or 0), None, step.rank)
        )  # fmt: skip
    return pd.DataFrame(rows, columns=COLUMNS)


def reserved_used(summary: Mapping[str, Any]) -> pd.DataFrame:
    """What was set aside and what was taken: share, reserved_bytes, used_bytes, and
    both as KV blocks where the size of a block is known."""
    memory = summary["memory"] or {}
    taken = graph_memory_bytes(summary)
    rows: list[tuple[str, int | None, int | None]] = [
        (
            "all graphs",
            memory.get("graph_reserved_bytes"),
            None if taken is None else int(taken),
        )
    ]
    for phase, section in (summary["buckets"] or {}).items():
        rows.append((phase, section["graph_budget_bytes"], section["graph_used_bytes"]))
    frame = pd.DataFrame(rows, columns=["share", "reserved_bytes", "used_bytes"])
    frame = frame.dropna(how="all", subset=["reserved_bytes", "used_bytes"])
    size = block_bytes(summary)
    for name in ("reserved", "used"):
        frame[f"{name}_blocks"] = (
            None if size is None else frame[f"{name}_bytes"] / size
        )
    return frame.reset_index(drop=True)


def gained_blocks(summary: Mapping[str, Any]) -> int | None:
    """KV blocks that fit into what was reserved for graphs and not used by them.

    Negative when graphs took more than was reserved; None when unknown.
    """
    memory, size = summary["memory"] or {}, block_bytes(summary)
    reserved, used = memory.get("graph_reserved_bytes"), graph_memory_bytes(summary)
    if reserved is None or used is None or size is None:
        return None
    return int((reserved - used) / size)
