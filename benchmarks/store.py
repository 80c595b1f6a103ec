"""How fast the store writes, and how fast it answers when it is large.

    python benchmarks/store.py [--runs N] [--events N] [--folder FOLDER] [--json FILE]

Writes are compared with raw `sqlite3.executemany` of the same rows, interleaved in one
run. Then a store of `--runs` runs with `--events` events each is filled (2,000 and
5,000 make 10 million) and every question that a page asks is timed, as well as the trend of
all runs with its change points and the comparison of five runs with 300 gaps each, in
processor time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from warmup_insights.analysis.compare import Comparison, compare
from warmup_insights.model.events import Event, MemoryMeasured, WarmupStep
from warmup_insights.model.run import RunRecord
from warmup_insights.model.summary import (
    FOLD,
    BucketRow,
    Gap,
    MemoryFacts,
    PhaseBuckets,
    RunSummary,
    SourceName,
    Times,
)
from warmup_insights.runs import delete_runs
from warmup_insights.storage import EventStore
from warmup_insights.storage.rows import EVENT_COLUMNS, event_rows
from warmup_insights.storage.store import BLOCK
from warmup_insights.units import isoformat

START = 1_760_000_000.0
BUCKETS = [
    (phase, (batch, query, 0))
    for phase in ("prompt", "decode")
    for batch in (1, 2, 4, 8, 16, 32, 64, 128)
    for query in range(128, 128 * 10, 128)
]


def make_events(count: int, seed: int) -> list[Event]:
    """Steps over all buckets with memory readings between them."""
    chance = random.Random(seed)
    events: list[Event] = []
    while len(events) < count:
        number = len(events)
        phase, bucket = BUCKETS[number % len(BUCKETS)]
        moment = START + number * 0.1
        events.append(
            WarmupStep(
                time=moment,
                rank=number % 8,
                line=number + 1,
                phase=phase,
                mode="graph",
                bucket=bucket,
                index=number % len(BUCKETS) + 1,
                total=len(BUCKETS),
                duration_s=chance.random(),
                free_before_bytes=chance.randrange(10**11),
                memory_bytes=chance.randrange(10**8),
            )
        )
        if number % 10 == 9:
            events.append(
                MemoryMeasured(
                    time=moment, stage="step", used_bytes=chance.randrange(10**11)
                )
            )
    return events[:count]


def make_gaps(chance: random.Random) -> list[Gap]:
    """Stretches between lines that are the same in all runs, but for their numbers."""
    return [
        Gap(start_s=float(n), duration_s=2.0 + chance.random(),
            unlogged_s=2.0 + chance.random(), line=n, next_line=n + 1,
            before=f"INFO worker {chance.randrange(99)} finished stage {chr(97 + n % 26)}{n // 26 * 'x'}",
            after=f"Loading /cache/{chance.randrange(10**6)}/part took {n} s")
        for n in range(300)
    ]  # fmt: skip


def make_summary(run_id: str) -> RunSummary:
    part = PhaseBuckets(
        generated=len(BUCKETS) // 2, warmed=len(BUCKETS) // 2, captured=30, missed=1,
        buckets=[bucket for _, bucket in BUCKETS],
    )  # fmt: skip
    number, chance = int(run_id, 16) % 100_000, random.Random(run_id)
    # A slower release from the thousandth run on.
    seconds = (60.0 if number < 1000 else 75.0) + chance.random() * 5
    return RunSummary(
        run_id=run_id,
        source=SourceName(kind="recorder"),
        status="finished",
        model=f"model-{run_id[-1]}",
        time=Times(
            started_at=isoformat(START + 60 * number),
            ready_at=isoformat(START + 60 * number + seconds),
            warmup_s=49.0,
            wall_s=seconds,
            gaps=make_gaps(chance) if number % 100 == 0 else [],
        ),
        memory=MemoryFacts(num_kv_blocks=1519),
        buckets={"prompt": part, "decode": part},
        config={f"setting_{n}": n for n in range(60)},
        fold=FOLD,
    )


def make_bucket_rows() -> list[BucketRow]:
    return [
        BucketRow(phase=phase, bucket=bucket, generated=True, warmed=True, captured=True,
                  duration_s=0.5, memory_bytes=10**7, state="captured")
        for phase, bucket in dict.fromkeys(BUCKETS)
    ]  # fmt: skip


def add_run(
    store: EventStore, run_id: str, started_at: float, events: list[Event]
) -> None:
    with store.begin() as transaction:
        transaction.ensure_run(
            RunRecord(run_id=run_id, engine="vllm-gaudi", model=f"model-{run_id[-1]}",
                      status="finished", started_at=started_at, synthetic=True)
        )  # fmt: skip
        transaction.append(run_id, events)
        transaction.put_summary(make_summary(run_id), make_bucket_rows())


def compare_writes(folder: Path, count: int, rounds: int) -> dict[str, float]:
    """Events per CPU second: ours, and raw executemany of ready-made rows."""
    events = make_events(count, seed=1)
    rows = event_rows("raw", 0, events)
    ours, raw = [], []
    for number in range(rounds):
        path = folder / f"ours{number}.db"
        with EventStore(path) as store, store.begin() as transaction:
            transaction.ensure_run(RunRecord(run_id="run"))
            start = time.process_time()
            transaction.append("run", events)
            ours.append(time.process_time() - start)
        raw.append(write_raw(folder / f"raw{number}.db", rows))
        for used in folder.glob("*.db*"):
            used.unlink()
    return {
        "ours_per_s": count / statistics.median(ours),
        "raw_per_s": count / statistics.median(raw),
        "raw_is_faster_by": statistics.median(
            mine / theirs for mine, theirs in zip(ours, raw, strict=True)
        ),
    }


def write_raw(path: Path, rows: list[tuple[object, ...]]) -> float:
    """CPU seconds of the same rows in a plain table without any key."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"CREATE TABLE events ({', '.join(EVENT_COLUMNS)})")
    places = ", ".join("?" * len(EVENT_COLUMNS))
    connection.execute("BEGIN IMMEDIATE")
    start = time.process_time()
    for first in range(0, len(rows), BLOCK):
        connection.executemany(
            f"INSERT INTO events VALUES ({places})", rows[first : first + BLOCK]
        )
    seconds = time.process_time() - start
    connection.execute("COMMIT")
    connection.close()
    return seconds


def fill(store: EventStore, runs: int, events: int) -> None:
    start = time.monotonic()
    blocks = [make_events(events, seed) for seed in range(3)]
    for number in range(runs):
        add_run(store, f"{number:012x}", START + 60 * number, blocks[number % 3])
    seconds = time.monotonic() - start
    print(f"filled {runs:,} runs, {runs * events:,} events in {seconds:.0f} s, "
          f"{store.size_bytes() / 1e9:.2f} GB")  # fmt: skip


def questions(
    store: EventStore, runs: int
) -> dict[str, tuple[float, Callable[[], object]]]:
    """Name to target in milliseconds and the question."""
    middle, other = f"{runs // 2:012x}", f"{runs // 3:012x}"
    return {
        "open": (50, lambda: EventStore(store.where).close()),
        "run list, newest 100": (50, lambda: store.run_table(limit=100)),
        "run list, slowest warm-up 100": (
            50, lambda: store.run_table(order="warmup_s", limit=100)),
        "run list, all": (50, store.run_table),
        "run list, by model": (50, lambda: store.runs(model="model-3", limit=100)),
        "run list, search": (50, lambda: store.runs(text="MODEL-3", limit=100)),
        "find run by prefix": (50, lambda: store.find_run(middle[:-1] + middle[-1])),
        "latest run": (50, lambda: store.find_run("latest")),
        "run summary": (50, lambda: store.summary(middle)),
        "heat map of a run": (50, lambda: store.bucket_summaries(middle)),
        "compare two runs": (50, lambda: (
            store.summaries([middle, other]),
            store.bucket_summaries(middle), store.bucket_summaries(other))),
        "stale summaries": (50, store.stale_runs),
        "events of a run": (50, lambda: list(store.events(middle))),
        "one kind of a run": (50, lambda: list(store.events(middle, ["memory_measured"]))),
    }  # fmt: skip


def time_ms(question: Callable[[], object], times: int = 7) -> float:
    """Median of some tries, after one that warms the cache."""
    question()
    found = []
    for _ in range(times):
        start = time.perf_counter()
        question()
        found.append((time.perf_counter() - start) * 1000)
    return statistics.median(found)


def trend_of_all(store: EventStore) -> dict[str, str]:
    """What the trend of the page *Runs* shows of all runs: the series and their levels."""
    # A script of this folder has the name of the package.
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    from dashboard.charts.runs import level_words, runs_frame, trend_frame

    table = trend_frame(runs_frame(store.run_table()), "ready_s")
    return {
        str(name): level_words(series, "ready_s")
        for name, series in table.groupby("series")
    }


def compare_five(store: EventStore, runs: int) -> Comparison:
    """Five runs, or all of fewer, side by side, with their buckets, settings and gaps."""
    step = max(1, min(100, runs // 5))
    names = [f"{number:012x}" for number in range(0, runs, step)][:5]
    found = store.summaries(names)
    return compare(
        [found[name] for name in names],
        [store.bucket_summaries(name) for name in names],
    )


def fleet_ms(store: EventStore, runs: int) -> dict[str, float]:
    """Milliseconds of processor time, the median of five; beside the plainest question."""
    found = {}
    for name, question in (
        ("trend with change points", lambda: trend_of_all(store)),
        ("comparison of five runs", lambda: compare_five(store, runs)),
        ("list of all runs, the reference", store.run_table),
    ):
        tries = []
        for _ in range(6):
            start = time.process_time()
            question()
            tries.append((time.process_time() - start) * 1000)
        found[name] = statistics.median(tries[1:])
    return found


def time_changes(store: EventStore, runs: int, events: int) -> dict[str, float]:
    """Milliseconds of adding an empty run, a full one, and of removing it."""
    full = make_events(events, seed=9)
    found: dict[str, list[float]] = {}
    for _ in range(5):
        for name, change in (
            ("add a run without events", lambda: add_run(store, "f" * 12, START, [])),
            ("remove it", lambda: delete_runs(store, ["f" * 12])),
            (f"add a run of {events:,}", lambda: add_run(store, "e" * 12, START, full)),
            (f"remove a run of {events:,}", lambda: delete_runs(store, ["e" * 12])),
        ):
            start = time.perf_counter()
            change()
            found.setdefault(name, []).append((time.perf_counter() - start) * 1000)
    return {name: statistics.median(times) for name, times in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.runs < 2:
        parser.error("--runs is at least 2, so that runs can be compared")
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
          f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        results = run(Path(name), arguments.runs, arguments.events)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


def run(folder: Path, runs: int, events: int) -> dict[str, dict[str, float]]:
    writes = compare_writes(folder, 100_000, 5)
    print(f"append {writes['ours_per_s']:,.0f} events per CPU second; raw executemany "
          f"{writes['raw_per_s']:,.0f}, faster by {writes['raw_is_faster_by']:.2f} "
          "(target: at most 2.5)")  # fmt: skip
    answers = {}
    with EventStore(folder / "store.db") as store:
        fill(store, runs, events)
        for name, (target, question) in questions(store, runs).items():
            answers[name] = time_ms(question)
            print(f"{name:<32}{answers[name]:>9.2f} ms  (target {target})")
        fleet = fleet_ms(store, runs)
        for name, value in fleet.items():
            print(f"{name:<32}{value:>9.2f} ms of processor time  (target 1,000)")
        levels = trend_of_all(store)
        print(f"{len(levels)} series, {sum(map(bool, levels.values()))} with a new level; "
              f"{len(compare_five(store, runs).gaps)} matched gaps")  # fmt: skip
        changes = time_changes(store, runs, events)
        for name, value in changes.items():
            print(f"{name:<32}{value:>9.2f} ms")
    return {"writes": writes, "answers": answers, "fleet": fleet, "changes": changes}


if __name__ == "__main__":
    main()
