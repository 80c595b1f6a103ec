"""Metric files of the Gaudi bridge are joined to the run of their process."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from parsers.formats.metric_files import (
    MAX_BYTES,
    WRITTEN,
    looks_like_metrics,
    read_metrics,
)
from warmup_insights.ingest.outcome import Options, Outcome
from warmup_insights.model.events import Note
from warmup_insights.model.run import SourceRecord
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore

DIALECT = "hpu-metrics"
AROUND_S = 600.0
"""A file that is written when the process ends is later than the last line of the log."""


def is_metric_file(path: str) -> bool:
    """Whether a file is one; what cannot be read is none."""
    try:
        with Path(path).open("rb") as stream:
            return looks_like_metrics(stream.read(4096))
    except OSError:
        return False


def join_metrics(
    store: EventStore,
    path: str,
    options: Options,
    run_id: str | None,
    read: Sequence[Outcome],
) -> Outcome:
    """Store a metric file with a run: the one named, else the one that it fits.

    Without a name it is the only run of the logs of the same folder, read before, that
    was under way when the file was written.
    """
    data = Path(path).read_bytes()[:MAX_BYTES]
    digest = hashlib.sha256(data).hexdigest()
    if store.source_with_digest(digest) is not None:
        return Outcome(path, state="unchanged")
    notes = read_metrics(data.decode("utf-8", "replace"), path, options.zone)
    if not notes:
        return Outcome(path, state="nothing")
    if run_id is None:
        beside = [o for o in read if Path(o.path).parent == Path(path).parent]
        fitting = _fitting(store, beside, notes)
        if len(fitting) != 1:
            problem = (
                f"{path} has metrics of the Gaudi bridge and fits {len(fitting)} of the "
                "runs read with it; name its run with --run"
            )
            return Outcome(path, state="failed", error=problem)
        run_id = fitting[0]
    report: dict[str, Any] = {
        "lines": data.count(b"\n"), "events": len(notes), "unknown": 0,
        "dialects": [DIALECT],
    }  # fmt: skip
    source = SourceRecord(
        source_id=digest[:16], name=Path(path).name, digest=digest,
        head_digest=digest, size_bytes=len(data), lines=report["lines"],
        dialects=(DIALECT,), report=report, timezone=options.timezone,
    )  # fmt: skip
    with store.begin() as transaction:
        transaction.add_source(source)
        transaction.append(run_id, notes)
    refresh(store, run_id)
    return Outcome(path, [run_id], "new", report)


def _fitting(
    store: EventStore, outcomes: Iterable[Outcome], notes: Sequence[Note]
) -> list[str]:
    """The runs that were under way when the metrics were written."""
    written = [note.values[WRITTEN] for note in notes if note.values[WRITTEN]]
    found = []
    for run_id in dict.fromkeys(id_ for o in outcomes for id_ in o.run_ids):
        times = [event.time for event in store.events(run_id) if event.time is not None]
        if times and any(min(times) <= at <= max(times) + AROUND_S for at in written):
            found.append(run_id)
    return found
