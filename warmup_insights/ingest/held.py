"""Keeps what was read until it is its turn: in memory up to a limit, then in a file."""

from __future__ import annotations

import tempfile
import threading
from dataclasses import dataclass
from typing import IO

from warmup_insights.errors import InputError

MEMORY_BYTES = 24 << 20
"""Held in memory; more goes to a temporary file that nobody else sees."""


@dataclass(frozen=True)
class Slip:
    """Gives back what was handed in: its bytes, or their place in the file."""

    size: int
    body: bytes | None = None
    offset: int = 0


class Held:
    """A cloakroom for byte strings, for several threads."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._limit = memory_bytes
        self._lock = threading.Lock()
        self._in_memory = 0
        self._in_file = 0
        self._end = 0
        self._file: IO[bytes] | None = None

    @property
    def is_full(self) -> bool:
        """Whether memory alone does not suffice any more."""
        return self._in_memory + self._in_file > self._limit

    def add(self, body: bytes) -> Slip:
        """Hand bytes in. Raises InputError when the disk is full."""
        with self._lock:
            if self._in_memory + len(body) <= self._limit:
                self._in_memory += len(body)
                return Slip(len(body), body)
            slip = Slip(len(body), offset=self._end)
            self._write(body)
            self._in_file += len(body)
            self._end += len(body)
            return slip

    def _write(self, body: bytes) -> None:
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="warmup-insights-")  # noqa: SIM115 - lives on
            self._file.seek(self._end)
            self._file.write(body)
            self._file.flush()
        except OSError as error:
            raise InputError(
                f"The folder for temporary files, {tempfile.gettempdir()}, takes no more "
                f"({error.strerror}); set TMPDIR to another one, or read with --jobs 1"
            ) from None

    def get(self, slip: Slip) -> bytes:
        """The bytes; they stay until they are dropped."""
        if slip.body is not None:
            return slip.body
        with self._lock:
            assert self._file is not None
            self._file.seek(slip.offset)
            return self._file.read(slip.size)

    def drop(self, slip: Slip) -> None:
        """Forget the bytes; the file is emptied when nothing in it is wanted."""
        with self._lock:
            if slip.body is not None:
                self._in_memory -= slip.size
                return
            self._in_file -= slip.size
            if self._in_file == 0 and self._file is not None:
                self._file.truncate(0)
                self._end = 0

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None
