"""Stored runs as they are now: the summary of each, what to change about it, which runs to
keep, and deleting the others.

A summary is the stored one, or folded anew from the events.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from warmup_insights.analysis.summary import Folded, summarize
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import FailureFacts, RunSummary, ServingEnd

if TYPE_CHECKING:
    from warmup_insights.analysis.advice import Finding
    from warmup_insights.storage import EventStore

DELETE_BLOCK = 50
"""Runs per transaction, so that recorders can write in between."""
MAX_HISTORY = 200
"""Runs like another one that advice rests on, at most."""
_NO_END = "recording process died: no heartbeat, and no end was recorded"


_OF_ROW = (
    "run_id", "status", "heartbeat_at", "process", "label", "model", "source_name",
    "source_kind",
)  # fmt: skip


def record_of(row: Mapping[str, Any]) -> RunRecord:
    """What of a row of `EventStore.run_table` decides its name and its status now."""
    return RunRecord(**{name: row[name] for name in _OF_ROW})


def refresh(store: EventStore, run_id: str) -> Folded:
    """Fold a run from its events, store the result and return it."""
    folded = summarize(store.run(run_id), store.events(run_id))
    with store.begin() as transaction:
        transaction.put_summary(folded.summary, folded.rows)
    return folded


def refresh_stale(store: EventStore) -> int:
    """Fold anew the runs without a summary of this version; how many those were.

    Runs that are being recorded stay as they are.
    """
    stale = [
        run_id for run_id in store.stale_runs() if store.run(run_id).status != "running"
    ]
    for run_id in stale:
        refresh(store, run_id)
    return len(stale)


def current(store: EventStore, run: RunRecord) -> Folded:
    """The summary and the bucket rows of a run, made anew when events came after them.

    A recorded start-up without a sign of its process shows as failed, killed; so does
    serving.
    """
    summary = store.summary(run.run_id)
    if summary is not None and run.run_id not in store.stale_runs():
        summary = msgspec.structs.replace(summary, label=run.label)
        folded = Folded(summary, store.bucket_summaries(run.run_id))
    else:
        folded = summarize(run, store.events(run.run_id))
    if run.has_no_heartbeat(time.time()) and not _has_end(store, run, folded.summary):
        return Folded(_interrupted(folded.summary), folded.rows)
    return folded


def _has_end(store: EventStore, run: RunRecord, summary: RunSummary) -> bool:
    """Whether a recorder left an end; a start that is over has a status of its own before."""
    if run.status == "running":
        return False
    is_serving = summary.serving is not None and summary.serving.end is None
    return not is_serving or any(store.events(run.run_id, ["run_finished"]))


def _interrupted(summary: RunSummary) -> RunSummary:
    """The summary of a run whose process is gone and recorded no end."""
    if summary.serving is not None and summary.serving.end is None:
        end = ServingEnd(kind="killed", message=_NO_END)
        serving = msgspec.structs.replace(summary.serving, end=end)
        return msgspec.structs.replace(summary, serving=serving)
    if summary.status != "running":
        return summary
    step = summary.progress
    at = "" if step.bucket is None else f"; last bucket {step.bucket} ({step.phase})"
    failure = FailureFacts(
        kind="killed",
        phase=step.phase,
        bucket=step.bucket,
        free_bytes=step.free_bytes,
        message=_NO_END + at,
    )
    return msgspec.structs.replace(summary, status="failed", failure=failure)


def kept_lines(store: EventStore, run: RunRecord) -> dict[int, str]:
    """The lines that were kept of the log of a run, by their number; none of a recording."""
    if run.source_id is None:
        return {}
    return {number: text for number, _, text in store.source_lines(run.source_id)}


def findings(store: EventStore, run: RunRecord, folded: Folded) -> list[Finding]:
    """What to change about a run, the most important first, with what the other runs of
    the store add to it."""
    # Most readers of runs need none of the rules.
    from warmup_insights.analysis.advice import RunFacts, advise

    others, same_time = history(store, run), beside(store, run)
    return advise(RunFacts(folded.summary, folded.rows, others, same_time))


def history(store: EventStore, run: RunRecord) -> list[RunSummary]:
    """Summaries of the newest other runs of the same engine, model and device."""
    if run.model is None or run.device_kind is None:
        return []
    others = store.runs(
        limit=MAX_HISTORY,
        model=run.model,
        device_kind=run.device_kind,
        engine=run.engine,
        synthetic=run.synthetic,
    )
    ids = [
        other.run_id
        for other in others
        if other.run_id != run.run_id and other.device_name == run.device_name
    ]
    return list(store.summaries(ids).values())


def beside(store: EventStore, run: RunRecord) -> list[RunSummary]:
    """Summaries of the runs in the same log whose engines ran at the same time."""
    if run.source_id is None or run.started_at is None:
        return []
    ids = [
        other.run_id
        for other in store.runs(source_id=run.source_id, limit=MAX_HISTORY)
        if other.run_id != run.run_id
    ]
    own = store.summary(run.run_id)
    if own is None or not ids:
        return []
    return at_the_same_time(own, store.summaries(ids).values())


def at_the_same_time(
    summary: RunSummary, others: Iterable[RunSummary]
) -> list[RunSummary]:
    """Of other runs on the same kind of device, those whose lines are of the same time."""
    own = _span(summary)
    return [
        other
        for other in others
        if other.device.kind == summary.device.kind
        and own is not None
        and (span := _span(other)) is not None
        and max(own[0], span[0]) < min(own[1], span[1])
    ]


def _span(summary: RunSummary) -> tuple[float, float] | None:
    """From the first event to the last one."""
    start, serving = summary.time.started, summary.serving
    if start is None:
        return None
    if summary.time.wall_s is None:
        # Of an excerpt the time of its last line is known, and how long it took is not.
        last = summary.progress.last_at
        return None if last is None or last <= start else (start, last)
    served = serving.duration_s or 0.0 if serving is not None else 0.0
    return start, start + summary.time.wall_s + served


def earlier_run(store: EventStore, run: RunRecord) -> RunRecord | None:
    """The last finished run of the same model on the same kind of device, as real or
    as synthetic as this one."""
    if run.model is None:
        return None
    found = store.runs(
        model=run.model, device_kind=run.device_kind, status="finished",
        synthetic=run.synthetic, limit=2,
    )  # fmt: skip
    others = [other for other in found if other.run_id != run.run_id]
    return others[0] if others else None


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
