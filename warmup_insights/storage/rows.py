"""Events to table rows and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from warmup_insights.events import EVENT_CLASSES, AnyEvent, Event, decode, encode
from warmup_insights.storage.text import clean, clean_text

EVENT_COLUMNS = (
    "run_id", "seq", "kind", "rank", "time", "line", "phase", "mode",
    "batch_size", "query_len", "num_blocks", "duration_s", "memory_bytes", "payload",
)  # fmt: skip
Row = tuple[Any, ...]

_LARGEST = 2**63
_MEMORY_FIELDS = ("memory_bytes", "delta_bytes", "allocated_bytes")
_BUCKET_FIELDS = ("bucket", "shape")


def event_rows(run_id: str, first_seq: int, events: Iterable[Event]) -> list[Row]:
    """One row per event, numbered from `first_seq`."""
    rows = []
    for seq, event in enumerate(events, first_seq):
        kind, phase_of, mode_of, bucket_of, duration_of, memory_of = _READERS[
            type(event)
        ]
        bucket = bucket_of(event)
        rows.append(
            (
                run_id,
                seq,
                kind,
                _integer(event.rank),
                event.time,
                _integer(event.line),
                clean_text(phase_of(event)),
                clean_text(mode_of(event)),
                *(_NO_BUCKET if bucket is None else _dimensions(bucket)),
                duration_of(event),
                _integer(memory_of(event)),
                event_payload(event),
            )
        )
    return rows


def event_payload(event: Event) -> str:
    """An event as JSON text, fit for every database."""
    try:
        return encode(event).decode()
    except UnicodeEncodeError:  # half a surrogate pair, from an undecodable byte
        return msgspec.json.encode(clean(msgspec.to_builtins(event))).decode()


def read_payload(payload: str | bytes) -> AnyEvent | None:
    """The event in a payload; None when a newer version wrote what we cannot read."""
    try:
        return decode(payload)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None


def bucket_text(bucket: Iterable[int]) -> str:
    """A bucket as a key: its dimensions joined by `x`."""
    return "x".join(str(number) for number in bucket)


_NO_BUCKET = (None, None, None)


def _dimensions(bucket: tuple[int, ...]) -> tuple[int | None, int | None, int | None]:
    """The typed columns of a bucket; empty where its numbers mean something else."""
    size = len(bucket)
    if size == 3:
        return _integer(bucket[0]), _integer(bucket[1]), _integer(bucket[2])
    if size == 2:
        return _integer(bucket[0]), _integer(bucket[1]), None
    if size == 1:
        return None, _integer(bucket[0]), None
    return _NO_BUCKET


def _integer(value: int | None) -> int | None:
    """A number as the column can hold it; the payload keeps it in any case."""
    if value is None or -_LARGEST <= value < _LARGEST:
        return value
    return None


def _nothing(event: Event) -> None:
    return None


def _reader(cls: type[Event], names: Iterable[str]) -> Callable[[Any], Any]:
    known = set(cls.__struct_fields__)
    return next((attrgetter(name) for name in names if name in known), _nothing)


def _readers() -> Iterator[tuple[type[Event], tuple[Any, ...]]]:
    for kind, cls in EVENT_CLASSES.items():
        yield (
            cls,
            (
                kind,
                _reader(cls, ("phase",)),
                _reader(cls, ("mode",)),
                _reader(cls, _BUCKET_FIELDS),
                _reader(cls, ("duration_s",)),
                _reader(cls, _MEMORY_FIELDS),
            ),
        )


_READERS: dict[type[Event], tuple[Any, ...]] = dict(_readers())
