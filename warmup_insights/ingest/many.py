"""Reads files into the store, with one process or several.

The database is the only state: whatever ends this in the middle, the same call goes on
from there.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from warmup_insights.errors import InputError
from warmup_insights.ingest.cores import STREAM_BYTES
from warmup_insights.ingest.outcome import (
    Options,
    Outcome,
    Progress,
    ReadBytes,
    Watcher,
    file_size,
)
from warmup_insights.ingest.single import ingest_path, is_plain
from warmup_insights.storage import EventStore


def ingest_files(
    store: EventStore,
    files: Sequence[str],
    options: Options | None = None,
    *,
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Read files into the store; what came of each, in their order.

    The result does not depend on `jobs`, the number of processes that read; 1 means
    that this one reads. A file that cannot be read does not stop the others. Raises
    StoreError when the database fails.
    """
    options, watcher = options or Options(), watcher or Watcher()
    if jobs < 2 or len(files) < 2 or not sys.executable:
        return [_ingest_one(store, path, options, watcher, jobs) for path in files]
    from warmup_insights.ingest.parallel import ParallelIngest

    return ParallelIngest(store, files, options, watcher).run(min(jobs, len(files)))


def _ingest_one(
    store: EventStore, path: str, options: Options, watcher: Watcher, jobs: int
) -> Outcome:
    progress = ReadBytes([path], watcher)
    try:
        outcome = _with_help(store, path, options, progress.add) if jobs > 1 else None
        if outcome is None:
            outcome = ingest_path(store, path, options, progress.add)
    except InputError as error:
        outcome = Outcome(path, state="failed", error=str(error))
    progress.finish()
    watcher.done(outcome)
    return outcome


def _with_help(
    store: EventStore, path: str, options: Options, progress: Progress
) -> Outcome | None:
    """Read a large file with another process; None when it must be read here."""
    if file_size(path) < STREAM_BYTES or not is_plain(path) or not sys.executable:
        return None
    from warmup_insights.ingest.streamed import ingest_streamed

    return ingest_streamed(store, path, options, progress)
