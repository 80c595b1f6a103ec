"""Many processes record into one database while others read it and write to it.

`python -m tests.storage.crowd DATABASE [PROCESSES RANKS EVENTS]` prints the counts.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.storage.builders import add_run, make_steps
from warmup_insights.drainer import open_store
from warmup_insights.errors import StoreError
from warmup_insights.storage import EventStore
from warmup_insights.storage.spool import find_spools

ROOT = Path(__file__).parents[2]
WORKER = """
import sys
from warmup_insights.model.events import WarmupStep
from warmup_insights.drainer import recording
from warmup_insights.model.run import RunRecord
database, run_id, ranks, events = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
print("ready", flush=True)
sys.stdin.readline()
with recording(database, RunRecord(run_id=run_id)) as recorder:
    for number in range(events):
        for rank in range(ranks):
            recorder.record(WarmupStep(phase="prompt", index=number, rank=rank))
        if number % 100 == 0:
            recorder.flush(timeout=600)
print(recorder.dropped, flush=True)
"""


@dataclass
class Outcome:
    """What a crowd did."""

    dropped: int = 0
    errors: list[str] = field(default_factory=list)
    said: str = ""
    num_reads: int = 0
    num_ingests: int = 0


def crowd(database, processes, ranks, events):
    """Record in `processes` processes, into a run each, with a reader and an ingest."""
    outcome = Outcome()
    workers = [
        subprocess.Popen(
            [
                sys.executable,
                "-c",
                WORKER,
                database,
                f"run{n}",
                str(ranks),
                str(events),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for n in range(processes)
    ]
    for worker in workers:
        assert worker.stdout.readline() == "ready\n"
    is_over = threading.Event()
    others = [
        threading.Thread(target=work, args=(database, outcome, is_over))
        for work in (_read, _ingest)
    ]
    for thread in others:
        thread.start()
    for worker in workers:
        worker.stdin.write("go\n")
        worker.stdin.flush()
    for worker in workers:
        output, said = worker.communicate(timeout=600)
        outcome.said += said
        if worker.returncode or not output.strip().isdigit():
            outcome.errors.append(f"exit {worker.returncode}: {output}")
        else:
            outcome.dropped += int(output)
    is_over.set()
    for thread in others:
        thread.join()
    return outcome


def _read(database, outcome, is_over):
    """What the dashboard does."""
    try:
        EventStore(database).close()
        with EventStore(database, read_only=True) as store:
            while not is_over.is_set():
                for run in store.runs(limit=3):
                    found = list(store.events(run.run_id))
                    assert len(found) >= run.num_events
                store.summaries()
                outcome.num_reads += 1
                time.sleep(0.01)
    except (StoreError, AssertionError) as error:
        outcome.errors.append(f"reader: {error!r}")


def _ingest(database, outcome, is_over):
    """What an ingest does: a log in one transaction."""
    try:
        with EventStore(database) as store:
            while not is_over.is_set():
                run_id = f"log{outcome.num_ingests}"
                add_run(store, run_id, make_steps(5000), source_kind="log")
                outcome.num_ingests += 1
                time.sleep(0.05)
    except StoreError as error:
        outcome.errors.append(f"ingest: {error!r}")


def count_wrong(database, processes, ranks, events):
    """Ranks whose stored events are not exactly those that were recorded, in order; what
    waits in a file, as a writer got no turn at its end, is stored by opening."""
    wrong = 0
    with open_store(database) as store:
        for number in range(processes):
            found = list(store.events(f"run{number}"))
            for rank in range(ranks):
                own = [event.index for event in found if event.rank == rank]
                wrong += own != list(range(events))
    return wrong


def counts(outcome, database, processes, ranks, events):
    """What became of everything, by name."""
    waiting = {spool.run.run_id for spool in find_spools(database)}
    return {
        "processes": processes,
        "events recorded": processes * ranks * events,
        "events dropped": outcome.dropped,
        "runs that wait in a file": len(waiting),
        "ranks with lost or doubled events": count_wrong(database, processes, ranks, events),
        "reads meanwhile": outcome.num_reads,
        "ingests meanwhile": outcome.num_ingests,
        "errors": outcome.errors,
        "said": outcome.said,
    }  # fmt: skip


def main(database, processes=16, ranks=8, events=5000):
    start = time.monotonic()
    outcome = crowd(database, processes, ranks, events)
    seconds = round(time.monotonic() - start, 1)
    found = counts(outcome, database, processes, ranks, events)
    print(json.dumps({**found, "seconds": seconds}, indent=1))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
