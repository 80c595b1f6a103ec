"""Reads files into the store, with one process or as many as are worth it.

The database is the only state: whatever ends this in the middle, the same call goes on
from there.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from warmup_insights.errors import InputError
from warmup_insights.ingest.log import LARGE_BYTES
from warmup_insights.ingest.outcome import (
    Options,
    Outcome,
    ReadBytes,
    Watcher,
    file_size,
)
from warmup_insights.ingest.single import ingest_path
from warmup_insights.storage import EventStore

MIN_WORK_S = 2.0
"""Reading that takes less is done before other processes have started."""
WORK_PER_JOB_S = 1.0
_START_UP_BYTES = 1 << 20
"""The beginning of a log, where every line counts."""
_START_UP_RATE = 6e6
_SERVING_RATE = 4e8
"""Bytes per second of one process; the rest of a log is only searched."""
_FILE_S = 0.003
_CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The cores that this process may use: its affinity, and the quota of its container."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        cores = os.cpu_count() or 1
    quota = cpu_quota(_CGROUP)
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def cpu_quota(folder: Path) -> float | None:
    """Cores that a container may use at a time; None without a limit.

    From `cpu.max` of the second version of control groups, or the two files of the
    first.
    """
    try:
        limit, period = (folder / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        try:
            first = folder / "cpu"
            limit = (first / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (first / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return None
    if not limit.isdigit() or not period.isdigit() or int(period) == 0:
        return None
    return int(limit) / int(period)


def choose_jobs(files: Sequence[str], cores: int | None = None) -> int:
    """Processes that pay for reading these files; 1 means none beside this one."""
    if os.name == "nt":
        return 1  # a file that another process has open cannot be removed there
    sizes = [os.path.getsize(path) for path in files if os.path.isfile(path)]
    start_ups = sum(min(size, _START_UP_BYTES) for size in sizes)
    work = (
        start_ups / _START_UP_RATE + sum(sizes) / _SERVING_RATE + len(sizes) * _FILE_S
    )
    if len(sizes) == 1 and sizes[0] >= LARGE_BYTES:
        return min(2, usable_cores() if cores is None else cores)
    if len(sizes) < 2 or work < MIN_WORK_S:
        return 1
    cores = usable_cores() if cores is None else cores
    return max(1, min(cores, len(sizes), int(work / WORK_PER_JOB_S)))


def ingest_files(
    store: EventStore,
    files: Sequence[str],
    options: Options | None = None,
    *,
    jobs: int = 1,
    watcher: Watcher | None = None,
) -> list[Outcome]:
    """Read files into the store; what came of each, in their order.

    The result does not depend on `jobs`, the number of processes that read; 1 means
    that this one reads. A file that cannot be read does not stop the others. Raises
    StoreError when the database fails.
    """
    options, watcher = options or Options(), watcher or Watcher()
    gains = len(files) > 1 or any(file_size(path) >= LARGE_BYTES for path in files)
    if jobs < 2 or not gains or not sys.executable:
        return [_ingest_one(store, path, options, watcher) for path in files]
    from warmup_insights.ingest.parallel import ParallelIngest

    return ParallelIngest(store, files, options, watcher).run(min(jobs, len(files)))


def _ingest_one(
    store: EventStore, path: str, options: Options, watcher: Watcher
) -> Outcome:
    progress = ReadBytes([path], watcher)
    try:
        outcome = ingest_path(store, path, options, progress.add)
    except InputError as error:
        outcome = Outcome(path, state="failed", error=str(error))
    progress.finish()
    watcher.done(outcome)
    return outcome
