"""What the tests of reading many logs share."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

from tests.helpers import ROOT
from warmup_insights.ingest.child import Child
from warmup_insights.ingest.outcome import Outcome, Watcher
from warmup_insights.ingest.worker import Worker

SAMPLES = sorted(p for p in (ROOT / "sample_logs").rglob("*") if p.is_file())
CAPTURE = ROOT / "sample_logs" / "vllm-fork" / "warmup_doc_capture.log"
CLOCKS = {"created_at", "updated_at", "ingested_at", "heartbeat_at"}
_STEP = (
    "INFO 07-07 19:15:38 [x.py:1] [Warmup][Graph/prompt][{0}/900000] batch_size:{1} "
    "query_len:128 num_blocks:0 free_mem:9 GiB\n"
)


def steps(count: int) -> str:
    """So many lines of a warm-up; every one is an event."""
    return "".join(_STEP.format(n, n % 100) for n in range(1, count + 1))


def contents(db: Path) -> dict[str, list[tuple]]:
    """Every row of a database, without the times of storing; lists keep their order."""
    found = {}
    with closing(sqlite3.connect(db)) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type='table'")
        for (table,) in tables.fetchall():
            names = [c[1] for c in connection.execute(f"PRAGMA table_info({table})")]
            kept = [f'"{name}"' for name in names if name not in CLOCKS]
            rows = connection.execute(f"SELECT {', '.join(kept)} FROM {table}")
            found[table] = sorted(rows.fetchall(), key=repr)
    return found


def write_logs(folder: Path, count: int, lines: int = 40) -> list[str]:
    """Small logs that begin differently, each a run of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        head = f"INFO 07-07 19:15:37 host {n}\n"
        (folder / f"{n:04}.log").write_text(head + steps(lines))
    return [str(path) for path in sorted(folder.iterdir())]


class Recording(Watcher):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.outcomes: list[Outcome] = []

    def read(self, count: int) -> None:
        self.read_bytes += count

    def done(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)


class ThreadChild(Child):
    """A reader that is a thread of ours: quick to start, easy to hold up."""

    worker: type[Worker] = Worker

    def _start(self, options):
        return _Thread(self.worker, options)


class _Thread:
    returncode = None

    def __init__(self, worker, options):
        theirs_in, ours_in = os.pipe()
        ours_out, theirs_out = os.pipe()
        self.stdin, self.stdout = os.fdopen(ours_in, "wb"), os.fdopen(ours_out, "rb")
        self.pid = 0
        ends = os.fdopen(theirs_in, "rb"), os.fdopen(theirs_out, "wb")
        self._thread = threading.Thread(target=self._run, args=(worker, options, *ends))
        self._thread.start()

    def _run(self, worker, options, inbound, outbound):
        with suppress(BrokenPipeError), inbound, outbound:
            worker(options, inbound, outbound).run()

    def poll(self):
        return self.returncode

    def wait(self, timeout=None):
        self._thread.join(timeout)
        if self._thread.is_alive():
            raise subprocess.TimeoutExpired("thread", timeout)
        self.returncode = 0
        return 0

    def kill(self):
        with suppress(BrokenPipeError):
            self.stdin.close()


def processes_with(text: str) -> list[int]:
    """Ids of the processes whose command line holds a text."""
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if text in (entry / "cmdline").read_text(errors="replace"):
                found.append(int(entry.name))
    return found


def wait_until(condition, timeout_s: float = 60.0) -> bool:
    """Whether something became true in time."""
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False
