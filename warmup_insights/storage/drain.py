"""Draining: what recorders appended to their spools goes into the database, once.

How far each spool was read is stored in the transaction that stores its events, so any
number of processes may drain, and a database that was lost is filled again.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from warmup_insights.model.events import (
    AnyEvent,
    ConfigRecorded,
    Event,
    Failure,
    Note,
    RunFinished,
    RunStarted,
    ServerReady,
)
from warmup_insights.model.run import RunRecord
from warmup_insights.storage.spool import CLOSED, SpoolFile

if TYPE_CHECKING:
    from warmup_insights.storage.store import EventStore

BATCH = 20_000
"""Events per transaction."""
HEARTBEAT_S = 1.0
"""A sign of life that is newer by less is not stored."""
_LEARNED = ("engine", "version", "model", "device_kind", "device_name")
_Line = tuple[float, int, SpoolFile, "AnyEvent | None"]


@dataclass
class Drained:
    """What a drain did."""

    num_events: int = 0
    num_unreadable: int = 0
    """Lines that could not be read; the run has a note of them."""
    ended: set[str] = field(default_factory=set)
    """Runs to which no spool will add anything, of those that were drained."""


def drain(
    store: EventStore, spools: Sequence[SpoolFile], *, removes: bool = True
) -> Drained:
    """Store what is new in spools; remove those that are over and stored whole."""
    drained = Drained()
    ordered = sorted(spools, key=lambda s: (s.run.run_id, s.run.process or "", s.part))
    for run_id, of_run in groupby(ordered, key=lambda spool: spool.run.run_id):
        files = list(of_run)
        try:
            over = [spool for spool in files if spool.is_over()]
            _drain_run(store, run_id, files, over, drained)
        except FileNotFoundError:  # another process has stored and removed it
            continue
        for spool in over if removes else ():
            spool.path.unlink(missing_ok=True)
        if len(over) == len(files):
            drained.ended.add(run_id)
    return drained


def _drain_run(
    store: EventStore,
    run_id: str,
    files: list[SpoolFile],
    over: list[SpoolFile],
    drained: Drained,
) -> None:
    heartbeat = max(spool.path.stat().st_mtime for spool in files)
    known = store.spool_offsets(run_id)
    is_new = any(s.path.stat().st_size > known.get(s.key, 0) for s in files)
    before = store.run(run_id).heartbeat_at if known else None
    if not is_new and abs(heartbeat - (before or 0.0)) < HEARTBEAT_S:
        return
    is_more = True
    while is_more:
        with store.begin() as transaction:
            transaction.ensure_run(min((s.run for s in files), key=_began))
            # Changed first, so that others who drain the run wait here.
            transaction.update_run(run_id, heartbeat_at=heartbeat)
            reached = {spool.key: spool.start for spool in files}
            reached |= transaction.spool_offsets(run_id)
            lines = list(islice(_lines(files, reached), BATCH))
            is_more = len(lines) == BATCH
            reached |= {spool.key: end for _, end, spool, _ in lines}
            events: list[Event] = [line[3] for line in lines if line[3] is not None]
            num_unreadable = len(lines) - len(events)
            if not is_more:
                num_unreadable += _end_spools(over, reached)
            drained.num_events += len(events)
            if num_unreadable:
                drained.num_unreadable += num_unreadable
                events.append(_note(num_unreadable, heartbeat))
            if events:
                transaction.append(run_id, events, **learned_columns(events))
            transaction.put_spool_offsets(run_id, reached)


def _began(run: RunRecord) -> float:
    """When the process began that has this record of the run."""
    return math.inf if run.started_at is None else run.started_at


def _end_spools(over: list[SpoolFile], reached: dict[str, int]) -> int:
    """Take the rest of spools that are over as read; how many have a cut last line."""
    num_cut = 0
    for spool in over:
        with spool.path.open("rb") as file:
            file.seek(reached[spool.key])
            rest = file.read()
            reached[spool.key] = file.tell()
        num_cut += rest not in (b"", CLOSED)
    return num_cut


def _lines(files: list[SpoolFile], offsets: Mapping[str, int]) -> Iterator[_Line]:
    """New lines of all processes of a run, by time; of each in the order of recording."""
    streams = [
        _stream(list(parts), offsets)
        for _, parts in groupby(files, key=lambda spool: spool.run.process or spool.key)
    ]
    return merge(*streams, key=lambda line: line[0])


def _stream(parts: list[SpoolFile], offsets: Mapping[str, int]) -> Iterator[_Line]:
    latest = 0.0
    for spool in parts:
        for end, event in spool.read(offsets.get(spool.key, 0)):
            if event is not None and event.time is not None:
                latest = max(latest, event.time)
            yield latest, end, spool, event


def _note(count: int, time: float) -> Note:
    text = f"{count} recorded events could not be read, such as one that was cut off"
    return Note(time=time, topic="events_dropped", text=text, count=count)


def learned_columns(events: Sequence[Event]) -> dict[str, Any]:
    """What events state about the run itself: columns of `runs` and their values."""
    columns: dict[str, Any] = {}
    for event in events:
        match event:
            case RunStarted() | ConfigRecorded():
                known = {name: getattr(event, name) for name in _LEARNED}
                columns |= {name: v for name, v in known.items() if v is not None}
                if isinstance(event, RunStarted):
                    columns["synthetic"] = event.synthetic
            case ServerReady():
                columns["status"] = "finished"
            case Failure():
                columns["status"] = "failed"
            case RunFinished():
                columns["status"] = event.status
    return columns
