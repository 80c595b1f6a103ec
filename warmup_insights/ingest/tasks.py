"""What the machines of a Ray cluster do: read files into a PostgreSQL database.

Each machine has this package; only names and settings travel.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import msgspec

from parsers.files import head_digest
from parsers.source import open_path
from warmup_insights.errors import InputError, StoreError
from warmup_insights.ingest.log import source_name
from warmup_insights.ingest.outcome import Options, Outcome
from warmup_insights.ingest.remote import RemoteFile, UnsteadyError, open_remote
from warmup_insights.ingest.single import ingest_file, ingest_path, is_plain
from warmup_insights.storage import EventStore
from warmup_insights.storage.text import to_json


class Answer(msgspec.Struct):
    """What came of one file, or why it should be tried again."""

    outcome: Outcome | None = None
    problem: str = ""


def heads(files: bytes) -> list[str | None]:
    """How files begin; None where that is unknown."""
    return [_head(file) for file in msgspec.json.decode(files, type=list[RemoteFile])]


def _head(file: RemoteFile) -> str | None:
    try:
        if file.address is not None:
            with open_remote(file) as (opened, _):
                return head_digest(opened, file.shown)
        if not is_plain(file.name):
            return None
        with open_path(Path(file.name)) as log:
            return head_digest(log, file.name)
    except InputError:
        return None


def read(file: bytes, database: str, options: bytes) -> bytes:
    """Read one file into the database; an `Answer`. One transaction or nothing."""
    answer = _read(
        msgspec.json.decode(file, type=RemoteFile),
        database,
        msgspec.json.decode(options, type=Options),
    )
    return to_json(msgspec.to_builtins(answer)).encode()


def _read(file: RemoteFile, database: str, options: Options) -> Answer:
    try:
        return Answer(_ingest(_store(database), file, options))
    except (StoreError, UnsteadyError) as error:
        return Answer(problem=str(error))
    except InputError as error:
        return Answer(Outcome(file.shown, state="failed", error=str(error)))


def _ingest(store: EventStore, file: RemoteFile, options: Options) -> Outcome:
    if file.address is None:
        return ingest_path(store, file.name, options)
    with open_remote(file) as (opened, modified):
        outcome = ingest_file(
            store, opened, source_name(file.name), options, not_after=modified
        )
    outcome.path = file.shown
    return outcome


@lru_cache(maxsize=1)
def _store(database: str) -> EventStore:
    """One store for all files that this process reads."""
    return EventStore(database)
