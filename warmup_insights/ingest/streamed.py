"""Reads one large log: another process reads and this one stores at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from parsers.files import head_digest
from parsers.source import open_path
from warmup_insights.errors import InputError
from warmup_insights.ingest import worker
from warmup_insights.ingest.log import LogEnd, Part, decode_part, source_name
from warmup_insights.ingest.outcome import Options, Outcome, Progress
from warmup_insights.ingest.single import store_log
from warmup_insights.storage import EventStore


def ingest_streamed(
    store: EventStore, path: str, options: Options, progress: Progress
) -> Outcome | None:
    """Read a file with the help of another process; one transaction or nothing.

    None when the file must be read here: a source that begins like it is stored, or the
    other process died.
    """
    with open_path(Path(path)) as file:
        if store.beginnings(head_digest(file, source_name(path))):
            return None
    with worker.temporary_folder() as folder:
        process, inbound = _start(path, options, folder)
        try:
            return store_log(store, _receive(inbound, progress), path, options, None)
        except EOFError:
            return None
        finally:
            inbound.close()
            process.kill()
            process.join()


def _start(path: str, options: Options, folder: str) -> tuple[BaseProcess, Connection]:
    """A process that reads a file, and where its parts come out."""
    context = get_context("spawn")
    inbound, outbound = context.Pipe(duplex=False)
    with worker.starting(folder) as current:
        process = context.Process(
            target=worker.send_log, args=(path, options, current, outbound), daemon=True
        )
        process.start()
    outbound.close()
    return process, inbound


def _receive(inbound: Connection, progress: Progress) -> Iterator[Part]:
    """The parts of a log as they come.

    Raises InputError when it cannot be read, EOFError when the other process died.
    """
    while True:
        try:
            message = inbound.recv()
        except OSError:  # it died in the middle of a message
            raise EOFError from None
        if isinstance(message, InputError):
            raise message
        if isinstance(message, int):
            progress(message)
            continue
        part = decode_part(message)
        yield part
        if isinstance(part, LogEnd):
            return
