"""What runs in the processes that read logs; another one stores what they found.

The parts of a log go from one to the other as bytes in a file. Nothing here imports the
database.
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import BinaryIO

import msgspec

from parsers.source import modified_at, open_path
from warmup_insights.errors import WarmupInsightsError
from warmup_insights.ingest.log import Events, LogEnd, Part, rare_collections, read_log
from warmup_insights.ingest.outcome import Options, no_room
from warmup_insights.storage.rows import to_json

PROGRESS = struct.Struct(">qq")
"""Bytes read and bytes written; short enough to be sent at once by many processes."""
_storing: Connection | None = None


@contextmanager
def starting(folder: str) -> Iterator[str]:
    """While processes are started; gives the current folder, where they shall go.

    They begin in another, empty one: there may be a `socket.py` among the logs,
    and a new process imports from where it is before it has our `sys.path`. Ctrl-C does
    not reach them: the storing process ends them. Raises WarmupInsightsError when none
    can be started.
    """
    try:
        here = os.getcwd()
        os.chdir(folder)
        try:
            resource_tracker.ensure_running()  # it unblocks Ctrl-C when it starts
            with _without_interrupts():
                yield here
        finally:
            os.chdir(here)
    except (OSError, ImportError, NotImplementedError) as error:
        reason = getattr(error, "strerror", None) or error
        raise WarmupInsightsError(
            f"No further process can be started ({reason}); read with --jobs 1"
        ) from None


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C, for processes that start meanwhile as well; Windows cannot."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def begin(storing: Connection, current: str, folder: str) -> None:
    """In a new process of a pool: go where the storing one is, and end with it."""
    global _storing
    _storing = storing
    os.chdir(current)
    threading.Thread(target=_end_with, args=(storing, folder), daemon=True).start()


def _end_with(storing: Connection, folder: str) -> None:
    """End when the other end of a pipe is closed, by its owner or because that ended."""
    with suppress(EOFError, OSError):
        storing.recv_bytes()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _report(read: int, written: int) -> None:
    if _storing is not None:
        _storing.send_bytes(PROGRESS.pack(read, written))


def read_to_file(path: str, options: Options, target: str) -> None:
    """Read a log; its parts go to a new file. Raises InputError."""
    try:
        # The file comes first: while it exists the log counts as begun.
        with (
            open(target, "wb") as out,
            open_path(Path(path)) as log,
            rare_collections(),
        ):
            parts = read_log(
                log, Path(path).name, options, not_after=modified_at(Path(path)),
                progress=lambda count: _report(count, 0),
            )  # fmt: skip
            for written in write_parts(out, parts):
                _report(0, written)
    except OSError as error:
        raise no_room(error) from None


_decoder: msgspec.json.Decoder[Part] = msgspec.json.Decoder(Events | LogEnd)


def write_parts(file: BinaryIO, parts: Iterable[Part]) -> Iterator[int]:
    """Write the parts of a log to a file, one a line; gives the bytes written for each.

    Half a surrogate pair, from a hostile log, is replaced.
    """
    for part in parts:
        yield file.write(f"{to_json(part)}\n".encode())


def read_part(file: BinaryIO) -> Part | None:
    """The next part of a log in such a file; None while it is not there as a whole."""
    start = file.tell()
    line = file.readline()
    if line.endswith(b"\n"):
        return _decoder.decode(line)
    file.seek(start)
    return None
