"""Kills recording processes at random moments and looks at what is left.

`python -m tests.recorder.killing 200` prints the counts.
"""

from __future__ import annotations

import json
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from tests.recorder.programs import start_program
from warmup_insights.drainer import open_store
from warmup_insights.model.events import WarmupStep
from warmup_insights.runs import current

PROGRAM = """
from warmup_insights.drainer import draining
recorder = Recorder(Spool(path, RunRecord(run_id="run1")))
draining(path, "run1").__enter__()      # as the `run` command does
recorder.record(step(0, bucket=(1, 128, 0)))
diary = os.open(path + ".diary", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
print("ready", flush=True)
number = 0
while True:
    for _ in range(20):
        number += 1
        recorder.record(step(number, bucket=(1, 128, number)))
        os.write(diary, f"recorded {number} {time.monotonic()}\\n".encode())
    if number % 2_000 == 0 and recorder.flush():
        os.write(diary, f"flushed {number}\\n".encode())
    time.sleep(0.002)
"""


@dataclass(frozen=True)
class Aftermath:
    """What one kill left."""

    num_recorded: int
    num_stored: int
    num_flushed: int
    """Events that `flush` had acknowledged."""
    missing_s: float
    """Age of the oldest missing event at the kill; 0 when none is missing."""
    is_gapless: bool
    status: str | None
    """Of the run, six seconds later."""
    names_last_bucket: bool
    """Whether the summary says in which bucket the recording ended."""


def kill_once(path, after_s):
    """Kill a recording process `after_s` seconds after its first event."""
    with start_program(PROGRAM, path) as program:
        assert program.stdout.readline() == "ready\n"
        time.sleep(after_s)
        program.send_signal(signal.SIGKILL)
        killed_at = time.monotonic()
    diary = path.with_name(path.name + ".diary").read_text(encoding="utf-8")
    lines = [line.split() for line in diary.splitlines()]
    recorded = {int(line[1]): float(line[2]) for line in lines if line[0] == "recorded"}
    flushed = [int(line[1]) for line in lines if line[0] == "flushed"]
    stored, status, last_bucket = _look(path)
    missing = [at for number, at in recorded.items() if number >= len(stored)]
    return Aftermath(
        num_recorded=1 + len(recorded),
        num_stored=len(stored),
        num_flushed=max(flushed, default=-1) + 1,
        missing_s=killed_at - min(missing) if missing else 0.0,
        is_gapless=stored == list(range(len(stored))),
        status=status,
        names_last_bucket=last_bucket == ((1, 128, stored[-1]) if stored else None),
    )


def _look(path):
    with open_store(path, read_only=False) as store:
        found = store.runs()
        events = list(store.events("run1"))
        later = time.time() + 6
        status = found[0].status_at(later) if found else None
        bucket = None
        with patch("time.time", lambda: later):
            if found and (failure := current(store, found[0]).summary.failure):
                bucket = failure.bucket
    return [e.index for e in events if isinstance(e, WarmupStep)], status, bucket


def kill_often(count):
    """Kill recording processes at moments spread over their first 1.5 seconds."""
    chance = random.Random(20261120)
    with tempfile.TemporaryDirectory() as folder:
        return [
            kill_once(Path(folder) / f"{number}.db", chance.uniform(0, 1.5))
            for number in range(count)
        ]


def counts(found):
    """What became of the recordings, by name."""
    ages = sorted(a.missing_s * 1000 for a in found)
    with_events = [a for a in found if a.num_stored]
    return {
        "recordings killed": len(found),
        "events recorded": sum(a.num_recorded for a in found),
        "events stored": sum(a.num_stored for a in found),
        "events acknowledged by flush": sum(a.num_flushed for a in found),
        "acknowledged events lost": sum(max(0, a.num_flushed - a.num_stored) for a in found),
        "runs with gaps or doubles": sum(not a.is_gapless for a in found),
        "oldest missing event at the kill, median ms": round(ages[len(ages) // 2]),
        "oldest missing event at the kill, largest ms": round(ages[-1]),
        "kills that lost events older than 250 ms": sum(age > 250 for age in ages),
        "killed before the first event was stored": len(found) - len(with_events),
        "shown as failed": sum(a.status == "failed" for a in with_events),
        "that say in which bucket they ended": sum(a.names_last_bucket for a in with_events),
    }  # fmt: skip


def main(count):
    print(json.dumps(counts(kill_often(count)), indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
