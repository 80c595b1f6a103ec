"""The parts of a log as bytes, on their way from one process to another."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import msgspec

from warmup_insights.ingest.log import Events, LogEnd, Part
from warmup_insights.storage.rows import event_payload, read_payload
from warmup_insights.storage.text import to_json

_LENGTH = struct.Struct(">I")
_MSGPACK, _JSON = b"m", b"j"


class _Payloads(msgspec.Struct, tag=True):
    """Events with text or numbers that MessagePack cannot hold, each as JSON text."""

    digest: str
    batch: list[tuple[int, list[str]]]


_encoder = msgspec.msgpack.Encoder()
_decoder: msgspec.msgpack.Decoder[Part] = msgspec.msgpack.Decoder(Events | LogEnd)
_json_decoder: msgspec.json.Decoder[_Payloads | LogEnd] = msgspec.json.Decoder(
    _Payloads | LogEnd
)


def encode_part(part: Part) -> bytes:
    """A part of a log as bytes."""
    try:
        return _MSGPACK + _encoder.encode(part)
    except (UnicodeEncodeError, OverflowError):
        # Half a surrogate pair, or a number of more than 64 bits, from a hostile log.
        plain = _payloads(part) if isinstance(part, Events) else part
        return _JSON + to_json(msgspec.to_builtins(plain)).encode()


def _payloads(part: Events) -> _Payloads:
    return _Payloads(
        part.digest,
        [(ordinal, [event_payload(e) for e in events]) for ordinal, events in part.batch],
    )  # fmt: skip


def decode_part(data: bytes) -> Part:
    """The part of a log in these bytes."""
    body = memoryview(data)[1:]
    if data.startswith(_MSGPACK):
        return _decoder.decode(body)
    part = _json_decoder.decode(body)
    if isinstance(part, LogEnd):
        return part
    batch = [
        (ordinal, [e for e in map(read_payload, payloads) if e is not None])
        for ordinal, payloads in part.batch
    ]
    return Events(part.digest, batch)


def write_parts(file: BinaryIO, parts: Iterable[Part]) -> Iterator[int]:
    """Write the parts of a log to a file; gives the bytes written for each."""
    for part in parts:
        data = encode_part(part)
        yield file.write(_LENGTH.pack(len(data)) + data)


def read_parts(file: BinaryIO) -> Iterator[Part]:
    """The parts of a log in such a file."""
    while length := file.read(_LENGTH.size):
        yield decode_part(file.read(*_LENGTH.unpack(length)))
