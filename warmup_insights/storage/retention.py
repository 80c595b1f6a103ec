"""Which runs to keep, and giving the space of the others back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from warmup_insights.model.run import RunRecord

if TYPE_CHECKING:
    from warmup_insights.storage.store import EventStore

DELETE_BLOCK = 50
"""Runs per transaction, so that recorders get their turn in between."""


def runs_to_prune(
    runs: Sequence[RunRecord],
    *,
    now: float,
    keep: int | None = None,
    older_than_s: float | None = None,
    with_labelled: bool = False,
) -> list[RunRecord]:
    """The runs that no rule keeps, of runs that are sorted newest first.

    `keep` keeps the newest so many, `older_than_s` keeps what is younger. A run that is
    being recorded stays, and so does a labelled one unless `with_labelled`.
    """
    return [
        run
        for place, run in enumerate(runs)
        if (keep is None or place >= keep)
        and (older_than_s is None or _age_s(run, now) > older_than_s)
        and (with_labelled or run.label is None)
        and run.status_at(now) != "running"
    ]


def _age_s(run: RunRecord, now: float) -> float:
    started_at = run.created_at if run.started_at is None else run.started_at
    return now - (now if started_at is None else started_at)


def delete_runs(store: EventStore, run_ids: Iterable[str]) -> None:
    """Remove runs with all that belongs to them, and sources without a run."""
    left = list(run_ids)
    while left:
        block, left = left[:DELETE_BLOCK], left[DELETE_BLOCK:]
        with store.begin() as transaction:
            for run_id in block:
                transaction.delete_run(run_id)
