"""How fast logs are read, as ratios to ripgrep and to raw SQLite in the same run.

    python benchmarks/ingest.py [--size-mib 256] [--events-mib 200] [--runs 3]

Makes a serving log (0.5 % relevant lines, time rising) for each kind of noise and a log
in which every line is relevant. Selection is compared with `rg -F -f` on the same
literals; the whole way into SQLite with `sqlite3.executemany` of the same rows. Machines
are noisy: runs alternate, medians of ratios are printed, absolute figures are a hint.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from parsers.engine.dispatch import (  # noqa: E402
    Selector,
    count_lines,
    lines_at,
    make_selector,
    regex_selector,
    text_of,
)
from parsers.files import LARGE_BYTES, dispatcher  # noqa: E402

ACCESS = '(APIServer pid=1) INFO:     10.0.{}.{}:4{:04d} - "POST /v1/completions HTTP/1.1" 200 OK'
STATISTICS = (
    "(APIServer pid=1) INFO {} [loggers.py:250] Engine 000: Avg prompt throughput: {}.6 "
    "tokens/s, Avg generation throughput: 25.6 tokens/s, Running: {} reqs, Waiting: 0 "
    "reqs, GPU KV cache usage: 0.3%, Prefix cache hit rate: 0.0%"
)
TRACEBACK = (
    '(EngineCore pid=2) ERROR {} [core.py:866]   File "/x/layers/attention.py", line {}, '
    "in forward {}"
)
JSON_LINE = (
    '{{"asctime": "2026-{}", "levelname": "INFO", "name": "uvicorn.access", '
    '"message": "10.0.0.{} - POST /v1/chat/completions {}"}}'
)
READY = "(APIServer pid=1) INFO:     Application startup complete.\n"
RELEVANT = (
    "(EngineCore pid=2) WARNING {} [common.py:300] Decode bucket for ({}, 1, {}) was not "
    "prepared. Adding new bucket: (64, 1, 4096)",
    "(EngineCore pid=2) INFO {} [hpu_model_runner.py:2679] [Warmup][Graph/decode][{}/9999] "
    "batch_size:4 query_len:1 num_blocks:{} free_mem:10.45 GiB",
    "(EngineCore pid=2) WARNING {} [debug.py:18] [defrag] defragmentation done "
    "max_id_used=9{}->812 num_used=810 swapped=30/32 {}",
)
VARIED = (
    RELEVANT[0],
    "(EngineCore pid=2) INFO {} [hpu_model_runner.py:2679] [Warmup][Graph/decode][{}/9999] "
    "batch_size:4 query_len:1 num_blocks:{} free_mem:{}.45 GiB",
    "(EngineCore pid=2) WARNING {} [debug.py:18] [defrag] defragmentation done "
    "max_id_used=9{}->812 num_used=810 swapped=30/32 {} {}",
)
SMALL = 32 << 20
"""Enough to see how slow the standard library is."""


def stamp(second: int) -> str:
    day, rest = divmod(second, 86400)
    return f"07-{1 + day % 28:02d} {rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"


def noise(kind: str, n: int) -> str:
    second = stamp(n // 40)
    if kind == "access":
        return ACCESS.format(n % 256, n % 251, n % 10000)
    if kind == "statistics":
        return STATISTICS.format(second, n % 900, n % 64)
    if kind == "traceback":
        return TRACEBACK.format(second, n % 3000, n % 77)
    if kind == "json":
        return JSON_LINE.format(second, n % 256, 200 + n % 5)
    kinds = ("access",) * 7 + ("statistics",) * 2 + ("traceback",)
    return noise(kinds[n % 10], n)


def write_serving_log(path: Path, size: int, kind: str) -> None:
    """One relevant line in 200; begins with a ready server, as serving logs do."""
    with path.open("w") as file:
        file.write(READY)
        n = 0
        while file.tell() < size:
            block = []
            for i in range(n + 1, n + 5001):
                if i % 200 == 0:
                    form = RELEVANT[i // 200 % len(RELEVANT)]
                    block.append(form.format(stamp(i // 40), i % 64, i % 5000))
                else:
                    block.append(noise(kind, i))
            n += 5000
            file.write("\n".join(block) + "\n")


def write_relevant_log(path: Path, size: int, *, is_varied: bool = False) -> None:
    """Every line is relevant; buckets repeat, as they do.

    Messages repeat as well, like those of the ranks of one server, unless `is_varied`:
    then no two lines are equal but for the shapes that missed.
    """
    forms = VARIED if is_varied else RELEVANT
    with path.open("w") as file:
        n = 0
        while file.tell() < size:
            block = [
                forms[n % len(forms)].format(stamp(n // 40), n % 64, n % 500, n)
                for n in range(n, n + 5000)
            ]
            n += 5000
            file.write("\n".join(block) + "\n")


def cpu_s() -> float:
    """CPU seconds of this process and of the children it has waited for."""
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """CPU seconds and result: other work on the machine does not count."""
    begin = cpu_s()
    result = work()
    return cpu_s() - begin, result


def blocks_of(path: Path) -> Iterator[bytes]:
    from parsers.report import ParseReport
    from parsers.source import TextBlocks

    with path.open("rb") as file:
        yield from TextBlocks(file, path.name, ParseReport())


def select_lines(path: Path, selector: Selector) -> int:
    """Candidate lines, each with its number, as `ingest` needs them."""
    if path.stat().st_size > LARGE_BYTES:
        import numpy  # noqa: F401 - as `ingest` does

    number = found = 0
    for block in blocks_of(path):
        lines = list(lines_at(block, selector(block)))
        for _, begin, behind in lines:
            text_of(block, begin, behind)
        place, _, behind = lines[-1] if lines else (-1, 0, 0)
        number += place + 1 + count_lines(block, behind)
        found += len(lines)
    return found


def ripgrep(path: Path, literals: Path) -> int:
    command = ["rg", "-F", "-f", str(literals), "--no-config", "-a", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        return sum(
            chunk.count(b"\n")
            for chunk in iter(lambda: process.stdout.read(1 << 20), b"")
        )


def benchmark_selection(folder: Path, size: int, runs: int) -> list[dict[str, object]]:
    """Candidate lines of each mix, and for each the whole way into a new database."""
    literals = folder / "literals.txt"
    # Lines of statistics are counted between the others, by `ingest` itself.
    wanted = sorted({*dispatcher().literals}.difference(dispatcher().statistics))
    literals.write_text("\n".join(wanted) + "\n")
    fast, plain = make_selector(wanted), regex_selector(wanted)
    path, small = folder / "serving.log", folder / "small.log"
    rows: list[dict[str, object]] = []
    for kind in ("mixed", "access", "statistics", "traceback", "json"):
        write_serving_log(path, size, kind)
        write_serving_log(small, min(size, SMALL), kind)
        rows += [
            select_row(kind, fast, path, literals, runs),
            select_row(kind, plain, small, literals, 1),
            whole_row(kind, path, literals, folder),
        ]
        path.unlink()
    return rows


def select_row(
    kind: str, selector: Selector, path: Path, literals: Path, runs: int
) -> dict[str, object]:
    ratios = []
    for _ in range(runs):
        reference, expected = timed(lambda: ripgrep(path, literals))
        seconds, count = timed(lambda: select_lines(path, selector))
        assert count == expected, (kind, count, expected)
        ratios.append(seconds / reference)
    is_plain = selector.__qualname__.startswith("regex")
    return {
        "mix": kind,
        "selector": "standard library" if is_plain else "hyperscan",
        "mib": path.stat().st_size >> 20,
        "time_to_ripgrep": round(statistics.median(ratios), 2),
        "ripgrep_mb_s": round(path.stat().st_size / reference / 1e6),
    }


def whole_row(kind: str, path: Path, literals: Path, folder: Path) -> dict[str, object]:
    """Hash, select, parse and store, against selecting alone by ripgrep."""
    reference, _ = timed(lambda: ripgrep(path, literals))
    taken = ingest_command(path, folder / f"{kind}.db")
    return {
        "ingest": kind,
        "mib": path.stat().st_size >> 20,
        "events": taken.events,
        "time_to_ripgrep": round((taken.cpu_s - idle_s(folder)) / reference, 2),
        "peak_mib": round(taken.peak_mib),
    }


class Taken(NamedTuple):
    """What an `ingest` in a process of its own took; children count in `cpu_s`."""

    cpu_s: float
    wall_s: float
    events: int
    peak_mib: float


def ingest_command(path: Path, db: Path, jobs: int = 1) -> Taken:
    command = [sys.executable, "-m", "warmup_insights", "ingest", str(path), "--json",
               "--jobs", str(jobs), "--db", str(db)]  # fmt: skip
    begin = time.perf_counter()
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        answer = process.stdout.read()
        # Of this process and those it waited for, not of the largest so far.
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    wall = time.perf_counter() - begin
    events = json.loads(answer)["files"][0]["events"]
    cpu = usage.ru_utime + usage.ru_stime
    return Taken(cpu, wall, events, usage.ru_maxrss / 1024)


def idle_s(folder: Path) -> float:
    """CPU seconds of an `ingest` of one line: start-up and a new database."""
    nothing = folder / "nothing.log"
    nothing.write_text(READY)
    (folder / "idle.db").unlink(missing_ok=True)
    return ingest_command(nothing, folder / "idle.db").cpu_s


def raw_insert(db: Path, target: Path) -> float:
    """CPU seconds of inserting the same rows with nothing but sqlite3."""
    source = sqlite3.connect(db)
    names = [row[1] for row in source.execute("pragma table_info(events)")]
    (ddl,) = source.execute(
        "select sql from sqlite_master where name='events'"
    ).fetchone()
    cursor = source.execute(f"select {', '.join(names)} from events")
    sink = sqlite3.connect(target)
    sink.execute("pragma journal_mode=wal")
    sink.execute("pragma synchronous=normal")
    sink.execute(ddl)
    statement = f"insert into events values ({', '.join('?' * len(names))})"
    cpu = 0.0
    while rows := cursor.fetchmany(10_000):
        begin = time.process_time()
        sink.executemany(statement, rows)
        cpu += time.process_time() - begin
    begin = time.process_time()
    sink.commit()
    return cpu + time.process_time() - begin


def benchmark_events(
    folder: Path, size: int, runs: int, *, is_varied: bool
) -> dict[str, object]:
    """A log in which every line becomes an event, stored by one and by two processes."""
    path = folder / "relevant.log"
    write_relevant_log(path, size, is_varied=is_varied)
    rows = [events_row(path, folder) for _ in range(runs)]
    medians = {name: statistics.median(row[name] for row in rows) for name in rows[0]}
    whole = {
        name: round(v) for name, v in medians.items() if name != "times_raw_sqlite"
    }
    return {
        "messages": "varied" if is_varied else "repeating",
        "log_mib": size >> 20,
        **whole,
        "times_raw_sqlite": round(medians["times_raw_sqlite"], 2),
        "most_of_two_processes": max(r["events_per_s_of_two_processes"] for r in rows),
        "runs": runs,
    }


def events_row(path: Path, folder: Path) -> dict[str, float]:
    """What one, two and no processes of ours make of a log, one after the other."""
    db, bare, other = (folder / name for name in ("a.db", "raw.db", "b.db"))
    idle = idle_s(folder)
    one = ingest_command(path, db)
    raw = raw_insert(db, bare)
    two = ingest_command(path, other, jobs=2)
    for stored in (db, bare, other):
        stored.unlink()
    return {
        "events": one.events,
        "events_per_cpu_s": one.events / (one.cpu_s - idle),
        "events_per_s_of_two_processes": round(two.events / (two.wall_s - idle)),
        "raw_sqlite_rows_per_cpu_s": one.events / raw,
        "times_raw_sqlite": (one.cpu_s - idle) / raw,
        "peak_mib": one.peak_mib,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-mib", type=int, default=256)
    parser.add_argument("--events-mib", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not options.size_mib:
            print("selection was not requested")
        elif shutil.which("rg") is None:
            print("ripgrep is not installed; selection was not compared")
        else:
            for row in benchmark_selection(
                folder, options.size_mib << 20, options.runs
            ):
                print(json.dumps(row))
        for is_varied in (False, True):
            row = benchmark_events(
                folder, options.events_mib << 20, options.runs, is_varied=is_varied
            )
            print(json.dumps(row))


if __name__ == "__main__":
    main()
