"""How much quicker all cores read a folder of small logs than one, in the same run.

    python benchmarks/folder.py [--files 2000] [--runs 3] [--jobs 1,2,...]

Makes start-up logs of different length, each of a server of its own, and reads them into
a new SQLite database with one process and with more, in turns; then once more, when every
file is stored and only skipped. Wall time, because that is what more cores are for: other
work on the machine counts, so the ratio of one run is what tells, not the seconds. Where
the machine is busy, processor time tells what several processes cost beside one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from warmup_insights.ingest.many import usable_cores  # noqa: E402

SAMPLES = ("vllm-fork/warmup_doc_capture.log", "reference/cpu_run_gaudi.log")
ORDINARY = (
    "INFO 07-07 19:{:02}:{:02} [launcher.py:36] Route: /v1/route/{}, Methods: POST\n"
)


def write_folder(folder: Path, count: int) -> int:
    """Logs of 20 to 200 KiB, a few hundred relevant lines each; all their bytes."""
    samples = [(ROOT / "sample_logs" / name).read_text() for name in SAMPLES]
    chance, total = random.Random(7), 0
    for number in range(count):
        seconds = range(chance.randrange(200, 2000))
        ordinary = "".join(ORDINARY.format(n // 60, n % 60, n) for n in seconds)
        text = f"INFO 07-07 19:00:00 server {number}\n{samples[number % 2]}{ordinary}"
        (folder / f"{number:05}.log").write_text(text)
        total += len(text)
    return total


def ingest(folder: Path, db: Path, jobs: int) -> tuple[float, float, dict[str, int]]:
    """Wall and processor seconds of `ingest`, and how many files came to which state."""
    command = [sys.executable, "-m", "warmup_insights", "ingest", str(folder), "--json",
               "--db", str(db), "--jobs", str(jobs)]  # fmt: skip
    begin, used = time.perf_counter(), children_s()
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    seconds = time.perf_counter() - begin
    states = [answer["state"] for answer in json.loads(done.stdout)["files"]]
    counts = {state: states.count(state) for state in sorted(set(states))}
    return seconds, children_s() - used, counts


def children_s() -> float:
    """Processor seconds of the processes that this one has waited for, and of theirs."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--jobs", default=f"1,{usable_cores()}")
    options = parser.parse_args()
    all_jobs = [int(jobs) for jobs in options.jobs.split(",")]
    print(f"Python {platform.python_version()}, {usable_cores()} cores")
    work = ("store", "skip")
    times: dict[tuple[str, int], list[tuple[float, float]]] = {
        (w, j): [] for w in work for j in all_jobs
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "logs")
        folder.mkdir()
        size = write_folder(folder, options.files)
        for run in range(options.runs):
            for jobs in all_jobs:
                db = Path(name, f"{run}-{jobs}.db")
                for what, state in zip(work, ("new", "unchanged"), strict=True):
                    wall, cpu, states = ingest(folder, db, jobs)
                    assert states == {state: options.files}, states
                    times[what, jobs].append((wall, cpu))
                os.unlink(db)
    for (what, jobs), taken in times.items():
        first = times[what, all_jobs[0]]
        ratios = [one[0] / more[0] for one, more in zip(first, taken, strict=True)]
        row = {
            "work": what,
            "jobs": jobs,
            "files": options.files,
            "mib": size >> 20,
            "seconds": round(statistics.median(wall for wall, _ in taken), 2),
            f"times_as_fast_as_{all_jobs[0]}": round(statistics.median(ratios), 2),
            "cpu_ms_per_file": round(
                1000 * statistics.median(cpu for _, cpu in taken) / options.files, 2
            ),
        }
        print(json.dumps(row))


if __name__ == "__main__":
    main()
