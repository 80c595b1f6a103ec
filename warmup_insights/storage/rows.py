"""Events, run summaries and bucket rows to table rows and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, overload

import msgspec
from msgspec.structs import astuple

from warmup_insights.model.events import (
    EVENT_CLASSES,
    AnyEvent,
    Bucket,
    Event,
    decode,
    encode,
    encode_lines,
    kind_of,
)
from warmup_insights.model.figures import BY_NAME, contradictory
from warmup_insights.model.summary import (
    BucketRow,
    PhaseBuckets,
    RunSummary,
    Serving,
    UsedShape,
)


class ForeignValueError(Exception):
    """A stored value has another type than its column."""


@overload
def clean_text(text: str) -> str: ...
@overload
def clean_text(text: str | None) -> str | None: ...
def clean_text(text: str | None) -> str | None:
    """Text without what a database refuses: NUL and halves of surrogate pairs."""
    if text is None or (text.isascii() and "\0" not in text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def clean(value: Any) -> Any:
    """A JSON value with every text in it made fit."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {clean(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return value


def to_json(value: Any) -> str:
    """A value as JSON text; numbers that JSON does not have become null."""
    try:
        return msgspec.json.encode(value).decode()
    except UnicodeEncodeError:
        return msgspec.json.encode(clean(msgspec.to_builtins(value))).decode()


EVENT_COLUMNS = (
    "run_id", "seq", "kind", "rank", "time", "line", "phase", "mode",
    "batch_size", "query_len", "num_blocks", "duration_s", "memory_bytes", "payload",
)  # fmt: skip
Row = tuple[Any, ...]

_LARGEST = 2**63
_PLAIN = ("rank", "time", "line", "phase", "mode")
_MEMORY = ("memory_bytes", "delta_bytes", "allocated_bytes")
_BUCKET = ("bucket", "shape")
_NO_BUCKET = (None, None, None)


def event_rows(run_id: str, first_seq: int, events: Sequence[Event]) -> list[Row]:
    """One row per event, numbered from `first_seq`.

    Quick, without a check of the events. A value that has another type than its field, or
    that a column cannot hold, raises here or in the driver: see `careful_rows`.
    """
    rows = []
    plans = _PLANS
    payloads = encode_lines(events).decode().split("\n")  # and nothing after the last
    for seq, (event, payload) in enumerate(
        zip(events, payloads, strict=False), first_seq
    ):
        kind, bucket_at, order = plans[type(event)]
        values = astuple(event)
        bucket = None if bucket_at is None else values[bucket_at]
        if bucket is None:
            bucket = _NO_BUCKET
        elif len(bucket) != 3:
            bucket = _dimensions(bucket)
        known = (run_id, seq, kind, payload, None)
        rows.append(order(known + values + bucket))
    return rows


def careful_rows(run_id: str, first_seq: int, events: Iterable[Event]) -> list[Row]:
    """The same rows for events that `event_rows` or the driver refused.

    Numbers of other libraries become plain ones; what a column cannot hold is null
    there and stays in the payload; an event that is no event at all becomes a row that
    readers skip and count.
    """
    rows = []
    for seq, given in enumerate(events, first_seq):
        payload = event_payload(given)
        event = read_payload(payload)
        if event is None:
            kind = kind_of(given) if isinstance(given, Event) else "unknown"
            empty = (None,) * (len(EVENT_COLUMNS) - 4)
            rows.append((run_id, seq, kind, *empty, payload))
        else:
            (row,) = event_rows(run_id, seq, [event])
            rows.append((*(_fit(value) for value in row[:-1]), payload))
    return rows


def event_payload(event: Event) -> str:
    """An event as JSON text, fit for every database."""
    try:
        return encode(event).decode()
    except (UnicodeEncodeError, TypeError, OverflowError, ValueError):
        plain = clean(msgspec.to_builtins(event, enc_hook=_plain))
        return msgspec.json.encode(plain).decode()


def read_payload(payload: str | bytes) -> AnyEvent | None:
    """The event in a payload; None when a newer version wrote what we cannot read."""
    try:
        return decode(payload)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _dimensions(bucket: tuple[int, ...]) -> tuple[int | None, ...]:
    """Batch size, query length and blocks.

    One dimension is a number of tokens; four mean something else and have no columns.
    """
    if len(bucket) > 3 or len(bucket) == 0:
        return _NO_BUCKET
    if len(bucket) == 1:
        return (None, *bucket, None)
    return (*bucket, *(None,) * (3 - len(bucket)))


def _fit(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return None
    return value


def _plain(value: Any) -> Any:
    """A number of numpy or torch as ours, anything else as its text."""
    for convert in ("__index__", "__float__"):
        if hasattr(value, convert):
            return getattr(value, convert)()
    return str(value)


_Plan = tuple[str, "int | None", Callable[[tuple[Any, ...]], Row]]


def _plan(kind: str, cls: type[Event]) -> _Plan:
    """How to make a row: the kind, where the bucket is, and where every column is.

    Columns are taken from one tuple: run, number, kind, payload, a null for fields that
    the class lacks, all its fields, the three sizes. Three calls into C per event
    instead of one per column.
    """
    places = {name: place for place, name in enumerate(cls.__struct_fields__, 5)}
    null, first_size = 4, 5 + len(places)
    bucket, size = (
        next((name for name in names if name in places), "")
        for names in (_BUCKET, _MEMORY)
    )
    columns = (
        0, 1, 2, *(places.get(name, null) for name in _PLAIN),
        *range(first_size, first_size + 3), places.get("duration_s", null),
        places.get(size, null), 3,
    )  # fmt: skip
    return kind, places[bucket] - 5 if bucket else None, itemgetter(*columns)


_PLANS = {cls: _plan(kind, cls) for kind, cls in EVENT_CLASSES.items()}


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
