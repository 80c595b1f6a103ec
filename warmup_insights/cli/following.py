"""`ingest --follow`: a log is read again whenever it has grown; its state, when it changed."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

import click

from warmup_insights.analysis.remaining import remaining
from warmup_insights.analysis.sentences import start_sentences
from warmup_insights.analysis.words import progress_text, time_left_text
from warmup_insights.errors import InputError
from warmup_insights.export.tables import plain
from warmup_insights.ingest.outcome import Options, Outcome, file_size
from warmup_insights.ingest.single import ingest_path
from warmup_insights.model.summary import RunSummary
from warmup_insights.runs import current, earlier_run, refresh
from warmup_insights.units import format_duration

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore

QUIET_AFTER_S = 3600.0
"""Following stops by itself when a file has not grown for so long."""
PAUSE_S = 1.0
SHARE = 10.0
"""Pause after a reading: at least so many times what it took."""


def follow(
    store: EventStore,
    files: list[str],
    options: Options,
    *,
    until_ready: bool = False,
    timeout_s: float | None = None,
) -> Outcome:
    """Read a file again whenever it has grown; unfinished runs show as running.

    With `until_ready` it exits the command: with 0 when the newest start-up in the file
    is ready, with 1 when it failed or when `timeout_s` is over.
    """
    if len(files) != 1 or files[0] == "-":
        raise InputError("--follow takes one file; start one command for each")
    following = _Following(store, files[0], options)
    click.echo(f"Following {plain(files[0])}; press Ctrl-C to stop", err=True)
    try:
        is_ready = following.until(until_ready, timeout_s)
    except KeyboardInterrupt:
        click.echo("", err=True)
        is_ready = None
    finally:
        # A run that is not finished is unknown again.
        for run_id in following.outcome.run_ids:
            refresh(store, run_id)
    if until_ready:
        sys.exit(0 if is_ready else 1)
    return following.outcome


class _Following:
    def __init__(self, store: EventStore, path: str, options: Options) -> None:
        self._store = store
        self._path = path
        self._options = options
        self._size = -1
        self._state: object = None
        self.outcome = Outcome(path, state="nothing")

    def until(self, until_ready: bool, timeout_s: float | None) -> bool | None:
        """Whether the server became ready; None when that was not waited for."""
        limit = QUIET_AFTER_S if timeout_s is None else timeout_s
        waited_since = time.monotonic()
        has_grown, summary = self._read(may_be_missing=until_ready), None
        while True:
            summary = self._shown() if has_grown else summary
            if until_ready and summary is not None:
                if summary.progress.stage == "ready":
                    return True
                # The cause comes after the first line of a failure.
                if summary.failure is not None and not has_grown:
                    return False
            began = time.monotonic()
            if began - waited_since >= limit:
                break
            has_grown = self._read(may_be_missing=until_ready)
            if has_grown and timeout_s is None:
                waited_since = time.monotonic()
            # Reading takes longer as the file grows: never more than a tenth of the time.
            pause = max(PAUSE_S, SHARE * (time.monotonic() - began))
            time.sleep(min(pause, max(0.0, waited_since + limit - time.monotonic())))
        return self._timed_out(limit, timeout_s is not None) if until_ready else None

    def _read(self, *, may_be_missing: bool) -> bool:
        """Read the file if it has another size; whether it has.

        A file that is waited for may not be there yet.
        """
        size = file_size(self._path)
        if size == self._size or (may_be_missing and self._size < 0 and not size):
            return False
        self.outcome = ingest_path(self._store, self._path, self._options)
        self._size = size
        return True

    def _shown(self) -> RunSummary | None:
        """The newest start-up of the file; its state is printed if it is another one."""
        for run_id in self.outcome.run_ids[-1:]:
            run = self._store.run(run_id)
            now = current(self._store, run)
            here = now.summary.progress
            state = (
                run_id, now.summary.status, progress_text(here), now.summary.failure
            )  # fmt: skip
            if state != self._state:
                self._state = state
                text = start_sentences(now.summary)[0].rstrip(".")
                if now.summary.status == "running":
                    earlier = earlier_run(self._store, run)
                    left = remaining(
                        now, None if earlier is None else current(self._store, earlier)
                    )
                    text += f"; {time_left_text(left)}" if left is not None else ""
                click.echo(f"{plain(run.name)}: {plain(text)}", err=True)
            return now.summary
        return None

    def _timed_out(self, limit: float, is_total: bool) -> bool:
        grown = "" if is_total else "the file has not grown for "
        click.echo(
            f"{plain(self._path)}: neither ready nor failed; {grown}"
            f"{format_duration(limit)}{' are over' if is_total else ''}",
            err=True,
        )
        return False
