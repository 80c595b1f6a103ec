"""`ingest --follow`: a log is read on as it grows, a file or a pipe; its state is printed.

Each second its new lines go to a `LiveStart`, which decides whether the start-up is ready or
has failed and makes the states of `--json-lines`. What the database holds is read again
whenever that takes no more than a tenth of the time; sentences are of that.
"""

from __future__ import annotations

import os
import select
import sys
import tempfile
import time
from typing import IO, TYPE_CHECKING

import click
import msgspec

from warmup_insights.analysis.remaining import remaining
from warmup_insights.analysis.sentences import (
    progress_text,
    start_sentences,
    time_left_text,
)
from warmup_insights.errors import InputError, cannot_read
from warmup_insights.export.tables import plain
from warmup_insights.ingest.live import LiveStart, LiveState
from warmup_insights.ingest.outcome import Options, Outcome, file_size
from warmup_insights.ingest.single import ingest_file, ingest_path
from warmup_insights.runs import current, earlier_run, refresh
from warmup_insights.units import format_duration

if TYPE_CHECKING:
    from warmup_insights.storage import EventStore

QUIET_AFTER_S = 3600.0
"""Following stops by itself when a log has not grown for so long."""
PAUSE_S = 1.0
SHARE = 10.0
"""Seconds between two readings of the whole: at least so many times what one took."""
SILENCE_EVERY_S = 10.0
"""After so long without a line the last state is printed again."""
BLOCK = 1 << 16
MAX_READ = 1 << 26
NO_LINES = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"\xff\xfe", b"\xfe\xff")
"""How gzip, Zstandard and UTF-16 begin."""


def follow(
    store: EventStore,
    files: list[str],
    options: Options,
    *,
    until_ready: bool,
    timeout_s: float | None,
    json_lines: bool,
) -> Outcome:
    """Read a log on as it grows; unfinished runs show as running.

    With `until_ready` it exits the command: with 0 when the newest start-up in the log
    is ready, with 1 when it failed, when the pipe ends or when `timeout_s` is over.
    """
    if len(files) != 1:
        raise InputError("--follow takes one file; start one command for each")
    path = files[0]
    log: _Log = _Pipe(store, options) if path == "-" else _File(store, path, options)
    following = _Following(store, log, json_lines=json_lines)
    is_there = path == "-" or _is_there(path)
    does = "Following" if is_there else "There is no file yet, waiting for"
    click.echo(f"{does} {plain(log.name)}; press Ctrl-C to stop", err=True)
    try:
        is_ready = following.until(until_ready, timeout_s)
    except KeyboardInterrupt:
        click.echo("", err=True)
        is_ready = None
    finally:
        following.store()
        # A run that is not finished is unknown again.
        for run_id in following.outcome.run_ids:
            refresh(store, run_id)
    if until_ready:
        sys.exit(0 if is_ready else 1)
    return following.outcome


def _is_there(path: str) -> bool:
    """Whether a file is there. Raises InputError where it cannot be looked at."""
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise cannot_read(path, error) from None
    return True


class _File:
    """A file, which may not be there yet; it has no end."""

    def __init__(self, store: EventStore, path: str, options: Options) -> None:
        self.name = path
        self.has_ended = False
        self._store = store
        self._options = options
        self._read_bytes = 0

    def wait(self, seconds: float) -> bytes:
        """What was written; a file that was cut is read from its beginning."""
        if seconds and file_size(self.name) == self._read_bytes:
            time.sleep(seconds)
        size = file_size(self.name)
        if size < self._read_bytes:
            self._read_bytes = 0
        if size == self._read_bytes:
            return b""
        with open(self.name, "rb") as file:
            file.seek(self._read_bytes)
            data = file.read(MAX_READ)
        if self._read_bytes == 0 and data.startswith(NO_LINES):
            raise InputError(
                f"{self.name} is compressed or UTF-16 and cannot be followed; read it "
                "without --follow"
            )
        self._read_bytes += len(data)
        return data

    def ingest(self) -> Outcome:
        """Store what is in the file."""
        return ingest_path(self._store, self.name, self._options)


class _Pipe:
    """Standard input, copied so that it can be stored before it ends."""

    def __init__(self, store: EventStore, options: Options) -> None:
        self.name = "stdin"
        self.has_ended = False
        self._store = store
        self._options = options
        self._copy: IO[bytes] = tempfile.SpooledTemporaryFile(  # noqa: SIM115 - goes with the command
            max_size=8 << 20
        )

    def wait(self, seconds: float) -> bytes:
        """What is there, as soon as something is."""
        if self.has_ended or not select.select([sys.stdin], [], [], seconds)[0]:
            return b""
        data = os.read(sys.stdin.fileno(), BLOCK)
        self.has_ended = not data
        self._copy.write(data)
        return data

    def ingest(self) -> Outcome:
        """Store what came so far."""
        self._copy.seek(0)
        try:
            return ingest_file(self._store, self._copy, self.name, self._options)  # type: ignore[arg-type]
        finally:
            self._copy.seek(0, os.SEEK_END)


_Log = _File | _Pipe
"""What grows."""


class _Following:
    def __init__(self, store: EventStore, log: _Log, *, json_lines: bool) -> None:
        self._store = store
        self._log = log
        self._json_lines = json_lines
        self._live = LiveStart()
        self._is_stored = True
        self._store_at = 0.0
        self._shown: object = None
        self._run = -1
        self._was_ready = self._has_failed = False
        """Of the newest start-up."""
        self.outcome = Outcome(log.name, state="nothing")

    def until(self, until_ready: bool, timeout_s: float | None) -> bool | None:
        """Whether the server became ready; None when that was not waited for."""
        limit = QUIET_AFTER_S if timeout_s is None else timeout_s
        waited_since = grown_at = last_at = time.monotonic()
        data = self._log.wait(0.0)
        while True:
            now = time.monotonic()
            if data:
                self._take(self._live.feed_bytes(data))
                grown_at = last_at = now
                waited_since = now if timeout_s is None else waited_since
            elif now - last_at >= SILENCE_EVERY_S:
                last_at = now
                state = self._live.after_silence(now - grown_at)
                self._note([] if state is None else [state])
            if self._log.has_ended:
                self._take(self._live.close())
            if now >= self._store_at:
                self.store()
            # The cause comes after the first line of a failure.
            is_over = self._was_ready or (self._has_failed and not data)
            if (until_ready and is_over) or self._log.has_ended:
                break
            if now - waited_since >= limit:
                break
            data = self._log.wait(PAUSE_S)
        if until_ready and not is_over:
            self._give_up(limit, is_total=timeout_s is not None)
        return self._was_ready if until_ready else None

    def _give_up(self, limit: float, *, is_total: bool) -> None:
        why = f"the file has not grown for {format_duration(limit)}"
        if self._log.has_ended:
            why = "its input has ended"
        elif is_total:
            why = f"{format_duration(limit)} are over"
        name = plain(self._log.name)
        if isinstance(self._log, _File) and not os.path.exists(self._log.name):
            why += "; there is no such file yet, check the path"
        click.echo(f"{name}: neither ready nor failed; {why}", err=True)

    def _take(self, states: list[LiveState]) -> None:
        self._is_stored = False
        self._note(states)

    def _note(self, states: list[LiveState]) -> None:
        """The newest state counts; all of them are printed with `--json-lines`."""
        for state in states:
            if self._json_lines:
                click.echo(msgspec.json.encode(state).decode())
                sys.stdout.flush()
            if state.run < self._run:
                continue  # the end of a start-up that another one followed
            if state.run > self._run:
                self._run, self._was_ready = state.run, False
            self._was_ready = self._was_ready or state.status == "ready"
            self._has_failed = state.status == "failed"

    def store(self) -> None:
        """Read the whole log into the database, unless all of it is there."""
        if self._is_stored:
            return
        began = time.monotonic()
        self.outcome = self._log.ingest()
        self._is_stored = True
        self._show()
        took = time.monotonic() - began
        self._store_at = began + took + SHARE * took

    def _show(self) -> None:
        """The newest start-up of the log in a sentence, if it is another one."""
        for run_id in () if self._json_lines else self.outcome.run_ids[-1:]:
            run = self._store.run(run_id)
            now = current(self._store, run)
            here = now.summary.progress
            state = (
                run_id, now.summary.status, progress_text(here), now.summary.failure
            )  # fmt: skip
            if state == self._shown:
                continue
            self._shown = state
            text = start_sentences(now.summary)[0].rstrip(".")
            if now.summary.status == "running":
                earlier = earlier_run(self._store, run)
                left = remaining(
                    now, None if earlier is None else current(self._store, earlier)
                )
                text += f"; {time_left_text(left)}" if left is not None else ""
            click.echo(f"{plain(run.name)}: {plain(text)}", err=True)
