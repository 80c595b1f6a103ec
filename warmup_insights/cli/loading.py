"""Runs as commands that only read need them: from the database, or straight from a log."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import click

from warmup_insights.analysis.sentences import count_text
from warmup_insights.analysis.summary import Folded
from warmup_insights.cli.printing import print_notes
from warmup_insights.drainer import open_store
from warmup_insights.errors import InputError, SeveralRunsError, StoreError
from warmup_insights.export.tables import plain
from warmup_insights.ingest.find import SUFFIXES
from warmup_insights.model.run import RunRecord
from warmup_insights.runs import current
from warmup_insights.storage import EventStore


def load_runs(db: str, names: Sequence[str]) -> list[Folded]:
    """Summaries and bucket rows of the runs that a user named, in that order.

    Raises:
        StoreError: there is no such run, or more than one, or no database.
        InputError: a file of that name cannot be read, or no start-up is in it.
    """
    loaded = []
    for name in names:
        with open_run(db, name) as (store, record):
            loaded.append(current(store, record))
    return loaded


@contextmanager
def open_run(db: str, name: str) -> Iterator[tuple[EventStore, RunRecord]]:
    """The run that a user named, and the store that holds it.

    A path, or `-` for standard input, is read into memory; nothing of it is kept.
    """
    log, number = _log_named(name)
    if log is None:
        with ExitStack() as stack:
            try:
                store = stack.enter_context(open_store(db))
                record = store.find_run(name)
            except StoreError as error:
                is_known = isinstance(error, SeveralRunsError)
                if is_known or not name.endswith(SUFFIXES):
                    raise
                raise InputError(
                    f"There is neither a file nor a run {name}; check the path"
                ) from None
            yield store, record
        return
    with EventStore("sqlite://") as store:
        yield store, _read_log(store, log, number)


def is_log(name: str) -> bool:
    """Whether a user named a log in place of a run."""
    return _log_named(name)[0] is not None


def _log_named(name: str) -> tuple[str | None, int | None]:
    """The path of a log and the number of a start in it, from 1; None for other names.

    A name with a slash is a path, so that a missing file is reported as that.
    """
    if name == "-" or os.path.exists(name):
        return name, None
    path, _, number = name.rpartition("#")
    if number.isdecimal() and (path == "-" or os.path.isfile(path)):
        return path, int(number)
    return (name, None) if "/" in name else (None, None)


def _read_log(store: EventStore, path: str, number: int | None) -> RunRecord:
    # Loads the parsers, which a run of the database does not need.
    from warmup_insights.ingest.bundles import is_bundle
    from warmup_insights.ingest.single import ingest_path

    if os.path.isdir(path):
        raise InputError(
            f"{path} is a folder; name one log, or use ingest for all of it"
        )
    if is_bundle(path):
        raise InputError(f"{path} is an archive; use ingest, then name one of its runs")
    outcome = ingest_path(store, path)
    shown = "standard input" if path == "-" else path
    count = len(outcome.run_ids)
    if not count:
        problems = outcome.report.get("problems")
        raise InputError(
            "; ".join(problems[:1])
            if problems
            else f"No start-up was found in {shown}; name a log of vLLM, or use ingest to "
            "see what is not understood"
        )
    number = count if number is None else number
    if not 1 <= number <= count:
        raise InputError(
            f"{shown} holds {count_text(count, 'start-up')}; name one of #1 to #{count}"
        )
    print_notes(outcome.report.get("problems", []), err=True)
    if count > 1:
        note = (
            f"{shown} holds {count} start-ups; this is #{number}, {path}#1 is the first"
        )
        click.echo(plain(note), err=True)
    if outcome.unknown_note:
        note = f"{shown}: {outcome.unknown_note}; `ingest` lists the first"
        click.echo(plain(note), err=True)
    return store.run(outcome.run_ids[number - 1])
