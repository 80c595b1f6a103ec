"""A run in the trace event format of Chrome, which ui.perfetto.dev and Perfetto read.

Times are microseconds from the start of the run. The process with id 0 holds what the
run states as a whole; process 1 + N is rank N. The format: "Trace Event Format", Google.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from warmup_insights.analysis.sentences import made_up_word
from warmup_insights.analysis.summary import Folded
from warmup_insights.export.tables import plain
from warmup_insights.model.events import BucketMiss, Event
from warmup_insights.model.figures import contradictory
from warmup_insights.model.summary import BucketRow, RunSummary, StepCost

STAGES, STEPS, CAPTURES, MARKS = 1, 2, 3, 4
_TRACKS = {
    STAGES: "stages",
    STEPS: "buckets",
    CAPTURES: "captures",
    MARKS: "misses and gaps",
}
_APART = 10
"""Between the ids of tracks of one kind."""
_US = 1_000_000

Slice = dict[str, Any]


def trace_json(folded: Folded, events: Iterable[Event]) -> str:
    """The trace of a run; `events` are read for the times of misses alone.

    A step without a time of its own, as progress bars give them, follows the one before
    it from the start of its stage, with a remark in its arguments (`placed`).
    """
    summary = folded.summary
    found = slices(folded, events)
    _share_tracks(found)
    content = {
        "traceEvents": [*_names(summary, found), *found],
        "displayTimeUnit": "ms",
        "otherData": facts(summary),
    }
    return json.dumps(content, indent=1) + "\n"


def slices(folded: Folded, events: Iterable[Event]) -> list[Slice]:
    """What has a time in a run, in the trace event format."""
    summary = folded.summary
    return [
        *_stages(summary),
        *_steps(summary, folded.rows),
        *_captures(summary),
        *_marks(summary, events),
        *_memory(summary),
    ]


def facts(summary: RunSummary) -> dict[str, Any]:
    """What a run is."""
    return {
        "run_id": summary.run_id,
        "engine": summary.engine.name,
        "engine_version": summary.engine.version,
        "device": summary.device.name or summary.device.kind,
        "synthetic": summary.synthetic,
        "started_at": summary.time.started_at,
        "contradictory": sorted(contradictory(summary)),
    }


def _share_tracks(found: Sequence[Slice]) -> None:
    """Give slices that overlap tracks of their own; Perfetto drops all but the first.

    A microsecond comes from rounding: the earlier slice is shortened by it.
    """
    rows: dict[tuple[int, int], list[Slice]] = {}
    for one in sorted((s for s in found if s["ph"] == "X"), key=lambda s: s["ts"]):
        last = rows.setdefault((one["pid"], one["tid"]), [])
        ends = [before["ts"] + before["dur"] - one["ts"] for before in last]
        row = next((i for i, over in enumerate(ends) if over <= 1), len(last))
        if row < len(last):
            last[row]["dur"] -= max(0, ends[row])
        last[row : row + 1] = [one]
        one["tid"] += row * _APART


def _names(summary: RunSummary, found: Sequence[Slice]) -> Iterator[Slice]:
    title = plain(summary.title)
    word = made_up_word(summary.device.kind, summary.synthetic)
    if word is not None:
        title += f" ({word})"
    processes = {0: title}
    for rank in summary.time.ranks:
        processes[_process(rank.rank)] = f"rank {0 if rank.rank is None else rank.rank}"
    for process, name in processes.items():
        yield _meta(process, 0, "process_name", name)
    used = {(one["pid"], one["tid"]) for one in found if one["ph"] != "C"}
    for process, track in sorted(used):
        yield _meta(process, track, "thread_name", _TRACKS[track % _APART])


def _process(rank: int | None) -> int:
    return 1 + (rank or 0)


def _meta(process: int, track: int, name: str, value: str) -> Slice:
    return {
        "ph": "M",
        "pid": process,
        "tid": track,
        "name": name,
        "args": {"name": value},
    }


def _slice(
    name: str, start_s: float, duration_s: float, track: int, category: str,
    *, process: int = 0, **args: Any,
) -> Slice:  # fmt: skip
    known = {key: value for key, value in args.items() if value is not None}
    # Both ends are rounded, so that what follows does not overlap it.
    begin, end = round(start_s * _US), round((start_s + duration_s) * _US)
    return {
        "ph": "X", "pid": process, "tid": track, "cat": category, "name": name,
        "ts": begin, "dur": end - begin, "args": known,
    }  # fmt: skip


def _stages(summary: RunSummary) -> Iterator[Slice]:
    for process, phases in (
        (0, summary.time.phases),
        *((_process(rank.rank), rank.phases) for rank in summary.time.ranks),
    ):
        for phase in phases:
            name = phase.name.replace("_", " ")
            yield _slice(
                name, phase.start_s, phase.duration_s, STAGES, "stage", process=process
            )


def _steps(summary: RunSummary, rows: Sequence[BucketRow]) -> Iterator[Slice]:
    """Runs and captures of buckets, in the order of the run."""
    costs = [
        (cost, row, mode)
        for row in rows
        for cost, mode in ((row.run, "run"), (row.capture, "capture"))
        if cost is not None and cost.duration_s is not None
    ]
    costs.sort(key=lambda found: found[0].position)
    ends: dict[str, float] = {}
    for cost, row, mode in costs:
        start, placed = _start_of(summary, cost, row.phase, mode, ends)
        if start is None or cost.duration_s is None:
            continue
        ends[row.phase] = start + cost.duration_s
        yield _slice(
            f"{row.phase} {row.bucket}", start, cost.duration_s,
            CAPTURES if mode == "capture" else STEPS, mode, bucket=list(row.bucket),
            executed=list(row.executed) if row.executed else None,
            memory_bytes=cost.memory_bytes, gc_s=row.gc_s, compiled=row.compiled,
            compile_s=row.compile_s, resolution_s=row.resolution_s, placed=placed,
        )  # fmt: skip


def _start_of(
    summary: RunSummary, cost: StepCost, phase: str, mode: str, ends: dict[str, float]
) -> tuple[float | None, str | None]:
    """When a step began, and a remark where that follows from the order alone."""
    if cost.time is not None:
        return _since(summary, cost.time), None
    start = ends.get(phase)
    if start is None:
        graphs = (f"{phase}_graphs",) if mode == "capture" else ()
        wanted = (*graphs, f"{phase}_warmup")
        stages = (s.start_s for s in summary.time.phases if s.name in wanted)
        start = next(stages, None)
    return start, "in order, from the start of its stage"


def _since(summary: RunSummary, moment: float | None) -> float | None:
    """Seconds from the start of the run to a moment; None where one is unknown."""
    started = summary.time.started
    return None if started is None or moment is None else moment - started


def _captures(summary: RunSummary) -> Iterator[Slice]:
    """CUDA graphs captured while serving; those at start have no time of their own."""
    for lazy in summary.graphs.lazy if summary.graphs is not None else ():
        start = _since(summary, lazy.time)
        if start is not None and lazy.duration_s is not None:
            yield _slice(
                f"graph of {lazy.num_tokens} tokens", start, lazy.duration_s, CAPTURES,
                "capture while serving", memory_bytes=lazy.memory_bytes,
            )  # fmt: skip


def _marks(summary: RunSummary, events: Iterable[Event]) -> Iterator[Slice]:
    for event in events:
        if isinstance(event, BucketMiss):
            start = _since(summary, event.time)
            if start is not None:
                yield {
                    "ph": "i", "s": "p", "pid": 0, "tid": MARKS, "cat": "miss",
                    "name": f"{event.phase} {event.shape} has no bucket",
                    "ts": round(start * _US), "args": {},
                }  # fmt: skip
    for gap in summary.time.gaps:
        yield _slice(
            "no line in the log", gap.start_s, gap.duration_s, MARKS, "gap",
            line=gap.line, next_line=gap.next_line,
        )  # fmt: skip


def _memory(summary: RunSummary) -> Iterator[Slice]:
    """Counters of device memory, in bytes."""
    for reading in summary.memory_or_none.readings:
        start = _since(summary, reading.time)
        values = {"free": reading.free_bytes, "used": reading.used_bytes}
        known = {name: value for name, value in values.items() if value is not None}
        if start is not None and known:
            yield {
                "ph": "C", "pid": 0, "tid": 0, "name": "device memory",
                "ts": round(start * _US), "args": known,
            }  # fmt: skip
