"""Files beside a log join its run: metrics of the Gaudi bridge, output of collect_env."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from parsers.formats import collect_env, metric_files
from parsers.formats.collect_env import looks_like_environment, read_environment
from parsers.formats.metric_files import WRITTEN, looks_like_metrics, read_metrics
from warmup_insights.ingest.outcome import Options, Outcome
from warmup_insights.model.events import Event, Note
from warmup_insights.model.run import SourceRecord
from warmup_insights.runs import refresh
from warmup_insights.storage import EventStore

METRICS, ENVIRONMENT = "hpu-metrics", collect_env.DIALECT.name
_WHAT = {METRICS: "metrics of the Gaudi bridge", ENVIRONMENT: "output of collect_env"}
AROUND_S = 600.0
"""A file that is written when the process ends is later than the last line of the log."""


def is_beside(path: str) -> bool:
    """Whether a file is one of these; what cannot be read is none."""
    try:
        with Path(path).open("rb") as stream:
            return kind_of_file(stream.read(collect_env.MAX_BYTES)) is not None
    except OSError:
        return False


def kind_of_file(head: bytes) -> str | None:
    """`METRICS` or `ENVIRONMENT` for a file that begins so; None for any other."""
    if looks_like_metrics(head):
        return METRICS
    return ENVIRONMENT if looks_like_environment(head) else None


def join_beside(
    store: EventStore,
    path: str,
    options: Options,
    run_id: str | None,
    read: Sequence[Outcome],
) -> Outcome:
    """Store such a file with a run: the one named, else those that it fits.

    Without a name metrics are of the only run of the logs of the same folder, read
    before, that was under way when the file was written, and an environment is of the
    runs of the only log there.
    """
    data = Path(path).read_bytes()[: metric_files.MAX_BYTES]
    digest = hashlib.sha256(data).hexdigest()
    if store.source_with_digest(digest) is not None:
        return Outcome(path, state="unchanged")
    dialect = kind_of_file(data[: collect_env.MAX_BYTES]) or METRICS
    events = _events(data, path, dialect, options)
    if not events:
        return Outcome(path, state="nothing")
    runs = [run_id] if run_id is not None else _runs_of(store, path, events, read)
    if not runs:
        problem = (
            f"{path} has {_WHAT[dialect]} and fits none or several of the runs read with "
            "it; name its run with --run"
        )
        return Outcome(path, state="failed", error=problem)
    report: dict[str, Any] = {
        "lines": data.count(b"\n"), "events": len(events) * len(runs), "unknown": 0,
        "dialects": [dialect],
    }  # fmt: skip
    source = SourceRecord(
        source_id=digest[:16], name=Path(path).name, digest=digest,
        head_digest=digest, size_bytes=len(data), lines=report["lines"],
        dialects=(dialect,), report=report, timezone=options.timezone,
    )  # fmt: skip
    with store.begin() as transaction:
        transaction.add_source(source)
        for run in runs:
            transaction.append(run, events)
    for run in runs:
        refresh(store, run)
    return Outcome(path, runs, "new", report)


def _events(data: bytes, path: str, dialect: str, options: Options) -> Sequence[Event]:
    text = data.decode("utf-8", "replace")
    if dialect == METRICS:
        return read_metrics(text, path, options.zone)
    found = read_environment(text)
    return [] if found is None else [found]


def _runs_of(
    store: EventStore, path: str, events: Sequence[Event], read: Sequence[Outcome]
) -> list[str]:
    """The runs that the events of a file belong to; none where that is not clear."""
    beside = [o for o in read if o.run_ids and Path(o.path).parent == Path(path).parent]
    notes = [event for event in events if isinstance(event, Note)]
    if not notes:
        return beside[0].run_ids if len(beside) == 1 else []
    fitting = _fitting(store, beside, notes)
    return fitting if len(fitting) == 1 else []


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
