"""The sink of the plugin: hands events to a writer process through a socket."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import warmup_insights
from warmup_insights.model.events import Event, encode
from warmup_insights.model.process import own_process
from warmup_insights.model.run import RunRecord

if TYPE_CHECKING:
    from warmup_insights.storage.spill import SpillFile

CLOSE_S = 0.8
"""How long the end waits for the writer; it goes on writing without us if need be."""
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
"""No SIGPIPE when the writer is gone: the engine may not ignore it."""
_START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from warmup_insights.vllm_plugin.writer import main; main()"
)

logger = logging.getLogger(__name__)


class PipeSink:
    """Starts a writer with the first batch; where it cannot, events go to a file.

    The writer has a process of its own and survives the engine by as long as it needs
    to write what it was given. The child of a fork lets go of its parent's writer.
    """

    def __init__(self, database: str, run: RunRecord) -> None:
        self._database = database
        self._run = run
        self._socket: socket.socket | None = None
        self._file: SpillFile | None = None
        itself = weakref.ref(self)
        os.register_at_fork(after_in_child=lambda: _let_go(itself()))

    def __call__(self, events: Sequence[Event]) -> None:
        """Hand a batch over. Raises StoreError when even a file takes nothing."""
        if self._file is None:
            try:
                self._send(b"".join(encode(event) + b"\n" for event in events))
            except OSError as error:
                self._give_up(error)
            else:
                return
        assert self._file is not None
        self._file.append(events)

    def _send(self, text: bytes) -> None:
        if self._socket is None:
            self._start()
        assert self._socket is not None
        view = memoryview(text)
        while view:
            view = view[self._socket.send(view, _NO_SIGNAL) :]

    def _start(self) -> None:
        if not sys.executable:
            raise FileNotFoundError("this Python does not know its interpreter")
        ours, theirs = socket.socketpair()
        environ = {k: v for k, v in os.environ.items() if k != "WARMUP_INSIGHTS_DB"}
        with theirs:
            writer = subprocess.Popen(
                [sys.executable, "-c", _START, _package_root()],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                env=environ,
            )
        self._socket = ours
        self._send(self._head() + b"\n")
        writer.wait()  # it leaves a process of its own and ends at once

    def _head(self) -> bytes:
        now = time.time()
        run = {
            **vars(self._run),
            "status": "running",
            "started_at": now,
            "heartbeat_at": now,
            "process": own_process(),
        }
        return msgspec.json.encode({"database": self._database, "run": run})

    def _give_up(self, error: OSError) -> None:
        """From now on a file takes the events; `ingest` reads it later."""
        from warmup_insights.storage.engine import Location
        from warmup_insights.storage.spill import SpillFile, spill_folders

        self.let_go()
        path = Location(self._database).path
        stem = "warmup_insights" if path is None else path.name
        self._file = SpillFile(self._run, spill_folders(path), stem)
        logger.warning("Events go to a file beside %s: %s", path or stem, error)

    def close(self) -> None:
        """End the writer's input, and wait until it has stored everything."""
        if self._socket is None:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.settimeout(CLOSE_S)
            self._socket.recv(1)
        self.let_go()

    def let_go(self) -> None:
        """Close our end without a word."""
        if self._socket is not None:
            self._socket.close()
        self._socket = None


def _let_go(sink: PipeSink | None) -> None:
    if sink is not None:
        sink.let_go()


def _package_root() -> str:
    """The folder that this package is imported from."""
    return str(Path(warmup_insights.__file__).parents[1])
