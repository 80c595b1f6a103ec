"""What the tests of reading many logs share."""

from __future__ import annotations

import os
import signal
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

from tests.helpers import ROOT
from warmup_insights.ingest import worker
from warmup_insights.ingest.outcome import Options, Outcome, Watcher
from warmup_insights.ingest.parallel import ReaderPool

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


class ThreadReaders(ReaderPool):
    """Readers that are threads of ours: quick to start, easy to hold up."""

    def _new_pool(self, jobs):
        worker._storing = self._theirs
        return ThreadPoolExecutor(jobs)


def die_or_read(path: str, options: Options, target: str) -> None:
    """Stands for `read_to_file` in a process: dies as often as a file beside it says."""
    deaths = Path(f"{path}.deaths")
    if deaths.exists() and (left := int(deaths.read_text())):
        Path(target).touch()
        deaths.write_text(str(left - 1))
        os.kill(os.getpid(), signal.SIGKILL)
    worker.read_to_file(path, options, target)


def processes_of(session: int) -> list[int]:
    """Ids of the processes of a session that are still there."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            state, *_, theirs = (
                (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            )
            if int(theirs) == session and state != "Z":
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
