"""What a process that reads logs and the one that stores them say to each other.

A frame is one byte (what it is), four bytes (its length), then its bytes. Messages are
JSON; events go as MessagePack, which keeps every number as it is.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

import msgspec

from parsers.files import Batch
from warmup_insights.analysis.summary import RunSummary
from warmup_insights.model.events import AnyEvent, Event
from warmup_insights.model.run import RunRecord
from warmup_insights.storage.rows import event_payload, read_payload
from warmup_insights.storage.text import to_json

MESSAGE, PARSED, EVENTS, ODD_EVENTS = b"m", b"p", b"e", b"o"
"""The kinds of frames; odd events hold text or numbers that MessagePack cannot say."""
_HEADER = struct.Struct(">cI")


class Read(msgspec.Struct, tag=True):
    """Read this file."""

    path: str


class Known(msgspec.Struct, tag=True):
    """The stored sources that begin like the file."""

    digests: list[str]
    """What the whole file may be; then it is stored."""
    sizes: list[int]
    """How long the sources are, one of which the file may continue."""


class Begun(msgspec.Struct, tag=True):
    """The file begins like this; which sources do so too?"""

    head: str


class Started(msgspec.Struct, tag=True):
    """A run of which the next events are the first."""

    ordinal: int
    first_line: int
    key: str


class Advanced(msgspec.Struct, tag=True):
    """So many bytes more were read."""

    count: int


class Parsed(msgspec.Struct):
    """All about a log but its events, which came before; a frame of its own kind."""

    digest: str
    head_digest: str
    size: int
    beginnings: dict[int, str]
    """Size to digest of the file's beginnings that are as long as known sources."""
    starts: dict[int, tuple[int, str]]
    """Ordinal of a run to its first line and key."""
    summaries: dict[int, tuple[dict[str, Any], list[dict[str, Any]]]]
    """Ordinal of a run to its summary, without id and label, and its bucket rows."""
    report: dict[str, Any]
    kept_lines: list[tuple[int, str | None, str]]

    def summary(self, ordinal: int, run: RunRecord) -> RunSummary:
        """The summary of a run, with the id and the label that it has by now."""
        summary, bucket_rows = self.summaries[ordinal]
        return RunSummary(
            {**summary, "run_id": run.run_id, "label": run.label}, bucket_rows
        )


class Same(msgspec.Struct, tag=True):
    """The file has the bytes of a known source."""

    digest: str


class Refused(msgspec.Struct, tag=True):
    """The file cannot be read; the sentence for the user."""

    error: str


Question = Read | Known
Answer = Begun | Started | Advanced | Same | Refused
_questions: msgspec.json.Decoder[Question] = msgspec.json.Decoder(Question)
_answers: msgspec.json.Decoder[Answer] = msgspec.json.Decoder(Answer)
_parsed = msgspec.json.Decoder(Parsed)
_batches = msgspec.msgpack.Decoder(list[tuple[int, list[AnyEvent]]])
_odd_batches = msgspec.json.Decoder(list[tuple[int, list[str]]])
_encoder = msgspec.msgpack.Encoder()


def write_frame(file: BinaryIO, kind: bytes, body: bytes) -> None:
    """Write one frame at once."""
    file.write(_HEADER.pack(kind, len(body)) + body)
    file.flush()


def read_frame(file: BinaryIO) -> tuple[bytes, bytes] | None:
    """The next frame: kind and body; None when the other side has gone."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    kind, length = _HEADER.unpack(header)
    body = file.read(length)
    return None if len(body) < length else (kind, body)


def send(file: BinaryIO, message: Question | Answer | Parsed) -> None:
    """Write one message."""
    kind = PARSED if isinstance(message, Parsed) else MESSAGE
    write_frame(file, kind, _json(message))


def _json(message: Question | Answer | Parsed) -> bytes:
    try:
        return msgspec.json.encode(message)
    except UnicodeEncodeError:
        return to_json(msgspec.to_builtins(message)).encode()


def read_question(body: bytes) -> Question:
    """The message to a reading process in a frame."""
    return _questions.decode(body)


def read_answer(body: bytes) -> Answer:
    """The message from a reading process in a frame."""
    return _answers.decode(body)


def read_parsed(body: bytes) -> Parsed:
    """All about a log, from the frame of that kind."""
    return _parsed.decode(body)


def pack_batch(batch: Batch) -> tuple[bytes, bytes]:
    """A batch of events as kind and body of a frame."""
    try:
        return EVENTS, _encoder.encode(batch)
    except (UnicodeEncodeError, OverflowError):
        odd = [(n, [event_payload(event) for event in events]) for n, events in batch]
        return ODD_EVENTS, to_json(odd).encode()


def unpack_batch(kind: bytes, body: bytes) -> Batch:
    """The batch in a frame."""
    if kind == EVENTS:
        batch: Batch = _batches.decode(body)  # type: ignore[assignment]
        return batch
    return [(n, _events(texts)) for n, texts in _odd_batches.decode(body)]


def _events(payloads: list[str]) -> list[Event]:
    found = map(read_payload, payloads)
    return [event for event in found if event is not None]
