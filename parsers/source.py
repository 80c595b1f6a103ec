"""From a path to text: decompression, encodings, and files that are no logs.

Everything is streamed in blocks of whole lines; memory does not grow with the file.
"""

from __future__ import annotations

import codecs
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import zstandard

from parsers.report import ParseReport
from warmup_insights.errors import InputError, cannot_read, no_file

CHUNK = 1 << 17
"""Larger blocks go back to the system each time, which costs more than reading."""
MAX_LINE = 4 << 20
"""A longer line is cut there; no engine prints one."""
MAX_UNPACKED = 16 << 30
"""A compressed log is read up to this size."""
MAX_RATIO = 400
"""A log that unpacks to more than this many times its size is taken for an attack."""
RATIO_FROM = 64 << 20
"""The ratio counts from this size on: small logs of equal lines pack very well."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_DAMAGES = (EOFError, zlib.error, gzip.BadGzipFile, zstandard.ZstdError)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def open_path(path: Path) -> BinaryIO:
    """The file at a path. Raises InputError for what is no readable regular file."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise no_file(path) from None
    except OSError as error:
        raise cannot_read(path, error) from None
    if stat.S_ISDIR(mode):
        raise InputError(f"{path} is a folder; give the log files in it")
    if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
        raise InputError(f"{path} is neither a file nor a pipe; name a log")
    try:
        return path.open("rb")
    except PermissionError:
        raise InputError(
            f"No permission to read {path}; change its mode or run as its owner"
        ) from None
    except OSError as error:
        raise cannot_read(path, error) from None


class TextBlocks:
    """Blocks of decoded bytes of one source, whole lines each but the last.

    Args:
        file: the raw file, compressed or not.
        name: for messages.
        report: takes what is wrong with the file.
    """

    def __init__(self, file: BinaryIO, name: str, report: ParseReport) -> None:
        self._name = name
        self._report = report
        self._is_broken = False
        self._unpacked = 0
        try:
            head = file.read(CHUNK)
        except OSError as error:
            head = self._broken(f"could not be read to its end ({error})")
        self._counter = _Counting(head, file)
        self._packed = _unpacked(head, self._counter)

    def __iter__(self) -> Iterator[bytes]:
        """Blocks of whole lines, UTF-8."""
        rest = b""
        for chunk in self._chunks():
            block = rest + chunk if rest else chunk
            cut = block.rfind(b"\n") + 1
            if cut == 0 and len(block) < MAX_LINE:
                rest = block
                continue
            if cut == 0:
                self._report.add_problem(
                    f"{self._name} holds a line of more than {MAX_LINE >> 20} MiB; "
                    "only its beginning is read"
                )
                cut = len(block)
            yield block[:cut]
            rest = block[cut:]
        if rest:
            yield rest

    def _chunks(self) -> Iterator[bytes]:
        decoder = None
        while chunk := self._read_block():
            if self._unpacked == 0 and chunk.startswith(_UTF16):
                decoder = codecs.getincrementaldecoder("utf-16")("replace")
            is_marked = self._unpacked == 0 and chunk.startswith(codecs.BOM_UTF8)
            self._unpacked += len(chunk)
            if is_marked:
                chunk = chunk[3:]
            if decoder is not None:
                chunk = decoder.decode(chunk).encode("utf-8")
            if b"\0" in chunk:
                # A log that was cut while its writer had it open begins with a hole.
                chunk = chunk.replace(b"\0", b"")
            if chunk:
                yield chunk
            if self._packed is not None and self._is_bomb():
                return

    def _read_block(self) -> bytes:
        """About a chunk of bytes; what came before damage is kept."""
        source = self._packed or self._counter
        pieces: list[bytes] = []
        size = 0
        while size < CHUNK and not self._is_broken:
            try:
                piece = source.read1(CHUNK)
            except _DAMAGES as error:
                piece = self._broken(
                    f"is damaged ({error}); what could be unpacked was read"
                )
            except OSError as error:
                piece = self._broken(f"could not be read to its end ({error})")
            if not piece:
                break
            pieces.append(piece)
            size += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _broken(self, problem: str) -> bytes:
        self._is_broken = True
        self._report.add_problem(f"{self._name} {problem}")
        return b""

    def _is_bomb(self) -> bool:
        packed = max(1, self._counter.count)
        if self._unpacked > MAX_UNPACKED or (
            self._unpacked > RATIO_FROM and self._unpacked > MAX_RATIO * packed
        ):
            self._report.add_problem(
                f"{self._name} unpacks to more than {self._unpacked >> 20} MiB from "
                f"{packed >> 10} KiB; the rest was not read. "
                "If it is a real log, unpack it first"
            )
            return True
        return False


class _Counting(io.RawIOBase):
    """A file whose beginning was read already, and how many of its bytes were taken."""

    def __init__(self, head: bytes, file: BinaryIO) -> None:
        self._head = head
        self._file = file
        self.count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        data = self.read1(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def read1(self, size: int) -> bytes:
        """Some bytes, at most `size`; none at the end."""
        if self._head:
            data, self._head = self._head[:size], self._head[size:]
        else:
            data = self._file.read(size)
        self.count += len(data)
        return data


def _unpacked(head: bytes, file: _Counting) -> io.BufferedIOBase | None:
    """The file unpacked, if its first bytes are those of a packed one."""
    if head.startswith(_GZIP):
        return gzip.GzipFile(fileobj=io.BufferedReader(file, CHUNK))
    if head.startswith(_ZSTD):
        reader = zstandard.ZstdDecompressor().stream_reader(
            io.BufferedReader(file, CHUNK), read_across_frames=True
        )
        return io.BufferedReader(reader, CHUNK)
    return None


def no_text(block: bytes) -> str:
    """What a source that begins with this block is instead of text; empty for text."""
    if block.startswith(b"SQLite format 3"):
        # Its pages hold texts of logs.
        return "is a SQLite database; one with runs is named with --db"
    head = block[:8192]
    odd = sum(head.count(bytes([value])) for value in (*range(8), *range(14, 27)))
    if odd > len(head) // 20:
        return "is not a text file; give the log that the engine printed"
    return ""


_CONTENTS = (
    (rb"(?i)\A\s{0,99}<(?:!doctype html|html)", "a web page"),
    (rb"Avg prompt throughput:|Avg generation throughput:",
     "the log of an engine that serves, without its start-up"),
    (rb'"(?:GET|POST|HEAD) /[^ "]{0,200} HTTP/[12]', "an access log of a web server"),
    (rb"(?i)\bsglang\b", "a log of SGLang"),
    (rb"(?i)\bTensorRT-LLM\b|\[TRT-LLM\]", "a log of TensorRT-LLM"),
    (rb"llama_model_loader|llama_context:", "a log of llama.cpp"),
    (rb"text_generation_launcher", "a log of Text Generation Inference"),
    (rb"Traceback \(most recent call last\)", "a Python traceback"),
    (rb"\A(?:diff --git |--- a/)", "a patch"),
    (rb"(?m)^(?:apiVersion|kind): ", "a Kubernetes manifest"),
    (rb"(?m)^.{0,80}?(?:INFO|WARNING|ERROR|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \[?[\w./]{1,200}:\d",
     "lines of vLLM without a fact of a start"),
    (rb'\A\{\s{0,9}"format": "warmup-insights-run"',
     "a run that `export` wrote, for `check --baseline`"),
    (rb"\A\s{0,99}(?:\{|\[\s{0,99}[\[{\"])", "JSON of another kind"),
    (rb"(?m)^.{0,80}\d\d:\d\d:\d\d", "a log of another program"),
)  # fmt: skip
_CONTENT_RULES = tuple((re.compile(rule), words) for rule, words in _CONTENTS)


def content_of(block: bytes) -> str:
    """What the first block of a text without a start-up looks like, in a few words."""
    head = block[:65536]
    return next(
        (words for rule, words in _CONTENT_RULES if rule.search(head)),
        "text without timestamps",
    )


def modified_at(path: Path) -> float | None:
    """When a file was last written; None when that is not known."""
    try:
        return os.stat(path).st_mtime
    except OSError:
        return None
