"""Takes a PostgreSQL server away while programs record into it, and gives it back.

`python -m tests.storage.outages 20` prints the counts.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass

from tests.postgres import find_binaries, running_server
from tests.recorder.programs import HEADER, ROOT
from warmup_insights.drainer import open_store
from warmup_insights.model.events import WarmupStep
from warmup_insights.storage.spool import find_spools

PROGRAM = """
from warmup_insights.drainer import recording
with recording(path, RunRecord(run_id="run1")) as recorder:
    print("ready", flush=True)
    end = threading.Thread(target=sys.stdin.read, daemon=True)
    end.start()
    number = 0
    while end.is_alive():
        recorder.record(step(number))
        number += 1
        time.sleep(0.001)
print(number, flush=True)
"""


@dataclass(frozen=True)
class Recording:
    """What one recording left whose server was away."""

    num_recorded: int
    num_stored: int
    """After the next command has opened the database."""
    is_whole: bool
    """Every event is stored once and in order."""
    num_spools_left: int
    exit_code: int


def record_once(server, moments, *, ends_away=False):
    """Record while the server is there and away for `moments`, pairs of seconds.

    `ends_away`: the recording ends without a server. Spools lie in the working folder.
    """
    url = server.new_database()
    program = subprocess.Popen(
        [sys.executable, "-c", HEADER + PROGRAM, url], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    with program:
        assert program.stdout.readline() == "ready\n"
        for there_s, away_s in moments:
            time.sleep(there_s)
            server.stop()
            time.sleep(away_s)
            server.start()
        if ends_away:
            server.stop()
        try:
            said, _ = program.communicate()
        finally:
            if ends_away:
                server.start()
    with open_store(url) as store:
        stored = [e.index for e in store.events("run1") if isinstance(e, WarmupStep)]
    return Recording(
        num_recorded=int(said),
        num_stored=len(stored),
        is_whole=stored == list(range(int(said))),
        num_spools_left=len(find_spools(url)),
        exit_code=program.returncode,
    )


def counts(found, num_outages):
    """What became of the recordings, by name."""
    return {
        "recordings": len(found),
        "outages": num_outages,
        "events recorded": sum(r.num_recorded for r in found),
        "events missing": sum(r.num_recorded - r.num_stored for r in found),
        "recordings with gaps or doubles": sum(not r.is_whole for r in found),
        "spools left": sum(r.num_spools_left for r in found),
        "programs that failed": sum(r.exit_code != 0 for r in found),
    }


def main(count):
    chance = random.Random(20261123)
    found, num_outages = [], 0
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(find_binaries()) as server,
    ):
        os.chdir(folder)
        for number in range(count):
            moments = [
                (chance.uniform(0, 2), chance.uniform(0, 2))
                for _ in range(chance.randint(1, 3))
            ]
            ends_away = number % 2 == 1
            found.append(record_once(server, moments, ends_away=ends_away))
            num_outages += len(moments) + ends_away
        os.chdir(ROOT)
    print(json.dumps(counts(found, num_outages), indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
