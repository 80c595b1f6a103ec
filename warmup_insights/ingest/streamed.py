"""Reads one large log: another process reads and this one stores at the same time."""

from __future__ import annotations

from collections.abc import Iterator

from parsers.files import Batch
from warmup_insights.errors import InputError
from warmup_insights.ingest.child import Child, ChildDiedError
from warmup_insights.ingest.messages import (
    MESSAGE,
    PARSED,
    Advanced,
    Begun,
    Known,
    Read,
    Refused,
    Started,
    read_answer,
    read_parsed,
    unpack_batch,
)
from warmup_insights.ingest.opening import source_name
from warmup_insights.ingest.outcome import Options, Outcome, Progress
from warmup_insights.ingest.parsed import ToldLog
from warmup_insights.ingest.single import unchanged
from warmup_insights.ingest.write import AlreadyStoredError, LogWriter
from warmup_insights.storage import EventStore


def ingest_streamed(
    store: EventStore, path: str, options: Options, progress: Progress
) -> Outcome | None:
    """Read a file with the help of another process; one transaction or nothing.

    None when the file must be read here: a source that begins like it is stored, or the
    other process died.
    """
    child = Child(options)
    try:
        child.send(Read(path))
        head = _head_of(child)
        if store.beginnings(head):
            return None
        child.send(Known(digests=[], sizes=[]))
        log = StreamedLog(child, head, progress)
        writer = LogWriter(store, log, source_name(path), options)
        run_ids = writer.write()
        return Outcome(path, run_ids, "new", writer.report)
    except AlreadyStoredError as stored:
        return unchanged(store, stored.source, path, options)
    except ChildDiedError:
        return None
    finally:
        child.kill()
        child.close()


def _head_of(child: Child) -> str:
    answer = read_answer(child.receive()[1])
    if isinstance(answer, Begun):
        return answer.head
    raise InputError(answer.error if isinstance(answer, Refused) else "not a log")


class StreamedLog(ToldLog):
    """What the other process says, in the shape that the writer wants, as it comes."""

    def __init__(self, child: Child, head_digest: str, progress: Progress) -> None:
        self.head_digest = head_digest
        self._child = child
        self._progress = progress
        self._starts: dict[int, tuple[int, str]] = {}

    def batches(self) -> Iterator[Batch]:
        """Ordinals of runs with their events, in the order of the log; once.

        Raises InputError when the file cannot be read, ChildDiedError.
        """
        while True:
            kind, body = self._child.receive()
            if kind == PARSED:
                self._parsed = read_parsed(body)
                return
            if kind == MESSAGE:
                self._hear(body)
            else:
                yield unpack_batch(kind, body)

    def _hear(self, body: bytes) -> None:
        answer = read_answer(body)
        if isinstance(answer, Advanced):
            self._progress(answer.count)
        elif isinstance(answer, Started):
            self._starts[answer.ordinal] = (answer.first_line, answer.key)
        elif isinstance(answer, Refused):
            raise InputError(answer.error)

    def start_of(self, ordinal: int) -> tuple[int, str]:
        """First line and key of a run."""
        return self._starts[ordinal]
