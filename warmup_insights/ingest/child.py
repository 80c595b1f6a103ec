"""The other process that reads logs, as the storing one sees it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
from typing import BinaryIO

import msgspec

from warmup_insights.errors import InputError
from warmup_insights.ingest.messages import Question, read_frame, send
from warmup_insights.ingest.outcome import Options

CLOSE_S = 5.0
PIPE_BYTES = 1 << 20
"""Room for a batch of events, so that it reads on while the one before is stored."""
_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from warmup_insights.ingest.worker import main; main()"
)


class ChildDiedError(Exception):
    """The process went away in the middle; the text says how."""


class Child:
    """One process that reads logs.

    It imports from where we import (never from the current folder unless we do), and has
    a session of its own: Ctrl-C in a terminal reaches only us, who then end it.
    """

    def __init__(self, options: Options) -> None:
        try:
            self._process = self._start(options)
        except OSError as error:
            raise InputError(
                f"No further process can be started ({error.strerror}); "
                "read with --jobs 1"
            ) from None

    @staticmethod
    def _start(options: Options) -> subprocess.Popen[bytes]:
        paths = [path or os.getcwd() for path in sys.path]
        flags = ["-I", "-B"] if sys.flags.dont_write_bytecode else ["-I"]
        process = subprocess.Popen(
            [
                sys.executable, *flags, "-c", _START, json.dumps(paths),
                msgspec.json.encode(options).decode(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        if process.stdout is not None and hasattr(fcntl, "F_SETPIPE_SZ"):
            with contextlib.suppress(OSError):  # others have used up what is allowed
                fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        return process

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def _to(self) -> BinaryIO:
        assert self._process.stdin is not None
        return self._process.stdin  # type: ignore[return-value]

    @property
    def _from(self) -> BinaryIO:
        assert self._process.stdout is not None
        return self._process.stdout  # type: ignore[return-value]

    def send(self, question: Question) -> None:
        """Ask it something. Raises ChildDiedError."""
        try:
            send(self._to, question)
        except (BrokenPipeError, ConnectionResetError):
            raise self._death() from None

    def receive(self) -> tuple[bytes, bytes]:
        """The next frame from it: kind and body. Raises ChildDiedError."""
        frame = read_frame(self._from)
        if frame is None:
            raise self._death()
        return frame

    def _death(self) -> ChildDiedError:
        self.kill()
        code = self._process.returncode
        if code < 0:
            with contextlib.suppress(ValueError):
                return ChildDiedError(f"was killed by {signal.Signals(-code).name}")
        return ChildDiedError(f"ended with exit code {code}")

    def close(self) -> None:
        """Let it end by itself, or end it."""
        with contextlib.suppress(BrokenPipeError):
            self._to.close()
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._from.close()

    def kill(self) -> None:
        """End it now."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
