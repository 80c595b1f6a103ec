"""Run summaries and bucket rows to table rows and back."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from warmup_insights.model.events import Bucket
from warmup_insights.model.figures import BY_NAME, contradictory
from warmup_insights.model.summary import (
    BucketRow,
    PhaseBuckets,
    RunSummary,
    Serving,
    UsedShape,
)
from warmup_insights.storage.engine import ForeignValueError
from warmup_insights.storage.rows import clean_text, to_json

COLUMNS = {
    "ready_s": "ready_s", "wall_s": "wall_s", "warmup_s": "warmup_s",
    "captured_percent": "captured_percent", "num_kv_blocks": "num_kv_blocks",
    "missed": "misses",
}  # fmt: skip
"""Columns of `run_summaries` to the figures in them, for lists that sort by them."""
_FLAGS = ("generated", "warmed", "captured", "skipped")
"""Fields of a bucket that are integers in the table."""
_TEXTS = ("executed", "run", "capture")
"""Fields of a bucket that are JSON in the table."""


def summary_row(summary: RunSummary, num_events: int) -> dict[str, Any]:
    """The row of a run summary: all of it as JSON, and the figures of lists."""
    doubted = contradictory(summary)
    return {
        "run_id": summary.run_id,
        "schema": summary.schema,
        "fold": summary.fold,
        "summary": to_json(summary),
        "num_events": num_events,
        "status": summary.status,
        "started_at": summary.time.started,
        **{name: BY_NAME[figure].read(summary) for name, figure in COLUMNS.items()},
        "doubtful": " ".join(f for f in COLUMNS.values() if f in doubted) or None,
        "start": summary.start.words,
    }


def run_columns(summary: RunSummary) -> dict[str, Any]:
    """The columns of `runs` that follow from a summary."""
    return {
        "engine": summary.engine.name,
        "version": summary.engine.version,
        "model": summary.model,
        "device_kind": summary.device.kind,
        "device_name": summary.device.name,
        "status": summary.status,
        "synthetic": summary.synthetic,
        "started_at": summary.time.started,
    }


class _PhaseFigures(PhaseBuckets, rename={"buckets": "-", "captured_buckets": "--"}):  # type: ignore[misc]
    """A phase read without its lists, which are most of the text."""

    buckets: list[Bucket] = msgspec.field(default_factory=list)
    captured_buckets: list[Bucket] | None = None


class _ServingFigures(Serving, rename={"uses": "-"}):  # type: ignore[misc]
    """Serving read without its shapes, of which there can be very many."""

    uses: list[UsedShape] = msgspec.field(default_factory=list)


class _RunFigures(RunSummary):  # type: ignore[misc]
    """A summary read without its lists of buckets and shapes."""

    serving: _ServingFigures | None = None
    buckets: dict[str, _PhaseFigures] | None = None  # type: ignore[assignment]


_WHOLE = msgspec.json.Decoder(RunSummary)
_FIGURES_ONLY = msgspec.json.Decoder(_RunFigures)


def read_summary(text: str, *, with_lists: bool = True) -> RunSummary:
    """A stored summary; without `with_lists` buckets and shapes are left out.

    Raises:
        ForeignValueError: it is none that this fold has stored.
    """
    decoder = _WHOLE if with_lists else _FIGURES_ONLY
    try:
        return decoder.decode(text)
    except (msgspec.DecodeError, TypeError) as error:
        raise ForeignValueError("a summary") from error


def bucket_row(run_id: str, row: BucketRow) -> dict[str, Any]:
    """The table row of a bucket."""
    found = msgspec.structs.asdict(row)
    bucket = row.bucket
    found |= {
        "run_id": run_id,
        "phase": clean_text(row.phase),
        "bucket": "x".join(map(str, bucket)),
        "state": clean_text(row.state),
        **{f"d{n}": bucket[n] if n < len(bucket) else None for n in range(4)},
    }
    for name in _FLAGS:
        found[name] = None if found[name] is None else int(found[name])
    for name in _TEXTS:
        found[name] = None if found[name] is None else to_json(found[name])
    return found


def read_bucket_row(row: Mapping[str, Any]) -> BucketRow:
    """A stored bucket. Raises ForeignValueError for one that was never stored so."""
    known = {name: row[name] for name in BucketRow.__struct_fields__}
    try:
        known["bucket"] = [int(number) for number in row["bucket"].split("x") if number]
        for name in _TEXTS:
            text = row[name]
            known[name] = None if text is None else msgspec.json.decode(text)
        for name in _FLAGS:
            known[name] = None if row[name] is None else bool(row[name])
        found = msgspec.convert(known, BucketRow)
    except (TypeError, ValueError, AttributeError) as error:
        raise ForeignValueError("a bucket") from error
    shapes = {
        len(shape) for shape in (found.bucket, found.executed) if shape is not None
    }
    if len(shapes) > 1 or 0 in shapes:
        raise ForeignValueError("a bucket")
    numbers = (found.duration_s, found.memory_bytes, found.gc_s)
    if not all(value is None or math.isfinite(value) for value in numbers):
        raise ForeignValueError("a bucket")
    return found
