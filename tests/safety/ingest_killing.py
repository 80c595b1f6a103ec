"""Kills ingests at random moments, looks at what is left, and lets them run again.

`python -m tests.safety.ingest_killing 100` prints the counts.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from warmup_insights.storage import EventStore

ROOT = Path(__file__).resolve().parents[2]
STEP = (
    "INFO 07-07 19:15:38 [x.py:1] [Warmup][Graph/prompt][{}/900000] batch_size:{} "
    "query_len:128 num_blocks:0 free_mem:9 GiB\n"
)
NUM_FILES = 4
NUM_LINES = 5_000


@dataclass(frozen=True)
class Aftermath:
    """What one kill left, and what the same ingest made of it later."""

    was_killed: bool
    """False when the ingest had ended before."""
    files_stored: int
    is_sound: bool
    """SQLite finds no damage."""
    is_half: bool
    """A run with some of its events, a source without its runs, or the reverse."""
    processes_left: int
    """Of the killed ingest, a few seconds later."""
    is_completed: bool
    """Everything is there after a rerun, once."""


def make_logs(folder: Path) -> dict[str, int]:
    """Logs that take a while; the number of lines by name."""
    sizes = {}
    for number in range(NUM_FILES):
        count = NUM_LINES * (number + 1) // 2
        lines = (STEP.format(n, 1000 * number + n) for n in range(1, count))
        (folder / f"{number}.log").write_text("".join(lines))
        sizes[f"{number}.log"] = count - 1
    return sizes


def command(logs: Path, database: Path) -> list[str]:
    """The ingest of a folder with several processes."""
    return [
        sys.executable, "-m", "warmup_insights", "ingest", str(logs), "--jobs", "2",
        "--db", str(database),
    ]  # fmt: skip


def whole(database: Path) -> dict[str, int]:
    """Events by name of the log, of the logs that are wholly there."""
    with EventStore(database) as store:
        sources = {source.source_id: source for source in store.sources()}
        found = {}
        for run in store.runs():
            source = sources.get(run.source_id or "")
            events = len(list(store.events(run.run_id)))
            if source and events == run.num_events == source.report["events"]:
                found[source.name] = events
    return found


def look(database: Path) -> tuple[int, bool, bool]:
    """Files stored, whether the database is sound, whether something is half-way."""
    if not database.exists():
        return 0, True, False
    with sqlite3.connect(database) as connection:
        is_sound = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()
    with EventStore(database) as store:
        num_runs, num_sources = len(store.runs()), len(store.sources())
    num_whole = len(whole(database))
    return num_whole, is_sound, not num_runs == num_sources == num_whole


def kill_once(
    logs: Path, database: Path, after_s: float, sizes: dict[str, int]
) -> Aftermath:
    """Kill an ingest after some seconds, look, and run it again."""
    process = subprocess.Popen(
        command(logs, database), cwd=ROOT, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(after_s)
    was_killed = process.poll() is None
    process.send_signal(signal.SIGKILL)
    process.wait()
    left = _wait_for_the_others(process.pid)
    found = look(database)
    again = subprocess.run(
        [*command(logs, database), "--json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    is_completed = again.returncode == 0 and whole(database).keys() == sizes.keys()
    return Aftermath(
        was_killed, *found, left, is_completed and _is_once(database, sizes)
    )


def _is_once(database: Path, sizes: dict[str, int]) -> bool:
    with EventStore(database) as store:
        return all(
            source.lines == sizes[source.name]
            and len(store.runs(source_id=source.source_id)) == 1
            for source in store.sources()
        ) and len(store.runs()) == len(sizes)


def _wait_for_the_others(session: int) -> int:
    """Processes of a session that are still there after a minute."""
    end = time.monotonic() + 60
    while (left := list(_processes_of(session))) and time.monotonic() < end:
        time.sleep(0.05)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    return len(left)


def _processes_of(session: int) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, found = (
                (entry / "stat").read_text().rpartition(")")[2].split()[:4]
            )
        except OSError:
            continue
        if int(found) == session and state != "Z":
            yield int(entry.name)


def kill_often(count: int, folder: Path) -> list[Aftermath]:
    """Kill ingests at moments spread over the time that one takes."""
    logs = folder / "logs"
    logs.mkdir()
    sizes = make_logs(logs)
    begin = time.monotonic()
    subprocess.run(
        command(logs, folder / "whole.db"), cwd=ROOT, check=True, capture_output=True
    )
    seconds = time.monotonic() - begin
    chance = random.Random(20261120)
    return [
        kill_once(
            logs, folder / f"{n}.db", chance.uniform(0.1 * seconds, seconds), sizes
        )
        for n in range(count)
    ]


def main(count: int) -> int:
    """Print what became of the ingests; 1 when something was lost."""
    with tempfile.TemporaryDirectory() as folder:
        found = kill_often(count, Path(folder))
    counts = {
        "ingests": len(found),
        "killed before their end": sum(a.was_killed for a in found),
        "killed with some files stored": sum(
            0 < a.files_stored < NUM_FILES for a in found
        ),
        "databases damaged": sum(not a.is_sound for a in found),
        "files half-way": sum(a.is_half for a in found),
        "processes left": sum(a.processes_left for a in found),
        "completed by a rerun": sum(a.is_completed for a in found),
    }
    print(json.dumps(counts))
    return int(any(not a.is_sound or a.is_half or not a.is_completed for a in found))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
